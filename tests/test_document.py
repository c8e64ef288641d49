"""Document, whole names, and the bundled models as functions."""

from __future__ import annotations

import inspect
import json
import re
import threading
from collections.abc import Iterator
from importlib import import_module

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import hanlattice
from hanlattice import predict
from hanlattice.data.formats.columns import read_columns
from hanlattice.data.formats.jsonl import from_json_line
from hanlattice.document import Document, keep_names, parts_of
from hanlattice.errors import ModelError
from hanlattice.output import as_conll, as_inline, as_jsonl
from hanlattice.predict import Predictor
from hanlattice.text.sentence import cover_space
from hanlattice.text.span import WORD, Span
from tests.helpers.documents import read
from tests.helpers.strategies import any_text, spans
from tests.test_output import Page

TEXT = "任正非在 深圳讲邓小平理论"
NAMES = (
    Span(0, 3, "PER", 0.9, "任正非"),
    Span(5, 7, "LOC", None, "深圳"),
    Span(8, 11, "PER", 0.8, "邓小平"),
)


def made(*words: str, text: str = TEXT) -> tuple[Span, ...]:
    """The words of a text, in their order; `正非_nr` has a label."""
    row = []
    at = 0
    for word, _, label in (each.partition("_") for each in words):
        at = text.index(word, at)
        row.append(Span(at, at + len(word), label or WORD, 0.5, word))
        at += len(word)
    return tuple(row)


WORDS = made("任", "正非", "在", "深圳", "讲", "邓小平理论")
BOTH = Document(TEXT, NAMES, words=WORDS)


@st.composite
def analysed(draw: st.DrawFn) -> Document:
    """Any text with words that cover all but its white space, and any entities."""
    text = draw(any_text)
    words = []
    at = 0
    for found in re.finditer(r"\S+", text):
        cuts = (
            draw(st.sets(st.integers(found.start() + 1, found.end() - 1)))
            if found.end() > found.start() + 1
            else ()
        )
        at = found.start()
        for end in [*sorted(cuts), found.end()]:
            words.append(
                Span(at, end, draw(st.sampled_from([WORD, "n", "nr"])), None, text[at:end])
            )
            at = end
    names = draw(spans(len(text), st.sampled_from(["PER", "LOC"])))
    strict = [span for span in names if not text[span.start : span.end].isspace()]
    return Document(text, tuple(strict), words=tuple(words))


def test_words_and_entities():
    assert [word.text for word in BOTH.words] == ["任", "正非", "在", "深圳", "讲", "邓小平理论"]
    assert BOTH.entities == NAMES == tuple(BOTH)
    cut = Document(TEXT, WORDS, cuts=True)
    assert (cut.entities, tuple(cut)) == ((), WORDS)
    assert cut.words == WORDS
    assert Document(TEXT, NAMES).words is None


def test_as_plain_values_and_as_json():
    record = Document(
        TEXT, NAMES[:1], (Span(0, 3, "LOC", 0.1),), 0.25, made("任", "正非_nr")
    ).to_dict()
    assert record == {
        "text": TEXT,
        "spans": [{"start": 0, "end": 3, "label": "PER", "text": "任正非", "score": 0.9}],
        "words": [
            {"start": 0, "end": 1, "label": "WORD", "text": "任", "score": 0.5},
            {"start": 1, "end": 3, "label": "nr", "text": "正非", "score": 0.5},
        ],
        "candidates": [{"start": 0, "end": 3, "label": "LOC", "text": "任正非", "score": 0.1}],
        "score": 0.25,
    }
    assert "words" not in Document(TEXT, WORDS, cuts=True).to_dict()  # they are its spans
    assert BOTH.to_json() + "\n" == as_jsonl(BOTH)
    assert json.loads(BOTH.to_json(indent=2)) == BOTH.to_dict()


@given(document=analysed())
@example(document=BOTH)
def test_what_is_written_can_be_read_as_a_corpus(document: Document) -> None:
    assume(
        not re.search("[\ud800-\udbff][\udc00-\udfff]", document.text)
    )  # JSON makes one character of them
    sentence = from_json_line(document.to_json())
    assert (sentence.text, sentence.spans) == (document.text, document.spans)
    covering = None if document.words is None else tuple(cover_space(document.words, document.text))
    assert sentence.words == covering


