"""Write documents as JSONL, CoNLL columns, inline marks, coloured lines, or one HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hanlattice.data.formats.columns import format_columns
from hanlattice.document import Document, parts_of
from hanlattice.text.display import counted, visible
from hanlattice.text.sentence import cover_space
from hanlattice.theme import TONES, escaped, light_and_dark, page_shell, tones


def as_jsonl(document: Document) -> str:
    """Return one line: `{"text": …, "spans": […]}`, with `"words"` and `"candidates"` if known."""
    return document.to_json() + "\n"


def as_conll(document: Document, scheme: str = "BMES") -> str:
    """Return a line for each character, with its tag, and an empty line at the end.

    If the words are known, their tags are a column between the two.
    """
    words = None if document.cuts else document.words
    covering = None if words is None else cover_space(words, document.text)
    return format_columns(document.text, document.spans, scheme, covering) + "\n"


def as_inline(document: Document) -> str:
    """Return one line for people to read: `[南京市/LOC][长江大桥/LOC]`.

    Brackets in the text are not escaped. If words are known beside the entities, spaces separate
    them: `[南京市/LOC] [长江 大桥/LOC]`.
    """
    parts = parts_of(document)
    marked = (text if span is None else f"[{text}/{span.label}]" for text, span in parts)
    return "".join(marked) + "\n"


def terminal_lines(
    documents: Iterable[Document], labels: Sequence[str], colour: bool = True
) -> Iterator[str]:
    """Yield a line for each document, as soon as it comes, and a legend at the end.

    Control characters, and others that a terminal cannot show, become escapes. Each of the labels
    has a colour; without `colour`, marks stay and colours go.
    """
    inks = {}
    if colour:
        # The ANSI sequence for one of 256 text colours.
        inks = {label: f"38;5;{TONES[tone].terminal}" for label, tone in tones(labels).items()}
    counts: Counter[str] = Counter()
    texts = 0
    for document in documents:
        line = ""
        for text, span in parts_of(document):
            shown = visible(text)
            if span is None:
                line += shown
            elif span.label in inks:
                # 1 is bold, 22 ends bold, 0 ends everything.
                mark = f"[\x1b[1m{shown}\x1b[22m/{visible(span.label)}]"
                line += f"\x1b[{inks[span.label]}m{mark}\x1b[0m"
            else:
                line += f"[{shown}/{visible(span.label)}]"
        yield line + "\n"
        counts.update(span.label for span in document.spans)
        texts += 1
    legend = []
    # Labels that were not found are in the legend too, to explain the colours.
    for label in (*labels, *sorted(counts.keys() - set(labels))):
        name = visible(label)
        if label in inks:
            name = f"\x1b[1;{inks[label]}m{name}\x1b[0m"
        legend.append(f"{name} {counts[label]:,}")
    yield "\n" + " · ".join([*legend, counted(texts, "text")]) + "\n"


STYLE = """
body { display: flex; flex-direction: column; max-width: 46rem; \
font-size: 1.05rem; line-height: 2; }
p { margin: 0 0 .5rem; min-height: 2em; white-space: pre-wrap; overflow-wrap: anywhere; }
mark { margin: 0 .08em; padding: .1em .2em; border-radius: .25em; color: inherit; \
unicode-bidi: isolate;
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
    """Yield a page piece by piece, a document at a time; each of the labels has a colour."""
    light = ""
    dark = "\n"
    for number, tone in enumerate(TONES):
        light += f".t{number} {{ background: {tone.light}33; border-color: {tone.light}; }}\n"
        dark += f".t{number} {{ background: {tone.dark}33; border-color: {tone.dark}; }}\n"
    rules = f"{STYLE}\n{light_and_dark(light, dark)}"
    return page_shell(title, rules, _body(documents, tones(labels)))


def _body(documents: Iterable[Document], tone_of: dict[str, int]) -> Iterator[str]:
    # Labels that the model does not have, such as a dictionary's, have no class and are grey.
    classes = {label: f' class="t{tone}"' for label, tone in tone_of.items()}
    counts: Counter[str] = Counter()
    texts = 0
    yield "<main>\n"
    for document in documents:
        line = ""
        for text, span in parts_of(document):
            if span is None:
                line += escaped(text)
                continue
            label = escaped(span.label)
            title = label if span.score is None else f"{label} {span.score:.4f}"
            attributes = f'{classes.get(span.label, "")} data-label="{label}" title="{title}"'
            line += f"<mark{attributes}>{escaped(text)}</mark>"
        yield f'<p dir="auto">{line}</p>\n'
        counts.update(span.label for span in document.spans)
        texts += 1
    # The legend is written last, when everything is counted; the style puts it first.
    legend = []
    for label in (*tone_of, *sorted(counts.keys() - set(tone_of))):
        mark = f"<mark{classes.get(label, '')}>{escaped(label)}</mark>"
        legend.append(f"{mark} {counts[label]:,}")
    footer = " · ".join([*legend, counted(texts, "text")])
    yield f"</main>\n<footer>{footer}</footer>\n"
