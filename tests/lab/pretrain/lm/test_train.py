"""Training a language model: it learns, both directions are one method, figures are those of the
folder, refusals.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from hanlattice.checkpoint.language_model import (
    LanguageModelSettings,
    load_language_model,
    make_vocab,
    save_language_model_frame,
)
from hanlattice.config import TrainConfig
from hanlattice.errors import HanlatticeError, InputError, OutputError
from hanlattice.lab.pretrain.lm import train
from hanlattice.lab.pretrain.lm.folder import read_log
from hanlattice.lab.pretrain.lm.recipe import Recipe
from hanlattice.lab.pretrain.lm.score import score
from hanlattice.lab.pretrain.lm.text import Streams, read_source, text_lines
from hanlattice.lab.pretrain.lm.train import add_gradients, forgetful, train_language_model
from hanlattice.nn.language_model import CharLanguageModel
from hanlattice.training.optim import make_optimizer
from hanlattice.training.step import Training
from tests.helpers.gpu import run_without_waiting
from tests.helpers.lm import assert_same_weights, events, facts, tiny, weights
from tests.helpers.patience import PATIENCE


def test_a_text_that_repeats_itself_is_learnt(tmp_path):
    (tmp_path / "text.txt").write_text("甲乙丙丁戊己庚辛\n" * 300, "utf-8")
    recipe = tiny(hidden=24, embedding=12, batch_size=8, length=16, epochs=6, lr=0.03, dropout=0.0)
    found = train_language_model(recipe, [tmp_path / "text.txt"], tmp_path / "lm")
    for direction in ("forward", "backward"):
        assert found[direction]["held_out"]["bits"] < 0.05
        perplexities = [
            event["perplexity"] for event in events(tmp_path / "lm", "evaluate", direction)
        ]
        assert perplexities[0] > 1.1 * perplexities[-1]


def test_the_figures_are_those_of_the_folder_on_the_lines_held_out(trained, text):
    lines = text.read_text("utf-8").splitlines()
    held = lines[9::10]
    model = load_language_model(trained)
    for direction in ("forward", "backward"):
        mirrored = [line[::-1] for line in held] if direction == "backward" else held
        found = score(model.directions[direction], text_lines(model, mirrored))
        known = facts(trained, direction)
        assert known["held_out"] == found.as_dict()
        assert known["data"]["train"] == {
            "lines": 54,
            "characters": sum(map(len, lines)) - sum(map(len, held)),
        }
        assert known["data"]["held_out"] == {"lines": 6, "characters": sum(map(len, held))}
        (done,) = events(trained, "done", direction)
        assert done["held_out"] == found.as_dict()


def test_backward_is_forward_on_mirrored_text(trained, text, tmp_path):
    turned = tmp_path / "turned.txt"
    turned.write_text(
        "".join(f"{line[::-1]}\n" for line in text.read_text("utf-8").splitlines()), "utf-8"
    )
    train_language_model(tiny(), [turned], tmp_path / "lm", "forward")
    assert_same_weights(weights(tmp_path / "lm"), weights(trained, "backward"))
    assert (tmp_path / "lm" / "chars.txt").read_bytes() == (trained / "chars.txt").read_bytes()


def test_two_processes_may_train_into_one_folder(trained, text, tmp_path):
    """As threads here, one of which waits in the middle for the other's end."""
    forward_began = threading.Event()
    backward_ended = threading.Event()

    def listen(event: dict[str, Any]) -> None:
        if event["event"] == "start":
            forward_began.set()
            assert backward_ended.wait(PATIENCE)
            torch.manual_seed(1)  # threads share the random state, and processes do not

    ahead = threading.Thread(
        target=train_language_model,
        args=(tiny(), [text], tmp_path / "lm", "forward"),
        kwargs={"listen": listen},
    )
    ahead.start()
    assert forward_began.wait(PATIENCE)
    train_language_model(tiny(), [text], tmp_path / "lm", "backward")
    backward_ended.set()
    ahead.join(PATIENCE)
    for name in ("lm.json", "chars.txt"):
        assert (tmp_path / "lm" / name).read_bytes() == (trained / name).read_bytes()
    assert_same_weights(weights(tmp_path / "lm", "backward"), weights(trained, "backward"))
    assert "| backward |" in (tmp_path / "lm" / "README.md").read_text("utf-8")
    assert "| forward |" in (tmp_path / "lm" / "README.md").read_text("utf-8")


