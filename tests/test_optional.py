"""Optional libraries: imported when used, quiet, and named with the extra that brings them where
they are missing.
"""

from __future__ import annotations

import logging
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from hanlattice import optional
from hanlattice.errors import HanlatticeError
from hanlattice.optional import quiet, require, versions

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def test_what_is_there_is_imported():
    assert require("rjieba") is sys.modules["rjieba"]
    assert require("tokenizers", "models") is sys.modules["tokenizers.models"]


@pytest.mark.parametrize(
    ("package", "brings"),
    [("rjieba", "segment"), ("gensim", "pretrain"), ("tokenizers", "pretrain")],
)
def test_what_is_missing_is_named_with_its_extra(monkeypatch, package, brings):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        HanlatticeError, match=rf"{package} is not installed.*pip install 'hanlattice\[{brings}\]'"
    ):
        require(package)


def test_every_extra_that_is_named_brings_its_package():
    listed = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    for package, brings in optional.EXTRA_OF.items():
        named = [requirement.partition(">=")[0].partition("[")[0] for requirement in listed[brings]]
        assert package.replace("_", "-") in named
    assert set(listed["segment"]) <= set(listed["pretrain"])


def test_quiet_is_quiet_and_ends(caplog):
    logger = logging.getLogger("gensim")
    with quiet("gensim"):
        logger.error("unheard")
        warnings.warn("unseen", stacklevel=1)
    logger.error("heard")
    assert caplog.messages == ["heard"]
    with pytest.warns(UserWarning, match="seen"):
        warnings.warn("seen", stacklevel=1)


def test_versions_name_the_packages():
    assert set(versions("rjieba", "numpy")) == {"hanlattice", "python", "rjieba", "numpy"}
