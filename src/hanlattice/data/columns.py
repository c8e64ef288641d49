"""Character columns: a character, a TAB and its tag on each line, a blank line between sentences.

Spaces may stand for the TAB, and further columns between the two are passed over. The first code point of a line is the
character whatever it is, so a space, a TAB, NUL, CR or U+2028 is carried too. A line feed or a lone surrogate is not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from hanlattice.data.annotated import Corpus
from hanlattice.errors import InputError, TagError
from hanlattice.files import keep_first, read_lines, writing
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span
from hanlattice.text.tags import (
    EXPECTED,
    SCHEMES,
    check_prefix,
    detect_scheme,
    may_follow,
    schemes_with,
    spans_to_tags,
    split_tag,
    tags_to_spans,
)


@dataclass
class _Block:
    """The lines of one sentence; `line` is the number of its first, and they follow each other without a gap."""

    line: int
    characters: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def read_columns(path: str | Path, scheme: str = "auto") -> Corpus:
    """Read a column file. IOB1 becomes BIO with a notice; tags that fit nothing are an error that names the line."""
    if scheme not in ("auto", "IOB1", *SCHEMES):
        raise InputError(f"no tag scheme is called {scheme!r}: expected auto, {', '.join(SCHEMES)} or IOB1")
    blocks = list(_blocks(path))
    _check_tags(blocks, path, scheme)
    found = detect_scheme(block.tags for block in blocks) if scheme == "auto" else scheme
    sentences = tuple(Sentence("".join(block.characters), tuple(tags_to_spans(block.tags, found))) for block in blocks)
    if found == "IOB1":
        notice = f"{path}: the tags are IOB1 (a span begins with I); they were converted to BIO"
        bio = tuple(tuple(spans_to_tags(sentence.spans or (), len(sentence), "BIO")) for sentence in sentences)
        return Corpus(sentences, "BIO", bio, (notice,))
    return Corpus(sentences, found, tuple(tuple(block.tags) for block in blocks), _illegal(blocks, path, found))


def write_columns(path: str | Path, sentences: Iterable[Sentence], scheme: str = "BMES") -> None:
    """Write sentences as columns; the file appears whole or not at all."""
    with writing(path, binary=True) as file:
        for number, sentence in enumerate(sentences, start=1):
            if not sentence.text:
                raise InputError(f"columns cannot carry an empty text (sentence {number})", path)
            block = format_columns(sentence.text, sentence.spans or (), scheme) + "\n"
            if number == 1:
                block = keep_first(block)
            try:
                file.write(block.encode("utf-8"))
            except UnicodeEncodeError as error:
                code = ord(block[error.start])
                message = f"UTF-8 columns cannot carry the lone surrogate U+{code:04X} (sentence {number}); use JSONL"
                raise InputError(message, path) from None


def format_columns(text: str, spans: Iterable[Span], scheme: str = "BMES") -> str:
    """One sentence as column text, each line with its end; the blank line after the sentence is the caller's."""
    if scheme not in SCHEMES:
        raise InputError(f"no tag scheme called {scheme!r} can be written: expected {', '.join(SCHEMES)}")
    if "\n" in text:
        raise InputError(f"columns cannot carry a line feed (character {text.index(chr(10)) + 1}); use JSONL")
    spans = tuple(spans)
    for span in spans:
        if any(character in span.label for character in " \t\r\n") or not span.label:
            raise InputError(f"columns cannot carry the label {span.label!r}: it is empty or has white space in it")
    tags = spans_to_tags(spans, len(text), scheme)
    return "".join(f"{character}\t{tag}\n" for character, tag in zip(text, tags, strict=True))


def _blocks(path: str | Path) -> Iterator[_Block]:
    block = _Block(0)
    for number, line in read_lines(path):
        if not line.strip(" \t"):
            if block.tags:
                yield block
            block = _Block(0)
            continue
        if not block.tags:
            block.line = number
        character, tag = _split(line, path, number)
        block.characters.append(character)
        block.tags.append(tag)
    if block.tags:
        yield block


def _split(line: str, path: str | Path, number: int) -> tuple[str, str]:
    rest = line[1:].rstrip(" \t")
    tag = rest.replace("\t", " ").rpartition(" ")[2]
    if rest and rest[0] in " \t" and tag:
        return line[0], sys.intern(tag)
    first = line.replace("\t", " ").partition(" ")[0]
    if len(first) > 1 and len(first) < len(line.rstrip(" \t")):
        problem = f"the first column must be one character (one code point), not {first[:20]!r}"
    else:
        problem = f"a column is missing: expected a character, a TAB and a tag, not {line[:40]!r}"
    raise InputError(problem, path, number)


def _check_tags(blocks: Iterable[_Block], path: str | Path, scheme: str) -> None:
    """Each new tag is looked at once; the line where the tags stop fitting any scheme is the line that is named."""
    seen: set[str] = set()
    prefixes: set[str] = set()
    for block in blocks:
        for at, tag in enumerate(block.tags):
            if tag in seen:
                continue
            seen.add(tag)
            try:
                prefixes.add(split_tag(tag)[0])
                if scheme == "auto":
                    _check_family(tag, prefixes)
                else:
                    check_prefix(tag, split_tag(tag)[0], scheme)
            except TagError as error:
                raise TagError(error.message, path, block.line + at) from None


def _check_family(tag: str, prefixes: set[str]) -> None:
    if not schemes_with(prefixes):
        before = ", ".join(sorted(prefixes - {split_tag(tag)[0]})) or "nothing"
        raise TagError(f"{tag!r} after tags with the prefixes {before} fits no scheme: {EXPECTED}")


def _illegal(blocks: Iterable[_Block], path: str | Path, scheme: str) -> tuple[str, ...]:
    """A notice that counts the places where a tag does not fit the one before it."""
    follows = cache(lambda left, right: may_follow(left, right, scheme))
    count, first = 0, 0
    for block in blocks:
        edges: list[str | None] = [None, *block.tags, None]
        for at in range(len(edges) - 1):
            if not follows(edges[at], edges[at + 1]):
                count += 1
                first = first or block.line + min(at, len(block.tags) - 1)
    if not count:
        return ()
    places = "1 place" if count == 1 else f"{count} places"
    return (f"{path}: tags break the rules of {scheme} in {places}, first at line {first}; no span is made of them",)
