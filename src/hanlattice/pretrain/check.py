"""What is in a file of vectors, what is wrong with it, and how much of a corpus it covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from hanlattice.errors import InputError
from hanlattice.files import BOM, opening
from hanlattice.pretrain.gazetteer import make_gazetteer
from hanlattice.text.normal import fold_digits
from hanlattice.text.sentence import Sentence
from hanlattice.text.vectors import Vectors, read_vectors
from hanlattice.training.log import Listener, ignore

_LARGEST = 3.4028235e38  # what a float32 can hold
_SAMPLE = 50  # rows, one of which is text if the file is


@dataclass(frozen=True)
class Report:
    """`broken` are (line, what is wrong) of every row that is left out; binary rows have no lines, see `notices`."""

    file: str
    form: str  # text or binary
    header: tuple[int, int] | None  # the count and width that it promises
    rows: int
    words: int
    width: int
    single_characters: int
    repeated: int  # rows of a word that an earlier row has
    skipped: int
    broken: tuple[tuple[int, str], ...]
    zero: int  # vectors of nothing but zeros
    norms: dict[str, float]  # mean, min and max
    notices: tuple[str, ...]

    @property
    def header_is_right(self) -> bool:
        return self.header is None or self.header[0] == self.rows

    @property
    def sound(self) -> bool:
        return self.header_is_right and not self.repeated and not self.skipped

    def as_dict(self) -> dict[str, Any]:
        """As JSON wants it, with the judgement and how often each thing is wrong."""
        kinds = dict(Counter(problem for _, problem in self.broken))
        return {**asdict(self), "header_is_right": self.header_is_right, "sound": self.sound, "problems": kinds}


def check_vectors(path: str | Path) -> tuple[Report, Vectors]:
    """The report, and the vectors as they can be used; a file that cannot be used is an InputError."""
    vectors = read_vectors(path)
    header = _header(path)
    text = any(problem(raw, vectors.width) is None for _, raw in islice(_rows(path, header), _SAMPLE))
    rows = sum(1 for _ in _rows(path, header)) if text else (header or (0, 0))[0]
    judged = ((number, problem(raw, vectors.width)) for number, raw in _rows(path, header))
    broken = tuple((number, wrong) for number, wrong in judged if wrong) if text and vectors.skipped else ()
    norms = np.sqrt(np.einsum("ve,ve->v", vectors.matrix, vectors.matrix, dtype=np.float64))  # [V]
    report = Report(
        file=str(path),
        form="text" if text else "binary",
        header=header,
        rows=rows,
        words=len(vectors),
        width=vectors.width,
        single_characters=sum(len(word) == 1 for word in vectors.words),
        repeated=rows - len(vectors) - vectors.skipped,
        skipped=vectors.skipped,
        broken=broken,
        zero=int((norms == 0).sum()),
        norms={"mean": float(norms.mean()), "min": float(norms.min()), "max": float(norms.max())},
        notices=vectors.notices,
    )
    return report, vectors


def _header(path: str | Path) -> tuple[int, int] | None:
    with opening(path) as file:
        fields = file.readline(100).removeprefix(BOM).split()
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        return int(fields[0]), int(fields[1])
    return None


def _rows(path: str | Path, header: tuple[int, int] | None) -> Iterator[tuple[int, bytes]]:
    """The rows of a text file with their lines' numbers; blank ones are none."""
    with opening(path) as file:
        for number, raw in enumerate(file, start=1):
            raw = raw.removeprefix(BOM) if number == 1 else raw
            if not (number == 1 and header) and raw and not raw.isspace():
                yield number, raw


def problem(raw: bytes, width: int) -> str | None:
    """What is wrong with a row of text, in the same words for the same mistake; None if nothing is."""
    fields = raw.rsplit(None, width)
    if len(fields) <= width:
        full = len(fields) == width and raw[:1].isspace()
        return "there is no word" if full else "too few numbers"
    extra = fields[0].split()[1:]
    if extra and all(_number(field) is not None for field in extra):
        return "too many numbers"
    values = [_number(field) for field in fields[1:]]
    if None in values:
        return "not a number"
    if not all(value is not None and abs(value) < _LARGEST for value in values):
        return "a value is not finite"
    try:
        fields[0].decode("utf-8")
    except UnicodeDecodeError:
        return "the word is not UTF-8"
    return None


def _number(field: bytes) -> float | None:
    try:
        return None if b"_" in field else float(field)
    except ValueError:
        return None


@dataclass(frozen=True)
class Coverage:
    """How much of a corpus has vectors. White space does not count as a character.

    A position is a character of the text, a type a different one. `words` is what the lattice finds: see
    `gazetteer.Coverage`; None where no word of the file occurs.
    """

    name: str
    positions: int
    positions_in: int
    types: int
    types_in: int
    missing: tuple[str, ...]  # the commonest characters without a vector
    words: dict[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def cover(vectors: Vectors, name: str, sentences: Iterable[Sentence], listen: Listener = ignore) -> Coverage:
    """Read a corpus once, and count its characters and the words of the lattice in it."""
    counts: Counter[str] = Counter()
    words = _words(vectors, name, _counted(sentences, counts), listen)
    known = {fold_digits(word) for word in vectors.words if len(word) == 1}
    met = {character: count for character, count in counts.most_common() if not character.isspace()}
    if not met:
        raise InputError("the corpus is empty: there is no character in it", name)
    missing = [character for character in met if character not in known]
    return Coverage(
        name=name,
        positions=sum(met.values()),
        positions_in=sum(count for character, count in met.items() if character in known),
        types=len(met),
        types_in=len(met) - len(missing),
        missing=tuple(missing[:20]),
        words=words,
    )


def _counted(sentences: Iterable[Sentence], counts: Counter[str]) -> Iterator[Sentence]:
    for sentence in sentences:
        counts.update(sentence.characters)
        yield sentence


def _words(vectors: Vectors, name: str, sentences: Iterator[Sentence], listen: Listener) -> dict[str, Any] | None:
    if all(len(word) < 2 for word in vectors.words):
        for _ in sentences:  # its characters count all the same
            pass
        return None
    try:
        made = make_gazetteer(vectors, [(name, sentences)], characters="none", listen=listen)
    except InputError as error:
        if error.path is None and next(sentences, None) is None:  # all was read, and no word was found
            return None
        raise
    return {"lexicon": made.lexicon, **made.overall.as_dict()}
