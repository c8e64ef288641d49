"""Words for softwords and word models: those of text.segmenter, or cut by a segmentation model of
our own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hanlattice.checkpoint import find_model
from hanlattice.errors import HanlatticeError, InputError, ModelError
from hanlattice.files import sha256
from hanlattice.inference.decode import LIMIT, find_spans
from hanlattice.text import segment
from hanlattice.text.boundaries import pieces
from hanlattice.text.fork_safety import cached_property
from hanlattice.text.lattice import Ints, cells
from hanlattice.text.segment import SEGMENTERS, Cuts, Segmenter
from hanlattice.text.span import Span
from hanlattice.text.tags import FlatSpans

if TYPE_CHECKING:
    from hanlattice.checkpoint.folder import Model

_FILES = (
    "config.json",
    "model.safetensors",
)  # of the folder; the first has the checksums of the others
_DIGITS = 12  # of a checksum that stands for a version


class ModelSegmenter:
    """Cuts text as a segmentation model does: a bundled one, or that of a folder.

    The model is loaded when the first text comes, and several segmenters share it. A character
    outside of its words, such as white space, is a word of its own.
    """

    def __init__(self, name: str | Path, device: str = "cpu") -> None:
        self.name = name
        self.device = device

    def __reduce__(self) -> tuple[object, ...]:
        return ModelSegmenter, (self.name, self.device)

    @cached_property
    def model(self) -> Model:
        folder = find_model(self.name).resolve()
        weights = folder / _FILES[1]
        return _load(folder, self.device, weights.stat().st_mtime_ns if weights.is_file() else 0)

    def __call__(
        self, texts: Sequence[str], words: Sequence[tuple[Span, ...] | None] | None = None
    ) -> Cuts:
        try:
            tagger = self.model.tagger
            indexer = self.model.indexer
        except HanlatticeError as error:
            raise ModelError(
                f"the segmenter {self.name}, by which this model cuts text, fails: {error}"
            ) from None
        parts = [
            (at, start, end) for at, text in enumerate(texts) for start, end in pieces(text, LIMIT)
        ]
        examples = indexer.read([texts[at][start:end] for at, start, end in parts])
        text, by, _ = np.array(parts, dtype=np.int64).reshape(-1, 3).T
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        return _covering(find_spans(tagger, indexer, examples).moved(text, by).spans, lengths)


@lru_cache(maxsize=2)
def _load(folder: Path, device: str, changed: int) -> Model:
    from hanlattice.checkpoint.folder import load_model  # which itself makes segmenters

    model = load_model(folder, device)
    if not model.indexer.cuts:
        found = f"its spans are {', '.join(model.indexer.tag_ids.labels)}"
        raise InputError(
            f"{found}: expected a segmentation model, whose words cover the text", folder
        )
    if model.config.reads_segments and model.config.segment.by != "rjieba":
        message = f"it reads words itself, by {model.config.segment.by}: expected a segmentation model that reads text"
        raise InputError(message, folder)
    return model


def _covering(spans: FlatSpans, lengths: Ints) -> Cuts:
    """Cuts at the spans, which do not overlap, and around every character between them."""
    first = np.cumsum(lengths) - lengths
    edges = np.zeros(lengths.sum() + 1, dtype=np.int64)
    np.add.at(edges, first[spans.text] + spans.start + 1, 1)
    np.add.at(edges, first[spans.text] + spans.end, -1)
    begins = np.cumsum(edges)[:-1] == 0  # [N]: whether a word begins here
    text, start = (array[begins] for array in cells(lengths))
    counts = np.bincount(text, minlength=len(lengths))
    end = np.append(start[1:], 0)
    last = np.cumsum(counts)[counts > 0] - 1
    end[last] = lengths[counts > 0]
    return Cuts(counts, start, end[: len(start)])


def make_segmenter(name: str, pos: bool = False, device: str = "cpu") -> Segmenter:
    """What segment.by names: one of SEGMENTERS, whose words can have parts of speech, a bundled
    model or a folder.
    """
    return segment.make_segmenter(name, pos) if name in SEGMENTERS else ModelSegmenter(name, device)


def segmenter_version(name: str) -> str | None:
    """The version of the package behind a segmenter, or a model's checksum; None where there is
    none.
    """
    return (
        segment.segmenter_version(name) if name in SEGMENTERS or not name else model_version(name)
    )


def model_version(name: str) -> str | None:
    """The checksum of a bundled model, or of one in a folder; None where there is none."""
    try:
        digests = [sha256(find_model(name) / file) for file in _FILES]
    except HanlatticeError:  # the first text reports what is wrong
        return None
    return f"sha256:{hashlib.sha256(' '.join(digests).encode()).hexdigest()[:_DIGITS]}"


def check_segmenter(name: str, device: str) -> None:
    """Refuse a name that is no segmenter's, before any work."""
    made = make_segmenter(name, device=device)
    if isinstance(made, ModelSegmenter):
        try:
            made.model  # noqa: B018 (it is loaded here)
        except HanlatticeError as error:
            expected = f"{', '.join(SEGMENTERS)}, seg or the folder of a segmentation model"
            raise ModelError(f"segment.by must be {expected}, not {name!r}: {error}") from None
