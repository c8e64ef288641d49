"""Lexicon: the words that the lattice may use, and where they stand in a text.

Words are matched in folded form (`text.normal.fold`), so full-width and half-width spellings are one word. A lattice
needs words of two characters or more; shorter ones are passed over. An id is a word's place in the order of arrival and
never changes, so that a table of vectors can stand beside the lexicon.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from hanlattice.errors import InputError
from hanlattice.files import keep_first, read_lines, writing
from hanlattice.text.normal import LONE_SURROGATE, fold

_JIEBA = re.compile(r"(?P<word>.+?) +\d+( +\S+)?")


class Matcher(Protocol):
    def find(self, text: str) -> list[tuple[int, int, int]]:
        """Every (start, end, index of the pattern), overlapping ones too, in any order."""


class TrieMatcher:
    """A trie as one dict from (node, character) to node, the root being 0: easy to trust, and cheap to extend."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._next: dict[tuple[int, str], int] = {}
        self._ends: dict[int, int] = {}  # node → index of the pattern that ends there
        for index, pattern in enumerate(patterns):
            self.add(pattern, index)

    def add(self, pattern: str, index: int) -> None:
        node = 0
        for character in pattern:
            node = self._next.setdefault((node, character), len(self._next) + 1)
        self._ends[node] = index

    def find(self, text: str) -> list[tuple[int, int, int]]:
        found = []
        for start in range(len(text)):
            node, end = 0, start
            while end < len(text) and (node := self._next.get((node, text[end]), 0)):
                end += 1
                if node in self._ends:
                    found.append((start, end, self._ends[node]))
        return found


class AutomatonMatcher:
    """daachorse's double-array Aho–Corasick automaton: millions of characters a second, whatever the lexicon's size."""

    def __init__(self, patterns: list[str]) -> None:
        import daachorse

        self._automaton = daachorse.CharwiseDoubleArrayAhoCorasick(patterns)

    def find(self, text: str) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = self._automaton.find_overlapping(text)
        return found


def build_matcher(patterns: list[str]) -> Matcher:
    if not patterns:
        return TrieMatcher()
    try:
        return AutomatonMatcher(patterns)
    except ModuleNotFoundError:
        return TrieMatcher(patterns)


class Lexicon:
    """Words with stable ids. An automaton matches the bulk; later additions wait in a trie until there are many."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.words: list[str] = []
        self._ids: dict[str, int] = {}
        self._removed: set[int] = set()
        self._matcher: Matcher | None = None
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
        word = LONE_SURROGATE.sub("\ufffd", word.strip())  # as `fold` has it, and a file can carry it
        if "\n" in word or "\t" in word:
            raise InputError(f"a word of a lexicon stands on one line and has no TAB: {word!r}")
        key = fold(word)
        if len(key) < 2:
            return False
        at = self._ids.get(key)
        if at is not None:
            was_removed = at in self._removed
            self._removed.discard(at)
            return was_removed
        at = self._ids[key] = len(self.words)
        self.words.append(word)
        if self._matcher is not None:
            self._recent.add(key, at)
        return True

    def update(self, words: Iterable[str]) -> int:
        """Add many words; how many of them were new."""
        return sum(self.add(word) for word in words)

    def remove(self, word: str) -> bool:
        """Take a word out; False when it was not there."""
        at = self.id(word)
        if at is None:
            return False
        self._removed.add(at)
        return True

    def match(self, text: str) -> list[tuple[int, int, str]]:
        """Every (start, end, word) in the text, overlapping ones too, by start and then by end."""
        return [(start, end, self.words[at]) for start, end, at in self.match_ids(fold(text))]

    def match_ids(self, folded: str) -> list[tuple[int, int, int]]:
        """`match` on text that is folded already, with ids for words."""
        matcher = self._ready()
        found = matcher.find(folded)
        if self._covered < len(self.words):
            found = found + self._recent.find(folded)
        if self._removed:
            found = [match for match in found if match[2] not in self._removed]
        return sorted(found)

    def _ready(self) -> Matcher:
        """The automaton, built when first needed and again when the trie of additions has grown to a tenth of it."""
        if self._matcher is None or len(self.words) - self._covered > 1000 + self._covered // 10:
            self._matcher = build_matcher(list(self._ids))
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


def read_words(path: str | Path) -> Iterator[str]:
    """The words of a dictionary file, in order, blank lines left out."""
    for _, line in read_lines(path):
        word, tab, _ = line.partition("\t")
        jieba = None if tab else _JIEBA.fullmatch(word)
        word = jieba["word"] if jieba else word
        if word.strip():
            yield word.strip()
