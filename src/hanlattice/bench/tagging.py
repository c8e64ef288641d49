"""Raw text to spans, by `Predictor.pipe`, with a made vocabulary, a made lexicon and random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from hanlattice.batch import Batch, Indexer
from hanlattice.bench.inputs import (
    ALPHABET,
    CHARACTER,
    OUTSIDE,
    SCHEME,
    TAGS,
    Settings,
    make_lexicon,
    make_tagger,
    make_texts,
)
from hanlattice.bench.timing import medians
from hanlattice.config import Config
from hanlattice.models.folder import Model
from hanlattice.models.tagger import Tagger
from hanlattice.predict import Document, Predictor
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.vocab import Vocab

QUIET = 0.95  # the share of characters that are no span by themselves: random weights would find far too many spans


def measure_tagging(settings: Settings, device: torch.device, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row for each H and model; `ratio` is to the character model's time. The size of batches is Predictor's own."""
    lexicon, texts, rows = make_lexicon(settings), make_texts(settings, device), []
    for hidden in settings.hidden:
        tell(f"raw text to spans, H = {hidden}")
        makes = partial(make_predictor, settings.dim, hidden, lexicon=lexicon, sample=texts[:32], device=device)
        taggers = {name: makes(name) for name in (CHARACTER, "auto")}
        rows += [{"hidden": hidden, **row} for row in _rows(taggers, lexicon, texts, settings.seconds)]
    return rows


def _rows(
    taggers: dict[str, Predictor], lexicon: Lexicon, texts: list[str], seconds: float
) -> Iterator[dict[str, Any]]:
    found = {name: tag_all(each, texts) for name, each in taggers.items()}  # and whatever compiles has compiled
    times = medians({name: partial(tag_all, each, texts) for name, each in taggers.items()}, seconds)
    characters = sum(map(len, texts))
    for name, timing in times.items():
        yield {
            "model": name,
            **timing._asdict(),
            "ratio": timing.seconds / times[CHARACTER].seconds,
            "texts": len(texts),
            "characters": characters,
            "words": 0 if name == CHARACTER else int(lexicon.match_many(texts).counts.sum()),
            "spans": sum(len(document.spans) for document in found[name]),
            "sentences_per_second": len(texts) / timing.seconds,
            "characters_per_second": characters / timing.seconds,
        }


def tag_all(tagger: Predictor, texts: list[str]) -> list[Document]:
    """When the documents are here, the device is done too."""
    return list(tagger.pipe(texts))


def make_predictor(
    dim: int, hidden: int, backend: str, lexicon: Lexicon, sample: list[str], device: torch.device
) -> Predictor:
    indexer = Indexer(Vocab(ALPHABET), None if backend == CHARACTER else lexicon, TAGS, SCHEME)
    tagger = make_tagger(dim, hidden, backend, len(indexer.vocab), len(lexicon), trained=0).to(device).eval()
    quieten(tagger, indexer.read(sample).batch(range(len(sample))).to(device))
    return Predictor(Model(tagger, indexer, Config()))


@torch.no_grad()
def quieten(tagger: Tagger, batch: Batch) -> None:
    """Move the score of O to where few characters of the batch are a span by themselves."""
    inside = torch.arange(batch.chars.shape[1], device=batch.chars.device) < batch.lengths[:, None]
    emissions = tagger.emissions(batch)[inside]  # [N, K]
    single = emissions[:, [at for at, tag in enumerate(TAGS) if tag.startswith("S-")]].amax(1)
    tagger.output.bias[OUTSIDE] += (single - emissions[:, OUTSIDE]).quantile(QUIET)
