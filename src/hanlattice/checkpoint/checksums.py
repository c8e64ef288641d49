"""Read and write JSON records and safetensors files whose checksums show any change."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import struct
from collections.abc import Iterable, Mapping
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
# How many numbers are checked at a time: temporary arrays stay in the cache.
_AT_ONCE = 1 << 20
_FLOAT = float(np.finfo(np.float32).max)
# The types of numbers by their names in a safetensors file.
_KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "?"}
_KINDS |= {"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1"}
_KINDS |= {"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1"}
_NAMES = {np.dtype(kind): name for name, kind in _KINDS.items()}
# The most bytes of a record, and of the header of a safetensors file.
MOST = 1 << 24


def write_record(
    path: Path, record: Mapping[str, Any], files: Iterable[str], kind: type | None = None
) -> None:
    """Write a JSON record with its own checksum and those of files in its folder.

    A record that does not fit `kind`, a TypedDict, is an InputError.
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
    """Read a record of `write_record`, and check it and the files that it lists.

    It must have this format version and fit `kind`; `what` is in the folder, for error messages.
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
                f"{folder / listed}: its content does not match its checksum in {name}; "
                "copy it again"
            )
    return dict(record)


def is_inside(name: str) -> bool:
    """Tell whether a name is that of a file below the folder."""
    parts = PurePosixPath(name).parts
    is_plain = re.fullmatch(r"[^\\\0:]{1,200}", name) is not None
    return is_plain and not name.startswith("/") and ".." not in parts and bool(parts)


def record_digest(record: Mapping[str, Any]) -> str:
    """Return the checksum of a record, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def save_tensors(path: Path, tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Write arrays or tensors as a safetensors file, with a checksum in its metadata.

    The same content gives the same bytes. The safetensors library cannot be used for that, since it
    writes metadata in an order that is random in each process.
    """
    plain: dict[str, Array] = {}
    for name, tensor in tensors.items():
        raw = tensor if isinstance(tensor, np.ndarray) else tensor.detach().cpu().numpy()
        array = np.asarray(raw, order="C")
        plain[name] = array.astype(array.dtype.newbyteorder("<"), copy=False)
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
        problem = f"its header would have more than {MOST:,} bytes"
        raise InputError(f"this file could not be read again: {problem}", path)
    with atomic_write(path, binary=True) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(plain[name].reshape(-1).view(np.uint8).data)


def load_arrays(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Read the arrays and metadata of a safetensors file; the arrays cannot be written to.

    A file that is missing, cut short or changed is a ModelError.
    """
    # The file is not mapped into memory: whoever overwrites it would change weights in use, or end
    # the process. A server's workers share the arrays anyway, since it forks after loading.
    try:
        # Opening a pipe would wait for its other end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(None, "it is not a regular file")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            # A header that is too long is refused, so the rest need not be read.
            header = int.from_bytes(file.read(8), "little")
            file.seek(0)
            content = np.empty(size if header <= MOST else min(size, 8), dtype=np.uint8)
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


def _parse(content: Array) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and metadata in the bytes of a file."""
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
        # Arrays lie side by side, so no two of them share memory.
        is_placed = low == end and high <= len(data)
        is_shape = all(type(size) is int and size >= 0 for size in shape)
        if not (is_placed and is_shape and high - low == math.prod([kind.itemsize, *shape])):
            raise ValueError(f"{name} is not where the header says")
        part = data[low:high]
        # C code and NumPy expect numbers at multiples of their size.
        aligned = part if part.ctypes.data % kind.itemsize == 0 else part.copy()
        arrays[name] = aligned.view(kind).reshape(shape)
        end = high
    if end != len(data):
        raise ValueError("it has more bytes than the header says")
    return arrays, metadata


def check_numbers(arrays: Mapping[str, Array], path: Path) -> None:
    """Raise a ModelError unless all arrays hold numbers that are finite, also in float32."""
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise ModelError(f"{path}: {name} must be of numbers, not {array.dtype}")
        flat = array.reshape(-1)
        for start in range(0, flat.size if array.dtype.kind == "f" else 0, _AT_ONCE):
            part = flat[start : start + _AT_ONCE]
            # Two numbers decide: NaN is both the smallest and the largest where there is one.
            if not (float(part.min()) >= -_FLOAT and float(part.max()) <= _FLOAT):
                raise ModelError(f"{path}: {name} has numbers that are not finite")


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file as `load_arrays` does, as tensors that may be written to."""
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
