"""Training and decoding rates of the lattice model's backends beside the plain character LSTM.

    python benchmarks/rates.py [--threads 2] [--out benchmarks/results/rates-cpu.json]

Equality with the reference comes first: if it fails, nothing is timed. Then, in one run, each model does whole training
steps (loss, backward, AdamW) and whole decoding (Viterbi) on the same made sentences: 50 characters, one word a
character, 8 labels, H = 100. Absolute rates belong to the machine; the ratios in the table are what can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from hanlattice.batch import Batch, Example, collate
from hanlattice.models.tagger import Tagger
from hanlattice.nn.char_lstm import CharLSTM
from hanlattice.nn.crf import CRF
from hanlattice.nn.embeddings import CharEmbedding, WordEmbedding
from hanlattice.nn.lattice_lstm import LatticeLSTM
from hanlattice.text.tags import tag_set

T, H, DIM, CHARS, WORDS = 50, 100, 64, 2000, 5000
BATCHES = (1, 8, 32, 128)
CPUINFO = Path("/proc/cpuinfo")
TAGS = tag_set(["NAME", "CONT", "RACE", "TITLE", "EDU", "ORG", "PRO", "LOC"], "BMES")


def make_batch(sentences: int, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    examples = []
    for _ in range(sentences):
        start = rng.integers(0, T - 1, size=T)
        end = np.minimum(start + rng.integers(2, 5, size=T), T)
        words = np.stack([start, end, rng.integers(0, WORDS, size=T)], axis=1)
        examples.append(Example(rng.integers(1, CHARS, size=T), words, np.zeros(T, dtype=np.int64)))
    return collate(examples)


def make_model(kind: str) -> Tagger:
    torch.manual_seed(0)
    chars = CharEmbedding(torch.randn(CHARS, DIM) * 0.1, dropout=0.5)
    crf = CRF(TAGS, "BMES")
    if kind == "char LSTM":
        return Tagger(chars, None, CharLSTM(DIM, H), crf, dropout=0.5)
    words = WordEmbedding.from_vectors(torch.randn(WORDS, DIM), trained=WORDS, dropout=0.5)
    return Tagger(chars, words, LatticeLSTM(DIM, DIM, H, backend=kind), crf, dropout=0.5)


def check_equality() -> float:
    """The largest difference between batched and reference in float64, over the loss and every gradient."""
    batch, worst = make_batch(3), 0.0
    results = []
    for kind in ("reference", "batched"):
        model = make_model(kind).double().eval()
        loss = model.loss(batch).sum()
        loss.backward()
        results.append({"loss": loss.detach(), **{n: p.grad for n, p in model.named_parameters()}})
    for name, expected in results[0].items():
        difference = (results[1][name] - expected).abs().max().item()
        worst = max(worst, difference)
        if difference > 1e-9:
            raise SystemExit(f"batched differs from reference by {difference} in {name}: nothing is timed")
    return worst


def median_seconds(work: Callable[[], object], least: float) -> float:
    """The median over at least three calls and `least` seconds, after one call to warm up."""
    work()
    times: list[float] = []
    while len(times) < 3 or sum(times) < least:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure(kind: str, sentences: int, least: float) -> dict[str, float]:
    batch, model = make_batch(sentences), make_model(kind)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model.loss(batch).mean().backward()
        optimizer.step()

    train = median_seconds(step, least)
    model.eval()
    decode = median_seconds(lambda: model.decode(batch), least)
    return {"train": sentences / train, "decode": sentences / decode}


def machine() -> dict[str, object]:
    """Where and with what the figures were taken."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.exists() else []
    cpu = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    return {**versions, "cpu": cpu[0] if cpu else platform.processor(), "cores": os.cpu_count()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="the least time for each figure")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/rates-cpu.json"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"batched = reference in float64: largest difference {check_equality():.1e}")
    kinds = ("reference", "batched", "char LSTM")
    rates = {kind: {str(n): measure(kind, n, options.seconds) for n in BATCHES} for kind in kinds}
    for what in ("train", "decode"):
        print(f"\n{what}, sentences/s of {T} characters, H = {H}, {options.threads} threads")
        print(f"{'batch':>6}" + "".join(f"{kind:>12}" for kind in kinds) + "   batched/reference   char LSTM/batched")
        for n in map(str, BATCHES):
            slow, fast, plain = (rates[kind][n][what] for kind in kinds)
            row = "".join(f"{rate:12,.1f}" for rate in (slow, fast, plain))
            print(f"{n:>6}{row}{fast / slow:20.1f}{plain / fast:20.1f}")
    setting = {"T": T, "H": H, "threads": options.threads, "date": time.strftime("%Y-%m-%d"), **machine()}
    record = {"setting": setting, "sentences per second": rates}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