def test_columns_with_words_can_be_read(tmp_path):
    (tmp_path / "found.bmes").write_text(
        as_conll(
            Document(
                TEXT, NAMES, words=made("任_nr", "正非_nr", *"在", "深圳", "讲", "邓小平理论_n")
            )
        ),
        "utf-8",
    )
    (sentence,) = read_columns(tmp_path / "found.bmes").sentences
    assert (sentence.text, sentence.spans) == (TEXT, NAMES)
    assert [(word.start, word.end, word.label) for word in sentence.words or ()] == [
        (0, 1, "nr"),
        (1, 3, "nr"),
        (3, 4, WORD),
        (4, 5, WORD),
        (5, 7, WORD),
        (7, 8, WORD),
        (8, 13, "n"),
    ]


def test_inline_has_spaces_between_words_and_their_labels():
    assert as_inline(BOTH) == "[任 正非/PER] 在 [深圳/LOC] 讲 [邓小平/PER]理论\n"
    labelled = Document(
        TEXT, NAMES, words=made("任_nr", "正非_nr", "在_p", "深圳_ns", "讲_v", "邓小平理论_n")
    )
    assert as_inline(labelled) == "[任_nr 正非_nr/PER] 在_p [深圳_ns/LOC] 讲_v [邓小平/PER]理论_n\n"
    assert as_inline(Document(TEXT, WORDS[:1], cuts=True)) == "[任/WORD]正非在 深圳讲邓小平理论\n"


@given(document=analysed())
def test_parts_are_the_text_and_spaces(document: Document) -> None:
    parts = list(parts_of(document))
    assert [span for _, span in parts if span is not None] == list(document.spans)
    bare = Document(
        document.text,
        document.spans,
        words=tuple(Span(w.start, w.end, WORD) for w in document.words or ()),
    )
    shown = "".join(text for text, _ in parts_of(bare))
    assert [c for c in shown if c != " "] == [c for c in document.text if c != " "]
    assert shown.split() == [
        part for word in bare.words or () for part in document.text[word.start : word.end].split()
    ]


def test_a_notebook_shows_spans_in_colours():
    page = Page(BOTH._repr_html_())
    assert page.texts == ["任 正非PER 在 深圳LOC 讲 邓小平PER理论"]
    assert [mark["title"] for mark in page.marks] == ["PER 0.9000", "LOC", "PER 0.8000"]
    assert "<b>" not in Document("<b>&", (Span(0, 3, "<i>"),))._repr_html_()
    assert "\x1b" not in Document("\x1b[0m", ())._repr_html_()


def test_names_are_kept_whole():
    kept = keep_names(made("任_nr", "正非_nrf", "在", "深圳_ns", "讲", "邓小平理论_n"), NAMES)
    assert [(word.text, word.label, word.score) for word in kept] == [
        ("任正非", "nrf", None),
        ("在", WORD, 0.5),
        ("深圳", "ns", 0.5),
        ("讲", WORD, 0.5),
        ("邓小平", "n", None),
        ("理论", "n", None),
    ]


@given(document=analysed())
def test_whole_names_are_words_and_the_words_still_cover_the_text(document: Document) -> None:
    words = keep_names(document.words or (), document.spans)
    text = document.text
    covered = [place for word in words for place in range(word.start, word.end)]
    assert covered == sorted(set(covered))
    assert all(place in covered for place, character in enumerate(text) if not character.isspace())
    edges = {(word.start, word.end) for word in words}
    assert {(name.start, name.end) for name in document.spans} <= edges
    outside = [
        (w.start, w.end)
        for w in document.words or ()
        if all(w.end <= n.start or n.end <= w.start for n in document.spans)
    ]
    assert set(outside) <= edges


# ---- with the bundled models


def test_analyse_is_both_models_together():
    text = "国家主席江泽民在北京会见了联合国秘书长安南。"
    tagger = predict.bundled("ner")
    segmenter = predict.bundled("seg")
    both = hanlattice.analyse(text)
    assert both == Document(text, tagger(text).spans, words=segmenter(text).spans)
    assert tagger.analyse(text) == tagger.analyse(text, segmenter=segmenter) == both
    assert [word.text for word in both.words or ()][2:4] == ["江", "泽民"]
    whole = hanlattice.analyse(text, whole_names=True)
    assert [word.text for word in whole.words or ()][2] == "江泽民"
    assert whole.spans == both.spans
    assert not hanlattice.analyse(text, min_score=1.0).spans


