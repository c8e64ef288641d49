"""Prediction: any text whatever comes back as it was, with spans that lie where they say."""

from __future__ import annotations

import itertools
import math
import re
import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import hanlattice
from hanlattice.config import make_config
from hanlattice.data.corpus import read_corpus
from hanlattice.data.formats.segmented import from_words
from hanlattice.errors import HanlatticeError, InputError, ModelError
from hanlattice.inference.span_search import span_scores
from hanlattice.predict import LABEL_TRUST, LIMIT, TRUST, Document, Predictor, load
from hanlattice.text.boundaries import pieces
from hanlattice.text.dictionary import Entry
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.span import Span
from hanlattice.text.tags import tag_set, tags_to_spans
from hanlattice.training.loop import train
from hanlattice.training.pack import pack
from tests.helpers.cutting import cutting_tree
from tests.helpers.made import made_config
from tests.helpers.made import sentences as made_sentences
from tests.helpers.strategies import any_text
from tests.helpers.untrained import in_twos, write_untrained

NAMES = ["王小明", "青石镇", "白沙市", "南湖", "在", "工作。", "，", "去了", "3", "Ａ"]
STRANGE = [
    "\x00",
    "\r",
    "\n",
    "\r\n",
    "\u2028",
    "\ufeff",
    "\u3000",
    "😀",
    "👨‍👩‍👧",
    "é",
    "e\u0301",
    "臺灣",
    "１２",
    "ﬁ",
    "\ud800",
    "\udfff",
    "\U0010ffff",
]
texts = st.one_of(
    st.text(st.characters(), max_size=30),
    st.lists(
        st.one_of(st.sampled_from(NAMES + STRANGE), st.text(st.characters(), max_size=3)),
        max_size=12,
    ).map("".join),
)
WIDE = str.maketrans({chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)})


@pytest.fixture(scope="module")
def model(lattice_folder: Path) -> Predictor:
    """One for the tests that leave the lexicon alone."""
    return load(lattice_folder)


@pytest.fixture(scope="module")
def cutter(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """An untrained segmenter."""
    folder = tmp_path_factory.mktemp("models")
    config = make_config(cutting_tree(made, folder, model__encoder="lattice"))
    return load(
        write_untrained(folder / "cutter", config, read_corpus(folder / "train.seg").sentences)
    )


def check(document: Document, text: str) -> None:
    assert document.text == text
    end = 0
    for span in document.spans:
        assert end <= span.start < span.end <= len(text)
        assert span.text == text[span.start : span.end]
        assert span.label in ("PER", "LOC")
        assert span.score is not None
        assert 0 <= span.score <= 1
        end = span.end


def places(document: Document) -> list[tuple[int, int, str]]:
    return [(span.start, span.end, span.label) for span in document.spans]


def assert_alike(left: Document, right: Document) -> None:
    """Equal but for the last digits of the scores, which the shape of a batch may move."""
    assert (left.text, places(left)) == (right.text, places(right))
    assert [span.score for span in left.spans] == pytest.approx(
        [span.score for span in right.spans], abs=1e-5
    )


def test_it_finds_what_it_learnt(model):
    document = model("昨天李小明和王芳到云门山开会")
    assert places(document) == [(2, 5, "PER"), (6, 8, "PER"), (9, 12, "LOC")]
    assert [span.text for span in document.spans] == ["李小明", "王芳", "云门山"]
    assert all(span.score > 0.5 for span in document.spans)


@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=texts)
@example(text="")
@example(text="".join(STRANGE))
def test_any_text_comes_back_with_sound_spans(model: Predictor, text: str) -> None:
    check(model(text), text)


@given(given_texts=st.lists(texts, max_size=9), batch_size=st.integers(1, 4))
def test_alone_in_a_list_or_in_a_stream(
    model: Predictor, given_texts: list[str], batch_size: int
) -> None:
    one_by_one = [model(text) for text in given_texts]
    for many in (
        model(given_texts),
        model(tuple(given_texts)),
        list(model.pipe(iter(given_texts), batch_size)),
    ):
        assert len(many) == len(given_texts)
        for left, right in zip(one_by_one, many, strict=True):
            assert_alike(left, right)


