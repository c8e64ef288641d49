"""Reading and writing files the careful way: lines with their numbers, and outputs that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from hanlattice.errors import InputError, OutputError

BOM = b"\xef\xbb\xbf"


def read_lines(path: str | Path, *, errors: str = "strict") -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line without its end) of a UTF-8 file. Only LF and CRLF end a line; a BOM is dropped.

    Bytes that are not UTF-8 are an InputError that names line and byte, unless `errors` is 'surrogateescape'.
    """
    with opening(path) as file:
        yield from decode_lines(file, path, errors=errors)


def decode_lines(file: BinaryIO, name: str | Path, *, errors: str = "strict") -> Iterator[tuple[int, str]]:
    """What `read_lines` does, for a binary stream that is already open (standard input, an xz file)."""
    for number, raw in enumerate(file, start=1):
        if number == 1:
            raw = raw.removeprefix(BOM)
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield number, raw.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            message = f"not UTF-8: byte 0x{byte:02x} at byte {error.start + 1} of the line; convert the file to UTF-8"
            raise InputError(message, name, number) from None


@contextlib.contextmanager
def opening(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes; a file that cannot be opened is an InputError that says why."""
    try:
        file = Path(path).open("rb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise InputError(f"cannot read: {reason(error)}", path) from None
    with file:
        yield file


@contextlib.contextmanager
def writing(path: str | Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a file beside `path` for writing and rename it to `path` at the end; after any error `path` is as it was."""
    path = Path(path)
    beside: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        beside = Path(name)
        beside.chmod(0o666 & ~_umask())
        mode: dict[str, Any] = {"mode": "wb"} if binary else {"mode": "w", "encoding": "utf-8", "newline": "\n"}
        with open(handle, **mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {reason(error)}") from None
    finally:
        if beside is not None:
            beside.unlink(missing_ok=True)


def reason(error: OSError) -> str:
    """An operating system's error in words a person can act on."""
    words = {
        errno.ENOENT: "there is no such file or folder",
        errno.EISDIR: "it is a folder, not a file",
        errno.EACCES: "permission denied",
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EFBIG: "the file would be larger than allowed here",
    }
    return words.get(error.errno or 0, error.strerror or str(error))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
