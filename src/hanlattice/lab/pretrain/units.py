"""Raw text as lists of units: characters, bigrams, words or subwords, and the passes over them that
word2vec makes.

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
LARGEST_COUNT = 1_000_000_000  # the highest minimum frequency that may be set
LONGEST_LIST = 10_000  # units in one list: word2vec ignores what follows them
_BATCH = 1 << 16  # characters that a tokeniser gets at a time
_WESTERN = re.compile(
    "[0-9A-Za-z\u00c0-\u024f]+"
)  # letters and digits that stay together as one word
_LONGEST_LINE = (
    1 << 18
)  # characters processed at a time: text without line ends must not fill the memory
_LOOK_BACK = 1000  # characters before that limit in which a better place for the cut is looked for
_INTERVAL = 0.1  # seconds between two progress events


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
    """Takes lines and gives the units of each; the result of a `slow` one is cached on disk during
    the first pass.
    """

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
    """The words that a segmentation model finds; a character outside of them is a word of its own."""

    slow = True

    def __init__(self, folder: str | Path, device: str = "cpu") -> None:
        from hanlattice.checkpoint.load import ModelSegmenter

        self._segmenter = ModelSegmenter(folder, device)
        self._segmenter.model  # noqa: B018 (what is wrong with it is reported now)

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        from hanlattice.features.indexer import words_of

        for texts in groups(lines, 4 * _BATCH):  # enough for full batches of one length
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
            message = f"{path.name} is missing beside it: expected a lexicon written by `pretrain subwords`"
            raise InputError(message, lexicon)
        tokenizers = require("tokenizers")
        with opening(path) as file:
            content = file.read()
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(content.decode("utf-8"))
        except Exception as error:  # tokenizers raises the plain class
            raise InputError(f"not a BPE model that tokenizers can read ({error})", path) from None

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        return bpe_pieces(self._tokenizer, lines)


def bpe_path(lexicon: str | Path) -> Path:
    """subwords.txt → subwords.bpe.json"""
    return Path(lexicon).with_suffix(BPE_SUFFIX)


def bpe_pieces(tokenizer: Any, lines: Iterable[str]) -> Iterator[list[str]]:
    """The pieces of each line, by their offsets, so that an unknown character is kept as it is."""
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
    """The units that these options ask for; an option that this unit does not use is an InputError."""
    if model and (unit is not Unit.word or lexicon):
        raise InputError(
            "--model cuts text into words: it needs --unit word, and excludes --lexicon"
        )
    if device and not model:
        raise InputError("--device says where --model runs: it has no effect without --model")
    if lexicon and unit in (Unit.char, Unit.bichar):
        raise InputError(f"--lexicon is for --unit word and --unit subword, not {unit}")
    if unit is Unit.subword:
        if not lexicon:
            raise InputError(
                "--unit subword needs --lexicon: the lexicon that `hanlattice pretrain subwords` wrote"
            )
        return Subwords(lexicon)
    if unit is Unit.word:
        return (
            ModelWords(model, device or "cpu")
            if model
            else LexiconWords(lexicon)
            if lexicon
            else JiebaWords()
        )
    return CharacterUnits() if unit is Unit.char else Bigrams()


# ---- words by a lexicon


class BestPath:
    """The segmentation with the largest product of the words' shares in the total frequency, as in
    a unigram model.

    A word without a frequency, and a character that is not a word, count as 1; so a plain list of
    words gives the segmentation with the fewest words. Of equal ones, the one whose first word is
    longer. A run of Western letters and digits is never cut.
    """

    def __init__(self, frequencies: Mapping[str, int]) -> None:
        total = math.log(max(2, sum(frequencies.values())))
        self._lexicon = Lexicon(frequencies)
        self._scores = [math.log(frequencies[word]) - total for word in self._lexicon.words]
        self._single = {
            word: math.log(count) - total for word, count in frequencies.items() if len(word) == 1
        }
        self._unknown = -total

    @classmethod
    def load(cls, path: str | Path) -> BestPath:
        frequencies = read_frequencies(path)
        if not frequencies:
            raise InputError(
                "it contains no word: expected one word a line, or word TAB frequency", path
            )
        return cls(frequencies)

    def words(self, folded: str) -> list[str]:
        """The words of a folded text; white space is left out."""
        ends = self._ends(folded)
        words = []
        at = 0
        while at < len(folded):
            words.append(folded[at : ends[at]])
            at = ends[at]
        return [word for word in words if not word.isspace()]

    def _ends(self, text: str) -> list[int]:
        """For each start, where the first word of the best path from there to the end of the text
        ends.
        """
        steps = self._steps(text)
        best = [0.0] * (len(text) + 1)
        ends = [0] * len(text)
        for at in range(len(text) - 1, -1, -1):
            best[at], ends[at] = max((score + best[end], end) for end, score in steps[at])
        return ends

    def _steps(self, text: str) -> list[list[tuple[int, float]]]:
        """For each start, the (end, score) of every word that may begin there."""
        single = self._single
        steps = [
            [(at, single.get(character, self._unknown))]
            for at, character in enumerate(text, start=1)
        ]
        inside: set[int] = set()
        for run in _WESTERN.finditer(text):
            start, end = run.span()
            inside.update(range(start + 1, end))
            if end > start + 1:
                steps[start] = [(end, self._unknown)]
        for start, end, word in self._lexicon.match_ids(text):
            if start not in inside and end not in inside:
                steps[start].append((end, self._scores[word]))
        return steps


def read_frequencies(path: str | Path) -> dict[str, int]:
    """Folded words and their frequencies, 1 where there is none, from any file that `Lexicon.load`
    reads.
    """
    frequencies: dict[str, int] = {}
    for word, frequency in read_entries(path):
        word = fold(word)
        if not any(map(str.isspace, word)):  # a word with a blank in it cannot be a unit
            frequencies[word] = frequencies.get(word, 0) + max(1, frequency)
    return frequencies


# ---- passes over the text


class TrackedText:
    """Raw text that reports its progress: a `pass` event with the bytes `done`, of `size`, a few
    times a second.

    `number` is that of the pass, and grows by one with each. A very long line comes in parts, like
    several lines.
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
        now = time.monotonic()
        if done == self.text.size or now >= self._last_event + _INTERVAL:
            self._last_event = now
            self._listen(
                {"event": "pass", "number": self.number, "done": done, "size": self.text.size}
            )


