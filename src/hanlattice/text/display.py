"""Text and numbers as people and programs are shown them.

Nothing that a terminal obeys gets through, and there are no `1 spans` and no `0.0`.
"""

from __future__ import annotations


def visible(text: str, keep: str = "") -> str:
    """Return the text on one line, with escapes for what cannot be printed, except for `keep`."""
    if text.isprintable():
        return text
    # The ideographic space cannot be printed, says Python, but harms nobody.
    kept = keep + "\u3000"
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text
    )


def counted(number: int, what: str) -> str:
    """Return `1 span`, `2,000 spans`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def rounded(probability: float, digits: int = 4) -> float:
    """Round a probability; a small one keeps two significant digits, so that it is not 0."""
    if probability >= 10 ** (1 - digits):
        return round(probability, digits)
    return float(f"{probability:.1e}")
