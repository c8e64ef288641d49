"""Compiles the C sources of `hanlattice.ops` into one shared library while the package is being installed.

    python hatch_build.py [--out FILE] [--only OP]     # the same by hand, for work on the C sources

Every `src/hanlattice/ops/*/native*.c` is compiled for float and for double and, on x86-64, for three instruction sets;
`library.py` picks one when it loads the library. Without a C compiler, or when it fails, the installation goes on
without the library: everything then runs on torch.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

OPS = Path(__file__).parent / "src" / "hanlattice" / "ops"
LIBRARY = OPS / "libhanlattice.so"
FLAGS = [
    "-O3",
    "-std=gnu11",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-Wextra",
]
REALS = {"float": 0, "double": 1}
X86_LEVELS = {
    "baseline": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": [
        *("-mavx2", "-mfma", "-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw"),
        "-mprefer-vector-width=512",
    ],
}


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Wheels and editable installs get the library; a wheel that has it carries the platform's tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            build(LIBRARY)
        except (OSError, subprocess.CalledProcessError) as error:
            LIBRARY.unlink(missing_ok=True)  # one from an earlier build does not fit these sources
            self.app.display_warning(f"hanlattice goes on without its C library, with torch alone: {reason(error)}")
            return
        build_data["artifacts"].append(f"/{LIBRARY.relative_to(self.root).as_posix()}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"


def platform_tag() -> str:
    """This machine's own tag; a library compiled here promises nothing about other distributions (manylinux)."""
    tags = (tag.platform for tag in sys_tags())
    return next(tag for tag in tags if "manylinux" not in tag and "musllinux" not in tag)


def build(library: Path, op: str = "*") -> None:
    """Compile and link everything; the library appears whole, by one rename, or not at all."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = compilations(Path(folder), op)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, jobs))
        made = library.with_name(f".{library.name}.{os.getpid()}")
        run([*compiler(), "-shared", *(job[-1] for job in jobs), "-lm", "-o", str(made)])
        made.replace(library)


def compilations(folder: Path, op: str) -> list[list[str]]:
    """One command for each object file, which is its last word."""
    levels = known_levels(folder)
    start = [*compiler(), *FLAGS, f"-I{OPS}", "-c"]
    has = [f"-DHAS_{level.upper()}" for level in levels]
    jobs = [[*start, *has, str(OPS / "library.c"), "-o", str(folder / "library.o")]]
    for source in sorted(OPS.glob(f"{op}/native*.c")):
        for level, options in levels.items():
            for real, is_double in REALS.items():
                name = f"{source.parent.name}_{source.stem}_{real}_{level}.o"
                macros = [f"-DREAL_IS_DOUBLE={is_double}", f"-DSUFFIX=_{real}_{level}"]
                jobs.append([*start, *options, *macros, str(source), "-o", str(folder / name)])
    return jobs


def known_levels(folder: Path) -> dict[str, list[str]]:
    """The instruction sets of this kind of machine that the compiler can write."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return {"baseline": []}
    empty = folder / "empty.c"
    empty.write_text("int hanlattice_empty;\n")
    known = {}
    for level, options in X86_LEVELS.items():
        test = [*compiler(), *options, "-c", str(empty), "-o", str(folder / "empty.o")]
        if level == "baseline" or subprocess.run(test, capture_output=True).returncode == 0:
            known[level] = options
    return known


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "cc"))


def run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def reason(error: OSError | subprocess.CalledProcessError) -> str:
    """What the compiler said; without a compiler, what the system said."""
    return (getattr(error, "stderr", "") or str(error)).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile hanlattice's C library.")
    parser.add_argument("--out", type=Path, default=LIBRARY)
    parser.add_argument("--only", default="*", metavar="OP", help="one folder of ops/")
    options = parser.parse_args()
    try:
        build(options.out, options.only)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{options.out} was not built with {shlex.join(compiler())} (set CC to use another): {reason(error)}")


if __name__ == "__main__":
    main()
