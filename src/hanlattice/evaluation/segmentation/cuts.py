"""Cut: a text without its white space, and where its words are. In this form words are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from hanlattice.errors import InputError
from hanlattice.text.boundaries import remove_space
from hanlattice.text.normal import fold
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span

Place = tuple[int, int]


@dataclass(frozen=True)
class Cut:
    """`places` are (start, end) of the words in `text`, which they cover without a gap."""

    text: str
    places: tuple[Place, ...]

    @cached_property
    def words(self) -> list[str]:
        return [self.text[start:end] for start, end in self.places]

    @cached_property
    def boundaries(self) -> set[int]:
        """Those between words: the two ends of a text are nobody's find."""
        return {start for start, _ in self.places if start}


def cut(text: str, spans: Iterable[Span], whose: str = "") -> Cut:
    """A text and its words, which must cover every character but white space, or it is an InputError.

    White space at the ends of a word or inside it does not count, and nor does a word of nothing else. `whose` words
    they are is what the error begins with.
    """
    before = [0, *accumulate(not character.isspace() for character in text)]
    given = sorted((span.start, span.end) for span in spans)
    if (last := max((end for _, end in given), default=0)) > len(text):
        raise InputError(f"{whose}a word ends at character {last} of {_short(text)}, which has {len(text)}")
    places = [(before[start], before[end]) for start, end in given if before[start] < before[end]]
    if problem := _problem(places, before[-1]):
        words, at = problem
        raise InputError(f"{whose}{words} character {before.index(at + 1)} of {_short(text)}")
    return Cut(remove_space(text), tuple(places))


def _problem(places: Sequence[Place], length: int) -> tuple[str, int] | None:
    """What is wrong, and the first place at which it is."""
    at = 0
    for start, end in [*places, (length, length)]:
        if start != at:
            return ("two words cover", start) if start < at else ("no word covers", at)
        at = end
    return None


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")


def knowing(known: Iterable[str], as_written: bool) -> Callable[[str], bool]:
    """Whether a word is one of those; with widths folded, unless `as_written`, since corpora differ in them."""
    seen: Callable[[str], str] = remove_space if as_written else lambda word: remove_space(fold(word))
    words = frozenset(map(seen, known))
    return lambda word: seen(word) in words


def words_in(sentences: Iterable[Sentence]) -> set[str]:
    """All gold words of segmented sentences."""
    return {sentence.text[span.start : span.end] for sentence in sentences for span in sentence.spans or ()}
