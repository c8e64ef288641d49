"""Folders of unknown origin with fitting checksums are sound, or a ModelError says why not."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from hanlattice.checkpoint.checksums import load_arrays, record_digest, save_tensors
from hanlattice.checkpoint.folder import save_frame, save_weights
from hanlattice.checkpoint.language_model import load_language_model
from hanlattice.checkpoint.load import load_model
from hanlattice.cli import app
from hanlattice.config import make_config
from hanlattice.errors import ModelError
from hanlattice.files import sha256
from hanlattice.predict import Predictor
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.vectors import Vectors, write_vectors
from hanlattice.training.build import build
from hanlattice.training.pack import pack
from tests.helpers.made import write_language_model
from tests.helpers.untrained import in_twos

GOLD = [
    in_twos(Sentence("南京市长江大桥", (Span(0, 3, "LOC"),))),
    in_twos(Sentence("江大桥去了", (Span(0, 3, "PER"),))),
]
EXAMPLES = int(os.environ.get("HANLATTICE_FUZZ", "25"))  # of each kind of model
TEXTS = ["南京市长江大桥", "", " x 南京 ", "江大桥" * 9]
SMALL = {"chars": {"dim": 4}, "bichars": {"dim": 2}, "softwords": {"dim": 3}}
MODELS: dict[str, dict[str, Any]] = {
    "lattice": {
        "model": {"hidden": 2, "layers": 2, "whole_words": True, "pools": True},
        "pools": {"dim": 2},
    },
    "packed": {"model": {"hidden": 2, "decode": "spans"}},
    "char": {"model": {"encoder": "char", "hidden": 2, "bichar": True, "softword": True}},
    "word": {
        "model": {
            "encoder": "word",
            "hidden": 2,
            "char_features": "cnn",
            "char_width": 2,
            "layers": 2,
        }
    },
}
MODELS["word"] |= {"words": {"dim": 2}}
FACTS = {
    "train": {"file": "x", "sha256": "", "sentences": 1, "characters": 9, "spans": 1},
    "vectors": {"chars": "x"},
}
SCORE = {"precision": 1.0, "recall": 1.0, "f1": 1.0, "gold": 1, "predicted": 1, "correct": 1}
SCORES = {
    "epoch": 3,
    "dev": {"overall": SCORE, "by_type": {"LOC": SCORE}, "groups": {}},
    "bar": 0.4,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny untrained models of every kind, and a language model."""
    folder = tmp_path_factory.mktemp("foreign")
    words = ("南京", "南京市", "长江", "大桥", "江大桥", "市长")
    rows = np.random.default_rng(0).normal(size=(len(words), 2)).astype(np.float32)
    write_vectors(folder / "words.vec", Vectors(words, rows), binary=False)
    for name, tree in MODELS.items():
        tree = {**SMALL, **tree}
        if name in ("lattice", "packed"):
            tree["words"] = {"vectors": str(folder / "words.vec")}
        config = make_config(tree)
        built = build(config, GOLD)
        place = folder / ("whole" if name == "packed" else name)
        save_frame(place, config, built.indexer, FACTS)
        save_weights(place, built.tagger.state_dict(), SCORES)
        if name == "packed":
            pack(place, folder / name, words=5)
    write_language_model(folder / "lm")
    return {name: folder / name for name in (*MODELS, "lm")}


def record_of(folder: Path) -> Path:
    return next(folder / name for name in ("config.json", "lm.json") if (folder / name).exists())


def sign(folder: Path, record: Any) -> None:
    """Write the record with the checksums that its files, and itself, really have."""
    if isinstance(record, dict):
        record.pop("sha256", None)
        if isinstance(record.get("files"), dict):
            there = {
                name for name in record["files"] if "\0" not in name and (folder / name).is_file()
            }
            record["files"] |= {name: sha256(folder / name) for name in there}
        record["sha256"] = record_digest(record)
    record_of(folder).write_text(json.dumps(record), "utf-8")


def use(folder: Path) -> None:
    """Use a model in every way: none may end in an error that is not the project's own."""
    if record_of(folder).name == "lm.json":
        load_language_model(folder)
        return
    for modules in (False, True):
        load_model(folder, modules=modules)
    model = Predictor(load_model(folder))
    if model.lexicon is not None:
        model.lexicon.add("云栖小镇")
    list(model.pipe(TEXTS))
    model.model.other_segmenter()
    found = CliRunner().invoke(app, ["info", str(folder)])
    assert found.exit_code == 0, (found.output, found.exception)


def is_refused(folder: Path) -> bool:
    try:
        use(folder)
    except ModelError:
        return True
    return False


# ---- what the schema says, one by one

DEEP: Any = "x"
for _ in range(40):
    DEEP = [DEEP]
