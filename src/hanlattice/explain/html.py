"""Explanations as one HTML page: the picture of each, a table of its words, one of its characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hanlattice.explain.changes import changes
from hanlattice.explain.drawing import choose_view, shown, span_label
from hanlattice.explain.svg import picture, rules, xml
from hanlattice.explain.values import DIRECTIONS, Direction, Explanation, Share, percent
from hanlattice.theme import INKS, light_and_dark, page_shell

STEPS = 10  # of heat
_LIGHT, _DARK = (
    f":root{{--heat:{','.join(map(str, bytes.fromhex(colour[1:])))}}}"
    for colour in INKS["word"][:2]
)
_RULES = (
    f"{light_and_dark(_LIGHT, _DARK)}"
    "body{max-width:1000px;font-size:15px;line-height:1.5}"
    "section{margin:0 0 48px}h2{font-size:18px;overflow-wrap:anywhere}"
    ".wide{overflow-x:auto}svg{max-width:100%;height:auto}"
    "table{border-collapse:collapse;font-size:13px;margin:8px 0}summary{cursor:pointer;margin-top:8px}"
    "th,td{border:1px solid var(--edge);padding:2px 7px;text-align:right;white-space:nowrap}"
    ".text{text-align:left;white-space:normal;min-width:18em}.heat td,.heat th{text-align:center;min-width:2.2em}"
    + "".join(
        f".h{n}{{background:rgba(var(--heat),{0.6 * n / STEPS:.2f})}}" for n in range(1, STEPS + 1)
    )
    + "tr>:first-child{text-align:left!important;position:sticky;left:0;background:var(--page)}"
)


def page(
    explanations: Iterable[Explanation],
    layer: int = 1,
    title: str = "What the lattice does",
    view: str | None = None,
) -> Iterator[str]:
    """The page in parts, one explanation at a time. The pictures show the shares of one layer; the
    tables, of all.
    """
    return page_shell(
        title,
        f"{_RULES}{rules()}",
        (section(explanation, layer, view) for explanation in explanations),
    )


def section(explanation: Explanation, layer: int = 1, view: str | None = None) -> str:
    """One text: its pictures and its tables."""
    if not explanation.text:
        return "<section>\n<p>This text is empty.</p>\n</section>\n"
    parts = [f'<section>\n<h2 dir="auto">{xml(explanation.text)}</h2>\n']
    if explanation.spans:
        found = (f"{xml(span.text)} {xml(span_label(span))}" for span in explanation.spans)
        parts.append(f"<p>{' · '.join(found)}</p>\n")
    parts.append(
        f'<div class="wide">{picture(explanation, layer, with_style=False, view=view)}</div>\n'
    )
    if choose_view(explanation, view) == "changes" and explanation.words:
        shares = picture(explanation, layer, with_style=False, view="shares")
        parts.append(_details("The share that each word has of the cells", shares))
    if explanation.words:
        parts.append(
            _details(
                "Words, and their shares of the cells into which they pour", _words(explanation)
            )
        )
    parts.append(
        _details(
            "Characters: the probability of each tag, and whose share their cells are",
            _heat(explanation),
        )
    )
    return "".join([*parts, "</section>\n"])


def _details(summary: str, table: str) -> str:
    return (
        f'<details open><summary>{summary}</summary>\n<div class="wide">{table}</div></details>\n'
    )


def _words(explanation: Explanation) -> str:
    layers = (
        [f", layer {n}" for n in range(1, len(explanation.layers) + 1)]
        if len(explanation.layers) > 1
        else [""]
    )
    heads = [f"{name}{layer}" for layer in layers for name in DIRECTIONS]
    changed = changes(explanation)
    without = ["without it"] if explanation.without else []
    rows = [_row("th", ["word", "from", "to", "lexicon", *without, *heads])]
    for nth in [*changed, *(nth for nth in range(len(explanation.words)) if nth not in changed)]:
        word = explanation.words[nth]
        shares = [
            getattr(layer, name).words[nth] for layer in explanation.layers for name in DIRECTIONS
        ]
        source = f"{word.source}, added" if word.chosen else word.source
        cells = [f"<td>{xml(each)}</td>" for each in (str(word.start), str(word.end), source)]
        cells += (
            [f'<td class="text">{xml(changed.get(nth, ""))}</td>'] if explanation.without else []
        )
        cells += [
            _warm(share.mean, f"{percent(share.mean)} ± {percent(share.spread)}")
            for share in shares
        ]
        rows.append(f"<tr><td>{xml(word.word)}</td>{''.join(cells)}</tr>")
    return _table(rows)


def _heat(explanation: Explanation) -> str:
    """A column a character; a row for each tag, then the shares of each layer and direction."""
    rows = [_row("th", ["", *map(shown, explanation.text)])]
    for k, tag in enumerate(explanation.tag_names):
        chances = [None if row is None else row[k] for row in explanation.marginals]
        cells = (
            _chance(each, mine == tag) for each, mine in zip(chances, explanation.tags, strict=True)
        )
        rows.append(f"<tr><td>{xml(tag)}</td>{''.join(cells)}</tr>")
    for n, layer in enumerate(explanation.layers, start=1):
        of = f", layer {n}" if len(explanation.layers) > 1 else ""
        for name in DIRECTIONS:
            direction: Direction = getattr(layer, name)
            own, before = (list(map(_mean, shares)) for shares in (direction.own, direction.before))
            pairs = zip(own, before, strict=True)
            words = [
                None if mine is None or other is not None else 1 - mine for mine, other in pairs
            ]
            for what, shares in (("own", own), ("words", words), ("cell before", before)):
                rows.append(f"<tr><td>{name}{of}: {what}</td>{''.join(map(_shared, shares))}</tr>")
    return _table(rows, "heat")


def _mean(share: Share | None) -> float | None:
    return None if share is None else share.mean


def _shared(share: float | None) -> str:
    return "<td></td>" if share is None else _warm(share, f"{100 * share:.0f}")


def _chance(probability: float | None, is_user_word: bool) -> str:
    if probability is None:
        return "<td></td>"
    text = f"{100 * probability:.0f}" if probability >= 0.005 else "·"
    return _warm(probability, f"<b>{text}</b>" if is_user_word else text)


def _warm(share: float, text: str) -> str:
    """A cell that is darker for a larger number; `text` is HTML already."""
    step = round(min(1.0, max(0.0, share)) * STEPS)
    return f'<td class="h{step}">{text}</td>' if step else f"<td>{text}</td>"


def _row(cell: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{xml(text)}</{cell}>' for text in texts)}</tr>"


def _table(rows: Iterable[str], look: str = "") -> str:
    return f'<table class="{look}">\n' + "\n".join(rows) + "\n</table>"
