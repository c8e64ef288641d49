"""What cannot be trained, or not there, is told at once, and says what to do instead."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from hanlattice.errors import HanlatticeError, InputError, OutputError
from hanlattice.models.language_model import Settings, load_language_model, make_vocab, save_language_model_frame
from hanlattice.pretrain.lm import train
from hanlattice.pretrain.lm.recipe import Recipe
from hanlattice.pretrain.lm.train import train_language_model
from tests.pretrain.lm.made import tiny


def test_other_sizes_than_those_of_the_beginning_are_refused(trained, text, tmp_path):
    with pytest.raises(InputError, match="--hidden 9 does not fit the model to start from, which has 8"):
        train_language_model(tiny(start_from=trained, hidden=9), [text], tmp_path / "lm")
    assert not (tmp_path / "lm").exists()


def test_text_smaller_than_a_batch_says_what_to_lower(text, tmp_path):
    found = r"there are \d+ characters to train on, .* --batch-size 90 × --length 9 takes 810; lower one of them"
    with pytest.raises(InputError, match=found):
        train_language_model(tiny(batch_size=90), [text], tmp_path / "lm")
    assert not (tmp_path / "lm").exists()


def test_text_without_a_frequent_character_is_refused(text, tmp_path):
    with pytest.raises(InputError, match="no character comes 5000 times in the text; lower --min-count"):
        train_language_model(tiny(min_count=5000), [text], tmp_path / "lm")


def test_a_folder_that_holds_something_else_is_left_alone(text, tmp_path):
    (tmp_path / "README.md").write_text("mine", "utf-8")
    with pytest.raises(OutputError, match=r"holds README\.md, which is not of a language model"):
        train_language_model(tiny(), [text], tmp_path)
    (tmp_path / "file").write_text("mine", "utf-8")
    for out in (tmp_path / "file", tmp_path / "file" / "x", tmp_path / "file" / "x" / "y"):
        with pytest.raises(OutputError, match=r"/file is a file; --out must name a folder"):
            train_language_model(tiny(), [tmp_path / "not-looked-at.txt"], out)
    assert (tmp_path / "README.md").read_text("utf-8") == "mine"


def test_a_folder_whose_name_is_not_utf8_is_refused(text, tmp_path):
    """Weights cannot be read back from it."""
    gbk = tmp_path / os.fsdecode("模型".encode("gbk"))
    with pytest.raises(OutputError, match="its name is not UTF-8"):
        train_language_model(tiny(), [text], gbk)
    assert not gbk.exists()


def test_a_direction_that_is_there_is_not_trained_again(trained, text):
    with pytest.raises(OutputError, match="holds a forward language model already: go on with it by --resume"):
        train_language_model(tiny(), [text], trained)


def test_both_directions_share_characters_and_sizes(text, tmp_path):
    train_language_model(tiny(), [text], tmp_path / "lm", "forward")
    with pytest.raises(OutputError, match="with other characters or sizes, and both directions share them"):
        train_language_model(tiny(hidden=9), [text], tmp_path / "lm", "backward")
    train_language_model(tiny(epochs=1), [text], tmp_path / "lm", "backward")
    assert set(load_language_model(tmp_path / "lm").directions) == {"forward", "backward"}


def test_a_start_that_failed_leaves_the_folder_to_another(text, tmp_path):
    """Twenty layers of 16 TiB are more than a process can address."""
    with pytest.raises(
        HanlatticeError, match=r"not enough memory: lower --batch-size, --length, --hidden, .*--layers$"
    ):
        train_language_model(tiny(hidden=1 << 20, layers=20), [text], tmp_path / "lm", "forward")
    assert not (tmp_path / "lm").exists()
    train_language_model(tiny(epochs=1), [text], tmp_path / "lm", "forward")


def test_a_frame_that_a_failed_start_has_left_is_written_anew(text, tmp_path):
    save_language_model_frame(tmp_path / "lm", make_vocab("ab"), Settings(6, 9))
    train_language_model(tiny(epochs=1), [text], tmp_path / "lm", "forward")
    assert load_language_model(tmp_path / "lm", directions=["forward"]).settings.hidden == 8


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tri"
        ),
    ],
    ids=["cuda", "cpu"],
)
def test_memory_that_runs_out_is_told(error, text, tmp_path, monkeypatch):
    """In the first step, after which the folder is free for other sizes; in a later one, which can be gone on with."""
    real, left = train.add_gradients, 0

    def fail(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise error
        return real(*arguments)

    monkeypatch.setattr(train, "add_gradients", fail)
    with pytest.raises(HanlatticeError, match=r"not enough memory: lower --batch-size, .*--layers$"):
        train_language_model(tiny(hidden=16), [text], tmp_path / "lm", "forward")
    left = 3
    with pytest.raises(
        HanlatticeError, match=r"--layers, with another --out, or go on by --resume where there is more"
    ):
        train_language_model(tiny(), [text], tmp_path / "lm", "forward")
    left = 1000
    train_language_model(tiny(), [text], tmp_path / "lm", "forward", resume=True)
    assert load_language_model(tmp_path / "lm", directions=["forward"]).settings.hidden == 8


def test_other_errors_of_torch_are_not_taken_for_a_lack_of_memory(text, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "add_gradients", lambda *arguments: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="size"):
        train_language_model(tiny(), [text], tmp_path / "lm", "forward")


@pytest.mark.parametrize("clip", [0.0, 5.0])
def test_a_loss_that_diverges_is_told_with_advice_that_can_be_followed(clip, text, tmp_path):
    found = r"the loss is (nan|inf) by step \d+: training has diverged; lower --lr or set --clip, and .* another --out"
    with pytest.raises(HanlatticeError, match=found):
        train_language_model(tiny(lr=1e38, clip=clip), [text], tmp_path / "lm", "forward")


def test_directions_and_devices_that_are_not_there_are_refused(text, tmp_path):
    with pytest.raises(InputError, match="no direction is called 'up'"):
        train_language_model(tiny(), [text], tmp_path / "lm", "up")
    with pytest.raises(InputError, match="no device is called 'tpu'"):
        train_language_model(tiny(device="tpu"), [text], tmp_path / "lm")
    assert not (tmp_path / "lm").exists()


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ({"hidden": 0}, "--hidden must be 1 or more, and at most 1048576, not 0"),
        ({"batch_size": 0}, "--batch-size must be 1 or more"),
        ({"lr": 0.0}, "--lr must be more than 0"),
        ({"lr": math.nan}, "--lr must be more than 0"),
        ({"dropout": 1.0}, "--dropout must be 0 or more and less than 1"),
        ({"held_out": 0.0}, "--held-out must be more than 0 and less than 1"),
        ({"weight_decay": math.inf}, "--weight-decay must be 0 or more"),
        ({"clip": -1.0}, "--clip must be 0 or more"),
        ({"seed": -1}, "--seed must be 0 or more"),
        ({"seed": 1 << 63}, "--seed must be 0 or more, and at most 9223372036854775807"),
        ({"hidden": 99999999999}, "--hidden must be 1 or more, and at most 1048576"),
        ({"threads": 1 << 40}, "--threads must be 0 or more, and at most 4096"),
        ({"start_from": Path("lm"), "min_count": 5}, "--min-count does not fit --from"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong, found):
    with pytest.raises(InputError, match=found):
        Recipe(**wrong)
