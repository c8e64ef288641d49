"""Every model of the paper learns the made corpus, comes back from disk as it was, and tags raw text."""

from __future__ import annotations

import pytest
import torch

import hanlattice
from hanlattice.data.corpus import read_corpus
from hanlattice.models.build import build
from hanlattice.models.checkpoint import load_model
from hanlattice.models.decode import decode
from hanlattice.training.loop import train
from tests.made import made_config

CHAR = {"model__encoder": "char"}
WORD = {"model__encoder": "word"}
BICHAR, SOFTWORD = {"model__bichar": True}, {"model__softword": True}
POS = {"softwords__pos": True}
LSTM, SENTENCE_LSTM, CNN = ({"model__char_features": name} for name in ("lstm", "sentence-lstm", "cnn"))

# What a variant must reach on the test part, in per cent. Word models cannot find what the segmenter cuts elsewhere.
VARIANTS = {
    "char": (CHAR, 98),
    "char-bichar": (CHAR | BICHAR, 98),
    "char-softword": (CHAR | SOFTWORD, 98),
    "char-softword-pos": (CHAR | SOFTWORD | POS, 98),
    "char-bichar-softword": (CHAR | BICHAR | SOFTWORD, 98),
    "word": (WORD, 94),
    "word-lstm": (WORD | LSTM, 94),
    "word-lstm-bichar": (WORD | LSTM | BICHAR, 94),
    "word-sentence-lstm": (WORD | SENTENCE_LSTM, 94),
    "word-sentence-lstm-bichar": (WORD | SENTENCE_LSTM | BICHAR, 94),
    "word-cnn": (WORD | CNN, 94),
    "word-cnn-bichar": (WORD | CNN | BICHAR, 94),
    "word-lstm-2-layers": (WORD | LSTM | {"model__layers": 2}, 94),
    "lattice": ({}, 98),
    "lattice-bichar": (BICHAR, 98),
    "lattice-softword": (SOFTWORD, 98),
    "lattice-bichar-softword-pos": (BICHAR | SOFTWORD | POS, 98),
    "lattice-uncoupled": ({"model__coupled": False}, 98),
    "lattice-2-layers": ({"model__layers": 2, "train__lr": 0.01, "train__epochs": 8}, 98),
    "char-2-layers": (CHAR | {"model__layers": 2}, 98),
}

# What the lattice holds; tests/models/test_segmenters.py trains models of these.
SOURCES = {f"lattice-{sources}": {"model__sources": sources} for sources in ("subwords", "both")}


@pytest.mark.parametrize("name", VARIANTS)
def test_it_learns_and_comes_back(name, made, tmp_path):
    changes, enough = VARIANTS[name]
    config = made_config(made, **{"train__epochs": 6, **changes})
    result = train(config, tmp_path / "run")
    assert 100 * result.scores["test"]["overall"]["f1"] >= enough
    test = read_corpus(made / "test.bmes").sentences
    model = load_model(result.folder)
    examples = model.indexer.examples(test)
    found = decode(model.tagger, model.indexer, examples)
    gold = sum(len(sentence.spans or ()) for sentence in test)
    overall = result.scores["test"]["overall"]
    assert overall["gold"] == gold  # those that cross a word's border are missed, not left out
    correct = sum(
        len({(s.start, s.end, s.label) for s in mine} & {(s.start, s.end, s.label) for s in sentence.spans or ()})
        for mine, sentence in zip(found, test, strict=True)
    )
    assert (overall["correct"], overall["predicted"]) == (correct, sum(map(len, found)))
    documents = hanlattice.load(result.folder)([sentence.text for sentence in test])
    assert [[(s.start, s.end, s.label) for s in document.spans] for document in documents] == [
        [(s.start, s.end, s.label) for s in mine] for mine in found
    ]
    assert all(0 < span.score <= 1.0001 for document in documents for span in document.spans)


@pytest.mark.parametrize("name", [*VARIANTS, *SOURCES])
def test_a_batch_changes_nothing(name, made):
    """Each sentence by itself has the scores that it has among others."""
    subwords = {"subwords__vectors": str(made / "subwords.vec")}
    config = made_config(made, **SOURCES[name] | subwords if name in SOURCES else VARIANTS[name][0])
    test = read_corpus(made / "test.bmes").sentences[:7]
    built = build(config, test)
    tagger, examples = built.tagger.eval().double(), built.indexer.examples(test)
    whole = tagger.emissions(examples.batch(range(len(test))))
    for at in range(len(test)):
        alone = tagger.emissions(examples.batch([at]))[0]
        torch.testing.assert_close(whole[at, : len(alone)], alone, rtol=1e-9, atol=1e-9)
