"""`hanlattice evaluate`: a model against a labelled file."""

from __future__ import annotations

import json
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import rjieba

from hanlattice.data.columns import write_columns
from hanlattice.data.jsonl import write_jsonl
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span
from tests.cli.command import hanlattice
from tests.made import made_config, sentences
from tests.untrained import in_twos, write_untrained


def test_the_test_set_again_gives_the_scores_of_training(lattice_folder, made):
    shown = hanlattice("evaluate", lattice_folder, made / "test.bmes")
    assert (shown.code, shown.err) == (0, "")
    assert "30 sentences" in shown.text
    assert all(label in shown.text for label in ("all", "PER", "LOC"))
    found = json.loads(hanlattice("evaluate", "--json", lattice_folder, made / "test.bmes").text)
    assert found == json.loads(hanlattice("info", "--json", lattice_folder).text)["scores"]["test"]


def test_every_format_gives_the_same(lattice_folder, tmp_path):
    given_sentences = sentences(12, 8)
    write_columns(tmp_path / "a.bio", given_sentences, "BIO")
    write_columns(tmp_path / "a.bmes", given_sentences, "BMES")
    write_jsonl(tmp_path / "a.jsonl", given_sentences)
    write_jsonl(tmp_path / "a.other", given_sentences)
    found = [
        json.loads(hanlattice("evaluate", "--json", lattice_folder, tmp_path / name, *more).text)
        for name, more in (("a.bio", []), ("a.bmes", []), ("a.jsonl", []), ("a.other", ["--format", "jsonl"]))
    ]
    assert found[0]["overall"]["gold"] == sum(len(s.spans or ()) for s in given_sentences)
    assert all(each == found[0] for each in found)


def test_loose_counts_tags(lattice_folder, made, tmp_path):
    strict, loose = (
        json.loads(hanlattice("evaluate", "--json", *more, lattice_folder, made / "test.bmes").text)
        for more in ([], ["--loose"])
    )
    assert loose["overall"]["correct"] <= strict["overall"]["gold"]
    assert loose["overall"]["f1"] > 0.9
    assert "as the original code does" in hanlattice("evaluate", "--loose", lattice_folder, made / "test.bmes").text
    write_jsonl(tmp_path / "a.jsonl", sentences(3, 1))
    hanlattice("evaluate", "--loose", lattice_folder, tmp_path / "a.jsonl").refused("a.jsonl", "--loose counts tags")


def test_a_label_that_the_model_does_not_know_is_missed(char_folder, tmp_path):
    write_columns(tmp_path / "a.bmes", [Sentence("王小明去了月球！", (Span(0, 3, "PER"), Span(5, 7, "MOON")))])
    found = json.loads(hanlattice("evaluate", "--json", char_folder, tmp_path / "a.bmes").text)
    assert found["by_type"]["MOON"] == {"precision": 0, "recall": 0, "f1": 0, "gold": 1, "predicted": 0, "correct": 0}


def test_notices_of_the_file_are_told(char_folder, tmp_path):
    (tmp_path / "a.bio").write_text("王\tI-PER\n明\tI-PER\n去\tO\n", "utf-8")
    outcome = hanlattice("evaluate", char_folder, tmp_path / "a.bio")
    assert outcome.code == 0
    assert outcome.err.startswith("note: ")
    assert "IOB1" in outcome.err


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["corpus is empty"]),
        ("王\tB-PER\n明\n", [":2: ", "a column is missing"]),
        ("王\tB-PER\n明\tZ-PER\n", [":2: ", "'Z-PER'"]),
    ],
)
def test_a_bad_file_is_refused_with_its_line(char_folder, tmp_path, content, parts):
    (tmp_path / "a.bmes").write_text(content, "utf-8")
    hanlattice("evaluate", char_folder, tmp_path / "a.bmes").refused("a.bmes", *parts)


def test_options_that_do_not_exist(char_folder, made):
    hanlattice("evaluate", char_folder, "nowhere.bmes").refused("nowhere.bmes: cannot read: there is no such file")
    hanlattice("evaluate", "--format", "xml", char_folder, made / "test.bmes").refused(
        "no corpus format is called 'xml'"
    )
    hanlattice("evaluate", "--scheme", "BILOU", char_folder, made / "test.bmes").refused(
        "no tag scheme is called 'BILOU'"
    )
    hanlattice("evaluate", "--device", "gpu", char_folder, made / "test.bmes").refused("no device is called 'gpu'")


