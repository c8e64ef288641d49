"""The libraries that hanlattice can do without: imported when they are used, and quiet."""

from __future__ import annotations

import contextlib
import importlib
import logging
import platform
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from hanlattice.errors import HanlatticeError

__version__ = "0.1.0"  # of hanlattice
EXTRA_OF = {
    "torch": "train",
    "safetensors": "train",
    "filelock": "corpus",
    "rjieba": "segment",
    "gensim": "pretrain",
    "tokenizers": "pretrain",
    "pyarrow": "corpus",
    "transformers": "transformers",
    "huggingface_hub": "transformers",
    "spacy": "spacy",
    "ray": "ray",
    **dict.fromkeys(("starlette", "uvicorn", "prometheus_client", "httptools", "msgspec"), "serve"),
}


def require(package: str, module: str = "") -> Any:
    """A package that comes with an extra, or a module of it; where it is missing, how to install
    it.
    """
    try:
        with quiet(package):
            found = importlib.import_module(package)
            return importlib.import_module(f"{package}.{module}") if module else found
    except ImportError:
        raise HanlatticeError(how_to_install(package)) from None


def how_to_install(package: str) -> str:
    """Of a package that an extra brings; "" for any other."""
    brought = EXTRA_OF.get(package)
    return (
        f"{package} is not installed, and this needs it: pip install 'hanlattice[{brought}]'"
        if brought
        else ""
    )


@contextlib.contextmanager
def quiet(package: str) -> Iterator[None]:
    """No log line and no warning of this package reaches the user while this is open."""
    logger = logging.getLogger(package)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def installed(package: str) -> str | None:
    """Its version; None for what is not there."""
    from importlib.metadata import (  # which takes longer to import than a text to tag
        PackageNotFoundError,
        version,
    )

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions(*packages: str) -> dict[str, str]:
    from importlib.metadata import version

    named = {package: version(package) for package in packages}
    return {"hanlattice": __version__, "python": platform.python_version(), **named}


def peak_memory() -> int | None:
    """The peak memory of this process in bytes; None where the system does not say."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
