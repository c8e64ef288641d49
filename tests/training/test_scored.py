"""What a finished segmenter says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hanlattice.config import make_config
from hanlattice.data.columns import write_columns
from hanlattice.data.corpus import read_corpus
from hanlattice.data.jsonl import write_jsonl
from hanlattice.errors import InputError
from hanlattice.evaluation.segmentation import score_segmentation, words_in
from hanlattice.models.decode import decode
from hanlattice.models.folder import load_model
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span
from hanlattice.training import scored
from hanlattice.training.corpora import read_corpora
from hanlattice.training.learnt import training_words
from hanlattice.training.loop import train
from tests.cutting import cutting_tree, in_words
from tests.made import sentences


def expected(folder: Path, sentences: Any, known: set[str]) -> dict[str, object]:
    model = load_model(folder)
    found = decode(model.tagger, model.indexer, model.indexer.examples(sentences))
    gold = [sentence.spans or () for sentence in sentences]
    return score_segmentation([sentence.text for sentence in sentences], gold, found, known).as_dict(words=0)


def test_dev_and_test_are_scored_against_what_was_not_held_out(made, tmp_path):
    tree = cutting_tree(made, tmp_path, data__dev="", data__holdout=0.25, train__epochs=1)
    events: list[dict[str, Any]] = []
    result = train(make_config(tree), tmp_path / "run", listen=events.append)
    corpora = read_corpora(make_config(tree).data)
    known = words_in(corpora.train)
    whole = words_in(read_corpus(tmp_path / "train.seg").sentences)
    assert known < whole
    assert result.scores["dev"]["segmentation"] == expected(result.folder, corpora.dev, known)
    assert result.scores["test"]["segmentation"] == expected(result.folder, corpora.test, known)
    assert result.scores["dev"]["segmentation"]["oov"]["gold"] > 0
    assert load_model(result.folder).scores == result.scores
    (epoch,) = [event for event in events if event["event"] == "epoch"]
    assert epoch["dev"] == result.scores["dev"]["overall"]
    notes: list[str] = []
    assert training_words(load_model(result.folder), notes) == known
    assert notes == []


def test_what_is_there_is_not_decoded_again(made, tmp_path, monkeypatch):
    config = make_config(cutting_tree(made, tmp_path, train__epochs=1, model__hidden=4))
    result = train(config, tmp_path / "run")
    monkeypatch.setattr(scored, "decode", None)
    corpora = read_corpora(config.data)
    assert scored.complete_scores(load_model(result.folder), corpora) == result.scores
    assert train(config, tmp_path / "run", resume=True).scores == result.scores


@pytest.mark.parametrize("part", ["dev", "test"])
def test_what_is_not_cut_into_words_is_told_before_training(made, tmp_path, part):
    bad = [in_words(sentences(1, 1)[0]), sentences(1, 1)[0]]
    write_columns(tmp_path / "bad.bmes", bad)
    tree = cutting_tree(made, tmp_path, **{f"data__{part}": str(tmp_path / "bad.bmes")})
    with pytest.raises(InputError, match=rf"bad\.bmes: a segmenter .* sentence 2 of {part} .* no word covers"):
        train(make_config(tree), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def spaced(sentence: Sentence) -> Sentence:
    """With a blank before every second word, which is a gold word of its own."""
    text, spans, words = "", [], []
    for at, span in enumerate(sentence.spans or ()):
        if at % 2:
            words.append(Span(len(text), len(text) + 1, "WORD"))
            text += " "
        spans.append(Span(len(text), len(text) + span.end - span.start, "WORD"))
        text += sentence.text[span.start : span.end]
    return Sentence(text, tuple(spans), (*words, *spans))


def test_white_space_in_the_corpus(made, tmp_path):
    """Also a sentence of nothing else, and softwords by gold words, which cover white space too."""
    path = tmp_path / "spaced.jsonl"
    blank = Sentence(" \u3000", (), (Span(0, 2, "WORD"),))
    write_jsonl(path, [blank, *(spaced(in_words(sentence)) for sentence in sentences(12, 3))])
    changes = {"model__softword": True, "segment__by": "gold", "train__epochs": 1, "train__batch_size": 3}
    tree = cutting_tree(made, tmp_path, **{f"data__{part}": str(path) for part in ("train", "dev", "test")}, **changes)
    scores = train(make_config(tree), tmp_path / "run").scores["test"]
    assert scores["overall"]["gold"] == scores["segmentation"]["bakeoff"]["gold"]


def test_a_section_that_is_not_used_may_name_what_is_not_here(made, tmp_path):
    tree = cutting_tree(made, tmp_path, train__epochs=1, words__vectors="no.bin", subwords__lexicon="no.txt")
    assert train(make_config(tree), tmp_path / "run").scores["epoch"] == 1
