"""Explanations as one HTML page: pictures, a table of the words, and one of the characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hanlattice.explain.changes import changes
from hanlattice.explain.drawing import choose_view, shown, span_label
from hanlattice.explain.svg import picture, rules, xml
from hanlattice.explain.values import DIRECTIONS, Direction, Explanation, percent
from hanlattice.theme import INKS, light_and_dark, page_shell

# Shades of a table's cells.
STEPS = 10
_SHADES = range(1, STEPS + 1)
_LIGHT, _DARK = (
    f":root{{--heat:{','.join(map(str, bytes.fromhex(colour[1:])))}}}"
    for colour in INKS["word"][:2]
)
_RULES = (
    f"{light_and_dark(_LIGHT, _DARK)}"
    "body{max-width:1000px;font-size:15px;line-height:1.5}"
    "section{margin:0 0 48px}h2{font-size:18px;overflow-wrap:anywhere}"
    ".wide{overflow-x:auto}svg{max-width:100%;height:auto}"
    "table{border-collapse:collapse;font-size:13px;margin:8px 0}"
    "summary{cursor:pointer;margin-top:8px}"
    "th,td{border:1px solid var(--edge);padding:2px 7px;text-align:right;white-space:nowrap}"
    ".text{text-align:left;white-space:normal;min-width:18em}"
    ".heat td,.heat th{text-align:center;min-width:2.2em}"
    f"{''.join(f'.h{n}{{background:rgba(var(--heat),{0.6 * n / STEPS:.2f})}}' for n in _SHADES)}"
    "tr>:first-child{text-align:left!important;position:sticky;left:0;background:var(--page)}"
)


def page(
    explanations: Iterable[Explanation],
    layer: int = 1,
    title: str = "What the lattice does",
    view: str | None = None,
) -> Iterator[str]:
    """Yield the page in parts, one explanation at a time.

    The pictures show the shares of one layer, the tables those of all.
    """
    sections = (section(explanation, layer, view) for explanation in explanations)
    return page_shell(title, f"{_RULES}{rules()}", sections)


def section(explanation: Explanation, layer: int = 1, view: str | None = None) -> str:
    """Return pictures and tables of one text."""
    if not explanation.text:
        return "<section>\n<p>This text is empty.</p>\n</section>\n"
    parts = [f'<section>\n<h2 dir="auto">{xml(explanation.text)}</h2>\n']
    if explanation.spans:
        spans = (f"{xml(span.text)} {xml(span_label(span))}" for span in explanation.spans)
        parts.append(f"<p>{' · '.join(spans)}</p>\n")
    drawn = picture(explanation, layer, with_style=False, view=view)
    parts.append(f'<div class="wide">{drawn}</div>\n')
    details = {}
    if choose_view(explanation, view) == "changes" and explanation.words:
        shares = picture(explanation, layer, with_style=False, view="shares")
        details["The share that each word has of the cells"] = shares
    if explanation.words:
        summary = "Words, and their shares of the cells into which they pour"
        details[summary] = _words(explanation)
    summary = "Characters: the probability of each tag, and whose share their cells are"
    details[summary] = _heat(explanation)
    for summary, table in details.items():
        parts.append(f"<details open><summary>{summary}</summary>\n")
        parts.append(f'<div class="wide">{table}</div></details>\n')
    return "".join([*parts, "</section>\n"])


def _words(explanation: Explanation) -> str:
    numbers = range(1, len(explanation.layers) + 1)
    layers = [f", layer {n}" for n in numbers] if len(numbers) > 1 else [""]
    heads = [f"{name}{layer}" for layer in layers for name in DIRECTIONS]
    changed = changes(explanation)
    without = ["without it"] if explanation.without else []
    rows = [_row("th", ["word", "from", "to", "lexicon", *without, *heads])]
    unchanged = (index for index in range(len(explanation.words)) if index not in changed)
    for index in [*changed, *unchanged]:
        word = explanation.words[index]
        source = f"{word.source}, added" if word.chosen else word.source
        cells = [f"<td>{xml(text)}</td>" for text in (str(word.start), str(word.end), source)]
        if explanation.without:
            cells.append(f'<td class="text">{xml(changed.get(index, ""))}</td>')
        for layer in explanation.layers:
            for name in DIRECTIONS:
                share = getattr(layer, name).words[index]
                cells.append(_warm(share.mean, f"{percent(share.mean)} ± {percent(share.spread)}"))
        rows.append(f"<tr><td>{xml(word.word)}</td>{''.join(cells)}</tr>")
    return _table(rows)


def _heat(explanation: Explanation) -> str:
    """Return a column a character: a row for each tag, then the shares by layer and direction."""
    rows = [_row("th", ["", *map(shown, explanation.text)])]
    for column, tag in enumerate(explanation.tag_names):
        chances = [None if row is None else row[column] for row in explanation.marginals]
        pairs = zip(chances, explanation.tags, strict=True)
        cells = (_chance(chance, chosen == tag) for chance, chosen in pairs)
        rows.append(f"<tr><td>{xml(tag)}</td>{''.join(cells)}</tr>")
    for n, layer in enumerate(explanation.layers, start=1):
        suffix = f", layer {n}" if len(explanation.layers) > 1 else ""
        for name in DIRECTIONS:
            direction: Direction = getattr(layer, name)
            own, before = (
                [None if share is None else share.mean for share in shares]
                for shares in (direction.own, direction.before)
            )
            # Words replace the previous cell, so a character has the share of one of the two.
            words = [
                None if mine is None or last is not None else 1 - mine
                for mine, last in zip(own, before, strict=True)
            ]
            for what, shares in (("own", own), ("words", words), ("cell before", before)):
                texts = ("" if share is None else f"{100 * share:.0f}" for share in shares)
                cells = (
                    _warm(share or 0.0, text) for share, text in zip(shares, texts, strict=True)
                )
                rows.append(f"<tr><td>{name}{suffix}: {what}</td>{''.join(cells)}</tr>")
    return _table(rows, "heat")


def _chance(probability: float | None, is_best: bool) -> str:
    if probability is None:
        return "<td></td>"
    text = f"{100 * probability:.0f}" if probability >= 0.005 else "·"
    return _warm(probability, f"<b>{text}</b>" if is_best else text)


def _warm(share: float, text: str) -> str:
    """Return a cell that is darker for a larger number; `text` is HTML already."""
    step = round(min(1.0, max(0.0, share)) * STEPS)
    return f'<td class="h{step}">{text}</td>' if step else f"<td>{text}</td>"


def _row(cell: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{xml(text)}</{cell}>' for text in texts)}</tr>"


def _table(rows: Iterable[str], look: str = "") -> str:
    return f'<table class="{look}">\n' + "\n".join(rows) + "\n</table>"
