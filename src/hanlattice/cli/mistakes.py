"""`hanlattice mistakes`: what two models get differently on a labelled file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from hanlattice.checkpoint import model_files
from hanlattice.cli.console import find_named, note, show_tables
from hanlattice.cli.options import (
    CorpusFormat,
    CorpusScheme,
    Device,
    Encoding,
    LabelledFile,
    Threads,
)
from hanlattice.data.download import resolve
from hanlattice.data.formats.jsonl import to_json
from hanlattice.errors import InputError
from hanlattice.files import BOM, atomic_write, check_output, opening, printable_path, reason
from hanlattice.lab.mistakes import (
    Mistakes,
    compare,
    markdown,
    sentence_lines,
    sentence_title,
    summary,
    tables,
)
from hanlattice.text.dictionary import read_words
from hanlattice.text.display import counted, visible
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.sentence import Sentence
from hanlattice.text.tags import labels_of
from hanlattice.text.vectors import read_vectors

if TYPE_CHECKING:
    from hanlattice.checkpoint.folder import Model

_WIDTH = 116  # of the widest table; a file or a pipe has no width of its own
_COLOURS = {"": "", "gold": "bold cyan", "right": "green", "wrong": "bold red"}
_LONGEST = 1 << 16  # bytes of a line that are read to guess what a file is
_NUMBERS = 3  # at the end of a row of vectors; a dictionary's line has one, a frequency


def mistakes(
    model_a: Annotated[
        str, typer.Argument(help="Model A, the one to compare with: ner, seg or a folder.")
    ],
    model_b: Annotated[str, typer.Argument(help="Model B: ner, seg or a folder.")],
    file: LabelledFile,
    train: Annotated[
        str | None,
        typer.Option(
            help="The labelled file the models were trained on; without it, the one they name."
        ),
    ] = None,
    lexicon: Annotated[
        str | None,
        typer.Option(
            help="A dictionary or a vector file; without it, the lexicon of B, or else of A."
        ),
    ] = None,
    format: CorpusFormat = "auto",
    scheme: CorpusScheme = "auto",
    encoding: Encoding = "auto",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write a report in Markdown too.")
    ] = None,
    as_json: Annotated[
        Path | None,
        typer.Option("--json", help="Write everything, with all sentences, to this file too."),
    ] = None,
    sentences: Annotated[
        int, typer.Option(min=0, help="How many sentences to show in terminal and report.")
    ] = 20,
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """What two models get differently: by type, length, lexicon and training, with the sentences."""
    from hanlattice.checkpoint.load import load_model
    from hanlattice.inference.decode import decode
    from hanlattice.inference.device import use_threads
    from hanlattice.training.corpora import own_training, training_files

    use_threads(threads)
    notes: list[str] = []
    about = [
        ("A", printable_path(model_a)),
        ("B", printable_path(model_b)),
        ("file", printable_path(file)),
    ]
    folders = {"A": find_named(model_a), "B": find_named(model_b)}
    models = {name: load_model(folder, device) for name, folder in folders.items()}
    gold = _read(models, file, format, scheme, notes)
    inputs = [resolve(name) for name in (file, train, lexicon) if name is not None]
    inputs += training_files(models.values())
    inputs += (each for folder in folders.values() for each in model_files(folder))
    for output in (out, as_json):
        check_output(output, inputs)
    if out is not None and as_json is not None and out.resolve() == as_json.resolve():
        raise InputError("--out and --json are the same file; give one of them another name", out)
    _compare_labels(models, notes)
    if lexicon is None:
        words, what = _own_lexicon(models, notes)
    else:
        words, notices = read_lexicon(resolve(lexicon))
        notes += notices
        what = printable_path(lexicon)
    if words is not None:
        about.append(("lexicon", f"{what}, {counted(len(words), 'word')}"))
    if train is None:
        trained, what = own_training(models, notes)
        about += [("train", what)] if what else []
    else:
        trained = _read(models, train, format, scheme, notes)
        about.append(("train", f"{printable_path(train)}, {counted(len(trained), 'sentence')}"))
    a, b = (
        decode(each.tagger, each.indexer, each.indexer.examples(gold), threshold=each.threshold())
        for each in models.values()
    )
    result = compare(gold, a, b, words, trained)
    _write(result, about, notes, out, as_json, sentences)
    _show(result, about, notes, sentences)


def _read(
    models: Mapping[str, Model], file: str, format: str, scheme: str, notes: list[str]
) -> tuple[Sentence, ...]:
    from hanlattice.training.corpora import read_for

    corpus = read_for(models.values(), file, format, scheme)
    notes += corpus.notices
    return corpus.sentences


def _compare_labels(models: Mapping[str, Model], notes: list[str]) -> None:
    labels = {name: set(labels_of(model.indexer.tags)) for name, model in models.items()}
    for name, other in (("A", "B"), ("B", "A")):
        if more := sorted(labels[name] - labels[other]):
            notes.append(f"labels that {name} knows and {other} does not: {', '.join(more)}")


def _own_lexicon(models: Mapping[str, Model], notes: list[str]) -> tuple[Lexicon | None, str]:
    """The lexicon of B, or else of A, and whose it is."""
    for name in ("B", "A"):
        words = models[name].indexer.lexicon
        if words is not None:
            return words, f"that of {name}"
    notes.append("neither model has a lexicon, so there is no breakdown by it; --lexicon names one")
    return None, ""


def read_lexicon(path: Path) -> tuple[Lexicon, tuple[str, ...]]:
    """The words of two characters or more of a dictionary or a vector file, and the notices of
    reading it.
    """
    vectors = read_vectors(path) if _has_vectors(path) else None
    lexicon = Lexicon(read_words(path) if vectors is None else vectors.words)
    if not len(lexicon):
        raise InputError(
            "no word of two characters or more in it: expected a dictionary or word vectors", path
        )
    return lexicon, () if vectors is None else vectors.notices


def _has_vectors(path: Path) -> bool:
    """Whether the first lines are those of word2vec: its header before a row of numbers or bytes,
    or a row alone.
    """
    with opening(path) as file:
        try:
            first, second = (file.readline(_LONGEST).removeprefix(BOM) for _ in range(2))
        except OSError as error:
            raise InputError(f"cannot read: {reason(error)}", path) from None
    fields = first.split()
    if len(fields) == 2 and all(field.isdigit() and len(field) < 16 for field in fields):
        text = "".join(second.decode("utf-8", "surrogateescape").split())
        return not text.isprintable() or len(second.split()) > int(fields[1])
    try:
        numbers = [float(field) for field in fields[-_NUMBERS:]]
    except ValueError:
        return False
    return len(fields) > len(numbers) == _NUMBERS and b"\t" not in first


def _write(
    result: Mistakes,
    about: Sequence[tuple[str, str]],
    notes: Sequence[str],
    out: Path | None,
    as_json: Path | None,
    sentences: int,
) -> None:
    if out is not None:
        with atomic_write(out) as file:
            file.write(markdown(result, about, notes, sentences))
    if as_json is not None:
        with atomic_write(as_json) as file:
            file.write(
                to_json({**dict(about), "notes": list(notes), **result.as_dict()}, indent=1) + "\n"
            )


def _show(
    result: Mistakes, about: Sequence[tuple[str, str]], notes: Sequence[str], sentences: int
) -> None:
    note(*notes)
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    for line in (*(f"{name}: {visible(value)}" for name, value in about), *summary(result)):
        console.print(line, soft_wrap=True)
    show_tables(console, tables(result))
    for sentence in result.most_different(sentences):
        console.print(f"\n{sentence_title(sentence)}", style="bold")
        for who, pieces in sentence_lines(sentence):
            marked = Text(f"{who:<5}").append_tokens(
                (piece.text, _COLOURS[piece.mark]) for piece in pieces
            )
            console.print(marked, soft_wrap=True)
