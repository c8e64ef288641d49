"""Raw text as lists of units (characters, bigrams, words or subwords), in passes for word2vec.

Text is seen as the tagger sees it: characters and bigrams as the character embedding does
(`fold_digits`), words and subwords as the lexicon does (`fold`). White space is never a unit, nor
part of one.
"""

from __future__ import annotations

import math
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol

from hanlattice.data.formats.raw import RawText, groups
from hanlattice.errors import InputError, OutputError
from hanlattice.events import Listener
from hanlattice.files import opening, reason
from hanlattice.optional import require
from hanlattice.text.dictionary import read_entries
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import fold, fold_digits
from hanlattice.text.vocab import bigrams

BPE_SUFFIX = ".bpe.json"
# The highest minimum frequency that may be set.
LARGEST_COUNT = 1_000_000_000
# word2vec ignores what follows so many units in one list.
LONGEST_LIST = 10_000
# Characters that a tokeniser gets at a time.
_BATCH = 1 << 16
# Letters and digits that stay together as one word.
_WESTERN = re.compile("[0-9A-Za-z\u00c0-\u024f]+")
# Characters processed at a time: text without line ends must not fill the memory.
_LONGEST_LINE = 1 << 18
# The cut of a longer line is looked for in so many characters before that limit.
_LOOK_BACK = 1000
# Seconds between two progress events.
_INTERVAL = 0.1


class Unit(StrEnum):
    """What gets a vector."""

    char = "char"
    bichar = "bichar"
    word = "word"
    subword = "subword"

    @property
    def plural(self) -> str:
        return {"char": "characters", "bichar": "bigrams"}.get(self.value, f"{self.value}s")


# ---- units of lines


class Units(Protocol):
    """Gives the units of each line; `slow` results are cached on disk during the first pass."""

    slow: bool

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]: ...


class CharacterUnits:
    slow = False

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        for line in lines:
            yield list("".join(fold_digits(line).split()))


class Bigrams:
    slow = False

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        return map(bigrams, lines)


class JiebaWords:
    slow = False

    def __init__(self) -> None:
        self._cut = require("rjieba").cut

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        for line in lines:
            yield [word for run in fold(line).split() for word in self._cut(run)]


class LexiconWords:
    """The most probable path through the words of a lexicon; see `BestPath`."""

    slow = True

    def __init__(self, path: str | Path) -> None:
        self._path = BestPath.load(path)

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        for line in lines:
            yield self._path.words(" ".join(fold(line).split()))


class ModelWords:
    """The words that a segmentation model finds; any other character is a word of its own."""

    slow = True

    def __init__(self, folder: str | Path, device: str = "cpu") -> None:
        from hanlattice.checkpoint.load import ModelSegmenter

        self._segmenter = ModelSegmenter(folder, device)
        # Loads the model now, so that what is wrong with it is reported before any work.
        self._segmenter.model  # noqa: B018

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        from hanlattice.features.indexer import words_of

        # Enough characters for full batches of one length.
        for texts in groups(lines, 4 * _BATCH):
            cuts = self._segmenter(texts)
            words = words_of(texts, cuts)
            for count in cuts.counts.tolist():
                yield [part for word in islice(words, count) for part in word.split()]


class Subwords:
    """The pieces of the BPE model that `pretrain subwords` wrote beside the lexicon."""

    slow = True

    def __init__(self, lexicon: str | Path) -> None:
        path = bpe_path(lexicon)
        if not path.is_file():
            wanted = "expected a lexicon written by `pretrain subwords`"
            raise InputError(f"{path.name} is missing beside it: {wanted}", lexicon)
        tokenizers = require("tokenizers")
        with opening(path) as file:
            content = file.read()
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(content.decode("utf-8"))
        # tokenizers raises the plain class.
        except Exception as error:
            raise InputError(f"not a BPE model that tokenizers can read ({error})", path) from None

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        return bpe_pieces(self._tokenizer, lines)


def bpe_path(lexicon: str | Path) -> Path:
    """Return the BPE model beside a lexicon: subwords.txt → subwords.bpe.json."""
    return Path(lexicon).with_suffix(BPE_SUFFIX)


