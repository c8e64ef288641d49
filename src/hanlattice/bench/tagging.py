"""Raw text to spans, by `Predictor.pipe`, with a made vocabulary, a made lexicon and random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from hanlattice.batch import Batch, Indexer
from hanlattice.bench.clock import medians
from hanlattice.bench.made import CHARACTER, OUTSIDE, SCHEME, TAGS, make_tagger
from hanlattice.bench.settings import Settings
from hanlattice.config import Config
from hanlattice.models.checkpoint import Model
from hanlattice.models.tagger import Tagger
from hanlattice.predict import Document, Predictor
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.vocab import Vocab

TEXTS = {"cpu": 1024, "cuda": 16384}
ALPHABET = [chr(0x4E00 + at) for at in range(3000)]
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


def long_words(settings: Settings) -> list[str]:
    """Words of four characters, a quarter of the lexicon."""
    drawn = np.random.default_rng(0).choice(np.array(ALPHABET), size=(settings.words // 4, 4))
    return ["".join(row) for row in drawn]


def make_lexicon(settings: Settings) -> Lexicon:
    """Words of four characters, and three words inside each: a text made of the long ones has a word a character."""
    return Lexicon(part for word in long_words(settings) for part in (word, word[:2], word[1:], word[2:]))


def make_texts(settings: Settings, device: torch.device) -> list[str]:
    """Between half of T and one and a half times T characters each."""
    rng = np.random.default_rng(1)
    words, T = np.array(long_words(settings)), settings.length
    sizes = rng.integers(T // 2, T + T // 2, size=settings.texts or TEXTS[device.type], endpoint=True)
    return ["".join(rng.choice(words, size=size // 4 + 1))[:size] for size in sizes.tolist()]


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
