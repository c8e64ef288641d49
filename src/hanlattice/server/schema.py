"""The schema of requests, by which they are checked and described; and results as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from hanlattice.checks import brief, read_json
from hanlattice.document import Document
from hanlattice.errors import HanlatticeError
from hanlattice.explain import Explanation
from hanlattice.explain.drawing import VIEWS
from hanlattice.explain.svg import WIDTH, picture
from hanlattice.predict import Predictor
from hanlattice.server.limits import Limits, RequestError
from hanlattice.text.dictionary import LONGEST_LABELLED, TRUST_MOST, Entry
from hanlattice.text.display import visible
from hanlattice.text.lexicon import LONGEST

# Characters of an error that quotes a request.
LONGEST_MESSAGE = 300

Word = Annotated[str, Meta(max_length=LONGEST)]
Count = Annotated[int, Meta(ge=0)]
Probability = Annotated[float, Meta(ge=0, le=1)]
WordTrust = Annotated[float, Meta(ge=-TRUST_MOST, le=TRUST_MOST)]
Infinity = Annotated[str, Meta(extra_json_schema={"enum": ["inf", "-inf"]})]
View = Annotated[str, Meta(extra_json_schema={"enum": list(VIEWS)})]


class WordEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A word of `dictionary`, with its label and trust."""

    word: Word
    label: str | None = None
    trust: WordTrust | Infinity | None = None

    def __post_init__(self) -> None:
        self.entry()

    def entry(self) -> Entry:
        """Return the word as the lexicon takes it, or raise ValueError or TypeError."""
        trust: Any = float(self.trust) if self.trust in ("inf", "-inf") else self.trust
        return Entry(self.word, self.label or "", trust).checked()


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all requests may have."""

    model: str | UnsetType = UNSET
    dictionary: Annotated[
        list[Word | WordEntry],
        Meta(description="Words that this request adds or describes; no other request sees them."),
    ] = []
    exclude: Annotated[list[Word], Meta(description="Words of the lexicon to leave out.")] = []
    trust: Annotated[float, Meta(ge=0, le=TRUST_MOST)] | UnsetType = UNSET


class TextsRequest(Request, frozen=True, kw_only=True):
    """A request for one text, or for a list of texts."""

    text: str | UnsetType = UNSET
    texts: list[str] | UnsetType = UNSET
    scores: bool = True


class SegmentRequest(TextsRequest, frozen=True, kw_only=True):
    """Cut into words."""

    candidates: Annotated[Count, Meta(description="How many most probable spans to add.")] = 0
    readings: Annotated[Count, Meta(description="How many most probable taggings to add.")] = 0


class TagRequest(SegmentRequest, frozen=True, kw_only=True):
    """Find entities."""

    min_score: Probability = 0.0


class AnalyseRequest(TextsRequest, frozen=True, kw_only=True):
    """Find words and entities."""

    min_score: Probability = 0.0
    segmenter: str | UnsetType = UNSET
    whole_names: Annotated[bool, Meta(description="Each entity is one word.")] = False


class ExplainRequest(Request, frozen=True, kw_only=True):
    """Show the lattice: what changes without each word, and its shares."""

    text: str
    without: Annotated[bool, Meta(description="Also what changes without each word.")] = False
    svg: Annotated[bool, Meta(description="Also the picture of the lattice.")] = False
    view: View | UnsetType = UNSET
    legend: Annotated[bool, Meta(description="Whether the picture says what it shows.")] = True
    layer: Annotated[int, Meta(ge=1, le=100)] = 1
    width: Annotated[float, Meta(ge=200, le=4000)] = WIDTH


REQUESTS: dict[str, type[Request]] = {
    "tag": TagRequest,
    "segment": SegmentRequest,
    "analyse": AnalyseRequest,
    "explain": ExplainRequest,
}
# What a server's limits bound: the keyword of JSON Schema, the limit, and what is too much.
_LIMITED = {
    "text": ("maxLength", "max_text", "a text of {:,} characters"),
    "texts": ("maxItems", "max_texts", "{:,} texts"),
    "dictionary": ("maxItems", "max_words", "{:,} words"),
    "exclude": ("maxItems", "max_words", "{:,} words"),
    "candidates": ("maximum", "max_candidates", ""),
    "readings": ("maximum", "max_candidates", ""),
}
_IN_JSON = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
    "str | null": "a string",
    "str | object": "a string or an object",
    "float | str | null": 'a number, "inf" or "-inf"',
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
class CheckedRequest:
    """A request whose fields are right and fit each other and the model."""

    key: Key
    texts: tuple[str, ...]
    body: Request


class ServedModel(NamedTuple):
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


Record = Mapping[str, Any]
Models = Mapping[str, ServedModel]


def request_schemas(models: Models, limits: Limits) -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of each request, with the models and the limits of this server."""
    place = "#/components/schemas/{name}"
    _, schemas = msgspec.json.schema_components(REQUESTS.values(), ref_template=place)
    for kind, request in REQUESTS.items():
        schema = schemas[request.__name__]
        fields = schema["properties"]
        for name, (keyword, limit, _) in _LIMITED.items():
            if name in fields:
                fields[name][keyword] = getattr(limits, limit)
        if "texts" in fields:
            fields["texts"]["items"]["maxLength"] = limits.max_text
            schema["oneOf"] = [{"required": ["text"]}, {"required": ["texts"]}]
        fields["model"]["enum"] = [name for name, model in models.items() if _fits(model, kind)]
        if "segmenter" in fields:
            fields["segmenter"]["enum"] = [name for name, model in models.items() if model.cuts]
    return schemas


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a request; RequestError says why it is none."""
    try:
        record = read_json(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        wrong = f"byte 0x{body[error.start]:02x} at {error.start}"
        raise RequestError(400, f"the body is not UTF-8: {wrong}") from None
    except ValueError as error:
        raise RequestError(400, f"the body is {error}") from None
    if not isinstance(record, dict):
        raise RequestError(422, "the body must be a JSON object")
    return record


def check_request(record: Record, kind: str, models: Models, limits: Limits) -> CheckedRequest:
    """Return the request of a JSON object; RequestError says what is wrong with it."""
    body = _convert(record, kind, models, limits)
    given = {name: value for name, value in structs.asdict(body).items() if value is not UNSET}
    _check_limits(given, limits)
    texts = tuple(given["texts"]) if "texts" in given else (given["text"],)
    model = _model(given, kind, models)
    cutter = _model(given, "segment", models, "segmenter") if kind == "analyse" else None
    if kind == "explain":
        if len(texts[0]) > limits.max_explain:
            size = f"a text of {len(texts[0]):,} characters"
            raise _too_many(size, f"explained up to {limits.max_explain:,}", "text")
        view = given.get("view")
        if view is not None and view not in VIEWS:
            raise RequestError(422, f"view must be {' or '.join(VIEWS)}", "view")
        if view == "changes" and not given["without"]:
            message = "the view changes shows what changes without each word: it needs without"
            raise RequestError(422, message, "view")
    readings = given.get("readings", 0)
    if readings and given["candidates"]:
        raise RequestError(422, "ask for candidates or for readings, not for both", "readings")
    if given.get("min_score") and not given["scores"]:
        raise RequestError(422, "min_score needs scores", "min_score")
    for name in ("dictionary", "exclude"):
        for served in (model, cutter):
            if given[name] and served and served.predictor.model.indexer.lexicon is None:
                message = f"{served.name} has no lexicon, so it takes no words"
                raise RequestError(422, message, name)
    own = {
        "kind": "explanations" if kind == "explain" else "readings" if readings else "documents",
        "model": model.name,
        "dictionary": _dictionary(given["dictionary"]),
        "exclude": _lines(given["exclude"], "exclude"),
        "n": readings or given.get("candidates", 0),
        "segmenter": "" if cutter is None else cutter.name,
    }
    shared = {name: given[name] for name in Key._fields if name in given}
    return CheckedRequest(Key(**(shared | own)), texts, body)


def answer(request: CheckedRequest, results: list[Any]) -> dict[str, Any]:
    """Return what is sent for a request and its results."""
    if isinstance(request.body, ExplainRequest):
        return explanation_dict(request.body, results[0])
    documents = [document_dict(result) for result in results]
    is_list = isinstance(request.body, TextsRequest) and request.body.texts is not UNSET
    return {"documents": documents} if is_list else documents[0]


def document_dict(result: Document | list[Document]) -> dict[str, Any]:
    """Return a document, a segmenter's with its words; of readings the best one, with all."""
    if isinstance(result, list):
        readings = [
            {"score": tagging.score, "spans": tagging.to_dict()["spans"]} for tagging in result
        ]
        return document_dict(replace(result[0], score=None)) | {"readings": readings}
    words = {"words": [span.text for span in result.spans]} if result.cuts else {}
    return result.to_dict() | words


