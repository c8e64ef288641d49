"""Explanations as one page that stands alone: the picture of each, a table of its words, one of its characters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hanlattice.explain.changes import changes
from hanlattice.explain.colours import FONTS, style
from hanlattice.explain.draw import picture, span_label
from hanlattice.explain.glyphs import percent, shown, xml
from hanlattice.explain.values import DIRECTIONS, Direction, Explanation, Share

STEPS = 10  # of heat
_PAGE = (
    ":root{color-scheme:light dark;--ink:#1f2328;--page:#fff;--edge:#d0d7de;--heat:74,114,176}"
    "@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--page:#0d1117;--edge:#3d444d;--heat:110,155,216}}"
    f"body{{margin:24px auto;max-width:1000px;padding:0 16px;font:15px/1.5 {FONTS};"
    "color:var(--ink);background:var(--page)}"
    "section{margin:0 0 48px}h2{font-size:18px;overflow-wrap:anywhere}"
    ".wide{overflow-x:auto}svg{max-width:100%;height:auto}"
    "table{border-collapse:collapse;font-size:13px;margin:8px 0}summary{cursor:pointer;margin-top:8px}"
    "th,td{border:1px solid var(--edge);padding:2px 7px;text-align:right;white-space:nowrap}"
    ".text{text-align:left}.heat td,.heat th{text-align:center;min-width:2.2em}"
    + "".join(f".h{n}{{background:rgba(var(--heat),{0.6 * n / STEPS:.2f})}}" for n in range(1, STEPS + 1))
    + "tr>:first-child{text-align:left!important;position:sticky;left:0;background:var(--page)}"
)


def page(explanations: Iterable[Explanation], layer: int = 1, title: str = "What the lattice does") -> Iterator[str]:
    """The page in parts, one explanation at a time. The pictures show the shares of one layer; the tables, of all."""
    yield (
        '<!DOCTYPE html>\n<html lang="zh">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{xml(title)}</title>\n<style>{_PAGE}{style()}</style>\n</head>\n<body>\n"
    )
    for explanation in explanations:
        yield section(explanation, layer)
    yield "</body>\n</html>\n"


def section(explanation: Explanation, layer: int = 1) -> str:
    """One text: its picture and its tables."""
    if not explanation.text:
        return "<section>\n<p>This text is empty.</p>\n</section>\n"
    parts = [f'<section>\n<h2 dir="auto">{xml(explanation.text)}</h2>\n']
    if explanation.spans:
        found = (f"{xml(span.text)} {xml(span_label(span))}" for span in explanation.spans)
        parts.append(f"<p>{' · '.join(found)}</p>\n")
    parts.append(f'<div class="wide">{picture(explanation, layer, with_style=False)}</div>\n')
    if explanation.words:
        parts.append(_details("Words, and their shares of the cells into which they pour", _words(explanation)))
    parts.append(
        _details("Characters: the probability of each tag, and whose share their cells are", _heat(explanation))
    )
    return "".join([*parts, "</section>\n"])


def _details(summary: str, table: str) -> str:
    return f'<details open><summary>{summary}</summary>\n<div class="wide">{table}</div></details>\n'


def _words(explanation: Explanation) -> str:
    many = len(explanation.layers) > 1
    heads = [
        f"{name}{f', layer {n}' if many else ''}" for n in range(1, len(explanation.layers) + 1) for name in DIRECTIONS
    ]
    told = changes(explanation)
    rows = [_row("th", ["word", "from", "to", "lexicon", *heads, *(["without it"] if explanation.without else [])])]
    for nth, word in enumerate(explanation.words):
        shares = [getattr(layer, name).words[nth] for layer in explanation.layers for name in DIRECTIONS]
        source = f"{word.source}, added" if word.chosen else word.source
        cells = [f"<td>{xml(each)}</td>" for each in (str(word.start), str(word.end), source)]
        cells += [_warm(share.mean, f"{percent(share.mean)} ± {percent(share.spread)}") for share in shares]
        cells += [f'<td class="text">{xml(told.get(nth, ""))}</td>'] if explanation.without else []
        rows.append(f"<tr><td>{xml(word.word)}</td>{''.join(cells)}</tr>")
    return _table(rows)


def _heat(explanation: Explanation) -> str:
    """A column a character; a row for each tag, then the shares of each layer and direction."""
    rows = [_row("th", ["", *map(shown, explanation.text)])]
    for k, tag in enumerate(explanation.tag_names):
        chances = [None if row is None else row[k] for row in explanation.marginals]
        cells = (_chance(each, mine == tag) for each, mine in zip(chances, explanation.tags, strict=True))
        rows.append(f"<tr><td>{xml(tag)}</td>{''.join(cells)}</tr>")
    for n, layer in enumerate(explanation.layers, start=1):
        of = f", layer {n}" if len(explanation.layers) > 1 else ""
        for name in DIRECTIONS:
            direction = getattr(layer, name)
            for what, share in _SHARES.items():
                cells = (_shared(share(direction, at)) for at in range(len(explanation.text)))
                rows.append(f"<tr><td>{name}{of}: {what}</td>{''.join(cells)}</tr>")
    return _table(rows, "heat")


def _of_words(direction: Direction, at: int) -> float | None:
    own, before = direction.own[at], direction.before[at]
    return None if own is None or before is not None else 1 - own.mean


def _mean(share: Share | None) -> float | None:
    return None if share is None else share.mean


_SHARES: dict[str, Callable[[Direction, int], float | None]] = {
    "own": lambda direction, at: _mean(direction.own[at]),
    "words": _of_words,
    "cell before": lambda direction, at: _mean(direction.before[at]),
}


def _shared(share: float | None) -> str:
    return "<td></td>" if share is None else _warm(share, f"{100 * share:.0f}")


def _chance(probability: float | None, is_chosen: bool) -> str:
    if probability is None:
        return "<td></td>"
    text = f"{100 * probability:.0f}" if probability >= 0.005 else "·"
    return _warm(probability, f"<b>{text}</b>" if is_chosen else text)


def _warm(share: float, text: str) -> str:
    """A cell that is the darker the larger the number is; `text` is HTML already."""
    step = round(min(1.0, max(0.0, share)) * STEPS)
    return f'<td class="h{step}">{text}</td>' if step else f"<td>{text}</td>"


def _row(cell: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{xml(text)}</{cell}>' for text in texts)}</tr>"


def _table(rows: Iterable[str], look: str = "") -> str:
    return f'<table class="{look}">\n' + "\n".join(rows) + "\n</table>"
