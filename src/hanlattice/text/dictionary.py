"""Dictionary files: words, and what is said of them, one a line, as JSON or as CSV.

A line is a word, `word TAB anything` or jieba's `word freq tag`. What follows the TAB may say more:
a label and how much it counts (`拼多多 TAB ORG 20`), that it is no span (`-inf`), or that its
slashes are cuts (`太/贵 TAB /`). A number is a frequency.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from hanlattice.checks import brief, check_number, read_json
from hanlattice.errors import InputError
from hanlattice.files import atomic_write, keep_first, read_text
from hanlattice.text.normalize import LONE_SURROGATE
from hanlattice.text.tags import check_label

# The largest bonus of a user's word; besides, it may be infinite.
TRUST_MOST = 1000.0
# Characters of a word with a label: the decoder has twice as many states for it.
LONGEST_LABELLED = 64
# Between the parts of a word that is to be cut, and its label.
SPLIT = "/"
# A word ends where spaces begin, so that matching takes linear time.
_JIEBA = re.compile(r"(?P<word>.+?)(?<! ) +(?P<frequency>\d+)( +\S+)?")
# Digits of the largest frequency; a longer number is none.
_DIGITS = 18
_COLUMNS = ("word", "label", "trust")


class Entry(NamedTuple):
    """A word of a dictionary, and what it says of the word.

    With a `label`, the word scores `trust` more as a span with this label; by default the predictor
    says how much. ∞ forces the label, −∞ forbids it. Without a label, −∞ forbids every span of
    exactly this word. With the label `/` the word is cut where it has slashes.
    """

    word: str
    label: str = ""
    trust: float | None = None

    @property
    def is_split(self) -> bool:
        """Return whether the word is to be cut."""
        return self.label == SPLIT

    @property
    def is_plain(self) -> bool:
        """Return whether nothing is said of the word."""
        return self.label == "" and self.trust is None

    @property
    def lattice_word(self) -> str:
        """Return the word, or an empty string if it is forbidden, or cut."""
        return "" if self.is_split or self.trust == -math.inf else self.word

    def checked(self) -> Entry:
        """Return the entry with its number as a float; raise a ValueError or TypeError if wrong."""
        word = self.word
        label = self.label
        if not isinstance(word, str):
            raise TypeError(f"a word must be a str, not {type(word).__name__}: {brief(word)}")
        if label != "":
            check_label(label)
        if label.split() != [label][: bool(label)] or "\x00" in label:
            example = f"without white space, such as ORG, not {brief(label)}"
            raise ValueError(f"a label is one word {example}")
        trust = self.trust
        if trust is not None:
            trust = check_number(trust, "trust", -TRUST_MOST, TRUST_MOST, or_infinite=True)
        has_parts = all(part.strip() for part in word.split(SPLIT))
        if self.is_split and (trust is not None or not has_parts):
            example = f"such as 太/贵, and no number: {word!r}"
            raise ValueError(f"expected a word with / between its parts, {example}")
        if self.is_split and SPLIT not in word:
            raise ValueError(f"expected a word with / where it is cut, such as 太/贵, not {word!r}")
        if not label and trust is not None and trust != -math.inf:
            problem = "without one only -inf can be, which forbids the span"
            raise ValueError(f"trust={trust} needs a label: {problem}")
        return Entry(word, label, trust)


def read_dictionary(path: str | Path, encoding: str | None = None) -> Iterator[str | Entry]:
    """Yield the words of a dictionary file, in order; entries where it says more of a word.

    Blank lines are skipped. `.jsonl` and `.csv` say their own format; other files have lines.
    """
    text = read_text(path, encoding)
    if is_plain(path, text):
        return _words_of(text)
    return _entries(path, _FORMS.get(Path(path).suffix.lower(), _of_lines)(text))


def is_plain(path: str | Path, text: str) -> bool:
    """Return whether a file with this text has only words, and says nothing of them."""
    return "\t" not in text and Path(path).suffix.lower() not in _FORMS


def read_words(path: str | Path) -> Iterator[str]:
    """Return the words of a dictionary file that a lattice may have, in order."""
    entries = read_dictionary(path)
    return filter(None, (word if isinstance(word, str) else word.lattice_word for word in entries))


def _entries(path: str | Path, records: Iterator[tuple[int, Any]]) -> Iterator[str | Entry]:
    for number, record in records:
        try:
            entry = record if isinstance(record, Entry) else _entry_of(record)
            word = entry.word
            if "\n" in word or "\t" in word:
                raise ValueError(f"a word is one line without a TAB, not {brief(word)}")
            if not word.isascii() and LONE_SURROGATE.search(word):
                problem = "a word has a lone surrogate, which UTF-8 cannot carry"
                raise ValueError(f"{problem}: {brief(word)}")
            if word:
                yield word if entry.is_plain else entry.checked()
            elif not entry.is_plain:
                said = brief(entry.label or entry.trust)
                raise ValueError(f"there is no word, and {said} says something of one")
        except (ValueError, TypeError) as error:
            raise InputError(str(error), path, number) from None


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
    # One limit for the process; the text is in memory already.
    csv.field_size_limit(sys.maxsize)
    rows = csv.reader(StringIO(text if "\n" in text else text.replace("\r", "\n")), strict=True)
    # The line on which a row begins.
    number = 1
    try:
        for index, row in enumerate(rows):
            for record in _csv_record([field.strip() for field in row], index == 0):
                yield number, record
            number = rows.line_num + 1
    except csv.Error as error:
        problem = str(error)
        # What Python's csv says, in words for the author of the file.
        if "unexpected end of data" in problem:
            problem = "a quote is not closed"
        if "new-line character" in problem:
            problem = "a carriage return stands alone; lines end with LF or CRLF"
        yield number, ValueError(f"not CSV: {problem}")


def _csv_record(row: list[str], is_first: bool) -> Iterator[Any]:
    """Yield the record of a row; nothing for a heading and an empty row."""
    names = [field.lower() for field in row]
    if is_first and "word" in names and set(names) <= set(_COLUMNS):
        if names != list(_COLUMNS[: len(names)]):
            order = "word, label and trust, in this order"
            yield ValueError(f"the columns are {order}; the last may be missing")
    elif len(row) > len(_COLUMNS):
        yield row
    elif len(row) == 2 and row[1] != "-inf" and _is_number(row[1]):
        problem = f"not the number {brief(row[1])}, which comes third"
        yield ValueError(f"expected a label after the word, {problem}")
    elif any(row):
        yield {name: value for name, value in zip(_COLUMNS, row, strict=False) if value}


_FORMS = {".jsonl": _of_jsonl, ".csv": _of_csv}


def _entry_of(record: Any) -> Entry:
    """Return the entry of a JSON object, or of a row of CSV."""
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
        example = "word, label and trust, such as 拼多多, ORG, 20; the last two may be missing"
        raise ValueError(f"expected {example}: {brief(record)}")
    trust = record.get("trust")
    if isinstance(trust, str):
        number = float(trust) if _is_number(trust) else math.nan
        # Infinity is spelled out: 1e999 is a mistake.
        if math.isnan(number) or (math.isinf(number) and "inf" not in trust.lower()):
            expected = "expected a number, inf or -inf after the label"
            raise ValueError(f"{expected}, not {brief(trust)}")
        trust = number
    elif trust is not None:
        check_number(trust, "trust", -TRUST_MOST, TRUST_MOST)
    label = record.get("label")
    return Entry(record.get("word", "").strip(), "" if label is None else label, trust)


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
    """Yield the words of lines with their frequencies; 1 where a line has none.

    The frequency is the number after TAB, or in jieba's form.
    """
    for line in _lines(read_text(path)):
        word, frequency = _entry(line)
        if word := word.strip():
            yield word, int(frequency) if frequency.isdecimal() and len(frequency) <= _DIGITS else 1


def write_dictionary(path: str | Path, words: Iterable[str | Entry]) -> None:
    """Write one word a line in UTF-8, with what is said of it.

    A TAB follows a word that could be taken for jieba's form.
    """
    with atomic_write(path) as file:
        for index, word in enumerate(words):
            if isinstance(word, str):
                line = f"{word}\t\n" if _JIEBA.fullmatch(word) else f"{word}\n"
            else:
                said = [word.label, "" if word.trust is None else f"{word.trust!r}"]
                line = f"{word.word}\t{' '.join(filter(None, said))}\n"
            file.write(line if index else keep_first(line))


def _entry(line: str) -> tuple[str, str]:
    """Return a line's word, and the field that may hold its frequency."""
    word, tab, rest = line.partition("\t")
    jieba = None if tab else _JIEBA.fullmatch(word)
    return (jieba["word"], jieba["frequency"]) if jieba else (word, (rest.split() or [""])[0])


def _lines(text: str) -> list[str]:
    # Old lists end lines with CR alone.
    return text.split("\n" if "\n" in text else "\r")
