"""CRF: the last layer of every tagger. It owns the scores of neighbouring tags and forbids what its
scheme forbids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hanlattice.inference import crf as runtime
from hanlattice.ops import crf
from hanlattice.text.lattice import Ints


class CRF(nn.Module, runtime.TagRules):
    """Scores start at zero, so an untrained CRF leaves the choice to the emissions and the scheme,
    and needs no seed.

    The masks of the scheme follow from `tags` and are not saved. Forbidden steps hold
    `crf.FORBIDDEN` instead of their parameter: they are neither decoded nor trained. What it
    decodes on a CPU, the runtime's CRF decodes for it.
    """

    allowed_start: Tensor
    allowed_between: Tensor
    allowed_end: Tensor

    def __init__(self, tags: Sequence[str], scheme: str) -> None:
        super().__init__()
        self.set_tags(tags, scheme)
        K = len(self.tags)
        self.start = nn.Parameter(torch.zeros(K))
        self.transitions = nn.Parameter(torch.zeros(K, K))  # [from, to]
        self.end = nn.Parameter(torch.zeros(K))
        for name, legal in zip(
            ("allowed_start", "allowed_between", "allowed_end"), self.legal, strict=True
        ):
            self.register_buffer(name, torch.from_numpy(legal.copy()), persistent=False)

    @property
    def scores(self) -> crf.CRFScores:
        """The parameters with the scheme laid over them."""
        learned = crf.CRFScores(self.start, self.transitions, self.end)
        return crf.forbid(learned, self.allowed_start, self.allowed_between, self.allowed_end)

    def values(self) -> runtime.NumpyCRF:
        """The runtime's CRF with the same scores."""
        return runtime.NumpyCRF(
            self.tags, self.scheme, *(part.detach().cpu().numpy() for part in self.scores)
        )

    def loss(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """[B]: the negative log likelihood of each sentence's tags [B, T]; the caller sums or
        averages.
        """
        likelihood: Tensor = crf.log_likelihood(emissions, tags, lengths, self.scores)
        return -likelihood

    def soft_label_loss(self, emissions: Tensor, shares: Tensor, lengths: Tensor) -> Tensor:
        """[B]: the cross entropy with a teacher, the probabilities of whose tags are `shares` [B,
        T, K].

        Of the tags that may follow a tag, each follows it in proportion to its share, as in a
        teacher without scores of its own for that. Where the teacher is sure, this is `loss`.
        """
        start, between, end = (
            allowed.to(shares.dtype)
            for allowed in (self.allowed_start, self.allowed_between, self.allowed_end)
        )
        left = shares[:, :-1]
        right = shares[:, 1:]
        may_follow = (right @ between.T).clamp(min=torch.finfo(shares.dtype).tiny)
        last = shares[torch.arange(len(shares), device=shares.device), lengths - 1]
        expected = (
            (shares * emissions).sum((1, 2))
            + shares[:, 0] @ (start * self.start)
            + last @ (end * self.end)
        )
        expected = expected + (left / may_follow * (right @ (between * self.transitions).T)).sum(
            (1, 2)
        )
        total: Tensor = crf.log_partition(emissions, lengths, self.scores)
        return total - expected

    @torch.no_grad()
    def decode(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """[B, T]: the best tags, 0 beyond the lengths."""
        tags: Tensor = crf.viterbi(emissions, lengths, self.scores)[0]
        return tags

    def decoding(self, emissions: Tensor, lengths: Tensor) -> Callable[[], Ints]:
        """What waits for the best tags and gives them: a GPU goes on with its work meanwhile."""
        tags = self.decode(emissions, lengths).to(torch.int32).to("cpu", non_blocking=True)
        if not emissions.is_cuda:
            return tags.numpy
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record(
            torch.cuda.current_stream(emissions.device)
        )  # which need not be the current device

        def wait() -> Ints:
            copied.synchronize()
            return tags.numpy()

        return wait

    @torch.no_grad()
    def marginals(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """[B, T, K], in float64: the probability of each tag; zero beyond the lengths."""
        found: Tensor = crf.marginals(emissions.double(), lengths, self._exact)
        return found

    @torch.no_grad()
    def log_probability(self, emissions: Tensor, lengths: Tensor, spans: crf.TaggedSpans) -> Any:
        """[S], in float64: of tagged spans, given as arrays; where the emissions are, on a CPU as
        an array.
        """
        if not emissions.is_cuda:
            return self.values().log_probability(emissions.detach().numpy(), lengths.numpy(), spans)
        there = (torch.from_numpy(part).to(emissions.device, non_blocking=True) for part in spans)
        return crf.span_log_probability(emissions, lengths, self._exact, crf.TaggedSpans(*there))

    @property
    def _exact(self) -> crf.CRFScores:
        return crf.CRFScores(*(part.double() for part in self.scores))

    def add(self, emissions: Tensor, at: runtime.Indices, bonus: float) -> Tensor:
        """The emissions with so much more at these places."""
        where = tuple(torch.from_numpy(part).to(emissions.device) for part in at)
        return emissions.index_put(where, emissions.new_tensor(bonus), accumulate=True)

    def readings(self, emissions: Tensor, lengths: Tensor, n: int) -> tuple[Ints, runtime.Floats]:
        """The n best legal taggings, [B, n, T], and the logarithms of their probabilities, found on
        the CPU.
        """
        return self.values().readings(
            emissions.detach().cpu().numpy(), lengths.cpu().numpy().astype(np.int64), n
        )
