"""Reading and writing files the careful way: lines with their numbers, and outputs that appear
whole or not at all.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import glob
import hashlib
import io
import json
import os
import re
import secrets
import stat
import warnings
from collections.abc import Iterable, Iterator
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from hanlattice.encodings import (
    AUTO,
    ENOUGH,
    MARKS,
    SAMPLE,
    UTF8,
    called,
    check_encoding,
    guess,
    is_wide,
)
from hanlattice.errors import InputError, InputWarning, OutputError, one_line

BOM = codecs.BOM_UTF8
LOCK = ".lock"  # a file of a folder that one process works in
_LONGEST = (
    223  # bytes of a name that a checksum and the marks of a half file fit beside: 255 in all
)
_SHOWN = 3  # unreadable lines of a file that are named one by one
_default = AUTO
_SURROGATE = re.compile("[\ud800-\udfff]")


def use_encoding(name: str) -> str:
    """From now on files of this process are read in this encoding, unless a caller says another;
    'auto' finds out.
    """
    global _default
    _default = check_encoding(name)
    return _default


def read_lines(path: str | Path, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line without its end) of a text file. Only LF and CRLF end a line; a
    BOM is dropped.

    `encoding` is 'auto' or a name; without it, what `use_encoding` said. Bytes that are no text in
    it are an InputError that names the line.
    """
    with opening(path) as file:
        yield from decode_lines(file, path, encoding)


def decode_lines(
    file: BufferedIOBase | BinaryIO,
    name: str | Path,
    encoding: str | None = None,
    *,
    strict: bool = True,
) -> Iterator[tuple[int, str]]:
    """What `read_lines` does, for a binary stream that is already open (standard input, an xz
    file).

    With 'auto' a byte order mark decides, or else what has arrived, and while that is little, also
    what comes. If not `strict`, unreadable bytes become U+FFFD, and an InputWarning names the line.
    """
    number = 0
    raw = b""
    bad = 0
    stream = cast(BufferedReader, file)
    codec = _default if encoding is None else check_encoding(encoding)
    try:
        if not (head := _head(stream)):
            return
        mark, codec = next(
            ((mark, found) for mark, found in MARKS if head.startswith(mark)), (b"", codec)
        )
        lines = _raw_lines(head.removeprefix(mark), stream, codec)
        reading = _Guess(name, head) if codec == AUTO else None
        for number, raw in enumerate(lines, start=1):
            chosen = codec if reading is None else reading.codec(raw)
            raw = raw.removesuffix(b"\r\n" if raw.endswith(b"\r\n") else b"\n")
            try:
                line = raw.decode(UTF8 if is_wide(chosen) else chosen)
            except UnicodeDecodeError as error:
                message = _unreadable(error, chosen)
                if strict:
                    raise InputError(message, name, number) from None
                if (bad := bad + 1) <= _SHOWN:
                    warn(f"{message}; what cannot be read is U+FFFD", name, number)
                line = raw.decode(UTF8 if is_wide(chosen) else chosen, "replace")
            yield number, line
        if bad > _SHOWN:
            warn(f"{bad - _SHOWN:,} more lines with bytes that cannot be read", name)
    except OSError as error:
        raise InputError(f"cannot read: {reason(error)}", name, number + 1) from None


class _Guess:
    """The encoding of the lines as they come: that of the head, and of later lines while few had
    Chinese in them.
    """

    def __init__(self, name: str | Path, head: bytes) -> None:
        self.name = name
        self.found = UTF8
        self.left = len(head)
        self.seen = b""
        self._decide(head)

    def codec(self, raw: bytes) -> str:
        self.left -= len(raw)
        if len(self.seen) < ENOUGH and not raw.isascii():
            self.seen += raw
            if self.left < 0:
                self._decide(self.seen)
        return self.found

    def _decide(self, sample: bytes) -> None:
        found = guess(sample)
        if found not in (UTF8, self.found):
            warn(f"read as {called(found)}; --encoding names another", self.name)
        self.found = found


def _head(file: BufferedReader) -> bytes:
    """What has arrived, and at least as much as decides whether it is a byte order mark."""
    head = more = file.read1(SAMPLE)
    while more and any(len(head) < len(mark) and mark.startswith(head) for mark, _ in MARKS):
        more = file.read1(SAMPLE)
        head += more
    return head


