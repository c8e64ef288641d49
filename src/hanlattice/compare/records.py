"""What is kept of finished work: a JSON file for each run and each row's rates, which says what it belongs to.

Records are enough for the table, so a folder of them can go to another machine without its models.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hanlattice.compare.matrix import flat_settings
from hanlattice.config import Config
from hanlattice.data.download import resolve
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.files import opening, sha256, writing
from hanlattice.models.language_model import language_model_digest

FORMAT = 1
# Settings that do not change the result, or not more than another device does.
FREE = ("train.device", "train.checkpoint_minutes", "lm.cache", "compare.row", "compare.paper")
FILES = ("train", "dev", "test", "more", "vectors", "lexicon", "model")  # keys of settings that name a file or folder

Record = dict[str, Any]


def write_record(path: Path, record: Record) -> None:
    with writing(path) as file:
        json.dump({"format": FORMAT, **record}, file, ensure_ascii=False)
        file.write("\n")


def read_record(path: Path, now: Record, use: Callable[[Record], object]) -> tuple[Record | None, list[str]]:
    """What `write_record` wrote, or None without a file; and how its identity differs from that of `now`.

    A record that fails when it is put to `use` is damaged.
    """
    if not path.exists():
        return None, []
    try:
        with opening(path) as file:
            record = json.loads(file.read())
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(f"not a record of `hanlattice compare`, format {FORMAT}: remove it", path)
    try:
        use(record)
        return record, list(_changes(record["identity"], now))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        problem = f"{type(error).__name__}: {error}"
        message = f"a damaged record of `hanlattice compare` ({problem}); remove it, and the run is repeated"
        raise InputError(message, path) from None


def file_digest(name: str) -> str:
    """The checksum of a file, or of a language model's folder; "" if it is missing."""
    try:
        path = resolve(name)
        return language_model_digest(path) if path.is_dir() else sha256(path)
    except HanlatticeError:  # the training that needs it reports what is wrong
        return ""


def identity(config: Config, digest: Callable[[str], str] = file_digest) -> Record:
    """What must be the same for a record to belong to this run: settings, and the content of the files they name."""
    settings = flat_settings(config)
    files = {place: name for place, name in settings.items() if name and place.rpartition(".")[2] in FILES}
    return {
        "settings": {place: value for place, value in settings.items() if place not in FREE},
        "files": {place: digest(name) for place, name in files.items()},
    }


def _changes(then: Record, now: Record) -> Iterator[str]:
    """In words, what differs between two identities. A file that is missing now is not looked at."""
    defaults = flat_settings(Config())
    for place, value in now["settings"].items():
        before = then["settings"].get(place, defaults[place])  # a setting that is newer than the record had its default
        if before != value:
            yield f"{place} was {before!r} and is {value!r}"
    for place, digest in now["files"].items():
        if digest and then["files"].get(place) not in (digest, None):
            yield f"the file of {place} has another content"
