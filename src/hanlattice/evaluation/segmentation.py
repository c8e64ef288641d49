"""Score word segmentation: as the SIGHAN bakeoff counts, by exact spans, boundaries and length."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from hanlattice.errors import InputError
from hanlattice.evaluation.ner import Score, total_score
from hanlattice.evaluation.report import NONE, Table, count, percent
from hanlattice.text.boundaries import remove_space
from hanlattice.text.fork_safety import cached_property
from hanlattice.text.normalize import fold
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span

LENGTHS = ("1", "2", "3", "4", "5+")
# A table shows this many readings of a missed word.
INSTEAD = 3

Place = tuple[int, int]
IsKnown = Callable[[str], bool]


@dataclass(frozen=True)
class Cut:
    """A text without its white space, cut into words.

    `places` are (start, end) of the words, which cover the text without a gap.
    """

    text: str
    places: tuple[Place, ...]

    @cached_property
    def words(self) -> list[str]:
        return [self.text[start:end] for start, end in self.places]

    @cached_property
    def boundaries(self) -> set[int]:
        """Return the places between words, without the two ends, which every segmenter finds."""
        return {start for start, _ in self.places if start}


# (gold, found) for each sentence.
Pairs = Sequence[tuple[Cut, Cut]]


@dataclass(frozen=True, slots=True)
class Recall:
    """The number of gold words, and how many of them were found."""

    gold: int
    correct: int

    @property
    def recall(self) -> float | None:
        return self.correct / self.gold if self.gold else None

    def as_dict(self) -> dict[str, float | None]:
        return {"recall": self.recall, "gold": self.gold, "correct": self.correct}


@dataclass(frozen=True, slots=True)
class Replacement:
    """The found words that cover a missed word.

    There are several if it was cut, and one if it was joined to its neighbours.
    """

    words: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A gold word that was missed: its counts, and what was found in its place.

    `known` says whether it is a training word, and is None without training words. The most
    frequent replacement comes first.
    """

    word: str
    count: int
    missed: int
    known: bool | None
    instead: tuple[Replacement, ...]


