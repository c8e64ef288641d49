"""What is kept of a run, and whether it belongs to the run that is asked for."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from functools import partial

import pytest

from hanlattice.errors import InputError
from hanlattice.lab.compare.job import Record, identity, read_record, write_record
from hanlattice.lab.compare.run import _show_rates, _show_run
from tests.helpers.made import made_config
from tests.lab.compare.test_summary import rate, row, run

ROW = row("a")
NOW = {"settings": {"train.lr": 1.0}, "files": {"data.train": "0a"}}


def run_record() -> Record:
    record = run(ROW, 1, 7, {"NAM": 50})
    record["scores"]["test"]["segmentation"] = {
        "oov": {"recall": 0.5},
        "iv": {"recall": None},
        "bakeoff": {},
    }
    record["short"] = {"left_out": 1, "f1": 0.5}
    return {"identity": copy.deepcopy(NOW), **copy.deepcopy(record)}


def rates_record() -> Record:
    return {"identity": copy.deepcopy(NOW), **copy.deepcopy(rate(5.0))}


KINDS = {
    "run": (run_record, partial(_show_run, ROW, 1)),
    "rates": (rates_record, partial(_show_rates, ROW)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_written_is_read(tmp_path, kind):
    make, use = KINDS[kind]
    assert read_record(tmp_path / "a.json", NOW, use) == (None, [])
    write_record(tmp_path / "a.json", {**make(), "名": [1.5]})
    assert read_record(tmp_path / "a.json", NOW, use) == ({"format": 1, **make(), "名": [1.5]}, [])


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format": 2, "identity": {}}', b"\xff", b"[" * 100_000]
)
def test_not_a_record(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json: not a record of `hanlattice compare`"):
        read_record(tmp_path / "a.json", NOW, lambda record: None)


def places(record: Record) -> Iterator[tuple[str, ...]]:
    """The way to every value in it."""
    for key, value in record.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, *rest) for rest in places(value))


NEEDED = {
    "run": "identity.settings identity.files scores scores.dev.overall.f1 "
    "scores.test.groups.NAM.f1 counts seed "
    "seconds parameters scores.test.segmentation.oov.recall scores.test.overall.correct "
    "short.f1 short.left_out",
    "rates": "identity machine.threads train decode.sentences_per_second",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_record_is_refused_or_makes_a_table(tmp_path, kind):
    """Whatever is missing or has another type: nothing else happens, and what the table needs is
    refused.
    """
    make, use = KINDS[kind]
    refused = set()
    for place in places(make()):
        for missing in (False, True):
            record = inner = make()
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = ["x"]
            if missing:
                del inner[place[-1]]
            write_record(tmp_path / "a.json", record)
            try:
                read_record(tmp_path / "a.json", NOW, use)
            except InputError as error:
                refused.add((".".join(place), missing, str(error).partition(" (")[0]))
    message = f"{tmp_path / 'a.json'}: a damaged record of `hanlattice compare`"
    assert {(place, True, message) for place in NEEDED[kind].split()} <= refused


@pytest.mark.parametrize("counts", [[1, 2], [[1, 2]], [[1, 2, "x"]], [[1, 2, 3], None]])
def test_damaged_counts(tmp_path, counts):
    write_record(tmp_path / "a.json", run_record() | {"counts": counts})
    with pytest.raises(InputError, match="a damaged record"):
        read_record(tmp_path / "a.json", NOW, KINDS["run"][1])


def test_the_files_of_a_configuration(tiny, lm_folder):
    config = made_config(tiny, lm__model=str(lm_folder), bichars__vectors="b")
    digests = identity(config)["files"]
    names = [
        "data.train",
        "data.dev",
        "data.test",
        "chars.vectors",
        "bichars.vectors",
        "words.vectors",
        "lm.model",
    ]
    assert set(digests) == set(names)
    assert digests["bichars.vectors"] == ""
    assert len({digest for digest in digests.values() if digest}) == 6


def differences(tmp_path, then: Record, now: Record) -> list[str]:
    write_record(tmp_path / "r.json", {"identity": then})
    return read_record(tmp_path / "r.json", now, lambda record: None)[1]


def test_what_makes_another_run(tiny, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(tiny, folder)
    changed = partial(differences, tmp_path, identity(made_config(folder)))
    free = {
        "train__device": "cuda",
        "train__checkpoint_minutes": 1.0,
        "compare__row": "x",
        "compare__paper": 1.0,
    }
    assert changed(identity(made_config(folder, **free))) == []
    assert set(changed(identity(made_config(folder, train__seed=2, model__encoder="char")))) == {
        "train.seed was 1 and is 2",
        "model.encoder was 'lattice' and is 'char'",
        "model.coupled was True and is False",
    }
    (folder / "train.bmes").write_text("南 B-LOC\n", "utf-8")
    assert changed(identity(made_config(folder))) == ["the file of data.train has another content"]
    (folder / "train.bmes").unlink()
    assert changed(identity(made_config(folder))) == []  # so that a table can be made elsewhere


def test_a_record_without_a_setting_is_refused(tiny, tmp_path):
    then = identity(made_config(tiny))
    del then["settings"]["train.average"]
    with pytest.raises(InputError, match=r"a damaged record .* \(KeyError: 'train.average'\)"):
        differences(tmp_path, then, identity(made_config(tiny)))
