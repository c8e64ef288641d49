"""A dictionary with labels, in a tagger: what it finds, in every way of asking, on both backends."""

from __future__ import annotations

import cProfile
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hanlattice.checkpoint import find_model
from hanlattice.checkpoint.load import load_model
from hanlattice.inference import decode as decoding
from hanlattice.ops import library
from hanlattice.predict import LABEL_TRUST, Document, Predictor, load
from hanlattice.text.dictionary import Entry
from hanlattice.text.span import Span
from tests.helpers.command import hanlattice
from tests.helpers.made import sentences

TEXT = "王小明在青石镇工作。"
OTHERS = [each.text for each in sentences(6, 5)]
INF = math.inf
FORBIDDEN = ("好", "天", "好天")


def spans(document: Document) -> list[tuple[str, str]]:
    return [(span.text, span.label) for span in document.spans]


def modules(folder: Path) -> Predictor:
    """The model as modules of torch, on a CPU."""
    return Predictor(load_model(folder, modules=True))


def test_trust_decides_and_other_texts_stay(tagger: Predictor) -> None:
    before = tagger(TEXT)
    others = tagger(OTHERS)
    assert spans(before) == [("王小明", "PER"), ("青石镇", "LOC")]
    tagger.lexicon.add("工作", label="LOC", trust=0.0)
    scores = []
    for trust in (0.0, 5.0, 40.0):
        tagger.lexicon.add("工作", label="LOC", trust=trust)
        scores.append(
            next(each.score for each in tagger.candidates(TEXT, 100) if each == Span(7, 9, "LOC"))
        )
    assert scores == sorted(scores)
    assert spans(tagger(TEXT))[-1] == ("工作", "LOC")
    assert scores[-1] > 0.99
    unaffected = [text for text in OTHERS if "工作" not in text]
    assert [tagger(text) for text in unaffected] == [
        each for each in others if each.text in unaffected
    ]
    assert tagger.lexicon.remove("工作")
    assert tagger(TEXT) == before


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("make", [load, modules])
def test_commands_and_new_labels(
    lattice_folder: Path, make: Callable[[Path], Predictor], native: bool
) -> None:
    with nullcontext() if native else without_c():
        tagger = make(lattice_folder)
        tagger.lexicon.add("在青", label="PER", trust=INF)
        score = next(span.score for span in tagger(TEXT).spans if span.text == "在青")
        assert score == pytest.approx(1.0)
        tagger.lexicon.forbid("在青")
        assert spans(tagger(TEXT)) == [("王小明", "PER"), ("青石镇", "LOC")]
        tagger.lexicon.forbid("青石镇", label="LOC")
        assert ("青石镇", "LOC") not in spans(tagger(TEXT))
        tagger.lexicon.remove("青石镇")
        tagger.lexicon.split("青石", "镇")
        assert all(span.end <= 6 or span.start >= 6 for span in tagger(TEXT).spans)
        tagger.lexicon.remove("青石/镇")
        tagger.lexicon.add("工作", label="职业")
        assert spans(tagger(TEXT)) == [("王小明", "PER"), ("青石镇", "LOC"), ("工作", "职业")]
        assert ("工作", "职业") in [(span.text, span.label) for span in tagger.candidates(TEXT, 5)]
        best = tagger.readings(TEXT, 3)
        assert (spans(best[0]), sum(each.score for each in best) <= 1) == (
            spans(tagger(TEXT)),
            True,
        )
        explanation = tagger.explain(TEXT, without=True)
        assert explanation.spans == tagger(TEXT).spans
        assert {"B-职业", "E-职业"} <= set(explanation.tags)
        nth = [word.word for word in explanation.words].index("工作")
        assert "职业" not in {span.label for span in explanation.without[nth].spans}


def without_c() -> AbstractContextManager[Any]:
    return mock.patch.object(
        library, "loaded", return_value=library.Loaded(None, "", "it is turned off")
    )


def test_both_ways_of_decoding(lattice_folder: Path) -> None:
    for decode in ("path", "spans", 0.3):
        tagger = load(lattice_folder, decode=decode)
        tagger.lexicon.update([Entry("工作", "职业"), Entry("青石", "LOC", 3.0)])
        found = tagger(TEXT)
        assert ("工作", "职业") in spans(found)
        assert [span.score for span in found.spans] == pytest.approx(
            [
                next(each.score for each in tagger.candidates(TEXT, 500) if each == span)
                for span in found.spans
            ]
        )
        assert tagger([TEXT, *OTHERS, "", TEXT])[-1] == found


