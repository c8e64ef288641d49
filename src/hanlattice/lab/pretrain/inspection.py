"""A look into a vector file: its contents and faults, its coverage, and a word's neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hanlattice.errors import InputError
from hanlattice.events import Listener, ignore
from hanlattice.files import printable_path
from hanlattice.lab.pretrain.gazetteer import norms, tally_words
from hanlattice.text.normalize import fold, fold_digits
from hanlattice.text.sentence import Sentence
from hanlattice.text.vectors import Vectors, examine_vectors

# Digits of a cosine that are right in float32: cosines that differ in later ones count as equal.
_DIGITS = 6
_SIGNS = {"+": 1, "-": -1}
# Words that an error proposes.
_SUGGESTIONS = 5


def check_vectors(path: str | Path) -> tuple[dict[str, Any], Vectors]:
    """Return what a file contains, for JSON, and the vectors that can be used.

    `broken` has (the line, or in a binary file the row from 1; what is wrong) of every row that is
    left out, `problems` the number of each. `repeated` are rows of a word that an earlier row has.
    """
    vectors, found = examine_vectors(path)
    lengths = norms(vectors)
    header_is_right = found.header is None or found.header[0] == found.rows
    report = {
        "file": printable_path(path),
        "form": found.form,  # text or binary
        "header": found.header,  # the count and width that it promises
        "rows": found.rows,
        "words": len(vectors),
        "width": vectors.width,
        "single_characters": sum(len(word) == 1 for word in vectors.words),
        "repeated": found.repeated,
        "skipped": vectors.skipped,
        "broken": found.broken,
        "zero": int((lengths == 0).sum()),
        "norms": {name: float(getattr(lengths, name)()) for name in ("mean", "min", "max")},
        "notices": vectors.notices,
        "header_is_right": header_is_right,
        "sound": header_is_right and not found.repeated and not vectors.skipped,
        "problems": Counter(problem for _, problem in found.broken),
    }
    return report, vectors


def cover(
    vectors: Vectors, name: str, sentences: Iterable[Sentence], listen: Listener = ignore
) -> dict[str, Any]:
    """Read a corpus once, and count which characters and words have vectors, for JSON.

    White space does not count as a character. Positions count every character of the text, types
    each different one once. `words` is the `WordCoverage` with the size of the lexicon; None where
    no word of the file occurs.
    """
    counts: Counter[str] = Counter()

    def counting() -> Iterator[Sentence]:
        for sentence in sentences:
            counts.update(sentence.characters)
            yield sentence

    tallies = tally_words(vectors.words, [(name, counting())], listen)
    known = {fold_digits(word) for word in vectors.words if len(word) == 1}
    met = {character: count for character, count in counts.most_common() if not character.isspace()}
    if not met:
        raise InputError("the corpus is empty: there is no character in it", name)
    words = tallies.overall.coverage(tallies.lexicon)
    missing = [character for character in met if character not in known]
    return {
        "name": name,
        "positions": sum(met.values()),
        "positions_in": sum(count for character, count in met.items() if character in known),
        "types": len(met),
        "types_in": len(met) - len(missing),
        # The most frequent ones.
        "missing": tuple(missing[:20]),
        "words": {"lexicon": len(tallies.rows), **words.as_dict()} if words.positions else None,
    }


class Neighbour(NamedTuple):
    word: str
    cosine: float


def read_queries(tokens: Sequence[str]) -> list[list[str]]:
    """Join words around a sign: [国王, -, 男人, 桥] → [[国王, -, 男人], [桥]]."""
    queries: list[list[str]] = []
    for index, (before, token) in enumerate(pairwise(["+", *tokens])):
        if token in _SIGNS and (before in _SIGNS or index + 1 == len(tokens)):
            wanted = f"expected a word {'before' if before in _SIGNS else 'after'} {token!r}"
            raise InputError(f"{' '.join(tokens)}: {wanted}, as in 国王 - 男人 + 女人")
        if index and (token in _SIGNS or before in _SIGNS):
            queries[-1].append(token)
        else:
            queries.append([token])
    return queries


class Neighbours:
    """The words whose vectors are nearest to a word by cosine. Vectors are kept with norm 1."""

    def __init__(self, vectors: Vectors) -> None:
        self.words = vectors.words
        self._rows = {word: row for row, word in enumerate(vectors.words)}
        lengths = norms(vectors)
        # A zero vector stays, and is near nothing.
        lengths[lengths == 0] = 1
        self._unit = np.empty_like(vectors.matrix)
        np.divide(vectors.matrix, lengths[:, None], out=self._unit, casting="same_kind")

    def __call__(self, query: str | Sequence[str], count: int = 10) -> list[Neighbour]:
        """Return the `count` nearest, the nearest first, without the query's own words.

        A query is a word, or words with signs between them, whose unit vectors are added and
        subtracted.
        """
        terms = [query] if isinstance(query, str) else query
        rows = [self._row(word) for word in terms[::2]]
        signs = np.array([_SIGNS[sign] for sign in ("+", *terms[1::2])], np.float32)
        vector = signs @ self._unit[rows]
        if len(rows) > 1:
            length = np.linalg.norm(vector)
            if length < 10.0**-_DIGITS:
                problem = "these vectors add up to nothing; leave out a word"
                raise InputError(f"{' '.join(terms)}: {problem}")
            vector /= length
        # Adding 0 turns −0 into 0.
        cosines = (self._unit @ vector).round(_DIGITS) + 0.0
        cosines[rows] = -np.inf
        count = min(count, len(self.words) - len(set(rows)))
        if not count:
            return []
        least = np.partition(cosines, -count)[-count]
        near = np.flatnonzero(cosines >= least)
        # Stable, so that equal ones keep the order of the file.
        near = near[np.argsort(-cosines[near], kind="stable")][:count].tolist()
        return [Neighbour(self.words[row], round(float(cosines[row]), _DIGITS)) for row in near]

    def _row(self, word: str) -> int:
        """Return the row of a word as it is written, or else as the tagger sees it."""
        for form in (word, fold(word), fold_digits(word)):
            if form in self._rows:
                return self._rows[form]
        longest = max(map(len, islice(self.words, 1000)))
        similar = list(islice(dict.fromkeys(self._similar(fold(word))), _SUGGESTIONS))
        advice = "; nothing in the file resembles it"
        if len(fold(word)) > 1 and longest == 1:
            advice = ": the file has single characters; ask for one of those"
        elif similar:
            advice = f"; similar words are {', '.join(similar)}"
        raise InputError(f"there is no vector of {word!r}{advice}")

    def _similar(self, word: str) -> Iterator[str]:
        """Yield words that contain it, words inside it, and words with the same two ends."""
        yield from (known for known in self.words if word and word in known)
        places = range(len(word))
        parts = {word[start : end + 1] for start in places for end in places[start:]} - {word}
        yield from sorted(parts & self._rows.keys(), key=lambda part: (-len(part), part))
        ends = (word[:1], word[-1:])
        yield from (word for word in self.words if len(word) > 1 and (word[0], word[-1]) == ends)
