"""Word vectors: both formats against gensim, round trips of any word, and every way in which a file
can be broken.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np

from hanlattice.errors import InputError
from hanlattice.text.vectors import Vectors, read_vectors, write_vectors
from tests.helpers.strategies import shares_folder

ROWS = [("的", [1.0, -2.5, 0.25]), ("长江", [0.0, 3.0, 1e-3]), ("2000", [7.0, 8.0, 9.0])]


def text_file(tmp_path: Path, body: str | bytes, name: str = "v.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    return path


def binary_body(end: bytes, rows=ROWS, header: bytes | None = None) -> bytes:
    head = header if header is not None else b"%d 3\n" % len(rows)
    return head + b"".join(w.encode() + b" " + np.array(v, "<f4").tobytes() + end for w, v in rows)


def check(vectors: Vectors, rows=ROWS) -> None:
    assert vectors.words == tuple(word for word, _ in rows)
    np.testing.assert_array_equal(
        vectors.matrix, np.array([values for _, values in rows], np.float32)
    )
    assert vectors.matrix.dtype == np.float32
    assert vectors.matrix.flags.writeable, "torch warns about arrays that it could not write to"


def lines(rows=ROWS, separator: str = " ") -> str:
    return "".join(separator.join([word, *map(str, values)]) + "\n" for word, values in rows)


@pytest.mark.parametrize("header", ["", "3 3\n"])
@pytest.mark.parametrize("separator", [" ", "\t", "  "])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
def test_text_with_and_without_header(tmp_path, header, separator, end):
    body = (header + lines(separator=separator)).replace("\n", end)
    vectors = read_vectors(text_file(tmp_path, body), strict=True)
    check(vectors)
    assert (vectors.skipped, vectors.notices, vectors.width, len(vectors)) == (0, (), 3, 3)


def test_byte_order_mark_is_dropped(tmp_path):
    check(read_vectors(text_file(tmp_path, b"\xef\xbb\xbf" + lines().encode()), strict=True))
    check(read_vectors(text_file(tmp_path, b"\xef\xbb\xbf3 3\n" + lines().encode()), strict=True))


@pytest.mark.parametrize("end", [b"\n", b""])
@pytest.mark.parametrize("name", ["v.bin", "v.vec"])
def test_binary_with_and_without_newlines(tmp_path, end, name):
    check(read_vectors(text_file(tmp_path, binary_body(end), name), strict=True))


def test_text_called_bin_is_still_text(tmp_path):
    check(read_vectors(text_file(tmp_path, "3 3\n" + lines(), "v.bin"), strict=True))


def test_gensim_reads_what_we_write_and_we_read_what_it_writes(tmp_path):
    models = pytest.importorskip(
        "gensim.models", reason="gensim, the other implementation, is not installed"
    )
    rng = np.random.default_rng(0)
    ours = Vectors(("中国", "a", "é", "𠀀"), rng.normal(size=(4, 5)).astype(np.float32))
    for binary in (False, True):
        write_vectors(tmp_path / "ours", ours, binary=binary)
        theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / "ours"), binary=binary)
        assert tuple(theirs.index_to_key) == ours.words
        np.testing.assert_array_equal(theirs.vectors, ours.matrix)
        theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=binary)
        again = read_vectors(tmp_path / "theirs", strict=True)
        assert again.words == ours.words
        np.testing.assert_allclose(again.matrix, ours.matrix, rtol=1e-6)


WORDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f"),
    min_size=1,
    max_size=5,
)


@shares_folder
@given(
    data=st.data(), words=st.lists(WORDS, min_size=1, max_size=6, unique=True), binary=st.booleans()
)
def test_round_trip_of_any_words_and_values(tmp_path, data, words, binary):
    shape = (len(words), data.draw(st.integers(1, 4)))
    finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
    vectors = Vectors(tuple(words), data.draw(st_np.arrays(np.float32, shape, elements=finite)))
    path = tmp_path / ("v.bin" if binary else "v.vec")  # a single short row could be either
    write_vectors(path, vectors, binary=binary)
    again = read_vectors(path, strict=True)
    assert again.words == vectors.words
    assert again.matrix.tobytes() == vectors.matrix.tobytes()


def test_binary_without_control_bytes_or_suffix_is_still_binary(tmp_path):
    vectors = Vectors(("0",), np.array([[68673.0]], dtype=np.float32))
    write_vectors(tmp_path / "v", vectors, binary=True)
    assert read_vectors(tmp_path / "v", strict=True).matrix.tolist() == [[68673.0]]


def test_a_file_that_opens_and_cannot_be_read():
    with pytest.raises(InputError, match=r"^/proc/self/mem: cannot read: "):
        read_vectors("/proc/self/mem")


@pytest.mark.parametrize("word", ["a b", "\u3000", "\u00a0", "x\u2028y", "\u0085", "\x1c"])
def test_odd_blanks_belong_to_the_word(tmp_path, word):
    vectors = read_vectors(text_file(tmp_path, f"1 3\n{word} 1 2 3\n"), strict=True)
    assert vectors.words == (word,)


BROKEN = {
    "too narrow": ("坏 1 2", "found 2 numbers"),
    "too wide": ("坏 1 2 3 4", "found 4 numbers"),
    "not a number": ("坏 1 x 3", "'x' is not a number"),
    "underscore": ("坏 1 1_0 3", "'1_0' is not a number"),
    "not finite": ("坏 1 nan 3", "not finite"),
    "infinite": ("坏 1 inf 3", "not finite"),
    "beyond float32": ("坏 1e39 -1e39 3", "not finite"),
    "empty word": (" 1 2 3", "the word is empty"),
    "word alone": ("坏", "found 0 numbers"),
}


@pytest.mark.parametrize(("row", "says"), BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("header", ["", "4 3\n"])
def test_a_broken_row_names_its_line(tmp_path, row, says, header):
    path = text_file(tmp_path, header + lines() + row + "\n")
    line = 5 if header else 4
    vectors = read_vectors(path)
    check(vectors)
    assert vectors.skipped == 1
    assert len(vectors.notices) == 1
    assert f"line {line}: " in vectors.notices[0]
    assert says in vectors.notices[0]
    with pytest.raises(InputError, match=says) as caught:
        read_vectors(path, strict=True)
    assert (caught.value.line, caught.value.path) == (line, path)


def test_a_word_that_is_not_utf8_is_a_broken_row(tmp_path):
    path = text_file(tmp_path, lines().encode() + b"\xff\xfe 1 2 3\n")
    assert read_vectors(path).skipped == 1
    with pytest.raises(InputError, match="not UTF-8") as caught:
        read_vectors(path, strict=True)
    assert caught.value.line == 4


def test_only_the_first_broken_rows_are_named(tmp_path):
    vectors = read_vectors(text_file(tmp_path, "13 3\n" + lines() + "坏 1\n" * 10))
    assert vectors.skipped == 10
    assert "line 5: " in vectors.notices[0]
    assert "line 8" not in vectors.notices[0]
    assert "and 7 more" in vectors.notices[0]


def test_the_first_row_may_be_the_broken_one(tmp_path):
    vectors = read_vectors(text_file(tmp_path, "坏 1\n" + lines()))
    check(vectors)
    assert "line 1: " in vectors.notices[0]


@pytest.mark.parametrize("strict", [False, True])
def test_of_two_rows_for_one_word_the_first_wins(tmp_path, strict):
    vectors = read_vectors(text_file(tmp_path, lines() + "的 9 9 9\n"), strict=strict)
    check(vectors)
    assert vectors.skipped == 0
    assert "1 rows repeat a word" in vectors.notices[0]


def test_a_header_that_disagrees(tmp_path):
    path = text_file(tmp_path, "5 3\n" + lines())
    vectors = read_vectors(path)
    check(vectors)
    assert "promises 5 rows and there are 3" in vectors.notices[0]
    with pytest.raises(InputError, match="promises 5 rows and there are 3") as caught:
        read_vectors(path, strict=True)
    assert caught.value.line == 1


@pytest.mark.parametrize(
    "body",
    ["", "\n\n", "\ufeff", "3 3\n", "0 3\n", "3 0\n", "3 99999999999\n", "word\n", "中 文\n"],
)
def test_nothing_to_read_is_an_error(tmp_path, body):
    path = text_file(tmp_path, body)
    with pytest.raises(InputError, match=r"v\.txt"):
        read_vectors(path)


def test_all_rows_broken_is_an_error(tmp_path):
    with pytest.raises(InputError, match="line 2: expected a word and 5 numbers"):
        read_vectors(text_file(tmp_path, "3 5\n" + lines()))


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_vectors(tmp_path / "none.bin")


@pytest.mark.parametrize("end", [b"\n", b""])
def test_every_cut_of_a_binary_file_is_noticed(tmp_path, end):
    body = binary_body(end)
    whole = len(body) - len(end)
    for length in range(4, whole):
        with pytest.raises(InputError, match=r"cut short: row \d of 3 begins at byte \d+"):
            read_vectors(text_file(tmp_path, body[:length], "v.bin"))
    check(read_vectors(text_file(tmp_path, body[:whole], "v.bin")))


def test_the_cut_row_and_byte_are_right(tmp_path):
    body = binary_body(b"\n")
    second = 4 + len("的".encode()) + 1 + 12 + 1
    with pytest.raises(InputError, match=rf"row 2 of 3 begins at byte {second} "):
        read_vectors(text_file(tmp_path, body[: second + 9], "v.bin"))


def test_rubbish_in_a_binary_file(tmp_path):
    rubbish = b"2 3\n" + b"\x01" * 10_000
    with pytest.raises(InputError, match="not word2vec binary: no word at row 1 of 2, byte 4"):
        read_vectors(text_file(tmp_path, rubbish, "v.bin"))
    with pytest.raises(InputError, match="8 bytes follow row 3"):
        read_vectors(text_file(tmp_path, binary_body(b"") + b"\x00rubbish", "v.bin"))


def test_bad_rows_of_a_binary_file(tmp_path):
    rows = [ROWS[0], ("坏", [1.0, float("nan"), 2.0]), ROWS[1]]
    body = binary_body(b"\n", rows) + b"\xff\xff " + bytes(12) + b"\n" + b" " + bytes(12) + b"\n"
    path = text_file(tmp_path, body.replace(b"3 3\n", b"5 3\n", 1), "v.bin")
    vectors = read_vectors(path)
    check(vectors, ROWS[:2])
    assert vectors.skipped == 3
    assert "row 2 (byte 21): a value is not finite" in vectors.notices[0]
    with pytest.raises(InputError, match="row "):
        read_vectors(path, strict=True)


@pytest.mark.parametrize("word", ["", "a b", "a\n", "\t", "\ud800"])
@pytest.mark.parametrize("binary", [False, True])
def test_words_that_the_format_cannot_carry(tmp_path, word, binary):
    path = tmp_path / "v"
    path.write_text("as it was")
    with pytest.raises(InputError, match="cannot carry"):
        write_vectors(path, Vectors(("ok", word), np.zeros((2, 1), np.float32)), binary=binary)
    assert path.read_text() == "as it was"
    assert [entry.name for entry in tmp_path.iterdir()] == ["v"]


def test_vectors_check_themselves():
    with pytest.raises(ValueError, match="do not fit"):
        Vectors(("a",), np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="float32"):
        Vectors(("a",), np.zeros((1, 3), np.float64))
