"""Reading and writing files the careful way: lines with their numbers, and outputs that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import secrets
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from io import BufferedReader
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
    number, raw = 0, b""
    try:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                raw = raw.removeprefix(BOM)
                if not raw:  # a byte order mark and nothing else: no line at all
                    return
            raw = raw.removesuffix(b"\r\n" if raw.endswith(b"\r\n") else b"\n")
            yield number, raw.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        byte = raw[error.start]
        message = f"not UTF-8: byte 0x{byte:02x} at byte {error.start + 1} of the line; convert the file to UTF-8"
        raise InputError(message, name, number) from None
    except OSError as error:
        raise InputError(f"cannot read: {reason(error)}", name, number + 1) from None


def read_text(path: str | Path) -> str:
    """The lines of `read_lines` with LF between, read at once, which is quicker; errors are the same, line and all."""
    with opening(path) as file:
        content = file.read()
    try:
        return content.removeprefix(BOM).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        deque(decode_lines(io.BytesIO(content), path), maxlen=0)  # it says where
        raise


@contextlib.contextmanager
def opening(path: str | Path) -> Iterator[BufferedReader]:
    """Open a file for reading bytes; if it cannot be opened or read, an InputError says why."""
    try:
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise InputError(f"cannot read: {reason(error)}", path) from None


def sha256(path: str | Path) -> str:
    """The checksum of a file's content, in hexadecimal."""
    with opening(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_small(path: Path, most: int) -> bytes:
    """The content of a regular file that is no larger; else an OSError: a pipe could be waited for without end."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if found.st_size > most:
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, and {most:,} are the most")
    return path.read_bytes()


def keep_first(text: str) -> str:
    """The beginning of a file, so that `read_lines` gives back a first U+FEFF and does not drop it as the BOM."""
    return "\ufeff" + text if text.startswith("\ufeff") else text


def check_output(output: Path | None, inputs: Iterable[Path]) -> None:
    """Say before any work that an output cannot be a folder, or a file that is read, whatever it is called."""
    if output is None:
        return
    if output.is_dir():
        raise OutputError(f"cannot write {output}: it is a folder, not a file")
    for file in inputs:
        if output.is_file() and file.is_file() and output.samefile(file):
            raise InputError("the output is one of the files to read; give it another name", output)


@contextlib.contextmanager
def writing(path: str | Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a file beside `path` for writing and rename it to `path` at the end; after any error `path` is as it was.

    Where `path` is a link, the file that it leads to is replaced. A pipe or a device (/dev/null) must not be replaced:
    it is written straight.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "")
        straight = path.exists() and not path.is_file()
        with _open(path, "w", binary) if straight else _replacing(Path(os.path.realpath(path)), binary) as file:
            yield file
    except OSError as error:
        raise OutputError(f"cannot write {path}: {reason(error)}") from None


@contextlib.contextmanager
def _replacing(path: Path, binary: bool) -> Iterator[IO[Any]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    try:
        with _open(beside, "x", binary) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _open(path: Path, mode: str, binary: bool) -> IO[Any]:
    return path.open(mode + "b") if binary else path.open(mode, encoding="utf-8", newline="\n")


def hold(folder: Path, verb: str, patience: float = 0) -> contextlib.AbstractContextManager[object]:
    """Keep others out of a folder, inside a `with`; if somebody stays for longer, an OutputError names the verb."""
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / ".lock").acquire(timeout=patience)
    except Timeout:
        raise OutputError(f"another `hanlattice {verb}` is running in {folder}: wait for its end") from None
    except OSError as error:
        raise OutputError(f"cannot write {folder / '.lock'}: {reason(error)}") from None


def shown(path: str | Path) -> str:
    """A path as it goes into JSON and onto cards: bytes that are not UTF-8 (a GBK name, say) become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


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
