"""A model and its folder of plain files, which docs/formats.md describes.

Training replaces only the weights, in one rename, so the folder is complete at every moment.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hanlattice.checkpoint import LEAST_THRESHOLD, Threshold, check_decode
from hanlattice.checkpoint.build_numpy import Array, restore_arrays, runs_in_numpy
from hanlattice.checkpoint.checksums import (
    check_numbers,
    load_arrays,
    read_record,
    save_tensors,
    write_record,
)
from hanlattice.checkpoint.compose import Composer
from hanlattice.checkpoint.lexicon_vectors import Vocabulary
from hanlattice.checkpoint.plan import check_tags
from hanlattice.checkpoint.quantize import COMPOSER
from hanlattice.checkpoint.schema import ModelRecord, ScoresRecord, parse
from hanlattice.checkpoint.segmenter import segmenter_version
from hanlattice.checkpoint.symbols import Vocabs, make_indexer
from hanlattice.config import Config, make_config
from hanlattice.errors import ConfigError, InputError, ModelError
from hanlattice.evaluation.platt import AS_IT_IS, Curve, Curves
from hanlattice.features import Indexer
from hanlattice.files import atomic_write, dump_json, opening
from hanlattice.inference.decode import AnyTagger
from hanlattice.inference.device import device_kind, find_device, load_torch
from hanlattice.inference.tagger import NumpyTagger
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.vocab import Vocab

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
USUAL_THRESHOLD = 0.4  # of a model without scores
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


def threshold_for(f1: float) -> float:
    """The bar of a model whose best taggings have this F1."""
    return max(LEAST_THRESHOLD, f1 / 2)


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


def load_model(
    folder: str | Path, device: str = "cpu", fast: bool = False, modules: bool = False
) -> Model:
    """Read a model folder, check all of it, and return the model, ready to tag.

    On a GPU it finds what it finds on a CPU, since it multiplies in float32 there too. `fast`
    rounds the factors of the lattice LSTM's products, and of a transformer's: on a GPU to bf16, as
    training does, on a CPU to 8 bits, where it is not for transformers. With `modules` it has the
    modules of torch on a CPU too.
    """
    folder = Path(folder)
    kind = device_kind(device)
    place = None if kind == "cpu" else find_device(device)
    record = read_record(folder / CONFIG, FORMAT, ModelRecord, "model")
    try:
        config = make_config(record["config"], CONFIG)
        tags = tuple(record["tags"])
        scheme = record["scheme"]
        check_tags(tags, scheme)
        in_numpy = place is None and not modules and runs_in_numpy(config)
        if not in_numpy:
            load_torch()
        _check_files(folder, config, record["files"])
        vocabs = _load_vocabs(folder, record["files"])
        arrays, metadata = load_arrays(folder / WEIGHTS)
        check_numbers(arrays, folder / WEIGHTS)
        lm = transformer = None
        if config.transformer.model:
            from hanlattice.checkpoint.build_torch import check_transformer
            from hanlattice.checkpoint.transformer import make_transformer

            transformer = make_transformer(folder / TRANSFORMER, partial(check_transformer, arrays))
            vocabs.pieces = transformer.pieces
        if config.lm.model:
            from hanlattice.checkpoint.language_model import load_language_model

            lm = load_language_model(folder / LM)
    except (ConfigError, InputError) as error:
        raise ModelError(f"{folder}: {error}") from None
    except LookupError as error:
        raise ModelError(
            f"{folder / WEIGHTS}: its tensors do not fit {TRANSFORMER}/{CONFIG}: {error}"
        ) from None
    if fast and not (config.runs_lattice or (transformer is not None and place is not None)):
        raise InputError(
            "fast is for lattice models, and for transformers on a GPU, and this is neither", folder
        )
    indexer = make_indexer(config, vocabs, tags, scheme, lm, device)
    tagger: AnyTagger
    try:
        if in_numpy:
            tagger = restore_arrays(config, indexer, arrays, fast)
        else:
            from hanlattice.checkpoint.build_torch import restore

            tagger = restore(config, indexer, arrays, lm, FAST if fast else EXACT, transformer)
            tagger = tagger.to(place or "cpu").eval()
            if tagger.transformer is not None:
                tagger.transformer.bf16 = fast
        composer = _composer(arrays)
    except (LookupError, RuntimeError, ValueError) as error:
        raise ModelError(f"{folder / WEIGHTS}: its tensors do not fit {CONFIG}: {error}") from None
    try:
        scores = parse(metadata.get("scores", "{}"), ScoresRecord, "scores")
        tagger.curves = _curves(scores, indexer.tag_ids.labels)
    except ValueError as error:
        raise ModelError(f"{folder / WEIGHTS}: {error}") from None
    segmenter = record.get("segmenter", {})
    return Model(tagger, indexer, config, record["data"], scores, segmenter, composer)


def _curves(scores: Mapping[str, Any], labels: Sequence[str]) -> Curves | None:
    """Of a model's scores, by the numbers of its labels; a ValueError names a label that it has
    not.
    """
    if not (given := scores.get("calibration", {}).get("curves")):
        return None
    for label in given.keys() - {*labels}:
        raise ValueError(
            f"scores.calibration has the label {label!r}, and the model finds {', '.join(labels)}"
        )
    return Curves([Curve(**given[label]) if label in given else AS_IT_IS for label in labels])


def _composer(arrays: Mapping[str, Array]) -> Composer | None:
    """The composer among the arrays of a file, if there is one; a ValueError says what is wrong
    with it.
    """
    parts = {
        name.removeprefix(COMPOSER): array
        for name, array in arrays.items()
        if name.startswith(COMPOSER)
    }
    return Composer.from_tensors(parts) if parts else None


def _check_files(folder: Path, config: Config, names: Collection[str]) -> None:
    """Whether the vocabularies that a model with this configuration needs are listed, and no
    others.
    """
    model = config.model
    wanted = {
        CHARS: True,
        LEXICON: model.encoder == "lattice",
        SUBWORDS: len(config.lattice_sources) > 1,
        WORDS: model.encoder == "word",
        BIGRAMS: model.bichar,
        SPEECH: model.softword and config.softwords.pos,
        f"{TRANSFORMER}/config.json": config.transformer.model != "",
    }
    for name, is_wanted in wanted.items():
        if is_wanted and name not in names:
            raise ModelError(
                f"{folder / CONFIG}: a model by its configuration has {name}, and its files lack it"
            )
        if name in names and not is_wanted:
            raise ModelError(
                f"{folder / CONFIG}: its files have {name}, which a model by its configuration has not"
            )


def _load_vocabs(folder: Path, names: Collection[str]) -> Vocabs:
    """The vocabularies of the listed files."""
    chars, words, bichars, pos = (
        Vocab.load(folder / name) if name in names else None
        for name in (CHARS, WORDS, BIGRAMS, SPEECH)
    )
    lexicons: dict[str, Lexicon] = {}
    for name in (LEXICON, SUBWORDS):
        if name in names:
            lexicons[name] = Lexicon()
            lexicons[name].load(folder / name, "utf-8")
            lexicons[name].mark_baseline()
    return Vocabs(
        chars or Vocab(()), lexicons.get(LEXICON), lexicons.get(SUBWORDS), bichars, words, pos
    )
