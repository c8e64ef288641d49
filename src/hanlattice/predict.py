"""From text to spans: what the command line, a server and a Python program all use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import overload

import numpy as np
import torch
from torch import Tensor

from hanlattice.errors import ModelError
from hanlattice.models.checkpoint import Model, load_model
from hanlattice.models.decode import find_spans
from hanlattice.nn.embeddings import WordEmbedding
from hanlattice.text.cut import pieces
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normal import fold
from hanlattice.text.spans import Span

TRUST, TRUST_MOST = 3.0, 1000.0  # how much more a tag of a user's word scores; docs/segmentation.md has what it does
LIMIT = 512  # characters that the model reads at once; longer texts are cut at sentence ends
CHUNK = 1 << 18  # characters that are turned into numbers at a time
TEXTS = {"cpu": 1024, "cuda": 4096}  # that are tagged at a time: enough for full batches of sentences of one length


@dataclass(frozen=True)
class Document:
    """A text as it was given, and the spans found in it, from left to right."""

    text: str
    spans: tuple[Span, ...]


def load(folder: str | Path, device: str = "cpu") -> Predictor:
    """The model in a folder, ready to tag."""
    return Predictor(load_model(folder, device))


class Predictor:
    """`tagger(text)` gives a Document, `tagger(texts)` a list of them, `tagger.pipe(texts)` a stream.

    A text longer than `limit` is read in pieces, each as if it were a text of its own: words and spans end where a
    piece does. Pieces are cut at sentence ends where there are any, so that seldom splits one.

    Of a segmenter, words that were added to the lexicon count more than those it came with: each tag that makes one of
    them a word scores `trust` more, in the logarithm of its odds. With 0 they are words of the lattice like the others.
    """

    def __init__(self, model: Model, limit: int = LIMIT, trust: float = TRUST) -> None:
        self.model, self.limit, self.trust = model, limit, trust

    @property
    def trust(self) -> float:
        """How much more words count that were added to the lexicon; 0 is no more than others."""
        return self._trust

    @trust.setter
    def trust(self, value: float) -> None:
        if not 0 <= value <= TRUST_MOST:
            raise ValueError(f"trust must be from 0 to {TRUST_MOST:g}, not {value}")
        self._trust = value

    @property
    def lexicon(self) -> Lexicon:
        """The words that the model looks for; a change takes effect on the next call."""
        if self.model.indexer.lexicon is None:
            raise ModelError("this model has no lexicon; a lattice model has one")
        return self.model.indexer.lexicon

    @overload
    def __call__(self, text: str) -> Document: ...
    @overload
    def __call__(self, text: list[str] | tuple[str, ...]) -> list[Document]: ...
    def __call__(self, text: str | list[str] | tuple[str, ...]) -> Document | list[Document]:
        if isinstance(text, str):
            return self._tag([text])[0]
        return list(self.pipe(text, max(1, len(text))))

    def pipe(self, texts: Iterable[str], batch_size: int | None = None, *, scores: bool = True) -> Iterator[Document]:
        """Tag any number of texts in bounded memory, `batch_size` at a time; documents come in the texts' order.

        The first document comes when so many texts are there, or all of them. Without `batch_size`: `TEXTS`. Without
        `scores` spans have no probability, which is quicker.
        """
        if batch_size is None:
            batch_size = TEXTS[self.model.tagger.output.weight.device.type]
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more, not {batch_size}")
        if isinstance(texts, str):
            raise TypeError("pipe takes texts, such as a list or a file's lines; for one text call the tagger itself")
        return (document for chunk in chunks(texts, batch_size) for document in self._tag(chunk, scores))

    def _tag(self, texts: Sequence[str], scores: bool = True) -> list[Document]:
        self._give_new_words_a_vector()
        cuts = [(at, start, end) for at, text in enumerate(texts) for start, end in pieces(text, self.limit)]
        spans: list[list[Span]] = [[] for _ in texts]
        sizes = np.array([end - start for _, start, end in cuts], dtype=np.int64)
        edges = np.flatnonzero(np.diff(np.cumsum(sizes) // CHUNK)) + 1
        for low, high in pairwise([0, *edges.tolist(), len(cuts)]):
            self._add_spans(texts, cuts[low:high], spans, scores)
        return [Document(text, tuple(row)) for text, row in zip(texts, spans, strict=True)]

    def _add_spans(
        self, texts: Sequence[str], cuts: Sequence[tuple[int, int, int]], spans: Sequence[list[Span]], scores: bool
    ) -> None:
        """Put what is found in pieces (text, start, end) into the lists of their texts."""
        indexer = self.model.indexer
        found, probability = find_spans(
            self.model.tagger,
            indexer,
            indexer.read([texts[at][start:end] for at, start, end in cuts]),
            scores,
            self.trust,
        )
        text, offset, _ = np.array(cuts, dtype=np.int64).reshape(-1, 3)[found.text].T
        columns = [array.tolist() for array in (text, found.start + offset, found.end + offset, found.label)]
        each = probability.tolist() if scores else [None] * len(text)
        for at, start, end, label, score in zip(*columns, each, strict=True):
            spans[at].append(Span(start, end, indexer.tag_ids.labels[label], score, texts[at][start:end]))

    def _give_new_words_a_vector(self) -> None:
        words, lexicon = self.model.tagger.lexicon, self.model.indexer.lexicon
        if words is None or lexicon is None:
            return
        if len(lexicon.words) > len(words):
            words.append(compose_vectors(lexicon.words[len(words) :], lexicon, words))


def chunks(texts: Iterable[str], batch_size: int) -> Iterator[list[str]]:
    """The texts in lists of `batch_size`, or fewer where they are long; each list as soon as it is full."""
    chunk: list[str] = []
    size = 0
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a text must be a str, not {type(text).__name__}: {text!r}")
        if chunk and size + len(text) > CHUNK:
            yield chunk
            chunk, size = [], 0
        chunk.append(text)
        size += len(text)
        if len(chunk) == batch_size:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


@torch.no_grad()
def compose_vectors(new: Sequence[str], lexicon: Lexicon, words: WordEmbedding) -> Tensor:
    """Vectors for words without one: the mean over the words with a vector inside it, or over all words if none is."""
    counts, _, _, found = lexicon.match_many([fold(word) for word in new])
    inside = [[at for at in row.tolist() if at < len(words)] for row in np.split(found, np.cumsum(counts)[:-1])]
    device, anywhere = words.trained.device, words.mean()
    return torch.stack([words.rows(torch.tensor(at, device=device)).mean(0) if at else anywhere for at in inside])
