"""Lexicon: the words that the lattice may use, and where they occur in a text.

Words are matched in folded form (`text.normal.fold`), so full-width and half-width spellings are
one word, and so are traditional and simplified ones; and without white space, which no lattice has.
Words have two characters or more; shorter ones are skipped, and so are those of more than
`LONGEST`. An id is a word's place in the order of arrival, so that a table of vectors can stand
beside the lexicon. It changes only when the lexicon forgets words that were removed, and never for
a word that came with a model. What a dictionary says of words beyond that they are words is in
`rules`.
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
from hanlattice.text.trie import (
    Matches,
    Occurrences,
    Parts,
    TableMatcher,
    TriePart,
    by_length,
    by_text,
    extend,
    find,
)

_TRIES = 3  # to read without keeping others from changing it
Found = TypeVar("Found")

LONGEST = 512  # characters of a word: by default a tagger reads no longer piece of text at once


class Grows(Protocol):
    """Vectors of words that join a lexicon: `models.vocabulary.Vocabulary`. Always called with the
    lexicon's lock.
    """

    def grow(
        self, lexicon: Lexicon
    ) -> None: ...  # before words of its contents are found that have no vector yet
    def keep(
        self, before: Contents, after: Contents, kept: Ints
    ) -> None: ...  # `Contents.compacted`
    def of(self, contents: Contents) -> tuple[Any, ...]: ...  # tables of the words that joined


class _Loan:
    """A block that words are borrowed for; `lexicon` is None when it has ended."""

    def __init__(self, lexicon: Lexicon, contents: Contents) -> None:
        self.lexicon: Lexicon | None = lexicon
        self.contents = contents


# The blocks that a thread or task is in, the innermost last. A context and not an attribute of the
# lexicon, so that
# tasks that take turns in a thread have each its own words, and `asyncio.to_thread` takes them
# along.
_loans: ContextVar[tuple[_Loan, ...]] = ContextVar("hanlattice.lexicon", default=())


class Lexicon:
    """Words with stable ids. Threads may share one: what a thread adds, others find from their next
    text on.
    """

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._everybodys = Contents()
        self.vocabulary: Grows | None = None
        self._lock = new_lock()
        self.update(words)

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name != "_lock"
        }  # a copy has its own

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=new_lock())

    def __repr__(self) -> str:
        return f"<Lexicon: {counted(len(self), 'word')}>"

    @property
    def contents(self) -> Contents:
        """What this thread or task sees: what it has borrowed, else what everybody sees."""
        loan = self._loan
        return self._everybodys if loan is None else loan.contents

    @property
    def _loan(self) -> _Loan | None:
        """The innermost block that this thread or task is in."""
        return next((loan for loan in reversed(_loans.get()) if loan.lexicon is self), None)

    def _unfolded(self) -> Contents:
        with self._lock:
            return self.contents.unfolded()

    def __len__(self) -> int:
        return len(self.contents)

    @property
    def size(self) -> int:
        """How many ids there are: the words, and those that were removed."""
        return self.contents.size

    @property
    def rules(self) -> Rules:
        """What is said of words beyond that they are words."""
        return self.contents.rules

    @property
    def words(self) -> list[str]:
        """The words by their ids, removed ones included."""
        return self._unfolded().words

    def __iter__(self) -> Iterator[str]:
        contents = self._unfolded()
        return (word for at, word in enumerate(contents.words) if at not in contents.removed)

    def __contains__(self, word: str) -> bool:
        return self.id(word) is not None

    def id(self, word: str) -> int | None:
        """The word's id, or None when it is not in the lexicon."""
        contents = self._unfolded()
        key = _key(word)
        at = contents.place(key)
        return None if at is None or at in contents.removed else at

    def folded(self, first: int = 0) -> list[str]:
        """The words from this id on as they are matched, removed ones included."""
        with self._lock:
            contents = self.contents
            return contents.folded(first, contents.size)

    def add(self, word: str, label: str = "", trust: float | None = None) -> bool:
        """Add a word; False when it is there already, has fewer than two characters, or more than
        `LONGEST`.

        With a label, a model of entities scores exactly this span with that label `trust` more,
        wherever the word stands: by default as much as the predictor says; `math.inf` forces it,
        `-math.inf` forbids it. A label may be new to the model. Such a word may have one character,
        and 64 at most.
        """
        return self.add_many(
            [Entry(word, label, trust)] if label != "" or trust is not None else [word]
        )[0]

    def forbid(self, word: str, label: str = "") -> bool:
        """Never find a span of exactly this word, or none with this label; False when that is
        known.
        """
        return self.add_many([Entry(word, label, -math.inf)])[0]

    def split(self, *parts: str) -> bool:
        """Cut between these parts wherever they follow each other: `split("太", "贵")`; False when
        that is known.
        """
        return self.add_many([Entry(SPLIT.join(parts), SPLIT)])[0]

    def add_many(self, words: Iterable[str | Entry]) -> list[bool]:
        """`add` of each word, in a fraction of the time. A word that cannot be added leaves all of
        them out.
        """
        if isinstance(words, str):
            raise _one_str(words)
        words = list(words)
        said = {at: each.checked() for at, each in enumerate(words) if isinstance(each, Entry)}
        if not said:
            return self._add(words)  # type: ignore[arg-type]
        stored = [
            each.word.replace(SPLIT, "") if each.is_split else each.word for each in said.values()
        ]
        cleaned = zip(*_cleaned(_stripped(stored)), strict=True)
        with self._lock:
            added = self._add(
                [each.lattice_word if isinstance(each, Entry) else each for each in words]
            )
            contents = self.contents
            rules = contents.own_rules()
            for (at, entry), (word, key) in zip(said.items(), cleaned, strict=True):
                added[at] |= not entry.is_plain and rules.put(entry, word, key)
            contents.tidy_rules()
        return added

    def _add(self, words: Iterable[str]) -> list[bool]:
        cleaned, folded = _cleaned(_stripped(words))
        with self._lock:
            contents = self._unfolded()
            contents.changes += 1
            at: list[int] = []
            added = []
            for word, key in zip(cleaned, folded, strict=True):
                size = contents.size
                at.append(contents.join(word, key) if 1 < len(key) <= LONGEST else -1)
                added.append(contents.size > size)
            contents.name(np.array(at, dtype=np.int64), added)
        return added

    def update(self, words: Iterable[str | Entry]) -> int:
        """Add many words, or entries with labels; how many of them were new."""
        return sum(self.add_many(words))

    def remove(self, word: str) -> bool:
        """Take a word out, and all that was said of it; False when it was not there.

        Once more words were removed than are left, nothing of them stays: the others get new ids,
        but for the words of a model.
        """
        key = _key(word)
        with self._lock:
            contents = self._unfolded()
            contents.changes += 1
            was_ruled = contents.rules.says(key) and contents.own_rules().drop(key)
            contents.tidy_rules()
            at = contents.place(key)
            if at is None or at in contents.removed:
                return was_ruled
            contents.drop(at)
            if contents.is_wasteful:
                self._compact(contents)
            return True

    def _compact(self, contents: Contents) -> None:
        """Forget removed words. Whoever reads a text just now has the contents, and the vectors,
        from before.
        """
        made, kept = contents.compacted()
        if self.vocabulary is not None:
            self.vocabulary.keep(contents, made, kept)
        if (loan := self._loan) is not None:
            loan.contents = made
        else:
            self._everybodys = made

    @contextmanager
    def temporary_words(
        self, words: Iterable[str | Entry] = (), without: Iterable[str] = ()
    ) -> Iterator[None]:
        """Inside a `with` block these words are added and those `without` taken out; then all is as
        it was before.

        Only the thread or the asyncio task that is in the block sees the change, and what it starts
        there with `asyncio.to_thread` or as a task; nobody waits for it. It does not see what
        others change meanwhile, and what it adds or removes itself ends with the block. In a
        generator a block also counts for who asks for its values.
        """
        words = list(words)
        without = list(without)
        with self._lock:
            self._ready()
            below = self.contents
            contents = below.above()
            if self.vocabulary is not None:
                contents.vectors_below = self.vocabulary.of(below)
        loan = _Loan(self, contents)
        _loans.set((*_loans.get(), loan))
        try:
            self.add_many(words)
            for word in without:
                self.remove(word)
            yield
        finally:
            _loans.set(tuple(each for each in _loans.get() if each is not loan))
            with self._lock:
                loan.lexicon = (
                    None  # also for tasks and threads that started in the block and go on
                )

    def mark_baseline(self) -> None:
        """From now on words that are added, also those that are here already, are a user's own:
        `is_chosen`.
        """
        with self._lock:
            contents = self.contents
            contents.chosen = Marks()
            contents.fixed = contents.size
            contents.gone = 0

    def read_consistently(self, read: Callable[[], Found]) -> Found:
        """What `read` returns if nobody changes the lexicon meanwhile: it is called again if
        somebody did.
        """
        for _ in range(_TRIES):
            with self._lock:
                contents = self.contents
                before = contents.changes
            found = read()
            if self.contents is contents and contents.changes == before:
                return found
        with self._lock:
            return read()

    def with_same_ids(self, read: Callable[[], Found]) -> Found:
        """What `read` returns if ids mean the same all the while: it is called again if words got
        other ids.
        """
        for _ in range(_TRIES):
            contents = self.contents
            found = read()
            if self.contents is contents:
                return found
        with self._lock:
            return read()

    def vectors(self) -> tuple[Any, ...] | None:
        """The vectors of words that joined a model, in the order of ids; None if words have none."""
        with self._lock:
            self._ready()
            return None if self.vocabulary is None else self.vocabulary.of(self.contents)

    def is_user_word(self, words: Ints) -> npt.NDArray[np.bool_]:
        """Whether each of these ids is a word that was added since `mark_baseline`."""
        chosen = self.contents.chosen
        return chosen.of(words) if chosen is not None else np.zeros(len(words), dtype=bool)

    def match(self, text: str) -> list[tuple[int, int, str]]:
        """Every (start, end, word) in the text, overlapping ones too, by start and then by end.

        White space does not matter to it, neither the word's nor the text's; a model also asks what
        the space parts.
        """
        if not isinstance(text, str):
            raise _no_str("a text", text)
        places = [at for at, character in enumerate(text) if not character.isspace()]
        contents, found = self._find(fold(remove_space(text)))
        rows = zip(*(array.tolist() for array in found), strict=True)
        with self._lock:
            contents.unfolded()
        return [(places[start], places[end - 1] + 1, contents.word(at)) for start, end, at in rows]

    def match_ids(self, folded: str) -> list[tuple[int, int, int]]:
        """`match` on text that is folded already and has no white space, with ids for words."""
        return list(zip(*(array.tolist() for array in self._find(folded)[1]), strict=True))

    def match_many(self, folded: Sequence[str]) -> Matches:
        """`match_ids` of many texts at once, as flat arrays."""
        return self.match_joined(
            "\n".join(folded), np.fromiter(map(len, folded), dtype=np.int64, count=len(folded))
        )

    def match_joined(self, folded: str, lengths: Ints, most: int = sys.maxsize) -> Matches:
        """`match_many` on texts of these lengths that are joined by line ends, which no word
        contains.

        TooManyMatchesError if they have more than `most` words.
        """
        return by_text(self._find(folded, most)[1], lengths)

    def match_rules(
        self, folded: str, lengths: Ints, most: int = sys.maxsize
    ) -> tuple[Rules, Matches]:
        """The rules, and where their words stand in texts that are joined by line ends."""
        with self._lock:
            rules = self.contents.rules
            return rules, rules.match_joined(folded, lengths, most)

    def by_length(self, folded: str) -> Iterator[Occurrences]:
        """Where words stand in folded text, words of one length after the other: memory is linear
        in the text.
        """
        contents, parts = self._ready()
        yield from (_living(contents, found) for found in by_length(parts, folded))

    def _find(self, folded: str, most: int = sys.maxsize) -> tuple[Contents, Occurrences]:
        contents, parts = self._ready()
        return contents, _living(contents, find(parts, folded, most))

    def _ready(self) -> tuple[Contents, Parts]:
        """The contents, with matchers and vectors of all words, made when they are first needed."""
        with self._lock:
            contents = self.contents
            parts = contents.parts
            grown = contents.grown
            contents.parts = extend(parts, contents.size, contents.last)
            size = contents.parts[-1].end if contents.parts else 0
            if self.vocabulary is not None and grown < size:
                contents.grown = size
                try:
                    self.vocabulary.grow(self)  # which may match words itself
                except BaseException:
                    contents.parts = parts
                    contents.grown = grown
                    raise
            return contents, contents.parts

    def save(self, path: str | Path) -> None:
        """One word a line, UTF-8, then what is said of some; a TAB follows where a line could be
        jieba's form.
        """
        write_dictionary(path, chain(self, self.rules))

    def load(self, path: str | Path, encoding: str | None = None) -> int:
        """Add the words of a file, and what it says of them (docs/dictionaries.md). How many were
        new.
        """
        text = read_text(path, encoding)
        if not self.size and is_plain(path, text) and self._take(text):
            return self.size
        return self.update(read_dictionary(path, encoding))

    def _take(self, text: str) -> bool:
        """Make the lines of a text all the words; False where some of them cannot be words as they
        are.
        """
        folded = fold(text)
        matcher = _plain_words(folded)
        if matcher is None:
            return False
        with self._lock:
            contents = self.contents
            contents.changes += 1
            contents.take_lines(text, folded, (TriePart(0, text.count("\n"), matcher),))
        return True


