"""Labelled files for finished models: read as what the models learnt from, where nobody says what they are."""

from __future__ import annotations

from collections.abc import Iterable

from hanlattice.data.corpus import Corpus, read_corpus
from hanlattice.data.download import resolve
from hanlattice.models.folder import Model


def read_for(models: Iterable[Model], file: str, format: str = "auto", scheme: str = "auto") -> Corpus:
    """A labelled file; where neither its suffix nor `format` says what it is, it is like what the models learnt from.

    Models that disagree are not asked.
    """
    usual = {_usual(model) for model in models}
    otherwise = usual.pop() if len(usual) == 1 else "columns"
    return read_corpus(resolve(file), format=format, scheme=scheme, otherwise=otherwise)


def _usual(model: Model) -> str:
    """The format of its training file, or that of nearly all files of its kind."""
    if model.config.data.format != "auto":
        return model.config.data.format
    return "segmented" if model.indexer.cuts else "columns"
