"""What a corpus contains, against a plain loop; tables and a plot of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from hanlattice.evaluation.statistics import draw, statistics, tables
from hanlattice.lab.mistakes import LENGTHS, LONGER
from hanlattice.text.normalize import fold, fold_digits
from hanlattice.text.sentence import Corpus, Sentence
from hanlattice.text.span import WORD, Span
from hanlattice.text.tags import SCHEMES, illegal_places, may_follow, spans_to_tags, tag_set
from tests.helpers import strategies

LETTERS = st.sampled_from("南京市长江大桥Ａa１2 \n`")
some = st.lists(strategies.sentences(LETTERS), min_size=1, max_size=6)


def names(sentence: Sentence) -> list[tuple[str, str]]:
    return [
        (fold(sentence.text[span.start : span.end]), span.label) for span in sentence.spans or ()
    ]


def among(lengths: Sequence[int], name: str) -> int:
    """How many of these lengths have that name in the table."""
    first = int(name.split("–")[0].split()[0])
    last = 10**9 if name == LONGER else int(name.split("–")[-1])
    return sum(first <= length <= last for length in lengths)


@given(some, st.none() | some)
def test_everything_equals_a_plain_loop(sentences, trained):
    found = statistics(Corpus(tuple(sentences)), trained)
    assert json.loads(json.dumps(found)) == found
    lengths = sorted(len(sentence.text) for sentence in sentences)
    spans = [name for sentence in sentences for name in names(sentence)]
    characters = [character for sentence in sentences for character in fold_digits(sentence.text)]
    sizes = [span.end - span.start for sentence in sentences for span in sentence.spans or ()]
    assert (found["sentences"], found["long_sentences"]) == (
        len(sentences),
        sum(length >= 250 for length in lengths),
    )
    assert (found["characters"], found["different_characters"]) == (
        sum(lengths),
        len(set(characters)),
    )
    assert found["lengths"]["mean"] == sum(lengths) / len(lengths)
    for percent, length in enumerate(found["lengths"]["percentiles"]):
        reached = [
            each
            for each in lengths
            if 100 * sum(other <= each for other in lengths) >= percent * len(lengths)
        ]
        assert length == min(reached)
    assert (found["spans"], found["span_characters"]) == (len(spans), sum(sizes))
    assert found["different_spans"] == len({text for text, _ in spans})
    assert found["labels"] == {
        label: sum(each == label for _, each in spans) for label in {label for _, label in spans}
    }
    assert list(found["span_lengths"]) == [*(name for _, name in LENGTHS), LONGER]
    assert found["span_lengths"] == {name: among(sizes, name) for name in found["span_lengths"]}
    assert (found["words"], found["illegal_tags"]) == (None, None)
    if trained is None:
        assert found["unseen"] is None
        return
    seen = [name for sentence in trained for name in names(sentence)]
    texts = [text for text, _ in seen]
    there = [character for sentence in trained for character in fold_digits(sentence.text)]
    assert found["unseen"] == {
        "repeated_sentences": sum(
            sentence.text in [each.text for each in trained] for sentence in sentences
        ),
        "characters": sum(character not in there for character in characters),
        "different_characters": len(
            {character for character in characters if character not in there}
        ),
        "spans": sum(text not in texts for text, _ in spans),
        "other_label": sum(text in texts and (text, label) not in seen for text, label in spans),
        "different_spans": len({text for text, _ in spans if text not in texts}),
    }


@given(st.data(), st.sampled_from(SCHEMES))
def test_illegal_tags(data, scheme):
    row = st.lists(st.sampled_from(tag_set(["A", "B"], scheme)), min_size=1, max_size=8)
    tags = data.draw(st.lists(row, min_size=1, max_size=4))
    sentences = tuple(Sentence("字" * len(each), ()) for each in tags)
    found = statistics(Corpus(sentences, scheme, tuple(map(tuple, tags))))
    pairs = [pair for each in tags for pair in pairwise([None, *each, None])]
    assert found["illegal_tags"] == sum(not may_follow(*pair, scheme) for pair in pairs)
    for each in tags:
        legal = not illegal_places(each, scheme)
        assert legal == all(may_follow(*pair, scheme) for pair in pairwise([None, *each, None]))
        assert all(0 <= at < len(each) for at in illegal_places(each, scheme))


@given(some)
def test_made_tags_are_legal(sentences):
    for scheme in SCHEMES:
        tags = tuple(tuple(spans_to_tags(s.spans or (), len(s), scheme)) for s in sentences)
        assert statistics(Corpus(tuple(sentences), scheme, tags))["illegal_tags"] == 0


def made(*texts: str) -> Corpus:
    """Words of two characters, the first of each text a place."""
    words = [
        tuple(Span(at, min(at + 2, len(text)), WORD) for at in range(0, len(text), 2))
        for text in texts
    ]
    return Corpus(
        tuple(Sentence(t, (Span(0, 2, "LOC"),), w) for t, w in zip(texts, words, strict=True))
    )


def rows(table) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in table.rows}


def test_tables():
    train = made("南京市长江", "大桥")
    test = made("南京", "长江" * 200)
    facts = {"a": statistics(train), "b": statistics(test, train.sentences)}
    first, labels, lengths = tables(facts)
    assert first.headings == ("", "a", "b")
    found = rows(first)
    assert found["sentences"] == ("2", "2")
    assert found["- of 250 characters or more"] == ("0", "1")
    assert found["words, of the column"] == ("4", "201")
    assert found["entities that train lacks"] == ("–", "1 (50.00 %)")
    assert "illegal tags" not in found
    assert rows(labels) == {"LOC": ("2 (100.00 %)", "2 (100.00 %)")}
    assert rows(lengths)["2"] == ("2 (100.00 %)", "2 (100.00 %)")
    other = Corpus((Sentence("上海", (Span(0, 2, "ORG"),)),))
    _, both, _ = tables({"a": facts["a"], "d": statistics(other)})
    assert rows(both)["LOC"] == ("2 (100.00 %)", "0 (0.00 %)")
    only = Corpus(tuple(Sentence(s.text, s.words) for s in train.sentences))
    words, sizes = tables({"c": statistics(only)})
    assert rows(words)["words"] == ("4",)
    assert sizes.title == "Words by length in characters"
    assert not any("label" in name or "train" in name for name in rows(words))


def test_a_corpus_without_spans_and_characters(tmp_path):
    facts = statistics(Corpus((Sentence(""),)))
    assert rows(next(tables({"a": facts})))["entities"] == ("0",)
    draw({"a": facts}, tmp_path / "a.svg")
    ElementTree.parse(tmp_path / "a.svg")


def test_the_plot_has_every_file(tmp_path):
    facts = {"$x$ <b>": statistics(made("南京")), "b": statistics(made("长江" * 200))}
    for name in ("one.svg", "two.svg"):
        draw(facts, tmp_path / name)
    told = ["".join(node.itertext()) for node in ElementTree.parse(tmp_path / "one.svg").iter()]
    assert {"$x$ <b>", "b", "250", "characters of a sentence"} <= set(told)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
