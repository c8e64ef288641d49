"""The C library at each instruction set that this machine has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from hanlattice.ops import library


@contextmanager
def at_level(level: str) -> Iterator[None]:
    """Use the library with an instruction set that may not be the best one."""
    library.function.cache_clear()
    with mock.patch.object(library, "loaded", return_value=library.loaded()._replace(level=level)):
        yield
    library.function.cache_clear()
