"""Our reader of safetensors files against the library of that name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hanlattice.errors import ModelError
from hanlattice.models.checksums import _digest, load_arrays, save_tensors

ARRAYS = {
    "scalar": np.array(3.0),
    "empty": np.zeros((0, 4), dtype=np.float32),
    "half": np.arange(6, dtype=np.float16).reshape(3, 2),
    "bytes": np.arange(9, dtype=np.uint8),
    "signed": np.arange(-4, 5, dtype=np.int8),
    "ints": np.arange(5),
    "turned": np.arange(12, dtype=np.float64).reshape(3, 4).T,
    "flags": np.array([True, False]),
    "名": np.arange(3, dtype=np.int32),
}


def test_we_read_what_we_write(tmp_path: Path) -> None:
    save_tensors(tmp_path / "ours", ARRAYS, {"a": "好"})
    found, metadata = load_arrays(tmp_path / "ours")
    assert metadata == {"a": "好"}
    for name, array in load_file(tmp_path / "ours").items():
        np.testing.assert_array_equal(found[name], array)
        np.testing.assert_array_equal(ARRAYS[name], array)


def test_we_read_what_the_library_writes(tmp_path: Path) -> None:
    dense = {name: np.array(array, order="C") for name, array in ARRAYS.items()}
    save_file(dense, tmp_path / "theirs", {"a": "好", "sha256": _digest(dense, {"a": "好"})})
    found, metadata = load_arrays(tmp_path / "theirs")
    assert metadata == {"a": "好"}
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert not found[name].flags.writeable or not found[name].size


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"\0" * 8,
        (1 << 40).to_bytes(8, "little"),
        (2).to_bytes(8, "little") + b"[]",
        (2).to_bytes(8, "little") + b"{}x",
        (11).to_bytes(8, "little") + b'{"a": null}',
        (64).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}'.ljust(64) + b"0000",
        (64).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}'.ljust(64) + b"0000",
        (64).to_bytes(8, "little") + b'{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}'.ljust(64) + b"0000",
        (64).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'.ljust(64) + b"00000000",
        (64).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":["x"],"data_offsets":[0,4]}}'.ljust(64) + b"0000",
    ],
    ids=range(12),
)
def test_what_is_no_such_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ModelError, match=r"cut short or not a safetensors file|does not match its checksum"):
        load_arrays(tmp_path / "file")
