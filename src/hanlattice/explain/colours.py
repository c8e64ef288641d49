"""The colours of everything that is drawn: for a light page, a dark one and a terminal, and which a label has."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import NamedTuple

FONTS = '"Noto Sans CJK SC","Source Han Sans SC","PingFang SC","Microsoft YaHei",sans-serif'


class Tone(NamedTuple):
    """The colour of a span: on a light page, on a dark one, and its number among the 256 of terminals.

    A terminal does not say whether it is light or dark: those are neither, so that they can be read on both.
    """

    light: str
    dark: str
    terminal: int


TONES = (
    Tone("#cf222e", "#ff7b72", 160),  # red
    Tone("#187a35", "#56d364", 28),  # green
    Tone("#7f4ddb", "#d2a8ff", 98),  # violet
    Tone("#946300", "#e3b341", 94),  # yellow
    Tone("#0b7285", "#39c5cf", 30),  # cyan
    Tone("#b93584", "#f778ba", 162),  # pink
    Tone("#4d6b0a", "#a5d351", 64),  # olive
    Tone("#3e4fb5", "#a3b1ff", 62),  # blue
)
_KNOWN = {"PER": 0, "LOC": 1, "ORG": 2, "GPE": 3, "WORD": 4}  # others have what a model's own labels leave

# Everything else: (light, dark).
_INKS = {
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#6e7781", "#8b949e"),
    "page": ("#ffffff", "#0d1117"),
    "cell": ("#f6f8fa", "#161b22"),
    "edge": ("#d0d7de", "#3d444d"),
    "word": ("#4a72b0", "#6e9bd8"),
    "subword": ("#2a8f83", "#3fb8a8"),
    "chosen": ("#d1661f", "#f0883e"),
    "own": ("#424a53", "#c3ccd5"),
    "before": ("#c9d1d9", "#4b535d"),
}
# The words of a lexicon at a terminal.
WORDS = {"word": 67, "subword": 66, "chosen": 166}


def tones(labels: Iterable[str]) -> dict[str, int]:
    """The place in TONES of each label of a model, in whatever order they come: `PER.NAM` has that of PER."""
    stems = {label: label.partition(".")[0] for label in labels}
    taken = {_KNOWN[stem] for stem in stems.values() if stem in _KNOWN}
    free = [at for at in range(len(TONES)) if at not in taken]
    others = zip(sorted(set(stems.values()) - set(_KNOWN)), cycle(free), strict=False)
    places = _KNOWN | dict(others)
    return {label: places[stem] for label, stem in stems.items()}


def style() -> str:
    """The rules of a picture: light, and dark where the reader's system is."""
    shared = ".halo{stroke-width:4;stroke-linejoin:round}"
    return f"{shared}{_rules(0)}@media (prefers-color-scheme:dark){{{_rules(1)}}}"


def _rules(dark: int) -> str:
    ink = {name: pair[dark] for name, pair in _INKS.items()}
    fills = "".join(f".f-{name}{{fill:{colour}}}" for name, colour in ink.items())
    lines = "".join(f".s-{name}{{stroke:{ink[name]};stroke-opacity:.85;fill:none}}" for name in WORDS)
    spans = "".join(f".t{at}{{fill:{tone[dark]}}}" for at, tone in enumerate(TONES))
    edge, halo = f".s-edge{{stroke:{ink['edge']};fill:none}}", f".halo{{fill:{ink['page']};stroke:{ink['page']}}}"
    return f"{fills}{lines}{edge}{spans}{halo}"
