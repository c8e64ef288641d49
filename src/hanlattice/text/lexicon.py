"""Lexicon: the words that the lattice may use, and where they occur in a text.

Words are matched in folded form (`text.normal.fold`), so full-width and half-width spellings are one word, and so are
traditional and simplified ones; and without white space, which no lattice has. Words have two characters or more;
shorter ones are skipped, and so are those of more than `LONGEST`. An id is a word's place in the order of arrival and
never changes, so that a table of vectors can stand beside the lexicon. What a dictionary says of words beyond that they
are words is in `rules`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hanlattice.checks import brief
from hanlattice.errors import InputError
from hanlattice.files import read_text
from hanlattice.text.boundaries import remove_space
from hanlattice.text.dictionary import SPLIT, Entry, is_plain, read_dictionary, write_dictionary
from hanlattice.text.display import counted
from hanlattice.text.forks import new_lock
from hanlattice.text.lattice import Ints
from hanlattice.text.matcher import Matches, Occurrences, Part, Parts, TableMatcher, by_text, extend, find
from hanlattice.text.normal import LONE_SURROGATE, code_points, fold, fold_codes
from hanlattice.text.rules import Rules

_FEW = 100  # lines up to which looking for each in a text is quicker than a set of all

_TRIES = 3  # to read without keeping others from changing it
Found = TypeVar("Found")

LONGEST = 512  # characters of a word: by default a tagger reads no longer piece of text at once


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


class Lexicon:
    """Words with stable ids. Threads may share one: what a thread adds, others find from their next text on."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._text, self._lines = "", 0  # a file's words, a line each, which are not in the next two yet
        self._keys = ""  # the same lines as they are matched
        self._words: list[str] = []
        self._places: dict[str, int] = {}  # by the folded word, in the order of ids
        self._removed = Marks()
        self._chosen: Marks | None = None  # those named since `settle`
        self._parts: Parts = ()  # what matches the words that were there when they were last looked for
        self.on_growth: Callable[[Lexicon], None] | None = (
            None  # called before new words are found, and when they leave
        )
        self.rules = Rules()
        self._changes = 0
        self._lock = new_lock()
        self.update(words)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}  # a copy has its own

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=new_lock())

    def __repr__(self) -> str:
        return f"<Lexicon: {counted(len(self), 'word')}>"

    def __len__(self) -> int:
        return self.size - len(self._removed)

    @property
    def size(self) -> int:
        """How many ids there are: the words, and those that were removed."""
        return len(self._words) or self._lines

    @property
    def words(self) -> list[str]:
        """The words by their ids, removed ones included."""
        return self._unfolded()._words

    @property
    def _ids(self) -> dict[str, int]:
        return self._unfolded()._places

    def _unfolded(self) -> Lexicon:
        """With a list and a dict of a file's words: matching needs neither, and they take longer to make."""
        if self._text:
            with self._lock:
                if text := self._text:
                    words = text.split("\n")[:-1]
                    keys = words if self._keys == text else self._keys.split("\n")[:-1]
                    self._places = dict(zip(keys, range(len(keys)), strict=True))
                    self._words = words
                    self._text = self._keys = ""
        return self

    def __iter__(self) -> Iterator[str]:
        return (word for at, word in enumerate(self.words) if at not in self._removed)

    def __contains__(self, word: str) -> bool:
        return self.id(word) is not None

    def id(self, word: str) -> int | None:
        """The word's id, or None when it is not in the lexicon."""
        at = self._ids.get(_key(word))
        return None if at is None or at in self._removed else at

    def folded(self, first: int = 0) -> list[str]:
        """The words from this id on as they are matched, removed ones included."""
        with self._lock:
            return self._last(self.size - first) if self.size > first else []

    def add(self, word: str, label: str = "", trust: float | None = None) -> bool:
        """Add a word; False when it is there already, has fewer than two characters, or more than `LONGEST`.

        With a label, a model of entities scores exactly this span with that label `trust` more, wherever the word
        stands: by default as much as the predictor says; `math.inf` forces it, `-math.inf` forbids it. A label may be
        new to the model. Such a word may have one character, and 64 at most.
        """
        return self.add_many([Entry(word, label, trust)] if label != "" or trust is not None else [word])[0]

    def forbid(self, word: str, label: str = "") -> bool:
        """Never find a span of exactly this word, or none with this label; False when that is known."""
        return self.add_many([Entry(word, label, -math.inf)])[0]

    def split(self, *parts: str) -> bool:
        """Cut between these parts wherever they follow each other: `split("太", "贵")`; False when that is known."""
        return self.add_many([Entry(SPLIT.join(parts), SPLIT)])[0]

    def add_many(self, words: Iterable[str | Entry]) -> list[bool]:
        """`add` of each word, in a fraction of the time. A word that cannot be added leaves all of them out."""
        if isinstance(words, str):
            raise _one_str(words)
        words = list(words)
        said = {at: each.checked() for at, each in enumerate(words) if isinstance(each, Entry)}
        if not said:
            return self._add(words)  # type: ignore[arg-type]
        stored = [each.word.replace(SPLIT, "") if each.is_split else each.word for each in said.values()]
        cleaned = zip(*_cleaned(_stripped(stored)), strict=True)
        with self._lock:
            added = self._add([each.lattice_word if isinstance(each, Entry) else each for each in words])
            for (at, entry), (word, key) in zip(said.items(), cleaned, strict=True):
                added[at] |= not entry.is_plain and self.rules.put(entry, word, key)
        return added

    def _add(self, words: Iterable[str]) -> list[bool]:
        cleaned, folded = _cleaned(_stripped(words))
        with self._lock:
            self._changes += 1
            ids, kept, added, at = self._ids, self.words, [], []
            if not kept and _are_all_new(folded):  # such as those of a model's file: nothing to look up
                kept += cleaned
                ids.update(zip(folded, range(len(folded)), strict=True))
                added = [True] * len(folded)
                self._name(np.arange(len(folded)), added)
                return added
            for word, key in zip(cleaned, folded, strict=True):
                place = ids.setdefault(key, len(kept)) if 1 < len(key) <= LONGEST else -1
                at.append(place)
                added.append(place == len(kept))
                if place == len(kept):
                    kept.append(word)
            self._name(np.array(at, dtype=np.int64), added)
        return added

    def _name(self, at: Ints, added: list[bool]) -> None:
        """Removed words are restored, and all of these count as the user's own from now on; −1 is skipped."""
        there = np.flatnonzero(at >= 0)
        if len(self._removed):
            back = there[self._removed.of(at[there])]
            for nth in back[np.unique(at[back], return_index=True)[1]].tolist():
                added[nth] = True  # and not where the same word comes once more
            self._removed.put(at[back], False)
        if self._chosen is not None:
            self._chosen.put(at[there], True)

    def update(self, words: Iterable[str | Entry]) -> int:
        """Add many words, or entries with labels; how many of them were new."""
        return sum(self.add_many(words))

    def remove(self, word: str) -> bool:
        """Take a word out, and all that was said of it; False when it was not there."""
        with self._lock:
            self._changes += 1
            at, was_ruled = self.id(word), self.rules.drop(_key(word))
            if at is None:
                return was_ruled
            self._removed.put(np.array([at]), True)
            if self._chosen is not None:
                self._chosen.put(np.array([at]), False)
            return True

    @contextmanager
    def borrowed(self, words: Iterable[str | Entry] = (), without: Iterable[str] = ()) -> Iterator[None]:
        """Inside a `with` block these words are added and those `without` taken out; then all is as it was before.

        Nothing of them stays, no id and no vector. Other threads that look for words wait until the block ends.
        """
        with self._lock:
            parts, count = self._ready(), len(self.words)
            removed, chosen = deepcopy(self._removed), deepcopy(self._chosen)
            words, without, rules = list(words), list(without), self.rules
            if without or any(isinstance(word, Entry) for word in words):
                self.rules = rules.copy()
            try:
                self.add_many(words)
                for word in without:
                    self.remove(word)
                yield
            finally:
                self._changes += 1
                while len(self.words) > count:
                    self.words.pop()
                    self._ids.popitem()
                self._parts, self._removed, self._chosen, self.rules = parts, removed, chosen, rules
                if self.on_growth is not None:
                    self.on_growth(self)  # forgets their vectors

    def settle(self) -> None:
        """From now on words that are added, also those that are here already, are a user's own: `is_chosen`."""
        self._chosen = Marks()

    def steadily(self, read: Callable[[], Found]) -> Found:
        """What `read` returns if nobody changes the lexicon meanwhile: it is called again if somebody did."""
        for _ in range(_TRIES):
            with self._lock:
                before = self._changes
            found = read()
            if self._changes == before:
                return found
        with self._lock:
            return read()

    def is_chosen(self, words: Ints) -> npt.NDArray[np.bool_]:
        """Whether each of these ids is a word that was added since `settle`."""
        return self._chosen.of(words) if self._chosen is not None else np.zeros(len(words), dtype=bool)

    def match(self, text: str) -> list[tuple[int, int, str]]:
        """Every (start, end, word) in the text, overlapping ones too, by start and then by end.

        White space does not matter to it, neither the word's nor the text's; a model also asks what the space parts.
        """
        if not isinstance(text, str):
            raise _no_str("a text", text)
        places = [at for at, character in enumerate(text) if not character.isspace()]
        found = self.match_ids(fold(remove_space(text)))
        return [(places[start], places[end - 1] + 1, self.words[at]) for start, end, at in found]

    def match_ids(self, folded: str) -> list[tuple[int, int, int]]:
        """`match` on text that is folded already and has no white space, with ids for words."""
        return list(zip(*(array.tolist() for array in self._find(folded)), strict=True))

    def match_many(self, folded: Sequence[str]) -> Matches:
        """`match_ids` of many texts at once, as flat arrays."""
        return self.match_joined("\n".join(folded), np.fromiter(map(len, folded), dtype=np.int64, count=len(folded)))

    def match_joined(self, folded: str, lengths: Ints) -> Matches:
        """`match_many` on texts of these lengths that are joined by line ends, which no word contains."""
        return by_text(self._find(folded), lengths)

    def match_rules(self, folded: str, lengths: Ints) -> tuple[Rules, Matches]:
        """The rules, and where their words stand in texts that are joined by line ends."""
        with self._lock:
            return self.rules, self.rules.match_joined(folded, lengths)

    def _find(self, folded: str) -> Occurrences:
        found = find(self._ready(), folded)
        if len(self._removed):
            stays = ~self._removed.of(found.word)
            found = Occurrences(*(array[stays] for array in found))
        return found

    def _ready(self) -> Parts:
        """Matchers of the words that are there now, made when they are first needed."""
        with self._lock:
            before, self._parts = self._parts, extend(self._parts, self.size, self._last)
            if self.on_growth is not None and self._parts is not before:
                try:
                    self.on_growth(self)  # which may match words itself
                except BaseException:
                    self._parts = before
                    raise
            return self._parts

    def _last(self, count: int) -> list[str]:
        """So many folded words, without a walk through those before them."""
        return list(islice(reversed(self._ids), count))[::-1]

    def save(self, path: str | Path) -> None:
        """One word a line, UTF-8, then what is said of some; a TAB follows where a line could be jieba's form."""
        write_dictionary(path, chain(self, self.rules))

    def load(self, path: str | Path, encoding: str | None = None) -> int:
        """Add the words of a file, and what it says of them (docs/dictionaries.md). How many were new."""
        text = read_text(path, encoding)
        if not self.size and is_plain(path, text) and _is_folded(text) and self._take(text, text):
            return self.size
        return self.update(read_dictionary(path, encoding))

    def restore(self, path: str | Path) -> None:
        """Into an empty lexicon the words of a model's file, each with the id of its line.

        Of a traditional and a simplified spelling, which older models have as two words, only the latter is found.
        """
        text = read_text(path, "utf-8")
        if is_plain(path, text) and self._take(text, _apart(text)):
            return
        entries = list(read_dictionary(path, "utf-8"))
        words, folded = _cleaned(_stripped(each for each in entries if isinstance(each, str)))
        kept = self._keep(words, folded)  # as every model has them
        self.update((each for each in entries if isinstance(each, Entry)) if kept else entries)

    def first(self, count: int) -> Lexicon:
        """A lexicon of the first words, each with its id."""
        made = Lexicon()
        made._keep(*_cleaned(self.words[:count]))
        return made

    def _keep(self, words: list[str], folded: list[str]) -> bool:
        """Into an empty lexicon these words, each with its place as its id; False if one is there twice or is none."""
        plain = {word for word, key in zip(words, folded, strict=True) if word == key}
        places: dict[str, int] = {}
        for at, (word, key) in enumerate(zip(words, folded, strict=True)):
            places.setdefault(word if word != key and (key in plain or key in places) else key, at)
        if len(places) < len(words) or not all(1 < len(key) <= LONGEST for key in folded):
            return False
        self._words, self._places = words, places
        return True

    def _take(self, text: str, keys: str) -> bool:
        """Make the lines of a text all the words; False where some of them cannot be words as they are."""
        if (matcher := _plain_words(keys)) is None:
            return False
        with self._lock:
            self._text, self._keys, self._lines = text, keys, text.count("\n")
            self._parts = (Part(0, self._lines, matcher),)
            if self._chosen is not None:
                self._chosen.put(np.arange(self.size), True)
        return True


