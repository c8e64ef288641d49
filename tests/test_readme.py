"""Every command and every piece of Python in README, in Chinese too, and on the first pages of
docs/ runs as printed.

Models of the package are the real ones; corpora, vectors and raw text are made ones in the place of
real ones. What sets a machine up (`make …`, `pip install`) is left aside. Each distinct command
runs once, in this process if it can.

On the other pages quick commands run as well; those that need a GPU, hours or other data (`NOT_RUN`
has the reasons) are parsed: their options and values, the scripts, configurations, variants and
settings that they name.
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
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from hanlattice.cli import app
from hanlattice.config import read_config, variant_names
from hanlattice.data.download import KNOWN
from hanlattice.lab.compare import jobs
from hanlattice.text.vectors import Vectors, read_vectors, write_vectors
from tests.helpers.command import hanlattice
from tests.helpers.documents import ROOT, blocks, commands, shell_commands
from tests.helpers.made import sentences, write_made
from tests.helpers.patience import PATIENCE
from tests.lab.compare.conftest import SERVER

TRIED = (
    "README.md",
    "README.zh.md",
    "docs/index.md",
    "docs/training.md",
)  # in the order in which they are read
COMMANDS = list(dict.fromkeys(line for page in TRIED for line in commands(page)))
MAKE = [line.removeprefix("make ") for line in COMMANDS if line.startswith("make ")]
TYPED = [line for line in COMMANDS if not line.startswith("make ")]
PAGES = (*TRIED, "docs/api.md", "docs/dictionaries.md", "docs/explain.md")
PYTHON = list(  # remarks in another language make no other program
    dict.fromkeys(
        ast.unparse(ast.parse(block.text))
        for page in PAGES
        for block in blocks(page)
        if block.language == "python"
    )
)

OTHERS = sorted(
    str(page.relative_to(ROOT))
    for page in (ROOT / "docs").glob("*.md")
    if f"docs/{page.name}" not in TRIED
)
NOT_RUN = {  # commands of the other pages, and why; the first that fits
    r"\bdocker |^(pip|conda|make|npm) ": "sets a machine up",
    r"^curl |^hanlattice serve": "needs a server that runs; tests/server has one",
    r"cuda": "needs a GPU",
    r"\bcorpora/|\b(raw|gold|train|test|other|small)\.txt|tail\.bmes|@pku|\.cache": "needs "
    "data that is not here",
    r"\b(MODEL|FILE|OUT|PATH|OLD)\b|…": "the reader fills in a name",
    r"^(hanlattice|torchrun.*) (train|compare|pretrain|bench|distil|pack)\b": "takes minutes "
    "or hours",
    r"^(\w+=\S+ )?(time |python benchmarks/)": "measures for minutes",
    r"\bruns/": "needs a model that such a command makes",
    r"data get pku": "downloads",
    r"^hanlattice corpus": "needs a crawl",
    r"^hanlattice vectors neighbours": "needs the real vectors",
}
SHELL = (
    "a file",
    "awk",
    "cat",
    "conda",
    "cp",
    "curl",
    "cut",
    "docker",
    "echo",
    "git",
    "grep",
    "head",
    "ls",
    "make",
)
SHELL += (
    "mkdir",
    "npm",
    "pip",
    "python",
    "sed",
    "shuf",
    "sort",
    "tail",
    "tar",
    "tr",
    "unzip",
    "xzcat",
)
ELSEWHERE = ("docs/output.md",)  # tests/test_output_page.py runs what is on it


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that looks like a clone, in which these tests work, with made data where real data
    would be.
    """
    top = tmp_path_factory.mktemp("newcomer")
    clone = top / "clone"
    shutil.copytree(ROOT / "configs", clone / "configs")
    shutil.copy(ROOT / "README.md", clone)
    resume = clone / "corpora" / "ner" / "resume"
    write_made(resume, train=40)
    for name in ("own", "more"):
        (clone / name).mkdir()
    for part in ("train.bmes", "test.bmes"):
        for folder in (clone, clone / "own", clone / "more"):
            shutil.copy(resume / part, folder)
    with lzma.open(clone / "text.txt.xz", "wt", encoding="utf-8") as file:
        file.writelines(f"{sentence.text}\n" for sentence in sentences(3000, seed=3))
    put_in_cache(top / "cache", "simplechinese", {"words.bin": write_words(resume)})
    put_in_cache(
        top / "cache", "msra", {part: resume / part for part in ("train.bmes", "test.bmes")}
    )
    with pytest.MonkeyPatch.context() as here:
        here.setenv("HANLATTICE_CACHE", str(top / "cache"))
        here.setattr(jobs, "CONTEXT", SERVER)
        here.chdir(clone)
        yield clone


