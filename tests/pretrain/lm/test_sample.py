"""Samples: from the model's own distribution, sharpened as asked, and never a symbol that stands for others."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.errors import InputError
from hanlattice.pretrain.lm.sample import Sampling, choose, sample
from hanlattice.pretrain.lm.text import BREAK_ID
from tests.pretrain.lm.made import random_model

CHARACTERS = "南京市长江大桥"


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
    chosen = choose(logits.expand(20_000, -1), Sampling(temperature=temperature, top=4), generator())
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
    module, text = model.directions[direction], prompt if direction == "forward" else prompt[::-1]
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
    made = sample(random_model(CHARACTERS), prompt, Sampling(length=20, temperature=0), 2, direction)
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
    [{"length": 0}, {"temperature": -1.0}, {"temperature": math.nan}, {"top": -1}, {"seed": -1}, {"seed": 1 << 63}],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(InputError, match=f"--{next(iter(wrong))} must be"):
        Sampling(**wrong)


def test_the_largest_seed_is_one():
    assert sample(random_model(CHARACTERS), "", Sampling(seed=(1 << 63) - 1))


def test_no_texts_cannot_be_asked_for():
    with pytest.raises(InputError, match="-n must be 1 or more"):
        sample(random_model("a"), "", Sampling(), 0)