def merged_matches(left: Matches, right: Matches) -> Matches:
    """The matches of two lexicons in the same texts; on the same span those of `left` come first."""
    pairs = [np.concatenate(columns) for columns in zip(left[1:], right[1:], strict=True)]
    texts = np.arange(len(left.counts))
    text = np.concatenate([np.repeat(texts, left.counts), np.repeat(texts, right.counts)])
    order = np.lexsort((pairs[1], pairs[0], text))  # it keeps the order of equals
    return Matches(left.counts + right.counts, *(column[order] for column in pairs))


def _plain_words(text: str) -> TableMatcher | None:
    """What matches the lines of a text that are words as they are: different, solid, of a length that can be."""
    codes = code_points(text)
    ends = np.flatnonzero(codes == ord("\n"))
    lengths = np.diff(ends, prepend=-1) - 1
    if not len(ends) or ends[-1] != len(codes) - 1 or lengths.min() < 2 or lengths.max() > LONGEST:
        return None
    characters = _characters(text)
    if LONE_SURROGATE.search(characters) or remove_space(characters) != characters:
        return None
    return TableMatcher.of_lines(codes)


def _is_folded(text: str) -> bool:
    characters = _characters(text)
    return fold(characters) == characters


def _characters(text: str) -> str:
    """Each character of a text once, without the line end."""
    seen = np.zeros(sys.maxunicode + 1, dtype=bool)
    seen[code_points(text)] = True
    seen[ord("\n")] = False
    return "".join(map(chr, np.flatnonzero(seen).tolist()))


