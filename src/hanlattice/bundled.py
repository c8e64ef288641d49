"""The two bundled models as plain functions, for scripts: `cut`, `lcut` and `analyse`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hanlattice.document import Document
from hanlattice.predict import bundled, check_text
from hanlattice.text.boundaries import pieces

_SPACE = re.compile(r"\r\n|\s")


def analyse(text: str, *, whole_names: bool = False, min_score: float = 0.0) -> Document:
    """Words and entities of a text with the two bundled models; the arguments are those of
    `Predictor.analyse`.
    """
    return bundled("ner").analyse(text, whole_names=whole_names, min_score=min_score)


def cut(text: str) -> Iterator[str]:
    """The words of a text, cut by the bundled segmenter, one after the other; joined they are the
    text.

    White space is a token for each character, or CR LF, as in jieba. The model is loaded at the
    first call and kept. For words of your own, load one: `hanlattice.load("seg")`.
    """
    check_text(text)
    segmenter = bundled("seg")
    parts = (text[start:end] for start, end in pieces(text, segmenter.limit))
    return (
        token for document in segmenter.pipe(parts, scores=False) for token in _tokens(document)
    )


def lcut(text: str) -> list[str]:
    """The words of a text as a list; `cut` says more."""
    return list(cut(text))


def _tokens(document: Document) -> Iterator[str]:
    at = 0
    for word in document.spans:
        yield from _SPACE.findall(document.text[at : word.start])
        yield word.text
        at = word.end
    yield from _SPACE.findall(document.text[at:])
