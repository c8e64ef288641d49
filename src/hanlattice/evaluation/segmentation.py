"""Word segmentation scored: as the SIGHAN bakeoff counts, by exact spans, by boundaries, by length;
missed words.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from hanlattice.errors import InputError
from hanlattice.evaluation.ner import Score
from hanlattice.evaluation.report import NONE, Table, count, percent
from hanlattice.text.boundaries import remove_space
from hanlattice.text.fork_safety import cached_property
from hanlattice.text.normalize import fold
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span

LENGTHS = ("1", "2", "3", "4", "5+")
INSTEAD = 3  # readings that a table shows of a missed word

Place = tuple[int, int]
IsKnown = Callable[[str], bool]


@dataclass(frozen=True)
class Cut:
    """A text without its white space; `places` are (start, end) of its words, which cover it
    without a gap.
    """

    text: str
    places: tuple[Place, ...]

    @cached_property
    def words(self) -> list[str]:
        return [self.text[start:end] for start, end in self.places]

    @cached_property
    def boundaries(self) -> set[int]:
        """Between words only: every segmenter finds the two ends of a text."""
        return {start for start, _ in self.places if start}


Pairs = Sequence[tuple[Cut, Cut]]  # gold, found


@dataclass(frozen=True, slots=True)
class Recall:
    """How many gold words there are, and how many of them were found."""

    gold: int
    correct: int

    @property
    def recall(self) -> float | None:
        return self.correct / self.gold if self.gold else None

    def as_dict(self) -> dict[str, float | None]:
        return {"recall": self.recall, "gold": self.gold, "correct": self.correct}


@dataclass(frozen=True, slots=True)
class Replacement:
    """The found words that cover a missed one: several if it was cut, one if it was joined to its
    neighbours.
    """

    words: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A gold word: how often it occurs, how often no found word has its place, and what was found
    there instead.
    """

    word: str
    count: int
    missed: int
    known: bool | None  # whether it is a training word; None if those are not given
    instead: tuple[Replacement, ...]  # the most frequent first


@dataclass(frozen=True, slots=True)
class SegmentationReport:
    """`bakeoff` counts words that diff aligns, `spans` words at the same place; `oov` and `iv`
    count as `bakeoff`.

    `oov` are gold words that are not training words and `iv` those that are; None if no training
    words are given.
    """

    bakeoff: Score
    oov: Recall | None
    iv: Recall | None
    spans: Score
    boundaries: Score
    by_length: dict[str, Score]
    worst: tuple[Missed, ...]

    @property
    def oov_rate(self) -> float | None:
        """The share of gold words that are not training words."""
        return self.oov.gold / self.bakeoff.gold if self.oov and self.bakeoff.gold else None

    def as_dict(self, words: int | None = None) -> dict[str, object]:
        """As JSON wants it, with the first `words` of the worst words, or all."""
        return {
            "bakeoff": self.bakeoff.as_dict(),
            "oov": self.oov and {**self.oov.as_dict(), "rate": self.oov_rate},
            "iv": self.iv and self.iv.as_dict(),
            "spans": self.spans.as_dict(),
            "boundaries": self.boundaries.as_dict(),
            "by_length": {length: score.as_dict() for length, score in self.by_length.items()},
            "worst": [asdict(word) for word in self.worst[:words]],
        }


def score_segmentation(
    texts: Sequence[str],
    gold: Sequence[Iterable[Span]],
    predicted: Sequence[Iterable[Span]],
    known: Collection[str] | None = None,
    *,
    as_written: bool = False,
) -> SegmentationReport:
    """Words against words, sentence by sentence; both must cover all of a text but its white space.

    `known` are the training words. Width does not matter to them: `１` is known if `1` is. The
    script of the bakeoff takes them `as_written`.
    """
    if not len(texts) == len(gold) == len(predicted):
        counts = f"{len(texts)} texts, {len(gold)} gold sentences and {len(predicted)} predicted sentences"
        raise ValueError(f"{counts} cannot be compared")
    pairs = [
        (
            cut(text, ours, f"gold words of sentence {at}: "),
            cut(text, theirs, f"found words of sentence {at}: "),
        )
        for at, (text, ours, theirs) in enumerate(zip(texts, gold, predicted, strict=True), start=1)
    ]
    is_known = None if known is None else _known(known, as_written)
    return SegmentationReport(
        *_bakeoff(pairs, is_known),
        *_places(pairs),
        by_length=_by_length(pairs),
        worst=_worst(pairs, is_known),
    )


