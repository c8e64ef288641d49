"""JSONL spans: any text at all comes back, the shape is the published one, and each check names its
line.
"""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.checks import no_twins
from hanlattice.data.formats.jsonl import (
    from_json_line,
    read_jsonl,
    spans_json,
    to_json,
    to_json_line,
    write_jsonl,
)
from hanlattice.errors import InputError
from hanlattice.text.display import rounded
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from tests.helpers.strategies import any_character, label_character, sentences, shares_folder
from tests.helpers.words import segmented_sentences

# JSON escapes make one character of a high and a low surrogate, so of the two only the high ones
# are drawn.
CHARACTERS = any_character.filter(lambda character: not "\udc00" <= character <= "\udfff")
LABELS = st.text(label_character, min_size=1, max_size=3)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCORES = st.none() | st.floats(0, 1) | FINITE | st.integers()


@shares_folder
@given(
    items=st.lists(
        sentences(CHARACTERS, LABELS) | segmented_sentences(CHARACTERS, LABELS, LABELS),
        min_size=1,
        max_size=4,
    )
)
def test_round_trip_of_any_text(tmp_path, items):
    write_jsonl(tmp_path / "s.jsonl", items)
    corpus = read_jsonl(tmp_path / "s.jsonl")
    assert corpus.sentences == tuple(items)
    assert (corpus.scheme, corpus.tags, corpus.notices) == (None, None, ())


@given(
    st.lists(st.builds(Span, st.just(0), st.integers(1, 9), LABELS, SCORES, st.text(CHARACTERS)))
)
def test_spans_of_a_corpus_are_the_same_json(spans):
    written = spans_json(spans)
    same = to_json([span.as_dict() for span in spans])
    assert json.loads(written) == json.loads(same)
    if "\\ud" not in written:  # of lone surrogates, only the string that has one is escaped
        assert written == same


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def _numbers(value: object) -> list[float]:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [number for part in parts for number in _numbers(part)]
    return [value] if isinstance(value, float) else []


@given(values, st.sampled_from([None, 1]))
def test_what_is_written_is_json_or_refused(value, indent):
    """NaN and Infinity, which Python writes, are not in RFC 8259."""
    bad = [number for number in _numbers(value) if not math.isfinite(number)]
    if bad:
        with pytest.raises(InputError, match=f"JSON has no number {bad[0]}"):
            to_json(value, indent)
    else:
        assert json.loads(to_json(value, indent), parse_constant=_refuse) == value


def test_a_number_that_json_has_not_is_named_with_its_place():
    with pytest.raises(InputError, match=re.escape('JSON has no number inf: in "b", 1, "c"')):
        to_json({"a": 1, "b": [0, {"c": math.inf}]})
    with pytest.raises(InputError, match=re.escape("JSON has no number nan")):
        to_json(math.nan)


class Counted(str):
    """A key that counts how often it is put into a dict or a set."""

    hashed = 0

    def __hash__(self) -> int:
        Counted.hashed += 1
        return super().__hash__()


@pytest.mark.parametrize("twin", [0, 5000, 9999])
def test_a_key_that_comes_twice_is_found_in_one_pass(twin):
    keys = [Counted(index) for index in range(10_000)]
    Counted.hashed = 0
    with pytest.raises(ValueError, match=f"the key '{twin}' comes twice"):
        no_twins([(key, None) for key in [*keys, Counted(twin)]])
    assert Counted.hashed < 5 * len(keys)
    assert no_twins([("a", 1), ("b", 2)]) == {"a": 1, "b": 2}


def test_scores_of_a_corpus_are_rounded_as_all_others():
    scores = [
        *(index / 1e5 for index in range(0, 100_001, 5)),
        1e-3,
        9.996e-4,
        1e-9,
        0.99995,
        0.12345,
    ]
    for score in scores:
        (found,) = json.loads(spans_json([Span(0, 1, "LOC", score)]))
        assert found["score"] == rounded(score)


def test_the_published_shape():
    line = to_json_line("南京市长江大桥", [Span(0, 3, "LOC", 0.98), Span(3, 7, "LOC")])
    assert line == (
        '{"text": "南京市长江大桥", "spans": '
        '[{"start": 0, "end": 3, "label": "LOC", "text": "南京市", "score": 0.98}, '
        '{"start": 3, "end": 7, "label": "LOC", "text": "长江大桥"}]}'
    )
    spans = from_json_line(line).spans or ()
    assert [(span.text, span.score) for span in spans] == [("南京市", 0.98), ("长江大桥", None)]


