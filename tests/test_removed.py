"""Words that come and go: nothing of the removed ones stays, and what is found is what a fresh
lexicon finds.
"""

from __future__ import annotations

import copy
import random
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.checkpoint.load import load_model
from hanlattice.features.indexer import Indexer
from hanlattice.predict import Predictor
from hanlattice.text.dictionary import Entry
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.rules import FEW_GONE

TEXT = "王小明在青石镇工作。"


@pytest.fixture(params=[False, True], ids=["arrays", "torch"])
def tagger(request: pytest.FixtureRequest, lattice_folder: Path) -> Predictor:
    return Predictor(load_model(lattice_folder, modules=request.param))


@pytest.fixture
def few_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few removed words stay that a test of some dozens forgets many."""
    for place in ("text.rules", "text.contents"):
        monkeypatch.setattr(f"hanlattice.{place}.FEW_GONE", 2)


def sizes(lexicon: Lexicon, table: Any = None) -> dict[str, int]:
    """The entries of everything that has one for each word, or more."""
    contents = lexicon.contents
    rules = lexicon.rules
    found = {
        "words": len(contents._words),
        "places": len(contents._places),
        "removed": len(contents.removed._table),
        "chosen": 0 if contents.chosen is None else len(contents.chosen._table),
        "tries": sum(len(part.matcher._keys) for part in (*contents.parts, *rules._parts)),
        "rules": max(len(rules), len(rules._said), len(rules._words)),
        "labels": len(rules.labels),
    }
    return found | (
        {} if table is None else {"vectors": len(table._room), "known and added": len(table)}
    )


def test_rounds_of_other_words_leave_no_more_than_one_round(tagger: Predictor) -> None:
    lexicon, table = tagger.lexicon, tagger.model.tagger.lexicon
    before = tagger(TEXT)
    at_first = sizes(lexicon, table)
    most = dict[str, int]()
    for number in range(12):
        own = [f"词{number:02}{nth:03}" for nth in range(FEW_GONE // 2)]
        lexicon.update(
            Entry(word, f"L{number}{nth}") if nth % 2 else word for nth, word in enumerate(own)
        )
        tagger(TEXT + own[0])
        assert [word for *_, word in lexicon.match("，".join(own[:9]))] == own[:9]
        for word in own:
            lexicon.remove(word)
        assert lexicon.match("，".join(own)) == []
        now = sizes(lexicon, table)
        most = {name: max(most.get(name, 0), now[name] - at_first[name]) for name in now}
    per_word = {
        "tries": 2 * len("词00000")
    }  # a word has a node for each character, and may have a label
    assert all(count <= 4 * FEW_GONE * per_word.get(name, 1) for name, count in most.items()), most
    after = tagger(TEXT)
    assert after == before
    assert [span.score for span in after.spans] == [span.score for span in before.spans]


def test_many_that_leave_but_for_one_leave_one(tagger: Predictor) -> None:
    """The one that stays came last, so it stands behind all others, and has to move with its
    vector.
    """
    lexicon, table = tagger.lexicon, tagger.model.tagger.lexicon
    own = [f"词{nth:05}" for nth in range(5 * FEW_GONE)]
    lexicon.update([*own, "青石镇工"])
    before = tagger(TEXT)
    for word in own:
        lexicon.remove(word)
    after = tagger(TEXT)
    assert sizes(lexicon, table)["words"] <= 3 * FEW_GONE
    assert sizes(lexicon, table)["vectors"] <= 3 * FEW_GONE
    assert after == before
    assert [span.score for span in after.spans] == [span.score for span in before.spans]
    assert lexicon.words[lexicon.id("青石镇工")] == "青石镇工"


def test_labels_that_a_word_had_one_after_the_other_leave(few_stay: None) -> None:
    lexicon = Lexicon()
    lexicon.add("南京", label="LOC")
    for number in range(50):
        lexicon.add("长江", label=f"L{number}", trust=np.inf)
    assert len(lexicon.rules.labels) < 8
    assert lexicon.rules.labels[0] == "LOC"
    assert [entry.label for entry in lexicon.rules.entries()] == ["LOC", "L49"]


few = st.text("ab中", min_size=1, max_size=4)
steps = st.lists(
    st.tuples(st.sampled_from(["add", "label", "remove", "match", "borrow"]), few), max_size=60
)


@given(steps, st.lists(few, max_size=4, unique=True), st.text("ab中", max_size=15))
def test_what_is_found_is_what_a_fresh_lexicon_finds(
    changes: list[tuple[str, str]], given_words: list[str], text: str
) -> None:
    lexicon = Lexicon(given_words)
    living = dict.fromkeys(word for word in given_words if len(word) > 1)
    lexicon.mark_baseline()
    said: dict[str, str] = {}
    own: set[str] = set()
    with (
        mock.patch("hanlattice.text.contents.FEW_GONE", 1),
        mock.patch("hanlattice.text.rules.FEW_GONE", 1),
    ):
        for kind, word in changes:
            if kind in ("add", "label"):
                label = f"L{len(word)}" if kind == "label" else ""
                is_new = len(word) > 1 and word not in living
                is_said = bool(label) and said.get(word) != label
                assert lexicon.add(word, label=label) == (is_new or is_said)
                if len(word) > 1:
                    living[word] = None
                    own.add(word)
                if label:
                    said[word] = label
            elif kind == "remove":
                assert lexicon.remove(word) == (word in living or word in said)
                living.pop(word, None)
                said.pop(word, None)
                own.discard(word)
            elif kind == "borrow":
                with lexicon.temporary_words([word + word, word], list(living)[:2]):
                    lexicon.match(text)
            else:
                lexicon.match(text)
    fresh = Lexicon(living)
    assert lexicon.match(text) == fresh.match(text)
    assert set(lexicon) == set(fresh)
    assert len(lexicon) == len(fresh)
    assert {(entry.word, entry.label) for entry in lexicon.rules.entries()} == set(said.items())
    ids = [lexicon.id(word) for word in living]
    assert [lexicon.words[at] for at in ids if at is not None] == list(living)
    assert lexicon.is_user_word(np.array(ids, dtype=np.int64)).tolist() == [
        word in own for word in living
    ]
    assert lexicon.contents.gone <= max(1, len(living))


def test_a_text_that_is_being_read_keeps_the_vectors_of_its_words(
    tagger: Predictor, few_stay: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the text and the look at the vectors others remove words, and all ids
    change.
    """
    own = [f"词{nth:02}" for nth in range(30)]
    tagger.lexicon.update([*own, "青石镇工"])
    tagger.lexicon.add("小明在", label="NEW", trust=30.0)
    before = tagger(TEXT), tagger.explain(TEXT).to_dict()
    assert "NEW" in {span.label for span in before[0].spans}
    part = Indexer._part
    at = tagger.lexicon.id("青石镇工")
    changed: list[int | None] = []

    def then_remove(*asked: object) -> object:
        examples = part(*asked)
        if tagger.lexicon.id(own[0]) is not None:
            for word in own:
                tagger.lexicon.remove(word)
            tagger.lexicon.update(["工作。王", "作。王小"])
            tagger.lexicon.match("长江")
            changed.append(tagger.lexicon.id("青石镇工"))
        return examples

    monkeypatch.setattr(Indexer, "_part", then_remove)
    for ask, want in (
        (tagger, before[0]),
        (lambda text: tagger.explain(text).to_dict(), before[1]),
    ):
        tagger.lexicon.update(own)
        tagger(TEXT)
        tagger.lexicon.update(own)
        found = ask(TEXT)
        assert found == want
    assert changed
    assert all(each != at for each in changed)