def test_another_model_can_be_the_beginning(trained, text, tmp_path):
    recipe = tiny(start_from=trained, embedding=None, hidden=8, lr=1e-9, epochs=1)
    found = train_language_model(recipe, [text], tmp_path / "lm")
    assert (tmp_path / "lm" / "chars.txt").read_bytes() == (trained / "chars.txt").read_bytes()
    for direction in ("forward", "backward"):
        for name, weight in weights(tmp_path / "lm", direction).items():
            torch.testing.assert_close(weight, weights(trained, direction)[name], atol=2e-3, rtol=0)
        assert found[direction]["from"]["held_out"]["perplexity"] == pytest.approx(
            found[direction]["held_out"]["perplexity"], rel=1e-3
        )
        (start,) = events(tmp_path / "lm", "start", direction)
        assert start["before"] == found[direction]["from"]["held_out"]
    assert f"the weights of {trained}" in (tmp_path / "lm" / "README.md").read_text("utf-8")


def test_names_that_are_not_utf8_or_have_line_ends_in_them(text, tmp_path):
    """GBK bytes, and U+2028 and U+0085, which are line ends to Python and not to JSON."""
    gbk = os.fsdecode("语料".encode("gbk"))
    file = Path(shutil.copy(text, tmp_path / f"{gbk}\u2028\x85.txt"))
    found = train_language_model(tiny(epochs=1), [file], tmp_path / "lm", "forward")["forward"]
    assert found["data"]["files"][0]["file"] == f"{tmp_path}/\ufffd\ufffd\ufffd\ufffd\u2028\x85.txt"
    assert facts(tmp_path / "lm") == {
        name: value for name, value in found.items() if name != "seconds"
    }
    assert "\ufffd\u2028\x85.txt" in (tmp_path / "lm" / "README.md").read_text("utf-8")
    assert len(read_log(tmp_path / "lm", "forward")) == 3


def test_the_beginning_brings_its_characters(trained, text, tmp_path):
    found = train_language_model(
        tiny(start_from=trained, epochs=1), [text], tmp_path / "lm", "forward"
    )
    assert found["forward"]["recipe"]["min_count"] is None
    assert facts(trained)["recipe"]["min_count"] == 2
    assert Recipe().decisive()["min_count"] == 5


@pytest.mark.parametrize("softmax", [1, 40, 1 << 26])
def test_gradients_in_parts_are_those_of_the_mean_loss(softmax, monkeypatch):
    monkeypatch.setattr(train, "SOFTMAX", softmax)
    torch.manual_seed(0)
    model = CharLanguageModel(11, 3, 4)
    ids, targets = torch.randint(11, (2, 3, 5)).unbind(0)
    loss = F.cross_entropy(model.logits(model(ids)[0]).flatten(0, 1), targets.flatten())
    expected = torch.autograd.grad(loss, list(model.parameters()))
    total = add_gradients(model, model(ids.int())[0], targets.int())
    assert float(total) / 15 == pytest.approx(float(loss.detach()))
    for weight, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(weight.grad, gradient)


def test_a_stream_forgets_now_and_then(monkeypatch):
    torch.manual_seed(0)
    state = (torch.ones(2, 20_000, 3), torch.full((2, 20_000, 3), 2.0))
    h, c = forgetful(state)
    gone = h[0, :, 0] == 0
    assert gone.float().mean() == pytest.approx(train.FORGET, abs=0.005)
    assert torch.equal(h, torch.where(gone[:, None], 0.0, state[0]))
    assert torch.equal(c, torch.where(gone[:, None], 0.0, state[1]))


def test_state_is_carried_from_chunk_to_chunk_and_begins_anew_with_an_epoch(
    text, tmp_path, monkeypatch
):
    """With a rate of nearly nothing, what each chunk begins with is what reading all before it
    gives.
    """
    given: list[tuple[torch.Tensor, torch.Tensor]] = []

    def spy(carried: Any) -> Any:
        given.append(tuple(part.clone() for part in carried))
        return carried

    monkeypatch.setattr(train, "forgetful", spy)
    recipe = tiny(lr=1e-12, dropout=0.0, weight_decay=0.0)
    train_language_model(recipe, [text], tmp_path / "lm", "forward")
    torch.manual_seed(recipe.seed)
    source = read_source(recipe, [text], ["forward"], lambda event: None)
    model = CharLanguageModel(len(source.vocab), 6, 8)
    chunks = len(given) // 2
    for epoch in range(2):
        stream = Streams(source.train, 4, torch.device("cpu")).epoch(recipe.seed, epoch)
        assert not any(part.any() for part in given[epoch * chunks])
        for chunk in (1, 3, chunks - 1):
            with torch.no_grad():
                _, expected = model(stream[:, : chunk * recipe.length])
            torch.testing.assert_close(
                given[epoch * chunks + chunk], expected, atol=1e-5, rtol=1e-4
            )


