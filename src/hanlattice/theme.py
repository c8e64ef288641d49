"""The look of everything that hanlattice draws: one palette, one HTML page, one plot style."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import category

from hanlattice.errors import InputError
from hanlattice.files import atomic_write
from hanlattice.optional import quiet
from hanlattice.text.display import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLOT_SUFFIXES = (".svg", ".png")
# The colours of a plot's subject, and of what it is compared with.
RED = "#c1272d"
BLUE = "#3b5b92"
FONTS = '"Noto Sans CJK SC","Source Han Sans SC","PingFang SC","Microsoft YaHei",sans-serif'


class Colour(NamedTuple):
    """A colour on light pages, on dark pages, and as a number among a terminal's 256 colours.

    A program cannot know whether its terminal is light or dark, so those are readable on both.
    """

    light: str
    dark: str
    terminal: int | None = None


# The colours of spans.
TONES = (
    Colour("#cf222e", "#ff7b72", 160),  # red
    Colour("#187a35", "#56d364", 28),  # green
    Colour("#7f4ddb", "#d2a8ff", 98),  # violet
    Colour("#946300", "#e3b341", 94),  # yellow
    Colour("#0b7285", "#39c5cf", 30),  # cyan
    Colour("#b93584", "#f778ba", 162),  # pink
    Colour("#4d6b0a", "#a5d351", 64),  # olive
    Colour("#3e4fb5", "#a3b1ff", 62),  # blue
)
# The tones of common labels. Other labels share the rest.
_KNOWN = {"PER": 0, "LOC": 1, "ORG": 2, "GPE": 3, "WORD": 4}
# The colours of everything else.
INKS = {
    "ink": Colour("#1f2328", "#e6edf3"),
    "faint": Colour("#6e7781", "#8b949e"),
    "page": Colour("#ffffff", "#0d1117"),
    "cell": Colour("#f6f8fa", "#161b22"),
    "edge": Colour("#d0d7de", "#3d444d"),
    "word": Colour("#4a72b0", "#6e9bd8", 67),
    "subword": Colour("#2a8f83", "#3fb8a8", 66),
    "chosen": Colour("#d1661f", "#f0883e", 166),
    "own": Colour("#424a53", "#c3ccd5"),
    "before": Colour("#c9d1d9", "#4b535d"),
}


def tones(labels: Iterable[str]) -> dict[str, int]:
    """Return the index into TONES of each label, whatever their order; `PER.NAM` is like `PER`."""
    stems = {label: label.partition(".")[0] for label in labels}
    taken = {_KNOWN[stem] for stem in stems.values() if stem in _KNOWN}
    free = [tone for tone in range(len(TONES)) if tone not in taken]
    others = zip(sorted(set(stems.values()) - set(_KNOWN)), cycle(free), strict=False)
    places = _KNOWN | dict(others)
    return {label: places[stem] for label, stem in stems.items()}


def light_and_dark(light: str, dark: str) -> str:
    """Return CSS with rules for light pages, and rules that replace them in dark mode."""
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"


def page_shell(title: str, rules: str, body: Iterable[str]) -> Iterator[str]:
    """Yield a page that loads nothing; its CSS rules may use var(--NAME) for names of INKS."""
    light = "".join(f"--{name}:{colour.light};" for name, colour in INKS.items())
    dark = "".join(f"--{name}:{colour.dark};" for name, colour in INKS.items())
    colours = light_and_dark(f":root{{{light}}}", f":root{{{dark}}}")
    yield (
        '<!doctype html>\n<html lang="zh">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(visible(title))}</title>\n"
        f"<style>\n:root{{color-scheme:light dark}}{colours}\n"
        f"body{{margin:24px auto;padding:0 16px;font-family:{FONTS};"
        "color:var(--ink);background:var(--page)}\n"
        f"{rules}\n</style>\n</head>\n<body>\n"
    )
    yield from body
    yield "</body>\n</html>\n"


# Line ends, TABs, and the joiners that hold letters or emoji apart or together.
KEPT = "\n\t\u200c\u200d"


def escaped(text: str) -> str:
    """Return text for a page; characters that no page can show become escapes like \\x07."""
    if not text.isprintable():
        text = "".join(c if c in KEPT or category(c) == "Zs" else visible(c) for c in text)
    return html.escape(text)


def can_plot() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def check_plot(path: Path) -> None:
    """Refuse a plot that cannot be drawn, before any work is done for it."""
    if path.suffix.lower() not in PLOT_SUFFIXES:
        expected = " or ".join(PLOT_SUFFIXES)
        said = f"a plot is a {expected} file, and this name ends in {path.suffix!r}"
        raise InputError(said, path)
    if not can_plot():
        raise InputError("the plot needs matplotlib: pip install 'hanlattice[plot]'", path)


@contextmanager
def plot(path: Path, width: float, height: float) -> Iterator[Any]:
    """Yield a matplotlib figure of this size in inches; save it at the end, in SVG or PNG."""
    import matplotlib
    from matplotlib.figure import Figure

    # A fixed salt and no date: the same data gives the same bytes.
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "hanlattice", "font.size": 9}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        kind = path.suffix.lower().removeprefix(".")
        metadata = {"Date": None} if kind == "svg" else None
        # matplotlib warns about glyphs that its font lacks; the font of a viewer has them.
        with quiet("matplotlib"), atomic_write(path, binary=True) as file:
            figure.savefig(file, format=kind, dpi=150, metadata=metadata)


def tidy(axis: Axes, grid: str = "both") -> None:
    """Give a plot a light grid, and no frame above and to the right."""
    axis.grid(axis=grid, color="0.88", linewidth=0.6)  # type: ignore[arg-type]
    axis.spines[["top", "right"]].set_visible(False)


def plot_text(text: str) -> str:
    """Return text for a plot, where a bare dollar sign would begin mathematics."""
    return visible(text).replace("$", r"\$")
