"""`hanlattice evaluate`: a model against a labelled file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rjieba

from hanlattice.config import make_config
from hanlattice.data.corpus import read_corpus
from hanlattice.data.formats.columns import write_columns
from hanlattice.data.formats.jsonl import write_jsonl
from hanlattice.data.formats.segmented import write_segmented
from hanlattice.evaluation.ner import score
from hanlattice.predict import load
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.training.loop import train
from tests.helpers.command import hanlattice
from tests.helpers.cutting import cutting_tree, in_words
from tests.helpers.made import made_config, sentences
from tests.helpers.untrained import in_twos, write_untrained


def test_the_test_set_again_gives_the_scores_of_training(lattice_folder, made):
    shown = hanlattice("evaluate", lattice_folder, made / "test.bmes")
    assert (shown.code, shown.err) == (0, "")
    assert "30 sentences" in " ".join(shown.text.split())
    assert all(label in shown.text for label in ("all", "PER", "LOC"))
    result = json.loads(hanlattice("evaluate", "--json", lattice_folder, made / "test.bmes").text)
    assert result == json.loads(hanlattice("info", "--json", lattice_folder).text)["scores"]["test"]


def test_every_format_gives_the_same(lattice_folder, tmp_path):
    given_sentences = sentences(12, 8)
    write_columns(tmp_path / "a.bio", given_sentences, "BIO")
    write_columns(tmp_path / "a.bmes", given_sentences, "BMES")
    write_jsonl(tmp_path / "a.jsonl", given_sentences)
    write_jsonl(tmp_path / "a.other", given_sentences)
    result = [
        json.loads(hanlattice("evaluate", "--json", lattice_folder, tmp_path / name, *more).text)
        for name, more in (
            ("a.bio", []),
            ("a.bmes", []),
            ("a.jsonl", []),
            ("a.other", ["--format", "jsonl"]),
        )
    ]
    assert result[0]["overall"]["gold"] == sum(len(s.spans or ()) for s in given_sentences)
    assert all(item == result[0] for item in result)


def test_loose_counts_tags(lattice_folder, made, tmp_path):
    strict, loose = (
        json.loads(hanlattice("evaluate", "--json", *more, lattice_folder, made / "test.bmes").text)
        for more in ([], ["--loose"])
    )
    assert loose["overall"]["correct"] <= strict["overall"]["gold"]
    assert loose["overall"]["f1"] > 0.9
    assert (
        "as the original code does"
        in hanlattice("evaluate", "--loose", lattice_folder, made / "test.bmes").text
    )
    write_jsonl(tmp_path / "a.jsonl", sentences(3, 1))
    hanlattice("evaluate", "--loose", lattice_folder, tmp_path / "a.jsonl").refused(
        "a.jsonl", "--loose counts tags"
    )


def test_a_label_that_the_model_does_not_know_is_missed(char_folder, tmp_path):
    write_columns(
        tmp_path / "a.bmes", [Sentence("王小明去了月球！", (Span(0, 3, "PER"), Span(5, 7, "MOON")))]
    )
    result = json.loads(hanlattice("evaluate", "--json", char_folder, tmp_path / "a.bmes").text)
    assert result["by_type"]["MOON"] == {
        "precision": 0,
        "recall": 0,
        "f1": 0,
        "gold": 1,
        "predicted": 0,
        "correct": 0,
    }


def test_notices_of_the_file_are_shown(char_folder, tmp_path):
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
    hanlattice("evaluate", char_folder, "nowhere.bmes").refused(
        "nowhere.bmes: cannot read: there is no such file"
    )
    hanlattice("evaluate", "--format", "xml", char_folder, made / "test.bmes").refused(
        "no corpus format is called 'xml'"
    )
    hanlattice("evaluate", "--scheme", "BILOU", char_folder, made / "test.bmes").refused(
        "no tag scheme is called 'BILOU'"
    )
    hanlattice("evaluate", "--device", "gpu", char_folder, made / "test.bmes").refused(
        "no device is called 'gpu'"
    )


# ---- parts of a file


def test_only_short_sentences_as_if_the_file_had_no_others(lattice_folder, tmp_path):
    given_sentences = sentences(40, 8)
    lengths = sorted(map(len, given_sentences))
    limit = lengths[20]
    short = [sentence for sentence in given_sentences if len(sentence) < limit]
    write_columns(tmp_path / "all.bmes", given_sentences)
    write_columns(tmp_path / "short.bmes", short)
    for more in ([], ["--loose"]):
        asked = ["--json", "--shorter-than", str(limit), *more]
        result = json.loads(
            hanlattice("evaluate", *asked, lattice_folder, tmp_path / "all.bmes").text
        )
        part = {"characters": limit, "sentences": len(short), "left_out": 40 - len(short)}
        assert 0 < len(short) < 40
        assert result.pop("shorter_than") == part
        assert result == json.loads(
            hanlattice("evaluate", "--json", *more, lattice_folder, tmp_path / "short.bmes").text
        )
    shown = hanlattice(
        "evaluate", lattice_folder, tmp_path / "all.bmes", "--shorter-than", limit
    ).text
    told = f"{len(short)} sentences of fewer than {limit} characters, {40 - len(short)} left out"
    assert told in " ".join(shown.split())


def test_a_limit_that_leaves_nothing(lattice_folder, made):
    shortest = min(map(len, read_corpus(made / "test.bmes").sentences))
    refused = hanlattice("evaluate", lattice_folder, made / "test.bmes", "--shorter-than", shortest)
    refused.refused(
        f"test.bmes: --shorter-than {shortest} leaves no sentence: "
        f"the shortest has {shortest} characters"
    )
    assert (
        hanlattice("evaluate", lattice_folder, made / "test.bmes", "--shorter-than", "0").code == 2
    )


def joined(parts: Sequence[Sentence]) -> Sentence:
    """Join several sentences into one."""
    first = list(accumulate(map(len, parts), initial=0))
    spans = [
        span.shifted(index)
        for part, index in zip(parts, first, strict=False)
        for span in part.spans or ()
    ]
    return Sentence("".join(part.text for part in parts), tuple(spans))


def count_spans(corpus: Sequence[Sentence], result: Sequence[Sequence[Span]]) -> dict[str, int]:
    """Count spans as seqeval does."""
    counts = {"gold": 0, "predicted": 0, "correct": 0}
    for sentence, spans in zip(corpus, result, strict=True):
        gold = [(span.label, span.start, span.end) for span in sentence.spans or ()]
        counts["gold"] += len(gold)
        counts["predicted"] += len(spans)
        counts["correct"] += sum((span.label, span.start, span.end) in gold for span in spans)
    return counts


@pytest.fixture(scope="module")
def long_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write sentences that are made of one to forty sentences."""
    made = sentences(120, 8)
    path = tmp_path_factory.mktemp("long") / "long.bmes"
    write_columns(path, [joined(made[:size]) for size in (1, 2, 40, 3, 1, 5, 8, 4, 6, 2, 12)])
    return path


