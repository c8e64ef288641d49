"""Differential fuzzing: every backend against the reference, every door against the library, over
one generator.

`python -m tests.stress.fuzz SECONDS` (make fuzz) goes on until the time is over or something
differs. What it finds is made small by hypothesis and added to tests/stress/found.jsonl, which
tests/stress/test_fuzz.py tries ever after. A case that ends the process stays in the folder for
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
from hanlattice.corpus.settings import CorpusSettings as CorpusSettings
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
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before anybody imports triton
DEVICE, FUSED = (
    ("cuda", ("fp32", "tf32", "bf16")) if HAS_GPU else ("cpu", ("fp32",))
)  # where Triton runs, and how
FOUND = Path(__file__).with_name("found.jsonl")
TRYING = Path(
    tempfile.gettempdir(), f"hanlattice-fuzz-{os.getpid()}.json"
)  # the case that ended the process
Case = dict[str, Any]
# Bytes that a text may take, and for each word that stands in it.
COST_AT_MOST = 64 << 20
COST_OF_A_WORD = 1 << 10
# how much emissions may differ, of the largest one; with factors in 8 bits, bf16 or tf32
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


def same(found: dict[str, Any], right: dict[str, Any], most: float, what: str) -> None:
    name, difference = largest_difference(found, right)
    assert difference <= most, f"{what}: {name} differs by {difference:.1e}"


def draw(case: Case, longest: int) -> tuple[LSTMCase, CRFCase, int]:
    """A lattice LSTM over the texts, a CRF, and the characters in them."""
    lexicon = Lexicon(case["words"])
    parts = [fold("".join(text.split()))[:longest] for text in case["texts"][:3]]
    words = [
        (b, start, end, at)
        for b, text in enumerate(parts)
        for start, end, at in lexicon.match_ids(text)
    ]
    lattice = Lattice.from_words([len(text) for text in parts], words)
    drawn = LSTMCase.draw(
        lattice, case["size"], bool(case["seed"] % 2), D=3, E=2, seed=case["seed"]
    )
    emissions, lengths, scores = make(
        case["seed"], 1 + len(parts), 1 + max(map(len, parts)), 1 + case["size"] % 6
    )
    tags = (
        torch.arange(emissions.shape[0] * emissions.shape[1]).view(emissions.shape[:2])
        % emissions.shape[2]
    )
    return drawn, CRFCase(emissions, tags, lengths, scores), sum(map(len, parts))


def check_cells(case: Case) -> None:
    """The lattice LSTM with gradients, and the CRF: batched and C at every instruction set against
    the reference.
    """
    drawn, crf, characters = draw(case, 20)
    right = drawn.values("reference")
    chain = (crf.emissions, crf.lengths, crf.scores)
    chains = everything(
        batched, chain
    )  # the reference tries every tagging; tests/ops/test_crf.py compares these two
    same(drawn.values("batched"), right, 1e-9, "batched")
    for level in library.possible_levels():
        with at_level(level):
            same(drawn.values("native"), right, 1e-9, f"C, {level}")
            for name, value in everything(differentiable, chain).items():
                torch.testing.assert_close(value, chains[name], msg=f"CRF, {level}: {name}")
    counted["characters through the cells"] += characters * (2 + len(library.possible_levels()))


def check_chains(case: Case) -> None:
    """CRFs of any size, also of none, with and without arcs: C at every instruction set says what
    NumPy says.

    So it does of copied lattices: nobody may change what C reads unchecked.
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
                found = chain_values(native, emissions, lengths, scores, n, arcs)
            assert found.keys() == right.keys(), (level, found.keys(), right.keys())
            for name, value in found.items():
                np.testing.assert_allclose(
                    value, right[name], rtol=1e-9, atol=1e-9, err_msg=f"{level}: {name}"
                )
    lattice = deepcopy(draw(case, 20)[0].lattice)
    assert not any(
        getattr(lattice, each.name).flags.writeable for each in fields(lattice) if each.init
    )
    counted["tags through chains"] += B * T * K * 3 * (1 + len(library.possible_levels()))


