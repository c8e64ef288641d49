"""Differential fuzzing: compare every implementation with its reference, on random texts.

`python -m tests.stress.fuzz SECONDS` (`make fuzz`) runs until the time is over or two results
differ. Hypothesis shrinks a case that fails, and it is added to tests/stress/found.jsonl, which
tests/stress/test_fuzz.py runs from then on. A case that ends the process stays in the folder for
temporary files, as hanlattice-fuzz-PID.json.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis
import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from hanlattice.checkpoint import find_model
from hanlattice.checkpoint.load import load_model
from hanlattice.config import make_config
from hanlattice.corpus.run import run as run_corpus
from hanlattice.corpus.settings import CorpusSettings
from hanlattice.document import Document
from hanlattice.lab.bench.equality import TOLERANCES, CRFCase, LSTMCase, largest_difference
from hanlattice.nn.to_device import to_device
from hanlattice.ops import library
from hanlattice.ops.crf import Arcs, CRFScores, batched, differentiable, native, plain
from hanlattice.predict import Predictor, load
from hanlattice.text.dictionary import Entry
from hanlattice.text.lattice import Lattice
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import fold
from hanlattice.text.span import Span
from hanlattice.text.vectors import Vectors, write_vectors
from tests.helpers.command import hanlattice
from tests.helpers.levels import at_level
from tests.helpers.made import PLACES, SHAPES, WORDS, sentences
from tests.helpers.running import Server, running
from tests.helpers.strategies import any_character
from tests.helpers.untrained import write_untrained
from tests.ops.test_crf_native import everything, make

HAS_GPU = torch.cuda.is_available()
if not HAS_GPU:
    # This takes effect when triton is imported.
    os.environ.setdefault("TRITON_INTERPRET", "1")
# Where Triton runs, and in which precisions
DEVICE = "cuda" if HAS_GPU else "cpu"
FUSED = ("fp32", "tf32", "bf16") if HAS_GPU else ("fp32",)
FOUND = Path(__file__).with_name("found.jsonl")
# The case that runs now
TRYING = Path(tempfile.gettempdir(), f"hanlattice-fuzz-{os.getpid()}.json")
Case = dict[str, Any]
# Bytes for a text, and for each word that occurs in it
COST_AT_MOST = 64 << 20
COST_OF_A_WORD = 1 << 10
# The largest difference of emissions, as a share of the largest one: with float factors, and with
# factors in 8 bits, bf16 or tf32
NEAR = 1e-4
ROUNDED = 0.05
counted: Counter[str] = Counter()

_piece = st.one_of(
    st.sampled_from(
        [*WORDS, *PLACES, *SHAPES, "国家主席江泽民", "北京大学", "长江", "１２３", " ", "　", "\n"]
    ),
    st.text(any_character, max_size=4),
    st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), max_size=6),
)
texts = st.lists(st.lists(_piece, max_size=8).map("".join), min_size=1, max_size=6)
cases: st.SearchStrategy[Case] = st.fixed_dictionaries(
    {
        "texts": texts,
        "words": st.lists(
            st.text(st.sampled_from("国家主席江泽民北京大学长a1"), min_size=2, max_size=5),
            max_size=5,
        ),
        "without": st.lists(st.sampled_from([*WORDS, "北京", "国家"]), max_size=2),
        "seed": st.integers(0, 1 << 31),
        "size": st.integers(1, 12),
        "labels": st.integers(1, 400),
        "nested": st.integers(2, 512),
    }
)


def same(values: dict[str, Any], right: dict[str, Any], most: float, what: str) -> None:
    """Assert that all values are nearly equal."""
    name, difference = largest_difference(values, right)
    assert difference <= most, f"{what}: {name} differs by {difference:.1e}"


def draw(case: Case, longest: int) -> tuple[LSTMCase, CRFCase, int]:
    """Return a lattice LSTM on the texts, a CRF, and the number of characters."""
    lexicon = Lexicon(case["words"])
    parts = [fold("".join(text.split()))[:longest] for text in case["texts"][:3]]
    words = [(b, *match) for b, text in enumerate(parts) for match in lexicon.match_ids(text)]
    lattice = Lattice.from_words([len(text) for text in parts], words)
    seed = case["seed"]
    drawn = LSTMCase.draw(lattice, case["size"], bool(seed % 2), D=3, E=2, seed=seed)
    B, T, K = 1 + len(parts), 1 + max(map(len, parts)), 1 + case["size"] % 6
    emissions, lengths, scores = make(seed, B, T, K)
    B, T, K = emissions.shape
    tags = torch.arange(B * T).view(B, T) % K
    return drawn, CRFCase(emissions, tags, lengths, scores), sum(map(len, parts))


def check_cells(case: Case) -> None:
    """Compare lattice LSTM and CRF, with gradients: batched and C against the reference."""
    drawn, crf, characters = draw(case, 20)
    right = drawn.values("reference")
    chain = (crf.emissions, crf.lengths, crf.scores)
    # The CRF's reference tries every tagging, so tests/ops/test_crf.py compares it with `batched`.
    chains = everything(batched, chain)
    same(drawn.values("batched"), right, 1e-9, "batched")
    for level in library.possible_levels():
        with at_level(level):
            same(drawn.values("native"), right, 1e-9, f"C, {level}")
            for name, value in everything(differentiable, chain).items():
                torch.testing.assert_close(value, chains[name], msg=f"CRF, {level}: {name}")
    counted["characters through the cells"] += characters * (2 + len(library.possible_levels()))


def check_chains(case: Case) -> None:
    """Compare CRFs of any size, with and without arcs: C against NumPy.

    A copied lattice must be read-only, because C does not check it again.
    """
    rng = np.random.default_rng(case["seed"])
    B, T, K, A = (int(rng.integers(0, most)) for most in (4, 9, 6, 7))
    n = int(rng.choice([1, 2, 5, 1 << 31, 1 << 62]))
    lengths = rng.integers(1, T + 1, B) if T else np.ones(B, dtype=np.int64)
    emissions = rng.normal(size=(B, T, K))
    scores = CRFScores(rng.normal(size=K), rng.normal(size=(K, K)), rng.normal(size=K))
    sentence = rng.integers(0, B, A) if B else np.zeros(A, dtype=np.int64)
    start = rng.integers(0, T + 1, A)
    end = start + rng.integers(0, T + 1, A)
    first, last = rng.integers(0, K + 1, (2, A))
    every = Arcs(sentence, start, end, first, last, rng.normal(size=A))
    fits = (end > start) & (first < K) & (last < K)
    fits &= end <= (lengths[sentence] if B else 0)
    for arcs in (None, every, every.at(fits)):
        right = chain_values(plain, emissions, lengths, scores, n, arcs)
        for level in library.possible_levels():
            with at_level(level):
                values = chain_values(native, emissions, lengths, scores, n, arcs)
            assert values.keys() == right.keys(), (level, values.keys(), right.keys())
            for name, value in values.items():
                message = f"{level}: {name}"
                np.testing.assert_allclose(value, right[name], 1e-9, 1e-9, err_msg=message)
    lattice = deepcopy(draw(case, 20)[0].lattice)
    arrays = [getattr(lattice, field.name) for field in fields(lattice) if field.init]
    assert not any(array.flags.writeable for array in arrays)
    counted["tags through chains"] += B * T * K * 3 * (1 + len(library.possible_levels()))


def chain_values(
    backend: Any, emissions: Any, lengths: Any, scores: CRFScores, n: int, arcs: Arcs | None
) -> dict[str, Any]:
    """Return all results of a backend, or `refused` for those it refuses to compute."""
    chain = emissions, lengths, scores
    more = {} if arcs is None else {"arcs": arcs}
    sums = (
        (lambda: backend.arc_marginals(*chain, arcs))
        if arcs
        else (lambda: (backend.marginals(*chain),))
    )
    values: dict[str, Any] = {}
    for name, compute in {
        "viterbi": lambda: backend.viterbi(*chain, **more),
        "nbest": lambda: backend.nbest(*chain, n, **more),
        "sums": sums,
    }.items():
        try:
            values |= {f"{name} {index}": value for index, value in enumerate(compute())}
        except (ValueError, IndexError):
            values[f"{name} refused"] = 0
    return values


def check_costs(case: Case) -> None:
    """Assert that memory grows only with the labelled words that occur in a text."""
    stem = (case["words"] or ["长"])[0][:1]
    length = case["nested"]
    text = stem * length
    entries = [Entry(stem * size, f"L{size % case['labels']}", 1.0) for size in range(2, length)]
    tagger = costly()
    most = COST_AT_MOST + COST_OF_A_WORD * length * length // 2
    tracemalloc.start()
    try:
        with tagger.lexicon.temporary_words(entries):
            spans = tagger(text).spans
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert all(text[span.start : span.end] == span.text for span in spans)
    assert peak <= most, (
        f"{length} words inside each other, {case['labels']} labels: {peak >> 20} MiB"
    )
    counted["labelled words inside each other"] += length * length // 2


@cache
def costly() -> Predictor:
    """Load the bundled model, and let it read everything that it reads once."""
    tagger = load("ner")
    with tagger.lexicon.temporary_words([Entry("长江大桥", "BRIDGE", 1.0)]):
        tagger("南京市长江大桥")
    return tagger


def check_triton(case: Case) -> None:
    """Compare the Triton kernels with the reference: cell and CRF with gradients, and a model."""
    drawn, crf, characters = draw(case, 20 if HAS_GPU else 3)
    right = in_two(drawn.values("reference"))
    for precision in FUSED:
        values = in_two(drawn.to(DEVICE, torch.float32).values(f"fused-{precision}"))
        # Five times the tolerance of whole layers, because a few small numbers can cancel out.
        same(values, right, 5 * TOLERANCES[precision], f"Triton, {precision}")
    chains = crf.values("batched", "cpu", torch.float64)
    for name, value in crf.values("fused", DEVICE, torch.float64).items():
        # A forbidden step scores minus a million, so rounding alone gives 1e-9.
        message = f"CRF, Triton: {name}"
        torch.testing.assert_close(value.cpu(), chains[name], rtol=1e-6, atol=1e-8, msg=message)
    counted["characters through Triton's cells"] += characters * len(FUSED)
    if texts := [text[: 24 if HAS_GPU else 3] for text in case["texts"] if text.strip()][:3]:
        near_in_triton(texts, emissions(small()["right"], texts))


def in_two(values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the output, and all gradients as one tensor."""
    # A gradient near zero has no relative precision of its own in float32.
    doubles = {name: value.detach().double().cpu() for name, value in values.items()}
    gradients = [value.flatten() for name, value in doubles.items() if name != "h"]
    return {"h": doubles["h"], "gradients": torch.cat(gradients)}


