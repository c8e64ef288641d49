"""Training of vectors: what is written, that it is deterministic, and every way in which a run ends
early.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import gensim
import numpy as np
import pytest

from hanlattice.errors import HanlatticeError, InputError, ModelError, OutputError
from hanlattice.events import ignore
from hanlattice.lab.pretrain.inspection import Neighbours
from hanlattice.lab.pretrain.units import Unit
from hanlattice.lab.pretrain.vectors import VectorSettings, VectorSource, train_vectors
from hanlattice.text.normalize import fold_digits
from hanlattice.text.vectors import read_vectors
from hanlattice.text.vocab import END
from tests.helpers.patience import PATIENCE
from tests.helpers.raw_text import write_text, write_topics

SMALL = {"dim": 6, "epochs": 3, "min_count": 3}
OUTPUTS = (".vec", ".bin")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return write_text(tmp_path)


def trained(
    raw: Path,
    out: Path,
    resume: bool = False,
    listen=ignore,
    lexicon: Path | None = None,
    **changes,
) -> Path:
    train_vectors(
        VectorSource((raw,), lexicon),
        out,
        VectorSettings(**{**SMALL, **changes}),
        resume=resume,
        listen=listen,
    )
    return out


def same(left: Path, right: Path) -> bool:
    return all(
        Path(f"{left}{end}").read_bytes() == Path(f"{right}{end}").read_bytes() for end in OUTPUTS
    )


def test_both_forms_and_the_record(raw, tmp_path):
    out = trained(raw, tmp_path / "deep" / "char")
    text, binary = (read_vectors(f"{out}{end}", strict=True) for end in OUTPUTS)
    assert text.words == binary.words
    np.testing.assert_array_equal(text.matrix, binary.matrix)
    assert text.width == 6
    counts = Counter(c for line in raw.read_text("utf-8").split() for c in fold_digits(line))
    assert {word: counts[word] for word in text.words} == {
        c: n for c, n in counts.items() if n >= 3
    }
    assert [counts[word] for word in text.words] == sorted(
        (counts[word] for word in text.words), reverse=True
    )
    record = json.loads(Path(f"{out}.json").read_text("utf-8"))
    assert record["settings"]["unit"] == "char"
    assert (record["units"], record["types"], record["vectors"]) == (
        counts.total(),
        len(counts),
        len(text),
    )
    assert record["versions"]["gensim"] == gensim.__version__
    assert record["peak_memory"] > 1e6
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "char.bin",
        "char.json",
        "char.vec",
    ]


def test_gensim_reads_what_is_written(raw, tmp_path):
    out = trained(raw, tmp_path / "char")
    for end in OUTPUTS:
        theirs = gensim.models.KeyedVectors.load_word2vec_format(
            f"{out}{end}", binary=end == ".bin"
        )
        assert tuple(theirs.index_to_key) == read_vectors(f"{out}{end}").words


def test_a_seed_decides_every_bit(raw, tmp_path):
    assert same(trained(raw, tmp_path / "a"), trained(raw, tmp_path / "b"))
    assert not same(tmp_path / "a", trained(raw, tmp_path / "c", seed=2))


@pytest.mark.parametrize("cbow", [False, True])
def test_what_stands_in_the_same_places_is_near(tmp_path, cbow):
    raw = write_topics(tmp_path)
    out = trained(raw, tmp_path / "v", dim=8, epochs=8, sample=0, cbow=cbow)
    near = Neighbours(read_vectors(f"{out}.bin"))
    for topic in ("甲乙丙丁", "子丑寅卯"):
        for character in topic:
            assert {row.word for row in near(character, 3)} == {*topic} - {character}


def test_bigrams_words_and_threads(raw, tmp_path):
    bigrams = read_vectors(f"{trained(raw, tmp_path / 'b', unit=Unit.bichar)}.vec", strict=True)
    assert f"。{END}" in bigrams.words
    assert {len(word.removesuffix(END)) for word in bigrams.words} == {1, 2}
    (tmp_path / "words.txt").write_text("天气\n工作\n", "utf-8")
    words = trained(raw, tmp_path / "w", unit=Unit.word, lexicon=tmp_path / "words.txt")
    assert {"天气", "工作"} <= {*read_vectors(f"{words}.vec").words}
    train_vectors(
        VectorSource((raw,)), tmp_path / "t", VectorSettings(**SMALL, unit=Unit.word), threads=3
    )
    assert "今天天气" in "".join(read_vectors(tmp_path / "t.bin").words)


def test_events(raw, tmp_path):
    events = []
    trained(raw, tmp_path / "v", listen=events.append)
    kinds = [event["event"] for event in events if event["event"] != "pass"]
    assert kinds == ["counted", "epoch", "epoch", "epoch"]
    ends = [
        (e["number"], e["size"]) for e in events if e["event"] == "pass" and e["done"] == e["size"]
    ]
    assert sorted(set(ends)) == [(number, raw.stat().st_size) for number in range(4)]


# ---- stopped runs


class StopError(Exception):
    pass


@pytest.mark.parametrize("lexicon", [False, True], ids=["characters", "words cached on disk"])
def test_an_interrupted_run_continues_and_ends_the_same(raw, tmp_path, lexicon):
    changes = {}
    if lexicon:
        (tmp_path / "words.txt").write_text("天气\n工作\n", "utf-8")
        changes = {"unit": Unit.word, "lexicon": tmp_path / "words.txt"}
    whole = trained(raw, tmp_path / "whole", **changes)
    for moment in ("counted", 1, 2, 3):
        out = tmp_path / f"stopped-{moment}"
        with pytest.raises(StopError):
            trained(raw, out, listen=partial(stop, moment), **changes)
        assert [path.name for path in tmp_path.glob(f"{out.name}*")] == [f"{out.name}.state"]
        trained(raw, out, resume=True, **changes)
        assert same(out, whole), moment
        assert not out.with_suffix(".state").exists()


def stop(moment, event):
    """At an event's name, or after an epoch."""
    if moment in (event["event"], event.get("epoch")):
        raise StopError


