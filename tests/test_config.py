"""The settings of one file: what is unknown, wrong, missing or unused is reported, all of it at
once.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.config import (
    BACKENDS,
    FEATURES,
    SEGMENTERS,
    USED_WITH,
    Config,
    make_config,
    read_config,
    validate,
)
from hanlattice.errors import ConfigError, InputError
from tests.helpers.strategies import any_text, shares_folder

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
SETTINGS = {
    f"{section.name}.{setting.name}": getattr(getattr(Config(), section.name), setting.name)
    for section in dataclasses.fields(Config)
    for setting in dataclasses.fields(getattr(Config(), section.name))
}


def config_file(tmp_path: Path, body: str, name: str = "c.toml") -> Path:
    path = tmp_path / name
    path.write_bytes(body.encode())
    return path


def problems_of(path: Path, *changes: str, complete: bool = False) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_config(path, changes, complete=complete)
    assert str(caught.value).startswith(f"{path} has {len(caught.value.problems)} problem")
    assert all(f"  - {problem}" in str(caught.value) for problem in caught.value.problems)
    return caught.value.problems


def test_an_empty_file_is_the_defaults_and_a_config_comes_back_from_its_dict(tmp_path):
    assert read_config(config_file(tmp_path, "")) == Config() == make_config({})
    assert make_config(Config().as_dict()) == Config()
    changed = make_config({"train": {"lr": 1, "seed": 7}, "model": {"encoder": "char"}})
    assert (changed.train.lr, changed.train.seed, changed.model.encoder) == (1.0, 7, "char")
    assert type(changed.train.lr) is float
    assert make_config(changed.as_dict()) == changed


def test_line_ends_and_byte_order_mark_do_not_matter(tmp_path):
    assert read_config(config_file(tmp_path, "\ufeff[train]\r\nepochs = 3\r\n")).train.epochs == 3


def test_several_problems_at_once(tmp_path):
    body = (
        "words = 3\n[trian]\nx = 1\n[train]\nepoch = 5\nlr = 'fast'\nseed = "
        "true\n[model]\nencoder = 'latice'\n"
    )
    assert problems_of(config_file(tmp_path, body), "train.clip=-1", "nonsense") == [
        "--set wants section.key=value, such as train.epochs=5, not 'nonsense'",
        "words must be a section, [words], not 3",
        "unknown section [trian]: did you mean train?",
        "unknown key train.epoch: did you mean epochs?",
        "train.lr must be a number, not 'fast'",
        "train.seed must be a whole number, not True",
        "train.clip must be 0 or more, not -1.0",
        "model.encoder must be one of lattice, char, word, none (did you mean lattice?), not "
        "'latice'",
    ]


def test_one_problem_is_singular():
    with pytest.raises(
        ConfigError, match=r"^the configuration has 1 problem:\n  - unknown section"
    ):
        make_config({"x": {}})


def test_nothing_near_lists_what_is_known():
    known = (
        "data, chars, bichars, words, subwords, segment, softwords, pools, lm, "
        "transformer, model, start, rates, "
    )
    known += "train, compare"
    with pytest.raises(ConfigError, match=rf"unknown section \[zzz\]; known are {known}"):
        make_config({"zzz": {}})
    with pytest.raises(
        ConfigError,
        match=r"unknown key words\.qqq; known are vectors, dim, norm, fine_tune, dropout, lexicon",
    ):
        make_config({"words": {"qqq": 1}})


@pytest.mark.parametrize("section", ["chars", "bichars"])
def test_a_dictionary_is_for_words_only(section):
    with pytest.raises(
        ConfigError,
        match=rf"unknown key {section}\.lexicon; known are vectors, dim, norm, fine_tune, dropout",
    ):
        make_config({section: {"lexicon": "l"}})


def test_a_key_outside_every_section(tmp_path):
    assert problems_of(config_file(tmp_path, "bsae = 'a.toml'\nepochs = 3\n")) == [
        "unknown key bsae: outside of the sections there is only base",
        "unknown key epochs: outside of the sections there is only base",
    ]


WRONG = [
    ("train.epochs", "5.0", "must be a whole number, not 5.0"),
    ("train.epochs", "true", "must be a whole number, not True"),
    ("train.epochs", "'5'", "must be a whole number, not '5'"),
    ("train.epochs", "0", "must be above 0, not 0"),
    ("train.epochs", "[5]", "must be a whole number, not [5]"),
    ("train.lr", "false", "must be a number, not False"),
    ("rates.output", "-1", "must be 0 or more, not -1.0"),
    ("start.labels", "['A']", "must be a table of names, not ['A']"),
    ("start.labels", "{A = 1}", "must be a table of names, not {'A': 1}"),
    ("train.lr", "nan", "must be above 0, not nan"),
    ("train.lr", "inf", "must be above 0, not inf"),
    ("train.lr", "0", "must be above 0, not 0.0"),
    ("train.clip", "nan", "must be 0 or more, not nan"),
    ("train.warmup", "1", "must be at least 0 and below 1, not 1.0"),
    ("train.warmup", "-0.1", "must be at least 0 and below 1, not -0.1"),
    ("train.seed", "-1", "not -1"),
    ("train.seed", str(1 << 70), f"not {1 << 70}"),
    ("chars.dropout", "nan", "must be at least 0 and below 1, not nan"),
    ("chars.norm", "1" + "0" * 400, "must be "),
    ("model.coupled", "1", "must be true or false, not 1"),
    ("model.scheme", "'IOB1'", "must be one of BIO, BMES, BIOES"),
    ("model.decode", "'spam'", "must be one of path, spans (did you mean spans?), not 'spam'"),
    ("model.char_width", "51", "must be an even number from 2 to 65,536, not 51"),
    ("model.char_width", "0", "must be an even number from 2 to 65,536, not 0"),
    ("model.char_width", "-2", "must be an even number from 2 to 65,536, not -2"),
    ("model.char_width", "50.0", "must be a whole number, not 50.0"),
    (
        "model.char_features",
        "'lsmt'",
        "must be one of none, lstm, sentence-lstm, cnn (did you mean lstm?)",
    ),
    ("model.layers", "0", "must be from 1 to 64, not 0"),
    ("segment.by", "''", "must be rjieba, gold, seg or the folder of a segmentation model, not ''"),
    ("segment.by", "3", "must be a string, not 3"),
    ("compare.row", "3", "must be a string, not 3"),
    ("compare.paper", "-1", "must be from 0 to 100, not -1.0"),
    ("compare.paper", "9446", "must be from 0 to 100, not 9446.0"),
    ("compare.paper", "nan", "must be from 0 to 100, not nan"),
    ("model.scheme", "1", "must be a string, not 1"),
    ("data.train", "['a', 'b']", "must be a string, not ['a', 'b']"),
    ("data.train", "2020-01-01", "must be a string, not datetime.date(2020, 1, 1)"),
]


@pytest.mark.parametrize(("place", "value", "says"), WRONG)
def test_wrong_values(tmp_path, place, value, says):
    """In the file and by --set alike."""
    section, key = place.split(".")
    from_file = problems_of(config_file(tmp_path, f"[{section}]\n{key} = {value}\n"))
    from_set = problems_of(config_file(tmp_path, ""), f"{place}={value}")
    assert from_file == from_set
    assert len(from_file) == 1
    assert from_file[0].startswith(place + " ")
    assert says in from_file[0]


SET = [
    ("train.epochs=5", "train.epochs", 5),
    (" train.epochs = 5 ", "train.epochs", 5),
    ("train.epochs=1_000", "train.epochs", 1000),
    ("train.lr=1e-3", "train.lr", 0.001),
    ("train.lr=1", "train.lr", 1.0),
    ("model.coupled=false", "model.coupled", False),
    ("model.encoder=char", "model.encoder", "char"),
    ("model.encoder= 'char' ", "model.encoder", "char"),
    ('model.encoder="char"', "model.encoder", "char"),
    ("data.train=../语料/a b=c#d.bmes", "data.train", "../语料/a b=c#d.bmes"),
    ("data.train=@msra/train.bmes", "data.train", "@msra/train.bmes"),
    ("data.train='2020'", "data.train", "2020"),
    ("data.train=", "data.train", ""),
    ("data.train=C:\\new", "data.train", "C:\\new"),
    ("train.device=cuda:0", "train.device", "cuda:0"),
]


@pytest.mark.parametrize(("change", "place", "value"), SET)
def test_set(tmp_path, change, place, value):
    section, key = place.split(".")
    config = read_config(
        config_file(tmp_path, "[data]\ntrain = 'old'\n[train]\nepochs = 9\n"), [change]
    )
    got = getattr(getattr(config, section), key)
    assert (got, type(got)) == (value, type(value))


def test_the_last_set_wins_and_the_rest_of_the_file_stays(tmp_path):
    path = config_file(tmp_path, "[train]\nepochs = 9\nseed = 3\n")
    config = read_config(path, ["train.epochs=1", "train.epochs=2"])
    assert (config.train.epochs, config.train.seed) == (2, 3)


@pytest.mark.parametrize("change", ["", "train", "train.epochs", "epochs=5", "=5", "--help"])
def test_what_set_cannot_read(tmp_path, change):
    assert problems_of(config_file(tmp_path, ""), change) == [
        f"--set wants section.key=value, such as train.epochs=5, not {change!r}"
    ]


def test_set_at_places_that_are_not_there(tmp_path):
    path = config_file(tmp_path, "train = 5\n")
    assert problems_of(
        path, "modle.hidden=5", "model.hiden=5", "model.a.b=5", "train.epochs=5"
    ) == [
        "train must be a section, [train], not 5",
        "unknown section [modle]: did you mean model?",
        "unknown key model.hiden: did you mean hidden?",
        "unknown key model.a.b; known are encoder, sources, char_features, char_width, bichar,"
        " softword, pools, "
        "hidden, layers, first_layer, whole_words, cell, coupled, scheme, dropout, decode, "
        "paper_vocab",
    ]


def complete_problems(path: Path, *changes: str) -> list[str]:
    return problems_of(path, *changes, complete=True)


COMPLETE = "[data]\ntrain = 't'\n{}\n[words]\nvectors = 'v'\n"


def test_a_key_that_only_begins_alike_hides_nothing(tmp_path):
    problems = complete_problems(
        config_file(tmp_path, "[data]\ntraining = 't'\n[words]\nvectors = 'v'\n")
    )
    assert [problem.split(":")[0] for problem in problems] == [
        "unknown key data.training",
        "data.train must name the training corpus",
    ]


def test_without_dev_nothing_can_be_waited_for(tmp_path):
    path = config_file(tmp_path, COMPLETE.format(""))
    assert read_config(path, complete=True).data.dev == ""
    waits = (
        "train.patience waits for a better F1 on dev: name data.dev or data.holdout, or set it to 0"
    )
    assert complete_problems(path, "train.patience=3") == [waits]
    assert (
        read_config(path, ["train.patience=3", "data.holdout=0.1"], complete=True).train.patience
        == 3
    )
    (both,) = complete_problems(path, "train.patience=3", "data.holdout=0.1", "train.keep=last")
    assert "train.keep" in both


def test_a_wrong_holdout_is_not_also_missing(tmp_path):
    problems = complete_problems(config_file(tmp_path, COMPLETE.format("holdout = 0.6")))
    assert problems == ["data.holdout must be at least 0 and at most 0.5, not 0.6"]


def test_dev_and_holdout_together_are_one_too_many(tmp_path):
    path = config_file(tmp_path, COMPLETE.format("holdout = 0.1\ndev = 'd'"))
    assert complete_problems(path) == [
        "data.holdout and data.dev both say what serves as dev: give one of them"
    ]
    assert read_config(path, ["data.holdout=0"], complete=True).data.dev == "d"


def test_the_lattice_needs_words_and_the_other_encoders_do_not(tmp_path):
    path = config_file(tmp_path, "[data]\ntrain = 't'\ndev = 'd'\n")
    lacks = (
        "{0}.vectors must name a vector file, or {0}.lexicon a dictionary: the lattice "
        "takes its {0} there"
    ).format
    assert complete_problems(path) == [lacks("words")]
    assert complete_problems(path, "model.sources=subwords") == [lacks("subwords")]
    assert complete_problems(path, "model.sources=both") == [lacks("words"), lacks("subwords")]
    assert complete_problems(path, "model.sources=both", "words.lexicon=l") == [lacks("subwords")]
    for encoder in ("char", "word"):
        assert read_config(path, [f"model.encoder={encoder}"], complete=True).words.vectors == ""


def test_words_come_from_one_file(tmp_path):
    """And those of a word model not from a dictionary, whether it has vectors or not."""
    path = config_file(tmp_path, COMPLETE.format("dev = 'd'") + "lexicon = 'l'\n")
    twice = "words.vectors and words.lexicon both say which words there are: give one of them"
    assert complete_problems(path) == complete_problems(path, "model.encoder=char") == [twice]
    wrong = (
        "words.lexicon is for the lattice model: a word model takes words.vectors, or "
        "random vectors"
    )
    assert complete_problems(path, "model.encoder=word") == [wrong]
    assert complete_problems(path, "model.encoder=word", "words.vectors=") == [wrong]
    subwords = (
        "subwords.vectors and subwords.lexicon both say which subwords there are: give one of them"
    )
    two = ("words.lexicon=", "subwords.vectors=v", "subwords.lexicon=l")
    assert complete_problems(path, "model.sources=both", *two) == [subwords]
    for change in ("words.vectors=", "words.lexicon="):
        assert read_config(path, [change], complete=True)
    assert read_config(path, ["model.encoder=word", "words.lexicon="], complete=True)


WORD = "[model]\nencoder = 'word'\n"
LATTICE = "model.encoder=lattice"
NONE = "[transformer]\nmodel = 'm'\n[model]\nencoder = 'none'\n"
GIVEN = [  # (what a file says, what mends it, the setting that is unused without it)
    ("[train]\nmomentum = 0.9\n", "train.optimizer=sgd", "train.momentum"),
    ("[train]\ndecay = 0.05\n", "train.schedule=inverse", "train.decay"),
    *(
        (f"[{section}]\ndim = 50\nvectors = 'v'\n", f"{section}.vectors=", f"{section}.dim")
        for section in ("chars", "bichars", "words", "subwords")
    ),
    *(
        (f"[{section}]\nnorm = 12\n", f"{section}.vectors=v", f"{section}.norm")
        for section in ("chars", "bichars", "words", "subwords")
    ),
    ("[start]\nlabels = { A = 'B' }\n", "start.model=m", "start.labels"),
    ("[data]\nholdout_from = 'end'\n", "data.holdout=0.1", "data.holdout_from"),
    ("[data]\nholdout_from = 'all'\n", "data.holdout=0.1", "data.holdout_from"),
    ("[lm]\ndim = 10\n", "lm.model=m", "lm.dim"),
    ("[lm]\nnorm = 1\n", "lm.model=m", "lm.norm"),
    ("[lm]\ndropout = 0.5\n", "lm.model=m", "lm.dropout"),
    ("[lm]\ncache = false\n", "lm.model=m", "lm.cache"),
    ("[lm]\ncache = true\n", "lm.model=m", "lm.cache"),
    *(
        (f"[transformer]\n{key} = {value}\n", "transformer.model=m", f"transformer.{key}")
        for key, value in {
            "frozen": "true",
            "lr": 1e-5,
            "warmup": 0.2,
            "layer_decay": 0.9,
            "window": 99,
            "overlap": 9,
            "dropout": 0.2,
            "bf16": "false",
        }.items()
    ),
    *(
        (f"[model]\nencoder = 'none'\n{key} = 2\n", "model.encoder=char", f"model.{key}")
        for key in ("hidden", "layers")
    ),
    ("[train]\nbackend = 'batched'\n[model]\nencoder = 'char'\n", LATTICE, "train.backend"),
    ("[train]\nbackend = 'auto'\n" + WORD, LATTICE, "train.backend"),
    ("[train]\nword_dropout = 0.1\n" + WORD, LATTICE, "train.word_dropout"),
    (WORD + "coupled = true\n", LATTICE, "model.coupled"),
    (WORD + "coupled = false\n", LATTICE, "model.coupled"),
    (WORD + "coupled = true\n", "model.encoder=char", "model.coupled"),
    (WORD + "cell = 'tanh'\n", "model.encoder=char", "model.cell"),
    ("[model]\ncell = 'lstm'\n", "model.encoder=char", "model.cell"),
    (WORD + "sources = 'both'\n", LATTICE, "model.sources"),
    (WORD + "first_layer = 'lattice'\n", LATTICE, "model.first_layer"),
    (WORD + "char_width = 50\n", "model.char_features=cnn", "model.char_width"),
]
ON = [
    (WORD + "bichar = true\n", "model.char_features=lstm", "model.bichar"),
    (WORD + "paper_vocab = true\n", "model.char_features=lstm", "model.paper_vocab"),
    (WORD + "[lm]\nmodel = 'm'\n", "model.char_features=cnn", "lm.model"),
    (WORD + "[transformer]\nmodel = 'm'\n", "model.char_features=cnn", "transformer.model"),
    (NONE + "bichar = true\n", "model.encoder=char", "model.bichar"),
    (NONE + "softword = true\n", "model.encoder=char", "model.softword"),
    (WORD + "softword = true\n", "model.encoder=char", "model.softword"),
    ("[model]\nchar_features = 'lstm'\n", "model.encoder=word", "model.char_features"),
    ("[softwords]\npos = true\n", "model.softword=true", "softwords.pos"),
    (WORD + "pools = true\n", LATTICE, "model.pools"),
    (WORD + "layers = 2\nwhole_words = true\n", LATTICE, "model.whole_words"),
    ("[model]\nwhole_words = true\n", "model.layers=2", "model.whole_words"),
    ("[model]\nfirst_layer = 'char'\n", "model.layers=2", "model.first_layer"),
    (
        "[model]\nencoder = 'char'\ncell = 'tanh'\ncoupled = true\n",
        "model.cell=lstm",
        "model.coupled",
    ),
    (
        "[model]\nsoftword = true\n[segment]\nby = 'seg'\n[softwords]\npos = true\n",
        "segment.by=gold",
        "softwords.pos",
    ),
]


def test_settings_of_a_transformer_that_contradict_each_other(tmp_path):
    path = config_file(tmp_path, "[data]\ntrain = 't'\ndev = 'd'\n[model]\nencoder = 'none'\n")
    assert problems_of(path, complete=True) == [
        "transformer.model must name a transformer, since with model.encoder=none there is no "
        "other input"
    ]
    assert problems_of(
        path, "transformer.model=m", "transformer.frozen=true", "transformer.lr=1e-5"
    ) == ["transformer.lr is unused with transformer.frozen, which is not trained: remove it"]
    assert problems_of(path, "transformer.model=m", "transformer.window=128", complete=True) == [
        "transformer.overlap must be smaller than transformer.window, else windows do not get "
        "on in a text"
    ]


def test_only_a_lattice_is_coupled_unless_it_is_said(tmp_path):
    path = config_file(tmp_path, "")
    for encoder in ("lattice", "char", "word"):
        config = read_config(path, [f"model.encoder={encoder}"])
        assert config.model.coupled == config.runs_lattice == (encoder == "lattice")
        assert make_config(config.as_dict()) == config
    config = read_config(
        path, ["model.encoder=char", "model.coupled=true", "train.backend=batched"]
    )
    assert config.model.coupled
    assert config.runs_lattice
    assert not read_config(path, ["model.encoder=char", "model.coupled=false"]).runs_lattice
    assert read_config(path, ["model.coupled=false"]).runs_lattice


def test_every_unused_setting_is_tried_here():
    widths = {f"{section}.dim" for section in ("chars", "bichars", "words", "subwords")}
    assert {setting for _, _, setting in GIVEN} == USED_WITH.keys() | widths


@pytest.mark.parametrize(("body", "remedy", "setting"), [*GIVEN, *ON])
def test_an_unused_setting_is_reported_with_the_one_that_it_needs(tmp_path, body, remedy, setting):
    """In a file and by --set, even with its default value. In a model's folder all are given, and
    none is reported.
    """
    path = config_file(tmp_path, body)
    (problem,) = problems_of(path)
    assert re.match(rf"{setting} is unused with(out)? ", problem)
    assert remedy.partition("=")[0] in problem
    assert read_config(path, [remedy])
    changes = [
        f"{section}.{key}={str(value).lower() if isinstance(value, bool) else value}".replace(
            "': '", "' = '"
        )
        for section, values in tomllib.loads(body).items()
        for key, value in values.items()
    ]
    assert problems_of(config_file(tmp_path, ""), *changes) == [problem]
    assert make_config(tomllib.loads(body))


def test_what_is_said_of_unused_settings(tmp_path):
    body = (
        "[train]\nmomentum = 0.9\n[chars]\nvectors = 'v'\ndim = 9\n[words]\nnorm = "
        "2\n[softwords]\npos = true\n"
    )
    assert problems_of(config_file(tmp_path, body)) == [
        "words.norm is unused without words.vectors: remove it, or set words.vectors",
        "train.momentum is unused without train.optimizer=sgd: remove it, or set train.optimizer",
        "chars.dim is unused with chars.vectors, which have their own width: remove one of them",
        "softwords.pos is unused without model.softword: switch it off, or switch "
        "model.softword on",
    ]


@pytest.mark.parametrize(("body", "setting"), [(body, setting) for body, _, setting in ON])
def test_an_unused_switch_prevents_a_training_wherever_it_comes_from(tmp_path, body, setting):
    """From Python, and from a base, where only a value that switches it off can help."""
    assert setting in [problem.setting for problem in validate(make_config(tomllib.loads(body)))]
    config_file(tmp_path, body, "below.toml")
    path = config_file(
        tmp_path, "base = 'below.toml'\n[data]\ntrain = 't'\ndev = 'd'\n[words]\nvectors = 'v'\n"
    )
    (problem,) = problems_of(path)
    assert problem.startswith(f"{setting} is unused ")
    assert complete_problems(path) == [problem]
    values = {
        "model.char_features": "none",
        "model.first_layer": "lattice",
        "lm.model": "",
        "transformer.model": "",
    }
    off = values.get(setting, "false")
    assert read_config(path, [f"{setting}={off}"], complete=True)


@pytest.mark.parametrize("body", [body for body, _, _ in GIVEN])
def test_an_unused_setting_of_a_base_is_not_reported(tmp_path, body):
    """It cannot be removed from the file that stands on it."""
    config_file(tmp_path, body, "below.toml")
    assert read_config(config_file(tmp_path, "base = 'below.toml'\n")) == make_config(
        tomllib.loads(body)
    )


def test_a_setting_that_is_unused_because_of_the_base_is_reported(tmp_path):
    config_file(tmp_path, "[train]\noptimizer = 'adamw'\n", "below.toml")
    path = config_file(tmp_path, "base = 'below.toml'\n[train]\nmomentum = 0.9\n")
    assert [problem.split()[0] for problem in problems_of(path)] == ["train.momentum"]


def test_what_is_off_is_never_unused(tmp_path):
    """So that --set can switch off what a file has on."""
    path = config_file(
        tmp_path, "[chars]\nvectors = 'v'\nnorm = 12\n[train]\noptimizer = 'sgd'\nmomentum = 0.9\n"
    )
    config = read_config(
        path, ["chars.vectors=", "chars.norm=0", "train.optimizer=adamw", "train.momentum=0"]
    )
    assert (config.chars.norm, config.train.momentum) == (0, 0)
    body = "[model]\nbichar = true\nsoftword = true\npaper_vocab = true\n[lm]\nmodel = 'm'\n"
    off = ["model.bichar=false", "model.softword=false", "model.paper_vocab=false", "lm.model="]
    path = config_file(tmp_path, body)
    assert len(problems_of(path, "model.encoder=word")) == 4
    assert (
        read_config(path, ["model.encoder=word", *off]).model
        == make_config({"model": {"encoder": "word"}}).model
    )
    assert read_config(config_file(tmp_path, "[model]\nchar_features = 'none'\n")) == Config()


@pytest.mark.parametrize("encoder", ["lattice", "char", "word"])
def test_sections_may_stay_beside_a_model_that_does_not_use_them(tmp_path, encoder):
    vectors = "vectors = 'v'\nnorm = 3\n"
    body = (
        f"[chars]\n{vectors}[bichars]\n{vectors}[words]\n{vectors}[segment]\nby = "
        f"'gold'\n[softwords]\ndim = 5\n"
    )
    config = read_config(config_file(tmp_path, body), [f"model.encoder={encoder}"])
    assert (config.chars.norm, config.bichars.norm, config.words.norm) == (3, 3, 3)
    assert (config.segment.by, config.softwords.dim) == ("gold", 5)


def test_what_follows_from_a_wrong_value_is_not_reported_as_well(tmp_path):
    body = "[train]\noptimizer = 'sdg'\nmomentum = 0.9\n[chars]\ndim = 'wide'\nvectors = 'v'\n"
    body += "[model]\nencoder = 'wrd'\nchar_features = 'lstm'\n"
    assert [problem.split()[0] for problem in problems_of(config_file(tmp_path, body))] == [
        "train.optimizer",
        "chars.dim",
        "model.encoder",
    ]


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("encoder", ["lattice", "char", "word"])
def test_only_a_word_model_may_do_without_characters(encoder, features):
    config = make_config({"model": {"encoder": encoder, "char_features": features}})
    assert config.reads_characters == ((encoder, features) != ("word", "none"))


def test_the_page_on_settings_names_every_one_of_them_and_no_other():
    """Under the heading of its section, with its default as TOML writes it."""
    page = PAGE.read_text(encoding="utf-8")
    named = {}
    for section, text in re.findall(
        r"^## \[(\w+)\]\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL
    ):
        for key, default in re.findall(r"^\| `(\w+)` \| `(.*?)` \|", text, flags=re.MULTILINE):
            named[f"{section}.{key}"] = tomllib.loads(f"value = {default}")["value"]
    assert named == SETTINGS
    assert list(named) == list(SETTINGS)


@pytest.mark.parametrize(
    "body", ["[train", "epochs 5", "[train]\n[train]", "a = 1\na = 2", "x = " + "1" * 5000, "\0"]
)
def test_not_toml(tmp_path, body):
    problems = problems_of(config_file(tmp_path, body))
    assert len(problems) == 1
    assert problems[0].startswith("not TOML: ")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "gbk.toml").write_bytes("[data]\ntrain = '中'\n".encode("gbk"))
    with pytest.raises(InputError, match=r"gbk\.toml:2: not UTF-8"):
        read_config(tmp_path / "gbk.toml")


values = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400)
)
changes = st.tuples(
    st.sampled_from(list(SETTINGS)), values | st.sampled_from(list(SETTINGS.values()))
)


@given(st.lists(changes, max_size=4))
def test_any_values_make_a_config_or_a_config_error(drawn):
    tree: dict[str, dict[str, object]] = {}
    for place, value in drawn:
        section, key = place.split(".")
        tree.setdefault(section, {})[key] = value
    try:
        config = make_config(tree)
    except ConfigError as error:
        assert 1 <= len(error.problems) <= len(drawn)  # noqa: PT017 (a config without an error is as good)
        return
    for section, settings in tree.items():
        for key, value in settings.items():
            got = getattr(getattr(config, section), key)
            assert got == value
            assert type(got) is type(SETTINGS[f"{section}.{key}"])


@shares_folder
@given(
    any_text,
    st.lists(st.text(max_size=8) | st.sampled_from(list(SETTINGS)).map(lambda place: f"{place}=x")),
)
def test_any_text_is_a_config_or_an_error(tmp_path, text, changes):
    path = tmp_path / "c.toml"
    path.write_bytes(text.encode("utf-8", "replace"))
    try:
        assert isinstance(read_config(path, changes), Config)
    except ConfigError as error:
        assert error.problems  # noqa: PT017 (a config without an error is as good)


def test_the_choices_are_those_of_the_code_that_they_choose_from():
    from hanlattice.nn import baselines as char_features
    from hanlattice.ops import lattice_lstm
    from hanlattice.text import segment

    assert lattice_lstm.BACKENDS == BACKENDS
    assert ("none", *char_features.FEATURES) == FEATURES
    assert segment.SEGMENTERS == SEGMENTERS
