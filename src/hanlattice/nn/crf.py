"""CRF: the last layer of every tagger. It owns the scores of neighbouring tags and forbids what its scheme forbids."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hanlattice.ops import crf
from hanlattice.text.spans import Span
from hanlattice.text.tags import legal_transitions, spans_to_tags


class CRF(nn.Module):
    """Scores start at zero, so an untrained CRF leaves the choice to the emissions and the scheme, and needs no seed.

    The masks of the scheme follow from `tags` and are not saved. Forbidden steps hold `crf.FORBIDDEN` instead of their
    parameter: they are neither decoded nor trained.
    """

    allowed_start: Tensor
    allowed_between: Tensor
    allowed_end: Tensor

    def __init__(self, tags: Sequence[str], scheme: str) -> None:
        super().__init__()
        self.tags, self.scheme = tuple(tags), scheme
        self.ids = {tag: k for k, tag in enumerate(self.tags)}
        K = len(self.tags)
        self.start = nn.Parameter(torch.zeros(K))
        self.transitions = nn.Parameter(torch.zeros(K, K))  # [from, to]
        self.end = nn.Parameter(torch.zeros(K))
        names = ("allowed_start", "allowed_between", "allowed_end")
        for name, legal in zip(names, legal_transitions(self.tags, scheme), strict=True):
            self.register_buffer(name, torch.tensor(legal, dtype=torch.bool), persistent=False)
        self.has_middle = not bool((self.allowed_start | self.allowed_end).all())  # a tag that neither begins nor ends
        # [last, next]: whether the next tag makes a span with this last one longer: it may follow, but not begin a text
        self.goes_on = (self.allowed_between & ~self.allowed_start).numpy()

    @property
    def scores(self) -> crf.CRFScores:
        """The parameters with the scheme laid over them."""
        learned = crf.CRFScores(self.start, self.transitions, self.end)
        return crf.forbid(learned, self.allowed_start, self.allowed_between, self.allowed_end)

    def loss(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """[B]: the negative log likelihood of each sentence's tags [B, T]; the caller sums or averages."""
        return -crf.log_likelihood(emissions, tags, lengths, self.scores)

    @torch.no_grad()
    def decode(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """[B, T]: the best tags, 0 beyond the lengths."""
        return crf.viterbi(emissions, lengths, self.scores)[0]

    @torch.no_grad()
    def readings(self, emissions: Tensor, lengths: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """The n best legal taggings, [B, n, T], and the logarithms of their probabilities, [B, n] in float64.

        Where there are fewer, zeros and −∞.
        """
        given = emissions.double(), lengths, crf.CRFScores(*(part.double() for part in self.scores))
        tags, score = crf.nbest(*given, n)
        illegal = ~self._is_legal(tags, lengths)  # they come after the legal ones, so none of those is lost
        log = (score - crf.log_partition(*given).unsqueeze(1)).clamp(max=0.0)
        impossible = illegal | (log < crf.FORBIDDEN / 2)  # a forbidden tag makes it impossible
        return tags.masked_fill(illegal.unsqueeze(2), 0), log.masked_fill(impossible, -torch.inf)

    def _is_legal(self, tags: Tensor, lengths: Tensor) -> Tensor:
        """[B, n]: whether the scheme allows every step of tags [B, n, T]."""
        last = (lengths - 1)[:, None, None].expand(-1, tags.shape[1], 1)
        beyond = torch.arange(1, tags.shape[2], device=tags.device) >= lengths[:, None, None]  # [B, 1, T - 1]
        between = (self.allowed_between[tags[..., :-1], tags[..., 1:]] | beyond).all(2)
        return self.allowed_start[tags[..., 0]] & between & self.allowed_end[tags.gather(2, last).squeeze(2)]

    def span_tags(self, label: str) -> list[int]:
        """The numbers of a span's tags, −1 for none: of its only character; of its first, those inside and its last."""
        tags = [tag for long in (1, 3) for tag in spans_to_tags([Span(0, long, label)], long, self.scheme)]
        return [self.ids.get(tag, -1) for tag in tags]
