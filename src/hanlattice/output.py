"""Documents as lines of JSONL, CoNLL columns or inline marks, in colours for a terminal, and as one
HTML page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hanlattice.data.formats.columns import format_columns
from hanlattice.document import Document, parts_of
from hanlattice.text.display import counted, visible
from hanlattice.text.sentence import cover_space
from hanlattice.text.span import Span
from hanlattice.theme import TONES, escaped, light_and_dark, page_shell, tones


def as_jsonl(document: Document) -> str:
    """`{"text": …, "spans": […]}`, and `"words"` and `"candidates"` where the document has them."""
    return document.to_json() + "\n"


def as_conll(document: Document, scheme: str = "BMES") -> str:
    """A character and its tag on each line, and an empty line after the last; words, if known, are
    a column between.
    """
    words = None if document.cuts else document.words
    covering = None if words is None else cover_space(words, document.text)
    return format_columns(document.text, document.spans, scheme, covering) + "\n"


def as_inline(document: Document) -> str:
    """`[南京市/LOC][长江大桥/LOC]`. Brackets of the text itself stay as they are: this is for people.

    Where words are known beside the entities, a space stands between them: `[南京市/LOC] [长江 大桥/LOC]`.
    """
    parts = (
        text if span is None else f"[{text}/{span.label}]" for text, span in parts_of(document)
    )
    return "".join(parts) + "\n"


def terminal_lines(
    documents: Iterable[Document], labels: Sequence[str], colour: bool = True
) -> Iterator[str]:
    """A line for each document, as soon as it comes, and a legend at the end. `labels` are those of
    the model.

    What a terminal would obey, or could not show, is an escape. Without `colour` the same marks
    stand in plain text.
    """
    inks = (
        {label: f"38;5;{TONES[at].terminal}" for label, at in tones(labels).items()}
        if colour
        else {}
    )
    counts: Counter[str] = Counter()
    texts = 0
    for document in documents:
        parts = (
            visible(text) if span is None else _mark(text, span.label, inks)
            for text, span in parts_of(document)
        )
        yield "".join(parts) + "\n"
        counts.update(span.label for span in document.spans)
        texts += 1
    yield _legend(counts, labels, inks, texts)


def _mark(text: str, label: str, inks: dict[str, str]) -> str:
    if label not in inks:
        return f"[{visible(text)}/{visible(label)}]"
    return f"\x1b[{inks[label]}m[\x1b[1m{visible(text)}\x1b[22m/{visible(label)}]\x1b[0m"


def _legend(counts: Counter[str], labels: Sequence[str], inks: dict[str, str], texts: int) -> str:
    """A line under an empty one; labels that were not found stay in it, so that the colours are
    explained.
    """
    each = [
        _named(label, inks) + f" {counts[label]:,}"
        for label in (*labels, *sorted(counts.keys() - set(labels)))
    ]
    return "\n" + " · ".join([*each, counted(texts, "text")]) + "\n"


def _named(label: str, inks: dict[str, str]) -> str:
    return f"\x1b[1;{inks[label]}m{visible(label)}\x1b[0m" if label in inks else visible(label)


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


def html_page(
    documents: Iterable[Document], labels: Sequence[str], title: str = "hanlattice"
) -> Iterator[str]:
    """The page piece by piece, a document at a time. `labels` are those of the model: each has its
    own colour.
    """
    return page_shell(title, f"{STYLE}\n{_tones()}", _body(documents, tones(labels)))


def _body(documents: Iterable[Document], places: dict[str, int]) -> Iterator[str]:
    """The legend comes last, when everything is counted, and stands first on the page."""
    counts: Counter[str] = Counter()
    texts = 0
    yield "<main>\n"
    for document in documents:
        parts = (
            escaped(text) if span is None else _marked(text, span, places)
            for text, span in parts_of(document)
        )
        yield f'<p dir="auto">{"".join(parts)}</p>\n'
        counts.update(span.label for span in document.spans)
        texts += 1
    yield f"</main>\n{_page_legend(counts, places, texts)}\n"


def _tones() -> str:
    """The colours of marks: a tint and a line."""
    light, dark = (
        "".join(
            f".t{at} {{ background: {tone[n]}33; border-color: {tone[n]}; }}\n"
            for at, tone in enumerate(TONES)
        )
        for n in (0, 1)
    )
    return light_and_dark(light, f"\n{dark}")


def _marked(text: str, span: Span, places: dict[str, int]) -> str:
    label = escaped(span.label)
    title = label if span.score is None else f"{label} {span.score:.4f}"
    return f'<mark{_look(span.label, places)} data-label="{label}" title="{title}">{escaped(text)}</mark>'


def _look(label: str, places: dict[str, int]) -> str:
    """The class of a label; one that is not among the model's labels is grey."""
    return f' class="t{places[label]}"' if label in places else ""


def _page_legend(counts: Counter[str], places: dict[str, int], texts: int) -> str:
    labels = (*places, *sorted(counts.keys() - set(places)))
    each = [
        f"<mark{_look(label, places)}>{escaped(label)}</mark> {counts[label]:,}" for label in labels
    ]
    return f"<footer>{' · '.join([*each, counted(texts, 'text')])}</footer>"
