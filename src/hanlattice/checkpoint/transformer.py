"""Pre-trained transformers in Hugging Face's layout: found, read, and as part of a model's folder."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hanlattice.checkpoint.checksums import save_tensors
from hanlattice.config import TransformerConfig
from hanlattice.data.download import cache_folder
from hanlattice.errors import ConfigError, InputError, ModelError
from hanlattice.files import atomic_write, opening, sha256
from hanlattice.nn.transformer import TransformerStates
from hanlattice.optional import quiet, require
from hanlattice.text.pieces import SETTINGS, TOKENIZER, VOCAB, Pieces

KINDS = (
    "bert",
    "electra",
    "ernie",
)  # `model_type`: RoBERTa and MacBERT in Chinese are BERT by their layout
CONFIG = "config.json"
SAFE = "model.safetensors"
PICKLED = "pytorch_model.bin"
FILES = (
    CONFIG,
    VOCAB,
    SETTINGS,
)  # in a model's folder; the weights are with all others of the model
# The largest sizes that are believed: a folder may be made by somebody else.
_LARGEST = {"num_hidden_layers": 64, "max_position_embeddings": 1 << 16, "vocab_size": 1 << 20}
_LARGEST |= dict.fromkeys(
    ("hidden_size", "embedding_size", "intermediate_size", "type_vocab_size"), 1 << 14
)
_LARGEST["task_type_vocab_size"] = 1 << 14
# All that the library is told of a folder's settings: others (`num_labels`) can make it take any
# memory.
_SETTINGS = (
    *_LARGEST,
    "num_attention_heads",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
    "position_embedding_type",
    "task_id",
    "use_task_id",
)
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class Transformer:
    """A transformer and its vocabulary."""

    model: nn.Module
    pieces: Pieces

    def states(self, config: TransformerConfig) -> TransformerStates:
        """Its states as an input, as the configuration wants them."""
        settings: Any = self.model.config
        most = settings.max_position_embeddings - 2  # [CLS] and [SEP] have positions too
        window = config.window or most
        if window > most:
            raise ConfigError(
                [
                    f"transformer.window must be at most {most}, for so many characters it has positions"
                ]
            )
        if config.overlap >= window:
            raise ConfigError(
                [f"transformer.overlap must be smaller than the window of {window} characters"]
            )
        special = (self.pieces.cls, self.pieces.sep, self.pieces.pad)
        states = TransformerStates(
            self.model, special, window, config.overlap, config.frozen, config.dropout
        )
        states.bf16 = config.bf16
        knows = int(require("transformers").__version__.partition(".")[0]) >= 5
        states.square_mask = (
            knows and settings._attn_implementation == "sdpa"
        )  # else a GPU would be waited for
        return states


def find_transformer(name: str) -> Path:
    """The folder of this name or, where there is none, that of the hub's files, which are
    downloaded once.
    """
    if Path(name).is_dir():
        return Path(name)
    expected = "expected a folder in Hugging Face's layout, or a name on its hub"
    if not _HUB_NAME.fullmatch(name):
        raise InputError(f"transformer.model: there is no such folder; {expected}", name)
    hub = require("huggingface_hub")
    try:
        with quiet("huggingface_hub"):
            names = [CONFIG, VOCAB, TOKENIZER, SETTINGS]
            folder = Path(hub.snapshot_download(name, allow_patterns=[*names, SAFE]))
            if not (folder / SAFE).is_file():
                hub.snapshot_download(name, allow_patterns=[*names, PICKLED])
            return folder
    except (OSError, ValueError) as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(
            f"transformer.model: there is no such folder, nor can it be downloaded ({first})", name
        ) from None


def read_transformer(folder: Path) -> Transformer:
    """A folder's transformer with its weights, to begin a training with."""
    path = _safe_weights(folder)
    tensors = _read_tensors(path)

    def check(outline: nn.Module) -> None:
        _fitting(outline, tensors, path)

    found = make_transformer(folder, check)
    found.model.load_state_dict(_fitting(found.model, tensors, path))
    return found


