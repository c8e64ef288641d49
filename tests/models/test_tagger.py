"""A training step of the whole model: it is the same with every backend, and on a GPU the host never waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hanlattice.batch import Batch
from hanlattice.config import Config
from hanlattice.data.corpus import read_corpus
from hanlattice.models.build import build
from hanlattice.models.tagger import Tagger
from tests.gpu import run_without_waiting
from tests.made import made_config

HAS_GPU = torch.cuda.is_available()
VARIANTS: dict[str, dict[str, Any]] = {
    "lattice": {},
    "lattice beside": {"model__bichar": True, "model__softword": True, "softwords__pos": True},
    "lattice of two layers": {"model__layers": 2},
    "char": {"model__encoder": "char", "model__layers": 2},
    "word": {"model__encoder": "word"},
    **{
        f"word by {features}": {"model__encoder": "word", "model__char_features": features, "model__bichar": True}
        for features in ("lstm", "sentence-lstm", "cnn")
    },
}


def make(config: Config, count: int = 8) -> tuple[Tagger, Batch]:
    sentences = read_corpus(config.data.train).sentences
    built = build(config, sentences)
    return built.tagger, built.indexer.examples(sentences[:count]).batch(range(count))


def gradients(tagger: Tagger, batch: Batch) -> dict[str, Tensor]:
    tagger.train()  # cuDNN has no gradients otherwise
    for part in tagger.modules():
        if isinstance(part, nn.Dropout):
            part.eval()
    tagger.zero_grad(set_to_none=True)
    tagger.loss(batch).mean().backward()
    return {name: weight.grad.cpu() for name, weight in tagger.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_a_backend_of_the_configuration_gives_the_same_step(made: Path, backend: str) -> None:
    from hanlattice.ops import library

    if backend == "native" and library.missing():
        pytest.skip(library.missing())
    expected = gradients(*make(made_config(made, train__backend="batched")))
    found = gradients(*make(made_config(made, train__backend=backend)))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device here")
@pytest.mark.parametrize("backend", ["batched", "fused-fp32", "auto"])
def test_a_gpu_gives_the_same_step(made: Path, backend: str) -> None:
    expected = gradients(*make(made_config(made, train__backend="batched")))
    tagger, batch = make(made_config(made, train__backend=backend))
    found = gradients(tagger.cuda(), batch.to("cuda"))
    for name, value in expected.items():
        error = (found[name] - value).norm() / value.norm().clamp(min=1e-6)
        assert error < (0.03 if backend == "auto" else 1e-3), f"{name}: relative error {error:.1e}"


@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device here")
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_gpu_gives_the_same_step_for_every_kind(made: Path, variant: str) -> None:
    expected = gradients(*make(made_config(made, **VARIANTS[variant])))
    tagger, batch = make(made_config(made, **VARIANTS[variant]))
    found = gradients(tagger.cuda(), batch.to("cuda"))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        error = (found[name] - value).norm() / value.norm().clamp(min=1e-6)
        assert error < 0.03, f"{name}: relative error {error:.1e}"  # products in half precision, or as TF32


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_weight_has_a_part_in_the_loss(made: Path, variant: str) -> None:
    tagger, batch = make(made_config(made, **VARIANTS[variant]))
    found = gradients(tagger, batch)
    trained = {name for name, weight in tagger.named_parameters() if weight.requires_grad and weight.numel()}
    assert {name for name, gradient in found.items() if gradient.any()} == trained


@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # it warns that it may miss some
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_host_never_waits_for_a_gpu(made: Path, variant: str) -> None:
    tagger, batch = make(made_config(made, **VARIANTS[variant]))
    tagger.cuda().train()
    optimizer = torch.optim.AdamW(tagger.parameters(), fused=True)
    weights = [weight for weight in tagger.parameters() if weight.requires_grad]
    total = torch.zeros((), device="cuda", dtype=torch.float64)

    def step() -> None:
        there = batch.to("cuda")
        optimizer.zero_grad(set_to_none=True)
        losses = tagger.loss(there)
        losses.mean().backward()
        torch.nn.utils.clip_grad_norm_(weights, 5.0)
        optimizer.step()
        total.add_(losses.detach().sum())
        tagger.decode(there)

    run_without_waiting(step)
