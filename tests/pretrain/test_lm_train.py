"""Training a language model: it learns, both directions are one method, and after any death it goes on unchanged."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from hanlattice.errors import HanlatticeError, InputError, ModelError, OutputError
from hanlattice.models.folder import load_tensors
from hanlattice.models.language_model import load_language_model
from hanlattice.nn.language_model import CharLanguageModel
from hanlattice.pretrain import lm_curve, lm_step, lm_train
from hanlattice.pretrain.lm_recipe import Recipe
from hanlattice.pretrain.lm_score import score, text_lines
from hanlattice.pretrain.lm_step import add_gradients, forgetful, learning_rate, make_optimizer
from hanlattice.pretrain.lm_train import train_language_model
from tests.pretrain.lm_made import killed_at_step, killed_at_write, tiny, write_text

FILES = {
    "README.md", "chars.txt", "curve-forward.json", "curve-forward.svg", "forward.safetensors", "lm.json",
    "log-forward.jsonl",
}  # fmt: skip
HAS_GPU = torch.cuda.is_available()
RECIPES: dict[str, dict[str, Any]] = {
    "one layer": {"evaluate": 3},
    "two layers with dropout": {"layers": 2, "dropout": 0.3, "clip": 0.0},
}


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    """Sixty lines, of which six are held out; about twenty chunks an epoch."""
    return write_text(tmp_path_factory.mktemp("text") / "text.txt")


@pytest.fixture(scope="module")
def trained(text, tmp_path_factory) -> Path:
    """Both directions. Nobody writes into it."""
    folder = tmp_path_factory.mktemp("models") / "lm"
    train_language_model(tiny(), [text], folder)
    return folder


def weights(folder: Path, direction: str = "forward") -> dict[str, torch.Tensor]:
    return load_tensors(folder / f"{direction}.safetensors")[0]


def facts(folder: Path, direction: str = "forward") -> Any:
    known = json.loads(load_tensors(folder / f"{direction}.safetensors")[1]["facts"])
    return {name: value for name, value in known.items() if name != "seconds"}


def events(folder: Path, kind: str, direction: str = "forward") -> list[dict[str, Any]]:
    """The log's events of one kind, without what a clock wrote."""
    lines = [json.loads(line) for line in (folder / f"log-{direction}.jsonl").read_text("utf-8").splitlines()]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines if line["event"] == kind]


