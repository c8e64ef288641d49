"""What a user's dictionary is worth to a model that finds entities and is not trained again.

    python benchmarks/ner_dictionary.py --model ner --test @msra/test.bmes [--train \
        @msra/train.bmes] \
        [--lexicon corpora/lexicon/thuocl/THUOCL_diming.txt …] [--sentences N] [--json OUT.json]

Entities: all words that are entities of the test corpus are taken out of the model, with their
vectors; then they come
back as a dictionary of words that the model has never had, with composed vectors: those that
were taken out, or all
entities of two characters or more. Likewise, with --train, those that are no entity of it; and
each --lexicon, on the
sentences in which a word of it stands. A model whose words were taken out learns to compose
vectors from those that are
left, so nothing of them comes back but the words themselves.

First a model without some words must read a sentence that has none of them exactly as before.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import script

from hanlattice.data.corpus import read_corpus
from hanlattice.data.download import resolve
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.evaluation.ner import Report, Score, score
from hanlattice.inference.device import use_threads
from hanlattice.inference.tables import NumpyTwoSources, VectorTable, WordTable
from hanlattice.predict import Predictor, load
from hanlattice.text.dictionary import read_words
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import fold
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span

Found = Sequence[Sequence[Span]]


@dataclass(frozen=True)
class Row:
    dictionary: str
    sentences: int
    lexicon: str
    taken: int  # words that the model lost
    added: int  # words that it has now and that it did not come with, or had lost
    report: Report
    named: Score  # of gold entities that are words of the dictionary, and of spans found that are


def _show(options: argparse.Namespace) -> dict[str, Any]:
    use_threads(1)
    rows = list(_rows(options))
    print(_table(rows))
    named: dict[str, Any] = {"model": Path(options.model).name, "test": Path(options.test).name}
    named |= {"train": options.train and Path(options.train).name}
    named |= {"lexicon": [path.name for path in options.lexicon]}
    table = [
        {**vars(row), "report": row.report.as_dict(), "named": row.named.as_dict()} for row in rows
    ]
    return {**named, "rows": table}


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    corpus = read_corpus(resolve(options.test)).sentences[: options.sentences]
    before = _tag(_load(options.model), corpus)
    entities = sorted(
        {word for sentence in corpus for word in _entities(sentence) if len(word) > 1}
    )
    yield from _dictionary(options.model, "entities", corpus, before, entities, twice=True)
    if options.train:
        seen = {
            word
            for sentence in read_corpus(resolve(options.train)).sentences
            for word in _entities(sentence)
        }
        new = [word for word in entities if word not in seen]
        yield from _dictionary(
            options.model, "entities that training lacks", corpus, before, new, twice=True
        )
    for path in options.lexicon:
        words = sorted({fold(word) for word in read_words(path) if len(word) > 1})
        finder = Lexicon(words)
        held = [at for at, sentence in enumerate(corpus) if finder.match_ids(sentence.folded)]
        if not held:
            raise InputError("no word of it stands in the test corpus", path)
        some = [corpus[at] for at in held]
        yield from _dictionary(options.model, path.stem, some, [before[at] for at in held], words)


def _dictionary(
    folder: str,
    name: str,
    gold: Sequence[Sentence],
    before: Found,
    words: Sequence[str],
    twice: bool = False,
) -> Iterator[Row]:
    """As the model came; without the words; with them again, composed; with what it lacked of them
    besides its own.
    """
    whole = _load(folder)
    lost = [word for word in words if word in whole.lexicon]

    def row(lexicon: str, found: Found, taken: int = 0, added: int = 0) -> Row:
        named = score(_named(gold, _gold(gold), words), _named(gold, found, words)).overall
        return Row(name, len(gold), lexicon, taken, added, score(_gold(gold), found), named)

    yield row("as it is", before)
    model = without(_load(folder), lost)
    after = _tag(model, gold)
    _check(gold, before, after, lost)
    yield row("without them", after, len(lost))
    if twice:
        model.lexicon.update(lost)
        yield row("without, then what was taken, composed", _tag(model, gold), len(lost), len(lost))
    model.lexicon.update(words)
    yield row("without, then all of them, composed", _tag(model, gold), len(lost), len(words))
    whole.lexicon.update(words)
    yield row("as it is, and what it lacks, composed", _tag(whole, gold), 0, len(words) - len(lost))


def without(predictor: Predictor, words: Iterable[str]) -> Predictor:
    """The same model as if it had never had these words: neither they nor their vectors are in
    it.
    """
    model = predictor.model
    lexicon = predictor.lexicon
    table = model.tagger.lexicon
    gone = {lexicon.id(word) for word in words}
    assert table is not None
    # A word that stands there in two scripts is found as one of them, and a new lexicon has it
    # once.
    keep = [
        at for at, word in enumerate(lexicon.words) if at not in gone and lexicon.id(word) == at
    ]
    left = WordTable(
        VectorTable(table.vectors(np.array(keep))),
        VectorTable(np.empty((0, table.dim), dtype=np.float32)),
    )
    if isinstance(model.tagger.words, NumpyTwoSources):
        model.tagger.words.words = left
    else:
        model.tagger.words = left
    smaller = Lexicon(lexicon.words[at] for at in keep)
    smaller.mark_baseline()
    # Its composer has learnt from the words that are gone, so it goes too.
    return Predictor(replace(model, indexer=replace(model.indexer, lexicon=smaller), composer=None))


def _load(folder: str) -> Predictor:
    predictor = load(folder)
    if predictor.model.indexer.cuts:
        raise InputError(
            "this model cuts text into words; benchmarks/dictionary.py is for it", folder
        )
    return predictor


def _tag(predictor: Predictor, sentences: Sequence[Sentence]) -> Found:
    predictor.limit = max(
        map(len, sentences), default=1
    )  # each is read whole, as `hanlattice evaluate` does
    return [
        document.spans
        for document in predictor.pipe([sentence.text for sentence in sentences], scores=False)
    ]


def _check(gold: Sequence[Sentence], before: Found, after: Found, lost: Sequence[str]) -> None:
    """A sentence in which none of the lost words stands must be read as it was."""
    finder = Lexicon(lost)
    for sentence, old, new in zip(gold, before, after, strict=True):
        if old != new and not finder.match_ids(sentence.folded):
            raise HanlatticeError(
                f"a sentence without any of the words was read otherwise: {sentence.text}"
            )


def _entities(sentence: Sentence) -> Iterator[str]:
    return (sentence.folded[span.start : span.end].strip() for span in sentence.spans or ())


def _gold(sentences: Sequence[Sentence]) -> Found:
    return [sentence.spans or () for sentence in sentences]


def _named(sentences: Sequence[Sentence], spans: Found, words: Sequence[str]) -> Found:
    """Those spans that are words of the dictionary."""
    own = set(words)
    return [
        [span for span in row if sentence.folded[span.start : span.end] in own]
        for sentence, row in zip(sentences, spans, strict=True)
    ]


def _table(rows: Sequence[Row]) -> str:
    lines = [
        "| dictionary | sentences | lexicon | taken out | added | P | R | F1 | of its words: "
        "P | R | F1 |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        scores = (row.report.overall, row.named)
        figures = " | ".join(
            f"{100 * x:.2f}" for each in scores for x in (each.precision, each.recall, each.f1)
        )
        counts = f"{row.sentences:,} | {row.lexicon} | {row.taken:,} | {row.added:,}"
        lines.append(f"| {row.dictionary} | {counts} | {figures} |")
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = script.make_parser(__doc__)
    parser.add_argument(
        "--model",
        required=True,
        help="the name or folder of a model that finds entities by a lexicon",
    )
    parser.add_argument(
        "--test", required=True, help="the labelled file, or @name/file from `hanlattice data get`"
    )
    parser.add_argument(
        "--train",
        help="what the model was trained on; the names that it lacks are another dictionary",
    )
    parser.add_argument(
        "--sentences", type=int, help="how many of them, the first ones; without it, all"
    )
    parser.add_argument(
        "--lexicon",
        type=Path,
        action="append",
        default=[],
        help="a dictionary of the text's domain",
    )
    return parser.parse_args()


if __name__ == "__main__":
    script.run(_show, _options())
