"""The files in configs/: each loads, can be trained by, names its command, and has a row of its own."""

from __future__ import annotations

import dataclasses
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from hanlattice.compare.matrix import read_rows
from hanlattice.config import CompareConfig, Config, read_config

FILES = sorted((Path(__file__).resolve().parents[1] / "configs").glob("*.toml"))
SHIPPED = {"ner": "ner/model", "ner-teacher": "ner/teacher-1", "seg": "seg/model"}  # several folders for one model
CORPORA = ("resume", "weibo", "msra")
SECTIONS = [section.name for section in dataclasses.fields(Config)]
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def raw(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def test_there_are_files():
    assert len(FILES) > 3 * 17


@each_file
def test_it_is_enough_to_train_by(path):
    read_config(path, complete=True)


@each_file
def test_the_first_line_is_its_command(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    command = f"# hanlattice train configs/{path.name} --out runs/{SHIPPED.get(path.stem, path.stem)}"
    assert first in (command, f"{command} --set train.device=cuda")


@each_file
def test_sections_and_settings_are_in_the_order_of_the_page(path):
    tree = raw(path)
    tree.pop("base", None)
    assert list(tree) == sorted(tree, key=SECTIONS.index)
    for section, values in tree.items():
        order = [setting.name for setting in dataclasses.fields(getattr(Config(), section))]
        assert list(values) == sorted(values, key=order.index), section


@each_file
def test_its_row_and_the_published_figure_are_its_own(path):
    """A base's figure beside another model would be a wrong claim."""
    assert read_config(path).compare == CompareConfig(**raw(path).get("compare", {}))


@each_file
def test_what_stands_on_another_file_has_a_row_of_its_own(path):
    tree = raw(path)
    if "base" in tree and path.stem != "ner":  # which has other data than its teachers
        assert tree["compare"]["row"]
        assert read_config(path).data == read_config(path.parent / tree["base"]).data


def test_all_of_them_can_be_compared_at_once():
    """No two rows of one corpus have the same name."""
    rows = read_rows(FILES)
    assert len({(row.section, row.name) for row in rows}) == len(FILES)


def test_no_two_are_the_same_run():
    found = defaultdict(list)
    for path in FILES:
        config = dataclasses.replace(read_config(path), compare=CompareConfig())
        found[config].append(path.name)
    assert [names for names in found.values() if len(names) > 1] == []


def test_each_corpus_has_the_same_models_under_the_same_names():
    """All of those of MSRA, which has no others; the small corpora have more."""
    rows = {path.stem: read_config(path).compare for path in FILES}
    kinds = [stem.removeprefix("msra-") for stem in rows if stem.startswith("msra-")]
    assert len(kinds) == 17
    for kind in kinds:
        same = [rows[f"{corpus}-{kind}"] for corpus in CORPORA]
        assert len({row.row for row in same}) == 1
        assert len({bool(row.paper) for row in same}) == 1, kind
