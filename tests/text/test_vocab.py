"""Vocab: ids in the order of arrival, any symbol at all survives the file, and a broken file names
its line.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.errors import InputError
from hanlattice.files import read_lines
from hanlattice.text.vocab import UNKNOWN, Vocab
from tests.helpers.strategies import ODD, any_character, shares_folder

symbols = st.lists(st.text(any_character | st.sampled_from("\\nru0"), max_size=4), max_size=12)


@given(symbols)
def test_ids_are_places_and_the_first_of_two_counts(given_symbols):
    vocab = Vocab(given_symbols)
    assert vocab.symbols[0] == UNKNOWN
    assert len(vocab.symbols) == len(set(vocab.symbols)) == len(vocab)
    assert list(vocab.symbols[1:]) == [
        symbol
        for index, symbol in enumerate(given_symbols)
        if symbol not in given_symbols[:index] and symbol != UNKNOWN
    ]
    assert vocab.ids(vocab.symbols) == list(range(len(vocab)))
    assert all(
        symbol in vocab and vocab.symbols[vocab[symbol]] == symbol for symbol in given_symbols
    )


def test_what_is_not_in_it_is_unknown():
    vocab = Vocab(["中", "国", "中", UNKNOWN])
    assert (vocab["中"], vocab["国"], vocab["美"], vocab[UNKNOWN], len(vocab)) == (1, 2, 0, 0, 3)
    assert "美" not in vocab
    assert vocab.ids("美国") == [0, 2]
    assert vocab.ids("") == []
    assert Vocab([]).symbols == (UNKNOWN,)


def test_equal_by_symbols_in_order():
    assert Vocab("ab") == Vocab(["a", "b", "a"])
    assert hash(Vocab("ab")) == hash(Vocab("abb"))
    assert Vocab("ab") != Vocab("ba")
    assert Vocab("a") != ("a",)


@shares_folder
@given(symbols)
def test_any_symbols_come_back(tmp_path, given_symbols):
    vocab = Vocab(given_symbols)
    vocab.save(tmp_path / "v.txt")
    assert Vocab.load(tmp_path / "v.txt") == vocab


@pytest.mark.parametrize(
    "symbol", [*ODD, "", "\r\n", "\\n", "\\u0041", "\\", "\\\\", "\ud83d\ude00", "\ufeff\ufeff"]
)
def test_each_odd_symbol_is_one_line(tmp_path, symbol):
    vocab = Vocab([symbol])
    vocab.save(tmp_path / "v.txt")
    assert (tmp_path / "v.txt").read_bytes().count(b"\n") == 2
    assert Vocab.load(tmp_path / "v.txt") == vocab


BROKEN = {
    "nothing": (b"", None, "the first line is <unk>"),
    "no unknown": ("中\n国\n".encode(), None, "the first line is <unk>"),
    "twice": (b"<unk>\na\na\n", None, "no line comes twice"),
    "twice, once by escape": (b"<unk>\n\\u0041\nA\n", None, "no line comes twice"),
    "cut escape": (b"<unk>\nab\\u12", 2, r"\\u is not one of the escapes"),
    "cut escape and line end": (b"<unk>\n\\u12\nb\n", 2, r"\\u is not one of the escapes"),
    "empty escape": (b"<unk>\na\n\\u\n", 3, r"\\u is not one of the escapes"),
    "not hexadecimal": (b"<unk>\n\\u 12f\n", 2, r"\\u is not one of the escapes"),
    "signed": (b"<unk>\n\\u+12f\n", 2, r"\\u is not one of the escapes"),
    "underscore": (b"<unk>\n\\u1_2f\n", 2, r"\\u is not one of the escapes"),
    "lone backslash": (b"<unk>\na\\\n", 2, "is not one of the escapes"),
    "unknown escape": (b"<unk>\n\\x\n", 2, r"\\x is not one of the escapes"),
    "not UTF-8": (b"<unk>\n\xff\n", 2, "not UTF-8: byte 0xff at byte 1"),
}


@pytest.mark.parametrize(("body", "line", "says"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_says_where(tmp_path, body, line, says):
    path = tmp_path / "v.txt"
    path.write_bytes(body)
    with pytest.raises(InputError, match=says) as caught:
        Vocab.load(path)
    assert (caught.value.path, caught.value.line) == (path, line)


@shares_folder
@given(st.binary(max_size=20) | st.text(st.sampled_from("\\urn0a\n"), max_size=12).map(str.encode))
def test_any_file_is_a_vocabulary_or_an_input_error(tmp_path, rest):
    path = tmp_path / "v.txt"
    path.write_bytes(b"<unk>\n" + rest)
    try:
        vocab = Vocab.load(path)
    except InputError:
        return
    assert len(vocab) == 1 + rest.count(b"\n") + (not rest.endswith(b"\n") and rest != b"")


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="cannot read: there is no such file"):
        Vocab.load(tmp_path / "v.txt")


@shares_folder
@given(
    st.binary(max_size=20)
    | st.lists(st.sampled_from([b"\xef\xbb\xbf", b"\r", b"\n", b"a", b"\xff"]), max_size=9).map(
        b"".join
    )
)
def test_lines_are_those_of_any_other_file(tmp_path, rest):
    path = tmp_path / "v.txt"
    path.write_bytes(b"<unk>\n" + rest)

    def outcome(read: Callable[[], list[str]]) -> list[str] | str:
        try:
            return read()
        except InputError as error:
            return str(error)

    expected = outcome(lambda: [line for _, line in read_lines(path, "utf-8")])
    result = outcome(lambda: list(Vocab.load(path).symbols))
    if isinstance(expected, list) and (len(set(expected)) < len(expected) or b"\\" in rest):
        assert "not a vocabulary" in result or b"\\" in rest
    else:
        assert result == expected
