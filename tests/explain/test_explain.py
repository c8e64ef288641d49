"""`tagger.explain`: what it says is what the model did, and every offset is one of the text as
given.
"""

from __future__ import annotations

import json
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from hanlattice.errors import ModelError
from hanlattice.explain import Explanation
from hanlattice.explain.values import DIRECTIONS
from hanlattice.inference import encoders
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, bidirectional, reference
from hanlattice.predict import Predictor
from tests.helpers import models
from tests.helpers.made import sentences
from tests.helpers.strategies import any_text

TEXT = "昨天王小明和李芳到白沙市开会"
PIECES = ["王小明在青石镇工作。", "今天天气很好，", "没有人说话。"]


@pytest.fixture(scope="module")
def two_layers(made, tmp_path_factory) -> Predictor:
    return models.tagger(made, tmp_path_factory.mktemp("two"), model__layers=2)


@pytest.fixture(scope="module")
def uncoupled(made, tmp_path_factory) -> Predictor:
    return models.tagger(made, tmp_path_factory.mktemp("uncoupled"), model__coupled=False)


@pytest.fixture
def tagger(made, tmp_path) -> Predictor:
    """Fresh, so that a test may change it."""
    return models.tagger(made, tmp_path)


@pytest.fixture(scope="module")
def cutter(made, tmp_path_factory) -> Predictor:
    return models.segmenter(made, tmp_path_factory.mktemp("cutter"))


def assert_sound(explanation: Explanation) -> None:
    """Every word stands where it says, every share and every row of chances sums to one."""
    text = explanation.text
    for word in explanation.words:
        assert 0 <= word.start < word.end <= len(text)
        assert word.end - word.start >= 2
    for row in explanation.marginals:
        assert row is None or sum(row) == pytest.approx(1, abs=1e-6)
    for layer in explanation.layers:
        for name in DIRECTIONS:
            direction = getattr(layer, name)
            for at, (own, before) in enumerate(zip(direction.own, direction.before, strict=True)):
                poured = [direction.words[nth].mean for nth in explanation.into(at, name)]
                if own is None:
                    assert before is None
                    assert not poured
                    continue
                assert (before is None) == bool(poured)
                rest = sum(poured) if before is None else before.mean
                assert own.mean + rest == pytest.approx(1, abs=1e-5)
                assert 0 <= own.low <= own.mean <= 1
                assert own.low <= own.high <= 1
    json.dumps(explanation.to_dict())


def assert_tagged_alike(explanation: Explanation, tagger: Predictor) -> None:
    spans = tagger(explanation.text).spans
    assert explanation.spans == spans
    assert [span.text for span in explanation.spans] == [span.text for span in spans]
    assert [span.score for span in explanation.spans] == pytest.approx(
        [span.score for span in spans], abs=1e-6
    )


@pytest.mark.parametrize("sentence", sentences(4, seed=5), ids=lambda sentence: sentence.text)
def test_spans_and_words_are_those_of_the_tagger(two_layers, sentence):
    explanation = two_layers.explain(sentence.text)
    assert_sound(explanation)
    assert_tagged_alike(explanation, two_layers)
    assert [(w.start, w.end, w.word) for w in explanation.words] == two_layers.lexicon.match(
        sentence.text
    )
    assert {(word.source, word.chosen) for word in explanation.words} <= {("words", False)}
    assert len(explanation.layers) == 2


def watched(tagger: Predictor, text: str) -> list[Tensor]:
    """The shares with which the reference mixed every cell, in the order in which it made them."""
    seen: list[Tensor] = []
    real = reference.mix

    def spy(shares: Tensor, parts: list[Tensor]) -> Tensor:
        seen.append(shares / shares.sum(0))
        return real(shares, parts)

    def by_reference(x, word_x, lattice, weights, coupled, packed=()):
        tensors = [LatticeLSTMWeights(*map(torch.tensor, each)) for each in weights]
        given = torch.from_numpy(x), torch.from_numpy(word_x), lattice, *tensors, coupled
        return bidirectional(*given, backend="reference").numpy()

    def without_library(x, word_x, lattice, forward, backward, coupled):
        return by_reference(x, word_x, lattice, (forward, backward), coupled)

    with (
        mock.patch.object(reference, "mix", spy),
        mock.patch.object(encoders.native, "directions", by_reference),
        mock.patch.object(encoders, "bidirectional", without_library),
    ):
        tagger(text)
    return seen