def _living(contents: Contents, found: Occurrences) -> Occurrences:
    """Without the words that were removed."""
    if not len(contents.removed):
        return found
    stays = ~contents.removed.of(found.word)
    return Occurrences(*(array[stays] for array in found))


def merged_matches(left: Matches, right: Matches) -> Matches:
    """The matches of two lexicons in the same texts; on the same span those of `left` come first."""
    pairs = [np.concatenate(columns) for columns in zip(left[1:], right[1:], strict=True)]
    texts = np.arange(len(left.counts))
    text = np.concatenate([np.repeat(texts, left.counts), np.repeat(texts, right.counts)])
    order = np.lexsort((pairs[1], pairs[0], text))  # it keeps the order of equals
    return Matches(left.counts + right.counts, *(column[order] for column in pairs))


def _plain_words(text: str) -> TableMatcher | None:
    """What matches the lines of a text that are words as they are: different, solid, of a length
    that can be.
    """
    codes = code_points(text)
    ends = np.flatnonzero(codes == ord("\n"))
    lengths = np.diff(ends, prepend=-1) - 1
    if not len(ends) or ends[-1] != len(codes) - 1 or lengths.min() < 2 or lengths.max() > LONGEST:
        return None
    characters = _characters(text)
    if LONE_SURROGATE.search(characters) or remove_space(characters) != characters:
        return None
    return TableMatcher.of_lines(codes)


