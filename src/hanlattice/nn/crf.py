"""CRF: the last layer of every tagger. It owns the scores of neighbouring tags and forbids what its scheme forbids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from hanlattice.errors import TagError
from hanlattice.nn.span_search import Chains, Floats, search
from hanlattice.ops import crf
from hanlattice.text.boundaries import CUT, JOIN, SPACED
from hanlattice.text.lattice import Ints, cells
from hanlattice.text.spans import Span
from hanlattice.text.tags import labels_of, legal_transitions, spans_to_tags

SMALLEST = 1e-300  # a probability below this is none: what is forbidden must not be found


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

    def constrain(self, emissions: Tensor, gaps: Tensor) -> Tensor:
        """The emissions under known gaps [B, T] before characters: a CUT forbids tags inside a span, a JOIN others.

        A span goes on after a SPACED gap if all of its gaps are. So a character that has one on one side alone may be
        its first or its last. Where no tag tells a span's middle from its end, such a gap is a CUT.
        """
        begins = self.allowed_start  # a tag that may begin a text begins a span, or is outside of all
        spaced, middle = gaps == SPACED, ~begins & ~self.allowed_end
        cut = gaps == CUT if self.has_middle else (gaps == CUT) | spaced
        wrong = (cut[..., None] & ~begins) | ((gaps == JOIN)[..., None] & begins)
        wrong |= (spaced ^ pad(spaced[:, 1:], (0, 1)))[..., None] & middle
        return emissions.masked_fill(wrong, crf.FORBIDDEN)

    def boost(self, emissions: Tensor, label: str, sentence: Ints, start: Ints, end: Ints, bonus: float) -> Tensor:
        """The emissions with a bonus for every tag that spans [start, end) with this label, all [S], would have."""
        _, first, inside, last = self._shape(label)  # a word has two characters or more
        row, nth = cells(end - start)
        tags = np.where(nth == 0, first, np.where(nth == (end - start)[row] - 1, last, inside))
        where = (torch.from_numpy(x).to(emissions.device) for x in (sentence[row], start[row] + nth, tags))
        return emissions.index_put(tuple(where), emissions.new_tensor(bonus), accumulate=True)

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
        return self._legal(*crf.nbest(emissions, lengths, self.scores, n), lengths)

    @torch.no_grad()
    def readings(self, emissions: Tensor, lengths: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """The n best taggings, [B, n, T], and the logarithms of their probabilities, [B, n] in float64; −∞ for none."""
        given = emissions.double(), lengths, crf.CRFScores(*(part.double() for part in self.scores))
        tags, score = self._legal(*crf.nbest(*given, n), lengths)
        log = (score - crf.log_partition(*given).unsqueeze(1)).clamp(max=0.0)
        return tags, log.masked_fill(log < crf.FORBIDDEN / 2, -torch.inf)  # what `under` forbids is no reading

    def _legal(self, tags: Tensor, score: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Taggings [B, n, T] and scores [B, n], with zeros and −∞ for those that the scheme forbids."""
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
        """The probability of each span of each sentence: of exactly these characters with exactly this label."""
        if len(spans) != len(lengths):
            raise ValueError(f"spans for {len(spans)} sentences came with {len(lengths)} lengths")
        flat = [(b, span) for b, row in enumerate(spans) for span in row]
        if not flat:
            return [[] for _ in spans]
        asked = self._tagged(flat, np.asarray(lengths.cpu()))
        in_order = iter(self._probability(emissions, lengths, asked).tolist())
        return [[next(in_order) for _ in row] for row in spans]

    @torch.no_grad()
    def decoded_span_scores(
        self, emissions: Tensor, lengths: Tensor, tags: Tensor, sentence: Tensor, start: Tensor, end: Tensor
    ) -> Tensor:
        """[S], float64: the same for spans `[start, end)`, all [S], that stand in decoded tags [B, T].

        The last four are on the CPU, the answer is where the emissions are; nothing waits for it.
        """
        b, low, high, decoded = (np.asarray(x) for x in (sentence, start, end, tags))
        at = low[:, None] + np.arange((high - low).max(initial=1))  # [S, L]
        found = decoded[b[:, None], np.minimum(at, decoded.shape[1] - 1)]
        return self._probability(emissions, lengths, _Asked(b, low, high, found.astype(np.int64)))

    @torch.no_grad()
    def candidates(self, emissions: Tensor, lengths: Tensor, n: int, min_score: float = 0.0) -> Candidates:
        """The n most probable spans of each sentence, overlapping ones too, with the probabilities of `span_scores`.

        Those below `min_score` are left out, and those that cannot be.
        """
        sizes = np.asarray(lengths.cpu(), dtype=np.int64)
        floor = float(np.log(max(min_score, SMALLEST)))
        found = search(self._chains(emissions, lengths, sizes), sizes, n, floor)
        start = found.cell - (np.cumsum(sizes) - sizes)[found.sentence]
        score = np.minimum(np.exp(found.log_probability), 1.0)
        order = np.lexsort((found.label, found.long, start, -score, found.sentence))
        order = order[score[order] >= max(min_score, SMALLEST)]
        end = start + found.long
        return Candidates(found.sentence[order], start[order], end[order], found.label[order], score[order])

    def _chains(self, emissions: Tensor, lengths: Tensor, sizes: Ints) -> Chains:
        """The probabilities of one tag, and of two in a row, from which those of all spans follow."""
        shapes = np.array([self._whole_shape(label) for label in labels_of(self.tags)], dtype=np.int64).reshape(-1, 4)
        sentence, start = cells(sizes)
        X = len(shapes)

        def ask(*tags: int, ends: bool) -> Floats:
            """[N, X]: how probable tags of a shape are from each character on, as the end of a span or just so."""
            there = np.flatnonzero(start + len(tags) <= sizes[sentence])
            rows = np.repeat(there, X)
            asked = np.tile(shapes[:, tags], (len(there), 1))  # [S, L]
            blocked = self.goes_on[asked[:, -1]] if ends else np.zeros((len(rows), len(self.tags)), dtype=np.bool_)
            spans = _Asked(sentence[rows], start[rows], start[rows] + len(tags), asked)
            value = np.full((len(start), X), -np.inf)
            answer = self._log_probability(emissions, lengths, spans, blocked).cpu().numpy()
            value[there] = answer.reshape(len(there), X)
            return value

        single, first, inside, last = range(4)
        begun, within = ask(first, ends=False), ask(inside, ends=False)
        return Chains(
            alone=ask(single, ends=True),
            first=begun,
            first_inside=ask(first, inside, ends=False) - begun,
            first_last=ask(first, last, ends=True) - begun,
            inside_inside=ask(inside, inside, ends=False) - within,
            inside_last=ask(inside, last, ends=True) - within,
        )

    def _whole_shape(self, label: str) -> list[int]:
        shape = self._shape(label)
        if min(shape) < 0:
            self._name_missing(Span(0, 1 if shape[0] < 0 else 3, label))
        return shape

    def _probability(self, emissions: Tensor, lengths: Tensor, asked: _Asked) -> Tensor:
        """[S], in float64."""
        last = asked.tags[np.arange(len(asked.tags)), asked.end - asked.start - 1]
        answer = self._log_probability(emissions, lengths, asked, self.goes_on[last])
        if answer.is_cuda:
            return answer.exp_().clamp_(max=1.0)
        return torch.from_numpy(np.minimum(np.exp(answer.numpy()), 1.0))  # torch would wake its threads for it

    def _log_probability(
        self, emissions: Tensor, lengths: Tensor, asked: _Asked, blocked: npt.NDArray[np.bool_]
    ) -> Tensor:
        """[S], in float64, since the answer is a small difference of sums as long as the sentence."""
        arrays = (*asked, blocked)  # the last is [S, K]: what may not come straight after
        spans = crf.TaggedSpans(*(torch.from_numpy(x).to(emissions.device, non_blocking=True) for x in arrays))
        scores = crf.CRFScores(*(part.double() for part in self.scores))
        return crf.span_log_probability(emissions, lengths, scores, spans)

    def _tagged(self, spans: list[tuple[int, Span]], lengths: Ints) -> _Asked:
        """Spans with the numbers of their sentences, as arrays."""
        labels = {label: at for at, label in enumerate({span.label for _, span in spans})}
        rows = np.array([(b, span.start, span.end, labels[span.label]) for b, span in spans], dtype=np.int64)
        sentence, start, end, label = rows.T
        _check_ends(sentence, start, end, lengths)
        shapes = np.array([self._shape(name) for name in labels])  # [labels, 4]
        single, first, inside, last = shapes[label].T[:, :, None]  # each [S, 1]
        long = (end - start)[:, None]
        at = np.arange(long.max())
        tags = np.where(at == 0, np.where(long == 1, single, first), np.where(at == long - 1, last, inside))
        missing = ((tags < 0) & (at < long)).any(1)
        if missing.any():
            self._name_missing(spans[int(missing.argmax())][1])
        return _Asked(sentence, start, end, tags)

    def _shape(self, label: str) -> list[int]:
        """The numbers of a span's tags, −1 for none: of its only character; of its first, those inside and its last."""
        tags = [tag for long in (1, 3) for tag in spans_to_tags([Span(0, long, label)], long, self.scheme)]
        return [self.ids.get(tag, -1) for tag in tags]

    def _name_missing(self, span: Span) -> None:
        long = span.end - span.start
        tags = spans_to_tags([Span(0, long, span.label)], long, self.scheme)
        tag = next(tag for tag in tags if tag not in self.ids)
        raise TagError(f"this CRF has no tag {tag!r}: its tags are {', '.join(self.tags)}")


class Candidates(NamedTuple):
    """Spans `[start, end)`, all [S], sentence by sentence and in each by falling probability.

    A label is its place among the labels of the CRF's tags, sorted.
    """

    sentence: Ints
    start: Ints
    end: Ints
    label: Ints
    score: Floats


class _Asked(NamedTuple):
    """S spans `[start, end)` of a batch and their tags; what stands beyond end − start does not matter."""

    sentence: Ints
    start: Ints
    end: Ints
    tags: Ints  # [S, L]


def _check_ends(sentence: Ints, start: Ints, end: Ints, lengths: Ints) -> None:
    late = end > lengths[sentence]
    if late.any():
        b, low, high = (int(array[late.argmax()]) for array in (sentence, start, end))
        raise ValueError(f"span [{low}, {high}) ends after sentence {b}, which has {lengths[b]} characters")
