"""Every command and every piece of Python in README runs as printed, on a small made model in the place of the demo's.

`make demo` and `make test` set a machine up and are left aside; so is `pip install`.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hanlattice.data.corpora import KNOWN
from hanlattice.text.vectors import Vectors, read_vectors, write_vectors
from tests.made import sentences, write_made

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.removeprefix("$ ").partition("  #")[0].strip()
    for language, block in BLOCKS
    if language in ("", "console")
    for line in block.splitlines()
    if line.strip()
]
PYTHON = [block for language, block in BLOCKS if language == "python"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, lattice_folder: Path) -> Path:
    """A folder that looks like a clone after `make demo`, with made data where real data would be."""
    top = tmp_path_factory.mktemp("newcomer")
    clone = top / "clone"
    shutil.copytree(ROOT / "configs", clone / "configs")
    shutil.copy(ROOT / "README.md", clone)
    shutil.copytree(lattice_folder, clone / "runs" / "demo")
    resume = top / "shared" / "data" / "ner" / "resume"
    write_made(resume)
    shutil.copy(resume / "test.bmes", clone / "test.bmes")
    with lzma.open(clone / "text.txt.xz", "wt", encoding="utf-8") as file:
        file.writelines(f"{sentence.text}\n" for sentence in sentences(3000, seed=3))
    put_in_cache(top / "cache", "msra", {"train.bmes": resume / "train.bmes", "test.bmes": resume / "test.bmes"})
    put_in_cache(top / "cache", "simplechinese", {"words.bin": write_words(top)})
    return clone


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


def run(words: list[str] | str, project: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "HANLATTICE_CACHE": str(project.parent / "cache"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONIOENCODING": "utf-8",
    }
    return subprocess.run(
        words, shell=isinstance(words, str), cwd=project, env=environment, capture_output=True, text=True, timeout=240
    )


def test_readme_has_what_this_test_reads() -> None:
    assert {"make demo", "make test"} <= set(COMMANDS)
    assert len(COMMANDS) > 8
    assert len(PYTHON) >= 2


def test_every_command_of_readme_works(project: Path) -> None:
    for command in COMMANDS:
        if command in ("make demo", "make test"):
            continue
        assert re.match(r"hanlattice |echo .*\| hanlattice ", command), (
            f"README has a command of another kind: {command}"
        )
        done = run(command, project)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert (done.stdout + done.stderr).strip(), f"{command} said nothing"


@pytest.mark.parametrize("code", PYTHON)
def test_every_piece_of_python_in_readme_works(project: Path, code: str) -> None:
    done = run([sys.executable, "-W", "error", "-c", code], project)
    assert done.returncode == 0, done.stderr


def test_files_that_readme_links_to_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
