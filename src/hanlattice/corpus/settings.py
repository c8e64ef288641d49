"""What is done with a corpus: the model, its dictionaries and options, and which of them decide
what an output is.
"""

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
BROKEN = "broken"  # what an output has in place of a row that cannot be read


@dataclass(frozen=True)
class CorpusSettings:
    """They can be pickled, and sent to processes elsewhere that have the same files."""

    model: Path
    task: str = "tag"  # or segment, for which only a model will do that cuts text into words
    lexicons: tuple[Path, ...] = ()
    trust: float | None = None
    decode: str | None = None
    min_score: float = 0.0
    scores: bool = True
    device: str = "cpu"
    fast: bool = False
    encoding: str = "auto"  # of the inputs and dictionaries
    input_format: str | None = None  # where the names of files do not say it
    format: str = "jsonl"  # of the outputs; or parquet
    field: str = "text"  # of the inputs that have fields
    into: str = "spans"  # the field that the outputs have beside those of the inputs
    shard_size: int = 8 * MB
    strict: bool = False

    def identity(self) -> dict[str, Any]:
        """All that decides what an output is, but for its input. A GPU finds what a CPU finds,
        unless it is `fast`.
        """
        options = {
            name: getattr(self, name)
            for name in ("trust", "decode", "min_score", "scores", "format")
        }
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
    """Eight hexadecimal digits that outputs carry in their names."""
    return record_digest(identity)[:8]


def model_digest(folder: Path) -> str:
    """Of the weights, and of the configuration, which has the checksums of all other files."""
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: not a model folder, {name} is missing")
    return record_digest({name: sha256(folder / name) for name in (CONFIG, WEIGHTS)})


def open_predictor(settings: CorpusSettings) -> Predictor:
    """The model, with the words of the dictionaries, on one thread."""
    use_threads(1)
    predictor = load(settings.model, settings.device, settings.fast, settings.decode)
    if settings.task == "segment" and not predictor.model.indexer.cuts:
        raise InputError(
            "this model does not cut text into words; use `hanlattice corpus tag` with it",
            settings.model,
        )
    if settings.trust is not None:
        predictor.trust = settings.trust
    for path in settings.lexicons:
        predictor.lexicon.load(path, settings.encoding)
    return predictor
