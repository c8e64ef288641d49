"""`hanlattice pretrain vectors` and `pretrain subwords`, through the command line."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from hanlattice.cli.pretrain import PassMeter, SubwordMeter, VectorMeter
from hanlattice.events import Event
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.vectors import read_vectors
from tests.helpers.command import Outcome, hanlattice, run
from tests.helpers.lm import files_of_any_size, limit_files
from tests.helpers.raw_text import write_text

SMALL = ("--dim", "5", "--epochs", "2", "--min-count", "2")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return write_text(tmp_path)


def vectors(raw: Path, out: Path, *more: str | Path, unit: str = "char") -> Outcome:
    return hanlattice("pretrain", "vectors", raw, "--unit", unit, "--out", out, *SMALL, *more)


def test_vectors_of_each_unit(raw, tmp_path):
    outcome = hanlattice(
        "pretrain", "subwords", raw, "--out", tmp_path / "sub", "--size", "30", "--min-count", "2"
    )
    assert outcome.code == 0, outcome
    assert "pieces in " in outcome.err
    assert Lexicon().load(tmp_path / "sub.txt") > 10
    for unit, more in {
        "char": (),
        "bichar": (),
        "word": (),
        "subword": ("--lexicon", tmp_path / "sub.txt"),
    }.items():
        outcome = vectors(raw, tmp_path / unit, *more, unit=unit)
        assert (outcome.code, outcome.out) == (0, b""), outcome
        count = len(read_vectors(tmp_path / f"{unit}.bin"))
        assert (
            f"{count} vectors in {tmp_path / unit}.vec and {tmp_path / unit}.bin; " in outcome.err
        )
        assert "little text" in outcome.err
    assert "this run is finished already" in vectors(raw, tmp_path / "char", "--resume").err


def test_subwords_on_all_cores_are_the_same(raw, tmp_path):
    for name, more in {"one": (), "all": ("--parallel",)}.items():
        outcome = hanlattice(
            "pretrain", "subwords", raw, "--out", tmp_path / name, "--min-count", "2", *more
        )
        assert outcome.code == 0, outcome
    assert (tmp_path / "one.txt").read_bytes() == (tmp_path / "all.txt").read_bytes()


def test_as_a_process_it_says_no_more_than_this(raw, tmp_path):
    """No line of gensim's log appears, and several files are read at once."""
    packed = tmp_path / "more.gz"
    packed.write_bytes(gzip.compress(raw.read_bytes()))
    outcome = run(
        "pretrain", "vectors", raw, packed, "--unit", "word", "--out", tmp_path / "w.vec", *SMALL
    )
    assert outcome.code == 0, outcome
    starts = [line.split(" ")[0] for line in outcome.err.splitlines()]
    assert starts[0] == "note:"
    assert starts[2:4] == ["epoch", "epoch"]
    assert len(starts) == 5, outcome.err
    assert json.loads((tmp_path / "w.json").read_text("utf-8"))["files"] == [str(raw), str(packed)]


def test_a_lexicon_of_the_cache(raw, tmp_path, cache):
    vectors(raw, tmp_path / "w", "--lexicon", "@jieba/dict.txt", unit="word").refused(
        "run `hanlattice data get jieba`"
    )
    (cache / "jieba").mkdir(parents=True)
    (cache / "jieba" / "dict.txt").write_text("天天 3 n\n今天天气 900 n\n", "utf-8")
    assert vectors(raw, tmp_path / "w", "--lexicon", "@jieba/dict.txt", unit="word").code == 0
    assert "今天天气" in read_vectors(tmp_path / "w.vec").words


# ---- stopped


def test_ctrl_c_and_resume(raw, tmp_path, monkeypatch):
    def stop(_: VectorMeter, event: Event) -> None:
        if event["event"] == "epoch":
            assert (tmp_path / "c.state").exists()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(VectorMeter, "__call__", stop)
        stopped = vectors(raw, tmp_path / "c", "--epochs", "3000")
    assert stopped.code == 130
    assert "the same command with --resume goes on" in stopped.err
    assert not (tmp_path / "c.vec").exists()
    vectors(raw, tmp_path / "c").refused("c.state belongs to an interrupted run")
    vectors(raw, tmp_path / "c", "--resume").refused("c.state belongs to a run with other settings")


