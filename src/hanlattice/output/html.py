"""Documents as one page that needs nothing else: a paragraph for each text, spans marked, and a legend."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import category

from hanlattice.output.lines import parts_of
from hanlattice.predict import Document
from hanlattice.text.shown import visible
from hanlattice.text.spans import Span

KEPT = "\n\t\u200c\u200d"  # line ends and TABs, and what holds letters or emoji apart or together
STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1d1d1f; --quiet: #6b6b70; --light: 86%; --full: 80%; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #17181a; --ink: #e8e8ea; --quiet: #9a9aa0; --light: 27%; --full: 45%; }
}
body { display: flex; flex-direction: column; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--ground); color: var(--ink);
  font: 1.05rem/2 "Noto Sans SC", "PingFang SC", "Microsoft YaHei", sans-serif; }
p { margin: 0 0 .5rem; min-height: 2em; white-space: pre-wrap; overflow-wrap: anywhere; }
mark { margin: 0 .08em; padding: .1em .2em; border-radius: .25em; color: inherit; unicode-bidi: isolate;
  background: hsl(var(--hue) var(--full) var(--light));
  box-decoration-break: clone; -webkit-box-decoration-break: clone; }
mark[data-label]::after { content: attr(data-label); margin-left: .35em;
  font-size: .62em; font-weight: 600; opacity: .75; }
footer { order: -1; margin-bottom: 1rem; color: var(--quiet); font-size: .85rem; }
footer mark { color: var(--ink); }
""".strip()


def html_page(documents: Iterable[Document], labels: Sequence[str], title: str = "hanlattice") -> Iterator[str]:
    """The page piece by piece, a document at a time. `labels` are those of the model: each has its own colour.

    The legend comes last, when everything is counted, and stands first on the page.
    """
    hues = {label: round(210 + 137.508 * at) % 360 for at, label in enumerate(labels)}  # the golden angle: far apart
    counts: Counter[str] = Counter()
    texts = 0
    yield (
        '<!doctype html>\n<html lang="zh">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escaped(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>\n"
    )
    for document in documents:
        parts = (_escaped(text) if span is None else _mark(text, span, hues) for text, span in parts_of(document))
        yield f'<p dir="auto">{"".join(parts)}</p>\n'
        counts.update(span.label for span in document.spans)
        texts += 1
    yield f"</main>\n{_legend(counts, hues, texts)}\n</body>\n</html>\n"


def _mark(text: str, span: Span, hues: dict[str, int]) -> str:
    label = _escaped(span.label)
    title = label if span.score is None else f"{label} {span.score:.4f}"
    colour = f'style="--hue:{hues.get(span.label, 0)}"'
    return f'<mark {colour} data-label="{label}" title="{title}">{_escaped(text)}</mark>'


def _legend(counts: Counter[str], hues: dict[str, int], texts: int) -> str:
    labels = (*hues, *sorted(counts.keys() - set(hues)))
    each = [f'<mark style="--hue:{hues.get(label, 0)}">{_escaped(label)}</mark> {counts[label]:,}' for label in labels]
    return f"<footer>{' · '.join([*each, f'{texts:,} text' + ('' if texts == 1 else 's')])}</footer>"


def _escaped(text: str) -> str:
    """Text for a page. What no page can carry or show is an escape, but for white space and what joins emoji."""
    if not text.isprintable():
        text = "".join(c if c in KEPT or category(c) == "Zs" else visible(c) for c in text)
    return html.escape(text)
