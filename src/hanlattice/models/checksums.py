"""Files that show when they were changed: JSON records and safetensors files, both with checksums."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hanlattice.errors import ModelError
from hanlattice.files import reason, sha256, writing


def write_record(path: Path, record: Mapping[str, Any], files: Iterable[str]) -> None:
    """Write a JSON record with the checksums of these files of its folder and of itself."""
    record = {**record, "files": {name: sha256(path.parent / name) for name in files}}
    with writing(path) as file:
        json.dump(record | {"sha256": record_digest(record)}, file, ensure_ascii=False, indent=2)
        file.write("\n")


def read_record(path: Path, version: int, keys: Collection[str], what: str) -> dict[str, Any]:
    """Read a record of `write_record`, once its checksum and those of the files it lists are right."""
    folder, name = path.parent, path.name
    if not folder.is_dir():
        raise ModelError(f"{folder}: there is no such {what} folder")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{folder}: not a {what} folder, {name} is missing") from None
    except (ValueError, OSError, RecursionError) as error:
        raise ModelError(f"{path}: cannot be read as JSON: {error}") from None
    found = record.get("format") if isinstance(record, dict) else None
    if found != version:
        raise ModelError(f"{folder}: its format version is {found}, and this hanlattice reads {version}")
    if record.pop("sha256", None) != record_digest(record):
        raise ModelError(f"{path}: its content does not match its checksum, so it was changed; copy it again")
    if missing := {*keys, "files"} - record.keys():
        raise ModelError(f"{path}: {', '.join(sorted(missing))} is missing in it")
    for listed, digest in record["files"].items():
        if not (folder / listed).is_file():
            raise ModelError(f"{folder}: {listed} is missing; copy the folder again")
        if sha256(folder / listed) != digest:
            raise ModelError(f"{folder / listed}: its content does not match its checksum in {name}; copy it again")
    return dict(record)


def record_digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file whose metadata has a checksum over names, shapes, values and all other metadata."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with writing(path, binary=True) as file:
        file.write(save(plain, {**metadata, "sha256": _digest(plain, metadata)}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a file of `save_tensors`; one that is missing, truncated or changed is a ModelError."""
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


def _digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(struct.pack("<q", tensor.numel()))
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
