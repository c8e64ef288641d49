"""`hanlattice mistakes`: compare the mistakes of two models on a labelled file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

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

# Columns of the widest table, for a file or a pipe, which has no width of its own
_WIDTH = 116
_COLOURS = {"": "", "gold": "bold cyan", "right": "green", "wrong": "bold red"}
# Bytes of a line that are read to guess the kind of a file
_LONGEST = 1 << 16
# A row of vectors ends with at least this many numbers; a dictionary's line ends with at most one.
_NUMBERS = 3


def mistakes(
    model_a: Annotated[
        str, typer.Argument(help="Model A, the baseline: bundled model or model folder.")
    ],
    model_b: Annotated[str, typer.Argument(help="Model B: bundled model or model folder.")],
    file: LabelledFile,
    train: Annotated[
        str | None, typer.Option(help="Training file. Default: the training file of the models.")
    ] = None,
    lexicon: Annotated[
        str | None, typer.Option(help="Dictionary or vectors. Default: the dictionary of B or A.")
    ] = None,
    format: CorpusFormat = "auto",
    scheme: CorpusScheme = "auto",
    encoding: Encoding = "auto",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Report to write, in Markdown.")
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", help="JSON file to write, with every sentence.")
    ] = None,
    sentences: Annotated[
        int, typer.Option(min=0, help="Number of sentences to show on the terminal and in `--out`.")
    ] = 20,
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """Show where two models differ, with the sentences.

    Tables compare them by label, length, and whether the dictionary or the training file has the
    entity.
    """
    from hanlattice.checkpoint.load import load_model
    from hanlattice.inference.decode import decode
    from hanlattice.inference.device import use_threads
    from hanlattice.training.corpora import own_training, read_for, training_files

    use_threads(threads)
    notes: list[str] = []
    about = [
        ("A", printable_path(model_a)),
        ("B", printable_path(model_b)),
        ("file", printable_path(file)),
    ]
    folders = {"A": find_named(model_a), "B": find_named(model_b)}
    models = {name: load_model(folder, device) for name, folder in folders.items()}

    def read(name: str) -> tuple[Sentence, ...]:
        corpus = read_for(models.values(), name, format, scheme)
        notes.extend(corpus.notices)
        return corpus.sentences

    gold = read(file)
    inputs = [resolve(name) for name in (file, train, lexicon) if name is not None]
    inputs += training_files(models.values())
    inputs += (path for folder in folders.values() for path in model_files(folder))
    for output in (out, as_json):
        check_output(output, inputs)
    if out is not None and as_json is not None and out.resolve() == as_json.resolve():
        raise InputError("--out and --json are the same file; give one of them another name", out)
    labels = {name: set(labels_of(model.indexer.tags)) for name, model in models.items()}
    for name, rival in (("A", "B"), ("B", "A")):
        if more := sorted(labels[name] - labels[rival]):
            notes.append(f"labels that {name} knows and {rival} does not: {', '.join(more)}")
    words: Lexicon | None = None
    if lexicon is not None:
        words, notices = read_lexicon(resolve(lexicon))
        notes += notices
        what = printable_path(lexicon)
    elif owner := next((name for name in "BA" if models[name].indexer.lexicon is not None), ""):
        words = models[owner].indexer.lexicon
        what = f"that of {owner}"
    else:
        notes.append(
            "neither model has a lexicon, so there is no breakdown by it; --lexicon names one"
        )
    if words is not None:
        about.append(("lexicon", f"{what}, {counted(len(words), 'word')}"))
    if train is None:
        trained, what = own_training(models, notes)
        about += [("train", what)] if what else []
    else:
        trained = read(train)
        about.append(("train", f"{printable_path(train)}, {counted(len(trained), 'sentence')}"))
    a, b = (
        decode(m.tagger, m.indexer, m.indexer.examples(gold), threshold=m.threshold())
        for m in models.values()
    )
    result = compare(gold, a, b, words, trained)
    if out is not None:
        with atomic_write(out) as report:
            report.write(markdown(result, about, notes, sentences))
    if as_json is not None:
        record = {**dict(about), "notes": notes, **result.as_dict()}
        with atomic_write(as_json) as report:
            report.write(to_json(record, indent=1) + "\n")
    _show(result, about, notes, sentences)


def read_lexicon(path: Path) -> tuple[Lexicon, tuple[str, ...]]:
    """Return the words of a dictionary or a vector file, and the notices of reading it.

    Words of one character are left out.
    """
    vectors = read_vectors(path) if _has_vectors(path) else None
    lexicon = Lexicon(read_words(path) if vectors is None else vectors.words)
    if not len(lexicon):
        raise InputError(
            "no word of two characters or more in it: expected a dictionary or word vectors", path
        )
    return lexicon, () if vectors is None else vectors.notices


def _has_vectors(path: Path) -> bool:
    """Return whether a file looks like word2vec: a header and a row, or a row without a header."""
    with opening(path) as file:
        try:
            first, second = (file.readline(_LONGEST).removeprefix(BOM) for _ in range(2))
        except OSError as error:
            raise InputError(f"cannot read: {reason(error)}", path) from None
    fields = first.split()
    # A header is a number of words and a width; more digits than this are no number of words.
    if len(fields) == 2 and all(field.isdigit() and len(field) < 16 for field in fields):
        # The row after a header has bytes that are no text, or more numbers than the width.
        text = "".join(second.decode("utf-8", "surrogateescape").split())
        return not text.isprintable() or len(second.split()) > int(fields[1])
    try:
        numbers = [float(field) for field in fields[-_NUMBERS:]]
    except ValueError:
        return False
    return len(fields) > len(numbers) == _NUMBERS and b"\t" not in first


def _show(
    result: Mistakes, about: Sequence[tuple[str, str]], notes: Sequence[str], sentences: int
) -> None:
    note(*notes)
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    for line in [*(f"{name}: {visible(value)}" for name, value in about), *summary(result)]:
        console.print(line, soft_wrap=True)
    show_tables(console, tables(result))
    for sentence in result.most_different(sentences):
        console.print(f"\n{sentence_title(sentence)}", style="bold")
        for name, pieces in sentence_lines(sentence):
            tokens = ((piece.text, _COLOURS[piece.mark]) for piece in pieces)
            console.print(Text(f"{name:<5}").append_tokens(tokens), soft_wrap=True)
