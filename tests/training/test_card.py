"""The model card: what a model is, in words."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hanlattice.checkpoint import find_model
from hanlattice.checkpoint.load import load_model
from hanlattice.config import make_config
from hanlattice.training.card import kind_of, write_card
from hanlattice.training.loop import train
from tests.helpers.cutting import cutting_tree
from tests.helpers.made import made_config

CONFIGS = Path(__file__).parents[2] / "configs"
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
    (
        {"encoder": "char", "bichar": True, "softword": True},
        "character LSTM–CRF with bigrams, softwords",
    ),
    ({"coupled": False}, "lattice LSTM–CRF with a separate forget gate"),
    ({"encoder": "char", "coupled": False}, "character LSTM–CRF"),
    ({"encoder": "char", "coupled": True}, "character LSTM–CRF with coupled gates"),
    ({"encoder": "char", "cell": "tanh", "bichar": True}, "character tanh RNN–CRF with bigrams"),
    ({"sources": "subwords", "bichar": True}, "lattice LSTM–CRF with subwords, bigrams"),
    ({"sources": "both"}, "lattice LSTM–CRF with words and subwords"),
    ({"encoder": "char", "sources": "both"}, "character LSTM–CRF"),
    ({"layers": 3}, "lattice LSTM–CRF with 3 layers"),
    (
        {"pools": True, "layers": 2, "whole_words": True},
        "lattice LSTM–CRF with pools of words, 2 layers, whole words",
    ),
    (
        {"layers": 2, "first_layer": "char"},
        "lattice LSTM–CRF with 2 layers, the first of characters alone",
    ),
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
    assert (
        kind_of(make_config(tree))
        == "lattice LSTM–CRF with softwords, parts of speech, a language model"
    )
    del tree["model"]
    assert (
        kind_of(make_config(tree)) == "lattice LSTM–CRF with a language model"
    )  # no softwords, so no parts of speech


def test_different_models_are_called_differently():
    words = [("word", features) for features in ("none", "lstm", "sentence-lstm", "cnn")]
    switches = list(product([False, True], repeat=2))
    models = [
        {
            "encoder": encoder,
            "char_features": features,
            "bichar": bichar,
            "softword": softword,
            "layers": layers,
        }
        for encoder, features in [("lattice", "none"), ("char", "none"), *words]
        for bichar, softword in switches
        for layers in (1, 2)
    ]
    assert len({kind_of(make_config({"model": model})) for model in models}) == len(models)


def test_the_card_says_it(made, tmp_path):
    config = made_config(
        made,
        train__epochs=1,
        data__limit=40,
        model__encoder="char",
        model__bichar=True,
        model__hidden=4,
    )
    card = (train(config, tmp_path / "run").folder / "README.md").read_text("utf-8")
    assert card.startswith(
        "# run\n\nA character LSTM–CRF with bigrams made with hanlattice. It finds LOC, PER.\n"
    )
    assert "Bigram vectors: random." in card


def test_the_card_of_a_segmenter(made, tmp_path):
    result = train(make_config(cutting_tree(made, tmp_path, train__epochs=1)), tmp_path / "run")
    card = (result.folder / "README.md").read_text("utf-8")
    assert "made with hanlattice. It cuts text into words.\n" in card
    assert "`hanlattice segment -m FOLDER" in card
    assert "counts words as the SIGHAN bakeoff does" in card
    for part in ("dev", "test"):
        scores = result.scores[part]["segmentation"]
        oov = scores["oov"]
        bakeoff = scores["bakeoff"]
        ratios = " | ".join(f"{100 * bakeoff[key]:.2f}" for key in ("precision", "recall", "f1"))
        assert f"| {part} | precision" in card
        assert f"| bakeoff | {ratios} | {bakeoff['gold']} |" in card
        rate = f"{100 * oov['rate']:.2f} %"
        assert f"| - OOV ({rate}) | – | {100 * oov['recall']:.2f} | – | {oov['gold']} |" in card


@pytest.mark.parametrize("about", ["", "## Limits\n\n| a | b |\n|---|---|\n\n## Scores\n\nNews."])
def test_the_makers_own_text_comes_last(char_folder, tmp_path, about):
    model = load_model(char_folder)
    cards = []
    for packed in ({"precision": "full"}, {"precision": "full", "about": about}):
        write_card(tmp_path, replace(model, data={**model.data, "packed": packed}), model.scores)
        cards.append((tmp_path / "README.md").read_text("utf-8"))
    assert cards[1] == (f"{cards[0]}\n{about}\n" if about else cards[0])


@pytest.mark.parametrize("name", ["ner", "seg"])
def test_the_cards_of_the_bundled_models_are_what_would_be_written_now(name, tmp_path):
    """With the text of configs/NAME.md at the end, by which they were packed."""
    folder = find_model(name)
    model = load_model(folder)
    about = (CONFIGS / f"{name}.md").read_text("utf-8").strip()
    assert about.startswith("## How it was made\n")
    model = replace(model, data={**model.data, "packed": {**model.data["packed"], "about": about}})
    (tmp_path / name).mkdir()
    write_card(tmp_path / name, model, model.scores)
    assert (tmp_path / name / "README.md").read_bytes() == (folder / "README.md").read_bytes()