@dataclass(frozen=True, slots=True)
class SegmentationReport:
    """The scores of a segmentation.

    `bakeoff` counts words that diff aligns, `spans` words at the same place. `oov` and `iv` count
    the gold words that training lacks and has, like `bakeoff`; None without training words.
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
        """Return the share of gold words that are not training words."""
        return self.oov.gold / self.bakeoff.gold if self.oov and self.bakeoff.gold else None

    def as_dict(self, words: int | None = None) -> dict[str, object]:
        """Return plain values for JSON, with the first `words` of the worst words, or all."""
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
    """Score found words against gold words, sentence by sentence.

    Args:
        texts: the sentences.
        gold: the gold words of each, which cover all of it but its white space.
        predicted: the found words of each, which cover as much.
        known: the training words. Width does not matter: `１` is known if `1` is.
        as_written: compare `known` without folding widths, as the bakeoff's script does.
    """
    if not len(texts) == len(gold) == len(predicted):
        gold_and_found = f"{len(gold)} gold sentences and {len(predicted)} predicted sentences"
        raise ValueError(f"{len(texts)} texts, {gold_and_found} cannot be compared")
    pairs = []
    for number, (text, ours, theirs) in enumerate(zip(texts, gold, predicted, strict=True), 1):
        gold_cut = cut(text, ours, f"gold words of sentence {number}: ")
        pairs.append((gold_cut, cut(text, theirs, f"found words of sentence {number}: ")))
    is_known = None if known is None else _known(known, as_written)
    return SegmentationReport(
        *_bakeoff(pairs, is_known),
        spans=_overlap((gold.places, found.places) for gold, found in pairs),
        boundaries=_overlap((gold.boundaries, found.boundaries) for gold, found in pairs),
        by_length=_by_length(pairs),
        worst=_worst(pairs, is_known),
    )


def words_in(sentences: Iterable[Sentence]) -> set[str]:
    """Return all gold words of segmented sentences."""
    return {
        sentence.text[span.start : span.end]
        for sentence in sentences
        for span in sentence.spans or ()
    }


def cut(text: str, spans: Iterable[Span], whose: str = "") -> Cut:
    """Cut a text into words, which must cover every character but white space.

    White space inside a word or at its ends does not count; a word of nothing else is dropped.

    Args:
        whose: the beginning of the InputError for words that overlap or leave a gap.
    """
    # before[i]: characters of text[:i] that are not white space, so offsets in the cut text.
    before = [0, *accumulate(not character.isspace() for character in text)]
    given = sorted((span.start, span.end) for span in spans)
    short = repr(text if len(text) <= 40 else f"{text[:39]}…")
    if (last := max((end for _, end in given), default=0)) > len(text):
        raise InputError(
            f"{whose}a word ends at character {last} of {short}, which has {len(text)}"
        )
    places = [(before[start], before[end]) for start, end in given if before[start] < before[end]]
    covered = 0
    # An empty word at the end shows whether the words reach it.
    for start, end in [*places, (before[-1], before[-1])]:
        if start != covered:
            overlap = start < covered
            words, first = ("two words cover", start) if overlap else ("no word covers", covered)
            raise InputError(f"{whose}{words} character {before.index(first + 1)} of {short}")
        covered = end
    return Cut(remove_space(text), tuple(places))


def _known(words: Iterable[str], as_written: bool) -> IsKnown:
    """Return the test for training words; `as_written` keeps the width of letters and digits."""

    def normal(word: str) -> str:
        return remove_space(word if as_written else fold(word))

    known = frozenset(map(normal, words))
    return lambda word: normal(word) in known


def _bakeoff(pairs: Pairs, is_known: IsKnown | None) -> tuple[Score, Recall | None, Recall | None]:
    """Score all words, and count the recall of unknown and of known ones."""
    gold_words: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for gold, found in pairs:
        gold_words.update(gold.words)
        correct.update(gold.words[index] for index, _ in matched(gold.words, found.words))
    score = Score(gold_words.total(), sum(len(found.places) for _, found in pairs), correct.total())
    if is_known is None:
        return score, None, None
    new = [word for word in gold_words if not is_known(word)]
    oov = Recall(sum(gold_words[word] for word in new), sum(correct[word] for word in new))
    return score, oov, Recall(score.gold - oov.gold, score.correct - oov.correct)


def _overlap(pairs: Iterable[tuple[Iterable[object], Iterable[object]]]) -> Score:
    """Score the gold and found places that both sides of a sentence have."""
    sets = [(set(gold), set(found)) for gold, found in pairs]
    return total_score(Score(len(gold), len(found), len(gold & found)) for gold, found in sets)


def _by_length(pairs: Pairs) -> dict[str, Score]:
    """Score exact spans by their number of characters."""
    columns: list[Counter[int]] = [Counter(), Counter(), Counter()]
    for gold, found in pairs:
        right = set(gold.places) & set(found.places)
        for column, places in zip(columns, (gold.places, found.places, right), strict=True):
            column.update([end - start for start, end in places])
    short = {name: Score(*(column[int(name)] for column in columns)) for name in LENGTHS[:-1]}
    # The last class, 5+, holds every longer word.
    longer = (
        sum(number for length, number in column.items() if length > len(short))
        for column in columns
    )
    return {**short, LENGTHS[-1]: Score(*longer)}


def _worst(pairs: Pairs, is_known: IsKnown | None) -> tuple[Missed, ...]:
    """Return every missed word: the most often missed, then the rarer, then by characters."""
    counts: Counter[str] = Counter()
    instead: dict[str, Counter[tuple[str, ...]]] = {}
    for gold, found in pairs:
        counts.update(gold.words)
        right = set(found.places)
        starts, ends = ([place[side] for place in found.places] for side in (0, 1))
        for word, (start, end) in zip(gold.words, gold.places, strict=True):
            if (start, end) not in right:
                # The found words that overlap this one: places are sorted and have no gaps.
                overlap = slice(bisect_right(ends, start), bisect_left(starts, end))
                instead.setdefault(word, Counter())[tuple(found.words[overlap])] += 1
    words = []
    for word, readings in instead.items():
        by_frequency = sorted(readings.items(), key=lambda item: (-item[1], item[0]))
        known = None if is_known is None else is_known(word)
        replacements = tuple(Replacement(*item) for item in by_frequency)
        words.append(Missed(word, counts[word], readings.total(), known, replacements))
    return tuple(sorted(words, key=lambda missed: (-missed.missed, missed.count, missed.word)))


# ---- Which words of two lists are the same
#
# The scorer of the bakeoff runs GNU diff, which looks for a longest common subsequence, but not of
# all lines. It leaves out lines that the other file lacks, which changes nothing. Where these stand
# close, it also leaves out the lines between them that the other file has many times. So it may
# find a few words fewer than there are (`diff -d` would find all), and so does this.

_LACKING = "x"
_MANY = "?"
_KEPT = "."
_RUN = re.compile(r"x(?:[x?]*x)?")


def matched(left: Sequence[str], right: Sequence[str]) -> list[Place]:
    """Return (place in left, place in right) of the words that are the same, in order.

    Where several alignments have the same number of words, diff may choose another one: this
    keeps common beginnings and ends, and matches a word as early as possible, in `right` first.
    """
    most = min(len(left), len(right))
    first = next((i for i in range(most) if left[i] != right[i]), most)
    last = next((i for i in range(most - first) if left[-1 - i] != right[-1 - i]), most - first)
    ours = left[first : len(left) - last]
    theirs = right[first : len(right) - last]
    kept_left = list(_considered(ours, theirs))
    kept_right = list(_considered(theirs, ours))
    common = longest_common([ours[i] for i in kept_left], [theirs[i] for i in kept_right])
    pairs = [(i, i) for i in range(first)]
    pairs += [(first + kept_left[i], first + kept_right[j]) for i, j in common]
    return pairs + [(len(left) - back, len(right) - back) for back in range(last, 0, -1)]


def _considered(words: Sequence[str], others: Sequence[str]) -> Iterator[int]:
    """Yield the places of the words that diff does not leave out.

    A run begins and ends with a word that the others lack. Its other words are lacking too, or
    the others have them many times: more than 5; of 256 words or more, more than 10; of 1,024,
    more than 20, and so on.
    """
    counts = Counter(others)
    many = 5 * _root(len(words) // 64)
    numbers = (counts[word] for word in words)
    # One letter for each word, so that runs are matches of a regular expression.
    marks = "".join(_MANY if number > many else _KEPT if number else _LACKING for number in numbers)
    settled = _RUN.sub(lambda run: _settled(run[0]), marks) if _MANY in marks else marks
    return (index for index, mark in enumerate(settled) if mark != _LACKING)


def _settled(run: str) -> str:
    """Mark every word of a run that is left out as lacking, and every other as kept.

    Words that the others have many times are kept if they are more than a quarter of the run,
    where several of them stand together, and near both ends: up to three lacking words in a row,
    or to the first lacking one from the ninth.
    """
    if 4 * run.count(_MANY) > len(run):
        return run.replace(_MANY, _KEPT)
    together = 1 + _root(len(run) // 4)
    run = re.sub(rf"\?{{{together},}}", lambda many: _KEPT * len(many[0]), run)
    # From the left end and, turned round, from the right end.
    for _ in range(2):
        ends = (run.find(_LACKING, 8), run.find(3 * _LACKING))
        near = min((end for end in ends if end >= 0), default=len(run))
        run = (run[:near].replace(_MANY, _KEPT) + run[near:])[::-1]
    return run.replace(_MANY, _LACKING)


def _root(number: int) -> int:
    """Return the largest power of two up to the square root; 1 for 0."""
    return 1 << max(0, (number.bit_length() - 1) // 2)


def longest_common(left: Sequence[str], right: Sequence[str]) -> list[Place]:
    """Return the places of a longest common subsequence.

    L[i][j] is how many words left[:i] and right[:j] have in common. Row i is one whole number,
    whose bit j is 0 where L[i][j + 1] = L[i][j] + 1. So a row takes a few operations on the last
    one (Crochemore et al., 2001), and all rows are small enough to be kept for the way back.
    """
    places: dict[str, int] = {}
    for index, word in enumerate(right):
        places[word] = places.get(word, 0) | 1 << index
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
        # Without the last word of right, as many are in common.
        if rows[i] & bit:
            j -= 1
        # L[i][j] is at most L[i − 1][j − 1] + 1, so without the last word of left, as many are.
        elif not rows[i - 1] & bit:
            i -= 1
        else:
            i -= 1
            j -= 1
            pairs.append((i, j))
    return pairs[::-1]


# ---- Tables of reports in their JSON form, from a new evaluation or from a model folder


def named_scores(report: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows of a report: all, each group, each type; of a segmenter, each way of counting.

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
    """Return the table of all scores in a report."""
    rows = []
    for name, score in named_scores(report):
        ratios = (percent(score.get(key)) for key in ("precision", "recall", "f1"))
        counts = (count(score.get(key)) for key in ("gold", "predicted", "correct"))
        rows.append((name, *ratios, *counts))
    first = "words" if "bakeoff" in report.get("segmentation", {}) else "type"
    headings = (first, "precision", "recall", "F1", "gold", "found", "correct")
    return Table(title, headings, tuple(rows))


def worst_table(words: Sequence[Mapping[str, Any]], title: str) -> Table:
    """Return the table of the most often missed words, and of what was found in their place.

    A reading is `江|泽民 ×10` where the word was cut, `in 江泽民主席 ×2` where it was joined.
    """
    known = {True: "IV", False: "OOV", None: NONE}
    rows = []
    for word in words:
        readings = [
            f"{'in ' if len(reading['words']) == 1 else ''}{'|'.join(reading['words'])}"
            f" ×{reading['count']:,}"
            for reading in word["instead"]
        ]
        if len(readings) > INSTEAD:
            readings[INSTEAD:] = [f"and {len(readings) - INSTEAD:,} more"]
        counts = (count(word["count"]), count(word["missed"]))
        rows.append((word["word"], *counts, known[word["known"]], ", ".join(readings)))
    headings = ("word", "gold", "missed", "training", "found instead")
    return Table(title, headings, tuple(rows), notes=1)
