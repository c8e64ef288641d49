"""From text to spans: what the command line, a server and a Python program all use."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import overload

import numpy as np
import torch

from hanlattice.batch.batch import Examples
from hanlattice.errors import ModelError
from hanlattice.explain import Explanation, explain
from hanlattice.models.asked import Asked, checked_count, checked_number, checked_text, checked_texts
from hanlattice.models.checkpoint import Model, load_model
from hanlattice.models.compose import compose, learn_from
from hanlattice.models.decode import Decoded, find_candidates, find_spans
from hanlattice.models.readings import find_readings, joined
from hanlattice.models.shipped import find_model
from hanlattice.text.boundaries import pieces
from hanlattice.text.display import counted, visible
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.spans import Span
from hanlattice.text.tags import FlatSpans

TRUST, TRUST_MOST = 3.0, 1000.0  # how much more a tag of a user's word scores; docs/segmentation.md has what it does
LIMIT = 512  # characters that the model reads at once, and no word is longer; longer texts are cut at sentence ends
CHUNK = 1 << 18  # characters that are turned into numbers at a time
TEXTS = {"cpu": 1024, "cuda": 4096}  # that are tagged at a time: enough for full batches of sentences of one length
_PREPARING = Lock()  # one for all predictors, since several may share a model


@dataclass(frozen=True)
class Document:
    """A text as it was given, and the spans found in it, from left to right.

    Where they were asked for, `candidates` are its most probable spans, by falling probability. Of `readings`, `score`
    is the probability of these spans and no others.
    """

    text: str
    spans: tuple[Span, ...]
    candidates: tuple[Span, ...] | None = None
    score: float | None = None


def load(model: str | Path, device: str = "cpu", fast: bool = False) -> Predictor:
    """A model, ready to tag: `ner` or `seg`, which come with the package, or the folder of one's own.

    On a GPU it finds what it finds on a CPU; with `fast` it takes some two thirds of the time, and scores may differ.
    """
    return Predictor(load_model(find_model(model), device, fast))


class Predictor:
    """`tagger(text)` gives a Document, `tagger(texts)` a list of them, `tagger.pipe(texts)` a stream.

    A text longer than `limit` is read in pieces, each as if it were a text of its own: words and spans end where a
    piece does. Pieces are cut at sentence ends where there are any, so that seldom splits one. Whatever the limit, a
    lexicon has no words of more than 512 characters.

    Threads may share one, and its lexicon: a word that one of them adds counts from the others' next texts on.

    Of a segmenter, words that were added to the lexicon count more than those it came with: each tag that makes one of
    them a word scores `trust` more, in the logarithm of its odds: 3, unless it is given. With 0 they are words of the
    lattice like the others, as they always are for a model that finds entities.
    """

    def __init__(self, model: Model, limit: int = LIMIT, trust: float | None = None) -> None:
        usual = TRUST if model.indexer.cuts else 0.0
        self.model, self.limit = model, limit
        self.trust = usual if trust is None else trust
        self._composer = model.composer

    def __repr__(self) -> str:
        indexer = self.model.indexer
        finds = "cuts text into words" if indexer.cuts else f"finds {visible(', '.join(indexer.tag_ids.labels))}"
        words = [] if indexer.lexicon is None else [counted(len(indexer.lexicon), "word")]
        return f"<Predictor: {'; '.join([finds, str(self._device), *words])}>"

    @property
    def _device(self) -> torch.device:
        return self.model.tagger.output.weight.device

    @property
    def trust(self) -> float:
        """How much more words count that were added to a segmenter's lexicon; 0 is no more than others."""
        return self._trust

    @trust.setter
    def trust(self, value: float) -> None:
        trust = checked_number(value, "trust", TRUST_MOST)
        if trust and not self.model.indexer.cuts:
            raise ModelError("trust is for a model that cuts text into words, and this one finds entities")
        self._trust = trust

    @property
    def lexicon(self) -> Lexicon:
        """The words that the model looks for; a change takes effect on the next call."""
        if self.model.indexer.lexicon is None:
            raise ModelError("this model has no lexicon; a lattice model has one")
        return self.model.indexer.lexicon

    @overload
    def __call__(self, text: str, *, min_score: float = 0.0) -> Document: ...
    @overload
    def __call__(self, text: list[str] | tuple[str, ...], *, min_score: float = 0.0) -> list[Document]: ...
    def __call__(self, text: str | list[str] | tuple[str, ...], *, min_score: float = 0.0) -> Document | list[Document]:
        if isinstance(text, (str, bytes)) or not isinstance(text, Collection):
            return self._tag([checked_text(text)], self._asked(min_score=min_score))[0]
        return list(self.pipe(text, max(1, len(text)), min_score=min_score))

    def pipe(
        self,
        texts: Iterable[str],
        batch_size: int | None = None,
        *,
        scores: bool = True,
        min_score: float = 0.0,
        candidates: int = 0,
    ) -> Iterator[Document]:
        """Tag any number of texts in bounded memory, `batch_size` at a time; documents come in the texts' order.

        The first document comes when so many texts are there, or all of them. Without `batch_size`: `TEXTS`. Without
        `scores` spans have no probability, which is quicker. Spans less probable than `min_score` are left out. With
        `candidates`, each document has so many of its most probable spans besides.
        """
        size = TEXTS[self._device.type] if batch_size is None else checked_count(batch_size, name="batch_size")
        stream, asked = checked_texts(texts), self._asked(scores, min_score, candidates)
        return (document for chunk in chunks(stream, size) for document in self._tag(chunk, asked))

    def candidates(self, text: str, n: int = 10, min_score: float = 0.0) -> tuple[Span, ...]:
        """The n most probable spans of a text, in its best tagging or not, overlapping ones too; the best first.

        A score is exactly the probability of these characters with this label, whatever stands around them.
        """
        asked = Asked(True, checked_number(min_score, "min_score"), checked_count(n))
        return self._tag([checked_text(text)], asked)[0].candidates or ()

    def readings(self, text: str, n: int = 10) -> list[Document]:
        """The n most probable ways to tag the whole text, the best first; the `score` of each is its probability."""
        n, model, cuts = checked_count(n), self.model, pieces(checked_text(text), self.limit)
        examples = self._read([text[start:end] for start, end in cuts])
        rows = find_readings(model.tagger, model.indexer, examples, n, self.trust)
        offsets = (start for start, _ in cuts)
        return [
            Document(
                text,
                tuple(Span(span.start, span.end, span.label, text=text[span.start : span.end]) for span in spans),
                score=math.exp(log_probability),
            )
            for log_probability, spans in joined(zip(offsets, rows, strict=True), n)
        ]

    def _asked(self, scores: bool = True, min_score: float = 0.0, candidates: int = 0) -> Asked:
        min_score = checked_number(min_score, "min_score")
        if min_score and self.model.indexer.cuts:
            raise ModelError("min_score leaves spans out, and the words of a segmenter cover the text: use 0")
        if min_score and not scores:
            raise ValueError(f"min_score={min_score} needs scores")
        return Asked(scores, min_score, checked_count(candidates, 0))

    def explain(self, text: str, without: bool = False) -> Explanation:
        """Why: the spans of a text, the words of its lattice, and what share each has of the cells it pours into.

        With `without`, the text is read again for each word, without that word: what it changes shows what it does.
        """
        return explain(self.model, text, self.limit, self.trust, self._read, without)

    def _tag(self, texts: Sequence[str], asked: Asked) -> list[Document]:
        cuts = [(at, start, end) for at, text in enumerate(texts) for start, end in pieces(text, self.limit)]
        spans: list[list[Span]] = [[] for _ in texts]
        candidates: list[list[Span]] = [[] for _ in texts]
        sizes = np.array([end - start for _, start, end in cuts], dtype=np.int64)
        edges = np.flatnonzero(np.diff(np.cumsum(sizes) // CHUNK)) + 1
        for low, high in pairwise([0, *edges.tolist(), len(cuts)]):
            self._add_spans(texts, cuts[low:high], asked, spans, candidates)
        documents = [Document(text, tuple(row)) for text, row in zip(texts, spans, strict=True)]
        if not asked.candidates:
            return documents
        best = [tuple(sorted(row, key=by_score)[: asked.candidates]) for row in candidates]
        return [Document(each.text, each.spans, row) for each, row in zip(documents, best, strict=True)]

    def _add_spans(
        self,
        texts: Sequence[str],
        cuts: Sequence[tuple[int, int, int]],
        asked: Asked,
        spans: Sequence[list[Span]],
        candidates: Sequence[list[Span]],
    ) -> None:
        """Put what is found in pieces (text, start, end) into the lists of their texts."""
        tagger, indexer = self.model.tagger, self.model.indexer
        examples = self._read([texts[at][start:end] for at, start, end in cuts])
        if not asked.candidates:
            found = find_spans(tagger, indexer, examples, asked.scores, self.trust)
        else:
            found, others = find_candidates(tagger, indexer, examples, asked.candidates, asked.min_score, self.trust)
            self._put(texts, cuts, others, candidates)
        if asked.min_score:
            high = found.scores >= asked.min_score
            found = Decoded(FlatSpans(*(array[high] for array in found.spans)), found.scores[high])
        self._put(texts, cuts, found, spans, asked.scores)

    def _put(
        self,
        texts: Sequence[str],
        cuts: Sequence[tuple[int, int, int]],
        found: Decoded,
        rows: Sequence[list[Span]],
        scores: bool = True,
    ) -> None:
        text, offset, _ = np.array(cuts, dtype=np.int64).reshape(-1, 3)[found.spans.text].T
        start, end, names = found.spans.start + offset, found.spans.end + offset, self.model.indexer.tag_ids.labels
        columns = [array.tolist() for array in (text, start, end, found.spans.label)]
        each = found.scores.tolist() if scores else [None] * len(text)
        for at, low, high, label, score in zip(*columns, each, strict=True):
            rows[at].append(Span(low, high, names[label], score, texts[at][low:high]))

    def _read(self, texts: Sequence[str]) -> Examples:
        """Texts as numbers. Only then are there vectors for all of their words: one may join meanwhile."""
        examples = self.model.indexer.read(texts)
        self.prepare()
        return examples

    def prepare(self) -> None:
        """Give words that joined the lexicon a vector, as the next call would; the first of them may take seconds."""
        table, lexicon = self.model.tagger.lexicon, self.model.indexer.lexicon
        if table is None or lexicon is None or len(lexicon.words) <= len(table):
            return
        with _PREPARING:
            if new := lexicon.folded(len(table)):  # there are none where another thread was quicker
                if self._composer is None:
                    self._composer = learn_from(lexicon, table)
                table.append(compose(new, lexicon, table, self._composer))


def by_score(span: Span) -> tuple[float, Span]:
    """What spans are sorted by so that the most probable comes first; of equals, the one further left."""
    return -(span.score or 0.0), span


def chunks(texts: Iterable[str], batch_size: int) -> Iterator[list[str]]:
    """The texts in lists of `batch_size`, or fewer where they are long; each list as soon as it is full."""
    chunk: list[str] = []
    size = 0
    for text in texts:
        checked_text(text)
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
