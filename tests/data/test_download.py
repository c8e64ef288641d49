"""Downloads through a real pip, from a package that the test makes; and every way in which one can
fail.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from hanlattice.data.download import (
    KNOWN,
    Known,
    _extract,
    cache_folder,
    fetch,
    is_fetched,
    known,
    resolve,
)
from hanlattice.errors import DownloadError, InputError, OutputError
from hanlattice.files import atomic_write

WHEEL = "tinycorpus-1.0-py3-none-any.whl"


def make_wheel(folder: Path, body: bytes = b"one\ntwo\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    info = "tinycorpus-1.0.dist-info"
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr("tinycorpus/words.txt", body)
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinycorpus\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return folder / WHEEL


def convert(members: list[Path], folder: Path) -> dict[str, int]:
    lines = members[0].read_bytes().splitlines()
    with atomic_write(folder / "a.txt", binary=True) as file:
        file.write(b"\n".join(lines))
    with atomic_write(folder / "b.txt") as file:
        file.write(str(len(lines)))
    return {"lines": len(lines)}


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> Known:
    """A known download `tiny`, its package in a folder that pip is told of, and an empty cache."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    monkeypatch.setenv("HANLATTICE_CACHE", str(tmp_path / "cache"))
    wheel = make_wheel(tmp_path / "links")
    entry = Known(
        name="tiny",
        what="two lines",
        licence="CC0",
        package="tinycorpus==1.0",
        archive=WHEEL,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        size=wheel.stat().st_size,
        members=("tinycorpus/words.txt",),
        outputs=("a.txt", "b.txt"),
        convert=convert,
        counts={"lines": 2},
    )
    use(monkeypatch, entry)
    return entry


@pytest.fixture
def quick_pip(tiny, tmp_path, monkeypatch) -> None:
    """A stand-in for pip that copies the package, for tests of what comes after the download: pip
    takes a second.
    """
    wheel = tmp_path / "links" / WHEEL
    fake_python(
        tmp_path, monkeypatch, f'while [ "$1" != --dest ]; do shift; done\ncp "{wheel}" "$2/"\n'
    )


def fake_python(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    script = folder / "python.sh"
    script.write_text(f"#!/bin/sh\n{body}")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def use(monkeypatch: pytest.MonkeyPatch, entry: Known) -> None:
    monkeypatch.setitem(KNOWN, entry.name, entry)


def left_behind() -> list[str]:
    return sorted(str(path.relative_to(cache_folder())) for path in cache_folder().rglob("*"))


def test_pip_brings_it_once_and_a_wrong_checksum_leaves_what_was_there(tiny, tmp_path, monkeypatch):
    assert not is_fetched("tiny")
    first = fetch("tiny")
    assert first.downloaded
    assert is_fetched("tiny")
    assert [path.read_text() for path in first.files] == ["one\ntwo", "2"]
    assert (first.licence, first.package, first.counts) == ("CC0", "tinycorpus==1.0", {"lines": 2})
    assert left_behind() == ["tiny", "tiny/a.txt", "tiny/b.txt", "tiny/source.json"]
    assert json.loads((first.folder / "source.json").read_text("utf-8"))["sha256"] == tiny.sha256
    with monkeypatch.context() as nowhere:
        nowhere.setenv("PIP_FIND_LINKS", "nowhere")
        assert fetch("tiny") == replace(first, downloaded=False)
    other = make_wheel(tmp_path / "links", b"other\nlines\n")
    with pytest.raises(DownloadError, match="is not the file that was expected") as caught:
        fetch("tiny", force=True)
    assert f"expected sha256 {tiny.sha256}" in str(caught.value)
    assert hashlib.sha256(other.read_bytes()).hexdigest() in str(caught.value)
    assert fetch("tiny") == replace(first, downloaded=False)
    assert left_behind() == ["tiny", "tiny/a.txt", "tiny/b.txt", "tiny/source.json"]


def test_force_and_a_changed_file_download_again(tiny, quick_pip):
    folder = fetch("tiny").folder
    assert fetch("tiny", force=True).downloaded
    (folder / "a.txt").write_text("cut")
    assert not is_fetched("tiny")
    assert fetch("tiny").downloaded
    (folder / "source.json").write_text("{")
    assert fetch("tiny").downloaded


def test_a_folder_of_ones_own(tiny, quick_pip, tmp_path):
    fetched = fetch("tiny", tmp_path / "mine")
    assert fetched.files[0] == tmp_path / "mine" / "tiny" / "a.txt"
    assert fetched.files[0].is_file()
    assert not cache_folder().exists()


def test_offline_is_a_clear_error_and_leaves_nothing(tiny, tmp_path):
    (tmp_path / "links" / WHEEL).unlink()
    with pytest.raises(DownloadError, match=r"pip could not download tinycorpus==1\.0") as caught:
        fetch("tiny")
    assert "PIP_FIND_LINKS" in str(caught.value)
    assert "pip: ERROR" in str(caught.value)
    assert left_behind() == []


def test_our_own_check_does_not_rely_on_pip(tiny, tmp_path, monkeypatch):
    """A stand-in for pip that delivers another file and reports success."""
    fake_python(
        tmp_path,
        monkeypatch,
        f'while [ "$1" != --dest ]; do shift; done\necho other > "$2/{WHEEL}"\n',
    )
    with pytest.raises(DownloadError, match="but got sha256"):
        fetch("tiny")
    assert left_behind() == []


def test_an_environment_without_pip(tiny, tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, 'echo "$0: No module named pip" >&2\nexit 1\n')
    with pytest.raises(DownloadError, match="ensurepip"):
        fetch("tiny")


def test_without_setuptools_on_the_index_that_of_the_environment_is_used(
    tiny, tmp_path, monkeypatch
):
    """A stand-in for pip that can look at a source archive only without build isolation."""
    fail = 'echo "installing build dependencies"; exit 1'
    body = f'case "$*" in *--no-build-isolation) ;; *) {fail};; esac\n'
    copy = f'while [ "$1" != --dest ]; do shift; done\ncp "{tmp_path / "links" / WHEEL}" "$2/"\n'
    fake_python(tmp_path, monkeypatch, body + copy)
    assert fetch("tiny").downloaded


def test_counts_that_differ_are_refused(tiny, quick_pip, monkeypatch):
    use(monkeypatch, replace(tiny, counts={"lines": 3}))
    with pytest.raises(DownloadError, match="expected 3 lines, but got 2"):
        fetch("tiny")
    assert left_behind() == []


def test_a_member_that_is_not_there(tiny, quick_pip, monkeypatch):
    use(monkeypatch, replace(tiny, members=("tinycorpus/none.txt",)))
    with pytest.raises(DownloadError, match=r"has no file tinycorpus/none\.txt"):
        fetch("tiny")
    assert left_behind() == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(28, "No space left on device"), OutputError),
        (InputError("bad row", "x", 7), DownloadError),
    ],
)
def test_an_interrupted_conversion_leaves_what_was_there(
    tiny, quick_pip, monkeypatch, error, expected
):
    before = fetch("tiny")

    def fail(members: list[Path], folder: Path) -> dict[str, int]:
        with atomic_write(folder / "a.txt") as file:
            file.write("half")
            raise error

    use(monkeypatch, replace(tiny, convert=fail))
    with pytest.raises(expected):
        fetch("tiny", force=True)
    assert fetch("tiny") == replace(before, downloaded=False)
    assert [path.read_text() for path in before.files] == ["one\ntwo", "2"]
    assert left_behind() == ["tiny", "tiny/a.txt", "tiny/b.txt", "tiny/source.json"]


