"""Vectors from raw text by gensim's word2vec: count, then train epoch by epoch with a resumable
state on disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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

_FORMS = {".vec": False, ".bin": True}  # is it binary
SUFFIXES = (*_FORMS, ".json")
_STATE = ".state"
_LITTLE = 100_000  # units of text below which vectors are little better than random
# word2vec's learning rate falls from the one to the other
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
            raise InputError(
                f"sample must be 0 (keep everything) or a share below 1, not {self.sample}"
            )
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
        """The files that determine the text and how it is cut."""
        weights = [self.model / WEIGHTS] if self.model else []
        lexicon = [self.lexicon] if self.lexicon else []
        return [
            *self.files,
            *weights,
            *lexicon,
            *(path for path in map(bpe_path, lexicon) if path.is_file()),
        ]


def train_vectors(
    source: VectorSource, out: str | Path, settings: VectorSettings, *, threads: int = 1, resume: bool = False,
    listen: Listener = ignore,
) -> dict[str, Any]:  # fmt: skip
    """Write OUT.vec, OUT.bin and OUT.json, and return what OUT.json contains. One thread makes it
    deterministic.

    OUT.state exists until the run is done; with `resume` an interrupted run continues after its
    last complete epoch.
    """
    require("gensim")  # if it is missing, say so before any work
    outputs = Outputs(out, SUFFIXES)
    outputs.check(source.inputs(), "unit", begun=outputs[_STATE].exists())
    text = RawText(source.files)
    use_threads(threads)
    units = make_units(settings.unit, source.lexicon, source.model, source.device)
    identity = _identity(source, settings)
    state = _interrupted(outputs, identity, resume)
    outputs.make_folder()
    if resume and state is None and (record := _finished(outputs, identity)):
        listen({"event": "finished"})
        return record
    save = partial(save_state, outputs[_STATE], identity=identity)
    with contextlib.closing(UnitLists(text, units, outputs.stem.parent, listen)) as lists:
        state = _train(lists, settings, state, threads, save, listen)
    return _write(outputs, state, _record(source, settings, state, threads, identity))


def _identity(source: VectorSource, settings: VectorSettings) -> str:
    """A checksum of everything that must be the same for an interrupted run to continue."""
    digests = [sha256(path) for path in source.inputs()]
    return hashlib.sha256(json.dumps([asdict(settings), digests]).encode()).hexdigest()


def _interrupted(outputs: Outputs, identity: str, resume: bool) -> VectorState | None:
    """The state of an interrupted run, which is neither continued nor deleted unless the user asks
    for it.
    """
    path = outputs[_STATE]
    if not path.exists():
        return None
    if not resume:
        raise OutputError(
            f"{path} belongs to an interrupted run: continue it with --resume, or delete it to start over"
        )
    return load_state(path, identity)


def _finished(outputs: Outputs, identity: str) -> dict[str, Any] | None:
    """The record of a finished run with the same text and settings, if its files are still as it
    wrote them.
    """
    record = read_record(outputs[".json"])
    if record.get("identity") != identity or not all(
        outputs[suffix].is_file() for suffix in _FORMS
    ):
        return None
    return record if record.get("sha256") == _sums(outputs) else None


def _sums(outputs: Outputs) -> dict[str, str]:
    return {suffix: sha256(outputs[suffix]) for suffix in _FORMS}


def _train(
    lists: UnitLists, settings: VectorSettings, state: VectorState | None, threads: int,
    save: Callable[[VectorState], None], listen: Listener,
) -> VectorState:  # fmt: skip
    """Count, unless that is done, and train the remaining epochs; the state is saved after each."""
    if state is None:
        state = _count(lists, settings)
        save(state)
    little = f"{state.units:,} units are little text for word2vec: the vectors will be hardly more than chance"
    counted = {**state.facts(), "notices": [little] if state.units < _LITTLE else []}
    listen({"event": "counted", "epochs": settings.epochs, "epoch": state.epoch, **counted})
    for epoch in _train_epochs(lists, settings, state, threads):
        save(state)
        listen({"event": "epoch", "epochs": settings.epochs, **epoch})
    return state


def _count(lists: UnitLists, settings: VectorSettings) -> VectorState:
    """The frequency of each unit; the most frequent first, equal ones by code point."""
    start = time.perf_counter()
    number = 0
    counts = Counter[str]()
    for number, units in enumerate(lists, start=1):  # noqa: B007 (the last number is the count)
        counts.update(units)
    kept = [(unit, count) for unit, count in counts.items() if count >= settings.min_count]
    if len(kept) < 2:
        raise InputError(_too_little(counts, settings))
    kept.sort(key=lambda pair: (-pair[1], pair[0]))
    words, numbers = zip(*kept, strict=True)
    total = counts.total()
    seconds = time.perf_counter() - start
    return VectorState(
        words, np.array(numbers), sentences=number, units=total, types=len(counts), seconds=seconds
    )


def _too_little(counts: Counter[str], settings: VectorSettings) -> str:
    units = settings.unit.plural
    least = settings.min_count
    if not counts:
        return f"there are no {units} in the text"
    (commonest, times), *_ = counts.most_common(1)
    return (
        f"the text is too small: fewer than two {units} occur {least} times or more (the most frequent, {commonest!r}, "
        f"{times} times); lower --min-count or give more text"
    )


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


def _write(outputs: Outputs, state: VectorState, record: dict[str, Any]) -> dict[str, Any]:
    """The record is written last, so that where it exists all files do; after that the state is not
    needed.
    """
    assert state.inputs is not None  # there is one epoch at least
    for suffix, binary in _FORMS.items():
        write_vectors(outputs[suffix], Vectors(state.words, state.inputs), binary=binary)
    record = {**record, "sha256": _sums(outputs)}
    outputs.write_record(record)
    remove(outputs[_STATE])
    return record


# ---- the resumable state


@dataclass
class VectorState:
    """`epoch` is the next one, from 0. Before the first there are no matrices."""

    words: tuple[str, ...]
    counts: npt.NDArray[Any]  # [V]
    sentences: int  # lists that word2vec gets in an epoch
    units: int
    types: int
    seconds: float
    epoch: int = 0
    inputs: Matrix | None = None  # [V, E]: the vectors
    outputs: Matrix | None = None  # [V, E]: those of negative sampling

    def facts(self) -> dict[str, int]:
        return {"units": self.units, "types": self.types, "vectors": len(self.words)}


_NUMBERS = ("sentences", "units", "types", "seconds", "epoch")


def save_state(path: Path, state: VectorState, identity: str) -> None:
    """`identity` says which settings and text the state belongs to."""
    words = np.frombuffer("\n".join(state.words).encode("utf-8"), dtype=np.uint8)
    arrays = {"words": words.copy(), "counts": state.counts}
    if state.inputs is not None and state.outputs is not None:
        arrays |= {"inputs": state.inputs, "outputs": state.outputs}
    numbers = json.dumps({name: getattr(state, name) for name in _NUMBERS})
    save_tensors(path, arrays, {"identity": identity, "numbers": numbers})


def load_state(path: Path, identity: str) -> VectorState:
    loaded, metadata = load_arrays(path)
    if metadata.get("identity") != identity:
        raise ModelError(
            f"{path} belongs to a run with other settings or other text; resume with the same, or delete it"
        )
    arrays = {name: np.array(array) for name, array in loaded.items()}  # training goes on in them
    words = tuple(arrays.pop("words").tobytes().decode("utf-8").split("\n"))
    numbers = json.loads(metadata["numbers"])
    return VectorState(
        words,
        arrays["counts"],
        inputs=arrays.get("inputs"),
        outputs=arrays.get("outputs"),
        **numbers,
    )


# ---- gensim


def _train_epochs(
    lists: UnitLists, settings: VectorSettings, state: VectorState, threads: int
) -> Iterator[dict[str, Any]]:
    """Train the remaining epochs; after each, the state has its matrices, and its time and speed
    are yielded.

    Each epoch has its share of the falling learning rate and random numbers of its own, so that it
    can be resumed.
    """
    model = _gensim_model(settings, state, threads)
    fall = (_FIRST_RATE - _LAST_RATE) / settings.epochs
    for epoch in range(state.epoch, settings.epochs):
        start = time.perf_counter()
        model.random = np.random.RandomState([settings.seed, epoch])
        lists.progress.number = epoch  # of the pass before
        _train_epoch(model, lists, _FIRST_RATE - epoch * fall, _FIRST_RATE - (epoch + 1) * fall)
        seconds = time.perf_counter() - start
        state.inputs = model.wv.vectors
        state.outputs = model.syn1neg
        state.epoch = epoch + 1
        state.seconds += seconds
        yield {"epoch": epoch + 1, "seconds": seconds, "rate": state.units / seconds}


def _gensim_model(settings: VectorSettings, state: VectorState, threads: int) -> Any:
    """gensim's model over this vocabulary, in this order, with the matrices of an interrupted run
    if there are any.
    """
    with quiet("gensim"):
        model = require("gensim", "models.word2vec").Word2Vec(
            vector_size=settings.dim, window=settings.window, negative=settings.negative, sg=int(not settings.cbow),
            sample=settings.sample, seed=settings.seed, min_count=1, sorted_vocab=0, workers=threads,
        )  # fmt: skip
        counts = dict(zip(state.words, state.counts.tolist(), strict=True))
        model.build_vocab_from_freq(counts, corpus_count=state.sentences)
    if state.inputs is not None:
        model.wv.vectors[:], model.syn1neg[:] = state.inputs, state.outputs
    return model


def _train_epoch(model: Any, lists: UnitLists, first_rate: float, last_rate: float) -> None:
    """gensim reads in a thread, and after an error there would wait for ever; so the error is
    raised here.
    """
    errors: list[Exception] = []
    try:
        with quiet("gensim"):
            model.train(
                _until_error(lists, errors), total_examples=model.corpus_count, epochs=1, start_alpha=first_rate,
                end_alpha=last_rate,
            )  # fmt: skip
    finally:
        lists.stopped = True
    if errors:
        raise errors[0]


def _until_error(lists: Iterable[list[str]], errors: list[Exception]) -> Iterator[list[str]]:
    """Stops at an error and puts it into a list."""
    try:
        yield from lists
    except Exception as error:
        errors.append(error)
