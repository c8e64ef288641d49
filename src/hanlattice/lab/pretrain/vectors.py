"""Vectors from raw text by gensim's word2vec: count, then train epochs, with a resumable state."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.checkpoint.checksums import load_arrays, save_tensors
from hanlattice.checkpoint.folder import WEIGHTS
from hanlattice.data.formats.raw import RawText
from hanlattice.errors import InputError, ModelError, OutputError
from hanlattice.events import Listener, ignore
from hanlattice.files import printable_path, remove, sha256
from hanlattice.inference.device import use_threads
from hanlattice.lab.pretrain.outputs import Outputs, read_record
from hanlattice.lab.pretrain.units import Unit, UnitLists, bpe_path, make_units
from hanlattice.optional import peak_memory, quiet, require, versions
from hanlattice.text.vectors import Vectors, write_vectors

Matrix = npt.NDArray[np.float32]

# Suffix → whether the file is binary.
_FORMS = {".vec": False, ".bin": True}
SUFFIXES = (*_FORMS, ".json")
_STATE = ".state"
# With fewer units of text, vectors are little better than random.
_LITTLE = 100_000
# word2vec's learning rate falls linearly.
_FIRST_RATE = 0.025
_LAST_RATE = 0.0001


@dataclass(frozen=True)
class VectorSettings:
    """Together with the text and the seed, these determine the vectors."""

    unit: Unit = Unit.char
    dim: int = 100
    window: int = 5
    negative: int = 5
    min_count: int = 5
    epochs: int = 5
    sample: float = 1e-3
    cbow: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("dim", "window", "negative", "min_count", "epochs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, not {getattr(self, name)}")
        if not 0 <= self.sample < 1:
            wanted = "0 (keep everything) or a share below 1"
            raise InputError(f"sample must be {wanted}, not {self.sample}")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"seed must be from 0 to {2**32 - 1}, not {self.seed}")


@dataclass(frozen=True)
class VectorSource:
    """The text, and the lexicon or the model folder that cuts it into words, if there is one."""

    files: tuple[Path, ...]
    lexicon: Path | None = None
    model: Path | None = None
    device: str | None = None

    def inputs(self) -> list[Path]:
        """Return the files that determine the text and how it is cut."""
        weights = [self.model / WEIGHTS] if self.model else []
        lexicon = [self.lexicon] if self.lexicon else []
        pieces = [path for path in map(bpe_path, lexicon) if path.is_file()]
        return [*self.files, *weights, *lexicon, *pieces]


def train_vectors(
    source: VectorSource,
    out: str | Path,
    settings: VectorSettings,
    *,
    threads: int = 1,
    resume: bool = False,
    listen: Listener = ignore,
) -> dict[str, Any]:
    """Write OUT.vec, OUT.bin and OUT.json, and return what OUT.json contains.

    OUT.state exists until the run is done. One thread makes the result deterministic. With
    `resume`, an interrupted run continues after its last complete epoch.
    """
    # If it is missing, say so before any work.
    require("gensim")
    outputs = Outputs(out, SUFFIXES)
    outputs.check(source.inputs(), "unit", begun=outputs[_STATE].exists())
    text = RawText(source.files)
    use_threads(threads)
    units = make_units(settings.unit, source.lexicon, source.model, source.device)
    # What must be the same for an interrupted run to continue.
    digests = [sha256(path) for path in source.inputs()]
    identity = hashlib.sha256(json.dumps([asdict(settings), digests]).encode()).hexdigest()
    state = None
    if outputs[_STATE].exists():
        if not resume:
            advice = "continue it with --resume, or delete it to start over"
            raise OutputError(f"{outputs[_STATE]} belongs to an interrupted run: {advice}")
        state = load_state(outputs[_STATE], identity)
    outputs.make_folder()
    if resume and state is None and (record := _finished(outputs, identity)):
        listen({"event": "finished"})
        return record
    save = partial(save_state, outputs[_STATE], identity=identity)
    with contextlib.closing(UnitLists(text, units, outputs.stem.parent, listen)) as lists:
        state = _train(lists, settings, state, threads, save, listen)
    # There is one epoch at least.
    assert state.inputs is not None
    for suffix, binary in _FORMS.items():
        write_vectors(outputs[suffix], Vectors(state.words, state.inputs), binary=binary)
    record = _record(source, settings, state, threads, identity) | {"sha256": _sums(outputs)}
    # The last file: where the record exists, all files do.
    outputs.write_record(record)
    remove(outputs[_STATE])
    return record


def _finished(outputs: Outputs, identity: str) -> dict[str, Any] | None:
    """Return the record of a finished run of this identity, if its files are unchanged."""
    record = read_record(outputs[".json"])
    complete = all(outputs[suffix].is_file() for suffix in _FORMS)
    same = complete and record.get("identity") == identity
    return record if same and record.get("sha256") == _sums(outputs) else None


def _sums(outputs: Outputs) -> dict[str, str]:
    return {suffix: sha256(outputs[suffix]) for suffix in _FORMS}


def _train(
    lists: UnitLists,
    settings: VectorSettings,
    state: VectorState | None,
    threads: int,
    save: Callable[[VectorState], None],
    listen: Listener,
) -> VectorState:
    """Count, unless that is done, and train the remaining epochs; save the state after each."""
    if state is None:
        state = _count(lists, settings)
        save(state)
    notices = []
    if state.units < _LITTLE:
        little = f"{state.units:,} units are little text for word2vec"
        notices.append(f"{little}: the vectors will be hardly more than chance")
    counted = {**state.facts(), "notices": notices}
    listen({"event": "counted", "epochs": settings.epochs, "epoch": state.epoch, **counted})
    for epoch in _train_epochs(lists, settings, state, threads):
        save(state)
        listen({"event": "epoch", "epochs": settings.epochs, **epoch})
    return state


def _count(lists: UnitLists, settings: VectorSettings) -> VectorState:
    """Count each unit; the most frequent first, equal ones by code point."""
    start = time.perf_counter()
    number = 0
    counts = Counter[str]()
    for units in lists:
        number += 1
        counts.update(units)
    kept = [(unit, count) for unit, count in counts.items() if count >= settings.min_count]
    if len(kept) < 2:
        plural = settings.unit.plural
        if not counts:
            raise InputError(f"there are no {plural} in the text")
        (commonest, times), *_ = counts.most_common(1)
        raise InputError(
            f"the text is too small: fewer than two {plural} occur {settings.min_count} times or "
            f"more (the most frequent, {commonest!r}, {times} times); lower --min-count or give "
            "more text"
        )
    kept.sort(key=lambda pair: (-pair[1], pair[0]))
    words, numbers = zip(*kept, strict=True)
    seconds = time.perf_counter() - start
    total = counts.total()
    return VectorState(words, np.array(numbers), number, total, len(counts), seconds)


def _record(
    source: VectorSource, settings: VectorSettings, state: VectorState, threads: int, identity: str
) -> dict[str, Any]:
    jieba = settings.unit is Unit.word and not source.lexicon and not source.model
    cutters = ["rjieba"] * jieba + ["tokenizers"] * (settings.unit is Unit.subword)
    return {
        "settings": asdict(settings),
        "files": [printable_path(path) for path in source.files],
        "lexicon": source.lexicon and printable_path(source.lexicon),
        "model": source.model and printable_path(source.model),
        **state.facts(),
        "seconds": round(state.seconds, 1),
        "peak_memory": peak_memory(),
        "threads": threads,
        "versions": versions("gensim", "numpy", *cutters),
        "identity": identity,
    }


# ---- the resumable state


@dataclass
class VectorState:
    """A run between two epochs; `epoch` is the next one, from 0.

    `counts` is [V], `sentences` the lists that word2vec gets in an epoch. `inputs` are the vectors
    and `outputs` those of negative sampling, both [V, E]; before the first epoch there are none.
    """

    words: tuple[str, ...]
    counts: npt.NDArray[Any]
    sentences: int
    units: int
    types: int
    seconds: float
    epoch: int = 0
    inputs: Matrix | None = None
    outputs: Matrix | None = None

    def facts(self) -> dict[str, int]:
        """Return the sizes of text and vocabulary."""
        return {"units": self.units, "types": self.types, "vectors": len(self.words)}


_NUMBERS = ("sentences", "units", "types", "seconds", "epoch")


def save_state(path: Path, state: VectorState, identity: str) -> None:
    """Write a state; `identity` says which settings and text it belongs to."""
    words = np.frombuffer("\n".join(state.words).encode("utf-8"), dtype=np.uint8)
    arrays = {"words": words.copy(), "counts": state.counts}
    if state.inputs is not None and state.outputs is not None:
        arrays |= {"inputs": state.inputs, "outputs": state.outputs}
    numbers = json.dumps({name: getattr(state, name) for name in _NUMBERS})
    save_tensors(path, arrays, {"identity": identity, "numbers": numbers})


def load_state(path: Path, identity: str) -> VectorState:
    """Read a state, which must have this identity."""
    loaded, metadata = load_arrays(path)
    if metadata.get("identity") != identity:
        problem = f"{path} belongs to a run with other settings or other text"
        raise ModelError(f"{problem}; resume with the same, or delete it")
    # Copies, since training goes on in them.
    arrays: dict[str, Any] = {name: np.array(array) for name, array in loaded.items()}
    words = tuple(arrays.pop("words").tobytes().decode("utf-8").split("\n"))
    return VectorState(words, **arrays, **json.loads(metadata["numbers"]))


# ---- gensim


def _train_epochs(
    lists: UnitLists, settings: VectorSettings, state: VectorState, threads: int
) -> Iterator[dict[str, Any]]:
    """Train the remaining epochs; yield time and speed after each, when the state is complete.

    Each epoch has its share of the falling learning rate and random numbers of its own, so that it
    can be resumed.
    """
    model = _gensim_model(settings, state, threads)
    fall = (_FIRST_RATE - _LAST_RATE) / settings.epochs
    for epoch in range(state.epoch, settings.epochs):
        start = time.perf_counter()
        model.random = np.random.RandomState([settings.seed, epoch])
        # Of the last pass: the next iteration counts one further.
        lists.progress.number = epoch
        _train_epoch(model, lists, _FIRST_RATE - epoch * fall, _FIRST_RATE - (epoch + 1) * fall)
        seconds = time.perf_counter() - start
        state.inputs = model.wv.vectors
        state.outputs = model.syn1neg
        state.epoch = epoch + 1
        state.seconds += seconds
        yield {"epoch": epoch + 1, "seconds": seconds, "rate": state.units / seconds}


def _gensim_model(settings: VectorSettings, state: VectorState, threads: int) -> Any:
    """Make gensim's model over the state's words, with its matrices if there are any."""
    sizes = {"vector_size": settings.dim, "window": settings.window, "negative": settings.negative}
    words = {"sample": settings.sample, "min_count": 1, "sorted_vocab": 0}
    with quiet("gensim"):
        model = require("gensim", "models.word2vec").Word2Vec(
            **sizes, **words, sg=int(not settings.cbow), seed=settings.seed, workers=threads
        )
        counts = dict(zip(state.words, state.counts.tolist(), strict=True))
        model.build_vocab_from_freq(counts, corpus_count=state.sentences)
    if state.inputs is not None:
        model.wv.vectors[:] = state.inputs
        model.syn1neg[:] = state.outputs
    return model


def _train_epoch(model: Any, lists: UnitLists, first_rate: float, last_rate: float) -> None:
    errors: list[Exception] = []

    # gensim reads in a thread, and after an error there would wait for ever.
    def until_error() -> Iterator[list[str]]:
        try:
            yield from lists
        except Exception as error:
            errors.append(error)

    rates = {"start_alpha": first_rate, "end_alpha": last_rate}
    try:
        with quiet("gensim"):
            model.train(until_error(), total_examples=model.corpus_count, epochs=1, **rates)
    finally:
        lists.stopped = True
    if errors:
        raise errors[0]
