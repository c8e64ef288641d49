"""The documentation holds together: links, contents, commands that are mentioned, names of the API,
and the site.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import hanlattice
from hanlattice import errors
from hanlattice.document import Document
from hanlattice.text.span import Span
from tests.helpers.documents import PAGES, ROOT, blocks, prose, read
from tests.helpers.patience import PATIENCE
from tests.test_imports import FLOORS

LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
SOURCE = ROOT / "src" / "hanlattice"
OPS = ("crf", "lattice_lstm")
IN_BACKTICKS = re.compile(r"`([^`\n]+)`")
A_PATH = re.compile(r"[\w.-]*[\w-]/(?:[\w.-]+/?)*|[\w-]+\.(?:c|h|md|py|toml|txt)")
NOT_HERE = (".venv/", "corpora/")  # what `make` and a reader put there


def load(name: str) -> ModuleType:
    """A script of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def anchors(page: Path) -> set[str]:
    """Those of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    plain = (
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in headings
    )
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    for target in LINK.findall(prose(page)):
        path, _, anchor = target.partition("#")
        if ":" in path:
            continue
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), target


def test_the_contents_of_the_site_list_every_page() -> None:
    listed = re.findall(r": ([\w-]+\.md)$", read("mkdocs.yml"), flags=re.MULTILINE)
    written = {page.name for page in (ROOT / "docs").glob("*.md")}
    brought = set(re.findall(r"\"([\w-]+\.md)\",", read("docs/hooks.py")))
    assert len(listed) == len(set(listed))
    assert set(listed) == written | brought


def test_the_page_of_commands_is_fresh() -> None:
    assert load("cli").page() == read("docs/cli.md"), (
        "docs/cli.md is stale: `make docs` or `python docs/cli.py`"
    )


def mentioned() -> Iterator[tuple[str, str]]:
    """Every `hanlattice VERB …` in code on any page, with the page; a command may go on after a
    backslash.
    """
    for name in NAMES:
        code = [
            block.text.replace("\\\n", " ")
            for block in blocks(name)
            if block.language in ("", "console", "sh", "bash")
        ]
        code += re.findall(r"`([^`]+)`", prose(name))
        for line in "\n".join(code).splitlines():
            for found in re.findall(r"(?:^|\| |\$ |; )(hanlattice [a-z].*)", line):
                yield name, found.partition("  #")[0]


def test_commands_that_are_mentioned_have_the_options_they_show() -> None:
    cli = load("cli")
    verbs = {
        name: {word for each in cli.parameters_of(verb) for word in each.names}
        for name, verb in cli.verbs_of()
    }
    count = 0
    for page, command in mentioned():
        verb = next((verb for verb in verbs if re.match(rf"{verb}(?=$|\s)", command)), None)
        assert verb or any(
            known.startswith(f"{command.split(' -')[0].strip()} ") for known in verbs
        ), (page, command)
        options = re.findall(r"(?<=\s)--?[a-z][\w-]*", command)
        assert set(options) <= verbs.get(verb or "", set()) | {"--help", "--version"}, (
            page,
            command,
        )
        count += len(options)
    assert count > 100


def resolved(name: str) -> object:
    """The thing that a name with dots means; AttributeError where there is none."""
    parts = name.split(".")
    modules = (_module(".".join(parts[:count])) for count in range(len(parts), 0, -1))
    module = next(module for module in modules if module is not None)
    thing: object = module
    for part in parts[len(module.__name__.split(".")) :]:
        thing = getattr(thing, part)
    return thing


def test_names_of_the_api_page_exist() -> None:
    page = read("docs/api.md")
    names = re.findall(r"^::: ([\w.]+)$", page, flags=re.MULTILINE)
    assert len(names) > 20
    lists = re.findall(r"^::: ([\w.]+)\n    options:\n      members: \[(.*)\]$", page, re.MULTILINE)
    names += [f"{name}.{member}" for name, members in lists for member in members.split(", ")]
    for name in names:
        assert (getattr(resolved(name), "__doc__", None) or "").strip(), f"{name} has no docstring"


@pytest.mark.parametrize("page", NAMES)
def test_names_with_dots_exist(page: str) -> None:
    code = [block.text for block in blocks(page) if block.language == "python"]
    code += IN_BACKTICKS.findall(prose(page))
    names = set(re.findall(r"(?<![\w./-])hanlattice(?:\.[a-zA-Z_]\w*)+", "\n".join(code)))
    for name in names - {"hanlattice.words"}:  # a name in spaCy's registry
        resolved(name)


def test_every_error_is_on_the_api_page() -> None:
    kinds = {
        name
        for name, thing in vars(errors).items()
        if isinstance(thing, type) and issubclass(thing, Exception)
    }
    named = re.findall(r"^\| `(\w+(?:Error|Warning))`", read("docs/api.md"), flags=re.MULTILINE)
    assert set(named) == kinds - {"HanlatticeError"}


def test_the_page_of_promises_lists_every_public_name() -> None:
    rows = dict(
        re.findall(
            r"^\| `(hanlattice[\w.]*)` \| (.+) \|$", read("docs/stability.md"), flags=re.MULTILINE
        )
    )
    names = {module: re.findall(r"`(\w+)`", row) for module, row in rows.items()}
    assert names["hanlattice"] == sorted(hanlattice.__all__)
    op = importlib.import_module("hanlattice.ops.lattice_lstm")
    op_names = names["hanlattice.ops.lattice_lstm"]
    assert op_names
    for name in op_names:
        # `reference` is a module, which is an attribute only once it has been imported.
        assert hasattr(op, name) or importlib.import_module(f"{op.__name__}.{name}")


def test_the_page_of_promises_lists_every_field_of_a_document() -> None:
    fields = {"span": set[str](), "line": set[str]()}
    table = r"^\| (`\w+`(?:, `\w+`)*) \| a (line|span) \|"
    for names, place in re.findall(table, read("docs/stability.md"), flags=re.MULTILINE):
        fields[place] |= set(re.findall(r"\w+", names))
    spans = (Span(0, 3, "LOC", 0.5, "南京市"),)
    record = Document("南京市", spans, candidates=spans, score=0.5, words=spans).to_dict()
    assert fields["line"] - {"file", "line"} == set(record)
    assert all(set(span) == fields["span"] for span in record["spans"])


def test_the_page_of_promises_has_the_format_number_of_model_folders() -> None:
    (promised,) = re.findall(r'`"format": (\d+)`', read("docs/stability.md"))
    folder = Path(hanlattice.__file__).parent / "shipped" / "ner"
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["format"] == int(
        promised
    )


def paths_in(text: str) -> Iterator[str]:
    """Every path in backticks; one of any op, as `ops/OP/README.md`, is a path of each op."""
    for word in " ".join(IN_BACKTICKS.findall(text)).split():
        if re.fullmatch(A_PATH, word) and not word.startswith(NOT_HERE):
            yield from {re.sub(r"\bOP\b|(?<=_)OP(?=\.)", op, word) for op in OPS}


def exists(path: str) -> bool:
    """Whether there is such a file or folder, below the sources or the top; a name alone may be
    anywhere. Of a file called NAME it is the folder that counts.
    """
    if "NAME" in path:
        path = str(Path(path).parent)
    places = (ROOT / path, SOURCE / path)
    return any(place.exists() for place in places) or (
        "/" not in path and any(next(top.rglob(path), None) for top in (SOURCE, ROOT / "tests"))
    )


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_paths_in_backticks_exist(name: str) -> None:
    paths = set(paths_in(prose(name)))
    assert len(paths) > 20
    assert not [path for path in sorted(paths) if not exists(path)]


def test_the_check_sees_paths_that_do_not_exist() -> None:
    text = (
        "`ops/OP/README.md`, `pytest tests/text -n 2`, `text/no.py`, `no.py`, `NAME`, `no/NAME.py`"
    )
    paths = list(dict.fromkeys(paths_in(text)))
    assert len(paths) == 6
    assert [path for path in paths if not exists(path)] == ["text/no.py", "no.py", "no/NAME.py"]


def test_make_has_every_target_that_a_page_names() -> None:
    targets = re.findall(r"^([a-z-]+):", read("Makefile"), flags=re.MULTILINE)
    for page in NAMES:
        code = [block.text for block in blocks(page)] + IN_BACKTICKS.findall(prose(page))
        named = re.findall(r"(?:^|\d )make ([a-z-]+)", "\n".join(code), flags=re.MULTILINE)
        assert set(named) <= set(targets), page


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_quick_and_make_test_numpy_run_files_that_exist() -> None:
    command = ["make", "--dry-run", "--assume-old=.venv/test-installed", "quick", "test-numpy"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = re.findall(r"tests/[\w/]+(?:\.py)?", done.stdout)
    assert len(paths) > 20
    assert not [path for path in paths if not (ROOT / path).exists()]


def definitions(path: Path) -> set[str]:
    """The functions and classes of a file, and the methods as `Class.method`."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            inner = node.body if isinstance(node, ast.ClassDef) else []
            names |= {
                f"{node.name}.{method.name}"
                for method in inner
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            }
        elif isinstance(node, ast.AsyncFunctionDef):
            names.add(node.name)
    return names


