"""A new model finds at first what its origin finds, and what is new begins sensibly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hanlattice.checkpoint import find_model
from hanlattice.checkpoint.folder import Model, save_frame, save_weights
from hanlattice.checkpoint.load import load_model
from hanlattice.config import Config, make_config, read_config
from hanlattice.errors import ConfigError
from hanlattice.inference.decode import decode
from hanlattice.nn.crf import CRF
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.tags import spans_to_tags
from hanlattice.training.build import Built, build
from hanlattice.training.pack import pack
from hanlattice.training.warm_start import LOWER, carried_settings
from tests.helpers.cutting import in_words
from tests.helpers.made import made_tree, sentences, write_toml
from tests.helpers.untrained import in_twos

NEW = [Sentence("鹭岛的王小明去了沙漠", (Span(0, 2, "LOC"), Span(3, 6, "PER"))), *sentences(6, 9)]
MODELS: dict[str, dict[str, Any]] = {
    "characters, bigrams, softwords": {"encoder": "char", "bichar": True, "softword": True},
    "two layers of whole words, pools": {"layers": 2, "whole_words": True, "pools": True},
    "words and subwords, pools, a language model": {
        "sources": "both",
        "bichar": True,
        "pools": True,
    },
    "words": {"encoder": "word", "char_features": "lstm", "bichar": True},
    "a transformer": {"encoder": "none"},
}


def write_source(folder: Path, config: Config, train: Sequence[Sentence], seed: int = 3) -> Path:
    """A model whose every weight is random, also those that begin as zeros."""
    built = build(config, train)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in built.tagger.named_parameters():
            scale = 2.0 if name.startswith(("output", "crf")) else 0.5
            weight.copy_(scale * torch.randn(weight.shape, generator=generator))
    save_frame(folder, config, built.indexer, {"vectors": {"chars": "chars.vec"}})
    save_weights(folder, built.tagger.state_dict(), {})
    return folder


def begun(
    folder: str | Path, train: Sequence[Sentence], learn: str = "spans", **start: Any
) -> Built:
    """With the settings that the model carries over, and no others."""
    fixed, usual = carried_settings(str(folder))
    tree = {name: {**usual.get(name, {}), **fixed.get(name, {})} for name in {*fixed, *usual}}
    tree |= {"data": {"learn": learn}, "start": {"model": str(folder), **start}}
    built = build(make_config(tree), train)
    built.tagger.eval()
    return built


def emissions(tagger: Any, indexer: Any, texts: Sequence[Sentence]) -> Tensor:
    with torch.no_grad():
        found: Tensor = tagger.emissions(
            tagger.batch(indexer.examples(texts), np.arange(len(texts)))
        )
    return found


@pytest.fixture(scope="module")
def source(made, tmp_path_factory) -> Path:
    """A random lattice of LOC and PER."""
    return write_source(
        tmp_path_factory.mktemp("source"), make_config(made_tree(made)), sentences(20, 1)
    )


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("kind", MODELS)
def test_the_same_labels_have_the_same_scores(
    kind, packed, made, lm_folder, transformer_folder, tmp_path
):
    tree = made_tree(made, **({"lm__model": str(lm_folder)} if "language" in kind else {}))
    if "transformer" in kind:
        tree["transformer"] = {"model": str(transformer_folder), "overlap": 8}
    tree |= {"subwords": {"vectors": str(made / "subwords.vec")}, "segment": {"by": "gold"}}
    config = make_config({**tree, "model": {**tree["model"], **MODELS[kind]}})
    train, new = ([in_twos(sentence) for sentence in part] for part in (sentences(20, 1), NEW))
    folder = write_source(tmp_path / "source", config, train)
    if packed:
        pack(folder, tmp_path / "packed")
        folder = tmp_path / "packed"
    old = load_model(folder, modules=True)
    built = begun(folder, new)
    texts = [*new, *train]
    torch.testing.assert_close(
        emissions(built.tagger, built.indexer, texts),
        emissions(old.tagger, old.indexer, texts),
        atol=1e-5,
        rtol=1e-5,
    )
    for mine, theirs in zip(built.tagger.crf.scores, old.tagger.crf.scores, strict=True):
        assert torch.equal(mine, theirs)


def test_what_is_new_begins_as_unknown_and_words_of_the_text_are_trained(source):
    built = begun(source, NEW)
    old = load_model(source, modules=True)
    vocab, before = built.indexer.vocab, old.indexer.vocab
    assert vocab.symbols[: len(before)] == before.symbols
    assert set(vocab.symbols) - set(before.symbols) == set("鹭岛的")
    rows = built.tagger.chars.vectors
    assert all(torch.equal(rows[vocab[character]], rows[0]) for character in "鹭岛的")
    met = built.indexer.lexicon.words[: len(built.tagger.words.trained)]
    assert "沙漠" in met
    assert sorted(built.indexer.lexicon.words) == sorted(old.indexer.lexicon.words)
    assert f"characters: {len(before) - 1} of the model, 3 new" in built.notices
    fixed = begun(source, NEW)  # the settings of the model are taken where nothing else is said
    assert fixed.tagger.chars.dropout.p == 0.2


def with_others(texts: Sequence[Sentence]) -> list[Sentence]:
    return [*texts, Sentence("开会在昨天", (Span(0, 2, "EVENT"), Span(3, 5, "TIME")))]


@pytest.mark.parametrize("seed", range(4))
def test_beside_new_labels_the_same_spans_are_found(seed, made, tmp_path):
    folder = write_source(tmp_path / "source", make_config(made_tree(made)), sentences(20, 1), seed)
    built = begun(folder, with_others(NEW))
    old = load_model(folder)
    texts = sentences(40, 5)
    found = decode(built.tagger, built.indexer, built.indexer.examples(texts))
    assert found == decode(old.tagger, old.indexer, old.indexer.examples(texts))
    assert any(found)


@torch.no_grad()
def score_of(crf: CRF, emitted: Tensor, spans: Sequence[Span]) -> float:
    """The score of one tagging, by a plain loop."""
    tags = [crf.tags.index(tag) for tag in spans_to_tags(spans, len(emitted), crf.scheme)]
    total = (
        crf.start[tags[0]]
        + crf.end[tags[-1]]
        + sum(emitted[at, tag] for at, tag in enumerate(tags))
    )
    return float(total + sum(crf.transitions[a, b] for a, b in pairwise(tags)))


@pytest.mark.parametrize("scheme", ["BMES", "BIO"])
def test_a_new_label_scores_as_the_mean_over_what_it_could_be(scheme, made, tmp_path):
    """Sum over the choices of the model's labels for all spans, with LOWER for each span."""
    config = make_config(made_tree(made, model__scheme=scheme))
    folder = write_source(tmp_path / "source", config, sentences(20, 1))
    old = load_model(folder, modules=True)
    built = begun(folder, with_others(NEW))
    text = [Sentence("王小明在南湖工作")]
    before, after = (emissions(model.tagger, model.indexer, text)[0] for model in (old, built))
    places = [(0, 3), (3, 4), (4, 6)]
    spans = [
        Span(*places[0], "TIME"),
        Span(*places[1], "EVENT"),
        Span(*places[2], "TIME"),
        Span(6, 8, "PER"),
    ]
    choices = [
        [
            *(Span(*place, label) for place, label in zip(places, labels, strict=True)),
            Span(6, 8, "PER"),
        ]
        for labels in product(("LOC", "PER"), repeat=3)
    ]
    expected = np.mean([score_of(old.tagger.crf, before, choice) for choice in choices]) - 3 * LOWER
    assert score_of(built.tagger.crf, after, spans) == pytest.approx(expected, abs=1e-4)


