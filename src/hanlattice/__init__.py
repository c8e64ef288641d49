"""Chinese named entities and word segmentation with the lattice LSTM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hanlattice.extras import __version__
from hanlattice.text.lattice import Lattice
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.spans import Span

if TYPE_CHECKING:
    from hanlattice.predict import Document, load

__all__ = ["Document", "Lattice", "Lexicon", "Span", "load"]


def __getattr__(name: str) -> Any:
    """`load` and `Document` need torch, which takes seconds to import: they come when they are first asked for."""
    if name in ("Document", "load"):

        return getattr(predict, name)
    raise AttributeError(f"module 'hanlattice' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Also the names that have not been asked for yet."""
    return sorted({*globals(), *__all__})
