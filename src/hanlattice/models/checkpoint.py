"""A model on disk: a folder of plain files. docs/formats.md describes it.

    config.json         format version, configuration, tags, where the data came from, checksums of the files below
    chars.txt           the character vocabulary
    lexicon.txt         the words, in the order of their vectors (lattice models)
    lm/                 the language model, a copy of the folder that the configuration named (models that use one)
    model.safetensors   the weights; its metadata has the scores and a checksum over everything in the file
    README.md           the model card, for people

The weights are replaced in one rename while the rest stays, so a folder is whole at every moment of a training.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from hanlattice.batch import Indexer
from hanlattice.config import Config, make_config
from hanlattice.errors import ConfigError, ModelError
from hanlattice.files import opening, writing
from hanlattice.models.build import assemble
from hanlattice.models.device import find_device
from hanlattice.models.folder import load_tensors, read_record, save_tensors, write_record
from hanlattice.models.language_model import LanguageModel, language_model_files, load_language_model
from hanlattice.models.tagger import Tagger
from hanlattice.nn.embeddings import WordEmbedding
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.vocab import Vocab

FORMAT = 1
CONFIG, CHARS, LEXICON, WEIGHTS, LM = "config.json", "chars.txt", "lexicon.txt", "model.safetensors", "lm"
FRAME = (CONFIG, CHARS, LEXICON, LM)  # what does not change while the model trains


@dataclass(frozen=True)
class Model:
    tagger: Tagger
    indexer: Indexer
    config: Config
    data: Mapping[str, Any] = field(default_factory=dict)  # where training data and vectors came from
    scores: Mapping[str, Any] = field(default_factory=dict)


def save_frame(folder: Path, config: Config, indexer: Indexer, data: Mapping[str, Any]) -> None:
    """Everything but the weights: what does not change while the model trains."""
    indexer.vocab.save(folder / CHARS)
    names = [CHARS]
    if indexer.lexicon is not None:
        indexer.lexicon.save(folder / LEXICON)
        names.append(LEXICON)
    if config.lm.model:
        names += [f"{LM}/{name}" for name in language_model_files()]
        _copy_language_model(Path(config.lm.model), folder / LM)
    record = {
        "format": FORMAT,
        "config": config.as_dict(),
        "tags": indexer.tags,
        "scheme": indexer.scheme,
        "data": data,
    }
    write_record(folder / CONFIG, record, names)


def _copy_language_model(source: Path, target: Path) -> None:
    """A model is to be whole wherever it is moved to, so it has its language model with it."""
    for name in language_model_files():
        with opening(source / name) as file, writing(target / name, binary=True) as copy:
            shutil.copyfileobj(file, copy)


def save_weights(folder: Path, tensors: Mapping[str, Tensor], scores: Mapping[str, Any]) -> None:
    """The weights and what they score, in one file."""
    save_tensors(folder / WEIGHTS, tensors, {"scores": json.dumps(scores, ensure_ascii=False)})


def load_model(folder: str | Path, device: str = "cpu") -> Model:
    """Read a model folder, check everything, and give the model in evaluation mode."""
    folder, place = Path(folder), find_device(device)
    record = read_record(folder / CONFIG, FORMAT, ["config", "tags", "scheme", "data"], "model")
    try:
        config = make_config(record["config"], f"{folder / CONFIG}")
        tags, scheme = tuple(record["tags"]), record["scheme"]
        vocab = Vocab.load(folder / CHARS)
        lexicon = None
        if LEXICON in record["files"]:
            lexicon = Lexicon()
            lexicon.load(folder / LEXICON)
        lm = load_language_model(folder / LM) if config.lm.model else None
    except ConfigError as error:
        raise ModelError(str(error)) from None
    tensors, metadata = load_tensors(folder / WEIGHTS)
    indexer = Indexer(vocab, lexicon, tags, scheme, lm.vocab if lm else None)
    tagger = _with_weights(config, indexer, tensors, folder, lm)
    tagger.to(place).eval()
    return Model(tagger, indexer, config, record["data"], json.loads(metadata.get("scores", "{}")))


def _with_weights(
    config: Config, indexer: Indexer, tensors: dict[str, Tensor], folder: Path, lm: LanguageModel | None
) -> Tagger:
    try:
        chars, words = tensors["chars.vectors"], None
        if indexer.lexicon is not None:
            words = WordEmbedding(tensors["words.trained"], tensors["words.fixed"], config.words.dropout)
        rows = (len(chars), 0 if words is None else len(words))
        sizes = (len(indexer.vocab), 0 if indexer.lexicon is None else len(indexer.lexicon))
        if rows != sizes:
            raise ModelError(f"{folder}: {rows} rows of vectors for {sizes} characters and words")
        tagger = assemble(config, indexer, chars, words, lm)
        tagger.load_state_dict(tensors)
    except (KeyError, RuntimeError) as error:
        raise ModelError(f"{folder / WEIGHTS}: its tensors do not fit {CONFIG}: {error}") from None
    return tagger
