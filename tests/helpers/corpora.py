"""Real corpora. They are not part of the project: docs/results.md says where to get them."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "corpora"


def find_corpus(name: str) -> Path:
    """Return a file of `corpora/`; skip the test that asks for it if it is missing."""
    if not (FOLDER / name).is_file():
        pytest.skip(f"corpora/{name} is missing: docs/results.md says where to get it")
    return FOLDER / name
