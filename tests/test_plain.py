"""The command lines that do without typer and rich: what they print holds nothing that a terminal obeys."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from unittest import mock

import pytest
from hypothesis import given

from hanlattice.compare.__main__ import main as compare
from hanlattice.errors import InputError
from hanlattice.plain import exit_code, say
from hanlattice.pretrain.__main__ import main as pretrain
from hanlattice.text.display import visible
from tests.cli.command import hanlattice
from tests.strategies import any_text

ESCAPE, SEEN = "\x1b[31m\udcff", "\\x1b[31m\\udcff"


def fails(message: str) -> Callable[[], None]:
    def work() -> None:
        raise InputError(message)

    return work


@given(any_text)
def test_an_error_is_shown_as_the_command_line_shows_it(message: str) -> None:
    with mock.patch.object(sys, "stderr", io.StringIO()) as err:
        assert exit_code(fails(message)) == 2
    assert err.getvalue() == f"error: {visible(message, chr(10))}\n"
    assert err.getvalue().replace("\n", "").replace("\u3000", "").isprintable()


def test_work_that_is_done_is_0_and_says_nothing(capsys):
    assert exit_code(lambda: None) == 0
    assert capsys.readouterr() == ("", "")


def test_lines_of_progress_and_tables_too(capsys):
    say(sys.stdout, f"a{ESCAPE}\n  b\u3000南")
    assert capsys.readouterr().out == f"a{SEEN}\n  b\u3000南\n"


def run(main: Callable[[], int], *arguments: str) -> int:
    with mock.patch.object(sys, "argv", ["x", *arguments]):
        return main()


@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (pretrain, ("lm", f"{ESCAPE}.txt", "--out", "lm")),
        (compare, (f"{ESCAPE}.toml", "--out", "there")),
    ],
)
def test_a_file_of_any_name(main, arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(main, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert SEEN in err
    assert err.replace("\n", "").isprintable()
    verb = {pretrain: ["pretrain"], compare: ["compare"]}[main]
    assert hanlattice(*verb, *arguments).err == err


@pytest.mark.parametrize(
    ("main", "arguments"),
    [(pretrain, ["lm", "a", "-o", "b", f"-{ESCAPE}"])],
)
def test_options_that_do_not_exist_or_could_be_two(main, arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        run(main, *arguments)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: ")
    assert err.replace("\n", "").isprintable()
