"""JSONL spans: one JSON object a line, with a text and its labelled spans. Any text can be written.

{"text": "南京市长江大桥", "spans": [{"start": 0, "end": 3, "label": "LOC", "text": "南京市", "score": 0.98}]}

Where the words are known, "words" lists them in the same way; they cover the text, and a label is a part of speech.
Where teachers were not sure (`hanlattice distil`), "doubts" lists characters with the shares of their tags:
[[3, {"B-LOC": 0.6, "M-LOC": 0.4}]].

The exports of doccano are read as well: "label" or "labels" with a list [start, end, label] a span, or "entities" with
"start_offset" and "end_offset"; older ones call the text "data".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from hanlattice.errors import InputError
from hanlattice.files import read_lines, writing
from hanlattice.text.display import rounded
from hanlattice.text.sentence import Corpus, Doubt, Sentence, check_words, cover_space
from hanlattice.text.spans import WORD, Span

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_CONTROLS = re.compile("[\x7f-\x9f]")  # JSON allows them unescaped, but terminals obey them


def read_jsonl(path: str | Path, encoding: str | None = None) -> Corpus:
    """Read and check every line. Blank lines are skipped, and so are empty texts, with a notice."""
    sentences, empty = [], 0
    for number, line in read_lines(path, encoding):
        if not line.strip():
            continue
        try:
            sentence = from_json_line(line)
        except InputError as error:
            raise InputError(error.message, path, number) from None
        if sentence.text:
            sentences.append(sentence)
        else:
            empty += 1
    were = "line with an empty text was" if empty == 1 else "lines with an empty text were"
    notices = (f"{path}: {empty} {were} left out",) if empty else ()
    return Corpus(tuple(sentences), notices=notices)


def write_jsonl(path: str | Path, sentences: Iterable[Sentence]) -> None:
    """Write one line a sentence; the file is written atomically."""
    with writing(path) as file:
        for sentence in sentences:
            file.write(to_json_line(sentence.text, sentence.spans or (), sentence.words, sentence.doubts) + "\n")


def to_json_line(
    text: str, spans: Iterable[Span], words: Iterable[Span] | None = None, doubts: Iterable[Doubt] = ()
) -> str:
    """One line without its end, as `to_json` writes it."""
    record: dict[str, Any] = {"text": text, "spans": span_records(text, spans)}
    if words is not None:
        record["words"] = [{"start": word.start, "end": word.end, "label": word.label} for word in words]
    groups = groupby(doubts, key=lambda doubt: doubt.place)
    if shares := [[place, {doubt.tag: doubt.share for doubt in group}] for place, group in groups]:
        record["doubts"] = shares
    return to_json(record)


def span_records(text: str, spans: Iterable[Span]) -> list[dict[str, object]]:
    """Spans as `to_json_line` writes them."""
    return [span.as_dict() | {"text": text[span.start : span.end]} for span in spans]


def spans_json(spans: Iterable[Span]) -> str:
    """`to_json` of the spans' dicts, several times as fast: a corpus has millions."""
    found = []
    for span in spans:
        score = "" if span.score is None else f', "score": {_score_json(span.score)}'
        label, text = _label_json(span.label), text_json(span.text)
        found.append(f'{{"start": {span.start}, "end": {span.end}, "label": {label}, "text": {text}{score}}}')
    return f"[{', '.join(found)}]"


def _score_json(score: float) -> str:
    """`rounded` as JSON has it; in one step where that has four decimals."""
    if not 1e-3 <= score < 1:
        return _encode(rounded(score))
    digits = f"{score:.4f}"
    if digits[-1] != "0":
        return digits
    digits = digits.rstrip("0")
    return f"{digits}0" if digits[-1] == "." else digits


def text_json(text: str) -> str:
    """`to_json` of a text, by a shorter way where nothing of it has to be escaped."""
    return f'"{text}"' if text.isprintable() and '"' not in text and "\\" not in text else to_json(text)


_label_json = lru_cache(text_json)  # there are few labels, and many spans


def to_json(record: object, indent: int | None = None) -> str:
    """JSON with unescaped Chinese; a lone surrogate, which UTF-8 cannot encode, makes all of it ASCII escapes.

    NaN and infinity are an InputError, because JSON does not have them.
    """
    try:
        if indent is None:
            text = _encode(record)
        else:
            text = json.dumps(record, ensure_ascii=False, indent=indent, allow_nan=False)
    except ValueError:
        for place, number in _not_finite(record):
            where = ", ".join(map(to_json, place))
            raise InputError(f"JSON has no number {number}{where and f': in {where}'}") from None
        raise
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(record, indent=indent)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _not_finite(value: object, place: tuple[object, ...] = ()) -> Iterator[tuple[tuple[object, ...], float]]:
    """Yield the numbers in a record that JSON does not have, with the keys that lead to them."""
    if isinstance(value, float) and not math.isfinite(value):
        yield place, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _not_finite(inner, (*place, key))
    elif isinstance(value, list | tuple):
        for key, inner in enumerate(value):
            yield from _not_finite(inner, (*place, key))


