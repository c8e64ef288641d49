"""Label Studio's exports JSON and JSON-MIN: a list of tasks, with a text and labelled regions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from hanlattice.checks import brief, read_json_part
from hanlattice.data.formats.jsonl import make_sentence
from hanlattice.encodings import UTF8
from hanlattice.errors import InputError
from hanlattice.files import read_text
from hanlattice.text.display import visible
from hanlattice.text.sentence import Corpus, Sentence

_LABELS = "labels"
# How many kinds of other results a notice shows, and how many characters of each.
_SHOWN = 20


def read_label_studio(path: str | Path) -> Corpus:
    """Read a Sentence for each task that somebody annotated.

    The first annotation of a task that was not cancelled counts.
    """
    sentences: list[Sentence] = []
    left_out = several = 0
    # Results that are no labels, by their type.
    others = Counter[str]()
    for line, task in _elements(read_text(path, UTF8), path):
        try:
            text, regions, annotations = _task(task, others)
            several += annotations > 1
            if regions is None or not text:
                left_out += 1
            else:
                sentences.append(_sentence(text, regions))
        except InputError as error:
            name = f"task {brief(task['id'])}: " if isinstance(task, dict) and "id" in task else ""
            raise InputError(f"{name}{error.message}", path, line) from None
    notices = []
    if left_out:
        notices.append(f"{path}: tasks without a text or an annotation were left out: {left_out}")
    if several:
        problem = f"tasks with several annotations, of which the first counts: {several}"
        notices.append(f"{path}: {problem}")
    if others:
        shown = [f"{visible(kind[:_SHOWN])} {count:,}" for kind, count in sorted(others.items())]
        kinds = ", ".join(shown[:_SHOWN])
        notices.append(f"{path}: results that are no labels were left out: {kinds}")
    return Corpus(tuple(sentences), notices=tuple(notices))


def _elements(content: str, path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield the elements of a JSON list, each with the line on which it begins."""
    line = 1
    seen = 0
    opening = _skip(content, 0)
    if content[opening : opening + 1] != "[":
        expected = "a list of tasks, as Label Studio exports them: [{…}, …]"
        raise InputError(f"expected {expected}", path, 1)
    # The bracket or comma before an element, and the place where the list may end.
    before = opening
    closing = _skip(content, before + 1)
    while content[closing : closing + 1] != "]":
        begin = _skip(content, before + 1)
        # Counted from element to element, so that long files take linear time.
        line += content.count("\n", seen, begin)
        seen = begin
        try:
            element, end = read_json_part(content, begin)
        except ValueError as error:
            raise InputError(str(error), path, line) from None
        yield line, element
        before = closing = _skip(content, end)
        if content[before : before + 1] not in ("]", ","):
            problem = "expected a comma or the end of the list after this task"
            raise InputError(f"not JSON: {problem}", path, line)
    rest = _skip(content, closing + 1)
    if rest < len(content):
        line = content.count("\n", 0, rest) + 1
        message = f"not JSON: {brief(content[rest : rest + 40])} comes after the end of the list"
        raise InputError(f"{message} of tasks; remove it, or put tasks into the list", path, line)


_SPACE = re.compile(r"[ \t\r\n]*")


def _skip(content: str, index: int) -> int:
    """Return the next place that is not white space."""
    return _SPACE.match(content, index).end()  # type: ignore[union-attr]


def _task(task: Any, others: Counter[str]) -> tuple[str, list[Any] | None, int]:
    """Return the text of a task, the values of its regions, and how many annotations it has.

    The regions are None if nobody annotated it. Results that are no labels are counted in `others`.
    """
    if not isinstance(task, dict):
        raise InputError(f"a task must be an object, not {brief(task)}")
    # Without annotations it is JSON-MIN.
    if "annotations" not in task:
        regions = task.get("label")
        if not isinstance(task.get("text"), str) or not isinstance(regions, (list, type(None))):
            expected = '"data" and "annotations", or, of JSON-MIN, "text" and a list "label"'
            raise InputError(f"expected {expected}")
        return task["text"], regions, 1
    text = _text(task.get("data"))
    annotations = task["annotations"]
    if not isinstance(annotations, list) or not all(isinstance(item, dict) for item in annotations):
        raise InputError('"annotations" must be a list of objects')
    for item in annotations:
        if not isinstance(item.get("was_cancelled"), (bool, type(None))):
            cancelled = brief(item["was_cancelled"])
            raise InputError(f'"was_cancelled" must be true or false, not {cancelled}')
    valid = [item.get("result") for item in annotations if not item.get("was_cancelled")]
    if not valid:
        return text, None, 0
    if not isinstance(valid[0], list) or not all(isinstance(result, dict) for result in valid[0]):
        raise InputError('"result" of an annotation must be a list of objects')
    for result in valid[0]:
        if not isinstance(result.get("type"), str):
            raise InputError(
                f'"type" of a result must be a string, not {brief(result.get("type"))}'
            )
        if result["type"] != _LABELS:
            others[result["type"]] += 1
    return (
        text,
        [result.get("value") for result in valid[0] if result["type"] == _LABELS],
        len(valid),
    )


def _text(data: Any) -> str:
    """Return the string "text" of a task's data, or its only string."""
    fields = data if isinstance(data, dict) else {}
    strings = {key: value for key, value in fields.items() if isinstance(value, str)}
    if "text" in strings:
        return strings["text"]
    if len(strings) != 1 or "text" in fields:
        raise InputError('"data" of a task must have a string "text", or one string only')
    return next(iter(strings.values()))


def _sentence(text: str, regions: list[Any]) -> Sentence:
    """Make a Sentence, whose offsets may count code points or, as browsers do, UTF-16 units.

    Where these differ, the texts of the regions tell.
    """
    spans = [_span(region) for region in regions]
    if not text.isascii() and max(text) > "\uffff" and not _fit(text, spans):
        sizes = accumulate((1 + (character > "\uffff") for character in text), initial=0)
        # By UTF-16 unit; a unit inside a character has no code point.
        points = {unit: point for point, unit in enumerate(sizes)}
        moved = [
            span | {name: points.get(span[name], -1) for name in ("start", "end")} for span in spans
        ]
        spans = moved if _fit(text, moved) else spans
    return make_sentence(text, spans)


def _fit(text: str, spans: list[dict[str, Any]]) -> bool:
    """Return whether the texts that spans have are at their offsets."""
    return all(
        span.get("text") in (None, text[max(0, span["start"]) : max(0, span["end"])])
        for span in spans
    )


def _span(region: Any) -> dict[str, Any]:
    labels = region.get("labels") if isinstance(region, dict) else None
    if not isinstance(labels, list) or len(labels) != 1:
        raise InputError(f'a region must have one label in its list "labels", not {brief(labels)}')
    span = {"start": region.get("start"), "end": region.get("end"), "label": labels[0]}
    if type(span["start"]) is not int or type(span["end"]) is not int:
        given = f"{brief(span['start'])} and {brief(span['end'])}"
        raise InputError(f'"start" and "end" of a region must be whole numbers, not {given}')
    text = region.get("text")
    return span | {"text": text.replace("\\n", "\n")} if isinstance(text, str) else span
