"""Dictionary files: words, and what is said of them, one a line, as JSON or as CSV.

A line is a word, `word TAB anything` or jieba's `word freq tag`. What follows the TAB may say more:
a label and how much it counts (`拼多多 TAB ORG 20`), that it is no span (`-inf`), or that its slashes
are cuts (`太/贵 TAB /`). A number is a frequency.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from hanlattice.checks import brief, check_number, read_json
from hanlattice.errors import InputError
from hanlattice.files import atomic_write, keep_first, read_text
from hanlattice.text.normalize import LONE_SURROGATE
from hanlattice.text.tags import check_label

TRUST_MOST = 1000.0  # of what a user's word may score more; besides, ∞
LONGEST_LABELLED = 64  # characters of a word with a label: its states are twice as many
SPLIT = "/"  # between the parts of a word that is to be cut, and as its label
_JIEBA = re.compile(
    r"(?P<word>.+?)(?<! ) +(?P<frequency>\d+)( +\S+)?"
)  # a word ends where spaces begin: linear
_DIGITS = 18  # of the largest frequency; a longer number is none
_COLUMNS = ("word", "label", "trust")


class Entry(NamedTuple):
    """A word of a dictionary, and what it says of the word.

    A `label` may be given with `trust`: how much more the word scores as a span with this label;
    without it as much as the predictor says. ∞ forces it, −∞ forbids it; without a label, −∞
    forbids every span of exactly this word. With the label `/` the word is cut where it has
    slashes.
    """

    word: str
    label: str = ""
    trust: float | None = None

    @property
    def is_split(self) -> bool:
        return self.label == SPLIT

    @property
    def is_plain(self) -> bool:
        """Whether nothing is said of the word."""
        return self.label == "" and self.trust is None

    @property
    def lattice_word(self) -> str:
        """The word, if it counts as one: not if it is forbidden, or cut."""
        return "" if self.is_split or self.trust == -math.inf else self.word

    def checked(self) -> Entry:
        """With numbers as float; what cannot be is a ValueError or a TypeError."""
        if not isinstance(self.word, str):
            raise TypeError(
                f"a word must be a str, not {type(self.word).__name__}: {brief(self.word)}"
            )
        if self.label != "":
            check_label(self.label)
        if self.label.split() != [self.label][: bool(self.label)] or "\x00" in self.label:
            raise ValueError(
                f"a label is one word without white space, such as ORG, not {brief(self.label)}"
            )
        trust = self.trust
        if trust is not None:
            trust = check_number(trust, "trust", -TRUST_MOST, TRUST_MOST, or_infinite=True)
        if self.is_split and (
            trust is not None or not all(part.strip() for part in self.word.split(SPLIT))
        ):
            raise ValueError(
                f"expected a word with / between its parts, such as 太/贵, and no number: {self.word!r}"
            )
        if self.is_split and SPLIT not in self.word:
            raise ValueError(
                f"expected a word with / where it is cut, such as 太/贵, not {self.word!r}"
            )
        if not self.label and trust is not None and trust != -math.inf:
            raise ValueError(
                f"trust={trust} needs a label: without one only -inf can be, which forbids the span"
            )
        return Entry(self.word, self.label, trust)


def read_dictionary(path: str | Path, encoding: str | None = None) -> Iterator[str | Entry]:
    """The words of a dictionary file, in order, and entries where it says more of them; blank lines
    are left out.

    `.jsonl` and `.csv` are read as what they are, anything else as lines.
    """
    text = read_text(path, encoding)
    if is_plain(path, text):
        return _words_of(text)
    return _entries(path, _FORMS.get(Path(path).suffix.lower(), _of_lines)(text))


def is_plain(path: str | Path, text: str) -> bool:
    """Whether the lines of a file with this text say nothing of a word but that it is one."""
    return "\t" not in text and Path(path).suffix.lower() not in _FORMS


def read_words(path: str | Path) -> Iterator[str]:
    """The words of a dictionary file, in order, whatever is said of them, blank lines left out."""
    found = (each if isinstance(each, str) else each.lattice_word for each in read_dictionary(path))
    return filter(None, found)


def _entries(path: str | Path, records: Iterator[tuple[int, Any]]) -> Iterator[str | Entry]:
    for number, record in records:
        try:
            entry = record if isinstance(record, Entry) else _entry_of(record)
            if entry.word:
                _check_word(entry.word)
                yield entry.word if entry.is_plain else entry.checked()
            elif not entry.is_plain:
                raise ValueError(
                    f"there is no word, and {brief(entry.label or entry.trust)} says something of one"
                )
        except (ValueError, TypeError) as error:
            raise InputError(str(error), path, number) from None


def _check_word(word: str) -> None:
    """Raise if no lexicon can have the word."""
    if "\n" in word or "\t" in word:
        raise ValueError(f"a word is one line without a TAB, not {brief(word)}")
    if not word.isascii() and LONE_SURROGATE.search(word):
        raise ValueError(f"a word has a lone surrogate, which UTF-8 cannot carry: {brief(word)}")


def _of_lines(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(_lines(text), 1):
        word, tab, rest = line.partition("\t")
        fields = rest.split()
        if not tab or not fields or (_is_number(fields[0]) and fields[0] != "-inf"):
            yield number, Entry(_entry(line)[0].strip())
        elif fields[0] == "-inf":
            yield number, Entry(word.strip(), "", -math.inf)
        else:
            columns = (word, *fields)
            is_known = len(columns) <= len(_COLUMNS)
            yield number, dict(zip(_COLUMNS, columns, strict=False)) if is_known else columns


def _of_jsonl(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, read_json(line)
            except ValueError as error:
                yield number, error


def _of_csv(text: str) -> Iterator[tuple[int, Any]]:
    csv.field_size_limit(
        sys.maxsize
    )  # the limit is one for the process, and the text is in memory already
    rows = csv.reader(StringIO(text if "\n" in text else text.replace("\r", "\n")), strict=True)
    number = 1  # of the line on which a row begins
    try:
        for nth, row in enumerate(rows):
            yield from (
                (number, record) for record in _csv_record([each.strip() for each in row], nth == 0)
            )
            number = rows.line_num + 1
    except csv.Error as error:
        yield number, ValueError(f"not CSV: {_csv_problem(str(error))}")


def _csv_record(row: list[str], is_first: bool) -> Iterator[Any]:
    """The record of a row; none of a heading and of a row without anything."""
    names = [each.lower() for each in row]
    if is_first and "word" in names and set(names) <= set(_COLUMNS):
        if names != list(_COLUMNS[: len(names)]):
            yield ValueError(
                "the columns are word, label and trust, in this order; the last may be missing"
            )
    elif len(row) > len(_COLUMNS):
        yield row
    elif len(row) == 2 and row[1] != "-inf" and _is_number(row[1]):
        yield ValueError(
            f"expected a label after the word, not the number {brief(row[1])}, which comes third"
        )
    elif any(row):
        yield {name: value for name, value in zip(_COLUMNS, row, strict=False) if value}


def _csv_problem(error: str) -> str:
    """What Python's csv says, in words for who wrote the file."""
    if "unexpected end of data" in error:
        return "a quote is not closed"
    if "new-line character" in error:
        return "a carriage return stands alone; lines end with LF or CRLF"
    return error