def split_line(line: str) -> Iterator[str]:
    """A very long line in parts, each cut after white space or punctuation if there is any near the
    limit.
    """
    start = 0
    while len(line) - start > _LONGEST_LINE:
        end = start + _LONGEST_LINE
        near = range(end, max(start, end - _LOOK_BACK), -1)
        end = next((at for at in near if not line[at - 1].isalnum()), end)
        yield line[start:end]
        start = end
    yield line[start:] if start else line


class UnitLists:
    """Iterates over lists of units, with the `pass` events of `TrackedText`: pass 0 counts, pass 1
    is the first epoch.

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
            for at in range(0, len(units), LONGEST_LIST):
                yield units[at : at + LONGEST_LIST]
            if self.stopped:
                return

    def _from_cache(self, file: IO[bytes]) -> Iterator[list[str]]:
        """The share of the cache that was read is reported as the same share of the raw text."""
        self.progress.number += 1
        file.seek(0)
        for line in file:
            self.progress.report(self.progress.text.size * file.tell() // self._cache_size)
            yield line.decode("utf-8").rstrip("\n").split(" ")

    def _caching(self, lists: Iterable[list[str]]) -> Iterator[list[str]]:
        try:
            file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 (it lives as long as this object)
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
            raise OutputError(
                f"cannot write a temporary file to {self.folder}: {reason(error)}"
            ) from None

    def close(self) -> None:
        """Delete the cache."""
        self.stopped = True
        if self._cache is not None:
            self._cache.close()