def words_in(sentences: Iterable[Sentence]) -> set[str]:
    """All gold words of segmented sentences."""
    return {
        sentence.text[span.start : span.end]
        for sentence in sentences
        for span in sentence.spans or ()
    }


def cut(text: str, spans: Iterable[Span], whose: str = "") -> Cut:
    """A text and its words, which must cover every character but white space; an InputError,
    beginning with `whose` words they are, if they do not.

    White space at the ends of a word or inside it does not count, and a word of nothing else is
    dropped.
    """
    before = [0, *accumulate(not character.isspace() for character in text)]
    given = sorted((span.start, span.end) for span in spans)
    if (last := max((end for _, end in given), default=0)) > len(text):
        raise InputError(
            f"{whose}a word ends at character {last} of {_short(text)}, which has {len(text)}"
        )
    places = [(before[start], before[end]) for start, end in given if before[start] < before[end]]
    at = 0
    for start, end in [*places, (before[-1], before[-1])]:
        if start != at:
            words, first = ("two words cover", start) if start < at else ("no word covers", at)
            raise InputError(
                f"{whose}{words} character {before.index(first + 1)} of {_short(text)}"
            )
        at = end
    return Cut(remove_space(text), tuple(places))


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")


def _known(words: Iterable[str], as_written: bool) -> IsKnown:
    """Corpora differ in the width of letters and digits, so it is folded unless `as_written`."""
    normal: Callable[[str], str] = (
        remove_space if as_written else lambda word: remove_space(fold(word))
    )
    known = frozenset(map(normal, words))
    return lambda word: normal(word) in known


def _bakeoff(pairs: Pairs, is_known: IsKnown | None) -> tuple[Score, Recall | None, Recall | None]:
    """All words, those that are not known, those that are."""
    gold_words: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for gold, found in pairs:
        gold_words.update(gold.words)
        correct.update(gold.words[at] for at, _ in matched(gold.words, found.words))
    score = Score(gold_words.total(), sum(len(found.places) for _, found in pairs), correct.total())
    if is_known is None:
        return score, None, None
    new = [word for word in gold_words if not is_known(word)]
    oov = Recall(sum(gold_words[word] for word in new), sum(correct[word] for word in new))
    return score, oov, Recall(score.gold - oov.gold, score.correct - oov.correct)


def _places(pairs: Pairs) -> tuple[Score, Score]:
    """Exact spans, and boundaries between words."""
    spans = [(set(gold.places), set(found.places)) for gold, found in pairs]
    return _score(spans), _score([(gold.boundaries, found.boundaries) for gold, found in pairs])


def _score(pairs: Iterable[tuple[Set[object], Set[object]]]) -> Score:
    counts = [(len(gold), len(found), len(gold & found)) for gold, found in pairs]
    return Score(*map(sum, zip((0, 0, 0), *counts, strict=True)))


def _by_length(pairs: Pairs) -> dict[str, Score]:
    """Exact spans by their number of characters."""
    columns: list[Counter[int]] = [Counter(), Counter(), Counter()]
    for gold, found in pairs:
        right = set(gold.places) & set(found.places)
        for column, places in zip(columns, (gold.places, found.places, right), strict=True):
            column.update([end - start for start, end in places])
    short = {name: Score(*(column[int(name)] for column in columns)) for name in LENGTHS[:-1]}
    longer = [
        sum(number for length, number in column.items() if length > len(short))
        for column in columns
    ]
    return {**short, LENGTHS[-1]: Score(*longer)}