def _raw_lines(head: bytes, file: BufferedReader, codec: str) -> Iterator[bytes]:
    """The lines of a stream with their ends, of which `head` has been read; what `is_wide` becomes
    UTF-8.
    """
    if is_wide(codec):
        yield from _narrow_lines(head, file, codec)
        return
    *whole, rest = head.split(b"\n")
    yield from (line + b"\n" for line in whole)
    if rest:
        yield rest + file.readline()
    yield from file


def _narrow_lines(head: bytes, file: BufferedReader, codec: str) -> Iterator[bytes]:
    """What is no character, and half a code unit at the end, become bytes that are not UTF-8."""
    decoder = codecs.getincrementaldecoder(codec)(_NO_TEXT)
    rest = b""
    chunk = head or file.read1(SAMPLE)
    while chunk:
        *whole, rest = (rest + decoder.decode(chunk).encode(UTF8, "surrogatepass")).split(b"\n")
        yield from (line + b"\n" for line in whole)
        chunk = file.read1(SAMPLE)
    rest += decoder.decode(b"", final=True).encode(UTF8, "surrogatepass")
    if rest:
        yield rest


def _no_text(error: UnicodeError) -> tuple[str | bytes, int]:
    """Decode what is no character as a lone surrogate, which strict UTF-8 refuses later."""
    try:
        return codecs.lookup_error("surrogatepass")(error)
    except UnicodeDecodeError as too_large:  # UTF-32 beyond U+10FFFF, or half a code unit
        return "\udcff", too_large.end


_NO_TEXT = "hanlattice.no_text"
codecs.register_error(_NO_TEXT, _no_text)


def _unreadable(error: UnicodeDecodeError, codec: str) -> str:
    where = (
        ""
        if is_wide(codec)
        else f": byte 0x{error.object[error.start]:02x} at byte {error.start + 1} of the line"
    )
    return f"not {called(codec)}{where}; convert the file to UTF-8, or name its encoding with --encoding"


def warn(message: str, path: str | Path, line: int | None = None) -> None:
    """An InputWarning about a file; the command line prints it as a note."""
    warnings.warn(str(InputError(message, path, line)), InputWarning, stacklevel=2)


def read_text(path: str | Path, encoding: str | None = None) -> str:
    """The lines of `read_lines` with LF between, read at once, which is quicker; errors are the
    same, line and all.
    """
    with opening(path) as file:
        content = file.read()
    codec = _default if encoding is None else check_encoding(encoding)
    mark, codec = next(
        ((mark, found) for mark, found in MARKS if content.startswith(mark)), (b"", codec)
    )
    if codec in (AUTO, UTF8):
        with contextlib.suppress(UnicodeDecodeError):
            return content.removeprefix(mark).decode(UTF8).replace("\r\n", "\n")
    return "".join(f"{line}\n" for _, line in decode_lines(io.BytesIO(content), path, encoding))


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
    """The content of a regular file that is no larger; else an OSError: a pipe could be waited for
    without end.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if found.st_size > most:
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, and {most:,} are the most")
    return path.read_bytes()


def keep_first(text: str) -> str:
    """The beginning of a file, so that `read_lines` gives back a first U+FEFF and does not drop it
    as the BOM.
    """
    return "\ufeff" + text if text.startswith("\ufeff") else text


def dump_json(value: Any, indent: int | None = None) -> str:
    """JSON in which lone surrogates, as names of files and labels can have them, are escaped: they
    are not UTF-8.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def check_output(output: Path | None, inputs: Iterable[Path]) -> None:
    """Say before any work that an output cannot be a folder, or a file that is read, whatever it is
    called.
    """
    if output is None:
        return
    if output.is_dir():
        raise OutputError(f"cannot write {one_line(output)}: it is a folder, not a file")
    for file in inputs:
        if output.is_file() and file.is_file() and output.samefile(file):
            raise InputError("the output is one of the files to read; give it another name", output)


