"""The threshold of decoding by spans: what the score of a span must exceed to be found."""

from __future__ import annotations

from hanlattice.checks import brief, check_number
from hanlattice.errors import InputError

# None where the best tagging is decoded.
Threshold = float | None
LEAST_THRESHOLD = 0.05
USUAL_THRESHOLD = 0.4  # of a model without scores


def check_decode(value: str | float) -> str | float:
    """A way to decode: `path`, `spans`, or the threshold of the latter as a number."""
    if isinstance(value, str) and value in ("path", "spans"):
        return value
    try:
        return check_number(
            float(value) if isinstance(value, str) else value, "decode", LEAST_THRESHOLD
        )
    except (TypeError, ValueError):
        expected = f"path, spans, or a threshold from {LEAST_THRESHOLD} to 1"
        raise InputError(f"decode must be {expected}, not {brief(value)}") from None


def threshold_for(f1: float) -> float:
    """Return the threshold of a model whose best taggings have this F1."""
    return max(LEAST_THRESHOLD, f1 / 2)
