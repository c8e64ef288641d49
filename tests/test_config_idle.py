"""Settings that do nothing beside the others are told, with what to do; what is off is never in the way."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hanlattice.config import Config, lacking, make_config, read_config
from hanlattice.config.idle import SETTINGS, SWITCHES
from hanlattice.errors import ConfigError

LM = "without lm.model: remove it, or name the folder of a language model"
LATTICE = "without model.encoder=lattice: remove it, or choose lattice"
ALONE = "with model.encoder=word alone, which sees no characters: switch it off, or choose model.char_features"
FEATURES = "without model.char_features: remove it, or choose lstm, sentence-lstm or cnn"
HOLDOUT = "without data.holdout: remove it, or say which share of train serves as dev"

# (what a file says, what mends it, the setting, why it does nothing)
GIVEN = [
    (
        "[train]\nmomentum = 0.9\n",
        "train.optimizer=sgd",
        "train.momentum",
        "with train.optimizer=adamw: remove it, or choose sgd",
    ),
    (
        "[train]\ndecay = 0.05\n",
        "train.schedule=inverse",
        "train.decay",
        "unless train.schedule=inverse: remove it, or choose inverse",
    ),
    *(
        (
            f"[{section}]\ndim = 50\nvectors = 'v'\n",
            f"{section}.vectors=",
            f"{section}.dim",
            f"with {section}.vectors, which have a width of their own: remove one of the two",
        )
        for section in ("chars", "bichars", "words", "subwords")
    ),
    *(
        (
            f"[{section}]\nnorm = 12\n",
            f"{section}.vectors=v",
            f"{section}.norm",
            f"without {section}.vectors, which it scales: remove it, or name a vector file",
        )
        for section in ("chars", "bichars", "words", "subwords")
    ),
    ("[data]\nholdout_from = 'end'\n", "data.holdout=0.1", "data.holdout_from", HOLDOUT),
    ("[data]\nholdout_from = 'all'\n", "data.holdout=0.1", "data.holdout_from", HOLDOUT),
    (
        "[train]\nmissing_words = 0.1\n[model]\nencoder = 'word'\n",
        "model.encoder=lattice",
        "train.missing_words",
        LATTICE,
    ),
    ("[lm]\ndim = 10\n", "lm.model=m", "lm.dim", LM),
    ("[lm]\nnorm = 1\n", "lm.model=m", "lm.norm", LM),
    ("[lm]\ndropout = 0.5\n", "lm.model=m", "lm.dropout", LM),
    ("[lm]\ncache = false\n", "lm.model=m", "lm.cache", LM),
    ("[lm]\ncache = true\n", "lm.model=m", "lm.cache", LM),
    ("[train]\nbackend = 'batched'\n[model]\nencoder = 'char'\n", "model.encoder=lattice", "train.backend", LATTICE),
    ("[train]\nbackend = 'auto'\n[model]\nencoder = 'word'\n", "model.encoder=lattice", "train.backend", LATTICE),
    ("[model]\ncoupled = false\nencoder = 'char'\n", "model.encoder=lattice", "model.coupled", LATTICE),
    ("[model]\ncoupled = true\nencoder = 'word'\n", "model.encoder=lattice", "model.coupled", LATTICE),
    ("[model]\nsources = 'both'\nencoder = 'char'\n", "model.encoder=lattice", "model.sources", LATTICE),
    ("[model]\nchar_width = 50\nencoder = 'word'\n", "model.char_features=cnn", "model.char_width", FEATURES),
]
ON = [
    ("[model]\nbichar = true\nencoder = 'word'\n", "model.char_features=lstm", "model.bichar", ALONE),
    ("[model]\npaper_vocab = true\nencoder = 'word'\n", "model.char_features=lstm", "model.paper_vocab", ALONE),
    ("[model]\nencoder = 'word'\n[lm]\nmodel = 'm'\n", "model.char_features=cnn", "lm.model", ALONE),
    (
        "[model]\nsoftword = true\nencoder = 'word'\n",
        "model.encoder=char",
        "model.softword",
        "with model.encoder=word, whose words are the segmentation: switch it off, or choose char or lattice",
    ),
    (
        "[model]\nchar_features = 'lstm'\n",
        "model.encoder=word",
        "model.char_features",
        "without model.encoder=word: set it to none, or choose word",
    ),
    (
        "[softwords]\npos = true\n",
        "model.softword=true",
        "softwords.pos",
        "without model.softword: switch it off, or switch softwords on",
    ),
]


def config_file(tmp_path: Path, body: str, name: str = "c.toml") -> Path:
    path = tmp_path / name
    path.write_bytes(body.encode())
    return path


def problems_of(path: Path, *changes: str, complete: bool = False) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_config(path, changes, complete=complete)
    return caught.value.problems


def test_every_rule_is_tried_here():
    assert {place for _, _, place, _ in GIVEN} == {rule.place for rule in SETTINGS}
    assert {place for _, _, place, _ in ON} == {rule.place for rule in SWITCHES}


@pytest.mark.parametrize(("body", "remedy", "place", "why"), [*GIVEN, *ON])
def test_a_setting_that_does_nothing_is_told(tmp_path, body, remedy, place, why):
    """Even where it has its default value, for what counts is that it was given; in a model's folder all are given."""
    path = config_file(tmp_path, body)
    assert problems_of(path) == [f"{place} does nothing {why}"]
    assert read_config(path, [remedy])
    assert make_config(tomllib.loads(body))


