"""What would be found without each word: as if the lexicon had never had it."""

from __future__ import annotations

import dataclasses
import importlib
import json

import pytest
from hypothesis import example, given, settings

from hanlattice.errors import InputError
from hanlattice.explain import Ablation
from hanlattice.explain.changes import changes, others
from hanlattice.explain.html import section
from hanlattice.explain.svg import picture
from hanlattice.explain.terminal import lines
from hanlattice.inference import decode
from hanlattice.predict import Predictor
from hanlattice.text.dictionary import Entry
from hanlattice.text.span import Span
from tests.helpers import models
from tests.helpers.explanations import nanjing
from tests.helpers.strategies import any_text

changes_module = importlib.import_module("hanlattice.explain.changes")
TEXT = "昨天王小明和李芳到白沙市开会，青石镇的人在云门山工作"


@pytest.fixture(scope="module")
def two_layers(made, tmp_path_factory) -> Predictor:
    return models.tagger(made, tmp_path_factory.mktemp("two"), model__layers=2)


@pytest.fixture(scope="module")
def cutter(made, tmp_path_factory) -> Predictor:
    """A segmenter with a word of the user's own."""
    found = models.segmenter(made, tmp_path_factory.mktemp("cutter"))
    found.lexicon.add("白沙市开")
    found.trust = 2.0
    return found


def all_chances(tagger: Predictor, text: str) -> dict[tuple[int, int, str], float]:
    return {(s.start, s.end, s.label): s.score or 0.0 for s in tagger.candidates(text, 100_000)}


@pytest.mark.parametrize("which", ["two_layers", "cutter"])
def test_it_is_what_a_lexicon_without_the_word_gives(which, request):
    tagger: Predictor = request.getfixturevalue(which)
    explanation = tagger.explain(TEXT, without=True)
    own = [word.word for word in explanation.words if word.chosen]
    assert len(own) == (which == "cutter")
    assert len(explanation.without) == len(explanation.words) > 3
    assert len({word.word for word in explanation.words}) == len(
        explanation.words
    )  # each stands there once
    for word, there in zip(explanation.words, explanation.without, strict=True):
        was_own = word.chosen
        assert tagger.lexicon.remove(word.word)
        expected = tagger(TEXT).spans
        chances = all_chances(tagger, TEXT)
        tagger.lexicon.add(word.word)
        if not was_own:  # it is now a word of the user's own: take that back
            tagger.lexicon.mark_baseline()
            tagger.lexicon.update(own)
        assert there.first == 0
        assert there.spans == expected
        assert [span.text for span in there.spans] == [span.text for span in expected]
        assert [s.score for s in there.spans] == pytest.approx(
            [s.score for s in expected], abs=1e-6
        )
        wanted = [chances[span.start, span.end, span.label] for span in explanation.spans]
        assert list(there.scores) == pytest.approx(wanted, abs=1e-6)
    before = dataclasses.replace(explanation, without=())
    assert before == tagger.explain(TEXT, without=False)


@pytest.mark.parametrize("bounds", [(3, 10_000), (100, 1)])
def test_few_or_many_at_a_time(two_layers, bounds, monkeypatch):
    expected = two_layers.explain(TEXT, without=True).without
    monkeypatch.setitem(decode.BOUNDS, "cpu", bounds)
    found = two_layers.explain(TEXT, without=True).without
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.spans == theirs.spans
        assert list(mine.scores) == pytest.approx(theirs.scores, abs=1e-6)


def test_a_word_beside_it_keeps_what_the_dictionary_says(made, tmp_path):
    """Words of the dictionary that begin or end where another does are not left out with it."""
    tagger = models.tagger(made, tmp_path)
    entries = {word: Entry(word, "PER", 2.0) for word in ("天王", "天王小", "王小")}
    tagger.lexicon.update(entries.values())
    explanation = tagger.explain(TEXT, without=True)
    words = [word.word for word in explanation.words]
    assert set(entries) < set(words)
    for word, entry in entries.items():
        tagger.lexicon.remove(word)
        expected = tagger(TEXT).spans
        chances = all_chances(tagger, TEXT)
        tagger.lexicon.update([entry])
        there = explanation.without[words.index(word)]
        assert there.spans == expected
        wanted = [
            chances.get((span.start, span.end, span.label), 0.0) for span in explanation.spans
        ]
        assert list(there.scores) == pytest.approx(wanted, abs=1e-6)


@settings(max_examples=10)
@given(text=any_text)
@example(text="")
@example(text="\u3000王小明 在白沙市\n")
def test_any_text(two_layers, cutter, text):
    for tagger in (two_layers, cutter):
        explanation = tagger.explain(text, without=True)
        assert len(explanation.without) == len(explanation.words)
        for there in explanation.without:
            assert (there.first, len(there.scores)) == (0, len(explanation.spans))
            assert all(text[span.start : span.end] == span.text for span in there.spans)
        json.dumps(explanation.to_dict())


def test_a_long_text_piece_by_piece(two_layers):
    pieces = ["王小明在青石镇工作。", "今天天气很好，", "白沙市没有人说话。"]
    text = "".join(pieces)
    short = Predictor(two_layers.model, limit=10)
    whole = short.explain(text, without=True)
    assert [text[start:end] for start, end in whole.pieces] == pieces
    nth = first = offset = 0
    for piece in pieces:
        alone = two_layers.explain(piece, without=True)
        for there in alone.without:
            assert whole.without[nth].first == first
            assert whole.without[nth].spans == tuple(span.shifted(offset) for span in there.spans)
            assert list(whole.without[nth].scores) == pytest.approx(there.scores, abs=1e-6)
            nth += 1
        first = first + len(alone.spans)
        offset = offset + len(piece)
    assert nth == len(whole.without)