def make_transformer(folder: Path, check: Callable[[nn.Module], None] | None = None) -> Transformer:
    """The transformer that a folder describes, without its weights.

    `check` is called with the same one without memory, and raises an error if its shapes are not
    those of the weights.
    """
    record = _read_config(folder / CONFIG)
    pieces = Pieces.load(folder)
    kind = record.pop("model_type", None)
    if kind not in KINDS:
        raise ModelError(f"{folder / CONFIG}: model_type is {kind!r}; expected {', '.join(KINDS)}")
    for name, most in _LARGEST.items():
        size = record.get(name, 1)
        if type(size) is not int or not 0 < size <= most:
            raise ModelError(f"{folder / CONFIG}: {name} must be from 1 to {most}, not {size!r}")
    if check is not None:
        with torch.device("meta"):
            outline = _from_settings(kind, record, folder)
        check(outline)
    model = _from_settings(kind, record, folder)
    settings: Any = model.config
    if len(pieces) > settings.vocab_size:
        raise ModelError(
            f"{folder}: {len(pieces)} pieces in its vocabulary, and vectors for {settings.vocab_size}"
        )
    return Transformer(model, pieces)


def _from_settings(kind: str, record: Mapping[str, Any], folder: Path) -> nn.Module:
    """The library's model of these settings, without its layer for whole texts."""
    library = require("transformers")
    try:
        with quiet("transformers"):
            settings = library.AutoConfig.for_model(
                kind, **{key: record[key] for key in _SETTINGS if key in record}
            )
            model: Any = library.AutoModel.from_config(settings).float()
    except Exception as error:  # whatever the library says of settings that contradict each other
        raise ModelError(f"{folder / CONFIG}: no {kind} can be made by it: {error}") from None
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    made: nn.Module = model
    return made


def _read_tensors(path: Path) -> Mapping[str, Tensor]:
    try:
        tensors: Mapping[str, Tensor] = require("safetensors", "torch").load_file(path)
    except (OSError, require("safetensors").SafetensorError) as error:
        raise ModelError(
            f"{path}: cut short or not a safetensors file ({error}); copy it again"
        ) from None
    return tensors


def _fitting(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The model's weights among the tensors of a file; what there is beside, such as heads, is
    passed over.
    """
    prefix = f"{model.base_model_prefix}."
    wanted = model.state_dict()
    found = {_modern(name.removeprefix(prefix)): tensor.float() for name, tensor in tensors.items()}
    if missing := sorted(wanted.keys() - found.keys()):
        raise ModelError(f"{path}: {len(missing)} tensors are missing, the first is {missing[0]}")
    for name, tensor in wanted.items():
        if found[name].shape != tensor.shape:
            sizes = f"{list(found[name].shape)} in it, and by {CONFIG} {list(tensor.shape)}"
            raise ModelError(f"{path}: {name} is {sizes}")
    return {name: found[name] for name in wanted}


def _modern(name: str) -> str:
    """The name of a tensor, as of today, where a first version of BERT gave it."""
    return re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))


def _safe_weights(folder: Path) -> Path:
    """The safetensors file of a folder. A pickled one is read once, weights only, and its tensors
    go to the cache.
    """
    if (folder / SAFE).is_file():
        return folder / SAFE
    pickled = folder / PICKLED
    if not pickled.is_file():
        raise ModelError(f"{folder}: it has no {SAFE}, and no {PICKLED}")
    converted = cache_folder() / "transformers" / f"{sha256(pickled)}.safetensors"
    if not converted.is_file():
        try:
            tensors = torch.load(pickled, map_location="cpu", weights_only=True)
            kept = {
                name: t.float() if t.dtype == torch.bfloat16 else t for name, t in tensors.items()
            }
        except Exception as error:  # whatever a file that is no such thing leads to
            first = str(error).partition("\n")[0]
            raise ModelError(
                f"{pickled}: not a file of weights and nothing else: {first}"
            ) from None
        save_tensors(converted, kept, {})
    return converted


def _read_config(path: Path) -> dict[str, Any]:
    try:
        with opening(path) as file:
            record = json.load(file)
    except InputError as error:
        raise ModelError(f"not the folder of a transformer: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(record, dict):
        raise ModelError(f"{path}: expected a JSON object")
    return record


def save_transformer_frame(source: Path, folder: Path) -> None:
    """Write what a model's folder needs of a transformer beside its weights."""
    with opening(source / CONFIG) as file, atomic_write(folder / CONFIG, binary=True) as copy:
        shutil.copyfileobj(file, copy)
    Pieces.load(source).save(folder)


def transformer_digest(folder: Path) -> str:
    """A checksum over all files of a transformer that a training depends on."""
    names = [
        name
        for name in (CONFIG, VOCAB, TOKENIZER, SETTINGS, SAFE, PICKLED)
        if (folder / name).is_file()
    ]
    return hashlib.sha256(
        " ".join(f"{name} {sha256(folder / name)}" for name in names).encode()
    ).hexdigest()
