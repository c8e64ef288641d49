"""A training that begins with another model: its settings, vocabularies, vectors and weights,
carried over.

What the new corpus adds begins as that model saw it: a new character or bigram with the vector of
unknown ones, a new label as a mixture of the labels that the model has. So before the first step it
finds what that model finds.
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

Cut = Callable[[], tuple[list[str], Cuts]]  # the training texts, and the words that cover them

# What a model fixes, by section, and what a training may choose; of both, where a configuration
# says nothing, the new
# model has what the old one has. Files of vectors, their norms and widths mean nothing here: the
# vectors are there.
FIXED: dict[str, tuple[str, ...]] = {
    "segment": ("by",),
    "softwords": ("dim", "pos"),
    "pools": ("dim",),
    "lm": ("model", "dim"),
    "transformer": ("model", "frozen"),
    "model": (
        "encoder", "sources", "char_features", "char_width", "bichar", "softword", "pools", "hidden", "layers",
        "first_layer", "whole_words", "cell", "coupled", "scheme",
    ),
}  # fmt: skip
USUAL: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("chars", "bichars", "words", "subwords"), ("fine_tune", "dropout")),
    **dict.fromkeys(("softwords", "pools"), ("dropout",)),
    "lm": ("dropout",),
    "transformer": ("lr", "warmup", "layer_decay", "window", "overlap", "dropout", "bf16"),
    "model": ("dropout", "decode", "paper_vocab"),
}
GENERATIONS = 16  # of models whose beginnings a record keeps: it may not be nested without end
BESIDE = (LM, TRANSFORMER)  # sections, and folders in a model's folder
# How much lower a label scores that begins as a mixture of others beside it: what was found stays
# so.
LOWER = 1.0
_MADE = (
    "chars.",
    "words.",
    "extra_embeddings.",
    "pools.counts",
    "output.",
    "crf.",
)  # weights that are not copied as they are


def carried_settings(name: str) -> InheritedSettings:
    """The settings that the model of this name fixes, and those that it has by default; for
    `read_config`.
    """
    folder = find_model(name)
    record = read_record(folder / CONFIG, FORMAT, ModelRecord, "model")
    config = make_config(record["config"], str(folder / CONFIG))
    tree = config.as_dict()
    tree["model"]["scheme"] = record["scheme"]
    for section in BESIDE:
        tree[section]["model"] = str(folder / section) if tree[section]["model"] else ""
    unused = {"segment": not config.reads_segments, "softwords": not config.model.softword}
    unused |= {"pools": not config.model.pools}
    fixed, usual = (
        {
            section: {key: tree[section][key] for key in keys}
            for section, keys in part.items()
            if not unused.get(section)
        }
        for part in (FIXED, USUAL)
    )
    for section in BESIDE:
        if not tree[section]["model"]:  # its other settings would be unused
            fixed[section], usual[section] = {"model": ""}, {}
    return fixed, usual


def check_start(config: Config) -> None:
    """Refuse a configuration that is not of the architecture of the model it begins with."""
    if problems := list(
        contradictions(
            config.as_dict(), carried_settings(config.start.model)[0], config.start.model
        )
    ):
        raise ConfigError(problems)


def load_source(config: Config) -> Model:
    """The model to begin with, as modules of torch; packed weights are expanded."""
    return load_model(find_model(config.start.model), modules=True)


def start_facts(config: Config) -> dict[str, Any]:
    """What the folder of the new model says of the one that it began with."""
    name = config.start.model
    data = read_record(find_model(name) / CONFIG, FORMAT, ModelRecord, "model")["data"]
    before = {"before": _younger(data["start"], GENERATIONS)} if "start" in data else {}
    return {
        "vectors": data.get("vectors", {}),
        "start": {"model": name, "version": model_version(name), **before},
    }


def _younger(start: Mapping[str, Any], count: int) -> dict[str, Any]:
    """What a record says of a beginning and so many before it."""
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
    """Those of the model, with what the texts add."""
    old = source.indexer
    tagger = _module(source)
    vocabs = Vocabs()
    tables = Tables()
    if tagger.chars is not None:
        text = chain.from_iterable(sentence.characters for sentence in seen)
        vocabs.chars, tables.chars = _grown(
            old.vocab, tagger.chars.vectors, text if config.chars.fine_tune else ()
        )
        notices.append(
            f"characters: {len(old.vocab) - 1:,} of the model, {len(vocabs.chars) - len(old.vocab):,} new"
        )
    if old.lexicon is not None:
        _carry_lexicons(config, source, train, vocabs, tables, notices)
    if old.words is not None:
        words = dict.fromkeys(words_of(*cut()))
        vocabs.words, tables.words = _met_rows(old.words, tagger.words, words, config.words)
    if old.bichars is not None:
        pairs = dict.fromkeys(bigram for sentence in seen for bigram in bigrams(sentence.text))
        table = tagger.extra_embeddings[BICHARS]
        vocabs.bichars, tables.extra_embeddings[BICHARS] = _met_rows(
            old.bichars, table, pairs, config.bichars
        )
    for name in (POSITIONS, POS):
        if name in tagger.extra_embeddings:
            vectors: Tensor = tagger.extra_embeddings[name].get_parameter("vectors")
            if name == POS and old.pos is not None:
                vocabs.pos, vectors = _grown(old.pos, vectors, cut()[1].pos or ())
            tables.extra_embeddings[name] = CharEmbedding(
                vectors.detach(), dropout=config.softwords.dropout
            )
    return vocabs, tables


def _grown(old: Vocab, vectors: Tensor, text: Iterable[str]) -> tuple[Vocab, Tensor]:
    """The vocabulary with the symbols of the text, the new ones at the end."""
    vocab = Vocab([*old.symbols, *text])
    return vocab, vectors.detach()[old.ids(vocab.symbols)]  # 0, unknown, for new ones


def _met_rows(
    old: Vocab, table: Any, text: Iterable[str], config: EmbeddingConfig
) -> tuple[Vocab, WordEmbedding]:
    """The symbols of the text come first, since only they are trained; without training, new ones
    stay unknown.
    """
    met = Vocab(symbol for symbol in text if config.fine_tune or symbol in old)
    vocab = Vocab([*met.symbols, *old.symbols])
    trained = len(met) if config.fine_tune else 0
    return vocab, WordEmbedding.from_vectors(
        _rows(table)[old.ids(vocab.symbols)], trained, config.dropout
    )


def _carry_lexicons(
    config: Config,
    source: Model,
    train: Sequence[Sentence],
    vocabs: Vocabs,
    tables: Tables,
    notices: list[str],
) -> None:
    """The lexicon, or both, with the words of the training text first, and their vectors."""
    tagger = _module(source)
    made = list[tuple[Lexicon, WordEmbedding]]()
    orders = list[Tensor]()
    parts = (
        (tagger.words.words, tagger.words.subwords)
        if isinstance(tagger.words, TwoSources)
        else (tagger.words,)
    )
    lexicons = (source.indexer.lexicon, source.indexer.subwords)
    for section, lexicon, table in zip(config.lattice_sources, lexicons, parts, strict=False):
        assert lexicon is not None
        words = lexicon.words
        order, met = met_first(lexicon, train)
        kept = [
            int(at) for at in order if lexicon.id(words[at]) == at
        ]  # not a traditional spelling beside the other
        notices.append(
            f"lexicon: {len(kept):,} {section.called}, {len(met):,} of them occur in the training text"
        )
        orders.append(torch.tensor(kept, dtype=torch.int64))
        trained = len(met) if section.fine_tune else 0
        rows = WordEmbedding.from_vectors(_rows(table)[orders[-1]], trained, section.dropout)
        made.append((Lexicon(words[at] for at in kept), rows))
    vocabs.lexicon, tables.words = made[0]
    if len(made) > 1:
        vocabs.subwords, tables.subwords = made[1]
    if tagger.pools is not None:  # the counts of words follow those of subwords, and may end early
        sizes = [lexicon.size for lexicon in reversed(lexicons) if lexicon is not None]
        before = torch.split(
            F.pad(tagger.pools.counts, (0, sum(sizes) - len(tagger.pools.counts))), sizes
        )
        tables.counts = torch.cat(
            [part[order] for part, order in zip(before, reversed(orders), strict=True)]
        )


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
    """Copy the weights behind the tables, and mix those of tags: a new label begins as others of
    the model do.
    """
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
    kept = {label for label, others in begins.items() if others == (label,)}
    for at, tag in enumerate(tagger.crf.tags):
        prefix, label = split_tag(tag)
        if prefix in "BS" and label not in kept and kept & set(begins[label]):
            tagger.output.bias[at] -= LOWER
    notices.append(_describe(begins, start.model))
    if missing := [label for label in start.labels if label not in begins]:
        notices.append(
            f"start.labels names {', '.join(missing)}, which the training corpus does not have"
        )


def _beginnings(
    labels: Sequence[str], known: Sequence[str], start: StartConfig
) -> dict[str, tuple[str, ...]]:
    """The labels of the model as whose mixture each label begins: itself, one that is named for it,
    or all.
    """
    unknown = [label for label in start.labels.values() if label not in known]
    if unknown:
        raise ConfigError(
            [f"start.labels names {', '.join(unknown)}, and {start.model} has {', '.join(known)}"]
        )
    found: dict[str, tuple[str, ...]] = {}
    for label in labels:
        first = re.split(r"[\W_]", label)[0]  # PER of PER.NAM
        names = (start.labels.get(label, label), label, first)
        found[label] = next(((name,) for name in names if name in known), tuple(known))
    return found


def _mixture(
    tags: Sequence[str], known: Sequence[str], begins: Mapping[str, tuple[str, ...]]
) -> Tensor:
    """[K, K of the model]: how much of each of its tags is in each tag. O, if it has none, is a
    mean of all.
    """
    mix = torch.zeros(len(tags), len(known))
    for at, (prefix, label) in enumerate(map(split_tag, tags)):
        names = [f"{prefix}-{other}" for other in begins[label]] if label else ["O"]
        places = [known.index(name) for name in names if name in known] or range(len(known))
        mix[at, list(places)] = 1 / len(places)
    return mix


def _mean(sums: Tensor, counts: Tensor) -> Tensor:
    """Sums over what the scheme allows, divided by how much that is; 0 where it allows nothing."""
    return torch.where(counts > 0, sums / counts.clamp(min=1e-9), 0.0)


def _describe(begins: Mapping[str, tuple[str, ...]], model: str) -> str:
    groups: dict[tuple[str, ...], list[str]] = {}
    for label, others in begins.items():
        groups.setdefault(others if others != (label,) else (), []).append(label)
    parts = [f"{', '.join(groups[()])} as in {model}"] if () in groups else []
    for others, labels in groups.items():
        if others:
            as_what = others[0] if len(others) == 1 else f"a mean of {', '.join(others)}"
            parts.append(f"{', '.join(labels)} begin{'s' if len(labels) == 1 else ''} as {as_what}")
    return f"labels: {'; '.join(parts)}"
