"""What is kept of a run, whether it is of the run that is asked for, and one comparison at a time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from hanlattice.compare import lock
from hanlattice.compare.lock import working_in
from hanlattice.compare.records import RATES, RUN, Digests, Record, changes, claim, files_of, identity, keep, kept
from hanlattice.errors import InputError, OutputError
from tests.made import made_config


def score() -> Record:
    return {"precision": 1.0, "recall": 1, "f1": 1.0, "gold": 1, "predicted": 1, "correct": 1}


def rates_record() -> Record:
    rate = {"sentences_per_second": 1.5, "characters_per_second": 20}
    machine = {"cpu": "c", "threads": 1, "gpu": None}
    found = {"identity": {"settings": {}, "files": {}}, "device": "cpu", "machine": machine, "train": rate}
    return found | {"decode": dict(rate)}


def run_record() -> Record:
    record = {key: value for key, value in rates_record().items() if key not in ("train", "decode")}
    facts = {"versions": {}, "row": "a", "seed": 1, "epoch": 3, "seconds": 1.5, "parameters": 7, "part": "test"}
    parts = {"dev": {"overall": score(), "groups": {}}, "test": {"overall": score(), "groups": {"NAM": {"f1": 0.5}}}}
    return {**record, **facts, "scores": parts, "counts": [[1, 1, 1], [0, 0, 0]]}


def test_what_was_kept_comes_back(tmp_path):
    for shape, record in ((RUN, run_record()), (RATES, rates_record())):
        path = tmp_path / f"{shape is RUN}.json"
        assert kept(path, shape) is None
        keep(path, {**record, "名": [1.5]})
        assert kept(path, shape) == {"format": 1, **record, "名": [1.5]}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 2, "identity": {}}', b"\xff", b"[" * 100_000])
def test_what_is_no_record(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json: not a record of `hanlattice compare`"):
        kept(tmp_path / "a.json", RUN)


def places(record: Record) -> Iterator[tuple[str, ...]]:
    """The way to every value in it."""
    for key, value in record.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, *rest) for rest in places(value))


@pytest.mark.parametrize("kind", ["run", "rates"])
def test_a_damaged_record_is_told_with_its_place(tmp_path, kind):
    """Whatever is missing in one that has only what is needed, or is of another type."""
    make, shape = {"run": (run_record, RUN), "rates": (rates_record, RATES)}[kind]
    for place in places(make()):
        for missing in (False, True):
            record = inner = make()
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = ["x"]
            if missing:
                del inner[place[-1]]
            if missing and place[-2:] == ("groups", "NAM"):
                continue  # without it, the record is whole
            keep(tmp_path / "a.json", record)
            with pytest.raises(InputError, match=r"a\.json: a damaged record .*; remove it, and it is made anew"):
                kept(tmp_path / "a.json", shape)


@pytest.mark.parametrize("counts", [[1, 2, 3], [[1, 2]], [[1, 2, "3"]], [[1, 2, 3], None]])
def test_damaged_counts(tmp_path, counts):
    keep(tmp_path / "a.json", run_record() | {"counts": counts})
    with pytest.raises(InputError, match="counts is not what it should be"):
        kept(tmp_path / "a.json", RUN)


def cut_record() -> Record:
    """Of a segmenter."""
    record = run_record()
    record["scores"]["test"]["segmentation"] = {"oov": {"recall": 0.5}, "iv": {"recall": None}, "bakeoff": {}}
    return record


def test_a_segmenter_has_recalls(tmp_path):
    keep(tmp_path / "a.json", cut_record())
    assert kept(tmp_path / "a.json", RUN) == {"format": 1, **cut_record()}


@pytest.mark.parametrize(
    "broken", [None, [], {}, {"oov": {"recall": 1}}, {"oov": {"recall": "x"}, "iv": {"recall": 1}}]
)
def test_damaged_recalls(tmp_path, broken):
    record = cut_record()
    record["scores"]["test"]["segmentation"] = broken
    keep(tmp_path / "a.json", record)
    with pytest.raises(InputError, match=r"a damaged record .*: scores\.test\.segmentation"):
        kept(tmp_path / "a.json", RUN)


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
    assert claim(tmp_path / "r.json", RUN, now, complaints.append) is None
    keep(tmp_path / "r.json", run_record() | {"identity": now})
    assert claim(tmp_path / "r.json", RUN, now, complaints.append) is not None
    assert complaints == []
    other = identity(made_config(tiny, train__lr=1.0), Digests())
    assert claim(tmp_path / "r.json", RUN, other, complaints.append) is None
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