WRONG: list[tuple[str, Any, str]] = [
    ("files", ["chars.txt"], "files must be an object"),
    ("files", {"none.txt": 3}, r"files\.none\.txt must be a string"),
    ("files", {"/etc/passwd": "x"}, "no file of its folder"),
    ("files", {"../chars.txt": "x"}, "no file of its folder"),
    ("files", {"lm/../../x": "x"}, "no file of its folder"),
    ("files", {"a\0": "x"}, "no file of its folder"),
    ("files", {"": "x"}, "no file of its folder"),
    ("files", {".": "x"}, "no file of its folder|is missing"),
    ("tags", [1, 2], r"tags\[0\] must be a string"),
    ("tags", "O", "tags must be a list"),
    ("tags", [], "tags must be from 1"),
    ("tags", ["O", "O"], "tags must be from 1"),
    ("tags", ["O", "B-LOC"], "lacks"),
    (
        "tags",
        ["O", *(f"{p}-{'x' * 257}" for p in "BMES")],
        "a label has 257 characters, and 256 are the most",
    ),
    ("tags", [f"S-{n}" for n in range(5000)], "tags must be from 1"),
    ("scheme", None, "scheme must be a string"),
    ("scheme", "XYZ", "scheme must be one of"),
    ("config", None, "config must be an object"),
    ("config", {"model": []}, r"config\.model must be an object"),
    ("config", {"model": {"layers": 10**9}}, "model.layers must be from 1 to 64"),
    ("config", {"model": {"hidden": 10**9}}, "model.hidden must be from 1 to 65,536"),
    ("config", {"modle": {}}, "unknown section"),
    ("data", [], "data must be an object"),
    ("data", {"train": {"file": "x"}}, r"data\.train\.characters is missing"),
    ("data", {"packed": {"precision": 3}}, r"data\.packed\.precision must be a string"),
    ("data", {"mine": DEEP}, "nested more than"),
    ("data", {"mine": 10**30}, "too large"),
    ("data", {"mine": float("nan")}, "no number"),
    ("segmenter", "rjieba", "segmenter must be an object"),
    ("colour", "red", "colour is unknown; known are format"),
]


@pytest.mark.parametrize(("key", "value", "says"), WRONG)
def test_what_is_outside_of_the_schema_is_refused_by_its_name(folders, tmp_path, key, value, says):
    folder = Path(shutil.copytree(folders["lattice"], tmp_path / "model"))
    record = json.loads((folder / "config.json").read_text("utf-8"))
    sign(folder, record | {key: value})
    with pytest.raises(ModelError, match=says):
        load_model(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "chars.txt"])
def test_a_pipe_is_not_waited_for(folders, tmp_path, name):
    folder = Path(shutil.copytree(folders["lattice"], tmp_path / "model"))
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(ModelError, match=r"regular file|missing"):
        load_model(folder)


def test_a_huge_record_is_not_read(folders, tmp_path):
    folder = Path(shutil.copytree(folders["lattice"], tmp_path / "model"))
    with (folder / "config.json").open("r+b") as file:
        file.truncate(1 << 40)  # with holes
    with pytest.raises(ModelError, match="are the most"):
        load_model(folder)


ODD_WEIGHTS: list[tuple[Any, str]] = [
    (lambda array: np.full(array.shape, np.nan, dtype=np.float32), "not finite"),
    (lambda array: np.full(array.shape, -np.inf, dtype=np.float16), "not finite"),
    (lambda array: np.full(array.shape, 1e300), "not finite"),
    (lambda array: array > 0, "must be of .*, not bool"),
]


@pytest.mark.parametrize(("change", "says"), ODD_WEIGHTS)
@pytest.mark.parametrize("name", ["crf.start", "words.trained.scale", "composer.scale"])
def test_weights_are_finite_numbers(folders, tmp_path, change, says, name):
    folder = Path(shutil.copytree(folders["packed"], tmp_path / "model"))
    arrays, metadata = load_arrays(folder / "model.safetensors")
    save_tensors(folder / "model.safetensors", {**arrays, name: change(arrays[name])}, metadata)
    with pytest.raises(ModelError, match=says):
        load_model(folder)


def test_a_type_of_numbers_that_there_is_not_is_refused(folders, tmp_path):
    folder = Path(shutil.copytree(folders["lattice"], tmp_path / "model"))
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content.replace(b'"F32"', b'"C64"', 1))
    with pytest.raises(ModelError, match="C64"):
        load_model(folder)


def test_sizes_are_compared_before_memory_is_taken(folders, tmp_path):
    """The modules of torch with 65,536 hidden units would take 137 GB."""
    folder = Path(shutil.copytree(folders["word"], tmp_path / "model"))
    record = json.loads((folder / "config.json").read_text("utf-8"))
    record["config"]["model"]["hidden"] = 1 << 16
    sign(folder, record)
    for modules in (False, True):
        with pytest.raises(ModelError, match="do not fit"):
            load_model(folder, modules=modules)
    folder = Path(shutil.copytree(folders["lm"], tmp_path / "lm"))
    record = json.loads((folder / "lm.json").read_text("utf-8"))
    record["settings"]["hidden"] = 1 << 16
    sign(folder, record)
    with pytest.raises(ModelError, match="do not fit"):
        load_language_model(folder)


