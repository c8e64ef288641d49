"""What lies in folders and fits patterns; what cannot be read comes with the reason."""

from __future__ import annotations

import errno
import fnmatch
import functools
import glob
import heapq
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from hanlattice.files import reason

ANY_DEPTH = "**"
_GONE = (errno.ENOENT, errno.ENOTDIR)


class Kind(Enum):
    file = auto()
    folder = auto()
    special = auto()  # a pipe, a socket or a device
    repeated = auto()  # a link to a folder that is read under another name
    missing = auto()  # nothing, or a link to nothing
    unreadable = auto()


class FoundPath(NamedTuple):
    path: Path
    kind: Kind
    message: str = ""  # of what cannot be read, or is read elsewhere: why


def look(path: Path) -> FoundPath:
    """The entry at a path. Links are followed."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno not in _GONE:
            return _unreadable(path, error)
        if path.is_symlink():
            return FoundPath(path, Kind.missing, "it is a link to something that does not exist")
        return FoundPath(path, Kind.missing, f"cannot read: {reason(error)}")
    except ValueError as error:  # a NUL in the path
        return FoundPath(path, Kind.missing, f"cannot read: {error}")
    if stat.S_ISDIR(mode):
        return FoundPath(path, Kind.folder)
    return FoundPath(path, Kind.file if stat.S_ISREG(mode) else Kind.special)


def _unreadable(path: Path, error: OSError) -> FoundPath:
    return FoundPath(path, Kind.unreadable, f"cannot read: {reason(error)}")


def walk(top: Path, *, hidden: bool = False) -> Iterator[FoundPath]:
    """Yield everything below a folder, and the folder itself where it cannot be listed.

    Each folder is read once. Links to folders are followed after everything that can be reached
    without them, so the real name of a folder comes before those of links to it. A link to a folder
    above it is unreadable, because it leads out of what was asked for.
    """
    seen: dict[tuple[int, int], Path] = {}
    folders = [top]
    links: list[Path] = []
    while folders or links:
        folder = folders.pop() if folders else heapq.heappop(links)
        try:
            status = folder.stat()
            first = seen.setdefault((status.st_dev, status.st_ino), folder)
            if first != folder:
                message = f"it leads to {first}, which is read under that name"
                yield FoundPath(folder, Kind.repeated, message)
                continue
            if folder != top and _leads_above(folder):
                message = "it is a link to a folder above it, which is not read"
                yield FoundPath(folder, Kind.unreadable, message)
                continue
            with os.scandir(folder) as listing:
                children = sorted((child.name, child.is_symlink()) for child in listing)
        except OSError as error:
            yield _unreadable(folder, error)
            continue
        if folder != top:
            yield FoundPath(folder, Kind.folder)
        for name, is_link in children:
            if name.startswith(".") and not hidden:
                continue
            entry = look(folder / name)
            if entry.kind is Kind.folder and is_link:
                heapq.heappush(links, entry.path)
            elif entry.kind is Kind.folder:
                folders.append(entry.path)
            else:
                yield entry


def _leads_above(folder: Path) -> bool:
    """Whether this is a link to a folder that it lies in."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


def match(top: Path, pattern: Sequence[str]) -> Iterator[FoundPath]:
    """Yield what fits a pattern below a folder, and what could not be read on the way to it.

    `**` stands for folders of any depth, and at the end of a pattern for everything in them.
    Wildcards fit hidden names, too.
    """
    *parts, last = [*pattern, "*"] if pattern[-1] == ANY_DEPTH else pattern
    folders = [top]
    for part in parts:
        below = dict[Path, None]()
        for entry in _step(folders, part):
            if entry.kind is Kind.folder:
                below[entry.path] = None
            elif entry.kind in (Kind.unreadable, Kind.repeated):
                yield entry
        folders = list(below)
    yield from dict.fromkeys(_step(folders, last))


def _step(folders: Sequence[Path], part: str) -> Iterator[FoundPath]:
    """What one part of a pattern leads to from each of some folders."""
    for folder in folders:
        if part == ANY_DEPTH:
            yield FoundPath(folder, Kind.folder)
            yield from walk(folder, hidden=True)
        elif glob.has_magic(part):
            try:
                children = sorted(folder.iterdir())
            except OSError as error:
                yield _unreadable(folder, error)
                continue
            yield from (look(child) for child in children if fnmatch.fnmatch(child.name, part))
        elif os.path.lexists(folder / part):
            yield look(folder / part)


def is_inside(folder: Path) -> Callable[[Path], bool]:
    """Return a function that tells of files whether they lie in a folder, by whatever names."""
    try:
        place = folder.stat()
    except OSError:
        return lambda path: False

    @functools.cache
    def is_it(other: Path) -> bool:
        try:
            return os.path.samestat(other.stat(), place)
        except OSError:
            return False

    return lambda path: any(map(is_it, path.resolve().parents))
