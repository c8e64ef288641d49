"""Options with numbers refuse NaN, infinity and huge numbers before any work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from hanlattice.cli import check_numbers, make_app
from tests.helpers.command import hanlattice

FLOATS = ["nan", "inf", "-inf", "1e400", "-1e400", "9" * 400, "-Infinity", "NaN"]
INTS = ["9223372036854775808", "-9223372036854775809", "9" * 400, "9" * 5000, "-" + "9" * 5000]
WRONG = ["", "x", "0x10", "1e", "1;2", "[1]", "\ud800", "true", "None", "--", "1\n2"]


def number_options(
    command: Any, verb: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return the options that take a number, with their commands."""
    for name, item in getattr(command, "commands", {}).items():
        yield from number_options(item, (*verb, name))
    for option in command.params:
        if option.type.name.startswith(("int", "float")):
            yield verb, option


def whole_command() -> Any:
    command = typer.main.get_command(make_app())
    check_numbers(command)
    return command


OPTIONS = {
    f"{' '.join(verb)} {option.opts[0]}": option for verb, option in number_options(whole_command())
}


def test_there_are_options() -> None:
    assert len(OPTIONS) > 80
    assert {
        "tag --trust",
        "corpus tag --shard-size",
        "bench --batch",
        "serve --batch-ms",
    } <= OPTIONS.keys()


@pytest.mark.parametrize("name", OPTIONS)
def test_no_option_takes_it(name: str) -> None:
    option = OPTIONS[name]
    is_float = option.type.name.startswith("float")
    for value in [*WRONG, *(FLOATS if is_float else [*INTS, *FLOATS])]:
        with pytest.raises(typer.BadParameter):
            option.type.convert(value, option, None)
    good = option.default[0] if option.multiple and option.default else option.default
    if isinstance(good, (int, float)):
        assert option.type.convert(str(good), option, None) == good


@pytest.mark.parametrize(
    "arguments",
    [
        ("tag", "--min-score", "nan", "x"),
        ("tag", "--trust", "1e400", "x"),
        ("tag", "--threads", "99999999999", "x"),
        ("tag", "--threads", "9" * 5000, "x"),
        ("segment", "--batch-size", "9" * 30, "x"),
        ("lm", "sample", "-m", "none", "--temperature", "nan"),
        ("lm", "sample", "-m", "none", "--temperature", "inf"),
        ("lm", "score", "-m", "none", "--threads", "99999999999", "x"),
        ("bench", "--seconds", "inf"),
        ("bench", "--seconds", "nan"),
        ("serve", "--timeout", "1e999"),
        ("serve", "--max-body", "9" * 400),
        ("corpus", "tag", "none", "--out", "none", "--shard-size", "nan"),
        ("pretrain", "lm", "none", "--out", "none", "--lr", "nan"),
        ("pretrain", "lm", "none", "--out", "none", "--seed", "9" * 400),
        ("pretrain", "lm", "none", "--out", "none", "--seed", "-1"),
        ("lm", "sample", "-m", "none", "--seed", "-1"),
    ],
    ids=lambda arguments: " ".join(arguments)[:50],
)
def test_the_command_ends_with_2_and_no_traceback(arguments: tuple[str, ...]) -> None:
    outcome = hanlattice(*arguments)
    assert outcome.code == 2, outcome
    assert not outcome.out
    assert "Traceback" not in outcome.err
