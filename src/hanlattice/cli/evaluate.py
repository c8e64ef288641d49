"""`hanlattice evaluate`: a model against a labelled file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hanlattice.errors import InputError


def evaluate(
    model: Annotated[Path, typer.Argument(help="The model's folder.")],
    file: Annotated[str, typer.Argument(help="The labelled file, or @name/file from `hanlattice data get`.")],
    loose: Annotated[bool, typer.Option("--loose", help="Count as the original lattice LSTM code does.")] = False,
    format: Annotated[str, typer.Option(help="auto, columns, segmented or jsonl.")] = "auto",
    scheme: Annotated[str, typer.Option(help="auto, BIO, IOB1, BMES or BIOES.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Precision, recall and F1 over exact spans: overall and by type."""
    from rich.console import Console

    from hanlattice.cli.report import score_table
    from hanlattice.data.corpora import resolve
    from hanlattice.data.corpus import read_corpus
    from hanlattice.evaluation.ner import score, score_tags
    from hanlattice.models.checkpoint import load_model
    from hanlattice.models.decode import decode
    from hanlattice.text.tags import spans_to_tags

    corpus = read_corpus(resolve(file), format=format, scheme=scheme)
    for notice in corpus.notices:
        typer.echo(f"note: {notice}", err=True)
    if loose and corpus.tags is None:
        raise InputError("--loose counts tags, and this file has spans; give columns", file)
    loaded = load_model(model, device)
    examples = [loaded.indexer.example(sentence) for sentence in corpus.sentences]
    found = decode(loaded.tagger, loaded.indexer, examples)
    if loose and corpus.tags is not None:
        kind = "BIO" if corpus.scheme in (None, "IOB1") else corpus.scheme
        made = [spans_to_tags(spans, len(s), kind) for spans, s in zip(found, corpus.sentences, strict=True)]
        report = score_tags(corpus.tags, made, kind, loose=True).as_dict()
    else:
        report = score([sentence.spans or () for sentence in corpus.sentences], found).as_dict()
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        title = f"{file}: {len(corpus.sentences):,} sentences" + (
            ", counted as the original code does" if loose else ""
        )
        Console().print(score_table(report, title))
