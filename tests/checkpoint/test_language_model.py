"""A language model's folder: it comes back equal, and whatever is wrong with it is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from hanlattice.checkpoint.checksums import load_tensors, save_tensors
from hanlattice.checkpoint.language_model import (
    BREAK,
    language_model_digest,
    load_language_model,
    make_vocab,
    save_direction,
)
from hanlattice.errors import ModelError
from hanlattice.text.normalize import code_points
from hanlattice.text.vocab import seen_as
from tests.helpers.made import write_language_model


@pytest.fixture
def folder(lm_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(lm_folder, tmp_path / "lm"))


def test_it_comes_back_equal_in_half_precision(folder: Path) -> None:
    model = load_language_model(folder)
    assert model.facts == {
        "forward": {"direction": "forward"},
        "backward": {"direction": "backward"},
    }
    save_direction(
        folder, "forward", model.directions["forward"].state_dict(), model.facts["forward"]
    )
    again = load_language_model(folder)
    for direction, module in model.directions.items():
        assert not module.training
        for name, weight in module.state_dict().items():
            assert torch.equal(again.directions[direction].state_dict()[name], weight)
            assert torch.equal(weight.half().float(), weight)


def test_symbols() -> None:
    vocab = make_vocab("京0")
    assert vocab.symbols == ("<unk>", BREAK, "京", "0")
    assert seen_as(vocab)(code_points("京7\n７市")).tolist() == [2, 3, 1, 3, 0]


def test_a_direction_that_is_missing_is_named(folder: Path) -> None:
    (folder / "backward.safetensors").unlink()
    assert list(load_language_model(folder, directions=["forward"]).directions) == ["forward"]
    with pytest.raises(ModelError, match="the backward direction is missing"):
        load_language_model(folder)


def test_what_was_changed_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such language model folder"):
        load_language_model(tmp_path / "nowhere")
    with (folder / "chars.txt").open("a", encoding="utf-8") as file:
        file.write("界\n")
    with pytest.raises(ModelError, match=r"chars.txt: its content does not match"):
        load_language_model(folder)


def test_weights_of_another_shape_are_refused(folder: Path, tmp_path: Path) -> None:
    other = write_language_model(tmp_path / "other", hidden=7)
    shutil.copy(other / "forward.safetensors", folder)
    with pytest.raises(ModelError, match=r"do not fit lm\.json"):
        load_language_model(folder)


@pytest.mark.parametrize("kind", [torch.int64, torch.int8, torch.float64])
def test_weights_of_another_type_are_refused(folder: Path, kind: torch.dtype) -> None:
    path = folder / "forward.safetensors"
    tensors, metadata = load_tensors(path)
    save_tensors(path, tensors | {"bias": tensors["bias"].to(kind)}, metadata)
    with pytest.raises(
        ModelError, match=r"do not fit lm\.json: bias must be of float16 or float32"
    ):
        load_language_model(folder)


def test_a_record_that_says_more_than_it_should_is_refused(folder: Path) -> None:
    record = json.loads((folder / "lm.json").read_text("utf-8"))
    record["settings"]["hidden"] = 8
    (folder / "lm.json").write_text(json.dumps(record), "utf-8")
    with pytest.raises(ModelError, match="was changed"):
        load_language_model(folder)


def test_the_digest_tells_models_apart(folder: Path, lm_folder: Path, tmp_path: Path) -> None:
    assert language_model_digest(folder) == language_model_digest(lm_folder)
    assert language_model_digest(
        write_language_model(tmp_path / "o", seed=1)
    ) != language_model_digest(folder)
