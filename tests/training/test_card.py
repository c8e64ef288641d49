"""The model card: what a model is, in words."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from hanlattice.config import make_config
from hanlattice.training.card import kind_of
from hanlattice.training.loop import train
from tests.made import made_config

KINDS: list[tuple[dict[str, Any], str]] = [
    ({}, "lattice LSTM–CRF"),
    ({"encoder": "char"}, "character LSTM–CRF"),
    ({"encoder": "word"}, "word LSTM–CRF"),
    ({"encoder": "word", "char_features": "lstm"}, "word LSTM–CRF with characters by LSTM"),
    (
        {"encoder": "word", "char_features": "sentence-lstm"},
        "word LSTM–CRF with characters by one LSTM over the sentence",
    ),
    (
        {"encoder": "word", "char_features": "cnn", "bichar": True},
        "word LSTM–CRF with characters by convolution, bigrams",
    ),
    ({"encoder": "char", "bichar": True, "softword": True}, "character LSTM–CRF with bigrams, softwords"),
    ({"coupled": False}, "lattice LSTM–CRF with a separate forget gate"),
    ({"encoder": "char", "coupled": False}, "character LSTM–CRF"),
    ({"layers": 3}, "lattice LSTM–CRF with 3 layers"),
    (
        {"bichar": True, "layers": 2, "coupled": False},
        "lattice LSTM–CRF with bigrams, a separate forget gate, 2 layers",
    ),
]


@pytest.mark.parametrize(("model", "words"), KINDS)
def test_what_the_model_is(model, words):
    assert kind_of(make_config({"model": model})) == words


def test_what_other_sections_add():
    tree = {"model": {"softword": True}, "softwords": {"pos": True}, "lm": {"model": "runs/lm"}}
    assert kind_of(make_config(tree)) == "lattice LSTM–CRF with softwords, parts of speech, a language model"
    del tree["model"]
    assert kind_of(make_config(tree)) == "lattice LSTM–CRF with a language model"  # no softwords, so no parts of speech


def test_different_models_are_called_differently():
    words = [("word", features) for features in ("none", "lstm", "sentence-lstm", "cnn")]
    switches = list(product([False, True], repeat=2))
    models = [
        {"encoder": encoder, "char_features": features, "bichar": bichar, "softword": softword, "layers": layers}
        for encoder, features in [("lattice", "none"), ("char", "none"), *words]
        for bichar, softword in switches
        for layers in (1, 2)
    ]
    assert len({kind_of(make_config({"model": model})) for model in models}) == len(models)


def test_the_card_says_it(made, tmp_path):
    config = made_config(made, train__epochs=1, model__encoder="char", model__bichar=True, model__hidden=4)
    card = (train(config, tmp_path / "run").folder / "README.md").read_text("utf-8")
    assert card.startswith("# run\n\nA character LSTM–CRF with bigrams made with hanlattice. It finds LOC, PER.\n")
    assert "Bigram vectors: random." in card
