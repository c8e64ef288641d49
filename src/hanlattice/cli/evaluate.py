"""`hanlattice evaluate`: a model against a labelled file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hanlattice.errors import InputError

if TYPE_CHECKING:
    from hanlattice.batch.examples import Words
    from hanlattice.data.corpus import Corpus
    from hanlattice.text.spans import Span


def evaluate(
    model: Annotated[Path, typer.Argument(help="The model's folder.")],
    file: Annotated[str, typer.Argument(help="The labelled file, or @name/file from `hanlattice data get`.")],
    loose: Annotated[bool, typer.Option("--loose", help="Count as the original lattice LSTM code does.")] = False,
    format: Annotated[str, typer.Option(help="auto, columns, segmented or jsonl.")] = "auto",
    scheme: Annotated[str, typer.Option(help="auto, BIO, IOB1, BMES or BIOES.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads; more help only on an idle machine.")] = 1,
) -> None:
    """Precision, recall and F1 over exact spans: overall and by type."""
    from hanlattice.data.corpora import resolve
    from hanlattice.data.corpus import read_corpus
    from hanlattice.models.checkpoint import load_model
    from hanlattice.models.decode import decode
    from hanlattice.models.device import use_threads

    use_threads(threads)
    corpus = read_corpus(resolve(file), format=format, scheme=scheme)
    for notice in corpus.notices:
        typer.echo(f"note: {notice}", err=True)
    if loose and corpus.tags is None:
        raise InputError("--loose counts tags, and this file has spans; give columns", file)
    loaded = load_model(model, device)
    if other := loaded.other_segmenter():
        typer.echo(f"note: {other}", err=True)
    examples = loaded.indexer.examples(corpus.sentences)
    report = _report(corpus, decode(loaded.tagger, loaded.indexer, examples), loose)
    if examples.segments is not None:
        report["segmentation"] = _segmentation(corpus, examples.segments)
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        counted = ", counted as the original code does" if loose else ""
        _show(report, f"{file}: {len(corpus):,} sentences{counted}")


def _report(corpus: Corpus, found: Sequence[Sequence[Span]], loose: bool) -> dict[str, Any]:
    """Spans against spans; if `loose`, the tags of the file against tags made of what was found."""
    from hanlattice.evaluation.ner import score, score_tags
    from hanlattice.text.tags import spans_to_tags

    scheme = corpus.scheme
    if not (loose and scheme and corpus.tags):
        return score([sentence.spans or () for sentence in corpus.sentences], found).as_dict()
    made = [spans_to_tags(spans, len(s), scheme) for spans, s in zip(found, corpus.sentences, strict=True)]
    return score_tags(corpus.tags, made, scheme, loose=True).as_dict()


def _segmentation(corpus: Corpus, words: Words) -> dict[str, int]:
    """How many gold spans a word model cannot find, since the segmenter cuts elsewhere; a note says so."""
    from hanlattice.batch.indexer import count_crossing

    gold = [sentence.spans or () for sentence in corpus.sentences]
    crossing, total = count_crossing(gold, words.counts, words.start, words.end), sum(map(len, gold))
    if total:
        typer.echo(
            f"note: segmentation: {crossing:,} of the {total:,} gold spans begin or end inside a word: "
            f"they count as missed (recall is at most {100 * (total - crossing) / total:.2f})",
            err=True,
        )
    return {"crossing": crossing, "gold": total}


def _show(report: dict[str, Any], title: str) -> None:
    from rich.console import Console

    from hanlattice.cli.report import score_table

    Console().print(score_table(report, title))
