"""Raw text: any number of plain, gz, xz or zst files, one paragraph a line, streamed. Errors name
the line.
"""

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
DAMAGE = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
)  # what reading an `unpacked` file raises where it is cut short, or OSError
_Sized = TypeVar("_Sized", bound=Sized)


class RawText:
    """The lines of some files that are not blank; it can be iterated repeatedly. Content decides
    how a file is packed.

    `size` is the bytes of all files on disk and `done` those that the current pass has read, for a
    progress bar.
    """

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.paths = [Path(path) for path in paths]
        if not self.paths:
            raise InputError("no file of raw text was named")
        sizes = [_size(path) for path in self.paths]
        self.size = sum(sizes)
        self.done = 0
        self._before = [sum(sizes[:at]) for at in range(len(sizes))]

    def __iter__(self) -> Iterator[str]:
        for path, before in zip(self.paths, self._before, strict=True):
            for line, done in _lines(path):
                self.done = before + done
                yield line
        self.done = self.size


def _size(path: Path) -> int:
    """The file's bytes; a file that cannot be opened, or is empty, is reported before any work
    begins.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(
            "it is a pipe or a device; raw text is read several times, so give a file", path
        )
    with opening(path) as file:
        if not file.peek(1):
            raise InputError("the file is empty: expected raw text, one paragraph a line", path)
    return path.stat().st_size


def _lines(path: Path) -> Iterator[tuple[str, int]]:
    """(line, bytes of the file that were read for it and all before it)."""
    number = 0
    full = False
    with opening(path) as file:
        try:
            for number, line in decode_lines(unpacked(file), path):  # noqa: B007 (an error names it)
                if line and not line.isspace():
                    full = True
                    yield line, file.tell()
        except DAMAGE as error:
            message = (
                f"cannot be unpacked after this line ({error}): cut short or damaged; copy it again"
            )
            raise InputError(message, path, max(1, number)) from None
        except OSError as error:
            raise InputError(f"cannot read: {reason(error)}", path, number + 1) from None
    if not full:
        raise InputError(
            "there are only blank lines in it: expected raw text, one paragraph a line", path
        )


def unpacked(file: BufferedReader) -> BinaryIO:
    """What is in a file of gz, xz or zst; any other file itself. Its first bytes decide."""
    head = file.peek(len(_XZ))
    if head.startswith(_GZ):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if head.startswith(_XZ):
        return cast(BinaryIO, lzma.LZMAFile(file))
    if head.startswith(_ZST):
        arrow = require("pyarrow")
        return io.BufferedReader(
            arrow.CompressedInputStream(arrow.PythonFile(file), "zstd"), 1 << 17
        )
    return file


def groups(texts: Iterable[_Sized], characters: int) -> Iterator[list[_Sized]]:
    """Texts in groups of about so many characters, which bounds the memory that processing a group
    needs.

    Each group has this many, counting one for the end of each text, or exceeds it by less than its
    last text.
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