# ---- refused


def test_bad_text(raw, tmp_path):
    bad = tmp_path / "bad.txt"
    for verb in (("vectors", "--unit", "char"), ("subwords",)):
        for content, why in {
            b"": "bad.txt: the file is empty",
            b" \n\n": "bad.txt: there are only blank lines",
            "一\n二".encode() + b"\xff": "bad.txt:2: not UTF-8: byte 0xff",
            b"\x1f\x8b\x08": "bad.txt:1: cannot be unpacked",
        }.items():
            bad.write_bytes(content)
            hanlattice("pretrain", *verb, raw, bad, "--out", tmp_path / "out" / "x").refused(why)
    hanlattice("pretrain", "vectors", tmp_path / "no.txt", "--unit", "char", "--out", "x").refused(
        "no.txt: cannot read"
    )
    assert not list((tmp_path / "out").glob("*"))


def test_the_text_and_other_records_are_not_overwritten(raw, tmp_path):
    """Each output here would replace another file: the text, or a record of another kind."""
    subwords = ("pretrain", "subwords", "--size", "30", "--min-count", "2")
    (tmp_path / "x.json").write_bytes(raw.read_bytes())
    assert hanlattice(*subwords, raw, "--out", tmp_path / "sub").code == 0
    (tmp_path / "notes.json").write_text('{"mine": 1}', "utf-8")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for out in (raw, tmp_path / "raw"):
        hanlattice(*subwords, raw, "--out", out).refused(
            "raw.txt: the output is one of the files to read"
        )
    vectors(tmp_path / "x.json", tmp_path / "x").refused(
        "x.json: the output is one of the files to read"
    )
    lexicon = ("--lexicon", tmp_path / "sub.txt")
    vectors(raw, tmp_path / "sub", *lexicon, unit="subword").refused(
        "sub.json already exists and is not the record"
    )
    vectors(raw, tmp_path / "sub.bpe", *lexicon, unit="subword").refused(
        "sub.bpe.json: the output is one of the files"
    )
    vectors(raw, tmp_path / "notes").refused("notes.json already exists and is not the record")
    hanlattice(*subwords, raw, "--out", tmp_path / "notes").refused(
        "notes.json already exists and is not the record"
    )
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert hanlattice(*subwords, raw, "--out", tmp_path / "sub").code == 0, (
        "its own outputs may be replaced"
    )


def test_names_that_are_not_utf8(raw, tmp_path):
    folder = Path(
        os.fsdecode(os.fsencode(tmp_path / "文").replace("文".encode(), "文".encode("gbk")))
    )
    folder.mkdir()
    text = raw.rename(folder / "raw.txt")
    assert (
        hanlattice("pretrain", "subwords", text, "--out", folder / "s", "--min-count", "2").code
        == 0
    )
    lexicon = ("--unit", "subword", "--lexicon", folder / "s.txt")
    assert (
        hanlattice("pretrain", "vectors", text, "--out", folder / "v", *lexicon, *SMALL).code == 0
    )
    for name in ("s", "v"):
        record = json.loads((folder / f"{name}.json").read_text("utf-8"))
        assert record["files"] == [f"{tmp_path}/\ufffd\ufffd/raw.txt"]
    checked = run("vectors", "check", folder / "v.bin", "--corpus", text)
    assert (checked.code, checked.err) == (0, "")
    assert hanlattice("vectors", "check", folder / "v.bin", "--corpus", text, "--json").code == 0
    small = hanlattice(
        "gazetteer", "--raw", folder / "v.bin", text, "--out", folder / "small.bin", "--json"
    )
    assert (small.code, small.err) == (0, "")
    assert json.loads(small.text)["out"]["file"] == f"{tmp_path}/\ufffd\ufffd/small.bin"
    assert (
        hanlattice("gazetteer", "--raw", folder / "v.bin", text, "--out", folder / "small.bin").code
        == 0
    )


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    vectors(tmp_path / "pipe", tmp_path / "x").refused(
        "pipe: it is a pipe or a device", "so give a file"
    )
    hanlattice("pretrain", "subwords", tmp_path / "pipe", "--out", tmp_path / "x").refused(
        "it is a pipe or a device"
    )


