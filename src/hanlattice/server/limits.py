"""The limits of the server, with their defaults and help texts, and the error of a request."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from hanlattice.checks import check_count, check_number
from hanlattice.errors import InputError

# Seconds, or milliseconds.
_LONGEST = 1e9


class RequestError(Exception):
    """A request is refused, with an HTTP status, a message, and the field that is wrong."""

    def __init__(
        self, status: int, message: str, field: str = "", retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.field = field
        self.retry_after = retry_after

    def as_dict(self) -> dict[str, Any]:
        error: dict[str, Any] = {"status": self.status, "message": self.message}
        return {"error": error | ({"field": self.field} if self.field else {})}


def _limit(default: float, about: str) -> Any:
    return field(default=default, metadata={"help": about})


@dataclass(frozen=True)
class Limits:
    """Every limit of a server; each is also an option of `hanlattice serve`."""

    max_body: int = _limit(1 << 20, "Bytes of a request's body; more: 413.")
    max_reading: int = _limit(
        64 << 20, "Bytes of all bodies that are arriving at a worker; more: 429."
    )
    max_header: int = _limit(16384, "Bytes of a request's headers; more: 431.")
    max_text: int = _limit(100_000, "Characters of one text; more: 413.")
    max_texts: int = _limit(1000, "Texts of one request; more: 413.")
    max_words: int = _limit(1000, "Dictionary words of one request; more: 413.")
    max_candidates: int = _limit(100, "Candidates or readings that may be asked for; more: 422.")
    max_explain: int = _limit(128, "Characters of a text to explain; more: 413.")
    batch_chars: int = _limit(1024, "Characters that are computed together.")
    batch_ms: float = _limit(
        1.0, "Milliseconds that an idle worker waits for more requests; 0: no waiting."
    )
    queue: int = _limit(
        4096,
        "Characters before a new request, of each long one only its next piece, in a worker; "
        "more: 429.",
    )
    queue_total: int = _limit(
        1_000_000, "Characters of all waiting requests of a worker; more: 429."
    )
    timeout: float = _limit(30.0, "Seconds until a request must be answered; later: 503.")
    body_timeout: float = _limit(10.0, "Seconds in which a request's body must arrive; later: 408.")
    idle_timeout: float = _limit(15.0, "Seconds until a connection without a request is closed.")
    stream_timeout: float = _limit(
        60.0, "Seconds that a stream waits for its client, to send or to read."
    )
    stream_lines: int = _limit(
        64, "Lines of a stream that are read before their results are taken."
    )
    drain: float = _limit(30.0, "Seconds that SIGTERM leaves to requests that were accepted.")

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            least = 0 if limit.name == "batch_ms" else 1
            option = f"--{limit.name.replace('_', '-')}"
            try:
                if type(limit.default) is int:
                    check_count(value, option, least, sys.maxsize)
                else:
                    check_number(value, option, least, _LONGEST)
            except (TypeError, ValueError) as error:
                raise InputError(str(error)) from None

    def as_dict(self) -> dict[str, float]:
        return asdict(self)
