"""Several processes that share every batch make the model of one, even if some of them die."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.checkpoint.checksums import load_tensors
from hanlattice.checkpoint.load import load_model
from hanlattice.config import Config
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.features import Examples
from hanlattice.features.buckets import share_out
from hanlattice.nn.to_device import to_device
from hanlattice.training import loop, processes
from hanlattice.training.build import build
from hanlattice.training.corpora import read_corpora
from hanlattice.training.loop import train
from tests.helpers.crash import die_at_step
from tests.helpers.made import (
    made_config,
    made_tree,
    write_language_model,
    write_made,
    write_toml,
    write_transformer,
)
from tests.helpers.patience import PATIENCE

SERVER: Any = multiprocessing.get_context("forkserver")
RECIPES: dict[str, dict[str, Any]] = {
    "two layers, pools, softwords, language model, missing words, averaged": {
        "model__layers": 2,
        "lm__model": "lm",
        "model__pools": True,
        "model__softword": True,
        "train__average": 0.9,
        "train__word_dropout": 0.3,
        "train__weight_decay": 0.01,
    },
    "fixed words of a word model, with character features and bigrams": {
        "model__encoder": "word",
        "model__char_features": "lstm",
        "model__bichar": True,
        "words__fine_tune": False,
        "train__accumulate": 2,
    },
    "on a GPU: two layers, words and subwords, language model": {
        "model__layers": 2,
        "lm__model": "lm",
        "model__sources": "both",
        "subwords__vectors": "subwords.vec",
        "train__device": "cuda",
        "train__backend": "fused-fp32",
    },
}
IN_TINY = ("lm__model", "subwords__vectors")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """41 sentences: six batches an epoch, and in one of them a single sentence."""
    folder = tmp_path_factory.mktemp("tiny")
    write_made(folder, train=41)
    write_language_model(folder / "lm")
    return folder


def config_of(tiny: Path, **changes: Any) -> Config:
    changes |= {name: str(tiny / changes[name]) for name in IN_TINY if name in changes}
    return made_config(
        tiny, **{"train__epochs": 2, "model__hidden": 4, "train__lr": 0.005, **changes}
    )


def together(size: int, do: Callable[..., Any], *arguments: Any) -> list[int]:
    """`do(rank, *arguments)` in so many processes with torchrun's variables; their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    team = [
        SERVER.Process(target=_member, args=(rank, size, port, do, arguments))
        for rank in range(size)
    ]
    for member in team:
        member.start()
    for member in team:
        member.join(PATIENCE)
        member.kill()  # if it waits for one that is no more
        member.join()
    return [member.exitcode for member in team]


def _member(
    rank: int, size: int, port: int, do: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    torch.set_num_threads(1)
    names = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": size,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    if (
        torch.cuda.is_available()
    ):  # one GPU for all: each is a machine of its own, as far as NCCL knows
        names |= {
            "LOCAL_RANK": 0,
            "LOCAL_WORLD_SIZE": 1,
            "NCCL_HOSTID": rank,
            "NCCL_SOCKET_IFNAME": "lo",
        }
    os.environ.update({name: str(value) for name, value in names.items()})
    try:
        do(rank, *arguments)
    except HanlatticeError:
        os._exit(2)  # as the command does


def curve(rank: int, config: Config, folder: Path, resume: bool = False) -> None:
    """Train; the mean loss after every step goes to a file beside the folder."""
    heard: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(loop.PREFETCH, "cuda", (3, 0.0))  # report every step on a GPU, too
        result = train(config, folder, resume=resume, listen=heard.append)
    assert bool(heard) == bool(result.scores) == (rank == 0)
    if rank == 0:
        steps = [event["loss"] for event in heard if event["event"] == "step"]
        folder.with_suffix(".json").write_text(json.dumps(steps))


def losses(folder: Path) -> list[float]:
    found: list[float] = json.loads(folder.with_suffix(".json").read_text())
    return found


def assert_close(folder: Path, expected: Path, atol: float = 1e-4) -> None:
    """The same model, but for rounding, and the same files."""
    mine, theirs = (load_tensors(each / "model.safetensors")[0] for each in (folder, expected))
    torch.testing.assert_close(mine, theirs, rtol=0, atol=atol)
    assert {file.name for file in folder.iterdir()} == {file.name for file in expected.iterdir()}
    assert load_model(folder).scores == load_model(expected).scores


@pytest.mark.parametrize("recipe", RECIPES)
def test_two_processes_make_the_model_of_one(recipe, tiny, tmp_path):
    if "cuda" in RECIPES[recipe].values() and not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    config = config_of(tiny, train__epochs=9, **RECIPES[recipe])
    curve(0, config, tmp_path / "one")
    assert together(2, curve, config, tmp_path / "two") == [0, 0]
    one = losses(tmp_path / "one")
    two = losses(tmp_path / "two")
    assert len(one) == len(two) == 54
    assert max(abs(a - b) for a, b in zip(one, two, strict=True)) < 1e-4
    assert_close(tmp_path / "two", tmp_path / "one")


def stopped(rank: int, config: Config, folder: Path, step: int) -> None:
    train(config, folder, listen=die_at_step(step))


def test_a_run_of_two_is_resumed_by_one_and_a_run_of_one_by_two(tiny, tmp_path):
    config = config_of(tiny, train__average=0.9, train__checkpoint_minutes=1e-9)
    train(config, tmp_path / "whole")
    assert together(2, stopped, config, tmp_path / "2-1", 3) == [
        -9,
        2,
    ]  # the other one sees that the first has ended
    assert together(1, stopped, config, tmp_path / "1-2", 4) == [-9]
    train(config, tmp_path / "2-1", resume=True)
    assert together(2, curve, config, tmp_path / "1-2", True) == [0, 0]
    for name in ("2-1", "1-2"):
        assert_close(tmp_path / name, tmp_path / "whole")


