"""The specification of the CRF: it enumerates every tagging, so T and K must be small."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

import torch
from torch import Tensor

from hanlattice.ops.crf.values import CRFScores, TaggedSpans

Tagging = tuple[int, ...]


def _score(emissions: Tensor, tagging: Tagging, scores: CRFScores) -> Tensor:
    """Return the score of one tagging: its emissions [T, K], its steps and its two edges."""
    total = scores.start[tagging[0]] + scores.end[tagging[-1]]
    for t, tag in enumerate(tagging):
        total = total + emissions[t, tag]
    for left, right in pairwise(tagging):
        total = total + scores.transitions[left, right]
    score: Tensor = total
    return score


def _sentences(
    emissions: Tensor, lengths: Tensor, scores: CRFScores
) -> Iterator[tuple[list[Tagging], Tensor]]:
    """Yield for each sentence all taggings, in lexicographic order, and their scores."""
    for sentence, length in zip(emissions, lengths.tolist(), strict=True):
        taggings = list(product(range(sentence.shape[1]), repeat=length))
        yield taggings, torch.stack([_score(sentence, tagging, scores) for tagging in taggings])


def log_partition(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    return torch.stack(
        [all_scores.logsumexp(0) for _, all_scores in _sentences(emissions, lengths, scores)]
    )


def log_likelihood(emissions: Tensor, tags: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    rows = zip(emissions, tags.tolist(), lengths.tolist(), strict=True)
    gold = [_score(sentence, tuple(row[:length]), scores) for sentence, row, length in rows]
    return torch.stack(gold) - log_partition(emissions, lengths, scores)


def viterbi(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> tuple[Tensor, Tensor]:
    tags, score = nbest(emissions, lengths, scores, 1)
    return tags[:, 0], score[:, 0]


def marginals(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    rows = []
    for taggings, all_scores in _sentences(emissions, lengths, scores):
        row = [
            [emissions.new_zeros(()) for _ in range(emissions.shape[2])]
            for _ in range(emissions.shape[1])
        ]
        for tagging, probability in zip(taggings, all_scores.softmax(0), strict=True):
            for t, tag in enumerate(tagging):
                row[t][tag] = row[t][tag] + probability
        rows.append(torch.stack([torch.stack(columns) for columns in row]))
    return torch.stack(rows)


def nbest(emissions: Tensor, lengths: Tensor, scores: CRFScores, n: int) -> tuple[Tensor, Tensor]:
    B, T, _ = emissions.shape
    tags = torch.zeros(B, n, T, dtype=torch.int64)
    score = emissions.new_full((B, n), -torch.inf)
    for b, (taggings, all_scores) in enumerate(_sentences(emissions, lengths, scores)):
        best = all_scores.argsort(descending=True, stable=True)[:n]
        score[b, : len(best)] = all_scores[best]
        for rank, index in enumerate(best.tolist()):
            tags[b, rank, : len(taggings[index])] = torch.tensor(taggings[index])
    return tags, score


def span_log_probability(
    emissions: Tensor, lengths: Tensor, scores: CRFScores, spans: TaggedSpans
) -> Tensor:
    sentences = list(_sentences(emissions, lengths, scores))
    answers = []
    for b, start, end, tags, blocked in zip(*(field.tolist() for field in spans), strict=True):
        taggings, all_scores = sentences[b]
        fits = [
            list(tagging[start:end]) == tags[: end - start]
            and not any(blocked[tag] for tag in tagging[end : end + 1])
            for tagging in taggings
        ]
        answers.append(all_scores[torch.tensor(fits)].logsumexp(0) - all_scores.logsumexp(0))
    return torch.stack(answers)
