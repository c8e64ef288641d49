"""Building the C library, by an installation and by hand."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

ROOT = Path(__file__).parents[1]
OPS = "src/hanlattice/ops"
# A compiler that writes its version into every output, and keeps a list of its calls.
COMPILER = """#!/bin/sh
case "$*" in *--version) echo "cc {version}"; exit;; esac
echo "$*" >> "$(dirname "$0")/calls"
for last; do :; done
echo "by {version}" > "$last"
"""


@pytest.fixture
def build() -> ModuleType:
    return load(ROOT / "hatch_build.py")


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
    # The wheel stays pure.
    assert data == {"artifacts": []}
    assert not build.LIBRARY.exists()
    assert "without its C library" in app.display_warning.call_args.args[0]


def test_a_compiler_that_fails_is_heard(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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
    out = tmp_path / "made.so"
    compiler = tmp_path / "nothing"
    monkeypatch.setenv("CC", f"{compiler} -g")
    monkeypatch.setattr("sys.argv", ["hatch_build.py", "--out", str(out)])
    with pytest.raises(
        SystemExit, match=r"made\.so was not built with .*nothing -g .*No such file"
    ) as caught:
        build.main()
    # Python prints a string, and exits with 1.
    assert isinstance(caught.value.code, str)
    assert caught.value.code.count("\n") == 0
    assert not out.exists()


def test_by_hand_a_compiler_that_fails_is_heard(tmp_path: Path) -> None:
    pytest.importorskip(
        "hatchling", reason="hatchling, which builds the package, is not installed here"
    )
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho the disk is full >&2\nexit 3\n")
    compiler.chmod(0o755)
    command = [sys.executable, str(ROOT / "hatch_build.py"), "--out", str(tmp_path / "made.so")]
    done = subprocess.run(
        command, env={**os.environ, "CC": str(compiler)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "compiling the C library …\n")
    assert "was not built" in done.stderr
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["cc"]


def test_a_wheel_with_the_library_has_the_platforms_tag(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "is_current", lambda library: True)
    hook, app = make_hook(build)
    data: dict[str, object] = {"artifacts": []}
    hook.initialize("standard", data)
    assert data["artifacts"] == ["/src/hanlattice/ops/libhanlattice.so"]
    assert data["pure_python"] is False
    assert str(data["tag"]).startswith("py3-none-")
    assert "any" not in str(data["tag"])
    assert not app.display_warning.called


def test_every_source_is_compiled_for_both_types_and_all_levels(
    build: ModuleType, tmp_path: Path
) -> None:
    machine = build.this_machine()
    jobs = build.compilations(tmp_path, "lattice_lstm", machine)
    levels = build.known_levels(tmp_path, machine)
    sources = list((ROOT / "src/hanlattice/ops/lattice_lstm").glob("native*.c"))
    # Only products of bytes use these levels, in one source.
    small = [level for level in levels if level in build.SMALL_LEVELS]
    assert len(jobs) == 1 + 2 * (len(levels) - len(small)) * len(sources) + 2 * len(small)
    assert len({job[-1] for job in jobs}) == len(jobs)


def load(path: Path) -> ModuleType:
    pytest.importorskip(
        "hatchling", reason="hatchling, which builds the package, is not installed here"
    )
    spec = importlib.util.spec_from_file_location("hatch_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_compiler(path: Path, version: str = "1.0") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(COMPILER.replace("{version}", version))
    path.chmod(0o755)
    return path


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files that the build reads, with a compiler that takes no time."""
    root = tmp_path / "tree"
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore", "hatch_build.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(
        ROOT / OPS, root / OPS, ignore=shutil.ignore_patterns("*libhanlattice*", "__pycache__")
    )
    for name in ("__init__.py", "optional.py"):
        shutil.copy(ROOT / "src/hanlattice" / name, root / "src/hanlattice" / name)
    monkeypatch.setenv("CC", str(write_compiler(tmp_path / "bin" / "cc")))
    return root


