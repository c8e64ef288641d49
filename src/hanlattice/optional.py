"""Optional libraries, which are imported when they are first used, and kept quiet."""

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

__version__ = "0.1.0"
# The extra of `pip install 'hanlattice[extra]'` that installs each optional package.
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
    """Import an optional package, or a module of it; if it is missing, say how to install it."""
    try:
        with quiet(package):
            return importlib.import_module(f"{package}.{module}" if module else package)
    except ImportError:
        raise HanlatticeError(how_to_install(package)) from None


def how_to_install(package: str) -> str:
    """Return how to install a package that belongs to an extra, "" for any other package."""
    if package not in EXTRA_OF:
        return ""
    command = f"pip install 'hanlattice[{EXTRA_OF[package]}]'"
    return f"{package} is not installed, and this needs it: {command}"


@contextlib.contextmanager
def quiet(package: str) -> Iterator[None]:
    """Silence the log lines of this package, and all warnings, inside the `with`."""
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
    """Return the version of an installed package, None if it is not installed."""
    # Importing this module takes longer than tagging a text.
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of hanlattice, Python and these packages, by name."""
    from importlib.metadata import version

    named = {package: version(package) for package in packages}
    return {"hanlattice": __version__, "python": platform.python_version(), **named}


def peak_memory() -> int | None:
    """Return the peak memory of this process in bytes, None on Windows, which has no `resource`."""
    try:
        import resource
    except ImportError:
        return None
    # macOS counts bytes, Linux KiB.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
