"""JSONL spans: one JSON object a line, with a text and its labelled spans. Any text can be written.

{"text": "南京市长江大桥",
 "spans": [{"start": 0, "end": 3, "label": "LOC", "text": "南京市", "score": 0.98}]}

Where the words are known, "words" lists them in the same way; they cover the text, and a label is a
part of speech. Where teachers were not sure (`hanlattice distil`), "soft_labels" lists characters
with the shares of their tags: [[3, {"B-LOC": 0.6, "M-LOC": 0.4}]].

The exports of doccano are read as well: "label" or "labels" with a list [start, end, label] a span,
or "entities" with "start_offset" and "end_offset"; older ones call the text "data".
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from hanlattice.checks import brief, check_number, read_json
from hanlattice.errors import InputError, TagError
from hanlattice.files import atomic_write, read_lines
from hanlattice.text.display import rounded
from hanlattice.text.sentence import Corpus, Sentence, SoftLabel, check_words, cover_space
from hanlattice.text.span import WORD, Span
from hanlattice.text.tags import check_label, split_tag

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_SHARES_EXPECTED = (
    '"soft_labels" must be a list of characters with the shares of their tags: '
    '[[3, {"O": 0.6, "S-LOC": 0.4}]]'
)
# JSON allows them unescaped, but terminals obey them.
_CONTROLS = re.compile("[\x7f-\x9f]")


def read_jsonl(path: str | Path, encoding: str | None = None) -> Corpus:
    """Read and check every line; skip blank lines, and empty texts with a notice."""
    sentences = []
    empty = 0
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
    """Write one line a sentence; the file appears whole or not at all."""
    with atomic_write(path) as file:
        for sentence in sentences:
            spans = sentence.spans or ()
            line = to_json_line(sentence.text, spans, sentence.words, sentence.soft_labels)
            file.write(line + "\n")


def to_json_line(
    text: str,
    spans: Iterable[Span],
    words: Iterable[Span] | None = None,
    soft_labels: Iterable[SoftLabel] = (),
) -> str:
    """Return one line without its end, as `to_json` writes it."""
    record: dict[str, Any] = {"text": text, "spans": span_records(text, spans)}
    if words is not None:
        record["words"] = [
            {"start": word.start, "end": word.end, "label": word.label} for word in words
        ]
    groups = groupby(soft_labels, key=lambda label: label.place)
    if shares := [[place, {label.tag: label.share for label in group}] for place, group in groups]:
        record["soft_labels"] = shares
    return to_json(record)


def span_records(text: str, spans: Iterable[Span]) -> list[dict[str, object]]:
    """Return spans as `to_json_line` writes them."""
    return [span.as_dict() | {"text": text[span.start : span.end]} for span in spans]


def spans_json(spans: Iterable[Span]) -> str:
    """Return `to_json` of the spans' dicts, several times as fast: a corpus has millions."""
    records = []
    for span in spans:
        score = "" if span.score is None else f', "score": {_score_json(span.score)}'
        place = f'"start": {span.start}, "end": {span.end}, "label": {_label_json(span.label)}'
        records.append(f'{{{place}, "text": {text_json(span.text)}{score}}}')
    return f"[{', '.join(records)}]"


def _score_json(score: float) -> str:
    """Return `rounded` as JSON has it."""
    # Between these, four decimals are what `rounded` gives, but for zeros at the end.
    if not 1e-3 <= score < 1:
        return _encode(rounded(score))
    digits = f"{score:.4f}".rstrip("0")
    return f"{digits}0" if digits[-1] == "." else digits


def text_json(text: str) -> str:
    """Return `to_json` of a text, quickly where nothing in it has to be escaped."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return to_json(text)


# There are few labels, and many spans.
_label_json = lru_cache(text_json)


def to_json(record: object, indent: int | None = None) -> str:
    """Return JSON with unescaped Chinese.

    A lone surrogate, which UTF-8 cannot carry, turns everything into ASCII escapes. NaN and
    infinity are an InputError, because JSON does not have them.
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
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _not_finite(
    value: object, place: tuple[object, ...] = ()
) -> Iterator[tuple[tuple[object, ...], float]]:
    """Yield the numbers in a record that JSON does not have, with the keys that lead to them."""
    if isinstance(value, float) and not math.isfinite(value):
        yield place, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _not_finite(inner, (*place, key))
    elif isinstance(value, list | tuple):
        for key, inner in enumerate(value):
            yield from _not_finite(inner, (*place, key))