def _characters(text: str) -> str:
    """Each character of a text once, without the line end."""
    seen = np.zeros(sys.maxunicode + 1, dtype=bool)
    seen[code_points(text)] = True
    seen[ord("\n")] = False
    return "".join(map(chr, np.flatnonzero(seen).tolist()))


def _stripped(words: Iterable[str]) -> list[str]:
    """Without white space around them."""
    if isinstance(words, str):
        raise _one_str(words)
    words = list(words)
    for word in words:
        if not isinstance(word, str):
            raise _no_str("a word", word)
    return list(map(str.strip, words))


def _key(word: str) -> str:
    """A word as it is matched."""
    return remove_space(fold(*_stripped([word])))


def _one_str(words: str) -> TypeError:
    return TypeError(f"words must be a list of them, such as [{brief(words)}], not one str")


def _no_str(what: str, value: object) -> TypeError:
    return TypeError(f"{what} must be a str, not {type(value).__name__}: {brief(value)}")


def _cleaned(words: list[str]) -> tuple[list[str], list[str]]:
    """Words as stored and as folded, all at once; a word that folding does not change is not
    copied.
    """
    joined = "\n".join(words)
    if "\t" in joined or joined.count("\n") >= max(1, len(words)):
        wrong = next(word for word in words if "\n" in word or "\t" in word)
        raise InputError(f"a word of a lexicon is one line without a TAB: {brief(wrong)}")
    folded = fold(joined)
    if len(joined.split()) != sum(map(bool, words)):  # there is white space inside a word
        folded = "\n".join(map(remove_space, folded.split("\n")))
    if folded == joined:
        return words, words
    if LONE_SURROGATE.search(joined):  # as `fold` has it, and a file can carry it
        words = [LONE_SURROGATE.sub("\ufffd", word) for word in words]
    return words, [
        word if word == key else key for word, key in zip(words, folded.split("\n"), strict=True)
    ]
