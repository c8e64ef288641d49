"""Lexicon: the words that the lattice may use, and where they occur in a text.

Words are matched in folded form (`text.normalize.fold`) and without white space, so full-width and
half-width spellings are one word, and so are traditional and simplified ones. Words have two
characters or more, and at most `LONGEST`; others are skipped. Ids count up as words arrive, so
that a table of vectors can stand beside the lexicon. An id changes only when the lexicon forgets
removed words, and never for a word that came with a model. What a dictionary says of words beyond
that they are words is in `rules`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from hanlattice.checks import brief
from hanlattice.errors import InputError
from hanlattice.files import read_text
from hanlattice.text.boundaries import remove_space
from hanlattice.text.contents import Contents, Marks
from hanlattice.text.dictionary import SPLIT, Entry, is_plain, read_dictionary, write_dictionary
from hanlattice.text.display import counted
from hanlattice.text.fork_safety import new_lock
from hanlattice.text.lattice import Ints
from hanlattice.text.normalize import LONE_SURROGATE, code_points, fold
from hanlattice.text.rules import Rules
from hanlattice.text.trie import Matches, Occurrences, Parts, TableMatcher, by_length, extend, find

# Reads without the lock before the next one keeps others from changing the lexicon.
_TRIES = 3
Result = TypeVar("Result")

# Characters of a word: by default a tagger reads no longer piece of text at once.
LONGEST = 512


class Grows(Protocol):
    """Vectors of words that join a lexicon: `checkpoint.lexicon_vectors.Vocabulary`.

    The lexicon holds its lock during each call.
    """

    def grow(self, lexicon: Lexicon) -> None:
        """Make vectors for words without one, before any text is searched for those words."""

    def keep(self, before: Contents, after: Contents, kept: Ints) -> None:
        """Forget vectors of words that left; the arguments are those of `Contents.compacted`."""

    def of(self, contents: Contents) -> tuple[Any, ...]:
        """Return the tables of vectors of the words that joined."""


class _Loan:
    """A block that words are borrowed for; `lexicon` is None when it has ended."""

    def __init__(self, lexicon: Lexicon, contents: Contents) -> None:
        self.lexicon: Lexicon | None = lexicon
        self.contents = contents


# The blocks that a thread or task is in, the innermost last. A context variable, so that tasks
# that take turns in a thread have each its own words, and `asyncio.to_thread` takes them along.
_loans: ContextVar[tuple[_Loan, ...]] = ContextVar("hanlattice.lexicon", default=())


class Lexicon:
    """Words with stable ids, which threads may share.

    A word that one thread adds is found by the others from their next text on.
    """

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._everybodys = Contents()
        self.vocabulary: Grows | None = None
        self._lock = new_lock()
        self.update(words)

    def __getstate__(self) -> dict[str, Any]:
        # A copy gets a lock of its own.
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=new_lock())

    def __repr__(self) -> str:
        return f"<Lexicon: {counted(len(self), 'word')}>"

    @property
    def contents(self) -> Contents:
        """Return what this thread or task sees: its innermost block, or what everybody sees."""
        for loan in reversed(_loans.get()):
            if loan.lexicon is self:
                return loan.contents
        return self._everybodys

    def _unfolded(self) -> Contents:
        with self._lock:
            return self.contents.unfolded()

    def __len__(self) -> int:
        return len(self.contents)

    @property
    def size(self) -> int:
        """Return how many ids there are, for words and for words that were removed."""
        return self.contents.size

    @property
    def rules(self) -> Rules:
        """Return what is said of words beyond that they are words."""
        return self.contents.rules

    @property
    def words(self) -> list[str]:
        """Return the words by their ids, removed ones included."""
        return self._unfolded().words

    def __iter__(self) -> Iterator[str]:
        contents = self._unfolded()
        return (word for id, word in enumerate(contents.words) if id not in contents.removed)

    def __contains__(self, word: str) -> bool:
        return self.id(word) is not None

    def id(self, word: str) -> int | None:
        """Return the word's id, or None when it is not in the lexicon."""
        contents = self._unfolded()
        id = contents.place(_key(word))
        return None if id is None or id in contents.removed else id

    def folded(self, first: int = 0) -> list[str]:
        """Return the words from this id on as they are matched, removed ones included."""
        with self._lock:
            contents = self.contents
            return contents.folded(first, contents.size)

    def add(self, word: str, label: str = "", trust: float | None = None) -> bool:
        """Add a word, or an entry with a label.

        With a label, a model of entities scores exactly this span with that label `trust` more,
        wherever the word stands. Such a word may have one character, and 64 at most.

        Args:
            word: Two characters or more, at most `LONGEST`.
            label: May be new to the model.
            trust: `math.inf` forces the label, `-math.inf` forbids it. By default the predictor
                decides.

        Returns:
            False when the lexicon has the word, or it is too short or too long.
        """
        is_entry = label != "" or trust is not None
        return self.add_many([Entry(word, label, trust) if is_entry else word])[0]

    def forbid(self, word: str, label: str = "") -> bool:
        """Never find a span of exactly this word, or none with this label.

        Returns:
            False when that was known.
        """
        return self.add_many([Entry(word, label, -math.inf)])[0]

    def split(self, *parts: str) -> bool:
        """Cut between these parts wherever they follow each other: `split("太", "贵")`.

        Returns:
            False when that was known.
        """
        return self.add_many([Entry(SPLIT.join(parts), SPLIT)])[0]

    def add_many(self, words: Iterable[str | Entry]) -> list[bool]:
        """Add many words at once, which takes a fraction of the time of `add` for each.

        If one of them cannot be added, none is.
        """
        if isinstance(words, str):
            raise TypeError(f"words must be a list of them, such as [{brief(words)}], not one str")
        words = list(words)
        entries = {
            index: word.checked() for index, word in enumerate(words) if isinstance(word, Entry)
        }
        if not entries:
            return self._add(words)  # type: ignore[arg-type]
        cleaned = zip(
            *_cleaned(
                entry.word.replace(SPLIT, "") if entry.is_split else entry.word
                for entry in entries.values()
            ),
            strict=True,
        )
        with self._lock:
            added = self._add(
                word.lattice_word if isinstance(word, Entry) else word for word in words
            )
            contents = self.contents
            rules = contents.own_rules()
            for (index, entry), (word, key) in zip(entries.items(), cleaned, strict=True):
                added[index] |= not entry.is_plain and rules.put(entry, word, key)
            contents.tidy_rules()
        return added

    def _add(self, words: Iterable[str]) -> list[bool]:
        cleaned, folded = _cleaned(words)
        with self._lock:
            contents = self._unfolded()
            contents.changes += 1
            ids: list[int] = []
            added = []
            for word, key in zip(cleaned, folded, strict=True):
                size = contents.size
                ids.append(contents.join(word, key) if 1 < len(key) <= LONGEST else -1)
                added.append(contents.size > size)
            contents.name(np.array(ids, dtype=np.int64), added)
        return added

    def update(self, words: Iterable[str | Entry]) -> int:
        """Add many words, or entries with labels, and return how many were new."""
        return sum(self.add_many(words))

    def remove(self, word: str) -> bool:
        """Remove a word and its rules; False when it was not in the lexicon.

        Once more words were removed than are left, the lexicon forgets them. Then the others get
        new ids, except for the words of a model.
        """
        key = _key(word)
        with self._lock:
            contents = self._unfolded()
            contents.changes += 1
            was_ruled = contents.rules.says(key) and contents.own_rules().drop(key)
            contents.tidy_rules()
            id = contents.place(key)
            if id is None or id in contents.removed:
                return was_ruled
            contents.drop(id)
            if contents.is_wasteful:
                self._compact(contents)
            return True

    def _compact(self, contents: Contents) -> None:
        """Forget removed words. A thread that reads a text keeps the old contents and vectors."""
        smaller, kept = contents.compacted()
        if self.vocabulary is not None:
            self.vocabulary.keep(contents, smaller, kept)
        for loan in reversed(_loans.get()):
            if loan.lexicon is self:
                loan.contents = smaller
                return
        self._everybodys = smaller

    @contextmanager
    def temporary_words(
        self, words: Iterable[str | Entry] = (), without: Iterable[str] = ()
    ) -> Iterator[None]:
        """Add words, and remove the words `without`, for the length of a `with` block.

        Only the thread or the asyncio task that is in the block sees the change, and what it starts
        there with `asyncio.to_thread` or as a task; nobody waits for it. It does not see what
        others change meanwhile, and what it adds or removes itself ends with the block. In a
        generator a block also counts for the code that asks for its values.
        """
        words = list(words)
        without = list(without)
        with self._lock:
            # Matchers and vectors of the words below are made once, not in every block.
            self._ready()
            below = self.contents
            contents = below.above()
            if self.vocabulary is not None:
                contents.vectors_below = self.vocabulary.of(below)
        block = _Loan(self, contents)
        _loans.set((*_loans.get(), block))
        try:
            self.add_many(words)
            for word in without:
                self.remove(word)
            yield
        finally:
            _loans.set(tuple(loan for loan in _loans.get() if loan is not block))
            with self._lock:
                # Tasks and threads that started in the block may go on, and still have the loan.
                block.lexicon = None

    def mark_baseline(self) -> None:
        """Count words that are added from now on, known ones too, as user words."""
        with self._lock:
            contents = self.contents
            contents.chosen = Marks()
            contents.fixed = contents.size
            contents.gone = 0

    def read_consistently(self, read: Callable[[], Result]) -> Result:
        """Return what `read` returns; call it again if somebody changes the lexicon meanwhile."""
        for _ in range(_TRIES):
            with self._lock:
                contents = self.contents
                before = contents.changes
            result = read()
            if self.contents is contents and contents.changes == before:
                return result
        with self._lock:
            return read()

    def with_same_ids(self, read: Callable[[], Result]) -> Result:
        """Return what `read` returns, and call it again if words get other ids meanwhile."""
        for _ in range(_TRIES):
            contents = self.contents
            result = read()
            if self.contents is contents:
                return result
        with self._lock:
            return read()

    def vectors(self) -> tuple[Any, ...] | None:
        """Return the vectors of words that joined a model, by id; None if words have none."""
        with self._lock:
            self._ready()
            return None if self.vocabulary is None else self.vocabulary.of(self.contents)

    def is_user_word(self, words: Ints) -> npt.NDArray[np.bool_]:
        """Return whether each of these ids is a word that was added since `mark_baseline`."""
        chosen = self.contents.chosen
        if chosen is None or not chosen.count:
            return np.zeros(len(words), dtype=bool)
        return chosen.of(words)

    def match(self, text: str) -> list[tuple[int, int, str]]:
        """Return every (start, end, word) in the text, by start and then by end.

        Words may overlap. White space inside a word, or inside the text, does not matter.
        """
        if not isinstance(text, str):
            raise TypeError(f"a text must be a str, not {type(text).__name__}: {brief(text)}")
        places = [index for index, character in enumerate(text) if not character.isspace()]
        folded = fold(remove_space(text))

        def read() -> list[tuple[int, int, str]]:
            rows = self.match_ids(folded)
            contents = self._unfolded()
            return [
                (places[low], places[high - 1] + 1, contents.word(id)) for low, high, id in rows
            ]

        return self.with_same_ids(read)

    def match_ids(self, folded: str) -> list[tuple[int, int, int]]:
        """Return every (start, end, id) in a text that is folded and has no white space."""
        matches = self.match_joined(folded, np.array([len(folded)]))
        return list(zip(*(array.tolist() for array in matches[1:]), strict=True))

    def match_many(self, folded: Sequence[str]) -> Matches:
        """Return what `match_ids` finds in many texts, as flat arrays."""
        lengths = np.fromiter(map(len, folded), dtype=np.int64, count=len(folded))
        return self.match_joined("\n".join(folded), lengths)

    def match_joined(self, folded: str, lengths: Ints, most: int = sys.maxsize) -> Matches:
        """Return what `match_many` finds in texts that are joined already.

        Args:
            folded: Texts joined by line ends, which no word contains.
            lengths: [texts]: the length of each.
            most: TooManyMatchesError if there are more words.
        """
        contents, parts = self._ready()
        matches = find(parts, folded, lengths, most)
        if not contents.removed.count:
            return matches
        return matches.where(~contents.removed.of(matches.word))

    def match_rules(
        self, folded: str, lengths: Ints, most: int = sys.maxsize
    ) -> tuple[Rules, Matches]:
        """Return the rules, and where their words stand in texts that are joined by line ends."""
        with self._lock:
            rules = self.contents.rules
            return rules, rules.match_joined(folded, lengths, most)

    def by_length(self, folded: str) -> Iterator[Occurrences]:
        """Yield where words stand in a folded text, one length of word after the other.

        Memory is linear in the text.
        """
        contents, parts = self._ready()
        for found in by_length(parts, folded):
            if contents.removed.count:
                stays = ~contents.removed.of(found.word)
                found = Occurrences(*(array[stays] for array in found))
            yield found

    def _ready(self) -> tuple[Contents, Parts]:
        """Return the contents, and matchers of all words, whose vectors are made if need be."""
        with self._lock:
            contents = self.contents
            parts = contents.parts
            grown = contents.grown
            size = contents.size
            if not parts or parts[-1].end < size:
                contents.parts = extend(parts, size, contents.last)
            if self.vocabulary is not None and grown < size:
                # Before `grow`, which may match words itself.
                contents.grown = size
                try:
                    self.vocabulary.grow(self)
                except BaseException:
                    contents.parts = parts
                    contents.grown = grown
                    raise
            return contents, contents.parts

    def save(self, path: str | Path) -> None:
        """Write a dictionary in UTF-8: one word a line, then what is said of some."""
        write_dictionary(path, chain(self, self.rules.entries()))

    def load(self, path: str | Path, encoding: str | None = None) -> int:
        """Add the words of a file and what it says of them, and return how many were new.

        docs/dictionaries.md describes the formats.
        """
        text = read_text(path, encoding)
        if not self.size and is_plain(path, text):
            # A model's own file needs no work for each word: its lines are searched as they stand.
            folded = fold(text)
            matcher = _plain_words(folded)
            if matcher is not None:
                with self._lock:
                    contents = self.contents
                    contents.changes += 1
                    contents.take_lines(text, folded, matcher)
                return self.size
        return self.update(read_dictionary(path, encoding))