def near_in_triton(texts: list[str], right: torch.Tensor) -> None:
    """Compare a whole model, with Triton in every precision."""
    for precision in FUSED:
        most = {"fp32": NEAR}.get(precision, ROUNDED) * max(1.0, float(right.abs().max()))
        values = emissions(small()[f"fused-{precision}"], texts)
        assert (values - right).abs().max() <= most, f"a model, Triton, {precision}"
    counted["characters through models with Triton"] += sum(map(len, texts)) * len(FUSED)


def without_c() -> Any:
    """Turn the C library off."""
    missing = library.Loaded(None, "", "it is turned off")
    return mock.patch.object(library, "loaded", return_value=missing)


@cache
def small() -> dict[str, Predictor]:
    """Return an untrained lattice model with every implementation, by its name."""
    folder = Path(tempfile.mkdtemp())
    names = (*WORDS, *PLACES, "国家", "主席", "北京", "北京大学", "长江")
    rows = np.random.default_rng(0).normal(size=(len(names), 8)).astype(np.float32)
    write_vectors(folder / "words.vec", Vectors(names, rows), binary=False)
    tree = {"chars": {"dim": 8}, "words": {"vectors": str(folder / "words.vec")}}
    config = make_config(tree | {"model": {"hidden": 6, "layers": 2}})
    model = write_untrained(folder / "m", config, sentences(12, 0))
    with without_c():
        models = {"numpy": load(model)}
    models["right"] = with_backend(model, "reference")
    for precision in FUSED:
        models[f"fused-{precision}"] = with_backend(model, f"fused-{precision}", DEVICE)
    for level in library.possible_levels():
        # Loading packs the weights for an instruction set.
        with at_level(level):
            models[level] = load(model)
            models[f"{level}, 8 bits"] = load(model, fast=True)
    return models


