"""Corpus: sentences with their gold spans, as a value. The readers make it; `corpus.py` chooses the reader."""

from __future__ import annotations

from dataclasses import dataclass

from hanlattice.text.sentence import Sentence


@dataclass(frozen=True)
class Corpus:
    """`tags` are those of the file as they stand, illegal ones included, for the scorer; None where it has no tags.

    `scheme` is the scheme of `tags`; `notices` say what a reader of the file should know about it.
    """

    sentences: tuple[Sentence, ...]
    scheme: str | None = None
    tags: tuple[tuple[str, ...], ...] | None = None
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sentences)
