"""Segmented lines: one sentence a line, its words separated by white space.

White space here is any run of spaces, TABs and ideographic spaces (U+3000), which published corpora use. Every other
character, also U+00A0 or U+2028, belongs to a word. Blank lines are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hanlattice.data.annotated import Corpus
from hanlattice.errors import InputError
from hanlattice.files import keep_first, read_lines, writing
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import WORD, Span

LABEL = WORD
_BETWEEN = " \t\u3000"
_AS_SPACES = str.maketrans(dict.fromkeys(_BETWEEN, " "))


def read_segmented(path: str | Path) -> Corpus:
    """Each line becomes a Sentence whose text is its words joined and whose spans, labelled WORD, are the words."""
    lines = (line.translate(_AS_SPACES) for _, line in read_lines(path))
    return Corpus(tuple(from_words([word for word in line.split(" ") if word]) for line in lines if line.strip(" ")))


def write_segmented(path: str | Path, sentences: Iterable[Sentence]) -> None:
    """Write sentences whose spans are their words, one space between words; the file appears whole or not at all."""
    with writing(path, binary=True) as file:
        for number, sentence in enumerate(sentences, start=1):
            line = " ".join(words_of(sentence, path, number)) + "\n"
            if number == 1:
                line = keep_first(line)
            try:
                file.write(line.encode("utf-8"))
            except UnicodeEncodeError:
                message = f"UTF-8 lines cannot carry the lone surrogate in sentence {number}; use JSONL"
                raise InputError(message, path) from None


def from_words(words: Sequence[str]) -> Sentence:
    """The words in a row as a Sentence."""
    spans, at = [], 0
    for word in words:
        spans.append(Span(at, at + len(word), LABEL))
        at += len(word)
    return Sentence("".join(words), tuple(spans))


def words_of(sentence: Sentence, path: str | Path | None = None, number: int = 1) -> list[str]:
    """The words of a sentence whose spans cover it without a gap; what a line could not carry is an InputError."""
    words, at = [], 0
    for span in sentence.spans or ():
        if span.start != at:
            break
        words.append(sentence.text[span.start : span.end])
        at = span.end
    if at != len(sentence) or not words:
        raise InputError(f"sentence {number} is not segmented: no word covers character {at + 1}", path)
    for word in words:
        if any(character in word for character in _BETWEEN + "\r\n"):
            raise InputError(f"segmented lines cannot carry white space in a word: {word!r}, sentence {number}", path)
    return words