@contextlib.contextmanager
def atomic_write(path: str | Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a file beside `path` for writing and rename it to `path` at the end; after any error
    `path` is as it was.

    A file that is replaced keeps its mode, and its owner where that is permitted; a new one has the
    umask's mode. Where `path` is a link, the file that it leads to is replaced. A pipe or a device
    (/dev/null) must not be replaced: it is written straight.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "")
        straight = path.exists() and not path.is_file()
        with (
            _open(path, "w", binary)
            if straight
            else _replacing(Path(os.path.realpath(path)), binary) as file
        ):
            yield file
    except OSError as error:
        raise OutputError(f"cannot write {one_line(path)}: {reason(error)}", error.errno) from None


@contextlib.contextmanager
def _replacing(path: Path, binary: bool) -> Iterator[IO[Any]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{bounded_name(path.name, _LONGEST)}.{secrets.token_hex(4)}.part"
    old = path.stat() if path.exists() else None
    try:
        with _open(beside, "x", binary, 0o666 if old is None else old.st_mode & 0o600) as file:
            yield file
            file.flush()
            if old is not None:
                _keep_mode(file.fileno(), old)
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _keep_mode(file: int, old: os.stat_result) -> None:
    """Give an open file the owner, group and mode of the file that it replaces, if permitted."""
    if not hasattr(os, "fchown"):
        return
    mode = old.st_mode & 0o777
    new = os.fstat(file)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(file, old.st_uid, old.st_gid)
        except OSError:
            try:
                os.fchown(file, -1, old.st_gid)
            except OSError:
                # Nobody may get more than before: who is in the group now was none of it, and
                # who was in it is none now.
                both = (mode >> 3) & mode & 0o007
                mode = mode & 0o700 | both << 3 | both
    with contextlib.suppress(OSError):  # a file system without modes
        os.fchmod(file, mode)


def remove_parts(path: Path) -> None:
    """Remove what a killed process left of writing this file. Nobody else may be writing it."""
    name = glob.escape(bounded_name(path.name, _LONGEST))
    for part in path.parent.glob(f".{name}.{'[0-9a-f]' * 8}.part"):
        remove(part)


def bounded_name(name: str, most: int) -> str:
    """Shorten a name of more than `most` bytes to its beginning, `~` and 16 digits of its checksum.

    The result has at most 17 bytes more than `most`, and always more than `most`: no name that is
    short enough to stay as it is equals that of a long one.
    """
    content = os.fsencode(name)
    if len(content) <= most:
        return name
    end = most
    # Do not cut a character of UTF-8: its later bytes begin with the bits 10.
    while end > most - 4 and content[end] & 0xC0 == 0x80:
        end -= 1
    return f"{os.fsdecode(content[:end])}~{hashlib.sha256(content).hexdigest()[:16]}"


def remove(path: Path) -> None:
    """Remove a file if it is there; an OutputError says why it cannot be."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot remove {one_line(path)}: {reason(error)}") from None


def _open(path: Path, flag: str, binary: bool, mode: int = 0o666) -> IO[Any]:
    """Open a file for writing; a new one gets this mode, less what the umask takes away."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, mode)

    if binary:
        return open(path, flag + "b", opener=opener)
    return open(path, flag, encoding="utf-8", newline="\n", opener=opener)


@contextlib.contextmanager
def lock_folder(folder: Path, verb: str, patience: float = 0) -> Iterator[None]:
    """Keep others out of a folder, inside a `with`; if somebody stays for longer, an OutputError
    names the verb.

    A folder that this made, and into which nothing was written, is removed again.
    """
    from filelock import FileLock, Timeout

    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=patience)
    except Timeout:
        raise OutputError(
            f"another `hanlattice {verb}` is running in {one_line(folder)}: wait for its end"
        ) from None
    except OSError as error:
        raise OutputError(f"cannot write {one_line(folder / LOCK)}: {reason(error)}") from None
    try:
        yield
    finally:
        lock.release()
        with contextlib.suppress(OSError):
            if is_new and {each.name for each in folder.iterdir()} <= {LOCK}:
                (folder / LOCK).unlink(missing_ok=True)
                folder.rmdir()


def printable_path(path: str | Path) -> str:
    """A path as it goes into JSON and onto cards: bytes that are not UTF-8 (a GBK name, say) become
    U+FFFD.
    """
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
