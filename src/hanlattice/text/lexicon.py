"""Lexicon: the words that the lattice may use, and where they stand in a text.

Words are matched in folded form (`text.normal.fold`), so full-width and half-width spellings are one word. A lattice
needs words of two characters or more; shorter ones are passed over. An id is a word's place in the order of arrival and
never changes, so that a table of vectors can stand beside the lexicon.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.errors import InputError
from hanlattice.files import keep_first, read_text, writing
from hanlattice.text.lattice import Ints
from hanlattice.text.matcher import Found, TableMatcher, TrieMatcher
from hanlattice.text.normal import LONE_SURROGATE, fold

_JIEBA = re.compile(r"(?P<word>.+?) +(?P<frequency>\d+)( +\S+)?")
_DIGITS = 18  # of the largest frequency; a longer number is none


class Matches(NamedTuple):
    """The words in some texts. Text t has `counts[t]` of them; they stand text by text, by start and then by end."""

    counts: Ints  # [texts]
    start: Ints  # [W]
    end: Ints  # [W]
    word: Ints  # [W]: ids


class Lexicon:
    """Words with stable ids. A table matches the bulk; later additions wait in a trie until there are many."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.words: list[str] = []
        self._ids: dict[str, int] = {}
        self._removed: set[int] = set()
        self._chosen: set[int] | None = None  # those named since `settle`
        self._chosen_table = np.zeros(0, dtype=bool)
        self._matcher: TableMatcher | None = None
        self._covered = 0
        self._recent = TrieMatcher()
        self.update(words)

    def __len__(self) -> int:
        return len(self.words) - len(self._removed)

    def __iter__(self) -> Iterator[str]:
        return (word for at, word in enumerate(self.words) if at not in self._removed)

    def __contains__(self, word: str) -> bool:
        at = self._ids.get(fold(word.strip()))
        return at is not None and at not in self._removed

    def id(self, word: str) -> int | None:
        """The word's id, or None when it is not in the lexicon."""
        return self._ids[fold(word.strip())] if word in self else None

    def add(self, word: str) -> bool:
        """Add a word; False when it is there already or has fewer than two characters."""
        return self.add_many([word])[0]

    def add_many(self, words: Iterable[str]) -> list[bool]:
        """`add` of each word, in a fraction of the time. A word that cannot be added leaves all of them out."""
        ids, kept, added, keys = self._ids, self.words, [], []
        for word, key in zip(*_cleaned([word.strip() for word in words]), strict=True):
            keys.append(key)
            if key in ids or len(key) < 2:
                added.append(self._bring_back(key))
            else:
                ids[key] = len(kept)
                kept.append(word)
                added.append(True)
                if self._matcher is not None:
                    self._recent.add(key, ids[key])
        if self._chosen is not None:
            self._chosen.update(ids[key] for key in keys if key in ids)
            self._chosen_table = np.zeros(0, dtype=bool)
        return added

    def _bring_back(self, key: str) -> bool:
        """Whether the word had been taken out; it no longer is."""
        at = self._ids.get(key)
        was_removed = at in self._removed
        self._removed -= {at}
        return was_removed

    def update(self, words: Iterable[str]) -> int:
        """Add many words; how many of them were new."""
        return sum(self.add_many(words))

    def remove(self, word: str) -> bool:
        """Take a word out; False when it was not there."""
        at = self.id(word)
        if at is None:
            return False
        self._removed.add(at)
        if self._chosen is not None:
            self._chosen.discard(at)
            self._chosen_table = np.zeros(0, dtype=bool)
        return True

    def settle(self) -> None:
        """From now on words that are added, also those that are here already, are a user's own: `is_chosen`."""
        self._chosen = set()

    def is_chosen(self, words: Ints) -> npt.NDArray[np.bool_]:
        """Whether each of these ids is a word that was added since `settle`."""
        if not self._chosen:
            return np.zeros(len(words), dtype=bool)
        if len(self._chosen_table) < len(self.words):
            self._chosen_table = np.zeros(len(self.words), dtype=bool)
            self._chosen_table[list(self._chosen)] = True
        return self._chosen_table[words]

    def match(self, text: str) -> list[tuple[int, int, str]]:
        """Every (start, end, word) in the text, overlapping ones too, by start and then by end."""
        return [(start, end, self.words[at]) for start, end, at in self.match_ids(fold(text))]

    def match_ids(self, folded: str) -> list[tuple[int, int, int]]:
        """`match` on text that is folded already, with ids for words."""
        return list(zip(*(array.tolist() for array in self._find(folded)), strict=True))

    def match_many(self, folded: Sequence[str]) -> Matches:
        """`match_ids` of many texts at once, as flat arrays."""
        return self.match_joined("\n".join(folded), np.fromiter(map(len, folded), dtype=np.int64, count=len(folded)))

    def match_joined(self, folded: str, lengths: Ints) -> Matches:
        """`match_many` on texts of these lengths that are joined by line ends, which no word contains."""
        found = self._find(folded)
        first = np.cumsum(lengths + 1) - (lengths + 1)
        text = np.searchsorted(first, found.start, side="right") - 1
        counts = np.bincount(text, minlength=len(lengths))
        return Matches(counts, found.start - first[text], found.end - first[text], found.word)

    def _find(self, folded: str) -> Found:
        found = self._ready().find(folded)
        if self._covered < len(self.words):
            found = _merged(found, self._recent.find(folded))
        if self._removed:
            stays = ~np.isin(found.word, np.fromiter(self._removed, dtype=np.int64))
            found = Found(*(array[stays] for array in found))
        return found

    def _ready(self) -> TableMatcher:
        """The table, built when first needed and again when the trie of additions has grown to a tenth of it."""
        if self._matcher is None or len(self.words) - self._covered > 1000 + self._covered // 10:
            self._matcher = TableMatcher(list(self._ids))
            self._covered = len(self.words)
            self._recent = TrieMatcher()
        return self._matcher

    def save(self, path: str | Path) -> None:
        """One word a line, UTF-8; a TAB follows where the line could be taken for jieba's `word freq tag`."""
        with writing(path) as file:
            for at, word in enumerate(self):
                line = f"{word}\t\n" if _JIEBA.fullmatch(word) else f"{word}\n"
                file.write(line if at else keep_first(line))

    def load(self, path: str | Path) -> int:
        """Add the words of a file: one a line, `word TAB anything`, or jieba's `word freq tag`. How many were new."""
        return self.update(read_words(path))


