"""Files: lines with their numbers whatever their ends, and outputs that appear whole or
not at all.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.errors import InputError, OutputError
from hanlattice.files import (
    atomic_write,
    decode_lines,
    keep_first,
    opening,
    printable_path,
    read_lines,
    read_text,
    reason,
    remove_parts,
    sha256,
)
from tests.helpers.patience import PATIENCE
from tests.helpers.permissions import obeyed_permissions
from tests.helpers.strategies import any_text, shares_folder

BOM = "\ufeff".encode()


def lines_of(tmp_path: Path, body: bytes) -> list[str]:
    path = tmp_path / "f.txt"
    path.write_bytes(body)
    numbered = list(read_lines(path))
    assert [number for number, _ in numbered] == list(range(1, len(numbered) + 1))
    return [line for _, line in numbered]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\n\n\nb", ["a", "", "", "b"]),
        (b"a\rb\n", ["a\rb"]),  # a lone CR ends nothing
        (b"a\r\r\n", ["a\r"]),
        (b"a\r", ["a\r"]),  # also at the end of the file
        (b"a\n\r", ["a", "\r"]),
        (BOM + b"a\n", ["a"]),
        (BOM + b"\n", [""]),
        (BOM, []),
        (BOM + BOM + b"a\n", ["\ufeffa"]),  # only the first is a byte order mark
        (b"a\n" + BOM + b"b\n", ["a", "\ufeffb"]),
        ("a\x85b\u2028c\x0bd\x1ce\0f\n".encode(), ["a\x85b\u2028c\x0bd\x1ce\0f"]),
    ],
)
def test_lines(tmp_path, body, lines):
    assert lines_of(tmp_path, body) == lines


@given(st.text(st.sampled_from("a中\r\n\ufeff\x85"), max_size=20))
def test_lines_and_their_ends_are_the_text(text):
    """Against Python's own reader without translation of line ends."""
    body = text.encode()
    expected = io.TextIOWrapper(io.BytesIO(body), encoding="utf-8-sig", newline="\n")
    lines = [
        line.removesuffix("\r\n") if line.endswith("\r\n") else line.removesuffix("\n")
        for line in expected
    ]
    assert [line for _, line in decode_lines(io.BytesIO(body), "x")] == lines


@pytest.mark.parametrize(
    ("body", "line", "says"),
    [
        (b"\xff", 1, "not UTF-8: byte 0xff at byte 1 of the line; convert the file to UTF-8, or"),
        ("好\nab".encode() + b"\xb0\xa1\n", 2, "byte 0xb0 at byte 3 of the line"),  # GBK
        (b"ok\n\n" + "好".encode()[:2] + b"\n", 3, "byte 0xe5 at byte 1 of the line"),
        (b"\xed\xa0\x80", 1, "byte 0xed at byte 1"),  # a surrogate in UTF-8's clothes
    ],
)
def test_what_is_not_utf8_names_line_and_byte(tmp_path, body, line, says):
    path = tmp_path / "f.txt"
    path.write_bytes(body)
    with pytest.raises(InputError, match=says) as caught:
        list(read_lines(path))
    assert (caught.value.path, caught.value.line) == (path, line)
    assert str(caught.value).startswith(f"{path}:{line}: ")


@shares_folder
@given(
    st.binary(max_size=12)
    | st.lists(
        st.sampled_from([BOM, b"\r", b"\n", b"a", "好".encode(), b"\xff", b"\xe5"]), max_size=8
    ).map(b"".join)
)
def test_a_whole_text_is_its_lines(tmp_path, body):
    """Also in what it says of a file that is not UTF-8."""
    path = tmp_path / "f.txt"
    path.write_bytes(body)

    def outcome(read: Callable[[], list[str]]) -> list[str] | str:
        try:
            return read()
        except InputError as error:
            return str(error)

    expected = outcome(lambda: lines_of(tmp_path, body))
    assert outcome(lambda: read_text(path).removesuffix("\n").split("\n")) == (expected or [""])


@given(st.binary(max_size=20))
def test_any_bytes_are_lines_and_what_cannot_be_read_is_named(body):
    body = b"x" + body + b"x"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lines = list(decode_lines(io.BytesIO(body), "f", "utf-8", strict=False))
    expected = body.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    assert [line for _, line in lines] == expected
    raw = body.split(b"\n")
    bad = [at for at, line in enumerate(raw, start=1) if not is_utf8(line)]
    named = [str(each.message).split()[0] for each in caught]
    assert named == [f"f:{at}:" for at in bad[:3]] + (["f:"] if len(bad) > 3 else [])


def is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def test_lines_are_read_as_they_are_wanted(tmp_path):
    """The lines before a broken one are there, and a reader that stops early closes the file (else
    a warning).
    """
    path = tmp_path / "f.txt"
    path.write_bytes(b"a\n\xff\n")
    lines = read_lines(path)
    assert next(lines) == (1, "a")
    lines.close()


