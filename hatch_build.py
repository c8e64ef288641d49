"""Compile the C sources of `hanlattice.ops` into one shared library, when the package is installed.

    # Compile by hand, for work on the C sources
    python hatch_build.py [--out FILE] [--only OP]
    # Compile only if a source has changed, as `make` does before it installs
    python hatch_build.py --if-changed
    # Build wheels for other machines, as `make wheels` does
    python hatch_build.py --wheels dist [--for TAG]

Every `src/hanlattice/ops/*/native*.c` is compiled for float and for double, and for each
instruction set of the machine. `library.py` picks one when it loads the library. Without a C
compiler, or if it fails, the package is installed without the library, and numpy computes the same
results more slowly.

A stamp next to the library holds a hash of its sources, commands and compiler. An installation
keeps the library while the stamp fits.

The wheels of a release are compiled by zig (`pip install ziglang`), which writes libraries for
every system of `PLATFORMS` on any of them. HANLATTICE_WHEEL names the system of a wheel, and there
a failure ends the build. The same sources and the same zig give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:
    # Run by hand, before anything is installed, this file does not use the hook.
    BuildHookInterface = object  # type: ignore[assignment, misc]

OPS = Path(__file__).parent / "src" / "hanlattice" / "ops"
# The keys are Python's names of systems, and zig's.
SUFFIXES = {"darwin": ".dylib", "macos": ".dylib", "win32": ".dll", "windows": ".dll"}
LIBRARY = OPS / f"libhanlattice{SUFFIXES.get(sys.platform, '.so')}"
FLAGS = [
    *("-O3", "-std=gnu11", "-fPIC", "-fvisibility=hidden"),
    *("-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wextra"),
]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
THREAD_SANITIZER = ["-fsanitize=thread"]
REALS = {"float": 0, "double": 1}
X86_LEVELS = {
    "baseline": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": [
        *("-mavx2", "-mfma", "-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw"),
        "-mprefer-vector-width=512",
    ],
}
X86_LEVELS["vnni"] = [*X86_LEVELS["avx512"], "-mavx512vnni"]
ARM_LEVELS = {"baseline": [], "dotprod": ["-march=armv8.2-a+dotprod"]}
# zig has no -march, and gcc refuses this option.
ZIG_LEVELS = ARM_LEVELS | {"dotprod": ["-mcpu=generic+dotprod"]}
ALL_LEVELS = (*X86_LEVELS, *ARM_LEVELS)
# Products of bytes, and the instruction sets that only these products use
SMALL = "native_small"
SMALL_LEVELS = ("vnni", "dotprod")
# The date that hatchling gives every file in a wheel; a library for Windows has a date, too.
EPOCH = "1580601600"
# The tag of a wheel, and zig's name of its system; the version of glibc there makes the tag true.
PLATFORMS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64.manylinux2014_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
    "win_arm64": "aarch64-windows-gnu",
}


class Target(NamedTuple):
    """A kind of machine, and how to compile for it.

    Args:
        name: File name of the library.
        link: Options of the linker.
        flags: Options of the compiler, after `FLAGS`.
    """

    compiler: list[str]
    machine: str
    name: str
    link: Sequence[str] = ("-lm",)
    flags: Sequence[str] = ()
    levels: Collection[str] = ALL_LEVELS


def this_machine() -> Target:
    """Return the machine that this program runs on."""
    return Target(compiler(), platform.machine(), LIBRARY.name)


def sanitized(levels: Collection[str] = ALL_LEVELS, by: Sequence[str] = SANITIZERS) -> Target:
    """Return this machine with every access checked, for tests/ops/test_sanitizers.py."""
    # Optimising checked code would take minutes.
    flags = [*by, "-g", "-O0"]
    return this_machine()._replace(link=["-lm", *by], flags=flags, levels=levels)


def other_machine(tag: str) -> Target:
    """Return the machine of a wheel, by its tag in `PLATFORMS`."""
    if tag not in PLATFORMS:
        raise ValueError(f"no wheel is built for {tag}: expected one of {', '.join(PLATFORMS)}")
    machine, system, kind = (PLATFORMS[tag].replace(".", "-") + "-").split("-", 3)[:3]
    name = f"libhanlattice{SUFFIXES.get(system, '.so')}"
    # Python has loaded musl already, under a name that differs between distributions, so the
    # library names no C library.
    link = ["-nostdlib"] if kind == "musl" else ["-lm"]
    if system == "macos":
        link.append(f"-Wl,-install_name,@rpath/{name}")
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", PLATFORMS[tag]]
    return Target(zig, machine, name, [*link, "-s"])


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Put the library into wheels and editable installs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library, and give the wheel the tag of its platform."""
        if tag := os.environ.get("HANLATTICE_WHEEL"):
            target = other_machine(tag)
            library = Path(self.root, "build", tag, target.name)
            try:
                build(library, target=target)
            except (OSError, subprocess.CalledProcessError) as error:
                self.app.abort(reason(error))
            build_data["force_include"][str(library)] = f"hanlattice/ops/{target.name}"
            build_data |= {"pure_python": False, "tag": f"py3-none-{tag}"}
            return
        try:
            if not is_current(LIBRARY):
                build(LIBRARY)
        except (OSError, subprocess.CalledProcessError) as error:
            # A library of an earlier build does not fit these sources.
            LIBRARY.unlink(missing_ok=True)
            stamp_of(LIBRARY).unlink(missing_ok=True)
            self.app.display_warning(
                f"hanlattice goes on without its C library, with numpy alone: {reason(error)}"
            )
            return
        build_data["artifacts"].append(f"/{LIBRARY.relative_to(self.root).as_posix()}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"


def platform_tag() -> str:
    """Return the tag of this machine.

    A library that is compiled here need not run on other Linux distributions, so the tag is
    neither manylinux nor musllinux.
    """
    # hatchling depends on this package.
    from packaging.tags import sys_tags

    tags = (tag.platform for tag in sys_tags())
    return next(tag for tag in tags if "manylinux" not in tag and "musllinux" not in tag)


def build(library: Path, op: str = "*", target: Target | None = None) -> None:
    """Compile and link everything; one rename makes the library appear."""
    target = target or this_machine()
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        jobs = compilations(Path(folder), op, target)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, jobs))
        # macOS and Windows write the name of the linked file into it.
        linked = str(Path(folder, target.name))
        objects = [job[-1] for job in jobs]
        run([*target.compiler, "-shared", *objects, *target.link, "-o", linked])
        copy = library.with_name(f".{library.name}.{os.getpid()}")
        shutil.copy(linked, copy)
        stamp_of(library).unlink(missing_ok=True)
        copy.replace(library)
    if op == "*" and target == this_machine():
        facts = {"made from": fingerprint(), "library": digest(library.read_bytes())}
        stamp_of(library).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def make_wheels(folder: Path, tags: Sequence[str]) -> None:
    """Build a wheel for each tag; auditwheel checks the tags for Linux."""
    for tag in tags:
        say(f"building for {tag} …")
        python = [sys.executable, "-m"]
        command = [*python, "hatchling", "build", "-t", "wheel", "-d", str(folder.absolute())]
        environment = {"SOURCE_DATE_EPOCH": EPOCH, **os.environ, "HANLATTICE_WHEEL": tag}
        done = subprocess.run(
            command, cwd=OPS.parents[2], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"no wheel for {tag}:\n{done.stderr.strip()}")
        if "linux" in tag:
            (wheel,) = folder.glob(f"*-{tag}.whl")
            audit = [*python, "auditwheel", "show", str(wheel)]
            shown = subprocess.run(audit, capture_output=True, text=True)
            if f'platform tag: "{tag.partition(".")[0]}"' not in " ".join(shown.stdout.split()):
                output = f"{shown.stdout}{shown.stderr}"
                sys.exit(f"{wheel.name} has a tag that auditwheel denies:\n{output}")


