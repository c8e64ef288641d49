"""Start a training from another model: carry over settings, vocabularies, vectors and weights.

What the new corpus adds begins as that model saw it: a new character or bigram with the vector of
unknown ones, a new label as a mixture of the model's labels. So before the first step the new model
finds what the old one finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from hanlattice.checkpoint import find_model
from hanlattice.checkpoint.build_torch import Tables
from hanlattice.checkpoint.checksums import read_record
from hanlattice.checkpoint.folder import CONFIG, FORMAT, LM, TRANSFORMER, Model
from hanlattice.checkpoint.load import load_model
from hanlattice.checkpoint.schema import ModelRecord
from hanlattice.checkpoint.segmenter import model_version
from hanlattice.checkpoint.symbols import Vocabs, met_first
from hanlattice.config import (
    Config,
    EmbeddingConfig,
    InheritedSettings,
    StartConfig,
    contradictions,
    make_config,
)
from hanlattice.errors import ConfigError
from hanlattice.features.indexer import BICHARS, POS, POSITIONS, words_of
from hanlattice.nn.embeddings import CharEmbedding, TwoSources, WordEmbedding
from hanlattice.nn.tagger import TorchTagger
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.segment import Cuts
from hanlattice.text.sentence import Sentence
from hanlattice.text.tags import labels_of, legal_transitions, split_tag
from hanlattice.text.vocab import Vocab, bigrams

# Returns the training texts, and the words that cover them.
Cut = Callable[[], tuple[list[str], Cuts]]

# The settings that a model fixes, by section, and below them those that a training may choose.
# Where a configuration leaves either out, the new model takes the old one's. Vector files, their
# norms and widths are not among them: the vectors come from the model.
FIXED: dict[str, tuple[str, ...]] = {
    "segment": ("by",),
    "softwords": ("dim", "pos"),
    "pools": ("dim",),
    "lm": ("model", "dim"),
    "transformer": ("model", "frozen"),
    "model": (
        "encoder", "sources", "char_features", "char_width", "bichar", "softword", "pools",
        "hidden", "layers", "first_layer", "whole_words", "cell", "coupled", "scheme",
    ),
}  # fmt: skip
USUAL: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("chars", "bichars", "words", "subwords"), ("fine_tune", "dropout")),
    **dict.fromkeys(("softwords", "pools"), ("dropout",)),
    "lm": ("dropout",),
    "transformer": ("lr", "warmup", "layer_decay", "window", "overlap", "dropout", "bf16"),
    "model": ("dropout", "decode", "paper_vocab"),
}
# How many earlier models a record names: it may not be nested without end.
GENERATIONS = 16
# Sections of the settings that are also folders in a model's folder.
BESIDE = (LM, TRANSFORMER)
# How much less a label scores that begins as a mixture of labels that stay: spans keep their label.
LOWER = 1.0
# Weights that are built or mixed anew; all others are copied.
_MADE = ("chars.", "words.", "extra_embeddings.", "pools.counts", "output.", "crf.")


def carried_settings(name: str) -> InheritedSettings:
    """Return the settings that a model fixes, and those that it has by default."""
    folder = find_model(name)
    record = read_record(folder / CONFIG, FORMAT, ModelRecord, "model")
    config = make_config(record["config"], str(folder / CONFIG))
    tree = config.as_dict()
    tree["model"]["scheme"] = record["scheme"]
    for section in BESIDE:
        tree[section]["model"] = str(folder / section) if tree[section]["model"] else ""
    used = {
        "segment": config.reads_segments,
        "softwords": config.model.softword,
        "pools": config.model.pools,
    }
    fixed, usual = (
        {
            section: {key: tree[section][key] for key in keys}
            for section, keys in part.items()
            if used.get(section, True)
        }
        for part in (FIXED, USUAL)
    )
    for section in BESIDE:
        # Without a model, its other settings would be reported as unused.
        if not tree[section]["model"]:
            fixed[section] = {"model": ""}
            usual[section] = {}
    return fixed, usual


def check_start(config: Config) -> None:
    """Raise a ConfigError if the configuration contradicts the model that it starts from."""
    fixed, _ = carried_settings(config.start.model)
    if problems := list(contradictions(config.as_dict(), fixed, config.start.model)):
        raise ConfigError(problems)


def load_source(config: Config) -> Model:
    """Load the model to start from, as modules of torch; packed weights are expanded."""
    return load_model(find_model(config.start.model), modules=True)


def start_facts(config: Config) -> dict[str, Any]:
    """Return what the new model's record says of the model that it started from."""
    name = config.start.model
    data = read_record(find_model(name) / CONFIG, FORMAT, ModelRecord, "model")["data"]
    before = {"before": _younger(data["start"], GENERATIONS)} if "start" in data else {}
    return {
        "vectors": data.get("vectors", {}),
        "start": {"model": name, "version": model_version(name), **before},
    }


