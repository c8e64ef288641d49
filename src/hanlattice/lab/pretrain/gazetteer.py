"""The words of a vector file that occur in corpora: how much they cover, and a small vector file of
them alone.

A model that is trained and tested on these corpora learns the same from the small file as from the
whole one: words that occur nowhere in them have no effect. Words are matched as the lattice matches
them, overlapping ones included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.data.formats.raw import groups
from hanlattice.errors import InputError
from hanlattice.events import Listener, ignore
from hanlattice.files import check_output
from hanlattice.lab.pretrain.outputs import check_readable
from hanlattice.text.lattice import Ints
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import fold_digits
from hanlattice.text.sentence import Sentence
from hanlattice.text.trie import Matches
from hanlattice.text.vectors import Vectors, write_vectors

CHARACTERS = ("met", "all", "none")
ALL = "all"  # the name of all corpora taken together
_PART = 1 << 19  # characters that are matched at a time: bounds the memory that matching needs
_WHITE = " \t\n\r\v\f"


@dataclass(frozen=True, eq=False)
class Gazetteer:
    """`vectors` are the rows that are kept, in the order of the file; `words` and `characters`
    count them by kind.
    """

    lexicon: int  # words of the file that a lattice can use
    norm: float  # the mean length of their vectors, and of those that are kept
    norm_kept: float
    vectors: Vectors
    words: int
    characters: int
    corpora: tuple[WordCoverage, ...]
    overall: WordCoverage
    notices: tuple[str, ...]


def make_gazetteer(
    vectors: Vectors,
    corpora: Iterable[tuple[str, Iterable[Sentence]]],
    *,
    characters: str = "met",
    listen: Listener = ignore,
) -> Gazetteer:
    """Match named corpora, which are read once, and keep what occurs.

    Single characters are not words of a lattice; 'met' keeps those of the file that occur, 'all'
    every one.
    """
    _check_characters(characters)
    if all(len(word.strip()) < 2 for word in vectors.words):
        raise InputError("no word of two characters or more is in the vector file")
    found = tally_words(vectors.words, corpora, listen)
    rows = found.rows
    met = found.overall.met
    if not met.any():
        raise InputError(f"none of the {len(rows):,} words of the vector file occurs in the text")
    singles = _single_characters(vectors.words, characters, found.overall.seen)
    kept, lost = _writable(vectors.words, np.union1d(rows[met], singles).astype(np.int64))
    lengths = norms(vectors)[rows]  # [V]
    return Gazetteer(
        lexicon=len(rows),
        norm=float(lengths.mean()),
        norm_kept=float(lengths[met].mean()),
        vectors=Vectors(tuple(vectors.words[at] for at in kept.tolist()), vectors.matrix[kept]),
        words=int(np.isin(kept, rows).sum()),
        characters=int(np.isin(kept, singles).sum()),
        corpora=tuple(tally.coverage(found.lexicon) for tally in found.corpora),
        overall=found.overall.coverage(found.lexicon),
        notices=(*vectors.notices, *lost),
    )


def norms(vectors: Vectors) -> npt.NDArray[np.float64]:
    """[V]: the length of each vector, in double precision and without a copy of the matrix."""
    lengths: npt.NDArray[np.float64] = np.sqrt(
        np.einsum("ve,ve->v", vectors.matrix, vectors.matrix, dtype=np.float64)
    )
    return lengths


def check_request(out: Path, inputs: Sequence[Path], characters: str) -> None:
    """Whatever can be found wrong before the vectors are read: the output must be a .bin or .vec,
    and not an input.
    """
    _check_characters(characters)
    if out.suffix not in (".bin", ".vec"):
        raise InputError("the output must end with .bin (word2vec binary) or .vec (text)", out)
    if out.is_dir():
        raise InputError("the output is a folder: expected the name of a file", out)
    check_readable(inputs)
    check_output(out, inputs)


def _check_characters(which: str) -> None:
    if which not in CHARACTERS:
        raise InputError(f"{which!r} characters cannot be kept: expected {', '.join(CHARACTERS)}")


def write_gazetteer(path: Path, gazetteer: Gazetteer) -> None:
    """Write what is kept as word2vec, binary for .bin and text for .vec."""
    write_vectors(path, gazetteer.vectors, binary=path.suffix == ".bin")


def _single_characters(words: Sequence[str], which: str, seen: set[str]) -> list[int]:
    """The rows of single characters that a character embedding would use: the first of those that
    fold to the same.
    """
    wanted = {fold_digits(character) for character in seen}
    first: dict[str, int] = {}
    for at, word in enumerate(words):
        if len(word) == 1:
            first.setdefault(fold_digits(word), at)
    return [
        at
        for character, at in first.items()
        if which == "all" or (which == "met" and character in wanted)
    ]


def _writable(words: Sequence[str], rows: Ints) -> tuple[Ints, list[str]]:
    """The rows whose word has no white space, which word2vec files cannot contain, and a notice of
    the others.
    """
    lost = [at for at in rows.tolist() if any(character in _WHITE for character in words[at])]
    if not lost:
        return rows, []
    few = ", ".join(repr(words[at]) for at in lost[:3])
    return np.setdiff1d(rows, lost), [
        f"left out {len(lost):,} words with white space in them, such as {few}"
    ]


# ---- counting


@dataclass(frozen=True)
class EntityShare:
    """How many gold entities are words of the lexicon: every occurrence (tokens), and each spelling
    once (types).
    """

    tokens: int
    tokens_in: int
    types: int
    types_in: int


@dataclass(frozen=True)
class WordCoverage:
    """What the lexicon finds in one corpus. `entities` is None where the corpus is not annotated."""

    name: str
    sentences: int
    characters: int
    covered: int  # characters inside at least one word
    positions: int  # matches
    words: int  # different words among the matches
    entities: EntityShare | None
    by_label: dict[str, EntityShare]

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with the two ratios."""
        ratios = {
            "per_character": self.positions / self.characters,
            "covered_share": self.covered / self.characters,
        }
        return {**asdict(self), **ratios}


