"""`hanlattice score`: score segmented text against the correct segmentation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
        str, typer.Argument(help="Correct segmentation: a sentence a line, spaces between words.")
    ],
    test: Annotated[str, typer.Argument(help="Segmentation to score: the same sentences.")],
    train: Annotated[
        str | None, typer.Option(help="Segmented file whose words count as known.")
    ] = None,
    known: Annotated[
        str | None, typer.Option(help="List of known words, one a line, instead of `--train`.")
    ] = None,
    as_written: Annotated[
        bool,
        typer.Option(
            "--as-written",
            help="Treat full-width and half-width characters as different, as the script of the "
            "bakeoff does: `1` does not make `１` known.",
        ),
    ] = False,
    words: Annotated[
        int, typer.Option("--words", min=0, help="Number of often missed words to show.")
    ] = 20,
    encoding: Encoding = "auto",
    as_json: AsJson = False,
) -> None:
    """Score segmented text as the SIGHAN bakeoff does.

    Tables show scores by spans, word length and boundaries, and the words that were missed most.
    """
    paths = resolve(gold), resolve(test)
    sentences, guesses = (_read(path) for path in paths)
    _check_same_text(paths, sentences, guesses)
    if train is not None and known is not None:
        raise InputError("--train and --known both give the training words: use one of them")
    known_words: Collection[str] | None = None
    if known is not None:
        known_words = set(read_words(resolve(known)))
    elif train is not None:
        known_words = {word for _, line in read_lines(resolve(train)) for word in line.split()}
    correct, spans = (
        [sentence.spans or () for sentence in side.values()] for side in (sentences, guesses)
    )
    texts = [sentence.text for sentence in sentences.values()]
    segmentation = score_segmentation(texts, correct, spans, known_words, as_written=as_written)
    report = {**ner.score(correct, spans).as_dict(), "segmentation": segmentation.as_dict()}
    title = f"{printable_path(test)}: {counted(len(sentences), 'sentence')}"
    show_scores(report, title, words, as_json)


def show_scores(report: dict[str, Any], title: str, words: int, as_json: bool) -> None:
    """Print a report as tables or as JSON, with the `words` words that were missed most often."""
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


def _read(path: Path) -> dict[int, Sentence]:
    """Return the sentences by their line numbers, which error messages need."""
    sentences = {
        number: from_words(words) for number, line in read_lines(path) if (words := line.split())
    }
    if not sentences:
        raise InputError("the corpus is empty: expected a sentence a line", path)
    return sentences


def _check_same_text(
    paths: tuple[Path, Path], sentences: Mapping[int, Sentence], guesses: Mapping[int, Sentence]
) -> None:
    """Raise an error if the sentences differ in more than the width of characters."""
    gold, test = paths
    for (line, ours), (number, theirs) in zip(sentences.items(), guesses.items(), strict=False):
        texts = theirs.folded, ours.folded
        if texts[0] != texts[1]:
            start = next(i for i, (a, b) in enumerate(zip_longest(*texts)) if a != b)
            actual, expected = (repr(text[max(0, start - 5) : start + 5]) for text in texts)
            place = f"line {line} of {gold}, from character {start + 1} on"
            raise InputError(
                f"another text than {place}: {actual}, expected {expected}", test, number
            )
    if len(sentences) != len(guesses):
        counts = f"{counted(len(guesses), 'sentence')}, where {gold} has {len(sentences):,}"
        raise InputError(f"{counts}: expected the same sentences", test)