@pytest.mark.parametrize(
    "option",
    [
        *("--dim=0", "--dim=x", "--window=0", "--negative=0", "--min-count=0", "--epochs=0"),
        *("--sample=1", "--threads=0", "--seed=-1", "--unit=letter"),
    ],
)
def test_an_option_out_of_range(raw, tmp_path, option):
    outcome = hanlattice(
        "pretrain", "vectors", raw, "--unit", "char", "--out", tmp_path / "x", option
    )
    assert outcome.code == 2, outcome
    assert f"Invalid value for '{option.partition('=')[0]}'" in outcome.err


@pytest.mark.parametrize(
    "option", ["--size=0", "--longest=1", "--min-count=0", "--size", "--longest", "--min-count"]
)
def test_an_option_of_subwords_out_of_range(raw, tmp_path, option):
    """Options without bounds of their own refuse numbers that no machine word holds."""
    given = option if "=" in option else f"{option}=99999999999999999999"
    outcome = hanlattice("pretrain", "subwords", raw, "--out", tmp_path / "x", given)
    assert outcome.code == 2, outcome
    assert f"Invalid value for '{option.partition('=')[0]}'" in outcome.err


def test_options_that_do_not_go_together(raw, tmp_path):
    vectors(raw, tmp_path / "x", unit="subword").refused("--unit subword needs --lexicon")
    vectors(raw, tmp_path / "x", "--model", tmp_path).refused("--model cuts text into words")
    for device in ("cpu", "nonsense"):
        vectors(raw, tmp_path / "x", "--device", device).refused("--device says where --model runs")
    vectors(raw, tmp_path).refused("is a folder: --out names the files in it")


def test_a_full_disk(raw, tmp_path):
    """The state grows with the matrices; a refused write leaves no half-written file."""
    limit = 3000
    command = (
        "pretrain",
        "vectors",
        raw,
        "--unit",
        "char",
        "--out",
        tmp_path / "full" / "c",
        *SMALL,
    )
    with files_of_any_size():
        limit_files(limit)
        limited = hanlattice(*command)
    assert limited.code == 2, limited
    assert "c.state: the file would be larger than allowed here" in limited.err
    assert "Traceback" not in limited.err
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["c.state"]
    assert hanlattice(*command, "--resume").code == 0
    assert len(list((tmp_path / "full").iterdir())) == 3


# ---- the moving line


def test_subwords_say_what_they_do():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with SubwordMeter(console, epochs=2) as meter:
        names = []
        for event in ({"number": 0}, {"number": 1}, {"event": "merging"}, {"number": 2}):
            meter({"event": "pass", "done": 50, "size": 100, **event})
            names.append(meter.progress.tasks[-1].description)
    assert names == ["characters", "pieces", "merging", "frequencies"]
    assert meter.progress.tasks[-1].completed == 150


def test_one_bar_for_counting_and_one_for_all_epochs():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with PassMeter(console, epochs=4) as meter:
        meter({"event": "pass", "number": 0, "done": 50, "size": 100})
        assert [(task.completed, task.total) for task in meter.progress.tasks] == [(50, 100)]
        for number in (1, 3):
            meter({"event": "pass", "number": number, "done": 50, "size": 100})
        meter({"event": "something else"})
    tasks = [(task.description, task.completed, task.total) for task in meter.progress.tasks]
    assert tasks == [("counting", 50, 100), ("training", 250, 400)]
