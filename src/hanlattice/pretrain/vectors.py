"""Vectors from raw text: counts, then epochs of word2vec, each kept on disk, so that a stopped run goes on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hanlattice.data.raw import RawText
from hanlattice.errors import InputError, OutputError
from hanlattice.files import sha256, writing
from hanlattice.models.checkpoint import WEIGHTS
from hanlattice.models.device import use_threads
from hanlattice.pretrain.extras import extra, peak_memory, versions
from hanlattice.pretrain.kinds import Unit
from hanlattice.pretrain.sentences import Sentences
from hanlattice.pretrain.units import bpe_path, make_units
from hanlattice.pretrain.vector_state import State, load_state, save_state
from hanlattice.pretrain.word2vec import Settings, train_epochs
from hanlattice.text.vectors import Vectors, write_vectors
from hanlattice.training.log import Listener, ignore

_SUFFIXES = (".vec", ".bin", ".json")
_LITTLE = 100_000  # units of text below which vectors are hardly more than chance


@dataclass(frozen=True)
class Source:
    """The text, and what cuts it into words: a lexicon or a model's folder where one is given."""

    files: tuple[Path, ...]
    lexicon: Path | None = None
    model: Path | None = None
    device: str = "cpu"

    def digests(self) -> list[str]:
        """Checksums of everything that must be the same for a stopped run to go on."""
        return [sha256(path) for path in (*self.files, *self._cutters())]

    def _cutters(self) -> Iterator[Path]:
        if self.model:
            yield self.model / WEIGHTS
        if self.lexicon:
            yield self.lexicon
            if bpe_path(self.lexicon).is_file():
                yield bpe_path(self.lexicon)


def train_vectors(
    source: Source, out: str | Path, settings: Settings, *, threads: int = 1, resume: bool = False,
    listen: Listener = ignore,
) -> dict[str, Any]:  # fmt: skip
    """Write OUT.vec, OUT.bin and OUT.json, which is what this returns. With one thread a seed decides every bit.

    OUT.state is there until the run is done; with `resume` a stopped run goes on after its last whole epoch.
    """
    extra("gensim")  # told before any work begins
    text = RawText(source.files)
    use_threads(threads)
    units = make_units(settings.unit, source.lexicon, source.model, source.device)
    stem, identity = output_stem(out), _identity(source, settings)
    state = _stopped(stem, identity, resume)
    _make_folder(stem.parent)
    if resume and state is None and (record := _finished(stem, identity)):
        listen({"event": "finished"})
        return record
    with contextlib.closing(Sentences(text, units, stem.parent, listen)) as sentences:
        if state is None:
            state = _count(sentences, settings)
            save_state(_state_path(stem), state, identity)
        listen({"event": "counted", "epochs": settings.epochs, "epoch": state.epoch, **_counts(state)})
        for epoch in train_epochs(sentences, settings, state, threads):
            save_state(_state_path(stem), state, identity)
            listen({"event": "epoch", "epochs": settings.epochs, **epoch})
    record = _record(source, settings, state, threads, identity)
    assert state.inputs is not None  # there is one epoch at least
    _write(stem, Vectors(state.words, state.inputs), record)
    return record


def output_stem(out: str | Path) -> Path:
    """The path that gets .vec, .bin and .json: `out`, less such a suffix if the user wrote one."""
    path = Path(out)
    if path.is_dir():
        raise OutputError(f"{path} is a folder: --out names the files in it, as in {path / 'char'}")
    return path.with_suffix("") if path.suffix in _SUFFIXES else path


def _state_path(stem: Path) -> Path:
    return stem.with_name(stem.name + ".state")


def _identity(source: Source, settings: Settings) -> str:
    return hashlib.sha256(json.dumps([asdict(settings), source.digests()]).encode()).hexdigest()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}") from None


def _stopped(stem: Path, identity: str, resume: bool) -> State | None:
    """The stopped run of this name, if there is one; it is neither taken up nor thrown away unasked."""
    path = _state_path(stem)
    if not path.exists():
        return None
    if not resume:
        raise OutputError(f"{path} is of a stopped run: go on with it by --resume, or delete it to begin anew")
    return load_state(path, identity)


def _finished(stem: Path, identity: str) -> dict[str, Any] | None:
    """The record of a run with the same text and settings that came to its end."""
    with contextlib.suppress(OSError, ValueError):
        record = json.loads(stem.with_name(stem.name + ".json").read_text("utf-8"))
        if isinstance(record, dict) and record.get("identity") == identity:
            return record
    return None


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
    unit, least = settings.unit.value, settings.min_count
    if not counts:
        return f"there is no {unit} in the text"
    (commonest, times), *_ = counts.most_common(1)
    return (
        f"the text is too small: fewer than two {unit}s come up {least} times or more (the commonest, {commonest!r}, "
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
        "files": [str(path) for path in source.files],
        "lexicon": source.lexicon and str(source.lexicon),
        "model": source.model and str(source.model),
        "units": state.units,
        "types": state.types,
        "vectors": len(state.words),
        "seconds": round(state.seconds, 1),
        "peak_memory": peak_memory(),
        "threads": threads,
        "versions": versions("gensim", "numpy", *cutters),
        "identity": identity,
    }


def _write(stem: Path, vectors: Vectors, record: dict[str, Any]) -> None:
    """The record comes last, so that where it is everything is; then the state is of no more use."""
    write_vectors(stem.with_name(stem.name + ".vec"), vectors, binary=False)
    write_vectors(stem.with_name(stem.name + ".bin"), vectors, binary=True)
    with writing(stem.with_name(stem.name + ".json")) as file:
        json.dump(record, file, ensure_ascii=False, indent=2)
        file.write("\n")
    _state_path(stem).unlink(missing_ok=True)
