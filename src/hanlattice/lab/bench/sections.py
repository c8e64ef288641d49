"""What is timed: the encoder, training steps, and raw text to spans, also by length and model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from hanlattice.checkpoint.folder import Model
from hanlattice.config import Config, TrainConfig
from hanlattice.document import Document
from hanlattice.features import Batch, Examples, Indexer
from hanlattice.features.prefetch import prefetch
from hanlattice.lab.bench.inputs import (
    ALPHABET,
    CHARACTER,
    MODELS,
    OUTSIDE,
    SCHEME,
    TAGS,
    BenchSettings,
    make_examples,
    make_lexicon,
    make_tagger,
    make_texts,
)
from hanlattice.lab.bench.timing import medians, peak_bytes
from hanlattice.nn.lattice_lstm import LatticeLSTM
from hanlattice.nn.tagger import TorchTagger
from hanlattice.nn.to_device import to_device
from hanlattice.ops.lattice_lstm import runnable
from hanlattice.predict import Predictor
from hanlattice.text.lattice import Lattice
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.vocab import Vocab
from hanlattice.training.loop import PREFETCH, train_step
from hanlattice.training.optim import make_optimizer
from hanlattice.training.processes import ProcessGroup
from hanlattice.training.step import Training

PLAIN = "nn.LSTM"
SENTENCES = 2048  # that training batches are taken from
SMALL_BATCH = 32  # sentences of a training step where their length changes
# The share of characters that are no span by themselves: random weights would find far too many
# spans.
QUIET = 0.95

Row = dict[str, Any]


# ---- the encoder alone, in both directions, beside torch.nn.LSTM of the same B, T, D and H


class Encoder(NamedTuple):
    backend: str  # its full name
    module: nn.Module
    call: Callable[[], Tensor]
    inputs: list[Tensor]  # what gets a gradient

    def forward(self) -> None:
        with torch.no_grad():
            self.call()

    def both(self, grad: Tensor) -> None:
        torch.autograd.grad(self.call(), self.inputs, grad)


def measure_encoder(
    settings: BenchSettings, device: torch.device, tell: Callable[[str], None]
) -> list[Row]:
    """Return a row for each H, B, direction of work and encoder; `ratio` is to nn.LSTM's time."""
    rows: list[Row] = []
    for hidden in settings.hidden:
        for batch in settings.batches:
            tell(f"encoder, H = {hidden}, B = {batch}")
            rows += _encoder_cell(settings, hidden, batch, device)
    return rows


def _encoder_cell(
    settings: BenchSettings, hidden: int, batch: int, device: torch.device
) -> Iterator[Row]:
    torch.manual_seed(0)
    B = batch
    T = settings.length
    D = settings.dim
    lattice = make_examples(settings, B).batch(range(B)).lattice
    x = torch.randn(B, T, D, device=device, requires_grad=True)
    word_x = torch.randn(len(lattice), D, device=device, requires_grad=True)
    grad = torch.randn(B, T, 2 * hidden, device=device)  # what comes back from above
    encoders = _make_encoders(
        x, word_x, lattice, hidden, batch == 1 and hidden == settings.hidden[0]
    )
    for what, trains in (("forward", False), ("forward + backward", True)):
        for encoder in encoders.values():
            encoder.module.train(trains)
        works = {
            name: partial(each.both, grad) if trains else each.forward
            for name, each in encoders.items()
        }
        times = medians(works, settings.seconds, device)
        for name, timing in times.items():
            yield {
                "hidden": hidden,
                "batch": batch,
                "what": what,
                "encoder": name,
                "backend": encoders[name].backend,
                **timing._asdict(),
                "ratio": timing.seconds / times[PLAIN].seconds,
                "sentences_per_second": batch / timing.seconds,
                "peak_bytes": peak_bytes(works[name], device) if trains else None,
            }


