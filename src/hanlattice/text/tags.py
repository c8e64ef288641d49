"""Tags and spans: BIO, BMES, BIOES and IOB1 as text, and as numbers for whole batches."""

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
# The prefixes of a span's only character, its first, those inside and its last.
_SHAPES = {"BIO": "BBII", "BMES": "SBME", "BIOES": "SBIE"}
# Characters of a label.
LONGEST_LABEL = 256
EXPECTED = "expected one of " + ", ".join(
    f"{scheme} ({' '.join(_PREFIXES[scheme])} O)" for scheme in SCHEMES
)


def split_tag(tag: str) -> tuple[str, str]:
    """Split `B-LOC` into ('B', 'LOC'), and `O` into ('O', '')."""
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
    """Return BIO, IOB1, BMES or BIOES, whichever fits all tags of a corpus, or raise a TagError."""
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
        wrong = ", ".join(sorted(prefixes - {"O"}))
        raise TagError(f"the prefixes {wrong} fit no scheme: {EXPECTED}")
    # In IOB1, B only parts two spans of one label that touch.
    is_iob1 = fitting[0] == "BIO" and starts_with_inside and not starts_with_begin
    return "IOB1" if is_iob1 else fitting[0]


def schemes_with(prefixes: Iterable[str]) -> list[str]:
    """Return the schemes, simplest first, that have all these prefixes."""
    return [scheme for scheme in SCHEMES if set(prefixes) <= {"O", *_PREFIXES[scheme]}]


def labels_of(tags: Iterable[str]) -> list[str]:
    """Return the labels that these tags carry, sorted."""
    return sorted({split_tag(tag)[1] for tag in tags} - {""})


def tags_to_spans(tags: Sequence[str], scheme: str) -> list[Span]:
    """Return the whole spans, such as `B … E` or `S` (BMES), `B I …` (BIO); skip other tags."""
    spans: list[Span] = []
    start: int | None = None
    label = ""
    # The last O closes a span at the end of the text.
    for index, tag in enumerate([*tags, "O"]):
        prefix, new = split_tag(tag)
        if index < len(tags):
            check_prefix(tag, prefix, scheme)
        if start is not None and new == label and prefix == _INSIDE[scheme]:
            continue
        if start is not None and new == label and prefix == "E":
            spans.append(Span(start, index + 1, label))
            start = None
            continue
        if start is not None and scheme in ("BIO", "IOB1"):
            spans.append(Span(start, index, label))
        start = None
        if prefix == "S":
            spans.append(Span(index, index + 1, new))
        elif prefix == "B" or (prefix == "I" and scheme == "IOB1"):
            start = index
            label = new
    return spans


