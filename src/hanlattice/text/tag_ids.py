"""Tags as numbers ↔ spans, for many texts at once: what `tags_to_spans` and `spans_to_tags` do, without a loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.errors import TagError
from hanlattice.text.lattice import Ints
from hanlattice.text.spans import Span
from hanlattice.text.tags import check_prefix, inside_prefix, labels_of, split_tag, tag_set


class FlatSpans(NamedTuple):
    """Span s covers [start[s], end[s]) of text[s] and has the label `TagIds.labels[label[s]]`. Text by text."""

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
        if missing := [tag for tag in wanted if tag not in tags]:
            raise TagError(f"the list of {scheme} tags lacks {', '.join(missing)}: expected all of every label, or O")
        inside = inside_prefix(scheme)
        prefixes = np.array([prefix for prefix, _ in parts])
        self.labels = tuple(labels_of(tags))
        self._label = np.array([self.labels.index(label) if label else -1 for _, label in parts], dtype=np.int64)
        self._opens, self._alone = prefixes == "B", prefixes == "S"
        self._holds = np.isin(prefixes, ["B", inside])  # the next character may go on with it
        self._goes_on = np.isin(prefixes, [inside, "E"])
        self._closes = prefixes == "E" if scheme != "BIO" else self._holds
        single, last = ("B", inside) if scheme == "BIO" else ("S", "E")
        known = {part: at for at, part in enumerate(parts)}
        self._shapes = np.array(
            [[known[prefix, label] for prefix in (single, "B", inside, last)] for label in self.labels], dtype=np.int64
        ).reshape(-1, 4)
        self._outside = known.get(("O", ""), -1)

    def spans(self, tags: npt.NDArray[np.integer[Any]], lengths: Ints) -> FlatSpans:
        """The whole spans in texts of these lengths, whose tags [N] stand one after the other."""
        first = np.cumsum(lengths) - lengths
        linked = self._goes_on[tags]
        linked[1:] &= self._holds[tags[:-1]] & (self._label[tags[1:]] == self._label[tags[:-1]])
        linked[first[lengths > 0]] = False
        begin = np.flatnonzero(~linked)  # of a run of tags that belong together
        last = np.append(begin, len(tags))[1:] - 1
        whole = self._alone[tags[begin]] | (self._opens[tags[begin]] & self._closes[tags[last]])
        begin, last = begin[whole], last[whole]
        text = np.searchsorted(np.cumsum(lengths), begin, side="right")
        return FlatSpans(text, begin - first[text], last + 1 - first[text], self._label[tags[begin]])

    def tags(self, spans: Iterable[Sequence[Span]], lengths: Ints) -> Ints:
        """[N]: the tags of texts of these lengths with these spans, which must lie in them and not overlap.

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
        nth = np.arange(long.sum()) - np.repeat(np.cumsum(long) - long, long)  # of each character in its span
        only, first, inside, last = self._shapes[label].T
        tags = np.full(int(lengths.sum()), self._outside, dtype=np.int64)
        tags[np.repeat(begins, long) + nth] = np.repeat(inside, long)
        tags[begins + long - 1] = last
        tags[begins] = np.where(long == 1, only, first)
        if tags.size and tags.min() < 0:
            at = int(tags.argmin())
            number = int(np.searchsorted(np.cumsum(lengths), at, side="right"))
            place = at - int(lengths[:number].sum())
            raise ValueError(f"no span covers character {place} of text {number}, and there is no tag for outside")
        return tags


def _check_places(text: Ints, start: Ints, end: Ints, lengths: Ints) -> None:
    """Of spans in order of their starts, two overlap only if two neighbours do; the one given later is named."""
    order = np.lexsort((start, text))
    left, right = order[:-1], order[1:]
    crossing = (text[left] == text[right]) & (start[right] < end[left])
    wrong = end > lengths[text]
    wrong[np.maximum(left, right)[crossing]] = True
    if wrong.any():
        at = int(wrong.argmax())
        place, length = f"[{start[at]}, {end[at]})", lengths[text[at]]
        raise ValueError(f"span {place} overlaps another, or the end of {length} characters")