def test_weight_decay_is_for_matrices():
    groups = make_optimizer(CharLanguageModel(5, 3, 4), TrainConfig(weight_decay=0.3)).param_groups
    assert [
        (group["weight_decay"], {weight.ndim for weight in group["params"]}) for group in groups
    ] == [
        (0.3, {2}),
        (0.0, {1}),
    ]


@pytest.mark.parametrize("times", [1, 7])
def test_held_out_text_is_scored_as_often_as_asked(times, text, tmp_path):
    train_language_model(tiny(evaluate=times), [text], tmp_path / "lm", "forward")
    found = events(tmp_path / "lm", "evaluate")
    assert len(found) == 2 * times
    steps = found[-1]["step"] // 2
    assert [event["step"] for event in found][times - 1 :: times] == [steps, 2 * steps]


def test_the_best_weights_are_kept_not_the_last(text, tmp_path, monkeypatch):
    seen = []
    bits = iter([3.0, 1.0, 2.0, 1.5])
    real = train.score

    def fake(model: CharLanguageModel, lines: Any) -> Any:
        if not model.embedding.requires_grad:
            return real(model, lines)  # the end's figure
        seen.append(model.bias.detach().half())
        value = next(bits)
        return type(real(model, lines))(1, value, 2.0**value)

    monkeypatch.setattr(train, "score", fake)
    train_language_model(tiny(evaluate=2), [text], tmp_path / "lm", "forward")
    assert torch.equal(weights(tmp_path / "lm")["bias"], seen[1])
    assert not torch.equal(seen[1], seen[3])
    assert facts(tmp_path / "lm")["epoch"] == 1.0


def test_much_held_out_text_is_scored_in_part_until_the_end(text, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "SCORED", 30)
    train_language_model(tiny(), [text], tmp_path / "lm", "forward")
    (start,) = events(tmp_path / "lm", "start")
    (done,) = events(tmp_path / "lm", "done")
    assert 0 < start["scored"] < done["held_out"]["symbols"]
    held = text.read_text("utf-8").splitlines()[9::10]
    assert done["held_out"]["symbols"] == sum(len(line) + 1 for line in held)


def test_the_curve_is_drawn_if_it_can_be(trained, text, tmp_path):
    points = json.loads((trained / "curve-forward.json").read_text("utf-8"))["points"]
    kept = events(trained, "evaluate")
    assert [point["perplexity"] for point in points] == [event["perplexity"] for event in kept]
    assert [point["loss"] for point in points] == [event["loss"] for event in kept]
    assert "perplexity of a character" in (trained / "curve-forward.svg").read_text("utf-8")
    assert [event["curve"] for event in events(trained, "done")] == ["curve-forward.svg"]
    train_language_model(
        tiny(epochs=1), [text], tmp_path / "lm", "forward"
    )  # as without matplotlib
    assert not (tmp_path / "lm" / "curve-forward.svg").exists()
    assert (tmp_path / "lm" / "curve-forward.json").exists()
    assert [event["curve"] for event in events(tmp_path / "lm", "done")] == [None]


