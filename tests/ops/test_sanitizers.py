"""The tests of the C code once more, with AddressSanitizer and UndefinedBehaviorSanitizer; `make sanitize` runs all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hanlattice.ops import library
from tests.test_build import ROOT, load

TESTS = ("tests/ops/test_native.py", "tests/ops/test_small.py", "tests/ops/test_crf_native.py")
QUICK = "not any_width and not equals_the_reference and not threads"  # what takes long and is long for other reasons

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sanitizers are loaded into Python as Linux does it"),
    pytest.mark.skipif(bool(library.missing()), reason=f"no C library: {library.missing()}"),
]


def runtime(build: object) -> str:
    """The sanitizers' library, which has to be loaded before Python."""
    command = [*build.compiler(), "-print-file-name=libasan.so"]  # type: ignore[attr-defined]
    found = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip("this compiler has no libasan.so")
    return found


def check(folder: Path, levels: tuple[str, ...], only: str = "") -> subprocess.CompletedProcess[str]:
    """The tests of the C code with a library that checks each access."""
    build = load(ROOT / "hatch_build.py")
    preloaded, file = runtime(build), folder / "libhanlattice.so"
    build.build(file, target=build.sanitized(levels))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "LD_PRELOAD": preloaded,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python leaves memory to the end of the process
        "HANLATTICE_LIBRARY": str(file),
    }
    # -s: what a sanitizer prints before it ends the process is not to be lost in what pytest captures
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTS]
    return subprocess.run(
        [*command, "-k", only] if only else command, cwd=ROOT, env=environment, capture_output=True, text=True
    )


def test_nothing_outside_its_memory_is_touched_and_nothing_undefined_is_done(tmp_path: Path) -> None:
    """Plain vectors, without masked instructions: the sanitizers see every access of these."""
    done = check(tmp_path, ("baseline",), QUICK)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_instruction_set(tmp_path: Path) -> None:
    done = check(tmp_path, library.possible_levels())
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
