"""Locks that a forked child can go on with: a fork waits until no other thread has one of them."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 (registers its hook for forks, which must come before the one below)
import os
from threading import RLock
from weakref import WeakSet

WAIT = 60.0  # seconds for each lock: a text that is tagged on a busy machine takes some

_locks, _listed = WeakSet[RLock](), RLock()
_held: list[RLock] = []


def new_lock() -> RLock:
    lock = RLock()
    with _listed:
        _locks.add(lock)
    return lock


def _before() -> None:
    """A child has no other thread: what one of them is changing, or has borrowed, would stay so there.

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


if hasattr(os, "register_at_fork"):  # the last one that is registered is called first: before that of thread pools
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
