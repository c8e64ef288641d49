"""The training loop learns, stops when told, resumes after any death, and scores segmenters."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hanlattice.checkpoint.checksums import load_tensors
from hanlattice.checkpoint.load import load_model
from hanlattice.config import Config, make_config
from hanlattice.data.corpus import read_corpus
from hanlattice.data.formats.columns import write_columns
from hanlattice.data.formats.jsonl import write_jsonl
from hanlattice.errors import ConfigError, HanlatticeError, InputError, ModelError, OutputError
from hanlattice.evaluation.ner import Score, score
from hanlattice.evaluation.segmentation import score_segmentation, words_in
from hanlattice.inference.decode import decode
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.training import loop
from hanlattice.training.corpora import read_corpora, training_words
from hanlattice.training.loop import train
from tests.helpers.crash import killed_at_step, moments
from tests.helpers.cutting import cutting_tree, in_words
from tests.helpers.made import made_config, sentences, write_made
from tests.helpers.untrained import in_twos

CLOCKS = ("seconds",)
RECIPES: dict[str, dict[str, Any]] = {
    "lattice and softwords, adamw averaged, missing words": {
        "model__softword": True,
        "softwords__pos": True,
        "train__weight_decay": 0.01,
        "train__average": 0.9,
        "train__word_dropout": 0.3,
    },
    "fixed words with bigrams, sgd with momentum": {
        "model__encoder": "word",
        "model__char_features": "lstm",
        "model__bichar": True,
        "words__fine_tune": False,
        "train__optimizer": "sgd",
        "train__lr": 0.05,
        "train__momentum": 0.9,
    },
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """Forty sentences: five batches an epoch."""
    folder = tmp_path_factory.mktemp("tiny")
    write_made(folder, train=40)
    return folder


def config_of(tiny: Path, **changes: Any) -> Config:
    return made_config(tiny, **{"train__epochs": 2, "model__hidden": 4, **changes})


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_tensors(folder / "model.safetensors")[0]


def scores(folder: Path) -> Any:
    return json.loads(load_tensors(folder / "model.safetensors")[1]["scores"])


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The log's events of one kind, without what a clock wrote."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]
    return [
        {k: v for k, v in line.items() if k not in CLOCKS}
        for line in lines
        if line["event"] == kind
    ]


def assert_same_run(folder: Path, expected: Path) -> None:
    mine = weights(folder)
    theirs = weights(expected)
    assert mine.keys() == theirs.keys()
    for name in theirs:
        assert torch.equal(mine[name], theirs[name]), name
    assert scores(folder) == scores(expected)
    for kind in ("start", "epoch", "done"):
        assert events(folder, kind) == events(expected, kind), kind
    files = {file.name for file in folder.iterdir()}
    assert files == {file.name for file in expected.iterdir()}
    always = {"config.json", "chars.txt", "model.safetensors", "README.md", "log.jsonl"}
    assert files - {".lock", "lexicon.txt", "words.txt", "bichars.txt", "pos.txt"} == always


@pytest.mark.parametrize("encoder", ["lattice", "char"])
def test_the_made_corpus_is_learnt(encoder, lattice_folder, char_folder):
    folder = {"lattice": lattice_folder, "char": char_folder}[encoder]
    found = scores(folder)
    assert found["dev"]["overall"]["f1"] > 0.95
    assert found["test"]["overall"]["f1"] > 0.95
    assert load_model(folder).config.model.encoder == encoder


@pytest.mark.parametrize("recipe", RECIPES)
def test_killed_in_mid_epoch_again_and_again(recipe, tiny, tmp_path):
    config = config_of(tiny, **RECIPES[recipe])
    train(config, tmp_path / "whole")
    often = config_of(tiny, **RECIPES[recipe], train__checkpoint_minutes=1e-9)
    assert killed_at_step(config, tmp_path / "stopped", 2)  # nothing but the first state is there
    assert killed_at_step(often, tmp_path / "stopped", 3, resume=True)  # in epoch 1
    assert killed_at_step(often, tmp_path / "stopped", 4, resume=True)  # in epoch 2
    train(config, tmp_path / "stopped", resume=True)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")
    resumed = events(tmp_path / "stopped", "resume")
    assert [(event["epoch"], event["batch"]) for event in resumed] == [(0, 3), (1, 2)]


def test_killed_at_every_moment_that_touches_the_disk(tiny, tmp_path):
    config = config_of(tiny, train__average=0.9)
    found = moments(
        lambda: train(config, tmp_path / "whole"), tmp_path / "whole", tmp_path / "copies"
    )
    for stopped in found:
        train(config, stopped, resume=True)
        assert_same_run(stopped, tmp_path / "whole")
    assert len(found) > 15


def at_the_pace_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread makes batches, and the loss is read after the first step and after each epoch."""
    monkeypatch.setitem(loop.PREFETCH, "cpu", (3, 1e9))


