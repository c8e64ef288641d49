"""`hanlattice calibrate`: whether a model's probabilities can be believed, on labelled files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanlattice.cli.notes import find_named, note
from hanlattice.errors import InputError
from hanlattice.files import check_output, shown, writing
from hanlattice.models.shipped import model_files
from hanlattice.text.display import counted, visible

if TYPE_CHECKING:
    from hanlattice.data.corpus import Corpus
    from hanlattice.evaluation.calibration import Calibration
    from hanlattice.models.checkpoint import Model
    from hanlattice.text.spans import Span

LEAST = 0.01  # the probability of a candidate that is looked at
MOST = 1 << 20  # as many of them as there are


def calibrate(
    model: Annotated[str, typer.Argument(help="ner or seg, which come along, or a model's folder.")],
    files: Annotated[list[str], typer.Argument(help="Labelled files, or @name/file from `hanlattice data get`.")],
    candidates: Annotated[
        bool,
        typer.Option(
            "--candidates", help=f"All spans with a probability of {LEAST} or more, not only the best tagging."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write everything: .json for programs, .md for people.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .svg or .png (needs the extra plot).")] = None,
    format: Annotated[str, typer.Option(help="auto, columns, segmented or jsonl.")] = "auto",
    scheme: Annotated[str, typer.Option(help="auto, BIO, IOB1, BMES or BIOES.")] = "auto",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads; more help only on an idle machine.")] = 1,
) -> None:
    """Scores against truth: how many of the spans with a score near 0.9 are right, and what --min-score would do."""
    from hanlattice.models.checkpoint import load_model
    from hanlattice.models.device import use_threads
    from hanlattice.training.labelled import read_for

    folder = find_named(model)
    _check(out, plot, files, folder)
    use_threads(threads)
    loaded = load_model(folder, device)
    read = {file: read_for([loaded], file, format, scheme) for file in files}
    for notice in (notice for corpus in read.values() for notice in corpus.notices):
        note(notice)
    made = {shown(file): _calibrated(loaded, file, corpus, candidates) for file, corpus in read.items()}
    which = f"all spans with a probability of {LEAST} or more" if candidates else "the spans of the best tagging"
    about = f"{shown(model)}: {which}"
    _write(made, about, out, plot)
    _show(made, {shown(file): counted(len(corpus), "sentence") for file, corpus in read.items()}, about)


def _check(out: Path | None, plot: Path | None, files: Sequence[str], model: Path) -> None:
    """What cannot be written is told before anything is read."""
    from hanlattice.data.download import resolve
    from hanlattice.style import check_plot

    if out is not None and out.suffix.lower() not in (".json", ".md"):
        raise InputError(f"the report is a .json or .md file, and this name ends in {out.suffix!r}", out)
    if plot is not None:
        check_plot(plot)
    paths = [resolve(file) for file in files]
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("a file is given twice")
    for output in (out, plot):
        check_output(output, [*paths, *model_files(model)])


def _calibrated(model: Model, file: str, corpus: Corpus, candidates: bool) -> Calibration:
    from hanlattice.data.download import resolve
    from hanlattice.evaluation.calibration import calibrate as judge

    try:
        found = _found(model, corpus, candidates)
    except InputError as error:
        raise InputError(error.message, error.path or resolve(file), error.line) from None
    return judge([sentence.spans or () for sentence in corpus.sentences], found)


def _found(model: Model, corpus: Corpus, candidates: bool) -> Sequence[Iterable[Span]]:
    from hanlattice.models.decode import decode, find_candidates, rows

    examples = model.indexer.examples(corpus.sentences)
    if not candidates:
        return decode(model.tagger, model.indexer, examples, scores=True)
    found = find_candidates(model.tagger, model.indexer, examples, MOST, LEAST)[1]
    return rows(found, len(examples), model.indexer.tag_ids.labels)


def _show(made: Mapping[str, Calibration], sizes: Mapping[str, str], about: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from hanlattice.evaluation.calibration_report import summary, tables

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(visible(about), soft_wrap=True)
    for name, each in made.items():
        console.print(f"\n{visible(name)}, {sizes[name]}: {summary(each)}", soft_wrap=True)
        for words in tables(each):
            table = Table(title=words.title, title_justify="left", box=SIMPLE_HEAD, show_edge=False)
            for heading in words.headings:
                table.add_column(heading, justify="right")
            for row in words.rows:
                table.add_row(*map(Text, row))
            console.print()
            console.print(table)


def _write(made: Mapping[str, Calibration], about: str, out: Path | None, plot: Path | None) -> None:
    """The plot and the report, where they are wanted."""
    from hanlattice.data.jsonl import to_json
    from hanlattice.evaluation.calibration_report import markdown

    if plot is not None:
        from hanlattice.output.reliability import draw

        draw(made, plot)
    if out is None:
        return
    with writing(out) as file:
        if out.suffix.lower() == ".md":
            file.write(markdown(made, about))
        else:
            record = {"about": about, "files": {name: each.as_dict() for name, each in made.items()}}
            file.write(to_json(record, indent=1) + "\n")
