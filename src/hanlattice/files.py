"""Read text files line by line, and write outputs that appear whole or not at all."""

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
LOCK = ".lock"
# Bytes of a file's name in the name of its temporary file. With up to 17 of `bounded_name` and 15
# of "..0123abcd.part" they make 255, the most that file systems allow.
_LONGEST = 223
# Unreadable lines of a file that are reported one by one.
_SHOWN = 3
_default = AUTO
_SURROGATE = re.compile("[\ud800-\udfff]")


def use_encoding(name: str) -> str:
    """Set the default encoding of files that this process reads; 'auto' detects each file's."""
    global _default
    _default = check_encoding(name)
    return _default


def read_lines(path: str | Path, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line without its end) of a text file.

    Only LF and CRLF end a line. A byte order mark is dropped. A line that cannot be decoded is an
    InputError with its number.

    Args:
        encoding: 'auto' or a name; None stands for the default, which `use_encoding` sets.
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
    """Yield the lines of a binary stream as `read_lines` does (standard input, an xz file).

    Args:
        name: What errors call the stream.
        encoding: With 'auto', a byte order mark decides, or else the bytes that have arrived. While
            these have little Chinese in them, later lines may still change the encoding.
        strict: If False, unreadable bytes become U+FFFD, and an InputWarning names the line.
    """
    number = 0
    bad = 0
    stream = cast(BufferedReader, file)
    codec = _default if encoding is None else check_encoding(encoding)
    try:
        if not (head := _head(stream)):
            return
        mark, codec = _split_mark(head, codec)
        lines = _raw_lines(head.removeprefix(mark), stream, codec)
        detector = _Detector(name, head) if codec == AUTO else None
        for number, raw in enumerate(lines, start=1):
            chosen = codec if detector is None else detector.codec_of(raw)
            raw = raw.removesuffix(b"\r\n" if raw.endswith(b"\r\n") else b"\n")
            try:
                line = raw.decode(UTF8 if is_wide(chosen) else chosen)
            except UnicodeDecodeError as error:
                place = f": byte 0x{raw[error.start]:02x} at byte {error.start + 1} of the line"
                # In UTF-16 and UTF-32 the bytes of the file have become others by now.
                problem = f"not {called(chosen)}{'' if is_wide(chosen) else place}"
                message = (
                    f"{problem}; convert the file to UTF-8, or name its encoding with --encoding"
                )
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


def _split_mark(content: bytes, codec: str) -> tuple[bytes, str]:
    """Return the byte order mark of a file and its encoding; without a mark, b"" and `codec`."""
    return next((pair for pair in MARKS if content.startswith(pair[0])), (b"", codec))


class _Detector:
    """Detects the encoding from the head of a file, then from lines with Chinese until ENOUGH."""

    def __init__(self, name: str | Path, head: bytes) -> None:
        self.name = name
        self.codec = UTF8
        self.left = len(head)
        self.sample = b""
        self._decide(head)

    def codec_of(self, raw: bytes) -> str:
        self.left -= len(raw)
        if len(self.sample) < ENOUGH and not raw.isascii():
            self.sample += raw
            # Lines of the head are known already: only a line after it can change the answer.
            if self.left < 0:
                self._decide(self.sample)
        return self.codec

    def _decide(self, sample: bytes) -> None:
        codec = guess(sample)
        if codec not in (UTF8, self.codec):
            warn(f"read as {called(codec)}; --encoding names another", self.name)
        self.codec = codec


def _head(file: BufferedReader) -> bytes:
    """Read what has arrived, and at least enough to tell whether it is a byte order mark."""
    head = more = file.read1(SAMPLE)
    while more and any(len(head) < len(mark) and mark.startswith(head) for mark, _ in MARKS):
        more = file.read1(SAMPLE)
        head += more
    return head


def _raw_lines(head: bytes, file: BufferedReader, codec: str) -> Iterator[bytes]:
    """Yield lines with their ends from a stream of which `head` has been read.

    UTF-16 and UTF-32 become UTF-8. Units without a character become bytes that UTF-8 refuses.
    """
    if not is_wide(codec):
        *whole, rest = head.split(b"\n")
        yield from (line + b"\n" for line in whole)
        if rest:
            yield rest + file.readline()
        yield from file
        return
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


