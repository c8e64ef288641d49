"""Encodings: what a file has is found out, and every way to read it gives the same lines."""

from __future__ import annotations

import io
import lzma
import random
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.data.corpus import read_corpus
from hanlattice.data.formats.raw import RawText
from hanlattice.encodings import MARKS, check_encoding, guess
from hanlattice.errors import InputError, InputWarning
from hanlattice.files import decode_lines, read_lines, read_text, use_encoding
from hanlattice.text.lexicon import Lexicon
from tests.helpers.command import hanlattice, start
from tests.helpers.corpora import find_corpus
from tests.helpers.patience import PATIENCE

SIMPLIFIED = "他说，南京市长江大桥昨天通车。\n我们的工作人员在现场！\n"
TRADITIONAL = "他說，南京市長江大橋昨天通車。\n我們的工作人員在現場！\n"
ENCODED = [
    (SIMPLIFIED, "gbk"),
    (SIMPLIFIED + "𠮷㐂\n", "gb18030"),
    (TRADITIONAL, "big5"),
    (TRADITIONAL, "gbk"),
    (TRADITIONAL + "㗎佢哋啲\n", "big5hkscs"),
    (SIMPLIFIED, "utf-16"),
    ("\ufeff" + SIMPLIFIED + "上\n𠮷\n", "utf-16-le"),
    ("\ufeff" + SIMPLIFIED + "ഊ\n", "utf-16-be"),
    ("\ufeff" + SIMPLIFIED, "utf-32-le"),
    (SIMPLIFIED, "utf-8-sig"),
    ("\ufeff" + SIMPLIFIED, "gb18030"),
]


class Trickle(io.BytesIO):
    """A pipe that gives a few bytes at a time."""

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(3)


@pytest.fixture(autouse=True)
def _reading():
    yield
    use_encoding("auto")


def lines_of(body: bytes, encoding: str = "auto", kind: type[io.BytesIO] = io.BytesIO) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        return [line for _, line in decode_lines(kind(body), "f", encoding)]


@pytest.mark.parametrize(("text", "encoding"), ENCODED)
def test_files_are_read_whatever_encoding_they_have(tmp_path, text, encoding):
    path = tmp_path / "f.txt"
    body = text.encode(encoding)
    path.write_bytes(body)
    expected = text.removeprefix("\ufeff").split("\n")[:-1]
    assert lines_of(body) == expected
    assert lines_of(body, kind=Trickle) == expected
    assert (
        lines_of(
            body.replace(b"\n", b"\r\n") if "16" not in encoding and "32" not in encoding else body
        )
        == expected
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        assert [line for _, line in read_lines(path)] == expected
        assert read_text(path) == "".join(f"{line}\n" for line in expected)
        assert list(RawText([path])) == expected
        lexicon = Lexicon()
        lexicon.load(path)
        assert "".join(lexicon.words[:1]) == expected[0]
    use_encoding(encoding)
    assert [line for _, line in read_lines(path)] == expected


@pytest.mark.parametrize(("mark", "codec"), MARKS, ids=[codec for _, codec in MARKS])
@pytest.mark.parametrize("encoding", ["auto", "utf-8", "gb18030", "utf-16-le"])
def test_a_byte_order_mark_alone_is_no_line(tmp_path, mark, codec, encoding):
    path = tmp_path / "f.txt"
    path.write_bytes(mark)
    assert lines_of(mark, encoding) == lines_of(mark, encoding, Trickle) == []
    assert list(read_lines(path, encoding)) == []
    assert read_text(path, encoding) == ""
    assert lines_of(mark + "\n".encode(codec), encoding, Trickle) == [""]


def test_what_was_found_is_said_unless_it_is_utf8(tmp_path):
    for encoding, says in (("gbk", "f: read as GB18030; --encoding"), ("big5", "f: read as Big5;")):
        with pytest.warns(InputWarning, match=says):
            list(decode_lines(io.BytesIO(TRADITIONAL.encode(encoding)), "f"))
    lines_of(SIMPLIFIED.encode())  # a warning would be an error here
    list(decode_lines(io.BytesIO(SIMPLIFIED.encode("utf-16")), "f"))


@given(
    st.text(st.sampled_from("ab\r\n上中ഊ𠮷"), max_size=30),
    st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le"]),
)
def test_wide_lines_are_those_of_pythons_reader(text, encoding):
    body = ("\ufeff" + text).encode(encoding)
    reader = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", newline="\n")
    expected = [
        line.removesuffix("\r\n") if line.endswith("\r\n") else line.removesuffix("\n")
        for line in reader
    ]
    assert lines_of(body, kind=Trickle) == expected


def test_a_stream_begins_with_ascii_and_short_lines():
    """What few bytes seem to be is corrected by more: 水 in GBK is also UTF-8, a letter of two
    bytes.
    """
    body = "id\n1\n水\n".encode("gbk") + SIMPLIFIED.encode("gbk")
    assert lines_of(body)[2] == "水"
    found = lines_of(body, kind=Trickle)
    assert (found[:3], found[3:]) == (["id", "1", "ˮ"], SIMPLIFIED.split("\n")[:-1])
    ascii_first = b"x\n" * 70_000 + TRADITIONAL.encode("big5")
    assert lines_of(ascii_first)[-2:] == TRADITIONAL.split("\n")[:-1]


def test_damaged_utf8_stays_utf8():
    body = SIMPLIFIED.encode() * 20
    with pytest.raises(
        InputError, match=r"^f:41: not UTF-8: byte 0xe4 at byte 1 of the line; convert"
    ):
        lines_of(body + "中".encode()[:2])
    assert guess(body[:1000]) == guess(body[:1001]) == guess(body[:1002]) == "utf-8"
    damaged = SIMPLIFIED.encode("gbk") * 20 + b"\xff\n"
    with pytest.raises(
        InputError, match=r"^f:41: not GB18030: byte 0xff at byte 1 of the line; convert"
    ):
        lines_of(damaged)


@pytest.mark.parametrize(
    "body",
    ["\ufeffa\n中".encode("utf-16-le") + b"x", "\ufeffa\n".encode("utf-16-le") + b"\x00\xd8"],
)
def test_damaged_utf16(body):
    with pytest.raises(InputError, match=r"^f:2: not UTF-16-LE; convert"):
        lines_of(body)
    with pytest.warns(
        InputWarning, match=r"^f:2: not UTF-16-LE; convert.*; what cannot be read is U\+FFFD"
    ):
        (_, (_, line)) = decode_lines(io.BytesIO(body), "f", strict=False)
    assert line.endswith("\ufffd")


@pytest.mark.parametrize("code", ["00001100", "ffffffff", "00000001", "00d80000", "61", "610000"])
@pytest.mark.parametrize("mark", ["fffe0000", "0000feff"])
def test_damaged_utf32(code, mark):
    """Numbers that are no characters, lone surrogates, and a part of one."""
    name = "utf-32-le" if mark == "fffe0000" else "utf-32-be"
    damage = bytes.fromhex(code) if mark == "fffe0000" else bytes.fromhex(code)[::-1]
    body = bytes.fromhex(mark) + "a\n".encode(name) + damage
    with pytest.raises(InputError, match=rf"^f:2: not {name.upper()}; convert"):
        lines_of(body)
    with pytest.warns(InputWarning, match=rf"^f:2: not {name.upper()}; convert"):
        assert next(iter([*decode_lines(io.BytesIO(body), "f", strict=False)])) == (1, "a")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("AUTO", "auto"),
        ("GBK", "gb18030"),
        ("gb2312", "gb18030"),
        ("Big5", "cp950"),
        ("utf8", "utf-8"),
        ("UTF-8-SIG", "utf-8"),
        ("UTF-16", "utf-16"),
        ("latin-1", "iso8859-1"),
    ],
)
def test_names(name, found):
    assert check_encoding(name) == found


