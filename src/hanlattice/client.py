"""Client: a model on a server, with the methods of a loaded model and no dependencies."""

from __future__ import annotations

import http.client
import json
import math
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, overload
from urllib.parse import urlsplit

from hanlattice.checks import brief, check_count, check_number, read_json
from hanlattice.document import Document
from hanlattice.errors import ServerError
from hanlattice.explain import Ablation, Direction, Explanation, Layer, Share, Word
from hanlattice.predict import Texts, check_text, chunks, is_many
from hanlattice.text.dictionary import TRUST_MOST, Entry
from hanlattice.text.display import counted
from hanlattice.text.span import Span

# The most texts, and characters, of a request.
TEXTS = 64
CHARACTERS = 20_000
# Seconds: the longest timeout, and the longest pause before a request is sent again.
LONGEST = 1e6
WAITS = 5.0


def connect(
    url: str,
    model: str | None = None,
    *,
    token: str | None = None,
    timeout: float = 60.0,
    retries: int = 5,
) -> Client:
    """Connect to a model on a server.

    Args:
        url: The server's address.
        model: One of its models; the first by default.
        token: The bearer token, if the server needs one.
        timeout: Seconds to wait for a result.
        retries: How often a request is sent again when the server is busy (429), restarting (503)
            or out of reach.

    Example:
        >>> tagger = hanlattice.connect("http://127.0.0.1:8000")
        >>> document = tagger("王小明在南京工作。")
    """
    return Client(url, model, token, timeout, retries)


class ClientWords:
    """The words that a client adds to the model's lexicon, or removes, in each of its requests."""

    def __init__(self) -> None:
        # The entries of each word by label. A word without a label has none.
        self.added: dict[str, dict[str, Entry]] = {}
        self.removed: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<Words: {counted(len(self.added), 'word')} added, {len(self.removed)} removed>"

    def __len__(self) -> int:
        return len(self.added)

    def __iter__(self) -> Iterator[str]:
        return iter(self.added)

    def __contains__(self, word: str) -> bool:
        return word.strip() in self.added

    def add(self, word: str, label: str = "", trust: float | None = None) -> bool:
        """Add a word as `Lexicon.add` does; return False if it was there already."""
        return bool(self.update([Entry(word, label, trust)]))

    def update(self, words: Iterable[str | Entry]) -> int:
        """Add many words, or entries with labels; return how many were new."""
        new = 0
        for given in words:
            entry = (Entry(given) if isinstance(given, str) else given).checked()
            word = entry.word.strip()
            is_new = word not in self.added
            entries = self.added.setdefault(word, {})
            if not entry.is_plain:
                is_new = is_new or entries.get(entry.label) != entry
                entries[entry.label] = entry
            new += is_new
            self.removed.pop(word, None)
        return new

    def sent(self) -> list[str | dict[str, Any]]:
        """Return the words in the form of a request's `dictionary`."""
        records: list[str | dict[str, Any]] = []
        for word, entries in self.added.items():
            if not entries:
                records.append(word)
            for entry in entries.values():
                record: dict[str, Any] = {"word": entry.word, "label": entry.label}
                if entry.trust is not None:
                    # JSON has no infinity.
                    trust = entry.trust
                    record["trust"] = str(trust) if math.isinf(trust) else trust
                records.append(record)
        return records

    def remove(self, word: str) -> bool:
        """Remove an added word or one of the model; return False if it was removed already."""
        was_in = word.strip() not in self.removed
        self.added.pop(word.strip(), None)
        self.removed[word.strip()] = None
        return was_in


