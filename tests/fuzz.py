"""Differential fuzzing: every backend against the reference, every door against the library, over one generator.

`python -m tests.fuzz SECONDS` (make fuzz) goes on until the time is over or something differs. What it finds is made
small by hypothesis and added to tests/found.jsonl, which tests/test_fuzz.py tries ever after.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis
import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from hanlattice.bench.equality import LSTMCase, largest_difference
from hanlattice.config import make_config
from hanlattice.corpus.run import run as run_corpus
from hanlattice.corpus.settings import Settings as CorpusSettings
from hanlattice.document import Document
from hanlattice.models import find_model
from hanlattice.models.folder import load_model
from hanlattice.ops import library
from hanlattice.ops.crf import batched, differentiable
from hanlattice.predict import Predictor, load
from hanlattice.text.lattice import Lattice
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normal import fold
from hanlattice.text.vectors import Vectors, write_vectors
from tests.cli.command import hanlattice
from tests.levels import at_level
from tests.made import PLACES, SHAPES, WORDS, sentences
from tests.ops.test_crf_native import everything, make
from tests.serve.running import Server, running
from tests.strategies import any_character
from tests.untrained import write_untrained

FOUND = Path(__file__).with_name("found.jsonl")
Case = dict[str, Any]
NEAR, EIGHT_BITS = 1e-4, 0.05  # how much emissions may differ, of the largest one; in 8 bits
counted: Counter[str] = Counter()

_piece = st.one_of(
    st.sampled_from([*WORDS, *PLACES, *SHAPES, "国家主席江泽民", "北京大学", "长江", "１２３", " ", "　", "\n"]),
    st.text(any_character, max_size=4),
    st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), max_size=6),
)
texts = st.lists(st.lists(_piece, max_size=8).map("".join), min_size=1, max_size=6)
cases: st.SearchStrategy[Case] = st.fixed_dictionaries(
    {
        "texts": texts,
        "words": st.lists(st.text(st.sampled_from("国家主席江泽民北京大学长a1"), min_size=2, max_size=5), max_size=5),
        "without": st.lists(st.sampled_from([*WORDS, "北京", "国家"]), max_size=2),
        "seed": st.integers(0, 1 << 31),
        "size": st.integers(1, 12),
    }
)


def same(found: dict[str, Any], right: dict[str, Any], most: float, what: str) -> None:
    name, difference = largest_difference(found, right)
    assert difference <= most, f"{what}: {name} differs by {difference:.1e}"


def check_cells(case: Case) -> None:
    """The lattice LSTM with gradients, and the CRF: batched and C at every instruction set against the reference."""
    lexicon = Lexicon(case["words"])
    parts = [fold("".join(text.split()))[:20] for text in case["texts"][:3]]
    words = [(b, start, end, at) for b, text in enumerate(parts) for start, end, at in lexicon.match_ids(text)]
    lattice = Lattice.from_words([len(text) for text in parts], words)
    drawn = LSTMCase.draw(lattice, case["size"], bool(case["seed"] % 2), D=3, E=2, seed=case["seed"])
    right = drawn.values("reference")
    chain = make(case["seed"], 1 + len(parts), 1 + max(map(len, parts)), 1 + case["size"] % 6)
    chains = everything(batched, chain)  # the reference tries every tagging; tests/ops/test_crf.py compares these two
    same(drawn.values("batched"), right, 1e-9, "batched")
    for level in library.possible_levels():
        with at_level(level):
            same(drawn.values("native"), right, 1e-9, f"C, {level}")
            for name, value in everything(differentiable, chain).items():
                torch.testing.assert_close(value, chains[name], msg=f"CRF, {level}: {name}")
    counted["characters through the cells"] += sum(map(len, parts)) * (2 + len(library.possible_levels()))


def without_c() -> Any:
    return mock.patch.object(library, "loaded", return_value=library.Loaded(None, "", "it is turned off"))


@cache
def small() -> dict[str, Predictor]:
    """An untrained lattice model: as modules of torch with the reference, for the runtime, and in 8 bits."""
    folder = Path(tempfile.mkdtemp())
    names = (*WORDS, *PLACES, "国家", "主席", "北京", "北京大学", "长江")
    rows = np.random.default_rng(0).normal(size=(len(names), 8)).astype(np.float32)
    write_vectors(folder / "words.vec", Vectors(names, rows), binary=False)
    tree = {"chars": {"dim": 8}, "words": {"vectors": str(folder / "words.vec")}}
    write_untrained(folder / "m", make_config(tree | {"model": {"hidden": 6, "layers": 2}}), sentences(12, 0))
    slow = load_model(folder / "m", modules=True)
    for layer in slow.tagger.encoder.layers:  # type: ignore[union-attr]
        layer.backend = "reference"
    with without_c():
        plain = load(folder / "m")
    made = {"right": Predictor(slow), "runtime": load(folder / "m"), "numpy": plain}
    for level in library.possible_levels():  # the weights are packed for the one that loads them
        with at_level(level):
            made[level] = load(folder / "m", fast=True)
    return made


def emissions(predictor: Predictor, texts: list[str]) -> torch.Tensor:
    examples = predictor.model.indexer.read(texts)
    return torch.as_tensor(predictor.model.tagger.emissions(examples.batch(range(len(texts))))).detach()


def check_models(case: Case) -> None:
    """A whole model: the runtime with C at every instruction set, numpy alone, 8 bits, against the modules of torch."""
    made, texts = small(), [text[:24] for text in case["texts"] if text.strip()][:3]
    if not texts:
        return
    right = emissions(made["right"], texts)
    most = max(1.0, float(right.abs().max()))
    for level in library.possible_levels():
        with at_level(level):
            assert (emissions(made["runtime"], texts) - right).abs().max() <= NEAR * most, f"C, {level}"
            assert (emissions(made[level], texts) - right).abs().max() <= EIGHT_BITS * most, f"8 bits, {level}"
    with without_c():
        assert (emissions(made["numpy"], texts) - right).abs().max() <= NEAR * most, "numpy"
    counted["characters through models"] += sum(map(len, texts)) * (2 + 2 * len(library.possible_levels()))


def check_long(case: Case) -> None:
    """Thousands of characters at once, from the same pieces: C at every instruction set and 8 bits against numpy."""
    made, chance = small(), np.random.default_rng(case["seed"])
    parts = [text for text in case["texts"] if text.strip()]
    texts = ["".join(chance.choice(parts, chance.integers(1, 9))) for _ in range(100 if parts else 0)]
    texts = [text[:400] for text in texts if text.strip()]
    if not texts:
        return
    with without_c():
        right = emissions(made["numpy"], texts)
    most = max(1.0, float(right.abs().max()))
    for level in library.possible_levels():
        with at_level(level):
            assert (emissions(made["runtime"], texts) - right).abs().max() <= NEAR * most, f"C, {level}"
            assert (emissions(made[level], texts) - right).abs().max() <= EIGHT_BITS * most, f"8 bits, {level}"
    counted["characters of long texts"] += sum(map(len, texts)) * (1 + 2 * len(library.possible_levels()))


@cache
def shipped() -> Predictor:
    return load("ner")


def check_doors(case: Case, server: Server | None = None) -> None:
    """Text by text, as a list, in batches, by the command line, as a corpus and by a server: one and the same."""
    tagger, given = shipped(), case["texts"]
    with tagger.lexicon.borrowed(case["words"], case["without"]):
        right = [tagger(text) for text in given]
        assert [each.spans for each in tagger(given)] == [each.spans for each in right], "a list"
        assert [each.spans for each in tagger.pipe(given, case["size"])] == [each.spans for each in right], "pipe"
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
        assert spans == [[(s.start, s.end, s.label) for s in tagger(line).spans] for line in lines], "the command line"
    check_corpus(given, plain)
    if server is not None:
        status, answer, _ = server.ask("/v1/tag", {"texts": given})
        assert status == 200, answer
        spans = [[(s["start"], s["end"], s["label"]) for s in each["spans"]] for each in answer["documents"]]
        assert spans == [[(s.start, s.end, s.label) for s in each.spans] for each in plain], "the server"
    counted["characters through doors"] += sum(map(len, given)) * (5 + (server is not None))


def check_corpus(texts: list[str], right: list[Document]) -> None:
    """`hanlattice corpus tag` of these texts, as JSON lines; of lone surrogates it says that they are broken rows."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
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
    "models": check_models,
    "long": check_long,
    "doors": check_doors,
}
ROUND = {"cells": 25, "models": 25, "long": 400, "doors": 5}  # cases of each: what is slow is seldom


def search(name: str, check: Callable[[Case], None], number: int, examples: int) -> None:
    """Try so many cases; keep the smallest that fails."""
    failing: list[Case] = []

    @hypothesis.seed(number)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=[*HealthCheck])
    @hypothesis.given(cases)
    def attempt(case: Case) -> None:
        counted[f"cases of {name}"] += 1
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


def main(seconds: float, number: int = 0) -> None:
    torch.set_num_threads(1)
    end = time.monotonic() + seconds
    with running("-m", "ner") as server:
        checks = {**CHECKS, "doors": lambda case: check_doors(case, server)}
        for at in count(number):
            for name, check in checks.items():
                if time.monotonic() > end:
                    return
                search(name, check, at, ROUND[name])
            print(json.dumps({"rounds": at - number + 1, **counted}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]), *map(int, sys.argv[2:3]))
