"""How many words of a vector file stand in some corpora: matched as the lattice does it, overlapping ones too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.errors import InputError
from hanlattice.events import Listener
from hanlattice.pretrain.groups import groups
from hanlattice.text.lattice import Ints
from hanlattice.text.lexicon import Lexicon, Matches
from hanlattice.text.sentence import Sentence

ALL = "all"  # the name of the corpora taken together
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


class Tally:
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

    def add(self, other: Tally) -> None:
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


@dataclass(frozen=True, eq=False)
class Found:
    """What was counted in each corpus, and in all. Word w of the lexicon is row `rows[w]` of the vector file."""

    lexicon: Lexicon
    rows: Ints  # [V]
    tallies: tuple[Tally, ...]
    overall: Tally

    @property
    def corpora(self) -> tuple[Coverage, ...]:
        return tuple(tally.coverage(self.lexicon) for tally in self.tallies)


def find_words(words: Sequence[str], corpora: Iterable[tuple[str, Iterable[Sentence]]], listen: Listener) -> Found:
    """Read corpora, which come with their names, once, and count what a lattice finds of these words in them."""
    lexicon = Lexicon()
    rows = np.flatnonzero(lexicon.add_many(words))
    tallies = tuple(_tally(name, sentences, lexicon, listen) for name, sentences in corpora)
    return Found(lexicon, rows, tallies, _together(tallies, lexicon))


def _tally(name: str, sentences: Iterable[Sentence], lexicon: Lexicon, listen: Listener) -> Tally:
    tally = Tally(name, len(lexicon))
    for part in groups(sentences, _PART):
        tally.read(part, lexicon)
        listen({"event": "part", "corpus": name, "characters": tally.characters})
    if not tally.characters:
        raise InputError("the corpus is empty: there is no character in it", name)
    return tally


def _together(tallies: Iterable[Tally], lexicon: Lexicon) -> Tally:
    overall = Tally(ALL, len(lexicon))
    for tally in tallies:
        overall.add(tally)
    if not overall.characters:
        raise InputError("no corpus was named, so there is nothing to match")
    return overall


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
