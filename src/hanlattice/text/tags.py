"""Tags and spans: BIO, BMES, BIOES and IOB1, which tag may follow which, and the same as numbers
for whole batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.checks import brief
from hanlattice.errors import TagError
from hanlattice.text.lattice import Ints
from hanlattice.text.normalize import LONE_SURROGATE
from hanlattice.text.span import Span

Bools = npt.NDArray[np.bool_]

SCHEMES = ("BIO", "BMES", "BIOES")
_PREFIXES = {"BIO": "BI", "IOB1": "BI", "BMES": "BMES", "BIOES": "BIES"}
_INSIDE = {"BIO": "I", "IOB1": "I", "BMES": "M", "BIOES": "I"}
# Of a span's only character, its first, those inside and its last.
_SHAPES = {"BIO": "BBII", "BMES": "SBME", "BIOES": "SBIE"}
LONGEST_LABEL = 256  # characters
EXPECTED = "expected one of " + ", ".join(
    f"{scheme} ({' '.join(_PREFIXES[scheme])} O)" for scheme in SCHEMES
)


def split_tag(tag: str) -> tuple[str, str]:
    """`B-LOC` → ('B', 'LOC'); `O` → ('O', '')."""
    if tag == "O":
        return "O", ""
    prefix, hyphen, label = tag.partition("-")
    if len(prefix) != 1 or not hyphen or not label:
        expected = "expected O, or a prefix, a hyphen and a label, such as B-LOC"
        raise TagError(f"{brief(tag)} is not a tag: {expected}")
    try:
        check_label(label)
    except ValueError as error:
        raise TagError(str(error)) from None
    return prefix, label


def check_label(label: object, name: str = "a label") -> str:
    """Return the label if files can carry it; else raise a TypeError or a ValueError."""
    if not isinstance(label, str):
        raise TypeError(f"{name} must be a str, not {type(label).__name__}: {brief(label)}")
    if not label:
        raise ValueError(f"{name} must be a string that is not empty")
    if len(label) > LONGEST_LABEL:
        limit = f"has {len(label):,} characters, and {LONGEST_LABEL} are the most"
        raise ValueError(f"{name} {limit}: {brief(label)}")
    if not label.isascii() and LONE_SURROGATE.search(label):
        raise ValueError(f"{name} has a lone surrogate, which UTF-8 cannot carry: {brief(label)}")
    return label


def detect_scheme(sequences: Iterable[Sequence[str]]) -> str:
    """BIO, IOB1, BMES or BIOES, from all the tags of a corpus. Tags that fit none of them are a
    TagError.
    """
    prefixes: set[str] = set()
    starts_with_inside = starts_with_begin = False
    for tags in sequences:
        before = ("O", "")
        for tag in tags:
            prefix, label = split_tag(tag)
            prefixes.add(prefix)
            goes_on = before[0] != "O" and before[1] == label
            starts_with_inside |= prefix == "I" and not goes_on
            starts_with_begin |= prefix == "B" and not goes_on
            before = prefix, label
    fitting = schemes_with(prefixes)
    if not fitting:
        raise TagError(
            f"the prefixes {', '.join(sorted(prefixes - {'O'}))} fit no scheme: {EXPECTED}"
        )
    return (
        "IOB1"
        if fitting[0] == "BIO" and starts_with_inside and not starts_with_begin
        else fitting[0]
    )


def schemes_with(prefixes: Iterable[str]) -> list[str]:
    """The schemes, simplest first, that have all these prefixes."""
    return [scheme for scheme in SCHEMES if set(prefixes) <= {"O", *_PREFIXES[scheme]}]


def labels_of(tags: Iterable[str]) -> list[str]:
    """The labels that these tags carry, sorted."""
    return sorted({split_tag(tag)[1] for tag in tags} - {""})


def tags_to_spans(tags: Sequence[str], scheme: str) -> list[Span]:
    """The spans that are whole: `B … E` or `S` (BMES, BIOES), `B I …` (BIO). What does not fit is
    left out.
    """
    spans: list[Span] = []
    start: int | None = None
    label = ""
    for at, tag in enumerate([*tags, "O"]):
        prefix, new = split_tag(tag)
        if at < len(tags):
            check_prefix(tag, prefix, scheme)
        if start is not None and new == label and prefix == _INSIDE[scheme]:
            continue
        if start is not None and new == label and prefix == "E":
            spans.append(Span(start, at + 1, label))
            start = None
            continue
        if start is not None and scheme in ("BIO", "IOB1"):
            spans.append(Span(start, at, label))
        start = None
        if prefix == "S":
            spans.append(Span(at, at + 1, new))
        elif prefix == "B" or (prefix == "I" and scheme == "IOB1"):
            start = at
            label = new
    return spans


def spans_to_tags(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """The tags of a text of `length` characters with these spans, which must lie in it and not
    overlap.
    """
    _check_scheme(scheme)
    tags = ["O"] * length
    single, last = ("B", _INSIDE[scheme]) if scheme == "BIO" else ("S", "E")
    for span in spans:
        if span.end > length or any(tag != "O" for tag in tags[span.start : span.end]):
            raise ValueError(
                f"span [{span.start}, {span.end}) overlaps another, or the end of {length} characters"
            )
        inside = span.end - span.start - 2
        prefixes = single if inside < 0 else ["B", *_INSIDE[scheme] * inside, last]
        tags[span.start : span.end] = [f"{prefix}-{span.label}" for prefix in prefixes]
    return tags


def tag_set(labels: Iterable[str], scheme: str) -> list[str]:
    """Every tag of a scheme for these labels, `O` first."""
    return ["O", *(f"{prefix}-{label}" for label in labels for prefix in _PREFIXES[scheme])]


@lru_cache(1 << 12)
def may_follow(left: str | None, right: str | None, scheme: str) -> bool:
    """Whether `right` may come straight after `left`; None stands for the edge of the text."""
    _check_scheme(scheme)
    left_prefix, left_label = split_tag("O" if left is None else left)
    right_prefix, right_label = split_tag("O" if right is None else right)
    inside = _INSIDE[scheme]
    if scheme == "BIO":
        return right_prefix != inside or (
            left_prefix in ("B", inside) and left_label == right_label
        )
    is_open = left_prefix in ("B", inside)
    goes_on = right_prefix in (inside, "E")
    return is_open == goes_on and (not is_open or left_label == right_label)


def illegal_places(tags: Sequence[str], scheme: str) -> list[int]:
    """Where a tag, or the end of the text, does not fit the tag before it."""
    pairs = enumerate(pairwise([None, *tags, None]))
    return [
        min(at, len(tags) - 1) for at, (left, right) in pairs if not may_follow(left, right, scheme)
    ]


def legal_transitions(tags: Sequence[str], scheme: str) -> tuple[Bools, Bools, Bools]:
    """Return which tags may begin a text, [K], which may follow which, [from, to], and which may
    end a text, [K].

    Of two tags only the prefixes count, and whether the labels are the same: thousands of tags have
    few such pairs.
    """
    parts = [split_tag(tag) for tag in tags]
    prefixes, labels = (
        (list(dict.fromkeys(column)) for column in zip(*parts, strict=True)) if parts else ([], [])
    )
    prefix = np.array([prefixes.index(each) for each, _ in parts], dtype=np.int64)
    numbers = {label: number for number, label in enumerate(labels)}
    label = np.array([numbers[each] for _, each in parts], dtype=np.int64)

    def table(left: str, right: str) -> Bools:
        """[prefix, prefix]: whether tags with these labels may follow each other."""
        pairs = [
            [may_follow(_tag(a, left), _tag(b, right), scheme) for b in prefixes] for a in prefixes
        ]
        return np.array(pairs, dtype=bool).reshape(len(prefixes), len(prefixes))

    at = prefix[:, None], prefix
    between = np.where(label[:, None] == label, table("x", "x")[at], table("x", "y")[at])
    start = np.array([may_follow(None, tag, scheme) for tag in tags], dtype=bool)
    end = np.array([may_follow(tag, None, scheme) for tag in tags], dtype=bool)
    return start, between, end


def _tag(prefix: str, label: str) -> str:
    return prefix if prefix == "O" else f"{prefix}-{label}"


def check_prefix(tag: str, prefix: str, scheme: str) -> None:
    if prefix != "O" and prefix not in _PREFIXES[scheme]:
        raise TagError(
            f"{tag!r} is not a tag of {scheme}, whose prefixes are {', '.join(_PREFIXES[scheme])} and O"
        )


def _check_scheme(scheme: str) -> None:
    """IOB1 is read, but has no rules of its own here: it is BIO from then on."""
    if scheme not in SCHEMES:
        raise ValueError(f"{scheme!r} is not a scheme: expected one of {', '.join(SCHEMES)}")


class FlatSpans(NamedTuple):
    """Span s covers [start[s], end[s]) of text[s] and has the label `TagIds.labels[label[s]]`. Text
    by text.
    """

    text: Ints
    start: Ints
    end: Ints
    label: Ints


class TagIds:
    """A list of tags, O and every tag of each label; their places in it are the numbers.

    Without O, spans must cover every text.
    """

    def __init__(self, tags: Sequence[str], scheme: str) -> None:
        parts = [split_tag(tag) for tag in tags]
        for tag, (prefix, _) in zip(tags, parts, strict=True):
            check_prefix(tag, prefix, scheme)
        labels = labels_of(tags)
        wanted = tag_set(labels, scheme)[1 if labels else 0 :]
        known = {tag: number for number, tag in enumerate(tags)}
        if missing := [tag for tag in wanted if tag not in known]:
            first = ", ".join(missing[:3]) + (
                f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
            )
            raise TagError(
                f"the list of {scheme} tags lacks {first}: expected all of every label, or O"
            )
        numbers = {label: number for number, label in enumerate(labels)}
        self.scheme = scheme
        self.names = tuple(tags)
        self.labels = tuple(labels)
        self.label_of_tag = np.array(
            [numbers[label] if label else -1 for _, label in parts], dtype=np.int64
        )
        shapes = [[known[f"{prefix}-{label}"] for prefix in _SHAPES[scheme]] for label in labels]
        # [labels, 4]: the tags of a span's only character, its first, those inside and its last
        self.shapes = np.array(shapes, dtype=np.int64).reshape(-1, 4)
        self._outside = known.get("O", -1)
        self._set_prefixes(np.array([prefix for prefix, _ in parts]))

    def _set_prefixes(self, prefixes: npt.NDArray[np.str_]) -> None:
        inside = _INSIDE[self.scheme]
        self._prefixes = prefixes
        self._opens = prefixes == "B"
        self._alone = prefixes == "S"
        self._holds = np.isin(prefixes, ["B", inside])  # the next character may go on with it
        self._goes_on = np.isin(prefixes, [inside, "E"])
        self._closes = prefixes == "E" if self.scheme != "BIO" else self._holds

    def with_labels(self, labels: Sequence[str]) -> TagIds:
        """The same, and behind its tags those of new labels."""
        prefixes = _PREFIXES[self.scheme]
        label = np.arange(len(labels))
        first_tag = len(self.names) + label[:, None] * len(prefixes)
        other = copy(self)
        other.names = (
            *self.names,
            *(f"{prefix}-{label}" for label in labels for prefix in prefixes),
        )
        other.labels = (*self.labels, *labels)
        new_labels = np.repeat(len(self.labels) + label, len(prefixes))
        other.label_of_tag = np.concatenate([self.label_of_tag, new_labels])
        places = [prefixes.index(prefix) for prefix in _SHAPES[self.scheme]]
        other.shapes = np.concatenate([self.shapes, first_tag + places])
        other._set_prefixes(np.concatenate([self._prefixes, np.tile(list(prefixes), len(labels))]))
        return other

    def spans(self, tags: npt.NDArray[np.integer[Any]], lengths: Ints) -> FlatSpans:
        """The whole spans in texts of these lengths, whose tags [N] follow each other."""
        first = np.cumsum(lengths) - lengths
        linked = self._goes_on[tags]
        linked[1:] &= self._holds[tags[:-1]] & (
            self.label_of_tag[tags[1:]] == self.label_of_tag[tags[:-1]]
        )
        linked[first[lengths > 0]] = False
        begin = np.flatnonzero(~linked)  # of a run of tags that belong together
        last = np.append(begin, len(tags))[1:] - 1
        whole = self._alone[tags[begin]] | (self._opens[tags[begin]] & self._closes[tags[last]])
        begin = begin[whole]
        last = last[whole]
        text = np.searchsorted(np.cumsum(lengths), begin, side="right")
        return FlatSpans(
            text, begin - first[text], last + 1 - first[text], self.label_of_tag[tags[begin]]
        )

    def tags(self, spans: Iterable[Sequence[Span]], lengths: Ints) -> Ints:
        """[N]: the tags of texts of these lengths with these spans, which must lie in them and not
        overlap.

        Spans with a label that no tag has are left out.
        """
        label_at = {label: at for at, label in enumerate(self.labels)}
        rows = [
            (text, span.start, span.end, label_at[span.label])
            for text, row in enumerate(spans)
            for span in row
            if span.label in label_at
        ]
        text, start, end, label = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        _check_places(text, start, end, lengths)
        begins = (np.cumsum(lengths) - lengths)[text] + start  # where each span begins in the whole
        long = end - start
        nth = np.arange(long.sum()) - np.repeat(
            np.cumsum(long) - long, long
        )  # of each character in its span
        only, first, inside, last = self.shapes[label].T
        tags = np.full(int(lengths.sum()), self._outside, dtype=np.int64)
        tags[np.repeat(begins, long) + nth] = np.repeat(inside, long)
        tags[begins + long - 1] = last
        tags[begins] = np.where(long == 1, only, first)
        if tags.size and tags.min() < 0:
            at = int(tags.argmin())
            number = int(np.searchsorted(np.cumsum(lengths), at, side="right"))
            place = at - int(lengths[:number].sum())
            raise ValueError(
                f"no span covers character {place} of text {number}, and there is no tag for outside"
            )
        return tags


def _check_places(text: Ints, start: Ints, end: Ints, lengths: Ints) -> None:
    """Of spans in order of their starts, two overlap only if two neighbours do; the one given later
    is named.
    """
    order = np.lexsort((start, text))
    left = order[:-1]
    right = order[1:]
    crossing = (text[left] == text[right]) & (start[right] < end[left])
    wrong = end > lengths[text]
    wrong[np.maximum(left, right)[crossing]] = True
    if wrong.any():
        at = int(wrong.argmax())
        place = f"[{start[at]}, {end[at]})"
        length = lengths[text[at]]
        raise ValueError(f"span {place} overlaps another, or the end of {length} characters")
