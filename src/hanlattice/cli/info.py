"""`hanlattice info`: describe a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from hanlattice.cli.console import find_named, note
from hanlattice.cli.options import AsJson, ModelArgument
from hanlattice.data.formats.jsonl import to_json
from hanlattice.evaluation.report import Table
from hanlattice.evaluation.segmentation import score_table
from hanlattice.files import printable_path
from hanlattice.text.display import counted, visible
from hanlattice.text.tags import labels_of

if TYPE_CHECKING:
    from hanlattice.checkpoint.folder import Model


def info(model: ModelArgument, as_json: AsJson = False) -> None:
    """Describe a model: data, vectors, labels, scores and size."""
    from hanlattice.checkpoint.folder import BEFORE
    from hanlattice.checkpoint.load import load_model

    folder = find_named(model)
    loaded = load_model(folder)
    facts = _facts(folder, loaded)
    if notice := loaded.other_segmenter():
        note(notice)
    if as_json:
        typer.echo(to_json(facts, indent=2))
        return
    console = Console(highlight=False, markup=False, emoji=False)
    # As the title of the table, a long path would be wrapped to the table's width.
    console.print(visible(printable_path(folder)), soft_wrap=True)
    table = Table("", ("fact", "value"), tuple(_rows(facts)), words=2)
    console.print(table.rich(fold=False, show_header=False))
    scores = facts["scores"]
    for when, parts in (("", scores), (" before packing", scores.get(BEFORE, {}))):
        for part in ("dev", "test"):
            if part in parts:
                table = score_table(parts[part], f"{part}{when}, epoch {scores.get('epoch', '–')}")
                console.print(table.rich(fold=False))


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the facts as pairs of short texts.

    Scores have their own tables, and only `--json` shows the configuration.
    """
    for name, value in facts.items():
        # "model" names the encoder already.
        if name == "encoder":
            continue
        if isinstance(value, list):
            yield name, ", ".join(value)
        elif name == "seed":
            yield name, str(value)
        elif not isinstance(value, dict):
            yield name, f"{value:,}" if isinstance(value, int) else value
    for part, corpus in facts["data"].items():
        # "data" also has records of vectors and of packing, which have no sentences.
        if "sentences" in corpus:
            file = corpus["file"] or "held out from train"
            units = ("sentence", "character", "span")
            counts = ", ".join(counted(corpus[f"{unit}s"], unit) for unit in units)
            yield part, f"{file}: {counts}"


def _facts(folder: Path, model: Model) -> dict[str, Any]:
    from hanlattice.training.card import kind_of

    indexer = model.indexer
    config = model.config
    vectors = model.data.get("vectors", {})
    # Every model has both counts, and a lattice model replaces one of them or both.
    words = {"words": 0 if indexer.words is None else len(indexer.words) - 1, "subwords": 0}
    lexicons = [lexicon for lexicon in (indexer.lexicon, indexer.subwords) if lexicon is not None]
    for source, lexicon in zip(config.lattice_sources, lexicons, strict=True):
        words[source.called] = len(lexicon)
    facts = {
        "model": kind_of(config),
        "encoder": config.model.encoder,
        "labels": labels_of(indexer.tags),
        "scheme": indexer.scheme,
        "characters": len(indexer.vocab) - 1,
        "bigrams": 0 if indexer.bichars is None else len(indexer.bichars) - 1,
        **words,
        "parameters": model.tagger.parameter_count,
        "bytes": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        "seed": config.train.seed,
        "segmenter": "none" if indexer.segmenter is None else config.segment.by,
    }
    if version := model.segmenter.get("version"):
        facts["segmenter version"] = version
    facts |= {
        "character vectors": vectors.get("chars") or "random",
        "bigram vectors": vectors.get("bichars") or "none",
        "word vectors": vectors.get("words") or "random" if words["words"] else "none",
        "subword vectors": vectors.get("subwords") or "random" if words["subwords"] else "none",
        "language model": vectors.get("lm") or "none",
        "transformer": vectors.get("transformer") or "none",
    }
    if start := model.data.get("start"):
        facts["begun with"] = f"{start['model']} ({start['version']})"
    if calibration := model.scores.get("calibration"):
        fitted = calibration["fitted"]
        files = ", ".join(f"{part['file']} ({counted(part['spans'], 'span')})" for part in fitted)
        curves = ", ".join(
            f"{label} × {curve['slope']:.2f} {curve['offset']:+.2f}"
            for label, curve in calibration["curves"].items()
        ).replace("-", "−")
        facts["calibration"] = f"{files}: logits of {curves}"
    data = {"data": dict(model.data), "scores": dict(model.scores), "config": config.as_dict()}
    return {**facts, **data}
