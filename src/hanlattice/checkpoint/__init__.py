"""Models as folders: bundled ones by name, others by path. This file does without torch."""

from __future__ import annotations

import json
from pathlib import Path

from hanlattice.checks import brief
from hanlattice.errors import ModelError
from hanlattice.files import read_small

SHIPPED = ("ner", "seg")
# Linux takes no path of more bytes.
_LONGEST = 4096
_FOLDER = Path(__file__).resolve().parents[1] / "shipped"
_NAMES = " and ".join(SHIPPED)
_EXPECTED = f"{_NAMES} are bundled with the package; name any other model by its folder"


def find_model(name: str | Path) -> Path:
    """Return the folder of a model.

    Args:
        name: the name of a bundled model, or a folder. A Path is always a folder, and so is
            "./ner", while "ner" is the bundled model.
    """
    if isinstance(name, str) and name in SHIPPED:
        return _FOLDER / name
    if not isinstance(name, (str, Path)):
        kind = type(name).__name__
        raise TypeError(f"a model must be a str or a Path, not {kind}: {brief(name)}; {_EXPECTED}")
    if name == "":
        raise ModelError(f"the model's name is empty: {_EXPECTED}")
    folder = Path(name)
    if (size := len(str(name))) > _LONGEST:
        problem = f"no folder has a name of {size:,} characters"
        raise ModelError(f"{brief(str(name))}: {problem}; {_EXPECTED}")
    if folder.name == name and not _is_folder(folder):
        raise ModelError(f"{name}: there is no such model folder; {_EXPECTED}")
    return folder


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        # The name is longer than the file system takes.
        return False


def model_files(folder: Path) -> list[Path]:
    """Return the files of a model folder, which no output may overwrite."""
    try:
        files = json.loads(read_small(folder / "config.json", 1 << 24))["files"]
        listed = [name for name in files if isinstance(name, str)]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        # Loading the model reports what is wrong.
        listed = []
    names = ("config.json", "model.safetensors", "README.md", "log.jsonl", *listed)
    return [folder / name for name in names]
