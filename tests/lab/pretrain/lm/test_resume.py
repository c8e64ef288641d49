"""A training that is killed at any moment is resumed as if it had not been."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from hanlattice.errors import ModelError, OutputError
from hanlattice.lab.pretrain.lm import train
from hanlattice.lab.pretrain.lm.train import train_language_model
from tests.helpers.crash import moments
from tests.helpers.lm import (
    assert_same_run,
    events,
    facts,
    files_of_any_size,
    killed_at_step,
    limit_files,
    tiny,
)

FILES = {
    "README.md",
    "chars.txt",
    "curve-forward.json",
    "forward.safetensors",
    "lm.json",
    "log-forward.jsonl",
}
RECIPES: dict[str, dict[str, Any]] = {
    "one layer": {"evaluate": 3},
    "two layers with dropout": {"layers": 2, "dropout": 0.3, "clip": 0.0},
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_killed_in_mid_epoch_again_and_again(recipe, text, tmp_path):
    plain = tiny(**RECIPES[recipe])
    often = tiny(**RECIPES[recipe], checkpoint_minutes=0)
    train_language_model(plain, [text], tmp_path / "whole", "forward")
    assert {file.name for file in (tmp_path / "whole").iterdir()} == FILES
    assert killed_at_step(
        plain, text, tmp_path / "stopped", 2
    )  # nothing but the first state is there
    assert killed_at_step(often, text, tmp_path / "stopped", 9, resume=True)
    assert killed_at_step(often, text, tmp_path / "stopped", 11, resume=True)  # in epoch 2
    train_language_model(plain, [text], tmp_path / "stopped", "forward", resume=True)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")
    assert [event["step"] for event in events(tmp_path / "stopped", "resume")] == [9, 20]


def test_killed_at_every_moment_that_touches_the_disk(text, tmp_path):
    recipe = tiny(epochs=1, length=40)
    whole = tmp_path / "whole"
    found = moments(
        lambda: train_language_model(recipe, [text], whole, "forward"), whole, tmp_path / "copies"
    )
    for stopped in found:
        train_language_model(recipe, [text], stopped, "forward", resume=True)
        assert_same_run(stopped, whole)
    assert len(found) > 10


@pytest.mark.parametrize(("name", "share"), [("forward", 0.1), ("state-forward", 1.5)])
def test_a_disk_that_fills_up_is_reported_and_the_run_resumes_when_there_is_room(
    name, share, text, tmp_path
):
    """A real limit on the size of a file, from the first step on: too small for the weights or for
    the second state.
    """
    recipe = tiny(hidden=32, embedding=16)
    train_language_model(recipe, [text], tmp_path / "whole", "forward")
    limit = int(share * (tmp_path / "whole" / "forward.safetensors").stat().st_size)
    with (
        files_of_any_size(),
        pytest.raises(OutputError, match=rf"/{name}\.safetensors: the file would be larger than"),
    ):
        train_language_model(
            recipe,
            [text],
            tmp_path / "lm",
            "forward",
            listen=lambda event: limit_files(limit, event["event"]),
        )
    assert not list((tmp_path / "lm").glob(".*.part"))
    train_language_model(recipe, [text], tmp_path / "lm", "forward", resume=True)
    assert_same_run(tmp_path / "lm", tmp_path / "whole")


def test_resume_needs_the_same_options_and_the_same_text(text, tmp_path):
    assert killed_at_step(tiny(checkpoint_minutes=0), text, tmp_path / "lm", 3)
    with pytest.raises(ModelError, match="another configuration or other data"):
        train_language_model(tiny(lr=0.1), [text], tmp_path / "lm", "forward", resume=True)
    other = tmp_path / "other.txt"
    other.write_text(text.read_text("utf-8").replace("。\n", "！\n"), "utf-8")
    with pytest.raises(
        (ModelError, OutputError),
        match=r"another configuration or other data|other symbols or sizes",
    ):
        train_language_model(tiny(), [other], tmp_path / "lm", "forward", resume=True)
    train_language_model(
        tiny(checkpoint_minutes=9.0), [text], tmp_path / "lm", "forward", resume=True
    )


def test_resume_of_a_finished_run_says_what_it_found(trained, text):
    before = {file: file.read_bytes() for file in trained.iterdir()}
    found = train_language_model(tiny(), [text], trained, resume=True)
    assert found["forward"]["held_out"] == facts(trained)["held_out"]
    assert {file: file.read_bytes() for file in trained.iterdir()} == before
    with pytest.raises(ModelError, match="its forward direction was trained with other options"):
        train_language_model(tiny(epochs=3), [text], trained, resume=True)


def test_another_number_of_threads_is_no_other_run(trained, text, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "use_threads", lambda count: None)
    found = train_language_model(tiny(threads=2), [text], trained, resume=True)
    assert found["forward"]["held_out"] == facts(trained)["held_out"]
    assert killed_at_step(tiny(checkpoint_minutes=0), text, tmp_path / "lm", 3)
    train_language_model(tiny(threads=2), [text], tmp_path / "lm", "forward", resume=True)


def test_a_state_with_a_byte_changed_is_refused(text, tmp_path):
    assert killed_at_step(tiny(checkpoint_minutes=0), text, tmp_path / "lm", 3)
    state = tmp_path / "lm" / "state-forward.safetensors"
    content = bytearray(state.read_bytes())
    content[-5] ^= 4
    state.write_bytes(content)
    with pytest.raises(ModelError, match="does not match its checksum"):
        train_language_model(tiny(), [text], tmp_path / "lm", "forward", resume=True)


def test_a_stopped_run_that_began_with_another_model_goes_on(trained, text, tmp_path):
    plain = tiny(start_from=trained)
    often = tiny(start_from=trained, checkpoint_minutes=0)
    train_language_model(plain, [text], tmp_path / "whole", "forward")
    assert killed_at_step(often, text, tmp_path / "stopped", 5)
    train_language_model(plain, [text], tmp_path / "stopped", "forward", resume=True)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")


def test_half_written_files_of_this_direction_are_cleared_away(text, tmp_path):
    folder = tmp_path / "lm"
    folder.mkdir()
    for name in (".forward.safetensors.0123abcd.part", ".state-backward.safetensors.0123abcd.part"):
        (folder / name).write_bytes(b"x")
    train_language_model(tiny(epochs=1), [text], folder, "forward")
    assert {file.name for file in folder.iterdir()} == FILES | {
        ".state-backward.safetensors.0123abcd.part"
    }


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_learns_the_same_and_goes_on_after_a_stop(text, tmp_path):
    ask = tiny(hidden=16, embedding=16, epochs=6, dropout=0.0)
    cpu = train_language_model(ask, [text], tmp_path / "cpu", "forward")["forward"]["held_out"]
    ask = dataclasses.replace(ask, device="cuda")
    gpu = train_language_model(ask, [text], tmp_path / "gpu", "forward")["forward"]["held_out"]
    assert gpu["bits"] == pytest.approx(cpu["bits"], rel=0.05)
    assert killed_at_step(
        dataclasses.replace(ask, checkpoint_minutes=0), text, tmp_path / "stopped", 2
    )
    on = train_language_model(ask, [text], tmp_path / "stopped", "forward", resume=True)["forward"][
        "held_out"
    ]
    assert on["bits"] == pytest.approx(gpu["bits"], rel=0.05)
