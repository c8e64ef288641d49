"""The CRF's kernels: they compile for a GPU that is not there, wait for nothing, and refuse what
they cannot do.

That their numbers are right is shown in test_crf.py.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from hanlattice.ops import crf, gpu
from hanlattice.ops.crf import CRFScores

GPU = torch.cuda.is_available()
if not GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before anybody imports triton
DEVICE = "cuda" if GPU else "cpu"

pytest.importorskip("triton", reason="needs triton")
needs_gpu = pytest.mark.skipif(not GPU, reason="needs a CUDA device")
runs = pytest.mark.skipif(
    not GPU and os.environ["TRITON_INTERPRET"] != "1",
    reason="needs a CUDA device or TRITON_INTERPRET=1",
)

COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from hanlattice.ops.crf import fused

def compile(kernel, K, **flags):
    chosen = fused._options(K)
    values = {name: value for name, value in (chosen | flags).items() if name in kernel.arg_names}
    kinds = {"T": "i32", "lengths": "*i64", "tags": "*i64", "choices": "*u8"}
    kinds = {
        name: "constexpr" if name in values else kinds.get(name, "*fp32")
        for name in kernel.arg_names
    }
    options = {name: value for name, value in chosen.items() if name.startswith("num_")}
    source = ASTSource(kernel, kinds, values)
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["cubin"]

off = {"GOLD": False, "GRADIENT": False, "SCORES": False, "BETAS": False}
for K in (2, 33):
    compile(fused.best_tags, K)
    compile(fused.sums, K, **off | {"GOLD": True, "GRADIENT": True, "SCORES": True})
compile(fused.sums, 33, **off | {"BETAS": True})
compile(fused.sums, 33, **off | {"GRADIENT": True})
"""


def make(
    B: int, T: int, K: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, CRFScores]:
    g = torch.Generator().manual_seed(K)
    parts = [
        torch.randn(*shape, generator=g, dtype=torch.float64)
        for shape in ((B, T, K), (K,), (K, K), (K,))
    ]
    emissions, *scores = (part.to(DEVICE, dtype) for part in parts)
    return emissions, torch.randint(1, T + 1, (B,), generator=g).to(DEVICE), CRFScores(*scores)


def test_the_kernels_compile_for_a_gpu() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-W", "ignore", "-c", COMPILE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@runs
def test_half_precision_emissions_are_summed_in_float32() -> None:
    emissions, lengths, scores = make(2, 5, 4)
    half = emissions.to(torch.bfloat16).requires_grad_()
    tags = torch.ones(2, 5, dtype=torch.int64, device=DEVICE)
    value = crf.log_likelihood(half, tags, lengths, scores, backend="fused")
    value.sum().backward()
    assert value.dtype == torch.float32
    assert half.grad is not None
    assert half.grad.dtype == torch.bfloat16
    expected = crf.log_likelihood(half.detach().float(), tags, lengths, scores, backend="batched")
    torch.testing.assert_close(value.detach(), expected)


@runs
def test_it_gives_the_same_bits_twice() -> None:
    emissions, lengths, scores = make(3, 4, 9)
    tags = torch.zeros(3, 4, dtype=torch.int64, device=DEVICE)
    twice = []
    for _ in range(2):
        inputs = [x.clone().requires_grad_() for x in (emissions, *scores)]
        value = crf.log_likelihood(
            inputs[0], tags, lengths, CRFScores(*inputs[1:]), backend="fused"
        )
        twice.append([value, *torch.autograd.grad(value.sum(), inputs)])
    assert all(torch.equal(first, second) for first, second in zip(*twice, strict=True))


@runs
def test_a_tag_that_does_not_exist_makes_the_likelihood_nan() -> None:
    emissions, lengths, scores = make(3, 4, 5)
    lengths[:] = 4
    tags = torch.tensor([[0, 1, 2, 3], [0, 1, 5, 3], [0, -1, 2, 3]], device=DEVICE)
    assert crf.log_likelihood(
        emissions, tags, lengths, scores, backend="fused"
    ).isnan().tolist() == [False, True, True]


@runs
def test_what_it_cannot_do_it_refuses() -> None:
    emissions, lengths, scores = case = make(1, 2, 3)
    with pytest.raises(ValueError, match="nbest has no fused backend"):
        crf.nbest(*case, 2, backend="fused")
    with pytest.raises(ValueError, match="at most 256 tags, not 257"):
        crf.viterbi(*make(1, 2, 257), backend="fused")
    with pytest.raises(ValueError, match="marginals has a gradient only in backend='batched'"):
        crf.marginals(emissions.requires_grad_(), lengths, scores, backend="fused")
    with pytest.raises(
        ValueError, match=r"tags must be \(1, 2\) as the emissions are, not \(1, 3\)"
    ):
        crf.log_likelihood(
            emissions, torch.zeros(1, 3, dtype=torch.int64), lengths, scores, backend="fused"
        )


def test_without_triton_there_is_no_fused_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_no_triton", lambda: "Triton is not installed")
    with pytest.raises(ValueError, match="cannot be used: Triton is not installed"):
        crf.viterbi(*make(1, 2, 3), backend="fused")
    crf.viterbi(*make(1, 2, 3))


@needs_gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # it warns that it may miss some
def test_nothing_waits_for_the_gpu() -> None:
    emissions, lengths, scores = make(5, 9, 13)
    inputs = [x.requires_grad_() for x in (emissions, *scores)]
    tags = torch.zeros(5, 9, dtype=torch.int64, device=DEVICE)

    def run() -> None:
        crf.log_likelihood(inputs[0], tags, lengths, CRFScores(*inputs[1:])).sum().backward()
        with torch.no_grad():
            crf.viterbi(emissions, lengths, scores)

    run()  # compiles
    torch.cuda.synchronize()
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode(before)
