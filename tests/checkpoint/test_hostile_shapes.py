"""Folders whose arrays have other shapes than the model: refused in one line, without a crash and
without memory.

Every file is signed as its maker would sign it, so that only the comparison of shapes can find what
is wrong.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanlattice.checkpoint.checksums import load_arrays, save_tensors
from hanlattice.checkpoint.folder import save_frame, save_weights
from hanlattice.checkpoint.load import load_model
from hanlattice.checkpoint.plan import check_arrays
from hanlattice.config import make_config
from hanlattice.errors import ModelError
from hanlattice.features import Indexer
from hanlattice.text.vectors import Vectors, write_vectors
from hanlattice.training.build import build
from hanlattice.training.pack import pack
from tests.checkpoint.hostile import Child
from tests.checkpoint.test_foreign import GOLD, sign

Arrays = dict[str, npt.NDArray[Any]]
EXAMPLES = int(os.environ.get("HANLATTICE_FUZZ", "20"))
WORDS = (
    "南京",
    "南京市",
    "长江",
    "大桥",
    "江大桥",
    "市长",
    "北京",
    "上海",
    "杭州",
)  # three are never met
SMALL = {"chars": {"dim": 5}, "bichars": {"dim": 2}, "softwords": {"dim": 3}, "pools": {"dim": 2}}
MODELS: dict[str, dict[str, Any]] = {
    "lattice": {"hidden": 7},
    "deep": {"hidden": 2, "layers": 2, "whole_words": True, "pools": True, "first_layer": "char"},
    "two sources": {
        "hidden": 2,
        "sources": "both",
        "bichar": True,
        "pools": True,
        "coupled": False,
    },
    "mixed": {"hidden": 2, "layers": 3, "first_layer": "char", "coupled": False},
    "char": {"encoder": "char", "hidden": 2, "bichar": True, "softword": True},
    "coupled": {"encoder": "char", "hidden": 2, "coupled": True, "layers": 2},
    "tanh": {"encoder": "char", "hidden": 2, "cell": "tanh"},
    "cnn": {"encoder": "word", "hidden": 2, "char_features": "cnn", "char_width": 2, "layers": 2},
    "spelled": {
        "encoder": "word",
        "hidden": 2,
        "char_features": "sentence-lstm",
        "char_width": 4,
        "bichar": True,
    },
    "inside": {"encoder": "word", "hidden": 3, "char_features": "lstm", "char_width": 4},
    "whole words": {"encoder": "word", "hidden": 2},
}
PACKED = ("lattice", "deep", "two sources", "char", "cnn")
KINDS = [*MODELS, *(f"{name}, packed" for name in PACKED)]


def write_models(folder: Path) -> None:
    """Every kind of model, whole and packed, with numbers that half precision holds."""
    rows = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)
    write_vectors(folder / "words.vec", Vectors(WORDS, rows), binary=False)
    for name, model in MODELS.items():
        tree = {**SMALL, "words": {"dim": 4}, "segment": {"by": "gold"}, "model": model}
        if model.get("encoder", "lattice") == "lattice":
            tree |= {part: {"vectors": str(folder / "words.vec")} for part in ("words", "subwords")}
        config = make_config(tree)
        built = build(config, GOLD)
        save_frame(folder / name, config, built.indexer, {})
        weights = {key: tensor.numpy() for key, tensor in built.tagger.state_dict().items()}
        halved = {key: _halved(array) for key, array in weights.items()}
        save_weights(folder / name, halved, {})
        if name in PACKED:
            words = 8 if config.model.encoder == "lattice" else 0
            pack(folder / name, folder / f"{name}, packed", words)


def _halved(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.astype(np.float16).astype(array.dtype) if array.dtype == np.float32 else array


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shapes")
    write_models(folder)
    return folder


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    process = Child()
    yield process
    process.close()


def copied(folder: Path, out: Path, arrays: Arrays) -> Path:
    """A model with other arrays."""
    shutil.copytree(folder, out)
    save_tensors(out / "model.safetensors", arrays, load_arrays(folder / "model.safetensors")[1])
    return out


def arrays_of(folder: Path) -> Arrays:
    return {
        name: np.array(array)
        for name, array in load_arrays(folder / "model.safetensors")[0].items()
    }


def check_refused(found: dict[str, str]) -> None:
    """Each way of loading says in one line which file is wrong, and does not ask for memory."""
    for way, answer in found.items():
        assert answer.startswith("ModelError: "), (way, answer)
        assert "model.safetensors: " in answer, (way, answer)
        assert "\n" not in answer, (way, answer)
        assert "allocate" not in answer, (way, answer)
        assert len(answer) < 1000, (way, answer)


# ---- the description itself


def indexer_of(kind: str, folder: Path) -> tuple[Any, Indexer, Arrays]:
    model = load_model(folder / kind, modules=True)
    return (
        model.config,
        model.indexer,
        {name: array.numpy() for name, array in model.tagger.state_dict().items()},
    )


@pytest.mark.parametrize("kind", MODELS)
def test_the_layout_is_that_of_the_modules_of_torch(folders, kind):
    """No array more, none less; and each is compared: one that is longer by one is refused."""
    config, indexer, arrays = indexer_of(kind, folders)
    check_arrays(config, indexer, arrays)
    for name, array in arrays.items():
        with pytest.raises(LookupError, match=name):
            check_arrays(
                config, indexer, {key: each for key, each in arrays.items() if key != name}
            )
        for axis in range(array.ndim):
            if name == "pools.counts":
                continue  # it may end early
            shape = [size + (at == axis) for at, size in enumerate(array.shape)]
            with pytest.raises(LookupError):
                check_arrays(config, indexer, {**arrays, name: np.resize(array, shape)})
        with pytest.raises(LookupError, match="unexpected"):
            check_arrays(config, indexer, {**arrays, f"{name}.more": array})


def test_a_model_that_reads_nothing_is_refused(folders, tmp_path):
    """Without an encoder a model needs a transformer, which these settings do not name."""
    folder = Path(shutil.copytree(folders / "coupled", tmp_path / "model"))
    record = json.loads((folder / "config.json").read_text("utf-8"))
    record["config"]["model"]["encoder"] = "none"
    sign(folder, record)
    with pytest.raises(ModelError, match="nothing that the encoder could read"):
        load_model(folder)


# ---- two attacks


@pytest.mark.parametrize("kind", ["lattice", "lattice, packed"])
@pytest.mark.parametrize("tables", [("chars.vectors",), ("words.trained", "words.fixed")])
def test_tables_without_columns_are_refused(folders, tmp_path, child, kind, tables):
    """Every other array fits them. In 8 bits, C read scales of rows that had none."""
    arrays = arrays_of(folders / kind)
    readers = ("char_input", "link_input") if tables == ("chars.vectors",) else ("word_input",)
    for name, array in arrays.items():
        if name in tables:
            arrays[name] = array[:, :0]
        elif name.endswith(readers):
            arrays[name] = array[:0]
        elif name == "composer.table" and tables != ("chars.vectors",):
            arrays[name] = array[:, :0]
        elif name == "composer.mixing" and tables != ("chars.vectors",):
            arrays[name] = array[:3, :0]
    check_refused(child.use(copied(folders / kind, tmp_path / "model", arrays)))


@pytest.mark.parametrize(
    "name", ["output.weight", "encoder.forward_weights.char_input", "chars.vectors", "words.fixed"]
)
def test_numbers_and_scales_that_would_grow_are_refused(folders, tmp_path, child, name):
    """The product of a column and a row of 100,000 would have 10,000,000,000 numbers."""
    arrays = arrays_of(folders / "lattice, packed")
    arrays[name] = np.ones((100_000, 1), dtype=np.int8)
    arrays[f"{name}.scale"] = np.ones((1, 100_000), dtype=np.float16)
    check_refused(child.use(copied(folders / "lattice, packed", tmp_path / "model", arrays)))


# ---- and whatever else


def changed(arrays: Arrays, chance: np.random.Generator) -> tuple[Arrays, str]:
    """The arrays with another shape, type or name somewhere, and what was changed in words."""
    arrays = dict(arrays)
    name = str(chance.choice(sorted(arrays)))
    array = arrays[name]
    how = str(
        chance.choice(
            ["resize", "width", "axes", "reshape", "type", "scale", "bomb", "gone", "more", "swap"]
        )
    )
    sizes = [
        0,
        1,
        2,
        3,
        *array.shape,
        *(size + 1 for size in array.shape),
        *(2 * size for size in array.shape),
    ]
    if how == "resize" and array.ndim:
        shape = list(array.shape)
        shape[chance.integers(array.ndim)] = int(chance.choice(sizes))
        arrays[name] = np.resize(array, shape)
    elif how == "width" and array.ndim:  # of every array that has an axis of this size
        old = int(chance.choice(array.shape))
        new = int(chance.choice(sizes))
        for key, each in arrays.items():
            arrays[key] = np.resize(each, [new if size == old else size for size in each.shape])
    elif how == "axes":
        arrays[name] = np.ascontiguousarray(array.T) if chance.random() < 0.5 else array[..., None]
    elif how == "reshape":
        shapes = [
            (-1,),
            (1, -1),
            (-1, 1),
            (1, 1, -1),
            array.shape[::-1],
            (*array.shape, 1),
            (1, *array.shape),
        ]
        arrays[name] = (
            array.reshape(shapes[chance.integers(len(shapes))]) if array.size else array.reshape(0)
        )
    elif how == "type":
        kinds = [
            "float64",
            "float32",
            "float16",
            "int64",
            "int32",
            "int16",
            "int8",
            "uint8",
            "uint16",
            "uint64",
            "bool",
        ]
        with np.errstate(invalid="ignore", over="ignore"):
            arrays[name] = array.astype(str(chance.choice(kinds)))
    elif how == "scale":
        shapes = [
            (),
            (1,),
            (1, 1),
            array.shape,
            array.shape[:1],
            array.shape[-1:],
            (*array.shape[:1], 1),
            (0, 0),
        ]
        arrays[f"{name}.scale"] = np.ones(shapes[chance.integers(len(shapes))], dtype=np.float16)
        if chance.random() < 0.5:
            arrays[name] = np.ones(array.shape, dtype=str(chance.choice(["int8", "uint8"])))
    elif how == "bomb":
        long = int(chance.choice([1000, 100_000]))
        across = chance.random() < 0.5
        arrays[name] = np.ones(
            (1, long) if across else (long, 1), dtype=str(chance.choice(["int8", "uint8"]))
        )
        arrays[f"{name}.scale"] = np.ones((long, 1) if across else (1, long), dtype=np.float16)
    elif how == "gone":
        del arrays[name]
    elif how == "more":
        new = [
            "more",
            f"{name}.more",
            "composer.table",
            "composer.more",
            "words",
            "pools.counts",
            "lm.project.weight",
        ]
        shape = [(), (0,), (1 << 40, 0), (2, 3), array.shape][chance.integers(5)]
        arrays[str(chance.choice(new))] = np.zeros(shape, dtype=array.dtype)
    elif how == "swap":
        other = str(chance.choice(sorted(arrays)))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    return arrays, f"{how} of {name}"


def is_as_before(old: Arrays, new: Arrays) -> bool:
    """Whether the same model has these arrays, so that the change is one of values, which are free.

    A matrix may be written in bytes with a scale for each row or column: those are values, too.
    """
    packed = {
        name
        for name, array in new.items()
        if array.dtype == np.int8 and array.ndim == 2 and f"{name}.scale" in new.keys() - old.keys()
    }
    if new.keys() - {f"{name}.scale" for name in packed} != old.keys():
        return False
    for name in packed:
        rows, columns = new[name].shape
        if new[f"{name}.scale"].shape not in ((rows, 1), (1, columns)):
            return False
    return all(
        _shape(name, old) == _shape(name, new)
        and (name in packed or old[name].dtype == new[name].dtype)
        for name in old
    )


def _shape(name: str, arrays: Arrays) -> tuple[int, ...]:
    """The shape that a model asks for.

    The counts of pools may end early, and any number of a table's rows may have been trained.
    """
    shape = arrays[name].shape
    if name == "pools.counts" and len(shape) == 1:
        return (0,)
    if name.endswith((".trained", ".fixed")) and len(shape) == 2:
        table = name.rpartition(".")[0]
        rows = sum(
            len(arrays[part]) for part in (f"{table}.trained", f"{table}.fixed") if part in arrays
        )
        return (rows, shape[1])
    return shape


def check_changed(folder: Path, seed: int, child: Child, before: dict[str, str]) -> None:
    """A change is refused, or the model computes what it did, in every way of loading."""
    chance = np.random.default_rng(seed)
    old = arrays_of(folder)
    new, what = changed(old, chance)
    if chance.random() < 0.3:
        new, also = changed(new, chance)
        what = f"{what}, {also}"
    if is_as_before(old, new):
        return
    with tempfile.TemporaryDirectory() as place:
        found = child.use(copied(folder, Path(place, "model"), new))
    if found != before:
        try:
            check_refused(found)
        except AssertionError as error:
            raise AssertionError(f"{folder.name}, seed {seed}, {what}: {error}") from None


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[*HealthCheck])
@given(seed=st.integers(0, 1 << 40))
def test_another_shape_is_refused_or_computes_the_same(
    folders: Path, child: Child, kind: str, seed: int
) -> None:
    check_changed(folders / kind, seed, child, unchanged(folders / kind, child))


_known: dict[Path, dict[str, str]] = {}


def unchanged(folder: Path, child: Child) -> dict[str, str]:
    """What an unchanged model computes."""
    if folder not in _known:
        _known[folder] = child.use(folder)
        assert all(len(answer) == 64 for answer in _known[folder].values()), _known[folder]
    return _known[folder]


def main(seconds: float) -> None:
    """Change every kind of model until time is up; each change is refused or harmless."""
    end = time.monotonic() + seconds
    count = 0
    child = Child()
    with tempfile.TemporaryDirectory() as place:
        write_models(Path(place))
        while time.monotonic() < end:
            folder = Path(place, KINDS[count % len(KINDS)])
            check_changed(folder, count, child, unchanged(folder, child))
            count += 1
    child.close()
    print(f"{count:,} changes: each is refused in one line, or changes nothing")  # noqa: T201


if __name__ == "__main__":
    main(float(sys.argv[1]))
