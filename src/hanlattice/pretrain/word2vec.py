"""word2vec by gensim, epoch by epoch: the only file that knows gensim."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hanlattice.errors import InputError
from hanlattice.extras import extra, quiet
from hanlattice.pretrain.kinds import Unit
from hanlattice.pretrain.sentences import Sentences
from hanlattice.pretrain.vector_state import State

_FIRST, _LAST = 0.025, 0.0001  # word2vec's learning rate falls from the one to the other


@dataclass(frozen=True)
class Settings:
    """What decides the vectors, but for the text."""

    unit: Unit = Unit.char
    dim: int = 100
    window: int = 5
    negative: int = 5
    min_count: int = 5
    epochs: int = 5
    sample: float = 1e-3
    cbow: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("dim", "window", "negative", "min_count", "epochs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, not {getattr(self, name)}")
        if not 0 <= self.sample < 1:
            raise InputError(f"sample must be 0 (keep everything) or a share below 1, not {self.sample}")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"seed must be from 0 to {2**32 - 1}, not {self.seed}")


def train_epochs(sentences: Sentences, settings: Settings, state: State, threads: int) -> Iterator[dict[str, Any]]:
    """Do what is left of the epochs; after each the state has its matrices, and what is yielded its speed.

    Each has its share of the falling rate and its own random numbers, so that none needs the one before.
    """
    model = _model(settings, state, threads)
    fall = (_FIRST - _LAST) / settings.epochs
    for epoch in range(state.epoch, settings.epochs):
        start = time.perf_counter()
        model.random = np.random.RandomState([settings.seed, epoch])
        sentences.progress.number = epoch  # of the pass before
        _train(model, sentences, _FIRST - epoch * fall, _FIRST - (epoch + 1) * fall)
        seconds = time.perf_counter() - start
        state.take(model.wv.vectors, model.syn1neg, epoch + 1, seconds)
        yield {"epoch": epoch + 1, "seconds": seconds, "rate": state.units / seconds}


def _model(settings: Settings, state: State, threads: int) -> Any:
    """gensim's model over this vocabulary, in this order, with the weights of a stopped run if there are any."""
    with quiet("gensim"):
        model = extra("gensim", "models.word2vec").Word2Vec(
            vector_size=settings.dim, window=settings.window, negative=settings.negative, sg=int(not settings.cbow),
            sample=settings.sample, seed=settings.seed, min_count=1, sorted_vocab=0, workers=threads,
        )  # fmt: skip
        counts = dict(zip(state.words, state.counts.tolist(), strict=True))
        model.build_vocab_from_freq(counts, corpus_count=state.sentences)
    if state.inputs is not None:
        model.wv.vectors[:], model.syn1neg[:] = state.inputs, state.outputs
    return model


def _train(model: Any, sentences: Sentences, first: float, last: float) -> None:
    """One epoch. gensim reads in a thread and would wait for ever after an error there, so it is raised here."""
    errors: list[Exception] = []
    try:
        with quiet("gensim"):
            model.train(
                _Harmless(sentences, errors), total_examples=model.corpus_count, epochs=1, start_alpha=first,
                end_alpha=last,
            )  # fmt: skip
    finally:
        sentences.stopped = True
    if errors:
        raise errors[0]


class _Harmless:
    """Ends at an error, which it keeps."""

    def __init__(self, sentences: Iterable[list[str]], errors: list[Exception]) -> None:
        self._sentences, self._errors = sentences, errors

    def __iter__(self) -> Iterator[list[str]]:
        try:
            yield from self._sentences
        except Exception as error:
            self._errors.append(error)