def merged_matches(left: Matches, right: Matches) -> Matches:
    """Merge the matches of two lexicons in the same texts; `left` comes first on the same span."""
    pairs = [np.concatenate(columns) for columns in zip(left[1:], right[1:], strict=True)]
    texts = np.arange(len(left.counts))
    text = np.concatenate([np.repeat(texts, left.counts), np.repeat(texts, right.counts)])
    # np.lexsort is stable, so equal spans stay in order.
    order = np.lexsort((pairs[1], pairs[0], text))
    return Matches(left.counts + right.counts, *(column[order] for column in pairs))


def _plain_words(text: str) -> TableMatcher | None:
    """Return a matcher of the lines of a text; None unless each line is a word as it stands.

    Such lines are different, have no white space, and are as long as a word may be.
    """
    codes = code_points(text)
    ends = np.flatnonzero(codes == ord("\n"))
    lengths = np.diff(ends, prepend=-1) - 1
    if not len(ends) or ends[-1] != len(codes) - 1 or lengths.min() < 2 or lengths.max() > LONGEST:
        return None
    # Each character once: there are far fewer than the text is long.
    seen = np.zeros(sys.maxunicode + 1, dtype=bool)
    seen[codes] = True
    seen[ord("\n")] = False
    characters = "".join(map(chr, np.flatnonzero(seen).tolist()))
    if LONE_SURROGATE.search(characters) or remove_space(characters) != characters:
        return None
    return TableMatcher.of_lines(codes)


