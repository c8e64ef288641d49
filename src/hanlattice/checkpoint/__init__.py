"""Whole models, and where they are: the bundled ones by name, others by folder. This file does
without torch.
"""

from __future__ import annotations

import json
from pathlib import Path

from hanlattice.checks import brief
from hanlattice.errors import ModelError
from hanlattice.files import read_small

SHIPPED = ("ner", "seg")
_LONGEST = 4096  # characters of a path
_FOLDER = Path(__file__).resolve().parents[1] / "shipped"
_EXPECTED = (
    f"{' and '.join(SHIPPED)} are bundled with the package; name any other model by its folder"
)


def find_model(name: str | Path) -> Path:
    """The folder of a bundled model, or the folder that is named; your own folder called `ner` is
    `./ner`.

    A Path is always a folder, since Path("./ner") and Path("ner") are equal.
    """
    if isinstance(name, str) and name in SHIPPED:
        return _FOLDER / name
    if not isinstance(name, (str, Path)):
        raise TypeError(
            f"a model must be a str or a Path, not {type(name).__name__}: {brief(name)}; {_EXPECTED}"
        )
    if name == "":
        raise ModelError(f"the model's name is empty: {_EXPECTED}")
    folder = Path(name)
    if len(str(name)) > _LONGEST:
        raise ModelError(
            f"{brief(str(name))}: no folder has a name of {len(str(name)):,} characters; {_EXPECTED}"
        )
    if folder.name == name and not _is_folder(folder):
        raise ModelError(f"{name}: there is no such model folder; {_EXPECTED}")
    return folder


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # no name can be that long
        return False


def model_files(folder: Path) -> list[Path]:
    """The files of a model folder, which no output may overwrite."""
    try:
        files = json.loads(read_small(folder / "config.json", 1 << 24))["files"]
        listed = [name for name in files if isinstance(name, str)]
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        RecursionError,
    ):  # loading the model reports what is wrong
        listed = []
    return [
        folder / name
        for name in ("config.json", "model.safetensors", "README.md", "log.jsonl", *listed)
    ]
