"""How everything that hanlattice draws looks: one palette, one HTML page, one style of plots."""

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
# what a plot is about, and what stands beside it
RED = "#c1272d"
BLUE = "#3b5b92"
FONTS = '"Noto Sans CJK SC","Source Han Sans SC","PingFang SC","Microsoft YaHei",sans-serif'


class Colour(NamedTuple):
    """A colour on a light page, on a dark one, and its number among the 256 of a terminal, where it
    is used there.

    A program cannot know whether its terminal is light or dark, so those numbers are readable on
    both.
    """

    light: str
    dark: str
    terminal: int | None = None


TONES = (  # of spans
    Colour("#cf222e", "#ff7b72", 160),  # red
    Colour("#187a35", "#56d364", 28),  # green
    Colour("#7f4ddb", "#d2a8ff", 98),  # violet
    Colour("#946300", "#e3b341", 94),  # yellow
    Colour("#0b7285", "#39c5cf", 30),  # cyan
    Colour("#b93584", "#f778ba", 162),  # pink
    Colour("#4d6b0a", "#a5d351", 64),  # olive
    Colour("#3e4fb5", "#a3b1ff", 62),  # blue
)
_KNOWN = {
    "PER": 0,
    "LOC": 1,
    "ORG": 2,
    "GPE": 3,
    "WORD": 4,
}  # other labels share the tones that are left
INKS = {  # of everything else
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
    """The index into TONES of each label of a model, whatever their order; `PER.NAM` has that of
    PER.
    """
    stems = {label: label.partition(".")[0] for label in labels}
    taken = {_KNOWN[stem] for stem in stems.values() if stem in _KNOWN}
    free = [at for at in range(len(TONES)) if at not in taken]
    others = zip(sorted(set(stems.values()) - set(_KNOWN)), cycle(free), strict=False)
    places = _KNOWN | dict(others)
    return {label: places[stem] for label, stem in stems.items()}


def light_and_dark(light: str, dark: str) -> str:
    """CSS rules for a light page, and those that replace them where the reader's system is dark."""
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"


def page_shell(title: str, rules: str, body: Iterable[str]) -> Iterator[str]:
    """A page that loads nothing from elsewhere, part by part. Its rules may use var(--NAME) for
    each of INKS.
    """
    light, dark = (
        f":root{{{''.join(f'--{name}:{colour[side]};' for name, colour in INKS.items())}}}"
        for side in (0, 1)
    )
    yield (
        '<!doctype html>\n<html lang="zh">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(visible(title))}</title>\n"
        f"<style>\n:root{{color-scheme:light dark}}{light_and_dark(light, dark)}\n"
        f"body{{margin:24px auto;padding:0 16px;font-family:{FONTS};color:var(--ink);background:var(--page)}}\n"
        f"{rules}\n</style>\n</head>\n<body>\n"
    )
    yield from body
    yield "</body>\n</html>\n"


KEPT = "\n\t\u200c\u200d"  # line ends and TABs, and what holds letters or emoji apart or together


def escaped(text: str) -> str:
    """Text for a page. What a page cannot hold or show becomes an escape, except white space and
    what joins emoji.
    """
    if not text.isprintable():
        text = "".join(c if c in KEPT or category(c) == "Zs" else visible(c) for c in text)
    return html.escape(text)


def can_plot() -> bool:
    return find_spec("matplotlib") is not None


def check_plot(path: Path) -> None:
    """Refuse a plot that cannot be drawn, before any work is done for it."""
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise InputError(
            f"a plot is a {' or '.join(PLOT_SUFFIXES)} file, and this name ends in {path.suffix!r}",
            path,
        )
    if not can_plot():
        raise InputError("the plot needs matplotlib: pip install 'hanlattice[plot]'", path)


@contextmanager
def plot(path: Path, width: float, height: float) -> Iterator[Any]:
    """A matplotlib figure, saved to `path` at the end. Text stays text, and the same data gives the
    same bytes.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "hanlattice", "font.size": 9}
    ):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        kind = path.suffix.lower().removeprefix(".")
        with (
            quiet("matplotlib"),
            atomic_write(path, binary=True) as file,
        ):  # it misses glyphs that a viewer has
            figure.savefig(
                file, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None
            )


def tidy(axis: Axes, grid: str = "both") -> None:
    """A light grid, and no frame above and to the right."""
    axis.grid(axis=grid, color="0.88", linewidth=0.6)  # type: ignore[arg-type]
    axis.spines[["top", "right"]].set_visible(False)


def plot_text(text: str) -> str:
    """Text for a plot, where a dollar sign would begin mathematics."""
    return visible(text).replace("$", r"\$")
