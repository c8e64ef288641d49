"""Load a model folder, and the segmentation model that it may need to read words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from hanlattice.checkpoint import find_model
from hanlattice.checkpoint.build_numpy import restore_arrays, runs_in_numpy
from hanlattice.checkpoint.checksums import check_numbers, load_arrays, read_record
from hanlattice.checkpoint.compose import Composer
from hanlattice.checkpoint.folder import (
    BIGRAMS,
    CHARS,
    CONFIG,
    EXACT,
    FAST,
    FORMAT,
    LEXICON,
    LM,
    SPEECH,
    SUBWORDS,
    TRANSFORMER,
    WEIGHTS,
    WORDS,
    AnyTagger,
    Model,
)
from hanlattice.checkpoint.plan import check_tags
from hanlattice.checkpoint.quantize import COMPOSER
from hanlattice.checkpoint.schema import ModelRecord, ScoresRecord, parse
from hanlattice.checkpoint.segmenter import MODEL_FILES
from hanlattice.checkpoint.symbols import Vocabs, make_indexer
from hanlattice.config import Config, make_config
from hanlattice.errors import ConfigError, HanlatticeError, InputError, ModelError
from hanlattice.evaluation.platt import AS_IT_IS, Curve, Curves
from hanlattice.inference.decode import LIMIT, find_spans
from hanlattice.inference.device import device_kind, find_device, load_torch
from hanlattice.text import segment
from hanlattice.text.boundaries import pieces
from hanlattice.text.fork_safety import cached_property
from hanlattice.text.lattice import Ints, cells
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.segment import SEGMENTERS, Cuts, Segmenter
from hanlattice.text.span import Span
from hanlattice.text.tags import FlatSpans
from hanlattice.text.vocab import Vocab


def load_model(
    folder: str | Path, device: str = "cpu", fast: bool = False, modules: bool = False
) -> Model:
    """Read a model folder, check all of it, and return the model, ready to tag.

    Args:
        folder: the model.
        device: where it computes. A GPU multiplies in float32 too, so the results are a CPU's.
        fast: round the factors of the products of the lattice LSTM and of a transformer: to bf16 on
            a GPU, as training does, and to 8 bits on a CPU, for the lattice LSTM alone.
        modules: use the modules of torch on a CPU too.
    """
    folder = Path(folder)
    kind = device_kind(device)
    place = None if kind == "cpu" else find_device(device)
    record = read_record(folder / CONFIG, FORMAT, ModelRecord, "model")
    try:
        config = make_config(record["config"], CONFIG)
        tags = tuple(record["tags"])
        scheme = record["scheme"]
        check_tags(tags, scheme)
        in_numpy = place is None and not modules and runs_in_numpy(config)
        if not in_numpy:
            load_torch()
        _check_files(folder, config, record["files"])
        vocabs = _load_vocabs(folder, record["files"])
        arrays, metadata = load_arrays(folder / WEIGHTS)
        check_numbers(arrays, folder / WEIGHTS)
        lm = transformer = None
        # These modules need torch, and most models do without.
        if config.transformer.model:
            from hanlattice.checkpoint.build_torch import check_transformer
            from hanlattice.checkpoint.transformer import make_transformer

            transformer = make_transformer(folder / TRANSFORMER, partial(check_transformer, arrays))
            vocabs.pieces = transformer.pieces
        if config.lm.model:
            from hanlattice.checkpoint.language_model import load_language_model

            lm = load_language_model(folder / LM)
    except (ConfigError, InputError) as error:
        raise ModelError(f"{folder}: {error}") from None
    except LookupError as error:
        raise ModelError(
            f"{folder / WEIGHTS}: its tensors do not fit {TRANSFORMER}/{CONFIG}: {error}"
        ) from None
    if fast and not (config.runs_lattice or (transformer is not None and place is not None)):
        raise InputError(
            "fast is for lattice models, and for transformers on a GPU, and this is neither", folder
        )
    segmenter = None
    if config.reads_segments:
        segmenter = make_segmenter(config.segment.by, vocabs.pos is not None, device)
    indexer = make_indexer(vocabs, tags, scheme, lm, segmenter)
    tagger: AnyTagger
    try:
        if in_numpy:
            tagger = restore_arrays(config, indexer, arrays, fast)
        else:
            from hanlattice.checkpoint.build_torch import restore

            tagger = restore(config, indexer, arrays, lm, FAST if fast else EXACT, transformer)
            tagger = tagger.to(place or "cpu").eval()
            if tagger.transformer is not None:
                tagger.transformer.bf16 = fast
        composer = None
        if parts := [name for name in arrays if name.startswith(COMPOSER)]:
            tables = {name.removeprefix(COMPOSER): arrays[name] for name in parts}
            composer = Composer.from_tensors(tables)
    except (LookupError, RuntimeError, ValueError) as error:
        raise ModelError(f"{folder / WEIGHTS}: its tensors do not fit {CONFIG}: {error}") from None
    try:
        scores = parse(metadata.get("scores", "{}"), ScoresRecord, "scores")
        tagger.curves = _curves(scores, indexer.tag_ids.labels)
    except ValueError as error:
        raise ModelError(f"{folder / WEIGHTS}: {error}") from None
    facts = record.get("segmenter", {})
    return Model(tagger, indexer, config, record["data"], scores, facts, composer)


def _curves(scores: Mapping[str, Any], labels: Sequence[str]) -> Curves | None:
    """The calibration curves among a model's scores, in the order of its labels."""
    if not (given := scores.get("calibration", {}).get("curves")):
        return None
    for label in given.keys() - {*labels}:
        raise ValueError(
            f"scores.calibration has the label {label!r}, and the model finds {', '.join(labels)}"
        )
    return Curves([Curve(**given[label]) if label in given else AS_IT_IS for label in labels])


