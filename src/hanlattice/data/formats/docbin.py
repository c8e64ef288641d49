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

# Bytes that are unpacked at a time.
_CHUNK = 1 << 20


def read_docbin(path: str | Path) -> Corpus:
    """Read a Sentence for each document: its text and entities, but not its tokens.

    Tokens need not be words.
    """
    tokens = require("spacy", "tokens")
    vocab = require("spacy", "vocab").Vocab()
    with opening(path) as file:
        content = file.read()
    try:
        _check_whole(content)
        docs = list(tokens.DocBin().from_bytes(content).get_docs(vocab))
    # zlib, msgpack and spaCy have each their own errors.
    except Exception as error:
        problem = f"it is not a DocBin of spaCy, or a damaged one: {brief(str(error))}"
        raise InputError(problem, path) from None
    sentences = []
    for number, doc in enumerate(docs, start=1):
        try:
            if doc.text:
                entities = [
                    Span(e.start_char, e.end_char, check_label(e.label_), None, e.text)
                    for e in doc.ents
                ]
                sentences.append(Sentence(doc.text, tuple(entities)))
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


def write_docbin(path: str | Path, sentences: Iterable[Sentence]) -> None:
    """Write documents, whose tokens are words, or characters where words are not known.

    A token ends where an entity begins or ends.
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
    words = sentence.words or [Span(index, index + 1, WORD) for index in range(len(text))]
    edges = {edge for span in spans for edge in (span.start, span.end)}
    pieces = []
    for word in words:
        if not text[word.start : word.end].isspace():
            inner = [edge for edge in range(word.start + 1, word.end) if edge in edges]
            places = pairwise([word.start, *inner, word.end])
            pieces += [Span(low, high, word.label) for low, high in places]
    parts, spaces, tags = tokens_of(text, pieces)
    doc = make(vocab, parts, spaces, tags=tags if any(tags) else None)
    entities = [doc.char_span(span.start, span.end, label=span.label) for span in spans]
    if None in entities:
        wrong = spans[entities.index(None)]
        entity = repr(text[wrong.start : wrong.end])
        raise ValueError(f"the entity {entity} begins or ends with white space")
    doc.ents = entities
    return doc


def tokens_of(text: str, words: Sequence[Span]) -> tuple[list[str], list[bool], list[str]]:
    """Return tokens: words, and runs of white space between them.

    Returns:
        The tokens, whether the one space after each belongs to it, and their parts of speech.
    """
    tokens: list[str] = []
    spaces: list[bool] = []
    tags: list[str] = []
    end_before = 0
    places = [(span.start, span.end, "" if span.label == WORD else span.label) for span in words]
    for start, end, tag in [*places, (len(text), len(text), "")]:
        if tokens and text.startswith(" ", end_before):
            spaces[-1] = True
            end_before += 1
        for token, its_tag in ((text[end_before:start], ""), (text[start:end], tag)):
            if token:
                tokens.append(token)
                spaces.append(False)
                tags.append(its_tag)
        end_before = end
    return tokens, spaces, tags
