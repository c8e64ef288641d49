"""`hanlattice evaluate`: score a model on a labelled file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console

from hanlattice.checkpoint import model_files
from hanlattice.cli.console import find_named, note, show_tables
from hanlattice.cli.options import (
    AsJson,
    CorpusFormat,
    CorpusScheme,
    Decode,
    Device,
    DictionaryOptions,
    Encoding,
    LabelledFile,
    ModelArgument,
    Threads,
    with_options,
)
from hanlattice.cli.score import show_scores
from hanlattice.cli.texts import add_words
from hanlattice.data.download import resolve
from hanlattice.errors import InputError
from hanlattice.evaluation import breakdown
from hanlattice.evaluation.ner import LONG, score, score_tags
from hanlattice.evaluation.segmentation import score_segmentation, words_in
from hanlattice.files import check_output, printable_path
from hanlattice.text.display import counted
from hanlattice.text.tags import spans_to_tags
from hanlattice.theme import check_plot

if TYPE_CHECKING:
    from hanlattice.checkpoint.folder import Model
    from hanlattice.data.corpus import Corpus
    from hanlattice.evaluation.ner import Report
    from hanlattice.features.batches import CoveringWords, Examples
    from hanlattice.inference.threshold import Threshold
    from hanlattice.text.span import Span

# Missed words of a segmenter that are shown by default
WORDS = 20


@with_options
def evaluate(
    *,
    model: ModelArgument,
    file: LabelledFile,
    loose: Annotated[
        bool, typer.Option("--loose", help="Count tags, as the original lattice LSTM code does.")
    ] = False,
    format: CorpusFormat = "auto",
    scheme: CorpusScheme = "auto",
    encoding: Encoding = "auto",
    train: Annotated[
        str | None,
        typer.Option(help="For a segmenter: file with known words. Default: its training file."),
    ] = None,
    words: Annotated[
        int | None,
        typer.Option(min=0, help=f"For a segmenter: missed words to show. Default: {WORDS}."),
    ] = None,
    decode: Decode = None,
    shorter_than: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Use only sentences with fewer characters. "
            f"The original code of the lattice LSTM uses {LONG}.",
        ),
    ] = None,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Also show scores by sentence length.")
    ] = False,
    by_lexicon: Annotated[
        bool,
        typer.Option(
            "--by-lexicon",
            help="Also show scores with random parts of the dictionary: 0 to 100 % of its words.",
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Plot of `--by-length` or `--by-lexicon`: `.svg` or `.png`. "
            "Needs the extra `plot`."
        ),
    ] = None,
    as_json: AsJson = False,
    device: Device = "cpu",
    threads: Threads = 1,
    dictionary: DictionaryOptions,
) -> None:
    """Show precision, recall and F1 of a model, overall and by label.

    A span counts as correct if its start, end and label are. A segmenter also gets the scores of
    the SIGHAN bakeoff.
    """
    from hanlattice.checkpoint.load import load_model
    from hanlattice.inference.device import use_threads
    from hanlattice.predict import Predictor
    from hanlattice.training.corpora import read_for

    folder = find_named(model)
    if plot is not None:
        if not (by_length or by_lexicon):
            raise InputError("--plot draws --by-length or --by-lexicon: give one of them, or both")
        check_plot(plot)
        read = [file, *([train] if train else [])]
        check_output(plot, [*map(resolve, read), *(dictionary.lexicon or ()), *model_files(folder)])
    use_threads(threads)
    loaded = load_model(folder, device)
    corpus = read_for([loaded], file, format, scheme)
    note(*corpus.notices, *filter(None, [loaded.other_segmenter()]))
    if loose and corpus.tags is None:
        raise InputError("--loose counts tags, and this file has spans; give columns", file)
    if words is not None and not loaded.indexer.cuts:
        raise InputError("--words is for a segmenter, and this model is none")
    if by_lexicon and loaded.indexer.lexicon is None:
        raise InputError(
            "--by-lexicon is for a model with a lexicon, and this model has no lexicon"
        )
    known = _known_words(loaded, train, format, scheme)
    total = len(corpus)
    if shorter_than is not None:
        lengths = list(map(len, corpus.sentences))
        kept = [index for index, length in enumerate(lengths) if length < shorter_than]
        if not kept:
            shortest = counted(min(lengths), "character")
            raise InputError(
                f"--shorter-than {shorter_than} leaves no sentence: the shortest has {shortest}",
                resolve(file),
            )
        corpus = corpus.at(kept)
    predictor = Predictor(loaded, decode=decode)
    add_words(predictor, dictionary)
    trust = predictor.trust if dictionary.lexicon else 0.0
    evaluation = Evaluation(loaded, corpus, file, loose, trust, predictor.threshold)
    report = evaluation.report(known)
    if by_length:
        report["by_sentence_length"] = list(evaluation.by_length())
    if by_lexicon:
        report["by_lexicon_share"] = list(evaluation.by_lexicon())
    title = f"{printable_path(file)}: {counted(len(corpus), 'sentence')}"
    if predictor.threshold is not None:
        report["threshold"] = predictor.threshold
    if shorter_than is not None:
        left_out = total - len(corpus)
        report["shorter_than"] = {
            "characters": shorter_than,
            "sentences": len(corpus),
            "left_out": left_out,
        }
        title += f" of fewer than {shorter_than:,} characters, {left_out:,} left out"
    if loose:
        title += ", counted as the original code does"
    if predictor.threshold is not None:
        title += f", decoded by spans above {predictor.threshold:.3f}"
    if plot is not None:
        breakdown.draw(report, plot)
    show_scores(report, title, WORDS if words is None else words, as_json)
    if not as_json:
        show_tables(Console(), breakdown.tables(report))


def _known_words(
    model: Model, train: str | None, format: str, scheme: str
) -> Collection[str] | None:
    """Return the words that a segmenter was trained on, if its training file exists."""
    from hanlattice.training.corpora import read_for, training_words

    if not model.indexer.cuts:
        if train is not None:
            raise InputError("--train is for a segmenter, and this model is none")
        return None
    if train is not None:
        return words_in(read_for([model], train, format, scheme).sentences)
    notes: list[str] = []
    words = training_words(model, notes)
    note(*notes)
    return words


@dataclass
class Evaluation:
    """Score the spans that a model finds in a corpus."""

    model: Model
    corpus: Corpus
    file: str
    loose: bool
    trust: float
    threshold: Threshold

    def __post_init__(self) -> None:
        self.gold = [sentence.spans or () for sentence in self.corpus.sentences]
        self.examples = read_examples(self.model, self.corpus, self.file)
        self.spans = self.decode(self.examples)

    def decode(self, examples: Examples) -> list[list[Span]]:
        """Return the spans that the model finds in each sentence."""
        from hanlattice.inference.decode import decode

        model = self.model
        return decode(
            model.tagger, model.indexer, examples, trust=self.trust, threshold=self.threshold
        )

    def score(self, corpus: Corpus, spans: Sequence[Sequence[Span]]) -> Report:
        """Score spans against the corpus, or against a part of it."""
        if not (self.loose and corpus.scheme and corpus.tags):
            return score([sentence.spans or () for sentence in corpus.sentences], spans)
        tags = [
            spans_to_tags(guesses, len(sentence), corpus.scheme)
            for guesses, sentence in zip(spans, corpus.sentences, strict=True)
        ]
        return score_tags(corpus.tags, tags, corpus.scheme, loose=True)

    def report(self, known: Collection[str] | None) -> dict[str, Any]:
        """Score all sentences; `known` has the training words of a segmenter."""
        report = self.score(self.corpus, self.spans).as_dict()
        if self.examples.segments is not None:
            report["segmentation"] = self.count_crossing(self.examples.segments)
        if self.model.indexer.cuts:
            texts = [sentence.text for sentence in self.corpus.sentences]
            scores = score_segmentation(texts, self.gold, self.spans, known)
            report["segmentation"] = scores.as_dict()
        return report

    def by_length(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each class of sentence lengths."""
        for name, indices in breakdown.places_by_length(map(len, self.corpus.sentences)).items():
            spans = [self.spans[index] for index in indices]
            scores = self.score(self.corpus.at(indices), spans).overall
            yield {"characters": name, "sentences": len(indices), **scores.as_dict()}

    def by_lexicon(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each share of the lexicon's words, drawn at random."""
        words = self.model.indexer.word_count
        # One order for all shares: the words of a small share are among the words of a larger one.
        order = np.random.default_rng(0).permutation(words)
        for share in breakdown.SHARES:
            examples = self.examples.with_words(order < round(share * words))
            spans = self.decode(examples) if share < 1 else self.spans
            yield {
                "share": share,
                "words": round(share * words),
                "places": len(examples.matches.word),
                **self.score(self.corpus, spans).overall.as_dict(),
            }

    def count_crossing(self, words: CoveringWords) -> dict[str, int]:
        """Count the gold spans that a word model cannot find, because a word crosses their ends."""
        from hanlattice.features.indexer import count_crossing

        crossing = count_crossing(self.gold, words.counts, words.start, words.end)
        total = sum(map(len, self.gold))
        if total:
            note(
                f"segmentation: {crossing:,} of the {total:,} gold spans begin or end inside a "
                "word: they count as missed "
                f"(recall is at most {100 * (total - crossing) / total:.2f})"
            )
        return {"crossing": crossing, "gold": total}


def read_examples(model: Model, corpus: Corpus, file: str) -> Examples:
    """Return the corpus as numbers for the model; an error names the file."""
    try:
        return model.indexer.examples(corpus.sentences)
    except InputError as error:
        raise InputError(error.message, error.path or resolve(file), error.line) from None
