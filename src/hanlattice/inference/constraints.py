"""Put into the emissions what is known before decoding: gaps, and the user's own words.

Emissions and gaps are arrays with a NumpyCRF, and tensors with the CRF of `nn`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hanlattice.ops.crf import fill_forbidden
from hanlattice.text.boundaries import CUT, JOIN, SPACED
from hanlattice.text.lattice import Ints, cells
from hanlattice.text.tags import labels_of

# A NumPy array, or a tensor.
Values = Any


def constrain(crf: Any, emissions: Values, gaps: Values) -> Values:
    """Return emissions that forbid tags which known gaps rule out.

    - At a CUT, no span goes on.
    - At a JOIN, a span goes on.
    - At a SPACED gap, a span goes on only if all of its gaps are SPACED. So a character with such
      a gap on one side only is the first or the last of its span. If no tag tells the middle of a
      span from its end, the gap is a CUT.

    Args:
        crf: The CRF that will decode.
        emissions: [B, T, K]
        gaps: [B, T], the kind of gap before each character.
    """
    # A tag that may begin a text begins a span, or is outside of all spans.
    begins = crf.allowed_start
    spaced = gaps == SPACED
    middle = ~begins & ~crf.allowed_end
    cut = gaps == CUT if crf.has_middle else (gaps == CUT) | spaced
    wrong = (cut[..., None] & ~begins) | ((gaps == JOIN)[..., None] & begins)
    # `spaced[t] ^ spaced[t + 1]`: character t has a SPACED gap on one side only.
    wrong[:, :-1] |= (spaced[:, :-1] ^ spaced[:, 1:])[..., None] & middle
    wrong[:, -1:] |= spaced[:, -1:, None] & middle
    return fill_forbidden(emissions, wrong)


def boost(
    crf: Any, emissions: Values, sentence: Ints, start: Ints, end: Ints, bonus: float
) -> Values:
    """Return emissions with a bonus for the tags of spans, with any label.

    Args:
        crf: The CRF that will decode.
        emissions: [B, T, K]
        sentence: [S], the row of each span.
        start: [S]
        end: [S], start + 2 or more.
        bonus: The number to add.
    """
    row, nth = cells(end - start)
    for label in labels_of(crf.tags):
        _, first, inside, last = crf.span_tags(label)
        tags = np.where(nth == 0, first, np.where(nth == (end - start)[row] - 1, last, inside))
        emissions = crf.add(emissions, (sentence[row], start[row] + nth, tags), bonus)
    return emissions
