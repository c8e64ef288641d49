"""`hanlattice evaluate`: a model against a labelled file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
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

WORDS = 20  # missed words that are shown of a segmenter


@with_options
def evaluate(
    *,
    model: ModelArgument,
    file: LabelledFile,
    loose: Annotated[
        bool, typer.Option("--loose", help="Count as the original lattice LSTM code does.")
    ] = False,
    format: CorpusFormat = "auto",
    scheme: CorpusScheme = "auto",
    encoding: Encoding = "auto",
    train: Annotated[
        str | None,
        typer.Option(
            help="For a segmenter: the file of the training words; without it, the one it was trained on."
        ),
    ] = None,
    words: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=f"For a segmenter: how many of the most often missed words to show; default {WORDS}.",
        ),
    ] = None,
    decode: Decode = None,
    shorter_than: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Only sentences of fewer characters; the original lattice LSTM code has {LONG}.",
        ),
    ] = None,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Also by the length of sentences.")
    ] = False,
    by_lexicon: Annotated[
        bool,
        typer.Option(
            "--by-lexicon",
            help="Also with a random share of the lexicon's words alone: 0 to 100 %.",
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw --by-length or --by-lexicon: .svg or .png (needs the extra plot)."),
    ] = None,
    as_json: AsJson = False,
    device: Device = "cpu",
    threads: Threads = 1,
    dictionary: DictionaryOptions,
) -> None:
    """Precision, recall and F1 over exact spans: overall and by type; for a segmenter, also as the
    bakeoff counts.
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
    known = _known(loaded, train, format, scheme)
    whole = corpus
    corpus = _shorter(corpus, file, shorter_than)
    predictor = Predictor(loaded, decode=decode)
    add_words(predictor, dictionary)
    trust = predictor.trust if dictionary.lexicon else 0.0
    work = Evaluation(loaded, corpus, file, loose, trust, predictor.threshold)
    report = work.report(known)
    if by_length:
        report["by_sentence_length"] = list(work.by_length())
    if by_lexicon:
        report["by_lexicon_share"] = list(work.by_lexicon())
    how = ", counted as the original code does" if loose else ""
    how += (
        "" if predictor.threshold is None else f", decoded by spans above {predictor.threshold:.3f}"
    )
    if predictor.threshold is not None:
        report["threshold"] = predictor.threshold
    which = ""
    if shorter_than is not None:
        left_out = len(whole) - len(corpus)
        report["shorter_than"] = {
            "characters": shorter_than,
            "sentences": len(corpus),
            "left_out": left_out,
        }
        which = f" of fewer than {shorter_than:,} characters, {left_out:,} left out"
    title = f"{printable_path(file)}: {counted(len(corpus), 'sentence')}{which}{how}"
    if plot is not None:
        breakdown.draw(report, plot)
    show_scores(report, title, WORDS if words is None else words, as_json)
    if not as_json:
        show_tables(Console(), breakdown.tables(report))


def _shorter(corpus: Corpus, file: str, characters: int | None) -> Corpus:
    """The sentences with fewer characters, which are code points of the text as given."""
    if characters is None:
        return corpus
    kept = [at for at, sentence in enumerate(corpus.sentences) if len(sentence) < characters]
    if not kept:
        shortest = counted(min(map(len, corpus.sentences)), "character")
        raise InputError(
            f"--shorter-than {characters} leaves no sentence: the shortest has {shortest}",
            resolve(file),
        )
    return corpus.at(kept)


def _known(model: Model, train: str | None, format: str, scheme: str) -> Collection[str] | None:
    """The words that a segmenter was trained on, if they can be found."""
    from hanlattice.training.corpora import read_for, training_words

    if not model.indexer.cuts:
        if train is not None:
            raise InputError("--train is for a segmenter, and this model is none")
        return None
    if train is not None:
        return words_in(read_for([model], train, format, scheme).sentences)
    notes: list[str] = []
    known = training_words(model, notes)
    note(*notes)
    return known


class Evaluation:
    """The model's spans against those of the corpus."""

    def __init__(
        self,
        model: Model,
        corpus: Corpus,
        file: str,
        loose: bool,
        trust: float,
        threshold: Threshold,
    ) -> None:
        self.model = model
        self.corpus = corpus
        self.loose = loose
        self.trust = trust
        self.threshold = threshold
        self.examples = read_examples(model, corpus, file)
        self.found = self._decode(self.examples)

    def report(self, known: Collection[str] | None) -> dict[str, Any]:
        """All sentences together; `known` are the training words of a segmenter."""
        gold = [sentence.spans or () for sentence in self.corpus.sentences]
        report = _scores(self.corpus, self.found, self.loose).as_dict()
        if self.examples.segments is not None:
            report["segmentation"] = _hidden(gold, self.examples.segments)
        if self.model.indexer.cuts:
            texts = [sentence.text for sentence in self.corpus.sentences]
            report["segmentation"] = score_segmentation(texts, gold, self.found, known).as_dict()
        return report

    def by_length(self) -> Iterator[dict[str, Any]]:
        """A row for each class of sentences."""
        for name, places in breakdown.places_by_length(map(len, self.corpus.sentences)).items():
            part = _scores(
                self.corpus.at(places), [self.found[at] for at in places], self.loose
            ).overall
            yield {"characters": name, "sentences": len(places), **part.as_dict()}

    def by_lexicon(self) -> Iterator[dict[str, Any]]:
        """A row for each share of the words, drawn at random; those of a smaller share are among
        those of a larger.
        """
        words = self.model.indexer.word_count
        order = np.random.default_rng(0).permutation(words)
        for share in breakdown.SHARES:
            fewer = self.examples.with_words(order < round(share * words))
            found = self._decode(fewer) if share < 1 else self.found
            counts = {"words": round(share * words), "places": len(fewer.matches.word)}
            yield {
                "share": share,
                **counts,
                **_scores(self.corpus, found, self.loose).overall.as_dict(),
            }

    def _decode(self, examples: Examples) -> list[list[Span]]:
        from hanlattice.inference.decode import decode

        return decode(
            self.model.tagger,
            self.model.indexer,
            examples,
            trust=self.trust,
            threshold=self.threshold,
        )


def read_examples(model: Model, corpus: Corpus, file: str) -> Examples:
    """The corpus as the model reads it; an error names the file."""
    try:
        return model.indexer.examples(corpus.sentences)
    except InputError as error:
        raise InputError(error.message, error.path or resolve(file), error.line) from None


def _scores(corpus: Corpus, found: Sequence[Sequence[Span]], loose: bool) -> Report:
    """Spans against spans; if `loose`, the tags of the file against the tags of what was found."""
    scheme = corpus.scheme
    if not (loose and scheme and corpus.tags):
        return score([sentence.spans or () for sentence in corpus.sentences], found)
    tags = [
        spans_to_tags(spans, len(s), scheme)
        for spans, s in zip(found, corpus.sentences, strict=True)
    ]
    return score_tags(corpus.tags, tags, scheme, loose=True)


def _hidden(gold: Sequence[Sequence[Span]], words: CoveringWords) -> dict[str, int]:
    """How many gold spans a word model cannot find, since its segmenter cuts elsewhere; a note says
    so.
    """
    from hanlattice.features.indexer import count_crossing

    crossing = count_crossing(gold, words.counts, words.start, words.end)
    total = sum(map(len, gold))
    if total:
        note(
            f"segmentation: {crossing:,} of the {total:,} gold spans begin or end inside a word: "
            f"they count as missed (recall is at most {100 * (total - crossing) / total:.2f})"
        )
    return {"crossing": crossing, "gold": total}