def _younger(start: Mapping[str, Any], count: int) -> dict[str, Any]:
    """The record of a start, with at most `count` models in all."""
    kept = {key: value for key, value in start.items() if key != "before"}
    if "before" in start and count > 1:
        kept["before"] = _younger(start["before"], count - 1)
    return kept


# ---- vocabularies and their vectors


def carried_tables(
    config: Config,
    source: Model,
    train: Sequence[Sentence],
    seen: Sequence[Sentence],
    cut: Cut,
    notices: list[str],
) -> tuple[Vocabs, Tables]:
    """Return the model's vocabularies and vectors, with what the new corpus adds.

    `seen` are the sentences of `train` and, with `paper_vocab`, of dev and test.
    """
    old = source.indexer
    tagger = _module(source)
    vocabs = Vocabs()
    tables = Tables()
    extra = tables.extra_embeddings
    if tagger.chars is not None:
        trained = seen if config.chars.fine_tune else ()
        text = chain.from_iterable(sentence.characters for sentence in trained)
        vocabs.chars, tables.chars = _grown(old.vocab, tagger.chars.vectors, text)
        new = len(vocabs.chars) - len(old.vocab)
        notices.append(f"characters: {len(old.vocab) - 1:,} of the model, {new:,} new")
    if old.lexicon is not None:
        _carry_lexicons(config, source, train, vocabs, tables, notices)
    if old.words is not None:
        words = dict.fromkeys(words_of(*cut()))
        vocabs.words, tables.words = _met_rows(old.words, tagger.words, words, config.words)
    if old.bichars is not None:
        pairs = dict.fromkeys(bigram for sentence in seen for bigram in bigrams(sentence.text))
        table = tagger.extra_embeddings[BICHARS]
        vocabs.bichars, extra[BICHARS] = _met_rows(old.bichars, table, pairs, config.bichars)
    for name in (POSITIONS, POS):
        if name in tagger.extra_embeddings:
            vectors: Tensor = tagger.extra_embeddings[name].get_parameter("vectors")
            if name == POS and old.pos is not None:
                vocabs.pos, vectors = _grown(old.pos, vectors, cut()[1].pos or ())
            extra[name] = CharEmbedding(vectors.detach(), dropout=config.softwords.dropout)
    return vocabs, tables


def _grown(old: Vocab, vectors: Tensor, text: Iterable[str]) -> tuple[Vocab, Tensor]:
    """The vocabulary with the symbols of the text, the new ones at the end."""
    vocab = Vocab([*old.symbols, *text])
    # New symbols have the id 0, and so the vector of unknown ones.
    return vocab, vectors.detach()[old.ids(vocab.symbols)]


def _met_rows(
    old: Vocab, table: Any, text: Iterable[str], config: EmbeddingConfig
) -> tuple[Vocab, WordEmbedding]:
    """A table with the text's symbols first, which are trained; else new ones are unknown."""
    met = Vocab(symbol for symbol in text if config.fine_tune or symbol in old)
    vocab = Vocab([*met.symbols, *old.symbols])
    trained = len(met) if config.fine_tune else 0
    rows = _rows(table)[old.ids(vocab.symbols)]
    return vocab, WordEmbedding.from_vectors(rows, trained, config.dropout)


def _carry_lexicons(
    config: Config,
    source: Model,
    train: Sequence[Sentence],
    vocabs: Vocabs,
    tables: Tables,
    notices: list[str],
) -> None:
    """Add the model's lexicons and vectors, with the words of the training text first."""
    tagger = _module(source)
    embeddings: tuple[Any, ...] = (tagger.words,)
    if isinstance(tagger.words, TwoSources):
        embeddings = (tagger.words.words, tagger.words.subwords)
    carried = list[tuple[Lexicon, WordEmbedding]]()
    orders = list[Tensor]()
    lexicons = (source.indexer.lexicon, source.indexer.subwords)
    for section, lexicon, table in zip(config.lattice_sources, lexicons, embeddings, strict=False):
        assert lexicon is not None
        words = lexicon.words
        order, met = met_first(lexicon, train)
        # Leave out the traditional spelling of a word that is also there in simplified characters.
        kept = [int(index) for index in order if lexicon.id(words[index]) == index]
        notices.append(
            f"lexicon: {len(kept):,} {section.called}, "
            f"{len(met):,} of them occur in the training text"
        )
        orders.append(torch.tensor(kept, dtype=torch.int64))
        trained = len(met) if section.fine_tune else 0
        rows = WordEmbedding.from_vectors(_rows(table)[orders[-1]], trained, section.dropout)
        carried.append((Lexicon(words[index] for index in kept), rows))
    vocabs.lexicon, tables.words = carried[0]
    if len(carried) > 1:
        vocabs.subwords, tables.subwords = carried[1]
    if tagger.pools is not None:
        # The counts of words follow those of subwords, and may end before the last word.
        sizes = [lexicon.size for lexicon in reversed(lexicons) if lexicon is not None]
        padded = F.pad(tagger.pools.counts, (0, sum(sizes) - len(tagger.pools.counts)))
        counts = zip(torch.split(padded, sizes), reversed(orders), strict=True)
        tables.counts = torch.cat([part[order] for part, order in counts])


