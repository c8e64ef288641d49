"""Surprise and perplexity, against a loop that reads one character at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.models.language_model import LanguageModel
from hanlattice.pretrain.lm import score as score_module
from hanlattice.pretrain.lm.score import mean_score, score, surprise, text_lines, text_surprise
from hanlattice.pretrain.lm.text import BREAK_ID
from hanlattice.text.normal import fold_digits
from tests.pretrain.lm.made import random_model

CHARACTERS = "南京市长江大桥0a"
TEXTS = st.lists(st.text(CHARACTERS + "１9未Ａ", max_size=12), min_size=1, max_size=9)


def one_by_one(model: LanguageModel, direction: str, text: str) -> list[float]:
    """Bits of each symbol in the order of reading, a character at a time."""
    module, state = model.directions[direction], None
    seen = fold_digits(text if direction == "forward" else text[::-1])
    symbol, bits = BREAK_ID, []
    for target in [*model.vocab.ids(seen), BREAK_ID]:
        hidden, state = module(torch.tensor([[symbol]]), state)
        probabilities = module.logits(hidden[0, 0]).double().exp()
        bits.append(-math.log2(probabilities[target] / probabilities.sum()))
        symbol = target
    return bits


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("direction", ["forward", "backward"])
@given(texts=TEXTS)
def test_surprise_is_that_of_a_plain_loop(direction, layers, texts):
    model = random_model(CHARACTERS, layers=layers)
    found = text_surprise(model, direction, texts)
    assert len(found) == len(texts)
    for text, bits in zip(texts, found, strict=True):
        *characters, end = one_by_one(model, direction, text)
        in_order = characters if direction == "forward" else characters[::-1]
        np.testing.assert_allclose(bits, [*in_order, end], rtol=1e-4, atol=1e-5)


@given(texts=TEXTS)
def test_perplexity_counts_every_character_and_every_end(texts):
    model = random_model(CHARACTERS)
    found = score(model.directions["forward"], text_lines(model, texts))
    each = [bits for text in texts for bits in one_by_one(model, "forward", text)]
    assert found.symbols == len(each) == sum(len(text) + 1 for text in texts)
    assert found.bits == pytest.approx(sum(each) / len(each), rel=1e-5)
    assert found.perplexity == pytest.approx(2 ** (sum(each) / len(each)), rel=1e-4)


@given(texts=TEXTS, data=st.data())
def test_neither_order_nor_company_matters(texts, data):
    model = random_model(CHARACTERS)
    order = data.draw(st.permutations(range(len(texts))))
    whole = text_surprise(model, "forward", texts)
    shuffled = text_surprise(model, "forward", [texts[at] for at in order])
    for place, at in enumerate(order):
        np.testing.assert_allclose(shuffled[place], whole[at], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(text_surprise(model, "forward", [texts[at]])[0], whole[at], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("bounds", "softmax"), [((3, 7), 1), ((1, 1), 1 << 26), ((64, 4096), 45)])
def test_lines_of_any_length_are_read_in_bounded_pieces(bounds, softmax, monkeypatch):
    model = random_model(CHARACTERS)
    texts = ["南京" * 40, "", "桥", "市长江" * 5, "大" * 16]
    whole = text_surprise(model, "forward", texts)
    monkeypatch.setattr(score_module, "BOUNDS", {"cpu": bounds})
    monkeypatch.setattr(score_module, "SOFTMAX", softmax)
    sizes = []
    module = model.directions["forward"]
    module.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].numel()))
    for mine, theirs in zip(text_surprise(model, "forward", texts), whole, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    assert max(sizes) <= bounds[1]


def test_the_backward_model_reads_mirrored_text():
    model = random_model(CHARACTERS)
    turned = LanguageModel(model.vocab, model.settings, {"forward": model.directions["backward"]})
    (back,), (ahead,) = text_surprise(model, "backward", ["南京市"]), text_surprise(turned, "forward", ["市京南"])
    np.testing.assert_allclose(back, [*ahead[:3][::-1], ahead[3]])


def test_unknown_characters_are_one_symbol_and_digits_another():
    model = random_model(CHARACTERS)
    mine = text_surprise(model, "forward", ["未市3", "知市８", "知市0"])
    np.testing.assert_allclose(mine[0], mine[1])
    np.testing.assert_allclose(mine[1], mine[2])


def test_probabilities_of_all_symbols_sum_to_one():
    model = random_model(CHARACTERS)
    texts = [f"南{character}" for character in CHARACTERS]
    lines = text_lines(model, [*texts, "南未", "南"])
    after = [float(2.0 ** -float(bits[1])) for bits in surprise(model.directions["forward"], lines)]
    assert sum(after) == pytest.approx(1, rel=1e-4)


def test_nothing_at_all_is_no_text():
    assert mean_score(0.0, 0).symbols == 0
    assert text_surprise(random_model("a"), "forward", []) == []