def test_scores_by_length(lattice_folder, long_corpus, tmp_path):
    corpus = read_corpus(long_corpus).sentences
    outcome = hanlattice(
        "evaluate",
        lattice_folder,
        long_corpus,
        "--by-length",
        "--json",
        "--plot",
        tmp_path / "a.svg",
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")
    report = json.loads(outcome.text)
    rows = report.pop("by_sentence_length")
    assert report == json.loads(hanlattice("evaluate", lattice_folder, long_corpus, "--json").text)
    assert [row["characters"] for row in rows][-2:] == ["101–249", "250 or more"]
    tagger = load(lattice_folder)
    # `evaluate` does not divide long sentences.
    tagger.limit = 10_000
    borders = [(0, 20), (20, 40), (40, 60), (60, 80), (80, 100), (100, 249), (249, 10_000)]
    for row, (low, high) in zip(rows, borders, strict=True):
        part = [sentence for sentence in corpus if low < len(sentence) <= high]
        counts = count_spans(part, [tagger(sentence.text).spans for sentence in part])
        assert row["sentences"] == len(part)
        assert {key: row[key] for key in counts} == counts
    assert sum(row["sentences"] > 0 for row in rows) >= 5
    for key in ("gold", "predicted", "correct"):
        assert sum(row[key] for row in rows) == report["overall"][key]
    assert sum(row["sentences"] for row in rows) == len(corpus)
    assert (
        "By length of the sentence"
        in hanlattice("evaluate", lattice_folder, long_corpus, "--by-length").text
    )


def test_scores_by_length_are_loose_and_short_as_the_others(lattice_folder, long_corpus):
    asked = [
        "evaluate",
        lattice_folder,
        long_corpus,
        "--json",
        "--loose",
        "--shorter-than",
        "100",
        "--by-length",
    ]
    report = json.loads(hanlattice(*asked).text)
    for key in ("gold", "predicted", "correct"):
        assert sum(row[key] for row in report["by_sentence_length"]) == report["overall"][key] > 0
    assert [row["sentences"] for row in report["by_sentence_length"]][-2:] == [0, 0]


def test_scores_by_the_share_of_the_lexicon(lattice_folder, made, tmp_path):
    """A share of the lexicon scores as if the other words were removed; shares are nested."""
    file = made / "test.bmes"
    outcome = hanlattice(
        "evaluate", lattice_folder, file, "--by-lexicon", "--json", "--plot", tmp_path / "a.svg"
    )
    assert (outcome.code, outcome.err) == (0, "")
    report = json.loads(outcome.text)
    rows = report["by_lexicon_share"]
    corpus = read_corpus(file).sentences
    tagger = load(lattice_folder)
    total = len(tagger.lexicon)
    order = np.random.default_rng(0).permutation(total).tolist()
    words = list(tagger.lexicon)
    assert [row["share"] for row in rows] == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    for row in reversed(rows):
        for word, number in zip(words, order, strict=True):
            if number >= row["words"]:
                # A removed word stays removed, because shares are nested.
                tagger.lexicon.remove(word)
        assert len(tagger.lexicon) == row["words"] == round(row["share"] * total)
        assert row["places"] == sum(len(tagger.lexicon.match(sentence.text)) for sentence in corpus)
        counts = count_spans(
            corpus, [document.spans for document in tagger([s.text for s in corpus])]
        )
        assert {key: row[key] for key in counts} == counts
    assert len(tagger.lexicon) == 0
    assert {key: rows[-1][key] for key in report["overall"]} == report["overall"]
    assert rows[0]["places"] == 0 < rows[1]["places"] < rows[-1]["places"]
    shown = hanlattice("evaluate", lattice_folder, file, "--by-lexicon").text
    assert "By share of the lexicon" in shown
    assert "40 %" in shown


def test_both_sources_of_a_lattice_are_the_lexicon(made, tmp_path):
    config = made_config(made, model__sources="both", subwords__vectors=str(made / "subwords.vec"))
    folder = write_untrained(tmp_path / "model", config, sentences(30, 3))
    rows = json.loads(
        hanlattice("evaluate", folder, made / "test.bmes", "--by-lexicon", "--json").text
    )
    first, *_, last = rows["by_lexicon_share"]
    indexer = load(folder).model.indexer
    assert last["words"] == len(indexer.lexicon) + len(indexer.subwords)
    assert (first["words"], first["places"]) == (0, 0)


def test_breakdowns_that_cannot_be(char_folder, lattice_folder, made, tmp_path):
    file = made / "test.bmes"
    hanlattice("evaluate", char_folder, file, "--by-lexicon").refused(
        "--by-lexicon is for a model with a lexicon"
    )
    plot = ["--plot", tmp_path / "a.svg"]
    hanlattice("evaluate", lattice_folder, file, *plot).refused(
        "--plot draws --by-length or --by-lexicon"
    )
    hanlattice("evaluate", lattice_folder, file, "--by-length", "--plot", "a.pdf").refused(
        "a .svg or .png file"
    )
    (tmp_path / "a.svg").write_bytes(file.read_bytes())
    for read in (
        [tmp_path / "a.svg"],
        [file, "-l", tmp_path / "a.svg"],
        [file, "--train", tmp_path / "a.svg"],
    ):
        hanlattice("evaluate", lattice_folder, *read, "--by-length", *plot).refused(
            "one of the files to read"
        )


# ---- models that look at words


def untrained(made: Path, folder: Path, **changes: Any) -> Path:
    train = [in_twos(sentence) for sentence in sentences(30, 3)]
    return write_untrained(folder, made_config(made, **changes), train)


@pytest.fixture(scope="module")
def word_folder(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained(made, tmp_path_factory.mktemp("models") / "word", model__encoder="word")


def count_crossing(corpus: list[Sentence], edges: list[set[int]]) -> tuple[int, int]:
    """Return how many spans begin or end inside a word, and how many there are."""
    pairs = [
        (span, index)
        for sentence, index in zip(corpus, edges, strict=True)
        for span in sentence.spans or ()
    ]
    return sum(not {span.start, span.end} <= index for span, index in pairs), len(pairs)


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
        result = json.loads(outcome.text)
        assert outcome.err == note(crossing, gold)
        assert result["segmentation"] == {"crossing": crossing, "gold": gold}
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
    refused.refused(f"b.{suffix}: segment.by=gold needs the words of the text")
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


# ---- segmenters


@pytest.fixture(scope="module")
def cutter(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trained segmenter, next to its files."""
    work = tmp_path_factory.mktemp("cutter")
    return train(make_config(cutting_tree(made, work)), work / "model").folder


def test_a_segmenter_is_scored_as_at_the_end_of_its_training(cutter):
    outcome = hanlattice("evaluate", "--json", cutter, cutter.parent / "test.seg")
    assert (outcome.code, outcome.err) == (0, "")
    result = json.loads(outcome.text)
    kept = json.loads(hanlattice("info", "--json", cutter).text)["scores"]["test"]
    assert kept["segmentation"].pop("worst") == []
    assert result["segmentation"].pop("worst")
    assert result == kept
    assert result["segmentation"]["spans"] == result["overall"]


def test_the_tables_are_those_of_score(cutter, tmp_path):
    gold = cutter.parent / "test.seg"
    segmenter = load(cutter)
    with gold.open(encoding="utf-8") as lines:
        texts = ["".join(line.split()) for line in lines]
    cut = [" ".join(span.text for span in document.spans) for document in segmenter(texts)]
    (tmp_path / "found").write_text("\n".join(cut) + "\n", "utf-8")
    shown = hanlattice("evaluate", cutter, gold, "--words", "3").text
    scored = hanlattice(
        "score", gold, tmp_path / "found", "--train", cutter.parent / "train.seg", "--words", "3"
    ).text
    assert "- OOV (" in shown
    assert "missed most often: 3 of " in shown
    assert (
        shown[shown.index("┏") :] == scored[scored.index("┏") :]
    )  # below a title that may take two lines
    for part in ("dev", "test"):
        assert f"{part}, epoch" in hanlattice("info", cutter).text
    assert "bakeoff" in hanlattice("info", cutter).text


def test_the_words_of_training(made, tmp_path):
    tree = cutting_tree(made, tmp_path, train__epochs=1, model__hidden=4)
    folder = train(make_config(tree), tmp_path / "model").folder
    gold = tmp_path / "test.seg"
    own = json.loads(hanlattice("evaluate", "--json", folder, gold).text)["segmentation"]
    named = hanlattice("evaluate", "--json", "--train", gold, folder, gold)
    assert (named.code, named.err) == (0, "")
    assert json.loads(named.text)["segmentation"]["oov"]["gold"] == 0 < own["oov"]["gold"]
    (tmp_path / "train.seg").unlink()
    lost = hanlattice("evaluate", "--json", folder, gold)
    assert lost.code == 0
    assert lost.err.startswith(
        "note: no OOV and IV recall, since the words of training are not known ("
    )
    assert "train.seg: cannot read" in lost.err
    assert lost.err.endswith("; --train names them\n")
    assert json.loads(lost.text)["segmentation"]["oov"] is None


def test_a_segmenter_by_length_and_lexicon(made, tmp_path):
    gold = [*map(in_words, sentences(12, 5))]
    folder = write_untrained(tmp_path / "model", made_config(made, model__encoder="lattice"), gold)
    write_segmented(tmp_path / "gold.seg", gold)
    asked = ["--json", "--by-length", "--by-lexicon"]
    report = json.loads(hanlattice("evaluate", folder, tmp_path / "gold.seg", *asked).text)
    for key in ("gold", "predicted", "correct"):
        assert sum(row[key] for row in report["by_sentence_length"]) == report["overall"][key]
        assert report["by_lexicon_share"][-1][key] == report["overall"][key]


def test_what_a_segmenter_cannot_be_scored_on(cutter, char_folder, made):
    hanlattice("evaluate", cutter, made / "test.bmes").refused(f"{made / 'test.bmes'}: sentence 1")
    refused = hanlattice(
        "evaluate", "--train", made / "train.bmes", char_folder, made / "test.bmes"
    )
    refused.refused("--train is for a segmenter, and this model is none")
    for count in ("0", "20"):
        refused = hanlattice("evaluate", "--words", count, char_folder, made / "test.bmes")
        refused.refused("--words is for a segmenter, and this model is none")


def test_twenty_words_are_shown_and_one_sentence_is_one(cutter, tmp_path):
    texts = [
        f"{chr(0x4E00 + 3 * index)}{chr(0x4E01 + 3 * index)}{chr(0x4E02 + 3 * index)}"
        for index in range(60)
    ]
    # The model knows none of these words.
    (tmp_path / "a.seg").write_text(" ".join(texts), "utf-8")
    outcome = hanlattice("evaluate", cutter, tmp_path / "a.seg")
    assert (outcome.code, outcome.err) == (0, "")
    assert "missed most often: 20 of " in outcome.text
    assert outcome.text.partition("┏")[0].split()[-2:] == ["1", "sentence"]


def test_a_file_whose_suffix_says_nothing_is_like_what_the_model_learnt_from(
    cutter, lattice_folder, made, tmp_path
):
    gold = cutter.parent / "test.seg"
    (tmp_path / "test.txt").write_bytes(gold.read_bytes())
    (tmp_path / "train.txt").write_bytes((cutter.parent / "train.seg").read_bytes())
    expected = hanlattice("evaluate", "--json", cutter, gold).text
    outcome = hanlattice("evaluate", "--json", cutter, tmp_path / "test.txt")
    assert (outcome.code, outcome.err, outcome.text) == (0, "", expected)
    named = hanlattice(
        "evaluate", "--json", "--train", tmp_path / "train.txt", cutter, tmp_path / "test.txt"
    )
    assert (named.code, named.text) == (0, expected)
    refused = hanlattice("evaluate", "--format", "columns", cutter, tmp_path / "test.txt")
    # A named format counts more than the suffix.
    refused.refused("test.txt")
    (tmp_path / "columns.txt").write_bytes((made / "test.bmes").read_bytes())
    plain, suffixed = (
        hanlattice("evaluate", "--json", lattice_folder, file)
        for file in (tmp_path / "columns.txt", made / "test.bmes")
    )
    assert (plain.code, plain.text) == (0, suffixed.text)


def test_the_format_that_a_model_was_trained_with_counts(made, tmp_path):
    corpus = sentences(12, 8)
    config = made_config(made, model__encoder="char", data__format="jsonl")
    folder = write_untrained(tmp_path / "model", config, corpus)
    write_jsonl(tmp_path / "a.txt", corpus)
    write_columns(tmp_path / "a.bmes", corpus)
    result = [
        hanlattice("evaluate", "--json", folder, tmp_path / name) for name in ("a.txt", "a.bmes")
    ]
    assert [item.code for item in result] == [0, 0]
    assert result[0].text == result[1].text


# ---- a user's dictionary


def test_the_words_of_a_dictionary_count(lattice_folder, made, tmp_path):
    """Words of `--lexicon` count as in the library, and unusable words give a note."""
    (tmp_path / "words.txt").write_text("王小明在青\n王\n石镇 工\n", "utf-8")
    shown = hanlattice(
        "evaluate", "--json", lattice_folder, made / "test.bmes", "-l", tmp_path / "words.txt"
    )
    assert shown.code == 0
    note = "1 of 3 words has one character, and is passed over"
    assert shown.err == f"note: {tmp_path / 'words.txt'}: {note}\n"
    tagger = load(lattice_folder)
    corpus = read_corpus(made / "test.bmes").sentences
    tagger.lexicon.load(tmp_path / "words.txt")
    result = [document.spans for document in tagger([sentence.text for sentence in corpus])]
    assert (
        json.loads(shown.text)
        == score([sentence.spans or () for sentence in corpus], result).as_dict()
    )


def test_a_dictionary_is_trusted_as_much_as_it_is_said(tmp_path, made):
    """With all words of the gold text, a segmenter finds them."""
    gold = [*map(in_words, sentences(12, 5))]
    folder = write_untrained(tmp_path / "model", made_config(made, model__encoder="lattice"), gold)
    write_segmented(tmp_path / "gold.seg", gold)
    words = {item.text[word.start : word.end] for item in gold for word in item.spans or ()}
    (tmp_path / "words.txt").write_text("\n".join(words - set("".join(words))), "utf-8")
    own = ["evaluate", "--json", folder, tmp_path / "gold.seg", "-l", tmp_path / "words.txt"]
    plain, none, usual, most = (
        json.loads(hanlattice(*given).text)["overall"]["f1"]
        for given in (own[:4], [*own, "--trust", "0"], own, [*own, "--trust", "1000"])
    )
    assert max(plain, none) < usual <= most


def test_a_dictionary_needs_a_lexicon_and_trust_a_dictionary(
    char_folder, lattice_folder, made, tmp_path
):
    (tmp_path / "words.txt").write_text("青石镇\n", "utf-8")
    file = made / "test.bmes"
    hanlattice("evaluate", char_folder, file, "-l", tmp_path / "words.txt").refused(
        "this model has no lexicon"
    )
    hanlattice("evaluate", lattice_folder, file, "-l", tmp_path / "none.txt").refused(
        "none.txt", "no such file"
    )
    hanlattice("evaluate", lattice_folder, file, "--trust", "3").refused("--trust needs --lexicon")


def test_decoding_by_spans(lattice_folder, made):
    file = made / "test.bmes"
    outcome = hanlattice("evaluate", lattice_folder, file, "--decode", "spans")
    half = load(lattice_folder).model.scores["dev"]["overall"]["f1"] / 2
    assert f"30 sentences, decoded by spans above {half:.3f}" in " ".join(outcome.text.split())
    none = json.loads(hanlattice("evaluate", "--json", lattice_folder, file, "--decode", "1").text)[
        "overall"
    ]
    assert (none["predicted"], none["f1"]) == (0, 0)
    counts = [
        json.loads(
            hanlattice("evaluate", "--json", lattice_folder, file, "--decode", threshold).text
        )["overall"]["predicted"]
        for threshold in ("0.05", "0.5", "0.999")
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[2]
    reports = [
        json.loads(hanlattice("evaluate", "--json", lattice_folder, file, "--decode", way).text)
        for way in ("path", "0.5")
    ]
    assert [report.get("threshold") for report in reports] == [None, 0.5]
    tagger = load(lattice_folder, decode=0.5)
    gold = read_corpus(file).sentences
    result = [tagger(sentence.text).spans for sentence in gold]
    assert counts[1] == score([sentence.spans or () for sentence in gold], result).overall.predicted
    hanlattice("evaluate", lattice_folder, file, "--decode", "viterbi").refused(
        "decode must be path, spans, or a threshold"
    )
