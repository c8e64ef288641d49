"""`hanlattice calibrate`: whether a model's probabilities are right, on labelled files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from hanlattice.inference.threshold import Threshold
from hanlattice.text.display import counted, visible
from hanlattice.theme import check_plot

if TYPE_CHECKING:
    from hanlattice.checkpoint.folder import Model
    from hanlattice.data.corpus import Corpus
    from hanlattice.text.span import Span

LEAST = 0.01  # the lowest probability of a candidate
MOST = 1 << 20  # candidates of a sentence: no limit


def calibrate(
    model: ModelArgument,
    files: LabelledFiles,
    candidates: Annotated[
        bool,
        typer.Option(
            "--candidates",
            help=f"All spans with a probability of {LEAST} or more, not only the best tagging.",
        ),
    ] = False,
    decode: Decode = None,
    fit: Annotated[
        bool,
        typer.Option(
            "--fit", help="Fit scores on these files, by label, and store that in the model."
        ),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(help="With --fit: write a copy of the model, into this new or empty folder."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Scores as trained, without what --fit has stored.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write everything: .json for programs, .md for people."),
    ] = None,
    plot: Plot = None,
    format: CorpusFormat = "auto",
    scheme: CorpusScheme = "auto",
    encoding: Encoding = "auto",
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """Scores against gold labels: how many spans with a score near 0.9 are right, and what
    --min-score would do.

    With --fit, scores become as often right as they say in these files, which should be like your
    texts, and not of the training's source. What is found stays the same.
    """
    from hanlattice.checkpoint.load import load_model
    from hanlattice.inference.device import use_threads
    from hanlattice.training.calibrate import check_place, fit_scores, save_calibrated
    from hanlattice.training.corpora import read_for

    _check_options(candidates, decode, fit, save, raw)
    folder = find_named(model)
    _check(out, plot, files, folder)
    if fit:
        check_place(folder, save)
    use_threads(threads)
    loaded = load_model(folder, device)
    threshold = loaded.threshold(decode)
    if fit or raw:
        loaded.tagger.curves = None
    read = {file: read_for([loaded], file, format, scheme) for file in files}
    note(*(notice for corpus in read.values() for notice in corpus.notices))
    found = {
        file: _found(loaded, file, corpus, candidates, threshold) for file, corpus in read.items()
    }
    results = {printable_path(file): _judged(read[file], spans) for file, spans in found.items()}
    sizes = {
        printable_path(file): counted(len(corpus), "sentence") for file, corpus in read.items()
    }
    if fit:
        loaded = fit_scores(loaded, read, found)
        save_calibrated(loaded, folder, save)
        after = {
            file: _found(loaded, file, corpus, candidates, threshold)
            for file, corpus in read.items()
        }
        results = {f"{name}, before": each for name, each in results.items()}
        results |= {
            f"{printable_path(file)}, after": _judged(read[file], spans)
            for file, spans in after.items()
        }
        sizes = {
            f"{name}, {when}": size for when in ("before", "after") for name, size in sizes.items()
        }
    best = (
        "the spans of the best tagging"
        if threshold is None
        else f"the best set of spans above {threshold:.3f}"
    )
    which = f"all spans with a probability of {LEAST} or more" if candidates else best
    about = f"{printable_path(save or model)}: {which}"
    _write(results, about, out, plot)
    _show(results, sizes, about)


def _check_options(
    candidates: bool, decode: str | None, fit: bool, save: Path | None, raw: bool
) -> None:
    """Refuse those that contradict each other."""
    if candidates and decode:
        raise InputError(
            "--candidates counts all spans, not only those that --decode finds: give one of them"
        )
    if fit and (candidates or raw):
        raise InputError(
            "--fit takes the spans that are found, as trained: leave out --candidates and --raw"
        )
    if save is not None and not fit:
        raise InputError("--save writes the model with what --fit finds: give both")


def _check(out: Path | None, plot: Path | None, files: Sequence[str], model: Path) -> None:
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


def _found(
    model: Model, file: str, corpus: Corpus, candidates: bool, threshold: Threshold
) -> list[list[Span]]:
    from hanlattice.inference.decode import decode, find_candidates, make_spans

    examples = read_examples(model, corpus, file)
    if candidates:
        flat = find_candidates(model.tagger, model.indexer, examples, MOST, LEAST)[1]
        return make_spans(flat, [""] * len(examples), model.indexer.tag_ids.labels)
    return decode(model.tagger, model.indexer, examples, scores=True, threshold=threshold)


def _judged(corpus: Corpus, found: Sequence[Sequence[Span]]) -> calibration.Calibration:
    return calibration.calibrate([sentence.spans or () for sentence in corpus.sentences], found)


def _write(
    results: Mapping[str, calibration.Calibration], about: str, out: Path | None, plot: Path | None
) -> None:
    """The plot and the report, if they are wanted."""
    if plot is not None:
        calibration.draw(results, plot)
    if out is None:
        return
    with atomic_write(out) as file:
        if out.suffix.lower() == ".md":
            file.write(calibration.markdown(results, about))
        else:
            record = {
                "about": about,
                "files": {name: each.as_dict() for name, each in results.items()},
            }
            file.write(to_json(record, indent=1) + "\n")


def _show(
    results: Mapping[str, calibration.Calibration], sizes: Mapping[str, str], about: str
) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(visible(about), soft_wrap=True)
    for name, each in results.items():
        console.print(
            f"\n{visible(name)}, {sizes[name]}: {calibration.summary(each)}", soft_wrap=True
        )
        show_tables(console, calibration.tables(each), fold=False)
