"""How sure a tagger is: spans left out by their score, the most probable spans, the most probable readings."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hanlattice.errors import ModelError
from hanlattice.predict import Document, Predictor, load
from hanlattice.text.boundaries import pieces
from hanlattice.text.spans import Span
from tests.made import made_config
from tests.made import sentences as made_sentences
from tests.strategies import any_text
from tests.untrained import write_untrained

TEXT = "昨天李小明和王芳到云门山开会"
LABELS = ("LOC", "PER")


@pytest.fixture(scope="module")
def model(lattice_folder: Path) -> Predictor:
    return load(lattice_folder)


@pytest.fixture(scope="module")
def unsure(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """Untrained: every span is possible, and none is probable."""
    folder = tmp_path_factory.mktemp("models") / "untrained"
    return load(write_untrained(folder, made_config(made, model__encoder="char"), made_sentences(20, 3)))


@pytest.fixture(scope="module")
def words(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """An untrained model whose tags are of words."""
    folder = tmp_path_factory.mktemp("models") / "word"
    return load(write_untrained(folder, made_config(made, model__encoder="word"), made_sentences(20, 3)))


def every_span(tagger: Predictor, text: str) -> dict[tuple[int, int, str], float]:
    """All spans of a text that is one piece, each with its probability, asked for one by one."""
    model = tagger.model
    batch = model.indexer.read([text]).batch([0])
    with torch.no_grad():
        emissions = model.tagger.constrained_emissions(batch)
    spans = [Span(a, b, x) for a in range(len(text)) for b in range(a + 1, len(text) + 1) for x in LABELS]
    scores = model.tagger.crf.span_scores(emissions, batch.units, [spans])[0]
    return {(span.start, span.end, span.label): score for span, score in zip(spans, scores, strict=True)}


def keys(spans: tuple[Span, ...]) -> list[tuple[int, int, str]]:
    return [(span.start, span.end, span.label) for span in spans]


@pytest.mark.parametrize("name", ["model", "unsure"])
def test_candidates_are_the_best_of_all_spans(request, name):
    tagger = request.getfixturevalue(name)
    all_spans = every_span(tagger, TEXT)
    for n in (1, 4, 25):
        found = tagger.candidates(TEXT, n)
        assert len(found) == n
        assert [span.score for span in found] == pytest.approx(sorted(all_spans.values(), reverse=True)[:n], rel=1e-6)
        for span in found:
            assert span.score == pytest.approx(all_spans[span.start, span.end, span.label], rel=1e-6)
            assert span.text == TEXT[span.start : span.end]
    above = tagger.candidates(TEXT, 1000, min_score=0.02)
    assert set(keys(above)) == {key for key, score in all_spans.items() if score >= 0.02}


def test_sure_spans_are_the_first_candidates(model):
    document = next(model.pipe([TEXT], candidates=5))
    assert document.candidates is not None
    assert sorted(document.candidates[:3]) == sorted(document.spans)
    scores = {key: span.score for key, span in zip(keys(document.spans), document.spans, strict=True)}
    for span in document.candidates[:3]:
        assert span.score == pytest.approx(scores[span.start, span.end, span.label], rel=1e-9)
    assert document == Document(TEXT, model(TEXT).spans, document.candidates)


@settings(max_examples=25)
@given(texts=st.lists(any_text, max_size=4), n=st.integers(1, 6), limit=st.integers(1, 12))
@example(texts=["", "王小明去了南湖！"], n=3, limit=4)
def test_candidates_of_any_text(unsure: Predictor, texts: list[str], n: int, limit: int) -> None:
    """In a stream as alone; of a text in pieces, the best of all pieces."""
    short = Predictor(unsure.model, limit)
    for document, text in zip(short.pipe(texts, candidates=n), texts, strict=True):
        assert document.spans == short(text).spans
        assert document.candidates is not None
        apart = [
            span.shifted(start).score or 0.0
            for start, end in pieces(text, limit)
            for span in unsure.candidates(text[start:end], n)
        ]
        found = [span.score for span in document.candidates]
        assert found == pytest.approx(sorted(apart, reverse=True)[:n], abs=1e-5)
        for span in document.candidates:
            assert span.text == text[span.start : span.end] != ""
        assert [span.score for span in short.candidates(text, n)] == pytest.approx(found, abs=1e-5)


def test_candidates_of_a_word_model_begin_and_end_with_words(words):
    text = "昨天王小明到青石镇开会。"
    cuts = words.model.indexer.read([text]).segments
    assert cuts is not None
    found = words.candidates(text, 1000)
    assert len(found) == len(LABELS) * len(cuts.start) * (len(cuts.start) + 1) // 2
    assert {span.start for span in found} == set(cuts.start.tolist())
    assert {span.end for span in found} == set(cuts.end.tolist())


def test_min_score_leaves_out_and_changes_nothing_else(unsure):
    texts = [sentence.text for sentence in made_sentences(12, 4)]
    whole = unsure(texts)
    scores = sorted(span.score for document in whole for span in document.spans)
    bar = scores[len(scores) // 2]
    for found in (unsure(texts, min_score=bar), list(unsure.pipe(texts, 5, min_score=bar))):
        for document, before in zip(found, whole, strict=True):
            kept = tuple(span for span in before.spans if span.score >= bar - 1e-5)
            assert set(document.spans) <= set(kept)
            assert all(span.score >= bar for span in document.spans)
            assert len(kept) - len(document.spans) <= 1  # the last digit may move with the batch
        assert 0 < sum(len(document.spans) for document in found) < len(scores)
    assert unsure(texts[0], min_score=0) == whole[0]
    assert unsure(texts[0], min_score=1.0) == Document(texts[0], ())


def test_min_score_of_candidates_and_spans_at_once(model):
    sure, doubtful = (next(model.pipe([TEXT], candidates=40, min_score=bar)) for bar in (0.9, 0.0))
    assert sure.candidates is not None
    assert doubtful.candidates is not None
    assert sure.candidates == tuple(span for span in doubtful.candidates if span.score >= 0.9)
    assert len(doubtful.candidates) == 40


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
def test_a_min_score_that_is_no_probability(model, value):
    for ask in (
        lambda: model(TEXT, min_score=value),
        lambda: model([TEXT], min_score=value),
        lambda: model.pipe([TEXT], min_score=value),
        lambda: model.candidates(TEXT, min_score=value),
    ):
        with pytest.raises(ValueError, match="min_score must be from 0 to 1, not"):
            ask()


def test_numbers_that_make_no_sense(model):
    with pytest.raises(ValueError, match=r"min_score=0\.5 needs scores"):
        model.pipe([TEXT], scores=False, min_score=0.5)
    for ask in (lambda: model.candidates(TEXT, 0), lambda: model.readings(TEXT, 0)):
        with pytest.raises(ValueError, match="must be 1 or more, not 0"):
            ask()
    with pytest.raises(ValueError, match="must be 0 or more, not -1"):
        model.pipe([TEXT], candidates=-1)


@settings(max_examples=15)
@given(text=st.text("王小明去了南湖，3 ", max_size=4), limit=st.integers(1, 4))
@example(text="", limit=1)
@example(text="王小明", limit=2)
@example(text="王小 明", limit=4)
def test_readings_are_all_of_them(unsure: Predictor, text: str, limit: int) -> None:
    """Their probabilities sum to one, no two are alike, and a span is as probable as the readings that have it."""
    short = Predictor(unsure.model, limit)
    found = short.readings(text, 2000)
    scores = [document.score or 0.0 for document in found]
    assert sum(scores) == pytest.approx(1.0, abs=1e-6)
    assert scores == sorted(scores, reverse=True)
    assert len({tuple(keys(document.spans)) for document in found}) == len(found)
    assert keys(found[0].spans) == keys(short(text).spans)
    for span in short.candidates(text, 3):
        having = sum(score for document, score in zip(found, scores, strict=True) if span in document.spans)
        assert having == pytest.approx(span.score, abs=1e-6)


def test_readings_of_a_trained_model(model):
    best, second = model.readings(TEXT, 2)
    assert best.spans == model(TEXT).spans
    assert [span.text for span in best.spans] == ["李小明", "王芳", "云门山"]
    assert second.spans != best.spans
    assert 0 < second.score < best.score <= 1


def test_words_of_a_segmenter_cannot_be_left_out(segmenter):
    with pytest.raises(ModelError, match="the words of a segmenter cover the text"):
        segmenter("我爱南湖", min_score=0.5)
    with pytest.raises(ModelError, match="the words of a segmenter cover the text"):
        segmenter.pipe(["我爱南湖"], min_score=0.5)
    assert segmenter("我 爱", min_score=0.0).spans
    found = segmenter.candidates("我 爱南湖", 100)
    assert {(span.start, span.end) for span in found} == {(0, 1), (2, 3), (2, 4), (2, 5), (3, 4), (3, 5), (4, 5)}
    assert found[0].score == pytest.approx(1.0)
    assert sum(reading.score or 0.0 for reading in segmenter.readings("我 爱南湖", 100)) == pytest.approx(1.0)
    for text in ("3.14", "我 爱"):  # one way: a number is not cut, and no word has a blank in it
        assert [document.spans for document in segmenter.readings(text, 10)] == [segmenter(text).spans]


@pytest.fixture(scope="module")
def segmenter(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """Untrained: a model of words that cover the text."""
    from hanlattice.data.segmented import from_words

    config = made_config(made, model__encoder="char")
    sentences = [from_words(["我", "爱", "南湖"]), from_words(["今天", "天气", "很", "好"])]
    return load(write_untrained(tmp_path_factory.mktemp("models") / "segmenter", config, sentences))
