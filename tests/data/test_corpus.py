"""One door to the three formats."""

from __future__ import annotations

import pytest

from hanlattice.data.corpus import FORMATS, read_corpus, suffix_format
from hanlattice.errors import InputError

COLUMNS = "南\tB-LOC\n京\tE-LOC\n"
SEGMENTED = "南京 好\n"
JSONL = '{"text": "南京", "spans": [{"start": 0, "end": 2, "label": "LOC"}]}\n'


@pytest.mark.parametrize(
    ("name", "body", "labels"),
    [
        ("a.bmes", COLUMNS, ["LOC"]),
        ("a.txt", COLUMNS, ["LOC"]),
        ("a", COLUMNS, ["LOC"]),
        ("a.SEG", SEGMENTED, ["WORD", "WORD"]),
        ("a.segmented", SEGMENTED, ["WORD", "WORD"]),
        ("a.jsonl", JSONL, ["LOC"]),
        ("a.json", JSONL, ["LOC"]),
    ],
)
def test_the_suffix_decides(tmp_path, name, body, labels):
    (tmp_path / name).write_text(body, "utf-8")
    assert [
        span.label for sentence in read_corpus(tmp_path / name).sentences for span in sentence.spans
    ] == labels


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.bmes", "columns"),
        ("x/a.b.IOB", "columns"),
        ("a.jsonl", "jsonl"),
        ("a.Json", "jsonl"),
        ("a.seg", "segmented"),
        ("a.txt", None),
        ("a.jsonl.xz", None),
        ("jsonl", None),
        (".seg", None),
        ("", None),
    ],
)
def test_what_a_suffix_stands_for(name, format):
    assert suffix_format(name) == format


def test_a_format_that_is_named_decides(tmp_path):
    for name, body in zip(FORMATS[:3], (COLUMNS, SEGMENTED, JSONL), strict=True):
        (tmp_path / "a.data").write_text(body, "utf-8")
        assert len(read_corpus(str(tmp_path / "a.data"), format=name)) == 1
    with pytest.raises(InputError, match="no corpus format is called 'xml'"):
        read_corpus(tmp_path / "a.data", format="xml")


@pytest.mark.parametrize(
    ("name", "body", "otherwise"),
    [
        ("a.txt", SEGMENTED, "segmented"),
        ("a", JSONL, "jsonl"),
        ("a.train", COLUMNS, "columns"),
        ("a.BMES", COLUMNS, "segmented"),
        ("a.bio", COLUMNS, "jsonl"),
        ("a.conll", COLUMNS, "segmented"),
        ("a.seg", SEGMENTED, "columns"),
        ("a.jsonl", JSONL, "segmented"),
    ],
)
def test_what_to_expect_counts_where_the_suffix_says_nothing(tmp_path, name, body, otherwise):
    (tmp_path / name).write_text(body, "utf-8")
    labels = ["WORD", "WORD"] if body == SEGMENTED else ["LOC"]
    (sentence,) = read_corpus(tmp_path / name, otherwise=otherwise).sentences
    assert [span.label for span in sentence.spans] == labels
    kind = FORMATS[(COLUMNS, SEGMENTED, JSONL).index(body)]
    for other in FORMATS:  # and never where the format is named
        assert read_corpus(tmp_path / name, format=kind, otherwise=other).sentences == (sentence,)


def test_the_scheme_is_passed_on(tmp_path):
    (tmp_path / "a").write_text("南\tB-LOC\n", "utf-8")
    assert read_corpus(tmp_path / "a").scheme == "BIO"
    assert read_corpus(tmp_path / "a", scheme="BMES").sentences[0].spans == ()


@pytest.mark.parametrize("name", ["a.bmes", "a.seg", "a.jsonl"])
@pytest.mark.parametrize("body", ["", "\n \n\r\n"])
def test_an_empty_corpus_is_an_error(tmp_path, name, body):
    (tmp_path / name).write_text(body, "utf-8")
    with pytest.raises(InputError, match="the corpus is empty"):
        read_corpus(tmp_path / name)


@pytest.mark.parametrize("name", ["a.bmes", "a.seg", "a.jsonl"])
def test_a_missing_file_is_an_error(tmp_path, name):
    with pytest.raises(InputError, match="no such file"):
        read_corpus(tmp_path / name)
