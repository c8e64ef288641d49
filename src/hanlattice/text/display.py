"""Text and numbers as people and programs are shown them: nothing that a terminal obeys, no `1
spans`, no `0.0`.
"""

from __future__ import annotations


def visible(text: str, keep: str = "") -> str:
    """The text on one line: what cannot be printed, a line end or a lone surrogate, as an escape;
    but for `keep`.
    """
    if text.isprintable():
        return text
    kept = keep + "\u3000"
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text
    )


def counted(number: int, what: str) -> str:
    """`1 span`, `2,000 spans`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def rounded(probability: float, digits: int = 4) -> float:
    """A probability to so many decimals; a small one to two digits that count, so that it does not
    look like none.
    """
    return (
        round(probability, digits)
        if probability >= 10 ** (1 - digits)
        else float(f"{probability:.1e}")
    )
