"""The files in configs/: each is complete with every variant, names its command, and has rows of
its own.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder

from hanlattice.config import CompareConfig, Config, find_config, read_config, variant_names

ROOT = Path(__file__).resolve().parents[1]
VARIANTS = ROOT / "configs" / "variants.toml"
FILES = sorted(path for path in VARIANTS.parent.glob("*.toml") if path != VARIANTS)
RUNS = [(path, variant) for path in FILES for variant in variant_names(path) or ("",)]
SHIPPED = {"ner": "ner/model", "seg": "seg/model"}  # several folders for one model
ENTITIES = ("resume", "weibo", "msra")
SECTIONS = [section.name for section in dataclasses.fields(Config)]
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def raw(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def by_corpus(*names: str) -> list[dict[str, Config]]:
    """The variants of corpora, each by its name."""
    files = [VARIANTS.with_name(f"{name}.toml") for name in names]
    return [
        {name: read_config(file, variant=name) for name in variant_names(file)} for file in files
    ]


@pytest.mark.parametrize(
    ("path", "variant"), RUNS, ids=lambda value: value if isinstance(value, str) else value.stem
)
def test_it_is_enough_to_train_by(path, variant):
    read_config(path, variant=variant, complete=True)


@each_file
def test_the_first_line_is_its_command(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    command = (
        f"# hanlattice train configs/{path.name} --out runs/{SHIPPED.get(path.stem, path.stem)}"
    )
    assert first in (command, f"{command} --set train.device=cuda")


@each_file
def test_sections_and_settings_are_in_the_order_of_the_page(path):
    tree = {name: value for name, value in raw(path).items() if name in SECTIONS}
    assert list(tree) == sorted(tree, key=SECTIONS.index)
    for section, values in tree.items():
        order = [setting.name for setting in dataclasses.fields(getattr(Config(), section))]
        assert list(values) == sorted(values, key=order.index), section


@each_file
def test_variants_are_listed_in_the_order_of_their_file_and_the_file_itself_is_one(path):
    order = list(raw(VARIANTS))
    names = variant_names(path)
    assert list(names) == sorted(names, key=order.index)
    if names:
        assert read_config(path) == read_config(path, variant=raw(path)["variants"]["default"])


def test_every_variant_is_of_some_corpus():
    assert {variant for _, variant in RUNS} - {""} == set(raw(VARIANTS))


def test_there_are_as_many_as_models_of_the_papers():
    assert [
        len(variants) for variants in by_corpus("resume", "weibo", "msra", "pku", "weibo-words")
    ] == [33, 34, 29, 10, 10]


def test_no_two_rows_of_a_corpus_have_the_same_name_and_no_two_runs_are_the_same():
    rows = defaultdict(list)
    runs = defaultdict(list)
    for path, variant in RUNS:
        config = read_config(path, variant=variant)
        rows[config.data.test or path.stem, config.compare.row or f"{path.stem}-{variant}"].append(
            variant
        )
        runs[dataclasses.replace(config, compare=CompareConfig())].append((path.stem, variant))
    assert [names for names in (*rows.values(), *runs.values()) if len(names) > 1] == []


def test_corpora_of_entities_have_the_same_models_names_and_published_figures():
    resume, weibo, msra = by_corpus(*ENTITIES)
    pretraining = [
        "random",
        "own",
        "own-simplechinese",
        "lm",
    ]  # MSRA begins with our own character vectors
    assert [*msra, *pretraining] == [*resume] == [name for name in weibo if name != "lm-adapted"]
    for name in msra:
        same = [variants[name].compare for variants in (resume, weibo, msra)]
        assert len({row.row for row in same}) == 1, name
        assert len({bool(row.paper) for row in same}) == 1, name
    published = {name for name, config in resume.items() if config.compare.paper}
    assert published == {"char", "char-bichar-softword", "word", "word-lstm-bichar", "lattice"}


def test_the_wheel_has_the_files_and_an_editable_install_finds_them():
    builder = WheelBuilder(str(ROOT))
    carried = {Path(file.distribution_path) for file in builder.recurse_included_files()}
    assert {Path("hanlattice", "configs", path.name) for path in (*FILES, VARIANTS)} <= carried
    assert find_config("weibo").samefile(VARIANTS.with_name("weibo.toml"))