# ---- models that look at words


def untrained(made: Path, folder: Path, **changes: Any) -> Path:
    train = [in_twos(sentence) for sentence in sentences(30, 3)]
    return write_untrained(folder, made_config(made, **changes), train)


@pytest.fixture(scope="module")
def word_folder(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained(made, tmp_path_factory.mktemp("models") / "word", model__encoder="word")


def count_crossing(corpus: list[Sentence], edges: list[set[int]]) -> tuple[int, int]:
    """(those that do not begin and end at an edge, all)"""
    pairs = [(span, at) for sentence, at in zip(corpus, edges, strict=True) for span in sentence.spans or ()]
    return sum(not {span.start, span.end} <= at for span, at in pairs), len(pairs)


def note(crossing: int, gold: int) -> str:
    most = 100 * (gold - crossing) / gold
    return (
        f"note: segmentation: {crossing} of the {gold} gold spans begin or end inside a word: "
        f"they count as missed (recall is at most {most:.2f})\n"
    )


def test_a_word_model_says_what_its_segmenter_hides(word_folder, tmp_path):
    corpus = sentences(60, 8)
    write_columns(tmp_path / "a.bmes", corpus)
    edges = [{0, *accumulate(map(len, rjieba.cut(sentence.text)))} for sentence in corpus]
    crossing, gold = count_crossing(corpus, edges)
    assert 0 < crossing < gold
    shown = hanlattice("evaluate", word_folder, tmp_path / "a.bmes")
    assert (shown.code, shown.err) == (0, note(crossing, gold))
    for more in ([], ["--loose"]):
        outcome = hanlattice("evaluate", "--json", *more, word_folder, tmp_path / "a.bmes")
        found = json.loads(outcome.text)
        assert outcome.err == note(crossing, gold)
        assert found["segmentation"] == {"crossing": crossing, "gold": gold}
    strict = json.loads(hanlattice("evaluate", "--json", word_folder, tmp_path / "a.bmes").text)
    assert strict["overall"]["gold"] == gold
    assert strict["overall"]["correct"] <= gold - crossing


@pytest.mark.parametrize("suffix", ["bmes", "jsonl"])
def test_a_model_of_gold_words_reads_files_that_have_them(made, tmp_path, suffix):
    folder = untrained(made, tmp_path / "gold", model__encoder="word", segment__by="gold")
    corpus = [in_twos(sentence) for sentence in sentences(20, 9)]
    write = {"bmes": write_columns, "jsonl": write_jsonl}[suffix]
    write(tmp_path / f"a.{suffix}", corpus)
    edges = [{*range(0, len(sentence), 2), len(sentence)} for sentence in corpus]
    outcome = hanlattice("evaluate", "--json", folder, tmp_path / f"a.{suffix}")
    crossing, gold = count_crossing(corpus, edges)
    assert (outcome.code, outcome.err) == (0, note(crossing, gold))
    assert json.loads(outcome.text)["segmentation"] == {"crossing": crossing, "gold": gold}
    write(tmp_path / f"b.{suffix}", sentences(3, 9))
    refused = hanlattice("evaluate", folder, tmp_path / f"b.{suffix}")
    refused.refused("segment.by=gold wants the words of the text")
    assert refused.err.count("\n") == 1


def test_softwords_hide_nothing(made, tmp_path):
    folder = untrained(made, tmp_path / "soft", model__encoder="char", model__softword=True)
    outcome = hanlattice("evaluate", "--json", folder, made / "test.bmes")
    assert (outcome.code, outcome.err) == (0, "")
    assert "segmentation" not in json.loads(outcome.text)


def test_a_file_without_spans_hides_none(word_folder, tmp_path):
    write_columns(tmp_path / "a.bmes", [Sentence("今天天气很好", ())])
    outcome = hanlattice("evaluate", "--json", word_folder, tmp_path / "a.bmes")
    assert json.loads(outcome.text)["segmentation"] == {"crossing": 0, "gold": 0}
    assert outcome.err == ""


def test_without_rjieba_it_says_how_to_install_it(word_folder, made, monkeypatch):
    monkeypatch.setitem(sys.modules, "rjieba", None)
    refused = hanlattice("evaluate", word_folder, made / "test.bmes")
    refused.refused("rjieba is not installed", "pip install 'hanlattice[segment]'")
    assert refused.err.count("\n") == 1
