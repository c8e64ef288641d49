"""A user's dictionary makes words whole that a segmenter cuts wrongly, without training, and changes nothing else."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.batch.indexer import Places, apart
from hanlattice.config import make_config
from hanlattice.models.checkpoint import load_model
from hanlattice.nn.crf import CRF
from hanlattice.predict import Predictor
from hanlattice.text.lexicon import Lexicon
from hanlattice.training.loop import train
from tests.cutting import cutting_tree
from tests.made import sentences

NAMES = ("慕容雪村", "碧水湾", "卡夫卡")  # of characters and words that training has never seen
WITH_NAMES = ["{}在南湖工作。", "昨天王芳和{}到东港区开会", "{}去了白沙市！", "今天{}很好"]


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    where = tmp_path_factory.mktemp("cutting")
    changes = {"model__encoder": "lattice", "model__hidden": 16, "train__epochs": 6, "train__lr": 0.01}
    return train(make_config(cutting_tree(made, where, train=80, **changes)), where / "run").folder


@pytest.fixture
def segmenter(folder) -> Predictor:
    return Predictor(load_model(folder))


def words(segmenter: Predictor, text: str) -> list[str]:
    return [span.text for span in segmenter(text).spans]


def test_names_that_are_cut_wrongly_come_out_whole_and_the_rest_stays(segmenter):
    texts = [shape.format(name) for shape in WITH_NAMES for name in NAMES]
    others = [sentence.text for sentence in sentences(40, seed=5)]
    wrong = [text for text in texts if not set(words(segmenter, text)) & set(NAMES)]
    assert len(wrong) > len(texts) / 2
    before = [segmenter(text).spans for text in others]
    assert segmenter.lexicon.update(NAMES) == len(NAMES)
    assert [text for text in texts if not set(words(segmenter, text)) & set(NAMES)] == []
    assert [segmenter(text).spans for text in others] == before


def test_a_word_of_the_model_that_a_user_names_counts_too(segmenter):
    """It has been a word of the lattice all along, and yet was cut."""
    known, lexicon = "电脑沙漠", segmenter.lexicon
    lexicon.add(known)
    lexicon.settle()  # as if the model had come with it
    text = f"王芳在{known}工作。"
    segmenter.trust = 20.0
    assert known not in words(segmenter, text)
    assert not lexicon.add(known)  # nothing new
    assert known in words(segmenter, text)
    lexicon.remove(known)
    assert known not in words(segmenter, text)


def test_trust_is_what_decides(segmenter):
    text = WITH_NAMES[0].format(NAMES[0])
    before = words(segmenter, text)
    segmenter.lexicon.update(["雪村在南"])  # which nobody would believe
    segmenter.trust = 0.0
    assert "雪村在南" not in words(segmenter, text)
    segmenter.trust = 50.0
    assert "雪村在南" in words(segmenter, text)
    segmenter.lexicon.remove("雪村在南")
    assert words(segmenter, text) == before


def test_white_space_parts_even_a_word_of_the_user(segmenter):
    segmenter.lexicon.update(NAMES)
    segmenter.trust = 50.0
    assert words(segmenter, "卡 夫卡")[:1] == ["卡"]


def test_chosen_words_are_those_named_after_settling():
    lexicon = Lexicon(["南京", "长江"])
    assert not lexicon.is_chosen(np.array([0, 1])).any()
    lexicon.settle()
    assert not lexicon.is_chosen(np.array([0, 1])).any()
    lexicon.update(["长江", "大桥", "江"])  # one is there already, one is too short
    assert lexicon.is_chosen(np.array([0, 1, 2])).tolist() == [False, True, True]
    lexicon.remove("长江")
    lexicon.add("市长")
    assert lexicon.is_chosen(np.array([0, 1, 2, 3])).tolist() == [False, False, True, True]
    assert lexicon.is_chosen(np.array([], dtype=np.int64)).tolist() == []


@pytest.mark.parametrize("scheme", ["BIO", "BMES", "BIOES"])
def test_a_bonus_reaches_exactly_the_tags_of_the_spans(scheme):
    tags = {"BIO": "BI", "BMES": "BMES", "BIOES": "BIES"}[scheme]
    crf = CRF([f"{prefix}-WORD" for prefix in tags], scheme)
    emissions = torch.randn(2, 5, len(tags), dtype=torch.float64)
    sentence, start, end = np.array([0, 0, 1]), np.array([1, 2, 3]), np.array([4, 4, 5])
    found = crf.boost(emissions, "WORD", sentence, start, end, 2.0)
    wanted = emissions.clone()
    inside, last = ("I", "I") if scheme == "BIO" else ("M" if scheme == "BMES" else "I", "E")
    for b, low, high in zip(sentence, start, end, strict=True):
        for at in range(low, high):
            prefix = "B" if at == low else last if at == high - 1 else inside
            wanted[b, at, tags.index(prefix)] += 2.0
    assert torch.equal(found, wanted)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_cuts_the_same(folder):
    texts = [shape.format(name) for shape in WITH_NAMES for name in NAMES]
    texts += [
        "见 https://example.com/a?b=1 ，２００１年 12月",
        "王 芳在南　湖",
        *(each.text for each in sentences(20, seed=6)),
    ]
    found = []
    for device in ("cpu", "cuda"):
        segmenter = Predictor(load_model(folder, device))
        plain = [[(span.start, span.end) for span in document.spans] for document in segmenter(texts)]
        segmenter.lexicon.update(NAMES)
        found.append((plain, [[(span.start, span.end) for span in document.spans] for document in segmenter(texts)]))
    assert found[0] == found[1]


def test_of_own_words_that_overlap_the_longest_count():
    """Else the first tag of one and the last of another would make a word that nobody named."""
    found = apart(Places(np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 3, 0, 2, 4]), np.array([3, 5, 6, 2, 4, 6])))
    assert list(zip(*(array.tolist() for array in found), strict=True)) == [(0, 1, 5), (1, 0, 2), (1, 2, 4), (1, 4, 6)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(2, 5)), max_size=12))
def test_what_is_dropped_overlaps_something_that_stays_and_is_no_shorter(rows):
    given_places = [(sentence, start, start + size) for sentence, start, size in rows]
    columns = np.array(given_places, dtype=np.int64).reshape(-1, 3).T
    found = list(zip(*(array.tolist() for array in apart(Places(*columns))), strict=True))

    def overlap(one, other):
        return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]

    assert all(not overlap(*pair) for pair in combinations(found, 2))
    for place in given_places:
        assert place in found or any(
            overlap(place, kept) and kept[2] - kept[1] >= place[2] - place[1] for kept in found
        )


@pytest.mark.parametrize("value", [-1.0, 1001.0, float("inf"), float("nan")])
def test_trust_has_bounds(segmenter, value):
    with pytest.raises(ValueError, match="trust must be from 0 to 1000"):
        segmenter.trust = value


def test_no_trust_beats_the_rules(segmenter):
    """A user's words that would cut a number or an address in two."""
    segmenter.lexicon.update(["卡拉O", "看www.a.com", "价格4."])
    segmenter.trust = 1000.0
    found = words(segmenter, "去卡拉OK请看www.a.com的价格4.5元")
    assert "www.a.com" in found
    assert not any(word.endswith(("O", "4.")) for word in found)
