"""A calibrated model finds the same spans, with each score on the curve of its label."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from hanlattice.checkpoint.folder import save_scores
from hanlattice.checkpoint.load import load_model
from hanlattice.errors import ModelError
from hanlattice.evaluation.platt import Curve, Curves
from hanlattice.predict import Predictor, by_score
from hanlattice.text.span import Span
from hanlattice.training.pack import pack
from tests.helpers.made import sentences

CURVES = {"LOC": Curve(0.3, -2.0), "PER": Curve(0.7, 1.0)}
TEXTS = [each.text for each in sentences(8, 3)]


def calibrated(folder: Path, to: Path, modules: bool) -> tuple[Predictor, Predictor]:
    """The model as it was, and with curves."""
    copytree(folder, to)
    part = {"file": "dev.bmes", "sha256": "0", "sentences": 1, "characters": 1, "spans": 1}
    record = {"curves": {label: asdict(curve) for label, curve in CURVES.items()}, "fitted": [part]}
    save_scores(to, {**load_model(to).scores, "calibration": record})
    plain, curved = (Predictor(load_model(each, modules=modules)) for each in (folder, to))
    for each in (plain, curved):
        each.lexicon.add(
            "工作", label="职业", trust=4.0
        )  # a label that the model never learnt, and so without a curve
        each.lexicon.add("王小明", label="LOC", trust=6.0)
    return plain, curved


def expected(plain: Predictor, span: Span) -> float:
    labels = plain.model.indexer.tag_ids.labels
    of = Curves([CURVES.get(label, Curve(1.0, 0.0)) for label in labels])
    number = labels.index(span.label) if span.label in labels else len(labels)
    return float(of(np.array([number]), np.array([span.score]))[0])


@pytest.mark.parametrize("modules", [False, True])
@pytest.mark.parametrize("way", ["path", 0.3])
def test_the_same_spans_with_scores_on_their_curves(
    lattice_folder: Path, tmp_path: Path, modules: bool, way: str | float
) -> None:
    plain, curved = calibrated(lattice_folder, tmp_path / "model", modules)
    plain.threshold, curved.threshold = plain.model.threshold(way), curved.model.threshold(way)
    for before, after in zip(plain(TEXTS), curved(TEXTS), strict=True):
        assert before.spans == after.spans  # scores do not count
        for old, new in zip(before.spans, after.spans, strict=True):
            assert new.score == pytest.approx(expected(plain, old), abs=1e-9)
        kept = curved(before.text, min_score=0.6).spans
        assert kept == tuple(span for span in after.spans if (span.score or 0.0) >= 0.6)
    assert {span.label for document in curved(TEXTS) for span in document.spans} >= {"LOC", "PER"}


@pytest.mark.parametrize("modules", [False, True])
@pytest.mark.parametrize(("n", "least"), [(3, 0.0), (1, 0.0), (100, 0.2), (2, 0.05)])
def test_candidates_are_the_best_by_their_scores(
    lattice_folder: Path, tmp_path: Path, modules: bool, n: int, least: float
) -> None:
    plain, curved = calibrated(lattice_folder, tmp_path / "model", modules)
    for text in TEXTS:
        every = [
            Span(span.start, span.end, span.label, expected(plain, span), span.text)
            for span in plain.candidates(text, 100_000)
        ]
        wanted = [span for span in sorted(every, key=by_score) if (span.score or 0.0) >= least][:n]
        found = curved.candidates(text, n, least)
        assert [span.score for span in found] == pytest.approx(
            [span.score for span in wanted], abs=1e-9
        )
        assert {*found} == {*wanted}


def test_explain_has_these_scores(lattice_folder: Path, tmp_path: Path) -> None:
    plain, curved = calibrated(lattice_folder, tmp_path / "model", modules=False)
    before, after = (each.explain(TEXTS[0], without=True) for each in (plain, curved))
    assert [span.score for span in after.spans] == [span.score for span in curved(TEXTS[0]).spans]
    for old, new in zip(before.without, after.without, strict=True):
        for span, was, now in zip(before.spans, old.scores, new.scores, strict=True):
            there = Span(span.start, span.end, span.label, was)
            assert now == pytest.approx(expected(plain, there), abs=1e-9)


BROKEN: dict[str, Callable[[dict], object]] = {
    "slope must be from 0.01 to 100": lambda record: record["curves"]["LOC"].update(slope=0),
    "slope must be a number": lambda record: record["curves"]["LOC"].update(slope="1"),
    "offset must be from −100 to 100": lambda record: record["curves"]["LOC"].update(offset=1e9),
    "offset is missing": lambda record: record["curves"]["LOC"].pop("offset"),
    "fitted must be a list": lambda record: record.update(fitted={}),
    "has the label 'XYZ'": lambda record: record["curves"].update(XYZ=asdict(Curve(1.0, 0.0))),
    "curves is missing": lambda record: record.pop("curves"),
    "more is unknown": lambda record: record.update(more=1),
}


@pytest.mark.parametrize("message", BROKEN)
def test_records_of_somebody_else(lattice_folder: Path, tmp_path: Path, message: str) -> None:
    folder = tmp_path / "model"
    calibrated(lattice_folder, folder, modules=False)
    scores = json.loads(json.dumps(load_model(folder).scores))
    BROKEN[message](scores["calibration"])
    save_scores(folder, scores)
    with pytest.raises(ModelError, match=message):
        load_model(folder)


def test_packing_keeps_the_curves(lattice_folder: Path, tmp_path: Path) -> None:
    calibrated(lattice_folder, tmp_path / "model", modules=False)
    packed = pack(tmp_path / "model", tmp_path / "packed", precision="full")
    assert packed.scores["calibration"] == load_model(tmp_path / "model").scores["calibration"]
    assert packed.tagger.curves is not None
