"""Segmented lines: one sentence a line, its words separated by white space.

White space is whatever `str.isspace` accepts: space, TAB, the ideographic space (U+3000) of
published corpora, U+00A0 and so on. No word contains any. Blank lines are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hanlattice.errors import InputError
from hanlattice.files import atomic_write, keep_first, read_lines
from hanlattice.text.sentence import Corpus, Sentence
from hanlattice.text.span import WORD, Span


def read_segmented(path: str | Path, encoding: str | None = None) -> Corpus:
    """Each line becomes a Sentence whose text is its words joined and whose spans, labelled WORD,
    are the words.
    """
    lines = (line.split() for _, line in read_lines(path, encoding))
    return Corpus(tuple(from_words(words) for words in lines if words))


def write_segmented(path: str | Path, sentences: Iterable[Sentence]) -> None:
    """Write sentences whose spans are their words, one space between words; the file is written
    atomically.
    """
    with atomic_write(path, binary=True) as file:
        for number, sentence in enumerate(sentences, start=1):
            line = " ".join(words_of(sentence, path, number)) + "\n"
            if number == 1:
                line = keep_first(line)
            try:
                file.write(line.encode("utf-8"))
            except UnicodeEncodeError:
                message = (
                    f"UTF-8 lines cannot carry the lone surrogate in sentence {number}; use JSONL"
                )
                raise InputError(message, path) from None


def from_words(words: Sequence[str]) -> Sentence:
    """The Sentence that these words make."""
    spans = []
    at = 0
    for word in words:
        spans.append(Span(at, at + len(word), WORD))
        at += len(word)
    return Sentence("".join(words), tuple(spans))


def words_of(sentence: Sentence, path: str | Path | None = None, number: int = 1) -> list[str]:
    """The words of a sentence whose spans cover it without a gap; white space in a word is an
    InputError.
    """
    words = []
    at = 0
    for span in sentence.spans or ():
        if span.start != at:
            break
        words.append(sentence.text[span.start : span.end])
        at = span.end
    if at != len(sentence) or not words:
        raise InputError(
            f"sentence {number} is not segmented: no word covers character {at + 1}", path
        )
    for word in words:
        if any(map(str.isspace, word)):
            raise InputError(
                f"segmented lines cannot carry white space in a word: {word!r}, sentence {number}",
                path,
            )
    return words


def segmented_line(text: str, words: Iterable[Span], tagged: bool = False) -> str:
    """The text with a space wherever a word begins or ends next to no white space; nothing else
    changes.

    If `tagged`, a slash and its label follow each word.
    """
    parts = []
    at = 0
    for word in words:
        before = text[at : word.start]
        after = text[word.end : word.end + 1]
        if before and not before[-1].isspace():
            before += " "
        mark = f"/{word.label}" if tagged else ""
        space = " " if after and not after.isspace() else ""
        parts.append(f"{before}{text[word.start : word.end]}{mark}{space}")
        at = word.end
    return "".join([*parts, text[at:]])