def is_current(library: Path) -> bool:
    """Return whether the library fits the sources, commands and compiler of this machine."""
    try:
        facts = json.loads(stamp_of(library).read_text(encoding="utf-8"))
        return bool(facts == {"made from": fingerprint(), "library": digest(library.read_bytes())})
    # Without a library, a stamp or a compiler
    except (OSError, ValueError, subprocess.CalledProcessError):
        return False


def fingerprint() -> str:
    """Return a hash of everything that the library depends on; the commands are in this file."""
    files = [Path(__file__), *sorted(OPS.rglob("*.[ch]"))]
    version = subprocess.run([*compiler(), "--version"], check=True, capture_output=True).stdout
    parts = [platform.machine().encode(), shlex.join(compiler()).encode(), version]
    for file in files:
        parts += [file.name.encode(), file.read_bytes()]
    return digest(*parts)


def digest(*parts: bytes) -> str:
    """Return one hash of several parts."""
    # Each part is hashed first, so that moving bytes from one part to the next changes the result.
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def stamp_of(library: Path) -> Path:
    """Return the file next to the library that says what it was made from."""
    return library.with_name(f"{library.name}.json")


def compilations(folder: Path, op: str, target: Target) -> list[list[str]]:
    """Return a command for each object file, whose path is its last word."""
    levels = known_levels(folder, target)
    start = [*target.compiler, *FLAGS, *target.flags, f"-I{OPS}", "-c"]
    has = [f"-DHAS_{level.upper()}" for level in levels]
    jobs = [[*start, *has, str(OPS / "library.c"), "-o", str(folder / "library.o")]]
    for source in sorted(OPS.glob(f"{op}/native*.c")):
        for level, options in levels.items():
            # For other sources, library.py takes the level below.
            if level in SMALL_LEVELS and source.stem != SMALL:
                continue
            for real, is_double in REALS.items():
                name = f"{source.parent.name}_{source.stem}_{real}_{level}.o"
                macros = [f"-DREAL_IS_DOUBLE={is_double}", f"-DSUFFIX=_{real}_{level}"]
                jobs.append([*start, *options, *macros, str(source), "-o", str(folder / name)])
    return jobs


