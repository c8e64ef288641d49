"""What is kept of a run, whether it is of the run that is asked for, and one comparison at a time."""

from __future__ import annotations

import shutil

import pytest

from hanlattice.compare import lock
from hanlattice.compare.lock import working_in
from hanlattice.compare.records import Digests, changes, claim, files_of, identity, keep, kept
from hanlattice.errors import InputError, OutputError
from tests.made import made_config


def test_what_was_kept_comes_back(tmp_path):
    assert kept(tmp_path / "a.json") is None
    keep(tmp_path / "a.json", {"identity": {}, "名": [1.5]})
    assert kept(tmp_path / "a.json") == {"format": 1, "identity": {}, "名": [1.5]}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 2, "identity": {}}', b'{"format": 1}', b"\xff"])
def test_what_is_no_record(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json: not a record of `hanlattice compare`"):
        kept(tmp_path / "a.json")


def test_the_files_of_a_configuration(tiny, lm_folder):
    config = made_config(tiny, lm__model=str(lm_folder), bichars__vectors="b")
    names = ["data.train", "data.dev", "data.test", "chars.vectors", "bichars.vectors", "words.vectors", "lm.model"]
    assert set(files_of(config)) == set(names)
    digests = identity(config, Digests())["files"]
    assert digests["bichars.vectors"] == ""
    assert len({digest for digest in digests.values() if digest}) == 6


def test_what_makes_another_run(tiny, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(tiny, folder)
    then = identity(made_config(folder), Digests())
    free = made_config(
        folder, train__device="cuda", train__checkpoint_minutes=1.0, compare__row="x", compare__paper=1.0
    )
    assert list(changes(then, identity(free, Digests()))) == []
    other = identity(made_config(folder, train__seed=2, model__encoder="char"), Digests())
    assert set(changes(then, other)) == {
        "train.seed was 1 and is 2",
        "model.encoder was 'lattice' and is 'char'",
    }
    (folder / "train.bmes").write_text("南 B-LOC\n", "utf-8")
    assert list(changes(then, identity(made_config(folder), Digests()))) == [
        "the file of data.train has another content"
    ]
    (folder / "train.bmes").unlink()
    assert list(changes(then, identity(made_config(folder), Digests()))) == []  # so that a table can be made elsewhere


def test_a_setting_that_did_not_exist_then_was_as_it_is_by_default(tiny):
    then = identity(made_config(tiny), Digests())
    del then["settings"]["train.average"]
    assert list(changes(then, identity(made_config(tiny), Digests()))) == []
    assert list(changes(then, identity(made_config(tiny, train__average=0.5), Digests()))) == [
        "train.average was 0.0 and is 0.5"
    ]


def test_a_record_of_another_run_is_complained_of(tiny, tmp_path):
    complaints: list[str] = []
    now = identity(made_config(tiny), Digests())
    assert claim(tmp_path / "r.json", now, complaints.append) is None
    keep(tmp_path / "r.json", {"identity": now})
    assert claim(tmp_path / "r.json", now, complaints.append) is not None
    assert complaints == []
    assert claim(tmp_path / "r.json", identity(made_config(tiny, train__lr=1.0), Digests()), complaints.append) is None
    assert len(complaints) == 1
    assert "is of another run (train.lr was 0.02 and is 1.0): choose another --out" in complaints[0]


def test_one_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "PATIENCE", 0.1)
    with working_in(tmp_path / "out", alone=True):
        with working_in(tmp_path / "out", alone=False):
            pass
        with pytest.raises(OutputError, match="another `hanlattice compare` is at work"):
            working_in(tmp_path / "out", alone=True).__enter__()
    with working_in(tmp_path / "out", alone=True):
        pass


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"), working_in(tmp_path / "file" / "out", alone=True):
        pass
