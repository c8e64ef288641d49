"""A character language model and its folder of plain files, which docs/formats.md describes.

Each direction is trained on its own and may be missing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hanlattice.errors import ModelError
from hanlattice.files import sha256
from hanlattice.models.checksums import load_tensors, read_record, save_tensors, write_record
from hanlattice.models.device import find_device
from hanlattice.nn.language_model import CharLanguageModel
from hanlattice.text.vocab import Vocab

FORMAT = 1
RECORD, CHARS = "lm.json", "chars.txt"
DIRECTIONS = ("forward", "backward")
BREAK = "\n"  # stands before the first character of a paragraph and after its last; its id is 1


@dataclass(frozen=True)
class Settings:
    """The sizes of a language model: they determine the shapes of its weights."""

    embedding: int
    hidden: int
    layers: int = 1
    dropout: float = 0.0


@dataclass(frozen=True)
class LanguageModel:
    """One or both directions, in evaluation mode, with the facts recorded about each."""

    vocab: Vocab
    settings: Settings
    directions: Mapping[str, CharLanguageModel]
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def make_vocab(characters: Iterable[str]) -> Vocab:
    """The symbols of a language model: unknown, the break, then these characters."""
    return Vocab([BREAK, *characters])


def weights_file(direction: str) -> str:
    return f"{direction}.safetensors"


def save_language_model_frame(folder: Path, vocab: Vocab, settings: Settings) -> None:
    """Write what both directions share. Two trainings may do so at once, since they write the same."""
    vocab.save(folder / CHARS)
    write_record(folder / RECORD, {"format": FORMAT, "settings": dataclasses.asdict(settings)}, [CHARS])


def save_direction(folder: Path, direction: str, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write the weights of one direction, in half precision."""
    half = {name: tensor.detach().to(torch.float16) for name, tensor in tensors.items()}
    save_tensors(folder / weights_file(direction), half, {"facts": json.dumps(facts, ensure_ascii=False)})


def load_language_model(
    folder: str | Path, device: str = "cpu", directions: Iterable[str] = DIRECTIONS
) -> LanguageModel:
    """Read a folder, check all of it, and return these directions in evaluation mode."""
    folder, place = Path(folder), find_device(device)
    record = read_record(folder / RECORD, FORMAT, ["settings"], "language model")
    vocab, settings = Vocab.load(folder / CHARS), Settings(**record["settings"])
    models, facts = {}, {}
    for direction in directions:
        if not (folder / weights_file(direction)).is_file():
            raise ModelError(f"{folder}: the {direction} direction is not there; train it by --direction {direction}")
        tensors, metadata = load_tensors(folder / weights_file(direction))
        models[direction] = _with_weights(folder / weights_file(direction), len(vocab), settings, tensors).to(place)
        facts[direction] = json.loads(metadata.get("facts", "{}"))
    return LanguageModel(vocab, settings, models, facts)


def language_model_files() -> list[str]:
    """The names of the files of a complete language model."""
    return [RECORD, CHARS, *map(weights_file, DIRECTIONS)]


def language_model_digest(folder: str | Path) -> str:
    """A checksum over all files of a language model."""
    digests = [sha256(Path(folder) / name) for name in language_model_files()]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()


def _with_weights(path: Path, symbols: int, settings: Settings, tensors: Mapping[str, Tensor]) -> CharLanguageModel:
    model = CharLanguageModel(symbols, **dataclasses.asdict(settings))
    try:
        model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    except RuntimeError as error:
        raise ModelError(f"{path}: its tensors do not fit {RECORD}: {error}") from None
    return model.requires_grad_(False).eval()