def test_training_loss_is_the_mean_over_what_was_read(text, tmp_path):
    """An untrained model of V symbols loses about ln V."""
    found = train_language_model(tiny(lr=1e-9, epochs=1), [text], tmp_path / "lm", "forward")[
        "forward"
    ]
    (event,) = events(tmp_path / "lm", "evaluate")
    assert event["loss"] == pytest.approx(math.log(found["symbols"]), rel=0.05)
    assert event["characters"] == found["trained_on"]
    assert (
        0
        <= found["data"]["train"]["characters"]
        + found["data"]["train"]["lines"]
        - event["characters"]
        < 4
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # it warns that it may miss some
def test_the_host_never_waits_for_a_gpu():
    model = CharLanguageModel(300, 16, 32).cuda()
    training = Training(model, make_optimizer(model, TrainConfig()), 1.0)
    text = torch.randint(300, (4, 41), device="cuda", dtype=torch.int32)
    state = (torch.zeros(1, 4, 32, device="cuda"), torch.zeros(1, 4, 32, device="cuda"))

    def gradients() -> torch.Tensor:
        hidden, _ = model(text[:, :-1], forgetful(state), torch.bfloat16)
        return add_gradients(model, hidden, text[:, 1:])

    run_without_waiting(lambda: training.step(gradients, 1e-3))
    assert 0 < float(training.loss) < math.inf


def test_other_sizes_than_those_of_the_beginning_are_refused(trained, text, tmp_path):
    with pytest.raises(
        InputError, match="--hidden 9 does not fit the model to start from, which has 8"
    ):
        train_language_model(tiny(start_from=trained, hidden=9), [text], tmp_path / "lm")
    assert not (tmp_path / "lm").exists()


def test_text_smaller_than_a_batch_says_what_to_lower(text, tmp_path):
    found = (
        r"there are \d+ characters to train on, .* --batch-size 90 × --length 9 takes 810;"
        r" lower one of them"
    )
    with pytest.raises(InputError, match=found):
        train_language_model(tiny(batch_size=90), [text], tmp_path / "lm")
    assert not (tmp_path / "lm").exists()


def test_text_without_a_frequent_character_is_refused(text, tmp_path):
    with pytest.raises(
        InputError, match="no character occurs 5000 times in the text; lower --min-count"
    ):
        train_language_model(tiny(min_count=5000), [text], tmp_path / "lm")


def test_a_folder_that_holds_something_else_is_left_alone(text, tmp_path):
    (tmp_path / "README.md").write_text("mine", "utf-8")
    with pytest.raises(
        OutputError, match=r"holds README\.md, which is not part of a language model"
    ):
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
    with pytest.raises(
        OutputError, match="holds a forward language model already: continue it with --resume"
    ):
        train_language_model(tiny(), [text], trained)


def test_both_directions_share_characters_and_sizes(text, tmp_path):
    train_language_model(tiny(), [text], tmp_path / "lm", "forward")
    with pytest.raises(
        OutputError, match="with other symbols or sizes, and both directions share them"
    ):
        train_language_model(tiny(hidden=9), [text], tmp_path / "lm", "backward")
    train_language_model(tiny(epochs=1), [text], tmp_path / "lm", "backward")
    assert set(load_language_model(tmp_path / "lm").directions) == {"forward", "backward"}


def test_a_start_that_failed_leaves_the_folder_to_another(text, tmp_path, monkeypatch):
    def too_large(*sizes: int, **more: int) -> None:
        torch.empty(1 << 60)  # more than a process can address

    message = r"not enough memory: lower --batch-size, --length, --hidden, .*--layers$"
    with monkeypatch.context() as patched:
        patched.setattr(train, "CharLanguageModel", too_large)
        with pytest.raises(HanlatticeError, match=message):
            train_language_model(tiny(), [text], tmp_path / "lm", "forward")
    assert not (tmp_path / "lm").exists()
    train_language_model(tiny(epochs=1), [text], tmp_path / "lm", "forward")


def test_a_frame_that_a_failed_start_has_left_is_written_anew(text, tmp_path):
    save_language_model_frame(tmp_path / "lm", make_vocab("ab"), LanguageModelSettings(6, 9))
    train_language_model(tiny(epochs=1), [text], tmp_path / "lm", "forward")
    assert load_language_model(tmp_path / "lm", directions=["forward"]).settings.hidden == 8


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't "
            "allocate memory: you tri"
        ),
    ],
    ids=["cuda", "cpu"],
)
def test_memory_that_runs_out_is_reported(error, text, tmp_path, monkeypatch):
    """In the first step, after which the folder is free for other sizes; in a later one, which can
    be gone on with.
    """
    real = train.add_gradients
    left = 0

    def fail(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise error
        return real(*arguments)

    monkeypatch.setattr(train, "add_gradients", fail)
    with pytest.raises(
        HanlatticeError, match=r"not enough memory: lower --batch-size, .*--layers$"
    ):
        train_language_model(tiny(hidden=16), [text], tmp_path / "lm", "forward")
    left = 3
    with pytest.raises(
        HanlatticeError,
        match=r"--layers, with another --out, or continue with --resume where there is more",
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
def test_a_loss_that_diverges_is_reported_with_advice(clip, text, tmp_path):
    found = (
        r"the loss is (nan|inf) by epoch 1, batch \d+: training has diverged; lower "
        r".*\(lr\) or .*\(clip\), .* --out"
    )
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
        ({"hidden": 0}, "--hidden must be 1 or more, and at most 65536, not 0"),
        ({"batch_size": 0}, "--batch-size must be 1 or more"),
        ({"lr": 0.0}, "--lr must be more than 0"),
        ({"lr": math.nan}, "--lr must be more than 0"),
        ({"dropout": 1.0}, "--dropout must be 0 or more and less than 1"),
        ({"held_out": 0.0}, "--held-out must be more than 0 and less than 1"),
        ({"weight_decay": math.inf}, "--weight-decay must be 0 or more"),
        ({"clip": -1.0}, "--clip must be 0 or more"),
        ({"seed": -1}, "--seed must be 0 or more"),
        ({"seed": 1 << 63}, "--seed must be 0 or more, and at most 9223372036854775807"),
        ({"hidden": 99999999999}, "--hidden must be 1 or more, and at most 65536"),
        ({"threads": 1 << 40}, "--threads must be 0 or more, and at most 4096"),
        ({"start_from": Path("lm"), "min_count": 5}, "--min-count does not fit --from"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong, found):
    with pytest.raises(InputError, match=found):
        Recipe(**wrong)