def prefetching() -> list[str]:
    """The names of the threads that make batches now."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("prefetch")]


def test_batches_made_ahead_and_a_loss_seldom_read_change_nothing(tiny, tmp_path, monkeypatch):
    config = config_of(tiny, train__average=0.9)
    heard = []
    threads: dict[str, list[str]] = {}

    def listen(event: dict[str, Any]) -> None:
        heard.append(event)
        threads[event["event"]] = prefetching()

    train(config, tmp_path / "plain", listen=listen)
    assert threads["step"] == []
    heard.clear()
    at_the_pace_of_a_gpu(monkeypatch)
    train(config, tmp_path / "ahead", listen=listen)
    assert len(threads["step"]) == 1
    assert_same_run(tmp_path / "ahead", tmp_path / "plain")
    assert [(event["epoch"], event["batch"]) for event in heard if event["event"] == "step"] == [
        (0, 1)
    ]
    assert not prefetching()


def test_word_dropout_change_what_is_learnt_and_none_changes_nothing(tiny, tmp_path, monkeypatch):
    for name, share in (("plain", None), ("none", 0.0), ("some", 0.5)):
        changes = {} if share is None else {"train__word_dropout": share}
        train(config_of(tiny, train__epochs=1, **changes), tmp_path / name)
    assert_same_run(tmp_path / "none", tmp_path / "plain")
    some, plain = (weights(tmp_path / name) for name in ("some", "plain"))
    assert not torch.equal(some["output.weight"], plain["output.weight"])
    at_the_pace_of_a_gpu(monkeypatch)
    train(config_of(tiny, train__epochs=1, train__word_dropout=0.5), tmp_path / "ahead")
    assert_same_run(tmp_path / "ahead", tmp_path / "some")


def test_each_step_of_each_epoch_misses_other_words(tiny, tmp_path, monkeypatch):
    seeds: list[tuple[int, ...]] = []
    real = loop.Examples.batch

    def batch(
        self: Any, places: Any, missing: float = 0.0, seed: Any = (0,), rows: Any = None
    ) -> Any:
        seeds.extend([tuple(map(int, seed))] if missing else [])
        return real(self, places, missing, seed, rows)

    monkeypatch.setattr(loop.Examples, "batch", batch)
    train(config_of(tiny, train__word_dropout=0.5), tmp_path / "run")
    assert len(seeds) == len(set(seeds)) == 10  # two epochs of five steps; dev misses none
    assert {(seed[0], seed[1]) for seed in seeds} == {(1, 0), (1, 1)}


def test_more_sentences_are_trained_on_and_their_words_met(tiny, tmp_path):
    write_jsonl(tmp_path / "more.jsonl", [Sentence("大海与沙漠，沙漠", (Span(0, 2, "SEA"),))] * 3)
    folder = train(
        config_of(tiny, train__epochs=1, data__more=str(tmp_path / "more.jsonl")), tmp_path / "run"
    ).folder
    model = load_model(folder)
    assert (model.data["train"]["sentences"], model.data["more"]["sentences"]) == (40, 3)
    assert "SEA" in " ".join(model.indexer.tags)
    met = model.indexer.lexicon.words[: len(model.tagger.words.trained)]
    assert met.index("沙漠") < met.index("大海")
    assert events(folder, "start")[0]["train"] == 43
    assert f"| more | {tmp_path / 'more.jsonl'} | 3 |" in (folder / "README.md").read_text("utf-8")


def test_resume_needs_the_same_further_sentences(tiny, tmp_path):
    write_jsonl(tmp_path / "more.jsonl", sentences(8, 5))
    config = config_of(tiny, train__epochs=1, data__more=str(tmp_path / "more.jsonl"))
    assert killed_at_step(config, tmp_path / "run", 1)
    write_jsonl(tmp_path / "more.jsonl", sentences(8, 6))
    with pytest.raises(ModelError, match="another configuration or other data"):
        train(config, tmp_path / "run", resume=True)


def test_the_loss_is_saved_though_nobody_looked(tiny, tmp_path, monkeypatch):
    """Stopped between two looks, each state having been written without one."""
    config = config_of(tiny, train__checkpoint_minutes=1e-9)
    train(config, tmp_path / "whole")
    at_the_pace_of_a_gpu(monkeypatch)
    real = loop.TrainingRun.save
    left = 4

    def save(run: loop.TrainingRun) -> None:
        nonlocal left
        real(run)
        left -= 1
        if not left:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop.TrainingRun, "save", save)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "stopped")
    assert not prefetching()
    monkeypatch.setattr(loop.TrainingRun, "save", real)
    train(config, tmp_path / "stopped", resume=True)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")


def test_a_loss_that_diverges_unseen_is_reported_before_weights_are_kept(
    tiny, tmp_path, monkeypatch
):
    at_the_pace_of_a_gpu(monkeypatch)
    config = config_of(tiny, train__optimizer="sgd", train__lr=1e38, train__clip=0.0)
    with pytest.raises(
        HanlatticeError,
        match=r"the loss is (nan|inf) by epoch 1, batch 5: .*lower the learning rate",
    ):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_a_batch_that_cannot_be_made_is_reported(tiny, tmp_path, monkeypatch):
    at_the_pace_of_a_gpu(monkeypatch)

    def fail(run: loop.TrainingRun, places: Any) -> None:
        raise MemoryError("no room for a batch")

    monkeypatch.setattr(loop.TrainingRun, "make_batch", fail)
    with pytest.raises(MemoryError, match="no room for a batch"):
        train(config_of(tiny), tmp_path / "run")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_learns_and_goes_on_where_it_was_stopped(tiny, tmp_path):
    config = config_of(tiny, train__device="cuda", train__epochs=8, model__hidden=16)
    heard = []
    assert killed_at_step(config, tmp_path / "run", 0)
    found = train(config, tmp_path / "run", resume=True, listen=heard.append).scores
    assert found["dev"]["overall"]["f1"] > 0.5
    assert [event["event"] for event in heard].count("epoch") == 8
    assert not prefetching()


def test_words_that_training_never_met_keep_their_vectors(tiny, tmp_path):
    folder = train(config_of(tiny, train__weight_decay=0.1), tmp_path / "run").folder
    before = loop.build(config_of(tiny), loop.read_corpora(config_of(tiny).data).train)
    after = load_model(folder, modules=True)
    assert before.indexer.lexicon is not None
    assert after.indexer.lexicon is not None
    assert before.tagger.words is not None
    assert after.tagger.words is not None
    met = len(before.tagger.words.trained)
    assert "沙漠" in after.indexer.lexicon.words[met:]
    assert torch.equal(after.tagger.words.fixed, before.tagger.words.fixed)
    assert not torch.equal(after.tagger.words.trained, before.tagger.words.trained)


def test_one_seed_one_model_two_seeds_two(tiny, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(config_of(tiny, train__seed=seed), tmp_path / name)
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert not torch.equal(
        weights(tmp_path / "a")["output.weight"], weights(tmp_path / "c")["output.weight"]
    )


def test_a_step_in_parts_is_a_plain_step_of_the_whole_batch(tiny, tmp_path):
    config = config_of(tiny, train__accumulate=3, train__average=0.9, train__clip=0.1)
    corpora = read_corpora(config.data)
    run, plain = (
        loop.prepare(config, tmp_path / name, corpora, False, lambda event: None)
        for name in ("run", "plain")
    )
    rates = [0.01] * len(run.training.optimizer.param_groups)
    run.tagger.train()
    torch.manual_seed(1)
    loop.train_step(run.training, run.model, run.make_batch(np.arange(8)), run.team, rates)
    plain.tagger.train()
    torch.manual_seed(1)
    parts = plain.make_batch(np.arange(8))
    assert len(parts) == 3
    weights = plain.training.average.weights
    for group in plain.training.optimizer.param_groups:
        group["lr"] = 0.01
    total = sum(plain.tagger.loss(part).sum() for part in parts)
    (total / 8).backward()
    torch.nn.utils.clip_grad_norm_(weights, 0.1)
    plain.training.optimizer.step()
    torch.testing.assert_close(run.training.loss, total.detach().double())
    for mine, expected in zip(run.training.average.weights, weights, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["README.md", "thesis.tex", "sub", ".download.part"])
def test_a_folder_that_holds_something_else_is_left_alone(tiny, tmp_path, name):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).mkdir() if name == "sub" else (tmp_path / "mine" / name).write_text(
        "mine", "utf-8"
    )
    for resume in (False, True):
        with pytest.raises(
            OutputError, match=f"holds {name}, which is not part of a run: choose a new"
        ):
            train(config_of(tiny), tmp_path / "mine", resume=resume)
    assert [file.name for file in (tmp_path / "mine").iterdir()] == [name]


def test_notes_in_the_folder_of_a_stopped_run_are_no_hindrance(tiny, tmp_path):
    assert killed_at_step(config_of(tiny), tmp_path / "run", 1)
    (tmp_path / "run" / "notes.txt").write_text("mine", "utf-8")
    train(config_of(tiny), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "notes.txt").read_text("utf-8") == "mine"


def test_a_folder_that_holds_a_run_is_refused(tiny, tmp_path, lattice_folder):
    assert killed_at_step(config_of(tiny), tmp_path / "run", 1)
    before = (tmp_path / "run" / "state.safetensors").read_bytes()
    for folder in (tmp_path / "run", lattice_folder):
        with pytest.raises(OutputError, match="holds a run already: continue it with --resume"):
            train(config_of(tiny), folder)
    assert (tmp_path / "run" / "state.safetensors").read_bytes() == before


def test_out_may_not_be_a_file(tiny, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match="is a file"):
        train(config_of(tiny), tmp_path / "file")
    with pytest.raises(OutputError, match="cannot write"):
        train(config_of(tiny), tmp_path / "file" / "run")
    assert (tmp_path / "file").read_text() == "mine"


CHANGES = [(False, c) for c in ("setting", "train.bmes", "dev.bmes", "words.bin")] + [
    (True, c)
    for c in ("setting", "train.bmes", "dev.bmes")  # a finished run needs its vector file no more
]


@pytest.mark.parametrize(("finished", "change"), CHANGES)
def test_resume_needs_the_same_settings_and_data(tiny, tmp_path, change, finished):
    data = Path(shutil.copytree(tiny, tmp_path / "data"))
    if finished:
        train(config_of(data, train__epochs=1), tmp_path / "run")
    else:
        assert killed_at_step(config_of(data, train__epochs=1), tmp_path / "run", 1)
    if change.endswith(".bmes"):
        write_columns(data / change, sentences(9, 99))
    elif change == "words.bin":
        content = bytearray((data / change).read_bytes())
        content[-3] ^= 1
        (data / change).write_bytes(content)
    config = config_of(data, train__epochs=2 if change == "setting" else 1)
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    with pytest.raises(ModelError, match="another configuration or other data"):
        train(config, tmp_path / "run", resume=True)
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before


def test_resume_of_a_finished_run_gives_its_scores_and_trains_nothing(tiny, tmp_path):
    first = train(config_of(tiny), tmp_path / "run")
    before = {file.name: file.read_bytes() for file in first.folder.iterdir()}
    heard: list[dict[str, Any]] = []
    again = train(
        config_of(tiny, train__checkpoint_minutes=1.0),
        tmp_path / "run",
        resume=True,
        listen=heard.append,
    )
    assert again == first
    assert heard == []
    assert {file.name: file.read_bytes() for file in first.folder.iterdir()} == before


def test_resume_where_nothing_is_starts(tiny, tmp_path):
    result = train(config_of(tiny, train__epochs=1), tmp_path / "new", resume=True)
    assert result.scores["epoch"] == 1


def test_a_state_with_a_byte_changed_is_refused(tiny, tmp_path):
    assert killed_at_step(config_of(tiny), tmp_path / "run", 1)
    state = tmp_path / "run" / "state.safetensors"
    content = bytearray(state.read_bytes())
    content[-5] ^= 4
    state.write_bytes(content)
    with pytest.raises(ModelError, match="does not match its checksum"):
        train(config_of(tiny), tmp_path / "run", resume=True)


def test_a_log_that_was_deleted_is_begun_again(tiny, tmp_path):
    often = config_of(tiny, train__checkpoint_minutes=1e-9)
    assert killed_at_step(often, tmp_path / "run", 3)
    (tmp_path / "run" / "log.jsonl").unlink()
    train(often, tmp_path / "run", resume=True)
    assert len(events(tmp_path / "run", "epoch")) == 2


def test_patience_ends_a_run_that_gets_no_better(tiny, tmp_path):
    result = train(
        config_of(tiny, train__epochs=30, train__patience=3, train__lr=1e-9), tmp_path / "run"
    )
    assert result.scores["epoch"] == 1
    assert len(events(tmp_path / "run", "epoch")) == 4


def test_the_best_epoch_is_kept_not_the_last(tiny, tmp_path, monkeypatch):
    real = loop.evaluate
    correct = iter([2, 9, 5])
    seen: list[torch.Tensor] = []

    def evaluate(tagger: Any, *rest: Any) -> Any:
        seen.append(tagger.output.weight.detach().clone())
        return replace(real(tagger, *rest), overall=Score(10, 10, next(correct)))

    monkeypatch.setattr(loop, "evaluate", evaluate)
    monkeypatch.setattr(loop, "write_card", lambda *_: None)
    result = train(config_of(tiny, train__epochs=3, data__test=""), tmp_path / "run")
    assert result.scores["epoch"] == 2
    assert torch.equal(weights(tmp_path / "run")["output.weight"], seen[1])


def test_the_last_epoch_is_kept_if_asked_and_is_that_of_a_run_without_dev(tiny, tmp_path):
    last = train(
        config_of(tiny, train__epochs=3, train__keep="last", train__lr=1e-5), tmp_path / "last"
    )
    best = train(config_of(tiny, train__epochs=3, train__lr=1e-5), tmp_path / "best")
    train(config_of(tiny, train__epochs=3, data__dev="", train__lr=1e-5), tmp_path / "none")
    assert (last.scores["epoch"], best.scores["epoch"]) == (3, 1)
    kept, found, other = (weights(tmp_path / name) for name in ("last", "none", "best"))
    assert all(torch.equal(kept[name], found[name]) for name in found)
    assert not torch.equal(kept["output.weight"], other["output.weight"])
    assert "Last epoch: 3." in (tmp_path / "last" / "README.md").read_text()


@pytest.mark.parametrize("clip", [0.0, 5.0])
def test_a_loss_that_diverges_is_reported(tiny, tmp_path, clip):
    config = config_of(tiny, train__optimizer="sgd", train__lr=1e38, train__clip=clip)
    with pytest.raises(
        HanlatticeError,
        match=r"the loss is (nan|inf) by epoch 1, batch 2: .*lower the learning rate",
    ):
        train(config, tmp_path / "run")


def test_the_gradient_is_clipped_before_the_step(tiny, tmp_path, monkeypatch):
    norms: dict[float, list[float]] = {0.0: [], 1e-3: []}
    real = torch.optim.SGD.step
    for clip, found in norms.items():

        def step(self: torch.optim.SGD, closure: None = None, found: list[float] = found) -> None:
            gradients = [
                p.grad for group in self.param_groups for p in group["params"] if p.grad is not None
            ]
            found.append(float(torch.cat([gradient.flatten() for gradient in gradients]).norm()))
            real(self, closure)

        monkeypatch.setattr(torch.optim.SGD, "step", step)
        train(
            config_of(tiny, train__optimizer="sgd", train__epochs=1, train__clip=clip),
            tmp_path / f"{clip}",
        )
    assert min(norms[0.0]) > 0.1
    assert max(norms[1e-3]) == pytest.approx(1e-3, rel=1e-2)


def test_labels_that_only_dev_and_test_have_are_counted_as_missed(tiny, tmp_path):
    data = Path(shutil.copytree(tiny, tmp_path / "data"))
    for part in ("dev", "test"):
        write_columns(
            data / f"{part}.bmes",
            [Sentence("王小明去了月球！", (Span(0, 3, "PER"), Span(5, 7, "MOON")))],
        )
    found = train(config_of(data, train__epochs=4), tmp_path / "run").scores
    for part in ("dev", "test"):
        assert found[part]["by_type"]["MOON"]["gold"] == 1
        assert found[part]["by_type"]["MOON"]["predicted"] == 0


def test_dev_can_be_held_out_of_train(tiny, tmp_path):
    folder = train(
        config_of(tiny, train__epochs=1, data__dev="", data__holdout=0.25), tmp_path / "run"
    ).folder
    facts = load_model(folder).data
    assert (facts["train"]["sentences"], facts["dev"]["sentences"]) == (30, 10)
    assert "held out from train" in (folder / "README.md").read_text("utf-8")


def test_limit_takes_the_first_sentences(tiny, tmp_path):
    folder = train(config_of(tiny, train__epochs=1, data__limit=7), tmp_path / "run").folder
    assert load_model(folder).data["train"]["sentences"] == 7


def test_everything_that_is_missing_is_reported_together_and_first(tmp_path):
    with pytest.raises(ConfigError) as caught:
        train(Config(), tmp_path / "run")
    assert [problem.split()[0] for problem in caught.value.problems] == [
        "data.train",
        "words.vectors",
    ]
    assert not (tmp_path / "run").exists()


def test_a_device_that_is_not_here_is_refused_before_any_work(tiny, tmp_path):
    with pytest.raises(InputError, match="no device is called 'tpu'"):
        train(config_of(tiny, train__device="tpu"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("lacking", ["train", "dev", "test"])
@pytest.mark.parametrize(
    "changes", [{"model__encoder": "word"}, {"model__encoder": "char", "model__softword": True}]
)
def test_missing_gold_words_are_refused_with_their_file(tiny, tmp_path, lacking, changes):
    for part in ("train", "dev", "test"):
        found = read_corpus(tiny / f"{part}.bmes").sentences
        write_columns(
            tmp_path / f"{part}.bmes",
            found if part == lacking else [in_twos(each) for each in found],
        )
    files = {f"data__{part}": str(tmp_path / f"{part}.bmes") for part in ("train", "dev", "test")}
    with pytest.raises(InputError, match=rf"{lacking}\.bmes: segment\.by=gold needs the words"):
        train(
            config_of(tiny, segment__by="gold", words__vectors="", **files, **changes),
            tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


def test_paper_vocab_is_announced(tiny, tmp_path):
    train(config_of(tiny, train__epochs=1, model__paper_vocab=True), tmp_path / "run")
    (start,) = events(tmp_path / "run", "start")
    assert any("paper_vocab" in notice for notice in start["notices"])


def expected(folder: Path, sentences: Any, known: set[str]) -> dict[str, object]:
    model = load_model(folder)
    found = decode(model.tagger, model.indexer, model.indexer.examples(sentences))
    gold = [sentence.spans or () for sentence in sentences]
    return score_segmentation(
        [sentence.text for sentence in sentences], gold, found, known
    ).as_dict(words=0)


def test_dev_and_test_are_scored_against_what_was_not_held_out(made, tmp_path):
    tree = cutting_tree(made, tmp_path, data__dev="", data__holdout=0.25, train__epochs=1)
    events: list[dict[str, Any]] = []
    result = train(make_config(tree), tmp_path / "run", listen=events.append)
    corpora = read_corpora(make_config(tree).data)
    known = words_in(corpora.train)
    whole = words_in(read_corpus(tmp_path / "train.seg").sentences)
    assert known < whole
    assert result.scores["dev"]["segmentation"] == expected(result.folder, corpora.dev, known)
    assert result.scores["test"]["segmentation"] == expected(result.folder, corpora.test, known)
    assert result.scores["dev"]["segmentation"]["oov"]["gold"] > 0
    assert load_model(result.folder).scores == result.scores
    (epoch,) = [event for event in events if event["event"] == "epoch"]
    assert epoch["dev"] == result.scores["dev"]["overall"]
    notes: list[str] = []
    assert training_words(load_model(result.folder), notes) == known
    assert notes == []


def test_scores_that_are_there_are_not_decoded_again(made, tmp_path, monkeypatch):
    config = make_config(cutting_tree(made, tmp_path, train__epochs=1, model__hidden=4))
    result = train(config, tmp_path / "run")
    monkeypatch.setattr(loop, "decode", None)
    corpora = read_corpora(config.data)
    assert loop.complete_scores(load_model(result.folder), corpora) == result.scores
    assert train(config, tmp_path / "run", resume=True).scores == result.scores


@pytest.mark.parametrize("part", ["dev", "test"])
def test_a_corpus_that_is_not_cut_into_words_is_refused_before_training(made, tmp_path, part):
    bad = [in_words(sentences(1, 1)[0]), sentences(1, 1)[0]]
    write_columns(tmp_path / "bad.bmes", bad)
    tree = cutting_tree(made, tmp_path, **{f"data__{part}": str(tmp_path / "bad.bmes")})
    with pytest.raises(
        InputError, match=rf"bad\.bmes: a segmenter .* sentence 2 of {part} .* no word covers"
    ):
        train(make_config(tree), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def spaced(sentence: Sentence) -> Sentence:
    """With a blank before every second word, which is a gold word of its own."""
    text = ""
    spans = []
    words = []
    for at, span in enumerate(sentence.spans or ()):
        if at % 2:
            words.append(Span(len(text), len(text) + 1, "WORD"))
            text += " "
        spans.append(Span(len(text), len(text) + span.end - span.start, "WORD"))
        text += sentence.text[span.start : span.end]
    return Sentence(text, tuple(spans), (*words, *spans))


def test_white_space_in_the_corpus(made, tmp_path):
    """Also a sentence of nothing else, and softwords by gold words, which cover white space too."""
    path = tmp_path / "spaced.jsonl"
    blank = Sentence(" \u3000", (), (Span(0, 2, "WORD"),))
    write_jsonl(path, [blank, *(spaced(in_words(sentence)) for sentence in sentences(12, 3))])
    changes = {
        "model__softword": True,
        "segment__by": "gold",
        "train__epochs": 1,
        "train__batch_size": 3,
    }
    tree = cutting_tree(
        made,
        tmp_path,
        **{f"data__{part}": str(path) for part in ("train", "dev", "test")},
        **changes,
    )
    scores = train(make_config(tree), tmp_path / "run").scores["test"]
    assert scores["overall"]["gold"] == scores["segmentation"]["bakeoff"]["gold"]


def test_an_unused_section_may_name_missing_files(made, tmp_path):
    tree = cutting_tree(
        made, tmp_path, train__epochs=1, words__vectors="no.bin", subwords__lexicon="no.txt"
    )
    assert train(make_config(tree), tmp_path / "run").scores["epoch"] == 1


def test_dev_and_test_are_decoded_as_the_model_is_to_be(tiny, tmp_path):
    config = config_of(tiny, model__decode="spans", train__epochs=3)
    result = train(config, tmp_path / "run")
    model = load_model(tmp_path / "run")
    threshold = result.scores["threshold"]
    assert 0.05 <= threshold == model.threshold() <= 0.5
    plain = train(config_of(tiny, train__epochs=3), tmp_path / "plain").scores
    assert "threshold" not in plain
    for part in ("dev", "test"):
        sentences = read_corpus(tiny / f"{part}.bmes").sentences
        gold = [sentence.spans or () for sentence in sentences]
        examples = model.indexer.examples(sentences)
        found = decode(model.tagger, model.indexer, examples, threshold=threshold)
        assert score(gold, found).as_dict() == result.scores[part]
        if part == "dev" and plain["epoch"] == result.scores["epoch"]:
            assert threshold == max(0.05, plain["dev"]["overall"]["f1"] / 2)
    assert "decoding by span probability" in (tmp_path / "run" / "README.md").read_text("utf-8")


def test_a_segmenter_is_not_decoded_by_spans(made, tmp_path):
    with pytest.raises(
        ConfigError, match=r"model\.decode=spans is not for a segmenter, whose words cover the text"
    ):
        train(make_config(cutting_tree(made, tmp_path, model__decode="spans")), tmp_path / "run")
    assert not (tmp_path / "run").exists()