@pytest.mark.parametrize("name", ["", "gbx", "base64", "hz", "utf-7", "cp037", "undefined", "a\0b"])
def test_names_of_nothing(name):
    with pytest.raises(InputError, match=r"unknown encoding .* expected auto"):
        check_encoding(name)


def test_a_corpus_in_another_encoding(tmp_path):
    path = tmp_path / "c.bmes"
    path.write_bytes("王\tB-PER\n芳\tE-PER\n\n".encode("utf-16"))
    assert read_corpus(path).sentences[0].text == "王芳"
    path.write_bytes("王\tB-PER\n芳\tE-PER\n\n".encode("gbk"))
    assert read_corpus(path, encoding="gbk").sentences[0].text == "王芳"


def test_on_the_command_line(tmp_path):
    path = tmp_path / "t.txt"
    words = tmp_path / "w.txt"
    path.write_bytes(TRADITIONAL.encode("big5"))
    words.write_bytes("南京市長江大橋\n".encode("gbk"))
    outcome = hanlattice("segment", "-l", words, "--trust", "100", path)
    assert outcome.code == 0
    assert [line.replace(" ", "") for line in outcome.text.split("\n")] == TRADITIONAL.split("\n")
    assert "南京市長江大橋" in outcome.text.split()
    assert sorted(outcome.err.splitlines()) == [
        f"note: {path}: read as Big5; --encoding names another",
        f"note: {words}: read as GB18030; --encoding names another",
    ]
    path.write_bytes(SIMPLIFIED.encode("gbk") * 20 + b"\xff\n" * 5)
    outcome = hanlattice("segment", "-f", "jsonl", path)
    assert outcome.code == 0
    assert "\\ud" not in outcome.text
    assert [line.split(": ")[1] for line in outcome.err.splitlines()[1:]] == [
        *(f"{path}:{at}" for at in (41, 42, 43)),
        str(path),
    ]
    hanlattice("tag", "--encoding", "gbx", "好").refused("unknown encoding 'gbx'")


def test_a_pipe_is_not_waited_for(tmp_path):
    """The first line is answered before the second is there, in any encoding."""
    with start("segment", "-", "--batch-size", "1", stdin=-1, stderr=-3) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in SIMPLIFIED.splitlines(keepends=True):
            process.stdin.write(line.encode("gbk"))
            process.stdin.flush()
            assert process.stdout.readline().decode().replace(" ", "") == line
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_short_pieces_of_real_text():
    """Of pieces of 16 characters at most 1 in 200 is taken for the other encoding."""
    opencc = pytest.importorskip("opencc")
    convert = opencc.OpenCC("s2tw").convert
    with lzma.open(find_corpus("raw/reviews.txt.xz"), "rt", encoding="utf-8") as file:
        lines = [line.strip() for _, line in zip(range(20_000), file, strict=False)]
    pieces = [
        line[4:20]
        for line in random.Random(1).sample([line for line in lines if len(line) > 20], 1_000)
    ]
    for encoding, found, texts in (
        ("gbk", "gb18030", pieces),
        ("cp950", "cp950", list(map(convert, pieces))),
    ):
        encoded = [
            text.encode(encoding, "ignore")
            for text in texts
            if any(each >= "\u4e00" for each in text)
        ]
        wrong = [body for body in encoded if guess(body) != found]
        assert len(wrong) <= len(encoded) / 200
