"""From text to spans: the API of a loaded model, for programs, the command line and spaCy."""

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
from hanlattice.inference.decode import (
    LIMIT,
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

# The bonus of a user's words: for a segmenter, on each of their tags; otherwise, on whole spans of
# words with a label. docs/segmentation.md and docs/dictionaries.md show the effect.
TRUST = 3.0
LABEL_TRUST = 16.0
# Characters that are indexed at a time.
CHUNK = 1 << 18
# Texts that are tagged at a time: enough to fill batches with sentences of one length.
TEXTS = {"cpu": 1024, "cuda": 4096}
Texts = str | list[str] | tuple[str, ...] | Iterator[str]
_COUNT_NAME = "the number of candidates or readings"


class TaggingOptions(NamedTuple):
    """What a caller wants to know about each text."""

    scores: bool = True
    min_score: float = 0.0
    candidates: int = 0


def load(
    model: str | Path, device: str = "cpu", fast: bool = False, decode: str | float | None = None
) -> Predictor:
    """Load a model.

    Args:
        model: `ner` or `seg`, which are bundled with the package, or the folder of your own model.
        device: `cpu`, `cuda` or `cuda:1`. A GPU finds the same spans as a CPU.
        fast: Round the factors of the lattice LSTM's products: to 8 bits on a CPU, to bf16 on a
            GPU. That is several times as fast on a CPU that multiplies bytes, and about 1.5 times
            as fast on a GPU. Scores may differ slightly.
        decode: Which spans are found; see `Predictor`.

    Example:
        >>> tagger = load("ner")
        >>> [span.text for span in tagger("王小明在南京工作。")]
        ['王小明', '南京']
    """
    return Predictor(load_model(find_model(model), device, fast), decode=decode)


class Predictor:
    """A loaded model.

    `tagger(text)` returns a Document, `tagger(texts)` a list of Documents. `tagger(generator)` and
    `tagger.pipe(texts)` return an iterator. `tagger.analyse` finds words and entities together.
    Threads may share a predictor and its lexicon: a word that one thread adds counts from the next
    text of the others on.

    Args:
        model: What `load_model` returns.
        limit: The most characters that are read at once. Longer texts are cut, at sentence ends
            where possible, and no word or span crosses a cut.
        trust: The bonus of words that a user adds to the lexicon, as the logarithm of their odds.
            A segmenter adds it to each tag of such a word (default: 3); with 0 the words count as
            the model's own. Other models add it to whole spans of words with a label (default: 16),
            unless the word has a trust of its own; words without a label count as their own.
        decode: "path" finds the spans of the most probable tagging. "spans" finds the spans with
            the largest expected F1 by their probabilities, none of which overlap. A number is
            "spans" with that threshold, which the probability of each span exceeds; a higher one
            finds fewer spans. By default, what the model was trained for, with half of its F1 on
            the development set as the threshold.
    """

    def __init__(
        self,
        model: Model,
        limit: int = LIMIT,
        trust: float | None = None,
        decode: str | float | None = None,
    ) -> None:
        if not isinstance(model, Model):
            given = f"{type(model).__name__}: {brief(model)}"
            raise TypeError(
                f"a Predictor takes what load_model returns, not {given}; "
                "for a name or a folder, call hanlattice.load"
            )
        self.model = model
        self.limit = check_count(limit, "limit")
        self.threshold = model.threshold(decode)
        self.trust = trust if trust is not None else TRUST if model.indexer.cuts else LABEL_TRUST

    def __repr__(self) -> str:
        indexer = self.model.indexer
        finds = "cuts text into words"
        if not indexer.cuts:
            finds = f"finds {visible(', '.join(indexer.tag_ids.labels))}"
        words = [] if indexer.lexicon is None else [counted(len(indexer.lexicon), "word")]
        return f"<Predictor: {'; '.join([finds, self.model.device, *words])}>"

    @property
    def trust(self) -> float:
        """The bonus of a user's words, from 0 to 1000; see `Predictor`."""
        return self._trust

    @trust.setter
    def trust(self, value: float) -> None:
        self._trust = check_number(value, "trust", 0.0, TRUST_MOST)

    @property
    def lexicon(self) -> Lexicon:
        """The words that a lattice model looks up. A change takes effect on the next call."""
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
        """Tag a text, a list of texts at once, or texts as a generator yields them.

        Args:
            text: One text, or several.
            min_score: Leave out less probable spans.
        """
        if isinstance(text, str):
            return self._tag([text], self._request(min_score=min_score))[0]
        if not is_many(text):
            check_text(text)
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
        """Tag any number of texts in bounded memory, in their order.

        Args:
            texts: Any iterable, such as the lines of a file.
            batch_size: Texts to tag at a time; the first document comes after that many are read.
                Default: 1024, on a GPU 4096.
            scores: Compute the probability of each span. False is faster.
            min_score: Leave out less probable spans.
            candidates: How many of its most probable spans to keep as `Document.candidates`.
        """
        size = TEXTS[self.model.tagger.device_kind]
        if batch_size is not None:
            size = check_count(batch_size, "batch_size")
        stream = _check_texts(texts)
        request = self._request(scores, min_score, candidates)
        # Not a generator function: wrong arguments raise now, not at the first document.
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
        """Find the words and entities of a text: `Document.words` and `Document.spans`.

        Args:
            text: One text; `analyse_pipe` takes any number.
            segmenter: The model that cuts words. Default: `seg`, loaded once and kept.
            whole_names: Make each entity one word: 任正非 instead of 任 正非.
            min_score: Leave out less probable entities.
        """
        given = [check_text(text)], 1, segmenter, whole_names
        return next(self.analyse_pipe(*given, min_score=min_score))

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
        """Analyse any number of texts in bounded memory; see `analyse` and `pipe`."""
        cutter = bundled("seg") if segmenter is None else segmenter
        if not isinstance(cutter, Predictor):
            kind = type(cutter).__name__
            expected = 'a loaded model, such as hanlattice.load("seg")'
            raise TypeError(f"segmenter must be {expected}, not {kind}: {brief(cutter)}")
        if self.model.indexer.cuts or not cutter.model.indexer.cuts:
            raise ModelError(
                "analyse is a method of a model that finds entities; "
                "`segmenter` is one that cuts words"
            )
        first, second = tee(_check_texts(texts))
        tagged = self.pipe(first, batch_size, scores=scores, min_score=min_score)
        segmented = cutter.pipe(second, batch_size, scores=scores)

        def with_words(document: Document, segmented: Document) -> Document:
            words = segmented.words or ()
            return replace(
                document, words=keep_names(words, document.spans) if whole_names else words
            )

        return map(with_words, tagged, segmented)

    def candidates(self, text: str, n: int = 10, min_score: float = 0.0) -> tuple[Span, ...]:
        """Return the n most probable spans of a text, best first, whether or not they overlap.

        A score is the exact probability of these characters with this label, summed over all
        taggings of the text.
        """
        least = check_number(min_score, "min_score")
        request = TaggingOptions(True, least, check_count(n, _COUNT_NAME))
        return self._tag([check_text(text)], request)[0].candidates or ()

    def readings(self, text: str, n: int = 10) -> list[Document]:
        """Return the n most probable ways to tag the whole text, best first, with `score`."""
        n = check_count(n, _COUNT_NAME)
        model = self.model
        cuts = pieces(check_text(text), self.limit)
        parts = [text[start:end] for start, end in cuts]
        rows: list[list[Reading]] = []
        for low, high, examples in model.indexer.parts(parts, characters=CHUNK):
            given = model.tagger, model.indexer, examples, parts[low:high]
            rows += find_readings(*given, n, self.trust)
        starts = (start for start, _ in cuts)
        best = join_readings(zip(starts, rows, strict=True), n)
        return [
            Document(text, spans, score=math.exp(log_probability), cuts=model.indexer.cuts)
            for log_probability, spans in best
        ]

    def explain(self, text: str, without: bool = True) -> Explanation:
        """Explain the spans of a text by the lexicon's words in it.

        Args:
            text: One text.
            without: Also tag the text once without each word. That shows what the word changes, and
                is what pictures draw. False is faster; pictures then show the share that each word
                has of the LSTM's cells.
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
        return TaggingOptions(scores, min_score, check_count(candidates, _COUNT_NAME, least=0))

    def _tag(self, texts: Sequence[str], request: TaggingOptions) -> list[Document]:
        indexer = self.model.indexer
        scores, least, n = request
        parts: list[str] = []
        offsets: list[tuple[int, int]] = []
        for number, text in enumerate(texts):
            for start, end in pieces(text, self.limit):
                parts.append(text[start:end])
                offsets.append((number, start))
        # For each piece, the index of its text, and where it starts in the text.
        source, by = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
        spans: list[list[Span]] = [[] for _ in texts]
        candidates: list[list[Span]] = [[] for _ in texts]
        for low, high, examples in indexer.parts(parts, characters=CHUNK):
            given = self.model.tagger, indexer, examples
            place = source[low:high], by[low:high]
            if n:
                found, likely = find_candidates(*given, n, least, self._trust, self.threshold)
                rows = make_spans(likely.moved(*place), texts, examples.labels)
                for row, new in zip(candidates, rows, strict=True):
                    row += new
            else:
                found = find_spans(*given, scores, self._trust, self.threshold)
            if least:
                found = found.at_least(least)
            rows = make_spans(found.moved(*place), texts, examples.labels, scores)
            for row, new in zip(spans, rows, strict=True):
                row += new
        documents = []
        for text, row, likely_row in zip(texts, spans, candidates, strict=True):
            # Each piece gave its n best spans; keep the n best of the text.
            best = tuple(sorted(likely_row, key=by_score)[:n]) if n else None
            documents.append(Document(text, tuple(row), best, cuts=indexer.cuts))
        return documents


_loading = threading.Lock()
_load_once = cache(load)


def _forget() -> None:
    # The thread that held the lock does not exist in a forked child.
    global _loading
    _loading = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def bundled(name: str) -> Predictor:
    """Return the bundled model with this name, loaded at its first use; all threads share it."""
    with _loading:
        return _load_once(name)


def is_many(text: object) -> TypeGuard[Iterable[str]]:
    """Return whether this is several texts: any iterable but a string of letters or bytes."""
    return isinstance(text, Iterable) and not isinstance(text, (str, bytes, bytearray, memoryview))


def by_score(span: Span) -> tuple[float, Span]:
    """Return a sort key that puts the most probable span first, of equals the one further left."""
    return -(span.score or 0.0), span


# A text that `chunks` does not pass on: callers put it where they need what came before it.
PAUSE = type("Pause", (str,), {})()


def chunks(
    texts: Iterable[str], batch_size: int, characters: int | None = None
) -> Iterator[list[str]]:
    """Yield the texts in lists, each once it is full or a PAUSE comes.

    Args:
        texts: Texts and PAUSEs.
        batch_size: The most texts of a list.
        characters: The most characters of a list with several texts. Default: `CHUNK`.
    """
    most = CHUNK if characters is None else characters
    chunk: list[str] = []
    size = 0
    for text in texts:
        if text is not PAUSE:
            check_text(text)
        if chunk and (text is PAUSE or size + len(text) > most):
            yield chunk
            chunk = []
            size = 0
        if text is PAUSE:
            continue
        chunk.append(text)
        size += len(text)
        if len(chunk) == batch_size:
            yield chunk
            chunk = []
            size = 0
    if chunk:
        yield chunk


def check_text(value: object) -> str:
    """Return the value if it is a text; raise TypeError if not."""
    if not isinstance(value, str):
        raise TypeError(f"a text must be a str, not {type(value).__name__}: {brief(value)}")
    return value


def _check_texts(value: Iterable[str]) -> Iterator[str]:
    """Return an iterator over texts, without reading any; refuse a single text."""
    if isinstance(value, str):
        raise TypeError(
            "pipe takes texts, such as a list or a file's lines; "
            "for one text call the tagger itself"
        )
    is_stream = isinstance(value, Iterable) or hasattr(value, "__getitem__")
    # Bytes iterate, but over numbers.
    if not is_stream or isinstance(value, (bytes, bytearray, memoryview)):
        kind = type(value).__name__
        raise TypeError(f"pipe takes texts, such as a list of str or a file's lines, not {kind}")
    return iter(value)
