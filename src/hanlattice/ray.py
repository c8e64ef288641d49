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

SENT = ("HANLATTICE_CACHE",)  # variables that the processes of a cluster need as they are here


class Tagger:
    """A model as Ray Data wants it: each actor holds one, and adds a column of spans to its
    batches.

    `ds.map_batches(Tagger, fn_constructor_kwargs={"model": "ner"},
    compute=ray.data.ActorPoolStrategy(size=4))`; on GPUs with `num_gpus=1` and `"device": "cuda"`.
    A span is a struct of start, end, label, text and score; where the text is null, the spans are
    null. `lexicon` are words that are added to the model's.
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
        self.asked: dict[str, Any] = {"scores": scores, "min_score": min_score}
        self.predictor = load(model, device, fast, decode)
        if lexicon:
            self.predictor.lexicon.update(lexicon)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self.field not in batch:
            raise InputError(
                f"the batch has no column {self.field!r}, only {', '.join(batch)}: give `field`"
            )
        texts = [
            None if text is None or text != text else text for text in batch[self.field].tolist()
        ]  # null or NaN
        documents = self.predictor.pipe((text for text in texts if text is not None), **self.asked)
        spans = [
            None if text is None else [span.as_dict() for span in next(documents).spans]
            for text in texts
        ]
        return {**batch, self.into: require("pyarrow").array(spans, arrow_type())}


def connect(address: str = "") -> Any:
    """Ray, connected to a cluster: that of `address`, or of RAY_ADDRESS, or a new one on this
    machine.
    """
    ray = require("ray")
    if not ray.is_initialized():
        sent = {name: os.environ[name] for name in SENT if name in os.environ}
        options: dict[str, Any] = {"runtime_env": {"env_vars": sent}} if sent else {}
        try:
            with quiet("ray"):
                ray.init(address or None, log_to_driver=False, logging_level="error", **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = f"at {address}" if address else "here"
            raise HanlatticeError(
                f"no Ray cluster {where} ({error}): `ray start --head` starts one"
            ) from None
    return ray


def enter(folder: str) -> None:
    """In a process of a cluster: go to the folder from which the command was given, so that its
    paths are right.
    """
    try:
        os.chdir(folder)
    except OSError:
        raise HanlatticeError(
            f"{folder} is not on {os.uname().nodename}: all nodes must share its disk"
        ) from None