def spans_to_tags(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Return the tags of a text of `length` characters with these spans.

    Spans that overlap, or go beyond the text, are a ValueError.
    """
    _check_scheme(scheme)
    tags = ["O"] * length
    single, last = ("B", _INSIDE[scheme]) if scheme == "BIO" else ("S", "E")
    for span in spans:
        if span.end > length or any(tag != "O" for tag in tags[span.start : span.end]):
            place = f"[{span.start}, {span.end})"
            raise ValueError(f"span {place} overlaps another, or the end of {length} characters")
        inside = span.end - span.start - 2
        prefixes = single if inside < 0 else ["B", *_INSIDE[scheme] * inside, last]
        tags[span.start : span.end] = [f"{prefix}-{span.label}" for prefix in prefixes]
    return tags


def tag_set(labels: Iterable[str], scheme: str) -> list[str]:
    """Return every tag of a scheme for these labels, `O` first."""
    return ["O", *(f"{prefix}-{label}" for label in labels for prefix in _PREFIXES[scheme])]


@lru_cache(1 << 12)
def may_follow(left: str | None, right: str | None, scheme: str) -> bool:
    """Return whether `right` may come straight after `left`; None is the edge of the text."""
    _check_scheme(scheme)
    left_prefix, left_label = split_tag("O" if left is None else left)
    right_prefix, right_label = split_tag("O" if right is None else right)
    inside = _INSIDE[scheme]
    is_open = left_prefix in ("B", inside)
    if scheme == "BIO":
        return right_prefix != inside or (is_open and left_label == right_label)
    goes_on = right_prefix in (inside, "E")
    return is_open == goes_on and (not is_open or left_label == right_label)


def illegal_places(tags: Sequence[str], scheme: str) -> list[int]:
    """Return where a tag, or the end of the text, does not fit the tag before it."""
    pairs = enumerate(pairwise([None, *tags, None]))
    last = len(tags) - 1
    return [min(index, last) for index, (a, b) in pairs if not may_follow(a, b, scheme)]


def legal_transitions(tags: Sequence[str], scheme: str) -> tuple[Bools, Bools, Bools]:
    """Return which tags may begin a text, which may follow which, and which may end a text.

    The shapes are [K], [from, to] and [K].
    """
    parts = [split_tag(tag) for tag in tags]
    # Of two tags only the prefixes count, and whether the labels are the same: thousands of tags
    # have few such pairs.
    prefixes = list(dict.fromkeys(prefix for prefix, _ in parts))
    labels = dict.fromkeys(label for _, label in parts)
    numbers = {label: number for number, label in enumerate(labels)}
    prefix = np.array([prefixes.index(name) for name, _ in parts], dtype=np.int64)
    label = np.array([numbers[name] for _, name in parts], dtype=np.int64)

    def table(left: str, right: str) -> Bools:
        """Return [from, to]: whether tags with these prefixes and labels may follow each other."""
        before = [name if name == "O" else f"{name}-{left}" for name in prefixes]
        after = [name if name == "O" else f"{name}-{right}" for name in prefixes]
        pairs = [[may_follow(a, b, scheme) for b in after] for a in before]
        by_prefix = np.array(pairs, dtype=bool).reshape(len(prefixes), len(prefixes))
        return by_prefix[prefix[:, None], prefix]

    between = np.where(label[:, None] == label, table("x", "x"), table("x", "y"))
    start = np.array([may_follow(None, tag, scheme) for tag in tags], dtype=bool)
    end = np.array([may_follow(tag, None, scheme) for tag in tags], dtype=bool)
    return start, between, end


def check_prefix(tag: str, prefix: str, scheme: str) -> None:
    """Raise a TagError if the scheme does not have the tag's prefix."""
    if prefix != "O" and prefix not in _PREFIXES[scheme]:
        expected = f"{', '.join(_PREFIXES[scheme])} and O"
        raise TagError(f"{tag!r} is not a tag of {scheme}, whose prefixes are {expected}")


def _check_scheme(scheme: str) -> None:
    """Raise unless the scheme has rules; IOB1 has none, since it is read and becomes BIO."""
    if scheme not in SCHEMES:
        raise ValueError(f"{scheme!r} is not a scheme: expected one of {', '.join(SCHEMES)}")


class FlatSpans(NamedTuple):
    """Span s covers [start[s], end[s]) of text[s]; spans stand text by text.

    `label` has indices into `TagIds.labels`.
    """

    text: Ints
    start: Ints
    end: Ints
    label: Ints


class TagIds:
    """Turn spans into tags as numbers, and back. The number of a tag is its index in `names`.

    The tags are all tags of each label, and O. Without O, spans must cover every text.
    """

    def __init__(self, tags: Sequence[str], scheme: str) -> None:
        parts = [split_tag(tag) for tag in tags]
        for tag, (prefix, _) in zip(tags, parts, strict=True):
            check_prefix(tag, prefix, scheme)
        labels = labels_of(tags)
        wanted = tag_set(labels, scheme)[1 if labels else 0 :]
        known = {tag: number for number, tag in enumerate(tags)}
        if missing := [tag for tag in wanted if tag not in known]:
            more = f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
            lacks = f"lacks {', '.join(missing[:3])}{more}"
            raise TagError(f"the list of {scheme} tags {lacks}: expected all of every label, or O")
        numbers = {label: number for number, label in enumerate(labels)} | {"": -1}
        self.scheme = scheme
        self.names = tuple(tags)
        self.labels = tuple(labels)
        self.label_of_tag = np.array([numbers[label] for _, label in parts], dtype=np.int64)
        # [labels, 4]: the tags of a span's only character, its first, those inside and its last.
        shapes = [[known[f"{prefix}-{label}"] for prefix in _SHAPES[scheme]] for label in labels]
        self.shapes = np.array(shapes, dtype=np.int64).reshape(-1, 4)
        self._outside = known.get("O", -1)
        self._set_prefixes(np.array([prefix for prefix, _ in parts]))

    def _set_prefixes(self, prefixes: npt.NDArray[np.str_]) -> None:
        inside = _INSIDE[self.scheme]
        self._prefixes = prefixes
        self._opens = prefixes == "B"
        self._alone = prefixes == "S"
        # The next character may go on with the span.
        self._holds = np.isin(prefixes, ["B", inside])
        self._goes_on = np.isin(prefixes, [inside, "E"])
        self._closes = prefixes == "E" if self.scheme != "BIO" else self._holds

    def with_labels(self, labels: Sequence[str]) -> TagIds:
        """Return these tags, followed by the tags of new labels."""
        prefixes = _PREFIXES[self.scheme]
        label = np.arange(len(labels))
        first_tag = len(self.names) + label[:, None] * len(prefixes)
        longer = copy(self)
        longer.names = (*self.names, *tag_set(labels, self.scheme)[1:])
        longer.labels = (*self.labels, *labels)
        new_labels = np.repeat(len(self.labels) + label, len(prefixes))
        longer.label_of_tag = np.concatenate([self.label_of_tag, new_labels])
        places = [prefixes.index(prefix) for prefix in _SHAPES[self.scheme]]
        longer.shapes = np.concatenate([self.shapes, first_tag + places])
        longer._set_prefixes(np.concatenate([self._prefixes, np.tile(list(prefixes), len(labels))]))
        return longer

    def spans(self, tags: npt.NDArray[np.integer[Any]], lengths: Ints) -> FlatSpans:
        """Return the whole spans in texts of these lengths, whose tags [N] follow each other."""
        first = np.cumsum(lengths) - lengths
        label = self.label_of_tag[tags]
        linked = self._goes_on[tags]
        linked[1:] &= self._holds[tags[:-1]] & (label[1:] == label[:-1])
        linked[first[lengths > 0]] = False
        # The first and the last of each run of linked tags.
        begin = np.flatnonzero(~linked)
        last = np.append(begin, len(tags))[1:] - 1
        whole = self._alone[tags[begin]] | (self._opens[tags[begin]] & self._closes[tags[last]])
        begin = begin[whole]
        text = np.searchsorted(np.cumsum(lengths), begin, side="right")
        end = last[whole] + 1
        return FlatSpans(text, begin - first[text], end - first[text], label[begin])

    def tags(self, spans: Iterable[Sequence[Span]], lengths: Ints) -> Ints:
        """Return [N]: the tags of texts of these lengths with these spans.

        Spans with a label that no tag has are left out. Spans that overlap, or go beyond their
        text, are a ValueError.
        """
        numbers = {label: number for number, label in enumerate(self.labels)}
        rows = [
            (text, span.start, span.end, numbers[span.label])
            for text, row in enumerate(spans)
            for span in row
            if span.label in numbers
        ]
        text, start, end, label = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        _check_places(text, start, end, lengths)
        # Where each span begins in all texts, and the place of each character in its span.
        begins = (np.cumsum(lengths) - lengths)[text] + start
        long = end - start
        nth = np.arange(long.sum()) - np.repeat(np.cumsum(long) - long, long)
        only, first, inside, last = self.shapes[label].T
        tags = np.full(int(lengths.sum()), self._outside, dtype=np.int64)
        # The first and the last tag overwrite the tag of inside characters.
        tags[np.repeat(begins, long) + nth] = np.repeat(inside, long)
        tags[begins + long - 1] = last
        tags[begins] = np.where(long == 1, only, first)
        if tags.size and tags.min() < 0:
            index = int(tags.argmin())
            number = int(np.searchsorted(np.cumsum(lengths), index, side="right"))
            place = f"character {index - int(lengths[:number].sum())} of text {number}"
            raise ValueError(f"no span covers {place}, and there is no tag for outside")
        return tags


def _check_places(text: Ints, start: Ints, end: Ints, lengths: Ints) -> None:
    """Raise for a span beyond its text, or for the later one of two that overlap."""
    # In order of their starts, two spans overlap only if two neighbours do.
    order = np.lexsort((start, text))
    left = order[:-1]
    right = order[1:]
    crossing = (text[left] == text[right]) & (start[right] < end[left])
    wrong = end > lengths[text]
    wrong[np.maximum(left, right)[crossing]] = True
    if wrong.any():
        index = int(wrong.argmax())
        place = f"[{start[index]}, {end[index]})"
        length = lengths[text[index]]
        raise ValueError(f"span {place} overlaps another, or the end of {length} characters")
