"""Chinese named entities and word segmentation with the lattice LSTM."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hanlattice.extras import __version__ as __version__
from hanlattice.text.lattice import Lattice
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.spans import Span

if TYPE_CHECKING:
    from hanlattice.client import Client, connect
    from hanlattice.predict import Document, Predictor, load

__all__ = ["Client", "Document", "Lattice", "Lexicon", "Predictor", "Span", "connect", "load"]


def __getattr__(name: str) -> Any:
    """`load`, `Document` and `Predictor` take time to import: they come at their first use."""
    if name in __all__:
        module = import_module("hanlattice.client" if name in ("Client", "connect") else "hanlattice.predict")
        return getattr(module, name)
    raise AttributeError(f"module 'hanlattice' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, imported already or not, and no others."""
    return sorted([*__all__, "__version__"])
