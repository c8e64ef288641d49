"""The rules of tags, which the CRF of `nn` shares, and the CRF that decodes on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.ops import crf
from hanlattice.text.fork_safety import cached_property
from hanlattice.text.lattice import Ints
from hanlattice.text.span import Span
from hanlattice.text.tags import legal_transitions, spans_to_tags

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Indices = tuple[Ints, Ints, Ints]


class TagRules:
    """The tags of a CRF, and which of them the scheme lets follow which."""

    def set_tags(self, tags: Sequence[str], scheme: str) -> None:
        """Set the tags. This is no `__init__`, because an nn.Module needs its own first."""
        self.tags = tuple(tags)
        self.scheme = scheme
        self.ids = {tag: k for k, tag in enumerate(self.tags)}
        start, between, end = self.legal = legal_transitions(self.tags, scheme)
        # Whether some tag neither begins nor ends a span.
        self.has_middle = not bool((start | end).all())
        # [last, next]: whether `next` makes a span longer. A tag does that if it may follow `last`
        # but may not begin a text.
        self.goes_on = between & ~start

    def span_tags(self, label: str) -> list[int]:
        """Return the tag ids of a span: single, first, inside and last; −1 where there is none."""
        tags = []
        for length in (1, 3):
            tags += spans_to_tags([Span(0, length, label)], length, self.scheme)
        return [self.ids.get(tag, -1) for tag in tags]


class NumpyCRF(TagRules):
    """The scores of neighbouring tags, with what the scheme forbids.

    Emissions are [B, T, K], lengths [B].
    """

    def __init__(
        self, tags: Sequence[str], scheme: str, start: Array, transitions: Array, end: Array
    ) -> None:
        self.set_tags(tags, scheme)
        self.allowed_start, self.allowed_between, self.allowed_end = self.legal
        self.scores = crf.forbid(crf.CRFScores(start, transitions, end), *self.legal)

    @cached_property
    def exact(self) -> crf.CRFScores:
        """The scores in float64: a probability is a small difference of sums over a sentence."""
        return crf.CRFScores(*(part.astype(np.float64) for part in self.scores))

    def decode(self, emissions: Array, lengths: Ints) -> Ints:
        """[B, T]: return the best tags, 0 beyond the lengths."""
        tags: Ints = crf.viterbi(emissions, lengths, self.scores)[0]
        return tags

    def decoding(self, emissions: Array, lengths: Ints) -> Callable[[], Ints]:
        """Return a function that decodes. In `nn`, it waits for tags that a GPU computes."""
        return partial(self.decode, emissions, lengths)

    def marginals(self, emissions: Array, lengths: Ints) -> Floats:
        """[B, T, K]: return the probability of each tag, 0 beyond the lengths."""
        marginals: Floats = crf.marginals(emissions.astype(np.float64), lengths, self.exact)
        return marginals

    def log_probability(self, emissions: Array, lengths: Ints, spans: crf.TaggedSpans) -> Floats:
        """[S]: return the log probability of each tagged span."""
        log: Floats = crf.span_log_probability(emissions, lengths, self.exact, spans)
        return log

    def add(self, emissions: Array, at: Indices, bonus: float) -> Array:
        """Add a bonus in place to the emissions at (sentences, characters, tags), all different."""
        emissions[at] += emissions.dtype.type(bonus)
        return emissions

    def readings(self, emissions: Array, lengths: Ints, n: int) -> tuple[Ints, Floats]:
        """Return the n best legal taggings [B, n, T] and their log probabilities [B, n].

        Where a sentence has fewer, the rest are zeros with −∞.
        """
        given = emissions.astype(np.float64), lengths, self.exact
        tags, score = crf.nbest(*given, n)
        log = np.minimum(score - crf.log_partition(*given)[:, None], 0.0)
        last = np.take_along_axis(tags, (lengths - 1)[:, None, None], 2)[..., 0]
        beyond = np.arange(1, tags.shape[2]) >= lengths[:, None, None]  # [B, 1, T - 1]
        between = (self.allowed_between[tags[..., :-1], tags[..., 1:]] | beyond).all(2)
        # Illegal taggings score lowest, so the n best lose no legal one to them.
        illegal = ~(self.allowed_start[tags[..., 0]] & between & self.allowed_end[last])
        log[illegal | (log < crf.FORBIDDEN / 2)] = -np.inf
        tags[illegal] = 0
        return tags, log


def on_host(values: Any) -> Array:
    """Return an array as it is, and a tensor as an array."""
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
