"""A model and its folder of plain files, which docs/formats.md describes.

Training replaces only the weights, in one rename, so the folder is complete at every moment.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from hanlattice.checkpoint.checksums import (
    load_arrays,
    save_tensors,
    write_record,
)
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
from hanlattice.inference.threshold import (
    USUAL_THRESHOLD,
    Threshold,
    check_decode,
    threshold_for,
)

if TYPE_CHECKING:
    from hanlattice.nn.tagger import TorchTagger

AnyTagger: TypeAlias = "NumpyTagger | TorchTagger"
FORMAT = 1
# how a loaded model computes its lattice LSTM
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
BEFORE = "before_packing"  # among a packed model's scores, those of the model as trained
# What does not change while the model trains.
STATIC_FILES = (CONFIG, CHARS, LEXICON, SUBWORDS, WORDS, BIGRAMS, SPEECH, LM, TRANSFORMER)


@dataclass(frozen=True)
class Model:
    """A loaded model.

    On a CPU `tagger` is an `ArrayTagger` if NumPy and C have all parts of the model, else torch's.
    """

    tagger: AnyTagger
    indexer: Indexer
    config: Config
    data: Mapping[str, Any] = field(
        default_factory=dict
    )  # where training data and vectors came from
    scores: Mapping[str, Any] = field(default_factory=dict)
    segmenter: Mapping[str, Any] = field(
        default_factory=dict
    )  # name and version of what cut the training text
    composer: Composer | None = (
        None  # makes the vectors of new words; None in a model that was not packed
    )

    def __post_init__(self) -> None:
        if self.indexer.lexicon is not None and self.tagger.lexicon is not None:
            Vocabulary(
                self.indexer.lexicon, self.tagger.lexicon, self.composer
            )  # the lexicon keeps it

    @property
    def device(self) -> str:
        """Where it computes."""
        return (
            "cpu" if isinstance(self.tagger, NumpyTagger) else str(self.tagger.output.weight.device)
        )

    def threshold(self, decode: str | float | None = None) -> Threshold:
        """What the score of a span must exceed to be found; None where the best tagging is decoded.

        `decode` is "path", "spans" or the bar itself; without it, the model's own way. With "spans"
        the bar is half of the F1 that the best tagging has on dev: see
        `runtime.span_search.best_spans`.
        """
        way = self.config.model.decode if decode is None else check_decode(decode)
        if way == "path":
            return None
        if self.indexer.cuts:
            raise ModelError(
                f"decode={way} leaves characters out, and the words of a segmenter cover the text: use path"
            )
        if isinstance(way, float):
            return way
        dev = self.scores.get("dev") or self.scores.get(BEFORE, {}).get("dev")
        threshold: float = self.scores.get("threshold") or (
            threshold_for(dev["overall"]["f1"]) if dev else USUAL_THRESHOLD
        )
        return threshold

    def other_segmenter(self) -> str:
        """A notice that another segmenter of this name cut the training text; "" if it did not, or
        is unknown.
        """
        name = self.segmenter.get("name", "")
        then = self.segmenter.get("version")
        now = segmenter_version(name)
        if not then or not now or then == now:
            return ""
        return (
            f"the model was trained with words by {name} {then}, and {name} {now} may cut otherwise"
        )


def save_frame(
    folder: Path,
    config: Config,
    indexer: Indexer,
    data: Mapping[str, Any],
    source: Path | None = None,
    segmenter: Mapping[str, Any] | None = None,
) -> None:
    """Write everything but the weights: what does not change while the model trains.

    Language model and transformer are copied from where the configuration says, or from the model
    in `source`, so that the folder can be moved. The transformer's weights are with the others.
    `segmenter` is what cut the training text; without it, the one that the configuration names, as
    it is now.
    """
    vocabs = {
        CHARS: indexer.vocab,
        WORDS: indexer.words,
        BIGRAMS: indexer.bichars,
        SPEECH: indexer.pos,
    }
    names = []
    for name, vocab in vocabs.items():
        if vocab is not None:
            vocab.save(folder / name)
            names.append(name)
    for name, lexicon in ((LEXICON, indexer.lexicon), (SUBWORDS, indexer.subwords)):
        if lexicon is not None:
            lexicon.save(folder / name)
            names.append(name)
    if config.lm.model:
        from hanlattice.checkpoint.language_model import language_model_files

        names += [f"{LM}/{name}" for name in language_model_files()]
        for name in language_model_files():
            lm = source / LM if source else Path(config.lm.model)
            with opening(lm / name) as file, atomic_write(folder / LM / name, binary=True) as copy:
                shutil.copyfileobj(file, copy)
    if config.transformer.model:
        from hanlattice.checkpoint.transformer import (
            FILES,
            find_transformer,
            save_transformer_frame,
        )

        names += [f"{TRANSFORMER}/{name}" for name in FILES]
        there = source / TRANSFORMER if source else find_transformer(config.transformer.model)
        save_transformer_frame(there, folder / TRANSFORMER)
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
    """Write the weights, their scores and, if given, the composer of vectors for new words into one
    file.
    """
    more = (
        {}
        if composer is None
        else {COMPOSER + name: tensor for name, tensor in composer.tensors().items()}
    )
    save_tensors(folder / WEIGHTS, {**tensors, **more}, {"scores": dump_json(scores)})


def save_scores(folder: Path, scores: Mapping[str, Any], out: Path | None = None) -> None:
    """Write other scores beside the weights that are there; with `out`, the weights of `folder`
    into that folder.
    """
    save_tensors(
        (out or folder) / WEIGHTS, load_arrays(folder / WEIGHTS)[0], {"scores": dump_json(scores)}
    )