def test_words_are_written_and_read():
    words = [Span(0, 2, "ns"), Span(2, 3, "WORD")]
    line = to_json_line("南京市", [], words)
    assert line == (
        '{"text": "南京市", "spans": [], '
        '"words": [{"start": 0, "end": 2, "label": "ns"}, {"start": 2, "end": 3, "label": "WORD"}]}'
    )
    assert from_json_line(line).words == tuple(words)
    assert from_json_line('{"text": "", "spans": [], "words": []}').words == ()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (
            '[{"start": 1, "end": 2, "label": "n"}, {"start": 0, "end": 1}]',
            (Span(0, 1, "WORD"), Span(1, 2, "n")),
        ),
        ("null", None),
    ],
)
def test_words_in_any_order_without_label_or_not_known(words, found):
    assert from_json_line(f'{{"text": "南京", "spans": [], "words": {words}}}').words == found


def test_lone_surrogates_make_the_line_ascii():
    line = to_json_line("京\ud800", [Span(0, 1, "LOC")])
    assert line.isascii()
    assert json.loads(line)["text"] == "京\ud800"
    assert to_json_line("", []) == '{"text": "", "spans": []}'


def test_blank_lines_and_empty_texts(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text(
        '\n{"text": "", "spans": []}\n \n{"text": "好", "spans": [], "id": 7}\n', "utf-8"
    )
    corpus = read_jsonl(path)
    assert corpus.sentences == (Sentence("好", ()),)
    assert "1 line with an empty text was left out" in corpus.notices[0]


def json_with(name: str, value: str) -> str:
    """A line whose only span has this value, as JSON."""
    fields = {"start": "0", "end": "1", "label": '"A"', name: value}
    span = ", ".join(f'"{key}": {item}' for key, item in fields.items())
    return f'{{"text": "南京", "spans": [{{{span}}}]}}'


BAD = {
    "not json": ("{", "not JSON"),
    "too deep": ("[" * 100_000, "not JSON"),
    "a list": ("[]", 'string "text"'),
    "no text": ('{"spans": []}', 'string "text"'),
    "text a number": ('{"text": 3, "spans": []}', 'string "text"'),
    "no spans": ('{"text": "南京"}', 'list "spans"'),
    "spans an object": ('{"text": "南京", "spans": {}}', 'list "spans"'),
    "twin keys": ('{"text": "南京", "text": "京", "spans": []}', "the key 'text' comes twice"),
    "span a list": ('{"text": "南京", "spans": [[0, 2, "A"]]}', "a span must be an object"),
    "start a string": (
        '{"text": "南京", "spans": [{"start": "0", "end": 2, "label": "A"}]}',
        "whole numbers",
    ),
    "start a bool": (
        '{"text": "南京", "spans": [{"start": false, "end": 2, "label": "A"}]}',
        "whole numbers",
    ),
    "end missing": ('{"text": "南京", "spans": [{"start": 0, "label": "A"}]}', "whole numbers"),
    "no label": ('{"text": "南京", "spans": [{"start": 0, "end": 2}]}', '"label"'),
    "empty label": ('{"text": "南京", "spans": [{"start": 0, "end": 2, "label": ""}]}', '"label"'),
    **{
        f"label {label:.40}": (
            f'{{"text": "南京", "spans": [{{"start": 0, "end": 1, "label": {label}}}]}}',
            '"label"',
        )
        for label in (
            "0",
            "false",
            "null",
            "[]",
            "{}",
            "1e999",
            "9" * 400,
            '"\\ud800"',
            '"A\\udc00"',
            f'"{"x" * 257}"',
        )
    },
    **{
        f"{name} {value:.40} {len(value)}": (
            '{"text": "南京", "spans": '
            f'[{{"start": 0, "end": 1, "label": "A", "score": 1, "{name}": {value}}}]}}',
            f"the key .{name}. comes twice|not JSON that can be read",
        )
        for name in ("start", "end", "label", "score")
        for value in ("0", "9" * 5000)
    },
    **{
        f"only {name} {value:.40} {len(value)}": (
            json_with(name, value),
            '"start"|"score"|"text"|does not lie|thousands of digits|is no number in JSON',
        )
        for name in ("start", "end", "score", "text")
        for value in (
            "{}",
            "[]",
            '"x"',
            "true",
            "1.5",
            "-1",
            "1e999",
            "NaN",
            "9" * 400,
            "-" + "9" * 400,
            "9" * 5000,
        )
        if (name, value) not in (("score", "1.5"), ("score", "-1"), ("text", '"x"'))
    },
    "past the end": (
        '{"text": "南京", "spans": [{"start": 0, "end": 3, "label": "A"}]}',
        "does not lie in the text",
    ),
    "empty span": (
        '{"text": "南京", "spans": [{"start": 1, "end": 1, "label": "A"}]}',
        "does not lie in the text",
    ),
    "negative": (
        '{"text": "南京", "spans": [{"start": -1, "end": 1, "label": "A"}]}',
        "does not lie in the text",
    ),
    "other text": (
        '{"text": "南京", "spans": [{"start": 0, "end": 1, "label": "A", "text": "京"}]}',
        "is '京', but its offsets give '南'",
    ),
    "score nan": (
        '{"text": "南京", "spans": [{"start": 0, "end": 1, "label": "A", "score": NaN}]}',
        "not JSON: NaN is no",
    ),
    "score inf": ('{"text": "南京", "spans": [], "x": [-Infinity]}', "not JSON: -Infinity is no"),
    "score too large": (
        '{"text": "南京", "spans": [{"start": 0, "end": 1, "label": "A", "score": 1e999}]}',
        '"score"',
    ),
    "score a string": (
        '{"text": "南京", "spans": [{"start": 0, "end": 1, "label": "A", "score": "1"}]}',
        '"score"',
    ),
    "twice": (
        '{"text": "南京", "spans": '
        '[{"start": 0, "end": 1, "label": "A"}, {"start": 0, "end": 1, "label": "A"}]}',
        r"\[0, 1\) A comes twice",
    ),
    "overlap": (
        '{"text": "南京", "spans": '
        '[{"start": 0, "end": 2, "label": "A"}, {"start": 1, "end": 2, "label": "B"}]}',
        r"\[0, 2\) A and \[1, 2\) B overlap",
    ),
    **{
        f"doubts {soft_labels:.60}": (
            f'{{"text": "南京", "spans": [], "soft_labels": {soft_labels}}}',
            '^[^:]*:3: .*"soft_labels"|not JSON',
        )
        for soft_labels in (
            *(
                '[[0, {"O": NaN}]]',
                '[[0, {"O": Infinity}]]',
                '[[0, {"O": 0.5, "S-A": NaN}]]',
                '[[0, {"O": 1e999}]]',
            ),
            *(
                '[[0, {"O": -1, "S-A": 2}]]',
                '[[0, {"O": 0.5}]]',
                '[[0, {"O": true}]]',
                '[[0, {"O": "1"}]]',
            ),
            *(
                "[[0, {}]]",
                '[[0, {"O": 0.5, "O": 0.5}]]',
                '[[0, {"O": 1}], [0, {"O": 1}]]',
                '[[2, {"O": 1}]]',
            ),
            *(
                '[[-1, {"O": 1}]]',
                '[[0.0, {"O": 1}]]',
                '[["0", {"O": 1}]]',
                '[[true, {"O": 1}]]',
                "null",
                "{}",
                "3",
            ),
            *(
                '"x"',
                "[3]",
                "[[]]",
                "[[0]]",
                "[[0, 3]]",
                '[[0, {"O": 1}, 5]]',
                '["0x"]',
                "[[0, [1]]]",
            ),
            *('[[0, {"": 1}]]', '[[0, {"Q": 1}]]', '[[0, {"B-": 1}]]', '[[0, {"B-\\ud800": 1}]]'),
            f'[[0, {{"O": {"9" * 400}, "S-A": 0.5}}]]',
            f'[[0, {{"O": {"9" * 5000}}}]]',
        )
    },
    "words an object": ('{"text": "南京", "spans": [], "words": {}}', '"words" must be a list'),
    "words strings": ('{"text": "南京", "spans": [], "words": ["南京"]}', "must be an object"),
    "no words": (
        '{"text": "南京", "spans": [], "words": []}',
        r'"words" must cover the text: .* covers \[0, 2\)',
    ),
    "words with a gap": (
        '{"text": "南京", "spans": [], "words": [{"start": 1, "end": 2}]}',
        r"none covers \[0, 1\)",
    ),
    "words that overlap": (
        '{"text": "南京", "spans": [], "words": [{"start": 0, "end": 2}, {"start": 1, "end": 2}]}',
        "words overlap",
    ),
    "word past the end": (
        '{"text": "南京", "spans": [], "words": [{"start": 0, "end": 3}]}',
        "does not lie in the text",
    ),
    "word with an empty label": (
        '{"text": "南京", "spans": [], "words": [{"start": 0, "end": 2, "label": ""}]}',
        '"label"',
    ),
}


@pytest.mark.parametrize(("line", "says"), BAD.values(), ids=BAD.keys())
def test_what_is_wrong_is_named_with_its_line(tmp_path, line, says):
    path = tmp_path / "s.jsonl"
    path.write_text('{"text": "好", "spans": []}\n\n' + line + "\n", "utf-8")
    with pytest.raises(InputError, match=says) as caught:
        read_jsonl(path)
    assert (caught.value.path, caught.value.line) == (path, 3)
    assert len(caught.value.message) < 500