def calls(tree: Path) -> int:
    """Return how often the compiler was called since the last question."""
    file = tree.parent / "bin" / "calls"
    count = len(file.read_text().splitlines()) if file.exists() else 0
    file.unlink(missing_ok=True)
    return count


def install(tree: Path) -> int:
    """Run the hook of an installation, and return how often it calls the compiler."""
    calls(tree)
    module = load(tree / "hatch_build.py")
    data: dict[str, list[str]] = {"artifacts": []}
    hook = module.CustomBuildHook(str(tree), {}, None, mock.Mock(), "", "wheel", mock.Mock())
    hook.initialize("editable", data)
    assert data["artifacts"] == [f"/{OPS}/libhanlattice.so"]
    assert (tree / OPS / "libhanlattice.so").exists()
    return calls(tree)


def test_an_installation_compiles_once(tree: Path) -> None:
    assert install(tree) > 10
    assert install(tree) == 0


def append(name: str) -> Callable[[Path], None]:
    def change(tree: Path) -> None:
        with (tree / name).open("a") as file:
            file.write("/* changed */\n" if name.endswith((".c", ".h")) else "# changed\n")

    return change


CHANGES: dict[str, Callable[[Path], object]] = {
    "a source": append(f"{OPS}/crf/native_best.c"),
    "a header": append(f"{OPS}/native.h"),
    "the commands": append("hatch_build.py"),
    "the library itself": append(f"{OPS}/libhanlattice.so"),
    "no library": lambda tree: (tree / OPS / "libhanlattice.so").unlink(),
    "no stamp": lambda tree: (tree / OPS / "libhanlattice.so.json").unlink(),
    "a stamp that cannot be read": lambda tree: (tree / OPS / "libhanlattice.so.json").write_text(
        "{"
    ),
    "a new version of the compiler": lambda tree: write_compiler(tree.parent / "bin" / "cc", "2.0"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_is_compiled_again(tree: Path, change: Callable[[Path], object]) -> None:
    everything = install(tree)
    change(tree)
    assert install(tree) == everything
    assert install(tree) == 0


def test_another_compiler_compiles_again(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = install(tree)
    monkeypatch.setenv("CC", f"{os.environ['CC']} -g")
    assert install(tree) == everything


def by_hand(tree: Path, *arguments: str) -> str:
    """Run `python hatch_build.py` as if hatchling were not installed; return what it prints."""
    file = str(tree / "hatch_build.py")
    code = (
        "import runpy, sys\nsys.modules['hatchling'] = None\n"
        f"runpy.run_path({file!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_by_hand_it_says_whether_it_compiles(tree: Path) -> None:
    told = by_hand(tree, "--if-changed").splitlines()
    assert told[0] == "compiling the C library …"
    assert told[1].startswith("compiled the C library in ")
    assert by_hand(tree, "--if-changed") == "the C library is up to date\n"
    assert by_hand(tree).startswith("compiling")
    # An installation keeps a library that was made by hand.
    assert install(tree) == 0


def test_a_part_is_not_taken_for_the_whole(tree: Path) -> None:
    everything = install(tree)
    by_hand(tree, "--only", "crf")
    assert 0 < calls(tree) < everything
    assert install(tree) == everything


def test_a_wheel_has_the_library_and_no_stamp(tree: Path) -> None:
    install(tree)
    assert json.loads((tree / OPS / "libhanlattice.so.json").read_text())
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    command += ["-d", str(tree.parent / "out")]
    subprocess.run(command, cwd=tree, capture_output=True, check=True)
    (wheel,) = (tree.parent / "out").iterdir()
    assert not wheel.name.endswith("-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if "libhanlattice" in name]
    assert names == ["hanlattice/ops/libhanlattice.so"]


# Instead of zig: it writes its target and the name of its output.
ZIG = """\
import pathlib, sys
output = pathlib.Path(sys.argv[-1])
output.write_text(sys.argv[3] + ' ' + output.name)
"""


def test_every_platform_is_what_its_tag_says(build: ModuleType) -> None:
    for tag, target in build.PLATFORMS.items():
        machine, system, *kind = re.split("[-.]", target)
        match = re.fullmatch(r"(\D+?)_(?:(\d+_\d+)_)?(\w+)", tag.partition(".")[0])
        assert match
        family, version, processor = match.groups()
        processors = {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}
        assert processor in processors[machine]
        libc = {
            "manylinux": ["gnu", "2", "17"],
            "musllinux": ["musl"],
            "macosx": ["11", "0"],
            "win": ["gnu"],
        }[family]
        assert kind == libc
        assert version is None or family == "musllinux" or version == "_".join(libc[-2:])
        other = build.other_machine(tag)
        assert (other.machine, other.compiler[-1]) == (machine, target)
        assert other.name.endswith({"linux": ".so", "macos": ".dylib", "windows": ".dll"}[system])


def test_a_platform_that_is_not_there_is_refused(build: ModuleType) -> None:
    with pytest.raises(
        ValueError, match=r"no wheel is built for win32: expected one of manylinux_2_17_x86_64"
    ):
        build.other_machine("win32")


@pytest.mark.parametrize(
    ("tag", "name"),
    [("win_arm64", "libhanlattice.dll"), ("macosx_11_0_arm64", "libhanlattice.dylib")],
)
def test_a_wheel_for_another_machine(
    tree: Path, monkeypatch: pytest.MonkeyPatch, tag: str, name: str
) -> None:
    """The wheel has the library of the other machine, and two builds give the same bytes."""
    install(tree)
    (tree.parent / "ziglang").mkdir()
    (tree.parent / "ziglang" / "__main__.py").write_text(ZIG)
    monkeypatch.setenv("PYTHONPATH", str(tree.parent))
    for folder in ("one", "two"):
        command = [sys.executable, "hatch_build.py", "--wheels", f"../{folder}", "--for", tag]
        subprocess.run(command, cwd=tree, capture_output=True, check=True)
    wheels = [tree.parent / f / f"hanlattice-0.1.0-py3-none-{tag}.whl" for f in ("one", "two")]
    with zipfile.ZipFile(wheels[0]) as archive:
        names = [name for name in archive.namelist() if "libhanlattice" in name]
        assert names == [f"hanlattice/ops/{name}"]
        target = load(tree / "hatch_build.py").PLATFORMS[tag]
        assert archive.read(names[0]).decode() == f"{target} {name}"
        described = next(name for name in archive.namelist() if name.endswith("/WHEEL"))
        assert f"Tag: py3-none-{tag}\n" in archive.read(described).decode()
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


def test_a_compiler_that_fails_ends_a_wheel_for_another_machine(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree.parent / "ziglang").mkdir()
    (tree.parent / "ziglang" / "__main__.py").write_text("raise SystemExit('the disk is full')")
    monkeypatch.setenv("PYTHONPATH", str(tree.parent))
    command = [sys.executable, "hatch_build.py", "--wheels", "../out", "--for", "win_amd64"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("no wheel for win_amd64:")
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tree.parent / "out").glob("*"))


@pytest.mark.parametrize("tag", ["musllinux_1_2_aarch64", "macosx_11_0_arm64"])
def test_zig_links_for_another_machine(build: ModuleType, tmp_path: Path, tag: str) -> None:
    pytest.importorskip("ziglang", reason="zig is not installed: pip install 'hanlattice[wheels]'")
    target = build.other_machine(tag)
    build.build(tmp_path / target.name, op="no op, only library.c", target=target)
    start = (tmp_path / target.name).read_bytes()[:20]
    assert start.startswith(b"\x7fELF" if tag.startswith("musl") else b"\xcf\xfa\xed\xfe")
    # ARM, as ELF and as macOS write it
    assert start[18:20] == b"\xb7\x00" or start[4:8] == b"\x0c\x00\x00\x01"
