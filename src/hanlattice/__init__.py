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
# The modules of names that are imported at their first use, because importing them takes time.
_MODULES = {
    **dict.fromkeys(("Client", "connect"), "client"),
    **dict.fromkeys(("Predictor", "load"), "predict"),
    **dict.fromkeys(("analyse", "cut", "lcut"), "bundled"),
    "Document": "document",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"hanlattice.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'hanlattice' has no attribute {name!r}")


def __dir__() -> list[str]:
    # The public names only, imported already or not.
    return sorted([*__all__, "__version__"])
