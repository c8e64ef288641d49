"""The ASGI application: routes, authentication, and responses."""

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
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
}


class Post:
    """The endpoint of `POST /v1/tag`, `/v1/segment`, `/v1/analyse` or `/v1/explain`."""

    def __init__(self, service: Service, kind: str) -> None:
        self.service = service
        self.kind = kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self.service
        try:
            service.admit()
            body = await read_body(service, scope, receive)
            service.accepted += 1
            try:
                record = read_object(body)
                request = check_request(record, self.kind, service.models, service.limits)
                results = await service.compute(request, receive)
                # None when the client has gone.
                if results is not None:
                    await json_response(answer(request, results))(scope, receive, send)
            finally:
                service.accepted -= 1
        except RequestError as refused:
            await refusal(refused)(scope, receive, send)


async def read_body(service: Service, scope: Scope, receive: Receive) -> bytes:
    """Read the body of a request; never keep more of it than the limit."""
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
                # Many bodies within the limit could still fill the memory together.
                if service.arriving > service.limits.max_reading:
                    busy = "too many bodies are arriving; try again later"
                    raise RequestError(429, busy, retry_after=1)
                if not message.get("more_body"):
                    return b"".join(parts)
        finally:
            service.arriving -= size

    seconds = service.limits.body_timeout
    late = RequestError(408, f"the body did not arrive within {seconds:g} seconds")
    return await service.read(whole, seconds, late)  # type: ignore[no-any-return]


def json_response(
    record: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with a record as JSON."""
    return Response(to_json(record), status, headers, "application/json")


def refusal(refused: RequestError) -> Response:
    """Return the response to a request that is refused."""
    headers = {"Retry-After": str(refused.retry_after)} if refused.retry_after else {}
    # The rest of a body may still come, or the worker is about to end.
    if refused.status in (408, 503):
        headers["Connection"] = "close"
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return json_response(refused.as_dict(), refused.status, headers)


class AuthMetricsMiddleware:
    """Middleware that checks the token and the size of headers, and counts requests."""

    def __init__(
        self, app: Callable[[Scope, Receive, Send], Awaitable[None]], service: Service
    ) -> None:
        self.app = app
        self.service = service
        self.paths = {*FILES, "/health", "/ready", "/metrics", "/openapi.json"}
        self.paths |= {f"/v1/{name}" for name in ("models", "stream", *REQUESTS)}

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

        # Four bytes a header for ": " and the line end.
        size = len(path) + sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        most = self.service.limits.max_header
        app: Callable[[Scope, Receive, Send], Awaitable[None]] = self.app
        if size > most:
            app = refusal(RequestError(431, f"the headers are longer than {most:,} bytes"))
        elif path.startswith(GUARDED) and scope["method"] != "OPTIONS" and not self._may(scope):
            app = refusal(RequestError(401, "this server needs a token: Authorization: Bearer …"))
        await app(scope, receive, noted)
        # A counter for each path that somebody thinks up would fill the memory.
        known = path if path in self.paths else "other"
        self.service.metrics.request(known, status, time.perf_counter() - began)

    def _may(self, scope: Scope) -> bool:
        if not self.service.token:
            return True
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        # `==` would tell by its time how much of a guess is right.
        is_right = hmac.compare_digest(token.strip(), self.service.token)
        return scheme.lower() == b"bearer" and is_right


def make_app(service: Service, origins: tuple[str, ...] = ()) -> AuthMetricsMiddleware:
    """Make the application of a worker.

    Args:
        origins: Other web origins whose pages may use the server from a browser.
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
        records = [model.about() for model in service.models.values()]
        tone = tones({label for record in records for label in record["labels"]})
        return json_response({"models": records, "tones": tone, "limits": service.limits.as_dict()})

    async def openapi(request: Request) -> Response:
        return json_response(description(service.models, service.limits, bool(service.token)))

    async def page(request: Request) -> Response:
        content, kind = page_file(request.url.path)
        return Response(content, headers=_PAGE_HEADERS, media_type=kind)

    routes = [
        *(Route(path, page) for path in FILES),
        *(Route(f"/v1/{kind}", Post(service, kind), methods=["POST"]) for kind in REQUESTS),
        Route("/v1/stream", TextStream(service), methods=["POST"]),
        Route("/health", health),
        Route("/ready", ready),
        Route("/metrics", metrics),
        Route("/v1/models", models),
        Route("/openapi.json", openapi),
    ]
    methods = ["GET", "POST"]
    cors = Middleware(
        CORSMiddleware, allow_origins=origins, allow_methods=methods, allow_headers=["*"]
    )
    handlers = {HTTPException: _http_error, Exception: _crash}
    middleware = [cors] if origins else []
    app = Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)
    return AuthMetricsMiddleware(app, service)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    messages = {404: f"there is no {path}", 405: f"{path} does not take {request.method}"}
    refused = RequestError(error.status_code, messages.get(error.status_code, error.detail))
    return json_response(refused.as_dict(), error.status_code, error.headers)


async def _crash(request: Request, error: Exception) -> Response:
    return refusal(RequestError(500, "an error of the server; its log says more"))


@cache
def page_file(path: str) -> tuple[bytes, str]:
    """Return a file of the page and its media type; the style sheet gets the shared colours."""
    name, kind = FILES[path]
    content = (PAGE / name).read_text(encoding="utf-8")
    if name == "page.css":
        light, dark = (
            f":root{{{''.join(f'--{ink}:{colour[side]};' for ink, colour in INKS.items())}"
            f"{''.join(f'--t{index}:{tone[side]};' for index, tone in enumerate(TONES))}}}"
            for side in (0, 1)
        )
        content = light_and_dark(light, dark) + "\n" + rules() + "\n" + content
    return content.encode(), kind
