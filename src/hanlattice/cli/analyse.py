"""`hanlattice analyse`: find words and entities together, in the formats of `tag`."""

from __future__ import annotations

from typing import Annotated

import typer

from hanlattice.checkpoint import model_files
from hanlattice.cli.console import find_named
from hanlattice.cli.options import with_options
from hanlattice.cli.tag import TagOptions, choose_format, needs_scores, write_documents
from hanlattice.cli.texts import add_words, begin
from hanlattice.errors import InputError
from hanlattice.files import check_output


@with_options
def analyse(
    options: TagOptions,
    segmenter: Annotated[
        str, typer.Option("--segmenter", "-s", help="Segmentation model: `seg` or a model folder.")
    ] = "seg",
    whole_names: Annotated[
        bool,
        typer.Option("--whole-names", help="Make each entity one word: 任正非 instead of 任 正非."),
    ] = False,
) -> None:
    """Find words and entities in texts, files or standard input. Each line gives one result."""
    format = choose_format(options)
    texts, folder = begin(options)
    cutter_folder = find_named(segmenter)
    check_output(options.out, model_files(cutter_folder))
    # These imports take time, so wrong options are reported before them.
    from hanlattice.inference.device import use_threads
    from hanlattice.predict import load

    use_threads(options.threads)
    tagger = load(folder, options.device, options.fast, options.decode)
    cutter = load(cutter_folder, options.device, options.fast)
    if tagger.model.indexer.cuts:
        raise InputError(
            "this model cuts text into words; --model needs one that finds entities", folder
        )
    if not cutter.model.indexer.cuts:
        raise InputError(
            "this model finds entities; --segmenter needs one that cuts text into words",
            cutter_folder,
        )
    add_words(tagger, options)
    # The same words give the same notes.
    add_words(cutter, options, notes=False)
    documents = tagger.analyse_pipe(
        texts,
        texts.group_size(options.batch_size),
        cutter,
        whole_names,
        scores=needs_scores(format, options.min_score),
        min_score=options.min_score,
    )
    write_documents(documents, texts, format, tagger.model.indexer.labels, options)
