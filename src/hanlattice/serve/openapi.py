"""The description of the server in OpenAPI, by which others make their clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hanlattice import __version__
from hanlattice.explain.drawing import VIEWS
from hanlattice.explain.svg import WIDTH
from hanlattice.serve.asks import FIELDS, WIDEST, Named
from hanlattice.serve.limits import Limits
from hanlattice.text.dictionary import TRUST_MOST
from hanlattice.text.lexicon import LONGEST

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


def description(models: Iterable[Named], limits: Limits, has_token: bool) -> dict[str, Any]:
    """The whole of it, for the models and limits of this server."""
    models = list(models)
    cutters = _names(models, "segment")
    asks = {kind: _ask(FIELDS[kind], _fields(_names(models, kind), cutters, limits)) for kind in FIELDS}
    shown = {
        "tag": "Find entities",
        "segment": "Cut into words",
        "analyse": "Find words and entities",
        "explain": "Show the lattice: what changes without each word, and its shares",
    }
    paths: dict[str, Any] = {
        f"/v1/{kind}": {"post": _post(about, f"Ask_{kind}", "Explanation" if kind == "explain" else "Found")}
        for kind, about in shown.items()
    }
    paths["/v1/stream"] = {"post": _stream()}
    for path, about, name in (
        ("/v1/models", "The models and limits", "Models"),
        ("/health", "Whether the process lives", "Status"),
        ("/ready", "Whether it accepts requests", "Status"),
    ):
        paths[path] = {"get": {"summary": about, "responses": _responses(name, 401, 503)}}
    paths["/metrics"] = {
        "get": {
            "summary": "For Prometheus",
            "responses": {"200": {"description": "Text", "content": {"text/plain": {"schema": {"type": "string"}}}}}
            | _errors(401),
        }
    }
    schemas = {f"Ask_{kind}": ask for kind, ask in asks.items()} | _results()
    components: dict[str, Any] = {"schemas": schemas}
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


def _names(models: Iterable[Named], kind: str) -> list[str]:
    """The models that an address takes."""
    return [each.name for each in models if kind == "explain" or each.cuts == (kind == "segment")]


def _fields(models: list[str], cutters: list[str], limits: Limits) -> dict[str, Any]:
    text = {"type": "string", "maxLength": limits.max_text}
    words = {"type": "array", "maxItems": limits.max_words, "items": {"type": "string", "maxLength": LONGEST}}
    count = {"type": "integer", "minimum": 0, "maximum": limits.max_candidates, "default": 0}
    return {
        "text": text,
        "texts": {"type": "array", "items": text, "maxItems": limits.max_texts},
        "model": {"type": "string", "enum": models},
        "segmenter": {"type": "string", "enum": cutters},
        "whole_names": {"type": "boolean", "default": False, "description": "Each entity is one word."},
        "dictionary": words
        | {
            "items": {"anyOf": [words["items"], _entry()]},
            "description": "Words that this request adds, or what it says of words; no other request sees them.",
        },
        "exclude": words | {"description": "Words of the lexicon that this request leaves out."},
        "trust": {"type": "number", "minimum": 0, "maximum": TRUST_MOST},
        "scores": {"type": "boolean", "default": True},
        "min_score": {"type": "number", "minimum": 0, "maximum": 1, "default": 0},
        "candidates": count | {"description": "How many of the most probable spans to add."},
        "readings": count | {"description": "How many of the most probable taggings to add."},
        "without": {"type": "boolean", "default": False, "description": "Also what changes without each word."},
        "svg": {"type": "boolean", "default": False, "description": "Also the picture of the lattice."},
        "view": {
            "enum": list(VIEWS),
            "description": "What it draws: changes needs `without`, and is its default then.",
        },
        "legend": {"type": "boolean", "default": True, "description": "Whether the picture says what it shows."},
        "layer": {"type": "integer", "minimum": 1, "maximum": 100, "default": 1},
        "width": {"type": "number", "minimum": 200, "maximum": WIDEST, "default": WIDTH},
    }


def _entry() -> dict[str, Any]:
    trust = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf"]}]}
    return {
        "type": "object",
        "properties": {"word": {"type": "string"}, "label": {"type": "string"}, "trust": trust},
        "required": ["word"],
        "additionalProperties": False,
    }


def _ask(names: Sequence[str], fields: dict[str, Any]) -> dict[str, Any]:
    one = {"required": ["text"]}
    either: dict[str, Any] = {"oneOf": [one, {"required": ["texts"]}]} if "texts" in names else one
    return {"type": "object", "properties": {n: fields[n] for n in names}, "additionalProperties": False} | either


def _results() -> dict[str, Any]:
    integer, number, string = ({"type": kind} for kind in ("integer", "number", "string"))
    span = _object({"start": integer, "end": integer, "label": string, "text": string}, score=number)
    spans = {"type": "array", "items": {"$ref": "#/components/schemas/Span"}}
    reading = _object({"score": number, "spans": spans})
    document = _object(
        {"text": string, "spans": spans},
        words={"type": "array", "items": {"anyOf": [string, {"$ref": "#/components/schemas/Span"}]}},
        candidates=spans,
        readings={"type": "array", "items": reading},
    )
    documents = _object({"documents": {"type": "array", "items": {"$ref": "#/components/schemas/Document"}}})
    rows = {"type": "array", "items": {"type": "object"}}
    return {
        "Span": span,
        "Document": document,
        "Found": {"oneOf": [{"$ref": "#/components/schemas/Document"}, documents]},
        "Explanation": _object({"text": string, "spans": spans, "words": rows, "characters": rows}, svg=string),
        "Models": _object({"models": rows, "limits": {"type": "object"}}),
        "Status": _object({"status": string}),
        "Error": _object({"error": _object({"status": integer, "message": string}, field=string)}),
    }


def _object(required: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"type": "object", "properties": required | others, "required": list(required)}


def _post(about: str, ask: str, result: str) -> dict[str, Any]:
    body = {"required": True, "content": _json(ask)}
    return {"summary": about, "requestBody": body, "responses": _responses(result, *_MEANING)}


def _stream() -> dict[str, Any]:
    lines = {"application/x-ndjson": {"schema": {"type": "string"}}}
    return {
        "summary": "Lines in, lines out: a JSON string, or what /v1/tag takes with one text",
        "requestBody": {"required": True, "content": lines},
        "responses": {"200": {"description": "A result, or an error, for each line", "content": lines}} | _errors(401),
    }


def _responses(result: str, *errors: int) -> dict[str, Any]:
    return {"200": {"description": "The result", "content": _json(result)}} | _errors(*errors)


def _errors(*statuses: int) -> dict[str, Any]:
    return {str(status): {"description": _MEANING[status], "content": _json("Error")} for status in statuses}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
