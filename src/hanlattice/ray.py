"""Ray (extra `ray`): a model for Ray Data, and what the commands that run on a cluster share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hanlattice.errors import HanlatticeError, InputError
from hanlattice.optional import quiet, require
from hanlattice.predict import load
from hanlattice.text.span import arrow_type

__all__ = ["Tagger", "connect", "enter"]

# Environment variables that the processes of a cluster inherit from this one.
SENT = ("HANLATTICE_CACHE",)


class Tagger:
    """A class for Ray Data whose actors each hold a model, and add a column of spans to batches.

    A span is a struct of start, end, label, text and score. If a text is null, so are its spans.

    Args:
        field: The column of texts.
        into: The column of spans.
        lexicon: Words to add to the model's lexicon.

    Example:
        `ds.map_batches(Tagger, fn_constructor_kwargs={"model": "ner"},
        compute=ray.data.ActorPoolStrategy(size=4))`. On GPUs, add `num_gpus=1` and
        `"device": "cuda"`.
    """

    def __init__(
        self,
        model: str | Path = "ner",
        *,
        field: str = "text",
        into: str = "spans",
        device: str = "cpu",
        fast: bool = False,
        decode: str | float | None = None,
        lexicon: Sequence[str] = (),
        scores: bool = True,
        min_score: float = 0.0,
    ) -> None:
        self.field = field
        self.into = into
        self.options: dict[str, Any] = {"scores": scores, "min_score": min_score}
        self.predictor = load(model, device, fast, decode)
        if lexicon:
            self.predictor.lexicon.update(lexicon)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self.field not in batch:
            columns = ", ".join(batch)
            raise InputError(
                f"the batch has no column {self.field!r}, only {columns}: give `field`"
            )
        # A null is None or, after pandas, NaN, which differs from itself.
        texts = [text if text == text else None for text in batch[self.field].tolist()]
        present = (text for text in texts if text is not None)
        documents = self.predictor.pipe(present, **self.options)
        spans = [
            None if text is None else [span.as_dict() for span in next(documents).spans]
            for text in texts
        ]
        return {**batch, self.into: require("pyarrow").array(spans, arrow_type())}


def connect(address: str = "") -> Any:
    """Return Ray, connected to the cluster at `address`, else at RAY_ADDRESS, else a new one."""
    ray = require("ray")
    if not ray.is_initialized():
        sent = {name: os.environ[name] for name in SENT if name in os.environ}
        options: dict[str, Any] = {"runtime_env": {"env_vars": sent}} if sent else {}
        try:
            with quiet("ray"):
                ray.init(address or None, log_to_driver=False, logging_level="error", **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = f"at {address}" if address else "here"
            message = f"no Ray cluster {where} ({error}): `ray start --head` starts one"
            raise HanlatticeError(message) from None
    return ray


def enter(folder: str) -> None:
    """Change a cluster process to the folder of the command, so that relative paths are right."""
    try:
        os.chdir(folder)
    except OSError:
        message = f"{folder} is not on {os.uname().nodename}: all nodes must share its disk"
        raise HanlatticeError(message) from None
