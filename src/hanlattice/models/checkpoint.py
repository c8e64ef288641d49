"""A model on disk: a folder of plain files. docs/formats.md describes it.

    config.json         format version, configuration, tags, where the data came from, checksums of the files below
    chars.txt           the character vocabulary
    lexicon.txt         the words, in the order of their vectors (lattice models)
    model.safetensors   the weights; its metadata has the scores and a checksum over everything in the file
    README.md           the model card, for people

The weights are replaced in one rename while the rest stays, so a folder is whole at every moment of a training.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hanlattice.batch import Indexer
from hanlattice.config import Config, make_config
from hanlattice.errors import ConfigError, ModelError
from hanlattice.files import reason, sha256, writing
from hanlattice.models.build import assemble
from hanlattice.models.device import find_device
from hanlattice.models.tagger import Tagger
from hanlattice.nn.embeddings import WordEmbedding
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.vocab import Vocab

FORMAT = 1
CONFIG, CHARS, LEXICON, WEIGHTS = "config.json", "chars.txt", "lexicon.txt", "model.safetensors"
FRAME = (CONFIG, CHARS, LEXICON)  # what does not change while the model trains


@dataclass(frozen=True)
class Model:
    tagger: Tagger
    indexer: Indexer
    config: Config
    data: Mapping[str, Any] = field(default_factory=dict)  # where training data and vectors came from
    scores: Mapping[str, Any] = field(default_factory=dict)


def save_frame(folder: Path, config: Config, indexer: Indexer, data: Mapping[str, Any]) -> None:
    """Everything but the weights: what does not change while the model trains."""
    indexer.vocab.save(folder / CHARS)
    names = [CHARS]
    if indexer.lexicon is not None:
        indexer.lexicon.save(folder / LEXICON)
        names.append(LEXICON)
    record = {
        "format": FORMAT,
        "config": config.as_dict(),
        "tags": indexer.tags,
        "scheme": indexer.scheme,
        "data": data,
        "files": {name: sha256(folder / name) for name in names},
    }
    with writing(folder / CONFIG) as file:
        json.dump(record | {"sha256": _record_digest(record)}, file, ensure_ascii=False, indent=2)
        file.write("\n")


def save_weights(folder: Path, tensors: Mapping[str, Tensor], scores: Mapping[str, Any]) -> None:
    """The weights and what they score, in one file."""
    save_tensors(folder / WEIGHTS, tensors, {"scores": json.dumps(scores, ensure_ascii=False)})


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """A safetensors file whose metadata has a checksum over names, shapes, values and the rest of the metadata."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with writing(path, binary=True) as file:
        file.write(save(plain, {**metadata, "sha256": _digest(plain, metadata)}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read such a file and check it; a file that is missing, cut short or changed is a ModelError."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise ModelError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot read: {reason(error)}") from None
    except SafetensorError as error:
        raise ModelError(f"{path}: cut short or not a safetensors file ({error}); copy it again") from None
    expected = metadata.pop("sha256", None)
    if expected != _digest(tensors, metadata):
        raise ModelError(f"{path}: its content does not match its checksum, so it was changed; copy it again")
    return tensors, metadata


def load_model(folder: str | Path, device: str = "cpu") -> Model:
    """Read a model folder, check everything, and give the model in evaluation mode."""
    folder, place = Path(folder), find_device(device)
    record = _read_record(folder)
    try:
        config = make_config(record["config"], f"{folder / CONFIG}")
        tags, scheme = tuple(record["tags"]), record["scheme"]
        vocab = Vocab.load(folder / CHARS)
        lexicon = None
        if LEXICON in record["files"]:
            lexicon = Lexicon()
            lexicon.load(folder / LEXICON)
    except ConfigError as error:
        raise ModelError(str(error)) from None
    tensors, metadata = load_tensors(folder / WEIGHTS)
    indexer = Indexer(vocab, lexicon, tags, scheme)
    tagger = _with_weights(config, indexer, tensors, folder)
    tagger.to(place).eval()
    return Model(tagger, indexer, config, record["data"], json.loads(metadata.get("scores", "{}")))


def _with_weights(config: Config, indexer: Indexer, tensors: dict[str, Tensor], folder: Path) -> Tagger:
    try:
        chars, words = tensors["chars.vectors"], None
        if indexer.lexicon is not None:
            words = WordEmbedding(tensors["words.trained"], tensors["words.fixed"], config.words.dropout)
        rows = (len(chars), 0 if words is None else len(words))
        sizes = (len(indexer.vocab), 0 if indexer.lexicon is None else len(indexer.lexicon))
        if rows != sizes:
            raise ModelError(f"{folder}: {rows} rows of vectors for {sizes} characters and words")
        tagger = assemble(config, indexer, chars, words)
        tagger.load_state_dict(tensors)
    except (KeyError, RuntimeError) as error:
        raise ModelError(f"{folder / WEIGHTS}: its tensors do not fit {CONFIG}: {error}") from None
    return tagger


def _read_record(folder: Path) -> dict[str, Any]:
    """config.json, once it and the files that it lists are known to be whole."""
    if not folder.is_dir():
        raise ModelError(f"{folder}: there is no such model folder")
    try:
        record = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{folder}: not a model folder, {CONFIG} is missing") from None
    except (ValueError, OSError, RecursionError) as error:
        raise ModelError(f"{folder / CONFIG}: cannot be read as JSON: {error}") from None
    version = record.get("format") if isinstance(record, dict) else None
    if version != FORMAT:
        raise ModelError(f"{folder}: its format version is {version}, and this hanlattice reads {FORMAT}")
    if record.pop("sha256", None) != _record_digest(record):
        raise ModelError(
            f"{folder / CONFIG}: its content does not match its checksum, so it was changed; copy it again"
        )
    if missing := {"config", "tags", "scheme", "data", "files"} - record.keys():
        raise ModelError(f"{folder / CONFIG}: {', '.join(sorted(missing))} is missing in it")
    for name, digest in record["files"].items():
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: {name} is missing; copy the folder again")
        if sha256(folder / name) != digest:
            raise ModelError(f"{folder / name}: its content does not match its checksum in {CONFIG}; copy it again")
    return dict(record)


def _record_digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(struct.pack("<q", tensor.numel()))
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
