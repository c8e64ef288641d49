"""Text as a transformer's pieces: as another library cuts it, and every character in exactly one
piece.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from hanlattice.errors import InputError
from hanlattice.text.boundaries import names_without_space
from hanlattice.text.normalize import code_points
from hanlattice.text.pieces import Pieces

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
LETTERS = "abe39+"
TOKENS = [
    *SPECIAL,
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
    "ab",
    "##ab",
    "##3b",
    "39",
    "##339",
    *"王，,。+",
]
VOCAB = list(dict.fromkeys(TOKENS))


def numbers(pieces: Pieces, texts: list[str]) -> list[list[int]]:
    """Those of the characters of each text that are not white space."""
    solid = names_without_space(texts)
    lengths = np.array([len(text) for text in solid.texts], dtype=np.int64)
    result = pieces(code_points("".join(solid.texts)), lengths, solid.offsets)
    return [part.tolist() for part in np.split(result, np.cumsum(lengths)[:-1])]


def by_the_library(text: str) -> list[int]:
    tokenizer = Tokenizer(
        models.WordPiece({token: place for place, token in enumerate(VOCAB)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


@given(st.lists(st.text("abeABÉ39王，, \n。", max_size=12), min_size=1, max_size=4))
def test_pieces_are_those_of_the_library(texts: list[str]) -> None:
    result = numbers(Pieces(VOCAB), texts)
    assert [[number - 1 for number in row if number] for row in result] == [
        by_the_library(text) for text in texts
    ]


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_every_character_is_in_one_piece_and_what_is_beside_a_text_changes_nothing(
    texts: list[str],
) -> None:
    pieces = Pieces(VOCAB)
    result = numbers(pieces, texts)
    for text, row in zip(texts, result, strict=True):
        assert len(row) == len("".join(text.split()))
        assert row == numbers(pieces, [text])[0]
        assert all(0 <= number <= len(pieces) for number in row)
        assert not row or row[0] > 0


@pytest.mark.parametrize("edge", "㐀\u4dbf\u4e00\u9fff\U00020000\U0002ceaf")
def test_ideographs_are_pieces_of_their_own_up_to_their_edges(edge: str) -> None:
    (result,) = numbers(Pieces(VOCAB), [f"a{edge}b"])
    assert [number - 1 for number in result] == by_the_library(f"a{edge}b")


@pytest.mark.parametrize("beyond", "\u33ff\u4dc0\u4dff\ua000\U0002ceb0")
def test_what_is_no_ideograph_is_in_a_word(beyond: str) -> None:
    (result,) = numbers(Pieces(VOCAB), [f"a{beyond}b"])
    assert result[2] - 1 == VOCAB.index("##b")


def test_widths_are_folded_in_words_and_marks_are_taken_as_they_are() -> None:
    ids = {token: place + 1 for place, token in enumerate(VOCAB)}
    assert numbers(Pieces(VOCAB), ["ＡＢ３９，,！"]) == [
        [ids["ab"], 0, ids["##3"], ids["##9"], ids["，"], ids[","], 2]
    ]
    assert numbers(Pieces(VOCAB), ["e\u0301a", "\u0301"]) == [[ids["e"], 0, ids["##a"]], [2]]
    assert numbers(Pieces(VOCAB), ["axb"]) == [
        [ids["a"], 2, ids["##b"]]
    ]  # the rest of the word stays known


def test_a_word_of_any_length_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    result = numbers(Pieces(VOCAB), ["ab" * 50_000])[0]
    assert len(result) == 100_000
    assert np.count_nonzero(result) == 50_000


def test_it_comes_back_from_its_folder_and_from_the_librarys_own_file(tmp_path: Path) -> None:
    Pieces([*VOCAB, "A"], lower=False).save(tmp_path)
    again = Pieces.load(tmp_path)
    assert (again.tokens, again.lower) == ((*VOCAB, "A"), False)
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "tokenizer_config.json").unlink()
    vocab = {token: place for place, token in enumerate([*VOCAB, "A"]) if token != "##9"}
    tree = {"model": {"type": "WordPiece", "vocab": vocab}, "normalizer": {"lowercase": False}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tree), "utf-8")
    other = Pieces.load(tmp_path)
    assert not other.lower
    assert [a == b for a, b in zip(other.tokens, again.tokens, strict=True)].count(False) == 1


def test_a_vocabulary_without_capitals_reads_small_letters(tmp_path: Path) -> None:
    Pieces(VOCAB, lower=False).save(tmp_path)
    assert Pieces.load(tmp_path).lower


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "vocab.txt",
            "a\nb\n",
            r"vocab\.txt.*not the vocabulary of a BERT: \[CLS\], \[SEP\], \[UNK\], \[PAD\]",
        ),
        (
            "tokenizer.json",
            '{"model": {"type": "BPE", "vocab": {}}}',
            "not a vocabulary of word pieces",
        ),
        ("tokenizer.json", "{", "cannot be read as JSON"),
        ("tokenizer.json", "[]", "expected a JSON object"),
        ("other", "", r"it has no vocab\.txt, and no tokenizer\.json"),
    ],
)
def test_what_is_no_vocabulary_is_refused(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(InputError, match=message):
        Pieces.load(tmp_path)