def test_threads_that_add_and_remove_find_what_one_thread_finds(
    tagger: Predictor, few_stay: None
) -> None:
    texts = ["王小明在青石镇工作。", "昨天李芳去了南湖"]
    always = copy.deepcopy(tagger)
    always.lexicon.add("青石镇工")
    tagger.lexicon.add("青石镇工")
    wanted = [[span.score for span in document.spans] for document in always(texts)]
    wrong: list[object] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set() and not wrong:
            found = [[span.score for span in document.spans] for document in tagger(texts)]
            if found != [pytest.approx(row, abs=1e-5) for row in wanted]:
                wrong.append(found)

    def change(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(60):
            own = [f"词{seed}{chance.randrange(1000):03}" for _ in range(5)]
            tagger.lexicon.update(own)
            with tagger.lexicon.temporary_words(["去了南湖"]):
                tagger(texts[:1])
            for word in own:
                tagger.lexicon.remove(word)

    readers = [threading.Thread(target=read) for _ in range(2)]
    changers = [threading.Thread(target=change, args=(seed,)) for seed in range(2)]
    for each in readers + changers:
        each.start()
    for each in changers:
        each.join()
    ended.set()
    for each in readers:
        each.join()
    assert not wrong
    assert len(tagger.model.tagger.lexicon._room) < 100
