"""Find, read and save pre-trained transformers in Hugging Face's layout."""

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

# The known values of `model_type`. RoBERTa and MacBERT in Chinese are BERT by their layout.
KINDS = ("bert", "electra", "ernie")
CONFIG = "config.json"
SAFE = "model.safetensors"
PICKLED = "pytorch_model.bin"
# The files in a model's folder; the weights are with all others of the model.
FILES = (CONFIG, VOCAB, SETTINGS)
# The largest sizes that are accepted, since anybody may have made a folder.
_LARGEST = {"num_hidden_layers": 64, "max_position_embeddings": 1 << 16, "vocab_size": 1 << 20}
_WIDTHS = ("hidden_size", "embedding_size", "intermediate_size", "type_vocab_size")
_LARGEST |= dict.fromkeys((*_WIDTHS, "task_type_vocab_size"), 1 << 14)
# The only settings that reach the library: others (`num_labels`) can make it take any memory.
_SETTINGS = (
    *_LARGEST, "num_attention_heads", "hidden_act", "hidden_dropout_prob",
    "attention_probs_dropout_prob", "initializer_range", "layer_norm_eps", "pad_token_id",
    "position_embedding_type", "task_id", "use_task_id",
)  # fmt: skip
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class Transformer:
    """A transformer and its vocabulary."""

    model: nn.Module
    pieces: Pieces

    def states(self, config: TransformerConfig) -> TransformerStates:
        """Return its states as an input of a tagger, as the configuration wants them."""
        settings: Any = self.model.config
        # [CLS] and [SEP] have positions too.
        most = settings.max_position_embeddings - 2
        window = config.window or most
        if window > most:
            raise ConfigError(
                [f"transformer.window must be at most {most}: it has no more positions"]
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
        # Of a mask that is not square the library asks whether it hides anything, which waits for a
        # GPU; only newer versions take a square one.
        major = int(require("transformers").__version__.partition(".")[0])
        states.square_mask = major >= 5 and settings._attn_implementation == "sdpa"
        return states


def find_transformer(name: str) -> Path:
    """Return the folder of a transformer.

    Args:
        name: a folder, or a name on the Hugging Face hub, whose files are downloaded once.
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
    """Read a folder's transformer with its weights, to start a training with."""
    path = _safe_weights(folder)
    safetensors = require("safetensors")
    try:
        tensors: Mapping[str, Tensor] = require("safetensors", "torch").load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise ModelError(
            f"{path}: cut short or not a safetensors file ({error}); copy it again"
        ) from None

    def check(outline: nn.Module) -> None:
        _fitting(outline, tensors, path)

    transformer = make_transformer(folder, check)
    transformer.model.load_state_dict(_fitting(transformer.model, tensors, path))
    return transformer


def make_transformer(folder: Path, check: Callable[[nn.Module], None] | None = None) -> Transformer:
    """Make the transformer that a folder describes, without its weights.

    Args:
        folder: the folder.
        check: is called with the same transformer without memory, before any memory is taken. It
            raises an error if the shapes do not fit the weights.
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
        sizes = f"{len(pieces)} pieces in its vocabulary, and vectors for {settings.vocab_size}"
        raise ModelError(f"{folder}: {sizes}")
    return Transformer(model, pieces)


def _from_settings(kind: str, record: Mapping[str, Any], folder: Path) -> nn.Module:
    """The library's model of these settings, without its layer for whole texts."""
    library = require("transformers")
    known = {key: record[key] for key in _SETTINGS if key in record}
    try:
        with quiet("transformers"):
            settings = library.AutoConfig.for_model(kind, **known)
            model: Any = library.AutoModel.from_config(settings).float()
    except Exception as error:
        # Settings that contradict each other raise errors of any class.
        raise ModelError(f"{folder / CONFIG}: no {kind} can be made by it: {error}") from None
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    module: nn.Module = model
    return module


def _fitting(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The model's weights among the tensors of a file, which may have others, such as heads."""
    prefix = f"{model.base_model_prefix}."
    wanted = model.state_dict()
    stored = {}
    for name, tensor in tensors.items():
        # The first versions of BERT called the weights of layer norms gamma and beta.
        old_name = re.sub(r"\.beta$", ".bias", name.removeprefix(prefix))
        stored[re.sub(r"\.gamma$", ".weight", old_name)] = tensor.float()
    if missing := sorted(wanted.keys() - stored.keys()):
        raise ModelError(f"{path}: {len(missing)} tensors are missing, the first is {missing[0]}")
    for name, tensor in wanted.items():
        if stored[name].shape != tensor.shape:
            sizes = f"{list(stored[name].shape)} in it, and by {CONFIG} {list(tensor.shape)}"
            raise ModelError(f"{path}: {name} is {sizes}")
    return {name: stored[name] for name in wanted}


def _safe_weights(folder: Path) -> Path:
    """The safetensors file of a folder, or a pickled file converted to one in the cache."""
    if (folder / SAFE).is_file():
        return folder / SAFE
    pickled = folder / PICKLED
    if not pickled.is_file():
        raise ModelError(f"{folder}: it has no {SAFE}, and no {PICKLED}")
    converted = cache_folder() / "transformers" / f"{sha256(pickled)}.safetensors"
    if not converted.is_file():
        try:
            # Only weights are unpickled: other objects could run code.
            tensors = torch.load(pickled, map_location="cpu", weights_only=True)
            # NumPy, which writes the file, has no bfloat16.
            kept = {
                name: t.float() if t.dtype == torch.bfloat16 else t for name, t in tensors.items()
            }
        except Exception as error:
            # A file that is something else can raise errors of any class.
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
    """Write what a model's folder needs of a transformer in addition to its weights."""
    with opening(source / CONFIG) as file, atomic_write(folder / CONFIG, binary=True) as copy:
        shutil.copyfileobj(file, copy)
    Pieces.load(source).save(folder)


def transformer_digest(folder: Path) -> str:
    """Return a checksum over all files of a transformer that a training depends on."""
    names = (CONFIG, VOCAB, TOKENIZER, SETTINGS, SAFE, PICKLED)
    present = [name for name in names if (folder / name).is_file()]
    digests = [f"{name} {sha256(folder / name)}" for name in present]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()
