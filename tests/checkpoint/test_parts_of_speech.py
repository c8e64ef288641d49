"""A segmenter whose words have labels, in both backends, with a dictionary, in spaCy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hanlattice
from hanlattice.checkpoint.load import load_model, make_segmenter
from hanlattice.cli import app
from hanlattice.config import make_config
from hanlattice.data.corpus import read_corpus
from hanlattice.data.formats.columns import write_columns
from hanlattice.errors import InputError
from hanlattice.predict import Predictor
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.training.loop import train
from tests.helpers.cutting import in_words
from tests.helpers.made import made_tree, sentences


def labelled(sentence: Sentence) -> Sentence:
    """Label the words of a made sentence: names, w for marks, n or v by length for others."""
    names = {(span.start, span.end): span.label for span in sentence.spans or ()}
    words = []
    for word in in_words(sentence).spans or ():
        text = sentence.text[word.start : word.end]
        mark = "w" if not text.isalnum() else "v" if len(text) == 1 else "n"
        words.append(Span(word.start, word.end, names.get((word.start, word.end), mark)))
    return replace(sentence, words=tuple(words))


def corpus_file(path: Path, count: int, seed: int) -> str:
    write_columns(path, map(labelled, sentences(count, seed)))
    return str(path)


@pytest.fixture(scope="module")
def folder(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pos")
    files = {
        f"data__{part}": corpus_file(place / f"{part}.bmes", 60, seed)
        for seed, part in enumerate(("train", "dev", "test"))
    }
    small = {"data__learn": "words", "model__hidden": 16, "train__epochs": 6}
    return train(make_config(made_tree(made, **files, **small)), place / "model").folder


@pytest.fixture(scope="module")
def tagger(folder: Path) -> Predictor:
    return hanlattice.load(folder)


def test_words_cover_the_text_and_have_the_labels_of_the_corpus(tagger: Predictor) -> None:
    text = "王芳在 南湖工作。"
    spans = tagger(text).spans
    assert "".join(span.text for span in spans) == text.replace(" ", "")
    assert {span.label for span in spans} <= {"PER", "LOC", "n", "v", "w"}
    assert [(span.text, span.label) for span in spans][:3] == [
        ("王芳", "PER"),
        ("在", "v"),
        ("南湖", "LOC"),
    ]


def test_probabilities_of_labels_add_up(tagger: Predictor) -> None:
    """Of all words over one character, whatever their place and label, exactly one occurs."""
    text = "王芳在南湖"
    candidates = tagger.candidates(text, 1000)
    for at in range(len(text)):
        covering = [span.score or 0 for span in candidates if span.start <= at < span.end]
        assert sum(covering) == pytest.approx(1, abs=2e-3)


def test_both_backends_find_the_same(folder: Path) -> None:
    texts = [each.text for each in sentences(20, seed=9)]
    modules = Predictor(load_model(folder, modules=True))
    assert [doc.spans for doc in hanlattice.load(folder).pipe(texts)] == [
        doc.spans for doc in modules.pipe(texts)
    ]


def test_a_dictionary_word_is_kept_whole_with_any_label(folder: Path) -> None:
    tagger = hanlattice.load(folder)
    tagger.trust = 100.0
    tagger.lexicon.add("和到南湖")
    found = {span.text: span.label for span in tagger("王芳和到南湖开会").spans}
    assert "和到南湖" in found


def test_the_command_writes_labels_after_words(folder: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["segment", "-m", str(folder), "--format", "tagged", "王芳在 南湖"]
    )
    assert (result.exit_code, result.stdout) == (0, "王芳/PER 在/v 南湖/LOC\n")


def test_it_is_scored_by_words_and_by_labels(folder: Path, tmp_path: Path) -> None:
    """A label that it never saw makes a word wrong, and leaves its place right."""
    given = [labelled(each) for each in sentences(12, seed=4)]
    first = given[0].words or ()
    given[0] = replace(given[0], words=(replace(first[0], label="unheard"), *first[1:]))
    write_columns(tmp_path / "gold.bmes", given)
    result = CliRunner().invoke(
        app, ["evaluate", str(folder), str(tmp_path / "gold.bmes"), "--json"]
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    gold = sum(len(each.words or ()) for each in given)
    assert report["overall"]["gold"] == report["segmentation"]["spans"]["gold"] == gold
    assert report["segmentation"]["spans"]["correct"] > report["overall"]["correct"]


def test_other_models_can_cut_by_it(folder: Path) -> None:
    cuts = make_segmenter(str(folder))(["王芳在南湖"])
    assert (cuts.start[0], cuts.end[0]) == (0, 2)


def test_spacy_has_the_labels_as_tags(folder: Path) -> None:
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank(
        "zh",
        config={"nlp": {"tokenizer": {"@tokenizers": "hanlattice.words", "model": str(folder)}}},
    )
    doc = nlp("王芳在\n南湖")
    assert [(token.text, token.tag_) for token in doc] == [
        ("王芳", "PER"),
        ("在", "v"),
        ("\n", ""),
        ("南湖", "LOC"),
    ]


def test_a_corpus_without_words_is_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="sentence 1 is not cut into words: words leave a gap"
    ) as caught:
        read_corpus(made / "train.bmes", learn="words")
    assert caught.value.path == made / "train.bmes"


def test_segmented_lines_are_words_already(tmp_path: Path) -> None:
    (tmp_path / "a.seg").write_text("南京市 长江\n")
    assert (
        read_corpus(tmp_path / "a.seg", learn="words").sentences
        == read_corpus(tmp_path / "a.seg").sentences
    )