@pytest.mark.parametrize("which", ["two_layers", "uncoupled"])
def test_shares_are_those_that_the_cell_used(which, request):
    """Of each layer the reference goes through the text, and then through its mirror image."""
    tagger: Predictor = request.getfixturevalue(which)
    explanation = tagger.explain(TEXT)
    seen = watched(tagger, TEXT)
    T = len(TEXT)
    assert len(seen) == 2 * T * len(explanation.layers)
    for n, layer in enumerate(explanation.layers):
        for direction, name, places in (
            (0, "forward", range(T)),
            (1, "backward", range(T - 1, -1, -1)),
        ):
            mine = getattr(layer, name)
            for nth, at in enumerate(places):
                used = seen[(2 * n + direction) * T + nth]
                own = mine.own[at]
                numbers = [
                    used[0].mean(),
                    used[0].std(correction=0),
                    *used[0].quantile(torch.tensor([0.1, 0.9])),
                ]
                assert [own.mean, own.spread, own.low, own.high] == pytest.approx(
                    [float(x) for x in numbers], abs=1e-5
                )
                here = explanation.into(at, name)
                if (
                    name == "backward"
                ):  # words come in the order in which they begin, from the right
                    here = sorted(here, key=lambda w: -explanation.words[w].end)
                shares = [mine.words[w] for w in here] or [mine.before[at]]
                assert [share.mean for share in shares] == pytest.approx(
                    [float(x.mean()) for x in used[1:]], abs=1e-5
                )


def test_a_span_is_no_more_probable_than_its_tags(tagger):
    explanation = tagger.explain(TEXT)
    assert explanation.spans
    for span in explanation.spans:
        for at in range(span.start, span.end):
            row = dict(zip(explanation.tag_names, explanation.marginals[at], strict=True))
            assert row[explanation.tags[at]] >= span.score - 1e-9
            assert explanation.tags[at].endswith(span.label)


def test_a_word_that_a_user_adds_is_known_as_such(tagger):
    tagger.lexicon.add("明和")
    tagger.lexicon.add("白沙市")  # it was there
    chosen = {word.word: word.chosen for word in tagger.explain(TEXT).words}
    assert chosen["明和"]
    assert chosen["白沙市"]
    assert not chosen["开会"]
    tagger.lexicon.remove("开会")
    assert "开会" not in {word.word for word in tagger.explain(TEXT).words}


def test_a_long_text_is_explained_piece_by_piece(tagger):
    tagger.limit = 11
    text = "".join(PIECES)
    whole = tagger.explain(text)
    assert_sound(whole)
    assert_tagged_alike(whole, tagger)
    assert [text[start:end] for start, end in whole.pieces] == PIECES
    for (start, end), piece in zip(whole.pieces, PIECES, strict=True):
        alone = tagger.explain(piece)
        assert whole.tags[start:end] == alone.tags
        assert whole.marginals[start:end] == alone.marginals
        assert [
            (w.start - start, w.end - start) for w in whole.words if start <= w.start < end
        ] == [(w.start, w.end) for w in alone.words]
        assert whole.layers[0].backward.own[start:end] == alone.layers[0].backward.own


@settings(max_examples=15)
@given(text=any_text)
def test_any_text_at_all(two_layers, cutter, text):
    for tagger in (two_layers, cutter):
        explanation = tagger.explain(text)
        assert explanation.text == text
        assert len(explanation.tags) == len(text)
        assert_sound(explanation)
        assert_tagged_alike(explanation, tagger)


def test_a_segmenter_reads_no_white_space(cutter):
    text = " 昨天 王小\n明在　白沙市 "
    explanation = cutter.explain(text)
    assert_sound(explanation)
    assert_tagged_alike(explanation, cutter)
    assert [at for at, tag in enumerate(explanation.tags) if tag is None] == [0, 3, 6, 9, 13]
    assert ("白沙市", 10, 13) in [(word.word, word.start, word.end) for word in explanation.words]
    assert all(text[word.start : word.end] == word.word for word in explanation.words)
    records = explanation.to_dict()["characters"]
    assert (records[0]["tag"], records[0]["marginals"], records[0]["forward"]) == (None, None, [])


def test_a_model_of_entities_reads_none_either(two_layers):
    text = "\u3000昨天 王 小\n明在　白沙市 "
    explanation = two_layers.explain(text)
    assert_sound(explanation)
    assert_tagged_alike(explanation, two_layers)
    assert [at for at, tag in enumerate(explanation.tags) if tag is None] == [0, 3, 5, 7, 10, 14]
    words = [(word.word, word.start, word.end) for word in explanation.words]
    assert ("白沙市", 11, 14) in words
    assert not any(start < 4 < end for _, start, end in words)  # none goes on after 昨天


