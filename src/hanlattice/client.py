"""Client: a model on a server, with the methods of a loaded one. It needs nothing but Python's own
library.
"""

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

TEXTS = 64  # of a request
CHARACTERS = 20_000
LONGEST = 1e6  # seconds of a timeout
WAITS = 5.0  # seconds: the longest pause before another try


def connect(
    url: str,
    model: str | None = None,
    *,
    token: str | None = None,
    timeout: float = 60.0,
    retries: int = 5,
) -> Client:
    """A model on a server: `hanlattice.connect("http://127.0.0.1:8000")`.

    Args:
        url: The server's address.
        model: One of its models; the first by default.
        token: The bearer token, if the server needs one.
        timeout: Seconds to wait for a result.
        retries: How often a request is sent again when the server is busy (429), restarting (503)
            or out of reach.
    """
    return Client(url, model, token, timeout, retries)


class ClientWords:
    """The words that a client sends with each of its requests, and those that it leaves out."""

    def __init__(self) -> None:
        self.added: dict[str, dict[str, Entry]] = {}  # what is said of each word, by label
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
        """Add a word; False when it is there already. Label and trust are those of `Lexicon.add`."""
        return bool(self.update([Entry(word, label, trust)]))

    def update(self, words: Iterable[str | Entry]) -> int:
        """Add many words, or entries with labels; how many of them were new."""
        new = 0
        for each in words:
            entry = (Entry(each) if isinstance(each, str) else each).checked()
            word = entry.word.strip()
            said = self.added.get(word)
            new += said is None or (not entry.is_plain and said.get(entry.label) != entry)
            self.added.setdefault(word, {}).update({} if entry.is_plain else {entry.label: entry})
            self.removed.pop(word, None)
        return new

    def sent(self) -> list[str | dict[str, Any]]:
        """The words as a request has them."""
        return [
            one
            for word, said in self.added.items()
            for one in (map(_record, said.values()) if said else [word])
        ]

    def remove(self, word: str) -> bool:
        """Take a word out, an added one or one of the model; False when it was out already."""
        was_there = word.strip() not in self.removed
        self.added.pop(word.strip(), None)
        self.removed[word.strip()] = None
        return was_there


