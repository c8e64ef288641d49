"""`hanlattice segment`: cut texts, files or standard input into words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from hanlattice.cli.options import BatchOptions, ModelFolder, Threads, with_options
from hanlattice.cli.texts import add_words, begin, for_screen, share_out, write_results
from hanlattice.data.formats.segmented import segmented_line
from hanlattice.errors import InputError

SegmentFormat = StrEnum("SegmentFormat", "text tagged jsonl")


@dataclass(frozen=True, kw_only=True)
class SegmentOptions(BatchOptions):
    """The options of `segment`."""

    model: ModelFolder = "seg"
    format: Annotated[
        SegmentFormat,
        typer.Option(
            "--format",
            "-f",
            help="Output format. `text`: words with spaces. `tagged`: `word/label`. "
            "`jsonl`: words with their offsets and scores.",
        ),
    ] = SegmentFormat.text
    threads: Threads = 2


@with_options
def segment(options: SegmentOptions) -> None:
    """Cut texts, files or standard input into words. Each line gives one result."""
    from hanlattice.inference.device import use_threads
    from hanlattice.output import as_jsonl
    from hanlattice.predict import TEXTS, load

    texts, folder = begin(options)
    # Threads share out the texts, so each operation computes on one thread.
    use_threads(1)
    segmenter = load(folder, options.device, options.fast)
    if not segmenter.model.indexer.cuts:
        raise InputError(
            "this model does not cut text into words; use `hanlattice tag` with it", folder
        )
    add_words(segmenter, options)
    # The segmenter builds its tables on first use, and threads may only share them afterwards.
    segmenter("一")
    as_json = options.format is SegmentFormat.jsonl

    def work(share: list[str]) -> list[str]:
        documents = segmenter.pipe(share, len(share), scores=as_json)
        if as_json:
            return [as_jsonl(document) for document in documents]
        with_labels = options.format is SegmentFormat.tagged
        return [segmented_line(d.text, d.spans, with_labels) + "\n" for d in documents]

    size = texts.group_size(options.batch_size) or TEXTS[segmenter.model.tagger.device_kind]
    threads = options.threads if options.device == "cpu" else 1
    results = share_out(work, texts, size, threads, ahead="-" not in options.inputs)
    write_results(
        texts.placed(results) if as_json else for_screen(results, options.out), options.out, texts
    )