def with_backend(folder: Path, backend: str, device: str = "cpu") -> Predictor:
    """Load a model as torch modules, with a backend of the lattice LSTM."""
    model = load_model(folder, device, modules=True)
    for layer in model.tagger.encoder.layers:  # type: ignore[union-attr]
        layer.backend = backend
    return Predictor(model)


def emissions(predictor: Predictor, texts: list[str]) -> torch.Tensor:
    """Return the emissions of a batch of texts."""
    batch = predictor.model.indexer.read(texts).batch(range(len(texts)))
    if predictor.model.device != "cpu":
        batch = to_device(batch, predictor.model.device)
    return torch.as_tensor(predictor.model.tagger.emissions(batch)).detach().cpu()


def check_levels(texts: list[str], right: torch.Tensor) -> None:
    """Compare a whole model at every instruction set, with float weights and in 8 bits."""
    models = small()
    most = max(1.0, float(right.abs().max()))
    for level in library.possible_levels():
        with at_level(level):
            values = emissions(models[level], texts)
            assert (values - right).abs().max() <= NEAR * most, f"C, {level}"
            rounded = emissions(models[f"{level}, 8 bits"], texts)
            assert (rounded - right).abs().max() <= ROUNDED * most, f"8 bits, {level}"


def check_models(case: Case) -> None:
    """Compare a whole model with the torch modules: C, numpy alone, and 8 bits."""
    texts = [text[:24] for text in case["texts"] if text.strip()][:3]
    if not texts:
        return
    right = emissions(small()["right"], texts)
    check_levels(texts, right)
    with without_c():
        difference = float((emissions(small()["numpy"], texts) - right).abs().max())
    assert difference <= NEAR * max(1.0, float(right.abs().max())), "numpy"
    runs = 2 + 2 * len(library.possible_levels())
    counted["characters through models"] += sum(map(len, texts)) * runs


