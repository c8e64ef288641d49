"""Known before decoding, and put into the emissions: gaps that must or must not be cut, and the user's own words."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from hanlattice.nn.crf import CRF
from hanlattice.ops.crf import FORBIDDEN
from hanlattice.text.boundaries import CUT, JOIN, SPACED
from hanlattice.text.lattice import Ints, cells


def constrain(crf: CRF, emissions: Tensor, gaps: Tensor) -> Tensor:
    """The emissions under known gaps [B, T] before characters: a CUT forbids tags inside a span, a JOIN others.

    A span goes on after a SPACED gap if all of its gaps are. So a character that has one on one side alone may be
    its first or its last. Where no tag tells a span's middle from its end, such a gap is a CUT.
    """
    begins = crf.allowed_start  # a tag that may begin a text begins a span, or is outside of all
    spaced, middle = gaps == SPACED, ~begins & ~crf.allowed_end
    cut = gaps == CUT if crf.has_middle else (gaps == CUT) | spaced
    wrong = (cut[..., None] & ~begins) | ((gaps == JOIN)[..., None] & begins)
    wrong |= (spaced ^ pad(spaced[:, 1:], (0, 1)))[..., None] & middle
    return emissions.masked_fill(wrong, FORBIDDEN)


def boost(crf: CRF, emissions: Tensor, label: str, sentence: Ints, start: Ints, end: Ints, bonus: float) -> Tensor:
    """The emissions with a bonus for every tag that spans [start, end) with this label, all [S], would have."""
    _, first, inside, last = crf.span_tags(label)  # a word has two characters or more
    row, nth = cells(end - start)
    tags = np.where(nth == 0, first, np.where(nth == (end - start)[row] - 1, last, inside))
    where = (torch.from_numpy(x).to(emissions.device) for x in (sentence[row], start[row] + nth, tags))
    return emissions.index_put(tuple(where), emissions.new_tensor(bonus), accumulate=True)
