"""A language model of characters or words and its folder of plain files, which docs/formats.md
describes.

Each direction is trained on its own and may be missing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import torch
from torch import Tensor

from hanlattice.checkpoint.checksums import (
    check_numbers,
    load_tensors,
    read_record,
    save_tensors,
    write_record,
)
from hanlattice.checkpoint.plan import check_names, check_shapes
from hanlattice.checkpoint.schema import parse
from hanlattice.errors import InputError, ModelError
from hanlattice.files import atomic_write, dump_json, opening, printable_path, sha256
from hanlattice.inference.device import find_device
from hanlattice.nn.language_model import CharLanguageModel
from hanlattice.text.vocab import Vocab

FORMAT = 1
RECORD = "lm.json"
CHARS = "chars.txt"
WORDS = "words.txt"
LEXICON = "lexicon.txt"
DIRECTIONS = ("forward", "backward")
# Stands before the first symbol of a paragraph and after its last; its id is 1.
BREAK = "\n"


@dataclass(frozen=True)
class LanguageModelSettings:
    """The sizes of a language model: they determine the shapes of its weights."""

    embedding: int = field(metadata={"check": "size"})
    hidden: int = field(metadata={"check": "size"})
    layers: int = field(default=1, metadata={"check": "layers"})
    dropout: float = field(default=0.0, metadata={"check": "share"})


@dataclass(frozen=True)
class Cutter:
    """What cuts text into words, for a language model of words."""

    # Or lexicon, or model.
    by: str = "rjieba"
    # Of rjieba or the model; the SHA-256 of the lexicon.
    version: str = ""
    # The lexicon; a model's name or folder.
    path: str = field(default="", compare=False)
    # How many different characters the text has: they spell an unknown word.
    alphabet: int = field(default=0, compare=False)


class Record(TypedDict):
    """lm.json."""

    format: int
    settings: LanguageModelSettings
    files: dict[str, str]
    unit: NotRequired[str]
    cutter: NotRequired[Cutter]


@dataclass(frozen=True)
class LanguageModel:
    """One or both directions, in evaluation mode, with the facts recorded about each."""

    vocab: Vocab
    settings: LanguageModelSettings
    directions: Mapping[str, CharLanguageModel]
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Only a model of words has one.
    cutter: Cutter | None = None


def make_vocab(symbols: Iterable[str]) -> Vocab:
    """Return the symbols of a language model: unknown, the break, then characters or words."""
    return Vocab([BREAK, *symbols])


def weights_file(direction: str) -> str:
    """Return the name of the file of one direction's weights."""
    return f"{direction}.safetensors"


def save_language_model_frame(
    folder: Path, vocab: Vocab, settings: LanguageModelSettings, cutter: Cutter | None = None
) -> None:
    """Write what both directions share. Both trainings may do so at once, with the same bytes."""
    names: list[str] = [CHARS if cutter is None else WORDS]
    record: dict[str, Any] = {"format": FORMAT, "settings": dataclasses.asdict(settings)}
    vocab.save(folder / names[0])
    if cutter is not None:
        facts = dataclasses.asdict(cutter) | {"path": printable_path(cutter.path)}
        record |= {"unit": "word", "cutter": facts}
        if cutter.by == "lexicon":
            with opening(cutter.path) as file, atomic_write(folder / LEXICON, binary=True) as copy:
                shutil.copyfileobj(file, copy)
            names.append(LEXICON)
            facts["path"] = LEXICON
    write_record(folder / RECORD, record, names, Record)


def save_direction(
    folder: Path, direction: str, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]
) -> None:
    """Write the weights of one direction, in half precision."""
    half = {name: tensor.detach().to(torch.float16) for name, tensor in tensors.items()}
    save_tensors(folder / weights_file(direction), half, {"facts": dump_json(facts)})


def load_language_model(
    folder: str | Path, device: str = "cpu", directions: Iterable[str] = DIRECTIONS
) -> LanguageModel:
    """Read a folder, check all of it, and return these directions in evaluation mode."""
    folder = Path(folder)
    place = find_device(device)
    record = read_record(folder / RECORD, FORMAT, Record, "language model")
    if (record.get("unit", "char") == "word") != ("cutter" in record):
        raise ModelError(f"{folder / RECORD}: cutter must be there if unit is word, and only then")
    cutter = Cutter(**record["cutter"]) if "cutter" in record else None
    if cutter is not None and cutter.by == "lexicon":
        cutter = dataclasses.replace(cutter, path=str(folder / LEXICON))
    name = WORDS if cutter else CHARS
    settings = LanguageModelSettings(**record["settings"])
    if name not in record["files"]:
        raise ModelError(f"{folder / RECORD}: files.{name} is missing")
    try:
        vocab = Vocab.load(folder / name)
    except InputError as error:
        raise ModelError(str(error)) from None
    models = {}
    facts = {}
    for direction in directions:
        path = folder / weights_file(direction)
        if not path.is_file():
            raise ModelError(
                f"{folder}: the {direction} direction is missing; "
                f"train it by --direction {direction}"
            )
        tensors, metadata = load_tensors(path)
        models[direction] = _with_weights(path, len(vocab), settings, tensors).to(place)
        try:
            facts[direction] = parse(metadata.get("facts", "{}"), dict[str, Any], "facts")
        except ValueError as error:
            raise ModelError(f"{path}: {error}") from None
    return LanguageModel(vocab, settings, models, facts, cutter)


def language_model_files() -> list[str]:
    """Return the names of the files of a complete language model of characters."""
    return [RECORD, CHARS, *map(weights_file, DIRECTIONS)]


def language_model_digest(folder: str | Path) -> str:
    """Return a checksum over all files of a language model."""
    record = read_record(Path(folder) / RECORD, FORMAT, Record, "language model")
    names = [RECORD, *record["files"], *map(weights_file, DIRECTIONS)]
    digests = [sha256(Path(folder) / name) for name in names]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()


def _with_weights(
    path: Path, symbols: int, settings: LanguageModelSettings, tensors: Mapping[str, Tensor]
) -> CharLanguageModel:
    make = partial(CharLanguageModel, symbols, **dataclasses.asdict(settings))
    check_numbers({name: tensor.numpy() for name, tensor in tensors.items()}, path)
    try:
        # Shapes are checked before any memory is taken.
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            wanted = make().state_dict()
        check_shapes({name: tuple(tensor.shape) for name, tensor in wanted.items()}, tensors)
        check_names(wanted, tensors)
    except LookupError as error:
        raise ModelError(f"{path}: its tensors do not fit {RECORD}: {error}") from None
    model = make()
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return model.requires_grad_(False).eval()