def check_long(case: Case) -> None:
    """Compare a whole model with numpy on thousands of characters at once."""
    chance = np.random.default_rng(case["seed"])
    parts = [text for text in case["texts"] if text.strip()]
    texts = [
        "".join(chance.choice(parts, chance.integers(1, 9))) for _ in range(100 if parts else 0)
    ]
    texts = [text[:400] for text in texts if text.strip()]
    if not texts:
        return
    with without_c():
        right = emissions(small()["numpy"], texts)
    check_levels(texts, right)
    if HAS_GPU:
        near_in_triton(texts, right)
    runs = 1 + 2 * len(library.possible_levels())
    counted["characters of long texts"] += sum(map(len, texts)) * runs


@cache
def shipped() -> Predictor:
    """Load the bundled model."""
    return load("ner")


def triples(documents: Any) -> list[list[tuple[int, int, str]]]:
    """Return the spans of documents, which are objects, JSON, or lists of spans."""
    return [
        [
            (s.start, s.end, s.label) if isinstance(s, Span) else (s["start"], s["end"], s["label"])
            for s in spans
        ]
        for spans in documents
    ]


def check_doors(
    case: Case, server: Server | None = None, on_ray: Callable[[list[str]], Any] | None = None
) -> None:
    """Compare all ways to tag texts: one by one, lists, batches, command, corpus, server, Ray."""
    tagger = shipped()
    texts = case["texts"]
    with tagger.lexicon.temporary_words(case["words"], case["without"]):
        right = [tagger(text) for text in texts]
        spans = [document.spans for document in right]
        assert [document.spans for document in tagger(texts)] == spans, "a list"
        assert [document.spans for document in tagger.pipe(texts, case["size"])] == spans, "pipe"
    for document in right:
        for span in document.spans:
            assert document.text[span.start : span.end] == span.text, "offsets"
    plain = [tagger(text) for text in texts]
    lines = [text.replace("\r", " ").replace("\n", " ") for text in texts]
    sent = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
    # A byte order mark, lone surrogates and NUL are not plain UTF-8 text for the command.
    if not sent.startswith(b"\xef\xbb\xbf") and b"\xed" not in sent and b"\0" not in sent:
        done = hanlattice("tag", "--format", "jsonl", "-", stdin=sent)
        assert done.code == 0, done.err
        records = [json.loads(line) for line in done.text.split("\n")[:-1]]
        expected = triples(tagger(line).spans for line in lines)
        assert triples(record["spans"] for record in records) == expected, "the command line"
    check_corpus(texts, plain)
    if server is not None:
        status, answer, _ = server.ask("/v1/tag", {"texts": texts})
        assert status == 200, answer
        spans = triples(document["spans"] for document in answer["documents"])
        assert spans == triples(document.spans for document in plain), "the server"
    if on_ray is not None:
        # Arrow is UTF-8, so it has no lone surrogates.
        whole = [d for d in plain if not any("\ud800" <= c <= "\udfff" for c in d.text)]
        spans = triples(on_ray([document.text for document in whole]))
        assert spans == triples(document.spans for document in whole), "Ray"
    ways = 5 + (server is not None) + (on_ray is not None)
    counted["characters through doors"] += sum(map(len, texts)) * ways


