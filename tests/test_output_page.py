"""Every command and every piece of Python of docs/output.md runs as printed, with a made model in
place of `ner`.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.helpers.command import hanlattice
from tests.helpers.documents import blocks, commands

PAGE = "docs/output.md"
PYTHON = [block.text for block in blocks(PAGE) if block.language == "python"]
INSTALL = {
    "spacy": "pip install 'hanlattice[spacy]'",
    "pandas": "pip install pandas",
    "datasets": "pip install datasets",
}


@pytest.fixture
def folder(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a newcomer is: with a labelled file."""
    shutil.copy(made / "test.bmes", tmp_path / "test.bmes")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_is_something_to_run():
    assert len(commands(PAGE)) >= 8
    assert len(PYTHON) >= 6


@pytest.mark.parametrize("command", commands(PAGE))
def test_commands(command: str, folder: Path, lattice_folder: Path) -> None:
    program, verb, *arguments = shlex.split(command)
    assert program == "hanlattice"
    if verb == "calibrate":
        assert arguments.pop(0) == "ner"
        arguments.insert(0, str(lattice_folder))
    else:
        arguments += ["-m", str(lattice_folder)]
    outcome = hanlattice(verb, *arguments)
    assert outcome.code == 0
    assert re.fullmatch(r"(note: \S+: 2 texts, [\d,]+ characters in [\d.,]+ s\n)?", outcome.err)
    written = [
        arguments[at + 1] for at, name in enumerate(arguments) if name in ("--out", "--plot")
    ]
    assert outcome.out or written
    for name in written:
        assert (folder / name).stat().st_size > 100


@pytest.mark.parametrize("code", PYTHON, ids=lambda code: code.splitlines()[0])
def test_python(
    code: str, folder: Path, lattice_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for package, install in INSTALL.items():
        if re.search(rf"^import {package}$", code, flags=re.MULTILINE):
            pytest.importorskip(package, reason=f"{package} is not installed: {install}")
    assert '"ner"' in code
    exec(code.replace('"ner"', repr(str(lattice_folder))), {"__name__": "newcomer"})
    assert capsys.readouterr().out


def test_a_missing_value_is_shown(tagger):
    for missing in (float("nan"), None):
        with pytest.raises(
            TypeError, match=f"a text must be a str, not {type(missing).__name__}: {missing}"
        ):
            list(tagger.pipe(["王小明", missing]))