def assert_same_weights(mine: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert mine.keys() == theirs.keys()
    for name in theirs:
        assert torch.equal(mine[name], theirs[name]), name


def assert_same_run(folder: Path, expected: Path) -> None:
    assert_same_weights(weights(folder), weights(expected))
    assert facts(folder) == facts(expected)
    for kind in ("start", "evaluate", "done"):
        assert events(folder, kind) == events(expected, kind), kind
    shared_parts = (".chars.txt.", ".lm.json.", ".README.md.")  # may be another process's, so they are left
    assert {f.name for f in folder.iterdir() if not f.name.startswith(shared_parts)} == {
        f.name for f in expected.iterdir()
    }


def test_a_text_that_repeats_itself_is_learnt(tmp_path):
    (tmp_path / "text.txt").write_text("甲乙丙丁戊己庚辛\n" * 300, "utf-8")
    recipe = tiny(hidden=24, embedding=12, batch_size=8, length=16, epochs=6, lr=0.03, dropout=0.0)
    found = train_language_model(recipe, [tmp_path / "text.txt"], tmp_path / "lm")
    for direction in ("forward", "backward"):
        assert found[direction]["held_out"]["bits"] < 0.05
        perplexities = [event["perplexity"] for event in events(tmp_path / "lm", "evaluate", direction)]
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
        assert known["data"]["train"] == {"lines": 54, "characters": sum(map(len, lines)) - sum(map(len, held))}
        assert known["data"]["held_out"] == {"lines": 6, "characters": sum(map(len, held))}
        (done,) = events(trained, "done", direction)
        assert done["held_out"] == found.as_dict()


def test_backward_is_forward_on_mirrored_text(trained, text, tmp_path):
    turned = tmp_path / "turned.txt"
    turned.write_text("".join(f"{line[::-1]}\n" for line in text.read_text("utf-8").splitlines()), "utf-8")
    train_language_model(tiny(), [turned], tmp_path / "lm", "forward")
    assert_same_weights(weights(tmp_path / "lm"), weights(trained, "backward"))
    assert (tmp_path / "lm" / "chars.txt").read_bytes() == (trained / "chars.txt").read_bytes()


def test_two_processes_may_train_into_one_folder(trained, text, tmp_path):
    """As threads here, one of which waits in the middle for the other's end."""
    forward_began, backward_ended = threading.Event(), threading.Event()

    def listen(event: dict[str, Any]) -> None:
        if event["event"] == "start":
            forward_began.set()
            assert backward_ended.wait(60)
            torch.manual_seed(1)  # threads share the random state, and processes do not

    ahead = threading.Thread(
        target=train_language_model, args=(tiny(), [text], tmp_path / "lm", "forward"), kwargs={"listen": listen}
    )
    ahead.start()
    assert forward_began.wait(60)
    train_language_model(tiny(), [text], tmp_path / "lm", "backward")
    backward_ended.set()
    ahead.join(60)
    for name in ("lm.json", "chars.txt"):
        assert (tmp_path / "lm" / name).read_bytes() == (trained / name).read_bytes()
    assert_same_weights(weights(tmp_path / "lm", "backward"), weights(trained, "backward"))
    assert "| backward |" in (tmp_path / "lm" / "README.md").read_text("utf-8")
    assert "| forward |" in (tmp_path / "lm" / "README.md").read_text("utf-8")


@pytest.mark.parametrize("recipe", RECIPES)
def test_killed_in_mid_epoch_again_and_again(recipe, text, tmp_path):
    plain, often = tiny(**RECIPES[recipe]), tiny(**RECIPES[recipe], checkpoint_minutes=0)
    train_language_model(plain, [text], tmp_path / "whole", "forward")
    assert {file.name for file in (tmp_path / "whole").iterdir()} == FILES
    assert killed_at_step(plain, text, tmp_path / "stopped", 2)  # nothing but the first state is there
    assert killed_at_step(often, text, tmp_path / "stopped", 9, resume=True)
    assert killed_at_step(often, text, tmp_path / "stopped", 11, resume=True)  # in epoch 2
    train_language_model(plain, [text], tmp_path / "stopped", "forward", resume=True)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")
    assert [event["step"] for event in events(tmp_path / "stopped", "resume")] == [9, 20]


def test_killed_at_every_moment_that_touches_the_disk(text, tmp_path, monkeypatch):
    monkeypatch.setattr(lm_curve, "find_spec", lambda name: None)
    recipe = tiny(epochs=1, length=40)
    train_language_model(recipe, [text], tmp_path / "whole", "forward")
    moment = 0
    while killed_at_write(recipe, text, tmp_path / f"{moment}", moment):
        train_language_model(recipe, [text], tmp_path / f"{moment}", "forward", resume=True)
        assert_same_run(tmp_path / f"{moment}", tmp_path / "whole")
        shutil.rmtree(tmp_path / f"{moment}")
        moment += 1
    assert moment > 20
    assert_same_run(tmp_path / f"{moment}", tmp_path / "whole")


def test_resume_wants_the_same_options_and_the_same_text(text, tmp_path):
    assert killed_at_step(tiny(checkpoint_minutes=0), text, tmp_path / "lm", 3)
    with pytest.raises(ModelError, match="had other options or other text"):
        train_language_model(tiny(lr=0.1), [text], tmp_path / "lm", "forward", resume=True)
    other = tmp_path / "other.txt"
    other.write_text(text.read_text("utf-8").replace("。\n", "！\n"), "utf-8")
    with pytest.raises((ModelError, OutputError), match=r"other options or other text|other characters or sizes"):
        train_language_model(tiny(), [other], tmp_path / "lm", "forward", resume=True)
    train_language_model(tiny(checkpoint_minutes=9.0), [text], tmp_path / "lm", "forward", resume=True)


def test_resume_of_a_finished_run_says_what_it_found(trained, text):
    before = {file: file.read_bytes() for file in trained.iterdir()}
    found = train_language_model(tiny(), [text], trained, resume=True)
    assert found["forward"]["held_out"] == facts(trained)["held_out"]
    assert {file: file.read_bytes() for file in trained.iterdir()} == before
    with pytest.raises(ModelError, match="its forward direction was trained with other options"):
        train_language_model(tiny(epochs=3), [text], trained, resume=True)


def test_a_state_with_a_byte_changed_is_refused(text, tmp_path):
    assert killed_at_step(tiny(checkpoint_minutes=0), text, tmp_path / "lm", 3)
    state = tmp_path / "lm" / "state-forward.safetensors"
    content = bytearray(state.read_bytes())
    content[-5] ^= 4
    state.write_bytes(content)
    with pytest.raises(ModelError, match="does not match its checksum"):
        train_language_model(tiny(), [text], tmp_path / "lm", "forward", resume=True)


def test_another_model_can_be_the_beginning(trained, text, tmp_path):
    recipe = tiny(start_from=trained, embedding=None, hidden=8, lr=1e-9, epochs=1, min_count=50)
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


def test_other_sizes_than_those_of_the_beginning_are_refused(trained, text, tmp_path):
    with pytest.raises(InputError, match="--hidden 9 does not fit the model to start from, which has 8"):
        train_language_model(tiny(start_from=trained, hidden=9), [text], tmp_path / "lm")
    assert not (tmp_path / "lm").exists()


def test_a_stopped_run_that_began_with_another_model_goes_on(trained, text, tmp_path):
    plain, often = tiny(start_from=trained), tiny(start_from=trained, checkpoint_minutes=0)
    train_language_model(plain, [text], tmp_path / "whole", "forward")
    assert killed_at_step(often, text, tmp_path / "stopped", 5)
    train_language_model(plain, [text], tmp_path / "stopped", "forward", resume=True)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")


@pytest.mark.parametrize("softmax", [1, 40, 1 << 26])
def test_gradients_in_parts_are_those_of_the_mean_loss(softmax, monkeypatch):
    monkeypatch.setattr(lm_step, "SOFTMAX", softmax)
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
    assert gone.float().mean() == pytest.approx(lm_step.FORGET, abs=0.005)
    assert torch.equal(h, torch.where(gone[:, None], 0.0, state[0]))
    assert torch.equal(c, torch.where(gone[:, None], 0.0, state[1]))


def test_state_is_carried_from_chunk_to_chunk_and_begins_anew_with_an_epoch(text, tmp_path, monkeypatch):
    """With a rate of nearly nothing, what each chunk begins with is what reading all before it gives."""
    given: list[tuple[torch.Tensor, torch.Tensor]] = []

    def spy(carried: Any) -> Any:
        given.append(tuple(part.clone() for part in carried))
        return carried

    monkeypatch.setattr(lm_train, "forgetful", spy)
    recipe = tiny(lr=1e-12, dropout=0.0, weight_decay=0.0)
    train_language_model(recipe, [text], tmp_path / "lm", "forward")
    torch.manual_seed(recipe.seed)
    source = lm_train.read_source(recipe, [text], ["forward"], lambda event: None)
    model = CharLanguageModel(len(source.vocab), 6, 8)
    chunks = len(given) // 2
    for epoch in range(2):
        stream = lm_train.Streams(source.train, 4, torch.device("cpu")).epoch(recipe.seed, epoch)
        assert not any(part.any() for part in given[epoch * chunks])
        for chunk in (1, 3, chunks - 1):
            with torch.no_grad():
                _, expected = model(stream[:, : chunk * recipe.length])
            torch.testing.assert_close(given[epoch * chunks + chunk], expected, atol=1e-5, rtol=1e-4)


def test_the_rate_rises_and_falls_to_nothing():
    recipe = Recipe(lr=1.0, warmup=0.1)
    rates = [learning_rate(recipe, step, 100) for step in range(100)]
    assert rates[:11] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(1 / 90)
    assert learning_rate(Recipe(lr=1.0, warmup=0.0), 0, 1) == 1.0


def test_weight_decay_is_for_matrices():
    groups = make_optimizer(CharLanguageModel(5, 3, 4), Recipe(weight_decay=0.3)).param_groups
    assert [(group["weight_decay"], {weight.ndim for weight in group["params"]}) for group in groups] == [
        (0.3, {2}),
        (0.0, {1}),
    ]


@pytest.mark.parametrize("times", [1, 2, 3, 7])
def test_held_out_text_is_scored_as_often_as_asked(times, text, tmp_path):
    train_language_model(tiny(evaluate=times), [text], tmp_path / "lm", "forward")
    found = events(tmp_path / "lm", "evaluate")
    assert len(found) == 2 * times
    steps = found[-1]["step"] // 2
    assert [event["step"] for event in found][times - 1 :: times] == [steps, 2 * steps]


def test_the_best_weights_are_kept_not_the_last(text, tmp_path, monkeypatch):
    seen, bits = [], iter([3.0, 1.0, 2.0, 1.5])
    real = lm_train.score

    def fake(model: CharLanguageModel, lines: Any) -> Any:
        if not model.embedding.requires_grad:
            return real(model, lines)  # the end's figure
        seen.append(model.bias.detach().half())
        value = next(bits)
        return type(real(model, lines))(1, value, 2.0**value)

    monkeypatch.setattr(lm_train, "score", fake)
    train_language_model(tiny(evaluate=2), [text], tmp_path / "lm", "forward")
    assert torch.equal(weights(tmp_path / "lm")["bias"], seen[1])
    assert not torch.equal(seen[1], seen[3])
    assert facts(tmp_path / "lm")["epoch"] == 1.0


def test_much_held_out_text_is_scored_in_part_until_the_end(text, tmp_path, monkeypatch):
    monkeypatch.setattr(lm_train, "SCORED", 30)
    train_language_model(tiny(), [text], tmp_path / "lm", "forward")
    (start,) = events(tmp_path / "lm", "start")
    (done,) = events(tmp_path / "lm", "done")
    assert 0 < start["scored"] < done["held_out"]["symbols"]
    held = text.read_text("utf-8").splitlines()[9::10]
    assert done["held_out"]["symbols"] == sum(len(line) + 1 for line in held)


def test_the_curve_is_drawn_or_its_points_kept(trained, text, tmp_path, monkeypatch):
    points = json.loads((trained / "curve-forward.json").read_text("utf-8"))["points"]
    kept = events(trained, "evaluate")
    assert [point["perplexity"] for point in points] == [event["perplexity"] for event in kept]
    assert [point["loss"] for point in points] == [event["loss"] for event in kept]
    assert "perplexity of a character" in (trained / "curve-forward.svg").read_text("utf-8")
    monkeypatch.setattr(lm_curve, "find_spec", lambda name: None)
    train_language_model(tiny(), [text], tmp_path / "lm", "forward")
    assert not (tmp_path / "lm" / "curve-forward.svg").exists()
    (done,) = events(tmp_path / "lm", "done")
    assert done["curve"] is None


def test_training_loss_is_the_mean_over_what_was_read(text, tmp_path):
    """An untrained model of V symbols loses about ln V."""
    found = train_language_model(tiny(lr=1e-9, epochs=1), [text], tmp_path / "lm", "forward")["forward"]
    (event,) = events(tmp_path / "lm", "evaluate")
    assert event["loss"] == pytest.approx(math.log(found["symbols"]), rel=0.05)
    assert event["characters"] == found["trained_on"]
    assert 0 <= found["data"]["train"]["characters"] + found["data"]["train"]["lines"] - event["characters"] < 4


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
    with pytest.raises(OutputError, match="is a file; --out must name a folder"):
        train_language_model(tiny(), [text], tmp_path / "file")
    assert (tmp_path / "README.md").read_text("utf-8") == "mine"


def test_a_direction_that_is_there_is_not_trained_again(trained, text):
    with pytest.raises(OutputError, match="holds a forward language model already: go on with it by --resume"):
        train_language_model(tiny(), [text], trained)


def test_both_directions_share_characters_and_sizes(text, tmp_path):
    train_language_model(tiny(), [text], tmp_path / "lm", "forward")
    with pytest.raises(OutputError, match="with other characters or sizes, and both directions share them"):
        train_language_model(tiny(hidden=9), [text], tmp_path / "lm", "backward")
    train_language_model(tiny(epochs=1), [text], tmp_path / "lm", "backward")
    assert set(load_language_model(tmp_path / "lm").directions) == {"forward", "backward"}


def test_half_written_files_of_this_direction_are_cleared_away(text, tmp_path):
    folder = tmp_path / "lm"
    folder.mkdir()
    for name in (".forward.safetensors.0123abcd.part", ".state-backward.safetensors.0123abcd.part"):
        (folder / name).write_bytes(b"x")
    train_language_model(tiny(epochs=1), [text], folder, "forward")
    assert {file.name for file in folder.iterdir()} == FILES | {".state-backward.safetensors.0123abcd.part"}


@pytest.mark.parametrize("clip", [0.0, 5.0])
def test_a_loss_that_diverges_is_told(clip, text, tmp_path):
    with pytest.raises(HanlatticeError, match=r"the loss is (nan|inf) by step \d+: training has diverged; lower --lr"):
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
        ({"hidden": 0}, "--hidden must be 1 or more, not 0"),
        ({"batch_size": 0}, "--batch-size must be 1 or more, not 0"),
        ({"lr": 0.0}, "--lr must be more than 0"),
        ({"lr": math.nan}, "--lr must be more than 0"),
        ({"dropout": 1.0}, "--dropout must be 0 or more and less than 1"),
        ({"held_out": 0.0}, "--held-out must be more than 0 and less than 1"),
        ({"weight_decay": math.inf}, "--weight-decay must be 0 or more"),
        ({"seed": -1}, "--seed must be 0 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong, found):
    with pytest.raises(InputError, match=found):
        Recipe(**wrong)


@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device here")
def test_a_gpu_learns_the_same_and_goes_on_after_a_stop(text, tmp_path):
    ask = tiny(hidden=16, embedding=16, epochs=6, dropout=0.0)
    cpu = train_language_model(ask, [text], tmp_path / "cpu", "forward")["forward"]["held_out"]
    ask = dataclasses.replace(ask, device="cuda")
    gpu = train_language_model(ask, [text], tmp_path / "gpu", "forward")["forward"]["held_out"]
    assert gpu["bits"] == pytest.approx(cpu["bits"], rel=0.05)
    assert killed_at_step(dataclasses.replace(ask, checkpoint_minutes=0), text, tmp_path / "stopped", 2)
    on = train_language_model(ask, [text], tmp_path / "stopped", "forward", resume=True)["forward"]["held_out"]
    assert on["bits"] == pytest.approx(gpu["bits"], rel=0.05)


@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # it warns that it may miss some
def test_the_host_never_waits_for_a_gpu():
    model = CharLanguageModel(300, 16, 32).cuda()
    optimizer, weights = make_optimizer(model, Recipe()), list(model.parameters())
    text = torch.randint(300, (4, 41), device="cuda", dtype=torch.int32)
    state = (torch.zeros(1, 4, 32, device="cuda"), torch.zeros(1, 4, 32, device="cuda"))
    total = torch.zeros((), device="cuda", dtype=torch.float64)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        hidden, _ = model(text[:, :-1], forgetful(state), torch.bfloat16)
        total.add_(add_gradients(model, hidden, text[:, 1:]))
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()

    step()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert 0 < float(total) < math.inf
