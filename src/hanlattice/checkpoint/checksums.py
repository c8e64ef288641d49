"""Files that show when they were changed: JSON records and safetensors files, both with checksums."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hanlattice.checkpoint.schema import load_json
from hanlattice.checks import check_value
from hanlattice.errors import InputError, ModelError
from hanlattice.files import atomic_write, dump_json, read_small, reason, sha256

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[Any]
_AT_ONCE = 1 << 20
_FLOAT = float(np.finfo(np.float32).max)
# The types of numbers by their names in a safetensors file.
_KINDS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
}
_KINDS |= {"BOOL": "?", "U16": "<u2", "U32": "<u4", "U64": "<u8"}
_NAMES = {np.dtype(kind): name for name, kind in _KINDS.items()}
MOST = 1 << 24  # bytes of a record, and of the header of a safetensors file


def write_record(
    path: Path, record: Mapping[str, Any], files: Iterable[str], kind: type | None = None
) -> None:
    """Write a JSON record with the checksums of these files of its folder and of itself.

    What `read_record` would refuse, of records of this kind, is an InputError.
    """
    record = {**record, "files": {name: sha256(path.parent / name) for name in files}}
    text = dump_json(record | {"sha256": record_digest(record)}, indent=2)
    try:
        if len(text.encode()) > MOST:
            raise ValueError(f"it would have more than {MOST:,} bytes")
        load_json(text)
        if kind is not None:
            check_value(record, kind)
    except ValueError as error:
        raise InputError(f"this record could not be read again: {error}", path) from None
    with atomic_write(path) as file:
        file.write(text + "\n")


def read_record(path: Path, version: int, kind: type, what: str) -> dict[str, Any]:
    """Read a record of `write_record`, once it is of this kind, and its checksum and those of its
    files are right.
    """
    folder = path.parent
    name = path.name
    if not folder.is_dir():
        raise ModelError(f"{folder}: there is no such {what} folder")
    try:
        record = load_json(read_small(path, MOST))
    except FileNotFoundError:
        raise ModelError(f"{folder}: not a {what} folder, {name} is missing") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot read: {error.strerror}") from None
    except ValueError as error:
        raise ModelError(f"{path}: cannot be read as JSON: {error}") from None
    found = record.get("format") if isinstance(record, dict) else None
    if found != version:
        raise ModelError(
            f"{folder}: its format version is {found}, and this hanlattice reads {version}"
        )
    if record.pop("sha256", None) != record_digest(record):
        raise ModelError(
            f"{path}: its content does not match its checksum, so it was changed; copy it again"
        )
    try:
        check_value(record, kind)
    except ValueError as error:
        raise ModelError(f"{path}: {error}") from None
    for listed, digest in record["files"].items():
        if not is_inside(listed):
            raise ModelError(f"{path}: files has {listed!r}, which is no file of its folder")
        if not (folder / listed).is_file():
            raise ModelError(f"{folder}: {listed} is missing; copy the folder again")
        if sha256(folder / listed) != digest:
            raise ModelError(
                f"{folder / listed}: its content does not match its checksum in {name}; copy it again"
            )
    return dict(record)


def is_inside(name: str) -> bool:
    """Whether a name is one of a file in the folder, or in a folder of it."""
    parts = PurePosixPath(name).parts
    return (
        bool(re.fullmatch(r"[^\\\0:]{1,200}", name))
        and not name.startswith("/")
        and ".." not in parts
        and bool(parts)
    )


def record_digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def save_tensors(path: Path, tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Write arrays, or tensors, as a safetensors file, which is the same bytes for the same
    content.

    Its metadata has a checksum over names, shapes, values and all other metadata. The library of
    safetensors would write metadata in an order that is random in each process.
    """
    plain = {name: _array(tensor) for name, tensor in tensors.items()}
    facts = {**metadata, "sha256": _digest(plain, metadata)}
    header: dict[str, Any] = {"__metadata__": dict(sorted(facts.items()))}
    # The widest numbers come first, so that each array begins at a multiple of its numbers' size.
    order = sorted(plain, key=lambda name: (-plain[name].itemsize, name))
    end = 0
    for name in order:
        array = plain[name]
        start = end
        end = start + array.nbytes
        kind = _NAMES[array.dtype]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MOST:
        raise InputError(
            f"this file could not be read again: its header would have more than {MOST:,} bytes",
            path,
        )
    with atomic_write(path, binary=True) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(plain[name].reshape(-1).view(np.uint8).data)


