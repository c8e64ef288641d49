"""CRF: the last layer of every tagger, with the scores of neighbouring tags and its scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hanlattice.inference import crf as numpy_crf
from hanlattice.ops import crf
from hanlattice.text.lattice import Ints


class CRF(nn.Module, numpy_crf.TagRules):
    """The scores of neighbouring tags, which start at zero and so need no seed.

    The masks of the scheme follow from `tags` and are not saved. Forbidden steps hold
    `crf.FORBIDDEN` instead of their parameter: they are neither decoded nor trained. What it
    decodes on a CPU, `NumpyCRF` decodes for it.
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
        names = ("allowed_start", "allowed_between", "allowed_end")
        for name, legal in zip(names, self.legal, strict=True):
            self.register_buffer(name, torch.from_numpy(legal.copy()), persistent=False)

    @property
    def scores(self) -> crf.CRFScores:
        """The parameters, with FORBIDDEN where the scheme allows no step."""
        learned = crf.CRFScores(self.start, self.transitions, self.end)
        return crf.forbid(learned, self.allowed_start, self.allowed_between, self.allowed_end)

    def values(self) -> numpy_crf.NumpyCRF:
        """Return a `NumpyCRF` with the same scores."""
        scores = (part.detach().cpu().numpy() for part in self.scores)
        return numpy_crf.NumpyCRF(self.tags, self.scheme, *scores)

    def loss(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """Return [B]: the negative log likelihood of each sentence's tags [B, T]."""
        likelihood: Tensor = crf.log_likelihood(emissions, tags, lengths, self.scores)
        return -likelihood

    def soft_label_loss(self, emissions: Tensor, shares: Tensor, lengths: Tensor) -> Tensor:
        """Return [B]: the cross entropy with a teacher's tag probabilities, `shares` [B, T, K].

        Of the tags that may follow a tag, each follows it in proportion to its share, as in a
        teacher without scores of its own for that. Where the teacher is sure, this is `loss`.
        """
        legal = (self.allowed_start, self.allowed_between, self.allowed_end)
        start, between, end = (allowed.to(shares.dtype) for allowed in legal)
        left = shares[:, :-1]
        right = shares[:, 1:]
        may_follow = (right @ between.T).clamp(min=torch.finfo(shares.dtype).tiny)
        last = shares[torch.arange(len(shares), device=shares.device), lengths - 1]
        edges = shares[:, 0] @ (start * self.start), last @ (end * self.end)
        expected = (shares * emissions).sum((1, 2)) + edges[0] + edges[1]
        steps = left / may_follow * (right @ (between * self.transitions).T)
        expected = expected + steps.sum((1, 2))
        total: Tensor = crf.log_partition(emissions, lengths, self.scores)
        return total - expected

    @torch.no_grad()
    def decode(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """Return [B, T]: the best tags, 0 beyond the lengths."""
        tags: Tensor = crf.viterbi(emissions, lengths, self.scores)[0]
        return tags

    def decoding(self, emissions: Tensor, lengths: Tensor) -> Callable[[], Ints]:
        """Return a function that waits for the best tags; meanwhile a GPU goes on working."""
        tags = self.decode(emissions, lengths).to(torch.int32).to("cpu", non_blocking=True)
        if not emissions.is_cuda:
            return tags.numpy
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        # The emissions need not be on the current device.
        copied.record(torch.cuda.current_stream(emissions.device))

        def wait() -> Ints:
            copied.synchronize()
            return tags.numpy()

        return wait

    @torch.no_grad()
    def marginals(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """[B, T, K], in float64: the probability of each tag; zero beyond the lengths."""
        probabilities: Tensor = crf.marginals(emissions.double(), lengths, self._exact)
        return probabilities

    @torch.no_grad()
    def log_probability(self, emissions: Tensor, lengths: Tensor, spans: crf.TaggedSpans) -> Any:
        """Return [S], float64: the log probabilities of spans (arrays), an array on a CPU."""
        if not emissions.is_cuda:
            return self.values().log_probability(emissions.detach().numpy(), lengths.numpy(), spans)
        moved = (torch.from_numpy(part).to(emissions.device, non_blocking=True) for part in spans)
        return crf.span_log_probability(emissions, lengths, self._exact, crf.TaggedSpans(*moved))

    @property
    def _exact(self) -> crf.CRFScores:
        return crf.CRFScores(*(part.double() for part in self.scores))

    def add(self, emissions: Tensor, at: numpy_crf.Indices, bonus: float) -> Tensor:
        """Return the emissions with the bonus added at these places."""
        where = tuple(torch.from_numpy(part).to(emissions.device) for part in at)
        return emissions.index_put(where, emissions.new_tensor(bonus), accumulate=True)

    def readings(self, emissions: Tensor, lengths: Tensor, n: int) -> tuple[Ints, numpy_crf.Floats]:
        """Return the n best legal taggings, [B, n, T], and their log probabilities; on the CPU."""
        host_lengths = lengths.cpu().numpy().astype(np.int64)
        return self.values().readings(emissions.detach().cpu().numpy(), host_lengths, n)
