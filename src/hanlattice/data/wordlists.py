"""The two downloads that are lists of words: `simplechinese` vectors and jieba's dictionary."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from hanlattice.errors import InputError
from hanlattice.files import opening, read_lines, writing
from hanlattice.text.vectors import Vectors, write_vectors


class _PlainUnpickler(pickle.Unpickler):
    """Lists, strings and numbers need no class, so a pickle that names one is refused before it can run anything."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}; only plain values are read")


def convert_simplechinese(members: list[Path], folder: Path) -> dict[str, int]:
    """float16 matrix and pickled word list → word2vec binary, float32, in the same order and scale."""
    words = read_word_pickle(members[0])
    try:
        matrix = np.load(members[1], allow_pickle=False).astype(np.float32)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"not a NumPy array: {error}", members[1]) from None
    if matrix.ndim != 2 or len(matrix) != len(words):
        raise InputError(f"{len(words)} words do not fit an array of shape {matrix.shape}", members[1])
    write_vectors(folder / "words.bin", Vectors(words, matrix), binary=True)
    single = sum(len(word) == 1 for word in words)
    return {"words": len(words), "width": matrix.shape[1], "single characters": single}


def read_word_pickle(path: Path) -> tuple[str, ...]:
    """The list of strings in a pickle; anything else in it is refused."""
    with opening(path) as file:
        try:
            words = _PlainUnpickler(file).load()
        except Exception as error:  # a broken pickle may raise nearly anything
            raise InputError(f"not a plain pickled list: {error}", path) from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError("expected a pickled list of strings", path)
    return tuple(words)


def convert_jieba(members: list[Path], folder: Path) -> dict[str, int]:
    """jieba's `word frequency tag` lines as they are, once each has been seen to be one."""
    count = 0
    for number, line in read_lines(members[0]):
        fields = line.split(" ")
        if len(fields) != 3 or not fields[0] or not fields[1].isdecimal():
            raise InputError(f"expected 'word frequency tag', not {line[:40]!r}", members[0], number)
        count += 1
    with opening(members[0]) as source, writing(folder / "dict.txt", binary=True) as file:
        shutil.copyfileobj(source, file)
    return {"words": count}
