"""What a run gives: every section, every cell, as JSON; tables of it; and nothing when an option
makes no sense.
"""

from __future__ import annotations

import dataclasses
import json
import math
from itertools import product

import pytest
import torch

from hanlattice.errors import InputError
from hanlattice.lab.bench import SECTIONS, BenchSettings, bench, measure
from hanlattice.lab.bench.inputs import CHARACTER, MODELS, make_examples
from hanlattice.lab.bench.report import table
from hanlattice.lab.bench.timing import peak_bytes
from hanlattice.ops.lattice_lstm import runnable
from tests.lab.bench.small import SMALL

CUDA = pytest.param(
    "cuda",
    marks=pytest.mark.skipif(
        not torch.cuda.is_available(), reason="this machine has no CUDA device"
    ),
)


@pytest.fixture(scope="module", params=["cpu", CUDA])
def measured(request: pytest.FixtureRequest) -> tuple[list[tuple[str, dict]], list[str]]:
    """What came after each section, and what was told."""
    told: list[str] = []
    return list(measure(dataclasses.replace(SMALL, device=request.param), told.append)), told


@pytest.fixture(scope="module")
def record(measured: tuple[list[tuple[str, dict]], list[str]]) -> dict:
    return measured[0][-1][1]


def others(record: dict, first: bool) -> list[str]:
    """The backends that a cell has; the first one has the reference too."""
    names = runnable(torch.empty(0, device=record["settings"]["device"]))
    return [name for name in names if first or name != "reference"]


def test_the_encoder_has_every_cell(record):
    found = [
        (row["hidden"], row["batch"], row["what"], row["encoder"]) for row in record["encoder"]
    ]
    expected = [
        (hidden, batch, what, name)
        for hidden, batch, what in product((4, 5), (1, 3), ("forward", "forward + backward"))
        for name in ("nn.LSTM", *others(record, first=(hidden, batch) == (4, 1)))
    ]
    assert found == expected


def test_training_has_every_cell(record):
    models = [CHARACTER, *(name for name in others(record, True) if name in ("auto", "batched"))]
    found = [(row["hidden"], row["batch"], row["model"]) for row in record["training"]]
    assert found == list(product((4, 5), (1, 3), models))


def test_tagging_has_both_models(record):
    assert [(row["hidden"], row["model"]) for row in record["tagging"]] == list(
        product((4, 5), (CHARACTER, "auto"))
    )
    plain, lattice, *_ = record["tagging"]
    assert (plain["words"], plain["texts"], lattice["texts"]) == (0, 5, 5)
    assert lattice["words"] >= 0.5 * lattice["characters"]


def test_lengths_have_every_cell(record):
    found = [(row["hidden"], row["length"], row["what"], row["model"]) for row in record["lengths"]]
    assert found == list(product((4, 5), (4, 9), ("training", "tagging"), (CHARACTER, "auto")))
    for row in record["lengths"]:
        if row["what"] == "training":
            assert row["batch"] == 32
        else:  # about as many characters at every length
            assert (row["texts"], row["characters"]) == {4: (7, 28), 9: (3, 27)}[row["length"]]
            assert (row["words"] > 0) == (row["model"] == "auto")


def test_models_have_every_cell_and_stand_beside_the_plain_one_of_as_many_layers(record):
    found = [(row["hidden"], row["what"], row["model"]) for row in record["models"]]
    each = [
        (H, what, name)
        for H in (4, 5)
        for group in MODELS
        for what in ("training", "tagging")
        for name in group
    ]
    assert found == each
    for row in record["models"]:
        plain = next(
            r
            for r in record["models"]
            if _cell(r) == _cell(row) and r["model"] == row["model"].split(",")[0]
        )
        assert math.isclose(row["ratio"], row["seconds"] / plain["seconds"]), row


def test_figures_belong_together(record):
    sections = (
        ("encoder", "encoder"),
        ("training", "model"),
        ("tagging", "model"),
        ("lengths", "model"),
    )
    for section, name in sections:
        for row in record[section]:
            assert row["seconds"] > 0, row
            assert row["calls"] >= 3, row
            sentences = row.get("batch") or row["texts"]
            assert math.isclose(row["sentences_per_second"] * row["seconds"], sentences), row
            cell = [each for each in record[section] if _cell(each) == _cell(row)]
            plain = next(each for each in cell if each[name] in ("nn.LSTM", CHARACTER))
            assert math.isclose(row["ratio"], row["seconds"] / plain["seconds"]), row


def _cell(row: dict) -> tuple:
    return row["hidden"], row.get("batch"), row.get("what"), row.get("length")


def test_peak_memory_is_of_forward_and_backward(record):
    counted = peak_bytes(lambda: None, torch.device(record["settings"]["device"])) is not None
    for row in record["encoder"]:
        assert (row["peak_bytes"] is not None) == (counted and row["what"] == "forward + backward")