def _make_encoders(
    x: Tensor, word_x: Tensor, lattice: Lattice, hidden: int, with_reference: bool
) -> dict[str, Encoder]:
    """Return nn.LSTM, and the lattice LSTM with every backend that runs; the reference if asked."""
    plain = nn.LSTM(x.shape[2], hidden, batch_first=True, bidirectional=True).to(x.device)
    found = {PLAIN: Encoder(PLAIN, plain, lambda: plain(x)[0], [x, *plain.parameters()])}
    for name, full in runnable(x).items():
        if name != "reference" or with_reference:
            ours = LatticeLSTM(x.shape[2], word_x.shape[1], hidden, backend=name).to(x.device)
            found[name] = Encoder(
                full, ours, partial(ours, x, word_x, lattice), [x, word_x, *ours.parameters()]
            )
    return found


# ---- whole training steps beside a character LSTM: a new batch, loss with CRF, backward, clipping,
# AdamW


def measure_training(
    settings: BenchSettings, device: torch.device, tell: Callable[[str], None]
) -> list[Row]:
    """Return a row for each H, B and model; `ratio` is to the character LSTM with the same CRF.

    The lattice model has its own choice of backend and, if that is another, `batched`.
    """
    names = runnable(torch.empty(0, device=device))
    models = [CHARACTER, *(name for name in ("auto", "batched") if name in names)]
    rows: list[Row] = []
    for hidden in settings.hidden:
        for batch in settings.batches:
            tell(f"training step, H = {hidden}, B = {batch}")
            rows += _training_cell(settings, hidden, batch, models, device)
    return rows


def _training_cell(
    settings: BenchSettings, hidden: int, batch: int, models: list[str], device: torch.device
) -> Iterator[Row]:
    """`ratio` is to the first model's time."""
    with ExitStack() as stack:
        works: dict[str, Callable[[], None]] = {}
        for name in models:
            examples = make_examples(settings, SENTENCES, words=name != CHARACTER)
            tagger = make_tagger(settings.dim, hidden, name).to(device).train()
            batches = stack.enter_context(closing(_new_batches(tagger, examples, batch, device)))
            training = Training(tagger, make_optimizer(tagger, TrainConfig()), TrainConfig().clip)
            works[name] = partial(_step, tagger, training, batches)
        times = medians(works, settings.seconds, device)
    for name, timing in times.items():
        yield {
            "hidden": hidden,
            "batch": batch,
            "model": name,
            **timing._asdict(),
            "ratio": timing.seconds / times[models[0]].seconds,
            "sentences_per_second": batch / timing.seconds,
        }


def _new_batches(
    tagger: TorchTagger, examples: Examples, batch: int, device: torch.device
) -> Generator[Batch]:
    """Yield batches without end, as the training loop makes them: on a GPU, ahead of their turn."""
    rng = np.random.default_rng(0)
    places = (rng.integers(0, len(examples), size=batch) for _ in count())
    return prefetch(
        lambda some: tagger.prepare(to_device(examples.batch(some), device)),
        places,
        PREFETCH[device.type][0],
    )


def _step(tagger: TorchTagger, training: Training, batches: Iterator[Batch]) -> None:
    train_step(training, tagger, [next(batches)], ProcessGroup(training.device.type))


# ---- raw text to spans, by `Predictor.pipe`, with a made vocabulary, a made lexicon and random
# weights


def measure_tagging(
    settings: BenchSettings, device: torch.device, tell: Callable[[str], None]
) -> list[Row]:
    """Return a row for each H and model; `ratio` is to the character model."""
    lexicon = make_lexicon(settings)
    texts = make_texts(settings, device)
    rows = list[Row]()
    for hidden in settings.hidden:
        tell(f"raw text to spans, H = {hidden}")
        rows += _tagging_cell(settings, hidden, [CHARACTER, "auto"], lexicon, texts, device)
    return rows


