"""Documents for a terminal: marks in the text, each label in its colour, and how often each was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hanlattice.explain.colours import TONES, tones
from hanlattice.output.lines import parts_of
from hanlattice.predict import Document
from hanlattice.text.display import visible


def terminal_lines(documents: Iterable[Document], labels: Sequence[str], colour: bool = True) -> Iterator[str]:
    """A line for each document, as soon as it comes, and a legend at the end. `labels` are those of the model.

    What a terminal would obey, or could not show, is an escape. Without `colour` the same marks stand in plain text.
    """
    inks = {label: f"38;5;{TONES[at].terminal}" for label, at in tones(labels).items()} if colour else {}
    counts: Counter[str] = Counter()
    texts = 0
    for document in documents:
        parts = (visible(text) if span is None else _mark(text, span.label, inks) for text, span in parts_of(document))
        yield "".join(parts) + "\n"
        counts.update(span.label for span in document.spans)
        texts += 1
    yield _legend(counts, labels, inks, texts)


def _mark(text: str, label: str, inks: dict[str, str]) -> str:
    if label not in inks:
        return f"[{visible(text)}/{visible(label)}]"
    return f"\x1b[{inks[label]}m[\x1b[1m{visible(text)}\x1b[22m/{visible(label)}]\x1b[0m"


def _legend(counts: Counter[str], labels: Sequence[str], inks: dict[str, str], texts: int) -> str:
    """A line under an empty one; labels that were not found stay in it, so that the colours are explained."""
    each = [_named(label, inks) + f" {counts[label]:,}" for label in (*labels, *sorted(counts.keys() - set(labels)))]
    return "\n" + " · ".join([*each, f"{texts:,} text{'' if texts == 1 else 's'}"]) + "\n"


def _named(label: str, inks: dict[str, str]) -> str:
    return f"\x1b[1;{inks[label]}m{visible(label)}\x1b[0m" if label in inks else visible(label)