def chain_values(
    backend: Any, emissions: Any, lengths: Any, scores: CRFScores, n: int, arcs: Arcs | None
) -> dict[str, Any]:
    """What a backend says of all taggings, or `refused` where it takes none of it."""
    given = emissions, lengths, scores
    more = {} if arcs is None else {"arcs": arcs}
    found: dict[str, Any] = {}
    for name, do in {
        "viterbi": lambda: backend.viterbi(*given, **more),
        "nbest": lambda: backend.nbest(*given, n, **more),
        "sums": lambda: (
            backend.arc_marginals(*given, arcs) if arcs else (backend.marginals(*given),)
        ),
    }.items():
        try:
            found |= {f"{name} {at}": value for at, value in enumerate(do())}
        except (ValueError, IndexError):
            found[f"{name} refused"] = 0
    return found


def check_costs(case: Case) -> None:
    """Words inside words, each with a label: memory grows with what occurs in the text, not faster."""
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
    """The bundled model, which composes vectors of new words, after everything that is read once
    was read.
    """
    tagger = load("ner")
    with tagger.lexicon.temporary_words([Entry("长江大桥", "BRIDGE", 1.0)]):
        tagger("南京市长江大桥")
    return tagger


def check_triton(case: Case) -> None:
    """The Triton kernels, on a GPU in every precision, else interpreted: cell and CRF with
    gradients, a model.
    """
    drawn, crf, characters = draw(case, 20 if HAS_GPU else 3)
    right = in_two(drawn.values("reference"))
    for precision in (
        FUSED
    ):  # five times what whole layers are allowed: a few small numbers can cancel each other
        found = in_two(drawn.to(DEVICE, torch.float32).values(f"fused-{precision}"))
        same(found, right, 5 * TOLERANCES[precision], f"Triton, {precision}")
    chains = crf.values("batched", "cpu", torch.float64)
    for name, value in crf.values(
        "fused", DEVICE, torch.float64
    ).items():  # a forbidden step is a million: 1e-9 is rounding
        torch.testing.assert_close(
            value.cpu(), chains[name], rtol=1e-6, atol=1e-8, msg=f"CRF, Triton: {name}"
        )
    counted["characters through Triton's cells"] += characters * len(FUSED)
    if texts := [text[: 24 if HAS_GPU else 3] for text in case["texts"] if text.strip()][:3]:
        near_in_triton(texts, emissions(small()["right"], texts))


