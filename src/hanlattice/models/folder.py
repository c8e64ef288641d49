"""A model and its folder of plain files, which docs/formats.md describes.

Training replaces only the weights, in one rename, so the folder is complete at every moment.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from hanlattice.batch import Indexer
from hanlattice.batch.indexer import BICHARS, POS, POSITIONS
from hanlattice.config import Config, as_saved, make_config
from hanlattice.errors import ConfigError, InputError, ModelError
from hanlattice.files import opening, writing
from hanlattice.models import LEAST_BAR, Bar, check_decode
from hanlattice.models.build import Tables, Vocabs, assemble, make_indexer
from hanlattice.models.checksums import load_tensors, read_record, save_tensors, write_record
from hanlattice.models.compose import Composer
from hanlattice.models.compress import expanded
from hanlattice.models.device import find_device
from hanlattice.models.language_model import LanguageModel, language_model_files, load_language_model
from hanlattice.models.segmenter import segmenter_version
from hanlattice.models.tagger import Tagger
from hanlattice.models.vocabulary import Vocabulary
from hanlattice.nn.embeddings import CharEmbedding, WordEmbedding
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.segmenter import PLACES
from hanlattice.text.vocab import Vocab

FORMAT = 1
EXACT, FAST = "auto-fp32", "auto"  # how a loaded model computes its lattice LSTM
CONFIG, CHARS, LEXICON, WEIGHTS, LM = "config.json", "chars.txt", "lexicon.txt", "model.safetensors", "lm"
WORDS, BIGRAMS, SPEECH, SUBWORDS = "words.txt", "bichars.txt", "pos.txt", "subwords.txt"
_COMPOSER = "composer."  # the prefix of the names of its tensors
BEFORE = "before_packing"  # among a packed model's scores, those of the model as trained
USUAL_BAR = 0.4  # of a model without scores
FRAME = (CONFIG, CHARS, LEXICON, SUBWORDS, WORDS, BIGRAMS, SPEECH, LM)  # what does not change while the model trains


@dataclass(frozen=True)
class Model:
    tagger: Tagger
    indexer: Indexer
    config: Config
    data: Mapping[str, Any] = field(default_factory=dict)  # where training data and vectors came from
    scores: Mapping[str, Any] = field(default_factory=dict)
    segmenter: Mapping[str, Any] = field(default_factory=dict)  # name and version of what cut the training text
    composer: Composer | None = None  # makes the vectors of new words; None in a model that was not packed

    def __post_init__(self) -> None:
        if self.indexer.lexicon is not None and self.tagger.lexicon is not None:
            Vocabulary(self.indexer.lexicon, self.tagger.lexicon, self.composer)  # the lexicon keeps it

    def bar(self, decode: str | float | None = None) -> Bar:
        """What the score of a span must exceed to be found; None where the best tagging is decoded.

        `decode` is "path", "spans" or the bar itself; without it, the model's own way. With "spans" the bar is half of
        the F1 that the best tagging has on dev: see `nn.span_search.best_spans`.
        """
        way = self.config.model.decode if decode is None else check_decode(decode)
        if way == "path":
            return None
        if self.indexer.cuts:
            raise ModelError(
                f"decode={way} leaves characters out, and the words of a segmenter cover the text: use path"
            )
        if isinstance(way, float):
            return way
        dev = self.scores.get("dev") or self.scores.get(BEFORE, {}).get("dev")
        bar: float = self.scores.get("bar") or (bar_for(dev["overall"]["f1"]) if dev else USUAL_BAR)
        return bar

    def other_segmenter(self) -> str:
        """A notice that another segmenter of this name cut the training text; "" if it did not, or is unknown."""
        name, then = self.segmenter.get("name", ""), self.segmenter.get("version")
        now = segmenter_version(name)
        if not then or not now or then == now:
            return ""
        return f"the model was trained with words by {name} {then}, and {name} {now} may cut otherwise"


def bar_for(f1: float) -> float:
    """The bar of a model whose best taggings have this F1."""
    return max(LEAST_BAR, f1 / 2)


def save_frame(
    folder: Path,
    config: Config,
    indexer: Indexer,
    data: Mapping[str, Any],
    lm: Path | None = None,
    segmenter: Mapping[str, Any] | None = None,
) -> None:
    """Write everything but the weights: what does not change while the model trains.

    The language model is copied from where the configuration says, or from `lm`, so that the folder can be moved.
    `segmenter` is what cut the training text; without it, the one that the configuration names, as it is now.
    """
    vocabs = {CHARS: indexer.vocab, WORDS: indexer.words, BIGRAMS: indexer.bichars, SPEECH: indexer.pos}
    names = []
    for name, vocab in vocabs.items():
        if vocab is not None:
            vocab.save(folder / name)
            names.append(name)
    for name, lexicon in ((LEXICON, indexer.lexicon), (SUBWORDS, indexer.subwords)):
        if lexicon is not None:
            lexicon.save(folder / name)
            names.append(name)
    if config.lm.model:
        names += [f"{LM}/{name}" for name in language_model_files()]
        for name in language_model_files():
            source = (lm or Path(config.lm.model)) / name
            with opening(source) as file, writing(folder / LM / name, binary=True) as copy:
                shutil.copyfileobj(file, copy)
    record: dict[str, Any] = {
        "format": FORMAT,
        "config": config.as_dict(),
        "tags": indexer.tags,
        "scheme": indexer.scheme,
        "data": data,
    }
    if indexer.segmenter is not None:
        now = {"name": config.segment.by, "version": segmenter_version(config.segment.by)}
        record["segmenter"] = segmenter or now
    write_record(folder / CONFIG, record, names)


def save_weights(
    folder: Path, tensors: Mapping[str, Tensor], scores: Mapping[str, Any], composer: Composer | None = None
) -> None:
    """Write the weights, their scores and, if given, the composer of vectors for new words into one file."""
    more = {} if composer is None else {_COMPOSER + name: tensor for name, tensor in composer.tensors().items()}
    save_tensors(folder / WEIGHTS, {**tensors, **more}, {"scores": json.dumps(scores, ensure_ascii=False)})


def load_model(folder: str | Path, device: str = "cpu", fast: bool = False) -> Model:
    """Read a model folder, check all of it, and return the model in evaluation mode.

    On a GPU it finds what it finds on a CPU, since it multiplies in float32 there too. `fast` rounds the factors of
    the lattice LSTM's products to bf16, as training does.
    """
    folder, place = Path(folder), find_device(device)
    if fast and place.type == "cpu":
        raise InputError("fast is for a GPU: on a CPU there is one precision")
    record = read_record(folder / CONFIG, FORMAT, ["config", "tags", "scheme", "data"], "model")
    try:
        config = make_config(as_saved(record["config"]), f"{folder / CONFIG}")
        tags, scheme = tuple(record["tags"]), record["scheme"]
        _check_files(folder, config, record["files"])
        vocabs = _load_vocabs(folder, record["files"])
        lm = load_language_model(folder / LM) if config.lm.model else None
    except ConfigError as error:
        raise ModelError(str(error)) from None
    if fast and not config.runs_lattice:
        raise InputError("fast is for lattice models, and this is not one", folder)
    tensors, metadata = load_tensors(folder / WEIGHTS)
    composer = _take_composer(tensors, folder)
    indexer = make_indexer(config, vocabs, tags, scheme, lm, device)
    tagger = _with_weights(config, indexer, tensors, folder, lm, FAST if fast else EXACT)
    width = None if tagger.lexicon is None else tagger.lexicon.dim
    if composer is not None and composer.dim != width:
        raise ModelError(f"{folder / WEIGHTS}: new words would get {composer.dim} numbers, and the others have {width}")
    tagger.to(place).eval()
    scores, segmenter = json.loads(metadata.get("scores", "{}")), record.get("segmenter", {})
    return Model(tagger, indexer, config, record["data"], scores, segmenter, composer)


def _take_composer(tensors: dict[str, Tensor], folder: Path) -> Composer | None:
    """The composer, if there is one; its tensors are removed from `tensors`."""
    parts = {name: tensors.pop(name) for name in list(tensors) if name.startswith(_COMPOSER)}
    if not parts:
        return None
    try:
        return Composer.from_tensors({name.removeprefix(_COMPOSER): tensor for name, tensor in parts.items()})
    except (ValueError, TypeError) as error:
        raise ModelError(f"{folder / WEIGHTS}: {error}") from None


def _check_files(folder: Path, config: Config, names: Collection[str]) -> None:
    """Whether all vocabularies that a model with this configuration needs are listed."""
    model = config.model
    wanted = {
        CHARS: True,
        LEXICON: model.encoder == "lattice",
        SUBWORDS: len(config.lattice_sources) > 1,
        WORDS: model.encoder == "word",
        BIGRAMS: model.bichar,
        SPEECH: model.softword and config.softwords.pos,
    }
    for name, is_wanted in wanted.items():
        if is_wanted and name not in names:
            raise ModelError(f"{folder / CONFIG}: a model by its configuration has {name}, and its files lack it")


def _load_vocabs(folder: Path, names: Collection[str]) -> Vocabs:
    """The vocabularies of the listed files."""
    chars, words, bichars, pos = (
        Vocab.load(folder / name) if name in names else None for name in (CHARS, WORDS, BIGRAMS, SPEECH)
    )
    lexicons: dict[str, Lexicon] = {}
    for name in (LEXICON, SUBWORDS):
        if name in names:
            lexicons[name] = Lexicon()
            lexicons[name].load(folder / name)
            lexicons[name].settle()
    return Vocabs(chars or Vocab(()), lexicons.get(LEXICON), lexicons.get(SUBWORDS), bichars, words, pos)


def _with_weights(
    config: Config,
    indexer: Indexer,
    tensors: dict[str, Tensor],
    folder: Path,
    lm: LanguageModel | None,
    backend: str,
) -> Tagger:
    try:
        tensors = expanded(tensors)
        tables = _tables(config, indexer, tensors)
        _check_rows(tables, indexer, folder)
        tagger = assemble(config, indexer, tables, lm, backend, fresh=False)
        tagger.load_state_dict(tensors)
    except (LookupError, RuntimeError) as error:
        raise ModelError(f"{folder / WEIGHTS}: its tensors do not fit {CONFIG}: {error}") from None
    return tagger


def _tables(config: Config, indexer: Indexer, tensors: Mapping[str, Tensor]) -> Tables:
    """The tables of `build`, from the loaded tensors."""
    tables = Tables(tensors["chars.vectors"] if config.reads_characters else None)
    if indexer.subwords is not None:
        tables.words = _word_embedding(tensors, "words.words", config.words.dropout)
        tables.subwords = _word_embedding(tensors, "words.subwords", config.subwords.dropout)
    elif indexer.lexicon is not None or indexer.words is not None:
        source = config.lattice_sources[0] if indexer.words is None else config.words
        tables.words = _word_embedding(tensors, "words", source.dropout)
    if indexer.bichars is not None:
        tables.beside[BICHARS] = _word_embedding(tensors, f"beside.{BICHARS}", config.bichars.dropout)
    tables.counts = tensors["pools.counts"] if config.model.pools else None
    for name, there in ((POSITIONS, config.model.softword), (POS, indexer.pos is not None)):
        if there:
            tables.beside[name] = CharEmbedding(tensors[f"beside.{name}.vectors"], dropout=config.softwords.dropout)
    return tables


def _word_embedding(tensors: Mapping[str, Tensor], name: str, dropout: float) -> WordEmbedding:
    return WordEmbedding(tensors[f"{name}.trained"], tensors[f"{name}.fixed"], dropout)


def _check_rows(tables: Tables, indexer: Indexer, folder: Path) -> None:
    """Each vocabulary must have as many symbols as vectors; else the files belong to different models."""
    words = indexer.lexicon if indexer.words is None else indexer.words
    pairs: list[tuple[str, Sized | None, Sized | None]] = [
        ("characters", tables.chars, indexer.vocab if tables.chars is not None else None),
        ("words", tables.words, words),
        ("subwords", tables.subwords, indexer.subwords),
        ("bigrams", _rows(tables, BICHARS), indexer.bichars),
        ("parts of speech", _rows(tables, POS), indexer.pos),
        ("places in a word", _rows(tables, POSITIONS), PLACES),
    ]
    for name, vectors, symbols in pairs:
        if vectors is not None and symbols is not None and len(vectors) != len(symbols):
            raise ModelError(f"{folder}: {len(vectors)} rows of vectors for {len(symbols)} {name}")


def _rows(tables: Tables, name: str) -> Sized | None:
    table = tables.beside.get(name)
    return table.vectors if isinstance(table, CharEmbedding) else table
