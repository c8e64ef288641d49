"""Rules: what a user's dictionary says of words, such as labels and cuts, and where it holds."""

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
from hanlattice.text.trie import Matches, Parts, TooManyMatchesError, extend, find

# Up to this many removed words, or words without rules, cost next to nothing to keep.
FEW_GONE = 1000
# Instead of the number of a label: every label; and that no span goes on at a character.
ANY = -1
CUT_BEFORE = -2
# By label; NaN stands for the predictor's default, and "" for every label.
Trusts = dict[str, float]
# Offsets inside a word.
Cuts = tuple[int, ...]


class Rulings(NamedTuple):
    """What is said of spans [start, end) of sentences, all [R]; the caller numbers the labels."""

    sentence: Ints
    start: Ints
    end: Ints
    label: Ints
    # NaN: as much as the predictor says.
    bonus: npt.NDArray[np.float64]

    def at(self, chosen: npt.NDArray[Any]) -> Rulings:
        """Return the rulings that an index or mask chooses."""
        sentence, start, end, label, bonus = self
        return Rulings(sentence[chosen], start[chosen], end[chosen], label[chosen], bonus[chosen])


class Rules(dict[str, int]):
    """The numbers of words that something was said of, and what is said of each.

    The key is the word as it is matched: folded, and without white space. A word of which nothing
    is said any more keeps its number until the rules are `compacted`.
    """

    def __init__(self) -> None:
        super().__init__()
        # How many words have each label, in the order in which labels came.
        self._uses: Counter[str] = Counter()
        # Labels that no word has any more.
        self._unused = 0
        # By number: the word as given, and what is said of it, which is empty once it was dropped.
        self._words: list[str] = []
        self._said: list[Trusts | Cuts] = []
        self._gone = 0
        self._parts: Parts = ()

    @property
    def labels(self) -> list[str]:
        """Return the labels in the order in which they came; only `compacted` renumbers them."""
        return list(self._uses)

    def entries(self) -> Iterator[Entry]:
        """Yield what is said, as entries of a dictionary."""
        for word, said in zip(self._words, self._said, strict=True):
            if isinstance(said, dict):
                for label, trust in said.items():
                    yield Entry(word, label, None if math.isnan(trust) else trust)
            elif said:
                edges = zip((0, *said), (*said, len(word)), strict=True)
                yield Entry(SPLIT.join(word[low:high] for low, high in edges), SPLIT)

    def copy(self) -> Rules:
        """Return rules that change independently."""
        rules = copy(self)
        rules._uses = self._uses.copy()
        rules._words = self._words[:]
        rules._said = self._said[:]
        return rules

    def put(self, entry: Entry, word: str, key: str) -> bool:
        """Say what an entry says of a word; False when nothing is new, or the word is too long.

        Args:
            entry: A checked entry.
            word: The word as stored.
            key: The word as it is matched.
        """
        if not 0 < len(key) <= LONGEST_LABELLED:
            return False
        number = self.setdefault(key, len(self._said))
        if number == len(self._said):
            self._said.append({})
            self._words.append(word)
            self._gone += 1
        before = self._said[number]
        said: Trusts | Cuts
        if entry.is_split:
            parts = [len("".join(part.split())) for part in entry.word.split(SPLIT)]
            said = tuple(np.cumsum(parts)[:-1].tolist())
            word = "".join(word.split())
        else:
            trust = math.nan if entry.trust is None else entry.trust
            said = {}
            # A word that is forced, forbidden altogether or cut has no other rule beside it.
            is_command = trust == math.inf or not entry.label
            if isinstance(before, dict) and not is_command and math.inf not in before.values():
                said = {label: other for label, other in before.items() if label}
            said[entry.label] = trust
        self._say(number, said)
        self._words[number] = word
        if isinstance(before, dict) and isinstance(said, dict):
            # Compared as text, in which NaN equals NaN.
            return [*map(repr, before.items())] != [*map(repr, said.items())]
        return before != said

    def says(self, key: str) -> bool:
        """Return whether something is said of a word, which may be given with its cuts."""
        return any(self._said[self[form]] for form in (key, key.replace(SPLIT, "")) if form in self)

    def drop(self, key: str) -> bool:
        """Say nothing more of a word; False when nothing was said."""
        if not self.says(key):
            return False
        number = self.get(key, -1)
        if number < 0 or not self._said[number]:
            number = self[key.replace(SPLIT, "")]
        self._say(number, {})
        return True

    def _say(self, number: int, said: Trusts | Cuts) -> None:
        """Say this of a word and nothing else, and count words and labels."""
        before = self._said[number]
        self._said[number] = said
        self._gone += bool(before) - bool(said)
        # New uses first: a label that the word keeps must not look unused in between.
        for label in said if isinstance(said, dict) else ():
            if label:
                self._unused -= label in self._uses and not self._uses[label]
                self._uses[label] += 1
        for label in before if isinstance(before, dict) else ():
            if label:
                self._uses[label] -= 1
                self._unused += not self._uses[label]

    @property
    def is_wasteful(self) -> bool:
        """Return whether most words have no rule any more, or most labels no word."""
        words = len(self._said) - self._gone
        labels = len(self._uses) - self._unused
        return self._gone > max(FEW_GONE, words) or self._unused > max(FEW_GONE, labels)

    def compacted(self) -> Rules:
        """Return the same rules without unused words and labels; the others get new numbers."""
        rules = Rules()
        for key, word, said in zip(self, self._words, self._said, strict=True):
            if said:
                rules[key] = len(rules._said)
                rules._words.append(word)
                rules._said.append({})
                rules._gone += 1
                rules._say(rules[key], said)
        # Labels stay in the order in which they came.
        rules._uses = Counter({label: count for label, count in self._uses.items() if count})
        return rules

    def match_joined(self, folded: str, lengths: Ints, most: int = sys.maxsize) -> Matches:
        """Return where words with rules stand in texts of these lengths, joined by line ends."""
        self._parts = extend(self._parts, len(self), lambda count: list(self)[-count:])
        matches = find(self._parts, folded, lengths, most)
        return matches.where(self._of_each(matches.word, bool))

    def is_command(self, words: Ints) -> npt.NDArray[np.bool_]:
        """Return whether each word is cut, or forced: of two that overlap only one can be."""
        return self._of_each(
            words, lambda said: isinstance(said, tuple) or math.inf in said.values()
        )

    def _of_each(
        self, words: Ints, is_so: Callable[[Trusts | Cuts], bool]
    ) -> npt.NDArray[np.bool_]:
        """Return whether something is true of what is said of each word, computed once a word."""
        different, which = np.unique(words, return_inverse=True)
        return np.array([is_so(self._said[word]) for word in different.tolist()], dtype=bool)[which]

    def rulings(
        self, matches: Matches, numbers: Mapping[str, int], learnt: int, most: int = sys.maxsize
    ) -> Rulings:
        """Return what is said of the spans of matches.

        Args:
            matches: What `match_joined` returned.
            numbers: The number of each label; a label without one says nothing.
            learnt: Labels from this number on are new to the model.
            most: TooManyMatchesError where there are more rulings.
        """
        text = np.repeat(np.arange(len(matches.counts)), matches.counts)
        different, which = np.unique(matches.word, return_inverse=True)
        rows = [_rows(self._said[word], numbers, learnt) for word in different.tolist()]
        sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        if sizes[which].sum() > most:
            raise TooManyMatchesError
        # [R]: the match, and which of the rulings on its word.
        match, nth = cells(sizes[which])
        flat = np.array([row for word_rows in rows for row in word_rows], dtype=np.float64)
        first = np.cumsum(sizes) - sizes
        low, high, label, bonus = flat.reshape(-1, 4)[first[which][match] + nth].T
        start = matches.start[match]
        begin = start + low.astype(np.int64)
        stop = np.where(high > 0, start + high.astype(np.int64), matches.end[match])
        return Rulings(
            text[match], begin, stop, label.astype(np.int64), np.ascontiguousarray(bonus)
        )


def _rows(
    said: Trusts | Cuts, numbers: Mapping[str, int], learnt: int
) -> list[tuple[int, int, int, float]]:
    """Return (start, end, label, bonus) of each ruling on a word, counted from the word's start.

    An end of 0 is the end of the word.
    """
    if isinstance(said, tuple):
        return [(cut, cut + 1, CUT_BEFORE, 0.0) for cut in said]
    numbered = ((numbers.get(label) if label else ANY, trust) for label, trust in said.items())
    # A model that has never learnt a label need not be forbidden to use it.
    return [
        (0, 0, number, trust)
        for number, trust in numbered
        if number is not None and not (number >= learnt and trust == -math.inf)
    ]
