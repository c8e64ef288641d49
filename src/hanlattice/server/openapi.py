"""The description of the server in OpenAPI, from which clients can be generated."""

from __future__ import annotations

from typing import Any

from hanlattice import __version__
from hanlattice.server.limits import Limits
from hanlattice.server.schema import REQUESTS, Models, Request, request_schemas

_MEANING = {
    400: "The body is not JSON in UTF-8.",
    401: "The token is missing or wrong.",
    404: "No such model.",
    405: "Another method is expected.",
    408: "The body did not arrive in time.",
    413: "The body, a text, or a list is longer than its limit.",
    422: "A field is missing, unknown, or has a wrong value.",
    429: "Too many requests are waiting; Retry-After says when to try again.",
    503: "The server is shutting down, or the result took too long.",
}


def description(models: Models, limits: Limits, has_token: bool) -> dict[str, Any]:
    """Return the OpenAPI document of a server with these models and limits."""
    paths: dict[str, Any] = {
        f"/v1/{kind}": {"post": _post(request, "Explanation" if kind == "explain" else "Found")}
        for kind, request in REQUESTS.items()
    }
    paths["/v1/stream"] = {"post": _stream()}
    for path, about, name in (
        ("/v1/models", "The models and limits", "Models"),
        ("/health", "Whether the process lives", "Status"),
        ("/ready", "Whether it accepts requests", "Status"),
    ):
        paths[path] = {"get": {"summary": about, "responses": _responses(name, 401, 503)}}
    text = {"description": "Text", "content": {"text/plain": {"schema": {"type": "string"}}}}
    metrics = {"summary": "For Prometheus", "responses": {"200": text} | _errors(401)}
    paths["/metrics"] = {"get": metrics}
    components: dict[str, Any] = {"schemas": request_schemas(models, limits) | _results()}
    record: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "hanlattice", "version": __version__},
        "paths": paths,
        "components": components,
    }
    if has_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        record["security"] = [{"token": []}]
    return record


def _results() -> dict[str, Any]:
    """Return the schemas of the results."""
    integer, number, string = ({"type": kind} for kind in ("integer", "number", "string"))
    place = {"start": integer, "end": integer}
    spans = _list(_schema("Span"))
    document = _object(
        {"text": string, "spans": spans},
        words=_list({"anyOf": [string, _schema("Span")]}),
        candidates=spans,
        readings=_list(_object({"score": number, "spans": spans})),
    )
    documents = _object({"documents": _list(_schema("Document"))})
    rows = _list({"type": "object"})
    explanation = {"text": string, "spans": spans, "words": rows, "characters": rows}
    return {
        "Span": _object(place | {"label": string, "text": string}, score=number),
        "Document": document,
        "Found": {"oneOf": [_schema("Document"), documents]},
        "Explanation": _object(explanation, svg=string),
        "Models": _object({"models": rows, "limits": {"type": "object"}}),
        "Status": _object({"status": string}),
        "Error": _object({"error": _object({"status": integer, "message": string}, field=string)}),
    }


def _schema(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _object(required: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"type": "object", "properties": required | others, "required": list(required)}


def _post(request: type[Request], result: str) -> dict[str, Any]:
    body = {"required": True, "content": _json(request.__name__)}
    return {
        "summary": str(request.__doc__).rstrip("."),
        "requestBody": body,
        "responses": _responses(result, *_MEANING),
    }


def _stream() -> dict[str, Any]:
    lines = {"application/x-ndjson": {"schema": {"type": "string"}}}
    result = {"description": "A result, or an error, for each line", "content": lines}
    return {
        "summary": "Lines in, lines out: a JSON string, or what /v1/tag takes with one text",
        "requestBody": {"required": True, "content": lines},
        "responses": {"200": result} | _errors(401),
    }


def _responses(result: str, *errors: int) -> dict[str, Any]:
    return {"200": {"description": "The result", "content": _json(result)}} | _errors(*errors)


def _errors(*statuses: int) -> dict[str, Any]:
    return {
        str(status): {"description": _MEANING[status], "content": _json("Error")}
        for status in statuses
    }


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": _schema(name)}}
