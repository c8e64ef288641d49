"""Compiles the C sources of `hanlattice.ops` into one shared library while the package is being installed.

    python hatch_build.py [--out FILE] [--only OP]     # the same by hand, for work on the C sources
    python hatch_build.py --if-changed                 # what `make` does before it installs

Every `src/hanlattice/ops/*/native*.c` is compiled for float and for double and, on x86-64, for three instruction sets;
`library.py` picks one when it loads the library. Without a C compiler, or when it fails, the installation goes on
without the library: everything then runs on torch.

A stamp beside the library says what it was made from: sources, commands, compiler. While these are the same, an
installation takes the library as it is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # by hand, where nothing is installed yet: the hook is not used then
    BuildHookInterface = object  # type: ignore[assignment, misc]

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
            if not is_current(LIBRARY):
                build(LIBRARY)
        except (OSError, subprocess.CalledProcessError) as error:
            remove(LIBRARY)  # one from an earlier build does not fit these sources
            self.app.display_warning(f"hanlattice goes on without its C library, with torch alone: {reason(error)}")
            return
        build_data["artifacts"].append(f"/{LIBRARY.relative_to(self.root).as_posix()}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"


def platform_tag() -> str:
    """This machine's own tag; a library compiled here promises nothing about other distributions (manylinux)."""
    from packaging.tags import sys_tags  # a dependency of hatchling

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
        stamp_of(library).unlink(missing_ok=True)
        made.replace(library)
    if op == "*":
        facts = {"made from": fingerprint(), "library": digest(library.read_bytes())}
        stamp_of(library).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def is_current(library: Path) -> bool:
    """Whether the library is the one that was made from these sources, by these commands, with this compiler."""
    try:
        facts = json.loads(stamp_of(library).read_text(encoding="utf-8"))
        return bool(facts == {"made from": fingerprint(), "library": digest(library.read_bytes())})
    except (OSError, ValueError, subprocess.CalledProcessError):  # no library, no stamp, no compiler
        return False


def fingerprint() -> str:
    """Of everything that the library depends on; this file has the commands."""
    files = [Path(__file__), *sorted(OPS.rglob("*.[ch]"))]
    version = subprocess.run([*compiler(), "--version"], check=True, capture_output=True).stdout
    parts = [platform.machine().encode(), shlex.join(compiler()).encode(), version]
    for file in files:
        parts += [file.name.encode(), file.read_bytes()]
    return digest(*parts)


def digest(*parts: bytes) -> str:
    """Each part is hashed by itself, so that none can run into the next."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def stamp_of(library: Path) -> Path:
    return library.with_name(f"{library.name}.json")


def remove(library: Path) -> None:
    library.unlink(missing_ok=True)
    stamp_of(library).unlink(missing_ok=True)


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
    parser.add_argument("--if-changed", action="store_true", help="only if the library there is not up to date")
    options = parser.parse_args()
    if options.if_changed and is_current(options.out):
        say("the C library is up to date")
        return
    say("compiling the C library …")
    begin = time.monotonic()
    try:
        build(options.out, options.only)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{options.out} was not built with {shlex.join(compiler())} (set CC to use another): {reason(error)}")
    say(f"compiled the C library in {time.monotonic() - begin:.0f} s")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