def from_json_line(line: str) -> Sentence:
    """Return the checked Sentence of one line; an invalid line is an InputError."""
    try:
        record = read_json(line)
    except ValueError as error:
        raise InputError(str(error)) from None
    text = record.get("text", record.get("data")) if isinstance(record, dict) else None
    if not isinstance(text, str):
        raise InputError('expected an object with a string "text" and a list "spans"')
    names = ("spans", "label", "labels", "entities")
    name = next((name for name in names if name in record), "spans")
    items = record.get(name)
    if not isinstance(items, list):
        expected = 'a list "spans", or doccano\'s "label" or "entities"'
        raise InputError(f"expected {expected} (empty when the text has none)")
    if name != "spans":
        # doccano has [start, end, label], or other names for the offsets.
        for index, item in enumerate(items):
            if isinstance(item, list) and len(item) == 3:
                items[index] = dict(zip(("start", "end", "label"), item, strict=True))
            elif isinstance(item, dict) and "start_offset" in item:
                place = {"start": item["start_offset"], "end": item.get("end_offset")}
                items[index] = place | {"label": item.get("label")}
    return make_sentence(text, items, record.get("words"), record.get("soft_labels", []))


def make_sentence(
    text: str, items: Sequence[Any], words: Any = None, soft_labels: Any = ()
) -> Sentence:
    """Make a Sentence of a text, and of spans, words and soft labels as JSON has them.

    Spans that overlap or lie outside the text are an InputError.
    """
    spans = sorted(_span(item, text) for item in items)
    for left, right in pairwise(spans):
        name = f"[{left.start}, {left.end}) {left.label}"
        if left == right:
            raise InputError(f"the span {name} comes twice")
        if right.start < left.end:
            names = f"{name} and [{right.start}, {right.end}) {right.label}"
            raise InputError(f"the spans {names} overlap, and a character has one label")
    known = tuple(spans), _words(words, text), _soft_labels(soft_labels)
    try:
        return Sentence(text, *known)
    except ValueError as error:
        raise InputError(f'"soft_labels": {error}') from None


def _soft_labels(items: Any) -> tuple[SoftLabel, ...]:
    """Return the soft labels of a line; `Sentence` checks their places and sums."""
    labels: list[SoftLabel] = []
    for item in items if isinstance(items, (list, tuple)) else [items]:
        is_pair = isinstance(item, list) and len(item) == 2
        place, shares = item if is_pair else (None, None)
        if type(place) is not int or place < 0 or not isinstance(shares, dict) or not shares:
            raise InputError(_SHARES_EXPECTED)
        for tag, share in shares.items():
            if type(share) not in (int, float):
                raise InputError(_SHARES_EXPECTED)
            try:
                split_tag(tag)
            except TagError as error:
                raise InputError(f'"soft_labels": {error.message}') from None
            labels.append(SoftLabel(place, tag, share))
    return tuple(labels)


def _words(items: Any, text: str) -> tuple[Span, ...] | None:
    """Return the words of a line, if it has any; labels and words of white space are optional."""
    if items is None:
        return None
    if not isinstance(items, list):
        expected = "a list of words that cover the text; leave it out where they are not known"
        raise InputError(f'"words" must be {expected}')
    words = cover_space((_span(item, text, WORD) for item in items), text)
    try:
        check_words(words, len(text))
    except ValueError as error:
        raise InputError(f'"words" must cover the text: {error}') from None
    return tuple(words)


def _span(item: Any, text: str, default: str | None = None) -> Span:
    if not isinstance(item, dict):
        expected = 'an object with "start", "end" and "label"'
        raise InputError(f"a span must be {expected}, not {brief(item)}")
    start = item.get("start")
    end = item.get("end")
    label = item.get("label", default)
    if type(start) is not int or type(end) is not int:
        values = f"{brief(start)} and {brief(end)}"
        raise InputError(f'"start" and "end" of a span must be whole numbers, not {values}')
    try:
        label = check_label(label, '"label" of a span')
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from None
    if not 0 <= start < end <= len(text):
        place = f"[{brief(start)}, {brief(end)})"
        raise InputError(f"the span {place} does not lie in the text of {len(text)} characters")
    own = text[start:end]
    given = item.get("text")
    score = item.get("score")
    if given is not None and given != own:
        differ = f"is {brief(given)}, but its offsets give {brief(own)}"
        raise InputError(f'"text" of a span {differ}: count code points')
    if score is not None:
        try:
            check_number(score, '"score" of a span', -sys.float_info.max, sys.float_info.max)
        except (TypeError, ValueError) as error:
            raise InputError(str(error)) from None
    return Span(start, end, label, score, own)
