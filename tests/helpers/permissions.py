"""Make root obey the permissions of files."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator

import pytest

# Version 3 of the kernel's record of capabilities
_VERSION_3 = 0x20080522
# Bits of the capabilities that ignore the permissions of files
_OVERRIDE = 1
_READ_SEARCH = 2


@contextlib.contextmanager
def obeyed_permissions() -> Iterator[None]:
    """Make this thread, and the processes that it forks, obey the permissions of files."""
    if os.geteuid():
        yield
        return
    if sys.platform != "linux":
        pytest.skip("root ignores permissions: needs an ordinary user, or Linux's capabilities")
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    before = (ctypes.c_uint32 * 6)()
    without = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, before) == 0, os.strerror(ctypes.get_errno())
    without[:] = before[:]
    without[0] &= ~(1 << _OVERRIDE | 1 << _READ_SEARCH)
    assert libc.capset(header, without) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0, os.strerror(ctypes.get_errno())