def known_levels(folder: Path, target: Target) -> dict[str, list[str]]:
    """Return the instruction sets of a machine that its compiler can write, with their options."""
    levels: dict[str, list[str]] = {"baseline": []}
    if target.machine in ("x86_64", "AMD64"):
        levels = X86_LEVELS
    elif target.machine in ("aarch64", "arm64", "ARM64"):
        levels = ZIG_LEVELS if "ziglang" in target.compiler else ARM_LEVELS
    empty = folder / "empty.c"
    empty.write_text("int hanlattice_empty;\n")
    known = {}
    for level in (name for name in levels if name in target.levels):
        test = [*target.compiler, *levels[level], "-c", str(empty), "-o", str(folder / "empty.o")]
        if level == "baseline" or subprocess.run(test, capture_output=True).returncode == 0:
            known[level] = levels[level]
    return known


def compiler() -> list[str]:
    """Return the command of the C compiler: `$CC`, or cc."""
    return shlex.split(os.environ.get("CC", "cc"))


def run(command: Sequence[str]) -> None:
    """Run a command, and raise an error with its output if it fails."""
    subprocess.run(command, check=True, capture_output=True, text=True)


def reason(error: OSError | subprocess.CalledProcessError) -> str:
    """Return the output of the compiler, or the error of the system without a compiler."""
    return (getattr(error, "stderr", "") or str(error)).strip()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Compile hanlattice's C library.")
    parser.add_argument("--out", type=Path, default=LIBRARY)
    parser.add_argument("--only", default="*", metavar="OP", help="one folder of ops/")
    parser.add_argument("--if-changed", action="store_true", help="only if a source has changed")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="build wheels, with zig")
    parser.add_argument(
        "--for",
        dest="tags",
        action="append",
        choices=PLATFORMS,
        help="only this wheel (repeatable)",
    )
    options = parser.parse_args()
    if options.wheels:
        make_wheels(options.wheels, options.tags or list(PLATFORMS))
        return
    if options.if_changed and is_current(options.out):
        say("the C library is up to date")
        return
    say("compiling the C library …")
    begin = time.monotonic()
    try:
        build(options.out, options.only)
    except (OSError, subprocess.CalledProcessError) as error:
        command = shlex.join(compiler())
        sys.exit(
            f"{options.out} was not built with {command} (set CC to use another): {reason(error)}"
        )
    say(f"compiled the C library in {time.monotonic() - begin:.0f} s")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
