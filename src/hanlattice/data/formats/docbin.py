"""spaCy's DocBin: a file of documents with tokens and entities. It needs the extra `spacy`."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from hanlattice.checks import brief
from hanlattice.errors import InputError
from hanlattice.files import atomic_write, opening
from hanlattice.optional import require
from hanlattice.text.sentence import Corpus, Sentence
from hanlattice.text.span import WORD, Span
from hanlattice.text.tags import check_label

_CHUNK = 1 << 20  # bytes


def read_docbin(path: str | Path) -> Corpus:
    """A Sentence for each document: its text and its entities. Its tokens need not be words, and
    are passed over.
    """
    tokens = require("spacy", "tokens")
    vocab = require("spacy", "vocab").Vocab()
    with opening(path) as file:
        content = file.read()
    try:
        _check_whole(content)
        docs = list(tokens.DocBin().from_bytes(content).get_docs(vocab))
    except Exception as error:  # zlib, msgpack and spaCy have each their own
        raise InputError(
            f"it is not a DocBin of spaCy, or a damaged one: {brief(str(error))}", path
        ) from None
    sentences = []
    for number, doc in enumerate(docs, start=1):
        try:
            if doc.text:
                sentences.append(_sentence(doc))
        except ValueError as error:
            raise InputError(f"document {number}: {error}", path) from None
    return Corpus(tuple(sentences))


def _check_whole(content: bytes) -> None:
    """Raise if the compressed data are cut short, or end before the file does.

    zlib.decompress, which spaCy calls, leaves out what follows the data.
    """
    decompressor = zlib.decompressobj()
    rest = content
    while rest and not decompressor.eof:
        decompressor.decompress(rest, _CHUNK)
        rest = decompressor.unconsumed_tail
    if not decompressor.eof:
        raise ValueError("it is cut short")
    if decompressor.unused_data:
        raise ValueError(f"{len(decompressor.unused_data):,} bytes follow its end")


def _sentence(doc: Any) -> Sentence:
    spans = [Span(e.start_char, e.end_char, check_label(e.label_), None, e.text) for e in doc.ents]
    return Sentence(doc.text, tuple(spans))


def write_docbin(path: str | Path, sentences: Iterable[Sentence]) -> None:
    """Write documents whose tokens are the words or, where these are not known, characters;
    entities cut tokens.
    """
    tokens = require("spacy", "tokens")
    vocab = require("spacy", "vocab").Vocab()
    file_of = tokens.DocBin(attrs=["ORTH", "SPACY", "TAG", "ENT_IOB", "ENT_TYPE"])
    for number, sentence in enumerate(sentences, start=1):
        try:
            file_of.add(_doc(sentence, tokens.Doc, vocab))
        except (ValueError, UnicodeEncodeError) as error:
            raise InputError(f"spaCy cannot carry sentence {number}: {error}", path) from None
    with atomic_write(path, binary=True) as file:
        file.write(file_of.to_bytes())


def _doc(sentence: Sentence, make: Any, vocab: Any) -> Any:
    text = sentence.text
    spans = sentence.spans or ()
    words = sentence.words or [Span(at, at + 1, WORD) for at in range(len(text))]
    words = [word for word in words if not text[word.start : word.end].isspace()]
    edges = {edge for span in spans for edge in (span.start, span.end)}
    parts, spaces, tags = tokens_of(text, [part for word in words for part in _cut(word, edges)])
    doc = make(vocab, parts, spaces, tags=tags if any(tags) else None)
    entities = [doc.char_span(span.start, span.end, label=span.label) for span in spans]
    if None in entities:
        wrong = spans[entities.index(None)]
        raise ValueError(
            f"the entity {text[wrong.start : wrong.end]!r} begins or ends with white space"
        )
    doc.ents = entities
    return doc


def _cut(word: Span, edges: set[int]) -> list[Span]:
    inner = [at for at in range(word.start + 1, word.end) if at in edges]
    return [Span(low, high, word.label) for low, high in pairwise([word.start, *inner, word.end])]


def tokens_of(text: str, words: Sequence[Span]) -> tuple[list[str], list[bool], list[str]]:
    """Words and runs of white space in order, whether the one space after each belongs to it, and
    parts of speech.
    """
    tokens: list[str] = []
    spaces: list[bool] = []
    tags: list[str] = []
    at = 0
    places = [(span.start, span.end, "" if span.label == WORD else span.label) for span in words]
    for start, end, tag in [*places, (len(text), len(text), "")]:
        if tokens and text.startswith(" ", at):
            spaces[-1] = True
            at += 1
        for token, its_tag in ((text[at:start], ""), (text[start:end], tag)):
            if token:
                tokens.append(token)
                spaces.append(False)
                tags.append(its_tag)
        at = end
    return tokens, spaces, tags