def in_two(values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The output, and all gradients as one: a gradient of next to nothing has no relative precision
    in float32.
    """
    gradients = [
        value.detach().double().flatten().cpu() for name, value in values.items() if name != "h"
    ]
    return {"h": values["h"].detach().double().cpu(), "gradients": torch.cat(gradients)}


def near_in_triton(texts: list[str], right: torch.Tensor) -> None:
    """The whole model with the kernels in every precision."""
    for precision in FUSED:
        most = {"fp32": NEAR}.get(precision, ROUNDED) * max(1.0, float(right.abs().max()))
        found = emissions(small()[f"fused-{precision}"], texts)
        assert (found - right).abs().max() <= most, f"a model, Triton, {precision}"
    counted["characters through models with Triton"] += sum(map(len, texts)) * len(FUSED)


def without_c() -> Any:
    return mock.patch.object(
        library, "loaded", return_value=library.Loaded(None, "", "it is turned off")
    )


@cache
def small() -> dict[str, Predictor]:
    """An untrained lattice model: as modules of torch with the reference or Triton, for the
    runtime, and in 8 bits.
    """
    folder = Path(tempfile.mkdtemp())
    names = (*WORDS, *PLACES, "国家", "主席", "北京", "北京大学", "长江")
    rows = np.random.default_rng(0).normal(size=(len(names), 8)).astype(np.float32)
    write_vectors(folder / "words.vec", Vectors(names, rows), binary=False)
    tree = {"chars": {"dim": 8}, "words": {"vectors": str(folder / "words.vec")}}
    write_untrained(
        folder / "m", make_config(tree | {"model": {"hidden": 6, "layers": 2}}), sentences(12, 0)
    )
    with without_c():
        plain = load(folder / "m")
    made = {"right": with_backend(folder / "m", "reference"), "numpy": plain}
    for precision in FUSED:
        made[f"fused-{precision}"] = with_backend(folder / "m", f"fused-{precision}", DEVICE)
    for level in library.possible_levels():  # the weights are packed for the one that loads them
        with at_level(level):
            made[level], made[f"{level}, 8 bits"] = (
                load(folder / "m"),
                load(folder / "m", fast=True),
            )
    return made


def with_backend(folder: Path, backend: str, device: str = "cpu") -> Predictor:
    model = load_model(folder, device, modules=True)
    for layer in model.tagger.encoder.layers:  # type: ignore[union-attr]
        layer.backend = backend
    return Predictor(model)


def emissions(predictor: Predictor, texts: list[str]) -> torch.Tensor:
    batch = predictor.model.indexer.read(texts).batch(range(len(texts)))
    if predictor.model.device != "cpu":
        batch = to_device(batch, predictor.model.device)
    return torch.as_tensor(predictor.model.tagger.emissions(batch)).detach().cpu()


def check_models(case: Case) -> None:
    """A whole model: the runtime with C at every instruction set, numpy alone, 8 bits, against the
    modules of torch.
    """
    made = small()
    texts = [text[:24] for text in case["texts"] if text.strip()][:3]
    if not texts:
        return
    right = emissions(made["right"], texts)
    most = max(1.0, float(right.abs().max()))
    for level in library.possible_levels():
        with at_level(level):
            assert (emissions(made[level], texts) - right).abs().max() <= NEAR * most, f"C, {level}"
            rounded = emissions(made[f"{level}, 8 bits"], texts)
            assert (rounded - right).abs().max() <= ROUNDED * most, f"8 bits, {level}"
    with without_c():
        assert (emissions(made["numpy"], texts) - right).abs().max() <= NEAR * most, "numpy"
    counted["characters through models"] += sum(map(len, texts)) * (
        2 + 2 * len(library.possible_levels())
    )


def check_long(case: Case) -> None:
    """Thousands of characters at once, from the same pieces: C at every instruction set and 8 bits
    against numpy.
    """
    made = small()
    chance = np.random.default_rng(case["seed"])
    parts = [text for text in case["texts"] if text.strip()]
    texts = [
        "".join(chance.choice(parts, chance.integers(1, 9))) for _ in range(100 if parts else 0)
    ]
    texts = [text[:400] for text in texts if text.strip()]
    if not texts:
        return
    with without_c():
        right = emissions(made["numpy"], texts)
    most = max(1.0, float(right.abs().max()))
    for level in library.possible_levels():
        with at_level(level):
            assert (emissions(made[level], texts) - right).abs().max() <= NEAR * most, f"C, {level}"
            rounded = emissions(made[f"{level}, 8 bits"], texts)
            assert (rounded - right).abs().max() <= ROUNDED * most, f"8 bits, {level}"
    if HAS_GPU:
        near_in_triton(texts, right)
    counted["characters of long texts"] += sum(map(len, texts)) * (
        1 + 2 * len(library.possible_levels())
    )


@cache
def shipped() -> Predictor:
    return load("ner")


def check_doors(
    case: Case, server: Server | None = None, on_ray: Callable[[list[str]], Any] | None = None
) -> None:
    """Text by text, as a list, in batches, by the command line, as a corpus, by a server and Ray:
    one and the same.
    """
    tagger = shipped()
    given = case["texts"]
    with tagger.lexicon.temporary_words(case["words"], case["without"]):
        right = [tagger(text) for text in given]
        assert [each.spans for each in tagger(given)] == [each.spans for each in right], "a list"
        assert [each.spans for each in tagger.pipe(given, case["size"])] == [
            each.spans for each in right
        ], "pipe"
    for each in right:
        assert all(each.text[span.start : span.end] == span.text for span in each.spans), "offsets"
    plain = [tagger(text) for text in given]
    lines = [text.replace("\r", " ").replace("\n", " ") for text in given]
    sent = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
    if not sent.startswith(b"\xef\xbb\xbf") and b"\xed" not in sent and b"\0" not in sent:
        done = hanlattice("tag", "--format", "jsonl", "-", stdin=sent)
        assert done.code == 0, done.err
        spans = [
            [(s["start"], s["end"], s["label"]) for s in json.loads(line)["spans"]]
            for line in done.text.split("\n")[:-1]
        ]
        assert spans == [
            [(s.start, s.end, s.label) for s in tagger(line).spans] for line in lines
        ], "the command line"
    check_corpus(given, plain)
    if server is not None:
        status, answer, _ = server.ask("/v1/tag", {"texts": given})
        assert status == 200, answer
        spans = [
            [(s["start"], s["end"], s["label"]) for s in each["spans"]]
            for each in answer["documents"]
        ]
        assert spans == [[(s.start, s.end, s.label) for s in each.spans] for each in plain], (
            "the server"
        )
    if on_ray is not None:
        whole = [
            each for each in plain if not any("\ud800" <= one <= "\udfff" for one in each.text)
        ]  # Arrow is UTF-8
        spans = [
            [(s["start"], s["end"], s["label"]) for s in each]
            for each in on_ray([each.text for each in whole])
        ]
        assert spans == [[(s.start, s.end, s.label) for s in each.spans] for each in whole], "Ray"
    counted["characters through doors"] += sum(map(len, given)) * (
        5 + (server is not None) + (on_ray is not None)
    )


def ray_actor() -> Callable[[list[str]], Any]:
    """The model in an actor of a Ray cluster, as Ray Data would hold it."""
    from hanlattice.ray import Tagger, connect

    ray = connect()
    actor = ray.remote(Tagger).options(num_cpus=1).remote("ner")

    def ask(texts: list[str]) -> Any:
        return ray.get(actor.__call__.remote({"text": np.array(texts, object)}))[
            "spans"
        ].to_pylist()

    return ask


def check_corpus(texts: list[str], right: list[Document]) -> None:
    """`hanlattice corpus tag` of these texts, as JSON lines; of lone surrogates it says that they
    are broken rows.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in.jsonl").write_text(
            "".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8"
        )
        run_corpus([f"{folder}/in.jsonl"], f"{folder}/out", CorpusSettings(Path(find_model("ner"))))
        (out,) = Path(folder, "out").glob("in.jsonl.*")
        rows = [json.loads(line) for line in out.read_text("utf-8").split("\n")[:-1]]
    for row, document in zip(rows, right, strict=True):
        if "broken" not in row:
            spans = [(s["start"], s["end"], s["label"]) for s in row["spans"]]
            assert spans == [(s.start, s.end, s.label) for s in document.spans], "the corpus"
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
ROUND = {
    "cells": 25,
    "triton": 25 if HAS_GPU else 2,
    "chains": 100,
    "costs": 2,
    "models": 25,
    "long": 400,
    "doors": 5,
}  # cases of each: what is slow is seldom


def search(name: str, check: Callable[[Case], None], number: int, examples: int) -> None:
    """Try so many cases; keep the smallest that fails."""
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
        with FOUND.open("a", encoding="utf-8") as file:  # the last one is what hypothesis shows
            file.write(json.dumps({"check": name, "case": failing[-1]}) + "\n")
        raise
    finally:
        TRYING.unlink(missing_ok=True)


def main(seconds: float, number: int = 0) -> None:
    torch.set_num_threads(1)
    faulthandler.enable()
    end = time.monotonic() + seconds
    with ExitStack() as stack:
        server = stack.enter_context(running("-m", "ner")) if find_spec("starlette") else None
        on_ray = ray_actor() if find_spec("ray") else None
        checks = {**CHECKS, "doors": lambda case: check_doors(case, server, on_ray)}
        if not find_spec("triton"):
            del checks["triton"]
        for at in count(number):
            for name, check in checks.items():
                if time.monotonic() < end:
                    search(name, check, at, ROUND[name])
            print(json.dumps({"rounds": at - number + 1, **counted}), flush=True)  # noqa: T201
            if time.monotonic() > end:
                return


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]), *map(int, sys.argv[2:3]))
