"""The words of a vector file that occur in corpora: their coverage, and a small file of them.

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
# The name of all corpora taken together.
ALL = "all"
# Characters that are matched at a time: bounds the memory that matching needs.
_PART = 1 << 19
_WHITE = " \t\n\r\v\f"


@dataclass(frozen=True, eq=False)
class Gazetteer:
    """The rows that are kept, in the order of the file.

    `lexicon` counts the words of the file that a lattice can use; `norm` and `norm_kept` are the
    mean lengths of their vectors, and of those that are kept. `words` and `characters` count what
    is kept by kind.
    """

    lexicon: int
    norm: float
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

    Args:
        characters: which single characters are kept, though they are no words of a lattice: `met`
            those that occur, `all` every one, or `none`.
    """
    _check_characters(characters)
    if all(len(word.strip()) < 2 for word in vectors.words):
        raise InputError("no word of two characters or more is in the vector file")
    tallies = tally_words(vectors.words, corpora, listen)
    rows = tallies.rows
    met = tallies.overall.met
    if not met.any():
        raise InputError(f"none of the {len(rows):,} words of the vector file occurs in the text")
    singles = _single_characters(vectors.words, characters, tallies.overall.seen)
    kept = np.union1d(rows[met], singles).astype(np.int64)
    # Files of word2vec cannot contain white space in a word.
    lost = [row for row in kept.tolist() if any(char in _WHITE for char in vectors.words[row])]
    notices = list(vectors.notices)
    if lost:
        kept = np.setdiff1d(kept, lost)
        few = ", ".join(repr(vectors.words[row]) for row in lost[:3])
        notices.append(f"left out {len(lost):,} words with white space in them, such as {few}")
    lengths = norms(vectors)[rows]
    return Gazetteer(
        lexicon=len(rows),
        norm=float(lengths.mean()),
        norm_kept=float(lengths[met].mean()),
        vectors=Vectors(tuple(vectors.words[row] for row in kept.tolist()), vectors.matrix[kept]),
        words=int(np.isin(kept, rows).sum()),
        characters=int(np.isin(kept, singles).sum()),
        corpora=tuple(tally.coverage(tallies.lexicon) for tally in tallies.corpora),
        overall=tallies.overall.coverage(tallies.lexicon),
        notices=tuple(notices),
    )


def norms(vectors: Vectors) -> npt.NDArray[np.float64]:
    """Return the length of each vector, [V], in double precision without a copy of the matrix."""
    matrix = vectors.matrix
    squares = np.einsum("ve,ve->v", matrix, matrix, dtype=np.float64)
    return np.asarray(np.sqrt(squares))


def check_request(out: Path, inputs: Sequence[Path], characters: str) -> None:
    """Find what is wrong before the vectors are read; the output must be a .bin or .vec."""
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
    """Return the rows of characters that an embedding would use: the first with each fold."""
    wanted = {fold_digits(character) for character in seen}
    first: dict[str, int] = {}
    for row, word in enumerate(words):
        if len(word) == 1:
            first.setdefault(fold_digits(word), row)
    if which == "all":
        return list(first.values())
    return [row for character, row in first.items() if which == "met" and character in wanted]


# ---- counting


@dataclass(frozen=True)
class EntityShare:
    """How many gold entities the lexicon has: occurrences (tokens) and spellings (types)."""

    tokens: int
    tokens_in: int
    types: int
    types_in: int


@dataclass(frozen=True)
class WordCoverage:
    """What the lexicon finds in one corpus.

    `covered` counts characters inside a word, `positions` the matches, and `words` the different
    words among them. `entities` is None where the corpus is not annotated.
    """

    name: str
    sentences: int
    characters: int
    covered: int
    positions: int
    words: int
    entities: EntityShare | None
    by_label: dict[str, EntityShare]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with the two ratios."""
        density = self.positions / self.characters
        share = self.covered / self.characters
        return {**asdict(self), "per_character": density, "covered_share": share}


class CoverageTally:
    """The counts of a corpus so far; `met` says of each word, [V], whether it occurs."""

    def __init__(self, name: str, words: int) -> None:
        self.name = name
        self.sentences = self.characters = self.covered = self.positions = 0
        self.met: npt.NDArray[np.bool_] = np.zeros(words, dtype=bool)
        self.seen: set[str] = set()
        self.annotated = False
        # Label → folded text → frequency.
        self.entities: dict[str, Counter[str]] = {}

    def read(self, sentences: Sequence[Sentence], lexicon: Lexicon) -> None:
        """Count these sentences too."""
        folded = [sentence.folded for sentence in sentences]
        lengths = np.fromiter(map(len, folded), dtype=np.int64, count=len(folded))
        matches = lexicon.match_many(folded)
        self.sentences += len(folded)
        self.characters += int(lengths.sum())
        self.covered += _covered(lengths, matches)
        self.positions += len(matches.word)
        self.met[matches.word] = True
        self.seen.update("".join(folded))
        for sentence in sentences:
            self.annotated |= sentence.spans is not None
            for span in sentence.spans or ():
                entities = self.entities.setdefault(span.label, Counter())
                entities[sentence.folded[span.start : span.end]] += 1

    def add(self, other: CoverageTally) -> None:
        """Add the counts of another corpus."""
        for name in ("sentences", "characters", "covered", "positions"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.met |= other.met
        self.seen |= other.seen
        self.annotated |= other.annotated
        for label, entities in other.entities.items():
            self.entities.setdefault(label, Counter()).update(entities)

    def coverage(self, lexicon: Lexicon) -> WordCoverage:
        """Return the counts so far."""
        every = sum(self.entities.values(), Counter[str]())
        by_label = sorted(self.entities.items())
        return WordCoverage(
            name=self.name,
            sentences=self.sentences,
            characters=self.characters,
            covered=self.covered,
            positions=self.positions,
            words=int(self.met.sum()),
            entities=_entity_share(every, lexicon) if self.annotated else None,
            by_label={label: _entity_share(counts, lexicon) for label, counts in by_label},
        )


@dataclass(frozen=True, eq=False)
class Tallies:
    """The counts of each corpus and of all; word w of the lexicon is row `rows[w]` of the file."""

    lexicon: Lexicon
    rows: Ints
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


def _covered(lengths: Ints, matches: Matches) -> int:
    """Count the characters of texts of these lengths that are inside at least one match."""
    size = int(lengths.sum())
    # Where the text of each match begins in all texts joined.
    first = np.repeat(np.cumsum(lengths) - lengths, matches.counts)
    begun = np.bincount(first + matches.start, minlength=size + 1)
    ended = np.bincount(first + matches.end, minlength=size + 1)
    return int((np.cumsum(begun - ended) > 0).sum())


def _entity_share(entities: Counter[str], lexicon: Lexicon) -> EntityShare:
    # `in` strips a word, but no match begins or ends with a blank, so such an entity is not in.
    inside = {entity for entity in entities if entity == entity.strip() and entity in lexicon}
    tokens_in = sum(entities[entity] for entity in inside)
    return EntityShare(entities.total(), tokens_in, len(entities), len(inside))
