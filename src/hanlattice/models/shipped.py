"""Where models are: those that come with the package, by their names, and the files of a folder."""

from __future__ import annotations

import json
from pathlib import Path

from hanlattice.errors import ModelError

SHIPPED = ("ner", "seg")
_FOLDER = Path(__file__).resolve().parents[1] / "shipped"
_WANTED = f"{' and '.join(SHIPPED)} come with the package, and other models are named by their folder"


def find_model(name: str | Path) -> Path:
    """The folder of a shipped model, or the one that is named; a folder of one's own called `ner` is `./ner`.

    A Path is never a name, since Path("./ner") and Path("ner") are the same.
    """
    if isinstance(name, str) and name in SHIPPED:
        return _FOLDER / name
    if name == "":
        raise ModelError(f"a model has a name: {_WANTED}")
    folder = Path(name)
    if folder.name == name and not folder.is_dir():
        raise ModelError(f"{name}: there is no such model folder; {_WANTED}")
    return folder


def model_files(folder: Path) -> list[Path]:
    """The files that a model folder is made of: no output must take the place of one."""
    try:
        listed = list(json.loads((folder / "config.json").read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, LookupError, TypeError):  # loading it will say what is wrong
        listed = []
    return [folder / name for name in ("config.json", "model.safetensors", "README.md", "log.jsonl", *listed)]
