"""The C library of the ops: find it, load it, and say why it is missing.

`hatch_build.py` compiles it at installation. Three environment variables change what is loaded:

- HANLATTICE_NATIVE=0 turns the library off.
- HANLATTICE_NATIVE=baseline (or another of LEVELS) uses that instruction set instead of the best.
- HANLATTICE_LIBRARY=FILE loads another file.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

# The instruction sets of x86 and of ARM. A processor that has one also has those before it.
LEVELS = (("baseline", "avx2", "avx512", "vnni"), ("baseline", "dotprod"))
REALS = {"float32": "float", "float64": "double"}
SUFFIXES = {"darwin": ".dylib", "win32": ".dll"}
FILE = Path(__file__).with_name(f"libhanlattice{SUFFIXES.get(sys.platform, '.so')}")


class Loaded(NamedTuple):
    """The library with the instruction set to use, or the reason why there is none."""

    library: ctypes.CDLL | None
    level: str
    reason: str


@cache
def loaded() -> Loaded:
    """Return the library, which is loaded once in a process.

    Warn if it is missing although the environment asks for it.
    """
    result = _load()
    if result.library is None and any(
        os.environ.get(name, "0") != "0" for name in ("HANLATTICE_NATIVE", "HANLATTICE_LIBRARY")
    ):
        message = f"hanlattice runs without its C library: {result.reason}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    return result


def _load() -> Loaded:
    wanted = os.environ.get("HANLATTICE_NATIVE", "")
    if wanted == "0":
        return Loaded(None, "", "HANLATTICE_NATIVE=0 turns it off")
    file = Path(os.environ.get("HANLATTICE_LIBRARY", FILE))
    if not file.is_file():
        reason = f"{file} is not there: no C compiler was found, or it failed, at installation"
        return Loaded(None, "", reason)
    try:
        library = ctypes.CDLL(str(file))
        levels = _levels(library)
    except (OSError, AttributeError) as error:
        return Loaded(None, "", f"{file} cannot be loaded: {error}")
    if wanted not in ("", "1", *levels):
        reason = f"HANLATTICE_NATIVE={wanted}: this machine can run {', '.join(levels)}; 0 is off"
        return Loaded(None, "", reason)
    return Loaded(library, wanted if wanted in levels else levels[-1], "")


def _levels(library: ctypes.CDLL) -> tuple[str, ...]:
    library.hanlattice_level.restype = ctypes.c_char_p
    best: str = library.hanlattice_level().decode()
    levels = next(levels for levels in LEVELS if best in levels)
    return levels[: levels.index(best) + 1]


def possible_levels() -> tuple[str, ...]:
    """Return the instruction sets that library and machine have, the best one last."""
    library = loaded().library
    return () if library is None else _levels(library)


def available(*values: Any) -> bool:
    """Return whether the library can compute with these arrays or tensors together.

    They must be on the CPU and of one type, which is one of `REALS`.
    """
    first = None
    for value in values:
        name = real_name(value.dtype)
        first = first or name
        if name != first or name not in REALS or not getattr(value, "is_cpu", True):
            return False
    return loaded().library is not None


@cache
def real_name(dtype: Any) -> str:
    """Return the name of a type of number, which NumPy and torch share: "float32"."""
    return str(dtype).removeprefix("torch.")


def missing() -> str:
    """Return why there is no library, or "" when there is one."""
    return loaded().reason


def shared() -> ctypes.CDLL:
    """Return the library, or raise a RuntimeError with the reason why there is none."""
    library, _, reason = loaded()
    if library is None:
        raise RuntimeError(f"hanlattice's C library is not available: {reason}")
    return library


@cache
def function(name: str, dtype: Any, *parameters: Any) -> Callable[..., int]:
    """Return a C function that returns an int64_t.

    Args:
        name: X where the C code says NAME(X).
        dtype: The type of number to compute with, of NumPy or torch.
        parameters: The ctypes types of its parameters.
    """
    library = shared()
    levels = possible_levels()
    # A function that gains nothing from an instruction set is compiled for a lower one alone.
    for level in reversed(levels[: levels.index(loaded().level) + 1]):
        with suppress(AttributeError):
            # Indexing, unlike an attribute, makes a new function object: its types are its own.
            symbol = library[f"{name}_{REALS[real_name(dtype)]}_{level}"]
            symbol.argtypes = list(parameters)
            symbol.restype = ctypes.c_int64
            return symbol
    raise RuntimeError(
        f"the C library has no {name}: it is older than this package; install it again"
    )