def _tagging_cell(
    settings: BenchSettings,
    hidden: int,
    models: list[str],
    lexicon: Lexicon,
    texts: list[str],
    device: torch.device,
) -> Iterator[Row]:
    """`ratio` is to the first model's time."""
    characters = sum(map(len, texts))
    words = int(lexicon.match_many(texts).counts.sum())
    made = {
        name: _make_predictor(settings.dim, hidden, name, lexicon, texts[:32], device)
        for name in models
    }
    works = {name: partial(_tag_all, model, texts) for name, model in made.items()}
    found = {name: work() for name, work in works.items()}  # and whatever compiles has compiled
    times = medians(works, settings.seconds)
    for name, timing in times.items():
        yield {
            "hidden": hidden,
            "model": name,
            **timing._asdict(),
            "ratio": timing.seconds / times[models[0]].seconds,
            "texts": len(texts),
            "characters": characters,
            "words": 0 if name == CHARACTER else words,
            "spans": sum(len(document.spans) for document in found[name]),
            "sentences_per_second": len(texts) / timing.seconds,
            "characters_per_second": characters / timing.seconds,
        }


def _tag_all(tagger: Predictor, texts: list[str]) -> list[Document]:
    """Tag all texts; when the documents are made, the device is done too."""
    return list(tagger.pipe(texts))


@torch.no_grad()
def _make_predictor(
    dim: int, hidden: int, name: str, lexicon: Lexicon, sample: list[str], device: torch.device
) -> Predictor:
    """Move the score of O to where few characters of the sample are a span by themselves."""
    indexer = Indexer(Vocab(ALPHABET), None if name == CHARACTER else lexicon, TAGS, SCHEME)
    tagger = (
        make_tagger(dim, hidden, name, len(indexer.vocab), len(lexicon), trained=0)
        .to(device)
        .eval()
    )
    batch = to_device(indexer.read(sample).batch(range(len(sample))), device)
    inside = torch.arange(batch.chars.shape[1], device=device) < batch.lengths[:, None]
    emissions = tagger.emissions(batch)[inside]  # [N, K]
    single = emissions[:, [at for at, tag in enumerate(TAGS) if tag.startswith("S-")]].amax(1)
    tagger.output.bias[OUTSIDE] += (single - emissions[:, OUTSIDE]).quantile(QUIET)
    return Predictor(Model(tagger, indexer, Config()))


# ---- both by the length of sentences


def measure_lengths(
    settings: BenchSettings, device: torch.device, tell: Callable[[str], None]
) -> list[Row]:
    """Return rows of training steps and of raw text to spans, for each H and length."""
    lexicon = make_lexicon(settings)
    rows = list[Row]()
    for hidden in settings.hidden:
        for length in settings.lengths:
            tell(f"sentences of {length} characters, H = {hidden}")
            here = replace(settings, length=length)
            texts = make_texts(settings, device, length)
            steps = _training_cell(here, hidden, SMALL_BATCH, [CHARACTER, "auto"], device)
            rows += ({"length": length, "what": "training", **row} for row in steps)
            tagging = _tagging_cell(settings, hidden, [CHARACTER, "auto"], lexicon, texts, device)
            rows += ({"length": length, "what": "tagging", **row} for row in tagging)
    return rows


# ---- both for lattices of several kinds, beside the plain one of as many layers


def measure_models(
    settings: BenchSettings, device: torch.device, tell: Callable[[str], None]
) -> list[Row]:
    """Return rows of training steps and of raw text to spans, for each H and model."""
    lexicon = make_lexicon(settings)
    texts = make_texts(settings, device)
    rows = list[Row]()
    for hidden in settings.hidden:
        for group in MODELS:
            names = [*group]
            tell(f"lattices of {names[0]}, H = {hidden}")
            steps = _training_cell(settings, hidden, SMALL_BATCH, names, device)
            rows += ({"what": "training", **row} for row in steps)
            tagging = _tagging_cell(settings, hidden, names, lexicon, texts, device)
            rows += ({"what": "tagging", **row} for row in tagging)
    return rows
