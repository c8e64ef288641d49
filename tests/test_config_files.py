"""Files of settings: one that stands on another by `base`, the variants of a corpus, and those that
are bundled.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.config import Config, find_config, make_config, read_config, variant_names
from hanlattice.errors import ConfigError, InputError
from tests.helpers.made import write_toml
from tests.helpers.strategies import any_text, shares_folder

BELOW = (
    "[train]\nepochs = 9\nseed = 3\n[model]\nencoder = 'char'\n[compare]\nrow = "
    "'char'\npaper = 93.48\n"
)


def write(tmp_path: Path, **bodies: str) -> Path:
    """Files of these names; the path of the last one. `sub__a` is a.toml in the folder sub."""
    for name, body in bodies.items():
        path = tmp_path / f"{name.replace('__', '/')}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(body, "utf-8")
    return path


def refused(path: Path, source: Path, *changes: str) -> list[str]:
    """The problems, which must be reported as those of `source`."""
    with pytest.raises(ConfigError) as caught:
        read_config(path, changes)
    assert str(caught.value).startswith(f"{source} has {len(caught.value.problems)} problem")
    return caught.value.problems


def test_what_a_file_says_stands_over_its_base(tmp_path):
    path = write(
        tmp_path,
        below=BELOW,
        own="base = 'below.toml'\n[train]\nepochs = 2\nlr = 0.5\n[words]\ndim = 7\n",
    )
    expected = {
        "train": {"epochs": 2, "seed": 3, "lr": 0.5},
        "model": {"encoder": "char"},
        "words": {"dim": 7},
    }
    assert read_config(path) == make_config(expected)


def test_set_stands_over_both(tmp_path):
    path = write(tmp_path, below=BELOW, own="base = 'below.toml'\n[train]\nepochs = 2\n")
    config = read_config(
        path, ["train.epochs=1", "train.seed=8", "chars.dim=6", "model.encoder=lattice"]
    )
    assert (config.train.epochs, config.train.seed, config.chars.dim, config.model.encoder) == (
        1,
        8,
        6,
        "lattice",
    )


def test_the_row_of_a_comparison_is_not_inherited(tmp_path):
    path = write(tmp_path, below=BELOW, own="base = 'below.toml'\n")
    assert read_config(path).compare == Config().compare
    path = write(tmp_path, own="base = 'below.toml'\n[compare]\nrow = 'mine'\n")
    assert (read_config(path).compare.row, read_config(path).compare.paper) == ("mine", 0)
    assert read_config(path, ["compare.paper=50"]).compare.paper == 50
    assert read_config(tmp_path / "below.toml").compare.paper == 93.48


def test_it_is_found_from_the_folder_of_the_file_that_names_it(tmp_path, monkeypatch):
    write(
        tmp_path,
        below="[train]\nseed = 1\n",
        sub__below="[train]\nseed = 2\n",
        sub__up="base = '../below.toml'\n",
    )
    path = write(tmp_path, sub__own="base = 'below.toml'\n")
    assert read_config(path).train.seed == 2
    assert read_config(tmp_path / "sub" / "up.toml").train.seed == 1
    monkeypatch.chdir(tmp_path)
    assert read_config("sub/own.toml").train.seed == 2
    monkeypatch.chdir(tmp_path / "sub")
    assert read_config("own.toml").train.seed == 2
    whole = write(tmp_path, whole=f"base = '{tmp_path / 'below.toml'}'\n")
    assert read_config(whole).train.seed == 1


def test_a_chain(tmp_path):
    """Each file over the one below it, and each base from the folder of the file that names it."""
    path = write(
        tmp_path,
        sub__a="[train]\nepochs = 1\nseed = 1\nlr = 0.1\n[compare]\nrow = 'a'\n",
        sub__b="base = 'a.toml'\n[train]\nepochs = 2\nseed = 2\n[compare]\npaper = 5\n",
        c="base = 'sub/b.toml'\n[train]\nepochs = 3\n",
    )
    assert read_config(path) == make_config({"train": {"epochs": 3, "seed": 2, "lr": 0.1}})


settings = st.fixed_dictionaries(
    {},
    optional={
        "train": st.fixed_dictionaries(
            {}, optional={"epochs": st.integers(1, 9), "seed": st.integers(0, 9)}
        ),
        "words": st.fixed_dictionaries(
            {}, optional={"fine_tune": st.booleans(), "dropout": st.sampled_from([0.0, 0.3])}
        ),
        "softwords": st.fixed_dictionaries(
            {}, optional={"dropout": st.sampled_from([0.0, 0.3]), "dim": st.integers(1, 9)}
        ),
    },
)


@shares_folder
@given(st.lists(settings, min_size=1, max_size=4))
def test_a_chain_is_its_files_one_over_the_other(tmp_path, trees):
    expected: dict[str, dict[str, object]] = {}
    for at, tree in enumerate(trees):
        path = write_toml(tmp_path / f"{at}.toml", tree)
        if at:
            path.write_text(f"base = '{at - 1}.toml'\n" + path.read_text("utf-8"), "utf-8")
        for section, values in tree.items():
            expected[section] = {**expected.get(section, {}), **values}
    assert read_config(path) == make_config(expected)


@pytest.mark.parametrize("base", ["a.toml", "./a.toml", "sub/../a.toml", "link.toml"])
def test_a_file_cannot_stand_on_itself(tmp_path, base):
    path = write(tmp_path, sub__x="", a=f"base = '{base}'\n")
    (tmp_path / "link.toml").symlink_to("a.toml")
    assert refused(path, path) == [f"base = {base!r} leads back to a file that stands on this one"]


def test_nor_can_a_round_of_files(tmp_path):
    """The one that closes it is named."""
    path = write(tmp_path, c="base = 'a.toml'\n", b="base = 'c.toml'\n", a="base = 'b.toml'\n")
    assert refused(path, tmp_path / "c.toml") == [
        "base = 'a.toml' leads back to a file that stands on this one"
    ]
    path = write(tmp_path, d="base = 'a.toml'\n")  # which stands outside of it
    assert refused(path, tmp_path / "c.toml") == [
        "base = 'a.toml' leads back to a file that stands on this one"
    ]


def test_two_files_may_stand_on_the_same_one(tmp_path):
    write(tmp_path, below=BELOW, one="base = 'below.toml'\n", two="base = 'below.toml'\n")
    assert read_config(tmp_path / "one.toml") == read_config(tmp_path / "two.toml")


@pytest.mark.parametrize(
    "base", ["3", "true", "['a.toml']", "''", "{file = 'a.toml'}", '"a\\u0000b"']
)
def test_a_base_that_is_no_name(tmp_path, base):
    path = write(tmp_path, own=f"base = {base}\n")
    value = tomllib.loads(f"base = {base}")["base"]
    assert refused(path, path) == [
        f"base must name another file of settings, from this one's folder, not {value!r}"
    ]


def test_a_section_called_base(tmp_path):
    path = write(tmp_path, own="[base]\nfile = 'a.toml'\n")
    assert refused(path, path)[0].startswith("base must name another file of settings")


def test_a_base_that_cannot_be_read(tmp_path):
    path = write(tmp_path, own="base = 'none.toml'\n")
    with pytest.raises(InputError, match=r"none\.toml: .*there is no such file"):
        read_config(path)
    (tmp_path / "none.toml").mkdir()
    with pytest.raises(InputError, match=r"none\.toml: cannot read"):
        read_config(path)
    (tmp_path / "round.toml").symlink_to("round.toml")
    with pytest.raises(InputError, match=r"round\.toml: cannot read"):
        read_config(write(tmp_path, own="base = 'round.toml'\n"))
    (tmp_path / "gbk.toml").write_bytes("#\n# 中\n".encode("gbk"))
    with pytest.raises(InputError, match=r"gbk\.toml:2: not UTF-8"):
        read_config(write(tmp_path, own="base = 'gbk.toml'\n"))


def test_the_problems_of_a_base_are_reported_as_its_own(tmp_path):
    """Even where the file above it has another value, for the base is a file of settings like any
    other.
    """
    below = write(tmp_path, below="train = 3\n[model]\nencoder = 'latice'\nhiden = 5\n")
    path = write(tmp_path, own="base = 'below.toml'\n[model]\nencoder = 'char'\n[words]\nqqq = 1\n")
    assert refused(path, below, "train.epochs=3") == [
        "train must be a section, [train], not 3",
        "model.encoder must be one of lattice, char, word, none (did you mean lattice?), not "
        "'latice'",
        "unknown key model.hiden: did you mean hidden?",
    ]
    write(tmp_path, below="[train")
    assert refused(path, below)[0].startswith("not TOML: ")
    write(tmp_path, below="")
    assert refused(path, path)[0].startswith("unknown key words.qqq; ")


def test_a_mistake_in_the_middle_of_a_chain(tmp_path):
    write(tmp_path, a="[train]\nseed = 1\n", b="base = 'a.toml'\n[train]\nseed = -1\n")
    assert len(refused(write(tmp_path, c="base = 'b.toml'\n"), tmp_path / "b.toml")) == 1


def test_a_section_that_is_none_is_reported_though_the_base_has_one(tmp_path):
    path = write(tmp_path, below=BELOW, own="base = 'below.toml'\ntrain = 5\n")
    assert refused(path, path) == ["train must be a section, [train], not 5"]


def test_set_cannot_change_the_base(tmp_path):
    path = write(tmp_path, below=BELOW, own="base = 'below.toml'\n")
    assert refused(path, path, "base=x.toml", "base.x=1")[0].startswith(
        "--set wants section.key=value"
    )


def test_a_base_alone_need_not_be_complete(tmp_path):
    write(tmp_path, below="[data]\ntrain = 't'\n")
    path = write(tmp_path, own="base = 'below.toml'\n[data]\ndev = 'd'\n[words]\nvectors = 'v'\n")
    assert read_config(path, complete=True).data.train == "t"


@shares_folder
@given(any_text, st.text(max_size=8))
def test_any_base_is_a_config_or_an_error(tmp_path, text, base):
    (tmp_path / "below.toml").write_bytes(text.encode("utf-8", "replace"))
    quoted = "".join(f"\\U{ord(character):08x}" for character in base)
    for name in ("below.toml", quoted):
        (tmp_path / "own.toml").write_text(f'base = "{name}"\n', "utf-8")
        try:
            assert isinstance(read_config(tmp_path / "own.toml"), Config)
        except (ConfigError, InputError) as error:
            assert os.fspath(tmp_path) in str(error)  # noqa: PT017 (a config without an error is as good)


SHARED = """
[char]
compare.row = "char"
model.encoder = "char"

