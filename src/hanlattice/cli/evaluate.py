"""`hanlattice evaluate`: a model against a labelled file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hanlattice.cli.console import find_named, note
from hanlattice.cli.score import show_scores
from hanlattice.cli.texts import Decode, Lexicons, Trust, add_words, check_trust
from hanlattice.data.download import resolve
from hanlattice.errors import InputError
from hanlattice.evaluation.ner import LONG, score, score_tags
from hanlattice.evaluation.segmentation import score_segmentation, words_in
from hanlattice.files import shown
from hanlattice.text.display import counted
from hanlattice.text.tags import spans_to_tags

if TYPE_CHECKING:
    from hanlattice.batch.batch import Examples, Words
    from hanlattice.data.corpus import Corpus
    from hanlattice.evaluation.ner import Report
    from hanlattice.models import Bar
    from hanlattice.models.folder import Model
    from hanlattice.text.spans import Span

WORDS = 20  # missed words that are shown of a segmenter


def evaluate(
    model: Annotated[str, typer.Argument(help="A bundled model, ner or seg, or a model's folder.")],
    file: Annotated[str, typer.Argument(help="The labelled file, or @name/file from `hanlattice data get`.")],
    loose: Annotated[bool, typer.Option("--loose", help="Count as the original lattice LSTM code does.")] = False,
    format: Annotated[
        str, typer.Option(help="auto, columns, segmented or jsonl; auto goes by the suffix, and then by the model.")
    ] = "auto",
    scheme: Annotated[str, typer.Option(help="auto, BIO, IOB1, BMES or BIOES.")] = "auto",
    train: Annotated[
        str | None,
        typer.Option(help="For a segmenter: the file of the training words; without it, the one it was trained on."),
    ] = None,
    words: Annotated[
        int | None,
        typer.Option(min=0, help=f"For a segmenter: how many of the most often missed words to show; default {WORDS}."),
    ] = None,
    decode: Decode = None,
    shorter_than: Annotated[
        int | None,
        typer.Option(min=1, help=f"Only sentences of fewer characters; the original lattice LSTM code has {LONG}."),
    ] = None,
    lexicon: Lexicons = None,
    trust: Trust = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads; more help only on an idle machine.")] = 1,
) -> None:
    """Precision, recall and F1 over exact spans: overall and by type; for a segmenter, also as the bakeoff counts."""
    from hanlattice.models.device import use_threads
    from hanlattice.models.folder import load_model
    from hanlattice.predict import Predictor
    from hanlattice.training.corpora import read_for

    check_trust(trust, lexicon)
    use_threads(threads)
    loaded = load_model(find_named(model), device)
    corpus = read_for([loaded], file, format, scheme)
    note(*corpus.notices, *filter(None, [loaded.other_segmenter()]))
    if loose and corpus.tags is None:
        raise InputError("--loose counts tags, and this file has spans; give columns", file)
    if words is not None and not loaded.indexer.cuts:
        raise InputError("--words is for a segmenter, and this model is none")
    known = _known(loaded, train, format, scheme)
    whole, corpus = corpus, _shorter(corpus, file, shorter_than)
    predictor = Predictor(loaded, decode=decode)
    add_words(predictor, lexicon, trust)
    report = _report(loaded, corpus, file, loose, known, predictor.trust if lexicon else 0.0, predictor.bar)
    how = ", counted as the original code does" if loose else ""
    how += "" if predictor.bar is None else f", decoded by spans above {predictor.bar:.3f}"
    which = ""
    if shorter_than is not None:
        left_out = len(whole) - len(corpus)
        report["shorter_than"] = {"characters": shorter_than, "sentences": len(corpus), "left_out": left_out}
        which = f" of fewer than {shorter_than:,} characters, {left_out:,} left out"
    title = f"{shown(file)}: {counted(len(corpus), 'sentence')}{which}{how}"
    show_scores(report, title, WORDS if words is None else words, as_json)


def _shorter(corpus: Corpus, file: str, characters: int | None) -> Corpus:
    """The sentences with fewer characters, which are code points of the text as given."""
    if characters is None:
        return corpus
    kept = [at for at, sentence in enumerate(corpus.sentences) if len(sentence) < characters]
    if not kept:
        shortest = counted(min(map(len, corpus.sentences)), "character")
        raise InputError(f"--shorter-than {characters} leaves no sentence: the shortest has {shortest}", resolve(file))
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


def _report(
    model: Model, corpus: Corpus, file: str, loose: bool, known: Collection[str] | None, trust: float, bar: Bar
) -> dict[str, Any]:
    """The model's spans against those of the corpus."""
    from hanlattice.models.decode import decode

    examples = read_examples(model, corpus, file)
    found = decode(model.tagger, model.indexer, examples, trust=trust, bar=bar)
    gold = [sentence.spans or () for sentence in corpus.sentences]
    report = _scores(corpus, gold, found, loose).as_dict()
    if examples.segments is not None:
        report["segmentation"] = _hidden(gold, examples.segments)
    if model.indexer.cuts:
        texts = [sentence.text for sentence in corpus.sentences]
        report["segmentation"] = score_segmentation(texts, gold, found, known).as_dict()
    return report


def read_examples(model: Model, corpus: Corpus, file: str) -> Examples:
    """The corpus as the model reads it; an error names the file."""
    try:
        return model.indexer.examples(corpus.sentences)
    except InputError as error:
        raise InputError(error.message, error.path or resolve(file), error.line) from None


def _scores(corpus: Corpus, gold: Sequence[Sequence[Span]], found: Sequence[Sequence[Span]], loose: bool) -> Report:
    """Spans against spans; if `loose`, the tags of the file against the tags of what was found."""
    scheme = corpus.scheme
    if not (loose and scheme and corpus.tags):
        return score(gold, found)
    tags = [spans_to_tags(spans, len(s), scheme) for spans, s in zip(found, corpus.sentences, strict=True)]
    return score_tags(corpus.tags, tags, scheme, loose=True)


def _hidden(gold: Sequence[Sequence[Span]], words: Words) -> dict[str, int]:
    """How many gold spans a word model cannot find, since its segmenter cuts elsewhere; a note says so."""
    from hanlattice.batch.indexer import count_crossing

    crossing, total = count_crossing(gold, words.counts, words.start, words.end), sum(map(len, gold))
    if total:
        note(
            f"segmentation: {crossing:,} of the {total:,} gold spans begin or end inside a word: "
            f"they count as missed (recall is at most {100 * (total - crossing) / total:.2f})"
        )
    return {"crossing": crossing, "gold": total}
