"""A lexicon from whatever has words: a dictionary, or a file of word vectors."""

from __future__ import annotations

from pathlib import Path

from hanlattice.errors import InputError
from hanlattice.files import BOM, opening, reason
from hanlattice.text.lexicon import Lexicon, read_words
from hanlattice.text.vectors import read_vectors

_LONGEST = 1 << 16  # bytes of a line that are looked at
_NUMBERS = 3  # at the end of a line; a dictionary's line has a frequency, and that is one


def read_lexicon(path: str | Path) -> tuple[Lexicon, tuple[str, ...]]:
    """The words of two characters or more of a dictionary or a vector file, and what should be known of that file."""
    vectors = read_vectors(path) if _has_vectors(path) else None
    lexicon = Lexicon(read_words(path) if vectors is None else vectors.words)
    if not len(lexicon):
        raise InputError("no word of two characters or more in it: expected a dictionary or word vectors", path)
    return lexicon, () if vectors is None else vectors.notices


def _has_vectors(path: str | Path) -> bool:
    """Whether the first lines are those of word2vec: a header and no dictionary's line, or a row of numbers."""
    with opening(path) as file:
        try:
            first, second = (file.readline(_LONGEST).removeprefix(BOM) for _ in range(2))
        except OSError as error:
            raise InputError(f"cannot read: {reason(error)}", path) from None
    fields = first.split()
    if len(fields) == 2 and all(field.isdigit() and len(field) < 16 for field in fields):
        return not _is_text(second) or len(second.split()) > int(fields[1])
    return len(fields) > _NUMBERS and b"\t" not in first and all(map(_is_number, fields[-_NUMBERS:]))


def _is_text(line: bytes) -> bool:
    try:
        return all(character.isprintable() or character.isspace() for character in line.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
