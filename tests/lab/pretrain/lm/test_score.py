"""Scores against a loop that reads one character at a time; samples against the model's own
distribution.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.checkpoint.language_model import LanguageModel
from hanlattice.errors import InputError
from hanlattice.lab.pretrain.lm import score as score_module
from hanlattice.lab.pretrain.lm.score import (
    Sampling,
    choose,
    mean_score,
    sample,
    score,
    surprise,
    text_surprise,
)
from hanlattice.lab.pretrain.lm.text import BREAK_ID, text_lines
from hanlattice.text.normalize import fold_digits
from tests.helpers.lm import random_model

CHARACTERS = "南京市长江大桥0a"
TEXTS = st.lists(st.text(CHARACTERS + "１9未Ａ", max_size=9), min_size=1, max_size=6)


def one_by_one(model: LanguageModel, direction: str, text: str) -> list[float]:
    """Bits of each symbol in the order of reading, a character at a time."""
    module = model.directions[direction]
    state = None
    seen = fold_digits(text if direction == "forward" else text[::-1])
    symbol = BREAK_ID
    bits = []
    for target in [*model.vocab.ids(seen), BREAK_ID]:
        hidden, state = module(torch.tensor([[symbol]]), state)
        probabilities = module.logits(hidden[0, 0]).double().exp()
        bits.append(-math.log2(probabilities[target] / probabilities.sum()))
        symbol = target
    return bits


@pytest.mark.parametrize(("direction", "layers"), [("forward", 1), ("backward", 2)])
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
        np.testing.assert_allclose(
            text_surprise(model, "forward", [texts[at]])[0], whole[at], rtol=1e-4, atol=1e-5
        )


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
    (back,) = text_surprise(model, "backward", ["南京市"])
    (ahead,) = text_surprise(turned, "forward", ["市京南"])
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


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_symbols_come_as_often_as_their_probabilities_say(temperature):
    logits = torch.tensor([3.0, 1.0, 0.0, 2.0, -1.0])
    chosen = choose(logits.expand(20_000, -1), Sampling(temperature=temperature), generator())
    found = Counter(chosen.tolist())
    weights = [math.exp(value / temperature) for value in logits[1:].tolist()]
    assert found[0] == 0
    for at, weight in enumerate(weights, start=1):
        assert found[at] / 20_000 == pytest.approx(weight / sum(weights), abs=0.02)


@pytest.mark.parametrize("temperature", [0.0, 1e-3, 1e-30, 1e-46, 5e-324])
def test_no_temperature_takes_the_likeliest(temperature):
    logits = torch.randn(50, 9, generator=generator())
    chosen = choose(logits, Sampling(temperature=temperature), generator())
    assert torch.equal(chosen, logits[:, 1:].argmax(dim=1) + 1)


@pytest.mark.parametrize("temperature", [1e40, 1e308])
def test_a_very_high_temperature_takes_all_alike(temperature):
    logits = torch.randn(9, generator=generator())
    chosen = choose(
        logits.expand(20_000, -1), Sampling(temperature=temperature, top=4), generator()
    )
    found = Counter(chosen.tolist())
    assert found.keys() == set((logits[1:].topk(4).indices + 1).tolist())
    assert all(count / 20_000 == pytest.approx(0.25, abs=0.02) for count in found.values())


@given(st.integers(1, 12), st.integers(0, 5))
def test_top_leaves_the_others_out(top, seed):
    logits = torch.randn(1, 9, generator=generator(seed))
    best = set((logits[0, 1:].topk(min(top, 8)).indices + 1).tolist())
    chosen = choose(logits.expand(200, -1), Sampling(temperature=5.0, top=top), generator(seed))
    assert set(chosen.tolist()) <= best


def greedy(direction: str, prompt: str, length: int) -> str:
    """The likeliest text, by reading everything anew for each character."""
    model = random_model(CHARACTERS)
    module = model.directions[direction]
    text = prompt if direction == "forward" else prompt[::-1]
    for _ in range(length):
        logits = module.logits(module(torch.tensor([[BREAK_ID, *model.vocab.ids(text)]]))[0][0, -1])
        best = int(logits[1:].argmax()) + 1
        if best == BREAK_ID:
            break
        text += model.vocab.symbols[best]
    return text if direction == "forward" else text[::-1]


@pytest.mark.parametrize("prompt", ["", "南", "大桥", "未知"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_greedy_text_is_that_of_reading_anew(direction, prompt):
    made = sample(
        random_model(CHARACTERS), prompt, Sampling(length=20, temperature=0), 2, direction
    )
    assert made == [greedy(direction, prompt, 20)] * 2


def test_a_break_ends_a_paragraph_and_unknown_is_never_made():
    model = random_model(CHARACTERS)
    module = model.directions["forward"]
    module.bias[0] = 50.0
    module.bias[BREAK_ID] += 1.5
    texts = sample(model, "南", Sampling(length=30, temperature=1.0), 200)
    lengths = {len(text) for text in texts}
    assert len(lengths) > 5
    assert max(lengths) <= 31
    assert all(text.startswith("南") and set(text) <= set(CHARACTERS) for text in texts)


def test_a_seed_gives_the_same_texts_again():
    model = random_model(CHARACTERS)
    first = sample(model, "南京", Sampling(seed=3), 4)
    assert sample(model, "南京", Sampling(seed=3), 4) == first
    assert sample(model, "南京", Sampling(seed=4), 4) != first
    assert len(set(first)) > 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"length": 0},
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"top": -1},
        {"seed": -1},
        {"seed": 1 << 63},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(InputError, match=f"--{next(iter(wrong))} must be"):
        Sampling(**wrong)


def test_the_largest_seed_is_one():
    assert sample(random_model(CHARACTERS), "", Sampling(seed=(1 << 63) - 1))


def test_no_texts_cannot_be_asked_for():
    with pytest.raises(InputError, match="-n must be 1 or more"):
        sample(random_model("a"), "", Sampling(), 0)