[lattice]
compare.row = "lattice"

[lattice-bichar]
compare = { row = "lattice + bichar", paper = 50 }
bichars.dropout = 0.1
model.bichar = true

[char-bichar]
base = "lattice-bichar"
model.encoder = "char"
"""
CORPUS = """
[train]
epochs = 9
backend = "native"
[variants]
default = "lattice"
names = ["char", "char-bichar", "lattice", "lattice-bichar", "mine"]
lattice.compare.paper = 94.46
lattice-bichar.bichars.dropout = 0.2
char-bichar.compare.row = "both"
mine = { base = "char", train.epochs = 3 }
"""


@pytest.fixture
def corpus(tmp_path) -> Path:
    return write(tmp_path, variants=SHARED, corpus=CORPUS)


def test_a_variant_is_laid_over_its_corpus(corpus):
    """The corpus, the shared variant, and what the corpus changes in it; the row of another variant
    is not taken.
    """
    train = {"epochs": 9, "backend": "native"}
    plain = {"train": train, "compare": {"row": "lattice", "paper": 94.46}}
    bichar = {"train": train, "model": {"bichar": True}, "bichars": {"dropout": 0.2}}
    assert read_config(corpus) == read_config(corpus, variant="lattice") == make_config(plain)
    expected = {**bichar, "compare": {"row": "lattice + bichar", "paper": 50}}
    assert read_config(corpus, variant="lattice-bichar") == make_config(expected)
    expected = {**bichar, "model": {"bichar": True, "encoder": "char"}, "compare": {"row": "both"}}
    assert read_config(corpus, variant="char-bichar") == make_config(expected)
    expected = {"train": {**train, "epochs": 3}, "model": {"encoder": "char"}}
    assert read_config(corpus, variant="mine") == make_config(expected)


def test_set_stands_over_a_variant(corpus):
    config = read_config(
        corpus, ["bichars.dropout=0.3", "train.epochs=1"], variant="lattice-bichar"
    )
    assert (config.bichars.dropout, config.train.epochs) == (0.3, 1)


def test_unused_settings_of_a_corpus_are_not_those_of_its_variant(corpus):
    """`backend` is for the lattice. The corpus has it for other variants; who sets it for this one
    hears of it.
    """
    assert read_config(corpus, variant="char").train.backend == "native"
    with pytest.raises(ConfigError) as caught:
        read_config(corpus, ["train.backend=batched"], variant="char")
    assert str(caught.value).startswith(
        f"{corpus}, variant char, has 1 problem:\n  - train.backend is unused"
    )


def test_the_names_of_variants(corpus, tmp_path):
    assert variant_names(corpus) == ("char", "char-bichar", "lattice", "lattice-bichar", "mine")
    assert variant_names(write(tmp_path, plain="[train]\nepochs = 3\n")) == ()
    assert variant_names(
        write(tmp_path, alone="[variants]\na.train.epochs = 3\nb.train.epochs = 4\n")
    ) == ("a", "b")


def test_an_unknown_variant(corpus, tmp_path):
    known = "The variants are char, char-bichar, lattice, lattice-bichar, mine"
    for name, near in (("latice", ": did you mean lattice?"), ("zzz", "")):
        with pytest.raises(ConfigError) as caught:
            read_config(corpus, variant=name)
        assert caught.value.problems == [f"unknown variant {name!r}{near} {known}"]
    with pytest.raises(ConfigError, match="unknown variant 'char': this file has no variants"):
        read_config(write(tmp_path, plain=""), variant="char")


@pytest.mark.parametrize(
    ("variants", "says"),
    [
        ("variants = 3", "variants must be a section, not 3"),
        (
            "[variants]\nnames = 3",
            "variants.names must list variants of this file or variants.toml",
        ),
        (
            "[variants]\nnames = ['char', 'zzz']",
            "variants.names must list variants of this file or variants.toml",
        ),
        (
            "[variants]\nnames = ['char']\ndefault = 'lattice'",
            "variants.default must be one of variants.names",
        ),
        ("[variants]\nnames = ['char']\nchar = 3", "the variant char must be a table of settings"),
        (
            "[variants]\nnames = ['char']\nchra.train.epochs = 3",
            "unknown variant chra: did you mean char?",
        ),
    ],
)
def test_wrong_variants_are_reported_whichever_is_read(corpus, variants, says):
    corpus.write_text(variants + "\n", "utf-8")
    assert refused(corpus, corpus) == [says]
    with pytest.raises(ConfigError):
        variant_names(corpus)


@pytest.mark.parametrize("base", ["'a'", "'b'", "'zzz'", "3", "[1]"])
def test_a_variant_cannot_stand_on_itself_or_on_nothing(tmp_path, base):
    path = write(tmp_path, c=f"[variants]\na.base = 'b'\nb.base = {base}\n")
    with pytest.raises(
        ConfigError, match=re.escape(f"base = {base} of the variant b must name another variant")
    ):
        read_config(path, variant="a")


def test_mistakes_in_a_variant_are_those_of_a_file(corpus):
    corpus.write_text("[variants]\nx = { modle.layers = 3, train.epochs = 'many' }\n", "utf-8")
    with pytest.raises(ConfigError) as caught:
        read_config(corpus, variant="x")
    assert caught.value.problems == [
        "unknown section [modle]: did you mean model?",
        "train.epochs must be a whole number, not 'many'",
    ]


def test_a_file_does_not_take_the_variants_of_its_base(corpus, tmp_path):
    path = write(tmp_path, own="base = 'corpus.toml'\n")
    assert variant_names(path) == ()
    assert read_config(path) == make_config({"train": {"epochs": 9, "backend": "native"}})


def test_a_bundled_file_is_found_by_its_name_where_there_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_config("weibo") == find_config("weibo.toml")
    assert variant_names("weibo")[0] == "char"
    assert read_config("weibo", variant="char") == read_config(find_config("weibo"), variant="char")
    write(tmp_path, weibo="[train]\nepochs = 3\n")
    assert read_config("weibo.toml").train.epochs == 3
    assert read_config("weibo").train.epochs == 18
    for name in ("configs/weibo.toml", "weibo.txt"):
        with pytest.raises(InputError, match="there is no such file"):
            read_config(name)
    with pytest.raises(
        InputError, match=r"there is no such file, and no bundled .*; these are .*weibo-words"
    ):
        read_config("wiebo")
    with pytest.raises(InputError, match="no bundled configuration"):
        read_config("variants")
    with pytest.raises(InputError):
        read_config("w" * 300)