def read_json(line: str) -> Any:
    """The value of a line of JSON without keys that come twice and numbers that are none; else a ValueError."""
    return json.loads(line, object_pairs_hook=no_twins, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def from_json_line(line: str) -> Sentence:
    """The checked Sentence of one line; an invalid line is an InputError."""
    try:
        record = read_json(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from None
    text = record.get("text", record.get("data")) if isinstance(record, dict) else None
    if not isinstance(text, str):
        raise InputError('expected an object with a string "text" and a list "spans"')
    name = next((name for name in ("spans", "label", "labels", "entities") if name in record), "spans")
    items = record.get(name)
    if not isinstance(items, list):
        raise InputError('expected a list "spans", or doccano\'s "label" or "entities" (empty when the text has none)')
    items = items if name == "spans" else [*map(_by_name, items)]
    return make_sentence(text, items, record.get("words"), record.get("doubts", []))


def make_sentence(text: str, items: Sequence[Any], words: Any = None, doubts: Any = ()) -> Sentence:
    """The Sentence of a text and of spans as JSON has them; those that overlap or lie outside it are an InputError."""
    spans = sorted(_span(item, text) for item in items)
    for left, right in pairwise(spans):
        if left == right:
            raise InputError(f"the span {_name(left)} comes twice")
        if right.start < left.end:
            raise InputError(f"the spans {_name(left)} and {_name(right)} overlap, and a character has one label")
    known = tuple(spans), _words(words, text), _doubts(doubts)
    try:
        return Sentence(text, *known)
    except ValueError as error:
        raise InputError(f'"doubts": {error}') from None


def _doubts(items: Any) -> tuple[Doubt, ...]:
    """The doubts of the line, whose types are checked here, and the rest by `Sentence`."""
    try:
        found = [Doubt(place, tag, share) for place, shares in items for tag, share in shares.items()]
    except (AttributeError, TypeError, ValueError):
        found = [Doubt(-1, "", -1)]
    if all(type(place) is int and place >= 0 and type(share) in (int, float) for place, _, share in found):
        return tuple(found)
    raise InputError(
        '"doubts" must be a list of characters with the shares of their tags: [[3, {"O": 0.6, "S-LOC": 0.4}]]'
    )


def _by_name(item: Any) -> Any:
    """A span of doccano with our names."""
    if isinstance(item, list) and len(item) == 3:
        return dict(zip(("start", "end", "label"), item, strict=True))
    if isinstance(item, dict) and "start_offset" in item:
        return {"start": item["start_offset"], "end": item.get("end_offset"), "label": item.get("label")}
    return item


def no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `json`: an object, none of whose keys may come twice."""
    record = dict(pairs)
    if len(record) != len(pairs):
        seen = set[str]()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {str(key)!r} comes twice")
            seen.add(key)
    return record


def _words(items: Any, text: str) -> tuple[Span, ...] | None:
    """The words of the line, if it has any. The label of a word is optional, and white space need not be in a word."""
    if items is None:
        return None
    if not isinstance(items, list):
        raise InputError('"words" must be a list of words that cover the text; leave it out where they are not known')
    words = cover_space((_span(item, text, WORD) for item in items), text)
    try:
        check_words(words, len(text))
    except ValueError as error:
        raise InputError(f'"words" must cover the text: {error}') from None
    return tuple(words)


def _span(item: Any, text: str, default: str | None = None) -> Span:
    if not isinstance(item, dict):
        raise InputError(f'a span must be an object with "start", "end" and "label", not {item!r}')
    start, end, label = item.get("start"), item.get("end"), item.get("label", default)
    if type(start) is not int or type(end) is not int:
        raise InputError(f'"start" and "end" of a span must be whole numbers, not {start!r} and {end!r}')
    if not isinstance(label, str) or not label:
        raise InputError(f'"label" of a span must be a string that is not empty, not {label!r}')
    if not 0 <= start < end <= len(text):
        raise InputError(f"the span [{start}, {end}) does not lie in the text of {len(text)} characters")
    own, given, score = text[start:end], item.get("text"), item.get("score")
    if given is not None and given != own:
        raise InputError(f'"text" of a span is {given!r}, but its offsets give {own!r}: count code points')
    if score is not None and (type(score) not in (int, float) or not math.isfinite(score)):
        raise InputError(f'"score" of a span must be a number, not {score!r}')
    return Span(start, end, label, score, own)


def _name(span: Span) -> str:
    return f"[{span.start}, {span.end}) {span.label}"
