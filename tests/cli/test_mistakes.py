"""`hanlattice mistakes`: two models and a labelled file give tables, a report and JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hanlattice.cli.mistakes import read_lexicon
from hanlattice.config import make_config
from hanlattice.data.corpus import read_corpus
from hanlattice.data.formats.columns import write_columns
from hanlattice.errors import InputError
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.vectors import Vectors, write_vectors
from hanlattice.training.loop import train
from tests.helpers.command import Outcome, hanlattice
from tests.helpers.cutting import cutting_tree, in_words
from tests.helpers.made import made_config, sentences
from tests.helpers.untrained import write_untrained


@pytest.fixture(scope="module")
def weak(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A character model after one epoch, which makes mistakes."""
    config = made_config(made, model__encoder="char", train__epochs=1)
    return train(config, tmp_path_factory.mktemp("models") / "weak").folder


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with other labels, whose training file is gone."""
    folder = tmp_path_factory.mktemp("other")
    renamed = [
        Sentence(
            item.text,
            tuple(Span(span.start, span.end, f"{span.label}.NAM") for span in item.spans or ()),
        )
        for item in sentences(60, 5)
    ]
    write_columns(folder / "train.bmes", renamed)
    config = made_config(
        folder,
        model__encoder="char",
        train__epochs=1,
        data__dev="",
        data__test="",
        data__holdout=0.25,
        data__limit=40,
        chars__vectors="",
        words__vectors="",
    )
    return train(config, folder / "model").folder


def compared(*arguments: str | Path, folder: Path) -> tuple[Outcome, dict[str, Any]]:
    """Return the output and the JSON of a comparison."""
    outcome = hanlattice("mistakes", *arguments, "--json", folder / "all.json")
    assert outcome.code == 0, outcome.err
    record: dict[str, Any] = json.loads((folder / "all.json").read_text("utf-8"))
    return outcome, record


def test_the_scores_are_those_of_evaluate(weak, lattice_folder, made, tmp_path):
    outcome, record = compared(weak, lattice_folder, made / "test.bmes", folder=tmp_path)
    assert outcome.err == ""
    for side, folder in (("a", weak), ("b", lattice_folder)):
        scores = json.loads(hanlattice("evaluate", "--json", folder, made / "test.bmes").text)
        assert scores["overall"].items() <= record["overall"][side].items()
        for row in record["breakdowns"]["type"]:
            assert scores["by_type"].get(row["name"], row[side]).items() <= row[side].items()
    assert record["overall"]["only_b"] > record["overall"]["only_a"]
    assert record["breakdowns"].keys() == {"type", "length", "lexicon", "borders", "training"}
    assert [part["part"] for part in record["coverage"]] == ["train", "test"]
    assert record["coverage"][0]["entities"] == entities(made / "train.bmes")
    train_texts = {s.text for s in read_corpus(made / "train.bmes").sentences}
    test = read_corpus(made / "test.bmes")
    assert record["repeated"] == sum(s.text in train_texts for s in test.sentences)
    for part in (
        "By type",
        "By length",
        "Kinds of error",
        "Entities in the lexicon",
        "seen in training",
        "McNemar",
    ):
        assert part in outcome.text, part
    assert f"{record['repeated']} of the 30 sentences stand in train verbatim" in outcome.text


def entities(path: Path) -> int:
    return sum(len(sentence.spans or ()) for sentence in read_corpus(path).sentences)


def test_a_word_model_is_compared_by_its_characters(weak, made, tmp_path):
    config = made_config(made, model__encoder="word", train__epochs=2)
    folder = train(config, tmp_path / "word").folder
    outcome, record = compared(folder, weak, made / "test.bmes", folder=tmp_path)
    assert outcome.err.startswith("note: neither model has a lexicon")
    scores = json.loads(hanlattice("evaluate", "--json", folder, made / "test.bmes").text)
    assert scores["overall"].items() <= record["overall"]["a"].items()


def test_offsets_in_json_give_the_labels_of_the_file(weak, lattice_folder, made, tmp_path):
    _, record = compared(weak, lattice_folder, made / "test.bmes", folder=tmp_path)
    gold = read_corpus(made / "test.bmes").sentences
    assert (
        record["different"]
        == sum(bool(sentence["differences"]) for sentence in record["sentences"])
        > 0
    )
    for sentence in record["sentences"]:
        assert sentence["text"] == gold[sentence["index"]].text
        spans = [Span(s["start"], s["end"], s["label"]) for s in sentence["spans"] if s["gold"]]
        assert tuple(spans) == gold[sentence["index"]].spans


def test_the_other_way_round(weak, lattice_folder, made, tmp_path):
    first = compared(weak, lattice_folder, made / "test.bmes", folder=tmp_path)[1]
    second = compared(lattice_folder, weak, made / "test.bmes", folder=tmp_path)[1]
    assert first["overall"]["a"] == second["overall"]["b"]
    assert first["overall"]["only_a"] == second["overall"]["only_b"]
    assert first["lexicon"].startswith("that of B")
    # Only A has a lexicon.
    assert second["lexicon"].startswith("that of A")
    assert first["p_value"] == second["p_value"]


def test_a_model_against_itself(lattice_folder, made, tmp_path):
    outcome, record = compared(lattice_folder, lattice_folder, made / "test.bmes", folder=tmp_path)
    assert (record["different"], record["p_value"], record["overall"]["only_a"]) == (0, 1.0, 0)
    assert "the two differ in 0 sentences" in outcome.text
    assert "Sentence" not in outcome.text


def test_how_many_sentences_are_shown(weak, lattice_folder, made, tmp_path):
    given = ["mistakes", weak, lattice_folder, made / "test.bmes", "--out", tmp_path / "report.md"]
    for count in (0, 2):
        shown = hanlattice(*given, "--sentences", str(count))
        report = (tmp_path / "report.md").read_text("utf-8")
        for text in (shown.text, report):
            assert sum(line.startswith("gold ") for line in text.splitlines()) == count
    assert report.startswith("# What two models get differently\n")
    assert "| LOC |" in report


def test_colours_on_a_terminal(weak, lattice_folder, made, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = hanlattice("mistakes", weak, lattice_folder, made / "test.bmes").text.splitlines()
    assert any(line.startswith("gold ") and "\x1b[1;36m[" in line for line in lines)
    assert any(line.startswith("B    ") and "\x1b[32m[" in line for line in lines)


def test_without_a_lexicon_and_without_the_training_file(weak, char_folder, made, tmp_path):
    moved = shutil.copytree(weak, tmp_path / "weak")
    outcome, record = compared(moved, char_folder, made / "test.bmes", folder=tmp_path)
    assert "note: neither model has a lexicon" in outcome.err
    assert record["coverage"] == []
    assert record["breakdowns"].keys() == {"type", "length", "training"}
    (tmp_path / "words.txt").write_text("南湖 3 ns\n龙泉寺 2 ns\n", "utf-8")
    for words in (tmp_path / "words.txt", made / "words.bin"):
        outcome, record = compared(
            moved, char_folder, made / "test.bmes", "--lexicon", words, folder=tmp_path
        )
        assert outcome.err == ""
        assert {"lexicon", "borders"} <= record["breakdowns"].keys()
        assert 0 < record["coverage"][1]["known"] < record["coverage"][1]["entities"]


def test_models_of_different_labels_and_files(other, lattice_folder, made, tmp_path):
    outcome, record = compared(lattice_folder, other, made / "test.bmes", folder=tmp_path)
    assert "note: labels that A knows and B does not: LOC, PER" in outcome.err
    assert "note: labels that B knows and A does not: LOC.NAM, PER.NAM" in outcome.err
    assert "note: A and B were trained on different sentences" in outcome.err
    # A quarter of 40 sentences was held out.
    assert record["train"].endswith("of B, 30 sentences")
    assert {row["name"] for row in record["breakdowns"]["type"]} >= {"LOC", "PER"}
    assert record["notes"] == [line.removeprefix("note: ") for line in outcome.err.splitlines()]


def test_training_files_that_are_gone_or_changed(other, made, tmp_path):
    away = Path(shutil.copytree(other.parent, tmp_path / "away")) / "model"
    file = other.parent / "train.bmes"
    content = file.read_bytes()
    try:
        write_columns(file, sentences(8, 6))
        outcome, record = compared(away, away, made / "test.bmes", folder=tmp_path)
        assert "train.bmes has changed since B was trained on it" in outcome.err
        file.unlink()
        outcome, record = compared(away, away, made / "test.bmes", folder=tmp_path)
        assert "note: no breakdown by what was seen in training" in outcome.err
        assert "cannot read: there is no such file" in outcome.err
        assert record["repeated"] is None
        outcome, record = compared(
            away, away, made / "test.bmes", "--train", made / "test.bmes", folder=tmp_path
        )
        assert record["repeated"] == 30
        assert [row["name"] for row in record["breakdowns"]["training"] if row["gold"]] == ["seen"]
    finally:
        file.write_bytes(content)


def test_odd_characters_do_not_reach_the_terminal(weak, char_folder, tmp_path):
    odd = "王小明在\x1b[31m南湖[/]\ud800`|"
    record = {"text": odd, "spans": [{"start": 0, "end": 3, "label": "[b]PER"}]}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n", "utf-8")
    outcome, made = compared(
        weak, char_folder, tmp_path / "a.jsonl", "-o", tmp_path / "r.md", folder=tmp_path
    )
    assert made["sentences"][0]["text"] == odd
    assert "\x1b" not in outcome.text
    assert "[b]PER" in outcome.text
    assert (tmp_path / "r.md").read_bytes().decode("utf-8")


def test_what_is_wrong_is_one_line(weak, char_folder, made, tmp_path):
    (tmp_path / "empty.bmes").touch()
    (tmp_path / "raw.txt").write_text("王小明去了南湖\n", "utf-8")
    (tmp_path / "raw.jsonl").write_text('{"text": "王小明去了南湖"}\n', "utf-8")
    (tmp_path / "latin.bmes").write_bytes(b"\xff\tO\n")
    test = made / "test.bmes"
    both = (weak, char_folder)
    for file, said in (
        ("empty.bmes", "the corpus is empty"),
        ("raw.txt", "a column is missing"),
        ("raw.jsonl", 'expected a list "spans"'),
        ("latin.bmes", "not UTF-8"),
        ("none.bmes", "cannot read: there is no such file"),
    ):
        hanlattice("mistakes", *both, tmp_path / file).refused(file, said)
    hanlattice("mistakes", *both, test, "--train", tmp_path / "raw.txt").refused(
        "raw.txt", "a column is missing"
    )
    hanlattice("mistakes", weak, tmp_path / "none", test).refused("none")
    hanlattice("mistakes", tmp_path, weak, test).refused(str(tmp_path))
    hanlattice("mistakes", *both, test, "--lexicon", tmp_path / "none").refused("none: cannot read")
    hanlattice("mistakes", *both, test, "--lexicon", tmp_path / "empty.bmes").refused(
        "no word of two characters"
    )
    hanlattice("mistakes", *both, test, "--format", "xml").refused(
        "no corpus format is called 'xml'"
    )
    hanlattice("mistakes", *both, test, "--device", "gpu").refused("no device is called 'gpu'")
    assert hanlattice("mistakes", *both, test, "--sentences", "-1").code == 2


def test_nothing_is_overwritten_that_is_read(weak, char_folder, made, tmp_path):
    test = Path(shutil.copy(made / "test.bmes", tmp_path))
    (tmp_path / "words.txt").write_text("南湖\n", "utf-8")
    given = ["mistakes", weak, char_folder, test, "--lexicon", tmp_path / "words.txt"]
    for file in (test, tmp_path / "words.txt", made / "train.bmes", weak / "README.md"):
        before = file.read_bytes()
        for option in ("--out", "--json"):
            hanlattice(*given, option, file).refused("one of the files to read")
        assert file.read_bytes() == before
    hanlattice(*given, "--out", tmp_path).refused("it is a folder, not a file")
    hanlattice(*given, "--out", tmp_path / "x", "--json", tmp_path / "x").refused(
        "are the same file"
    )
    assert not (tmp_path / "x").exists()


def test_a_training_file_of_a_download_is_not_overwritten_either(made, weak, tmp_path, monkeypatch):
    monkeypatch.setenv("HANLATTICE_CACHE", str(tmp_path))
    (tmp_path / "msra").mkdir()
    for part in ("train", "test"):
        shutil.copy(made / f"{part}.bmes", tmp_path / "msra")
    config = made_config(
        made, model__encoder="char", train__epochs=1, data__train="@msra/train.bmes"
    )
    folder = train(config, tmp_path / "model").folder
    file = tmp_path / "msra" / "train.bmes"
    given = ["mistakes", folder, weak, made / "test.bmes", "--json"]
    before = file.read_bytes()
    hanlattice(*given, file).refused("one of the files to read")
    assert file.read_bytes() == before
    file.unlink()
    outcome = hanlattice(*given, tmp_path / "all.json")
    assert outcome.code == 0, outcome.err


def test_a_file_of_segmenters_whose_suffix_says_nothing(weak, made, tmp_path):
    config = make_config(cutting_tree(made, tmp_path))
    cutter = write_untrained(
        tmp_path / "model", config, [in_words(sentence) for sentence in sentences(9, 3)]
    )
    (tmp_path / "a.txt").write_bytes((tmp_path / "test.seg").read_bytes())
    (tmp_path / "b.txt").write_bytes((made / "test.bmes").read_bytes())
    _, plain = compared(
        cutter, cutter, tmp_path / "a.txt", "--train", tmp_path / "a.txt", folder=tmp_path
    )
    _, suffixed = compared(
        cutter, cutter, tmp_path / "test.seg", "--train", tmp_path / "test.seg", folder=tmp_path
    )
    del plain["file"], plain["train"], suffixed["file"], suffixed["train"]
    assert plain == suffixed
    outcome = hanlattice("mistakes", weak, cutter, tmp_path / "a.txt")
    # The models read different formats, so the file is read as columns.
    outcome.refused("a.txt")


# ---- --lexicon: a dictionary or a vector file


@pytest.mark.parametrize(
    "content",
    [
        "南京市\n长江\n大\n",
        "南京市 12 ns\n长江 7 n\n大 9 a\n",
        "长江\t0.1 0.2 0.3 0.4\n南京市\tx\n",
        "12306 9\n南京市 5\n长江 3\n",
        "iPhone 4 3\n南京市 5\n长江 3\n",
        "2 3\n南京市 1 2 3\n长江 1 2 3\n",
        "南京市 1 2 3\n长江 1 2 3\n",
        "\ufeff南京市 1 2 3\n长江 1 2 3\n",
    ],
)
def test_words_of_a_text_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "words").write_text(content, "utf-8")
    lexicon, notices = read_lexicon(tmp_path / "words")
    assert {"南京市", "长江"} <= set(lexicon) <= {"南京市", "长江", "12306", "iPhone"}
    assert notices == ()


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("width", [1, 8])
def test_words_of_vectors(tmp_path: Path, binary: bool, width: int) -> None:
    rows = np.random.default_rng(0).normal(size=(3, width)).astype(np.float32)
    write_vectors(tmp_path / "v", Vectors(("大", "南京市", "长江"), rows), binary=binary)
    assert list(read_lexicon(tmp_path / "v")[0]) == ["南京市", "长江"]


def test_notices_of_vectors_are_passed_on(tmp_path: Path) -> None:
    (tmp_path / "v").write_text("2 3\n南京市 1 2 3\n长江 1 x 3\n", "utf-8")
    lexicon, notices = read_lexicon(tmp_path / "v")
    assert list(lexicon) == ["南京市"]
    assert "skipped 1 broken rows" in notices[0]


def test_a_file_without_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read: there is no such file"):
        read_lexicon(tmp_path / "nowhere")
    for content in (b"", "大\n小\n".encode()):
        (tmp_path / "words").write_bytes(content)
        with pytest.raises(InputError, match="no word of two characters or more"):
            read_lexicon(tmp_path / "words")
    (tmp_path / "words").write_bytes("南京\n".encode() + b"\xff\xfe\n")
    with pytest.raises(InputError, match="words:2: not UTF-8"):
        read_lexicon(tmp_path / "words")
