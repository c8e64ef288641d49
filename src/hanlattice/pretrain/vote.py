"""Labels for raw text by a vote of several models, as training data for one model.

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

SHORTEST, LONGEST = 8, 150  # characters of a sentence that is used
SHARED = 13  # a sentence with so many consecutive characters of a corpus that is kept apart is left out
_HAN = re.compile(r"[\u3400-\u9fff]")
_HAN_SHARE = 0.6  # of the characters of a sentence, at least

Key = tuple[int, int, str]


class VoteText(NamedTuple):
    """The text to tag, and the corpora that it must not overlap."""

    files: tuple[str, ...]
    apart: tuple[str, ...] = ()  # corpora for choosing a model (dev) or testing it
    characters: int = 0  # drawn at random from each file, up to the end of a sentence; 0 is all
    seed: int = 1


class VoteResult(NamedTuple):
    sentences: int
    characters: int
    spans: int
    agreed: int  # sentences in which all models find the same spans


def vote(
    folders: Sequence[str | Path], text: VoteText, out: Path, device: str = "cpu", listen: Listener = ignore
) -> VoteResult:
    """Write every sentence of the text with the spans that more than half of the models find, as JSONL."""
    models = [find_model(folder) for folder in folders]
    if len(models) < 2:
        raise InputError(f"a vote needs two models or more, not {len(models)}")
    for at, model in enumerate(models):
        if model.resolve() in (other.resolve() for other in models[:at]):
            raise InputError("this model is given twice, but has only one vote", model)
    parts = (file for model in models for file in model_files(model))
    check_output(out, [*map(resolve, (*text.files, *text.apart)), *parts])
    with writing(out) as file:  # an output that cannot be written is reported now, not after hours of work
        taggers = [load(model, device) for model in models]
        _check_labels(taggers, models)
        lines = draw(text)
        votes = _votes(taggers, lines, listen)
        found = [elected(each, len(taggers)) for each in votes]
        for line, spans in zip(lines, found, strict=True):
            file.write(to_json_line(line, spans) + "\n")
    agreed = sum(all(count == len(taggers) for count in each.values()) for each in votes)
    return VoteResult(len(lines), sum(map(len, lines)), sum(map(len, found)), agreed)


def _votes(taggers: Sequence[Predictor], lines: Sequence[str], listen: Listener) -> list[Counter[Key]]:
    """For each line, how many models find each span."""
    votes = [Counter[Key]() for _ in lines]
    for nth, tagger in enumerate(taggers, start=1):
        for at, document in enumerate(tagger.pipe(lines, scores=False), start=1):
            votes[at - 1].update((span.start, span.end, span.label) for span in document.spans)
            if at % 1000 == 0 or at == len(lines):
                listen({"event": "voter", "number": nth, "of": len(taggers), "done": at, "size": len(lines)})
    return votes


def elected(votes: Counter[Key], voters: int) -> list[Span]:
    """The spans that more than half of the voters find, in order. Two that overlap cannot both have a majority."""
    return [Span(*key) for key, count in sorted(votes.items()) if 2 * count > voters]


def draw(text: VoteText) -> list[str]:
    """The usable sentences of all files, each once, in an order that depends on the seed."""
    chance = random.Random(text.seed)
    apart = ngrams(fold(sentence.text) for name in text.apart for sentence in read_corpus(resolve(name)).sentences)
    drawn: dict[str, None] = {}
    for name in text.files:
        lines, size = list(_lines(name)), 0
        chance.shuffle(lines)
        for sentence in (sentence for line in lines for sentence in sentences(line)):
            if text.characters and size >= text.characters:
                break
            if sentence not in drawn and is_usable(sentence, apart):
                drawn[sentence] = None
                size += len(sentence)
    if not drawn:
        raise InputError(
            f"no sentence can be used: expected {SHORTEST} to {LONGEST} characters, mostly Chinese", text.files[0]
        )
    order = list(drawn)
    chance.shuffle(order)
    return order


def is_usable(sentence: str, apart: Collection[str] = ()) -> bool:
    """Whether it is a Chinese sentence of suitable length that shares no long n-gram with what is kept apart."""
    if not SHORTEST <= len(sentence) <= LONGEST or len(_HAN.findall(sentence)) <= _HAN_SHARE * len(sentence):
        return False
    return not apart or ngrams([fold(sentence)]).isdisjoint(apart)


def ngrams(folded: Iterable[str]) -> set[str]:
    """All runs of `SHARED` characters."""
    return {line[at : at + SHARED] for line in folded for at in range(len(line) - SHARED + 1)}


def _lines(name: str) -> Iterator[str]:
    """The paragraphs of raw text, or the sentences of a corpus, whose labels are ignored."""
    path = resolve(name)
    if suffix_format(path):
        return (sentence.text for sentence in read_corpus(path).sentences)
    return iter(RawText([path]))


def _check_labels(taggers: Sequence[Predictor], models: Sequence[Path]) -> None:
    """All of them find entities, with the same labels."""
    first = set(labels_of(taggers[0].model.indexer.tags))
    for tagger, model in zip(taggers, models, strict=True):
        if tagger.model.indexer.cuts:
            raise InputError("this model segments text into words; a vote needs models of entities", model)
        if (labels := set(labels_of(tagger.model.indexer.tags))) != first:
            named = [", ".join(sorted(each)) for each in (labels, first)]
            raise InputError(
                f"this model finds {named[0]}, and {models[0]} finds {named[1]}: no vote is possible", model
            )
