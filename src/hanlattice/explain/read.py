"""From a model and a text to an Explanation: the text is tagged as usual, and its lattice is traced
as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hanlattice.checkpoint.folder import Model
from hanlattice.checks import brief
from hanlattice.errors import ModelError
from hanlattice.explain.changes import without_each
from hanlattice.explain.values import Ablation, Direction, Explanation, Layer, Share, Word, joined
from hanlattice.features import Batch, Examples
from hanlattice.inference.crf import on_host
from hanlattice.inference.decode import Decoded, DecodingBatch, make_spans
from hanlattice.inference.threshold import Threshold
from hanlattice.ops.lattice_lstm.trace import Both, Traced
from hanlattice.text.boundaries import pieces
from hanlattice.text.span import Span

# the quantiles of a share over the hidden units
LOW = 0.1
HIGH = 0.9

Thing = TypeVar("Thing")


def explain(
    model: Model,
    text: str,
    limit: int,
    trust: float = 0.0,
    threshold: Threshold = None,
    without: bool = False,
    pause: Callable[[], None] | None = None,
) -> Explanation:
    """What the model finds in a text, and why; with `without`, also what it would find without each
    of the words.

    `limit`, `trust` and `bar` are the Predictor's: a longer text is read in pieces; the tags of a
    user's words score more; spans are found by their probabilities. `pause` is called now and then
    while words are left out, so that a thread that computes can do something else in between.
    """
    if not isinstance(text, str):
        raise TypeError(f"a text must be a str, not {type(text).__name__}: {text!r}")
    if not isinstance(model, Model):
        message = "explain takes the `model` of a loaded Predictor"
        raise TypeError(f"{message}, not {type(model).__name__}: {brief(model)}")
    if model.tagger.reads_words:
        raise ModelError(
            "this model reads words, not characters with a lattice over them: it has no shares to show"
        )
    cuts = pieces(text, limit)
    return joined(
        text,
        [_piece(model, text[low:high], trust, threshold, without, pause) for low, high in cuts],
        cuts,
    )


def _piece(
    model: Model,
    text: str,
    trust: float,
    threshold: Threshold,
    without: bool,
    pause: Callable[[], None] | None,
) -> Explanation:
    """The explanation of a text that is short enough to be read whole."""
    indexer = model.indexer
    place = np.zeros(1, dtype=np.int64)
    examples, spellings = _read(model, text)
    batch = model.tagger.batch(examples, place)
    every = np.arange(examples.lengths[0]) if examples.offsets is None else examples.offsets
    offsets: list[int] = (
        every.tolist()
    )  # where each character that the model reads stands in the text
    tags: list[str] = []
    names: Sequence[str] = indexer.tags
    spans: list[Span] = []
    chances: list[tuple[float, ...]] = []
    fewer: tuple[Ablation, ...] = ()
    if offsets:  # a CRF cannot take an empty sentence
        running = DecodingBatch(model.tagger, indexer, examples, place, trust, threshold)
        rows = on_host(running.crf.marginals(running.emissions, running.there))[0]
        chances = [tuple(row) for row in rows.clip(0.0, 1.0).tolist()]
        found, scores = running.read(True)
        names = running.tag_ids.names
        decoded = Decoded(examples.in_characters(found), on_host(scores))
        (spans,) = make_spans(decoded, [text], examples.labels)
        there = make_spans(
            Decoded(found, decoded.scores), [""], examples.labels
        )  # in characters that are read
        best = (
            running.tags()[0]
            if threshold is None
            else running.tag_ids.tags(there, examples.lengths)
        )
        tags = [names[tag] for tag in best.tolist()]
        fewer = (
            without_each(model, text, examples, there, trust, threshold, pause) if without else ()
        )
    return Explanation(
        text=text,
        spans=tuple(spans),
        tags=_spread(tags, offsets, len(text)),
        words=_words(model, batch, examples, spellings, offsets),
        layers=tuple(_layer(both, batch, offsets, len(text)) for both in _traced(model, batch)),
        tag_names=tuple(names),
        marginals=_spread(chances, offsets, len(text)),
        pieces=((0, len(text)),),
        has_lattice=indexer.lexicon is not None,
        without=fewer,
    )


def _read(model: Model, text: str) -> tuple[Examples, Sequence[str]]:
    """The text as numbers, and the lexicon's words by their ids in it."""
    indexer, lexicon = model.indexer, model.indexer.lexicon
    if lexicon is None:
        return indexer.read([text]), ()
    return lexicon.with_same_ids(lambda: (indexer.read([text]), lexicon.words))


def _spread(
    values: Sequence[Thing], offsets: Sequence[int], length: int
) -> tuple[Thing | None, ...]:
    """The values of the characters that were read, at their offsets; None elsewhere."""
    places: list[Thing | None] = [None] * length
    for at, value in zip(offsets, values, strict=True):
        places[at] = value
    return tuple(places)


def _words(
    model: Model, batch: Batch, examples: Examples, spellings: Sequence[str], offsets: Sequence[int]
) -> tuple[Word, ...]:
    """The lattice's words, in its order: by start and then by end."""
    lexicon = model.indexer.lexicon
    subwords = model.indexer.subwords
    lattice = batch.lattice
    if lexicon is None:
        return ()
    first = 0 if subwords is None else len(subwords)
    chosen = np.isin(lattice.word, () if examples.own is None else examples.own)
    found = []
    columns = (array.tolist() for array in (lattice.start, lattice.end, lattice.word, chosen))
    for start, end, number, own in zip(*columns, strict=True):
        if subwords is not None and number < first:
            word = subwords.words[number]
            source = model.config.subwords.called
        else:
            word = spellings[number - first]
            source = model.config.lattice_sources[0].called
        found.append(Word(offsets[start], offsets[end - 1] + 1, word, source, own))
    return tuple(found)


def _traced(model: Model, batch: Batch) -> list[Both]:
    """The shares of every layer; none where there is no lattice."""
    has_lattice = model.indexer.lexicon is not None and model.tagger.words is not None
    return model.tagger.traced(batch) if has_lattice else []


def _layer(both: Both, batch: Batch, offsets: Sequence[int], length: int) -> Layer:
    ends, starts = (set(array.tolist()) for array in (batch.lattice.end - 1, batch.lattice.start))
    forward = _direction(both.forward, ends, offsets, length)
    return Layer(forward, _direction(both.backward, starts, offsets, length))


def _direction(traced: Traced, filled: set[int], offsets: Sequence[int], length: int) -> Direction:
    """`filled` are the characters whose cells words enter."""
    before = [None if at in filled else share for at, share in enumerate(_shares(traced.before[0]))]
    own = _spread(_shares(traced.own[0]), offsets, length)
    return Direction(tuple(_shares(traced.words)), own, _spread(before, offsets, length))


def _shares(each: npt.NDArray[Any]) -> list[Share]:
    """[N, H] → the share of each row."""
    rows = each.astype(np.float64)
    if not len(rows):
        return []
    low, high = np.quantile(rows, [LOW, HIGH], axis=1)
    return [
        Share(*row) for row in np.stack([rows.mean(1), rows.std(1), low, high], axis=1).tolist()
    ]
