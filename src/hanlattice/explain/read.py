"""From a model and a text to an `Explanation`: tag the text as usual, and trace its lattice."""

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

# The quantiles of a share over the hidden units.
LOW = 0.1
HIGH = 0.9

Value = TypeVar("Value")


def explain(
    model: Model,
    text: str,
    limit: int,
    trust: float = 0.0,
    threshold: Threshold = None,
    without: bool = False,
    pause: Callable[[], None] | None = None,
) -> Explanation:
    """Return what the model finds in a text, and why.

    Args:
        model: a loaded model that reads characters.
        text: any text.
        limit: a longer text is read in pieces of at most this many characters.
        trust: how much more the tags of a user's words score.
        threshold: find spans by their probabilities, from this one on.
        without: also find what changes without each of the words.
        pause: called now and then while words are left out, so that the computing thread can do
            something else in between.
    """
    if not isinstance(text, str):
        raise TypeError(f"a text must be a str, not {type(text).__name__}: {text!r}")
    if not isinstance(model, Model):
        message = "explain takes the `model` of a loaded Predictor"
        raise TypeError(f"{message}, not {type(model).__name__}: {brief(model)}")
    if model.tagger.reads_words:
        message = "this model reads words, not characters with a lattice over them"
        raise ModelError(f"{message}: it has no shares to show")
    cuts = pieces(text, limit)
    parts = [_piece(model, text[low:high], trust, threshold, without, pause) for low, high in cuts]
    return joined(text, parts, cuts)


def _piece(
    model: Model,
    text: str,
    trust: float,
    threshold: Threshold,
    without: bool,
    pause: Callable[[], None] | None,
) -> Explanation:
    """Explain a text that is short enough to be read whole."""
    indexer = model.indexer
    lexicon = indexer.lexicon
    sentence = np.zeros(1, dtype=np.int64)
    spellings: Sequence[str] = ()
    if lexicon is None:
        examples = indexer.read([text])
    else:
        # Another thread may renumber the words between the two.
        examples, spellings = lexicon.with_same_ids(lambda: (indexer.read([text]), lexicon.words))
    batch = model.tagger.batch(examples, sentence)
    # Where each character that the model reads stands in the text.
    every = np.arange(examples.lengths[0]) if examples.offsets is None else examples.offsets
    offsets: list[int] = every.tolist()
    tags: list[str] = []
    names: Sequence[str] = indexer.tags
    spans: list[Span] = []
    chances: list[tuple[float, ...]] = []
    fewer: tuple[Ablation, ...] = ()
    # A CRF cannot take an empty sentence.
    if offsets:
        running = DecodingBatch(model.tagger, indexer, examples, sentence, trust, threshold)
        rows = on_host(running.crf.marginals(running.emissions, running.there))[0]
        chances = [tuple(row) for row in rows.clip(0.0, 1.0).tolist()]
        found, scores = running.read(True)
        names = running.tag_ids.names
        decoded = Decoded(examples.in_characters(found), on_host(scores))
        (spans,) = make_spans(decoded, [text], examples.labels)
        # The same spans, with offsets in the characters that are read.
        read_spans = make_spans(Decoded(found, decoded.scores), [""], examples.labels)
        if threshold is None:
            best = running.tags()[0]
        else:
            best = running.tag_ids.tags(read_spans, examples.lengths)
        tags = [names[tag] for tag in best.tolist()]
        if without:
            fewer = without_each(model, text, examples, read_spans, trust, threshold, pause)
    has_lattice = lexicon is not None and model.tagger.words is not None
    traced = model.tagger.traced(batch) if has_lattice else []
    return Explanation(
        text=text,
        spans=tuple(spans),
        tags=_spread(tags, offsets, len(text)),
        words=_words(model, batch, examples, spellings, offsets),
        layers=tuple(_layer(both, batch, offsets, len(text)) for both in traced),
        tag_names=tuple(names),
        marginals=_spread(chances, offsets, len(text)),
        pieces=((0, len(text)),),
        has_lattice=lexicon is not None,
        without=fewer,
    )


def _spread(
    values: Sequence[Value], offsets: Sequence[int], length: int
) -> tuple[Value | None, ...]:
    """Put the values of the characters that were read at their offsets, and None elsewhere."""
    places: list[Value | None] = [None] * length
    for offset, value in zip(offsets, values, strict=True):
        places[offset] = value
    return tuple(places)


def _words(
    model: Model, batch: Batch, examples: Examples, spellings: Sequence[str], offsets: Sequence[int]
) -> tuple[Word, ...]:
    """Return the lattice's words, by start and then by end."""
    subwords = model.indexer.subwords
    lattice = batch.lattice
    if model.indexer.lexicon is None:
        return ()
    # Subwords have the first ids, so that words can be added at the end.
    first = 0 if subwords is None else len(subwords)
    chosen = np.isin(lattice.word, () if examples.own is None else examples.own)
    words = []
    columns = (array.tolist() for array in (lattice.start, lattice.end, lattice.word, chosen))
    for start, end, number, own in zip(*columns, strict=True):
        if subwords is not None and number < first:
            word = subwords.words[number]
            source = model.config.subwords.called
        else:
            word = spellings[number - first]
            source = model.config.lattice_sources[0].called
        words.append(Word(offsets[start], offsets[end - 1] + 1, word, source, own))
    return tuple(words)


def _layer(both: Both, batch: Batch, offsets: Sequence[int], length: int) -> Layer:
    ends, starts = (set(array.tolist()) for array in (batch.lattice.end - 1, batch.lattice.start))
    forward = _direction(both.forward, ends, offsets, length)
    return Layer(forward, _direction(both.backward, starts, offsets, length))


def _direction(traced: Traced, filled: set[int], offsets: Sequence[int], length: int) -> Direction:
    """Return the shares of a direction; words enter the cells of the `filled` characters."""
    shares = enumerate(_shares(traced.before[0]))
    before = [None if index in filled else share for index, share in shares]
    own = _spread(_shares(traced.own[0]), offsets, length)
    return Direction(tuple(_shares(traced.words)), own, _spread(before, offsets, length))


def _shares(values: npt.NDArray[Any]) -> list[Share]:
    """Return the share of each row of [N, H]."""
    rows = values.astype(np.float64)
    if not len(rows):
        return []
    low, high = np.quantile(rows, [LOW, HIGH], axis=1)
    columns = np.stack([rows.mean(1), rows.std(1), low, high], axis=1)
    return [Share(*row) for row in columns.tolist()]
