"""`hanlattice info`: what a model is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def info(
    model: ModelArgument,
    as_json: AsJson = False,
) -> None:
    """What a model is: data, vectors, labels, scores, size."""
    from hanlattice.checkpoint.folder import BEFORE
    from hanlattice.checkpoint.load import load_model

    folder = find_named(model)
    loaded = load_model(folder)
    facts = _facts(folder, loaded)
    if other := loaded.other_segmenter():
        note(other)
    if as_json:
        typer.echo(to_json(facts, indent=2))
        return
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(
        visible(printable_path(folder)), soft_wrap=True
    )  # as the table's title it would be wrapped to its width
    console.print(
        Table("", ("fact", "value"), tuple(_rows(facts)), words=2).rich(
            fold=False, show_header=False
        )
    )
    scores = facts["scores"]
    for when, parts in (("", scores), (" before packing", scores.get(BEFORE, {}))):
        for part in ("dev", "test"):
            if part in parts:
                table = score_table(parts[part], f"{part}{when}, epoch {scores.get('epoch', '–')}")
                console.print(table.rich(fold=False))


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The facts as pairs of short texts; scores have tables of their own, and the configuration is
    in --json only.
    """
    for name, value in facts.items():
        if name == "encoder":  # part of "model"
            continue
        if isinstance(value, list):
            yield name, ", ".join(value)
        elif name == "seed":
            yield name, str(value)
        elif not isinstance(value, dict):
            yield name, f"{value:,}" if isinstance(value, int) else value
    for part, corpus in facts["data"].items():
        if "sentences" in corpus:  # the entries of vectors and of packing have none
            file = corpus["file"] or "held out from train"
            counts = ", ".join(
                counted(corpus[f"{what}s"], what) for what in ("sentence", "character", "span")
            )
            yield part, f"{file}: {counts}"


def _facts(folder: Path, model: Model) -> dict[str, Any]:
    from hanlattice.training.card import kind_of

    indexer = model.indexer
    vectors = model.data.get("vectors", {})
    known = _known(model)
    return {
        "model": kind_of(model.config),
        "encoder": model.config.model.encoder,
        "labels": labels_of(indexer.tags),
        "scheme": indexer.scheme,
        "characters": len(indexer.vocab) - 1,
        "bigrams": 0 if indexer.bichars is None else len(indexer.bichars) - 1,
        **known,
        "parameters": model.tagger.parameter_count,
        "bytes": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        "seed": model.config.train.seed,
        "segmenter": "none" if indexer.segmenter is None else model.config.segment.by,
        **({"segmenter version": version} if (version := model.segmenter.get("version")) else {}),
        "character vectors": vectors.get("chars") or "random",
        "bigram vectors": vectors.get("bichars") or "none",
        "word vectors": vectors.get("words") or "random" if known["words"] else "none",
        "subword vectors": vectors.get("subwords") or "random" if known["subwords"] else "none",
        "language model": vectors.get("lm") or "none",
        "transformer": vectors.get("transformer") or "none",
        **(
            {"begun with": f"{start['model']} ({start['version']})"}
            if (start := model.data.get("start"))
            else {}
        ),
        **(
            {"calibration": _calibration(found)}
            if (found := model.scores.get("calibration"))
            else {}
        ),
        "data": dict(model.data),
        "scores": dict(model.scores),
        "config": model.config.as_dict(),
    }


def _calibration(found: Mapping[str, Any]) -> str:
    """Where the curves of scores were fitted, and what they are."""
    files = ", ".join(
        f"{part['file']} ({counted(part['spans'], 'span')})" for part in found["fitted"]
    )
    curves = (
        f"{label} × {each['slope']:.2f} {each['offset']:+.2f}"
        for label, each in found["curves"].items()
    )
    return f"{files}: logits of {', '.join(curves).replace('-', '−')}"


def _known(model: Model) -> dict[str, int]:
    """How many words and subwords the model knows."""
    indexer = model.indexer
    counts = {"words": 0 if indexer.words is None else len(indexer.words) - 1, "subwords": 0}
    lexicons = [lexicon for lexicon in (indexer.lexicon, indexer.subwords) if lexicon is not None]
    return counts | {
        s.called: len(lexicon)
        for s, lexicon in zip(model.config.lattice_sources, lexicons, strict=True)
    }