def _array(tensor: Any) -> Array:
    array = np.asarray(
        tensor if isinstance(tensor, np.ndarray) else tensor.detach().cpu().numpy(), order="C"
    )
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def load_arrays(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and metadata of a file of `save_tensors`; one that is missing, cut short or
    changed is a ModelError.

    The arrays cannot be written to. They are this process's own: of a file that is mapped, weights
    would change while they are used if somebody overwrites it, and a page that is no longer there
    ends a process. A server forks its workers after loading, so they share these arrays too.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for when it is opened
            raise OSError(None, "it is not a regular file")
        with path.open("rb") as file:
            content = np.empty(_expected_size(file), dtype=np.uint8)
            size = file.readinto(content.data)
    except FileNotFoundError:
        raise ModelError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot read: {reason(error)}") from None
    except MemoryError:
        raise ModelError(f"{path}: there is not enough memory for it") from None
    content = content[:size]
    content.flags.writeable = False
    try:
        arrays, metadata = _parse(content)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(
            f"{path}: cut short or not a safetensors file ({error}); copy it again"
        ) from None
    expected = metadata.pop("sha256", None)
    if expected != _digest(arrays, metadata):
        raise ModelError(
            f"{path}: its content does not match its checksum, so it was changed; copy it again"
        )
    return arrays, metadata


def _expected_size(file: BufferedReader) -> int:
    """The bytes of a file, or of its beginning if that says that there is no more to read."""
    size = os.fstat(file.fileno()).st_size
    header = int.from_bytes(file.read(8), "little")
    file.seek(0)
    return size if header <= MOST else min(size, 8)


def _parse(content: Array) -> tuple[dict[str, Array], dict[str, str]]:
    """A ValueError or LookupError says what is wrong with it."""
    size = int.from_bytes(content[:8].tobytes(), "little")
    if len(content) < 8 or size > min(MOST, len(content) - 8):
        raise ValueError("its header is not whole")
    header = load_json(content[8 : 8 + size].tobytes())
    metadata = {str(key): str(value) for key, value in header.pop("__metadata__", {}).items()}
    data = content[8 + size :]
    end = 0
    arrays = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        kind = np.dtype(_KINDS[entry["dtype"]])
        shape = entry["shape"]
        low, high = entry["data_offsets"]
        if (
            low != end
            or high > len(data)
            or not all(type(size) is int and size >= 0 for size in shape)
            or high - low != math.prod([kind.itemsize, *shape])
        ):
            raise ValueError(f"{name} is not where the header says")
        part = data[low:high]
        aligned = part if part.ctypes.data % kind.itemsize == 0 else part.copy()
        arrays[name], end = aligned.view(kind).reshape(shape), high
    if end != len(data):
        raise ValueError("it has more bytes than the header says")
    return arrays, metadata


def check_numbers(arrays: Mapping[str, Array], path: Path) -> None:
    """Weights are numbers, and finite ones, also in float32; else a ModelError names the tensor."""
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise ModelError(f"{path}: {name} must be of numbers, not {array.dtype}")
        if array.dtype.kind == "f" and not all(_are_finite(part) for part in _parts(array)):
            raise ModelError(f"{path}: {name} has numbers that are not finite")


def _parts(array: Array) -> Iterator[Array]:
    flat = array.reshape(-1)
    return (flat[low : low + _AT_ONCE] for low in range(0, flat.size, _AT_ONCE))


def _are_finite(part: Array) -> bool:
    """Also as float32. The smallest and largest number decide: NaN is both of them where there is
    one.
    """
    return float(part.min()) >= -_FLOAT and float(part.max()) <= _FLOAT


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """`load_arrays` as tensors of torch, which may be written to."""
    import torch

    arrays, metadata = load_arrays(path)
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}, metadata


def _digest(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {tuple(array.shape)}".encode())
        digest.update(struct.pack("<q", array.size))
        if array.size:
            digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
