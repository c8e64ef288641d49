"""Contents: the words of a lexicon with their ids and marks, as one reader sees them.

A lexicon has contents that everybody sees. Those of a `with` block (`Lexicon.temporary_words`)
stand above them: they hold the block's own words and marks, and look up all others below.
`compacted` gives contents without the words that were removed. It changes nothing in the contents
that it is made of, so whoever reads those can go on.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.text.lattice import Ints
from hanlattice.text.rules import FEW_GONE, Rules
from hanlattice.text.trie import Parts


class Marks:
    """Which ids of a growing list are marked, as a table, for look-ups of many ids at once."""

    def __init__(self) -> None:
        self._table = np.zeros(0, dtype=bool)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, ids: Ints, marked: bool) -> None:
        """Mark these, or take their marks away."""
        if ids.size and (size := int(ids.max()) + 1) > len(self._table):
            self._table = np.append(self._table, np.zeros(max(size, len(self._table)), dtype=bool))
        new = np.unique(ids[self._table[ids] != marked])
        self._table[new] = marked
        self._count += len(new) if marked else -len(new)

    def of(self, ids: Ints) -> npt.NDArray[np.bool_]:
        """Whether each of these is marked."""
        there = ids < len(self._table)
        if there.all():
            return self._table[ids]
        found = np.zeros(len(ids), dtype=bool)
        found[there] = self._table[ids[there]]
        return found

    def __contains__(self, at: int) -> bool:
        return at < len(self._table) and bool(self._table[at])

    def copy(self) -> Marks:
        other = Marks()
        other._table = self._table.copy()
        other._count = self._count
        return other

    def renumbered(self, ids: Ints) -> Marks:
        """The marks of these ids, which are numbered from 0 on now."""
        other = Marks()
        other.put(np.flatnonzero(self.of(ids)), True)
        return other


class Contents:
    """Words with ids from `first` on; those with smaller ids are the words of `below`."""

    def __init__(self) -> None:
        self.below: Contents | None = None
        self.first = 0
        self._text = ""  # a file's words, a line each, which are not in the next two yet
        self._lines = 0
        self._folded_text = ""  # the same lines as they are matched
        self._words: list[str] = []
        self._places: dict[str, int] = {}  # by the folded word, in the order of ids
        self.removed = Marks()
        self.chosen: Marks | None = None  # those named since `mark_baseline`
        # What matches the words that were there when they were last looked for.
        self.parts: Parts = ()
        self.grown = 0  # words that have a vector, if words have any
        self.vectors: Any = None  # of the block's own words, as its model keeps them
        self.vectors_below: tuple[Any, ...] = ()
        self.fixed = 0  # ids below this one never change
        self.gone = 0  # removed words from `fixed` on
        self._rules = Rules()
        self._shares_rules = False
        self.changes = 0

    def above(self) -> Contents:
        """The same words for a block, which may change them; `parts` must be those of all words."""
        made = Contents()
        made.below = self
        made.first = made.grown = made.fixed = self.size
        made.removed = self.removed.copy()
        made.chosen = None if self.chosen is None else self.chosen.copy()
        made.parts = self.parts
        made._rules = self._rules
        made._shares_rules = self._shares_rules = True  # whoever says something new copies them
        return made

    @property
    def rules(self) -> Rules:
        """What is said of words. To say more, take `own_rules`."""
        return self._rules

    def own_rules(self) -> Rules:
        """Rules that no other contents have."""
        if self._shares_rules:
            self._rules = self._rules.copy()
            self._shares_rules = False
        return self._rules

    @property
    def size(self) -> int:
        """How many ids there are: the words, and those that were removed."""
        return self.first + (len(self._words) or self._lines)

    def __len__(self) -> int:
        return self.size - len(self.removed)

    @property
    def words(self) -> list[str]:
        """The words by their ids, removed ones included."""
        own = self.unfolded()._words
        return own if self.below is None else self.below.words[: self.first] + own

    def word(self, at: int) -> str:
        """The word with this id."""
        if self.below is not None and at < self.first:
            return self.below.word(at)
        return self.unfolded()._words[at - self.first]

    def place(self, key: str) -> int | None:
        """The id of a folded word, also if it was removed; None for a word that was never there."""
        at = self._places.get(key)
        if at is not None or self.below is None:
            return at
        at = self.below.place(key)
        return at if at is not None and at < self.first else None

    def folded(self, low: int, high: int) -> list[str]:
        """The words with ids from `low` to `high` as they are matched, without a walk through those
        before them.
        """
        before = (
            []
            if self.below is None or low >= self.first
            else self.below.folded(low, min(high, self.first))
        )
        later = self.size - high
        count = high - max(low, self.first)
        if count <= 0:
            return before
        return before + list(islice(reversed(self.unfolded()._places), later, later + count))[::-1]

    def last(self, count: int) -> list[str]:
        """So many folded words."""
        return self.folded(self.size - count, self.size)

    def unfolded(self) -> Contents:
        """With a list and a dict of a file's words: matching needs neither, and they take longer to
        make.

        The lexicon calls this with its lock, before anybody asks for a word.
        """
        if self.below is not None:
            self.below.unfolded()
        if text := self._text:
            words = text.split("\n")[:-1]
            keys = words if self._folded_text == text else self._folded_text.split("\n")[:-1]
            self._places = dict(zip(keys, range(len(keys)), strict=True))
            self._words = words
            self._text = self._folded_text = ""
        return self

    def take_lines(self, text: str, folded: str, parts: Parts) -> None:
        """Make the lines of a text all the words. Nobody has to have looked for them yet."""
        self._text = text
        self._folded_text = folded
        self._lines = text.count("\n")
        self.parts = parts
        if self.chosen is not None:
            self.chosen.put(np.arange(self.size), True)

    def join(self, word: str, key: str) -> int:
        """The id of a word, which is put in if it is not there."""
        at = self.place(key)
        if at is None:
            at = self._places[key] = self.size
            self._words.append(word)
        return at

    def name(self, at: Ints, added: list[bool]) -> None:
        """Removed words are restored, and all of these count as the user's own from now on; −1 is
        skipped.
        """
        there = np.flatnonzero(at >= 0)
        if len(self.removed):
            back = there[self.removed.of(at[there])]
            back = back[
                np.unique(at[back], return_index=True)[1]
            ]  # and not where the same word comes once more
            for nth in back.tolist():
                added[nth] = True
            self.removed.put(at[back], False)
            self.gone -= int(np.count_nonzero(at[back] >= self.fixed))
        if self.chosen is not None:
            self.chosen.put(at[there], True)

    def drop(self, at: int) -> None:
        """Take a word out that is there."""
        self.removed.put(np.array([at]), True)
        self.gone += at >= self.fixed
        if self.chosen is not None:
            self.chosen.put(np.array([at]), False)

    def tidy_rules(self) -> None:
        """Forget labels that nothing has any more, and words of which nothing is said any more."""
        if self._rules.is_wasteful:
            self._rules = self._rules.compacted()
            self._shares_rules = False

    @property
    def is_wasteful(self) -> bool:
        """Whether there are more removed words than others, among those that may leave."""
        return self.gone > max(FEW_GONE, self.size - self.fixed - self.gone)

    def compacted(self) -> tuple[Contents, Ints]:
        """Contents without the removed words, whose other words have new ids from `fixed` on; and
        their old ids.
        """
        later = np.arange(self.fixed, self.size)
        kept = later[~self.removed.of(later)]
        ids = np.concatenate([np.arange(self.fixed), kept])
        keys = self.folded(self.fixed, self.size)
        own = self.fixed - self.first
        made = Contents()
        made.below = self.below
        made.first = self.first
        made.fixed = self.fixed
        made.vectors_below = self.vectors_below
        made._words = self._words[:own] + [self._words[at - self.first] for at in kept.tolist()]
        made._places = dict(islice(self._places.items(), own))
        made._places.update(
            (keys[at - self.fixed], self.fixed + nth) for nth, at in enumerate(kept.tolist())
        )
        made.removed = self.removed.renumbered(ids)
        made.chosen = None if self.chosen is None else self.chosen.renumbered(ids)
        made.parts = tuple(part for part in self.parts if part.end <= self.fixed)
        made._rules = self._rules
        made._shares_rules = self._shares_rules
        made.changes = self.changes
        return made, kept
