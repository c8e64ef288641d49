"""The threshold of decoding by spans: only spans whose scores exceed it are found."""

from __future__ import annotations

from hanlattice.checks import brief, check_number
from hanlattice.errors import InputError

# None decodes the best tagging instead.
Threshold = float | None
LEAST_THRESHOLD = 0.05
# For a model that was saved without the scores of its training.
USUAL_THRESHOLD = 0.4


def check_decode(value: str | float) -> str | float:
    """Return a way to decode if it is valid: `path`, `spans`, or a threshold for spans."""
    if isinstance(value, str) and value in ("path", "spans"):
        return value
    try:
        number = float(value) if isinstance(value, str) else value
        return check_number(number, "decode", LEAST_THRESHOLD)
    except (TypeError, ValueError):
        expected = f"path, spans, or a threshold from {LEAST_THRESHOLD} to 1"
        raise InputError(f"decode must be {expected}, not {brief(value)}") from None


def threshold_for(f1: float) -> float:
    """Return the threshold with the highest expected F1, for a model that reaches this F1."""
    return max(LEAST_THRESHOLD, f1 / 2)
