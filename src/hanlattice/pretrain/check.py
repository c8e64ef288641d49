"""What is in a file of vectors, what is wrong with it, and how much of a corpus it covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hanlattice.errors import InputError
from hanlattice.events import Listener, ignore
from hanlattice.files import shown
from hanlattice.pretrain.tally import find_words
from hanlattice.text.normal import fold_digits
from hanlattice.text.sentence import Sentence
from hanlattice.text.vectors import Vectors, examine_vectors


@dataclass(frozen=True)
class Report:
    """`broken` are (line, or in binary the row's number from 1; what is wrong) of every row that is left out."""

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
    vectors, found = examine_vectors(path)
    norms = np.sqrt(np.einsum("ve,ve->v", vectors.matrix, vectors.matrix, dtype=np.float64))  # [V]
    report = Report(
        file=shown(path),
        form=found.form,
        header=found.header,
        rows=found.rows,
        words=len(vectors),
        width=vectors.width,
        single_characters=sum(len(word) == 1 for word in vectors.words),
        repeated=found.repeated,
        skipped=vectors.skipped,
        broken=found.broken,
        zero=int((norms == 0).sum()),
        norms={"mean": float(norms.mean()), "min": float(norms.min()), "max": float(norms.max())},
        notices=vectors.notices,
    )
    return report, vectors


@dataclass(frozen=True)
class Coverage:
    """How much of a corpus has vectors. White space does not count as a character.

    A position is a character of the text, a type a different one. `words` is what the lattice finds: see
    `tally.Coverage`; None where no word of the file occurs.
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
    found = find_words(vectors.words, [(name, _counted(sentences, counts))], listen)
    known = {fold_digits(word) for word in vectors.words if len(word) == 1}
    met = {character: count for character, count in counts.most_common() if not character.isspace()}
    if not met:
        raise InputError("the corpus is empty: there is no character in it", name)
    words = found.overall.coverage(found.lexicon)
    missing = [character for character in met if character not in known]
    return Coverage(
        name=name,
        positions=sum(met.values()),
        positions_in=sum(count for character, count in met.items() if character in known),
        types=len(met),
        types_in=len(met) - len(missing),
        missing=tuple(missing[:20]),
        words={"lexicon": len(found.rows), **words.as_dict()} if words.positions else None,
    )


def _counted(sentences: Iterable[Sentence], counts: Counter[str]) -> Iterator[Sentence]:
    for sentence in sentences:
        counts.update(sentence.characters)
        yield sentence