def test_marginals_are_of_what_was_decoded_with_trust(cutter):
    cutter.lexicon.add("在白")
    cutter.trust = 1000.0
    explanation = cutter.explain("王芳在白沙市")
    assert "在白" in [span.text for span in explanation.spans]
    assert explanation.marginals[2][explanation.tag_names.index("B-WORD")] == pytest.approx(1)
    assert_tagged_alike(explanation, cutter)


def test_words_and_subwords(made, tmp_path):
    sources = {"model__sources": "both", "subwords__vectors": str(made / "subwords.vec")}
    both = models.tagger(made, tmp_path / "both", **sources)
    explanation = both.explain("王小明在青石镇工作")
    assert_sound(explanation)
    found = [(word.word, word.source) for word in explanation.words]
    assert found == [
        ("王小", "subwords"),
        ("王小明", "words"),
        ("小明", "subwords"),
        ("青石镇", "words"),
        ("石镇", "subwords"),
        ("工作", "subwords"),
        ("工作", "words"),
    ]
    sources["model__sources"] = "subwords"
    alone = models.tagger(made, tmp_path / "subwords", **sources).explain("王小明")
    assert [(word.word, word.source) for word in alone.words] == [
        ("王小", "subwords"),
        ("小明", "subwords"),
    ]


def test_a_model_without_lexicon_has_chances_and_no_words(made, tmp_path):
    plain = models.tagger(made, tmp_path, model__encoder="char", model__layers=2)
    explanation = plain.explain(TEXT, without=True)
    assert_sound(explanation)
    assert_tagged_alike(explanation, plain)
    assert (explanation.has_lattice, explanation.words, explanation.layers) == (False, (), ())
    assert explanation.without == ()
    assert all(row is not None for row in explanation.marginals)


def test_a_word_model_cannot_be_explained(made, tmp_path):
    words = models.tagger(made, tmp_path, model__encoder="word", segment__by="gold")
    with pytest.raises(ModelError, match="this model reads words, not characters"):
        words.explain(TEXT)


@pytest.mark.parametrize("text", ["", "王", "开会"])
def test_short_texts(two_layers, text):
    explanation = two_layers.explain(text)
    assert_sound(explanation)
    assert_tagged_alike(explanation, two_layers)
    assert len(explanation.layers) == 2


def test_only_a_text_is_explained(two_layers):
    with pytest.raises(TypeError, match="a text must be a str, not list"):
        two_layers.explain(["一"])


def test_numbers_of_the_record(two_layers):
    explanation = two_layers.explain(TEXT)
    record = json.loads(json.dumps(explanation.to_dict()))
    assert record["text"] == TEXT
    assert [word["word"] for word in record["words"]] == [word.word for word in explanation.words]
    first = explanation.layers[1].backward.words[0]
    shown = record["words"][0]["backward"][1]
    assert shown == {
        name: round(getattr(first, name), 6) for name in ("mean", "spread", "low", "high")
    }
    assert set(record["characters"][3]["marginals"]) == set(explanation.tag_names)
    assert np.isclose(sum(record["characters"][3]["marginals"].values()), 1, atol=1e-4)


def test_labels_of_the_dictionary_that_stand_in_some_pieces_only(made, tmp_path_factory):
    """The tags of all pieces are in the table of each character, with 0 where the piece has no such
    label.
    """
    tagger = models.tagger(made, tmp_path_factory.mktemp("labels"))
    tagger.lexicon.add("天气", label="NEW", trust=2.0)
    tagger.lexicon.add("说话", label="OTHER", trust=2.0)
    pieces = ["王小明在青石镇工作。", "今天天气很好。", "白沙市没人说话。", "王小明在青石镇。"]
    tagger.limit = 10
    for order in (pieces, pieces[::-1], pieces[1:3]):
        text = "".join(order)
        whole = tagger.explain(text)
        alone = [tagger.explain(piece) for piece in order]
        assert [text[start:end] for start, end in whole.pieces] == order
        assert set(whole.tag_names) == {name for each in alone for name in each.tag_names}
        assert len(set(whole.tag_names)) == len(whole.tag_names)
        assert any("NEW" in name for name in whole.tag_names)
        wanted = [
            {name: chances.get(name, 0.0) for name in whole.tag_names}
            for each in alone
            for row in each.to_dict()["characters"]
            if (chances := row["marginals"]) is not None
        ]
        found = [row["marginals"] for row in whole.to_dict()["characters"]]
        assert found == [pytest.approx(row, abs=1e-5) for row in wanted]
        assert all(sum(row.values()) == pytest.approx(1, abs=1e-4) for row in found)