def renamed(names: dict[str, str]) -> list[Sentence]:
    return [
        Sentence(
            text.text, tuple(Span(span.start, span.end, names[span.label]) for span in text.spans)
        )
        for text in NEW
    ]


def test_a_label_begins_as_the_one_that_is_named_or_that_its_name_begins_with(source):
    built = begun(source, renamed({"PER": "PER.NAM", "LOC": "地名"}), labels={"地名": "LOC"})
    old = load_model(source)
    texts = sentences(20, 5)
    found = decode(built.tagger, built.indexer, built.indexer.examples(texts))
    names = {"PER.NAM": "PER", "地名": "LOC"}
    back = [[Span(span.start, span.end, names[span.label]) for span in spans] for spans in found]
    assert [
        list(spans) for spans in decode(old.tagger, old.indexer, old.indexer.examples(texts))
    ] == back
    assert "labels: PER.NAM begins as PER; 地名 begins as LOC" in built.notices


def test_labels_that_are_not_there(source):
    with pytest.raises(ConfigError, match=r"start\.labels names ROAD, and .* has LOC, PER"):
        begun(source, NEW, labels={"LOC": "ROAD"})
    assert "start.labels names ROAD, which the training corpus does not have" in begun(
        source, NEW, labels={"ROAD": "LOC"}
    ).notices  # fmt: skip


