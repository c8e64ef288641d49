"""`hanlattice mistakes`: what two models get differently on a labelled file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanlattice.cli.notes import find_named, note
from hanlattice.errors import InputError
from hanlattice.files import check_output, shown, writing
from hanlattice.models.shipped import model_files
from hanlattice.text.display import counted, visible

if TYPE_CHECKING:
    from rich.console import Console

    from hanlattice.evaluation.mistakes import Mistakes
    from hanlattice.models.checkpoint import Model
    from hanlattice.text.lexicon import Lexicon
    from hanlattice.text.sentence import Sentence
    from hanlattice.text.spans import Span

_WIDTH = 116  # of the widest table; a file or a pipe has no width of its own
_COLOURS = {"": "", "gold": "bold cyan", "right": "green", "wrong": "bold red"}


def mistakes(
    model_a: Annotated[str, typer.Argument(help="Model A, the one to compare with: ner, seg or a folder.")],
    model_b: Annotated[str, typer.Argument(help="Model B: ner, seg or a folder.")],
    file: Annotated[str, typer.Argument(help="The labelled file, or @name/file from `hanlattice data get`.")],
    train: Annotated[
        str | None, typer.Option(help="The labelled file the models learnt from; without it, the one they name.")
    ] = None,
    lexicon: Annotated[
        str | None, typer.Option(help="A dictionary or a vector file; without it, the lexicon of B, or else of A.")
    ] = None,
    format: Annotated[str, typer.Option(help="auto, columns, segmented or jsonl; also of --train.")] = "auto",
    scheme: Annotated[str, typer.Option(help="auto, BIO, IOB1, BMES or BIOES; also of --train.")] = "auto",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a report in Markdown too.")] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", help="Write everything, with all sentences, to this file too.")
    ] = None,
    sentences: Annotated[int, typer.Option(min=0, help="How many sentences to show in terminal and report.")] = 20,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads; more help only on an idle machine.")] = 1,
) -> None:
    """What two models get differently: by type, length, lexicon and training, with the sentences."""
    from hanlattice.data.download import resolve
    from hanlattice.evaluation.mistakes import compare
    from hanlattice.models.checkpoint import load_model
    from hanlattice.models.device import use_threads
    from hanlattice.training.learnt import own_training, training_files

    use_threads(threads)
    notes: list[str] = []
    about = [("A", shown(model_a)), ("B", shown(model_b)), ("file", shown(file))]
    folders = {"A": find_named(model_a), "B": find_named(model_b)}
    models = {name: load_model(folder, device) for name, folder in folders.items()}
    gold = _read(models, file, format, scheme, notes)
    inputs = [resolve(name) for name in (file, train, lexicon) if name is not None]
    inputs += training_files(models.values())
    _check_outputs([out, as_json], inputs, folders.values())
    _compare_labels(models, notes)
    words = _own_lexicon(models, notes, about) if lexicon is None else _given_lexicon(lexicon, notes, about)
    if train is None:
        learnt, what = own_training(models, notes)
        about += [("train", what)] if what else []
    else:
        learnt = _read(models, train, format, scheme, notes)
        about.append(("train", f"{shown(train)}, {counted(len(learnt), 'sentence')}"))
    spans_a, spans_b = (_decoded(model, gold) for model in models.values())
    made = compare(gold, spans_a, spans_b, words, learnt)
    _write(made, about, notes, out, as_json, sentences)
    _show(made, about, notes, sentences)


def _check_outputs(outputs: Iterable[Path | None], inputs: Sequence[Path], folders: Collection[Path]) -> None:
    """What can be known to be wrong with them before the work begins."""
    given = [path for path in outputs if path is not None]
    for path in given:
        check_output(path, [*inputs, *(file for folder in folders for file in model_files(folder))])
    if len(given) == 2 and given[0].resolve() == given[1].resolve():
        raise InputError("--out and --json are the same file; give one of them another name", given[0])


def _read(models: Mapping[str, Model], file: str, format: str, scheme: str, notes: list[str]) -> tuple[Sentence, ...]:
    from hanlattice.training.labelled import read_for

    corpus = read_for(models.values(), file, format, scheme)
    notes += corpus.notices
    return corpus.sentences


def _decoded(model: Model, gold: Sequence[Sentence]) -> list[list[Span]]:
    from hanlattice.models.decode import decode

    return decode(model.tagger, model.indexer, model.indexer.examples(gold))


def _compare_labels(models: Mapping[str, Model], notes: list[str]) -> None:
    from hanlattice.text.tags import labels_of

    labels = {name: set(labels_of(model.indexer.tags)) for name, model in models.items()}
    for name, other in (("A", "B"), ("B", "A")):
        if more := sorted(labels[name] - labels[other]):
            notes.append(f"labels that {name} knows and {other} does not: {', '.join(more)}")


def _given_lexicon(file: str, notes: list[str], about: list[tuple[str, str]]) -> Lexicon:
    from hanlattice.data.download import resolve
    from hanlattice.evaluation.mistakes import read_lexicon

    words, notices = read_lexicon(resolve(file))
    notes += notices
    about.append(("lexicon", f"{shown(file)}, {counted(len(words), 'word')}"))
    return words


def _own_lexicon(models: Mapping[str, Model], notes: list[str], about: list[tuple[str, str]]) -> Lexicon | None:
    """The lexicon of B, or else of A."""
    for name in ("B", "A"):
        words = models[name].indexer.lexicon
        if words is not None:
            about.append(("lexicon", f"that of {name}, {counted(len(words), 'word')}"))
            return words
    notes.append("neither model has a lexicon, so there is no breakdown by it; --lexicon names one")
    return None


def _write(
    made: Mistakes,
    about: Sequence[tuple[str, str]],
    notes: Sequence[str],
    out: Path | None,
    as_json: Path | None,
    sentences: int,
) -> None:
    from hanlattice.data.jsonl import to_json
    from hanlattice.evaluation.mistakes.report import markdown

    if out is not None:
        with writing(out) as file:
            file.write(markdown(made, about, notes, sentences))
    if as_json is not None:
        with writing(as_json) as file:
            file.write(to_json({**dict(about), "notes": list(notes), **made.as_dict()}, indent=1) + "\n")


def _show(made: Mistakes, about: Sequence[tuple[str, str]], notes: Sequence[str], sentences: int) -> None:
    from rich.console import Console

    from hanlattice.evaluation.mistakes.report import summary

    for each in notes:
        note(each)
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    for name, value in about:
        console.print(f"{name}: {visible(value)}", soft_wrap=True)
    for line in summary(made):
        console.print(line, soft_wrap=True)
    _show_tables(made, console)
    _show_sentences(made, console, sentences)


def _show_tables(made: Mistakes, console: Console) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from hanlattice.evaluation.mistakes.report import tables

    for words in tables(made):
        table = Table(title=words.title, title_justify="left", box=SIMPLE_HEAD, show_edge=False)
        for at, heading in enumerate(words.headings):
            table.add_column(heading, justify="right" if at else "left", overflow="fold")
        for row in words.rows:
            table.add_row(*map(Text, row))
        console.print()
        console.print(table)


def _show_sentences(made: Mistakes, console: Console, most: int) -> None:
    from rich.text import Text

    from hanlattice.evaluation.mistakes.report import sentence_lines, sentence_title

    for sentence in [sentence for sentence in made.sentences if sentence.differences][:most]:
        console.print(f"\n{sentence_title(sentence)}", style="bold")
        for who, pieces in sentence_lines(sentence):
            line = Text(f"{who:<5}").append_tokens((piece.text, _COLOURS[piece.mark]) for piece in pieces)
            console.print(line, soft_wrap=True)
