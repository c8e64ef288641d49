"""`hanlattice score`: one segmentation of a text against another, whoever made it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from hanlattice.cli.options import AsJson, Encoding
from hanlattice.data.download import resolve
from hanlattice.data.formats.jsonl import to_json
from hanlattice.data.formats.segmented import from_words
from hanlattice.errors import InputError
from hanlattice.evaluation import ner
from hanlattice.evaluation.segmentation import score_segmentation, score_table, worst_table
from hanlattice.files import printable_path, read_lines
from hanlattice.text.dictionary import read_words
from hanlattice.text.display import counted
from hanlattice.text.sentence import Sentence


def score(
    gold: Annotated[
        str,
        typer.Argument(
            help="The correct segmentation: a sentence a line, white space between words."
        ),
    ],
    test: Annotated[str, typer.Argument(help="The one to score: the same sentences.")],
    train: Annotated[
        str | None, typer.Option(help="A segmented file whose words are the training words.")
    ] = None,
    known: Annotated[
        str | None, typer.Option(help="The training words as a list instead, one a line.")
    ] = None,
    as_written: Annotated[
        bool,
        typer.Option(
            "--as-written",
            help="`１` is not known if only `1` is: as the script of the bakeoff counts.",
        ),
    ] = False,
    words: Annotated[
        int, typer.Option("--words", min=0, help="How many of the most often missed words to show.")
    ] = 20,
    encoding: Encoding = "auto",
    as_json: AsJson = False,
) -> None:
    """Score segmented text as the SIGHAN bakeoff does, by spans, length and boundaries, with the
    worst words.
    """
    paths = resolve(gold), resolve(test)
    sentences, others = (_read(path) for path in paths)
    _check_same_text(paths, sentences, others)
    report = _report([*sentences.values()], [*others.values()], _known(train, known), as_written)
    show_scores(
        report, f"{printable_path(test)}: {counted(len(sentences), 'sentence')}", words, as_json
    )


def show_scores(report: dict[str, Any], title: str, words: int, as_json: bool) -> None:
    """A report as tables, for a segmenter with the first `words` of the missed words; or all of it
    as JSON.
    """
    worst = report.get("segmentation", {}).get("worst", [])
    missed = len(worst)
    del worst[words:]
    if as_json:
        typer.echo(to_json(report, indent=2))
        return
    console = Console()
    console.print(score_table(report, title).rich(fold=False))
    if worst:
        console.print(worst_table(worst, f"missed most often: {len(worst):,} of {missed:,} words"))


def _report(
    sentences: Sequence[Sentence],
    others: Sequence[Sentence],
    known: Collection[str] | None,
    as_written: bool,
) -> dict[str, Any]:
    """As `evaluate` reports on a segmenter."""
    gold, found = ([sentence.spans or () for sentence in each] for each in (sentences, others))
    texts = [sentence.text for sentence in sentences]
    segmentation = score_segmentation(texts, gold, found, known, as_written=as_written)
    return {**ner.score(gold, found).as_dict(), "segmentation": segmentation.as_dict()}


def _read(path: Path) -> dict[int, Sentence]:
    """The sentences by their line numbers: for an error message, a pipe could not be read a second
    time.
    """
    sentences = {
        number: from_words(words) for number, line in read_lines(path) if (words := line.split())
    }
    if not sentences:
        raise InputError("the corpus is empty: expected a sentence a line", path)
    return sentences


def _known(train: str | None, known: str | None) -> Collection[str] | None:
    if train is not None and known is not None:
        raise InputError("--train and --known both give the training words: use one of them")
    if known is not None:
        return set(read_words(resolve(known)))
    return (
        None
        if train is None
        else {word for _, line in read_lines(resolve(train)) for word in line.split()}
    )


def _check_same_text(
    paths: tuple[Path, Path], sentences: Mapping[int, Sentence], others: Mapping[int, Sentence]
) -> None:
    """Sentence by sentence the same characters, but for their width."""
    gold, test = paths
    for (line, ours), (number, theirs) in zip(sentences.items(), others.items(), strict=False):
        texts = theirs.folded, ours.folded
        if texts[0] != texts[1]:
            at = next(at for at, (a, b) in enumerate(zip_longest(*texts)) if a != b)
            found, expected = (repr(text[max(0, at - 5) : at + 5]) for text in texts)
            where = f"line {line} of {gold}, from character {at + 1} on"
            raise InputError(
                f"another text than {where}: {found}, expected {expected}", test, number
            )
    if len(sentences) != len(others):
        number_of = f"{counted(len(others), 'sentence')}, where {gold} has {len(sentences):,}"
        raise InputError(f"{number_of}: expected the same sentences", test)
