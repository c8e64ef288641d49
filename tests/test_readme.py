"""Every command and every piece of Python in README, in Chinese too, and on the first pages of docs/ runs as printed.

Models of the package are the real ones; corpora, vectors and raw text are made ones in the place of real ones. What
sets a machine up (`make …`, `pip install`) is left aside. Each distinct command runs once, in this process if it can.
"""

from __future__ import annotations

import ast
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hanlattice.compare import run
from hanlattice.data.download import KNOWN
from hanlattice.text.vectors import Vectors, read_vectors, write_vectors
from tests.cli.command import hanlattice
from tests.compare.conftest import SERVER
from tests.documents import ROOT, blocks, commands
from tests.made import sentences, write_made

TRIED = ("README.md", "README.zh.md", "docs/index.md", "docs/training.md")  # in the order in which they are read
COMMANDS = list(dict.fromkeys(line for page in TRIED for line in commands(page)))
MAKE = [line.removeprefix("make ") for line in COMMANDS if line.startswith("make ")]
TYPED = [line for line in COMMANDS if not line.startswith("make ")]
PYTHON = list(  # remarks in another language make no other program
    dict.fromkeys(
        ast.unparse(ast.parse(block.text)) for page in TRIED for block in blocks(page) if block.language == "python"
    )
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that looks like a clone, in which these tests work, with made data where real data would be."""
    top = tmp_path_factory.mktemp("newcomer")
    clone = top / "clone"
    shutil.copytree(ROOT / "configs", clone / "configs")
    shutil.copy(ROOT / "README.md", clone)
    resume = top / "shared" / "data" / "ner" / "resume"
    write_made(resume, train=40)
    for name in ("own", "more"):
        (clone / name).mkdir()
    for part in ("train.bmes", "test.bmes"):
        for folder in (clone, clone / "own", clone / "more"):
            shutil.copy(resume / part, folder)
    with lzma.open(clone / "text.txt.xz", "wt", encoding="utf-8") as file:
        file.writelines(f"{sentence.text}\n" for sentence in sentences(3000, seed=3))
    put_in_cache(top / "cache", "simplechinese", {"words.bin": write_words(top)})
    put_in_cache(top / "cache", "msra", {part: resume / part for part in ("train.bmes", "test.bmes")})
    with pytest.MonkeyPatch.context() as here:
        here.setenv("HANLATTICE_CACHE", str(top / "cache"))
        here.setattr(run, "CONTEXT", SERVER)
        here.chdir(clone)
        yield clone


def write_words(folder: Path) -> Path:
    """Vectors of words and of characters in one file, as that package has them."""
    made = [read_vectors(folder / "shared" / "data" / "ner" / "resume" / name) for name in ("chars.vec", "words.bin")]
    rows = {word: row for vectors in made for word, row in zip(vectors.words, vectors.matrix, strict=True)}
    write_vectors(folder / "both.bin", Vectors(tuple(rows), np.stack(list(rows.values()))), binary=True)
    return folder / "both.bin"


def put_in_cache(cache: Path, name: str, files: dict[str, Path]) -> None:
    """What `hanlattice data get` leaves behind."""
    folder = cache / name
    folder.mkdir(parents=True)
    for file, source in files.items():
        shutil.copy(source, folder / file)
    sizes = {file: (folder / file).stat().st_size for file in files}
    facts = {"sha256": KNOWN[name].sha256, "sizes": sizes, "counts": {}}
    (folder / "source.json").write_text(json.dumps(facts), encoding="utf-8")


def run_in_shell(command: str) -> tuple[int, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout + done.stderr


def run_here(command: str) -> tuple[int, str]:
    """Through the entry point, which spares the seconds that torch takes to be imported."""
    outcome = hanlattice(*shlex.split(command)[1:])
    return outcome.code, outcome.text + outcome.err


def test_the_pages_have_what_this_test_reads() -> None:
    assert {"demo", "train-demo", "test", "docs"} <= set(MAKE)
    for page in TRIED:
        assert len(commands(page)) > 8, page
    assert len(PYTHON) >= 2


def test_every_target_that_they_name_is_in_the_makefile() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(MAKE) <= set(targets)


def test_readme_says_the_same_in_both_languages() -> None:
    assert commands("README.zh.md") == commands("README.md")


def test_every_command_works(project: Path) -> None:
    for command in TYPED:
        if re.fullmatch(r"hanlattice [^|<>]+", command):
            code, said = run_here(command)
        else:
            assert re.match(r"echo .*(\| hanlattice |> \w+\.txt$)", command), f"a command of another kind: {command}"
            code, said = run_in_shell(command)
        assert code == 0, f"{command}\n{said}"
        assert said.strip() or "> " in command or "--out" in command, f"{command} said nothing"


@pytest.mark.parametrize("code", PYTHON)
def test_every_piece_of_python_works(project: Path, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "text.txt").write_text("他来到了网易杭研大厦\n", encoding="utf-8")  # what a command leaves there
    exec(compile(code, "a page", "exec"), {})
