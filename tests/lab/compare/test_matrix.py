"""Which runs there are, and that every mistake is reported before any of them starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.errors import ConfigError, InputError
from hanlattice.lab.compare.matrix import changed_settings, check_seeds, read_rows, read_seeds
from tests.helpers.made import write_toml


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("1", (1,)),
        ("5", (1, 2, 3, 4, 5)),
        ("1,4,7", (1, 4, 7)),
        (" 3 , 0 ", (3, 0)),
        ("7,", (7,)),
        ("1000", range(1, 1001)),
    ],
)
def test_seeds(text, seeds):
    assert read_seeds(text) == tuple(seeds)


@pytest.mark.parametrize(
    "text", ["", ",", "0", "-1", "1.5", "five", "1,,2", "2,2", "1001", "9" * 30, "², 3", "1;2"]
)
def test_seeds_that_are_none(text):
    with pytest.raises(InputError, match="seed"):
        read_seeds(text)


@given(st.text(max_size=20))
def test_any_words_for_seeds(text):
    try:
        seeds = read_seeds(text)
    except InputError:
        return
    assert seeds
    assert len(set(seeds)) == len(seeds)
    assert check_seeds(seeds) == seeds


def test_seeds_of_the_library():
    for bad in ([], [1, 1], [-1], [1 << 63]):
        with pytest.raises(InputError):
            check_seeds(bad)


def test_rows_in_their_order(toml, tiny):
    rows = read_rows(
        [toml("b", compare__row="B model", compare__paper=58.79), toml("a")], ["train.epochs=7"]
    )
    assert [(row.stem, row.name) for row in rows] == [("b", "B model"), ("a", "a")]
    assert {row.section for row in rows} == {f"{tiny}/test.bmes"}
    assert [row.config.train.epochs for row in rows] == [7, 7]
    assert rows[0].config.compare.paper == 58.79
    made = rows[0].with_seed(9, "cuda:3")
    assert (made.train.seed, made.train.device, made.train.epochs) == (9, "cuda:3", 7)


def test_what_is_compared_without_a_test_file(toml, tiny):
    dev, held, limited = read_rows(
        [
            toml("dev", data__test=""),
            toml("held", data__test="", data__dev="", data__holdout=0.25),
            toml("limited", data__test="", data__dev="", data__holdout=0.25, data__limit=20),
        ]
    )
    assert [row.part for row in (dev, held, limited)] == ["dev"] * 3
    assert dev.section == f"{tiny}/dev.bmes (dev: there is no test file)"
    assert held.section == f"{tiny}/train.bmes (25 %, held out: there is no dev or test file)"
    assert "25 % of its first 20 sentences" in limited.section
    with pytest.raises(ConfigError, match="neither has no test or dev to compare on"):
        read_rows([toml("neither", data__test="", data__dev="")])


def test_a_row_that_begins_with_a_model_has_its_architecture(toml, lattice_folder):
    (row,) = read_rows(
        [
            toml(
                "begun",
                start__model=str(lattice_folder),
                model__encoder="lattice",
                model__hidden=16,
            )
        ]
    )
    assert row.config.model.hidden == 16
    with pytest.raises(ConfigError, match=r"model\.hidden is 4, and 16 in"):
        read_rows(
            [
                toml(
                    "other",
                    start__model=str(lattice_folder),
                    model__encoder="lattice",
                    model__hidden=4,
                )
            ]
        )


def test_all_mistakes_at_once(toml, tmp_path):
    (tmp_path / "other").mkdir()
    twin = tmp_path / "other" / "good.toml"
    twin.write_text(toml("good").read_text("utf-8"), "utf-8")
    files = [
        tmp_path / "good.toml",
        twin,
        toml("wrong", train__epochs=0, train__lr=-1.0),
        tmp_path / "missing.toml",
    ]
    with pytest.raises(ConfigError) as caught:
        read_rows(files, ["train.seed=3", " train.device = cuda"])
    told = str(caught.value)
    assert told.startswith("the comparison has 6 problems:")
    for part in (
        "--set train.seed is for a single training: --seeds sets it here",
        "--set train.device is for a single training: --devices sets it here",
        "wrong.toml: train.epochs must be above 0",
        "wrong.toml: train.lr must be above 0",
        "missing.toml: cannot read",
        f"2 configurations have the name good, which is their runs' folder ({files[0]}, "
        f"{twin}): rename one",
    ):
        assert part in told, told


def test_two_rows_with_one_name(toml, tiny, tmp_path):
    with pytest.raises(ConfigError, match="a and b are both shown as 'same'"):
        read_rows([toml("a", compare__row="same"), toml("b", compare__row="same")])
    elsewhere = toml("c", compare__row="same", data__test=f"{tiny}/dev.bmes")
    assert len(read_rows([toml("a", compare__row="same"), elsewhere])) == 2


def test_against_a_row_that_is_not_there(toml):
    files = [toml("a", compare__row="the A"), toml("b")]
    for good in ("a", "the A", "b", ""):
        assert read_rows(files, against=good)
    with pytest.raises(
        ConfigError, match="--against c: no row has this name; the rows are the A, b"
    ):
        read_rows(files, against="c")


VARIANTS = {
    "lattice": {"model": {"encoder": "lattice"}, "compare": {"row": "the lattice", "paper": 58.79}},
    "lattice-bichar": {"model": {"encoder": "lattice", "bichar": True}},
}


def test_variants(toml, tiny, tmp_path):
    write_toml(
        tmp_path / "variants.toml",
        {f"{name}.{s}": t for name, v in VARIANTS.items() for s, t in v.items()},
    )
    files = [
        toml("weibo", variants__names=[*VARIANTS]),
        toml("resume", variants__names=[*VARIANTS], data__test=f"{tiny}/dev.bmes"),
    ]
    rows = read_rows(files, ["train.epochs=7"], variants=["all"], against="lattice-bichar")
    assert [(row.stem, row.variant) for row in rows] == [
        ("weibo-lattice", "lattice"),
        ("weibo-lattice-bichar", "lattice-bichar"),
        ("resume-lattice", "lattice"),
        ("resume-lattice-bichar", "lattice-bichar"),
    ]
    assert [row.config.model.bichar for row in rows] == [False, True] * 2
    assert {row.config.train.epochs for row in rows} == {7}
    assert (rows[0].name, rows[0].config.compare.paper) == ("the lattice", 58.79)
    assert [row.is_called("lattice") for row in rows] == [True, False] * 2
    (only,) = read_rows(files[:1], variants=["lattice-bichar"])
    assert (only.stem, only.file) == ("weibo-lattice-bichar", files[0])
    (plain,) = read_rows(files[:1])
    assert (plain.stem, plain.variant, plain.config.model.encoder) == ("weibo", "", "char")


def test_mistakes_in_variants(toml, tmp_path):
    with pytest.raises(ConfigError, match=r"plain\.toml: it has no variants"):
        read_rows([toml("plain")], variants=["all"])
    file = toml("weibo", variants__names=["wrong", "right"])
    write_toml(
        tmp_path / "variants.toml", {"wrong.train": {"lr": -1.0}, "right.train": {"lr": 1.0}}
    )
    with pytest.raises(ConfigError, match=r"weibo\.toml \(wrong\): train\.lr must be above 0"):
        read_rows([file], variants=["all"])
    with pytest.raises(
        ConfigError, match=r"has 1 problem:\n  - .*weibo\.toml: train\.epochs must be above 0"
    ):
        read_rows([file], ["train.epochs=0", "train.lr=1.0"], variants=["all"])
    with pytest.raises(ConfigError, match="nothing"):
        read_rows([file], variants=["right", "nothing"])
    with pytest.raises(ConfigError, match="2 configurations have the name weibo-right"):
        read_rows([file], variants=["right", "right"])


def test_nothing_to_compare():
    with pytest.raises(InputError, match="one TOML file or more"):
        read_rows([])


def test_settings_that_were_changed(tmp_path):
    tree = {
        "data": {"train": "t", "dev": "d"},
        "model": {"encoder": "char", "hidden": 100},
        "train": {"seed": 7},
    }
    (row,) = read_rows([write_toml(tmp_path / "a.toml", tree)])
    assert changed_settings(row.config) == {
        "data.train": "t",
        "data.dev": "d",
        "model.encoder": "char",
    }
