"""Calibrate scores: fit a curve for each label on labelled text, and store it with the weights."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from hanlattice.checkpoint import SHIPPED, find_model, model_files
from hanlattice.checkpoint.folder import WEIGHTS, Model, save_scores
from hanlattice.data.corpus import Corpus
from hanlattice.data.download import resolve
from hanlattice.errors import InputError, OutputError
from hanlattice.evaluation.platt import Curves, fit
from hanlattice.files import atomic_write, opening, sha256
from hanlattice.text.span import Span
from hanlattice.training.card import CARD, write_card
from hanlattice.training.corpora import counts


def check_place(folder: Path, out: Path | None) -> None:
    """Raise an error unless the model in `folder` may be changed or, with `out`, copied there."""
    if out is None and folder in map(find_model, SHIPPED):
        raise InputError(
            f"{folder.name} is bundled with the package and stays as it is: "
            "--save FOLDER makes a copy"
        )
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OutputError(f"{out} is there already: choose a new or empty folder")


def fit_scores(
    model: Model, corpora: Mapping[str, Corpus], found: Mapping[str, Sequence[Sequence[Span]]]
) -> Model:
    """Fit a curve for each label by Platt scaling, and return the model with these curves.

    Args:
        model: the model. A corpus that it was trained on is refused: it is too sure of that text.
        corpora: labelled corpora by file.
        found: the spans that the model found in each, scored with its own probabilities.
    """
    parts = []
    for file, corpus in corpora.items():
        digest = sha256(resolve(file))
        if digest in (model.data.get(part, {}).get("sha256") for part in ("train", "more")):
            raise InputError(
                "the model was trained on this text, of which it is too sure: fit it on another",
                file,
            )
        parts.append({"file": Path(file).name, "sha256": digest, **counts(corpus.sentences)})
    labels = model.indexer.tag_ids.labels
    rows = [
        (labels.index(span.label), span.score or 0.0, span in (sentence.spans or ()))
        for file, corpus in corpora.items()
        for sentence, spans in zip(corpus.sentences, found[file], strict=True)
        for span in spans
    ]
    label, score, right = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    curves = fit(label.astype(np.int64), score, right, len(labels))
    model.tagger.curves = Curves(curves)
    by_label = {name: asdict(curve) for name, curve in zip(labels, curves, strict=True)}
    calibration = {"curves": by_label, "fitted": parts}
    return replace(model, scores={**model.scores, "calibration": calibration})


def save_calibrated(model: Model, folder: Path, out: Path | None) -> None:
    """Write the curves beside the weights, in the model's folder or in a copy, `out`."""
    if out is not None:
        for file in model_files(folder):
            # Weights and card are written below; the log is of the training.
            if file.is_file() and file.name not in (WEIGHTS, CARD, "log.jsonl"):
                target = out / file.relative_to(folder)
                with opening(file) as source, atomic_write(target, binary=True) as copy:
                    shutil.copyfileobj(source, copy)
    save_scores(folder, model.scores, out)
    write_card(out or folder, model, model.scores)
