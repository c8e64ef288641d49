"""Known before decoding, and put into the emissions: gaps that must or must not be cut, and the
user's own words.

Emissions and gaps are arrays of numpy with the runtime's CRF, tensors with that of `nn`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hanlattice.ops.crf import fill_forbidden
from hanlattice.text.boundaries import CUT, JOIN, SPACED
from hanlattice.text.lattice import Ints, cells
from hanlattice.text.tags import labels_of

Values = Any  # an array of numpy, or a tensor


def constrain(crf: Any, emissions: Values, gaps: Values) -> Values:
    """The emissions under known gaps [B, T] before characters: a CUT forbids tags inside a span, a
    JOIN others.

    A span goes on after a SPACED gap if all of its gaps are. So a character that has one on one
    side alone may be its first or its last. Where no tag tells a span's middle from its end, such a
    gap is a CUT.
    """
    begins = crf.allowed_start  # a tag that may begin a text begins a span, or is outside of all
    spaced = gaps == SPACED
    middle = ~begins & ~crf.allowed_end
    cut = gaps == CUT if crf.has_middle else (gaps == CUT) | spaced
    wrong = (cut[..., None] & ~begins) | ((gaps == JOIN)[..., None] & begins)
    wrong[:, :-1] |= (spaced[:, :-1] ^ spaced[:, 1:])[..., None] & middle
    wrong[:, -1:] |= spaced[:, -1:, None] & middle
    return fill_forbidden(emissions, wrong)


def boost(
    crf: Any, emissions: Values, sentence: Ints, start: Ints, end: Ints, bonus: float
) -> Values:
    """The emissions with a bonus for every tag that spans [start, end), all [S], would have,
    whatever their label.
    """
    row, nth = cells(end - start)
    for label in labels_of(crf.tags):
        _, first, inside, last = crf.span_tags(label)  # a word has two characters or more
        tags = np.where(nth == 0, first, np.where(nth == (end - start)[row] - 1, last, inside))
        emissions = crf.add(emissions, (sentence[row], start[row] + nth, tags), bonus)
    return emissions
