"""Character columns: a character, a TAB and its tag on each line, a blank line between sentences.

One column between the two may give the words: B, M, E or S for the character's place in its word,
with a hyphen and the word's part of speech where that is known (`南 TAB B-ns TAB B-LOC`). Anything
else in between is ignored, and spaces may replace the TAB. The first code point of a line is the
character whatever it is, even a space, a TAB, NUL, CR or U+2028. A line feed or a lone surrogate
cannot be written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
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


class _Block(NamedTuple):
    """The lines of one sentence; `line` is the number of the first."""

    line: int
    characters: tuple[str, ...]
    # The columns between character and tag.
    between: tuple[str, ...]
    tags: tuple[str, ...]


def read_columns(path: str | Path, scheme: str = "auto", encoding: str | None = None) -> Corpus:
    """Read a column file; tags that fit no scheme are an error that names the line.

    Args:
        path: The file.
        scheme: BIO, BMES, BIOES or IOB1, which becomes BIO with a notice; "auto" finds it.
        encoding: As in `files.read_lines`.
    """
    if scheme not in ("auto", "IOB1", *SCHEMES):
        expected = f"auto, {', '.join(SCHEMES)} or IOB1"
        raise InputError(f"no tag scheme is called {scheme!r}: expected {expected}")
    blocks: list[_Block] = []
    numbered = read_lines(path, encoding)
    for is_blank, lines in groupby(numbered, key=lambda line: not line[1].strip(" \t")):
        if not is_blank:
            rows = [(number, *_split(line, path, number)) for number, line in lines]
            (first, *_), *columns = zip(*rows, strict=True)
            blocks.append(_Block(first, *columns))
    _check_tags(blocks, path, scheme)
    if scheme == "auto":
        scheme = detect_scheme(block.tags for block in blocks)
    words, notices = _words(blocks, path)
    sentences = tuple(
        Sentence("".join(block.characters), tuple(tags_to_spans(block.tags, scheme)), row)
        for block, row in zip(blocks, words, strict=True)
    )
    tags = tuple(block.tags for block in blocks)
    if scheme == "IOB1":
        notice = f"{path}: the tags are IOB1 (a span begins with I); they were converted to BIO"
        scheme = "BIO"
        tags = tuple(
            tuple(spans_to_tags(sentence.spans or (), len(sentence), scheme))
            for sentence in sentences
        )
        return Corpus(sentences, scheme, tags, (notice, *notices))
    wrong = [block.line + index for block in blocks for index in illegal_places(block.tags, scheme)]
    if wrong:
        places = "1 place" if len(wrong) == 1 else f"{len(wrong)} places"
        problem = f"tags break the rules of {scheme} in {places}, first at line {wrong[0]}"
        notices = (f"{path}: {problem}; no span is made of them", *notices)
    return Corpus(sentences, scheme, tags, notices)


def write_columns(path: str | Path, sentences: Iterable[Sentence], scheme: str = "BMES") -> None:
    """Write sentences as columns, all with their words or all without.

    The file appears whole or not at all.
    """
    segmented: bool | None = None
    with atomic_write(path, binary=True) as file:
        for number, sentence in enumerate(sentences, start=1):
            if not sentence.text:
                raise InputError(f"columns cannot carry an empty text (sentence {number})", path)
            has_words = sentence.words is not None
            if segmented not in (None, has_words):
                problem = f"only one of sentences 1 and {number} has words"
                raise InputError(f"{problem}: all or none must have them", path)
            segmented = has_words
            spans = sentence.spans or ()
            block = format_columns(sentence.text, spans, scheme, sentence.words) + "\n"
            if number == 1:
                block = keep_first(block)
            try:
                file.write(block.encode("utf-8"))
            except UnicodeEncodeError as error:
                surrogate = f"the lone surrogate U+{ord(block[error.start]):04X}"
                message = f"UTF-8 columns cannot carry {surrogate} (sentence {number}); use JSONL"
                raise InputError(message, path) from None


def format_columns(
    text: str, spans: Iterable[Span], scheme: str = "BMES", words: Sequence[Span] | None = None
) -> str:
    """Return one sentence as column text, without the blank line that follows a sentence."""
    if scheme not in SCHEMES:
        expected = ", ".join(SCHEMES)
        raise InputError(f"no tag scheme called {scheme!r} can be written: expected {expected}")
    if "\n" in text:
        place = f"character {text.index(chr(10)) + 1}"
        raise InputError(f"columns cannot carry a line feed ({place}); use JSONL")
    spans = tuple(spans)
    for span in (*spans, *(words or ())):
        if any(character in span.label for character in " \t\r\n") or not span.label:
            problem = "it is empty or has white space in it"
            raise InputError(f"columns cannot carry the label {span.label!r}: {problem}")
    columns = [list(text), spans_to_tags(spans, len(text), scheme)]
    if words is not None:
        check_words(words, len(text))
        positions = spans_to_tags(words, len(text), "BMES")
        columns.insert(1, [tag[0] if tag[2:] == WORD else tag for tag in positions])
    return "".join("\t".join(row) + "\n" for row in zip(*columns, strict=True))


def _split(line: str, path: str | Path, number: int) -> tuple[str, str, str]:
    """Return the character, the columns in between (separated by spaces), and the tag."""
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
    """Return a hint for a line that looks like segmented words."""
    # Tags and parts of speech are seldom Chinese.
    later = line.split()[1:]
    if all(field.isascii() or "-" in field for field in later):
        return ""
    option = '"segmented" (data.format, or --format)'
    return f"; if its lines are words with spaces between, it is format {option}"


def _check_tags(blocks: Iterable[_Block], path: str | Path, scheme: str) -> None:
    """Check each different tag once; an error names the line where tags stop fitting a scheme."""
    seen: set[str] = set()
    prefixes: set[str] = set()
    for block in blocks:
        for index, tag in enumerate(block.tags):
            if tag in seen:
                continue
            seen.add(tag)
            try:
                prefix = split_tag(tag)[0]
                if scheme != "auto":
                    check_prefix(tag, prefix, scheme)
                elif not schemes_with(prefixes | {prefix}):
                    before = ", ".join(sorted(prefixes - {prefix})) or "nothing"
                    problem = f"after tags with the prefixes {before} fits no scheme"
                    raise TagError(f"{tag!r} {problem}: {EXPECTED}")
                prefixes.add(prefix)
            except TagError as error:
                line = f"{block.characters[index]} {block.between[index]} {tag}"
                raise TagError(error.message + _hint(line), path, block.line + index) from None


def _words(
    blocks: Sequence[_Block], path: str | Path
) -> tuple[Sequence[tuple[Span, ...] | None], tuple[str, ...]]:
    """Return the words of each block, if the column in between gives them on every line.

    If it nearly does, there is a notice.
    """
    as_tag = cache(_word_tag)
    tags = [[as_tag(between) for between in block.between] for block in blocks]
    others = sum(row.count("O") for row in tags)
    # Then it is another kind of column.
    if 2 * others >= sum(map(len, tags)):
        return [None] * len(blocks), ()
    for block, row in zip(blocks, tags, strict=True):
        wrong = [*illegal_places(row, "BMES"), *([row.index("O")] if "O" in row else [])]
        if wrong:
            problem = f"breaks the rules of BMES, first at line {block.line + min(wrong)}"
            notice = f"{path}: the word column {problem}; no words are made of it"
            return [None] * len(blocks), (notice,)
    return [tuple(tags_to_spans(row, "BMES")) for row in tags], ()


def _word_tag(between: str) -> str:
    """Return the tag of a character in its word: `B` is `B-WORD`, and any other column is `O`."""
    prefix, hyphen, part = between.partition("-")
    is_label = len(part) <= LONGEST_LABEL and (part or not hyphen)
    if prefix not in tuple("BMES") or " " in between or not is_label:
        return "O"
    return f"{prefix}-{part or WORD}"
