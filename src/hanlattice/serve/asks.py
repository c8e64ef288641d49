"""Asks: the body of a request, checked; and the answer as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from hanlattice.checks import brief, check_count, check_number, json_problem
from hanlattice.document import Document
from hanlattice.errors import HanlatticeError
from hanlattice.explain import Explanation
from hanlattice.explain.drawing import VIEWS
from hanlattice.explain.svg import WIDTH, picture
from hanlattice.predict import Predictor
from hanlattice.serve.limits import Limits, RequestError
from hanlattice.text.dictionary import LONGEST_LABELLED, TRUST_MOST, Entry
from hanlattice.text.lexicon import LONGEST

KINDS = ("tag", "segment", "analyse", "explain")
WIDEST = 4000.0  # picture
_SHARED = ("text", "model", "dictionary", "exclude")
FIELDS = {
    "tag": (*_SHARED, "texts", "scores", "min_score", "candidates", "readings", "trust"),
    "segment": (*_SHARED, "texts", "scores", "candidates", "readings", "trust"),
    "analyse": (*_SHARED, "texts", "scores", "min_score", "trust", "segmenter", "whole_names"),
    "explain": (*_SHARED, "without", "svg", "view", "legend", "layer", "width", "trust"),
}


class Key(NamedTuple):
    """All that must be equal in texts that are computed together."""

    kind: str  # documents, readings or explanations
    model: str
    dictionary: tuple[str | Entry, ...] = ()
    exclude: tuple[str, ...] = ()
    trust: float | None = None
    scores: bool = True
    min_score: float = 0.0
    n: int = 0  # of candidates, or of readings
    without: bool = False
    segmenter: str = ""  # what cuts the words of an analysis
    whole_names: bool = False


@dataclass(frozen=True)
class Ask:
    key: Key
    texts: tuple[str, ...]
    is_list: bool = False
    svg: bool = False
    view: str | None = None
    legend: bool = True
    layer: int = 1
    width: float = WIDTH


class Named(NamedTuple):
    """A model that is served."""

    name: str
    predictor: Predictor

    @property
    def cuts(self) -> bool:
        return self.predictor.model.indexer.cuts

    def about(self) -> dict[str, Any]:
        indexer = self.predictor.model.indexer
        return {
            "name": self.name,
            "kind": "words" if self.cuts else "entities",
            "labels": list(indexer.tag_ids.labels),
            "words": None if indexer.lexicon is None else len(indexer.lexicon),
        }


def read_json(body: bytes) -> dict[str, Any]:
    try:
        record = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise RequestError(400, f"the body is not UTF-8: byte 0x{body[error.start]:02x} at {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"the body is {json_problem(error)}") from None
    if not isinstance(record, dict):
        raise RequestError(422, f"the body must be a JSON object, not {_type(record)}")
    return record


def read_ask(record: Mapping[str, Any], kind: str, models: Mapping[str, Named], limits: Limits) -> Ask:
    """The ask of a JSON object; RequestError says what is wrong with it."""
    for name in record:
        if name not in FIELDS[kind]:
            raise RequestError(422, f"there is no field {brief(name)}: expected {', '.join(FIELDS[kind])}", name)
    texts, is_list = _texts(record, kind, limits)
    model = _model(record, kind, models)
    cutter = _model(record, "segment", models, "segmenter") if kind == "analyse" else None
    if kind == "explain" and len(texts[0]) > limits.max_explain:
        raise _too_many(f"a text of {len(texts[0]):,} characters", f"explained up to {limits.max_explain:,}", "text")
    readings = _integer(record, "readings", limits.max_candidates)
    candidates = _integer(record, "candidates", limits.max_candidates)
    if readings and candidates:
        raise RequestError(422, "ask for candidates or for readings, not for both", "readings")
    min_score = _number(record, "min_score", 0.0, 0.0, 1.0)
    if min_score and model.cuts:
        raise RequestError(422, "min_score leaves spans out, and the words of a segmenter cover the text", "min_score")
    scores = _flag(record, "scores", True)
    if min_score and not scores:
        raise RequestError(422, "min_score needs scores", "min_score")
    key = Key(
        "explanations" if kind == "explain" else "readings" if readings else "documents",
        model.name,
        _dictionary(record, model, limits),
        _words(record, "exclude", model, limits),
        _trust(record),
        scores,
        min_score,
        readings or candidates,
        _flag(record, "without", False),
        "" if cutter is None else cutter.name,
        _flag(record, "whole_names", False),
    )
    if cutter is not None and (key.dictionary or key.exclude):
        _check_lexicon(cutter, "dictionary" if key.dictionary else "exclude")
    view, legend = _view(record, key.without), _flag(record, "legend", True)
    layer, width = _integer(record, "layer", 100, 1, 1), _number(record, "width", WIDTH, 200.0, WIDEST)
    return Ask(key, texts, is_list, _flag(record, "svg", False), view, legend, layer, width)


def answer(ask: Ask, kind: str, results: list[Any]) -> dict[str, Any]:
    """What is sent for an ask and its results."""
    if kind == "explain":
        return explanation_dict(ask, results[0])
    found = [document_dict(result, kind) for result in results]
    return {"documents": found} if ask.is_list else found[0]


def document_dict(result: Document | list[Document], kind: str) -> dict[str, Any]:
    """A document; of readings the best one, with all of them."""
    if isinstance(result, list):
        every = [{"score": each.score, "spans": [span.as_dict() for span in each.spans]} for each in result]
        return document_dict(result[0], kind) | {"readings": every}
    record: dict[str, Any] = {"text": result.text, "spans": [span.as_dict() for span in result.spans]}
    if kind == "segment":
        record["words"] = [span.text for span in result.spans]
    elif result.words is not None:
        record["words"] = [span.as_dict() for span in result.words]
    if result.candidates is not None:
        record["candidates"] = [span.as_dict() for span in result.candidates]
    return record


def explanation_dict(ask: Ask, explanation: Explanation) -> dict[str, Any]:
    record = explanation.to_dict() | {"tag_names": list(explanation.tag_names)}
    if ask.svg:
        try:
            record["svg"] = ""
            if explanation.text:
                record["svg"] = picture(explanation, ask.layer, ask.width, False, ask.view, ask.legend)
        except HanlatticeError as error:  # a layer that the model does not have
            raise RequestError(422, str(error), "layer") from None
    return record


def _texts(record: Mapping[str, Any], kind: str, limits: Limits) -> tuple[tuple[str, ...], bool]:
    wanted = "text, a string" if kind == "explain" else "text, a string, or texts, a list of strings"
    if ("text" in record) == ("texts" in record):
        raise RequestError(422, f"expected {wanted}", "text")
    is_list = "texts" in record
    name = "texts" if is_list else "text"
    texts = record["texts"] if is_list else [record["text"]]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RequestError(422, f"expected {wanted}", name)
    if len(texts) > limits.max_texts:
        raise _too_many(f"{len(texts):,} texts", f"{limits.max_texts:,} in a request", name)
    longest = max(map(len, texts), default=0)
    if longest > limits.max_text:
        raise _too_many(f"a text of {longest:,} characters", f"{limits.max_text:,}", name)
    return tuple(texts), is_list


def _model(record: Mapping[str, Any], kind: str, models: Mapping[str, Named], field: str = "model") -> Named:
    name = record.get(field)
    if field in record and not isinstance(name, str):
        raise RequestError(422, f"{field} must be a string, not {_type(name)}", field)
    if name is not None and name not in models:
        raise RequestError(404, f"there is no model {brief(name)}: expected {', '.join(models)}", field)
    if kind == "explain":
        return models[name] if name is not None else next(iter(models.values()))
    fitting = [each for each in models.values() if each.cuts == (kind == "segment")]
    what = "cuts text into words" if kind == "segment" else "finds entities"
    if name is None:
        if not fitting:
            raise RequestError(404, f"no model that {what} is served here", field)
        return fitting[0]
    if models[name] not in fitting:
        raise RequestError(422, f"{name} is not a model that {what}", field)
    return models[name]


def _view(record: Mapping[str, Any], without: bool) -> str | None:
    view = record.get("view")
    if "view" in record and view not in VIEWS:
        raise RequestError(422, f"view must be {' or '.join(VIEWS)}", "view")
    if view == "changes" and not without:
        raise RequestError(422, "the view changes shows what changes without each word: it needs without", "view")
    return view


def _dictionary(record: Mapping[str, Any], model: Named, limits: Limits) -> tuple[str | Entry, ...]:
    """Words, or objects that say more of a word: {"word": "拼多多", "label": "ORG", "trust": 20}."""
    given = record.get("dictionary", [])
    if not isinstance(given, list):
        raise RequestError(422, "dictionary must be a list of strings or objects", "dictionary")
    found = [_entry(each) if isinstance(each, dict) else each for each in given]
    texts = [each.word if isinstance(each, Entry) else each for each in found]
    _words({"dictionary": texts}, "dictionary", model, limits)
    return tuple(dict.fromkeys(found))


def _entry(record: Mapping[str, Any]) -> Entry:
    word, label, trust = (record.get(name) for name in ("word", "label", "trust"))
    if not isinstance(word, str) or not set(record) <= {"word", "label", "trust"}:
        raise RequestError(422, "an object of dictionary has word, and may have label and trust", "dictionary")
    try:
        if isinstance(trust, str) and trust in ("inf", "-inf"):
            much: Any = float(trust)
        else:  # 1e999 is no way to write infinity
            much = trust if trust is None else check_number(trust, "trust", -TRUST_MOST, TRUST_MOST)
        entry = Entry(word, "" if label is None else label, much).checked()
    except (ValueError, TypeError) as error:
        raise RequestError(422, str(error), "dictionary") from None
    if len(word) > LONGEST_LABELLED and not entry.is_plain:
        raise _too_many(f"a word with a label of {len(word):,} characters", f"{LONGEST_LABELLED}", "dictionary")
    return entry


def _words(record: Mapping[str, Any], name: str, model: Named, limits: Limits) -> tuple[str, ...]:
    words = record.get(name, [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise RequestError(422, f"{name} must be a list of strings", name)
    if not words:
        return ()
    if len(words) > limits.max_words:
        raise _too_many(f"{len(words):,} words", f"{limits.max_words:,}", name)
    _check_lexicon(model, name)
    for word in words:
        if len(word) > LONGEST:
            raise _too_many(f"a word of {len(word):,} characters", f"{LONGEST}", name)
        if any(character in word.strip() for character in "\n\t"):
            raise RequestError(422, f"a word is one line without a TAB, not {brief(word)}", name)
    return tuple(dict.fromkeys(words))


def _check_lexicon(model: Named, field: str) -> None:
    if model.predictor.model.indexer.lexicon is None:
        raise RequestError(422, f"{model.name} has no lexicon, so it takes no words", field)


def _trust(record: Mapping[str, Any]) -> float | None:
    return _number(record, "trust", 0.0, 0.0, TRUST_MOST) if "trust" in record else None


def _number(record: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    try:
        return check_number(record.get(name, default), name, least, most)
    except (TypeError, ValueError):
        expected = f"a number from {least:g} to {most:g}"
        raise RequestError(422, f"{name} must be {expected}", name) from None


def _integer(record: Mapping[str, Any], name: str, most: int, default: int = 0, least: int = 0) -> int:
    value = record.get(name, default)
    is_whole = type(value) is float and value.is_integer()  # 18.0 is a whole number in JSON
    try:
        return check_count(int(value) if is_whole else value, name, least, most)
    except (TypeError, ValueError):
        expected = f"a whole number from {least} to {most}"
        raise RequestError(422, f"{name} must be {expected}", name) from None


def _flag(record: Mapping[str, Any], name: str, default: bool) -> bool:
    value = record.get(name, default)
    if not isinstance(value, bool):
        raise RequestError(422, f"{name} must be true or false, not {_type(value)}", name)
    return value


def _too_many(what: str, limit: str, field: str) -> RequestError:
    return RequestError(413, f"{what}: the limit is {limit}", field)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def _type(value: object) -> str:
    return {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )
