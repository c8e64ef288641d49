"""`hanlattice analyse`: text, files or standard input → words and entities together, in the formats of `tag`."""

from __future__ import annotations

from typing import Annotated

import typer

from hanlattice.cli.console import Encoding, find_named
from hanlattice.cli.tag import (
    Format,
    FormatOption,
    MinScore,
    Scheme,
    SchemeOption,
    Threads,
    check_min_score,
    choose_format,
    needs_scores,
    written,
)
from hanlattice.cli.texts import (
    BatchSize,
    Decode,
    Device,
    Fast,
    Inputs,
    IsText,
    Lexicons,
    ModelFolder,
    Out,
    Trust,
    Unbuffered,
    add_words,
    at_once,
    begin,
    check_trust,
    write_results,
)
from hanlattice.errors import InputError
from hanlattice.files import check_output
from hanlattice.models import model_files


def analyse(
    inputs: Inputs,
    model: ModelFolder = "ner",
    segmenter: Annotated[
        str, typer.Option("--segmenter", "-s", help="The model that cuts the words: seg, or its folder.")
    ] = "seg",
    whole_names: Annotated[
        bool, typer.Option("--whole-names", help="Each entity is one word: 任正非 instead of 任 正非.")
    ] = False,
    format: FormatOption = None,
    out: Out = None,
    scheme: SchemeOption = Scheme.BMES,
    min_score: MinScore = 0.0,
    decode: Decode = None,
    lexicon: Lexicons = None,
    trust: Trust = None,
    text: IsText = False,
    encoding: Encoding = "auto",
    unbuffered: Unbuffered = False,
    batch_size: BatchSize = None,
    device: Device = "cpu",
    fast: Fast = False,
    threads: Threads = 1,
) -> None:
    """Find the words and the entities of a text, of files, or of standard input: one result for each line."""
    chosen = choose_format(format, out)
    check_min_score(min_score)
    check_trust(trust, lexicon)
    texts, folder = begin(inputs, text, out, lexicon, model, unbuffered)
    cutting = find_named(segmenter)
    check_output(out, model_files(cutting))
    from hanlattice.models.device import use_threads  # after what can be wrong
    from hanlattice.predict import load

    use_threads(threads)
    tagger, cutter = load(folder, device, fast, decode), load(cutting, device, fast)
    if tagger.model.indexer.cuts:
        raise InputError("this model cuts text into words; --model needs one that finds entities", folder)
    if not cutter.model.indexer.cuts:
        raise InputError("this model finds entities; --segmenter needs one that cuts text into words", cutting)
    add_words(tagger, lexicon, trust)
    add_words(cutter, lexicon, trust, notes=False)  # they are the same words
    scores, size = needs_scores(chosen, min_score), at_once(inputs, batch_size)
    documents = tagger.analyse_pipe(texts, size, cutter, whole_names, scores=scores, min_score=min_score)
    results = written(documents, chosen, scheme.value, tagger.model.indexer.labels, out)
    write_results(inputs, texts.placed(results) if chosen is Format.jsonl else results, out, texts)
