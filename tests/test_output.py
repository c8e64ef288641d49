"""Documents as text: no text or label breaks out of its line, its mark or its page."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st

from hanlattice.document import Document, parts_of
from hanlattice.output import as_conll, as_inline, as_jsonl, html_page, terminal_lines
from hanlattice.text.span import Span
from tests.helpers.strategies import ODD, any_character, spans

LABELS = ("LOC", '<i class="x">', "组织\x1b[0m")
BRIDGE = Document(
    "南京市长江大桥", (Span(0, 3, "LOC", 0.98765, "南京市"), Span(3, 7, "LOC", 0.5, "长江大桥"))
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    nasty = st.sampled_from("<>&\"'[]/\x1b\x07\u202e\u200d\x00\r\n\t")
    text = draw(st.text(any_character | nasty, max_size=20))
    found = draw(spans(len(text), st.sampled_from(LABELS)))
    scores = draw(st.lists(st.none() | st.floats(0, 1), min_size=len(found), max_size=len(found)))
    return Document(
        text,
        tuple(
            Span(s.start, s.end, s.label, score, text[s.start : s.end])
            for s, score in zip(found, scores, strict=True)
        ),
    )


class Page(HTMLParser):
    """The texts of a page's paragraphs, and what its marks say."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.marks: list[dict[str, str | None]] = []
        self.feed(page)
        self.close()
        assert not self.tags, "every element was closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "meta":
            return
        assert tag in (
            "html",
            "head",
            "title",
            "style",
            "body",
            "main",
            "p",
            "mark",
            "footer",
            "div",
            "small",
        ), tag
        self.tags.append(tag)
        if tag in ("p", "div"):
            self.texts.append("")
        if tag == "mark" and "footer" not in self.tags:
            self.marks.append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        assert self.tags.pop() == tag

    def handle_data(self, data: str) -> None:
        if "p" in self.tags or "div" in self.tags:
            self.texts[-1] += data


def is_shown(character: str) -> bool:
    return (
        character.isprintable()
        or character in "\n\t\u200c\u200d\u3000"
        or unicodedata.category(character) == "Zs"
    )


@given(st.lists(documents(), max_size=4))
@example([])
@example([Document(ODD, ())])
def test_a_page_holds_every_text_and_nothing_gets_out(given_documents: list[Document]) -> None:
    source = "".join(html_page(given_documents, LABELS, "<title>&"))
    source.encode("utf-8")
    page = Page(source)
    assert len(page.texts) == len(given_documents)
    for shown, document in zip(page.texts, given_documents, strict=True):
        if all(map(is_shown, document.text)):
            assert shown == document.text
        assert all(map(is_shown, shown))
    found = [span for document in given_documents for span in document.spans]
    assert len(page.marks) == len(found)
    for mark, span in zip(page.marks, found, strict=True):
        if span.label.isprintable():
            assert mark["data-label"] == span.label
        wanted = (
            mark["data-label"] if span.score is None else f"{mark['data-label']} {span.score:.4f}"
        )
        assert mark["title"] == wanted
    assert "http" not in source, "a page needs nothing from elsewhere"


@given(st.lists(documents(), max_size=4), st.booleans())
def test_a_terminal_obeys_nothing_of_a_text(given_documents: list[Document], colour: bool) -> None:
    *lines, legend = terminal_lines(given_documents, LABELS, colour)
    assert len(lines) == len(given_documents)
    for line in (*lines, legend.strip("\n") + "\n"):
        plain = re.sub("\x1b\\[[0-9;]+m", "", line)
        assert plain.endswith("\n")
        assert all(c.isprintable() or c == "\u3000" for c in plain[:-1])
        assert colour or plain == line
    for line, document in zip(lines, given_documents, strict=True):
        if document.text.isprintable() and all(span.label.isprintable() for span in document.spans):
            assert re.sub("\x1b\\[[0-9;]+m", "", line) == as_inline(document)


def test_labels_have_their_own_colours():
    document = Document("南京李", (Span(0, 2, "LOC"), Span(2, 3, "PER")))
    line, legend = terminal_lines([document], ["LOC", "PER", "ORG"])
    place, person = re.findall("\x1b\\[([0-9;]+)m\\[", line)
    assert place != person
    assert f"\x1b[1;{place}mLOC\x1b[0m 1" in legend
    assert f"\x1b[1;{person}mPER\x1b[0m 1" in legend
    assert "ORG\x1b[0m 0 · 1 text\n" in legend
    *_, footer, _ = html_page([document], ["LOC", "PER", "ORG"])
    assert len(set(re.findall(r'class="(t\d)"', footer))) == 3


def test_a_label_that_the_model_was_not_said_to_have():
    assert list(terminal_lines([BRIDGE], [])) == [as_inline(BRIDGE), "\nLOC 2 · 1 text\n"]
    page = "".join(html_page([BRIDGE], []))
    assert "<mark>LOC</mark> 2 · 1 text</footer>" in page
    assert '<mark data-label="LOC"' in page


def test_pieces_come_one_by_one():
    """A page of any length is written in bounded memory, and a person at a terminal sees every line
    at once.
    """
    read = 0

    def endless() -> Iterator[Document]:
        nonlocal read
        while True:
            read += 1
            yield BRIDGE

    for pieces, first in (
        (html_page(endless(), ["LOC"]), 2),
        (terminal_lines(endless(), ["LOC"]), 0),
    ):
        read = 0
        assert "南京市" not in "".join(next(pieces) for _ in range(first))
        for at in range(1, 4):
            assert "南京市" in next(pieces)
            assert read == at


def test_marks_in_a_line():
    assert as_inline(BRIDGE) == "[南京市/LOC][长江大桥/LOC]\n"
    assert as_inline(Document("去[哈/哈]南湖。", (Span(6, 8, "LOC"),))) == "去[哈/哈][南湖/LOC]。\n"


@given(documents())
def test_parts_make_the_text(document: Document) -> None:
    parts = list(parts_of(document))
    assert "".join(text for text, _ in parts) == document.text
    assert [span for _, span in parts if span is not None] == list(document.spans)
    assert all(text for text, _ in parts)


@given(documents(), st.none() | st.integers(0, 3))
def test_json_lines(document: Document, count: int | None) -> None:
    candidates = None if count is None else document.spans[:count]
    line = as_jsonl(Document(document.text, document.spans, candidates))
    assert line.count("\n") == 1
    line.encode("utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", line)
    record = json.loads(line)
    assert record["text"] == document.text
    assert [span["label"] for span in record["spans"]] == [span.label for span in document.spans]
    assert ("candidates" in record) == (candidates is not None)
    assert record.get("candidates", []) == record["spans"][: count or 0]


def test_columns():
    assert as_conll(BRIDGE, "BIO").startswith("南\tB-LOC\n京\tI-LOC\n市\tI-LOC\n长\tB-LOC\n")
    assert as_conll(Document("", ())) == "\n"