def _rows(table: Any) -> Tensor:
    """All vectors of a WordEmbedding."""
    with torch.no_grad():
        rows: Tensor = table.rows(torch.arange(len(table)))
    return rows


def _module(source: Model) -> TorchTagger:
    assert isinstance(source.tagger, TorchTagger)
    return source.tagger


# ---- weights and labels


@torch.no_grad()
def carry_weights(
    source: Model, tagger: TorchTagger, start: StartConfig, notices: list[str]
) -> None:
    """Copy the weights behind the tables into a new model, and mix those of its tags."""
    old = _module(source)
    legal = legal_transitions(source.indexer.tags, source.indexer.scheme)
    weights = old.state_dict()
    for name, weight in tagger.state_dict().items():
        if not name.startswith(_MADE):
            weight.copy_(weights[name])
    begins = _beginnings(labels_of(tagger.crf.tags), labels_of(old.crf.tags), start)
    mix = _mixture(tagger.crf.tags, old.crf.tags, begins)
    may_start, may_follow, may_end = (torch.tensor(part, dtype=mix.dtype) for part in legal)
    tagger.output.weight.copy_(mix @ old.output.weight)
    tagger.output.bias.copy_(mix @ old.output.bias)
    tagger.crf.start.copy_(_mean(mix @ (old.crf.start * may_start), mix @ may_start))
    tagger.crf.end.copy_(_mean(mix @ (old.crf.end * may_end), mix @ may_end))
    between = mix @ (old.crf.transitions * may_follow) @ mix.T
    tagger.crf.transitions.copy_(_mean(between, mix @ may_follow @ mix.T))
    kept = {label for label, origins in begins.items() if origins == (label,)}
    for index, tag in enumerate(tagger.crf.tags):
        prefix, label = split_tag(tag)
        # B and S begin a span, so each span of the label is lowered once.
        if prefix in "BS" and label not in kept and kept & set(begins[label]):
            tagger.output.bias[index] -= LOWER
    notices.append(_describe(begins, start.model))
    if missing := [label for label in start.labels if label not in begins]:
        notices.append(
            f"start.labels names {', '.join(missing)}, which the training corpus does not have"
        )


def _beginnings(
    labels: Sequence[str], known: Sequence[str], start: StartConfig
) -> dict[str, tuple[str, ...]]:
    """The model's labels that each label begins as: itself, the one named for it, or all."""
    unknown = [label for label in start.labels.values() if label not in known]
    if unknown:
        raise ConfigError(
            [f"start.labels names {', '.join(unknown)}, and {start.model} has {', '.join(known)}"]
        )
    begins: dict[str, tuple[str, ...]] = {}
    for label in labels:
        # PER of PER.NAM.
        first = re.split(r"[\W_]", label)[0]
        names = (start.labels.get(label, label), label, first)
        begins[label] = next(((name,) for name in names if name in known), tuple(known))
    return begins


def _mixture(
    tags: Sequence[str], known: Sequence[str], begins: Mapping[str, tuple[str, ...]]
) -> Tensor:
    """[K, K of the model]: how much of each of its tags is in each tag."""
    mix = torch.zeros(len(tags), len(known))
    for row, (prefix, label) in enumerate(map(split_tag, tags)):
        names = [f"{prefix}-{origin}" for origin in begins[label]] if label else ["O"]
        # O of a model that has none, a segmenter, is the mean of all tags.
        places = [known.index(name) for name in names if name in known] or range(len(known))
        mix[row, list(places)] = 1 / len(places)
    return mix


def _mean(sums: Tensor, counts: Tensor) -> Tensor:
    """Means over the transitions that the scheme allows; 0 where it allows none."""
    return torch.where(counts > 0, sums / counts.clamp(min=1e-9), 0.0)


def _describe(begins: Mapping[str, tuple[str, ...]], model: str) -> str:
    """A notice of what each label begins as."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for label, origins in begins.items():
        groups.setdefault(origins if origins != (label,) else (), []).append(label)
    parts = [f"{', '.join(groups[()])} as in {model}"] if () in groups else []
    for origins, labels in groups.items():
        if origins:
            as_what = origins[0] if len(origins) == 1 else f"a mean of {', '.join(origins)}"
            parts.append(f"{', '.join(labels)} begin{'s' if len(labels) == 1 else ''} as {as_what}")
    return f"labels: {'; '.join(parts)}"