def ray_actor() -> Callable[[list[str]], Any]:
    """Start an actor with the model, as Ray Data does, and return a function that asks it."""
    from hanlattice.ray import Tagger, connect

    ray = connect()
    actor = ray.remote(Tagger).options(num_cpus=1).remote("ner")

    def ask(texts: list[str]) -> Any:
        batch = {"text": np.array(texts, object)}
        return ray.get(actor.__call__.remote(batch))["spans"].to_pylist()

    return ask


def check_corpus(texts: list[str], right: list[Document]) -> None:
    """Compare `hanlattice corpus tag`; rows with lone surrogates must be broken there."""
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        Path(folder, "in.jsonl").write_text(lines, "utf-8")
        run_corpus([f"{folder}/in.jsonl"], f"{folder}/out", CorpusSettings(Path(find_model("ner"))))
        (out,) = Path(folder, "out").glob("in.jsonl.*")
        rows = [json.loads(line) for line in out.read_text("utf-8").split("\n")[:-1]]
    for row, document in zip(rows, right, strict=True):
        if "broken" not in row:
            assert triples([row["spans"]]) == triples([document.spans]), "the corpus"
        else:
            assert any("\ud800" <= character <= "\udfff" for character in document.text), row


CHECKS: dict[str, Callable[[Case], None]] = {
    "cells": check_cells,
    "triton": check_triton,
    "chains": check_chains,
    "costs": check_costs,
    "models": check_models,
    "long": check_long,
    "doors": check_doors,
}
# Cases in a round: slow checks get few.
ROUND = {
    "cells": 25,
    "triton": 25 if HAS_GPU else 2,
    "chains": 100,
    "costs": 2,
    "models": 25,
    "long": 400,
    "doors": 5,
}


def search(name: str, check: Callable[[Case], None], number: int, examples: int) -> None:
    """Run some cases of a check, and record the smallest one that fails."""
    failing: list[Case] = []

    @hypothesis.seed(number)
    @settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=[*HealthCheck]
    )
    @hypothesis.given(cases)
    def attempt(case: Case) -> None:
        counted[f"cases of {name}"] += 1
        TRYING.write_text(json.dumps({"check": name, "case": case}), "utf-8")
        try:
            check(case)
        except Exception:
            failing.append(case)
            raise

    try:
        attempt()
    except Exception:
        # Hypothesis runs the smallest case last.
        with FOUND.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"check": name, "case": failing[-1]}) + "\n")
        raise
    finally:
        TRYING.unlink(missing_ok=True)


def main(seconds: float, number: int = 0) -> None:
    """Run rounds of all checks, starting with this seed."""
    torch.set_num_threads(1)
    faulthandler.enable()
    end = time.monotonic() + seconds
    with ExitStack() as stack:
        server = stack.enter_context(running("-m", "ner")) if find_spec("starlette") else None
        on_ray = ray_actor() if find_spec("ray") else None
        checks = {**CHECKS, "doors": lambda case: check_doors(case, server, on_ray)}
        if not find_spec("triton"):
            del checks["triton"]
        for seed in count(number):
            for name, check in checks.items():
                if time.monotonic() < end:
                    search(name, check, seed, ROUND[name])
            print(json.dumps({"rounds": seed - number + 1, **counted}), flush=True)  # noqa: T201
            if time.monotonic() > end:
                return


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]), *map(int, sys.argv[2:3]))
