"""What is kept of finished work: a JSON file for each run and each row's rates, which says what it belongs to.

A record is enough for the table, so that a folder can be taken to another machine without its models.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hanlattice.compare.matrix import flat_settings
from hanlattice.config import Config
from hanlattice.data.download import resolve
from hanlattice.errors import HanlatticeError, InputError, OutputError
from hanlattice.files import opening, sha256, writing
from hanlattice.models.language_model import language_model_digest

FORMAT = 1
# Settings that change nothing of what comes out, or not more than another device does.
FREE = ("train.device", "train.checkpoint_minutes", "lm.cache", "compare.row", "compare.paper")

Record = dict[str, Any]
Shape = Mapping[str, Any]

# What must be in a record for all that is made of it: a type, or what must be in it in turn.
_NUMBER = (int, float)
_MACHINE = {"cpu": str, "threads": int, "gpu": (str, type(None))}
_SCORE = dict.fromkeys(("precision", "recall", "f1", "gold", "predicted", "correct"), _NUMBER)
_PART = {"overall": _SCORE, "groups": dict}
_RECALL = {"recall": (*_NUMBER, type(None))}
_SEGMENTATION = {"segmentation": {"oov": _RECALL, "iv": _RECALL}}  # of segmenters
_RATE = {"sentences_per_second": _NUMBER, "characters_per_second": _NUMBER}
_ALL = {"identity": {"settings": dict, "files": dict}, "device": str, "machine": _MACHINE}
RUN = {
    **_ALL,
    "versions": dict,
    "row": str,
    "seed": int,
    "epoch": int,
    "seconds": _NUMBER,
    "parameters": int,
    "part": str,
    "scores": {"dev": _PART},
    "counts": list,
}
RATES = {**_ALL, "train": _RATE, "decode": _RATE}


def keep(path: Path, record: Record) -> None:
    with writing(path) as file:
        json.dump({"format": FORMAT, **record}, file, ensure_ascii=False)
        file.write("\n")


def kept(path: Path, shape: Shape) -> Record | None:
    """What `keep` wrote, with all that a RUN or RATES has; None if there is nothing."""
    if not path.exists():
        return None
    try:
        with opening(path) as file:
            record = json.loads(file.read())
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(f"not a record of `hanlattice compare`, format {FORMAT}: remove it", path)
    if problem := next(_lacks(record, shape), "") or (shape is RUN and _run_lacks(record)):
        raise InputError(f"a damaged record of `hanlattice compare`: {problem}; remove it, and it is made anew", path)
    return record


def _lacks(record: Record, shape: Shape, place: str = "") -> Iterator[str]:
    """In words, what is missing in a record, or is of another type."""
    for name, wanted in shape.items():
        if name not in record:
            yield f"{place}{name} is missing"
        elif not isinstance(record[name], dict if isinstance(wanted, Mapping) else wanted):
            yield f"{place}{name} is not what it should be"
        elif isinstance(wanted, Mapping):
            yield from _lacks(record[name], wanted, f"{place}{name}.")


def _run_lacks(record: Record) -> str:
    """The same of what depends on the record itself: the scores of its part, and counts [S, 3]."""
    if not all(isinstance(row, list) and len(row) == 3 and {*map(type, row)} == {int} for row in record["counts"]):
        return "counts is not what it should be"
    part, scores = record["part"], record["scores"]
    shape = _PART | (_SEGMENTATION if "segmentation" in (scores.get(part) or {}) else {})
    if problem := next(_lacks(scores, {part: shape}, "scores."), ""):
        return problem
    groups = scores[part]["groups"]
    return next(_lacks(groups, {name: {"f1": _NUMBER} for name in groups}, f"scores.{part}.groups."), "")


class Digests:
    """Checksums of files, each computed once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Of a file, or of a language model's folder; "" where there is none."""
        if name not in self._known:
            self._known[name] = _digest(name)
        return self._known[name]


def _digest(name: str) -> str:
    try:
        path = resolve(name)
        return language_model_digest(path) if path.is_dir() else sha256(path)
    except HanlatticeError:  # the training that needs it will say what is wrong
        return ""


def identity(config: Config, digests: Digests) -> Record:
    """What must be the same for a record to be of this run: settings, and the content of the files they name."""
    settings = {place: value for place, value in flat_settings(config).items() if place not in FREE}
    return {"settings": settings, "files": {place: digests.of(name) for place, name in files_of(config).items()}}


def files_of(config: Config) -> dict[str, str]:
    """`section.key` → the file or folder that it names."""
    sections = [(field.name, getattr(config, field.name)) for field in dataclasses.fields(config)]
    return {
        f"{name}.{field.name}": getattr(section, field.name)
        for name, section in sections
        if name not in ("train", "compare")
        for field in dataclasses.fields(section)
        if isinstance(getattr(section, field.name), str)
        and getattr(section, field.name)
        and not field.metadata.get("choices")
    }


def changes(then: Record, now: Record) -> Iterator[str]:
    """In words, what is not as it was. A file that is not here now cannot be held against a record."""
    plain = flat_settings(Config())
    for place, value in now["settings"].items():
        before = then["settings"].get(place, plain[place])  # what did not exist then was as it is by default
        if before != value:
            yield f"{place} was {before!r} and is {value!r}"
    for place, digest in now["files"].items():
        if digest and then["files"].get(place) not in (digest, None):
            yield f"the file of {place} has another content"


def claim(path: Path, shape: Shape, now: Record, complain: Callable[[str], None]) -> Record | None:
    """The record at a path if it belongs to this; `complain` hears if it belongs to something else."""
    record = kept(path, shape)
    if record is None:
        return None
    if differences := list(changes(record["identity"], now)):
        complain(f"{path} is of another run ({'; '.join(differences)}): choose another --out, or remove it")
        return None
    return record


def check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; --out must name a folder, old or new")