def explanation_dict(body: ExplainRequest, explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as JSON, with the picture that the request asks for."""
    record = explanation.to_dict() | {"tag_names": list(explanation.tag_names)}
    if body.svg:
        view = None if isinstance(body.view, UnsetType) else body.view
        options = body.layer, body.width, False, view, body.legend
        try:
            record["svg"] = picture(explanation, *options) if explanation.text else ""
        # The model does not have this layer.
        except HanlatticeError as error:
            raise RequestError(422, str(error), "layer") from None
    return record


def _convert(record: Record, kind: str, models: Models, limits: Limits) -> Request:
    request = REQUESTS[kind]
    fields = request.__struct_fields__
    for name in record:
        if name not in fields:
            message = f"there is no field {brief(name)}: expected {', '.join(fields)}"
            raise RequestError(422, message, name)
    if ("text" in record) == ("texts" in record):
        many = ", or texts, a list of strings" if "texts" in fields else ""
        raise RequestError(422, f"expected text, a string{many}", "text")
    try:
        return msgspec.convert({name: _whole(value) for name, value in record.items()}, request)
    except msgspec.ValidationError as error:
        schema = request_schemas(models, limits)[request.__name__]
        raise _refusal(str(error), schema["properties"]) from None
    except UnicodeEncodeError:  # Only a key inside `dictionary` can have the lone surrogate.
        message = "an object of dictionary has word, and may have label and trust"
        raise RequestError(422, message, "dictionary") from None


def _whole(value: Any) -> Any:
    """Return 18.0 as 18: JSON has one kind of number, msgspec has two."""
    return int(value) if type(value) is float and value.is_integer() else value


def _refusal(error: str, fields: Record) -> RequestError:
    """Say in words of JSON what msgspec says, as in "Expected `int`, got `str` - at `$.layer`"."""
    problem, _, path = error.rpartition(" - at `$.")
    place = path.rstrip("`")
    field = re.split(r"\W", place)[0]
    if place == field and "maximum" in fields[field]:
        number = "a whole number" if fields[field]["type"] == "integer" else "a number"
        bounds = f"from {fields[field]['minimum']:g} to {fields[field]['maximum']:g}"
        return RequestError(422, f"{field} must be {number} {bounds}", field)
    for name, words in _IN_JSON.items():
        problem = problem.replace(f"`{name}`", words)
    message = visible(f"{place}: {problem[:1].lower()}{problem[1:]}")[:LONGEST_MESSAGE]
    is_too_long = problem.startswith("Expected a string of length")
    return RequestError(413 if is_too_long else 422, message, field)


def _check_limits(given: Record, limits: Limits) -> None:
    for name, (keyword, limit, much) in _LIMITED.items():
        most = getattr(limits, limit)
        if keyword == "maximum":
            if given.get(name, 0) > most:
                raise RequestError(422, f"{name} must be a whole number from 0 to {most}", name)
        elif len(given.get(name, ())) > most:
            raise _too_many(much.format(len(given[name])), f"{most:,}", name)
    longest = max(map(len, given.get("texts", ())), default=0)
    if longest > limits.max_text:
        raise _too_many(f"a text of {longest:,} characters", f"{limits.max_text:,}", "texts")


def _fits(model: ServedModel, kind: str) -> bool:
    return kind == "explain" or model.cuts == (kind == "segment")


def _model(given: Record, kind: str, models: Models, field: str = "model") -> ServedModel:
    name = given.get(field)
    if name is not None and name not in models:
        message = f"there is no model {brief(name)}: expected {', '.join(models)}"
        raise RequestError(404, message, field)
    what = "cuts text into words" if kind == "segment" else "finds entities"
    if name is None:
        fitting = next((model for model in models.values() if _fits(model, kind)), None)
        if fitting is None:
            raise RequestError(404, f"no model that {what} is served here", field)
        return fitting
    if not _fits(models[name], kind):
        raise RequestError(422, f"{name} is not a model that {what}", field)
    return models[name]


def _dictionary(given: list[str | WordEntry]) -> tuple[str | Entry, ...]:
    """Return the words of a request's dictionary, as entries where they have a label or trust."""
    words = [word.entry() if isinstance(word, WordEntry) else word for word in given]
    for word in words:
        if isinstance(word, Entry) and len(word.word) > LONGEST_LABELLED and not word.is_plain:
            size = f"a word with a label of {len(word.word):,} characters"
            raise _too_many(size, f"{LONGEST_LABELLED}", "dictionary")
    _lines([word.word if isinstance(word, Entry) else word for word in words], "dictionary")
    return tuple(dict.fromkeys(words))


def _lines(words: list[str], name: str) -> tuple[str, ...]:
    for word in words:
        if any(character in word.strip() for character in "\n\t"):
            raise RequestError(422, f"a word is one line without a TAB, not {brief(word)}", name)
    return tuple(dict.fromkeys(words))


def _too_many(what: str, limit: str, field: str) -> RequestError:
    return RequestError(413, f"{what}: the limit is {limit}", field)