# ---- and whatever else

VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70_000),
    st.sampled_from([10**9, 10**30, 1e300, -1.0, 0.5, float("nan"), float("inf")]),
    st.text(max_size=5),
    st.sampled_from(
        ["lattice", "char", "word", "both", "BIO", "spans", "seg", "gold", "../x", "/x", "\ud800"]
    ),
    st.just(DEEP),
    st.lists(st.none() | st.text(max_size=2), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a tree with each of its keys."""
    if isinstance(value, dict | list):
        for key in [*value] if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def change_tree(tree: Any, data: st.DataObject) -> Any:
    """The tree with a value replaced, removed or added."""
    tree = copy.deepcopy(tree)
    container, key = data.draw(st.sampled_from([({"": tree}, ""), *places(tree)]))
    how = data.draw(st.sampled_from(["replace", "remove", "add", "move"]))
    others = [container[key] for container, key in places(tree)]
    value = (
        copy.deepcopy(data.draw(st.sampled_from(others)))
        if how == "move" and others
        else data.draw(VALUES)
    )
    if isinstance(container[key], dict) and how == "add":
        container[key][data.draw(st.text(max_size=3))] = value
    elif how == "remove":
        del container[key]
    else:
        container[key] = value
    return container[""] if isinstance(container, dict) and [*container] == [""] else tree


def change_weights(path: Path, data: st.DataObject) -> None:
    mapped, metadata = load_arrays(path)
    arrays = {name: np.array(array) for name, array in mapped.items()}
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    how = data.draw(st.sampled_from(["type", "shape", "value", "gone", "moved", "cut", "facts"]))
    if how == "type":
        kinds = ["float64", "float16", "int64", "int8", "uint8", "uint64", "bool"]
        with np.errstate(invalid="ignore", over="ignore"):
            arrays[name] = array.astype(data.draw(st.sampled_from(kinds)))
    elif how == "shape":
        shape = data.draw(st.lists(st.integers(0, 5), max_size=3))
        arrays[name] = np.resize(array, shape) if array.size else array.reshape(0)
    elif how == "value" and array.size:
        least, most = (
            (-1e38, 1e38)
            if array.dtype.kind == "f"
            else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
        )
        value = data.draw(st.sampled_from([0, 1, least, most]))
        with np.errstate(over="ignore"):
            array.reshape(-1)[data.draw(st.integers(0, array.size - 1)) :] = np.array(value).astype(
                array.dtype
            )
    elif how == "gone":
        del arrays[name]
    elif how == "moved":
        arrays[data.draw(st.sampled_from(sorted(arrays)) | st.text(max_size=3))] = arrays.pop(name)
    elif how == "cut":
        arrays[name] = array[: data.draw(st.integers(0, 3))]
    else:
        key = data.draw(st.sampled_from(sorted(metadata)))
        value = change_tree(json.loads(metadata[key]), data)
        metadata[key] = data.draw(st.sampled_from([json.dumps(value), "", "[" * 2000, "\ud800"]))
    try:
        save_tensors(path, arrays, metadata)
    except Exception:  # the library does not write what it could not read
        path.write_bytes(hashlib.sha256(path.read_bytes()).digest())


def change_lines(path: Path, data: st.DataObject) -> None:
    lines = path.read_bytes().split(b"\n")
    at = data.draw(st.integers(0, len(lines) - 1))
    how = data.draw(st.sampled_from(["remove", "double", "replace", "all"]))
    new = data.draw(
        st.sampled_from(
            [b"", b"\xff", b"\\", b"\\q", b"\xe5\x8d\x97\t3", b"x" * 600, b"\0", b" ", b"\r"]
        )
    )
    lines[at : at + 1] = {
        "remove": [],
        "double": [lines[at]] * 2,
        "replace": [new],
        "all": [new] * 3,
    }[how]
    path.write_bytes(b"" if how == "all" else b"\n".join(lines))


@pytest.mark.parametrize("kind", [*MODELS, "lm"])
@settings(max_examples=EXAMPLES, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_any_change_is_refused_or_harmless(
    folders: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    data: st.DataObject,
) -> None:
    folder = Path(shutil.copytree(folders[kind], tmp_path_factory.mktemp("changed") / "model"))
    record = json.loads(record_of(folder).read_text("utf-8"))
    texts = sorted(file.name for file in folder.glob("*.txt"))
    weights = sorted(file.name for file in folder.glob("*.safetensors"))
    which = data.draw(st.sampled_from(["record", "texts", "weights"]))
    if which == "record":
        record = change_tree(record, data)
    elif which == "texts":
        change_lines(folder / data.draw(st.sampled_from(texts)), data)
    else:
        change_weights(folder / data.draw(st.sampled_from(weights)), data)
    sign(folder, record)
    is_refused(folder)
    shutil.rmtree(folder.parent)
