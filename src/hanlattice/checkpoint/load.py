"""Loading a model folder, and the segmentation model that it may itself read words by."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from hanlattice.checkpoint import find_model
from hanlattice.checkpoint.build_numpy import Array, restore_arrays, runs_in_numpy
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

    On a GPU it finds what it finds on a CPU, since it multiplies in float32 there too. `fast`
    rounds the factors of the lattice LSTM's products, and of a transformer's: on a GPU to bf16, as
    training does, on a CPU to 8 bits, where it is not for transformers. With `modules` it has the
    modules of torch on a CPU too.
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
        composer = _composer(arrays)
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
    """Of a model's scores, by the numbers of its labels; a ValueError names a label that it has
    not.
    """
    if not (given := scores.get("calibration", {}).get("curves")):
        return None
    for label in given.keys() - {*labels}:
        raise ValueError(
            f"scores.calibration has the label {label!r}, and the model finds {', '.join(labels)}"
        )
    return Curves([Curve(**given[label]) if label in given else AS_IT_IS for label in labels])


def _composer(arrays: Mapping[str, Array]) -> Composer | None:
    """The composer among the arrays of a file, if there is one; a ValueError says what is wrong
    with it.
    """
    parts = {
        name.removeprefix(COMPOSER): array
        for name, array in arrays.items()
        if name.startswith(COMPOSER)
    }
    return Composer.from_tensors(parts) if parts else None


def _check_files(folder: Path, config: Config, names: Collection[str]) -> None:
    """Whether the vocabularies that a model with this configuration needs are listed, and no
    others.
    """
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
            raise ModelError(
                f"{folder / CONFIG}: a model by its configuration has {name}, and its files lack it"
            )
        if name in names and not is_wanted:
            raise ModelError(
                f"{folder / CONFIG}: its files have {name}, which a model by its configuration has not"
            )


def _load_vocabs(folder: Path, names: Collection[str]) -> Vocabs:
    """The vocabularies of the listed files."""
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
    return Vocabs(
        chars or Vocab(()), lexicons.get(LEXICON), lexicons.get(SUBWORDS), bichars, words, pos
    )


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
            (at, start, end) for at, text in enumerate(texts) for start, end in pieces(text, LIMIT)
        ]
        examples = indexer.read([texts[at][start:end] for at, start, end in parts])
        text, by, _ = np.array(parts, dtype=np.int64).reshape(-1, 3).T
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        return _covering(find_spans(tagger, indexer, examples).moved(text, by).spans, lengths)


@lru_cache(maxsize=2)
def _load(folder: Path, device: str, changed: int) -> Model:
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


def check_segmenter(name: str, device: str) -> None:
    """Refuse a name that is no segmenter's, before any work."""
    made = make_segmenter(name, device=device)
    if isinstance(made, ModelSegmenter):
        try:
            made.model  # noqa: B018 (it is loaded here)
        except HanlatticeError as error:
            expected = f"{', '.join(SEGMENTERS)}, seg or the folder of a segmentation model"
            raise ModelError(f"segment.by must be {expected}, not {name!r}: {error}") from None