def _worst(pairs: Pairs, is_known: IsKnown | None) -> tuple[Missed, ...]:
    """Every missed word; those missed most often first, then the rarer, then by their characters."""
    counts: Counter[str] = Counter()
    instead: dict[str, Counter[tuple[str, ...]]] = {}
    for gold, found in pairs:
        counts.update(gold.words)
        right = set(found.places)
        starts, ends = ([place[side] for place in found.places] for side in (0, 1))
        for word, (start, end) in zip(gold.words, gold.places, strict=True):
            if (start, end) not in right:
                others = tuple(
                    found.words[bisect_right(ends, start) : bisect_left(starts, end)]
                )  # that overlap it
                instead.setdefault(word, Counter())[others] += 1
    words = []
    for word, readings in instead.items():
        most_frequent = sorted(readings.items(), key=lambda item: (-item[1], item[0]))
        known = None if is_known is None else is_known(word)
        words.append(
            Missed(
                word,
                counts[word],
                readings.total(),
                known,
                tuple(Replacement(*item) for item in most_frequent),
            )
        )
    return tuple(sorted(words, key=lambda each: (-each.missed, each.count, each.word)))


# ---- Which words of two lists are the same. The scorer of the bakeoff runs GNU diff, which looks
# for a longest common
# subsequence, but not of all lines: it leaves out those that the other file lacks, which changes
# nothing, and where
# these stand close, also those between them that the other file has many times. So it may find a
# few words fewer than
# there are (`diff -d` would find all), and so does this.

_LACKING = "x"
_MANY = "?"
_KEPT = "."
_RUN = re.compile(r"x(?:[x?]*x)?")


def matched(left: Sequence[str], right: Sequence[str]) -> list[Place]:
    """(place in left, place in right) of the words that are the same, in their order.

    Where several alignments have the same number of words, diff may choose another one: this keeps
    common beginnings and ends, and matches a word as early as possible, in `right` first.
    """
    most = min(len(left), len(right))
    first = next((at for at in range(most) if left[at] != right[at]), most)
    last = next((at for at in range(most - first) if left[-1 - at] != right[-1 - at]), most - first)
    ours = left[first : len(left) - last]
    theirs = right[first : len(right) - last]
    mine = list(_considered(ours, theirs))
    other = list(_considered(theirs, ours))
    common = longest_common([ours[at] for at in mine], [theirs[at] for at in other])
    pairs = [(at, at) for at in range(first)]
    pairs += [(first + mine[a], first + other[b]) for a, b in common]
    return pairs + [(len(left) - back, len(right) - back) for back in range(last, 0, -1)]


