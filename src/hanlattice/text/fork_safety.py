"""What a forked child can go on with: locks, and properties that are computed once.

A fork waits until no other thread has one of these locks.
"""

from __future__ import annotations

# This import registers its hook for forks, which must come before the hook below.
import concurrent.futures.thread  # noqa: F401
import functools
import os
from collections.abc import Callable
from contextlib import nullcontext
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakSet

__all__ = ["cached_property", "new_lock"]

Value = TypeVar("Value")


class cached_property(functools.cached_property[Value]):  # noqa: N801
    """A property that is computed once for each instance, without the lock of Python 3.11.

    All instances share that lock. A child that is forked while another thread holds it would wait
    for it without end.
    """

    def __init__(self, function: Callable[[Any], Value]) -> None:
        super().__init__(function)
        self.lock = nullcontext()


# Seconds for each lock: tagging a text on a busy computer takes some.
WAIT = 60.0

_locks = WeakSet[RLock]()
_listed = RLock()
_held: list[RLock] = []


def new_lock() -> RLock:
    """Return a lock that no other thread holds while the process forks."""
    lock = RLock()
    with _listed:
        _locks.add(lock)
    return lock


def _before() -> None:
    """Take all locks, for the child has no thread that could finish a change.

    The wait has an end, since a thread may itself wait for what another such hook holds.
    """
    with _listed:
        locks = list(_locks)
    _held.extend(lock for lock in locks if lock.acquire(timeout=WAIT))


def _after() -> None:
    while _held:
        _held.pop().release()


def _after_in_child() -> None:
    global _listed
    _after()
    _listed = RLock()
    for lock in _locks:
        # A thread that the child does not have may have kept the lock.
        lock._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    # Hooks run in reverse order, so this one takes the locks before thread pools take theirs.
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
