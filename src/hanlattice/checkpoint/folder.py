"""A model and its folder of plain files, which docs/formats.md describes.

Training replaces only the weights, in one rename, so the folder is complete at every moment.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from hanlattice.checkpoint.checksums import load_arrays, save_tensors, write_record
from hanlattice.checkpoint.compose import Composer
from hanlattice.checkpoint.lexicon_vectors import Vocabulary
from hanlattice.checkpoint.quantize import COMPOSER
from hanlattice.checkpoint.schema import ModelRecord
from hanlattice.checkpoint.segmenter import segmenter_version
from hanlattice.config import Config
from hanlattice.errors import ModelError
from hanlattice.features import Indexer
from hanlattice.files import atomic_write, dump_json, opening
from hanlattice.inference.tagger import NumpyTagger
from hanlattice.inference.threshold import USUAL_THRESHOLD, Threshold, check_decode, threshold_for

if TYPE_CHECKING:
    from hanlattice.nn.tagger import TorchTagger

AnyTagger: TypeAlias = "NumpyTagger | TorchTagger"
FORMAT = 1
# How a loaded model computes its lattice LSTM.
EXACT = "auto-fp32"
FAST = "auto"
CONFIG = "config.json"
CHARS = "chars.txt"
LEXICON = "lexicon.txt"
WEIGHTS = "model.safetensors"
LM = "lm"
TRANSFORMER = "transformer"
WORDS = "words.txt"
BIGRAMS = "bichars.txt"
SPEECH = "pos.txt"
SUBWORDS = "subwords.txt"
# The scores of the trained model, among those of a packed one.
BEFORE = "before_packing"
# What does not change while the model trains.
STATIC_FILES = (CONFIG, CHARS, LEXICON, SUBWORDS, WORDS, BIGRAMS, SPEECH, LM, TRANSFORMER)


@dataclass(frozen=True)
class Model:
    """A loaded model.

    On a CPU `tagger` is a `NumpyTagger` if NumPy and C have all parts of the model, else torch's.
    """

    tagger: AnyTagger
    indexer: Indexer
    config: Config
    # Where training data and vectors came from.
    data: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, Any] = field(default_factory=dict)
    # Name and version of the segmenter that cut the training text.
    segmenter: Mapping[str, Any] = field(default_factory=dict)
    # Makes the vectors of new words. Only packed models come with one.
    composer: Composer | None = None

    def __post_init__(self) -> None:
        if self.indexer.lexicon is not None and self.tagger.lexicon is not None:
            # The lexicon keeps a reference to it.
            Vocabulary(self.indexer.lexicon, self.tagger.lexicon, self.composer)

    @property
    def device(self) -> str:
        """The device that computes."""
        if isinstance(self.tagger, NumpyTagger):
            return "cpu"
        return str(self.tagger.output.weight.device)

    def threshold(self, decode: str | float | None = None) -> Threshold:
        """Return the score that a span must exceed; None decodes the best tagging instead.

        Args:
            decode: "path", "spans" or the threshold itself; without it, the model's own way. The
                threshold of "spans" is half of the F1 that the best tagging has on dev: see
                `inference.span_search.best_spans`.
        """
        way = self.config.model.decode if decode is None else check_decode(decode)
        if way == "path":
            return None
        if self.indexer.cuts:
            raise ModelError(
                f"decode={way} leaves characters out, and the words of a segmenter cover the text: "
                "use path"
            )
        if isinstance(way, float):
            return way
        dev = self.scores.get("dev") or self.scores.get(BEFORE, {}).get("dev")
        usual = threshold_for(dev["overall"]["f1"]) if dev else USUAL_THRESHOLD
        threshold: float = self.scores.get("threshold") or usual
        return threshold

    def other_segmenter(self) -> str:
        """Return a notice if another version of the segmenter cut the training text, else ""."""
        name = self.segmenter.get("name", "")
        then = self.segmenter.get("version")
        now = segmenter_version(name)
        if not then or not now or then == now:
            return ""
        trained = f"the model was trained with words by {name} {then}"
        return f"{trained}, and {name} {now} may cut otherwise"


def save_frame(
    folder: Path,
    config: Config,
    indexer: Indexer,
    data: Mapping[str, Any],
    source: Path | None = None,
    segmenter: Mapping[str, Any] | None = None,
) -> None:
    """Write everything but the weights: what does not change while the model trains.

    Language model and transformer are copied, so that the folder can be moved. The transformer's
    weights are with the others.

    Args:
        folder: where to write.
        config: the model's settings.
        indexer: its vocabularies, tags and segmenter.
        data: where training data and vectors came from.
        source: a model whose language model and transformer to copy; without it, those that the
            settings name.
        segmenter: name and version of the segmenter that cut the training text; without it, those
            of the segmenter that the settings name.
    """
    symbols: dict[str, Any] = {
        CHARS: indexer.vocab,
        WORDS: indexer.words,
        BIGRAMS: indexer.bichars,
        SPEECH: indexer.pos,
        LEXICON: indexer.lexicon,
        SUBWORDS: indexer.subwords,
    }
    names = [name for name, known in symbols.items() if known is not None]
    for name in names:
        symbols[name].save(folder / name)
    # These modules need torch, and most models do without.
    if config.lm.model:
        from hanlattice.checkpoint.language_model import language_model_files

        lm = source / LM if source else Path(config.lm.model)
        for name in language_model_files():
            names.append(f"{LM}/{name}")
            with opening(lm / name) as file, atomic_write(folder / LM / name, binary=True) as copy:
                shutil.copyfileobj(file, copy)
    if config.transformer.model:
        from hanlattice.checkpoint import transformer

        named = config.transformer.model
        origin = source / TRANSFORMER if source else transformer.find_transformer(named)
        transformer.save_transformer_frame(origin, folder / TRANSFORMER)
        names += [f"{TRANSFORMER}/{name}" for name in transformer.FILES]
    record: dict[str, Any] = {
        "format": FORMAT,
        "config": config.as_dict(),
        "tags": [*indexer.tags],
        "scheme": indexer.scheme,
        "data": data,
    }
    if indexer.segmenter is not None:
        now = {"name": config.segment.by, "version": segmenter_version(config.segment.by)}
        record["segmenter"] = segmenter or now
    write_record(folder / CONFIG, record, names, ModelRecord)


def save_weights(
    folder: Path,
    tensors: Mapping[str, Any],
    scores: Mapping[str, Any],
    composer: Composer | None = None,
) -> None:
    """Write into one file the weights, their scores and a composer of vectors for new words."""
    parts = {} if composer is None else composer.tensors()
    named = {COMPOSER + name: tensor for name, tensor in parts.items()}
    save_tensors(folder / WEIGHTS, {**tensors, **named}, {"scores": dump_json(scores)})


def save_scores(folder: Path, scores: Mapping[str, Any], out: Path | None = None) -> None:
    """Replace the scores of the weights in `folder`, or write a copy of both into `out`."""
    arrays, _ = load_arrays(folder / WEIGHTS)
    save_tensors((out or folder) / WEIGHTS, arrays, {"scores": dump_json(scores)})