def test_every_backend_was_checked_in_every_precision(record):
    checked = {
        (row["op"], row["backend"].split(" ")[0], row["precision"]) for row in record["checks"]
    }
    device = record["settings"]["device"]
    for dtype, plain in ((torch.float64, "float64"), (torch.float32, "fp32")):
        names = runnable(torch.empty(0, dtype=dtype, device=device))
        for name, full in names.items():
            if name != "reference":
                assert ("lattice LSTM", name, full.partition("-")[2] or plain) in checked
        assert {("CRF", "auto", plain), ("CRF", "batched", plain)} <= checked
    assert all(row["difference"] <= row["tolerance"] for row in record["checks"])


def test_it_says_where_and_with_what(record):
    assert set(record["versions"]) == {
        "hanlattice",
        "python",
        "torch",
        "triton",
        "cuda",
        "cudnn",
        "rjieba",
    }
    assert record["versions"]["torch"] == torch.__version__
    assert record["machine"]["threads"] == 1
    assert record["settings"]["batches"] == (1, 3)


def test_it_can_be_kept_as_json(record):
    assert json.loads(json.dumps(record, allow_nan=False))["tagging"][1]["model"] == "auto"


def test_sections_come_one_by_one(measured):
    sections, told = measured
    seen = {name: set(record) for name, record in sections}
    assert list(seen) == list(SECTIONS)
    for at, name in enumerate(SECTIONS):
        assert seen[name] == {"settings", "versions", "machine", *list(SECTIONS)[: at + 1]}
    cells = [f"H = {hidden}, B = {batch}" for hidden, batch in product((4, 5), (1, 3))]
    assert told == [
        "equality with the reference",
        *(f"encoder, {cell}" for cell in cells),
        *(f"training step, {cell}" for cell in cells),
        "raw text to spans, H = 4",
        "raw text to spans, H = 5",
        *(
            f"sentences of {length} characters, H = {hidden}"
            for hidden, length in product((4, 5), (4, 9))
        ),
        *(
            f"lattices of {layers}, H = {hidden}"
            for hidden, layers in product((4, 5), ("1 layer", "2 layers"))
        ),
    ]


def test_tables_have_a_row_for_every_cell(record):
    rows = {section: len(table(section, record).rows) for section in SECTIONS}
    checks = {(row["op"], row["backend"], row["precision"]) for row in record["checks"]}
    assert rows == {
        "checks": len(checks),
        "encoder": 8,
        "training": 4,
        "tagging": 4,
        "lengths": 4,
        "models": 12,
    }
    for section in SECTIONS:
        made = table(section, record)
        assert {len(row) for row in made.rows} == {len(made.headings)}
    encoder = table("encoder", record)
    first = dict(zip(encoder.headings, encoder.rows[0], strict=True))
    assert first["auto ×"] == f"{record['encoder'][1]['ratio']:.2f}"
    assert first["reference ×"]
    assert not dict(zip(encoder.headings, encoder.rows[2], strict=True))["reference ×"]
    ratios = [f"{row['ratio']:.2f}" for row in record["lengths"] if row["model"] == "auto"]
    assert [cell for row in table("lengths", record).rows for cell in (row[4], row[7])] == ratios


@pytest.mark.parametrize("words", [True, False])
def test_made_sentences_have_a_word_a_character(words):
    examples = make_examples(BenchSettings(length=7), 11, words)
    batch = examples.batch(range(11))
    assert batch.chars.shape == (11, 7)
    assert len(batch.lattice) == 77 * words
    order = [
        (s, a, b)
        for s, a, b in zip(
            batch.lattice.sentence, batch.lattice.start, batch.lattice.end, strict=True
        )
    ]
    assert sorted(order, key=lambda row: row[:2]) == order


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"threads": 0}, "threads must be 1 or more, not 0"),
        ({"batches": (4, -1)}, "batches must be 1 or more, not 4, -1"),
        ({"batches": ()}, "batches must be 1 or more, not nothing"),
        ({"hidden": (0,)}, "hidden must be 1 or more, not 0"),
        ({"lengths": (10, 3)}, "lengths must be 4 or more, not 10, 3"),
        ({"lengths": ()}, "lengths must be 4 or more, not nothing"),
        ({"length": 3}, "length must be 4 or more"),
        ({"words": 3}, "words must be 4 or more"),
        ({"seconds": 0.0}, "seconds must be more than 0"),
        ({"seconds": math.nan}, "seconds must be more than 0"),
        ({"seconds": math.inf}, "seconds must be more than 0"),
    ],
)
def test_settings_that_make_no_sense(wrong, says):
    with pytest.raises(InputError, match=says):
        BenchSettings(**wrong)


def test_a_device_that_is_not_here():
    with pytest.raises(InputError, match="no device is called 'tpu'"):
        bench(dataclasses.replace(SMALL, device="tpu"))
