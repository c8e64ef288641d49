"""Dictionary files: words, and what is said of them, one a line, as JSON or as CSV.

A line is a word, `word TAB anything` or jieba's `word freq tag`. What follows the TAB may say more: a label and how
much it counts (`拼多多 TAB ORG 20`), that it is no span (`-inf`), or that its slashes are cuts (`太/贵 TAB /`). A
number is a frequency.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from hanlattice.checks import brief, check_number, read_json
from hanlattice.errors import InputError
from hanlattice.files import keep_first, read_text, writing
from hanlattice.text.tags import check_label

TRUST_MOST = 1000.0  # of what a user's word may score more; besides, ∞
LONGEST_LABELLED = 64  # characters of a word with a label: its states are twice as many
SPLIT = "/"  # between the parts of a word that is to be cut, and as its label
_JIEBA = re.compile(r"(?P<word>.+?)(?<! ) +(?P<frequency>\d+)( +\S+)?")  # a word ends where spaces begin: linear
_DIGITS = 18  # of the largest frequency; a longer number is none
_COLUMNS = ("word", "label", "trust")


class Entry(NamedTuple):
    """A word of a dictionary, and what it says of the word.

    A `label` may be given with `trust`: how much more the word scores as a span with this label; without it as much as
    the predictor says. ∞ forces it, −∞ forbids it; without a label, −∞ forbids every span of exactly this word. With
    the label `/` the word is cut where it has slashes.
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
        return not self.label and self.trust is None

    @property
    def lattice_word(self) -> str:
        """The word, if it counts as one: not if it is forbidden, or cut."""
        return "" if self.is_split or self.trust == -math.inf else self.word

    def checked(self) -> Entry:
        """With numbers as float; what cannot be is a ValueError or a TypeError."""
        if not isinstance(self.word, str):
            raise TypeError(f"a word must be a str, not {type(self.word).__name__}: {brief(self.word)}")
        if self.label != "":
            check_label(self.label)
        if self.label.split() != [self.label][: bool(self.label)] or "\x00" in self.label:
            raise ValueError(f"a label is one word without white space, such as ORG, not {brief(self.label)}")
        trust = self.trust
        if trust is not None:
            trust = check_number(trust, "trust", -TRUST_MOST, TRUST_MOST, or_infinite=True)
        if self.is_split and (trust is not None or not all(part.strip() for part in self.word.split(SPLIT))):
            raise ValueError(f"expected a word with / between its parts, such as 太/贵, and no number: {self.word!r}")
        if self.is_split and SPLIT not in self.word:
            raise ValueError(f"expected a word with / where it is cut, such as 太/贵, not {self.word!r}")
        if not self.label and trust is not None and trust != -math.inf:
            raise ValueError(f"trust={trust} needs a label: without one only -inf can be, which forbids the span")
        return Entry(self.word, self.label, trust)


def read_dictionary(path: str | Path, encoding: str | None = None) -> Iterator[str | Entry]:
    """The words of a dictionary file, in order, and entries where it says more of them; blank lines are left out.

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
            if entry.word and entry.is_plain:
                yield entry.word
            elif entry.word:
                yield entry.checked()
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
            yield number, dict(zip(_COLUMNS, (word, *fields[:2]), strict=False))


def _of_jsonl(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, read_json(line)
            except ValueError as error:
                yield number, error


def _of_csv(text: str) -> Iterator[tuple[int, Any]]:
    rows = csv.reader(StringIO(text), strict=True)
    try:
        for nth, row in enumerate(rows):
            if nth or [each.strip().lower() for each in row] != list(_COLUMNS[: len(row)]):
                filled = zip(_COLUMNS, (each.strip() for each in row), strict=False)
                yield rows.line_num, {name: value for name, value in filled if value} if len(row) < 4 else row
    except csv.Error as error:
        yield rows.line_num, ValueError(f"not CSV: {error}")


_FORMS = {".jsonl": _of_jsonl, ".csv": _of_csv}


def _entry_of(record: Any) -> Entry:
    """The entry of a JSON object, or of a row of CSV as one."""
    if isinstance(record, Exception):
        raise record
    if isinstance(record, str):
        return Entry(record.strip())
    if not isinstance(record, dict) or not set(record) <= set(_COLUMNS) or not isinstance(record.get("word", ""), str):
        raise ValueError(
            f"expected word, label and trust, such as 拼多多, ORG, 20; the last two may be missing: {brief(record)}"
        )
    trust = record.get("trust")
    trust = _number(trust) if isinstance(trust, str) else trust
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
    """The words of lines with their frequencies: the number after TAB or in jieba's form, 1 where there is none."""
    for line in _lines(read_text(path)):
        word, frequency = _entry(line)
        if word := word.strip():
            yield word, int(frequency) if frequency.isdecimal() and len(frequency) <= _DIGITS else 1


def write_dictionary(path: str | Path, words: Iterable[str | Entry]) -> None:
    """One word a line, UTF-8, with what is said of it; a TAB follows where it could be taken for jieba's form."""
    with writing(path) as file:
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
