"""The gazetteer way: which words of a vector file occur in some corpora, and those words alone as a small vector file.

A model that is trained and tested on these corpora learns the same from the small file as from the whole one: words
that occur nowhere in them take no part. Words are matched as the lattice matches them, overlapping ones too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.errors import InputError
from hanlattice.text.lattice import Ints
from hanlattice.text.lexicon import Lexicon, Matches
from hanlattice.text.normal import fold_digits
from hanlattice.text.sentence import Sentence
from hanlattice.text.vectors import Vectors, write_vectors
from hanlattice.training.log import Listener, ignore

CHARACTERS = ("met", "all", "none")
ALL = "all"  # the name of the corpora taken together
_BINARY = {".bin": True, ".vec": False}
_WHITE = " \t\n\r\v\f"
_PART = 1 << 19  # characters that are matched at a time: bounds what matching needs


@dataclass(frozen=True)
class Share:
    """How many gold entities are words of the lexicon: counted as they stand in the text, and each spelling once."""

    tokens: int
    tokens_in: int
    types: int
    types_in: int


@dataclass(frozen=True)
class Coverage:
    """What the lexicon finds in one corpus. `entities` is None where the corpus is not annotated."""

    name: str
    sentences: int
    characters: int
    covered: int  # characters that stand in at least one word
    positions: int  # matches
    words: int  # different words among the matches
    entities: Share | None
    by_label: dict[str, Share]

    def as_dict(self) -> dict[str, Any]:
        """As JSON wants it, with the two ratios."""
        ratios = {"per_character": self.positions / self.characters, "covered_share": self.covered / self.characters}
        return {**asdict(self), **ratios}


@dataclass(frozen=True, eq=False)
class Gazetteer:
    """`vectors` are the rows that are kept, in the order of the file; `words` and `characters` say how many of each."""

    lexicon: int  # words of the file that a lattice can use
    norm: float  # the mean length of their vectors, and of those that are kept
    norm_kept: float
    vectors: Vectors
    words: int
    characters: int
    corpora: tuple[Coverage, ...]
    overall: Coverage
    notices: tuple[str, ...]


def make_gazetteer(
    vectors: Vectors,
    corpora: Iterable[tuple[str, Iterable[Sentence]]],
    *,
    characters: str = "met",
    listen: Listener = ignore,
) -> Gazetteer:
    """Match corpora, given with their names and read once, and keep what occurs.

    Of the file's single characters, which are no words of a lattice, 'met' keeps those that occur, 'all' every one.
    """
    if characters not in CHARACTERS:
        raise InputError(f"{characters!r} characters cannot be kept: expected {', '.join(CHARACTERS)}")
    lexicon = Lexicon()
    rows = np.flatnonzero(lexicon.add_many(vectors.words))
    if not len(rows):
        raise InputError("no word of two characters or more is in the vector file")
    tallies = [_tally(name, sentences, lexicon, listen) for name, sentences in corpora]
    overall = _together(tallies, lexicon)
    if not overall.met.any():
        raise InputError(f"none of the {len(rows):,} words of the vector file occurs in the text")
    singles = _single_characters(vectors.words, characters, overall.seen)
    kept, lost = _writable(vectors.words, np.union1d(rows[overall.met], singles).astype(np.int64))
    lengths = np.sqrt(np.einsum("ve,ve->v", vectors.matrix, vectors.matrix))[rows]  # without a copy of the matrix
    return Gazetteer(
        lexicon=len(rows),
        norm=float(lengths.mean()),
        norm_kept=float(lengths[overall.met].mean()),
        vectors=Vectors(tuple(vectors.words[at] for at in kept.tolist()), vectors.matrix[kept]),
        words=int(np.isin(kept, rows).sum()),
        characters=int(np.isin(kept, singles).sum()),
        corpora=tuple(tally.coverage(lexicon) for tally in tallies),
        overall=overall.coverage(lexicon),
        notices=(*vectors.notices, *lost),
    )


def check_out(path: Path, inputs: Iterable[Path]) -> None:
    """An output must say its form by its suffix, and must not be one of the files that are read."""
    if path.suffix not in _BINARY:
        raise InputError("the output must end with .bin (word2vec binary) or .vec (text)", path)
    for file in inputs:
        if path.exists() and file.exists() and path.samefile(file):
            raise InputError("the output is one of the files to read; give it another name", path)


def write_gazetteer(path: Path, gazetteer: Gazetteer) -> None:
    """Write what is kept as word2vec, binary for .bin and text for .vec."""
    write_vectors(path, gazetteer.vectors, binary=_BINARY[path.suffix])


class _Tally:
    """What has been counted in a corpus so far."""

    def __init__(self, name: str, words: int) -> None:
        self.name = name
        self.sentences = self.characters = self.covered = self.positions = 0
        self.met: npt.NDArray[np.bool_] = np.zeros(words, dtype=bool)  # [V]: the word occurs
        self.seen: set[str] = set()
        self.annotated = False
        self.entities: dict[str, Counter[str]] = {}  # label → folded text → how often

    def read(self, sentences: Sequence[Sentence], lexicon: Lexicon) -> None:
        folded = [sentence.folded for sentence in sentences]
        lengths = np.fromiter(map(len, folded), dtype=np.int64, count=len(folded))
        found = lexicon.match_many(folded)
        self.sentences += len(folded)
        self.characters += int(lengths.sum())
        self.covered += _covered(lengths, found)
        self.positions += len(found.word)
        self.met[found.word] = True
        self.seen.update("".join(folded))
        for sentence in sentences:
            self.annotated |= sentence.spans is not None
            for span in sentence.spans or ():
                self.entities.setdefault(span.label, Counter())[sentence.folded[span.start : span.end]] += 1

    def add(self, other: _Tally) -> None:
        self.sentences += other.sentences
        self.characters += other.characters
        self.covered += other.covered
        self.positions += other.positions
        self.met |= other.met
        self.seen |= other.seen
        self.annotated |= other.annotated
        for label, entities in other.entities.items():
            self.entities.setdefault(label, Counter()).update(entities)

    def coverage(self, lexicon: Lexicon) -> Coverage:
        every: Counter[str] = Counter()
        for entities in self.entities.values():
            every.update(entities)
        return Coverage(
            name=self.name,
            sentences=self.sentences,
            characters=self.characters,
            covered=self.covered,
            positions=self.positions,
            words=int(self.met.sum()),
            entities=_share(every, lexicon) if self.annotated else None,
            by_label={label: _share(self.entities[label], lexicon) for label in sorted(self.entities)},
        )


def _tally(name: str, sentences: Iterable[Sentence], lexicon: Lexicon, listen: Listener) -> _Tally:
    tally = _Tally(name, len(lexicon))
    for part in _parts(sentences):
        tally.read(part, lexicon)
        listen({"event": "part", "corpus": name, "characters": tally.characters})
    if not tally.characters:
        raise InputError("the corpus is empty: there is no character in it", name)
    return tally


def _together(tallies: Iterable[_Tally], lexicon: Lexicon) -> _Tally:
    overall = _Tally(ALL, len(lexicon))
    for tally in tallies:
        overall.add(tally)
    if not overall.characters:
        raise InputError("no corpus was named, so there is nothing to match")
    return overall


def _parts(sentences: Iterable[Sentence]) -> Iterator[list[Sentence]]:
    part: list[Sentence] = []
    size = 0
    for sentence in sentences:
        part.append(sentence)
        size += len(sentence) + 1
        if size >= _PART:
            yield part
            part, size = [], 0
    if part:
        yield part


def _covered(lengths: Ints, found: Matches) -> int:
    """How many characters of texts of these lengths stand in at least one match."""
    size = int(lengths.sum())
    first = np.repeat(np.cumsum(lengths) - lengths, found.counts)  # [W]: where the text of each match begins
    open_at = np.bincount(first + found.start, minlength=size + 1) - np.bincount(first + found.end, minlength=size + 1)
    return int((np.cumsum(open_at) > 0).sum())


def _share(entities: Counter[str], lexicon: Lexicon) -> Share:
    """A lexicon strips a word that it is asked for, but no match begins or ends with a blank: such an entity is out."""
    inside = {entity for entity in entities if entity == entity.strip() and entity in lexicon}
    tokens_in = sum(entities[entity] for entity in inside)
    return Share(entities.total(), tokens_in, len(entities), len(inside))


def _single_characters(words: Sequence[str], which: str, seen: set[str]) -> list[int]:
    """The rows of single characters that a character embedding would use: the first of those that look alike to it."""
    wanted = {fold_digits(character) for character in seen}
    first: dict[str, int] = {}
    for at, word in enumerate(words):
        if len(word) == 1:
            first.setdefault(fold_digits(word), at)
    return [at for character, at in first.items() if which == "all" or (which == "met" and character in wanted)]


def _writable(words: Sequence[str], rows: Ints) -> tuple[Ints, list[str]]:
    """The rows whose word has no white space, which a word2vec file cannot carry, and a notice of the others."""
    lost = [at for at in rows.tolist() if any(character in _WHITE for character in words[at])]
    if not lost:
        return rows, []
    few = ", ".join(repr(words[at]) for at in lost[:3])
    return np.setdiff1d(rows, lost), [f"left out {len(lost):,} words with white space in them, such as {few}"]