def write_words(folder: Path) -> Path:
    """Vectors of words and of characters in one file, as that package has them."""
    made = [read_vectors(folder / name) for name in ("chars.vec", "words.bin")]
    rows = {
        word: row
        for vectors in made
        for word, row in zip(vectors.words, vectors.matrix, strict=True)
    }
    write_vectors(
        folder / "both.bin", Vectors(tuple(rows), np.stack(list(rows.values()))), binary=True
    )
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
    done = subprocess.run(
        command, shell=True, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
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
    targets = re.findall(
        r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert set(MAKE) <= set(targets)


def test_readme_says_the_same_in_both_languages() -> None:
    assert commands("README.zh.md") == commands("README.md")


def test_every_command_works(project: Path) -> None:
    for command in TYPED:
        if re.fullmatch(r"hanlattice [^|<>]+", command):
            code, said = run_here(command)
        else:
            assert re.match(r"echo .*(\| hanlattice |> \w+\.txt$)", command), (
                f"a command of another kind: {command}"
            )
            code, said = run_in_shell(command)
        assert code == 0, f"{command}\n{said}"
        assert said.strip() or "> " in command or "--out" in command, f"{command} said nothing"


def reason_not_to_run(command: str) -> str:
    return next((reason for pattern, reason in NOT_RUN.items() if re.search(pattern, command)), "")


def quick(page: str) -> list[str]:
    return [command for command in shell_commands(page) if not reason_not_to_run(command)]


def test_the_quick_commands_of_the_other_pages_work(project: Path) -> None:
    (project / "texts.txt").write_text("南京市长江大桥\n", encoding="utf-8")
    (project / "names.txt").write_text("云栖小镇\n", encoding="utf-8")
    shutil.copy(project / "test.bmes", project / "gold.bmes")
    (project / "benchmarks" / "results").mkdir(parents=True)
    tried = 0
    for command in dict.fromkeys(
        each for page in OTHERS if page not in ELSEWHERE for each in quick(page)
    ):
        if command.endswith(".spacy") and find_spec("spacy") is None:
            continue  # pip install 'hanlattice[spacy]'
        here = re.fullmatch(r"hanlattice [^|<>]+", command)
        code, said = run_here(command) if here else run_in_shell(command)
        assert code == 0, f"{command}\n{said}"
        tried += 1
    assert tried >= 12


def words_of(command: str) -> list[list[str]]:
    """The programs of a command with their arguments: those of a pipe, and without what
    redirects.
    """
    programs: list[list[str]] = [[]]
    for word in shlex.split(re.sub(r"\[(--[\w-]+)\]", r"\1", command)):
        if word in ("|", ";", "&&"):
            programs.append([])
        elif word.startswith((">", "<")):
            programs.append(["a file"])
        else:
            programs[-1].append(word)
    return [words for words in programs if words]


@cache
def program() -> Any:
    return typer.main.get_command(app)


def check_options(words: list[str]) -> None:
    """The program's own parser takes them, and the configuration that they name takes their
    settings.
    """
    verb = program()
    name = ""
    while hasattr(verb, "commands"):
        name = words.pop(0)
        verb = verb.commands[name]
    given = verb.make_context(name, words).params
    if name == "train" and given["config"].startswith("configs/"):
        read_config(
            ROOT / given["config"], given["changes"] or (), variant=given["variant"], complete=True
        )
    if name == "compare":
        files = [ROOT / file for file in given["configs"] if file.startswith("configs/")]
        known = {variant for file in files for variant in variant_names(file)}
        assert set((given["variants"] or "all").split(",")) <= known | {"all"}


@pytest.mark.parametrize(
    "command",
    [
        "train configs/demo.toml --set train.nothing=1 --out runs/x",
        "train configs/weibo.toml --variant nothing --out runs/x",
        "train configs/nothing.toml --out runs/x",
        "compare configs/weibo.toml --variants nothing",
        "tag --format nothing 好",
        "tag --nothing 好",
        "tag",
        "nothing",
    ],
)
def test_the_check_sees_what_is_wrong(command: str) -> None:
    with pytest.raises(Exception, match=r"nothing|Missing|train\.nothing"):
        check_options(command.split())


def check_script(words: list[str]) -> None:
    source = "".join(
        (ROOT / name).read_text(encoding="utf-8") for name in (words[1], "benchmarks/script.py")
    )
    unknown = [
        word for word in words if re.fullmatch(r"--\w[\w-]*", word) and f'"{word}"' not in source
    ]
    assert not unknown, f"{words[1]} has no {', '.join(unknown)}"


@pytest.mark.parametrize("page", OTHERS)
def test_every_command_of_the_other_pages_can_be_typed(page: str, project: Path) -> None:
    for command in shell_commands(page):
        for words in words_of(command):
            while words[0] == "time" or "=" in words[0]:
                words = words[1:]
            try:
                if words[0] in ("hanlattice", "torchrun"):
                    check_options(words[words.index("hanlattice") + 1 :])
                elif words[0] == "python" and words[1] != "-c":
                    check_script(words)
                else:
                    assert words[0] in SHELL, f"no program of which this test knows: {words[0]}"
            except Exception as error:
                raise AssertionError(f"{command}: {error}") from error


@pytest.mark.parametrize("code", PYTHON)
def test_every_piece_of_python_works(
    project: Path, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "text.txt").write_text(
        "他来到了网易杭研大厦\n", encoding="utf-8"
    )  # what a command leaves there
    exec(compile(code, "a page", "exec"), {})