def test_analyse_any_number_of_texts_without_reading_ahead():
    taken: list[int] = []

    def texts() -> Iterator[str]:
        for at in range(6):
            taken.append(at)
            yield "南京市长江大桥"

    stream = predict.bundled("ner").analyse_pipe(texts(), 2, scores=False)
    first = next(stream)
    assert (taken, [word.text for word in first.words or ()]) == (
        [0, 1],
        ["南京市", "长江", "大桥"],
    )
    assert first.words[0].score is None
    assert len(list(stream)) == 5


def test_what_analyse_refuses():
    tagger = predict.bundled("ner")
    segmenter = predict.bundled("seg")
    for wrong in (lambda: segmenter.analyse("一"), lambda: tagger.analyse("一", segmenter=tagger)):
        with pytest.raises(ModelError, match="finds entities"):
            wrong()
    with pytest.raises(TypeError, match="a text must be a str, not list"):
        tagger.analyse(["一"])  # type: ignore[arg-type]


@given(text=any_text)
@example(text="我爱 北京\r\n\u3000天安门\n")
@example(text="")
def test_the_tokens_of_cut_are_the_text(text: str) -> None:
    tokens = hanlattice.lcut(text)
    assert "".join(tokens) == text
    assert list(hanlattice.cut(text)) == tokens
    assert [each for each in tokens if not each.isspace()] == [
        word.text for word in predict.bundled("seg")(text).words or ()
    ]
    assert all(len(each) == 1 or each == "\r\n" for each in tokens if each.isspace())


def test_cut_is_as_jiebas():
    jieba = pytest.importorskip("jieba", reason="jieba is not installed: pip install jieba")
    text = "我爱 北京\r\n\u3000天安门\n"
    assert hanlattice.lcut(text) == jieba.lcut(text)


def test_cut_refuses_what_is_no_text_at_once():
    with pytest.raises(TypeError, match="a text must be a str, not bytes"):
        hanlattice.cut("北京".encode())  # type: ignore[arg-type]


def test_a_bundled_model_is_loaded_once_for_all_threads(monkeypatch):
    loaded: list[str] = []

    def slow(name: str) -> str:
        loaded.append(name)
        threading.Event().wait(0.05)
        return name

    monkeypatch.setattr(predict, "_load_once", predict.cache(slow))
    threads = [threading.Thread(target=predict.bundled, args=("seg",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loaded == ["seg"]


# ---- what is public is described


def public_names() -> Iterator[tuple[str, object]]:
    """Every name of the package, every name of the page of the API, and their public methods and
    properties.
    """
    names = [f"hanlattice.{name}" for name in hanlattice.__all__]
    names += re.findall(r"^::: ([\w.]+)$", read("docs/api.md"), flags=re.MULTILINE)
    for full in names:
        home, _, name = full.rpartition(".")
        try:
            thing = getattr(import_module(home), name)
        except ModuleNotFoundError:
            thing = import_module(full)
        yield full, thing
        if inspect.isclass(thing):
            own = [(key, value) for key, value in vars(thing).items() if not key.startswith("_")]
            yield from (
                (f"{full}.{key}", value)
                for key, value in own
                if callable(value) or _is_described(value)
            )


def _is_described(value: object) -> bool:
    return isinstance(value, (property, classmethod, staticmethod)) or hasattr(value, "attrname")


def test_everything_public_has_a_docstring():
    seen = dict(public_names())
    assert len(seen) > 100
    assert "hanlattice.Document.entities" in seen
    bare = [name for name, thing in seen.items() if not (inspect.getdoc(thing) or "").strip()]
    assert not bare, ", ".join(bare)


def test_the_fields_of_documents_and_spans_are_described():
    for kind in (hanlattice.Document, hanlattice.Span):
        missing = [name for name in kind.__dataclass_fields__ if name not in (kind.__doc__ or "")]
        assert not missing, kind
    assert isinstance(predict.bundled("ner"), Predictor)