def _check_files(folder: Path, config: Config, names: Collection[str]) -> None:
    """Raise a ModelError unless exactly the vocabularies that the settings need are listed."""
    model = config.model
    wanted = {
        CHARS: True,
        LEXICON: model.encoder == "lattice",
        SUBWORDS: len(config.lattice_sources) > 1,
        WORDS: model.encoder == "word",
        BIGRAMS: model.bichar,
        SPEECH: model.softword and config.softwords.pos,
        f"{TRANSFORMER}/config.json": config.transformer.model != "",
    }
    for name, is_wanted in wanted.items():
        if is_wanted and name not in names:
            problem = f"a model by its configuration has {name}, and its files lack it"
            raise ModelError(f"{folder / CONFIG}: {problem}")
        if name in names and not is_wanted:
            problem = f"its files have {name}, which a model by its configuration has not"
            raise ModelError(f"{folder / CONFIG}: {problem}")


def _load_vocabs(folder: Path, names: Collection[str]) -> Vocabs:
    chars, words, bichars, pos = (
        Vocab.load(folder / name) if name in names else None
        for name in (CHARS, WORDS, BIGRAMS, SPEECH)
    )
    lexicons: dict[str, Lexicon] = {}
    for name in (LEXICON, SUBWORDS):
        if name in names:
            lexicons[name] = Lexicon()
            lexicons[name].load(folder / name, "utf-8")
            lexicons[name].mark_baseline()
    lexicon, subwords = lexicons.get(LEXICON), lexicons.get(SUBWORDS)
    return Vocabs(chars or Vocab(()), lexicon, subwords, bichars, words, pos)


class ModelSegmenter:
    """Cuts text as a segmentation model does.

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
        # The time of the last change is part of the cache's key: a model may be trained again.
        weights = folder / MODEL_FILES[1]
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
            (row, start, end)
            for row, text in enumerate(texts)
            for start, end in pieces(text, LIMIT)
        ]
        examples = indexer.read([texts[row][start:end] for row, start, end in parts])
        rows, offsets, _ = np.array(parts, dtype=np.int64).reshape(-1, 3).T
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        spans = find_spans(tagger, indexer, examples).moved(rows, offsets).spans
        return _covering(spans, lengths)


@lru_cache(maxsize=2)
def _load(folder: Path, device: str, changed: int) -> Model:
    model = load_model(folder, device)
    if not model.indexer.cuts:
        raise InputError(
            f"its spans are {', '.join(model.indexer.tag_ids.labels)}: "
            "expected a segmentation model, whose words cover the text",
            folder,
        )
    # A model that reads words by another model could need itself, without end.
    if model.config.reads_segments and model.config.segment.by != "rjieba":
        raise InputError(
            f"it reads words itself, by {model.config.segment.by}: "
            "expected a segmentation model that reads text",
            folder,
        )
    return model


def _covering(spans: FlatSpans, lengths: Ints) -> Cuts:
    """Cuts at the spans, which do not overlap, and around every character between them."""
    first = np.cumsum(lengths) - lengths
    # Summed up, 1 from the second character of a span to its last, and 0 where a word begins.
    edges = np.zeros(lengths.sum() + 1, dtype=np.int64)
    np.add.at(edges, first[spans.text] + spans.start + 1, 1)
    np.add.at(edges, first[spans.text] + spans.end, -1)
    begins = np.cumsum(edges)[:-1] == 0
    text, start = (array[begins] for array in cells(lengths))
    counts = np.bincount(text, minlength=len(lengths))
    # A word ends where the next one begins, and the last one of a text where the text ends.
    end = np.append(start[1:], 0)
    last = np.cumsum(counts)[counts > 0] - 1
    end[last] = lengths[counts > 0]
    return Cuts(counts, start, end[: len(start)])


def make_segmenter(name: str, pos: bool = False, device: str = "cpu") -> Segmenter:
    """Return what `segment.by` names: one of SEGMENTERS, a bundled model or a model folder.

    Only SEGMENTERS can find parts of speech, `pos`, too.
    """
    return segment.make_segmenter(name, pos) if name in SEGMENTERS else ModelSegmenter(name, device)


def check_segmenter(name: str, device: str) -> None:
    """Raise a ModelError if a segmenter cannot be loaded, before any work."""
    segmenter = make_segmenter(name, device=device)
    if isinstance(segmenter, ModelSegmenter):
        try:
            # Reading the property loads the model.
            segmenter.model  # noqa: B018
        except HanlatticeError as error:
            expected = f"{', '.join(SEGMENTERS)}, seg or the folder of a segmentation model"
            raise ModelError(f"segment.by must be {expected}, not {name!r}: {error}") from None