# ---- how it is told: 南京市 (98 %) and 长江大桥 (100 %) were found


SAME = (0.98, 1.0)
SPANS = (Span(0, 3, "LOC", 0.98, "南京市"), Span(3, 7, "LOC", 1.0, "长江大桥"))
CASES = {
    0: (Ablation(0, SAME, SPANS), None),
    1: (Ablation(0, (0.9, 0.995), SPANS), "南京市 LOC 98% → 90%"),
    2: (Ablation(0, (0.975, 1.0), SPANS[1:]), "南京市 LOC 98% → 98%, not found"),
    3: (
        Ablation(0, (0.2, 0.1), (Span(0, 2, "LOC", 0.6, "南京"), Span(2, 4, "PER", 0.999, "市长"))),
        "南京市 LOC 98% → 20%, not found · 长江大桥 LOC 100% → 10%, not found · "
        "南京 LOC found, 60% · 市长 PER found, >99%",
    ),
    4: (Ablation(0, (0.98, 0.97), SPANS), "长江大桥 LOC 100% → 97%"),
    5: (Ablation(0, (0.971, 1.0), SPANS), None),
}


def told():
    return dataclasses.replace(nanjing(), without=tuple(there for there, _ in CASES.values()))


def test_the_largest_change_comes_first_and_small_ones_are_not_told():
    expected = {nth: what for nth, (_, what) in CASES.items() if what}
    assert changes(told()) == expected
    assert list(changes(told())) == [3, 2, 1, 4]
    assert others(told(), 4) == "without any of 2 other words: no change of 1% or more"
    assert others(told(), 6) == ""
    assert changes(nanjing()) == {}
    assert others(nanjing(), 0) == ""


def test_every_picture_tells_it():
    explanation = told()
    shown = ["".join(piece.text for piece in line) for line in lines(explanation, width=200)]
    assert "without 长江: " + (CASES[3][1] or "") in shown
    assert shown[-1] == "without any of 2 other words: no change of 1% or more"
    arcs = [line.split()[1:] for line in shown if "├" in line]
    words = [word.word for word in explanation.words]
    assert [arc[0] for arc in arcs] == [
        words[at] for at in (2, 3, 1, 4, 0, 5)
    ]  # by what they change
    assert [arc[-1] for arc in arcs[:4]] == ["!", "−90!", "−8", "−3"]
    assert [arc[1:] for arc in arcs[4:]] == [[], []]
    svg = picture(explanation)
    assert f"without {words[1]}: 南京市 LOC 98% → 90%" in svg
    assert f">{words[1]} −8</text>" in svg
    assert "of that character&#39;s cell" not in svg
    assert "without it: 南京市 LOC 98% → 90%" in picture(explanation, view="shares")
    page = section(explanation)
    assert page.count("without it</th>") == 1
    assert "南京市 LOC 98% → 90%</td>" in page
    assert page.count("<svg") == 2
    assert "without" not in section(nanjing()) + picture(nanjing())


def test_names_that_stand_there_twice_are_told_apart():
    spans = tuple(dataclasses.replace(span, text="南京") for span in SPANS)
    again = dataclasses.replace(
        nanjing(), spans=spans, without=(Ablation(0, (0.5, 0.5), spans[1:]),) * 6
    )
    assert changes(again)[0] == "南京 LOC at 0 98% → 50%, not found · 南京 LOC at 3 100% → 50%"


def test_words_that_stand_there_twice_are_told_apart():
    explanation = nanjing()
    twice = tuple(dataclasses.replace(word, word="长江") for word in explanation.words)
    again = dataclasses.replace(told(), words=twice)
    shown = ["".join(piece.text for piece in line) for line in lines(again, width=200)]
    assert any(line.startswith("without 长江 at 3: ") for line in shown)


def test_a_text_of_words_without_end_is_refused_at_once(two_layers, monkeypatch):
    """Each word would be left out once, so the cost is their number times the cost of a reading."""
    monkeypatch.setattr(
        changes_module, "DecodingBatch", lambda *_: pytest.fail("it must not compute")
    )
    message = r"has [\d,]+ words in these 300 characters, .*: explain a shorter text"
    words = ["江" * length for length in range(2, 60)]
    with two_layers.lexicon.temporary_words(words), pytest.raises(InputError, match=message):
        two_layers.explain("江" * 300, without=True)


def test_words_inside_words_are_left_out_in_small_batches(two_layers, monkeypatch):
    """A batch is counted in characters and in words."""
    sizes = []

    class Counted(changes_module.DecodingBatch):
        def __init__(self, tagger, indexer, examples, *rest):
            sizes.append(int(examples.lengths.sum() + examples.matches.counts.sum()))
            super().__init__(tagger, indexer, examples, *rest)

    monkeypatch.setattr(changes_module, "DecodingBatch", Counted)
    monkeypatch.setattr(changes_module, "BOUNDS", {"cpu": (128, 1000)})
    with two_layers.lexicon.temporary_words("江" * length for length in range(2, 12)):
        explanation = two_layers.explain("江" * 20, without=True)
    assert len(explanation.without) == len(explanation.words) > 100
    assert max(sizes) <= 1000
