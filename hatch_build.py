"""Compiles the C sources of `hanlattice.ops` into one shared library while the package is being
installed.

    python hatch_build.py [--out FILE] [--only OP]     # the same by hand, for work on the C sources
    python hatch_build.py --if-changed                 # what `make` does before it installs
    python hatch_build.py --wheels dist [--for TAG]    # what `make wheels` does: wheels for other
    machines too

Every `src/hanlattice/ops/*/native*.c` is compiled for float and for double and for the instruction
sets of LEVELS; `library.py` picks one when it loads the library. Without a C compiler, or when it
fails, the installation goes on without the library: numpy then does the same, slower.

A stamp beside the library says what it was made from: sources, commands, compiler. While these are
the same, an installation takes the library as it is.

For the wheels of a release the compiler is zig (`pip install ziglang`), which writes libraries for
every system of `PLATFORMS` on any of them. HANLATTICE_WHEEL names the one that the hook builds for;
there a failure ends the build. The same sources and the same zig give the same bytes.
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
except ModuleNotFoundError:  # by hand, where nothing is installed yet: the hook is not used then
    BuildHookInterface = object  # type: ignore[assignment, misc]

OPS = Path(__file__).parent / "src" / "hanlattice" / "ops"
SUFFIXES = {
    "darwin": ".dylib",
    "macos": ".dylib",
    "win32": ".dll",
    "windows": ".dll",
}  # Python's words and zig's
LIBRARY = OPS / f"libhanlattice{SUFFIXES.get(sys.platform, '.so')}"
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
ZIG_LEVELS = ARM_LEVELS | {
    "dotprod": ["-mcpu=generic+dotprod"]
}  # zig has no -march, and gcc refuses this
ALL_LEVELS = (*X86_LEVELS, *ARM_LEVELS)
# products of bytes, and what is only for them
SMALL = "native_small"
SMALL_LEVELS = ("vnni", "dotprod")
EPOCH = (
    "1580601600"  # hatchling's date of every file in a wheel; a library for Windows has a date, too
)
PLATFORMS = {  # a wheel's tag → what zig calls it; the version of glibc in it makes the tag true
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
    """A kind of machine, and how to compile for it."""

    compiler: list[str]
    machine: str
    name: str  # of the library
    link: Sequence[str] = ("-lm",)  # options of the link
    flags: Sequence[str] = ()  # after FLAGS
    levels: Collection[str] = ALL_LEVELS


def this_machine() -> Target:
    return Target(compiler(), platform.machine(), LIBRARY.name)


def sanitized(levels: Collection[str] = ALL_LEVELS, by: Sequence[str] = SANITIZERS) -> Target:
    """This machine, with every access checked (tests/ops/test_sanitizers.py); to optimise that
    would take minutes.
    """
    return this_machine()._replace(link=["-lm", *by], flags=[*by, "-g", "-O0"], levels=levels)


def other_machine(tag: str) -> Target:
    """One of PLATFORMS, by its tag."""
    if tag not in PLATFORMS:
        raise ValueError(f"no wheel is built for {tag}: expected one of {', '.join(PLATFORMS)}")
    machine, system, kind = (PLATFORMS[tag].replace(".", "-") + "-").split("-", 3)[:3]
    name = f"libhanlattice{SUFFIXES.get(system, '.so')}"
    # Python has loaded musl already, by a name that differs between distributions: none is written
    # into the library.
    link = ["-nostdlib"] if kind == "musl" else ["-lm"]
    if system == "macos":
        link.append(f"-Wl,-install_name,@rpath/{name}")
    return Target(
        [sys.executable, "-m", "ziglang", "cc", "-target", PLATFORMS[tag]],
        machine,
        name,
        [*link, "-s"],
    )


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Wheels and editable installs get the library; a wheel that has it carries the platform's tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
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
            remove(LIBRARY)  # one from an earlier build does not fit these sources
            self.app.display_warning(
                f"hanlattice goes on without its C library, with numpy alone: {reason(error)}"
            )
            return
        build_data["artifacts"].append(f"/{LIBRARY.relative_to(self.root).as_posix()}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"


def platform_tag() -> str:
    """This machine's own tag; a library compiled here promises nothing about other distributions
    (manylinux).
    """
    from packaging.tags import sys_tags  # a dependency of hatchling

    tags = (tag.platform for tag in sys_tags())
    return next(tag for tag in tags if "manylinux" not in tag and "musllinux" not in tag)


def build(library: Path, op: str = "*", target: Target | None = None) -> None:
    """Compile and link everything; the library appears whole, by one rename, or not at all."""
    target = target or this_machine()
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        jobs = compilations(Path(folder), op, target)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, jobs))
        linked = Path(folder, target.name)  # macOS and Windows write this name into the file
        run(
            [
                *target.compiler,
                "-shared",
                *(job[-1] for job in jobs),
                *target.link,
                "-o",
                str(linked),
            ]
        )
        made = library.with_name(f".{library.name}.{os.getpid()}")
        shutil.copy(linked, made)
        stamp_of(library).unlink(missing_ok=True)
        made.replace(library)
    if op == "*" and target == this_machine():
        facts = {"made from": fingerprint(), "library": digest(library.read_bytes())}
        stamp_of(library).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def make_wheels(folder: Path, tags: Sequence[str]) -> None:
    """One wheel for each tag. Of those for Linux, auditwheel says whether the tag is true."""
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
            shown = subprocess.run(
                [*python, "auditwheel", "show", str(wheel)], capture_output=True, text=True
            )
            if f'platform tag: "{tag.partition(".")[0]}"' not in " ".join(shown.stdout.split()):
                sys.exit(
                    f"{wheel.name} has a tag that auditwheel denies:\n{shown.stdout}{shown.stderr}"
                )


def is_current(library: Path) -> bool:
    """Whether the library is the one that was made from these sources, by these commands, with this
    compiler.
    """
    try:
        facts = json.loads(stamp_of(library).read_text(encoding="utf-8"))
        return bool(facts == {"made from": fingerprint(), "library": digest(library.read_bytes())})
    except (
        OSError,
        ValueError,
        subprocess.CalledProcessError,
    ):  # no library, no stamp, no compiler
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


def compilations(folder: Path, op: str, target: Target) -> list[list[str]]:
    """One command for each object file, which is its last word."""
    levels = known_levels(folder, target)
    start = [*target.compiler, *FLAGS, *target.flags, f"-I{OPS}", "-c"]
    has = [f"-DHAS_{level.upper()}" for level in levels]
    jobs = [[*start, *has, str(OPS / "library.c"), "-o", str(folder / "library.o")]]
    for source in sorted(OPS.glob(f"{op}/native*.c")):
        for level, options in levels.items():
            if level in SMALL_LEVELS and source.stem != SMALL:
                continue  # library.py takes the level below
            for real, is_double in REALS.items():
                name = f"{source.parent.name}_{source.stem}_{real}_{level}.o"
                macros = [f"-DREAL_IS_DOUBLE={is_double}", f"-DSUFFIX=_{real}_{level}"]
                jobs.append([*start, *options, *macros, str(source), "-o", str(folder / name)])
    return jobs


def known_levels(folder: Path, target: Target) -> dict[str, list[str]]:
    """The instruction sets of this kind of machine that the compiler can write."""
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
    parser.add_argument(
        "--if-changed", action="store_true", help="only if the library there is not up to date"
    )
    parser.add_argument(
        "--wheels", type=Path, metavar="FOLDER", help="build wheels into FOLDER, with zig"
    )
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
        sys.exit(
            f"{options.out} was not built with {shlex.join(compiler())} (set CC to use another): {reason(error)}"
        )
    say(f"compiled the C library in {time.monotonic() - begin:.0f} s")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
