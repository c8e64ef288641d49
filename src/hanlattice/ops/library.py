"""The C library of the ops: finds it, loads it, and says why it is missing.

`hatch_build.py` compiles it at install. HANLATTICE_NATIVE=0 turns it off;
HANLATTICE_NATIVE=baseline (or another of LEVELS) takes that instruction set instead of the best one
that the machine has; HANLATTICE_LIBRARY=FILE loads another file.
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

LEVELS = (
    ("baseline", "avx2", "avx512", "vnni"),
    ("baseline", "dotprod"),
)  # who runs one runs those before it
REALS = {"float32": "float", "float64": "double"}
SUFFIXES = {"darwin": ".dylib", "win32": ".dll"}
FILE = Path(__file__).with_name(f"libhanlattice{SUFFIXES.get(sys.platform, '.so')}")


class Loaded(NamedTuple):
    """A library and the instruction set to use, or why there is none."""

    library: ctypes.CDLL | None
    level: str
    reason: str


@cache
def loaded() -> Loaded:
    """The library, loaded once a process. If what the environment asks for is missing, a warning
    says so.
    """
    found = _find()
    asked = {
        name
        for name in ("HANLATTICE_NATIVE", "HANLATTICE_LIBRARY")
        if os.environ.get(name, "0") != "0"
    }
    if found.library is None and asked:
        warnings.warn(
            f"hanlattice runs without its C library: {found.reason}", RuntimeWarning, stacklevel=2
        )
    return found


def _find() -> Loaded:
    wanted = os.environ.get("HANLATTICE_NATIVE", "")
    if wanted == "0":
        return Loaded(None, "", "HANLATTICE_NATIVE=0 turns it off")
    file = Path(os.environ.get("HANLATTICE_LIBRARY", FILE))
    if not file.is_file():
        return Loaded(
            None, "", f"{file} is not there: no C compiler was found, or it failed, at installation"
        )
    try:
        library = ctypes.CDLL(str(file))
        possible = _levels(library)
    except (OSError, AttributeError) as error:
        return Loaded(None, "", f"{file} cannot be loaded: {error}")
    if wanted not in ("", "1", *possible):
        return Loaded(
            None,
            "",
            f"HANLATTICE_NATIVE={wanted}: this machine can run {', '.join(possible)}; 0 is off",
        )
    return Loaded(library, wanted if wanted in possible else possible[-1], "")


def _levels(library: ctypes.CDLL) -> tuple[str, ...]:
    library.hanlattice_level.restype = ctypes.c_char_p
    best: str = library.hanlattice_level().decode()
    of_kind = next(levels for levels in LEVELS if best in levels)
    return of_kind[: of_kind.index(best) + 1]


def possible_levels() -> tuple[str, ...]:
    """The instruction sets that the library has and this machine can run, the best one last; none
    without a library.
    """
    library = loaded().library
    return () if library is None else _levels(library)


def available(*values: Any) -> bool:
    """Whether the library is there, and these arrays or tensors of the CPU have one type that it is
    compiled for.
    """
    kinds = {real_name(value.dtype) for value in values}
    fits = (
        len(kinds) <= 1
        and kinds <= REALS.keys()
        and all(getattr(value, "is_cpu", True) for value in values)
    )
    return fits and loaded().library is not None


@cache
def real_name(dtype: Any) -> str:
    """A type of number by the name that numpy and torch share."""
    return str(dtype).removeprefix("torch.")


def missing() -> str:
    """Why there is no library; empty when there is one."""
    return loaded().reason


def shared() -> ctypes.CDLL:
    """The library itself."""
    library, _, reason = loaded()
    if library is None:
        raise RuntimeError(f"hanlattice's C library is not available: {reason}")
    return library


@cache
def function(name: str, dtype: Any, *parameters: Any) -> Callable[..., int]:
    """The C function NAME(name) for this type of number. It takes parameters (ctypes types) and
    gives an int64_t.
    """
    library = shared()
    levels = possible_levels()
    for level in reversed(levels[: levels.index(loaded().level) + 1]):
        with suppress(AttributeError):
            found = library[f"{name}_{REALS[real_name(dtype)]}_{level}"]
            found.argtypes = list(parameters)
            found.restype = ctypes.c_int64
            return found
    raise RuntimeError(
        f"the C library has no {name}: it is older than this package; install it again"
    )