def bpe_pieces(tokenizer: Any, lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the pieces of each line, by their offsets, so that unknown characters stay."""
    texts = (" ".join(fold(line).split()) for line in lines)
    for batch in groups(texts, _BATCH):
        for text, encoding in zip(batch, tokenizer.encode_batch(batch), strict=True):
            yield [text[start:end] for start, end in encoding.offsets]


def make_units(
    unit: Unit,
    lexicon: str | Path | None = None,
    model: str | Path | None = None,
    device: str | None = None,
) -> Units:
    """Return the units that these options ask for; refuse an option that this unit ignores."""
    if model and (unit is not Unit.word or lexicon):
        needs = "it needs --unit word, and excludes --lexicon"
        raise InputError(f"--model cuts text into words: {needs}")
    if device and not model:
        raise InputError("--device says where --model runs: it has no effect without --model")
    if lexicon and unit in (Unit.char, Unit.bichar):
        raise InputError(f"--lexicon is for --unit word and --unit subword, not {unit}")
    if unit is Unit.subword:
        if not lexicon:
            wanted = "the lexicon that `hanlattice pretrain subwords` wrote"
            raise InputError(f"--unit subword needs --lexicon: {wanted}")
        return Subwords(lexicon)
    if unit is not Unit.word:
        return CharacterUnits() if unit is Unit.char else Bigrams()
    if model:
        return ModelWords(model, device or "cpu")
    return LexiconWords(lexicon) if lexicon else JiebaWords()


# ---- words by a lexicon


class BestPath:
    """The segmentation with the largest product of the words' relative frequencies.

    A word without a frequency, and a character that is not a word, count as 1; so a plain list of
    words gives the segmentation with the fewest words. Of equal ones, the one whose first word is
    longer. A run of Western letters and digits is never cut.
    """

    def __init__(self, frequencies: Mapping[str, int]) -> None:
        total = math.log(max(2, sum(frequencies.values())))
        scores = {word: math.log(count) - total for word, count in frequencies.items()}
        self._lexicon = Lexicon(frequencies)
        self._scores = [scores[word] for word in self._lexicon.words]
        self._single = {word: score for word, score in scores.items() if len(word) == 1}
        self._unknown = -total

    @classmethod
    def load(cls, path: str | Path) -> BestPath:
        """Read a dictionary file."""
        frequencies = read_frequencies(path)
        if not frequencies:
            wanted = "expected one word a line, or word TAB frequency"
            raise InputError(f"it contains no word: {wanted}", path)
        return cls(frequencies)

    def words(self, folded: str) -> list[str]:
        """Return the words of a folded text; white space is left out."""
        # For each start, the (end, score) of every word that may begin there.
        steps = [
            [(end, self._single.get(character, self._unknown))]
            for end, character in enumerate(folded, start=1)
        ]
        inside: set[int] = set()
        for run in _WESTERN.finditer(folded):
            start, end = run.span()
            inside.update(range(start + 1, end))
            if end > start + 1:
                steps[start] = [(end, self._unknown)]
        for start, end, word in self._lexicon.match_ids(folded):
            if start not in inside and end not in inside:
                steps[start].append((end, self._scores[word]))
        # From the right: the best score of the rest, and the end of its first word.
        best = [0.0] * (len(folded) + 1)
        ends = [0] * len(folded)
        for start in range(len(folded) - 1, -1, -1):
            best[start], ends[start] = max((score + best[end], end) for end, score in steps[start])
        words = []
        start = 0
        while start < len(folded):
            words.append(folded[start : ends[start]])
            start = ends[start]
        return [word for word in words if not word.isspace()]


def read_frequencies(path: str | Path) -> dict[str, int]:
    """Read folded words and their frequencies, 1 without one, from any file of `Lexicon.load`."""
    frequencies: dict[str, int] = {}
    for word, frequency in read_entries(path):
        word = fold(word)
        # A word with a blank in it cannot be a unit.
        if not any(map(str.isspace, word)):
            frequencies[word] = frequencies.get(word, 0) + max(1, frequency)
    return frequencies


# ---- passes over the text


class TrackedText:
    """Raw text that reports its progress: a `pass` event a few times a second, in bytes.

    `number` counts the passes from 0. A very long line comes in parts, like several lines.
    """

    def __init__(self, text: RawText, listen: Listener) -> None:
        self.text = text
        self._listen = listen
        self.number = -1
        self._last_event = 0.0

    def __iter__(self) -> Iterator[str]:
        self.number += 1
        for line in self.text:
            self.report(self.text.done)
            yield from split_line(line)
        self.report(self.text.size)

    def report(self, done: int) -> None:
        """Report that so many bytes are done, unless the last event was a moment ago."""
        now = time.monotonic()
        size = self.text.size
        if done == size or now >= self._last_event + _INTERVAL:
            self._last_event = now
            self._listen({"event": "pass", "number": self.number, "done": done, "size": size})


def split_line(line: str) -> Iterator[str]:
    """Yield a very long line in parts, cut after white space or punctuation near the limit."""
    start = 0
    while len(line) - start > _LONGEST_LINE:
        end = start + _LONGEST_LINE
        near = range(end, max(start, end - _LOOK_BACK), -1)
        end = next((place for place in near if not line[place - 1].isalnum()), end)
        yield line[start:end]
        start = end
    yield line[start:] if start else line


class UnitLists:
    """Iterates over lists of units, with `pass` events: pass 0 counts, pass 1 is the first epoch.

    The first complete pass writes slow units to an unnamed temporary file in `folder`; later passes
    read that.
    """

    def __init__(self, text: RawText, units: Units, folder: Path, listen: Listener) -> None:
        self.progress = TrackedText(text, listen)
        self.units = units
        self.folder = folder
        self.stopped = False
        self._cache: IO[bytes] | None = None

    def __iter__(self) -> Iterator[list[str]]:
        self.stopped = False
        lists: Iterable[list[str]]
        if self._cache:
            lists = self._from_cache(self._cache)
        else:
            lists = filter(None, self.units(self.progress))
            lists = self._caching(lists) if self.units.slow else lists
        for units in lists:
            for low in range(0, len(units), LONGEST_LIST):
                yield units[low : low + LONGEST_LIST]
            if self.stopped:
                return

    def _from_cache(self, file: IO[bytes]) -> Iterator[list[str]]:
        """Read the cache; its share that was read is reported as the same share of the raw text."""
        self.progress.number += 1
        file.seek(0)
        for line in file:
            self.progress.report(self.progress.text.size * file.tell() // self._cache_size)
            yield line.decode("utf-8").rstrip("\n").split(" ")

    def _caching(self, lists: Iterable[list[str]]) -> Iterator[list[str]]:
        try:
            # It lives as long as this object.
            file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
            try:
                for units in lists:
                    file.write(" ".join(units).encode("utf-8") + b"\n")
                    yield units
                self._cache_size = file.tell()
                self._cache = file
            finally:
                if self._cache is not file:
                    file.close()
        except OSError as error:
            problem = f"cannot write a temporary file to {self.folder}"
            raise OutputError(f"{problem}: {reason(error)}") from None

    def close(self) -> None:
        """Delete the cache."""
        self.stopped = True
        if self._cache is not None:
            self._cache.close()
