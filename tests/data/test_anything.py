"""Every reader of a file, given anything: documents, or one of the project's errors that names the
file.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hanlattice.data.corpus import FORMATS, read_corpus
from hanlattice.encodings import MARKS
from hanlattice.errors import InputError
from hanlattice.text.dictionary import read_dictionary
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.sentence import Corpus, Sentence
from tests.helpers.strategies import shares_folder

SUFFIXES = {
    **{"columns": ".bmes", "segmented": ".seg", "jsonl": ".jsonl", "conllu": ".conllu"},
    **{"label-studio": ".json", "spacy": ".spacy"},
}
LONGEST = 600  # characters of a message, without the path
TEXT = "南京市😀长江大桥"

numbers = (
    st.integers(-2, 12) | st.integers() | st.floats() | st.sampled_from([10**400, 2**63, -1, True])
)
words = st.sampled_from(
    [TEXT, "", "LOC", "南京", "\ud800", "\0", "O", "B-LOC", "labels", "x" * 300]
) | st.text(st.characters(exclude_categories=[]), max_size=4)
leaves = st.none() | st.booleans() | numbers | words
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


def nearly(shape: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What has this shape, or now and then anything else."""
    return st.integers(0, 7).flatmap(lambda number: anything if number == 7 else shape)


def an_object(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object that may lack some fields, or have others."""
    given_fields = {name: nearly(value) for name, value in fields.items()}
    return nearly(st.fixed_dictionaries({}, optional={**given_fields, "other": anything}))


def a_list(*shapes: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return nearly(st.lists(nearly(st.one_of(shapes)), max_size=3))


label = st.sampled_from(["LOC", "PER"])
place = st.integers(0, 8)
text = st.just(TEXT)
spans = a_list(
    an_object(
        start=place,
        end=place,
        label=label,
        text=st.sampled_from(["南京市", "长江大桥"]),
        score=st.floats(0, 1),
    ),
    an_object(start_offset=place, end_offset=place, label=label),
    st.tuples(place, place, label).map(list),
)
soft_labels = a_list(
    st.tuples(place, nearly(st.just({"O": 0.5, "B-LOC": 0.5}))).map(list),
    st.tuples(nearly(place)).map(list),
)
a_record = an_object(
    text=text,
    data=text,
    spans=spans,
    label=spans,
    labels=spans,
    entities=spans,
    words=spans,
    soft_labels=soft_labels,
)
region = an_object(
    value=an_object(
        start=place, end=place, labels=a_list(label), text=st.sampled_from(["南京市", "x"])
    ),
    type=st.just("labels"),
)
a_task = an_object(
    id=place,
    data=an_object(text=text),
    annotations=a_list(an_object(result=a_list(region), was_cancelled=st.booleans())),
    text=text,
    label=a_list(an_object(start=place, end=place, labels=a_list(label))),
)


def task_with(**value: Any) -> Any:
    """A task of one region."""
    return {
        "data": {"text": TEXT},
        "annotations": [{"result": [{"type": "labels", "value": value}]}],
    }


an_entry = nearly(an_object(word=words, label=label, trust=numbers) | words)
a_row = st.lists(words | numbers.map(repr), max_size=5)
field = words | st.sampled_from(
    [
        "南",
        "1",
        "1-2",
        "2.1",
        "B-LOC",
        "O",
        "I",
        "_",
        "SpaceAfter=No",
        "\u00a0",
        " ",
        "好 ",
        "9" * 5000,
    ]
)
a_line = st.tuples(st.lists(field, max_size=11), st.sampled_from("\t ,")).map(
    lambda pair: pair[1].join(pair[0])
)
a_number = st.sampled_from(["1", "2", "1-2", "2.1", "0", "9" * 5000, "1-" + "9" * 5000, "²", "１"])
a_word = st.tuples(a_number, st.lists(field, min_size=9, max_size=9)).map(
    lambda row: "\t".join([row[0], *row[1]])
)
tags = st.sampled_from(
    ["O", "B-LOC", "I-LOC", "E-LOC", "S-LOC", "M-LOC", "B-" + "x" * 300, "Q-LOC", "B-"]
)
a_character = st.lists(st.sampled_from("南京\ufeff \0") | tags, min_size=2, max_size=3).map(
    "\t".join
)
lines = st.one_of(
    *(st.lists(row | st.just(""), max_size=6) for row in (a_line, a_word, a_character))
).flatmap(lambda rows: st.sampled_from(["\n", "\r\n", "\r"]).map(lambda end: end.join(rows)))


def as_json(value: Any) -> str:
    """JSON as Python writes it, with NaN, infinities, and lone surrogates as escapes."""
    return json.dumps(value)


def as_csv(rows: list[list[str]]) -> str:
    file = io.StringIO()
    csv.writer(file).writerows(rows)
    return file.getvalue()


some_text = st.one_of(
    st.lists(a_record | anything, max_size=3).map(lambda rows: "\n".join(map(as_json, rows))),
    st.lists(a_task | anything, max_size=3).map(as_json),
    st.lists(an_entry | anything, max_size=3).map(lambda rows: "\n".join(map(as_json, rows))),
    st.lists(a_row, max_size=4).map(as_csv),
    lines,
    st.text(st.characters(exclude_categories=["Cs"])),
)
some_bytes = st.binary() | st.tuples(
    some_text, st.sampled_from(["utf-8", "utf-16", "gb18030", "utf-8-sig"])
).map(lambda pair: pair[0].encode(pair[1], "ignore"))
cut_bytes = st.tuples(some_bytes, st.integers(0, 40)).map(
    lambda pair: pair[0][: len(pair[0]) - pair[1]]
)


def attempt(path: Path, read: Any) -> Any:
    """What is read, or None where it is refused as it must be."""
    try:
        return read(path)
    except InputError as error:
        message = str(error)
        assert message.startswith(str(path)), message
        assert error.line is None or error.line >= 1  # noqa: PT017
        assert "\n" not in message, message
        assert len(message) < len(str(path)) + LONGEST, message
        message.encode("utf-8")
        return None


@pytest.mark.filterwarnings("ignore::hanlattice.errors.InputWarning")
@pytest.mark.parametrize("format", ["auto", *FORMATS])
@shares_folder
@given(content=some_bytes | cut_bytes)
def test_a_corpus_is_read_or_refused(tmp_path: Path, format: str, content: bytes) -> None:
    if format == "spacy":
        pytest.importorskip(
            "spacy", reason="spacy is not installed: pip install 'hanlattice[spacy]'"
        )
    path = tmp_path / f"a{SUFFIXES.get(format, '.json')}"
    path.write_bytes(content)
    corpus = attempt(path, lambda file: read_corpus(file, format=format))
    if corpus is not None:
        assert isinstance(corpus, Corpus)
        assert corpus.sentences
        assert all(isinstance(sentence, Sentence) for sentence in corpus.sentences)
    attempt(path, lambda file: read_corpus(file, format=format, learn="words"))


def read_and_said(path: Path, read: Callable[[Path], Any], content: bytes) -> tuple[Any, str]:
    """What is read from a file with this content, and what is said where it is refused."""
    path.write_bytes(content)
    try:
        return read(path), ""
    except InputError as error:
        return None, str(error)


@pytest.mark.parametrize("mark", [mark for mark, _ in MARKS], ids=[codec for _, codec in MARKS])
@pytest.mark.parametrize("format", ["auto", *(name for name in FORMATS if name != "spacy")])
@pytest.mark.parametrize("learn", ["spans", "words"])
def test_a_corpus_of_only_a_byte_order_mark_is_empty(
    tmp_path: Path, format: str, mark: bytes, learn: str
) -> None:
    """DocBin is left out: it is no text."""
    path = tmp_path / f"a{SUFFIXES.get(format, '.json')}"

    def read(file: Path) -> Corpus:
        return read_corpus(file, format=format, learn=learn)

    assert read_and_said(path, read, mark) == read_and_said(path, read, b"")


@pytest.mark.parametrize("mark", [mark for mark, _ in MARKS], ids=[codec for _, codec in MARKS])
@pytest.mark.parametrize("suffix", [".txt", ".tsv", ".csv", ".jsonl"])
def test_a_dictionary_of_only_a_byte_order_mark_is_empty(
    tmp_path: Path, suffix: str, mark: bytes
) -> None:
    path = tmp_path / f"a{suffix}"

    def read(file: Path) -> list[Any]:
        return list(read_dictionary(file))

    assert read_and_said(path, read, mark) == read_and_said(path, read, b"")
    lexicon = Lexicon()
    path.write_bytes(mark)
    if suffix == ".txt":
        lexicon.load(path)
        assert not list(lexicon)


@shares_folder
@given(tasks=a_list(a_task))
@example(tasks=[task_with(start={}, end=1, labels=["A"], text="x")])
def test_tasks_of_label_studio(tmp_path: Path, tasks: Any) -> None:
    path = tmp_path / "a.json"
    path.write_text(as_json(tasks), "utf-8")
    attempt(path, lambda file: read_corpus(file, format="label-studio"))


@shares_folder
@given(records=st.lists(a_record, min_size=1, max_size=2))
def test_records_of_jsonl(tmp_path: Path, records: list[Any]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{as_json(record)}\n" for record in records), "utf-8")
    attempt(path, lambda file: read_corpus(file, format="jsonl"))


@pytest.mark.filterwarnings("ignore::hanlattice.errors.InputWarning")
@pytest.mark.parametrize("suffix", [".txt", ".tsv", ".csv", ".jsonl"])
@shares_folder
@given(content=some_bytes | cut_bytes)
def test_a_dictionary_is_read_or_refused(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    entries = attempt(path, lambda file: list(read_dictionary(file)))
    lexicon = Lexicon()
    assert (attempt(path, lexicon.load) is None) == (entries is None)
    if entries is not None:
        lexicon.match("南京市长江大桥")
        lexicon.save(tmp_path / "again.txt")
        again = Lexicon()
        again.load(tmp_path / "again.txt", "utf-8")
        assert list(again) == list(lexicon)
