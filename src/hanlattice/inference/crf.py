"""CRF: what a chain of tags may be, which the CRF of `nn` shares, and decoding on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """What a scheme says of tags."""

    def set_tags(self, tags: Sequence[str], scheme: str) -> None:
        self.tags = tuple(tags)
        self.scheme = scheme
        self.ids = {tag: k for k, tag in enumerate(self.tags)}
        start, between, end = self.legal = legal_transitions(self.tags, scheme)
        self.has_middle = not bool((start | end).all())  # a tag that neither begins nor ends
        # [last, next]: whether the next tag makes a span with this last one longer: it may follow,
        # but not begin a text
        self.goes_on = between & ~start

    def span_tags(self, label: str) -> list[int]:
        """The numbers of a span's tags, −1 for none: of its only character; of its first, those
        inside and its last.
        """
        tags = [
            tag
            for long in (1, 3)
            for tag in spans_to_tags([Span(0, long, label)], long, self.scheme)
        ]
        return [self.ids.get(tag, -1) for tag in tags]


class NumpyCRF(TagRules):
    """The scores of neighbouring tags, with the scheme laid over them. Emissions are [B, T, K],
    lengths [B].
    """

    def __init__(
        self, tags: Sequence[str], scheme: str, start: Array, transitions: Array, end: Array
    ) -> None:
        self.set_tags(tags, scheme)
        self.allowed_start, self.allowed_between, self.allowed_end = self.legal
        self.scores = crf.forbid(crf.CRFScores(start, transitions, end), *self.legal)

    @cached_property
    def exact(self) -> crf.CRFScores:
        """In float64: a probability is a small difference of sums as long as the sentence."""
        return crf.CRFScores(*(part.astype(np.float64) for part in self.scores))

    def decode(self, emissions: Array, lengths: Ints) -> Ints:
        """[B, T]: the best tags, 0 beyond the lengths."""
        tags: Ints = crf.viterbi(emissions, lengths, self.scores)[0]
        return tags

    def decoding(self, emissions: Array, lengths: Ints) -> Callable[[], Ints]:
        """What gives them: on a CPU they are there already."""
        tags = self.decode(emissions, lengths)
        return lambda: tags

    def marginals(self, emissions: Array, lengths: Ints) -> Floats:
        """[B, T, K]: the probability of each tag; zero beyond the lengths."""
        found: Floats = crf.marginals(emissions.astype(np.float64), lengths, self.exact)
        return found

    def log_probability(self, emissions: Array, lengths: Ints, spans: crf.TaggedSpans) -> Floats:
        """[S]: of tagged spans."""
        found: Floats = crf.span_log_probability(emissions, lengths, self.exact, spans)
        return found

    def add(self, emissions: Array, at: Indices, bonus: float) -> Array:
        """The emissions with so much more at these places, of which none comes twice."""
        emissions[at] += emissions.dtype.type(bonus)
        return emissions

    def readings(self, emissions: Array, lengths: Ints, n: int) -> tuple[Ints, Floats]:
        """The n best legal taggings, [B, n, T], and the logarithms of their probabilities, [B, n].

        Where there are fewer, zeros and −∞.
        """
        given = emissions.astype(np.float64), lengths, self.exact
        tags, score = crf.nbest(*given, n)
        illegal = ~self._is_legal(
            tags, lengths
        )  # they come after the legal ones, so none of those is lost
        log = np.minimum(score - crf.log_partition(*given)[:, None], 0.0)
        log[illegal | (log < crf.FORBIDDEN / 2)] = -np.inf  # a forbidden tag makes it impossible
        tags[illegal] = 0
        return tags, log

    def _is_legal(self, tags: Ints, lengths: Ints) -> npt.NDArray[np.bool_]:
        """[B, n]: whether the scheme allows every step of tags [B, n, T]."""
        last = np.take_along_axis(tags, (lengths - 1)[:, None, None], 2)[..., 0]
        beyond = np.arange(1, tags.shape[2]) >= lengths[:, None, None]  # [B, 1, T - 1]
        between = (self.allowed_between[tags[..., :-1], tags[..., 1:]] | beyond).all(2)
        legal: npt.NDArray[np.bool_] = (
            self.allowed_start[tags[..., 0]] & between & self.allowed_end[last]
        )
        return legal


def on_host(values: Any) -> Array:
    """An array as it is, a tensor as an array."""
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
