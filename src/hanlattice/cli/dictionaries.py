"""What the verbs that take a user's dictionary share: `--lexicon`, `--trust`, and adding the words to a model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanlattice.cli.console import note
from hanlattice.errors import InputError
from hanlattice.files import shown

if TYPE_CHECKING:
    from hanlattice.predict import Predictor


def _resolved(paths: list[Path] | None) -> list[Path] | None:
    """`@jieba/dict.txt` is the file that `hanlattice data get jieba` downloaded."""
    from hanlattice.data.download import resolve

    return paths and [resolve(path) for path in paths]


Lexicons = Annotated[
    list[Path] | None,
    typer.Option("--lexicon", "-l", callback=_resolved, help="A dictionary whose words are added; may be repeated."),
]
Trust = Annotated[
    float | None,
    typer.Option(
        min=0, max=1000, help="For a segmenter: how much more those words count; 0 is no more than others; default 3."
    ),
]


def check_trust(trust: float | None, dictionaries: list[Path] | None) -> None:
    """Refuse `--trust` without `--lexicon`, and nan."""
    if trust is not None and not dictionaries:
        raise InputError("--trust is for the words of --lexicon: give one")
    if trust is not None and math.isnan(trust):  # older typers let it pass the limits above
        raise InputError("--trust must be from 0 to 1000, not nan")


def add_words(predictor: Predictor, paths: Iterable[Path] | None, trust: float | None = None) -> None:
    """Add the words of dictionaries to a model's lexicon; without `trust` they have the default trust."""
    if trust is not None:
        if not predictor.model.indexer.cuts:
            raise InputError("--trust is for a model that cuts text into words, and this one finds entities")
        predictor.trust = trust
    for path in paths or ():
        _add_file(predictor, path)


def _add_file(predictor: Predictor, path: Path) -> None:
    """Add the words of one dictionary; a note says how many have a length that a lattice cannot use."""
    from hanlattice.text.boundaries import remove_space
    from hanlattice.text.lexicon import LONGEST, read_words

    lexicon, words = predictor.lexicon, list(read_words(path))
    lexicon.update(words)
    lengths = [len(remove_space(word)) for word in words]
    if idle := sum(not 1 < length <= LONGEST for length in lengths):
        what = f"one character or more than {LONGEST}" if max(lengths) > LONGEST else "one character"
        has, is_ = ("has", "is") if idle == 1 else ("have", "are")
        note(f"{shown(path)}: {idle:,} of {len(words):,} words {has} {what}, and {is_} passed over")
