"""The two bundled models as plain functions, for scripts: `cut`, `lcut` and `analyse`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hanlattice.document import Document
from hanlattice.predict import bundled, check_text
from hanlattice.text.boundaries import pieces

_SPACE = re.compile(r"\r\n|\s")


def analyse(text: str, *, whole_names: bool = False, min_score: float = 0.0) -> Document:
    """Find the words and entities of a text; the arguments are those of `Predictor.analyse`."""
    return bundled("ner").analyse(text, whole_names=whole_names, min_score=min_score)


def cut(text: str) -> Iterator[str]:
    """Yield the words of a text, cut by the bundled segmenter; joined, they are the text.

    Each white space character is a word, as in jieba, and so is CR LF. The model is loaded at the
    first call and kept. To add words of your own, use `hanlattice.load("seg")`.

    Example:
        >>> list(cut("南京市长江大桥"))
        ['南京市', '长江', '大桥']
    """
    check_text(text)
    segmenter = bundled("seg")
    parts = (text[start:end] for start, end in pieces(text, segmenter.limit))
    return (
        token for document in segmenter.pipe(parts, scores=False) for token in _tokens(document)
    )


def lcut(text: str) -> list[str]:
    """Return the words of a text as a list; see `cut`."""
    return list(cut(text))


def _tokens(document: Document) -> Iterator[str]:
    # Words cover all but white space, so the rest is found between them.
    done = 0
    for word in document.spans:
        yield from _SPACE.findall(document.text[done : word.start])
        yield word.text
        done = word.end
    yield from _SPACE.findall(document.text[done:])
