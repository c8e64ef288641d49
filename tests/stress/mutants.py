"""Mutation testing: do the tests of a module notice when it is changed?

`python -m tests.stress.mutants SHARE SEED [PART …]` (make mutants): in such a share of the places
that cosmic-ray can change, of the modules whose name has one of the PARTs, one change each, drawn
at random, against the tests of that module. The change is made as the module is imported, in a
process of its own; no file is touched. What survives is shown.
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
import torch  # noqa: F401 (what every process would import)
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
    "text/forks": "test_fork stress/test_soak -k not(some_seconds)and(not(child_tags))",
    "text/lattice": "text/test_lattice text/test_segments",
    "text/lexicon": "text/test_lexicon text/test_growing text/test_dictionary",
    "text/matcher": "text/test_matcher text/test_growing",
    "text/normal": "text/test_normal",
    "text/pieces": "text/test_pieces",
    "text/rules": "text/test_dictionary test_labelled_words runtime/test_labelled",
    "text/segmenter": "text/test_segmenter",
    "text/sentence": "text/test_sentence",
    "text/spans": "text/test_spans",
    "text/tags": "text/test_tags text/test_tag_ids",
    "text/vectors": "text/test_vectors",
    "text/vocab": "text/test_vocab text/test_bigrams",
    "evaluation/breakdown": "evaluation/test_breakdown",
    "evaluation/calibration": "evaluation/test_calibration",
    "evaluation/mistakes": "evaluation/test_mistakes",
    "evaluation/ner": "evaluation/test_ner",
    "evaluation/platt": "evaluation/test_platt",
    "evaluation/report": "evaluation/test_report",
    "evaluation/segmentation": "evaluation/test_segmentation",
    "evaluation/significance": "evaluation/test_significance",
    "evaluation/statistics": "evaluation/test_statistics",
    "models/decode": "models/test_decode cli/test_segment",
}


class Changed(SourceFileLoader):
    """Imports one module with other code, and all others as they are."""

    def __init__(self, path: Path, code: str) -> None:
        super().__init__(
            ".".join(("hanlattice", *path.relative_to(SOURCE).with_suffix("").parts)), str(path)
        )
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
    """The program without its annotations, which nobody evaluates; "" of one that is none."""
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
    """For a share of the places one change each."""
    code = path.read_text("utf-8")
    original = meaning(code)
    nodes = list(ast_nodes(get_ast(code)))
    places = defaultdict[Any, list[tuple[str, int]]](list)
    for name in plugins.operator_names():
        operator = plugins.get_operator(name)
        if operator.arguments():
            continue
        found = (place for node in nodes for place in operator().mutation_positions(node))
        for nth, place in enumerate(found):
            places[place[0]].append((name, nth))
    for place in sorted(places):
        name, nth = chance.choice(places[place])
        if chance.random() < share:
            changed = mutate_code(code, plugins.get_operator(name)(), nth)
            if meaning(changed) not in ("", original):
                yield changed


def survives(path: Path, code: str, tests: str) -> bool:
    """Whether these tests pass with this code; that it computes for two minutes or hangs for twenty
    is noticed, too.
    """
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
    signal.alarm(1200)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    sys.meta_path.insert(0, Changed(path, code))  # type: ignore[arg-type]
    files, _, chosen = tests.partition(" -k ")
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *(["-k", chosen] if chosen else [])]
    os._exit(pytest.main([*options, *(f"tests/{name}.py" for name in files.split())]))


def main(share: float, seed: int, parts: list[str]) -> None:
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
        print(f"{name}: {counts[False]} of {counts.total()} killed, {seconds:.0f} s", flush=True)  # noqa: T201
    print(f"{total[False]} of {total.total()} killed")  # noqa: T201


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
