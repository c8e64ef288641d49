"""`python -m hanlattice` is the program `hanlattice`: the same output, error lines and
exit codes.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.command import ENVIRONMENT, Outcome, hanlattice

TEXT = "王小明在青石镇工作。"


def run_module(*arguments: str) -> Outcome:
    command = [sys.executable, "-m", "hanlattice", *arguments]
    done = subprocess.run(
        command, capture_output=True, stdin=subprocess.DEVNULL, env=ENVIRONMENT, check=False
    )
    return Outcome(done.returncode, done.stdout, done.stderr.decode("utf-8"))


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["tag", "-m", "nowhere", TEXT], 2)])
def test_it_is_the_program(arguments, code):
    outcome = run_module(*arguments)
    assert outcome.code == code
    assert outcome == hanlattice(*arguments)


def test_it_tags(lattice_folder):
    outcome = run_module("tag", "-m", str(lattice_folder), "-f", "inline", TEXT)
    assert (outcome.code, outcome.text, outcome.err) == (
        0,
        "[王小明/PER]在[青石镇/LOC]工作。\n",
        "",
    )