def test_a_killed_process_continues_in_another(raw, tmp_path):
    """Nothing depends on the process, such as the seed of Python's hashes."""
    code = (
        "import os, sys; from pathlib import Path\n"
        "from hanlattice.lab.pretrain.vectors import *\n"
        "def die(event):\n    event.get('epoch') == 2 and os.kill(os.getpid(), 9)\n"
        f"source, settings = VectorSource((Path({str(raw)!r}),)), VectorSettings(dim=6, "
        f"epochs=3, min_count=3)\n"
        "train_vectors(source, sys.argv[1], settings, listen=die)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, str(tmp_path / "a")]
    killed = subprocess.run(command, check=False, timeout=PATIENCE, env=environment)
    assert killed.returncode == -signal.SIGKILL
    assert same(trained(raw, tmp_path / "a", resume=True), trained(raw, tmp_path / "b"))


def test_an_interrupted_run_is_neither_overwritten_nor_mixed_up(raw, tmp_path):
    with pytest.raises(StopError):
        trained(raw, tmp_path / "a", listen=partial(stop, "counted"))
    with pytest.raises(
        OutputError, match=r"a.state belongs to an interrupted run: continue it with --resume"
    ):
        trained(raw, tmp_path / "a")
    with pytest.raises(ModelError, match="other settings or other text"):
        trained(raw, tmp_path / "a", resume=True, seed=9)
    raw.write_text(raw.read_text("utf-8") + "又\n", "utf-8")
    with pytest.raises(ModelError, match="other settings or other text"):
        trained(raw, tmp_path / "a", resume=True)


def test_a_finished_run_is_not_done_again(raw, tmp_path):
    trained(raw, tmp_path / "a", resume=True)  # nothing to go on with: it begins
    events = []
    before = (tmp_path / "a.bin").stat().st_mtime_ns
    trained(raw, tmp_path / "a", resume=True, listen=events.append)
    assert [event["event"] for event in events] == ["finished"]
    assert (tmp_path / "a.bin").stat().st_mtime_ns == before
    trained(raw, tmp_path / "a", resume=True, seed=4)
    assert (tmp_path / "a.bin").stat().st_mtime_ns > before


def test_a_finished_run_with_missing_or_changed_files_is_done_again(raw, tmp_path):
    trained(raw, tmp_path / "a")
    before = {path: path.read_bytes() for path in (tmp_path / "a.vec", tmp_path / "a.bin")}
    for path, content in before.items():
        for missing in (True, False):
            path.unlink() if missing else path.write_bytes(content[:-1])
            events = []
            trained(raw, tmp_path / "a", resume=True, listen=events.append)
            assert "finished" not in [event["event"] for event in events]
            assert {path: path.read_bytes() for path in before} == before


# ---- what goes wrong


def test_an_error_in_gensims_thread_is_raised_here(raw, tmp_path):
    def spoil(event):
        if event["event"] == "counted":
            raw.write_bytes(raw.read_bytes()[:-1] + b"\xff\n")

    with pytest.raises(InputError, match=r"raw.txt:150: not UTF-8"):
        trained(raw, tmp_path / "a", listen=spoil)
    assert not (tmp_path / "a.vec").exists()


def test_too_little_text(tmp_path):
    raw = tmp_path / "raw.txt"
    raw.write_text("一一一二二三", "utf-8")
    message = (
        r"fewer than two characters occur 3 times or more \(the most frequent, '一', 3 "
        r"times\); lower --min-count"
    )
    with pytest.raises(InputError, match=message):
        trained(raw, tmp_path / "a")
    events = []
    trained(raw, tmp_path / "a", min_count=2, listen=events.append)
    (counted,) = (event for event in events if event["event"] == "counted")
    assert "6 units are little text" in counted["notices"][0]
    assert read_vectors(tmp_path / "a.vec").words == ("一", "二")


@pytest.mark.parametrize(
    "wrong",
    [
        {"dim": 0},
        {"window": 0},
        {"negative": 0},
        {"min_count": 0},
        {"epochs": 0},
        {"sample": 1.0},
        {"sample": -0.1},
        {"sample": float("nan")},
        {"seed": -1},
        {"seed": 2**32},
    ],
)
def test_settings_out_of_range(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
        VectorSettings(**wrong)


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        (Unit.char, "characters"),
        (Unit.bichar, "bigrams"),
        (Unit.word, "words"),
        (Unit.subword, "subwords"),
    ],
)
def test_a_unit_has_a_name(unit, name):
    assert unit.plural == name


def test_a_folder_that_cannot_be_made(raw):
    with pytest.raises(OutputError, match="cannot make the folder"):
        trained(raw, raw / "inside" / "a")


@pytest.mark.parametrize(
    ("package", "extra", "unit"),
    [("gensim", "pretrain", Unit.char), ("rjieba", "segment", Unit.word)],
)
def test_a_missing_library_says_how_to_get_it(raw, tmp_path, monkeypatch, package, extra, unit):
    monkeypatch.setitem(sys.modules, package, None)
    message = rf"{package} is not installed.*pip install 'hanlattice\[{extra}\]'"
    with pytest.raises(HanlatticeError, match=message):
        trained(raw, tmp_path / "a", unit=unit)
    assert not (tmp_path / "a.state").exists()