@pytest.mark.parametrize("limit", ["ARCS_MOST", "WORDS_PER_CHARACTER"])
def test_smaller_batches_find_the_same(
    tagger: Predictor, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Sentences with many words or many arcs are read in smaller batches, which changes nothing
    else.
    """
    texts = [TEXT, *OTHERS] * 3
    for at in range(0, 9):
        tagger.lexicon.add(TEXT[at : at + 2], label=f"L{at % 4}", trust=1.0)
    sizes: list[int] = []
    real = decoding.DecodingBatch

    def counted(*arguments: Any) -> decoding.DecodingBatch:
        sizes.append(len(arguments[3]))
        return real(*arguments)

    monkeypatch.setattr(decoding, "DecodingBatch", counted)
    together = list(tagger.pipe(texts, candidates=5))
    few = max(sizes)
    sizes.clear()
    monkeypatch.setattr(decoding, limit, 1e-6)
    apart = list(tagger.pipe(texts, candidates=5))
    assert few > 1
    assert min(sizes) == 1
    for one, other in zip(together, apart, strict=True):
        assert one.spans == other.spans
        assert one.candidates == other.candidates
        for left, right in zip(one.spans, other.spans, strict=True):
            assert left.score == pytest.approx(right.score, abs=1e-5)


def test_three_hundred_categories_take_the_calls_of_one(tagger: Predictor) -> None:
    """The work grows with the words that match, however many labels the dictionary has."""
    texts = [TEXT, *OTHERS] * 3
    words = sorted({text[at : at + 2] for text in texts for at in range(len(text) - 1)})
    entries = [f"词{at}" for at in range(300 - len(words))]

    def calls(labels: int) -> int:
        every = [Entry(word, f"L{at % labels}", 1.0) for at, word in enumerate([*words, *entries])]
        tagger.lexicon.update(every)
        tagger(texts)
        profile = cProfile.Profile()
        profile.runcall(tagger, texts)
        return sum(each.callcount for each in profile.getstats())

    assert calls(300) < 1.5 * calls(1)


def test_names_with_spaces_and_hyphens_and_no_word_is_cut(tagger: Predictor) -> None:
    tagger.lexicon.add("Louis Vuitton", label="ORG", trust=INF)
    tagger.lexicon.add("SK-II", label="ORG", trust=INF)
    tagger.lexicon.add("5G", label="ORG", trust=INF)
    text = "王小明用Louis Vuitton、LouisVuitton和ＳＫ-ＩＩ。"
    found = [span.text for span in tagger(text).spans if span.label == "ORG"]
    assert found == ["Louis Vuitton", "LouisVuitton", "ＳＫ-ＩＩ"]
    for cut in ("王小明用Louis Vuittons", "王小明用SK-III", "用XSK-II", "有15G", "NLouis Vuitton"):
        plain = tagger(cut)
        assert not [span for span in plain.spans if span.label == "ORG"], cut


def test_two_commands_on_one_place(tagger: Predictor) -> None:
    """The longer wins."""
    tagger.lexicon.add("在青", label="PER", trust=INF)
    tagger.lexicon.add("在青石", label="LOC", trust=INF)
    tagger.lexicon.split("青石", "镇工")
    assert ("在青石", "LOC") not in spans(tagger(TEXT))
    tagger.lexicon.remove("青石镇工")
    assert ("在青石", "LOC") in spans(tagger(TEXT))


def test_a_segmenter_takes_cuts_and_no_new_label() -> None:
    cutter = load("seg")
    text = "这件衣服太贵了"
    cutter.lexicon.add("衣服太", label="ORG", trust=0.0)
    cutter.trust = 0.0
    before = cutter(text)
    assert {span.label for span in before.spans} == {"WORD"}
    cutter.lexicon.split("衣", "服")
    assert [span.text for span in cutter(text).spans][2:4] == ["衣", "服"]
    cutter.lexicon.remove("衣服")
    cutter.lexicon.add("服太贵", label="WORD", trust=INF)
    assert "服太贵" in [span.text for span in cutter(text).spans]
    cutter.lexicon.forbid("服太贵")
    assert "服太贵" not in [span.text for span in cutter(text).spans]


@pytest.fixture(
    scope="module", params=[load, lambda name: modules(find_model(name))], ids=["arrays", "modules"]
)
def forbidding(request: pytest.FixtureRequest) -> Predictor:
    cutter: Predictor = request.param("seg")
    for word in FORBIDDEN:
        cutter.lexicon.forbid(word)
    cutter.lexicon.split("iPh", "one")
    return cutter


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(text=st.text("好天气 　iPhone", max_size=12))
@example("好 好")
@example("好")
@example("好iPhone")
def test_what_cannot_be_otherwise_is_a_word_after_all(forbidding: Predictor, text: str) -> None:
    found = forbidding(text).spans
    assert "".join(span.text for span in found) == "".join(text.split())
    assert not any(span.text != "".join(span.text.split()) for span in found)
    assert all(0 < span.score <= 1 for span in found if span.score is not None)
    assert sum(
        reading.score or 0.0 for reading in forbidding.readings(text, 3000)
    ) == pytest.approx(1.0)
    assert sum(span.text in FORBIDDEN for span in found) == sum(map(fewest, text.split()))


def fewest(text: str) -> int:
    """Forbidden words, in the segmentation without white space that has the fewest; Latin words are
    never cut.
    """
    least = {0: 0}
    for end in range(1, len(text) + 1):
        if end == len(text) or not (text[end - 1].isascii() and text[end].isascii()):
            least[end] = min(much + (text[start:end] in FORBIDDEN) for start, much in least.items())
    return least[len(text)]


def test_fewest_forbidden_words() -> None:
    cutter = load("seg")
    cutter.lexicon.forbid("好")
    assert [span.text for span in cutter("好 天气好").spans] == ["好", "天气好"]
    assert [span.score for span in cutter("好 好").spans] == pytest.approx([1.0, 1.0])


def test_on_the_command_line(lattice_folder: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("工作\t职业\n在青\tPER 0\n", "utf-8")
    ran = hanlattice("tag", "-m", lattice_folder, "-f", "inline", "-l", words, TEXT)
    assert ran.text == "[王小明/PER]在[青石镇/LOC][工作/职业]。\n"
    assert "the model has not learnt 职业" in ran.err
    out = hanlattice(
        "tag", "-m", lattice_folder, "-f", "inline", "-l", words, "--trust", "0", TEXT
    ).text
    assert out == "[王小明/PER]在[青石镇/LOC]工作。\n"
    words.write_text("工作\t职业 x\n", "utf-8")
    hanlattice("tag", "-m", lattice_folder, "-l", words, TEXT).refused(
        f"{words}:1: expected a number"
    )
    assert load(lattice_folder).trust == LABEL_TRUST
