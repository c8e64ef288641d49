"""Plan the arrays of a model: their names and shapes, from its settings and vocabularies.

Loading asks for the plan before it reads, training before it starts. Only two things are taken from
the arrays: the width of a table whose vectors came from a file, and how many rows were trained.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from hanlattice.checkpoint.quantize import (
    COMPOSER,
    COUNTS,
    SCALE,
    Shape,
    Typed,
    is_small,
    stored_shape,
)
from hanlattice.checks import WIDEST
from hanlattice.config import Config, EmbeddingConfig, WordsConfig
from hanlattice.errors import InputError
from hanlattice.features import Indexer
from hanlattice.features.indexer import BICHARS, POS, POSITIONS
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights, weight_shapes
from hanlattice.text.segment import PLACES
from hanlattice.text.tags import SCHEMES, TagIds

# The most tags of a model. Their transitions are a square, 64 MiB here, and each character costs as
# many additions.
TAGS = 4096


def check_tags(tags: Sequence[str], scheme: str) -> None:
    """Raise an InputError unless a model can have these tags."""
    if scheme not in SCHEMES:
        raise InputError(f"scheme must be one of {', '.join(SCHEMES)}, not {scheme!r}")
    if not 0 < len(tags) <= TAGS or len({*tags}) < len(tags):
        raise InputError(
            f"tags must be from 1 to {TAGS:,} different ones, not {len(tags):,}: use fewer labels"
        )
    # This checks the labels.
    TagIds(tuple(tags), scheme)


def check_arrays(
    config: Config,
    indexer: Indexer,
    arrays: Mapping[str, Typed],
    pretrained: Mapping[str, Shape] = MappingProxyType({}),
    width: int = 0,
) -> None:
    """Raise a LookupError unless these are the arrays of the model, each of its type and shape.

    Args:
        config: the model's settings.
        indexer: its vocabularies and tags.
        arrays: weights as a file has them, in floats or in bytes with scales. Only types and shapes
            are looked at.
        pretrained: the shapes of the arrays around a language model and a transformer.
        width: how many numbers those two add to each character.
    """
    wanted = _Layout(arrays).of(config, indexer, width) | dict(pretrained)
    check_shapes(wanted, arrays)
    check_names(wanted.keys() | {name + SCALE for name in wanted if is_small(arrays, name)}, arrays)


def check_shapes(wanted: Mapping[str, Shape], arrays: Mapping[str, Typed]) -> None:
    """Raise a LookupError unless the arrays with these names have these shapes."""
    for name, shape in wanted.items():
        stored = stored_shape(arrays, name)
        if stored != shape:
            raise LookupError(f"{name} must be {list(shape)}, not {list(stored)}")


def check_names(known: Collection[str], arrays: Iterable[str]) -> None:
    """Raise a LookupError if there are arrays with other names."""
    if unknown := sorted({*arrays} - {*known}):
        more = " and more" if len(unknown) > 3 else ""
        raise LookupError(f"unexpected {', '.join(unknown[:3])}{more}")


class _Layout:
    """The shapes of a model's arrays by their names, put together part by part."""

    def __init__(self, arrays: Mapping[str, Typed]) -> None:
        self._arrays = arrays
        self.shapes: dict[str, Shape] = {}

    def of(self, config: Config, indexer: Indexer, width: int) -> dict[str, Shape]:
        """Return the shapes of all arrays; `width` is of pre-trained states."""
        model = config.model

        def own_width(section: EmbeddingConfig) -> int:
            """The width that the settings give a table; 0 where a file or another model does."""
            return 0 if config.start.model or section.vectors else section.dim

        if config.reads_characters:
            rows = len(indexer.vocab)
            width += self._table("chars.vectors", rows, "characters", own_width(config.chars))
        word_width = 0
        words = 0
        if indexer.words is not None:
            word_width = self._words("words", len(indexer.words), "words", own_width(config.words))
        elif indexer.lexicon is not None:
            sources: tuple[WordsConfig, ...] = config.lattice_sources
            name = "words" if indexer.subwords is None else "words.words"
            words = len(indexer.lexicon)
            word_width = self._words(name, words, "words", own_width(sources[0]))
            # New words have vectors of words, also where subwords stand beside them.
            self._composer(word_width)
            if indexer.subwords is not None:
                rows = len(indexer.subwords)
                words += rows
                word_width += self._words("words.subwords", rows, "subwords", own_width(sources[1]))
        if indexer.bichars is not None:
            name = f"extra_embeddings.{BICHARS}"
            width += self._words(name, len(indexer.bichars), "bigrams", own_width(config.bichars))
        if model.softword:
            dim = config.softwords.dim
            name = f"extra_embeddings.{POSITIONS}.vectors"
            width += self._table(name, len(PLACES), "places in a word", dim)
            if indexer.pos is not None:
                name = f"extra_embeddings.{POS}.vectors"
                width += self._table(name, len(indexer.pos), "parts of speech", dim)
        if model.pools:
            if indexer.lexicon is None:
                raise LookupError("model.pools needs the words of a lattice")
            counts = tuple(self._found(COUNTS).shape)
            if len(counts) != 1 or counts[0] > words:
                raise LookupError(
                    f"{COUNTS} must be a row of at most {words:,} numbers, not {list(counts)}"
                )
            self.shapes[COUNTS] = counts
            # Words that begin at a character, go on over it and end at it have a pool each.
            self.shapes["pools.maps"] = (word_width, 3 * config.pools.dim)
            width += config.pools.dim
        tags = len(indexer.tags)
        states = self._encoder(config, width, word_width)
        self.shapes |= {"crf.start": (tags,), "crf.transitions": (tags, tags), "crf.end": (tags,)}
        self.shapes |= {"output.weight": (tags, states), "output.bias": (tags,)}
        return self.shapes

    def _found(self, name: str) -> Typed:
        if name not in self._arrays:
            raise LookupError(f"missing {name}")
        return self._arrays[name]

    def _table(self, name: str, rows: int, called: str, width: int) -> int:
        """Add a table of vectors, with this width or, where that is 0, with its own."""
        stored, columns = self._rows_and_columns(name)
        if stored != rows:
            raise LookupError(f"{stored} rows of vectors for {rows} {called}")
        self.shapes[name] = (rows, width or columns)
        return width or columns

    def _words(self, name: str, rows: int, called: str, width: int) -> int:
        """Add a table of which the first rows were trained."""
        trained, columns = self._rows_and_columns(f"{name}.trained")
        fixed, _ = self._rows_and_columns(f"{name}.fixed")
        if trained + fixed != rows:
            raise LookupError(f"{trained + fixed} rows of vectors for {rows} {called}")
        width = width or columns
        self.shapes |= {f"{name}.trained": (trained, width), f"{name}.fixed": (fixed, width)}
        return width

    def _rows_and_columns(self, name: str) -> tuple[int, int]:
        shape = stored_shape(self._arrays, name)
        if len(shape) != 2 or not 0 < shape[1] <= WIDEST:
            raise LookupError(
                f"{name} must be a table of 1 to {WIDEST:,} columns, not {list(shape)}"
            )
        return shape[0], shape[1]

    def _composer(self, width: int) -> None:
        """Add the arrays that give new words their vectors, if the file has them."""
        if not any(name.startswith(COMPOSER) for name in self._arrays):
            return
        characters = math.prod(self._found(f"{COMPOSER}characters").shape)
        # A character at the beginning, in the middle and at the end of a word; unknown ones share.
        rows = 3 * (characters + 1)
        self.shapes |= {
            f"{COMPOSER}characters": (characters,),
            f"{COMPOSER}table": (rows, width),
            f"{COMPOSER}scale": (rows, 1),
            f"{COMPOSER}mixing": (2 * width + 3, width),
        }

    def _encoder(self, config: Config, width: int, word_width: int) -> int:
        """Add the encoder, which reads `width` numbers a character; return its output width."""
        model, hidden = config.model, config.model.hidden
        if not width and model.encoder != "word":
            raise LookupError("there is nothing that the encoder could read")
        if model.encoder == "none":
            return width
        if model.encoder == "word":
            features = 0 if model.char_features == "none" else self._features(config, width)
            for layer in range(model.layers):
                reads = 2 * hidden if layer else word_width + features
                self._torch_cells("encoder.lstm", reads, hidden, 4, layer)
            return 2 * hidden
        for layer in range(model.layers):
            name = f"encoder.layers.{layer}" if model.layers > 1 else "encoder"
            reads = 2 * hidden if layer else width
            is_char = layer == 0 and model.first_layer == "char"
            has_words = model.encoder == "lattice" and not is_char
            reads_words = word_width + (reads if layer and model.whole_words else 0)
            if has_words or model.coupled:
                word_inputs = reads_words if has_words else 0
                shapes = weight_shapes(reads, word_inputs, hidden, model.coupled)
                named = dict(zip(LatticeLSTMWeights._fields, shapes, strict=True))
                for way in ("forward", "backward"):
                    for part, shape in named.items():
                        if has_words or part.startswith("char_"):
                            self.shapes[f"{name}.{way}_weights.{part}"] = shape
            else:
                self._torch_cells(f"{name}.lstm", reads, hidden, 1 if model.cell == "tanh" else 4)
        return 2 * hidden

    def _features(self, config: Config, width: int) -> int:
        """Add what reads the characters of a word, and return its width."""
        kind = config.model.char_features
        wide = config.model.char_width
        name = "encoder.features"
        if kind == "cnn":
            # The filter spans three characters.
            self.shapes[f"{name}.filter.weight"] = (wide, 3 * width)
            self.shapes[f"{name}.filter.bias"] = (wide,)
            return wide
        if kind == "sentence-lstm":
            self.shapes[f"{name}.boundary"] = (width,)
        self._torch_cells(f"{name}.lstm", width, wide // 2, 4)
        return wide

    def _torch_cells(self, name: str, reads: int, hidden: int, gates: int, layer: int = 0) -> None:
        """Add a layer of a bidirectional nn.LSTM or nn.RNN, by torch's names."""
        wide = gates * hidden
        parts: dict[str, Shape] = {"weight_ih": (wide, reads), "weight_hh": (wide, hidden)}
        parts |= {"bias_ih": (wide,), "bias_hh": (wide,)}
        for way in ("", "_reverse"):
            self.shapes |= {f"{name}.{part}_l{layer}{way}": shape for part, shape in parts.items()}
