"""Shared options: dataclasses become options, and every help text reaches the screen."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.main import get_command
from typer.testing import CliRunner

from hanlattice.cli import make_app
from hanlattice.cli.options import DictionaryOptions, Inputs, Seed, with_options
from hanlattice.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Group:
    inputs: Inputs
    seed: Seed = 3


def test_a_command_gets_its_dataclass_with_the_values_of_the_options() -> None:
    calls: list[tuple[Group, bool]] = []

    @with_options
    def command(group: Group, flag: bool = False) -> None:
        """A command."""
        calls.append((group, flag))

    app = typer.Typer()
    app.command()(command)
    assert CliRunner().invoke(app, ["a", "b"]).exit_code == 0
    assert CliRunner().invoke(app, ["a", "--seed", "5", "--flag"]).exit_code == 0
    assert calls == [(Group(inputs=["a", "b"]), False), (Group(inputs=["a"], seed=5), True)]
    assert CliRunner().invoke(app, []).exit_code == 2
    assert list(inspect.signature(command).parameters) == ["inputs", "seed", "flag"]
    assert (command.__name__, command.__doc__) == ("command", "A command.")


def test_trust_needs_a_dictionary() -> None:
    with pytest.raises(InputError, match="--trust needs --lexicon"):
        DictionaryOptions(trust=1.0)


def helps(command: Any, verb: str = "hanlattice") -> Iterator[tuple[str, str]]:
    """Return each help text, with its command and option."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from helps(inner, f"{verb} {name}")
    yield verb, command.help or ""
    for parameter in command.params:
        yield f"{verb} {parameter.name}", getattr(parameter, "help", None) or ""


HELPS = dict(helps(get_command(make_app())))


@pytest.mark.parametrize("name", HELPS)
def test_a_terminal_shows_the_whole_help_text(name: str) -> None:
    """Rich drops text that looks like one of its tags, such as `[default: 1]`."""
    assert Text.from_markup(HELPS[name]).plain == HELPS[name]
