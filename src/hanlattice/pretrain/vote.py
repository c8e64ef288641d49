"""Text without labels, tagged by several models: spans that most of them find are what one model can learn from.

Several models seldom make the same mistake, so a new one that learns from their votes gets better than any of them.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hanlattice.data.corpus import read_corpus, suffix_format
from hanlattice.data.download import resolve
from hanlattice.data.jsonl import to_json_line
from hanlattice.data.raw import RawText
from hanlattice.errors import InputError
from hanlattice.events import Listener, ignore
from hanlattice.files import check_output, writing
from hanlattice.models import find_model, model_files
from hanlattice.predict import Predictor, load
from hanlattice.text.boundaries import sentences
from hanlattice.text.normal import fold
from hanlattice.text.spans import Span
from hanlattice.text.tags import labels_of

SHORTEST, LONGEST = 8, 150  # characters of a sentence that is taken
SHARED = 13  # characters in a row that a sentence may not have in common with what it must stay apart from
_HAN = re.compile(r"[\u3400-\u9fff]")
_MOSTLY = 0.6  # of a sentence's characters are Han

Key = tuple[int, int, str]


class Text(NamedTuple):
    """What to tag, and of what it must have nothing."""

    files: tuple[str, ...]
    apart: tuple[str, ...] = ()  # corpora that will be used to choose or to test
    characters: int = 0  # of each file, drawn at random, the last sentence whole; 0 is all
    seed: int = 1


class Result(NamedTuple):
    sentences: int
    characters: int
    spans: int
    agreed: int  # sentences in which all models find the same


def vote(
    folders: Sequence[str | Path], text: Text, out: Path, device: str = "cpu", listen: Listener = ignore
) -> Result:
    """Write every sentence of the text with the spans that more than half of the models find, as JSONL."""
    models = [find_model(folder) for folder in folders]
    _check_voters(models)
    parts = (file for model in models for file in model_files(model))
    check_output(out, [*map(resolve, (*text.files, *text.apart)), *parts])
    with writing(out) as file:  # one that cannot be written is told now, and not after hours of work
        taggers = [load(model, device) for model in models]
        _check_labels(taggers, models)
        lines = draw(text)
        votes = _votes(taggers, lines, listen)
        found = [elected(each, len(taggers)) for each in votes]
        for line, spans in zip(lines, found, strict=True):
            file.write(to_json_line(line, spans) + "\n")
    agreed = sum(all(count == len(taggers) for count in each.values()) for each in votes)
    return Result(len(lines), sum(map(len, lines)), sum(map(len, found)), agreed)


def _votes(taggers: Sequence[Predictor], lines: Sequence[str], listen: Listener) -> list[Counter[Key]]:
    """Of each line how many find each span."""
    votes = [Counter[Key]() for _ in lines]
    for nth, tagger in enumerate(taggers, start=1):
        for at, document in enumerate(tagger.pipe(lines, scores=False), start=1):
            votes[at - 1].update((span.start, span.end, span.label) for span in document.spans)
            if at % 1000 == 0 or at == len(lines):
                listen({"event": "voter", "number": nth, "of": len(taggers), "done": at, "size": len(lines)})
    return votes


def elected(votes: Counter[Key], voters: int) -> list[Span]:
    """What more than half of the voters find, from left to right. Two that overlap cannot both have so many."""
    return [Span(*key) for key, count in sorted(votes.items()) if 2 * count > voters]


def draw(text: Text) -> list[str]:
    """The sentences of all files that can serve, each once, in an order by the seed."""
    chance = random.Random(text.seed)
    apart = stretches(fold(sentence.text) for name in text.apart for sentence in read_corpus(resolve(name)).sentences)
    drawn: dict[str, None] = {}
    for name in text.files:
        lines, size = list(_lines(name)), 0
        chance.shuffle(lines)
        for sentence in (sentence for line in lines for sentence in sentences(line)):
            if text.characters and size >= text.characters:
                break
            if sentence not in drawn and serves(sentence, apart):
                drawn[sentence] = None
                size += len(sentence)
    if not drawn:
        raise InputError(f"no sentence can serve: of {SHORTEST} to {LONGEST} characters, mostly Chinese", text.files[0])
    order = list(drawn)
    chance.shuffle(order)
    return order


def serves(sentence: str, apart: Collection[str] = ()) -> bool:
    """Whether it is a Chinese sentence of a fit length that shares no long stretch with what is kept apart."""
    if not SHORTEST <= len(sentence) <= LONGEST or len(_HAN.findall(sentence)) <= _MOSTLY * len(sentence):
        return False
    return not apart or stretches([fold(sentence)]).isdisjoint(apart)


def stretches(folded: Iterable[str]) -> set[str]:
    """Everything of so many characters in a row."""
    return {line[at : at + SHARED] for line in folded for at in range(len(line) - SHARED + 1)}


def _lines(name: str) -> Iterator[str]:
    """The paragraphs of raw text, or the sentences of a corpus, whose labels are not looked at."""
    path = resolve(name)
    if suffix_format(path):
        return (sentence.text for sentence in read_corpus(path).sentences)
    return iter(RawText([path]))


def _check_voters(models: Sequence[Path]) -> None:
    if len(models) < 2:
        raise InputError(f"a vote needs two models or more, and {len(models)} came")
    for at, model in enumerate(models):
        if model.resolve() in (other.resolve() for other in models[:at]):
            raise InputError("this model is given twice, and has one vote", model)


def _check_labels(taggers: Sequence[Predictor], models: Sequence[Path]) -> None:
    """All of them find entities, and call them by the same names."""
    first = set(labels_of(taggers[0].model.indexer.tags))
    for tagger, model in zip(taggers, models, strict=True):
        if tagger.model.indexer.cuts:
            raise InputError("this model cuts text into words; a vote is on entities", model)
        if (labels := set(labels_of(tagger.model.indexer.tags))) != first:
            named = [", ".join(sorted(each)) for each in (labels, first)]
            raise InputError(
                f"this model finds {named[0]}, and {models[0]} finds {named[1]}: no vote is possible", model
            )
