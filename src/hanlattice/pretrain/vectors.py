"""Vectors from raw text: counts, then epochs of word2vec, each kept on disk, so that a stopped run goes on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hanlattice.data.raw import RawText
from hanlattice.errors import InputError, OutputError
from hanlattice.events import Listener, ignore
from hanlattice.extras import extra, peak_memory, versions
from hanlattice.files import sha256, shown
from hanlattice.models.device import use_threads
from hanlattice.models.folder import WEIGHTS
from hanlattice.pretrain.kinds import Unit
from hanlattice.pretrain.outputs import Outputs, read_record
from hanlattice.pretrain.sentences import Sentences
from hanlattice.pretrain.units import bpe_path, make_units
from hanlattice.pretrain.vector_state import State, load_state, save_state
from hanlattice.pretrain.word2vec import Settings, train_epochs
from hanlattice.text.vectors import Vectors, write_vectors

_FORMS = {".vec": False, ".bin": True}  # is it binary
SUFFIXES = (*_FORMS, ".json")
_STATE = ".state"
_LITTLE = 100_000  # units of text below which vectors are hardly more than chance


@dataclass(frozen=True)
class Source:
    """The text, and what cuts it into words: a lexicon or a model's folder where one is given."""

    files: tuple[Path, ...]
    lexicon: Path | None = None
    model: Path | None = None
    device: str | None = None

    def digests(self) -> list[str]:
        """Checksums of everything that must be the same for a stopped run to go on."""
        return [sha256(path) for path in self.inputs()]

    def inputs(self) -> list[Path]:
        """The files that decide how the text is, and how it is cut."""
        weights = [self.model / WEIGHTS] if self.model else []
        lexicon = [self.lexicon] if self.lexicon else []
        return [*self.files, *weights, *lexicon, *(path for path in map(bpe_path, lexicon) if path.is_file())]


def train_vectors(
    source: Source, out: str | Path, settings: Settings, *, threads: int = 1, resume: bool = False,
    listen: Listener = ignore,
) -> dict[str, Any]:  # fmt: skip
    """Write OUT.vec, OUT.bin and OUT.json, which is what this returns. With one thread a seed decides every bit.

    OUT.state is there until the run is done; with `resume` a stopped run goes on after its last whole epoch.
    """
    extra("gensim")  # told before any work begins
    outputs = Outputs(out, SUFFIXES)
    outputs.check(source.inputs(), "unit")
    text = RawText(source.files)
    use_threads(threads)
    units = make_units(settings.unit, source.lexicon, source.model, source.device)
    identity = _identity(source, settings)
    state = _stopped(outputs, identity, resume)
    outputs.make_folder()
    if resume and state is None and (record := _finished(outputs, identity)):
        listen({"event": "finished"})
        return record
    keep = partial(save_state, outputs[_STATE], identity=identity)
    with contextlib.closing(Sentences(text, units, outputs.stem.parent, listen)) as sentences:
        state = _trained(sentences, settings, state, threads, keep, listen)
    return _write(outputs, state, _record(source, settings, state, threads, identity))


def _identity(source: Source, settings: Settings) -> str:
    return hashlib.sha256(json.dumps([asdict(settings), source.digests()]).encode()).hexdigest()


def _stopped(outputs: Outputs, identity: str, resume: bool) -> State | None:
    """The stopped run of this name, if there is one; it is neither taken up nor thrown away unasked."""
    path = outputs[_STATE]
    if not path.exists():
        return None
    if not resume:
        raise OutputError(f"{path} is of a stopped run: go on with it by --resume, or delete it to begin anew")
    return load_state(path, identity)


def _finished(outputs: Outputs, identity: str) -> dict[str, Any] | None:
    """The record of a run with the same text and settings that came to its end, if what it wrote is still there."""
    record = read_record(outputs[".json"])
    if record.get("identity") != identity or not all(outputs[suffix].is_file() for suffix in _FORMS):
        return None
    return record if record.get("sha256") == _sums(outputs) else None


def _sums(outputs: Outputs) -> dict[str, str]:
    return {suffix: sha256(outputs[suffix]) for suffix in _FORMS}


def _trained(
    sentences: Sentences, settings: Settings, state: State | None, threads: int, keep: Callable[[State], None],
    listen: Listener,
) -> State:  # fmt: skip
    """Count, if that is not done yet, and do the epochs that are left; after each the state is to be kept."""
    if state is None:
        state = _count(sentences, settings)
        keep(state)
    listen({"event": "counted", "epochs": settings.epochs, "epoch": state.epoch, **_counts(state)})
    for epoch in train_epochs(sentences, settings, state, threads):
        keep(state)
        listen({"event": "epoch", "epochs": settings.epochs, **epoch})
    return state


def _count(sentences: Sentences, settings: Settings) -> State:
    """How often each unit comes up; the commonest first, equal ones by code point."""
    start, lists, counts = time.perf_counter(), 0, Counter[str]()
    for lists, units in enumerate(sentences, start=1):  # noqa: B007 (the last number is the count)
        counts.update(units)
    kept = [(unit, count) for unit, count in counts.items() if count >= settings.min_count]
    if len(kept) < 2:
        raise InputError(_too_little(counts, settings))
    kept.sort(key=lambda pair: (-pair[1], pair[0]))
    words, numbers = zip(*kept, strict=True)
    total, seconds = counts.total(), time.perf_counter() - start
    return State(words, np.array(numbers), sentences=lists, units=total, types=len(counts), seconds=seconds)


def _too_little(counts: Counter[str], settings: Settings) -> str:
    units, least = settings.unit.plural, settings.min_count
    if not counts:
        return f"there are no {units} in the text"
    (commonest, times), *_ = counts.most_common(1)
    return (
        f"the text is too small: fewer than two {units} come up {least} times or more (the commonest, {commonest!r}, "
        f"{times} times); lower --min-count or give more text"
    )


def _counts(state: State) -> dict[str, Any]:
    notices = []
    if state.units < _LITTLE:
        notices.append(
            f"{state.units:,} units are little text for word2vec: the vectors will be hardly more than chance"
        )
    return {"units": state.units, "types": state.types, "vectors": len(state.words), "notices": notices}


def _record(source: Source, settings: Settings, state: State, threads: int, identity: str) -> dict[str, Any]:
    jieba = settings.unit is Unit.word and not source.lexicon and not source.model
    cutters = ["rjieba"] * jieba + ["tokenizers"] * (settings.unit is Unit.subword)
    return {
        "settings": asdict(settings),
        "files": [shown(path) for path in source.files],
        "lexicon": source.lexicon and shown(source.lexicon),
        "model": source.model and shown(source.model),
        "units": state.units,
        "types": state.types,
        "vectors": len(state.words),
        "seconds": round(state.seconds, 1),
        "peak_memory": peak_memory(),
        "threads": threads,
        "versions": versions("gensim", "numpy", *cutters),
        "identity": identity,
    }


def _write(outputs: Outputs, state: State, record: dict[str, Any]) -> dict[str, Any]:
    """The record comes last, so that where it is everything is; then the state is of no more use."""
    assert state.inputs is not None  # there is one epoch at least
    for suffix, binary in _FORMS.items():
        write_vectors(outputs[suffix], Vectors(state.words, state.inputs), binary=binary)
    record = {**record, "sha256": _sums(outputs)}
    outputs.write_record(record)
    outputs[_STATE].unlink(missing_ok=True)
    return record
