"""Our reader of safetensors files against the library of that name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hanlattice import load
from hanlattice.checkpoint import find_model
from hanlattice.checkpoint.checksums import _digest, load_arrays, save_tensors
from hanlattice.errors import InputError, ModelError
from tests.helpers.documents import ROOT

SENTENCE = "国家主席江泽民在北京会见了联合国秘书长安南。"

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
        (64).to_bytes(8, "little")
        + b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}'.ljust(64)
        + b"0000",
        (64).to_bytes(8, "little")
        + b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}'.ljust(64)
        + b"0000",
        (64).to_bytes(8, "little")
        + b'{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}'.ljust(64)
        + b"0000",
        (64).to_bytes(8, "little")
        + b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'.ljust(64)
        + b"00000000",
        *(
            (96).to_bytes(8, "little")
            + b'{"a":{"dtype":"F32","shape":%b,"data_offsets":[0,4]}}'.ljust(96) % shape
            + b"0000"
            for shape in (b'["x"]', b"[true]", b"[1.0]", b"[NaN]", b"null", b"{}", b"[-1,-1]")
        ),
        (96).to_bytes(8, "little")
        + b'{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'.ljust(96),
    ],
)
def test_what_is_no_such_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(
        ModelError, match=r"cut short or not a safetensors file|does not match its checksum"
    ):
        load_arrays(tmp_path / "file")


WRITES = """
import sys
from pathlib import Path
from tests.checkpoint.test_safetensors import ARRAYS
from hanlattice.checkpoint.checksums import save_tensors
save_tensors(Path(sys.argv[1]), ARRAYS, {"scores": "{}", "b": "2", "a": "1", "format": "3"})
"""


def test_several_processes_write_the_same_bytes(tmp_path: Path) -> None:
    """The library writes metadata in an order that is random in every process."""
    contents = set()
    for seed in range(4):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(seed),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        }
        command = [sys.executable, "-c", WRITES, str(tmp_path / str(seed))]
        subprocess.run(command, check=True, env=environment, cwd=ROOT)
        contents.add((tmp_path / str(seed)).read_bytes())
    assert len(contents) == 1


def test_the_order_in_which_arrays_come_does_not_matter(tmp_path: Path) -> None:
    save_tensors(tmp_path / "one", ARRAYS, {"a": "1", "b": "2"})
    save_tensors(tmp_path / "two", dict(reversed(ARRAYS.items())), {"b": "2", "a": "1"})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_arrays_are_where_the_processor_reads_them_at_once(tmp_path: Path) -> None:
    save_tensors(tmp_path / "file", ARRAYS, {"a": "好" * 3})
    content = (tmp_path / "file").read_bytes()
    size = int.from_bytes(content[:8], "little")
    assert size % 8 == 0
    header = json.loads(content[8 : 8 + size])
    for name, array in ARRAYS.items():
        assert header[name]["data_offsets"][0] % array.itemsize == 0, name


def test_numbers_of_the_other_byte_order_are_written_in_this_one(tmp_path: Path) -> None:
    save_tensors(tmp_path / "file", {"a": np.arange(5, dtype=">i4")}, {})
    np.testing.assert_array_equal(load_file(tmp_path / "file")["a"], np.arange(5))


def test_a_header_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match="could not be read again: its header would have more than 16,777,216 bytes",
    ):
        save_tensors(tmp_path / "file", {}, {"scores": "x" * (1 << 24)})
    assert not [*tmp_path.iterdir()]


OVERWRITES = """
import json, shutil, sys
from pathlib import Path
import hanlattice
folder, how = Path(sys.argv[1]), sys.argv[2]
tagger = hanlattice.load(folder)
path = folder / "model.safetensors"
size = path.stat().st_size
with path.open("r+b") as file:
    if how == "shorter":
        file.truncate(100)
    else:
        file.write(bytes(size) if how == "zeros" else b"\\xff" * size)
document = tagger("国家主席江泽民在北京会见了联合国秘书长安南。")
print(json.dumps([[span.start, span.end, span.label, span.score] for span in document.spans]))
"""


@pytest.mark.parametrize("how", ["shorter", "zeros", "ones"])
def test_weights_that_are_overwritten_stay_those_of_a_running_process(
    tmp_path: Path, how: str
) -> None:
    """Of a file that is mapped, they would become other weights, or end the process by SIGBUS."""
    expected = [
        [span.start, span.end, span.label, span.score] for span in load("ner")(SENTENCE).spans
    ]
    folder = shutil.copytree(find_model("ner"), tmp_path / "model")
    command = [sys.executable, "-c", OVERWRITES, str(folder), how]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert json.loads(done.stdout) == expected


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets shorter after its size was asked for."""
    save_tensors(tmp_path / "file", ARRAYS, {})
    content = (tmp_path / "file").read_bytes()
    real = os.fstat

    def longer(file: int) -> Any:
        (tmp_path / "file").write_bytes(content[:-3])
        monkeypatch.setattr("os.fstat", real)
        return os.stat_result((*real(file)[:6], len(content), *real(file)[7:]))

    monkeypatch.setattr("os.fstat", longer)
    with pytest.raises(ModelError, match="cut short"):
        load_arrays(tmp_path / "file")