def test_a_generator_is_tagged_as_it_comes(model: Predictor) -> None:
    taken: list[int] = []

    def texts() -> Iterator[str]:
        for at in range(2000):
            taken.append(at)
            yield "王小明"

    found = model(texts(), min_score=0.1)
    assert not taken
    assert next(found) == model("王小明", min_score=0.1)
    assert len(taken) == 1024
    assert [document.text for document in model(map(str.strip, [" 一 ", "二"]))] == ["一", "二"]


@given(
    text=st.text(
        st.one_of(
            st.characters(min_codepoint=0x21, max_codepoint=0x7E),
            st.sampled_from("王小明在青石镇工作"),
        ),
        max_size=30,
    )
)
def test_full_width_and_half_width_forms_are_tagged_alike(model: Predictor, text: str) -> None:
    assert places(model(text.translate(WIDE))) == places(model(text))


SPACES = st.text(st.sampled_from(" \t\n\r\u3000\x85\u2028\xa0"), max_size=4)


@given(text=texts, before=SPACES, after=SPACES)
def test_an_indent_and_a_line_end_change_nothing(
    model: Predictor, text: str, before: str, after: str
) -> None:
    alone = model(text)
    within = model(before + text + after)
    moved = [(start + len(before), end + len(before), label) for start, end, label in places(alone)]
    assert places(within) == moved
    assert [span.score for span in within.spans] == pytest.approx(
        [span.score for span in alone.spans], abs=1e-5
    )
    assert all(span.text == span.text.strip() != "" for span in within.spans)


def test_a_name_may_be_spaced_out_and_names_apart_stay_apart(model):
    def found(text: str) -> list[str]:
        return [span.text for span in model(text).spans]

    for blank in (" ", "\u3000", "  ", "\xa0"):
        spaced = blank.join("王小明")
        assert found(f"昨天{spaced}到云门山开会") == [spaced, "云门山"]
        assert found(spaced) == [spaced]
        assert found(f"王小明{blank}白沙市") == ["王小明", "白沙市"]
    assert found("昨天王\t小\t明到云门山开会")[-1] == "云门山"
    assert found("\u3000\n ") == []


@given(text=texts, limit=st.integers(1, 12))
def test_a_long_text_is_cut_and_joined(model: Predictor, text: str, limit: int) -> None:
    check(Predictor(model.model, limit)(text), text)


def test_offsets_are_exact_beyond_the_limit(model):
    sentence = "昨天王小明和李芳到白沙市开会。"
    short = Predictor(model.model, limit=40)
    whole = model(sentence)
    assert len(whole.spans) == 3
    document = short(sentence * 20)
    expected = [
        (s + at * len(sentence), e + at * len(sentence), label)
        for at in range(20)
        for s, e, label in places(whole)
    ]
    assert places(document) == expected
    check(document, sentence * 20)


def test_a_hundred_thousand_characters_without_punctuation(model):
    text = "王小明在青石镇工作" * 11_112
    check(model(text), text)
    assert len(model("王" * 100_000).text) == 100_000


def test_one_text_of_many_groups_of_pieces(model, monkeypatch):
    """The pieces of a text are indexed in groups, and the ends of groups must not show."""
    text = "王小明在青石镇工作。" * 40
    whole = Predictor(model.model, limit=30)(text)
    monkeypatch.setattr("hanlattice.predict.CHUNK", 60)
    assert_alike(Predictor(model.model, limit=30)(text), whole)
    assert len(whole.spans) == 80


