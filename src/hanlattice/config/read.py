"""A configuration from a TOML file, the file that it stands on, and what the command line changes in it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hanlattice.config.fill import BASE, fill, make_config
from hanlattice.config.idle import idle_settings, idle_switches
from hanlattice.config.settings import Config, WordsConfig
from hanlattice.errors import ConfigError
from hanlattice.files import read_lines

Tree = dict[str, Any]


def read_config(path: str | Path, changes: Iterable[str] = (), *, complete: bool = False) -> Config:
    """The configuration of a TOML file, changed by `section.key=value` words; if `complete`, fit to train by."""
    below, own = _read_tree(Path(path))
    problems: list[str] = []
    for change in changes:
        _apply(own, change, problems)
    config = fill(_merged(below, own), problems)
    told = {problem.split()[0] for problem in problems}
    more = [*idle_settings(own, config), *(lacking(config) if complete else idle_switches(config))]
    problems += [problem for problem in more if told.isdisjoint(_settings_in(problem))]
    if problems:
        raise ConfigError(problems, str(path))
    return config


def lacking(config: Config) -> list[str]:
    """What must still be said, or settled, before a model can be trained by a configuration."""
    problems = [] if config.data.train else ["data.train must name the training corpus"]
    if not config.data.dev and not config.data.holdout:
        problems.append("data.dev must name a file, or data.holdout a share of train that serves as dev")
    if config.data.dev and config.data.holdout:
        problems.append("data.holdout and data.dev both say what serves as dev: give one of them")
    problems += [no_words(source) for source in config.lattice_sources if not (source.vectors or source.lexicon)]
    if config.model.encoder == "word" and config.words.lexicon:
        problems.append("words.lexicon is for the lattice model: a word model takes words.vectors, or random vectors")
    for section in (config.words, config.subwords):
        if section.vectors and section.lexicon and not (section is config.words and config.model.encoder == "word"):
            name = section.called
            problems.append(f"{name}.vectors and {name}.lexicon both say which {name} there are: give one of them")
    return [*problems, *idle_switches(config)]


def no_words(source: WordsConfig) -> str:
    """The problem of a lattice that is to take its words from a section which names none."""
    name = source.called
    return f"{name}.vectors must name a vector file, or {name}.lexicon a dictionary: the lattice takes its {name} there"


def _settings_in(problem: str) -> set[str]:
    return set(re.findall(r"[a-z]+\.[a-z_]+", problem))


def _read_tree(path: Path, above: tuple[str, ...] = ()) -> tuple[Tree, Tree]:
    """(what the file that `base` names gives, if there is one; what this file gives itself)."""
    own = _read_toml(path)
    if BASE not in own:
        return {}, own
    base = own.pop(BASE)
    if not isinstance(base, str) or not base or "\0" in base:
        raise ConfigError([f"base must name another file of settings, from this one's folder, not {base!r}"], str(path))
    below, above = path.parent / base, (*above, os.path.realpath(path))
    if os.path.realpath(below) in above:
        raise ConfigError([f"base = {base!r} leads back to a file that stands on this one"], str(path))
    tree = _merged(*_read_tree(below, above))
    make_config(tree, str(below))  # its mistakes are told as its own
    tree.pop("compare", None)  # the row of one run is no other's
    return tree, own


def _merged(below: Tree, own: Tree) -> Tree:
    """Settings over those of the base, section by section."""
    merged = dict(below)
    for name, section in own.items():
        old = below.get(name)
        merged[name] = {**old, **section} if isinstance(old, Mapping) and isinstance(section, Mapping) else section
    return merged


def _read_toml(path: Path) -> Tree:
    try:
        return tomllib.loads("\n".join(line for _, line in read_lines(path)))
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a plain ValueError
        raise ConfigError([f"not TOML: {error}"], str(path)) from None


def _apply(tree: Tree, change: str, problems: list[str]) -> None:
    """Put one `section.key=value` into the tree. The value is TOML; a bare word is a string."""
    place, equals, text = change.partition("=")
    section, dot, key = place.strip().partition(".")
    if not equals or not dot:
        problems.append(f"--set wants section.key=value, such as train.epochs=5, not {change!r}")
        return
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text.strip()
    target = tree.setdefault(section, {})
    if isinstance(target, dict):
        target[key] = value