def _considered(words: Sequence[str], others: Sequence[str]) -> Iterator[int]:
    """The places of the words that are not left out.

    A run begins and ends with a word that the others lack, and otherwise has only such words and
    those that the others have many times: more than 5; of 256 words or more, more than 10; of
    1,024, more than 20, and so on.
    """
    counts = Counter(others)
    many = 5 * _root(len(words) // 64)
    found = (counts[word] for word in words)
    marks = "".join(_MANY if number > many else _KEPT if number else _LACKING for number in found)
    settled = _RUN.sub(lambda run: _settled(run[0]), marks) if _MANY in marks else marks
    return (at for at, mark in enumerate(settled) if mark != _LACKING)


def _settled(run: str) -> str:
    """A run in which every word that is left out is marked as lacking, and every other as kept.

    Words that the others have many times are kept if they are more than a quarter of the run, where
    several of them stand together, and near both ends: up to three lacking words in a row, or to
    the first lacking one from the ninth.
    """
    if 4 * run.count(_MANY) > len(run):
        return run.replace(_MANY, _KEPT)
    together = 1 + _root(len(run) // 4)
    run = re.sub(rf"\?{{{together},}}", lambda many: _KEPT * len(many[0]), run)
    for _ in range(2):
        near = min(_find(run, _LACKING, 8), _find(run, 3 * _LACKING, 0))
        run = (run[:near].replace(_MANY, _KEPT) + run[near:])[::-1]
    return run.replace(_MANY, _LACKING)


def _find(text: str, part: str, start: int) -> int:
    return at if (at := text.find(part, start)) >= 0 else len(text)


def _root(number: int) -> int:
    """The largest power of two that is not above the square root; 1 for 0."""
    return 1 << max(0, (number.bit_length() - 1) // 2)


def longest_common(left: Sequence[str], right: Sequence[str]) -> list[Place]:
    """The places of a longest common subsequence, by the table L: left[:i] and right[:j] have
    L[i][j] words in common.

    A row is one whole number, whose bit j is 0 where L[i][j + 1] = L[i][j] + 1. So it takes a few
    operations on the row before (Crochemore et al., 2001), and all rows are small enough to be kept
    for the way back.
    """
    places: dict[str, int] = {}
    for at, word in enumerate(right):
        places[word] = places.get(word, 0) | 1 << at
    rows = [full := (1 << len(right)) - 1]
    for word in left:
        row = rows[-1]
        same = row & places.get(word, 0)
        rows.append(((row + same) | (row - same)) & full)
    pairs = []
    i = len(left)
    j = len(right)
    while i and j:
        bit = 1 << (j - 1)
        if rows[i] & bit:  # L[i][j − 1] is as large
            j -= 1
        elif (
            not rows[i - 1] & bit
        ):  # L[i − 1][j] is as large, since L[i][j] is at most L[i − 1][j − 1] + 1
            i -= 1
        else:
            i = i - 1
            j = j - 1
            pairs.append((i, j))
    return pairs[::-1]


# ---- Tables of reports as JSON has them: those of a new evaluation, and those that a model folder
# keeps.


def named_scores(report: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of a report: all, each group, each type; of a segmenter, each way of counting.

    OOV and IV words have a recall and no precision.
    """
    segmentation = report.get("segmentation", {})
    if "bakeoff" not in segmentation:
        yield "all", report["overall"]
        yield from report.get("groups", {}).items()
        yield from report["by_type"].items()
        return
    yield "bakeoff", segmentation["bakeoff"]
    if (oov := segmentation["oov"]) is not None:
        yield f"- OOV ({percent(oov['rate'])} %)", oov
        yield "- IV", segmentation["iv"]
    yield "spans", segmentation["spans"]
    for length, score in segmentation["by_length"].items():
        yield f"- {length} character{'' if length == '1' else 's'}", score
    yield "boundaries", segmentation["boundaries"]


def score_table(report: Mapping[str, Any], title: str) -> Table:
    rows = [
        (
            name,
            *(percent(score.get(key)) for key in ("precision", "recall", "f1")),
            *(count(score.get(key)) for key in ("gold", "predicted", "correct")),
        )
        for name, score in named_scores(report)
    ]
    first = "words" if "bakeoff" in report.get("segmentation", {}) else "type"
    return Table(
        title, (first, "precision", "recall", "F1", "gold", "found", "correct"), tuple(rows)
    )


def worst_table(words: Sequence[Mapping[str, Any]], title: str) -> Table:
    """The words that were missed most often, and what was found in their place."""
    known = {True: "IV", False: "OOV", None: NONE}
    rows = [
        (
            each["word"],
            count(each["count"]),
            count(each["missed"]),
            known[each["known"]],
            _readings(each["instead"]),
        )
        for each in words
    ]
    return Table(
        title, ("word", "gold", "missed", "training", "found instead"), tuple(rows), notes=1
    )


def _readings(readings: Sequence[Mapping[str, Any]]) -> str:
    """The most frequent readings: `江|泽民 ×10` where the word was cut, `in 江泽民主席 ×2` where it was
    joined.
    """
    first = [
        f"{'in ' if len(each['words']) == 1 else ''}{'|'.join(each['words'])} ×{each['count']:,}"
        for each in readings[:INSTEAD]
    ]
    more = len(readings) - len(first)
    return ", ".join([*first, f"and {more:,} more"] if more else first)
