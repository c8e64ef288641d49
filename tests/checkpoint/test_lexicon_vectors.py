"""A word that joins a model has its vector before any text can contain it."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.checkpoint import lexicon_vectors as module
from hanlattice.checkpoint.compose import compose, learn_from
from hanlattice.checkpoint.load import load_model
from hanlattice.config import make_config
from hanlattice.errors import ModelError
from hanlattice.features.batches import Examples
from hanlattice.features.indexer import Indexer, Places, apart
from hanlattice.inference.constraints import boost
from hanlattice.nn.crf import CRF
from hanlattice.predict import Predictor, load
from hanlattice.text.lexicon import LONGEST, Lexicon
from hanlattice.training.loop import train
from tests.helpers.cutting import cutting_tree
from tests.helpers.made import sentences
from tests.helpers.patience import PATIENCE

TEXT = "王小明在青石镇工作。"


# ---- every word has one vector


def composed(tagger: Predictor, words: list[str]) -> torch.Tensor:
    """Their vectors, each made of its own."""
    lexicon, table = tagger.lexicon, tagger.model.tagger.lexicon
    assert table is not None
    made = compose(words, lexicon, table, tagger.model.composer or learn_from(lexicon, table))
    return torch.from_numpy(made).float()


def test_threads_that_add_and_tag_give_each_word_one_vector(tagger):
    """Whoever finds a word finds its vector too, and no word is composed twice."""
    table = tagger.model.tagger.lexicon
    lexicon = tagger.lexicon
    count = 40
    emissions = tagger.model.tagger.emissions
    before = len(table)
    names = [[f"词{'甲乙丙丁'[thread]}{n:03}" for n in range(40)] for thread in range(4)]
    together = threading.Barrier(4)

    def watched(batch):
        assert not batch.words.size or int(batch.words.max()) < len(table)
        return emissions(batch)

    def work(thread: int) -> None:
        together.wait(timeout=PATIENCE)
        for number in range(count):
            lexicon.add(names[thread][number])
            other = names[(thread + 1) % 4][number]  # which another thread may be adding
            Predictor(tagger.model)(f"王小明{names[thread][number]}{other}在青石镇")

    tagger.model.tagger.emissions = watched
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, thread) for thread in range(4)]:
            done.result()
    assert len(table) == len(lexicon.words) == before + 4 * count
    torch.testing.assert_close(
        torch.from_numpy(table.added).float(), composed(tagger, lexicon.folded(before))
    )


@pytest.mark.parametrize("ask", ["__call__", "candidates", "readings", "explain"])
def test_a_word_that_joins_while_a_text_is_read_has_its_vector(tagger, monkeypatch, ask):
    """Between the look at the lexicon and the look at the text: as another thread might do it."""
    table = tagger.model.tagger.lexicon
    read = Indexer._part
    seen: list[tuple[int, int]] = []

    def reading(self: Indexer, texts: list[str], words: None) -> Examples:
        self.lexicon.add("青石镇工")
        examples = read(self, texts, words)
        seen.append((self.lexicon.id("青石镇工"), int(examples.batch([0]).words.max())))
        return examples

    emissions = tagger.model.tagger.emissions
    monkeypatch.setattr(Indexer, "_part", reading)
    monkeypatch.setattr(
        tagger.model.tagger,
        "emissions",
        lambda batch: (seen.append((len(table), -1)), emissions(batch))[1],
    )
    getattr(tagger, ask)("王小明在青石镇工作。")
    assert seen[0][0] == seen[0][1] == len(table) - 1  # it stands in the text
    assert seen[1] == (len(table), -1)  # and had its row when the model ran


def test_what_interrupts_composing_leaves_nothing_half_done(tagger, monkeypatch):
    before = tagger(TEXT)
    tagger.lexicon.add("青石镇工")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "compose", interrupted)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                tagger(TEXT)
    assert [span.text for span in tagger(TEXT).spans] == [span.text for span in before.spans]
    assert len(tagger.model.tagger.lexicon) == len(tagger.lexicon.words)


def test_a_lexicon_full_of_words_that_no_text_can_have_is_quick(tagger):
    assert tagger.lexicon.update(["甲" * 200_000, "乙" * (LONGEST + 1), "丙" * LONGEST]) == 1
    tagger(TEXT)
    assert len(tagger.model.tagger.lexicon) == len(tagger.lexicon.words)


@pytest.mark.parametrize(
    "again",
    [copy.deepcopy, lambda tagger: pickle.loads(pickle.dumps(tagger))],
    ids=["copy", "pickle"],
)
def test_a_copy_has_words_and_vectors_of_its_own(tagger, again):
    other = again(tagger)
    assert other.lexicon.add("青石镇工")
    text = "王小明在青石镇工"
    other(text)
    assert [len(each.model.tagger.lexicon) for each in (other, tagger)] == [
        len(tagger.lexicon.words) + 1,
        len(tagger.lexicon.words),
    ]
    assert "青石镇工" not in tagger.lexicon
    found = other("王小明去了南湖！")
    expected = tagger("王小明去了南湖！")
    assert found == expected
    assert [s.score for s in found.spans] == [s.score for s in expected.spans]


def test_a_model_that_is_dropped_frees_its_memory_at_once(lattice_folder):
    """Lexicon and vectors do not form a circle, which only garbage collection would find."""
    tagger = load(lattice_folder)
    tagger.lexicon.add("青石镇工")
    tagger(TEXT)
    table = weakref.ref(tagger.model.tagger.lexicon)
    lexicon = weakref.ref(tagger.lexicon)
    gc.disable()
    try:
        del tagger
        assert (table(), lexicon()) == (None, None)
    finally:
        gc.enable()


def test_a_word_added_takes_effect_on_the_next_call(tagger):
    text = "今天天气很好，没有人说话。"
    before = tagger.model.tagger.words.rows(np.arange(len(tagger.model.tagger.words)))
    assert tagger.lexicon.add("好，没有人说")
    assert tagger.lexicon.add("气很")
    emissions = []
    real = tagger.model.tagger.emissions
    tagger.model.tagger.emissions = lambda batch: (
        emissions.append(batch.words.tolist()) or real(batch)
    )
    tagger(text)
    new = len(before)
    assert {new, new + 1} <= set(emissions[-1])
    words = tagger.model.tagger.words
    assert np.array_equal(words.rows(np.arange(new)), before)
    assert len(words) == new + 2
    assert np.linalg.norm(words.rows(np.array([new, new + 1])), axis=1).min() > 0
    assert tagger.lexicon.remove("好，没有人说")
    tagger(text)
    assert new not in emissions[-1]
    assert new + 1 in emissions[-1]
    tagger.lexicon.add("好，没有人说")
    tagger(text)
    assert new in emissions[-1]


def test_a_word_changes_the_result(tagger):
    """With its places taken out of the lexicon, the model sees other words, so its scores move."""
    before = tagger(TEXT)
    for word in ("青石镇", "王小明"):
        assert tagger.lexicon.remove(word)
    assert [span.score for span in tagger(TEXT).spans] != [span.score for span in before.spans]


def test_borrowed_words_leave_nothing_behind(tagger):
    texts = [each.text for each in sentences(20, 3)]
    tagger.lexicon.add("天天说话")  # words that somebody added before stay
    before = tagger(texts)
    words = list(tagger.lexicon)
    with tagger.lexicon.temporary_words(["王小明在", "白沙"], without=["工作", "没有这个词"]):
        assert "王小明在" in tagger.lexicon
        assert "工作" not in tagger.lexicon
        borrowed = tagger(texts)
    own = copy.deepcopy(tagger)
    own.lexicon.update(["王小明在", "白沙"])
    own.lexicon.remove("工作")
    assert borrowed == own(texts)
    assert (tagger(texts), list(tagger.lexicon)) == (before, words)
    with (
        pytest.raises(TypeError, match="a text must be a str"),
        tagger.lexicon.temporary_words(["某某某"]),
    ):
        tagger(None)
    assert list(tagger.lexicon) == words
    tagger.lexicon.add("云栖小镇")  # gets the id, and the row, that a borrowed word had
    assert [word for _, _, word in tagger.lexicon.match("他在云栖小镇")] == ["云栖小镇"]


def test_a_borrowed_word_of_the_model_counts_only_while_it_is_borrowed(segmenter):
    word = next(word for word in segmenter.lexicon if len(word) == 2)
    at = np.array([segmenter.lexicon.id(word)])
    with segmenter.lexicon.temporary_words([word]):
        assert segmenter.lexicon.is_user_word(at).all()
    assert not segmenter.lexicon.is_user_word(at).any()


@pytest.mark.parametrize("one_by_one", [False, True])
def test_many_words_are_composed_together(tagger, monkeypatch, one_by_one):
    """Also those that were added in a loop."""
    counts = []

    def counted(words, *rest):
        counts.append(len(words))
        return compose(words, *rest)

    monkeypatch.setattr("hanlattice.checkpoint.lexicon_vectors.compose", counted)
    words = [f"词{number:05}" for number in range(5000)]
    if one_by_one:
        assert all(map(tagger.lexicon.add, words))
    else:
        assert tagger.lexicon.update(words) == 5000
    tagger(TEXT + "词00042")
    assert counts == [5000]
    assert len(tagger.model.tagger.words) == len(tagger.lexicon.words)


def test_a_character_model_has_no_lexicon(char_folder):
    tagger = load(char_folder)
    with pytest.raises(ModelError, match="this model has no lexicon; a lattice model has one"):
        tagger.lexicon.add("长江大桥")
    assert len(tagger(TEXT).spans) == 2


def test_the_order_of_additions_changes_nothing(lattice_folder):
    new = ["青石长江", "江大桥头", "没有青石镇", "ＡＢ公司"]
    at_once = load(lattice_folder)
    one_by_one = load(lattice_folder)
    at_once.lexicon.update(new)
    at_once(TEXT)
    for word in new:
        one_by_one.lexicon.add(word)
        one_by_one(TEXT)
    tables = [predictor.model.tagger.lexicon for predictor in (at_once, one_by_one)]
    assert len(tables[0]) == len(at_once.lexicon.words)
    np.testing.assert_allclose(tables[0].added, tables[1].added, rtol=1e-3)
    assert tables[0].added.dtype == np.float16


def test_without_new_words_nothing_is_learnt(lattice_folder, monkeypatch):
    def never(*_: object) -> None:
        raise AssertionError("it learns to compose though there is nothing to compose")

    monkeypatch.setattr(module, "learn_from", never)
    tagger = load(lattice_folder)
    tagger.lexicon.remove("青石镇")
    tagger.lexicon.add("青石镇")
    tagger(TEXT)


# ---- a segmenter prefers a user's words

NAMES = ("慕容雪村", "碧水湾", "卡夫卡")  # of characters and words that training has never seen
WITH_NAMES = ["{}在南湖工作。", "昨天王芳和{}到东港区开会", "{}去了白沙市！", "今天{}很好"]


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    where = tmp_path_factory.mktemp("cutting")
    changes = {
        "model__encoder": "lattice",
        "model__hidden": 16,
        "train__epochs": 6,
        "train__lr": 0.01,
    }
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
    known = "电脑沙漠"
    lexicon = segmenter.lexicon
    lexicon.add(known)
    lexicon.mark_baseline()  # as if the model had come with it
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
    assert not lexicon.is_user_word(np.array([0, 1])).any()
    lexicon.mark_baseline()
    assert not lexicon.is_user_word(np.array([0, 1])).any()
    lexicon.update(["长江", "大桥", "江"])  # one is there already, one is too short
    assert lexicon.is_user_word(np.array([0, 1, 2])).tolist() == [False, True, True]
    lexicon.remove("长江")
    lexicon.add("市长")
    assert lexicon.is_user_word(np.array([0, 1, 2, 3])).tolist() == [False, False, True, True]
    assert lexicon.is_user_word(np.array([], dtype=np.int64)).tolist() == []


@pytest.mark.parametrize("scheme", ["BIO", "BMES", "BIOES"])
def test_a_bonus_reaches_exactly_the_tags_of_the_spans(scheme):
    tags = {"BIO": "BI", "BMES": "BMES", "BIOES": "BIES"}[scheme]
    crf = CRF([f"{prefix}-WORD" for prefix in tags], scheme)
    emissions = torch.randn(2, 5, len(tags), dtype=torch.float64)
    sentence = np.array([0, 0, 1])
    start = np.array([1, 2, 3])
    end = np.array([4, 4, 5])
    found = boost(crf, emissions, sentence, start, end, 2.0)
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
        plain = [
            [(span.start, span.end) for span in document.spans] for document in segmenter(texts)
        ]
        segmenter.lexicon.update(NAMES)
        found.append(
            (
                plain,
                [
                    [(span.start, span.end) for span in document.spans]
                    for document in segmenter(texts)
                ],
            )
        )
    assert found[0] == found[1]


def test_of_own_words_that_overlap_the_longest_count():
    """Else the first tag of one and the last of another would make a word that nobody named."""
    found = apart(
        Places(
            np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 3, 0, 2, 4]), np.array([3, 5, 6, 2, 4, 6])
        )
    )
    assert list(zip(*(array.tolist() for array in found), strict=True)) == [
        (0, 1, 5),
        (1, 0, 2),
        (1, 2, 4),
        (1, 4, 6),
    ]


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
