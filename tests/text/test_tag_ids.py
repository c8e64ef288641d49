"""Tags as numbers: over many texts at once, what `tags_to_spans` and `spans_to_tags` do for one, legal tags or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.errors import TagError
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span
from hanlattice.text.tag_ids import TagIds
from hanlattice.text.tags import SCHEMES, spans_to_tags, tag_set, tags_to_spans
from tests.strategies import sentences

LABELS = ["LOC", "PER.NAM", "组织-A"]
schemes = st.sampled_from(SCHEMES)


def read(ids: TagIds, tags: list[list[int]]) -> list[list[Span]]:
    found: list[list[Span]] = [[] for _ in tags]
    flat = np.array([tag for row in tags for tag in row], dtype=np.int64)
    spans = ids.spans(flat, np.array([len(row) for row in tags], dtype=np.int64))
    for text, start, end, label in zip(*(array.tolist() for array in spans), strict=True):
        found[text].append(Span(start, end, ids.labels[label]))
    return found


@given(schemes, st.data())
def test_any_tags_legal_or_not(scheme: str, data: st.DataObject) -> None:
    names = data.draw(st.permutations(tag_set(LABELS, scheme)))
    tags = data.draw(st.lists(st.lists(st.integers(0, len(names) - 1), max_size=12), max_size=5))
    assert read(TagIds(names, scheme), tags) == [tags_to_spans([names[tag] for tag in row], scheme) for row in tags]


@given(schemes, st.lists(sentences(), max_size=5), st.integers(0, 2))
def test_spans_to_tags_and_back(scheme: str, given_sentences: list[Sentence], empty_at: int) -> None:
    rows = [(len(sentence), sentence.spans or ()) for sentence in given_sentences]
    rows.insert(min(empty_at, len(rows)), (0, ()))
    names = tag_set(LABELS, scheme)
    ids = TagIds(names, scheme)
    tags = ids.tags([spans for _, spans in rows], np.array([length for length, _ in rows]))
    expected = [spans_to_tags(spans, length, scheme) for length, spans in rows]
    assert [names[tag] for tag in tags.tolist()] == [tag for row in expected for tag in row]
    split = np.split(tags, np.cumsum([length for length, _ in rows])[:-1])
    assert read(ids, [part.tolist() for part in split]) == [list(spans) for _, spans in rows]


@given(schemes, sentences())
def test_a_label_that_no_tag_has_is_left_out(scheme: str, sentence: Sentence) -> None:
    names = tag_set(LABELS[:1], scheme)
    tags = TagIds(names, scheme).tags([sentence.spans or ()], np.array([len(sentence)]))
    kept = [span for span in sentence.spans or () if span.label == LABELS[0]]
    assert [names[tag] for tag in tags.tolist()] == spans_to_tags(kept, len(sentence), scheme)


def test_nothing_in_nothing_out():
    ids, nothing = TagIds(tag_set(LABELS, "BMES"), "BMES"), np.empty(0, dtype=np.int64)
    assert [array.tolist() for array in ids.spans(nothing, nothing)] == [[], [], [], []]
    assert ids.tags([], nothing).tolist() == []


def test_tags_of_another_scheme_are_refused():
    with pytest.raises(TagError, match="'M-LOC' is not a tag of BIO"):
        TagIds(["O", "B-LOC", "M-LOC"], "BIO")