_FORMS = {".jsonl": _of_jsonl, ".csv": _of_csv}


def _entry_of(record: Any) -> Entry:
    """The entry of a JSON object, or of a row of CSV as one."""
    if isinstance(record, Exception):
        raise record
    if isinstance(record, str):
        return Entry(record.strip())
    if record == {}:
        raise ValueError('there is no word: expected an object with "word"')
    if (
        not isinstance(record, dict)
        or not set(record) <= set(_COLUMNS)
        or not isinstance(record.get("word", ""), str)
    ):
        raise ValueError(
            f"expected word, label and trust, such as 拼多多, ORG, 20; the last two may be missing: {brief(record)}"
        )
    trust = record.get("trust")
    if isinstance(trust, str):
        trust = _number(trust)
    elif trust is not None:  # 1e999 is no way to write infinity
        check_number(trust, "trust", -TRUST_MOST, TRUST_MOST)
    label = record.get("label")
    return Entry(record.get("word", "").strip(), "" if label is None else label, trust)


def _number(text: str) -> float:
    number = float(text) if _is_number(text) else math.nan
    is_too_large = math.isinf(number) and "inf" not in text.lower()
    if math.isnan(number) or is_too_large:
        raise ValueError(f"expected a number, inf or -inf after the label, not {brief(text)}")
    return number


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _words_of(text: str) -> Iterator[str]:
    plain = " " not in text
    lines = _lines(text)
    return filter(None, map(str.strip, lines if plain else (_entry(line)[0] for line in lines)))


def read_entries(path: str | Path) -> Iterator[tuple[str, int]]:
    """The words of lines with their frequencies: the number after TAB or in jieba's form, 1 where
    there is none.
    """
    for line in _lines(read_text(path)):
        word, frequency = _entry(line)
        if word := word.strip():
            yield word, int(frequency) if frequency.isdecimal() and len(frequency) <= _DIGITS else 1


def write_dictionary(path: str | Path, words: Iterable[str | Entry]) -> None:
    """One word a line, UTF-8, with what is said of it; a TAB follows where it could be taken for
    jieba's form.
    """
    with atomic_write(path) as file:
        for at, line in enumerate(chain.from_iterable(map(_written, words))):
            file.write(line if at else keep_first(line))


def _written(word: str | Entry) -> Iterator[str]:
    if isinstance(word, str):
        yield f"{word}\t\n" if _JIEBA.fullmatch(word) else f"{word}\n"
    else:
        said = [word.label, "" if word.trust is None else f"{word.trust!r}"]
        yield f"{word.word}\t{' '.join(filter(None, said))}\n"


def _entry(line: str) -> tuple[str, str]:
    """A line's word, and the field that may hold its frequency."""
    word, tab, rest = line.partition("\t")
    jieba = None if tab else _JIEBA.fullmatch(word)
    return (jieba["word"], jieba["frequency"]) if jieba else (word, (rest.split() or [""])[0])


def _lines(text: str) -> list[str]:
    return text.split("\n" if "\n" in text else "\r")  # old lists end lines with CR alone