class Client:
    """`client(text)` returns a Document, `client(texts)` a list, `client.pipe(texts)` an iterator,
    as a Predictor does.

    `lexicon` has the words of this client; they are sent along, and no other request sees them.
    Threads may share it.
    """

    def __init__(
        self, url: str, model: str | None, token: str | None, timeout: float, retries: int
    ) -> None:
        parts = urlsplit(url if "//" in url else f"//{url}", scheme="http")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"expected the address of a server, such as http://127.0.0.1:8000, not {url!r}"
            )
        self._connect = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._host = parts.hostname
        self._port = parts.port
        self._path = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )
        self._timeout = check_number(timeout, "timeout", 0.001, LONGEST)
        self._retries = check_count(retries, "retries", 0)
        self._local = threading.local()
        self._open: list[http.client.HTTPConnection] = []  # a thread has its own
        self.url = url
        self.lexicon = ClientWords()
        self.trust: float | None = None  # the server's, unless set
        if not (model is None or isinstance(model, str)):
            kind = type(model).__name__
            raise TypeError(
                f"model must be the name of a model of the server, not {kind}: {brief(model)}"
            )
        try:
            every = {each["name"]: each for each in self._send("GET", "/v1/models")["models"]}
            first = next(iter(every.values()))
        except (LookupError, TypeError, StopIteration):
            raise self._no_answer() from None
        if model is not None and model not in every:
            raise ServerError(404, f"there is no model {model!r}: expected {', '.join(every)}")
        self.about = every[model] if model is not None else first
        self.model: str = self.about["name"]
        self._verb = "segment" if self.about["kind"] == "words" else "tag"

    def close(self) -> None:
        """Close the connections; the next call opens one again."""
        while self._open:
            self._open.pop().close()

    def __del__(self) -> None:
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
        found = self.pipe(text, min_score=min_score)
        return list(found) if isinstance(text, Collection) else found

    def pipe(
        self,
        texts: Iterable[str],
        batch_size: int = TEXTS,
        *,
        scores: bool = True,
        min_score: float = 0.0,
        candidates: int = 0,
    ) -> Iterator[Document]:
        """Tag any number of texts, `batch_size` in a request; documents come in the order of the
        texts.
        """
        options = {"scores": scores, "min_score": min_score, "candidates": candidates}
        yield from self._documents(self._verb, texts, batch_size, **options)

    def candidates(self, text: str, n: int = 10, min_score: float = 0.0) -> tuple[Span, ...]:
        """The n most probable spans of a text, the best first."""
        n = check_count(n, "the number of candidates")
        asked = {"text": text, "candidates": n, "min_score": min_score}
        return self._document(self._post(self._verb, asked)).candidates or ()

    def readings(self, text: str, n: int = 10) -> list[Document]:
        """The n most probable ways to tag the whole text, the best first."""
        n = check_count(n, "the number of readings")
        found = self._post(self._verb, {"text": text, "readings": n})["readings"]
        return [self._document({"text": text, **each}) for each in found]

    def analyse(
        self,
        text: str,
        *,
        segmenter: str | None = None,
        whole_names: bool = False,
        min_score: float = 0.0,
    ) -> Document:
        """Words and entities of a text, as `Predictor.analyse` finds them; `segmenter` is a model
        of the server.
        """
        return next(
            self.analyse_pipe([check_text(text)], 1, segmenter, whole_names, min_score=min_score)
        )

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
        """`analyse` for any number of texts, `batch_size` in a request."""
        if not (segmenter is None or isinstance(segmenter, str)):
            kind = type(segmenter).__name__
            raise TypeError(
                f"segmenter must be the name of a model of the server, not {kind}: {brief(segmenter)}"
            )
        options: dict[str, Any] = {
            "scores": scores,
            "min_score": min_score,
            "whole_names": whole_names,
        }
        options |= {} if segmenter is None else {"segmenter": segmenter}
        yield from self._documents("analyse", texts, batch_size, **options)

    def explain(self, text: str, without: bool = True) -> Explanation:
        """What `Predictor.explain` gives."""
        return _explanation(self._post("explain", {"text": text, "without": without}))

    def _documents(
        self, verb: str, texts: Iterable[str], size: int, **options: Any
    ) -> Iterator[Document]:
        for chunk in chunks(texts, check_count(size, "batch_size"), CHARACTERS):
            records = self._post(verb, {"texts": chunk, **options})["documents"]
            yield from map(self._document, records)

    def _document(self, record: dict[str, Any]) -> Document:
        cuts = self._verb == "segment"  # its words are its spans
        spans = _spans(record["spans"])
        candidates = record.get("candidates")
        ranked = None if candidates is None else _spans(candidates)
        words = None if cuts or "words" not in record else _spans(record["words"])
        return Document(record["text"], spans, ranked, record.get("score"), words, cuts)

    def _post(self, verb: str, record: dict[str, Any]) -> dict[str, Any]:
        record["model"] = self.model
        if "min_score" in record:
            record["min_score"] = check_number(record["min_score"], "min_score")
        if "candidates" in record:
            record["candidates"] = check_count(record["candidates"], "the number of candidates", 0)
        if self._verb == "segment" and not record.get("min_score"):
            record.pop("min_score", None)
        own = {"dictionary": self.lexicon.sent(), "exclude": list(self.lexicon.removed)}
        record |= {name: words for name, words in own.items() if words}
        if self.trust is not None:
            record["trust"] = check_number(self.trust, "trust", 0.0, TRUST_MOST)
        return self._send("POST", f"/v1/{verb}", json.dumps(record).encode())

    def _send(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        """The answer as JSON; a request is sent again where the server says so, or cannot be
        reached.
        """
        for left in range(self._retries, -1, -1):
            pause = 0.2 * (self._retries - left + 1)
            try:
                status, headers, content = self._once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                if not left:
                    what = f"{type(error).__name__}: {error}"
                    raise ServerError(
                        0, f"{self.url}: no answer from the server ({what})"
                    ) from None
            else:
                if status == 200:
                    return self._answer(content)
                if status not in (429, 503) or not left:
                    raise ServerError(status, _message(content))
                given = headers.get("Retry-After", "")
                pause = float(given) if given.isdecimal() else pause
            time.sleep(min(pause, WAITS))
        raise AssertionError

    def _answer(self, content: bytes) -> dict[str, Any]:
        try:
            found = read_json(content.decode("utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._no_answer()
        return found

    def _no_answer(self) -> ServerError:
        return ServerError(
            0, f"{self.url}: the answer is not one of hanlattice serve; is this its address?"
        )

    def _once(
        self, method: str, path: str, body: bytes | None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """One request, over the thread's own connection."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect(
                self._host, self._port, timeout=self._timeout
            )
            self._open.append(connection)
        try:
            connection.request(method, self._path + path, body, self._headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        except BaseException:
            connection.close()  # it opens again by itself
            raise


def _record(entry: Entry) -> dict[str, Any]:
    trust = (
        {}
        if entry.trust is None
        else {"trust": str(entry.trust) if math.isinf(entry.trust) else entry.trust}
    )
    return {"word": entry.word, "label": entry.label, **trust}


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return content[:200].decode("utf-8", "replace")


def _spans(rows: Sequence[dict[str, Any]]) -> tuple[Span, ...]:
    return tuple(Span(**row) for row in rows)


def _explanation(record: dict[str, Any]) -> Explanation:
    """What `Explanation.to_dict` wrote, with the names of the tags."""
    words = record["words"]
    characters = record["characters"]
    names = tuple(record["tag_names"])
    layers = max((len(each["forward"]) for each in (*words, *characters)), default=0)
    changed = [each["without"] for each in words if "without" in each]
    return Explanation(
        text=record["text"],
        spans=_spans(record["spans"]),
        tags=tuple(each["tag"] for each in characters),
        words=tuple(
            Word(*(each[name] for name in ("start", "end", "word", "source", "chosen")))
            for each in words
        ),
        layers=tuple(
            Layer(*(_direction(words, characters, name, layer) for name in ("forward", "backward")))
            for layer in range(layers)
        ),
        tag_names=names,
        marginals=tuple(
            each["marginals"] and tuple(each["marginals"][name] for name in names)
            for each in characters
        ),
        pieces=tuple((start, end) for start, end in record["pieces"]),
        has_lattice=record["has_lattice"],
        without=tuple(
            Ablation(each["first"], tuple(each["scores"]), _spans(each["spans"]))
            for each in changed
        ),
    )


def _direction(words: Sequence[Any], characters: Sequence[Any], name: str, layer: int) -> Direction:
    cells = [
        each[name][layer] if each[name] else {"own": None, "before": None} for each in characters
    ]
    return Direction(
        tuple(Share(**each[name][layer]) for each in words),
        tuple(each["own"] and Share(**each["own"]) for each in cells),
        tuple(each["before"] and Share(**each["before"]) for each in cells),
    )