def _decode_as_surrogate(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogatepass")(error)
    # UTF-32 beyond U+10FFFF, or half a code unit.
    except UnicodeDecodeError as too_large:
        return "\udcff", too_large.end


_NO_TEXT = "hanlattice.no_text"
codecs.register_error(_NO_TEXT, _decode_as_surrogate)


def warn(message: str, path: str | Path, line: int | None = None) -> None:
    """Issue an InputWarning about a file; the command line prints it as a note."""
    warnings.warn(str(InputError(message, path, line)), InputWarning, stacklevel=2)


def read_text(path: str | Path, encoding: str | None = None) -> str:
    """Return a text file with LF line ends; decoding and errors are those of `read_lines`."""
    with opening(path) as file:
        content = file.read()
    mark, codec = _split_mark(content, _default if encoding is None else check_encoding(encoding))
    # UTF-8, the usual case, is decoded at once, which is much quicker than line by line.
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
    """Return the SHA-256 checksum of a file, in hexadecimal."""
    with opening(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_small(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most this size; any other is an OSError."""
    status = path.stat()
    # Reading a pipe could wait for ever.
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if status.st_size > most:
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, and {most:,} are the most")
    return path.read_bytes()


def keep_first(text: str) -> str:
    """Return text to write first into a file, such that `read_lines` does not drop its U+FEFF."""
    return "\ufeff" + text if text.startswith("\ufeff") else text


def dump_json(value: Any, indent: int | None = None) -> str:
    """Return JSON that can be written as UTF-8: lone surrogates, as in file names, are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def check_output(output: Path | None, inputs: Iterable[Path]) -> None:
    """Raise an error, before any work, if an output is a folder or one of the input files."""
    if output is None:
        return
    if output.is_dir():
        raise OutputError(f"cannot write {one_line(output)}: it is a folder, not a file")
    for file in inputs:
        if output.is_file() and file.is_file() and output.samefile(file):
            raise InputError("the output is one of the files to read; give it another name", output)


@contextlib.contextmanager
def atomic_write(path: str | Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a temporary file for writing, and rename it to `path` if the `with` ends without error.

    A file that is replaced keeps its mode, and its owner if that is permitted. If `path` is a link,
    its target is replaced. A pipe or a device (/dev/null) is written directly.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "")
        is_special = path.exists() and not path.is_file()
        target = Path(os.path.realpath(path))
        with _open(path, "w", binary) if is_special else _replacing(target, binary) as file:
            yield file
    except OSError as error:
        raise OutputError(f"cannot write {one_line(path)}: {reason(error)}", error.errno) from None


@contextlib.contextmanager
def _replacing(path: Path, binary: bool) -> Iterator[IO[Any]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.parent / f".{bounded_name(path.name, _LONGEST)}.{secrets.token_hex(4)}.part"
    old = path.stat() if path.exists() else None
    try:
        # Until the mode is set, nobody but the owner may read what replaces a private file.
        with _open(part, "x", binary, 0o666 if old is None else old.st_mode & 0o600) as file:
            yield file
            file.flush()
            if old is not None:
                _keep_mode(file.fileno(), old)
            # On disk before the rename, or a power cut could leave an empty file under the name.
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


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
                # The group is another one now. Its members counted as others before, and members
                # of the old group count as others now. Both get only what both classes had.
                both = (mode >> 3) & mode & 0o007
                mode = mode & 0o700 | both << 3 | both
    # Some file systems have no modes.
    with contextlib.suppress(OSError):
        os.fchmod(file, mode)


def remove_parts(path: Path) -> None:
    """Remove the temporary files of killed processes. Nobody else may be writing this file."""
    name = glob.escape(bounded_name(path.name, _LONGEST))
    for part in path.parent.glob(f".{name}.{'[0-9a-f]' * 8}.part"):
        remove(part)


def bounded_name(name: str, most: int) -> str:
    """Shorten a name of more than `most` bytes to its beginning, `~` and 16 digits of its checksum.

    A shortened name has 13 to 17 bytes more than `most`, so it differs from all short names.
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
    """Remove a file if it exists; a failure is an OutputError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot remove {one_line(path)}: {reason(error)}") from None


def _open(path: Path, flag: str, binary: bool, mode: int = 0o666) -> IO[Any]:
    def opener(name: str, flags: int) -> int:
        # The umask still applies to this mode.
        return os.open(name, flags, mode)

    if binary:
        return open(path, flag + "b", opener=opener)
    return open(path, flag, encoding="utf-8", newline="\n", opener=opener)


@contextlib.contextmanager
def lock_folder(folder: Path, verb: str, patience: float = 0) -> Iterator[None]:
    """Lock a folder exclusively inside the `with`; a missing folder is made.

    A new folder that is still empty at the end is removed again.

    Args:
        verb: The command of which an OutputError says that it is running there.
        patience: Seconds to wait for a process that holds the lock.
    """
    from filelock import FileLock, Timeout

    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=patience)
    except Timeout:
        message = f"another `hanlattice {verb}` is running in {one_line(folder)}: wait for its end"
        raise OutputError(message) from None
    except OSError as error:
        raise OutputError(f"cannot write {one_line(folder / LOCK)}: {reason(error)}") from None
    try:
        yield
    finally:
        lock.release()
        with contextlib.suppress(OSError):
            if is_new and {path.name for path in folder.iterdir()} <= {LOCK}:
                (folder / LOCK).unlink(missing_ok=True)
                folder.rmdir()


def printable_path(path: str | Path) -> str:
    """Return a path for JSON and cards; bytes that are not UTF-8 (a GBK name) become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


def reason(error: OSError) -> str:
    """Return an error of the operating system in words that a person can act on."""
    words = {
        errno.ENOENT: "there is no such file or folder",
        errno.EISDIR: "it is a folder, not a file",
        errno.EACCES: "permission denied",
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EFBIG: "the file would be larger than allowed here",
    }
    return words.get(error.errno or 0, error.strerror or str(error))
