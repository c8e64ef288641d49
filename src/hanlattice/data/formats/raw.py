"""Raw text: plain, gz, xz or zst files, one paragraph a line, streamed. Errors name the line."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sized
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from hanlattice.errors import InputError
from hanlattice.files import decode_lines, opening, reason
from hanlattice.optional import require

_GZ = b"\x1f\x8b"
_XZ = b"\xfd7zXZ\x00"
_ZST = b"\x28\xb5\x2f\xfd"
# Reading an `unpacked` file that is cut short raises one of these, or OSError.
DAMAGE = (EOFError, zlib.error, lzma.LZMAError)
_Sized = TypeVar("_Sized", bound=Sized)


class RawText:
    """The lines of some files that are not blank, which can be iterated repeatedly.

    For a progress bar, `size` is the bytes of all files on disk, and `done` the bytes that the
    current pass has read.
    """

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.paths = [Path(path) for path in paths]
        if not self.paths:
            raise InputError("no file of raw text was named")
        sizes = []
        # A file that cannot be opened, or is empty, is reported before any work begins.
        for path in self.paths:
            if path.exists() and not path.is_file() and not path.is_dir():
                problem = "it is a pipe or a device; raw text is read several times, so give a file"
                raise InputError(problem, path)
            with opening(path) as file:
                if not file.peek(1):
                    expected = "expected raw text, one paragraph a line"
                    raise InputError(f"the file is empty: {expected}", path)
            sizes.append(path.stat().st_size)
        self.size = sum(sizes)
        self.done = 0
        self._before = [sum(sizes[:index]) for index in range(len(sizes))]

    def __iter__(self) -> Iterator[str]:
        for path, before in zip(self.paths, self._before, strict=True):
            number = 0
            full = False
            with opening(path) as file:
                try:
                    # The errors below name the number.
                    for number, line in decode_lines(unpacked(file), path):  # noqa: B007
                        if line and not line.isspace():
                            full = True
                            self.done = before + file.tell()
                            yield line
                except DAMAGE as error:
                    problem = f"cannot be unpacked after this line ({error}): cut short or damaged"
                    raise InputError(f"{problem}; copy it again", path, max(1, number)) from None
                except OSError as error:
                    raise InputError(f"cannot read: {reason(error)}", path, number + 1) from None
            if not full:
                expected = "expected raw text, one paragraph a line"
                raise InputError(f"there are only blank lines in it: {expected}", path)
        self.done = self.size


def unpacked(file: BufferedReader) -> BinaryIO:
    """Return the content of a gz, xz or zst file, or the file itself, by its first bytes."""
    head = file.peek(len(_XZ))
    if head.startswith(_GZ):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if head.startswith(_XZ):
        return cast(BinaryIO, lzma.LZMAFile(file))
    if head.startswith(_ZST):
        arrow = require("pyarrow")
        stream = arrow.CompressedInputStream(arrow.PythonFile(file), "zstd")
        return io.BufferedReader(stream, 1 << 17)
    return file


def groups(texts: Iterable[_Sized], characters: int) -> Iterator[list[_Sized]]:
    """Yield texts in groups of about this many characters, which bounds the memory of a group.

    A group has `characters`, counting one for the end of each text, or exceeds that by less than
    its last text.
    """
    group: list[_Sized] = []
    size = 0
    for text in texts:
        group.append(text)
        size += len(text) + 1
        if size >= characters:
            yield group
            group = []
            size = 0
    if group:
        yield group