def test_words_inside_words_are_read_in_parts_of_bounded_size(lattice_folder, monkeypatch):
    """Hundreds of words a character: fewer texts are matched at once, and what is found is the
    same.
    """
    tagger = load(lattice_folder)
    tagger.lexicon.update(["王" * size for size in range(2, 40)])
    tagger.lexicon.update([Entry("明" * size, "PER", 1.0) for size in range(1, 30)])
    given_texts = [
        "王小明在青石镇工作。",
        "王" * 60,
        "",
        "明" * 50,
        "王小明去了南湖！" * 30,
        "王" * 59,
    ]
    read = type(tagger.model.indexer)._part
    held = []

    def watched(*given_to: object) -> object:
        examples = read(*given_to)
        rulings = 0 if examples.rulings is None else len(examples.rulings.label)
        held.append(max(len(examples.matches.word), rulings))
        return examples

    monkeypatch.setattr(type(tagger.model.indexer), "_part", watched)
    whole = (
        tagger(given_texts),
        list(tagger.pipe(given_texts, candidates=3)),
        tagger.readings(given_texts[4], 3),
    )
    most = max(held)
    assert most > 2000
    monkeypatch.setattr("hanlattice.features.indexer.MATCHES", most // 2)
    held.clear()
    again = (
        tagger(given_texts),
        list(tagger.pipe(given_texts, candidates=3)),
        tagger.readings(given_texts[4], 3),
    )
    assert len(held) > 3
    assert max(held) <= most // 2
    for one, other in zip(chain(*again), chain(*whole), strict=True):
        assert_alike(one, other)
        assert one.score == pytest.approx(other.score)
    monkeypatch.setattr("hanlattice.features.indexer.MATCHES", 100)
    with pytest.raises(InputError, match="60 characters contains more than 100 words of the dict"):
        tagger(["王小明", "王" * 60])
    with pytest.raises(InputError, match="50 characters contains more than 100 words of the dict"):
        tagger(["王小明", "明" * 50])


def test_nothing_in_nothing_out(model):
    assert model("") == Document("", ())
    assert model([]) == []
    assert list(model.pipe(iter(()))) == []
    assert model(["", "", ""]) == [Document("", ())] * 3
    assert [len(document.spans) for document in model(["", "王小明去了南湖！", ""])] == [0, 2, 0]


def test_a_stream_may_be_endless_and_is_read_only_as_far_as_needed(model):
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "王小明去了南湖！"

    stream = model.pipe(endless(), batch_size=4)
    assert read == 0
    assert len(next(stream).spans) == 2
    assert read == 4
    assert len(list(itertools.islice(stream, 9))) == 9
    assert read == 12


def test_one_text_at_a_time_answers_before_the_next_is_read(model):
    answered: list[str] = []
    lines = ["王小明", "去了", "南湖"]

    def ask() -> Iterator[str]:
        for at, line in enumerate(lines):
            assert len(answered) == at, "a person at a terminal would still wait for the answer"
            yield line

    for document in model.pipe(ask(), batch_size=1):
        answered += [document.text]
    assert answered == lines


def test_long_texts_do_not_pile_up(model, monkeypatch):
    monkeypatch.setattr("hanlattice.predict.CHUNK", 100)
    sizes: list[int] = []
    real = Predictor._tag
    monkeypatch.setattr(
        Predictor,
        "_tag",
        lambda self, chunk, scores: (sizes.append(sum(map(len, chunk))), real(self, chunk, scores))[
            1
        ],
    )
    given_texts = ["王" * 60, "李" * 30, "张" * 30, "刘" * 250, "", "陈"]
    assert [document.text for document in model.pipe(given_texts)] == given_texts
    assert sizes == [90, 30, 250, 1]


def test_a_stream_keeps_nothing_that_it_has_given(model):
    class Text(str):
        """A str that can be watched."""

    alive: weakref.WeakSet[Text] = weakref.WeakSet()
    most = 0

    def watched() -> Iterator[str]:
        for number in range(200):
            text = Text(f"王小明去了南湖{number}")
            alive.add(text)
            yield text

    for _ in model.pipe(watched(), batch_size=5):
        most = max(most, len(alive))
    assert 5 <= most <= 12


def test_what_is_not_text_is_refused(model):
    with pytest.raises(TypeError, match="a text must be a str, not bytes"):
        model([b"\xe5"])
    for wrong in (None, 3, b"\xe5", iter(["王小明"])):
        calls = [model.candidates, model.readings, model.explain, lambda text: model([text])]
        for call in calls if isinstance(wrong, Iterator) else [model, *calls]:
            with pytest.raises(
                TypeError, match=f"a text must be a str, not {type(wrong).__name__}: "
            ):
                call(wrong)
    with pytest.raises(TypeError, match="for one text call the tagger itself"):
        model.pipe("王小明")
    for wrong in (b"\xe5", bytearray(b"a"), memoryview(b"a"), None, 3):
        with pytest.raises(
            TypeError, match=f"pipe takes texts, such as .*, not {type(wrong).__name__}$"
        ):
            model.pipe(wrong)
    with pytest.raises(ValueError, match="batch_size must be 1 or more, not 0"):
        model.pipe(["王小明"], batch_size=0)


def test_what_is_no_number_is_refused(model):
    for wrong in (2.5, "3", None):
        for call in (
            model.candidates,
            model.readings,
            lambda text, n: model.pipe([text], candidates=n),
        ):
            with pytest.raises(
                TypeError, match=f"must be an int, not {type(wrong).__name__}: {wrong!r}"
            ):
                call("北京", wrong)
    for wrong in (1.5, "3", [2]):
        says = re.escape(f"batch_size must be an int, not {type(wrong).__name__}: {wrong!r}")
        with pytest.raises(TypeError, match=says):
            model.pipe(["北京"], batch_size=wrong)
    assert len(list(model.pipe(["北京"] * 3, batch_size=np.int32(2)))) == 3
    with pytest.raises(TypeError, match=r"min_score must be a number, not str: '0\.5'"):
        model("北京", min_score="0.5")
    for wrong in (None, "3"):
        with pytest.raises(
            TypeError, match=f"trust must be a number, not {type(wrong).__name__}: {wrong!r}"
        ):
            model.trust = wrong
    with pytest.raises(ValueError, match="trust must be from 0 to 1000, not nan"):
        model.trust = math.nan
    assert len(model.candidates("王小明去了南湖", np.int64(2), np.float32(0.0))) == 2


def test_trust_has_a_default_for_each_kind(model, cutter):
    assert (model.trust, cutter.trust) == (LABEL_TRUST, TRUST)
    assert (Predictor(cutter.model, trust=0).trust, Predictor(model.model, trust=7).trust) == (0, 7)


def test_it_shows_what_it_is(model, cutter, char_folder):
    words = len(model.lexicon)
    assert repr(model) == f"<Predictor: finds LOC, PER; cpu; {words} words>"
    assert repr(cutter) == f"<Predictor: cuts text into words; cpu; {len(cutter.lexicon)} words>"
    assert repr(load(char_folder)) == "<Predictor: finds LOC, PER; cpu>"
    odd = replace(
        model.model.indexer, tags=tag_set(["A\x1b[1mB"], "BMES"), lexicon=Lexicon(["长江"])
    )
    assert (
        repr(Predictor(replace(model.model, indexer=odd)))
        == "<Predictor: finds A\\x1b[1mB; cpu; 1 word>"
    )


def test_a_stream_is_whatever_can_be_walked_through(model):
    class Numbered:
        """A sequence as they were before there were iterators."""

        def __getitem__(self, at: int) -> str:
            return ["王小明", "南湖"][at]

    class Torn:
        def __iter__(self) -> Iterator[str]:
            raise TypeError("of the caller's own")

    assert list(model.pipe(Numbered())) == model(["王小明", "南湖"])
    with pytest.raises(TypeError, match="of the caller's own"):
        model.pipe(Torn())


def test_any_collection_is_a_list_of_texts(model):
    assert (
        model(np.array(["王小明", "南湖"]))
        == model({"王小明": 1, "南湖": 2})
        == model(["王小明", "南湖"])
    )


# ---- how sure it is

TEXT = "昨天李小明和王芳到云门山开会"
LABELS = ("LOC", "PER")


@pytest.fixture(scope="module")
def unsure(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """Untrained: every span is possible, and none is probable."""
    folder = tmp_path_factory.mktemp("models") / "untrained"
    return load(
        write_untrained(folder, made_config(made, model__encoder="char"), made_sentences(20, 3))
    )


@pytest.fixture(scope="module")
def words(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """An untrained model whose tags are of words."""
    folder = tmp_path_factory.mktemp("models") / "word"
    return load(
        write_untrained(folder, made_config(made, model__encoder="word"), made_sentences(20, 3))
    )


def every_span(tagger: Predictor, text: str) -> dict[tuple[int, int, str], float]:
    """All spans of a text that is one piece, each with its probability, asked for one by one."""
    model = tagger.model
    batch = model.indexer.read([text]).batch([0])
    with torch.no_grad():
        emissions = model.tagger.constrained_emissions(batch)
    spans = [
        Span(a, b, x) for a in range(len(text)) for b in range(a + 1, len(text) + 1) for x in LABELS
    ]
    scores = span_scores(model.tagger.crf, emissions, batch.units, [spans])[0]
    return {
        (span.start, span.end, span.label): score for span, score in zip(spans, scores, strict=True)
    }


def keys(spans: tuple[Span, ...]) -> list[tuple[int, int, str]]:
    return [(span.start, span.end, span.label) for span in spans]


@pytest.mark.parametrize("name", ["model", "unsure"])
def test_candidates_are_the_best_of_all_spans(request, name):
    tagger = request.getfixturevalue(name)
    all_spans = every_span(tagger, TEXT)
    for n in (1, 4, 25):
        found = tagger.candidates(TEXT, n)
        assert len(found) == n
        assert [span.score for span in found] == pytest.approx(
            sorted(all_spans.values(), reverse=True)[:n], rel=1e-6
        )
        for span in found:
            assert span.score == pytest.approx(
                all_spans[span.start, span.end, span.label], rel=1e-6
            )
            assert span.text == TEXT[span.start : span.end]
    above = tagger.candidates(TEXT, 1000, min_score=0.02)
    assert set(keys(above)) == {key for key, score in all_spans.items() if score >= 0.02}


def test_sure_spans_are_the_first_candidates(model):
    document = next(model.pipe([TEXT], candidates=5))
    assert document.candidates is not None
    assert sorted(document.candidates[:3]) == sorted(document.spans)
    scores = {
        key: span.score for key, span in zip(keys(document.spans), document.spans, strict=True)
    }
    for span in document.candidates[:3]:
        assert span.score == pytest.approx(scores[span.start, span.end, span.label], rel=1e-9)
    assert document == Document(TEXT, model(TEXT).spans, document.candidates)


@settings(max_examples=15)
@given(texts=st.lists(any_text, max_size=4), n=st.integers(1, 6), limit=st.integers(1, 12))
@example(texts=["", "王小明去了南湖！"], n=3, limit=4)
def test_candidates_of_any_text(unsure: Predictor, texts: list[str], n: int, limit: int) -> None:
    """In a stream as alone; of a text in pieces, the best of all pieces."""
    short = Predictor(unsure.model, limit)
    for document, text in zip(short.pipe(texts, candidates=n), texts, strict=True):
        assert document.spans == short(text).spans
        assert document.candidates is not None
        apart = [
            span.shifted(start).score or 0.0
            for start, end in pieces(text, limit)
            for span in unsure.candidates(text[start:end], n)
        ]
        found = [span.score for span in document.candidates]
        assert found == pytest.approx(sorted(apart, reverse=True)[:n], abs=1e-5)
        for span in document.candidates:
            assert span.text == text[span.start : span.end] != ""
        assert [span.score for span in short.candidates(text, n)] == pytest.approx(found, abs=1e-5)


def test_candidates_of_a_word_model_begin_and_end_with_words(words):
    text = "昨天王小明到青石镇开会。"
    cuts = words.model.indexer.read([text]).segments
    assert cuts is not None
    found = words.candidates(text, 1000)
    assert len(found) == len(LABELS) * len(cuts.start) * (len(cuts.start) + 1) // 2
    assert {span.start for span in found} == set(cuts.start.tolist())
    assert {span.end for span in found} == set(cuts.end.tolist())


def test_min_score_leaves_out_and_changes_nothing_else(unsure):
    texts = [sentence.text for sentence in made_sentences(12, 4)]
    whole = unsure(texts)
    scores = sorted(span.score for document in whole for span in document.spans)
    threshold = scores[len(scores) // 2]
    for found in (
        unsure(texts, min_score=threshold),
        list(unsure.pipe(texts, 5, min_score=threshold)),
    ):
        for document, before in zip(found, whole, strict=True):
            kept = tuple(span for span in before.spans if span.score >= threshold - 1e-5)
            assert set(document.spans) <= set(kept)
            assert all(span.score >= threshold for span in document.spans)
            assert len(kept) - len(document.spans) <= 1  # the last digit may move with the batch
        assert 0 < sum(len(document.spans) for document in found) < len(scores)
    assert unsure(texts[0], min_score=0) == whole[0]
    assert unsure(texts[0], min_score=1.0) == Document(texts[0], ())


def test_min_score_of_candidates_and_spans_at_once(model):
    sure, doubtful = (
        next(model.pipe([TEXT], candidates=40, min_score=threshold)) for threshold in (0.9, 0.0)
    )
    assert sure.candidates is not None
    assert doubtful.candidates is not None
    assert sure.candidates == tuple(span for span in doubtful.candidates if span.score >= 0.9)
    assert len(doubtful.candidates) == 40


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
def test_a_min_score_that_is_no_probability(model, value):
    for ask in (
        lambda: model(TEXT, min_score=value),
        lambda: model([TEXT], min_score=value),
        lambda: model.pipe([TEXT], min_score=value),
        lambda: model.candidates(TEXT, min_score=value),
    ):
        with pytest.raises(ValueError, match="min_score must be from 0 to 1, not"):
            ask()


def test_numbers_that_make_no_sense(model):
    with pytest.raises(ValueError, match=r"min_score=0\.5 needs scores"):
        model.pipe([TEXT], scores=False, min_score=0.5)
    for ask in (lambda: model.candidates(TEXT, 0), lambda: model.readings(TEXT, 0)):
        with pytest.raises(ValueError, match="must be 1 or more, not 0"):
            ask()
    with pytest.raises(ValueError, match="must be 0 or more, not -1"):
        model.pipe([TEXT], candidates=-1)


@settings(max_examples=15)
@given(text=st.text("王小明去了南湖，3 ", max_size=4), limit=st.integers(1, 4))
@example(text="", limit=1)
@example(text="王小明", limit=2)
@example(text="王小 明", limit=4)
def test_readings_are_all_of_them(unsure: Predictor, text: str, limit: int) -> None:
    """Their probabilities sum to one, no two are alike, and a span is as probable as the readings
    that have it.
    """
    short = Predictor(unsure.model, limit)
    found = short.readings(text, 2000)
    scores = [document.score or 0.0 for document in found]
    assert sum(scores) == pytest.approx(1.0, abs=1e-6)
    assert scores == sorted(scores, reverse=True)
    assert len({tuple(keys(document.spans)) for document in found}) == len(found)
    assert keys(found[0].spans) == keys(short(text).spans)
    for span in short.candidates(text, 3):
        having = sum(
            score for document, score in zip(found, scores, strict=True) if span in document.spans
        )
        assert having == pytest.approx(span.score, abs=1e-6)


def test_readings_of_a_trained_model(model):
    best, second = model.readings(TEXT, 2)
    assert best.spans == model(TEXT).spans
    assert [span.text for span in best.spans] == ["李小明", "王芳", "云门山"]
    assert second.spans != best.spans
    assert 0 < second.score < best.score <= 1


def test_words_of_a_segmenter_cannot_be_left_out(segmenter):
    with pytest.raises(ModelError, match="the words of a segmenter cover the text"):
        segmenter("我爱南湖", min_score=0.5)
    with pytest.raises(ModelError, match="the words of a segmenter cover the text"):
        segmenter.pipe(["我爱南湖"], min_score=0.5)
    assert segmenter("我 爱", min_score=0.0).spans
    found = segmenter.candidates("我 爱南湖", 100)
    assert {(span.start, span.end) for span in found} == {
        (0, 1),
        (2, 3),
        (2, 4),
        (2, 5),
        (3, 4),
        (3, 5),
        (4, 5),
    }
    assert found[0].score == pytest.approx(1.0)
    assert sum(
        reading.score or 0.0 for reading in segmenter.readings("我 爱南湖", 100)
    ) == pytest.approx(1.0)
    for text in ("3.14", "我 爱"):  # one way: a number is not cut, and no word has a blank in it
        assert [document.spans for document in segmenter.readings(text, 10)] == [
            segmenter(text).spans
        ]


@pytest.fixture(scope="module")
def segmenter(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """Untrained: a model of words that cover the text."""
    config = made_config(made, model__encoder="char")
    sentences = [from_words(["我", "爱", "南湖"]), from_words(["今天", "天气", "很", "好"])]
    return load(write_untrained(tmp_path_factory.mktemp("models") / "segmenter", config, sentences))


# ---- models that look at words

SEGMENTED = {
    "word": {"model__encoder": "word"},
    "word with characters": {
        "model__encoder": "word",
        "model__char_features": "sentence-lstm",
        "model__bichar": True,
    },
    "softword": {
        "model__encoder": "char",
        "model__softword": True,
        "softwords__pos": True,
        "model__bichar": True,
    },
}


@pytest.fixture(scope="module", params=SEGMENTED)
def segmented(
    request: pytest.FixtureRequest, made: Path, tmp_path_factory: pytest.TempPathFactory
) -> Predictor:
    """Untrained: what it finds is anything, and more than a trained one would find."""
    sentences = read_corpus(made / "train.bmes").sentences
    config = made_config(made, **SEGMENTED[request.param])
    return load(write_untrained(tmp_path_factory.mktemp("models") / "model", config, sentences))


@given(text=texts, limit=st.integers(1, 12))
@example(text="", limit=1)
@example(text=" \u3000\n\t", limit=2)
@example(text="😀👨‍👩‍👧王小明😀", limit=3)
@example(text="".join(STRANGE), limit=5)
def test_with_words_any_text_comes_back_with_sound_spans(
    segmented: Predictor, text: str, limit: int
) -> None:
    check(segmented(text), text)
    short = Predictor(segmented.model, limit)
    document = short(text)
    check(document, text)
    apart = [(start, segmented(text[start:end])) for start, end in pieces(text, limit)]
    assert places(document) == [
        (s + at, e + at, label) for at, piece in apart for s, e, label in places(piece)
    ]


def test_with_words_offsets_are_exact_beyond_the_limit(segmented):
    sentence = "昨天王小明和李芳到白沙市开会。"
    text = sentence * (3 * LIMIT // len(sentence))
    assert len(text) > 2 * LIMIT
    document = segmented(text)
    alone = segmented(sentence)
    assert alone.spans
    check(document, text)
    short = Predictor(segmented.model, len(sentence))(text)
    assert places(short) == [
        (s + at, e + at, label)
        for at in range(0, len(text), len(sentence))
        for s, e, label in places(alone)
    ]


def test_nothing_blanks_and_emoji_among_others(segmented):
    given_texts = ["", " ", "\u3000\n", "😀", "王小明去了南湖！", ""]
    for document, text in zip(segmented(given_texts), given_texts, strict=True):
        check(document, text)
        assert_alike(document, segmented(text))


def test_the_segmenter_is_asked_for_only_when_there_is_text(made, tmp_path, monkeypatch):
    """Without rjieba a model loads and can be looked at; the first text says how to install it."""
    config = made_config(made, model__encoder="word")
    folder = write_untrained(tmp_path / "word", config, read_corpus(made / "train.bmes").sentences)
    monkeypatch.setitem(sys.modules, "rjieba", None)
    tagger = load(folder)
    assert tagger.model.indexer.words is not None
    with pytest.raises(
        HanlatticeError, match=r"rjieba is not installed.*pip install 'hanlattice\[segment\]'"
    ):
        tagger("王小明")
    with pytest.raises(ModelError, match="this model has no lexicon"):
        tagger.lexicon.add("长江大桥")


@pytest.mark.parametrize("kind", ["word", "softword"])
def test_a_model_of_gold_words_cannot_read_raw_text(made, tmp_path, kind):
    sentences = [in_twos(sentence) for sentence in read_corpus(made / "train.bmes").sentences]
    config = made_config(made, segment__by="gold", **SEGMENTED[kind])
    tagger = load(write_untrained(tmp_path / "gold", config, sentences))
    for ask in (
        lambda: tagger("王小明"),
        lambda: tagger(["", "王小明"]),
        lambda: list(tagger.pipe(["王小明"])),
    ):
        with pytest.raises(
            InputError, match=r"segment\.by=gold needs the words.*segment\.by=rjieba"
        ):
            ask()
    assert tagger("") == Document("", ())


def test_the_names_that_stay_put(lattice_folder):
    """DESIGN.md: other people's scripts import these."""
    from hanlattice import Lattice
    from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, lattice_lstm, reference

    tagger = hanlattice.load(str(lattice_folder))
    document = tagger("王小明在青石镇工作。")
    assert isinstance(document, hanlattice.Document)
    assert [(s.start, s.end, s.label, s.text) for s in document.spans] == [
        (0, 3, "PER", "王小明"),
        (4, 7, "LOC", "青石镇"),
    ]
    assert isinstance(document.spans[0], hanlattice.Span)
    assert [d.text for d in tagger.pipe(["王小明", "南湖"], batch_size=256)] == ["王小明", "南湖"]
    assert isinstance(tagger(["王小明"]), list)
    tagger.lexicon.add("长江大桥")
    assert isinstance(tagger.lexicon, hanlattice.Lexicon)
    lattice = Lattice.from_words(lengths=[7], words=[(0, 0, 3, 11), (0, 3, 7, 12)])
    D = 2
    E = 3
    H = 4
    shapes = (
        (D, 3 * H),
        (H, 3 * H),
        (3 * H,),
        (E, 3 * H),
        (H, 3 * H),
        (3 * H,),
        (D, H),
        (H, H),
        (H,),
    )
    weights = LatticeLSTMWeights(*(torch.randn(shape) for shape in shapes))
    x = torch.randn(1, 7, D)
    word_x = torch.randn(2, E)
    h = lattice_lstm(x, word_x, lattice, weights, coupled=True, backend="auto")
    assert h.shape == (1, 7, H)
    torch.testing.assert_close(h, reference.lattice_lstm(x, word_x, lattice, weights, coupled=True))
    assert set(hanlattice.__all__) <= set(dir(hanlattice))
    assert all(hasattr(hanlattice, name) for name in hanlattice.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hanlattice.nothing


@pytest.fixture(scope="module")
def doubtful(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has seen little: its best tagging misses spans that are likely, and has some
    that are not.
    """
    config = made_config(made, model__encoder="char", train__epochs=6, data__limit=40)
    return train(config, tmp_path_factory.mktemp("models") / "doubtful").folder


def test_ways_to_decode(doubtful):
    path = load(doubtful)
    spans = load(doubtful, decode="spans")
    f1 = path.model.scores["dev"]["overall"]["f1"]
    assert 0.1 < f1 < 0.9, "the model is to be in doubt"
    assert (path.threshold, load(doubtful, decode="path").threshold, spans.threshold) == (
        None,
        None,
        f1 / 2,
    )
    assert load(doubtful, decode=0.3).threshold == load(doubtful, decode="0.3").threshold == 0.3
    lines = [sentence.text for sentence in made_sentences(40, 3)]
    found = spans(lines)
    assert [doc.spans for doc in found] != [doc.spans for doc in path(lines)]
    for doc, again in zip(found, spans.pipe(lines, scores=False), strict=True):
        assert doc.spans == again.spans == spans.explain(doc.text).spans
        assert [span.text for span in doc.spans] == [
            doc.text[span.start : span.end] for span in doc.spans
        ]
        assert all(left.end <= right.start for left, right in itertools.pairwise(doc.spans))
        likely = {span: span.score for span in spans.candidates(doc.text, 1000, f1 / 2)}
        assert [span.score for span in doc.spans] == pytest.approx(
            [likely[span] for span in doc.spans], abs=1e-6
        )
    assert all(span.score > 0.7 for line in lines for span in spans(line, min_score=0.7).spans)
    (one,) = spans.pipe(lines[:1], candidates=5)
    assert (one.spans, one.candidates) == (found[0].spans, spans.candidates(lines[0], 5))
    assert sum(len(doc.spans) for doc in load(doubtful, decode=0.8)(lines)) < sum(
        len(doc.spans) for doc in found
    )
    assert not any(doc.spans for doc in load(doubtful, decode=1)(lines))


def test_what_is_explained_is_what_was_decoded(doubtful):
    spans = load(doubtful, decode="spans")
    for sentence in made_sentences(12, 3):
        explanation = spans.explain(sentence.text)
        tags = [tag or "" for tag in explanation.tags]
        assert tuple(tags_to_spans(tags, spans.model.indexer.scheme)) == explanation.spans


def test_the_bar_of_a_packed_model_and_of_one_without_scores(doubtful, made, tmp_path):
    threshold = load(doubtful, decode="spans").threshold
    pack(doubtful, tmp_path / "packed")
    assert load(tmp_path / "packed", decode="spans").threshold == threshold
    config = made_config(made, model__encoder="char")
    untrained = write_untrained(tmp_path / "untrained", config, made_sentences(9, 1))
    assert load(untrained, decode="spans").threshold == 0.4


def test_bad_ways_to_decode(model, cutter):
    for wrong in ("span", "", "nan", 0, 0.049, 1.1, math.nan, [0.3], "1e9"):
        says = re.escape(
            f"decode must be path, spans, or a threshold from 0.05 to 1, not {wrong!r}"
        )
        with pytest.raises(InputError, match=says):
            Predictor(model.model, decode=wrong)
    for way in ("spans", 0.3):
        with pytest.raises(
            ModelError,
            match=f"decode={way} leaves characters out, and the words of a segmenter cover",
        ):
            Predictor(cutter.model, decode=way)
    assert Predictor(cutter.model, decode="path").threshold is None
