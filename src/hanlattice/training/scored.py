"""The scores that a finished model carries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hanlattice.config import Config
from hanlattice.errors import InputError
from hanlattice.evaluation.ner import score
from hanlattice.evaluation.segmentation import cut, score_segmentation, words_in
from hanlattice.models.decode import decode
from hanlattice.models.folder import Model
from hanlattice.text.sentence import Sentence
from hanlattice.training.corpora import PARTS, Corpora


def check_cut(config: Config, corpora: Corpora) -> None:
    """What is not cut into words is told, with its file, before a segmenter is trained, and not at the end."""
    for name in PARTS:
        for at, sentence in enumerate(getattr(corpora, name), start=1):
            try:
                cut(sentence.text, sentence.spans or ())
            except InputError as error:
                message = f"a segmenter learns from words, and sentence {at} of {name} is not cut into words: {error}"
                raise InputError(message, getattr(config.data, name) or config.data.train) from None


def complete_scores(model: Model, corpora: Corpora) -> dict[str, Any]:
    """The model's scores with those that it has not yet: test, and of a segmenter all that counts words.

    What it learnt from are the sentences of train that were not held out.
    """
    scores = dict(model.scores)
    known = words_in(corpora.train) if model.indexer.cuts else None
    for part, sentences in (("dev", corpora.dev), ("test", corpora.test)):
        if sentences and not _is_complete(scores.get(part), known):
            scores[part] = {**_scored(model, sentences, known), **scores.get(part, {})}
    return scores


def score_again(model: Model, test: Sequence[Sentence], known: Collection[str] | None) -> dict[str, Any]:
    """The model's scores with those of test anew; `known` are the words that a segmenter learnt from."""
    return {**model.scores, "test": _scored(model, test, known)}


def _is_complete(scores: Mapping[str, Any] | None, known: Collection[str] | None) -> bool:
    return scores is not None and (known is None or "segmentation" in scores)


def _scored(model: Model, sentences: Sequence[Sentence], known: Collection[str] | None) -> dict[str, Any]:
    """Exact spans; of a segmenter also its words, but for those it misses, which `hanlattice evaluate` lists."""
    model.tagger.eval()
    found = decode(model.tagger, model.indexer, model.indexer.examples(sentences))
    gold = [sentence.spans or () for sentence in sentences]
    report = score(gold, found).as_dict()
    if model.indexer.cuts:
        texts = [sentence.text for sentence in sentences]
        report["segmentation"] = score_segmentation(texts, gold, found, known).as_dict(words=0)
    return report
