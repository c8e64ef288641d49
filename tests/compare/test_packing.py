"""How many runs are side by side: by cores on a CPU; by cores, a share of the card and its memory on a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hanlattice.compare import packing
from hanlattice.compare.packing import Amount, Size, Sizes, capacity, cost, find_devices, need
from hanlattice.config import make_config
from hanlattice.data.jsonl import write_jsonl
from hanlattice.errors import InputError
from hanlattice.text.sentence import Sentence
from tests.made import made_config


def config(batch: int = 16, hidden: int = 100, **train: Any) -> Any:
    return make_config({"model": {"hidden": hidden}, "train": {"batch_size": batch, **train}})


WEIBO = Size(sentences=1350, characters=73_780, longest=175)


@pytest.fixture
def gpus(monkeypatch):
    """Two cards like an H200, and sixteen cores."""
    free = {"cuda:0": 140 << 30, "cuda:1": 140 << 30}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free[device], 141 << 30))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(multi_processor_count=132))
    monkeypatch.setattr(packing, "cores_here", lambda: 16)
    return free


def fitting(each: Amount, into: Amount) -> int:
    """How many of a kind are side by side; one always is."""
    used, count = each, 1
    while (used + each).fits(into):
        used, count = used + each, count + 1
    return count


def test_devices_by_themselves(gpus):
    assert find_devices("auto") == ["cuda:0", "cuda:1"]
    assert find_devices("cuda") == ["cuda:0"]
    assert find_devices("cpu, cuda:1") == ["cpu", "cuda:1"]
    for bad, says in (
        ("cuda,cuda:0", "twice"),
        ("cuda:2", "2 CUDA devices"),
        ("gpu", "no device is called"),
        ("", "''"),
    ):
        with pytest.raises(InputError, match=says):
            find_devices(bad)


def test_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_devices("auto") == ["cpu"]
    with pytest.raises(InputError, match="no CUDA device here"):
        find_devices("cuda:0")


def test_a_cpu_goes_by_its_cores(monkeypatch):
    monkeypatch.setattr(packing, "cores_here", lambda: 8)
    room = capacity("cpu", ["cpu"])
    counts = [fitting(need(config(threads=threads), WEIBO, "cpu"), room) for threads in (1, 2, 3, 8, 20, 0)]
    assert counts == [8, 4, 2, 1, 1, 1]


def test_small_runs_share_a_card_as_far_as_cores_feed_it(gpus):
    small = need(config(), WEIBO, "cuda:0")
    assert fitting(small, capacity("cuda:0", ["cuda:0"])) == 16
    assert fitting(small, capacity("cuda:0", ["cuda:0", "cuda:1"])) == 8


def test_memory_bounds_them(gpus):
    gpus["cuda:0"] = 10 << 30
    each = need(config(), WEIBO, "cuda:0")
    count = fitting(each, capacity("cuda:0", ["cuda:0"]))
    assert 1 < count < 16
    assert count * each.memory < 10 << 30


def test_a_run_that_fills_the_card_has_it_to_itself(gpus):
    room = capacity("cuda:0", ["cuda:0"])
    sizes = {batch: fitting(need(config(batch), WEIBO, "cuda:0"), room) for batch in (1, 16, 64, 128, 512, 4096)}
    assert sizes[1] == sizes[16] == 16
    assert 1 < sizes[128] < sizes[64] < 16
    assert sizes[512] == sizes[4096] == 1
    assert fitting(need(config(64, hidden=1000), WEIBO, "cuda:0"), room) == 1


def test_longer_sentences_and_more_layers_need_more(gpus):
    plain = need(config(64), WEIBO, "cuda:0")
    longer = need(config(64), Size(1350, 2 * 73_780, 4000), "cuda:0")
    assert longer.card == pytest.approx(2 * plain.card)
    assert longer.memory > plain.memory
    deep = need(make_config({"model": {"layers": 3}, "train": {"batch_size": 64}}), WEIBO, "cuda:0")
    assert deep.card == pytest.approx(3 * plain.card)


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_jobs_override_everything(gpus, device):
    huge = config(4096, threads=64)
    assert fitting(need(huge, WEIBO, device, jobs=5), capacity(device, [device], jobs=5)) == 5


def test_sizes_are_those_of_the_corpus(tiny, tmp_path):
    sizes = Sizes()
    whole = sizes.of(made_config(tiny))
    first = sizes.of(made_config(tiny, data__limit=6))
    assert (whole.sentences, first.sentences) == (40, 6)
    assert first.longest <= first.characters < whole.characters
    assert sizes.of(made_config(tmp_path)) is None  # no file there


def test_sizes_count_what_is_learnt_beside_train(tiny, tmp_path):
    write_jsonl(tmp_path / "more.jsonl", [Sentence("字" * 200, ()), Sentence("", ()), Sentence("人", ())])
    sizes = Sizes()
    files = ("", str(tmp_path / "more.jsonl"))
    alone, more = (sizes.of(made_config(tiny, data__limit=6, data__more=file)) for file in files)
    assert (more.sentences, more.characters, more.longest) == (8, alone.characters + 201, 200)  # limit is of train
    assert sizes.of(made_config(tiny, data__more=str(tmp_path / "gone.jsonl"))) is None


def test_the_longest_first():
    short, long = config(epochs=5), config(epochs=50)
    for on_gpu in (True, False):
        assert 0 < cost(short, WEIBO, on_gpu) < cost(long, WEIBO, on_gpu)
        assert cost(long, None, on_gpu) == 0
    assert cost(config(16), WEIBO, True) == 2 * cost(config(32), WEIBO, True)