def _apart(text: str) -> str:
    """The lines folded, but for those that would be another line then: nothing that is folded finds these."""
    codes = code_points(text)
    plain = fold_codes(codes)
    changed = np.flatnonzero(codes != plain)
    if not len(changed):
        return text
    ends = np.append(np.flatnonzero(codes == ord("\n")), len(codes))
    lines = np.flatnonzero(np.bincount(np.searchsorted(ends, changed)))
    taken = set(text.split("\n")) if len(lines) > _FEW else None
    folded = set[str]()
    for start, end in zip(np.append(0, ends + 1)[lines].tolist(), ends[lines].tolist(), strict=True):
        key = fold(text[start:end])
        if key in folded or (
            key in taken if taken is not None else f"\n{key}\n" in text or text.startswith(f"{key}\n")
        ):
            plain[start:end] = codes[start:end]
        folded.add(key)
    return plain.tobytes().decode("utf-32-le")


def _are_all_new(folded: Sequence[str]) -> bool:
    """Whether an empty lexicon can take all of these."""
    lengths = np.fromiter(map(len, folded), dtype=np.int64, count=len(folded))
    return bool(((lengths > 1) & (lengths <= LONGEST)).all()) and len(set(folded)) == len(folded)


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
    """Words as stored and as folded, all at once; a word that folding does not change is not copied."""
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
    return words, [word if word == key else key for word, key in zip(words, folded.split("\n"), strict=True)]
