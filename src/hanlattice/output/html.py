"""Documents as one HTML page: a paragraph for each text, spans marked, and a legend."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import category

from hanlattice.output.lines import parts_of
from hanlattice.predict import Document
from hanlattice.style import TONES, light_and_dark, page_shell, tones
from hanlattice.text.display import counted, visible
from hanlattice.text.spans import Span

KEPT = "\n\t\u200c\u200d"  # line ends and TABs, and what holds letters or emoji apart or together
STYLE = """
body { display: flex; flex-direction: column; max-width: 46rem; font-size: 1.05rem; line-height: 2; }
p { margin: 0 0 .5rem; min-height: 2em; white-space: pre-wrap; overflow-wrap: anywhere; }
mark { margin: 0 .08em; padding: .1em .2em; border-radius: .25em; color: inherit; unicode-bidi: isolate;
  background: #80808033; border-bottom: .12em solid #808080;
  box-decoration-break: clone; -webkit-box-decoration-break: clone; }
mark[data-label]::after { content: attr(data-label); margin-left: .35em;
  font-size: .62em; font-weight: 600; opacity: .75; }
footer { order: -1; margin-bottom: 1rem; color: var(--faint); font-size: .85rem; }
footer mark { color: var(--ink); }
""".strip()


def html_page(documents: Iterable[Document], labels: Sequence[str], title: str = "hanlattice") -> Iterator[str]:
    """The page piece by piece, a document at a time. `labels` are those of the model: each has its own colour."""
    return page_shell(title, f"{STYLE}\n{_tones()}", _body(documents, tones(labels)))


def _body(documents: Iterable[Document], places: dict[str, int]) -> Iterator[str]:
    """The legend comes last, when everything is counted, and stands first on the page."""
    counts: Counter[str] = Counter()
    texts = 0
    yield "<main>\n"
    for document in documents:
        parts = (_escaped(text) if span is None else _mark(text, span, places) for text, span in parts_of(document))
        yield f'<p dir="auto">{"".join(parts)}</p>\n'
        counts.update(span.label for span in document.spans)
        texts += 1
    yield f"</main>\n{_legend(counts, places, texts)}\n"


def _tones() -> str:
    """The colours of marks: a tint and a line."""
    light, dark = (
        "".join(f".t{at} {{ background: {tone[n]}33; border-color: {tone[n]}; }}\n" for at, tone in enumerate(TONES))
        for n in (0, 1)
    )
    return light_and_dark(light, f"\n{dark}")


def _mark(text: str, span: Span, places: dict[str, int]) -> str:
    label = _escaped(span.label)
    title = label if span.score is None else f"{label} {span.score:.4f}"
    return f'<mark{_look(span.label, places)} data-label="{label}" title="{title}">{_escaped(text)}</mark>'


def _look(label: str, places: dict[str, int]) -> str:
    """The class of a label; one that is not among the model's labels is grey."""
    return f' class="t{places[label]}"' if label in places else ""


def _legend(counts: Counter[str], places: dict[str, int], texts: int) -> str:
    labels = (*places, *sorted(counts.keys() - set(places)))
    each = [f"<mark{_look(label, places)}>{_escaped(label)}</mark> {counts[label]:,}" for label in labels]
    return f"<footer>{' · '.join([*each, counted(texts, 'text')])}</footer>"


def _escaped(text: str) -> str:
    """Text for a page. What a page cannot hold or show becomes an escape, except white space and what joins emoji."""
    if not text.isprintable():
        text = "".join(c if c in KEPT or category(c) == "Zs" else visible(c) for c in text)
    return html.escape(text)
