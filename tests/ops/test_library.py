"""How the C library is found, chosen, turned off and missed; and how it is built."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest
import torch

from hanlattice.ops import library

ROOT = Path(__file__).parents[2]
HAS_LIBRARY = not library.missing()
needs_library = pytest.mark.skipif(not HAS_LIBRARY, reason=f"no C library: {library.missing()}")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The environment as it comes without our variables; the library is looked for again, also afterwards."""
    monkeypatch.delenv("HANLATTICE_NATIVE", raising=False)
    library.loaded.cache_clear()
    library.function.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    library.loaded.cache_clear()
    library.function.cache_clear()


@pytest.mark.skipif(not shutil.which(os.environ.get("CC", "cc")), reason="this machine has no C compiler")
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
    single, double = torch.zeros(1), torch.zeros(1, dtype=torch.float64)
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
    with pytest.raises(RuntimeError, match="has no no_such_function: it is older than this package"):
        library.function("no_such_function", dtype)


@pytest.fixture
def build() -> ModuleType:
    pytest.importorskip("hatchling", reason="hatchling, which builds the package, is not installed here")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_hook(build: ModuleType) -> tuple[object, mock.Mock]:
    app = mock.Mock()
    return build.CustomBuildHook(str(ROOT), {}, None, mock.Mock(), "", "wheel", app), app


def test_a_build_without_compiler_goes_on_and_says_so(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "nothing"))
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "libhanlattice.so")
    build.LIBRARY.write_text("from an earlier build")
    hook, app = make_hook(build)
    data: dict[str, object] = {"artifacts": []}
    hook.initialize("standard", data)
    assert data == {"artifacts": []}  # a pure wheel
    assert not build.LIBRARY.exists()
    assert "without its C library" in app.display_warning.call_args.args[0]


def test_a_compiler_that_fails_is_heard(build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho the disk is full >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "libhanlattice.so")
    hook, app = make_hook(build)
    hook.initialize("editable", {"artifacts": []})
    assert "the disk is full" in app.display_warning.call_args.args[0]
    assert [file.name for file in tmp_path.iterdir()] == ["cc"]


def test_by_hand_a_missing_compiler_ends_the_build_in_one_line(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out, compiler = tmp_path / "made.so", tmp_path / "nothing"
    monkeypatch.setenv("CC", f"{compiler} -g")
    monkeypatch.setattr("sys.argv", ["hatch_build.py", "--out", str(out)])
    with pytest.raises(SystemExit, match=r"made\.so was not built with .*nothing -g .*No such file") as caught:
        build.main()
    assert isinstance(caught.value.code, str)  # which Python prints, and exits with 1
    assert caught.value.code.count("\n") == 0
    assert not out.exists()


def test_by_hand_a_compiler_that_fails_is_heard(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling, which builds the package, is not installed here")
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho the disk is full >&2\nexit 3\n")
    compiler.chmod(0o755)
    command = [sys.executable, str(ROOT / "hatch_build.py"), "--out", str(tmp_path / "made.so")]
    done = subprocess.run(command, env={**os.environ, "CC": str(compiler)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "was not built" in done.stderr
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["cc"]


def test_a_wheel_with_the_library_has_the_platforms_tag(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "build", lambda library: None)
    hook, app = make_hook(build)
    data: dict[str, object] = {"artifacts": []}
    hook.initialize("standard", data)
    assert data["artifacts"] == ["/src/hanlattice/ops/libhanlattice.so"]
    assert data["pure_python"] is False
    assert str(data["tag"]).startswith("py3-none-")
    assert "any" not in str(data["tag"])
    assert not app.display_warning.called


def test_every_source_is_compiled_for_both_types_and_all_levels(build: ModuleType, tmp_path: Path) -> None:
    jobs = build.compilations(tmp_path, "lattice_lstm")
    levels = build.known_levels(tmp_path)
    sources = list((ROOT / "src/hanlattice/ops/lattice_lstm").glob("native*.c"))
    assert len(jobs) == 1 + 2 * len(levels) * len(sources)
    assert len({job[-1] for job in jobs}) == len(jobs)
