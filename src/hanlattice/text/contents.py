"""Contents: the words of a lexicon with their ids and marks, as one reader sees them.

A lexicon has contents that everybody sees. The contents of a `with` block
(`Lexicon.temporary_words`) stand above them: they hold the block's own words and marks, and look
up all others below. `compacted` makes contents without the words that were removed, and changes
nothing in the old ones, so a thread that reads those can go on.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.text.lattice import Ints
from hanlattice.text.rules import FEW_GONE, Rules
from hanlattice.text.trie import Parts, TableMatcher, TriePart


class Marks:
    """Which ids of a growing list are marked, as a table, to look up many ids at once."""

    def __init__(self) -> None:
        self._table = np.zeros(0, dtype=bool)
        # A plain number, since every look-up of a text reads it.
        self.count = 0

    def put(self, ids: Ints, marked: bool) -> None:
        """Mark these ids, or take their marks away."""
        if ids.size and (size := int(ids.max()) + 1) > len(self._table):
            # At least doubled, so that adding one word at a time stays linear.
            self._table = np.append(self._table, np.zeros(max(size, len(self._table)), dtype=bool))
        new = np.unique(ids[self._table[ids] != marked])
        self._table[new] = marked
        self.count += len(new) if marked else -len(new)

    def of(self, ids: Ints) -> npt.NDArray[np.bool_]:
        """Return whether each of these ids is marked."""
        known = ids < len(self._table)
        if known.all():
            return self._table[ids]
        marked = np.zeros(len(ids), dtype=bool)
        marked[known] = self._table[ids[known]]
        return marked

    def __contains__(self, id: int) -> bool:
        return id < len(self._table) and bool(self._table[id])

    def copy(self) -> Marks:
        """Return marks that change independently."""
        marks = Marks()
        marks._table = self._table.copy()
        marks.count = self.count
        return marks

    def renumbered(self, ids: Ints) -> Marks:
        """Return the marks of these ids, which are numbered from 0 on now."""
        marks = Marks()
        marks.put(np.flatnonzero(self.of(ids)), True)
        return marks


class Contents:
    """Words with ids from `first` on; smaller ids are the words of `below`."""

    def __init__(self) -> None:
        self.below: Contents | None = None
        self.first = 0
        # Ids below this one are taken: by words, and by words that were removed.
        self.size = 0
        # The lines of a file, as given and as matched, until `unfolded` splits them into words.
        self._text = ""
        self._folded_text = ""
        self._words: list[str] = []
        # Ids by the folded word, in the order of ids.
        self._places: dict[str, int] = {}
        self.removed = Marks()
        # The words that were named since `mark_baseline`.
        self.chosen: Marks | None = None
        # Matchers of the words that were there when a text was last read.
        self.parts: Parts = ()
        # This many words have a vector, if words have any.
        self.grown = 0
        # The vectors of the block's own words, as its model keeps them.
        self.vectors: Any = None
        self.vectors_below: tuple[Any, ...] = ()
        # Ids below this one never change; `gone` counts the removed words above.
        self.fixed = 0
        self.gone = 0
        # What is said of words. Change only what `own_rules` returns.
        self.rules = Rules()
        self._shares_rules = False
        self.changes = 0

    def above(self) -> Contents:
        """Return contents with the same words for a block, which may change them.

        `parts` must match all words by now.
        """
        block = Contents()
        block.below = self
        block.first = block.size = block.grown = block.fixed = self.size
        block.removed = self.removed.copy()
        block.chosen = None if self.chosen is None else self.chosen.copy()
        block.parts = self.parts
        block.rules = self.rules
        # Either copies the rules before it says something new.
        block._shares_rules = self._shares_rules = True
        return block

    def own_rules(self) -> Rules:
        """Return rules that no other contents have."""
        if self._shares_rules:
            self.rules = self.rules.copy()
            self._shares_rules = False
        return self.rules

    def __len__(self) -> int:
        return self.size - self.removed.count

    @property
    def words(self) -> list[str]:
        """Return the words by their ids, removed ones included."""
        own = self.unfolded()._words
        return own if self.below is None else self.below.words[: self.first] + own

    def word(self, id: int) -> str:
        """Return the word with this id."""
        if self.below is not None and id < self.first:
            return self.below.word(id)
        return self.unfolded()._words[id - self.first]

    def place(self, key: str) -> int | None:
        """Return the id of a folded word, removed or not; None for a word that never joined."""
        id = self._places.get(key)
        if id is not None or self.below is None:
            return id
        # Words that joined below since the block began are not part of it.
        id = self.below.place(key)
        return id if id is not None and id < self.first else None

    def folded(self, low: int, high: int) -> list[str]:
        """Return the words with ids from `low` to `high` as they are matched."""
        before: list[str] = []
        if self.below is not None and low < self.first:
            before = self.below.folded(low, min(high, self.first))
        later = self.size - high
        count = high - max(low, self.first)
        if count <= 0:
            return before
        # From the end: new words are the last, and a dict cannot be entered in the middle.
        return before + list(islice(reversed(self.unfolded()._places), later, later + count))[::-1]

    def last(self, count: int) -> list[str]:
        """Return the last `count` words as they are matched."""
        return self.folded(self.size - count, self.size)

    def unfolded(self) -> Contents:
        """Split a file's text into words, which matching does not need, and return the contents.

        The lexicon calls this under its lock, before anybody asks for a word.
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

    def take_lines(self, text: str, folded: str, matcher: TableMatcher) -> None:
        """Make the lines of a text all the words, before anybody has looked for one."""
        self._text = text
        self._folded_text = folded
        self.size = text.count("\n")
        self.parts = (TriePart(0, self.size, matcher),)
        if self.chosen is not None:
            self.chosen.put(np.arange(self.size), True)

    def join(self, word: str, key: str) -> int:
        """Return the id of a word, which is added if it is new."""
        id = self.place(key)
        if id is None:
            id = self._places[key] = self.size
            self._words.append(word)
            self.size += 1
        return id

    def name(self, ids: Ints, added: list[bool]) -> None:
        """Restore removed words among these, and count all of them as the user's own.

        An id of −1 is skipped. `added` becomes true where a word was restored.
        """
        named = np.flatnonzero(ids >= 0)
        if self.removed.count:
            back = named[self.removed.of(ids[named])]
            # A word that is named twice is restored once.
            back = back[np.unique(ids[back], return_index=True)[1]]
            for index in back.tolist():
                added[index] = True
            self.removed.put(ids[back], False)
            self.gone -= int(np.count_nonzero(ids[back] >= self.fixed))
        if self.chosen is not None:
            self.chosen.put(ids[named], True)

    def drop(self, id: int) -> None:
        """Remove a word."""
        self.removed.put(np.array([id]), True)
        self.gone += id >= self.fixed
        if self.chosen is not None:
            self.chosen.put(np.array([id]), False)

    def tidy_rules(self) -> None:
        """Forget labels without words, and words without rules, once they are many."""
        if self.rules.is_wasteful:
            self.rules = self.rules.compacted()
            self._shares_rules = False

    @property
    def is_wasteful(self) -> bool:
        """Return whether most of the words that may leave are removed."""
        return self.gone > max(FEW_GONE, self.size - self.fixed - self.gone)

    def compacted(self) -> tuple[Contents, Ints]:
        """Return contents without the removed words, and the old ids of the words from `fixed` on.

        Those words get new ids; ids below `fixed` stay.
        """
        later = np.arange(self.fixed, self.size)
        kept = later[~self.removed.of(later)]
        ids = np.concatenate([np.arange(self.fixed), kept])
        keys = self.folded(self.fixed, self.size)
        own = self.fixed - self.first
        smaller = Contents()
        smaller.below = self.below
        smaller.first = self.first
        smaller.fixed = self.fixed
        smaller.size = len(ids)
        smaller.vectors_below = self.vectors_below
        smaller._words = self._words[:own] + [self._words[id - self.first] for id in kept.tolist()]
        smaller._places = dict(islice(self._places.items(), own))
        for new, old in enumerate(kept.tolist(), self.fixed):
            smaller._places[keys[old - self.fixed]] = new
        smaller.removed = self.removed.renumbered(ids)
        smaller.chosen = None if self.chosen is None else self.chosen.renumbered(ids)
        # Matchers of fixed ids stay good; the others are made again when a text is read.
        smaller.parts = tuple(part for part in self.parts if part.end <= self.fixed)
        smaller.rules = self.rules
        smaller._shares_rules = self._shares_rules
        smaller.changes = self.changes
        return smaller, kept
