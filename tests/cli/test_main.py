"""The entry point: an exit code for each way in which a command can end."""

from __future__ import annotations

import os
import subprocess

import pytest
import typer

import hanlattice as package
from hanlattice import cli
from hanlattice.errors import InputError
from tests.helpers.command import ENVIRONMENT, hanlattice, run, start
from tests.helpers.patience import PATIENCE

USAGE = [
    (["tga", "x"], "No such command 'tga'"),
    (["tag"], "Missing argument"),
    (["pack", "x"], "Missing option '--out'"),
    (["distil", "x", "-o", "y"], "Missing option '--model'"),
    (["tag", "--nothing", "x"], "No such option: --nothing"),
    (["tag", "-m", "m", "--format", "xml", "x"], "Invalid value for '--format'"),
    (["tag", "-m", "m", "--batch-size", "0", "x"], "Invalid value for '--batch-size'"),
    (["data", "gte"], "No such command 'gte'"),
    (["--nothing"], "No such option: --nothing"),
]


@pytest.mark.parametrize(("words", "says"), USAGE)
def test_wrong_usage_is_2_with_the_usage(words, says):
    outcome = hanlattice(*words)
    assert (outcome.code, outcome.out) == (2, b"")
    assert outcome.err.startswith("Usage: hanlattice ")
    assert says in outcome.err


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["tag", "--help"], ["data", "get", "-h"]])
def test_help_is_0(words):
    outcome = hanlattice(*words)
    assert (outcome.code, outcome.err) == (0, "")
    assert "Usage: hanlattice" in outcome.text


@pytest.mark.parametrize("words", [[], ["data"]])
def test_no_verb_is_2_with_the_help(words):
    outcome = hanlattice(*words)
    assert outcome.code == 2
    assert "Usage: hanlattice" in outcome.text + outcome.err


def test_version():
    outcome = hanlattice("--version")
    assert (outcome.code, outcome.text, outcome.err) == (
        0,
        f"hanlattice {package.__version__}\n",
        "",
    )


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (typer.Exit(), 0, ""),
        (typer.Exit(7), 7, ""),
        (typer.Abort(), 130, ""),
        (KeyboardInterrupt(), 130, ""),
        (InputError("torn", "f", 3), 2, "error: f:3: torn\n"),
        (InputError("a\nb", "\x1b]0;x\x07\x9b"), 2, "error: \\x1b]0;x\\x07\\x9b: a\nb\n"),
    ],
)
def test_how_a_verb_ends_is_the_exit_code(monkeypatch, error, code, says):
    def end(*_: object) -> None:
        raise error

    monkeypatch.setattr(cli.data, "cache_folder", end)
    outcome = hanlattice("data", "list")
    assert (outcome.code, outcome.err) == (code, says)


def test_a_mistake_of_ours_is_not_hidden(monkeypatch):
    monkeypatch.setattr(cli.data, "cache_folder", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        hanlattice("data", "list")


@pytest.mark.parametrize("words", [["--help"], ["data", "list"]])
def test_a_reader_that_has_gone_is_141_whatever_is_written(words):
    reading, writing = os.pipe()
    os.close(reading)
    with start(*words, stdout=writing) as process:
        os.close(writing)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (141, b"")


def test_the_shell_still_gets_completions():
    environment = ENVIRONMENT | {
        "_HANLATTICE_COMPLETE": "complete_bash",
        "COMP_WORDS": "hanlattice ev",
        "COMP_CWORD": "1",
    }
    outcome = run(env=environment, stderr=subprocess.DEVNULL)
    assert (outcome.code, outcome.text.strip()) == (0, "evaluate")
