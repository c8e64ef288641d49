"""brat's standoff format: NAME.txt has the text, a sentence a line, and NAME.ann its entities, a line each.

T1 TAB LOC 0 3 TAB 南京市

Offsets are code points of the whole text, line ends included. Lines of other kinds (relations, events, attributes,
notes) are passed over.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, pairwise
from pathlib import Path

from hanlattice.charset import UTF8
from hanlattice.errors import InputError
from hanlattice.files import opening, read_lines, writing
from hanlattice.text.sentence import Corpus, Sentence
from hanlattice.text.spans import Span

_ENTITY = re.compile(r"T\S*\t(\S+) (\d+) (\d+)\t(.*)")


def brat_files(path: str | Path) -> list[Path]:
    """The .ann files that a path stands for, a file or a folder, each followed by its .txt."""
    path = Path(path)
    found = sorted(path.glob("*.ann")) if path.is_dir() else [path]
    if not found:
        raise InputError("there is no .ann file in this folder", path)
    for file in found:
        if file.suffix != ".ann":
            raise InputError("expected a .ann file of brat, or a folder of them", file)
        if not file.with_suffix(".txt").is_file():
            raise InputError(f"the text of this file, {file.with_suffix('.txt').name}, is not beside it", file)
    return [each for file in found for each in (file, file.with_suffix(".txt"))]


def read_brat(path: str | Path) -> Corpus:
    """A Sentence for each line of the texts that is not blank."""
    files = brat_files(path)
    return Corpus(
        tuple(sentence for ann, text in zip(files[::2], files[1::2], strict=True) for sentence in _read(ann, text))
    )


def _read(ann: Path, path: Path) -> Iterable[Sentence]:
    text = _text(path)
    starts = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))[:-1]
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    rows: list[list[tuple[Span, int]]] = [[] for _ in lines]
    for number, line in read_lines(ann, UTF8):
        if line.startswith("T"):
            span = _span(line, text, ann, number)
            at = bisect_right(starts, span.start) - 1
            if span.end > starts[at] + len(lines[at]):
                raise InputError("the entity goes over the end of a line, and a line is a sentence", ann, number)
            rows[at].append((span.shifted(-starts[at]), number))
        elif line.strip() and line[0] not in "*REAMN#":
            raise InputError(f"expected a line such as T1 TAB LOC 0 3 TAB text, not {line[:40]!r}", ann, number)
    for line, row in zip(lines, rows, strict=True):
        for (left, first), (right, second) in pairwise(sorted(row)):
            if right.start < left.end:
                message = f"{right.text!r} overlaps {left.text!r} of line {first}, and a character has one label"
                raise InputError(message, ann, second)
        if line.strip():
            yield Sentence(line, tuple(span for span, _ in sorted(row)))


def _text(path: Path) -> str:
    """The text with every line end as it is, since offsets count them."""
    with opening(path) as file:
        content = file.read()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"not UTF-8: byte 0x{content[error.start]:02x}; convert the file to UTF-8", path, line
        ) from None


def _span(line: str, text: str, ann: Path, number: int) -> Span:
    found = _ENTITY.fullmatch(line)
    if found is None:
        what = "an entity of several parts, which cannot be learnt" if ";" in line else f"not {line[:40]!r}"
        raise InputError(f"expected T1 TAB LOC 0 3 TAB text, {what}", ann, number)
    label, start, end, given = found[1], int(found[2]), int(found[3]), found[4]
    if not start < end <= len(text):
        raise InputError(f"the span [{start}, {end}) does not lie in the text of {len(text)} characters", ann, number)
    own = text[start:end]
    if own.replace("\n", " ") != given:  # as brat writes it
        raise InputError(f"the text is {given!r}, but the offsets give {own!r}: count code points", ann, number)
    return Span(start, end, label, None, own)


def write_brat(path: str | Path, sentences: Iterable[Sentence]) -> None:
    """Write NAME.txt, a sentence a line, and then NAME.ann; each file is written atomically."""
    path, at = Path(path), 0
    lines: list[str] = []
    with writing(path.with_suffix(".txt"), binary=True) as file:
        for number, sentence in enumerate(sentences, start=1):
            for span in sentence.spans or ():
                text = sentence.text[span.start : span.end]
                if "\n" in text or any(map(str.isspace, span.label)):
                    raise InputError(f"brat carries no line feed in an entity and no space in a label: {text!r}", path)
                lines.append(f"T{len(lines) + 1}\t{span.label} {at + span.start} {at + span.end}\t{text}\n")
            try:
                file.write(f"{sentence.text}\n".encode())
            except UnicodeEncodeError:
                message = f"UTF-8 cannot carry the lone surrogate in sentence {number}; use JSONL"
                raise InputError(message, path) from None
            at += len(sentence) + 1
    with writing(path) as file:
        file.write("".join(lines))
