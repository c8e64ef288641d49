"""The gazetteer way: which words of a vector file occur in some corpora, and those words alone as a small vector file.

A model that is trained and tested on these corpora learns the same from the small file as from the whole one: words
that occur nowhere in them take no part. Words are matched as the lattice matches them, overlapping ones too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hanlattice.errors import InputError
from hanlattice.events import Listener, ignore
from hanlattice.files import refuse_inputs
from hanlattice.pretrain.outputs import check_readable
from hanlattice.pretrain.tally import Coverage, Found, find_words
from hanlattice.text.lattice import Ints
from hanlattice.text.normal import fold_digits
from hanlattice.text.sentence import Sentence
from hanlattice.text.vectors import Vectors, write_vectors

CHARACTERS = ("met", "all", "none")
_BINARY = {".bin": True, ".vec": False}
_WHITE = " \t\n\r\v\f"


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
    _check_characters(characters)
    if all(len(word.strip()) < 2 for word in vectors.words):
        raise InputError("no word of two characters or more is in the vector file")
    found = find_words(vectors.words, corpora, listen)
    if not found.overall.met.any():
        raise InputError(f"none of the {len(found.rows):,} words of the vector file occurs in the text")
    return _keep(vectors, found, characters)


def _keep(vectors: Vectors, found: Found, characters: str) -> Gazetteer:
    rows, met = found.rows, found.overall.met
    singles = _single_characters(vectors.words, characters, found.overall.seen)
    kept, lost = _writable(vectors.words, np.union1d(rows[met], singles).astype(np.int64))
    squares = np.einsum("ve,ve->v", vectors.matrix, vectors.matrix, dtype=np.float64)  # without a copy of the matrix
    lengths = np.sqrt(squares[rows])  # [V]
    return Gazetteer(
        lexicon=len(rows),
        norm=float(lengths.mean()),
        norm_kept=float(lengths[met].mean()),
        vectors=Vectors(tuple(vectors.words[at] for at in kept.tolist()), vectors.matrix[kept]),
        words=int(np.isin(kept, rows).sum()),
        characters=int(np.isin(kept, singles).sum()),
        corpora=found.corpora,
        overall=found.overall.coverage(found.lexicon),
        notices=(*vectors.notices, *lost),
    )


def check_request(out: Path, inputs: Sequence[Path], characters: str) -> None:
    """What can be known to be wrong before the vectors are read.

    An output must say its form by its suffix, and must not be one of the files that are read.
    """
    _check_characters(characters)
    if out.suffix not in _BINARY:
        raise InputError("the output must end with .bin (word2vec binary) or .vec (text)", out)
    if out.is_dir():
        raise InputError("the output is a folder: expected the name of a file", out)
    check_readable(inputs)
    refuse_inputs(out, inputs)


def _check_characters(which: str) -> None:
    if which not in CHARACTERS:
        raise InputError(f"{which!r} characters cannot be kept: expected {', '.join(CHARACTERS)}")


def write_gazetteer(path: Path, gazetteer: Gazetteer) -> None:
    """Write what is kept as word2vec, binary for .bin and text for .vec."""
    write_vectors(path, gazetteer.vectors, binary=_BINARY[path.suffix])


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
