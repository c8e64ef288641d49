"""The model card: README.md in a model folder, for the person who finds it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hanlattice.files import writing
from hanlattice.models.checkpoint import Model
from hanlattice.text.tags import labels_of


def write_card(folder: Path, model: Model, scores: Mapping[str, Any]) -> None:
    """What the model is, what it was trained on and what it scores."""
    with writing(folder / "README.md") as file:
        file.write("\n".join([*_head(folder, model), "", *_data(model), "", *_scores(scores), ""]))


def _head(folder: Path, model: Model) -> list[str]:
    config = model.config
    kind = {"lattice": "lattice LSTM–CRF", "char": "character LSTM–CRF"}[config.model.encoder]
    labels = labels_of(model.indexer.tags)
    lexicon = model.indexer.lexicon
    return [
        f"# {folder.resolve().name}",
        "",
        f"A {kind} made with hanlattice. It finds {', '.join(labels)}.",
        "",
        f"- {config.model.hidden} hidden units a direction, {model.indexer.scheme} tags, seed {config.train.seed}",
        f"- {len(model.indexer.vocab) - 1:,} characters"
        + ("" if lexicon is None else f", {len(lexicon):,} words in the lexicon"),
        '- use it: `hanlattice tag -m FOLDER "…"`, or `hanlattice.load("FOLDER")` in Python',
    ]


def _data(model: Model) -> list[str]:
    rows = [
        f"| {name} | {facts['file'] or 'held out from train'} | {facts['sentences']:,} | {facts['characters']:,} "
        f"| {facts['spans']:,} |"
        for name, facts in model.data.items()
        if name in ("train", "dev", "test")
    ]
    vectors = model.data.get("vectors", {})
    return [
        "## Data",
        "",
        "| part | file | sentences | characters | spans |",
        "|---|---|---|---|---|",
        *rows,
        "",
        f"Character vectors: {vectors.get('chars') or 'random'}. Word vectors: {vectors.get('words') or 'none'}. "
        f"Language model: {vectors.get('lm') or 'none'}.",
    ]


def _scores(scores: Mapping[str, Any]) -> list[str]:
    lines = ["## Scores", "", f"Best epoch on dev: {scores.get('epoch', '–')}. Exact spans, in per cent."]
    for part in ("dev", "test"):
        if part in scores:
            report = scores[part]
            named = {"all": report["overall"], **report.get("groups", {}), **report["by_type"]}
            lines += ["", f"| {part} | precision | recall | F1 | gold |", "|---|---|---|---|---|"]
            lines += [
                f"| {name} | {100 * s['precision']:.2f} | {100 * s['recall']:.2f} | {100 * s['f1']:.2f} | {s['gold']} |"
                for name, s in named.items()
            ]
    return lines