def broken(rank: int, config: Config, folder: Path) -> None:
    """The second process fails in its third batch."""
    real = Examples.batch
    left = 3

    def batch(self: Examples, *arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if rank and not left:
            raise MemoryError("no room for a batch")
        return real(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Examples, "batch", batch)
        with pytest.raises((HanlatticeError, MemoryError)) as raised:
            train(config, folder)
    expected = "no room for a batch" if rank else "another process of this training has ended"
    os._exit(3 if expected in str(raised.value) else 1)


def test_when_one_fails_all_end_and_the_run_can_be_resumed(tiny, tmp_path):
    config = config_of(tiny)
    assert together(2, broken, config, tmp_path / "run") == [3, 3]
    train(config, tmp_path / "run", resume=True)
    train(config, tmp_path / "whole")
    assert_close(tmp_path / "run", tmp_path / "whole")


def torchrun(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    return subprocess.run(
        [*command, "-m", "hanlattice", "train", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_torchrun_trains_and_one_of_its_processes_reports(tiny, tmp_path, monkeypatch):
    """This holds also where a process aborts while it is taken down."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os\nif 'RANK' in os.environ:\n    atexit.register(os.abort)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    file = write_toml(tmp_path / "run.toml", made_tree(tiny, train__epochs=1, model__hidden=4))
    done = torchrun(str(file), "--out", str(tmp_path / "run"))
    assert (done.returncode, done.stdout.count("test, weights of epoch 1")) == (0, 1), done.stderr
    assert done.stderr.count("epoch 1: loss") == done.stderr.count("the model is in") == 1
    assert load_model(tmp_path / "run").scores["epoch"] == 1
    again = torchrun(str(file), "--out", str(tmp_path / "run"))
    assert again.returncode != 0
    assert again.stderr.count("holds a run already: continue it with --resume") == 1
    assert "exitcode  : 2" in again.stderr


@given(st.lists(st.integers(1, 90), min_size=1, max_size=40), st.integers(1, 5))
def test_shares_have_as_many_sentences_and_about_as_many_characters(lengths, size):
    sizes = np.array(lengths, dtype=np.int64)
    shares = share_out(sizes, size)
    assert sorted(np.concatenate(shares).tolist()) == list(range(len(lengths)))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    characters = [int(sizes[share].sum()) for share in shares]
    spread = max(lengths) - min(lengths) if len(lengths) % size == 0 else 2 * max(lengths)
    assert max(characters) - min(characters) <= spread


@pytest.mark.parametrize("encoder", ["lattice", "word"])
def test_a_share_is_what_the_whole_batch_has_of_its_sentences(encoder, tiny):
    config = config_of(tiny, model__encoder=encoder)
    sentences = read_corpora(config.data).trained_on
    examples = build(config, sentences).indexer.examples(sentences)
    places = np.array([3, 17, 0, 40, 22])
    seed = (1, 2)
    whole = examples.batch(places, 0.4, seed)
    words = 0
    for rows in (*share_out(examples.lengths[places], 2), np.empty(0, dtype=np.int64)):
        part = examples.batch(places, 0.4, seed, rows)
        assert part.share is not None
        assert part.share.counts == (len(rows) > 0)
        assert part.share.rows.tolist() == (rows.tolist() or [0])
        assert np.array_equal(part.chars, whole.chars[part.share.rows])
        assert np.array_equal(part.tags, whole.tags[part.share.rows][:, : part.tags.shape[1]])
        assert np.array_equal(part.words, whole.words[part.share.word_rows])
        assert np.array_equal(part.places.start, whole.places.start[part.share.word_rows])
        assert np.array_equal(part.places.end, whole.places.end[part.share.word_rows])
        words += len(part.words) * part.share.counts
    assert words == len(whole.words) == part.share.words > 0


@pytest.mark.parametrize("encoder", ["word", "lattice", "none"])
def test_a_share_drops_what_the_whole_batch_drops_beside_a_transformer(encoder, tiny, tmp_path):
    """The transformer's own states, two longer than the text, are not taken for those of words."""
    folder = write_transformer(tmp_path / "t", hidden_dropout_prob=0.3)
    features = {"model__char_features": "lstm"} if encoder == "word" else {}
    config = config_of(
        tiny,
        model__encoder=encoder,
        transformer__model=str(folder),
        transformer__overlap=4,
        **features,
    )
    sentences = read_corpora(config.data).trained_on
    built = build(config, sentences)
    examples = built.indexer.examples(sentences)
    places = np.arange(5)
    rows = np.array([1, 4])
    torch.manual_seed(1)
    whole = built.tagger.train().loss(to_device(examples.batch(places, 0.0, (1,)), "cpu"))
    part = to_device(examples.batch(places, 0.0, (1,), rows), "cpu")
    torch.manual_seed(1)
    with processes.GlobalBatchDropout(part.share):
        torch.testing.assert_close(built.tagger.loss(part), whole[rows])


def test_each_process_of_a_machine_needs_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert processes._own_gpu("cuda", 1) == "cuda:1"
    with pytest.raises(InputError, match=r"set train\.device to cuda, not cuda:1"):
        processes._own_gpu("cuda:1", 0)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    with pytest.raises(
        InputError, match="3 processes on this machine need as many GPUs, and it has 2"
    ):
        processes._own_gpu("cuda", 0)
