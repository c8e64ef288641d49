"""Whole models, and where they are: the bundled ones by name, others by folder. This file does without torch."""

from __future__ import annotations

import json
from pathlib import Path

from hanlattice.errors import ModelError

SHIPPED = ("ner", "seg")
_FOLDER = Path(__file__).resolve().parents[1] / "shipped"
_EXPECTED = f"{' and '.join(SHIPPED)} are bundled with the package; name any other model by its folder"


def find_model(name: str | Path) -> Path:
    """The folder of a bundled model, or the folder that is named; your own folder called `ner` is `./ner`.

    A Path is always a folder, since Path("./ner") and Path("ner") are equal.
    """
    if isinstance(name, str) and name in SHIPPED:
        return _FOLDER / name
    if name == "":
        raise ModelError(f"the model's name is empty: {_EXPECTED}")
    folder = Path(name)
    if folder.name == name and not folder.is_dir():
        raise ModelError(f"{name}: there is no such model folder; {_EXPECTED}")
    return folder


def model_files(folder: Path) -> list[Path]:
    """The files of a model folder, which no output may overwrite."""
    try:
        listed = list(json.loads((folder / "config.json").read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, LookupError, TypeError):  # loading the model reports what is wrong
        listed = []
    return [folder / name for name in ("config.json", "model.safetensors", "README.md", "log.jsonl", *listed)]