def _merged(found: Found, more: list[tuple[int, int, int]]) -> Found:
    table = np.concatenate([np.stack(found, axis=1), np.array(more, dtype=np.int64).reshape(-1, 3)])
    return Found(*table[np.lexsort((table[:, 1], table[:, 0]))].T)


def merged_matches(left: Matches, right: Matches) -> Matches:
    """The matches of two lexicons in the same texts; on one span those of `left` stand first."""
    pairs = [np.concatenate(columns) for columns in zip(left[1:], right[1:], strict=True)]
    texts = np.arange(len(left.counts))
    text = np.concatenate([np.repeat(texts, left.counts), np.repeat(texts, right.counts)])
    order = np.lexsort((pairs[1], pairs[0], text))  # it keeps the order of equals
    return Matches(left.counts + right.counts, *(column[order] for column in pairs))


def _cleaned(words: list[str]) -> tuple[list[str], list[str]]:
    """Words as they are kept, and folded: all of them at once."""
    joined = "\n".join(words)
    if "\t" in joined or joined.count("\n") >= max(1, len(words)):
        wrong = next(word for word in words if "\n" in word or "\t" in word)
        raise InputError(f"a word of a lexicon stands on one line and has no TAB: {wrong!r}")
    if LONE_SURROGATE.search(joined):  # as `fold` has it, and a file can carry it
        words = [LONE_SURROGATE.sub("\ufffd", word) for word in words]
    return words, fold(joined).split("\n") if words else []


def read_words(path: str | Path) -> Iterator[str]:
    """The words of a dictionary file, in order, blank lines left out."""
    for line in _lines(path):
        plain = "\t" not in line and " " not in line
        if word := (line if plain else _entry(line)[0]).strip():
            yield word


def read_entries(path: str | Path) -> Iterator[tuple[str, int]]:
    """The same words with their frequencies: the number after TAB or in jieba's form, 1 where there is none."""
    for line in _lines(path):
        word, frequency = _entry(line)
        if word := word.strip():
            yield word, int(frequency) if frequency.isdecimal() and len(frequency) <= _DIGITS else 1


def _entry(line: str) -> tuple[str, str]:
    """A line's word, and the field where its frequency may stand."""
    word, tab, rest = line.partition("\t")
    jieba = None if tab else _JIEBA.fullmatch(word)
    return (jieba["word"], jieba["frequency"]) if jieba else (word, (rest.split() or [""])[0])


def _lines(path: str | Path) -> list[str]:
    text = read_text(path)
    return text.split("\n" if "\n" in text else "\r")  # old lists end lines with CR alone
