"""The C code under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer; `make
sanitize` runs all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hanlattice.ops import library
from tests.test_build import ROOT, load

TESTS = (
    "tests/ops/test_native.py",
    "tests/ops/test_int8.py",
    "tests/ops/test_crf_native.py",
    "tests/ops/test_crf_arcs.py",
)
NOT_OURS = "race:libc10.so\n"  # torch's allocator, which the sanitizer knows nothing of
# What takes long and is long for other reasons.
QUICK = "not any_width and not equals_the_reference and not threads"

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux", reason="the sanitizers are loaded into Python as Linux does it"
    ),
    pytest.mark.skipif(bool(library.missing()), reason=f"no C library: {library.missing()}"),
]


def runtime(build: object, name: str) -> str:
    """The sanitizers' library, which has to be loaded before Python."""
    command = [*build.compiler(), f"-print-file-name={name}"]  # type: ignore[attr-defined]
    found = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip(f"this compiler has no {name}")
    return found


def watched(preloaded: str, library: Path, **options: str) -> dict[str, str]:
    """The environment of a process with that sanitizer and this library."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "LD_PRELOAD": preloaded, "HANLATTICE_LIBRARY": str(library), **options}


def check(
    folder: Path, levels: tuple[str, ...], only: str = ""
) -> subprocess.CompletedProcess[str]:
    """The tests of the C code with a library that checks each access."""
    build = load(ROOT / "hatch_build.py")
    preloaded = runtime(build, "libasan.so")
    file = folder / "libhanlattice.so"
    build.build(file, target=build.sanitized(levels))
    environment = watched(
        preloaded, file, ASAN_OPTIONS="detect_leaks=0"
    )  # Python leaves memory to the end
    # -s: what a sanitizer prints before it ends the process is not to be lost in what pytest
    # captures
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        *TESTS,
    ]
    return subprocess.run(
        [*command, "-k", only] if only else command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_nothing_outside_its_memory_is_touched_and_nothing_undefined_is_done(
    tmp_path: Path,
) -> None:
    """Plain vectors, without masked instructions: the sanitizers see every access of these."""
    done = check(tmp_path, ("baseline",), QUICK)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


@pytest.mark.slow
def test_every_instruction_set(tmp_path: Path) -> None:
    done = check(tmp_path, library.possible_levels())
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


def race(
    folder: Path, levels: tuple[str, ...], *arguments: str | Path
) -> subprocess.CompletedProcess[str]:
    """tests/ops/race.py with a library that knows which thread touched what."""
    build = load(ROOT / "hatch_build.py")
    preloaded = runtime(build, "libtsan.so")
    file = folder / "libhanlattice.so"
    target = build.sanitized(levels, build.THREAD_SANITIZER)
    build.build(
        file,
        target=target._replace(
            link=[str(Path(__file__).with_name("parallel.c")), "-fPIC", *target.link]
        ),
    )
    (folder / "not_ours").write_text(NOT_OURS)
    environment = watched(
        preloaded,
        file,
        TSAN_OPTIONS=f"exitcode=66 suppressions={folder / 'not_ours'}",
        PYTHONPATH=os.pathsep.join(sys.path),
        OMP_NUM_THREADS="1",
    )
    command = [sys.executable, "-m", "tests.ops.race", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer does not run with the address space of this kernel")
    return done


def test_threads_never_touch_the_same_memory(tmp_path: Path, lattice_folder: Path) -> None:
    done = race(tmp_path, ("baseline",), lattice_folder, "1")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


@pytest.mark.slow
def test_threads_at_every_instruction_set(tmp_path: Path, lattice_folder: Path) -> None:
    done = race(tmp_path, library.possible_levels(), lattice_folder, "5")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


@pytest.mark.slow
def test_a_race_is_seen(tmp_path: Path) -> None:
    done = race(tmp_path, ("baseline",), "--race", "1")
    assert done.returncode == 66, done.stderr[-3000:]
    assert "in test_race" in done.stderr
