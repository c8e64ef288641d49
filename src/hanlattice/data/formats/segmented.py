"""Segmented lines: one sentence a line, its words separated by white space.

White space is whatever `str.isspace` accepts: space, TAB, the ideographic space (U+3000) of
published corpora, U+00A0 and so on. No word contains any. Blank lines are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from hanlattice.errors import InputError
from hanlattice.files import atomic_write, keep_first, read_lines
from hanlattice.text.sentence import Corpus, Sentence
from hanlattice.text.span import WORD, Span


def read_segmented(path: str | Path, encoding: str | None = None) -> Corpus:
    """Read each line as a Sentence: its words joined, with spans that are labelled WORD."""
    lines = (line.split() for _, line in read_lines(path, encoding))
    return Corpus(tuple(from_words(words) for words in lines if words))


def write_segmented(path: str | Path, sentences: Iterable[Sentence]) -> None:
    """Write sentences whose spans are their words; the file appears whole or not at all."""
    with atomic_write(path, binary=True) as file:
        for number, sentence in enumerate(sentences, start=1):
            line = " ".join(words_of(sentence, path, number)) + "\n"
            if number == 1:
                line = keep_first(line)
            try:
                file.write(line.encode("utf-8"))
            except UnicodeEncodeError:
                message = f"UTF-8 lines cannot carry the lone surrogate in sentence {number}"
                raise InputError(f"{message}; use JSONL", path) from None


def from_words(words: Sequence[str]) -> Sentence:
    """Make a Sentence of words, which become its spans."""
    edges = pairwise(accumulate(map(len, words), initial=0))
    return Sentence("".join(words), tuple(Span(start, end, WORD) for start, end in edges))


def words_of(sentence: Sentence, path: str | Path | None = None, number: int = 1) -> list[str]:
    """Return a sentence's words; InputError if spans leave a gap, or have white space inside."""
    words = []
    end = 0
    for span in sentence.spans or ():
        if span.start != end:
            break
        words.append(sentence.text[span.start : span.end])
        end = span.end
    if end != len(sentence) or not words:
        problem = f"no word covers character {end + 1}"
        raise InputError(f"sentence {number} is not segmented: {problem}", path)
    for word in words:
        if any(map(str.isspace, word)):
            place = f"{word!r}, sentence {number}"
            raise InputError(f"segmented lines cannot carry white space in a word: {place}", path)
    return words


def segmented_line(text: str, words: Iterable[Span], tagged: bool = False) -> str:
    """Put a space wherever a word begins or ends, unless there is white space.

    If `tagged`, a slash and its label follow each word.
    """
    parts = []
    end = 0
    for word in words:
        before = text[end : word.start]
        after = text[word.end : word.end + 1]
        if before and not before[-1].isspace():
            before += " "
        mark = f"/{word.label}" if tagged else ""
        space = " " if after and not after.isspace() else ""
        parts.append(f"{before}{text[word.start : word.end]}{mark}{space}")
        end = word.end
    return "".join([*parts, text[end:]])
