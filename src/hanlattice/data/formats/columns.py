"""Character columns: a character, a TAB and its tag on each line, a blank line between sentences.

One column between the two may give the words: B, M, E or S for the character's place in its word,
with a hyphen and the word's part of speech where that is known (`南 TAB B-ns TAB B-LOC`). Anything
else in between is ignored, and spaces may replace the TAB. The first code point of a line is the
character whatever it is, even a space, a TAB, NUL, CR or U+2028. A line feed or a lone surrogate
cannot be written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from hanlattice.errors import InputError, TagError
from hanlattice.files import atomic_write, keep_first, read_lines
from hanlattice.text.sentence import Corpus, Sentence, check_words
from hanlattice.text.span import WORD, Span
from hanlattice.text.tags import (
    EXPECTED,
    LONGEST_LABEL,
    SCHEMES,
    check_prefix,
    detect_scheme,
    illegal_places,
    schemes_with,
    spans_to_tags,
    split_tag,
    tags_to_spans,
)


class _SentenceLines(NamedTuple):
    """The lines of one sentence, which are consecutive; `line` is the number of the first."""

    line: int
    characters: tuple[str, ...]
    between: tuple[str, ...]  # the columns between character and tag
    tags: tuple[str, ...]


def read_columns(path: str | Path, scheme: str = "auto", encoding: str | None = None) -> Corpus:
    """Read a column file. IOB1 becomes BIO with a notice; tags that fit nothing are an error that
    names the line.
    """
    if scheme not in ("auto", "IOB1", *SCHEMES):
        raise InputError(
            f"no tag scheme is called {scheme!r}: expected auto, {', '.join(SCHEMES)} or IOB1"
        )
    blocks = list(_blocks(path, encoding))
    _check_tags(blocks, path, scheme)
    found = detect_scheme(block.tags for block in blocks) if scheme == "auto" else scheme
    words, notices = _words(blocks, path)
    sentences = tuple(
        Sentence("".join(block.characters), tuple(tags_to_spans(block.tags, found)), row)
        for block, row in zip(blocks, words, strict=True)
    )
    if found == "IOB1":
        notice = f"{path}: the tags are IOB1 (a span begins with I); they were converted to BIO"
        bio = tuple(
            tuple(spans_to_tags(sentence.spans or (), len(sentence), "BIO"))
            for sentence in sentences
        )
        return Corpus(sentences, "BIO", bio, (notice, *notices))
    tags = tuple(block.tags for block in blocks)
    return Corpus(sentences, found, tags, (*_illegal(blocks, path, found), *notices))


def write_columns(path: str | Path, sentences: Iterable[Sentence], scheme: str = "BMES") -> None:
    """Write sentences as columns, all with their words or all without; the file is written
    atomically.
    """
    segmented: bool | None = None
    with atomic_write(path, binary=True) as file:
        for number, sentence in enumerate(sentences, start=1):
            if not sentence.text:
                raise InputError(f"columns cannot carry an empty text (sentence {number})", path)
            has_words = sentence.words is not None
            if segmented not in (None, has_words):
                raise InputError(
                    f"only one of sentences 1 and {number} has words: all or none must have them",
                    path,
                )
            segmented = has_words
            block = (
                format_columns(sentence.text, sentence.spans or (), scheme, sentence.words) + "\n"
            )
            if number == 1:
                block = keep_first(block)
            try:
                file.write(block.encode("utf-8"))
            except UnicodeEncodeError as error:
                code = ord(block[error.start])
                message = f"UTF-8 columns cannot carry the lone surrogate U+{code:04X} (sentence {number}); use JSONL"
                raise InputError(message, path) from None


def format_columns(
    text: str, spans: Iterable[Span], scheme: str = "BMES", words: Sequence[Span] | None = None
) -> str:
    """One sentence as column text, each line with its end; the caller adds the blank line after the
    sentence.
    """
    if scheme not in SCHEMES:
        raise InputError(
            f"no tag scheme called {scheme!r} can be written: expected {', '.join(SCHEMES)}"
        )
    if "\n" in text:
        raise InputError(
            f"columns cannot carry a line feed (character {text.index(chr(10)) + 1}); use JSONL"
        )
    spans = tuple(spans)
    for span in (*spans, *(words or ())):
        if any(character in span.label for character in " \t\r\n") or not span.label:
            raise InputError(
                f"columns cannot carry the label {span.label!r}: it is empty or has white space in it"
            )
    columns = [list(text), spans_to_tags(spans, len(text), scheme)]
    if words is not None:
        check_words(words, len(text))
        positions = spans_to_tags(words, len(text), "BMES")
        columns.insert(1, [tag[0] if tag[2:] == WORD else tag for tag in positions])
    return "".join("\t".join(row) + "\n" for row in zip(*columns, strict=True))


def _blocks(path: str | Path, encoding: str | None) -> Iterator[_SentenceLines]:
    for is_blank, lines in groupby(
        read_lines(path, encoding), key=lambda line: not line[1].strip(" \t")
    ):
        if not is_blank:
            rows = [(number, *_split(line, path, number)) for number, line in lines]
            (first, *_), *columns = zip(*rows, strict=True)
            yield _SentenceLines(first, *columns)


def _split(line: str, path: str | Path, number: int) -> tuple[str, str, str]:
    """Character, the columns in between (separated by spaces), and tag."""
    rest = line[1:].rstrip(" \t").replace("\t", " ")
    between, _, tag = rest.rpartition(" ")
    if rest and rest[0] == " " and tag:
        return line[0], sys.intern(between.strip(" ")), sys.intern(tag)
    first = line.replace("\t", " ").partition(" ")[0]
    if len(first) > 1 and len(first) < len(line.rstrip(" \t")):
        problem = f"the first column must be one character (one code point), not {first[:20]!r}"
    else:
        problem = f"a column is missing: expected a character, a TAB and a tag, not {line[:40]!r}"
    raise InputError(problem + _hint(line), path, number)


def _hint(line: str) -> str:
    """A hint for a line that looks like segmented words: tags and parts of speech are seldom
    Chinese.
    """
    later = line.split()[1:]
    if all(field.isascii() or "-" in field for field in later):
        return ""
    return '; if its lines are words with spaces between, it is format "segmented" (data.format, or --format)'


def _check_tags(blocks: Iterable[_SentenceLines], path: str | Path, scheme: str) -> None:
    """Each different tag is checked once; the error names the line where the tags stop fitting any
    scheme.
    """
    seen: set[str] = set()
    prefixes: set[str] = set()
    for block in blocks:
        for at, tag in enumerate(block.tags):
            if tag in seen:
                continue
            seen.add(tag)
            try:
                prefix = split_tag(tag)[0]
                if scheme != "auto":
                    check_prefix(tag, prefix, scheme)
                elif not schemes_with(prefixes | {prefix}):
                    before = ", ".join(sorted(prefixes - {prefix})) or "nothing"
                    raise TagError(
                        f"{tag!r} after tags with the prefixes {before} fits no scheme: {EXPECTED}"
                    )
                prefixes.add(prefix)
            except TagError as error:
                line = f"{block.characters[at]} {block.between[at]} {tag}"
                raise TagError(error.message + _hint(line), path, block.line + at) from None


def _illegal(blocks: Iterable[_SentenceLines], path: str | Path, scheme: str) -> tuple[str, ...]:
    """A notice with the number of places where a tag does not fit the one before it."""
    lines = [block.line + at for block in blocks for at in illegal_places(block.tags, scheme)]
    if not lines:
        return ()
    places = "1 place" if len(lines) == 1 else f"{len(lines)} places"
    return (
        f"{path}: tags break the rules of {scheme} in {places}, first at line {lines[0]}; no span is made of them",
    )


def _words(
    blocks: Sequence[_SentenceLines], path: str | Path
) -> tuple[Sequence[tuple[Span, ...] | None], tuple[str, ...]]:
    """The words of each block if the column in between gives them on every line; a notice if it
    nearly does.
    """
    as_tag = cache(_word_tag)
    tags = [[as_tag(between) for between in block.between] for block in blocks]
    others = sum(row.count("O") for row in tags)
    if 2 * others >= sum(map(len, tags)):  # it is another kind of column
        return [None] * len(blocks), ()
    for block, row in zip(blocks, tags, strict=True):
        wrong = [*illegal_places(row, "BMES"), *([row.index("O")] if "O" in row else [])]
        if wrong:
            line = block.line + min(wrong)
            notice = f"{path}: the word column breaks the rules of BMES, first at line {line}; no words are made of it"
            return [None] * len(blocks), (notice,)
    return [tuple(tags_to_spans(row, "BMES")) for row in tags], ()


def _word_tag(between: str) -> str:
    """The tag of a character in its word: `B-ns` as it is, `B` as `B-WORD`, and `O` for anything
    else.
    """
    prefix, hyphen, part = between.partition("-")
    is_label = len(part) <= LONGEST_LABEL and (part or not hyphen)
    if prefix not in tuple("BMES") or " " in between or not is_label:
        return "O"
    return f"{prefix}-{part or WORD}"