def test_a_cache_that_cannot_be_written(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HANLATTICE_CACHE", str(tmp_path / "file"))
    with pytest.raises(OutputError, match="cannot write into"):
        fetch("tiny")


def test_one_member_of_a_source_archive(tmp_path):
    with tarfile.open(tmp_path / "t-1.tar.gz", "w:gz") as tar:
        entry = tarfile.TarInfo("t-1/words.txt")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
        tar.addfile(tarfile.TarInfo("../outside.txt"), io.BytesIO(b""))
    assert (
        _extract(tmp_path / "t-1.tar.gz", "t-1/words.txt", tmp_path / "out").read_bytes() == b"abc"
    )
    with pytest.raises(DownloadError, match="has no file t-1/none"):
        _extract(tmp_path / "t-1.tar.gz", "t-1/none", tmp_path / "out")


def test_resolve(tiny, quick_pip, tmp_path):
    assert resolve("data/@x.bmes") == Path("data/@x.bmes")
    assert resolve(tmp_path) == tmp_path
    with pytest.raises(InputError, match="run `hanlattice data get tiny`"):
        resolve("@tiny/a.txt")
    fetch("tiny")
    assert resolve("@tiny/a.txt").read_text() == "one\ntwo"
    for wrong in ("@tiny/c.txt", "@tiny", "@tiny/../tiny/a.txt"):
        with pytest.raises(InputError, match=r"it has @tiny/a\.txt, @tiny/b\.txt"):
            resolve(wrong)


def test_unknown_names_offer_the_nearest():
    with pytest.raises(InputError, match="did you mean msra"):
        known("mrsa")
    with pytest.raises(InputError, match="the names are msra, pku, simplechinese, jieba"):
        fetch("xyz")


def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv("HANLATTICE_CACHE", "~/c")
    assert cache_folder() == Path.home() / "c"
    monkeypatch.delenv("HANLATTICE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/hanlattice")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "hanlattice"


def test_the_table_of_downloads_is_whole():
    assert list(KNOWN) == ["msra", "pku", "simplechinese", "jieba"]
    for entry in KNOWN.values():
        assert len(entry.sha256) == 64
        assert entry.archive.lower().startswith(entry.package.replace("==", "-").lower())
        assert entry.counts
        assert entry.outputs
