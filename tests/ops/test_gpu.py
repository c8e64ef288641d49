"""Where Triton kernels can run, and what is said where they cannot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from hanlattice.ops import gpu

pytest.importorskip("triton", reason="Triton is not installed: pip install 'hanlattice[triton]'")


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    gpu._no_triton.cache_clear()
    gpu._no_gpu.cache_clear()
    yield
    gpu._no_triton.cache_clear()
    gpu._no_gpu.cache_clear()


def test_a_cpu_has_the_interpreter_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert gpu.why_not(torch.zeros(1)) == "it needs a CUDA device, and the tensors are on cpu"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert gpu.why_not(torch.zeros(1)) == ""


@pytest.mark.parametrize(
    ("version", "fits"), [("3.1.0", False), ("3.2.0+git12", True), ("4.0", True)]
)
def test_an_old_triton_is_refused(
    version: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr("triton.__version__", version)
    assert (gpu.why_not(torch.zeros(1)) == "") is fits


@pytest.mark.parametrize(
    ("capability", "compiler", "says"),
    [
        ((9, 0), "/bin/cc", ""),
        ((7, 5), "/bin/cc", "older than compute capability 8.0"),
        ((9, 0), None, "C compiler"),
    ],
)
def test_what_a_gpu_must_have(
    capability: tuple[int, int], compiler: str | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
    monkeypatch.setattr("shutil.which", lambda name: compiler)
    found = gpu._no_gpu(torch.device("cuda:0"))
    assert says in found
    assert bool(found) == bool(says)
