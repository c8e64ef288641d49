"""What a user's dictionary is worth to a segmenter that is not trained again: how many wrong
cuts it mends.

    python benchmarks/dictionary.py --model FOLDER --train corpora/cws/pku/train.txt \
        --holdout 0.1 --sentences 700 [--lexicon FILE …] [--json OUT.json]

The gold is what the training held out of its file (the bundled `seg` held out nothing): the
first sentences of it.
Three dictionaries are added, one after the other, each to the model as it came, with several
values of `trust`:

- missed: the gold words that the model cuts wrongly, all of them;
- unseen: the gold words that training lacks, cut wrongly or not, as a dictionary of the domain
  would have them;
- given: the words of --lexicon, which have nothing to do with this text: what they break.

First the model must leave every sentence without such a word exactly as it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import script

from hanlattice.data.corpus import hold_out
from hanlattice.data.formats.segmented import read_segmented
from hanlattice.errors import HanlatticeError
from hanlattice.evaluation.ner import Score, score
from hanlattice.evaluation.segmentation import words_in
from hanlattice.inference.device import use_threads
from hanlattice.predict import Predictor, load
from hanlattice.text.dictionary import read_words
from hanlattice.text.normalize import fold
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span

TRUSTS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
Found = Sequence[Sequence[Span]]


@dataclass(frozen=True)
class Row:
    dictionary: str
    words: int
    trust: float
    overall: Score
    wrong: int  # tokens of its words that were cut wrongly before
    mended: int


def _show(options: argparse.Namespace) -> dict[str, Any]:
    use_threads(1)
    rows = list(_rows(options))
    print(_table(rows))
    named = {
        "model": Path(options.model).name,
        "train": options.train.name,
        "sentences": options.sentences,
    }
    named |= {"holdout": options.holdout, "lexicon": [path.name for path in options.lexicon]}
    table = [{**vars(row), "overall": row.overall.as_dict()} for row in rows]
    return {**named, "rows": table}


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    learnt, held = hold_out(read_segmented(options.train).sentences, options.holdout)
    gold = held[: options.sentences]
    before = _cut(load(options.model), gold)
    yield Row("none", 0, 0.0, _score(gold, before), 0, 0)
    known = set(map(fold, words_in(learnt)))
    dictionaries = {"missed": _missed(gold, before), "unseen": sorted(_long_words(gold) - known)}
    if options.lexicon:
        dictionaries["given"] = sorted(
            {word for file in options.lexicon for word in read_words(file)}
        )
    for name, words in dictionaries.items():
        segmenter = load(options.model)
        own = {fold(word) for word in words}
        segmenter.lexicon.update(words)
        for trust in TRUSTS:
            segmenter.trust = trust
            after = _cut(segmenter, gold)
            _check(gold, before, after, segmenter)
            wrong = [
                (at, span) for at, span in _wrong(gold, before) if _word(gold[at], span) in own
            ]
            mended = sum((span.start, span.end) in _places(after[at]) for at, span in wrong)
            yield Row(name, len(words), trust, _score(gold, after), len(wrong), mended)


def _cut(segmenter: Predictor, sentences: Sequence[Sentence]) -> Found:
    return [
        document.spans
        for document in segmenter.pipe([sentence.text for sentence in sentences], scores=False)
    ]


def _missed(gold: Sequence[Sentence], found: Found) -> list[str]:
    return sorted({_word(gold[at], span) for at, span in _wrong(gold, found)})


def _long_words(gold: Sequence[Sentence]) -> set[str]:
    return {
        _word(sentence, span)
        for sentence in gold
        for span in sentence.spans or ()
        if span.end - span.start > 1
    }


def _wrong(gold: Sequence[Sentence], found: Found) -> Iterator[tuple[int, Span]]:
    """Gold words of two characters or more that were not found, with their sentences."""
    for at, (sentence, spans) in enumerate(zip(gold, found, strict=True)):
        places = _places(spans)
        for span in sentence.spans or ():
            if span.end - span.start > 1 and (span.start, span.end) not in places:
                yield at, span


def _check(gold: Sequence[Sentence], before: Found, after: Found, segmenter: Predictor) -> None:
    """A sentence in which no word of the user's own stands must be cut as it was."""
    lexicon = segmenter.lexicon
    for sentence, old, new in zip(gold, before, after, strict=True):
        if (
            old != new
            and not lexicon.is_user_word(lexicon.match_many([sentence.folded]).word).any()
        ):
            raise HanlatticeError(
                f"a sentence without any of the words was cut otherwise: {sentence.text}"
            )


def _places(spans: Sequence[Span]) -> set[tuple[int, int]]:
    return {(span.start, span.end) for span in spans}


def _word(sentence: Sentence, span: Span) -> str:
    return sentence.folded[span.start : span.end]


def _score(gold: Sequence[Sentence], found: Found) -> Score:
    return score([sentence.spans or () for sentence in gold], found).overall


def _table(rows: Sequence[Row]) -> str:
    lines = [
        "| dictionary | words | trust | P | R | F1 | wrong before | whole now |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        figures = " | ".join(
            f"{100 * x:.2f}" for x in (row.overall.precision, row.overall.recall, row.overall.f1)
        )
        share = f"{row.mended} ({100 * row.mended / row.wrong:.0f} %)" if row.wrong else "–"
        lines.append(
            f"| {row.dictionary} | {row.words:,} | {row.trust:g} | {figures} | "
            f"{row.wrong or '–'} | {share} |"
        )
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = script.make_parser(__doc__)
    parser.add_argument(
        "--model", required=True, help="the name or folder of a segmenter with a lexicon"
    )
    parser.add_argument(
        "--train", type=Path, required=True, help="the segmented file that it was trained on"
    )
    parser.add_argument(
        "--holdout", type=float, default=0.1, help="the share of it that the training held out"
    )
    parser.add_argument(
        "--sentences", type=int, default=700, help="how many of those, the first ones"
    )
    parser.add_argument(
        "--lexicon", type=Path, action="append", default=[], help="an unrelated dictionary"
    )
    return parser.parse_args()


if __name__ == "__main__":
    script.run(_show, _options())
