"""What the verbs that take a user's dictionary share: `--lexicon`, `--trust`, and words for a model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanlattice.cli.notes import note
from hanlattice.errors import InputError
from hanlattice.files import shown

if TYPE_CHECKING:
    from hanlattice.predict import Predictor

Lexicons = Annotated[
    list[Path] | None,
    typer.Option("--lexicon", "-l", help="A dictionary whose words are added; may be repeated."),
]
Trust = Annotated[
    float | None,
    typer.Option(
        min=0, max=1000, help="Of a segmenter: how much more their words count, 0 no more than others; default 3."
    ),
]


def check_trust(trust: float | None, dictionaries: list[Path] | None) -> None:
    """It counts for a user's words, so there must be some, and it must be a number."""
    if trust is not None and not dictionaries:
        raise InputError("--trust is for the words of --lexicon: give one")
    if trust is not None and math.isnan(trust):  # it passes the limits above in older typers
        raise InputError("--trust must be from 0 to 1000, not nan")


def add_words(predictor: Predictor, paths: Iterable[Path] | None, trust: float | None = None) -> None:
    """Add the words of dictionaries to a model's lexicon; `None` is no dictionary, and the usual trust."""
    if trust is not None:
        if not predictor.model.indexer.cuts:
            raise InputError("--trust is for a model that cuts text into words, and this one finds entities")
        predictor.trust = trust
    for path in paths or ():
        _add_file(predictor, path)


def _add_file(predictor: Predictor, path: Path) -> None:
    """Add the words of one; a note says how many of them no lattice can have, and so change nothing."""
    from hanlattice.text.lexicon import LONGEST
    from hanlattice.text.wordfile import read_words

    lexicon, solid = predictor.lexicon, predictor.model.indexer.cuts  # a segmenter reads text without white space
    words = list(read_words(path))
    lexicon.update(words)
    if idle := sum(not 1 < len(word) <= LONGEST or (solid and len(word.split()) > 1) for word in words):
        kinds = ["one character"]
        kinds += [f"more than {LONGEST}"] if max(map(len, words)) > LONGEST else []
        kinds += ["white space inside"] if solid else []
        what = " or ".join(kinds) if len(kinds) < 3 else f"{', '.join(kinds[:-1])}, or {kinds[-1]}"
        has, is_ = ("has", "is") if idle == 1 else ("have", "are")
        count = f"{idle:,} of {len(words):,} words {has} {what}, and {is_} passed over"
        note(f"{shown(path)}: {count}")
