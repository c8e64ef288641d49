"""What a segmenter reads: text without its white space, words and subwords, and tags of words that
cover it.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hanlattice.data.formats.jsonl import read_jsonl, write_jsonl
from hanlattice.errors import InputError
from hanlattice.features import Examples, Indexer
from hanlattice.features import indexer as module
from hanlattice.features.indexer import BICHARS, JOINTS
from hanlattice.text.boundaries import CUT, FREE, JOIN, SPACED, joints
from hanlattice.text.lattice import cells
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import fold, fold_digits
from hanlattice.text.segment import make_segmenter
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import WORD, Span
from hanlattice.text.tags import tag_set
from hanlattice.text.vocab import Vocab, bigrams

TAGS = tuple(tag for tag in tag_set([WORD], "BMES") if tag != "O")
WORDS = ("南京", "南京市", "长江", "大桥", "长江大桥", "A1")
SUBWORDS = ("京市", "长江", "江大", "南京市", "a1a")
BOTH = Indexer(
    Vocab("南京市长江大桥0A"),
    Lexicon(WORDS),
    TAGS,
    "BMES",
    bichars=Vocab(["南京", "京市", "市长", "0A", "桥-null-"]),
    subwords=Lexicon(SUBWORDS),
)
SUBWORDS_ALONE = dataclasses.replace(BOTH, lexicon=Lexicon(SUBWORDS), subwords=None, bichars=None)
SPACES = " \t\n\r\u3000\x85"
solid_text = st.text(st.sampled_from("南京市长江大桥７1ＡaＡ.\ud800"), max_size=9)
spaced_text = st.text(st.sampled_from("南京市长江大桥７1Ａ." + SPACES), max_size=12)


@st.composite
def cut_sentences(draw: st.DrawFn) -> Sentence:
    """A text cut anywhere, so that white space may be in a word, a word of its own, or in none."""
    text = draw(solid_text | spaced_text)
    cuts = [at for at in range(1, len(text)) if draw(st.booleans())]
    pieces = [
        Span(start, end, WORD) for start, end in pairwise([0, *cuts, len(text)] if text else [])
    ]
    return Sentence(
        text, tuple(p for p in pieces if text[p.start : p.end].strip() or draw(st.booleans()))
    )


corpora = st.lists(cut_sentences(), max_size=6)


def places(text: str) -> list[int]:
    return [at for at, character in enumerate(text) if not character.isspace()]


def matches_by_hand(text: str) -> list[tuple[int, int, int]]:
    """By start and end; on one span the subword first, and words counted after all subwords. None
    has a cut inside.
    """
    solid = fold("".join(text.split()))
    gaps = [joints(text)[at] for at in places(text)]
    spans = [
        (start, end) for start in range(len(solid)) for end in range(start + 2, len(solid) + 1)
    ]
    spans = [(start, end) for start, end in spans if CUT not in gaps[start + 1 : end]]
    numbers = {fold(word): [at] for at, word in enumerate(SUBWORDS)}
    for at, word in enumerate(WORDS):
        numbers.setdefault(fold(word), []).append(len(SUBWORDS) + at)
    return [(start, end, at) for start, end in spans for at in numbers.get(solid[start:end], [])]


def tags_by_hand(sentence: Sentence) -> list[str]:
    tags = []
    for span in sentence.spans or ():
        length = len(places(sentence.text[span.start : span.end]))
        tags += ["", "S", "BE"][length] if length < 3 else ["B", *"M" * (length - 2), "E"]
    return [f"{tag}-{WORD}" for tag in tags]


def offsets_of(examples: Examples) -> list[int]:
    return (cells(examples.lengths)[1] if examples.offsets is None else examples.offsets).tolist()


def check(examples: Examples, corpus: list[Sentence]) -> None:
    assert examples.lengths.tolist() == [len(places(sentence.text)) for sentence in corpus]
    text = "".join(
        character for sentence in corpus for character in sentence.text if not character.isspace()
    )
    assert examples.chars.tolist() == [BOTH.vocab[character] for character in fold_digits(text)]
    assert offsets_of(examples) == [at for sentence in corpus for at in places(sentence.text)]
    assert examples.tags is not None
    assert [TAGS[tag] for tag in examples.tags] == [
        tag for sentence in corpus for tag in tags_by_hand(sentence)
    ]
    found = [matches_by_hand(sentence.text) for sentence in corpus]
    assert examples.matches.counts.tolist() == [len(row) for row in found]
    flat = zip(*(array.tolist() for array in examples.matches[1:]), strict=True)
    assert list(flat) == [match for row in found for match in row]
    gaps = [int(joints(sentence.text)[at]) for sentence in corpus for at in places(sentence.text)]
    assert examples.extra_ids[JOINTS].tolist() == gaps
    assert BOTH.bichars is not None
    ids = [
        BOTH.bichars[pair]
        for sentence in corpus
        for pair in bigrams("".join(sentence.text.split()))
    ]
    assert examples.extra_ids[BICHARS].tolist() == ids


@given(corpora)
@example([])
@example([Sentence("", ()), Sentence(" ", ()), Sentence("", ())])
@example([Sentence("南京 市", (Span(0, 4, WORD),)), Sentence("长江", (Span(0, 2, WORD),))])
def test_numbers_are_those_of_a_plain_loop(corpus: list[Sentence]) -> None:
    check(BOTH.examples(corpus), corpus)


@given(corpora, st.integers(1, 20))
@example(
    [
        Sentence("南京", (Span(0, 2, WORD),)),
        Sentence("长 江", (Span(0, 1, WORD), Span(2, 3, WORD))),
    ],
    2,
)
@example([Sentence("长 江", (Span(0, 3, WORD),)), Sentence("南京", (Span(0, 2, WORD),))], 2)
def test_in_parts_of_which_some_have_no_white_space(corpus: list[Sentence], part: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART", part)
        check(BOTH.examples(corpus), corpus)


@given(corpora)
def test_gold_tags_come_back_as_spans_of_the_text_as_given(corpus: list[Sentence]) -> None:
    examples = BOTH.examples(corpus)
    assert examples.tags is not None
    found = examples.in_characters(BOTH.tag_ids.spans(examples.tags, examples.units))
    expected = []
    for at, sentence in enumerate(corpus):
        for span in sentence.spans or ():
            inside = [place for place in places(sentence.text) if span.start <= place < span.end]
            expected += [(at, inside[0], inside[-1] + 1)] if inside else []
    assert list(zip(*(array.tolist() for array in found[:3]), strict=True)) == expected


def test_words_of_a_file_with_white_space_in_its_text(tmp_path):
    text = "南京 市\t大桥 A1"
    words = (Span(0, 4, WORD), Span(5, 7, WORD), Span(8, 10, WORD))
    write_jsonl(tmp_path / "a.jsonl", [Sentence(text, words)])
    examples = BOTH.examples(read_jsonl(tmp_path / "a.jsonl").sentences)
    assert examples.tags is not None
    assert [TAGS[tag][0] for tag in examples.tags] == [*"BME", *"BE", *"BE"]
    assert offsets_of(examples) == [0, 1, 3, 5, 6, 8, 9]
    assert examples.extra_ids[JOINTS].tolist() == [CUT, FREE, CUT, CUT, FREE, CUT, FREE]


def test_a_word_of_both_sources_is_found_twice():
    found = BOTH.read(["南京市"]).matches
    rows = list(zip(*(array.tolist() for array in found[1:]), strict=True))
    word = len(SUBWORDS) + WORDS.index("南京市")
    subword = SUBWORDS.index("南京市")
    assert rows == [
        (0, 2, len(SUBWORDS)),
        (0, 3, subword),
        (0, 3, word),
        (1, 3, SUBWORDS.index("京市")),
    ]


def test_subwords_alone_have_numbers_of_their_own():
    found = SUBWORDS_ALONE.read(["南京市长江大", ""]).matches
    assert found.counts.tolist() == [4, 0]
    assert [SUBWORDS[at] for at in found.word.tolist()] == ["南京市", "京市", "长江", "江大"]


def test_no_word_is_found_across_white_space():
    examples = BOTH.read(["长\u3000江 1 9", "长江19"])
    assert examples.matches.counts.tolist() == [0, 2]
    assert examples.extra_ids[JOINTS].tolist() == [CUT] * 4 + [CUT, FREE, FREE, JOIN]


@pytest.mark.parametrize("other", ["南", "南 京", " "])
def test_a_text_is_read_alike_whatever_stands_beside_it(other):
    """There is a cut inside this word of the lexicon, before the emoji, and no white space."""
    emoji = dataclasses.replace(BOTH, lexicon=Lexicon(["好😀"]))
    alone = emoji.read(["好😀"])
    among = emoji.read(["好😀", other])
    assert alone.extra_ids[JOINTS].tolist() == [CUT, CUT]
    assert alone.matches.counts[0] == among.matches.counts[0]


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        (
            "南京市",
            (Span(0, 2, WORD),),
            r"sentence 2, '南京市': .*none covers \[2, 3\).*every character must belong",
        ),
        ("南 京", (Span(2, 3, WORD),), r"sentence 2, '南京': .*none covers \[0, 1\)"),
        ("南京", (), r"sentence 2, '南京': .*none covers \[0, 2\)"),
    ],
)
def test_a_character_that_belongs_to_no_word_is_told_with_its_sentence(text, words, says):
    whole = Sentence("长 江", (Span(0, 1, WORD), Span(2, 3, WORD)))
    with pytest.raises(InputError, match=says):
        BOTH.examples([whole, Sentence(text, words)])


def test_which_indexers_cut():
    assert BOTH.cuts
    assert SUBWORDS_ALONE.cuts
    for labels, scheme in (([WORD, "LOC"], "BMES"), (["LOC"], "BMES"), ([WORD], "BIO")):
        assert not dataclasses.replace(
            BOTH, tags=tuple(tag_set(labels, scheme)), scheme=scheme
        ).cuts
    bio = dataclasses.replace(BOTH, tags=(f"B-{WORD}", f"I-{WORD}"), scheme="BIO")
    assert bio.cuts
    tags = bio.examples([Sentence("南京 市", (Span(0, 2, WORD), Span(3, 4, WORD)))]).tags
    assert tags is not None
    assert tags.tolist() == [0, 1, 0]


def test_a_model_of_entities_reads_no_white_space_either_and_knows_fewer_gaps():
    plain = dataclasses.replace(BOTH, tags=tuple(tag_set(["LOC"], "BMES")))
    examples = plain.read(["\u3000南 京\n", "南京 市", "19 98", "长\t江"])
    assert examples.lengths.tolist() == [2, 3, 4, 2]
    assert offsets_of(examples) == [1, 3, 0, 1, 3, 0, 1, 3, 4, 0, 2]
    assert examples.extra_ids[JOINTS].tolist() == [
        FREE,
        SPACED,
        FREE,
        FREE,
        SPACED,
        *[FREE] * 4,
        FREE,
        CUT,
    ]
    assert examples.matches.counts.tolist() == [
        1,
        2,
        0,
        0,
    ]  # 南京, also apart, and 京市; not 南京市 and 长江
    assert JOINTS not in plain.read(["南京"]).extra_ids


def test_a_model_of_words_reads_white_space_like_any_character():
    worded = dataclasses.replace(
        BOTH,
        lexicon=None,
        subwords=None,
        tags=tuple(tag_set(["LOC"], "BMES")),
        words=Vocab(["南"]),
        segmenter=make_segmenter("gold"),
    )
    examples = worded.read(["南 京"], [(Span(0, 1, "n"), Span(1, 2, "x"), Span(2, 3, "n"))])
    assert examples.lengths.tolist() == [3]
    assert examples.offsets is None
    assert JOINTS not in examples.extra_ids
    assert np.array_equal(examples.chars, [1, 0, 2])
