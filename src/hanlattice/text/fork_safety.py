"""What a forked child can go on with: locks, and properties that are computed once.

A fork waits until no other thread has one of these locks.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 (registers its hook for forks, which must come before the one below)
import os
from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar
from weakref import WeakSet

Value = TypeVar("Value")


class cached_property(Generic[Value]):  # noqa: N801
    """A property that is computed once for each instance.

    In Python 3.11 all properties of `functools.cached_property` have a lock. A child that is forked
    while another thread holds one would wait for it without end.
    """

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Value:
        if instance is None:
            return self  # type: ignore[return-value]
        value: Value = self.function(instance)
        instance.__dict__[self.name] = value
        return value


__all__ = ["cached_property", "new_lock"]

WAIT = 60.0  # seconds for each lock: a text that is tagged on a busy machine takes some

_locks = WeakSet[RLock]()
_listed = RLock()
_held: list[RLock] = []


def new_lock() -> RLock:
    lock = RLock()
    with _listed:
        _locks.add(lock)
    return lock


def _before() -> None:
    """A child has no other thread: what one of them is changing would stay half changed there.

    They are waited for, but not without end: one may wait for what another such hook holds.
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
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # also where nobody is left to release it


if hasattr(
    os, "register_at_fork"
):  # the last one that is registered is called first: before that of thread pools
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
