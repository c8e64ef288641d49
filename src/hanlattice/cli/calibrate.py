"""`hanlattice calibrate`: compare a model's scores with labelled files, and correct them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from hanlattice.checkpoint import model_files
from hanlattice.cli.console import find_named, note, show_tables
from hanlattice.cli.evaluate import read_examples
from hanlattice.cli.options import (
    CorpusFormat,
    CorpusScheme,
    Decode,
    Device,
    Encoding,
    LabelledFiles,
    ModelArgument,
    Plot,
    Threads,
)
from hanlattice.cli.texts import different
from hanlattice.data.formats.jsonl import to_json
from hanlattice.errors import InputError
from hanlattice.evaluation import calibration
from hanlattice.files import atomic_write, check_output, printable_path
from hanlattice.text.display import counted, visible
from hanlattice.theme import check_plot

if TYPE_CHECKING:
    from hanlattice.checkpoint.folder import Model
    from hanlattice.text.span import Span

# The lowest probability of a candidate
LEAST = 0.01
# Candidates of a sentence: more than any sentence has
MOST = 1 << 20


def calibrate(
    model: ModelArgument,
    files: LabelledFiles,
    candidates: Annotated[
        bool,
        typer.Option(
            "--candidates",
            help=f"Count every span with a probability of at least {LEAST}. "
            "Default: only the spans that the model finds.",
        ),
    ] = False,
    decode: Decode = None,
    fit: Annotated[
        bool,
        typer.Option(
            "--fit",
            help="Apply Platt scaling for each label, so that scores match the observed accuracy. "
            "The result is saved in the model.",
        ),
    ] = False,
    save: Annotated[
        Path | None, typer.Option(help="With `--fit`: write a copy to this new or empty folder.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Use scores without the scaling of an earlier `--fit`.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Report to write: `.json` or `.md`.")
    ] = None,
    plot: Plot = None,
    format: CorpusFormat = "auto",
    scheme: CorpusScheme = "auto",
    encoding: Encoding = "auto",
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """Show how often spans with a given score are right, and what `--min-score` would do.

    `--fit` corrects the scores. The files should be like your texts, and not like the training
    data. The spans that the model finds stay the same.
    """
    from hanlattice.checkpoint.load import load_model
    from hanlattice.inference.device import use_threads
    from hanlattice.training.calibrate import check_place, fit_scores, save_calibrated
    from hanlattice.training.corpora import read_for

    if candidates and decode:
        raise InputError("--candidates counts all spans, and --decode chooses some: give one")
    if fit and (candidates or raw):
        raise InputError("--fit uses the spans that are found: leave out --candidates and --raw")
    if save is not None and not fit:
        raise InputError("--save writes the model with the scores of --fit: give both")
    folder = find_named(model)
    _check_outputs(out, plot, files, folder)
    if fit:
        check_place(folder, save)
    use_threads(threads)
    loaded = load_model(folder, device)
    threshold = loaded.threshold(decode)
    if fit or raw:
        loaded.tagger.curves = None
    corpora = {file: read_for([loaded], file, format, scheme) for file in files}
    note(*(notice for corpus in corpora.values() for notice in corpus.notices))

    def find_spans(model: Model) -> dict[str, list[list[Span]]]:
        from hanlattice.inference.decode import decode, find_candidates, make_spans

        spans = {}
        for file, corpus in corpora.items():
            examples = read_examples(model, corpus, file)
            if candidates:
                flat = find_candidates(model.tagger, model.indexer, examples, MOST, LEAST)[1]
                labels = model.indexer.tag_ids.labels
                spans[file] = make_spans(flat, [""] * len(examples), labels)
            else:
                spans[file] = decode(
                    model.tagger, model.indexer, examples, scores=True, threshold=threshold
                )
        return spans

    results: dict[str, calibration.Calibration] = {}
    sizes: dict[str, str] = {}

    def judge(spans: dict[str, list[list[Span]]], when: str) -> None:
        for file, corpus in corpora.items():
            name = printable_path(file) + when
            gold = [sentence.spans or () for sentence in corpus.sentences]
            results[name] = calibration.calibrate(gold, spans[file])
            sizes[name] = counted(len(corpus), "sentence")

    spans = find_spans(loaded)
    judge(spans, ", before" if fit else "")
    if fit:
        loaded = fit_scores(loaded, corpora, spans)
        save_calibrated(loaded, folder, save)
        judge(find_spans(loaded), ", after")
    if candidates:
        which = f"all spans with a probability of {LEAST} or more"
    elif threshold is None:
        which = "the spans of the best tagging"
    else:
        which = f"the best set of spans above {threshold:.3f}"
    about = f"{printable_path(save or model)}: {which}"
    _report(results, sizes, about, out, plot)


def _check_outputs(out: Path | None, plot: Path | None, files: Sequence[str], model: Path) -> None:
    """Refuse outputs that cannot be written before anything is read."""
    if out is not None and out.suffix.lower() not in (".json", ".md"):
        raise InputError(
            f"the report is a .json or .md file, and this name ends in {out.suffix!r}", out
        )
    if plot is not None:
        check_plot(plot)
    paths = different(files)
    for output in (out, plot):
        check_output(output, [*paths, *model_files(model)])


def _report(
    results: dict[str, calibration.Calibration],
    sizes: dict[str, str],
    about: str,
    out: Path | None,
    plot: Path | None,
) -> None:
    """Print the results, and write the plot and the report if they are wanted."""
    if plot is not None:
        calibration.draw(results, plot)
    if out is not None:
        if out.suffix.lower() == ".md":
            text = calibration.markdown(results, about)
        else:
            files = {name: result.as_dict() for name, result in results.items()}
            text = to_json({"about": about, "files": files}, indent=1) + "\n"
        with atomic_write(out) as file:
            file.write(text)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(visible(about), soft_wrap=True)
    for name, result in results.items():
        summary = f"{sizes[name]}: {calibration.summary(result)}"
        console.print(f"\n{visible(name)}, {summary}", soft_wrap=True)
        show_tables(console, calibration.tables(result), fold=False)
