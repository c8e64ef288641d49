"""Documents as one page that needs nothing else: a paragraph for each text, spans marked, and a legend."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import category

from hanlattice.explain.colours import TONES, tones
from hanlattice.output.lines import parts_of
from hanlattice.predict import Document
from hanlattice.text.display import visible
from hanlattice.text.spans import Span

KEPT = "\n\t\u200c\u200d"  # line ends and TABs, and what holds letters or emoji apart or together
STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1d1d1f; --quiet: #6b6b70; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #17181a; --ink: #e8e8ea; --quiet: #9a9aa0; }
}
body { display: flex; flex-direction: column; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--ground); color: var(--ink);
  font: 1.05rem/2 "Noto Sans SC", "PingFang SC", "Microsoft YaHei", sans-serif; }
p { margin: 0 0 .5rem; min-height: 2em; white-space: pre-wrap; overflow-wrap: anywhere; }
mark { margin: 0 .08em; padding: .1em .2em; border-radius: .25em; color: inherit; unicode-bidi: isolate;
  background: #80808033; border-bottom: .12em solid #808080;
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
    places = tones(labels)
    counts: Counter[str] = Counter()
    texts = 0
    yield (
        '<!doctype html>\n<html lang="zh">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escaped(title)}</title>\n<style>\n{STYLE}\n{_tones()}\n</style>\n</head>\n<body>\n<main>\n"
    )
    for document in documents:
        parts = (_escaped(text) if span is None else _mark(text, span, places) for text, span in parts_of(document))
        yield f'<p dir="auto">{"".join(parts)}</p>\n'
        counts.update(span.label for span in document.spans)
        texts += 1
    yield f"</main>\n{_legend(counts, places, texts)}\n</body>\n</html>\n"


def _tones() -> str:
    """The colours of marks: a tint and a line, light and, where the reader's system is, dark."""
    light, dark = (
        "".join(f".t{at} {{ background: {tone[n]}33; border-color: {tone[n]}; }}\n" for at, tone in enumerate(TONES))
        for n in (0, 1)
    )
    return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}"


def _mark(text: str, span: Span, places: dict[str, int]) -> str:
    label = _escaped(span.label)
    title = label if span.score is None else f"{label} {span.score:.4f}"
    return f'<mark{_look(span.label, places)} data-label="{label}" title="{title}">{_escaped(text)}</mark>'


def _look(label: str, places: dict[str, int]) -> str:
    """The class of a label; one that the model was not said to have is grey."""
    return f' class="t{places[label]}"' if label in places else ""


def _legend(counts: Counter[str], places: dict[str, int], texts: int) -> str:
    labels = (*places, *sorted(counts.keys() - set(places)))
    each = [f"<mark{_look(label, places)}>{_escaped(label)}</mark> {counts[label]:,}" for label in labels]
    return f"<footer>{' · '.join([*each, f'{texts:,} text' + ('' if texts == 1 else 's')])}</footer>"


def _escaped(text: str) -> str:
    """Text for a page. What no page can carry or show is an escape, but for white space and what joins emoji."""
    if not text.isprintable():
        text = "".join(c if c in KEPT or category(c) == "Zs" else visible(c) for c in text)
    return html.escape(text)