def test_what_cannot_be_read_says_why(tmp_path):
    (tmp_path / "file").touch()
    for path, says in (
        (tmp_path / "none", "none: cannot read: there is no such file or folder"),
        (tmp_path, "cannot read: it is a folder, not a file"),
        (tmp_path / "file" / "x", "x: cannot read: Not a directory"),
    ):
        with pytest.raises(InputError, match=says), opening(path):
            pytest.fail("it was opened")
        for read in (lambda path: list(read_lines(path)), read_text):
            with pytest.raises(InputError, match=says):
                read(path)


def test_what_opens_and_cannot_be_read_is_told_with_its_line(tmp_path):
    """The first page of a process's memory is not there: opening works, reading is an I/O error."""
    memory = Path("/proc/self/mem")
    with pytest.raises(InputError, match=r"^/proc/self/mem:1: cannot read: Input/output error$"):
        list(read_lines(memory))
    with pytest.raises(InputError, match=r"^/proc/self/mem: cannot read: Input/output error$"):
        sha256(memory)
    with pytest.raises(InputError, match=r"^/proc/self/mem: cannot read: Input/output error$"):
        read_text(memory)
    with (
        (tmp_path / "f").open("wb") as file,
        pytest.raises(InputError, match=r"^f:1: cannot read: "),
    ):
        list(decode_lines(file, "f"))

    class Torn(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return super().read1(4)

        def __next__(self) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    lines = decode_lines(Torn(b"a\nb\nc\n"), "torn")
    assert [next(lines), next(lines)] == [(1, "a"), (2, "b")]
    with pytest.raises(InputError, match=r"^torn:3: cannot read: Input/output error$"):
        next(lines)


def test_a_failure_of_who_reads_the_lines_is_not_a_failure_to_read(tmp_path):
    (tmp_path / "f").write_bytes(b"a\nb\n")

    def fail_at_once() -> None:
        for _ in read_lines(tmp_path / "f"):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        fail_at_once()


def test_sha256(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    assert (
        sha256(tmp_path / "f") == sha256(str(tmp_path / "f")) == hashlib.sha256(b"abc").hexdigest()
    )
    with pytest.raises(InputError, match="none: cannot read: there is no such file"):
        sha256(tmp_path / "none")


@shares_folder
@given(any_text)
def test_a_first_bom_is_kept_by_another(tmp_path, text):
    plain = text.encode("utf-8", "replace").decode().replace("\r", "").split("\n")[0] + "x"
    assert lines_of(tmp_path, keep_first(plain).encode()) == [plain]
    assert lines_of(tmp_path, keep_first("\ufeff" + plain).encode()) == ["\ufeff" + plain]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("there", [False, True])
def test_written_whole(tmp_path, binary, there):
    path = tmp_path / "new" / "f.txt"
    if there:
        path.parent.mkdir()
        path.write_text("old")
    with atomic_write(str(path), binary=binary) as file:
        file.write("新\n\r\n".encode() if binary else "新\n\r\n")
        assert (path.read_text() if path.exists() else None) == ("old" if there else None)
    assert path.read_bytes() == "新\n\r\n".encode()
    assert [entry.name for entry in path.parent.iterdir()] == ["f.txt"]


@pytest.mark.parametrize(
    "error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, InputError]
)
def test_after_an_error_all_is_as_it_was(tmp_path, error):
    (tmp_path / "old.txt").write_text("old")
    for name in ("old.txt", "new.txt"):
        with pytest.raises(error), atomic_write(tmp_path / name) as file:  # noqa: PT012 (the write belongs to it)
            file.write("half")
            raise error("stop")
    assert [entry.name for entry in tmp_path.iterdir()] == ["old.txt"]
    assert (tmp_path / "old.txt").read_text() == "old"


def test_text_that_utf8_cannot_carry_leaves_nothing(tmp_path):
    with pytest.raises(UnicodeEncodeError), atomic_write(tmp_path / "f.txt") as file:
        file.write("a\ud800")
    assert list(tmp_path.iterdir()) == []


FULL = """
import resource, signal, sys
from hanlattice.errors import OutputError
from hanlattice.files import atomic_write

resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
try:
    with atomic_write(sys.argv[1], binary=True) as file:
        for _ in range(100):
            file.write(b"x" * 1000)
except OutputError as error:
    sys.exit(str(error))
"""


def test_no_room_left(tmp_path):
    """A real limit of the operating system, met in the middle of the file."""
    path = tmp_path / "big.bin"
    path.write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", FULL, path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip() == f"cannot write {path}: the file would be larger than allowed here"
    assert [entry.name for entry in tmp_path.iterdir()] == ["big.bin"]
    assert path.read_text() == "old"


def test_reasons_in_words():
    assert reason(OSError(errno.ENOSPC, "No space left on device")) == "the disk is full"
    assert reason(PermissionError(errno.EACCES, "Permission denied")) == "permission denied"
    assert reason(OSError(errno.EIO, "Input/output error")) == "Input/output error"
    assert reason(OSError("something else")) == "something else"


def test_what_cannot_be_written_says_why(tmp_path):
    (tmp_path / "file").write_text("old")
    for path, says in (
        (tmp_path, "it is a folder, not a file"),
        (Path("/"), "it is a folder, not a file"),
        (tmp_path / "file" / "x", "Not a directory|File exists"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(OutputError, match=f"cannot write {path}: ({says})"), atomic_write(path):
            pytest.fail("it was opened")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"


def test_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with (
        obeyed_permissions(),
        pytest.raises(OutputError, match="permission denied"),
        atomic_write(tmp_path / "f.txt"),
    ):
        pytest.fail("it was opened")


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_the_users_mask_decides_who_may_read(tmp_path, mask):
    before = os.umask(mask)
    try:
        with atomic_write(tmp_path / "f.txt") as file:
            file.write("x")
    finally:
        assert os.umask(before) == mask, "atomic_write() must leave the mask alone"
    assert (tmp_path / "f.txt").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("deep/real.txt", "deep/later.txt"):
        link = tmp_path / "link.txt"
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        with atomic_write(link) as file:
            file.write("new")
        assert link.is_symlink()
        assert (tmp_path / name).read_text() == "new"
    assert sorted(entry.name for entry in (tmp_path / "deep").iterdir()) == [
        "later.txt",
        "real.txt",
    ]


def test_a_pipe_is_written_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    with atomic_write(pipe) as file:
        file.write("行\n")
    reader.join(timeout=PATIENCE)
    assert got == ["行\n".encode()]
    assert pipe.is_fifo()
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]


def test_a_path_is_shown_in_utf8_whatever_its_bytes():
    assert printable_path("南京.txt") == "南京.txt"
    assert printable_path(Path(os.fsdecode("南京".encode("gbk")))).encode("utf-8")


@pytest.mark.parametrize("name", ["x" * 255, "长" * 85, "y" * 241, "z" * 240, "z" * 100])
def test_a_name_as_long_as_a_disk_allows(tmp_path, name):
    path = tmp_path / name
    with atomic_write(path) as file:
        part = next(tmp_path.iterdir()).name
        assert len(os.fsencode(part)) <= 255
        file.write("whole")
    assert path.read_text() == "whole"
    (tmp_path / part).write_text("what a killed process left")
    (tmp_path / f".other.{part[-13:]}").write_text("of another file")
    remove_parts(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(
        [name, f".other.{part[-13:]}"]
    )


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o000, 0o640, 0o604, 0o664, 0o666, 0o755])
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, mode, mask, binary):
    path = tmp_path / "f.txt"
    path.write_text("old")
    path.chmod(mode)
    before = os.umask(mask)
    try:
        with atomic_write(path, binary=binary) as file:
            (part,) = [each for each in tmp_path.iterdir() if each != path]
            assert part.stat().st_mode & 0o777 & ~mode == 0, (
                "nobody may read it who may not read the old"
            )
            file.write(b"new" if binary else "new")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o7777 == mode
    path.chmod(0o600)
    assert path.read_text() == "new"


def test_the_mode_behind_a_link_is_kept(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o600)
    (tmp_path / "link").symlink_to("real")
    with atomic_write(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_that_is_replaced_keeps_its_owner_where_that_is_permitted(tmp_path, monkeypatch):
    path = tmp_path / "f.txt"
    path.write_text("old")
    os.chown(path, 65534, 65533)
    path.chmod(0o660)
    with atomic_write(path) as file:
        file.write("new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (65534, 65533, 0o660)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    with atomic_write(path) as file:
        file.write("newer")
    status = path.stat()
    # Another group must not get what was for the first one.
    assert (status.st_uid, status.st_mode & 0o777) == (os.geteuid(), 0o600)
    assert path.read_text() == "newer"


def test_no_moment_at_which_a_private_file_is_open_to_others(tmp_path, monkeypatch):
    """No system call leaves the new file more open than the old one."""
    path = tmp_path / "f.txt"
    path.write_text("old")
    path.chmod(0o640)
    seen: list[int] = []

    def watched(name: str) -> None:
        call = getattr(os, name)

        def wrapped(*given: Any, **named: Any) -> Any:
            result = call(*given, **named)
            seen.extend(each.stat().st_mode & 0o777 for each in tmp_path.iterdir() if each != path)
            return result

        monkeypatch.setattr(os, name, wrapped)

    for name in ("open", "fchown", "fchmod", "fsync", "replace"):
        watched(name)
    with atomic_write(path) as file:
        file.write("new")
    assert seen
    assert all(mode & ~0o640 == 0 for mode in seen)
    assert path.stat().st_mode & 0o777 == 0o640
