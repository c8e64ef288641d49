"""How the C library is found, chosen, turned off and missed."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from hanlattice.ops import library

HAS_LIBRARY = not library.missing()
needs_library = pytest.mark.skipif(not HAS_LIBRARY, reason=f"no C library: {library.missing()}")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The environment as it comes without our variables; the library is looked for again, also
    afterwards.
    """
    monkeypatch.delenv("HANLATTICE_NATIVE", raising=False)
    library.loaded.cache_clear()
    library.function.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    library.loaded.cache_clear()
    library.function.cache_clear()


@pytest.mark.skipif(
    not shutil.which(os.environ.get("CC", "cc")), reason="this machine has no C compiler"
)
@pytest.mark.skipif(os.environ.get("HANLATTICE_NATIVE") == "0", reason="HANLATTICE_NATIVE=0")
def test_where_there_is_a_compiler_there_is_a_library() -> None:
    assert library.missing() == ""


def test_it_can_be_turned_off(fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("HANLATTICE_NATIVE", "0")
    assert library.missing() == "HANLATTICE_NATIVE=0 turns it off"
    assert not library.available()
    assert library.possible_levels() == ()
    with pytest.raises(RuntimeError, match="HANLATTICE_NATIVE=0 turns it off"):
        library.function("lattice_padded", torch.float32)


def test_a_missing_file_is_named(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh.setenv("HANLATTICE_LIBRARY", str(tmp_path / "gone.so"))
    with pytest.warns(RuntimeWarning, match=r"runs without its C library: .*gone\.so is not there"):
        assert library.missing()
    assert not library.available(torch.zeros(1))


def test_a_file_that_is_no_library_is_named(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not a library")
    fresh.setenv("HANLATTICE_LIBRARY", str(tmp_path / "text.so"))
    with pytest.warns(RuntimeWarning, match=r"text\.so cannot be loaded"):
        assert library.missing()
    assert not library.available(torch.zeros(1))


@needs_library
def test_another_library_is_not_taken_for_ours(fresh: pytest.MonkeyPatch) -> None:
    other = next(Path(torch.__file__).parent.glob("lib/libshm.*"))
    fresh.setenv("HANLATTICE_LIBRARY", str(other))
    with pytest.warns(RuntimeWarning, match="cannot be loaded"):
        assert library.missing()


@needs_library
def test_an_instruction_set_can_be_chosen(fresh: pytest.MonkeyPatch) -> None:
    levels = library.possible_levels()
    assert levels[0] == "baseline"
    assert library.loaded().level == levels[-1]
    for level in levels:
        fresh.setenv("HANLATTICE_NATIVE", level)
        library.loaded.cache_clear()
        assert library.loaded().level == level


@needs_library
def test_an_instruction_set_that_is_not_there_is_refused(fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("HANLATTICE_NATIVE", "avx1024")
    with pytest.warns(RuntimeWarning, match="this machine can run baseline"):
        assert library.missing()


@needs_library
def test_what_it_is_available_for() -> None:
    single = torch.zeros(1)
    double = torch.zeros(1, dtype=torch.float64)
    assert library.available(single, single)
    assert library.available(double)
    assert not library.available(single, double)
    assert not library.available(single.half())
    assert not library.available(single.long())
    assert not library.available(single.to("meta"))


@needs_library
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_function_is_found_by_its_type(dtype: torch.dtype) -> None:
    padded = library.function("lattice_padded", dtype, ctypes.c_int64)
    width = padded(1)  # how many numbers a vector has
    assert width * dtype.itemsize in (16, 32, 64)
    assert padded(width + 1) == 2 * width
    with pytest.raises(
        RuntimeError, match="has no no_such_function: it is older than this package"
    ):
        library.function("no_such_function", dtype)
