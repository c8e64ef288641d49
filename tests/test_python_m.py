"""`python -m hanlattice` is the program `hanlattice`: the same output, error lines and exit codes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.command import ENVIRONMENT, Outcome, run

TEXT = "王小明在青石镇工作。"


def run_module(*arguments: str) -> Outcome:
    command = [sys.executable, "-m", "hanlattice", *arguments]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, env=ENVIRONMENT, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr.decode("utf-8"))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0),
        (["tag", "--help"], 0),
        ([], 2),
        (["tga"], 2),
        (["tag", "--nothing", TEXT], 2),
        (["tag", "-m", "nowhere", TEXT], 2),
    ],
)
def test_it_is_the_program(arguments, code):
    outcome = run_module(*arguments)
    assert outcome.code == code
    assert outcome == run(*arguments)
    assert "Traceback" not in outcome.err


def test_it_tags(lattice_folder):
    outcome = run_module("tag", "-m", str(lattice_folder), "-f", "inline", TEXT)
    assert (outcome.code, outcome.text, outcome.err) == (0, "[王小明/PER]在[青石镇/LOC]工作。\n", "")


def test_a_reader_that_has_gone_is_141():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "hanlattice", "--help"]
    with subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE, env=ENVIRONMENT) as process:
        os.close(writing)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")
