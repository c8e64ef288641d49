"""Decoding many sentences: the same spans and scores as one by one, whatever the batches."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rjieba
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hanlattice.checkpoint.folder import Model
from hanlattice.checkpoint.load import load_model
from hanlattice.inference import decode as module
from hanlattice.inference.decode import Decoded, decode, find_candidates, find_spans, make_spans
from hanlattice.inference.span_search import span_scores
from hanlattice.text.boundaries import CUT, FREE, SPACED, name_gaps
from hanlattice.text.normalize import fold
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.tags import FlatSpans, tags_to_spans
from hanlattice.training.loop import train
from tests.helpers.made import made_config
from tests.helpers.strategies import shares_folder

texts = st.lists(
    st.sampled_from(["王小明", "青石镇", "在", "工作。", "３", "\n", " ", "\ud800"]), max_size=8
).map("".join)


OTHERS: dict[str, dict[str, Any]] = {
    "word": {"model__encoder": "word", "model__char_features": "lstm", "model__bichar": True},
    "softword": {"model__encoder": "char", "model__softword": True, "softwords__pos": True},
}


@pytest.fixture(scope="module", params=["lattice", *OTHERS])
def folder(
    request: pytest.FixtureRequest,
    made: Path,
    lattice_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    if request.param in OTHERS:
        config = made_config(made, train__epochs=6, **OTHERS[request.param])
        return train(config, tmp_path_factory.mktemp("models") / request.param).folder
    return lattice_folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load_model(folder)


def by_hand(model: Model, text: str) -> list[Span]:
    """One sentence, one tag after the other; of a word model, each span from the edges of the
    segmenter's words.
    """
    worded = model.indexer.words is not None
    if not text.strip() and not (worded and text):
        return []
    batch = model.tagger.batch(model.indexer.read([text]), np.array([0]))
    best = model.tagger.crf.decode(model.tagger.constrained_emissions(batch), batch.units)
    tags = [model.indexer.tags[tag] for tag in best[0].tolist()]
    spans = tags_to_spans(tags, model.indexer.scheme)
    with torch.no_grad():
        emissions = model.tagger.emissions(batch)
    starts = [at for at, character in enumerate(text) if not character.isspace()]
    if not worded:
        gaps = [int(name_gaps(text)[at]) for at in starts]
        for number, tag in enumerate(model.indexer.tags):
            for at, (gap, after) in enumerate(zip(gaps, [*gaps[1:], FREE], strict=True)):
                if (gap == CUT and tag[0] in "ME") or (
                    (gap == SPACED) != (after == SPACED) and tag[0] == "M"
                ):
                    emissions[:, at, number] = -1e4
    (scores,) = span_scores(model.tagger.crf, emissions, batch.units, [spans])
    ends = [at + 1 for at in starts]
    if worded:
        edges = [0, *accumulate(map(len, rjieba.cut(fold(text))))]
        starts = edges[:-1]
        ends = edges[1:]
    pairs = zip(spans, scores, strict=True)
    return [
        Span(starts[span.start], ends[span.end - 1], span.label, score) for span, score in pairs
    ]


@settings(shares_folder, max_examples=15)
@given(
    given_texts=st.lists(texts, max_size=7), most=st.integers(1, 3), characters=st.integers(1, 60)
)
def test_any_batches_give_what_single_sentences_give(
    model: Model, given_texts: list[str], most: int, characters: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(module.BOUNDS, "cpu", (most, characters))
        found = decode(model.tagger, model.indexer, model.indexer.read(given_texts), scores=True)
        plain = decode(model.tagger, model.indexer, model.indexer.read(given_texts))
        flat = find_spans(model.tagger, model.indexer, model.indexer.read(given_texts), scores=True)
    expected = [by_hand(model, text) for text in given_texts]
    assert found == plain == expected
    assert [s.score for row in found for s in row] == pytest.approx(
        [s.score for row in expected for s in row], abs=1e-5
    )
    assert flat.scores.tolist() == [span.score for row in found for span in row]
    assert flat.spans.text.tolist() == [at for at, row in enumerate(found) for _ in row]
    assert all(span.score is None for row in plain for span in row)


def test_gold_tags_do_not_matter_and_spans_are_found(model: Model) -> None:
    sentences = [Sentence(text, ()) for text in ("王小明在青石镇工作。", "", "青石镇")]
    found = decode(model.tagger, model.indexer, model.indexer.examples(sentences))
    assert found == [by_hand(model, sentence.text) for sentence in sentences]
    assert len(found[0]) == 2
    assert decode(model.tagger, model.indexer, model.indexer.examples([])) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("most", [2, 1024])
def test_a_gpu_finds_the_same(model: Model, folder: Path, most: int, monkeypatch) -> None:
    monkeypatch.setitem(module.BOUNDS, "cuda", (most, 65536))
    there = load_model(folder, "cuda")
    given_texts = ["王小明在青石镇工作。" * n for n in (1, 3, 0, 2, 7)] + ["", "今天天气很好"]
    found = decode(there.tagger, there.indexer, there.indexer.read(given_texts), scores=True)
    expected = [by_hand(model, text) for text in given_texts]
    assert found == expected
    assert [s.score for row in found for s in row] == pytest.approx(
        [s.score for row in expected for s in row], abs=1e-2
    )


def best_by_hand(model: Model, text: str, threshold: float) -> float:
    """The largest sum of score − bar of spans without overlap, of all that are likelier than the
    bar.
    """
    examples = model.indexer.read([text])
    _, found = find_candidates(model.tagger, model.indexer, examples, 1000, threshold)
    (spans,) = make_spans(found, [text], model.indexer.tag_ids.labels)

    def best(start: int) -> float:
        after = [span for span in spans if span.start >= start]
        return max((0.0, *((span.score or 0.0) - threshold + best(span.end) for span in after)))

    return best(0)


@settings(shares_folder, max_examples=15)
@given(
    given_texts=st.lists(texts, max_size=7),
    most=st.integers(1, 3),
    threshold=st.sampled_from([0.05, 0.2, 0.45, 0.7]),
)
def test_the_best_spans_of_any_batches(
    model: Model, given_texts: list[str], most: int, threshold: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(module.BOUNDS, "cpu", (most, 60))
        found = decode(
            model.tagger,
            model.indexer,
            model.indexer.read(given_texts),
            scores=True,
            threshold=threshold,
        )
        plain = decode(
            model.tagger, model.indexer, model.indexer.read(given_texts), threshold=threshold
        )
    assert plain == found
    assert all(span.score is None for row in plain for span in row)
    for text, row in zip(given_texts, found, strict=True):
        assert all(left.end <= right.start for left, right in pairwise(row))
        gains = [(span.score or 0.0) - threshold for span in row]
        assert min(gains, default=1.0) > 0
        assert sum(gains) == pytest.approx(best_by_hand(model, text, threshold), abs=1e-5)
        sure = [span for span in by_hand(model, text) if (span.score or 0.0) > max(0.55, threshold)]
        assert threshold < 0.45 or set(sure) <= set(row)  # nothing that overlaps it can be likelier


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_finds_the_same_best_spans(model: Model, folder: Path) -> None:
    there = load_model(folder, "cuda")
    given_texts = ["王小明在青石镇工作。" * n for n in (1, 3, 0, 2, 7)] + [
        "",
        "今天天气很好",
        "石镇小明",
    ]
    for threshold in (0.1, 0.3, 0.5):
        rows = [
            decode(
                each.tagger,
                each.indexer,
                each.indexer.read(given_texts),
                scores=True,
                threshold=threshold,
            )
            for each in (there, model)
        ]
        assert rows[0] == rows[1]
        scores = [[span.score for row in each for span in row] for each in rows]
        assert scores[0] == pytest.approx(scores[1], abs=1e-2)


def test_a_span_that_is_just_probable_enough_is_kept():
    starts = np.arange(3)
    spans = FlatSpans(np.zeros(3, dtype=np.int64), starts, starts + 1, starts)
    found = Decoded(spans, np.array([0.25, 0.5, 0.75])).at_least(0.5)
    assert found.scores.tolist() == [0.5, 0.75]
    assert found.spans.label.tolist() == [1, 2]
