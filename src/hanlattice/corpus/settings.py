"""The settings of a run over a corpus, and the part of them that decides what an output is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hanlattice.checkpoint.checksums import record_digest
from hanlattice.checkpoint.folder import CONFIG, WEIGHTS
from hanlattice.errors import InputError, ModelError
from hanlattice.files import printable_path, sha256
from hanlattice.inference.device import device_kind, use_threads
from hanlattice.optional import __version__
from hanlattice.predict import Predictor, load

MB = 1_000_000
# The field of an output for a row that cannot be read.
BROKEN = "broken"


@dataclass(frozen=True)
class CorpusSettings:
    """The model and options of a run; they can be pickled for processes with the same files."""

    model: Path
    task: str = "tag"  # or "segment", which needs a segmentation model
    lexicons: tuple[Path, ...] = ()
    trust: float | None = None
    decode: str | None = None
    min_score: float = 0.0
    scores: bool = True
    device: str = "cpu"
    fast: bool = False
    encoding: str = "auto"  # of the inputs and dictionaries
    input_format: str | None = None  # None goes by the names of the files
    format: str = "jsonl"  # of the outputs, or "parquet"
    field: str = "text"  # the field or column of texts in the inputs
    into: str = "spans"  # the field or column of spans in the outputs
    shard_size: int = 8 * MB
    strict: bool = False

    def identity(self) -> dict[str, Any]:
        """Return all that decides what an output is, apart from its input."""
        names = ("trust", "decode", "min_score", "scores", "format")
        options = {name: getattr(self, name) for name in names}
        # Devices give the same spans unless they are `fast`.
        rounded = device_kind(self.device) if self.fast else None
        fields = {"field": self.field, "into": self.into, "shard_size": self.shard_size}
        return {
            "hanlattice": __version__,
            "model": {"name": printable_path(self.model.name), "sha256": model_digest(self.model)},
            "dictionaries": [
                {"name": printable_path(path.name), "sha256": sha256(path)}
                for path in self.lexicons
            ],
            "options": {**options, "fast": rounded, **fields},
        }


def digest_of(identity: dict[str, Any]) -> str:
    """Return the eight hexadecimal digits of an identity for the names of outputs."""
    return record_digest(identity)[:8]


def model_digest(folder: Path) -> str:
    """Return the checksum of a model folder."""
    # The configuration has the checksums of all other files.
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: not a model folder, {name} is missing")
    return record_digest({name: sha256(folder / name) for name in (CONFIG, WEIGHTS)})


def open_predictor(settings: CorpusSettings) -> Predictor:
    """Load the model, with the words of the dictionaries, to run on one thread."""
    use_threads(1)
    predictor = load(settings.model, settings.device, settings.fast, settings.decode)
    if settings.task == "segment" and not predictor.model.indexer.cuts:
        message = "this model does not cut text into words; use `hanlattice corpus tag` with it"
        raise InputError(message, settings.model)
    if settings.trust is not None:
        predictor.trust = settings.trust
    for path in settings.lexicons:
        predictor.lexicon.load(path, settings.encoding)
    return predictor
