"""CRF: the last layer of every tagger. It owns the scores of neighbouring tags and forbids what its scheme forbids."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hanlattice.errors import TagError
from hanlattice.ops import crf
from hanlattice.text.spans import Span
from hanlattice.text.tags import legal_transitions, may_follow, spans_to_tags


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

    def marginals(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """[B, T, K]: the probability of each tag at each character."""
        return crf.marginals(emissions, lengths, self.scores)

    @torch.no_grad()
    def nbest(self, emissions: Tensor, lengths: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """The n best legal taggings, [B, n, T], and their scores, [B, n]; where there are fewer, zeros and −∞."""
        tags, score = crf.nbest(emissions, lengths, self.scores, n)
        illegal = ~self._is_legal(tags, lengths)  # they come after the legal ones, so none of those is lost
        return tags.masked_fill(illegal.unsqueeze(2), 0), score.masked_fill(illegal, -torch.inf)

    def _is_legal(self, tags: Tensor, lengths: Tensor) -> Tensor:
        """[B, n]: whether the scheme allows every step of tags [B, n, T]."""
        last = (lengths - 1)[:, None, None].expand(-1, tags.shape[1], 1)
        beyond = torch.arange(1, tags.shape[2], device=tags.device) >= lengths[:, None, None]  # [B, 1, T - 1]
        between = (self.allowed_between[tags[..., :-1], tags[..., 1:]] | beyond).all(2)
        return self.allowed_start[tags[..., 0]] & between & self.allowed_end[tags.gather(2, last).squeeze(2)]

    @torch.no_grad()
    def span_scores(self, emissions: Tensor, lengths: Tensor, spans: Sequence[Sequence[Span]]) -> list[list[float]]:
        """The probability of each span of each sentence: of exactly these characters with exactly this label.

        In float64, since the answer is a small difference of sums as long as the sentence.
        """
        self._check(spans, lengths)
        flat = [(b, span) for b, row in enumerate(spans) for span in row]
        if not flat:
            return [[] for _ in spans]
        asked = self._tagged([b for b, _ in flat], [span for _, span in flat], emissions.device)
        scores = crf.CRFScores(*(part.double() for part in self.scores))
        answers = crf.span_log_probability(emissions.double(), lengths, scores, asked).exp().clamp(max=1.0)
        in_order = iter(answers.tolist())
        return [[next(in_order) for _ in row] for row in spans]

    def _tagged(self, sentence: list[int], spans: list[Span], device: torch.device) -> crf.TaggedSpans:
        rows = [spans_to_tags([Span(0, s.end - s.start, s.label)], s.end - s.start, self.scheme) for s in spans]
        longest = max(map(len, rows))
        ids = [[self._id(tag) for tag in row] + [0] * (longest - len(row)) for row in rows]
        after = {last: [self._goes_on(last, tag) for tag in self.tags] for last in {row[-1] for row in rows}}
        return crf.TaggedSpans(
            sentence=torch.tensor(sentence, device=device),
            start=torch.tensor([span.start for span in spans], device=device),
            end=torch.tensor([span.end for span in spans], device=device),
            tags=torch.tensor(ids, device=device),
            blocked_next=torch.tensor([after[row[-1]] for row in rows], device=device),
        )

    def _goes_on(self, last: str, tag: str) -> bool:
        """Whether `tag` after a span's last tag would make the span longer: it may follow, but may not begin a text."""
        return may_follow(last, tag, self.scheme) and not may_follow(None, tag, self.scheme)

    def _id(self, tag: str) -> int:
        if tag not in self.ids:
            raise TagError(f"this CRF has no tag {tag!r}: its tags are {', '.join(self.tags)}")
        return self.ids[tag]

    def _check(self, spans: Sequence[Sequence[Span]], lengths: Tensor) -> None:
        if len(spans) != len(lengths):
            raise ValueError(f"spans for {len(spans)} sentences came with {len(lengths)} lengths")
        for b, (row, length) in enumerate(zip(spans, lengths.tolist(), strict=True)):
            for span in row:
                if span.end > length:
                    span_text = f"span [{span.start}, {span.end})"
                    raise ValueError(f"{span_text} ends after sentence {b}, which has {length} characters")
