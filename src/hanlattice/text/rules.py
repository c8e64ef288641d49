"""Rules: what a user's dictionary says of words beyond that they are words, and where that holds in
texts.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.text.dictionary import LONGEST_LABELLED, SPLIT, Entry
from hanlattice.text.lattice import Ints, cells
from hanlattice.text.trie import Matches, Parts, TooManyMatchesError, by_text, extend, find

# Words that were removed, or of which nothing is said any more: so many cost next to nothing.
FEW_GONE = 1000
# instead of a label: every one; no span goes on at this character
ANY = -1
CUT_BEFORE = -2
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
        self._uses: Counter[str] = (
            Counter()
        )  # how many words have a label, in the order of their arrival
        self._unused = 0  # labels that no word has any more
        self._ids: dict[str, int] = {}
        self._words: list[str] = []  # as given
        self._said: list[Trusts | Cuts] = []  # by id; nothing for a word that was removed
        self._gone = 0  # words of which nothing is said any more
        self._parts: Parts = ()

    @property
    def labels(self) -> list[str]:
        """In the order of their arrival. None leaves these rules, so that numbers stay; see
        `compacted`.
        """
        return list(self._uses)

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
                yield from (
                    [Entry(SPLIT.join(word[low:high] for low, high in edges), SPLIT)]
                    if said
                    else []
                )
            else:
                yield from (
                    Entry(word, each, None if math.isnan(much) else much)
                    for each, much in said.items()
                )

    def copy(self) -> Rules:
        other = copy(self)
        other._uses = self._uses.copy()
        other._words = self._words[:]
        other._said = self._said[:]
        other._ids = self._ids.copy()
        return other

    def put(self, entry: Entry, word: str, key: str) -> bool:
        """Say this of a word, given as stored and as matched; False when nothing is new, or it is
        too long.
        """
        if not 0 < len(key) <= LONGEST_LABELLED:
            return False
        at = self._ids.setdefault(key, len(self._said))
        if at == len(self._said):
            self._said.append({})
            self._words.append(word)
            self._gone += 1
        before = self._said[at]
        self._say(at, self._added(entry, before, key))
        self._words[at] = "".join(word.split()) if entry.is_split else word
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

    def says(self, key: str) -> bool:
        """Whether something is said of a word, which may be given with its cuts."""
        return key in self or key.replace(SPLIT, "") in self

    def drop(self, key: str) -> bool:
        """Say nothing more of a word; False when nothing was said."""
        key = key if key in self else key.replace(SPLIT, "")
        if key not in self:
            return False
        self._say(self._ids[key], {})
        return True

    def _say(self, at: int, said: Trusts | Cuts) -> None:
        """Say this of a word and nothing else."""
        before, self._said[at] = self._said[at], said
        self._gone += bool(before) - bool(said)
        for label in _labels_of(said):
            self._unused -= label in self._uses and not self._uses[label]
            self._uses[label] += 1
        for label in _labels_of(before):
            self._uses[label] -= 1
            self._unused += not self._uses[label]

    @property
    def is_wasteful(self) -> bool:
        """Whether most words say nothing any more, or most labels are on no word."""
        words = len(self._said) - self._gone
        labels = len(self._uses) - self._unused
        return self._gone > max(FEW_GONE, words) or self._unused > max(FEW_GONE, labels)

    def compacted(self) -> Rules:
        """The same without them. Words and labels have other numbers."""
        made = Rules()
        for key, word, said in zip(self._ids, self._words, self._said, strict=True):
            if said:
                made._ids[key] = len(made._said)
                made._words.append(word)
                made._said.append({})
                made._gone += 1
                made._say(len(made._said) - 1, said)
        made._uses = Counter(
            {label: count for label, count in self._uses.items() if count}
        )  # in their order
        return made

    def match_joined(self, folded: str, lengths: Ints, most: int = sys.maxsize) -> Matches:
        """Where words of which something is said stand in texts of these lengths, joined by line
        ends.
        """
        self._parts = extend(self._parts, len(self._ids), lambda count: list(self._ids)[-count:])
        found = by_text(find(self._parts, folded, most), lengths)
        return found.where(self._of_each(found.word, bool))

    def is_command(self, words: Ints) -> npt.NDArray[np.bool_]:
        """Whether each word is cut, or forced: of two that overlap only one can be."""
        return self._of_each(words, _commands)

    def _of_each(
        self, words: Ints, is_so: Callable[[Trusts | Cuts], bool]
    ) -> npt.NDArray[np.bool_]:
        """Whether something is true of what is said of each of these words."""
        different, which = np.unique(words, return_inverse=True)
        return np.array([is_so(self._said[at]) for at in different.tolist()], dtype=bool)[which]

    def rulings(
        self, matches: Matches, numbers: Mapping[str, int], learnt: int, most: int = sys.maxsize
    ) -> Rulings:
        """What is said of these places; TooManyMatchesError where that is more than `most` rulings.

        A label that has no number says nothing; those from `learnt` on are new.
        """
        text = np.repeat(np.arange(len(matches.counts)), matches.counts)
        different, which = np.unique(matches.word, return_inverse=True)
        rows = [_rows(self._said[at], numbers, learnt) for at in different.tolist()]
        sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        if sizes[which].sum() > most:
            raise TooManyMatchesError
        place, nth = cells(sizes[which])  # [R]: the match, and which of the rulings on its word
        flat = np.array([row for each in rows for row in each], dtype=np.float64).reshape(-1, 4)
        low, high, label, bonus = flat[(np.cumsum(sizes) - sizes)[which][place] + nth].T
        start = matches.start[place]
        end = matches.end[place]
        begin = start + low.astype(np.int64)
        stop = np.where(high > 0, start + high.astype(np.int64), end)
        return Rulings(
            text[place], begin, stop, label.astype(np.int64), np.ascontiguousarray(bonus)
        )


def _rows(
    said: Trusts | Cuts, numbers: Mapping[str, int], learnt: int
) -> list[tuple[int, int, int, float]]:
    """(start, end, label, bonus) of each ruling on a word, counted from its start; an end of 0 is
    the word's.
    """
    if isinstance(said, tuple):
        return [(cut, cut + 1, CUT_BEFORE, 0.0) for cut in said]
    numbered = ((numbers.get(label) if label else ANY, trust) for label, trust in said.items())
    return [
        (0, 0, number, trust)
        for number, trust in numbered
        if number is not None and not (number >= learnt and trust == -math.inf)
    ]


def _labels_of(said: Trusts | Cuts) -> list[str]:
    return [] if isinstance(said, tuple) else [label for label in said if label]


def _commands(said: Trusts | Cuts) -> bool:
    return isinstance(said, tuple) or math.inf in said.values()


def _same(left: Trusts | Cuts, right: Trusts | Cuts) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return [*map(repr, left.items())] == [*map(repr, right.items())]  # NaN is like NaN here
    return left == right and type(left) is type(right)