def found_in(model: Model | Built, texts: Sequence[str]) -> list[Any]:
    return list(decode(model.tagger, model.indexer, model.indexer.read(texts)))


@pytest.mark.parametrize(("name", "cut"), [("ner", False), ("seg", True)])
def test_the_shipped_models(name, cut):
    texts = [
        "南京市长江大桥位于江苏省，任正非在深圳创办了华为公司。",
        "国家主席江泽民访问了俄罗斯。",
    ]
    train = [in_words(sentence) for sentence in NEW] if cut else with_others(NEW)
    train += [] if cut else [Sentence("新华社", (Span(0, 3, "ORG"),))]
    old = load_model(find_model(name))
    built = begun(name, train)
    assert found_in(built, texts) == found_in(old, texts)
    words, before = set(built.indexer.lexicon.words), set(old.indexer.lexicon.words)
    assert words <= before  # of a word in two scripts one is found
    assert len(before) - len(words) < 100
    assert len(built.indexer.lexicon) == len(built.tagger.words)


def test_words_of_a_segmenter_become_labelled_words(made, tmp_path):
    """Each label begins as WORD, so that the text is cut as before."""
    config = make_config(made_tree(made, model__encoder="char"))
    folder = write_source(
        tmp_path / "source", config, [in_words(sentence) for sentence in sentences(20, 1)]
    )
    tagged = [
        Sentence(
            text.text,
            tuple(Span(span.start, span.end, "nv"[at % 2]) for at, span in enumerate(text.spans)),
        )
        for text in map(in_words, NEW)
    ]
    built = begun(folder, tagged, learn="words")
    old = load_model(folder)
    texts = [sentence.text for sentence in sentences(10, 5)]
    after, before = (
        [[(span.start, span.end) for span in spans] for spans in found_in(model, texts)]
        for model in (built, old)
    )
    assert after == before


def test_settings_come_from_the_model_and_others_contradict_it(made, source, tmp_path):
    data = {
        "data": {"train": str(made / "train.bmes")},
        "words": {"vectors": "another"},
        "train": {"epochs": 3},
    }
    path = write_toml(tmp_path / "c.toml", {**data, "start": {"model": str(source)}})
    config = read_config(path, complete=True, carried=carried_settings)
    assert (config.model.hidden, config.words.dropout, config.train.epochs, config.train.lr) == (
        16,
        0.2,
        3,
        1.5e-3,
    )
    chosen = read_config(path, ["model.hidden=16", "model.dropout=0.4"], carried=carried_settings)
    assert (chosen.model.hidden, chosen.model.dropout) == (16, 0.4)
    with pytest.raises(ConfigError) as caught:
        read_config(path, ["model.hidden=8", "model.pools=true"], carried=carried_settings)
    fixes = f"{source}, which fixes it as start.model: remove it, or add --set model."
    assert caught.value.problems == [
        f"model.pools is True, and 'false' in {fixes}pools=false",
        f"model.hidden is 8, and 16 in {fixes}hidden=16",
    ]
