"""A short `make fuzz`, and the cases that once failed."""

from __future__ import annotations

import json

import pytest

from hanlattice.ops import library
from tests.stress.fuzz import CHECKS, FOUND, ROUND, search

KEPT = (
    [json.loads(line) for line in FOUND.read_text("utf-8").splitlines()] if FOUND.exists() else []
)


@pytest.mark.skipif(bool(library.missing()), reason=f"no C library: {library.missing()}")
@pytest.mark.parametrize("name", CHECKS)
def test_a_few_cases(name: str) -> None:
    if name == "triton":
        pytest.importorskip(
            "triton", reason="Triton is not installed: pip install 'hanlattice[triton]'"
        )
    search(name, CHECKS[name], 0, min(5, ROUND[name]))


@pytest.mark.parametrize("found", KEPT, ids=str)
def test_what_was_found_stays_mended(found: dict[str, object]) -> None:
    CHECKS[str(found["check"])](found["case"])  # type: ignore[arg-type]
