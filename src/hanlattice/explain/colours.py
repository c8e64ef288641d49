"""The colours of pictures, for a light page and for a dark one, and which of them a label has."""

from __future__ import annotations

from collections.abc import Collection

FONTS = '"Noto Sans CJK SC","Source Han Sans SC","PingFang SC","Microsoft YaHei",sans-serif'

# Tones of spans: on a light page, on a dark one, and by the name that terminals know.
TONES = (
    ("#cf222e", "#ff7b72", "red"),
    ("#1a7f37", "#56d364", "green"),
    ("#8250df", "#d2a8ff", "magenta"),
    ("#9a6700", "#e3b341", "yellow"),
    ("#0b7285", "#39c5cf", "cyan"),
    ("#bf3989", "#f778ba", "bright_red"),
    ("#4d6b0a", "#a5d351", "bright_green"),
    ("#3e4fb5", "#a3b1ff", "bright_blue"),
)
_KNOWN = {"PER": 0, "LOC": 1, "ORG": 2, "GPE": 3, "WORD": 4}  # others have what is left

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


def tone(label: str, labels: Collection[str]) -> int:
    """The number of a label's tone among those of one picture: `PER.NAM` has that of PER."""
    stem = label.partition(".")[0]
    if stem in _KNOWN:
        return _KNOWN[stem]
    others = sorted({name.partition(".")[0] for name in labels} - set(_KNOWN) | {stem})
    return (len(_KNOWN) + others.index(stem)) % len(TONES)


def style() -> str:
    """The rules of a picture: light, and dark where the reader's system is."""
    shared = ".halo{paint-order:stroke;stroke-width:4;stroke-linejoin:round}path{stroke-opacity:.85}"
    return f"{shared}{_rules(0)}@media (prefers-color-scheme:dark){{{_rules(1)}}}"


def _rules(dark: int) -> str:
    ink = {name: pair[dark] for name, pair in _INKS.items()}
    fills = "".join(f".f-{name}{{fill:{colour}}}" for name, colour in ink.items())
    lines = "".join(
        f".s-{name}{{stroke:{ink[name]};fill:none}}" for name in ("word", "subword", "chosen", "edge", "faint")
    )
    tones = "".join(f".t{n}{{fill:{pair[dark]}}}" for n, pair in enumerate(TONES))
    return f"{fills}{lines}{tones}.halo{{stroke:{ink['page']}}}"