def test_the_four_ways_name_functions_of_their_files() -> None:
    rows = re.findall(
        r"^\| `([\w/]+\.py)` \| (`[^|]+`) \|", read("docs/architecture.md"), flags=re.MULTILINE
    )
    assert len(rows) > 40
    for file, cell in rows:
        assert set(IN_BACKTICKS.findall(cell)) <= definitions(SOURCE / file), file


def test_names_on_the_page_of_the_architecture_are_in_the_code() -> None:
    files = [*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"), ROOT / "Makefile"]
    known = set(re.findall(r"\w+", " ".join(file.read_text(encoding="utf-8") for file in files)))
    named = IN_BACKTICKS.findall(prose("docs/architecture.md"))
    words = {word for code in named if re.fullmatch(r"[\w.]+", code) for word in code.split(".")}
    assert not words - known - {file.stem for file in SOURCE.rglob("*")} - {""}


def test_the_page_of_the_architecture_has_the_floors_of_the_import_test() -> None:
    (floors,) = (block.text for block in blocks("docs/architecture.md") if block.language == "text")
    assert [tuple(line.split()) for line in floors.splitlines()] == list(FLOORS)


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it; a warning fails it (with --quiet mkdocs would not
    see any).
    """
    if (
        importlib.util.find_spec("mkdocs") is None
        or importlib.util.find_spec("mkdocstrings") is None
    ):
        pytest.skip("mkdocs is not installed: pip install 'hanlattice[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
    return folder


def test_the_site_needs_no_network(site: Path) -> None:
    pages = list(site.glob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|img|iframe|source)[^>]+src=\"(?:https?:)?//[^\"]*", text)
        assert not fetched, page.name
        assert not re.findall(r"<link[^>]+href=\"(?:https?:)?//[^\"]*", text), page.name
    for style in site.rglob("*.css"):
        assert not re.search(
            r"url\(['\"]?(?:https?:)?//|@import", style.read_text(encoding="utf-8")
        ), style.name


def test_the_site_has_no_markdown_left_over(site: Path) -> None:
    for page in site.glob("*.html"):
        text = re.sub(
            r"<(pre|script|code)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        left = re.findall(
            r"^(?:<p>)?(?:\|.*\|$|- \S.*|#+ .*|```.*|:::.*)", text, flags=re.MULTILINE
        )
        assert not left, page.name
