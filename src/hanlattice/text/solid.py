"""Texts without their white space: what a model reads, since the corpora that it learns from have none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hanlattice.text.arrays import Ints, cells
from hanlattice.text.joints import FREE, Joints, joints, name_gaps
from hanlattice.text.normal import CodeTable, code_points
from hanlattice.text.spans import Span


class Solid(NamedTuple):
    """Texts whose N characters are none of them white space, one after the other."""

    texts: Sequence[str]
    offsets: Ints | None  # [N]: where each character stands in its text as given; None if they all have stayed
    gaps: Ints | None  # [N]: what is known of the gap before each character; None is nothing


def solid_text(text: str) -> str:
    """The text without its white space."""
    return "".join(text.split())


def without_space(texts: Sequence[str]) -> Solid:
    """The texts without white space, for a segmenter: a CUT wherever there was some, and what else `joints` says."""
    return _solid(texts, joints, always=True)


def names_without_space(texts: Sequence[str]) -> Solid:
    """The same for a model of entities, with the gaps that `name_gaps` knows; with none if there was no white space."""
    solid = _solid(texts, name_gaps, always=False)
    if solid.gaps is not None:
        lengths = np.fromiter(map(len, solid.texts), dtype=np.int64, count=len(texts))
        solid.gaps[(np.cumsum(lengths) - lengths)[lengths > 0]] = FREE  # the line end before a text says nothing
    return solid


def _solid(texts: Sequence[str], known: Callable[[str], Joints], always: bool) -> Solid:
    joined = "\n".join(texts)
    solid = _is_solid()(code_points(joined)) > 0
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    if int(solid.sum()) == lengths.sum():
        return Solid(texts, None, known(joined)[solid] if always else None)
    kept = [solid_text(text) for text in texts]
    text, column = cells(lengths)
    stays = solid[text + np.arange(len(text))]  # a line end stands after each text but the last
    return Solid(kept, column[stays], known(joined)[solid])


def spans_without_space(text: str, spans: Sequence[Span]) -> tuple[str, Sequence[Span]]:
    """A text and its spans, without white space; a span of nothing else is left out."""
    solid = solid_text(text)
    if len(solid) == len(text):
        return text, spans
    before = np.concatenate([[0], np.cumsum(_is_solid()(code_points(text)))]).tolist()
    moved = ((before[span.start], before[span.end], span.label) for span in spans)
    return solid, [Span(start, end, label) for start, end, label in moved if start < end]


@lru_cache(maxsize=1)
def _is_solid() -> CodeTable:
    return CodeTable(lambda character: not character.isspace())
