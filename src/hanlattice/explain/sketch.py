"""Sketch: all that is in a picture of a lattice, before anything has a place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arc:
    """A word over [start, end), as thick as its share; `kind` is a colour."""

    start: int
    end: int
    label: str
    share: float
    kind: str
    title: str = ""


@dataclass(frozen=True)
class Cell:
    """A character; the bars above and below it have parts (share, colour) that fill them from left to right."""

    glyph: str
    title: str = ""
    above: tuple[tuple[float, str], ...] = ()
    below: tuple[tuple[float, str], ...] = ()
    is_read: bool = True
    is_bare: bool = False  # it has neither bars nor bands, so that the character stands in the middle


@dataclass(frozen=True)
class Band:
    """A span over [start, end)."""

    start: int
    end: int
    label: str
    tone: int
    title: str = ""


@dataclass(frozen=True)
class Sketch:
    """All that is in a picture. Arcs above lead to the last cell of a word, arcs below to its first."""

    title: str
    cells: tuple[Cell, ...]
    above: tuple[Arc, ...] = ()
    below: tuple[Arc, ...] = ()
    bands: tuple[Band, ...] = ()
    breaks: tuple[int, ...] = ()  # where a new row must begin
    legend: tuple[tuple[str, str], ...] = ()  # (a colour or "", what it says)
