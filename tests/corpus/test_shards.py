"""Files, folders and patterns become shards that cover every byte once, whatever the format and
packing.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import lzma
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanlattice.corpus.inputs import BLOCK, InputFile, InputStream, find_sources
from hanlattice.corpus.shards import CorpusRow, Reader, cut
from hanlattice.errors import InputError
from tests.helpers.strategies import shares_folder

arrow = pytest.importorskip("pyarrow", reason="pyarrow, of the extra corpus, is not installed")
parquet = pytest.importorskip("pyarrow.parquet")


def zstd(content: bytes) -> bytes:
    sink = arrow.BufferOutputStream()
    with arrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd}


def find(
    *inputs: Path, field: str = "text", added: tuple[str, ...] = ("spans",), encoding: str = "utf-8"
) -> list[InputFile]:
    found = find_sources([str(each) for each in inputs], None, field, added, encoding)
    assert not found.failures
    return found.sources


def rows_of(source: InputFile, size: int, backward: bool = False) -> list[CorpusRow]:
    """All rows, read shard by shard."""
    shards = list(cut(source, size))
    reader = Reader("text", "spans")
    read = {
        shard.start: list(reader.rows(shard))
        for shard in (reversed(shards) if backward else shards)
    }
    reader.close()
    return [row for start in sorted(read) for row in read[start]]


lines = st.lists(st.binary(max_size=12) | st.text(max_size=6).map(str.encode), max_size=12)


@shares_folder
@given(
    lines,
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
    st.integers(1, 40),
    st.sampled_from(list(PACK)),
    st.sampled_from([BLOCK, 1, 5]),
)
def test_shards_cover_every_byte_and_line_once(
    tmp_path, parts, end, is_ended, size, packing, block
):
    content = end.join(parts) + end * (is_ended and bool(parts))
    path = tmp_path / f"a.txt{packing}"
    path.write_bytes(PACK[packing](content))
    (source,) = find(path)
    shards = list(cut(source, size))
    assert [shard.start for shard in shards] == [0, *(shard.end for shard in shards[:-1])]
    assert shards[-1].end == len(content)
    for shard in shards:
        own = content[shard.start : shard.end]
        assert shard.sha256 == hashlib.sha256(own).hexdigest()
        assert own.endswith(b"\n") or shard is shards[-1]
        assert shard.line == 1 + content[: shard.start].count(b"\n")
    expected = list(_plain_lines(content))
    for backward in (False, True):
        with patch("hanlattice.corpus.shards.BLOCK", block):
            rows = rows_of(source, size, backward)
        decoded = [(row.line, row.text if row.text is not None else _escaped(row)) for row in rows]
        assert decoded == expected


def _plain_lines(content: bytes) -> Iterator[tuple[int, str]]:
    """As docs/scale.md has them: LF or CRLF ends a line, and a byte order mark is dropped."""
    if not content.removeprefix(b"\xef\xbb\xbf"):
        return
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line or not content.endswith(b"\n") or number <= content.count(b"\n"):
            yield (
                number,
                line.removesuffix(b"\r" if number <= content.count(b"\n") else b"").decode(
                    errors="surrogateescape"
                ),
            )


def _escaped(row: CorpusRow) -> str:
    assert row.error.startswith("not UTF-8: byte 0x")
    return row.content.decode("utf-8", "surrogateescape")


cells = st.text(st.sampled_from('中,"\n\r a'), max_size=5)


@shares_folder
@given(
    st.lists(st.tuples(cells, cells), max_size=8),
    st.integers(1, 30),
    st.sampled_from([("csv", ","), ("tsv", "\t")]),
)
def test_records_of_csv_may_have_line_ends_in_them(tmp_path, records, size, kind):
    format, delimiter = kind
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([("id", "text"), *records])
    path = tmp_path / f"a.{format}.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + out.getvalue().encode()))
    (source,) = find(path)
    rows = rows_of(source, size)
    expected = [(one.replace("\r\n", "\n"), other.replace("\r\n", "\n")) for one, other in records]
    assert [(row.fields["id"], row.text) for row in rows] == expected
    assert all(not row.error for row in rows)


pieces = ['"', '""', ",", "\t", "\n", "\r\n", "\r", "中", "a", " ", "\x85"]
odd_cells = ['"a\nb"', '"a,b"', 'a"b', '""', '"a""b"', '"a"b', '"a', "a\r", "", "中"]
odd_rows = st.lists(st.sampled_from(odd_cells), min_size=1, max_size=3).map(",".join)
body = st.lists(st.sampled_from(pieces), max_size=25).map("".join) | st.lists(
    odd_rows, max_size=8
).map("\n".join)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body,
    st.sampled_from(["id,text", '"id",text', 'id,"te""xt"', '"i\nd","text"', 'i"d,text', "text"]),
    st.sampled_from([("csv", ","), ("tsv", "\t")]),
    st.sampled_from(["", "\ufeff"]),
    st.integers(1, 30),
)
def test_any_csv_has_the_same_rows_whatever_the_size_of_its_shards(
    tmp_path, text, header, kind, mark, size
):
    """Stray quotes, quotes that are never closed, lone CRs: the rows are those of one shard."""
    format, delimiter = kind
    header = header.replace(",", delimiter)
    text = text.replace(",", delimiter)
    path = tmp_path / f"a.{format}"
    path.write_bytes(f"{mark}{header}\n{text}".encode())
    field = 'te"xt' if 'te""xt' in header else "text"
    (source,) = find(path, field=field)
    whole = _csv_rows(source, field, 1 << 20)
    for backward in (False, True):
        assert _csv_rows(source, field, size, backward) == whole
    good = [cells for _, cells, error in whole if not error]
    assert good == _plain_records(f"{header}\n{text}", delimiter, len(source.columns))


def _csv_rows(
    source: InputFile, field: str, size: int, backward: bool = False
) -> list[tuple[Any, ...]]:
    shards = list(cut(source, size))
    reader = Reader(field, "spans")
    read = {
        shard.start: list(reader.rows(shard)) for shard in (shards[::-1] if backward else shards)
    }
    reader.close()
    found = [row for start in sorted(read) for row in read[start]]
    return [(row.line, row.fields and [*row.fields.values()], row.error) for row in found]


def _plain_records(text: str, delimiter: str, columns: int) -> list[list[str]]:
    """The records of the right size by Python's reader alone, but one that is not closed at the
    end.
    """
    lines = [*text.replace("\r\n", "\n").removesuffix("\n").split("\n"), "the end"]
    reader = csv.reader([f"{line}\n" for line in lines], delimiter=delimiter)
    found: list[list[str]] = []
    while True:
        try:
            found.append(next(reader))
        except csv.Error:
            continue
        except StopIteration:
            break
    found.pop()  # the end, by itself or inside a field
    return [cells for cells in found[1:] if len(cells) == columns]


def test_a_quote_that_is_never_closed_is_a_broken_row_of_bounded_length(tmp_path, monkeypatch):
    rows = "".join(f"{at},好{at}\n" for at in range(3, 100))
    (tmp_path / "a.csv").write_text(f'id,text\n1,a\n2,"b\n{rows}', encoding="utf-8")
    (source,) = find(tmp_path)
    for size in (1, 1 << 20):
        first, broken = rows_of(source, size)
        assert (first.text, first.error) == ("a", "")
        assert broken == CorpusRow(
            3, f'2,"b\n{rows}'.rstrip().encode(), None, "a quote in it is not closed"
        )
    monkeypatch.setattr("hanlattice.corpus.inputs.LONGEST_RECORD", 100)
    for size in (1, 200, 1 << 20):
        first, broken, *others = rows_of(source, size)
        assert broken.error == "a quote in it is not closed within 100 bytes"
        assert 100 < len(broken.content) < 120
        ended = 3 + broken.content.count(b"\n")
        assert [(row.line, row.text) for row in others] == [
            (at, f"好{at - 1}") for at in range(ended + 1, 101)
        ]


@shares_folder
@given(
    st.lists(
        st.sampled_from(["\n", "\r\n", "\r", '{"text": "a"}', '{"text": "\x85"}', "{", "中", '"']),
        max_size=12,
    ).map("".join),
    st.sampled_from(["txt", "jsonl"]),
    st.integers(1, 30),
)
def test_any_lines_have_the_same_rows_whatever_the_size_of_their_shards(
    tmp_path, text, format, size
):
    (tmp_path / f"a.{format}").write_bytes(text.encode())
    (source,) = find(tmp_path / f"a.{format}")
    whole = rows_of(source, 1 << 20)
    assert rows_of(source, size) == rows_of(source, size, backward=True) == whole


@pytest.mark.parametrize("groups", [1, 3, 7])
def test_parquet_has_the_same_rows_whatever_the_size_of_its_shards(tmp_path, groups):
    table = arrow.table({"text": ["天" * at if at % 4 else None for at in range(20)]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=groups)
    (source,) = find(tmp_path)
    whole = [row._replace(batch=None) for row in rows_of(source, 1 << 20)]
    for size in range(1, 400, 30):
        assert [row._replace(batch=None) for row in rows_of(source, size)] == whole


def test_parquet_is_cut_between_row_groups(tmp_path):
    table = arrow.table(
        {"id": list(range(10)), "text": ["天" * at if at != 4 else None for at in range(10)]}
    )
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    (source,) = find(tmp_path)
    shards = list(cut(source, 1))
    assert [(shard.start, shard.end, shard.line) for shard in shards] == [
        (0, 1, 1),
        (1, 2, 4),
        (2, 3, 7),
        (3, 4, 10),
    ]
    (whole,) = cut(source, 1 << 20)
    for rows in (rows_of(source, 1), list(Reader("text", "spans").rows(whole))):
        assert [row.line for row in rows] == list(range(1, 11))
        assert [row.fields for row in rows] == table.to_pylist()
        assert [row.text for row in rows] == table["text"].to_pylist()
        assert [row.error for row in rows if row.error] == [
            "its field 'text' is null, not a string"
        ]


def test_broken_lines_of_json_say_what_is_wrong(tmp_path):
    lines = [
        '{"text": "好", "id": [1, {"a": 1e400, "b": 1}], "b": {"a": 1}}',
        '{"text": 3}',
        "{",
        "[]",
        '{"id": 1}',
        "",
        '{"text": "", "spans": 1}',
        '{"text": "\\ud800"}',
        '{"text": "好", "id": [NaN]}',
        '{"text": "好", "id": -Infinity}',
        '{"text": "好", "text": "坏"}',
        '{"text": "好", "id": [{"a": 1, "a": 1}]}',
    ]
    (tmp_path / "a.jsonl").write_bytes("\n".join(lines).encode() + b'\n{"text": "\xff"}\n')
    rows = rows_of(*find(tmp_path), size=10)
    assert [row.text for row in rows] == ["好", *[None] * 6, "\ud800", *[None] * 5]
    errors = [row.error for row in rows]
    assert errors[1] == "its field 'text' is int, not a string"
    assert errors[2].startswith("not JSON: ")
    assert errors[3:5] == ["expected an object with a field 'text'", "it has no field 'text'"]
    assert errors[6] == "it has a field 'spans' already, which the output adds"
    assert errors[8] == "not JSON: NaN is no number in JSON"
    assert errors[9] == "not JSON: -Infinity is no number in JSON"
    assert errors[10] == "not JSON: the key 'text' comes twice"
    assert errors[11] == "not JSON: the key 'a' comes twice"
    assert errors[12] == "not UTF-8: byte 0xff at byte 11 of the line"
    assert rows[0].content == lines[0].encode()


def test_records_of_csv_that_do_not_fit_their_header(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"id,text\n1,a\n2\n3,b,c\n4,\xff\n5,d\n")
    rows = rows_of(*find(tmp_path), size=8)
    assert [(row.line, row.text) for row in rows] == [
        (2, "a"),
        (3, None),
        (4, None),
        (5, None),
        (6, "d"),
    ]
    errors = [row.error for row in rows if row.error]
    assert errors[:2] == ["expected 2 columns, not 1", "expected 2 columns, not 3"]
    assert errors[2].startswith("not UTF-8: byte 0xff")


def test_names_are_the_same_wherever_the_corpus_lies(tmp_path):
    for name in ("x/b.txt", "x/y/a.jsonl.gz", "x/.hidden/c.txt", "x/note.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    found = find_sources([str(tmp_path / "x")], None, "text", ())
    assert [(source.name, source.format) for source in found.sources] == [
        ("b.txt", "txt"),
        ("y/a.jsonl.gz", "jsonl"),
    ]
    assert found.passed_over == [tmp_path / "x/note.md"]
    assert [source.name for source in find(tmp_path / "**/*.txt")] == ["x/.hidden/c.txt", "x/b.txt"]
    assert [source.name for source in find(tmp_path / "x/*/*.gz")] == ["y/a.jsonl.gz"]
    assert [(source.name, source.format) for source in find(tmp_path / "x/note.md")] == [
        ("note.md", "txt")
    ]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["a/x.txt", "b/x.txt"], "are both called x.txt"),
        (["a", "a/x.txt"], "are both called x.txt"),
        (["nothing"], "there is no such file or folder"),
        (["*.nothing"], "no file has a name like this"),
        (["empty"], "there is no file to read in .*empty: expected .txt"),
        (["/dev/null"], "a pipe or a device"),
    ],
)
def test_inputs_that_are_refused(tmp_path, inputs, message):
    for name in ("a/x.txt", "b/x.txt", "empty/.x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("好\n")
    with pytest.raises(InputError, match=message):
        find_sources([str(tmp_path / name) for name in inputs], None, "text", ())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"id,words\n", "no column is called 'text'; --field may be id, words"),
        ("a.csv", b"", "expected a header"),
        ("a.csv", b"text,text\n", "two columns are called 'text': rename one"),
        ("a.csv", b"n,text,n\n1,a,2\n", "two columns are called 'n': rename one"),
        ("a.tsv", b"text\tn\tn\n", "two columns are called 'n': rename one"),
        ("a.csv", b"text,spans\n", "it has a column 'spans' already"),
        ("a.csv", b"\xff,text\n", "its header cannot be read"),
        ("a.parquet", b"nothing", "cannot be read as Parquet"),
    ],
)
def test_a_file_that_cannot_be_read_does_not_hide_the_others(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "b.txt").write_text("好\n")
    found = find_sources([str(tmp_path)], None, "text", ("spans",))
    assert [source.name for source in found.sources] == ["b.txt"]
    assert message in found.failures[name]


@pytest.mark.parametrize("packing", [".gz", ".xz", ".zst"])
def test_a_packed_file_that_was_cut_short(tmp_path, packing):
    content = b"".join(
        hashlib.sha256(bytes([at])).hexdigest().encode() + b"\n" for at in range(256)
    )
    (tmp_path / f"a.txt{packing}").write_bytes(PACK[packing](content)[:-100])
    with pytest.raises(InputError, match=r"cannot be (unpacked|read)|cannot read: Truncated"):
        list(cut(InputFile("a", tmp_path / f"a.txt{packing}", "txt"), 1000))
    assert find_sources([str(tmp_path)], None, "text", ()).failures


@pytest.mark.parametrize("name", ["a.txt", "a.txt.xz", "a.parquet"])
def test_a_file_that_changes_between_plan_and_work(tmp_path, name):
    def write(word: str) -> None:
        if name == "a.parquet":
            parquet.write_table(arrow.table({"text": [word] * 9}), tmp_path / name)
        else:
            (tmp_path / name).write_bytes(
                PACK[Path(name).suffix.replace(".txt", "")](f"{word}\n".encode() * 9)
            )

    write("好")
    (source,) = find(tmp_path)
    *_, last = cut(source, 10)
    write("坏")
    with pytest.raises(InputError, match="it is not what it was when this run began"):
        list(Reader("text", "spans").rows(last))


def test_a_stream_goes_forward_and_back(tmp_path):
    content = bytes(range(256)) * 20
    (tmp_path / "a.gz").write_bytes(gzip.compress(content))
    with InputStream(tmp_path / "a.gz") as stream:
        for place in (100, 4000, 17, 17, 5119):
            stream.seek(place)
            assert (stream.read(1), stream.position) == (content[place : place + 1], place + 1)


@pytest.mark.parametrize("codec", ["utf-8-sig", "gb18030", "big5", "utf-16", "utf-32-be"])
@pytest.mark.parametrize("format", ["txt", "jsonl.gz", "csv"])
def test_other_encodings_become_utf_8(tmp_path, codec, format):
    texts = [f"國家在上海的學校和公司有很多人說話，第{at}個。" for at in range(20)]
    lines = {
        "txt": texts,
        "jsonl.gz": [json.dumps({"text": text}, ensure_ascii=False) for text in texts],
        "csv": ["text", *texts],
    }[format]
    content = "".join(f"{line}\n" for line in lines).encode(codec)
    if codec == "utf-32-be":
        content = "\ufeff".encode(codec) + content
    path = tmp_path / f"a.{format}"
    path.write_bytes(gzip.compress(content) if format.endswith("gz") else content)
    (source,) = find(path, encoding="auto")
    assert (source.encoding == "utf-8") == (codec == "utf-8-sig")
    assert len(list(cut(source, 100))) > 3
    for backward in (False, True):
        rows = rows_of(source, 100, backward)
        assert [row.text for row in rows] == texts
        assert b"".join(row.content for row in rows).decode() == "".join(lines[format == "csv" :])


def test_lines_that_do_not_fit_their_encoding(tmp_path):
    (tmp_path / "a.txt").write_bytes("很好\n".encode("gbk") + b"\xff\n")
    (tmp_path / "b.txt").write_bytes("\ufeff很好\n\ud800\n".encode("utf-16-le", "surrogatepass"))
    (tmp_path / "c.txt").write_bytes("\ufeff很好\n".encode("utf-16-le") + b"\x00")
    a, b, c = find(tmp_path, encoding="gb18030")
    assert [row.error for row in rows_of(a, 1)] == [
        "",
        "not GB18030: byte 0xff at byte 1 of the line",
    ]
    assert [row.error.partition(":")[0] for row in rows_of(b, 1)] == ["", "not UTF-16-LE"]
    with pytest.raises(InputError, match="not UTF-16-LE"):
        list(cut(c, 100))


def test_damaged_parquet_is_an_input_error_that_names_the_file(tmp_path):
    """Also where the schema has a type that pyarrow knows and cannot do."""
    table = arrow.table({"text": ["好" * at for at in range(30)], "n": list(range(30))})
    parquet.write_table(table, tmp_path / "whole", row_group_size=7, compression="zstd")
    whole = (tmp_path / "whole").read_bytes()
    path = tmp_path / "a.parquet"
    seen = 0
    for place, value in product(range(1, 900, 3), (50, 65, 120)):  # the end has the schema
        damaged = bytearray(whole)
        damaged[-place] = value
        path.write_bytes(damaged)
        found = find_sources([str(path)], None, "text", ("spans",))
        try:
            for source in found.sources:
                rows_of(source, 50)
        except InputError as error:
            found.failures[""] = str(error)
        seen += len(found.failures)
        assert all(each.startswith(f"{path}:") for each in found.failures.values())
    assert seen > 30


def test_two_columns_of_parquet_with_one_name(tmp_path):
    one = arrow.array(["a"])
    two = arrow.array(["b"])
    parquet.write_table(
        arrow.Table.from_arrays([one, two], names=["text", "text"]), tmp_path / "a.parquet"
    )
    parquet.write_table(
        arrow.Table.from_arrays([one, two, two], names=["text", "x", "x"]), tmp_path / "b.parquet"
    )
    found = find_sources([str(tmp_path)], None, "text", ("spans",))
    assert found.failures == {
        "a.parquet": f"{tmp_path}/a.parquet: two columns are called 'text': rename one",
        "b.parquet": f"{tmp_path}/b.parquet: two columns are called 'x': rename one",
    }
    twins = arrow.StructArray.from_arrays([one, two], names=["x", "x"])
    parquet.write_table(arrow.table({"text": one, "s": twins}), tmp_path / "c.parquet")
    (source,) = find(tmp_path / "c.parquet")
    with pytest.raises(InputError, match=r"c\.parquet:1: .*duplicate field names"):
        rows_of(source, 10)
