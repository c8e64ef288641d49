"""A cache on disk for the language model's states of a corpus, so that no epoch waits for them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from filelock import FileLock

from hanlattice.data.download import cache_folder
from hanlattice.errors import OutputError
from hanlattice.features import Examples
from hanlattice.features.buckets import decoding_batches
from hanlattice.files import atomic_write, reason
from hanlattice.inference.decode import BOUNDS
from hanlattice.nn.language_model import LanguageModelStates
from hanlattice.nn.to_device import to_device
from hanlattice.text.lattice import Ints

# How many characters' states are in memory at a time.
CHUNK = 1 << 16

States = npt.NDArray[np.float16]


def with_states(examples: Examples, lm: LanguageModelStates, digest: str) -> Examples:
    """Return a corpus with the states of a language model, which stay on disk."""
    path = states_file(examples, lm, digest)
    shape = (len(examples.chars), lm.width)
    states = _cached(path, shape)
    if states is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path.with_suffix(".lock")).acquire()
        except OSError as error:
            raise OutputError(f"cannot write {path}: {reason(error)}") from None
        # Of runs side by side, one computes the states and the others wait: they may be gigabytes.
        with lock:
            if _cached(path, shape) is None:
                _write(path, examples, lm)
        states = _cached(path, shape)
    return replace(examples, states=states)


def states_file(examples: Examples, lm: LanguageModelStates, digest: str) -> Path:
    """Return the file that caches the states of these texts."""
    # CPU and GPU round differently, so each has its own file.
    key = hashlib.sha256(f"{digest} {lm.project.weight.device.type} float16".encode())
    for numbers in (examples.lengths, examples.symbols):
        key.update(np.ascontiguousarray(numbers, dtype="<i8").tobytes())
    return cache_folder() / "lm-states" / f"{key.hexdigest()}.npy"


def _cached(path: Path, shape: tuple[int, int]) -> States | None:
    """The states on disk, memory-mapped; None if they are missing or damaged."""
    try:
        states = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    is_whole = states.shape == shape and states.dtype == np.float16 and states.flags.c_contiguous
    return states if is_whole else None


def _write(path: Path, examples: Examples, lm: LanguageModelStates) -> None:
    # The sentences at which parts of about CHUNK characters begin.
    edges = np.flatnonzero(np.diff(np.cumsum(examples.lengths) // CHUNK)) + 1
    with atomic_write(path, binary=True) as file:
        header = {"descr": "<f2", "fortran_order": False, "shape": (len(examples.chars), lm.width)}
        np.lib.format.write_array_header_1_0(file, header)
        for low, high in pairwise([0, *edges.tolist(), len(examples.lengths)]):
            states = compute(examples, lm, np.arange(low, high))
            file.write(states.astype("<f2", copy=False).tobytes())


@torch.no_grad()
def compute(examples: Examples, lm: LanguageModelStates, places: Ints) -> States:
    """Return the states of these sentences one after the other, [characters, S]."""
    device = lm.project.weight.device
    lengths = examples.lengths[places]
    most, characters = BOUNDS[device.type]
    first = np.cumsum(lengths) - lengths
    states = np.empty((int(lengths.sum()), lm.width), dtype=np.float16)
    for batch in decoding_batches(lengths.tolist(), most, characters):
        part = to_device(examples.batch(places[batch]), device)
        assert part.symbols is not None
        padded = lm.states(part.symbols, part.lengths).cpu().numpy()
        for row, sentence in enumerate(batch):
            size = lengths[sentence]
            states[first[sentence] : first[sentence] + size] = padded[row, :size]
    return states
