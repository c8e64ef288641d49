"""Chinese named entities and word segmentation with the lattice LSTM."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hanlattice.optional import __version__ as __version__
from hanlattice.text.lattice import Lattice
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.span import Span

if TYPE_CHECKING:
    from hanlattice.bundled import analyse, cut, lcut
    from hanlattice.client import Client, connect
    from hanlattice.document import Document
    from hanlattice.predict import Predictor, load

__all__ = [
    "Client",
    "Document",
    "Lattice",
    "Lexicon",
    "Predictor",
    "Span",
    "analyse",
    "connect",
    "cut",
    "lcut",
    "load",
]
_HOMES = {
    "Client": "client",
    "connect": "client",
    "Document": "document",
    "Predictor": "predict",
    "load": "predict",
}
_HOMES |= dict.fromkeys(("analyse", "cut", "lcut"), "bundled")


def __getattr__(name: str) -> Any:
    """What takes time to import comes at its first use."""
    if name in __all__:
        return getattr(import_module(f"hanlattice.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'hanlattice' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, imported already or not, and no others."""
    return sorted([*__all__, "__version__"])
