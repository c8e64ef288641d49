"""Taggers of every kind: a training step is the same with every backend; they learn, are saved, and
tag raw text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hanlattice
from hanlattice.checkpoint.load import load_model
from hanlattice.config import Config
from hanlattice.data.corpus import read_corpus
from hanlattice.features import Batch
from hanlattice.inference.decode import decode
from hanlattice.nn.tagger import TorchTagger
from hanlattice.nn.to_device import to_device
from hanlattice.training.build import build
from hanlattice.training.loop import train
from tests.helpers.gpu import run_without_waiting
from tests.helpers.made import made_config

HAS_GPU = torch.cuda.is_available()
STEPS: dict[str, dict[str, Any]] = {
    "lattice": {},
    "lattice beside": {"model__bichar": True, "model__softword": True, "softwords__pos": True},
    "lattice of two layers": {"model__layers": 2},
    "lattice with pools": {"model__pools": True},
    "lattice of whole words": {"model__layers": 2, "model__whole_words": True},
    "lattice of whole words over characters, with pools": {
        "model__layers": 3,
        "model__whole_words": True,
        "model__first_layer": "char",
        "model__pools": True,
    },
    "char": {"model__encoder": "char", "model__layers": 2},
    "coupled char": {"model__encoder": "char", "model__coupled": True, "model__layers": 2},
    "rnn": {"model__encoder": "char", "model__cell": "tanh"},
    "word": {"model__encoder": "word"},
    **{
        f"word by {features}": {
            "model__encoder": "word",
            "model__char_features": features,
            "model__bichar": True,
        }
        for features in ("lstm", "sentence-lstm", "cnn")
    },
}


def make(config: Config, count: int = 8) -> tuple[TorchTagger, Batch]:
    sentences = read_corpus(config.data.train).sentences
    built = build(config, sentences)
    return built.tagger, built.indexer.examples(sentences[:count]).batch(range(count))


def gradients(tagger: TorchTagger, batch: Batch) -> dict[str, Tensor]:
    tagger.train()  # cuDNN has no gradients otherwise
    for part in tagger.modules():
        if isinstance(part, nn.Dropout):
            part.eval()
    tagger.zero_grad(set_to_none=True)
    tagger.loss(batch).mean().backward()
    return {
        name: weight.grad.cpu()
        for name, weight in tagger.named_parameters()
        if weight.grad is not None
    }


@pytest.mark.parametrize("backend", ["batched", "native"])
@pytest.mark.parametrize("variant", [name for name in STEPS if name.startswith("lattice")])
def test_every_backend_gives_the_step_of_the_reference(
    made: Path, variant: str, backend: str
) -> None:
    from hanlattice.ops import library

    if backend == "native" and library.missing():
        pytest.skip(library.missing())
    expected = gradients(*make(made_config(made, train__backend="reference", **STEPS[variant])))
    found = gradients(*make(made_config(made, train__backend=backend, **STEPS[variant])))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device here")
@pytest.mark.parametrize("backend", ["batched", "fused-fp32", "auto"])
def test_a_gpu_gives_the_same_step(made: Path, backend: str) -> None:
    expected = gradients(*make(made_config(made, train__backend="batched")))
    tagger, batch = make(made_config(made, train__backend=backend))
    found = gradients(tagger.cuda(), to_device(batch, "cuda"))
    for name, value in expected.items():
        error = (found[name] - value).norm() / value.norm().clamp(min=1e-6)
        assert error < (0.03 if backend == "auto" else 1e-3), f"{name}: relative error {error:.1e}"


@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device here")
@pytest.mark.parametrize("variant", STEPS)
def test_a_gpu_gives_the_same_step_for_every_kind(made: Path, variant: str) -> None:
    expected = gradients(*make(made_config(made, **STEPS[variant])))
    tagger, batch = make(made_config(made, **STEPS[variant]))
    found = gradients(tagger.cuda(), to_device(batch, "cuda"))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        error = (found[name] - value).norm() / value.norm().clamp(min=1e-6)
        assert error < 0.03, (
            f"{name}: relative error {error:.1e}"
        )  # products in half precision, or as TF32


@pytest.mark.parametrize("variant", STEPS)
def test_every_weight_has_a_part_in_the_loss(made: Path, variant: str) -> None:
    tagger, batch = make(made_config(made, **STEPS[variant]))
    found = gradients(tagger, batch)
    trained = {
        name
        for name, weight in tagger.named_parameters()
        if weight.requires_grad and weight.numel()
    }
    assert {name for name, gradient in found.items() if gradient.any()} == trained


@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # it warns that it may miss some
@pytest.mark.parametrize("variant", STEPS)
def test_the_host_never_waits_for_a_gpu(made: Path, variant: str) -> None:
    tagger, batch = make(made_config(made, **STEPS[variant]))
    tagger.cuda().train()
    optimizer = torch.optim.AdamW(tagger.parameters(), fused=True)
    weights = [weight for weight in tagger.parameters() if weight.requires_grad]
    total = torch.zeros((), device="cuda", dtype=torch.float64)

    def step() -> None:
        there = to_device(batch, "cuda")
        optimizer.zero_grad(set_to_none=True)
        losses = tagger.loss(there)
        losses.mean().backward()
        torch.nn.utils.clip_grad_norm_(weights, 5.0)
        optimizer.step()
        total.add_(losses.detach().sum())
        tagger.decode(there)

    run_without_waiting(step)


# ---- every kind of tagger learns the made corpus, loads as it was saved, and tags raw text

CHAR = {"model__encoder": "char"}
WORD = {"model__encoder": "word"}
BICHAR = {"model__bichar": True}
SOFTWORD = {"model__softword": True}
POS = {"softwords__pos": True}
LSTM, SENTENCE_LSTM, CNN = (
    {"model__char_features": name} for name in ("lstm", "sentence-lstm", "cnn")
)

POOLS = {"model__pools": True}
WHOLE = {"model__layers": 2, "model__whole_words": True}

# What a variant must reach on the test part, in per cent. Word models cannot find what the
# segmenter cuts elsewhere.
TRAINED = {
    "char-bichar-softword-pos": (CHAR | BICHAR | SOFTWORD | POS, 98),
    "char-coupled": (CHAR | {"model__coupled": True}, 98),
    "char-rnn": (CHAR | {"model__cell": "tanh", "model__layers": 2}, 98),
    "word-lstm-bichar": (WORD | LSTM | BICHAR, 94),
    "word-sentence-lstm": (WORD | SENTENCE_LSTM, 94),
    "word-cnn": (WORD | CNN, 94),
    "lattice-uncoupled-bichar-softword-pos": (
        {"model__coupled": False} | BICHAR | SOFTWORD | POS,
        98,
    ),
    "lattice-2-layers": ({"model__layers": 2, "train__lr": 0.01, "train__epochs": 8}, 98),
    "lattice-pools-whole": (POOLS | WHOLE | {"train__word_dropout": 0.1}, 98),
}
# The variants that differ only in which of these parts they combine are not trained each.
VARIANTS = {name: changes for name, (changes, _) in TRAINED.items()} | {
    "char": CHAR,
    "char-softword": CHAR | SOFTWORD,
    "char-2-layers": CHAR | {"model__layers": 2},
    "word": WORD,
    "word-lstm-2-layers": WORD | LSTM | {"model__layers": 2},
    "word-sentence-lstm-bichar": WORD | SENTENCE_LSTM | BICHAR,
    "word-cnn-bichar": WORD | CNN | BICHAR,
    "lattice": {},
    "lattice-subwords": {"model__sources": "subwords"},
    "lattice-both": {"model__sources": "both"},
    "lattice-both-pools": {"model__sources": "both"} | POOLS,
    "lattice-whole-over-char": WHOLE | {"model__first_layer": "char"},
}


@pytest.mark.parametrize("name", TRAINED)
def test_it_learns_and_comes_back(name, made, tmp_path):
    changes, enough = TRAINED[name]
    config = made_config(made, **{"train__epochs": 6, **changes})
    result = train(config, tmp_path / "run")
    assert 100 * result.scores["test"]["overall"]["f1"] >= enough
    test = read_corpus(made / "test.bmes").sentences
    model = load_model(result.folder)
    examples = model.indexer.examples(test)
    found = decode(model.tagger, model.indexer, examples)
    if HAS_GPU and config.model.encoder == "lattice":  # cuDNN's LSTMs round to TF32
        there = load_model(result.folder, "cuda")
        assert decode(there.tagger, there.indexer, examples) == found
    gold = sum(len(sentence.spans or ()) for sentence in test)
    overall = result.scores["test"]["overall"]
    assert overall["gold"] == gold  # those that cross a word's border are missed, not left out
    correct = sum(
        len(
            {(s.start, s.end, s.label) for s in mine}
            & {(s.start, s.end, s.label) for s in sentence.spans or ()}
        )
        for mine, sentence in zip(found, test, strict=True)
    )
    assert (overall["correct"], overall["predicted"]) == (correct, sum(map(len, found)))
    documents = hanlattice.load(result.folder)([sentence.text for sentence in test])
    assert [[(s.start, s.end, s.label) for s in document.spans] for document in documents] == [
        [(s.start, s.end, s.label) for s in mine] for mine in found
    ]
    assert all(0 < span.score <= 1.0001 for document in documents for span in document.spans)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_batch_changes_nothing(name, made):
    """Each sentence by itself has the scores that it has among others."""
    config = made_config(made, subwords__vectors=str(made / "subwords.vec"), **VARIANTS[name])
    test = read_corpus(made / "test.bmes").sentences[:7]
    built = build(config, test)
    tagger = built.tagger.eval().double()
    examples = built.indexer.examples(test)
    whole = tagger.emissions(examples.batch(range(len(test))))
    for at in range(len(test)):
        alone = tagger.emissions(examples.batch([at]))[0]
        torch.testing.assert_close(whole[at, : len(alone)], alone, rtol=1e-9, atol=1e-9)
