"""Bigrams: a table over many texts gives what a plain loop over each text gives."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hanlattice.lab.pretrain.units import Bigrams
from hanlattice.text.normalize import code_points, fold_digits
from hanlattice.text.vocab import END, UNKNOWN, BigramTable, Vocab, bigrams, is_bigram
from tests.helpers.strategies import ODD, any_text

FEW = "南京 \u3000\n７7Ａa-\ud800"
texts = st.lists(any_text | st.text(st.sampled_from(FEW), max_size=8), max_size=5)
ODD_SYMBOLS = (
    "",
    " ",
    "a",
    "a ",
    " a",
    "12",
    "Ａa",
    END,
    f"a{END}",
    f"ab{END}",
    f"-{END}",
    "长江大桥",
    "\ud800a",
    "--",
)
symbols = st.lists(
    st.sampled_from(ODD_SYMBOLS) | st.text(st.sampled_from(FEW), min_size=2, max_size=2), max_size=9
)


def one_by_one(text: str) -> list[str | None]:
    """The bigram of each character, None for white space."""
    seen = fold_digits(text)
    result: list[str | None] = []
    for index, character in enumerate(seen):
        after = seen[index + 1] if index + 1 < len(seen) else " "
        result.append(
            None if character.isspace() else character + (END if after.isspace() else after)
        )
    return result


def looked_up(vocab: Vocab, given_texts: Sequence[str]) -> list[int]:
    lengths = np.array([len(text) for text in given_texts], dtype=np.int64)
    return BigramTable(vocab)(code_points("".join(given_texts)), lengths).tolist()


@given(any_text)
@example(ODD)
@example("")
def test_bigrams_are_those_of_a_plain_loop_and_of_pretraining(text: str) -> None:
    assert bigrams(text) == [bigram for bigram in one_by_one(text) if bigram is not None]
    assert list(Bigrams()([text])) == [bigrams(text)]


@given(texts, symbols, st.data())
def test_a_table_gives_the_ids_of_the_bigrams(
    given_texts: list[str], others: list[str], data: st.DataObject
) -> None:
    present = [bigram for text in given_texts for bigram in bigrams(text)]
    known = data.draw(st.lists(st.sampled_from(present), max_size=6)) if present else []
    vocab = Vocab(data.draw(st.permutations([*known, *others])))
    expected = [
        0 if bigram is None else vocab[bigram]
        for text in given_texts
        for bigram in one_by_one(text)
    ]
    assert looked_up(vocab, given_texts) == expected


@given(texts)
def test_texts_that_stand_side_by_side_do_not_touch(given_texts: list[str]) -> None:
    vocab = Vocab(bigram for text in given_texts for bigram in bigrams(text))
    joined = looked_up(vocab, given_texts)
    assert joined == [number for text in given_texts for number in looked_up(vocab, [text])]
    assert [number == 0 for number in joined] == [
        c.isspace() for text in given_texts for c in fold_digits(text)
    ]


def test_full_width_forms_and_digits_are_seen_as_their_plain_forms() -> None:
    assert bigrams("Ａ７京3") == ["A0", "0京", "京0", f"0{END}"]
    vocab = Vocab(["A0", "0京"])
    assert looked_up(vocab, ["Ａ７京"]) == looked_up(vocab, ["A1京"]) == [1, 2, 0]


def test_white_space_ends_a_run_and_has_no_bigram() -> None:
    assert bigrams("南\u3000京\t") == [f"南{END}", f"京{END}"]
    assert looked_up(Vocab([f"南{END}", f"京{END}", "南 ", " 京"]), ["南\u3000京\t"]) == [
        1,
        0,
        2,
        0,
    ]


@pytest.mark.parametrize("given_texts", [[], [""], ["", ""]])
def test_nothing_has_no_bigrams(given_texts: list[str]) -> None:
    for vocab in (Vocab(()), Vocab(["南京"])):
        assert looked_up(vocab, given_texts) == []


def test_the_last_code_points_are_no_marks() -> None:
    """The numbers of the end and of white space must not be those of characters."""
    last = "\U0010ffff"
    vocab = Vocab([last * 2, f"{last}{END}"])
    assert looked_up(vocab, [last * 2, f"{last} "]) == [1, 2, 2, 0]


@pytest.mark.parametrize("symbol", ["南京", f"南{END}", f"-{END}", "  "])
def test_what_is_a_bigram(symbol: str) -> None:
    assert is_bigram(symbol)


@pytest.mark.parametrize("symbol", ["", "南", END, f"南京{END}", "南京市", UNKNOWN, "-null-x"])
def test_what_is_none(symbol: str) -> None:
    assert not is_bigram(symbol)


def test_a_table_that_was_used_can_be_pickled() -> None:
    table = BigramTable(Vocab(["南京"]))
    lengths = np.array([2])
    before = table(code_points("南京"), lengths)
    assert (
        pickle.loads(pickle.dumps(table))(code_points("南京"), lengths).tolist()
        == before.tolist()
        == [1, 0]
    )
