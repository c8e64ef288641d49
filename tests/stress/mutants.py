"""Mutation testing: do the tests of a module notice when the module is changed?

`python -m tests.stress.mutants SHARE SEED [PART …]` (`make mutants`) changes a random SHARE of the
places that cosmic-ray can change, one at a time, and runs the tests of the module. Only modules
whose name contains a PART are changed. A change is made when the module is imported, in another
process, so no file is touched. Changes that no test notices are printed.
"""

from __future__ import annotations

import ast
import difflib
import os
import random
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

# Imported before the fork, so that no process imports it again.
import torch  # noqa: F401
from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

SOURCE = Path(__file__).parents[2] / "src" / "hanlattice"
TESTS = {
    "ops/lattice_lstm/reference": "ops/test_lattice_lstm",
    "ops/lattice_lstm/batched": "ops/test_lattice_lstm",
    "ops/crf/reference": "ops/test_crf -k not(fused)",
    "ops/crf/batched": "ops/test_crf -k not(fused)",
    "text/boundaries": "text/test_joints text/test_cut text/test_solid",
    "text/dictionary": "text/test_dictionary",
    "text/display": "text/test_display",
    "text/fork_safety": "test_fork stress/test_soak -k not(some_seconds)and(not(child_tags))",
    "text/lattice": "text/test_lattice text/test_segments",
    "text/lexicon": "text/test_lexicon text/test_growing text/test_dictionary",
    "text/trie": "text/test_trie text/test_growing",
    "text/normalize": "text/test_normalize",
    "text/pieces": "text/test_pieces",
    "text/rules": "text/test_dictionary test_labelled_words inference/test_dictionary_crf",
    "text/segment": "text/test_segment",
    "text/sentence": "text/test_sentence",
    "text/span": "text/test_span",
    "text/tags": "text/test_tags text/test_tag_ids",
    "text/vectors": "text/test_vectors",
    "text/vocab": "text/test_vocab text/test_bigrams",
    "evaluation/breakdown": "evaluation/test_breakdown",
    "evaluation/calibration": "evaluation/test_calibration",
    "lab/mistakes": "lab/test_mistakes",
    "evaluation/ner": "evaluation/test_ner",
    "evaluation/platt": "evaluation/test_platt",
    "evaluation/report": "evaluation/test_report",
    "evaluation/segmentation": "evaluation/test_segmentation",
    "evaluation/significance": "evaluation/test_significance",
    "evaluation/statistics": "evaluation/test_statistics",
    "inference/decode": "inference/test_decode cli/test_segment",
}


class Changed(SourceFileLoader):
    """Import one module with changed code, and all others unchanged."""

    def __init__(self, path: Path, code: str) -> None:
        parts = path.relative_to(SOURCE).with_suffix("").parts
        super().__init__(".".join(("hanlattice", *parts)), str(path))
        self.code = code

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == self.name else None
        if spec is not None:
            spec.loader = self
        return spec

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.code, self.path, "exec")


def meaning(code: str) -> str:
    """Return the syntax tree of a program without annotations, or "" for a syntax error."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
        if isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(tree)


def mutants(path: Path, share: float, chance: random.Random) -> Iterator[str]:
    """Yield changed programs: one change in each place of a random share."""
    code = path.read_text("utf-8")
    original = meaning(code)
    nodes = list(ast_nodes(get_ast(code)))
    places = defaultdict[Any, list[tuple[str, int]]](list)
    for name in plugins.operator_names():
        operator = plugins.get_operator(name)
        if operator.arguments():
            continue
        spans = (span for node in nodes for span in operator().mutation_positions(node))
        for index, (start, _) in enumerate(spans):
            places[start].append((name, index))
    for start in sorted(places):
        name, index = chance.choice(places[start])
        if chance.random() < share:
            changed = mutate_code(code, plugins.get_operator(name)(), index)
            if meaning(changed) not in ("", original):
                yield changed


def survives(path: Path, code: str, tests: str) -> bool:
    """Return whether the tests pass with this code, within two minutes of computing."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
    # A process that hangs computes nothing, so it gets a limit of its own.
    signal.alarm(1200)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    sys.meta_path.insert(0, Changed(path, code))  # type: ignore[arg-type]
    files, _, chosen = tests.partition(" -k ")
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *(["-k", chosen] if chosen else [])]
    os._exit(pytest.main([*options, *(f"tests/{name}.py" for name in files.split())]))


def main(share: float, seed: int, parts: list[str]) -> None:
    """Test the modules, and print what survives."""
    total = Counter[bool]()
    for name, tests in TESTS.items():
        if parts and not any(part in name for part in parts):
            continue
        path = SOURCE / f"{name}.py"
        chance = random.Random(f"{name} {seed}")
        began = time.monotonic()
        code = path.read_text("utf-8")
        counts = Counter[bool]()
        for changed in mutants(path, share, chance):
            alive = survives(path, changed, tests)
            counts[alive] += 1
            if alive:
                lines = difflib.unified_diff(
                    code.splitlines(), changed.splitlines(), name, name, n=0, lineterm=""
                )
                print("\n".join(list(lines)[2:]), flush=True)  # noqa: T201
        assert counts[True] or survives(path, code, tests), (
            f"the tests of {name} fail without a change"
        )
        total += counts
        seconds = time.monotonic() - began
        killed = f"{counts[False]} of {counts.total()} killed"
        print(f"{name}: {killed}, {seconds:.0f} s", flush=True)  # noqa: T201
    print(f"{total[False]} of {total.total()} killed")  # noqa: T201


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
