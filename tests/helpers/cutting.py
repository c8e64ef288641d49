"""The made corpus cut into words, and settings of a small segmenter for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hanlattice.data.formats.segmented import from_words, write_segmented
from hanlattice.text.sentence import Sentence
from tests.helpers.made import WORDS, made_tree, sentences


def in_words(sentence: Sentence) -> Sentence:
    """Cut a sentence into words: names, pairs of the dictionary, and single characters."""
    ends = {span.start: span.end for span in sentence.spans or ()}
    words = []
    start = 0
    while start < len(sentence):
        pair = sentence.text[start : start + 2]
        end = ends.get(start, start + (2 if pair in WORDS else 1))
        words.append(sentence.text[start:end])
        start = end
    return from_words(words)


def cutting_tree(
    made: Path, folder: Path, train: int = 40, **changes: Any
) -> dict[str, dict[str, Any]]:
    """Write train, dev and test.seg, and return the settings of a small segmenter for them."""
    files = {part: folder / f"{part}.seg" for part in ("train", "dev", "test")}
    for seed, (part, path) in enumerate(files.items()):
        write_segmented(path, map(in_words, sentences(train if part == "train" else 20, seed)))
    named = {f"data__{part}": str(path) for part, path in files.items()}
    small = {"model__encoder": "char", "model__hidden": 8, "train__epochs": 3}
    return made_tree(made, **{**named, **small, **changes})
