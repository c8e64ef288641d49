"""From text to spans: used by the command line, the spaCy component and Python programs alike."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeGuard, overload

import numpy as np

from hanlattice.checkpoint import find_model
from hanlattice.checkpoint.folder import Model
from hanlattice.checkpoint.load import load_model
from hanlattice.checks import brief, check_count, check_number
from hanlattice.document import Document, keep_names
from hanlattice.errors import ModelError
from hanlattice.features import Examples
from hanlattice.inference.decode import (
    LIMIT,
    Decoded,
    Reading,
    find_candidates,
    find_readings,
    find_spans,
    join_readings,
    make_spans,
)
from hanlattice.text.boundaries import pieces
from hanlattice.text.dictionary import TRUST_MOST
from hanlattice.text.display import counted, visible
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.span import Span

if TYPE_CHECKING:
    from hanlattice.explain import Explanation

# How much more a user's word scores: for a segmenter each of its tags; otherwise, if it has a
# label, the whole span.
# docs/segmentation.md and docs/dictionaries.md have the effect.
TRUST = 3.0
LABEL_TRUST = 16.0
CHUNK = 1 << 18  # characters that are indexed at a time
Texts = str | list[str] | tuple[str, ...] | Iterator[str]
TEXTS = {
    "cpu": 1024,
    "cuda": 4096,
}  # texts tagged at a time: enough for full batches of sentences of one length


class TaggingOptions(NamedTuple):
    """What is wanted of each text."""

    scores: bool = True
    min_score: float = 0.0
    candidates: int = 0


def load(
    model: str | Path, device: str = "cpu", fast: bool = False, decode: str | float | None = None
) -> Predictor:
    """Load a model: `ner` or `seg`, which are bundled with the package, or the folder of your own.

    `device` is `cpu`, `cuda` or `cuda:1`. A GPU finds the same spans as a CPU. With `fast` the
    factors of the lattice LSTM's products are rounded, to 8 bits on a CPU and to bf16 on a GPU:
    several times as fast on a CPU that multiplies bytes, two thirds of the time on a GPU, and
    scores differ a little. `decode` is that of the `Predictor`.
    """
    return Predictor(load_model(find_model(model), device, fast), decode=decode)


class Predictor:
    """A loaded model. `tagger(text)` returns a Document, `tagger(texts)` a list,
    `tagger.pipe(texts)` an iterator.

    `tagger(generator)` is an iterator as well. `tagger.analyse` finds words and entities together.

    A text longer than `limit` characters is read in pieces, each as a text of its own, so words and
    spans end where a piece does. Pieces are cut at sentence ends where possible, which seldom
    splits a span.

    A segmenter prefers words that a user added to its lexicon: each tag that makes one of them a
    word scores `trust` more, as the logarithm of its odds (3 by default). With 0 they count as the
    model's own words. A model that finds entities does so for added words that have a label and no
    trust of their own, and the whole span scores `trust` more (16 by default); those without a
    label count as its own words.

    `decode` says which spans are found: "path" those of the most probable tagging of the text;
    "spans" those that do not overlap and have the largest expected F1 by their probabilities; by
    default what the model was trained for. A number is "spans" with that bar, which the probability
    of each span exceeds; a higher one finds fewer. Without it, the bar is half of the model's F1 on
    dev.

    Threads may share a predictor and its lexicon: a word that one of them adds counts from the
    others' next texts on.
    """

    def __init__(
        self,
        model: Model,
        limit: int = LIMIT,
        trust: float | None = None,
        decode: str | float | None = None,
    ) -> None:
        if not isinstance(model, Model):
            message = "a Predictor is made of what load_model returns; for a name or a folder take"
            raise TypeError(
                f"{message} hanlattice.load, not {type(model).__name__}: {brief(model)}"
            )
        self.model = model
        self.limit = check_count(limit, "limit")
        self.threshold = model.threshold(decode)
        self.trust = trust if trust is not None else TRUST if model.indexer.cuts else LABEL_TRUST

    def __repr__(self) -> str:
        indexer = self.model.indexer
        finds = (
            "cuts text into words"
            if indexer.cuts
            else f"finds {visible(', '.join(indexer.tag_ids.labels))}"
        )
        words = [] if indexer.lexicon is None else [counted(len(indexer.lexicon), "word")]
        return f"<Predictor: {'; '.join([finds, self.model.device, *words])}>"

    @property
    def trust(self) -> float:
        """How much more a user's words score, from 0 to 1000: each tag of a segmenter's, spans that
        have a label.
        """
        return self._trust

    @trust.setter
    def trust(self, value: float) -> None:
        self._trust = check_number(value, "trust", 0.0, TRUST_MOST)

    @property
    def lexicon(self) -> Lexicon:
        """The words that the model looks up; a change takes effect on the next call. Only lattice
        models have one.
        """
        if self.model.indexer.lexicon is None:
            raise ModelError("this model has no lexicon; a lattice model has one")
        return self.model.indexer.lexicon

    @overload
    def __call__(self, text: str, *, min_score: float = 0.0) -> Document: ...
    @overload
    def __call__(
        self, text: list[str] | tuple[str, ...], *, min_score: float = 0.0
    ) -> list[Document]: ...
    @overload
    def __call__(self, text: Iterator[str], *, min_score: float = 0.0) -> Iterator[Document]: ...
    def __call__(
        self, text: Texts, *, min_score: float = 0.0
    ) -> Document | list[Document] | Iterator[Document]:
        """Tag a text, a list of texts at once, or texts as they come from a generator, as `pipe`
        does.

        Spans less probable than `min_score` are left out.
        """
        if not is_many(text):
            return self._tag([check_text(text)], self._request(min_score=min_score))[0]
        if not isinstance(text, Collection):
            return self.pipe(text, min_score=min_score)
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
        """Tag any number of texts in bounded memory; documents come in the order of the texts.

        Args:
            texts: Any iterable, such as the lines of a file.
            batch_size: Texts that are tagged at a time, so the first document comes after so many
                texts have been
                read. By default 1024, on a GPU 4096.
            scores: Without them spans have no probability, which is quicker.
            min_score: Spans less probable than this are left out.
            candidates: How many of its most probable spans each document has in `candidates`.
        """
        size = (
            TEXTS[self.model.tagger.device_kind]
            if batch_size is None
            else check_count(batch_size, "batch_size")
        )
        stream = _check_texts(texts)
        request = self._request(scores, min_score, candidates)
        return (
            document for chunk in chunks(stream, size) for document in self._tag(chunk, request)
        )

    def analyse(
        self,
        text: str,
        *,
        segmenter: Predictor | None = None,
        whole_names: bool = False,
        min_score: float = 0.0,
    ) -> Document:
        """Words and entities of a text: the document's `spans` are the entities, its `words` the
        words.

        Args:
            text: One text; `analyse_pipe` takes any number.
            segmenter: The model that cuts the words; by default `seg`, which is loaded once and
                kept.
            whole_names: Each entity is one word: 任正非 instead of 任 正非.
            min_score: Entities less probable than this are left out.
        """
        return next(
            self.analyse_pipe([check_text(text)], 1, segmenter, whole_names, min_score=min_score)
        )

    def analyse_pipe(
        self,
        texts: Iterable[str],
        batch_size: int | None = None,
        segmenter: Predictor | None = None,
        whole_names: bool = False,
        *,
        scores: bool = True,
        min_score: float = 0.0,
    ) -> Iterator[Document]:
        """`analyse` for any number of texts in bounded memory, with the arguments of `pipe`."""
        by = bundled("seg") if segmenter is None else segmenter
        if not isinstance(by, Predictor):
            raise TypeError(
                f"segmenter must be {_LOADED % 'seg'}, not {type(by).__name__}: {brief(by)}"
            )
        if self.model.indexer.cuts or not by.model.indexer.cuts:
            raise ModelError(
                "analyse is a method of a model that finds entities; `segmenter` is one that cuts words"
            )
        first, second = tee(_check_texts(texts))
        tagged = self.pipe(first, batch_size, scores=scores, min_score=min_score)
        segmented = by.pipe(second, batch_size, scores=scores)
        pairs = ((found, cut.words or ()) for found, cut in zip(tagged, segmented, strict=True))
        return (
            replace(found, words=keep_names(words, found.spans) if whole_names else words)
            for found, words in pairs
        )

    def candidates(self, text: str, n: int = 10, min_score: float = 0.0) -> tuple[Span, ...]:
        """The n most probable spans of a text, the best first, whether or not they overlap or are
        in its best tagging.

        A score is the exact probability of these characters with this label, summed over all
        taggings of the text.
        """
        request = TaggingOptions(True, check_number(min_score, "min_score"), check_count(n, _MANY))
        return self._tag([check_text(text)], request)[0].candidates or ()

    def readings(self, text: str, n: int = 10) -> list[Document]:
        """The n most probable ways to tag the whole text, the best first; the `score` of each is
        its probability.
        """
        n = check_count(n, _MANY)
        model = self.model
        cuts = pieces(check_text(text), self.limit)
        parts = [text[start:end] for start, end in cuts]
        rows: list[list[Reading]] = []
        for low, high, examples in model.indexer.parts(parts, characters=CHUNK):
            rows += find_readings(
                model.tagger, model.indexer, examples, parts[low:high], n, self.trust
            )
        best = join_readings(zip((start for start, _ in cuts), rows, strict=True), n)
        return [
            self._document(text, spans, score=math.exp(log_probability))
            for log_probability, spans in best
        ]

    def _document(
        self,
        text: str,
        spans: tuple[Span, ...],
        candidates: tuple[Span, ...] | None = None,
        score: float | None = None,
    ) -> Document:
        return Document(text, spans, candidates, score, cuts=self.model.indexer.cuts)

    def explain(self, text: str, without: bool = True) -> Explanation:
        """The spans of a text, the lexicon's words in it, and the share that each word has of the
        LSTM's cells.

        The text is also tagged once without each word, which shows what the word changes: that is
        what the picture draws. `without=False` leaves it out, which is quicker; the picture shows
        the shares then.
        """
        from hanlattice.explain import explain

        return explain(self.model, text, self.limit, self.trust, self.threshold, without=without)

    def _request(
        self, scores: bool = True, min_score: float = 0.0, candidates: int = 0
    ) -> TaggingOptions:
        min_score = check_number(min_score, "min_score")
        if min_score and self.model.indexer.cuts:
            raise ModelError(
                "min_score leaves spans out, and the words of a segmenter cover the text: use 0"
            )
        if min_score and not scores:
            raise ValueError(f"min_score={min_score} needs scores")
        return TaggingOptions(scores, min_score, check_count(candidates, _MANY, least=0))

    def _tag(self, texts: Sequence[str], request: TaggingOptions) -> list[Document]:
        cuts = [
            (at, start, end)
            for at, text in enumerate(texts)
            for start, end in pieces(text, self.limit)
        ]
        spans: list[list[Span]] = [[] for _ in texts]
        candidates: list[list[Span]] = [[] for _ in texts]
        parts = [texts[at][start:end] for at, start, end in cuts]
        for low, high, examples in self.model.indexer.parts(parts, characters=CHUNK):
            found, others = self._find(examples, cuts[low:high], request)
            _extend(spans, make_spans(found, texts, examples.labels, request.scores))
            if others is not None:
                _extend(candidates, make_spans(others, texts, examples.labels))
        n = request.candidates
        best = [tuple(sorted(row, key=by_score)[:n]) if n else None for row in candidates]
        return [
            self._document(text, tuple(row), each)
            for text, row, each in zip(texts, spans, best, strict=True)
        ]

    def _find(
        self, examples: Examples, cuts: Sequence[tuple[int, int, int]], request: TaggingOptions
    ) -> tuple[Decoded, Decoded | None]:
        """Spans and candidates of pieces (text, start, end), counted in their texts."""
        tagger = self.model.tagger
        indexer = self.model.indexer
        text, by, _ = np.array(cuts, dtype=np.int64).reshape(-1, 3).T
        n = request.candidates
        least = request.min_score
        others = None
        if n:
            found, others = find_candidates(
                tagger, indexer, examples, n, least, self.trust, self.threshold
            )
            others = others.moved(text, by)
        else:
            found = find_spans(
                tagger, indexer, examples, request.scores, self.trust, self.threshold
            )
        return (found.at_least(least) if least else found).moved(text, by), others


def _extend(rows: list[list[Span]], others: list[list[Span]]) -> None:
    for row, new in zip(rows, others, strict=True):
        row += new


_loading = threading.Lock()
_load_once = cache(load)


def _forget() -> None:
    """In a forked child nobody is loading any more."""
    global _loading
    _loading = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def bundled(name: str) -> Predictor:
    """The bundled model of that name, loaded at its first use and kept; all threads share it."""
    with _loading:
        return _load_once(name)


def is_many(text: object) -> TypeGuard[Iterable[str]]:
    """Whether these are several texts: any iterable but a string of letters or bytes."""
    return isinstance(text, Iterable) and not isinstance(text, (str, bytes, bytearray, memoryview))


def by_score(span: Span) -> tuple[float, Span]:
    """A sort key that puts the most probable span first; of equals, the one further left."""
    return -(span.score or 0.0), span


PAUSE = type("Pause", (str,), {})()  # among texts: what came before it is wanted now


def chunks(
    texts: Iterable[str], batch_size: int, characters: int | None = None
) -> Iterator[list[str]]:
    """The texts in lists of `batch_size`, or fewer where they are long or before a PAUSE; each once
    it is full.
    """
    most = CHUNK if characters is None else characters
    chunk: list[str] = []
    size = 0
    for text in texts:
        if text is PAUSE:
            if chunk:
                yield chunk
                chunk = []
                size = 0
            continue
        check_text(text)
        if chunk and size + len(text) > most:
            yield chunk
            chunk = []
            size = 0
        chunk.append(text)
        size += len(text)
        if len(chunk) == batch_size:
            yield chunk
            chunk = []
            size = 0
    if chunk:
        yield chunk


_LOADED = 'a loaded model, such as hanlattice.load("%s")'
_MANY = "the number of candidates or readings"


def check_text(value: object) -> str:
    """The value if it is a text; anything else is a TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"a text must be a str, not {type(value).__name__}: {brief(value)}")
    return value


def _check_texts(value: Iterable[str]) -> Iterator[str]:
    """An iterator over the texts, of which none is read yet. A single text is refused."""
    if isinstance(value, str):
        raise TypeError(
            "pipe takes texts, such as a list or a file's lines; for one text call the tagger itself"
        )
    is_stream = isinstance(value, Iterable) or hasattr(value, "__getitem__")
    if not is_stream or isinstance(
        value, (bytes, bytearray, memoryview)
    ):  # which are streams of numbers
        raise TypeError(
            f"pipe takes texts, such as a list of str or a file's lines, not {type(value).__name__}"
        )
    return iter(value)
