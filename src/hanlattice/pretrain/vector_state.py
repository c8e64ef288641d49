"""Where a training of vectors stands, in one file: the vocabulary, both matrices, and the next epoch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hanlattice.errors import ModelError
from hanlattice.models.checksums import load_tensors, save_tensors

Matrix = npt.NDArray[np.float32]


@dataclass
class State:
    """`epoch` is the next one to do, from 0. Before the first there are no matrices yet."""

    words: tuple[str, ...]
    counts: npt.NDArray[Any]  # [V]
    sentences: int  # lists that word2vec is given in an epoch
    units: int
    types: int
    seconds: float
    epoch: int = 0
    inputs: Matrix | None = None  # [V, E]: the vectors
    outputs: Matrix | None = None  # [V, E]: those of negative sampling

    def take(self, inputs: Matrix, outputs: Matrix, epoch: int, seconds: float) -> None:
        self.inputs, self.outputs, self.epoch = inputs, outputs, epoch
        self.seconds += seconds


_NUMBERS = ("sentences", "units", "types", "seconds", "epoch")


def save_state(path: Path, state: State, identity: str) -> None:
    """`identity` says which settings and text the state belongs to."""
    words = np.frombuffer("\n".join(state.words).encode("utf-8"), dtype=np.uint8)
    arrays = {"words": words.copy(), "counts": state.counts}
    if state.inputs is not None and state.outputs is not None:
        arrays |= {"inputs": state.inputs, "outputs": state.outputs}
    numbers = json.dumps({name: getattr(state, name) for name in _NUMBERS})
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    save_tensors(path, tensors, {"identity": identity, "numbers": numbers})


def load_state(path: Path, identity: str) -> State:
    tensors, metadata = load_tensors(path)
    if metadata.get("identity") != identity:
        raise ModelError(f"{path} is of a run with other settings or other text; resume with the same, or delete it")
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    words = arrays.pop("words").tobytes().decode("utf-8").split("\n")
    numbers = json.loads(metadata["numbers"])
    return State(tuple(words), arrays["counts"], inputs=arrays.get("inputs"), outputs=arrays.get("outputs"), **numbers)