@pytest.mark.parametrize(("body", "place"), [(body, place) for body, _, place, _ in [*GIVEN, *ON]])
def test_from_set_too(tmp_path, body, place):
    changes = [
        f"{section}.{key}={str(value).lower() if isinstance(value, bool) else value}"
        for section, values in tomllib.loads(body).items()
        for key, value in values.items()
    ]
    (problem,) = problems_of(config_file(tmp_path, ""), *changes)
    assert problem.startswith(f"{place} does nothing ")


@pytest.mark.parametrize(("body", "why"), [(body, f"{place} does nothing {why}") for body, _, place, why in ON])
def test_a_switch_is_in_the_way_of_a_training_wherever_it_comes_from(tmp_path, body, why):
    """From Python, and from a base, where only a value that switches it off can help."""
    assert why in lacking(make_config(tomllib.loads(body)))
    config_file(tmp_path, body, "below.toml")
    path = config_file(tmp_path, "base = 'below.toml'\n[data]\ntrain = 't'\ndev = 'd'\n[words]\nvectors = 'v'\n")
    assert problems_of(path) == problems_of(path, complete=True) == [why]
    place = why.split()[0]
    off = {"lm.model": "", "model.char_features": "none"}.get(place, "false")
    assert read_config(path, [f"{place}={off}"], complete=True)


@pytest.mark.parametrize("body", [body for body, _, _, _ in GIVEN])
def test_what_a_base_gives_for_other_models_is_not_told(tmp_path, body):
    """It cannot be removed from the file that stands on it."""
    config_file(tmp_path, body, "below.toml")
    assert read_config(config_file(tmp_path, "base = 'below.toml'\n")) == make_config(tomllib.loads(body))


def test_a_setting_beside_one_of_the_base_is_told(tmp_path):
    config_file(tmp_path, "[train]\noptimizer = 'adamw'\n", "below.toml")
    path = config_file(tmp_path, "base = 'below.toml'\n[train]\nmomentum = 0.9\n")
    assert problems_of(path) == ["train.momentum does nothing with train.optimizer=adamw: remove it, or choose sgd"]


def test_what_is_off_asks_for_nothing(tmp_path):
    """So that --set can switch off what a file has on."""
    path = config_file(tmp_path, "[chars]\nvectors = 'v'\nnorm = 12\n[train]\noptimizer = 'sgd'\nmomentum = 0.9\n")
    config = read_config(path, ["chars.vectors=", "chars.norm=0", "train.optimizer=adamw", "train.momentum=0"])
    assert (config.chars.norm, config.train.momentum) == (0, 0)
    body = "[model]\nbichar = true\nsoftword = true\npaper_vocab = true\n[lm]\nmodel = 'm'\n"
    off = ["model.bichar=false", "model.softword=false", "model.paper_vocab=false", "lm.model="]
    path = config_file(tmp_path, body)
    assert len(problems_of(path, "model.encoder=word")) == 4
    assert read_config(path, ["model.encoder=word", *off]).model == make_config({"model": {"encoder": "word"}}).model
    assert read_config(config_file(tmp_path, "[model]\nchar_features = 'none'\n")) == Config()


SECTIONS = """
[chars]
vectors = 'v'
norm = 12
[bichars]
vectors = 'v'
norm = 3
[words]
vectors = 'v'
norm = 3
fine_tune = false
[segment]
by = 'gold'
[softwords]
dim = 5
"""


@pytest.mark.parametrize("encoder", ["lattice", "char", "word"])
def test_sections_may_stay_beside_a_model_that_does_without_them(tmp_path, encoder):
    config = read_config(config_file(tmp_path, SECTIONS), [f"model.encoder={encoder}"])
    assert (config.chars.norm, config.bichars.norm, config.words.norm) == (12, 3, 3)
    assert (config.segment.by, config.softwords.dim) == ("gold", 5)


def test_what_a_wrong_value_leads_to_is_not_told_as_well(tmp_path):
    body = "[train]\noptimizer = 'sdg'\nmomentum = 0.9\n[chars]\ndim = 'wide'\nvectors = 'v'\n"
    body += "[model]\nencoder = 'wrd'\nchar_features = 'lstm'\n"
    assert [problem.split()[0] for problem in problems_of(config_file(tmp_path, body))] == [
        "train.optimizer",
        "chars.dim",
        "model.encoder",
    ]
