"""Rules: what a user's dictionary says of words beyond that they are words, and where that holds in texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.text.dictionary import LONGEST_LABELLED, SPLIT, Entry
from hanlattice.text.lattice import Ints
from hanlattice.text.matcher import Matches, Parts, by_text, extend, find

ANY, CUT_BEFORE = -1, -2  # instead of a label: every one; no span goes on at this character
Trusts = dict[str, float]  # by label; NaN is the predictor's; "" is every label
Cuts = tuple[int, ...]  # inside a word


class Rulings(NamedTuple):
    """What is said of spans [start, end) of sentences, all [R]; labels are numbered by who asks."""

    sentence: Ints
    start: Ints
    end: Ints
    label: Ints
    bonus: npt.NDArray[np.float64]  # NaN: as much as the predictor says

    def at(self, chosen: npt.NDArray[Any]) -> Rulings:
        sentence, start, end, label, bonus = self
        return Rulings(sentence[chosen], start[chosen], end[chosen], label[chosen], bonus[chosen])


class Rules:
    """By the word as it is matched: without white space, and folded."""

    def __init__(self) -> None:
        self.labels: list[str] = []  # in the order of their arrival; none ever leaves, so that numbers stay
        self._ids: dict[str, int] = {}
        self._words: list[str] = []  # as given
        self._said: list[Trusts | Cuts] = []  # by id; nothing for a word that was removed
        self._parts: Parts = ()

    def __bool__(self) -> bool:
        return bool(self._ids)

    def __len__(self) -> int:
        return sum(map(bool, self._said))

    def __contains__(self, key: str) -> bool:
        return key in self._ids and bool(self._said[self._ids[key]])

    def __iter__(self) -> Iterator[Entry]:
        for word, said in zip(self._words, self._said, strict=True):
            if isinstance(said, tuple):
                edges = zip((0, *said), (*said, len(word)), strict=True)
                yield from [Entry(SPLIT.join(word[low:high] for low, high in edges), SPLIT)] if said else []
            else:
                yield from (Entry(word, each, None if math.isnan(much) else much) for each, much in said.items())

    def copy(self) -> Rules:
        other = copy(self)
        other.labels, other._words, other._said, other._ids = (
            self.labels[:],
            self._words[:],
            self._said[:],
            self._ids.copy(),
        )
        return other

    def put(self, entry: Entry, word: str, key: str) -> bool:
        """Say this of a word, given as stored and as matched; False when nothing is new, or it is too long."""
        if not 0 < len(key) <= LONGEST_LABELLED:
            return False
        at = self._ids.setdefault(key, len(self._said))
        if at == len(self._said):
            self._said.append({})
            self._words.append(word)
        before, self._said[at] = self._said[at], self._added(entry, self._said[at], key)
        self._words[at] = "".join(word.split()) if entry.is_split else word
        if entry.label and not entry.is_split and entry.label not in self.labels:
            self.labels.append(entry.label)
        return not _same(before, self._said[at])

    @staticmethod
    def _added(entry: Entry, before: Trusts | Cuts, key: str) -> Trusts | Cuts:
        if entry.is_split:
            parts = [len("".join(part.split())) for part in entry.word.split(SPLIT)]
            return tuple(np.cumsum(parts)[:-1].tolist())
        trust = math.nan if entry.trust is None else entry.trust
        is_command = trust == math.inf or not entry.label
        forced = isinstance(before, dict) and math.inf in before.values()
        kept = {} if is_command or isinstance(before, tuple) or forced else {**before}
        kept.pop("", None)
        return kept | {entry.label: trust}

    def drop(self, key: str) -> bool:
        """Say nothing more of a word; False when nothing was said."""
        key = key if key in self else key.replace(SPLIT, "")
        if key not in self:
            return False
        self._said[self._ids[key]] = {}
        return True

    def match_joined(self, folded: str, lengths: Ints) -> Matches:
        """Where words of which something is said stand in texts of these lengths, joined by line ends."""
        self._parts = extend(self._parts, len(self._ids), lambda count: list(self._ids)[-count:])
        found = by_text(find(self._parts, folded), lengths)
        return found.where(np.array([bool(self._said[at]) for at in found.word.tolist()], dtype=bool))

    def is_command(self, words: Ints) -> npt.NDArray[np.bool_]:
        """Whether each word is cut, or forced: of two that overlap only one can be."""
        return np.array([_commands(self._said[at]) for at in words.tolist()], dtype=bool)

    def rulings(self, matches: Matches, numbers: Mapping[str, int], learnt: int) -> Rulings:
        """What is said of these places. A label that has no number says nothing; those from `learnt` on are new."""
        text = np.repeat(np.arange(len(matches.counts)), matches.counts)
        rows: list[tuple[int, int, int, int]] = []
        bonuses: list[float] = []
        places = (column.tolist() for column in (text, matches.start, matches.end, matches.word))
        for at, start, end, word in zip(*places, strict=True):
            for each, bonus in _rows(at, start, end, self._said[word], numbers, learnt):
                rows.append(each)
                bonuses.append(bonus)
        sentence, begin, stop, label = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        return Rulings(sentence, begin, stop, label, np.array(bonuses, dtype=np.float64))


def _rows(
    text: int, start: int, end: int, said: Trusts | Cuts, numbers: Mapping[str, int], learnt: int
) -> Iterator[tuple[tuple[int, int, int, int], float]]:
    if isinstance(said, tuple):
        yield from (((text, start + cut, start + cut + 1, CUT_BEFORE), 0.0) for cut in said)
        return
    for label, trust in said.items():
        number = numbers.get(label) if label else ANY
        if number is not None and not (number >= learnt and trust == -math.inf):
            yield (text, start, end, number), trust


def _commands(said: Trusts | Cuts) -> bool:
    return isinstance(said, tuple) or math.inf in said.values()


def _same(left: Trusts | Cuts, right: Trusts | Cuts) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return [*map(repr, left.items())] == [*map(repr, right.items())]  # NaN is like NaN here
    return left == right and type(left) is type(right)
