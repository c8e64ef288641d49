"""`hanlattice score`: one segmentation of a text against another, whoever made it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hanlattice.errors import InputError
from hanlattice.files import read_lines, shown
from hanlattice.text.display import counted

if TYPE_CHECKING:
    from hanlattice.text.sentence import Sentence


def score(
    gold: Annotated[
        str, typer.Argument(help="The correct segmentation: a sentence a line, white space between words.")
    ],
    test: Annotated[str, typer.Argument(help="The one to score: the same sentences.")],
    train: Annotated[str | None, typer.Option(help="A segmented file whose words are the training words.")] = None,
    known: Annotated[str | None, typer.Option(help="The training words as a list instead, one a line.")] = None,
    as_written: Annotated[
        bool,
        typer.Option("--as-written", help="`１` is not known if only `1` is: as the script of the bakeoff counts."),
    ] = False,
    words: Annotated[int, typer.Option("--words", min=0, help="How many of the most often missed words to show.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Score segmented text as the SIGHAN bakeoff does, by spans, length and boundaries, with the worst words."""
    from hanlattice.data.download import resolve

    paths = resolve(gold), resolve(test)
    sentences, others = (_read(path) for path in paths)
    _check_same_text(paths, sentences, others)
    report = _report([*sentences.values()], [*others.values()], _known(train, known), as_written)
    show_scores(report, f"{shown(test)}: {counted(len(sentences), 'sentence')}", words, as_json)


def show_scores(report: dict[str, Any], title: str, words: int, as_json: bool) -> None:
    """A report as tables, for a segmenter with the first `words` of the missed words; or all of it as JSON."""
    from rich.console import Console

    from hanlattice.data.jsonl import to_json
    from hanlattice.evaluation.segmentation import score_table, worst_table

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
    sentences: Sequence[Sentence], others: Sequence[Sentence], known: Collection[str] | None, as_written: bool
) -> dict[str, Any]:
    """As `evaluate` reports on a segmenter."""
    from hanlattice.evaluation.ner import score
    from hanlattice.evaluation.segmentation import score_segmentation

    gold, found = ([sentence.spans or () for sentence in each] for each in (sentences, others))
    texts = [sentence.text for sentence in sentences]
    segmentation = score_segmentation(texts, gold, found, known, as_written=as_written)
    return {**score(gold, found).as_dict(), "segmentation": segmentation.as_dict()}


def _read(path: Path) -> dict[int, Sentence]:
    """The sentences by their line numbers: for an error message, a pipe could not be read a second time."""
    from hanlattice.data.segmented import from_words

    sentences = {number: from_words(words) for number, line in read_lines(path) if (words := line.split())}
    if not sentences:
        raise InputError("the corpus is empty: expected a sentence a line", path)
    return sentences


def _known(train: str | None, known: str | None) -> Collection[str] | None:
    from hanlattice.data.download import resolve
    from hanlattice.text.lexicon import read_words

    if train is not None and known is not None:
        raise InputError("--train and --known both give the training words: use one of them")
    if known is not None:
        return set(read_words(resolve(known)))
    return None if train is None else {word for _, line in read_lines(resolve(train)) for word in line.split()}


def _check_same_text(
    paths: tuple[Path, Path], sentences: Mapping[int, Sentence], others: Mapping[int, Sentence]
) -> None:
    """Sentence by sentence the same characters, but for their width."""
    for lines in zip(sentences, others, strict=False):
        ours, theirs = sentences[lines[0]].folded, others[lines[1]].folded
        if ours != theirs:
            raise _differs(paths, lines, ours, theirs)
    if len(sentences) != len(others):
        gold, test = paths
        message = (
            f"{counted(len(others), 'sentence')}, where {gold} has {len(sentences):,}: expected the same sentences"
        )
        raise InputError(message, test)


def _differs(paths: tuple[Path, Path], lines: tuple[int, int], ours: str, theirs: str) -> InputError:
    gold, test = paths
    most = min(len(ours), len(theirs))
    at = next((at for at in range(most) if ours[at] != theirs[at]), most)
    pieces = [repr(text[max(0, at - 5) : at + 5]) for text in (theirs, ours)]
    message = f"another text than line {lines[0]} of {gold}, from character {at + 1} on: {pieces[0]}, expected"
    return InputError(f"{message} {pieces[1]}", test, lines[1])
