"""The application: what each address answers, and who may ask."""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from hanlattice.data.formats.jsonl import to_json
from hanlattice.explain.svg import rules
from hanlattice.server.limits import RequestError
from hanlattice.server.openapi import description
from hanlattice.server.schema import REQUESTS, answer, check_request, read_object
from hanlattice.server.service import Service
from hanlattice.server.stream import TextStream
from hanlattice.theme import INKS, TONES, light_and_dark, tones

PAGE = Path(__file__).with_name("page")
FILES = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
GUARDED = ("/v1/", "/metrics")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Post:
    """`POST /v1/tag`, `/v1/segment` or `/v1/explain`."""

    def __init__(self, service: Service, kind: str) -> None:
        self.service = service
        self.kind = kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self.service.admit()
            body = await read_body(self.service, scope, receive)
            self.service.accepted += 1
            try:
                await self._answer(body, scope, receive, send)
            finally:
                self.service.accepted -= 1
        except RequestError as refused:
            await refusal(refused)(scope, receive, send)

    async def _answer(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        service = self.service
        request = check_request(read_object(body), self.kind, service.models, service.limits)
        results = await service.compute(request, receive)
        if results is not None:
            await json_response(answer(request, results))(scope, receive, send)


async def read_body(service: Service, scope: Scope, receive: Receive) -> bytes:
    """The body, of which no more than the limit is ever kept; one that says it is longer is not
    read at all.
    """
    most = service.limits.max_body
    too_long = RequestError(413, f"the body is longer than {most:,} bytes")
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if int(length) > most:
        raise too_long

    async def whole() -> bytes:
        parts = []
        size = 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestError(400, "the body ended early")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                service.arriving += len(parts[-1])
                if size > most:
                    raise too_long
                if service.arriving > service.limits.max_reading:
                    raise RequestError(
                        429, "too many bodies are arriving; try again later", retry_after=1
                    )
                if not message.get("more_body"):
                    return b"".join(parts)
        finally:
            service.arriving -= size

    late = RequestError(
        408, f"the body did not arrive within {service.limits.body_timeout:g} seconds"
    )
    return await service.read(whole, service.limits.body_timeout, late)  # type: ignore[no-any-return]


def json_response(
    record: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(to_json(record), status, headers, "application/json")


def refusal(refused: RequestError) -> Response:
    headers = {"Retry-After": str(refused.retry_after)} if refused.retry_after else {}
    if refused.status in (408, 503):
        headers["Connection"] = "close"
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return json_response(refused.as_dict(), refused.status, headers)


class AuthMetricsMiddleware:
    """Checks the token of each request, and counts requests for the metrics."""

    def __init__(
        self, app: Callable[[Scope, Receive, Send], Awaitable[None]], service: Service
    ) -> None:
        self.app = app
        self.service = service
        self.paths = {
            *FILES,
            "/health",
            "/ready",
            "/metrics",
            "/openapi.json",
            "/v1/models",
            "/v1/stream",
        }
        self.paths |= {f"/v1/{kind}" for kind in REQUESTS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began = time.perf_counter()
        path = scope["path"]
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        size = len(path) + sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size > self.service.limits.max_header:
            too_large = RequestError(
                431, f"the headers are longer than {self.service.limits.max_header:,} bytes"
            )
            await refusal(too_large)(scope, receive, noted)
        elif path.startswith(GUARDED) and scope["method"] != "OPTIONS" and not self._may(scope):
            await refusal(RequestError(401, "this server needs a token: Authorization: Bearer …"))(
                scope, receive, noted
            )
        else:
            await self.app(scope, receive, noted)
        known = (
            path if path in self.paths else "other"
        )  # else anybody could make any number of them
        self.service.metrics.request(known, status, time.perf_counter() - began)

    def _may(self, scope: Scope) -> bool:
        if not self.service.token:
            return True
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(
            token.strip(), self.service.token
        )


def make_app(service: Service, origins: tuple[str, ...] = ()) -> AuthMetricsMiddleware:
    """The application of a worker. `origins` are those of other pages that may use it from a
    browser.
    """

    async def health(request: Request) -> Response:
        return json_response({"status": "ok"})

    async def ready(request: Request) -> Response:
        if service.is_draining:
            return refusal(RequestError(503, "the server is shutting down"))
        return json_response({"status": "ready"})

    async def metrics(request: Request) -> Response:
        content, kind = service.metrics.page()
        return Response(content, media_type=kind)

    async def models(request: Request) -> Response:
        every = [model.about() for model in service.models.values()]
        tone = tones({label for each in every for label in each["labels"]})
        return json_response({"models": every, "tones": tone, "limits": service.limits.as_dict()})

    async def openapi(request: Request) -> Response:
        return json_response(description(service.models, service.limits, bool(service.token)))

    async def page(request: Request) -> Response:
        content, kind = page_file(request.url.path)
        headers = {
            "Content-Security-Policy": _POLICY,
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-cache",
        }
        return Response(
            content, headers=headers | {"Referrer-Policy": "no-referrer"}, media_type=kind
        )

    routes = [
        *(Route(path, page) for path in FILES),
        *(Route(f"/v1/{kind}", Post(service, kind), methods=["POST"]) for kind in REQUESTS),
        Route("/v1/stream", TextStream(service), methods=["POST"]),
        *(
            Route(path, each)
            for path, each in {"/health": health, "/ready": ready, "/metrics": metrics}.items()
        ),
        Route("/v1/models", models),
        Route("/openapi.json", openapi),
    ]
    cors = Middleware(
        CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"]
    )
    app = Starlette(
        routes=routes,
        middleware=[cors] if origins else [],
        exception_handlers={HTTPException: _http_error, Exception: _crash},
    )
    return AuthMetricsMiddleware(app, service)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {
        404: f"there is no {request.url.path}",
        405: f"{request.url.path} does not take {request.method}",
    }
    refused = RequestError(error.status_code, message.get(error.status_code, error.detail))
    return json_response(refused.as_dict(), error.status_code, error.headers)


async def _crash(request: Request, error: Exception) -> Response:
    return refusal(RequestError(500, "an error of the server; its log says more"))


@cache
def page_file(path: str) -> tuple[bytes, str]:
    """A file of the page. The style sheet begins with the colours that all pictures of hanlattice
    share.
    """
    name, kind = FILES[path]
    content = (PAGE / name).read_text(encoding="utf-8")
    if name == "page.css":
        light, dark = (
            f":root{{{''.join(f'--{ink}:{colour[side]};' for ink, colour in INKS.items())}"
            f"{''.join(f'--t{at}:{tone[side]};' for at, tone in enumerate(TONES))}}}"
            for side in (0, 1)
        )
        content = light_and_dark(light, dark) + "\n" + rules() + "\n" + content
    return content.encode(), kind