class CoverageTally:
    """The counts of a corpus so far."""

    def __init__(self, name: str, words: int) -> None:
        self.name = name
        self.sentences = self.characters = self.covered = self.positions = 0
        self.met: npt.NDArray[np.bool_] = np.zeros(words, dtype=bool)  # [V]: the word occurs
        self.seen: set[str] = set()
        self.annotated = False
        self.entities: dict[str, Counter[str]] = {}  # label → folded text → frequency

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
                self.entities.setdefault(span.label, Counter())[
                    sentence.folded[span.start : span.end]
                ] += 1

    def add(self, other: CoverageTally) -> None:
        for name in ("sentences", "characters", "covered", "positions"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.met |= other.met
        self.seen |= other.seen
        self.annotated |= other.annotated
        for label, entities in other.entities.items():
            self.entities.setdefault(label, Counter()).update(entities)

    def coverage(self, lexicon: Lexicon) -> WordCoverage:
        every = sum(self.entities.values(), Counter[str]())
        return WordCoverage(
            name=self.name,
            sentences=self.sentences,
            characters=self.characters,
            covered=self.covered,
            positions=self.positions,
            words=int(self.met.sum()),
            entities=_entity_share(every, lexicon) if self.annotated else None,
            by_label={
                label: _entity_share(self.entities[label], lexicon)
                for label in sorted(self.entities)
            },
        )


@dataclass(frozen=True, eq=False)
class Tallies:
    """The counts of each corpus and of all together. Word w of the lexicon is row `rows[w]` of the
    vector file.
    """

    lexicon: Lexicon
    rows: Ints  # [V]
    corpora: tuple[CoverageTally, ...]
    overall: CoverageTally


def tally_words(
    words: Sequence[str], corpora: Iterable[tuple[str, Iterable[Sentence]]], listen: Listener
) -> Tallies:
    """Read named corpora once, and count what a lattice finds of these words in them."""
    lexicon = Lexicon()
    rows = np.flatnonzero(lexicon.add_many(words))
    tallies = list[CoverageTally]()
    overall = CoverageTally(ALL, len(lexicon))
    for name, sentences in corpora:
        tally = CoverageTally(name, len(lexicon))
        for part in groups(sentences, _PART):
            tally.read(part, lexicon)
            listen({"event": "part", "corpus": name, "characters": tally.characters})
        if not tally.characters:
            raise InputError("the corpus is empty: there is no character in it", name)
        tallies.append(tally)
        overall.add(tally)
    if not tallies:
        raise InputError("no corpus was named, so there is nothing to match")
    return Tallies(lexicon, rows, tuple(tallies), overall)


def _covered(lengths: Ints, found: Matches) -> int:
    """How many characters of texts of these lengths are inside at least one match."""
    size = int(lengths.sum())
    first = np.repeat(
        np.cumsum(lengths) - lengths, found.counts
    )  # [W]: where the text of each match begins
    open_at = np.bincount(first + found.start, minlength=size + 1) - np.bincount(
        first + found.end, minlength=size + 1
    )
    return int((np.cumsum(open_at) > 0).sum())


def _entity_share(entities: Counter[str], lexicon: Lexicon) -> EntityShare:
    """`in` strips the word that it looks up, but no match begins or ends with a blank; so such an
    entity is not in.
    """
    inside = {entity for entity in entities if entity == entity.strip() and entity in lexicon}
    tokens_in = sum(entities[entity] for entity in inside)
    return EntityShare(entities.total(), tokens_in, len(entities), len(inside))
