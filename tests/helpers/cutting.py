"""The made corpus cut into words, and segmenters of it that are trained in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hanlattice.data.formats.segmented import from_words, write_segmented
from hanlattice.text.sentence import Sentence
from tests.helpers.made import WORDS, made_tree, sentences


def in_words(sentence: Sentence) -> Sentence:
    """A name is a word, so is a pair of characters that is in the dictionary, so is any other
    character.
    """
    ends = {span.start: span.end for span in sentence.spans or ()}
    words = []
    at = 0
    while at < len(sentence):
        end = ends.get(at, at + 2 if sentence.text[at : at + 2] in WORDS else at + 1)
        words.append(sentence.text[at:end])
        at = end
    return from_words(words)


def cutting_tree(
    made: Path, folder: Path, train: int = 40, **changes: Any
) -> dict[str, dict[str, Any]]:
    """Writes train, dev and test.seg, and gives the settings of a small segmenter that learns from
    them.
    """
    files = {part: folder / f"{part}.seg" for part in ("train", "dev", "test")}
    for seed, (part, path) in enumerate(files.items()):
        write_segmented(path, map(in_words, sentences(train if part == "train" else 20, seed)))
    named = {f"data__{part}": str(path) for part, path in files.items()}
    small = {"model__encoder": "char", "model__hidden": 8, "train__epochs": 3}
    return made_tree(made, **{**named, **small, **changes})
