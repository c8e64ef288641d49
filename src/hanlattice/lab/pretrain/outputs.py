"""Where outputs go: their names, and checks that none replaces an input or another kind of file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hanlattice.errors import OutputError
from hanlattice.files import atomic_write, check_output, opening

# Bytes; no record is larger.
_LARGEST = 1 << 20


class Outputs:
    """The files OUT.SUFFIX, one for each suffix; `out` may be given with one of them.

    Among them is OUT.json, the record of how the others were made.
    """

    def __init__(self, out: str | Path, suffixes: Iterable[str]) -> None:
        path = Path(out)
        self.named = path
        self.suffixes = tuple(suffixes)
        if path.is_dir():
            example = path / "char"
            raise OutputError(f"{path} is a folder: --out names the files in it, as in {example}")
        name = path.name
        written = [end for end in self.suffixes if name.endswith(end) and name != end]
        self.stem = path.with_name(name.removesuffix(max(written, key=len, default="")))

    def __getitem__(self, suffix: str) -> Path:
        return self.stem.with_name(self.stem.name + suffix)

    def check(self, inputs: Iterable[Path], setting: str, begun: bool = False) -> None:
        """Refuse outputs that would replace an input, or a file of another kind of run.

        The file that the user named may be replaced.

        Args:
            setting: a setting in the record of every run like this one.
            begun: such a run was interrupted before it wrote its record.
        """
        files = list(inputs)
        for suffix in self.suffixes:
            check_output(self[suffix], files)
        record = self[".json"]
        if record.exists() and setting not in read_record(record).get("settings", ()):
            message = "already exists and is not the record of a run like this one"
            raise OutputError(f"{record} {message}; give --out another name")
        for suffix in self.suffixes:
            output = self[suffix]
            if not (record.exists() or begun) and output.exists() and output != self.named:
                message = "already exists and was not named; remove it, or give --out another name"
                raise OutputError(f"{output} {message}")

    def make_folder(self) -> None:
        folder = self.stem.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot make the folder {folder}: {error.strerror}") from None

    def write_record(self, record: dict[str, Any]) -> None:
        with atomic_write(self[".json"]) as file:
            json.dump(record, file, ensure_ascii=False, indent=2)
            file.write("\n")


def read_record(path: Path) -> dict[str, Any]:
    """Read the record in OUT.json; empty where the file is missing or is something else."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return {}
        record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) and isinstance(record.get("settings"), dict) else {}


def check_readable(inputs: Iterable[Path]) -> None:
    """Report a file that cannot be opened, except a pipe, which opens only once."""
    for path in inputs:
        if not path.is_fifo():
            with opening(path):
                pass