class Client:
    """A model on a server, used like a Predictor; `connect` makes one.

    `client(text)` returns a Document, `client(texts)` a list, `client.pipe(texts)` an iterator.
    Words in `lexicon` are sent with every request, and no other client sees them. Threads may share
    a client.
    """

    def __init__(
        self, url: str, model: str | None, token: str | None, timeout: float, retries: int
    ) -> None:
        parts = urlsplit(url if "//" in url else f"//{url}", scheme="http")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"expected the address of a server, such as http://127.0.0.1:8000, not {url!r}"
            )
        is_secure = parts.scheme == "https"
        self._connect = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
        self._host = parts.hostname
        self._port = parts.port
        self._path = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = check_number(timeout, "timeout", 0.001, LONGEST)
        self._retries = check_count(retries, "retries", 0)
        # Each thread has a connection of its own; `_open` has all, so that they can be closed.
        self._local = threading.local()
        self._open: list[http.client.HTTPConnection] = []
        self.url = url
        self.lexicon = ClientWords()
        self.trust: float | None = None  # the server's, unless set
        if not (model is None or isinstance(model, str)):
            kind = type(model).__name__
            raise TypeError(
                f"model must be the name of a model of the server, not {kind}: {brief(model)}"
            )
        try:
            models = self._send("GET", "/v1/models")["models"]
            about = {record["name"]: record for record in models}
            first = next(iter(about.values()))
        except (LookupError, TypeError, StopIteration):
            raise self._no_answer() from None
        if model is not None and model not in about:
            raise ServerError(404, f"there is no model {model!r}: expected {', '.join(about)}")
        self.about = about[model] if model is not None else first
        self.model: str = self.about["name"]
        self._verb = "segment" if self.about["kind"] == "words" else "tag"

    def close(self) -> None:
        """Close the connections. The next call opens one again."""
        while self._open:
            self._open.pop().close()

    def __del__(self) -> None:
        # A client whose address was refused has no connections.
        if hasattr(self, "_open"):
            self.close()

    def __repr__(self) -> str:
        return f"<Client: {self.model} at {self.url}>"

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
        """Tag a text, a list of texts, or texts as they come from a generator."""
        if not is_many(text):
            return self._document(self._post(self._verb, {"text": text, "min_score": min_score}))
        documents = self.pipe(text, min_score=min_score)
        return list(documents) if isinstance(text, Collection) else documents

    def pipe(
        self,
        texts: Iterable[str],
        batch_size: int = TEXTS,
        *,
        scores: bool = True,
        min_score: float = 0.0,
        candidates: int = 0,
    ) -> Iterator[Document]:
        """Tag any number of texts, at most `batch_size` in a request; see `Predictor.pipe`."""
        options = {"scores": scores, "min_score": min_score, "candidates": candidates}
        yield from self._documents(self._verb, texts, batch_size, **options)

    def candidates(self, text: str, n: int = 10, min_score: float = 0.0) -> tuple[Span, ...]:
        """Return the n most probable spans of a text, best first."""
        n = check_count(n, "the number of candidates")
        asked = {"text": text, "candidates": n, "min_score": min_score}
        return self._document(self._post(self._verb, asked)).candidates or ()

    def readings(self, text: str, n: int = 10) -> list[Document]:
        """Return the n most probable ways to tag the whole text, best first."""
        n = check_count(n, "the number of readings")
        readings = self._post(self._verb, {"text": text, "readings": n})["readings"]
        return [self._document({"text": text, **reading}) for reading in readings]

    def analyse(
        self,
        text: str,
        *,
        segmenter: str | None = None,
        whole_names: bool = False,
        min_score: float = 0.0,
    ) -> Document:
        """Find words and entities as `Predictor.analyse` does; `segmenter` names a model there."""
        given = [check_text(text)], 1, segmenter, whole_names
        return next(self.analyse_pipe(*given, min_score=min_score))

    def analyse_pipe(
        self,
        texts: Iterable[str],
        batch_size: int = TEXTS,
        segmenter: str | None = None,
        whole_names: bool = False,
        *,
        scores: bool = True,
        min_score: float = 0.0,
    ) -> Iterator[Document]:
        """Analyse any number of texts, at most `batch_size` in a request."""
        if not (segmenter is None or isinstance(segmenter, str)):
            given = f"{type(segmenter).__name__}: {brief(segmenter)}"
            raise TypeError(f"segmenter must be the name of a model of the server, not {given}")
        options: dict[str, Any] = {"scores": scores, "min_score": min_score}
        options["whole_names"] = whole_names
        if segmenter is not None:
            options["segmenter"] = segmenter
        yield from self._documents("analyse", texts, batch_size, **options)

    def explain(self, text: str, without: bool = True) -> Explanation:
        """Explain the spans of a text as `Predictor.explain` does."""
        return _explanation(self._post("explain", {"text": text, "without": without}))

    def _documents(
        self, verb: str, texts: Iterable[str], size: int, **options: Any
    ) -> Iterator[Document]:
        for chunk in chunks(texts, check_count(size, "batch_size"), CHARACTERS):
            records = self._post(verb, {"texts": chunk, **options})["documents"]
            yield from map(self._document, records)

    def _document(self, record: dict[str, Any]) -> Document:
        spans = _spans(record["spans"])
        candidates = record.get("candidates")
        ranked = None if candidates is None else _spans(candidates)
        # The words of a segmenter are its spans.
        cuts = self._verb == "segment"
        words = None if cuts or "words" not in record else _spans(record["words"])
        return Document(record["text"], spans, ranked, record.get("score"), words, cuts)

    def _post(self, verb: str, record: dict[str, Any]) -> dict[str, Any]:
        record["model"] = self.model
        if "min_score" in record:
            record["min_score"] = check_number(record["min_score"], "min_score")
        if "candidates" in record:
            record["candidates"] = check_count(record["candidates"], "the number of candidates", 0)
        # Requests to segment have no such field, and refuse fields that they do not know.
        if self._verb == "segment" and not record.get("min_score"):
            record.pop("min_score", None)
        own = {"dictionary": self.lexicon.sent(), "exclude": list(self.lexicon.removed)}
        record |= {name: words for name, words in own.items() if words}
        if self.trust is not None:
            record["trust"] = check_number(self.trust, "trust", 0.0, TRUST_MOST)
        return self._send("POST", f"/v1/{verb}", json.dumps(record).encode())

    def _send(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        """Return the JSON of the answer; try again if the server is busy or out of reach."""
        for left in range(self._retries, -1, -1):
            pause = 0.2 * (self._retries - left + 1)
            try:
                status, headers, content = self._once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                if not left:
                    what = f"no answer from the server ({type(error).__name__}: {error})"
                    raise ServerError(0, f"{self.url}: {what}") from None
            else:
                if status == 200:
                    try:
                        answer = read_json(content.decode("utf-8"))
                    except ValueError:
                        answer = None
                    if not isinstance(answer, dict):
                        raise self._no_answer()
                    return answer
                if status not in (429, 503) or not left:
                    raise ServerError(status, _message(content))
                given = headers.get("Retry-After", "")
                pause = float(given) if given.isdecimal() else pause
            time.sleep(min(pause, WAITS))
        raise AssertionError

    def _no_answer(self) -> ServerError:
        what = "the answer is not one of hanlattice serve; is this its address?"
        return ServerError(0, f"{self.url}: {what}")

    def _once(
        self, method: str, path: str, body: bytes | None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Send one request over the connection of this thread."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect(self._host, self._port, timeout=self._timeout)
            self._local.connection = connection
            self._open.append(connection)
        try:
            connection.request(method, self._path + path, body, self._headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        except BaseException:
            # A half-read answer must not be taken for the next one. The connection reopens itself.
            connection.close()
            raise


def _message(content: bytes) -> str:
    """Return the message of an error; of a proxy's error page, the beginning."""
    try:
        return str(json.loads(content)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return content[:200].decode("utf-8", "replace")


def _spans(rows: Sequence[dict[str, Any]]) -> tuple[Span, ...]:
    return tuple(Span(**row) for row in rows)


def _explanation(record: dict[str, Any]) -> Explanation:
    """Read a record of `Explanation.to_dict`, with the names of the tags."""
    words = record["words"]
    characters = record["characters"]
    names = tuple(record["tag_names"])
    layers = max((len(row["forward"]) for row in (*words, *characters)), default=0)
    fields = ("start", "end", "word", "source", "chosen")
    return Explanation(
        text=record["text"],
        spans=_spans(record["spans"]),
        tags=tuple(row["tag"] for row in characters),
        words=tuple(Word(*(row[name] for name in fields)) for row in words),
        layers=tuple(
            Layer(*(_direction(words, characters, name, layer) for name in ("forward", "backward")))
            for layer in range(layers)
        ),
        tag_names=names,
        marginals=tuple(
            row["marginals"] and tuple(row["marginals"][name] for name in names)
            for row in characters
        ),
        pieces=tuple((start, end) for start, end in record["pieces"]),
        has_lattice=record["has_lattice"],
        without=tuple(
            Ablation(row["first"], tuple(row["scores"]), _spans(row["spans"]))
            for row in (word["without"] for word in words if "without" in word)
        ),
    )


def _direction(words: Sequence[Any], characters: Sequence[Any], name: str, layer: int) -> Direction:
    # White space has no cells.
    none = {"own": None, "before": None}
    cells = [row[name][layer] if row[name] else none for row in characters]
    return Direction(
        tuple(Share(**row[name][layer]) for row in words),
        tuple(cell["own"] and Share(**cell["own"]) for cell in cells),
        tuple(cell["before"] and Share(**cell["before"]) for cell in cells),
    )
