"""Imports run one way only, the ground floor does without torch, and the public names are there."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

import hanlattice

ROOT = Path(hanlattice.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# A module or folder may import its own folder and whatever stands further down; not its neighbours
# on the same floor.
FLOORS = (
    ("__main__",),
    ("cli",),
    ("corpus", "lab"),
    ("tasks",),
    ("bundled", "client", "ray", "server", "spacy", "training"),
    ("predict",),
    ("explain",),
    ("checkpoint",),
    ("nn",),
    ("inference", "output"),
    ("document", "evaluation"),
    ("data", "features", "ops", "theme"),
    ("config", "events", "text"),
    ("checks", "files"),
    ("encodings", "optional"),
    ("errors",),
)
FLOOR = {unit: floor for floor, units in enumerate(FLOORS) for unit in units}


def imported(source: str) -> Iterator[str]:
    """The full name of everything that a file imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: an import must name its module in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def unit_of(path: Path) -> str:
    """The module or folder of the package that a file belongs to."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def wrong_way(unit: str, source: str) -> list[str]:
    names = [name.split(".") for name in imported(source)]
    names = [
        parts for parts in names if parts[0] == "hanlattice" and parts[1:] != ["__version__"]
    ]  # it is a constant
    units = [parts[1] if parts[1:] else "" for parts in names]
    return [other for other in units if other != unit and FLOOR.get(other, -1) <= FLOOR[unit]]


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path != ROOT / "__init__.py"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_imports_run_one_way(path):
    unit = unit_of(path)
    assert unit in FLOOR, f"{unit} is new: give it its floor here and in docs/architecture.md"
    assert not wrong_way(unit, path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("unit", "source", "found"),
    [
        ("text", "import torch, os.path", []),
        ("text", "from hanlattice.text.tags import x", []),
        ("text", "from hanlattice.errors import x", []),
        ("text", "from hanlattice.config import x", ["config"]),
        ("text", "def f():\n    from hanlattice import config", ["config"]),
        ("data", "import hanlattice.cli.tag", ["cli"]),
        ("data", "if x:\n    import hanlattice", [""]),
        ("data", "from hanlattice import Span", ["Span"]),
        ("cli", "from hanlattice import __version__", []),
        (
            "checkpoint",
            "from hanlattice.nn import crf\nfrom hanlattice.training import loop",
            ["training"],
        ),
    ],
)
def test_the_check_sees_wrong_ways(unit, source, found):
    assert wrong_way(unit, source) == found


def module_of(path: Path) -> str:
    """The full name of a file's module."""
    parts = ["hanlattice", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def cycle_in(imports: Mapping[str, Collection[str]]) -> list[str]:
    """Return modules that import each other in a circle, or an empty list."""
    done: set[str] = set()

    def visit(module: str, way: list[str]) -> list[str]:
        if module in way:
            return [*way[way.index(module) :], module]
        if module in done:
            return []
        for other in imports[module]:
            if circle := visit(other, [*way, module]):
                return circle
        done.add(module)
        return []

    return next((circle for module in imports if (circle := visit(module, []))), [])


def test_no_files_import_each_other_in_a_circle():
    """Imports inside functions, and those for types alone, count as well."""
    modules = {module_of(path): path for path in FILES if path != ROOT / "__init__.py"}
    imports: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = set(imported(path.read_text(encoding="utf-8")))
        found = {name if name in modules else name.rpartition(".")[0] for name in names}
        imports[module] = (found & modules.keys()) - {module}
    assert not cycle_in(imports)


def test_the_check_sees_circles():
    assert cycle_in({"a": ["b"], "b": ["c"], "c": []}) == []
    assert cycle_in({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]


def test_the_name_of_a_class_has_one_meaning():
    """The same for modules of torch and their twins in numpy."""
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module_of(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_every_file_was_looked_at():
    assert {unit_of(path) for path in FILES} == {*FLOOR, "__init__"}


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if unit_of(path) in ("text", "config", "optional", "files", "errors")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_the_ground_floor_does_without_torch(path):
    assert "torch" not in {
        name.split(".")[0] for name in imported(path.read_text(encoding="utf-8"))
    }


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in FILES
        if unit_of(path)
        in (
            "features",
            "cli",
            "data",
            "document",
            "evaluation",
            "explain",
            "output",
            "predict",
            "inference",
            "theme",
        )
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_tagging_does_without_torch(path):
    """Inside functions it may be imported, and for the types."""
    top = ast.Module(
        [node for node in ast.parse(path.read_text(encoding="utf-8")).body if not _is_block(node)],
        [],
    )
    assert "torch" not in {name.split(".")[0] for name in imported(ast.unparse(top))}


def _is_block(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef | ast.If)


@pytest.mark.parametrize(
    "does",
    [
        "from hanlattice import Lattice, Lexicon, Span; import hanlattice.cli",
        "assert {*hanlattice.__all__, '__version__'} == {*dir(hanlattice)}, dir(hanlattice)",
        "assert hanlattice.load('ner')('南京市长江大桥').spans",
    ],
    ids=["the text side", "the list of all names", "tagging"],
)
def test_this_does_not_load_what_takes_long(does):
    """Neither torch nor numpy.ma, which np.unique loads."""
    code = (
        f"import sys, hanlattice\n{does}\nsys.exit(' '.join({{'torch', 'numpy.ma'}} & "
        f"{{*sys.modules}}) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_public_names_resolve():
    assert set(hanlattice.__all__) == {
        "Client",
        "Document",
        "Lattice",
        "Lexicon",
        "Predictor",
        "Span",
        "analyse",
        "connect",
        "cut",
        "lcut",
        "load",
    }
    for name in hanlattice.__all__:
        assert getattr(hanlattice, name) is not None
    with pytest.raises(AttributeError, match="module 'hanlattice' has no attribute 'nothing'"):
        hanlattice.nothing  # noqa: B018 (the access is the test)