def _stripped(words: Iterable[str]) -> list[str]:
    """Check that all words are strings, and strip white space around them."""
    words = list(words)
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"a word must be a str, not {type(word).__name__}: {brief(word)}")
    return list(map(str.strip, words))


def _key(word: str) -> str:
    """Return a word as it is matched."""
    return remove_space(fold(*_stripped([word])))


def _cleaned(given: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return words as stored and as matched; a word that folding does not change is not copied."""
    words = _stripped(given)
    # All at once, for a call to `fold` costs more than most words.
    joined = "\n".join(words)
    if "\t" in joined or joined.count("\n") >= max(1, len(words)):
        wrong = next(word for word in words if "\n" in word or "\t" in word)
        raise InputError(f"a word of a lexicon is one line without a TAB: {brief(wrong)}")
    folded = fold(joined)
    # Fewer words than pieces: some word has white space inside.
    if len(joined.split()) != sum(map(bool, words)):
        folded = "\n".join(map(remove_space, folded.split("\n")))
    if folded == joined:
        return words, words
    if LONE_SURROGATE.search(joined):
        # A file can carry the replacement that `fold` has too.
        words = [LONE_SURROGATE.sub("\ufffd", word) for word in words]
    keys = folded.split("\n")
    return words, [word if word == key else key for word, key in zip(words, keys, strict=True)]
