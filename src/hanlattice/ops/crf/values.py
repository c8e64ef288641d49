"""What every implementation of the CRF takes: scores, forbidden steps, spans and arcs.

The values are NumPy arrays or tensors; nothing here needs to know which.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Values = Any  # arrays of numpy, or tensors

# The score of a forbidden step. It is finite, so that no gradient is ever ∞ − ∞; so low that exp()
# of it is an exact 0 in float32 and float64 beside anything legal; and so far from the largest
# float32 that the worst path of a sentence of a hundred thousand characters stays finite.
FORBIDDEN = -1e6
# C counts the ways on from all tags of a character in 32 bits.
_MOST_WAYS = 2**31 - 1


class CRFScores(NamedTuple):
    """What a tagging earns besides its emissions."""

    start: Values  # [K]: the first tag
    transitions: Values  # [K, K]: from, to
    end: Values  # [K]: the last tag


class CRFInputs(NamedTuple):
    """What compiled code reads: dense, of one dtype, the lengths checked or safe."""

    emissions: Values  # [B, T, K]
    lengths: Values  # [B]
    scores: CRFScores


class TaggedSpans(NamedTuple):
    """S spans of a batch: `[start, end)` of a sentence carries `tags`, and no `blocked_next` tag
    comes straight after.

    BIO needs the block: `B-X I-X` is only a whole span when `I-X` does not follow. At the end of a
    sentence no tag follows, so nothing is blocked.
    """

    sentence: Values  # [S]
    start: Values  # [S]
    end: Values  # [S]
    tags: Values  # [S, L]: what stands beyond end − start does not matter
    blocked_next: Values  # [S, K], bool


class Arcs(NamedTuple):
    """A arcs over a batch: each lets a tagging take the characters `[start, end)` of a sentence in
    one step.

    To its neighbours an arc looks like a tag: the step into it scores as one to the tag `first`,
    the step out of it as one from the tag `last`. Whatever lies between is in `score`: emissions,
    steps inside, and what the span earns as a whole, which no sum over single tags can say. Arrays
    of numpy only.
    """

    sentence: Values  # [A]
    start: Values  # [A]
    end: Values  # [A]
    first: Values  # [A]
    last: Values  # [A]
    score: Values  # [A], finite

    def at(self, chosen: Values) -> Arcs:
        """Return the arcs at these indices, or where a mask is true."""
        return Arcs(*(column[chosen] for column in self))


class ArcMarginals(NamedTuple):
    """What a chain with arcs says of all taggings."""

    log_partition: Values  # [B]
    tags: Values  # [B, T, K]: probabilities; an arc counts at its last character alone, as `last`
    arcs: Values  # [A]: log probabilities


def forbid(
    scores: CRFScores, allowed_start: Values, allowed_between: Values, allowed_end: Values
) -> CRFScores:
    """Return the scores with FORBIDDEN for every step that is not allowed, without a gradient."""
    return CRFScores(*map(fill_forbidden, scores, (~allowed_start, ~allowed_between, ~allowed_end)))


def fill_forbidden(values: Values, forbidden: Values) -> Values:
    """Return the values, with FORBIDDEN where `forbidden` is true."""
    if isinstance(values, np.ndarray):
        return np.where(forbidden, values.dtype.type(FORBIDDEN), values)
    return values.masked_fill(forbidden, FORBIDDEN)


def check(emissions: Values, lengths: Values, scores: CRFScores) -> None:
    """Raise a ValueError for shapes that do not fit: compiled code would read past their end."""
    if emissions.ndim != 3 or tuple(lengths.shape) != (emissions.shape[0],):
        raise ValueError(
            "emissions must be [B, T, K] and lengths [B], "
            f"not {tuple(emissions.shape)} and {tuple(lengths.shape)}"
        )
    if len(lengths) and not emissions.shape[1]:
        raise ValueError(
            f"a sentence has one character or more, and emissions are {tuple(emissions.shape)}"
        )
    K = emissions.shape[2]
    if not K:
        raise ValueError(f"a CRF has one tag or more, and emissions are {tuple(emissions.shape)}")
    for name, part, shape in zip(scores._fields, scores, ((K,), (K, K), (K,)), strict=True):
        if tuple(part.shape) != shape:
            raise ValueError(f"{name} must be {shape} for {K} tags, not {tuple(part.shape)}")


def check_arcs(emissions: Values, lengths: Values, arcs: Arcs) -> None:
    """Raise an IndexError for an arc outside its sentence or tags, a ValueError for a bad score."""
    if len({part.shape for part in arcs}) != 1 or arcs.score.ndim != 1:
        raise ValueError(f"arcs must be [A], not {', '.join(str(part.shape) for part in arcs)}")
    B, _, K = emissions.shape
    if not len(arcs.sentence):
        return
    if not 0 <= arcs.sentence.min() <= arcs.sentence.max() < B:
        raise IndexError(f"arcs must be of sentences from 0 to {B - 1}")
    inside = (arcs.start >= 0) & (arcs.start < arcs.end) & (arcs.end <= lengths[arcs.sentence])
    if not inside.all():
        raise IndexError("each arc must lie in its sentence and hold a character")
    lowest, highest = min(arcs.first.min(), arcs.last.min()), max(arcs.first.max(), arcs.last.max())
    if not 0 <= lowest <= highest < K:
        raise IndexError(f"the tags of arcs must be from 0 to {K - 1}")
    if not np.isfinite(arcs.score).all():
        raise ValueError("the scores of arcs must be finite")


def check_n(n: int, K: int) -> None:
    """Raise a ValueError unless n is at least 1 and small enough for C to count."""
    if n < 1:
        raise ValueError(f"n must be 1 or more, not {n}")
    if n * K > _MOST_WAYS:
        raise ValueError(
            f"{n} taggings with {K} tags are too many: n may be {_MOST_WAYS // K:,} at most"
        )


def check_tags(emissions: Values, tags: Values) -> None:
    """Raise a ValueError unless there is a tag for each character."""
    shape = tuple(emissions.shape[:2])
    if tuple(tags.shape) != shape:
        raise ValueError(f"tags must be {shape} as the emissions are, not {tuple(tags.shape)}")
