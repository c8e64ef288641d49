"""Character columns: what they carry comes back, and what is wrong with them is named with its
line.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.data.formats.columns import format_columns, read_columns, write_columns
from hanlattice.errors import InputError, TagError
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.tags import SCHEMES, tags_to_spans
from tests.helpers.corpora import find_corpus
from tests.helpers.strategies import sentences, shares_folder
from tests.helpers.words import segmented_sentences

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n") | st.sampled_from(
    " \t\r\0\u0085\u2028\u3000\ufeff\x1c"
)


def corpus_file(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "c.bmes"
    path.write_bytes(body.encode())
    return path


PARTS = st.sampled_from(["WORD", "n", "v-n", "x-WORD", "名"])


@shares_folder
@given(
    items=st.lists(sentences(CHARACTERS), min_size=1, max_size=4)
    | st.lists(segmented_sentences(CHARACTERS, parts=PARTS), min_size=1, max_size=4),
    scheme=st.sampled_from(SCHEMES),
)
def test_round_trip_of_any_text(tmp_path, items, scheme):
    path = tmp_path / "r.bmes"
    write_columns(path, items, scheme)
    corpus = read_columns(path, scheme)
    assert corpus.sentences == tuple(items)
    assert (corpus.scheme, corpus.notices) == (scheme, ())
    assert corpus.tags is not None
    assert [tags_to_spans(tags, scheme) for tags in corpus.tags] == [
        list(item.spans or ()) for item in items
    ]


@pytest.mark.parametrize("between", ["\t", " ", "   ", "\tNN\t", " x y "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_may_be_spaced_in_any_way(tmp_path, between, end):
    body = f"{end}南{between}B-LOC{end}京{between}E-LOC{end}{end}{end} {end}好{between}O"
    corpus = read_columns(corpus_file(tmp_path, body))
    assert corpus.sentences == (Sentence("南京", (Span(0, 2, "LOC"),)), Sentence("好", ()))
    assert corpus.tags == (("B-LOC", "E-LOC"), ("O",))
    assert (corpus.scheme, len(corpus)) == ("BMES", 2)


def test_byte_order_mark_is_dropped(tmp_path):
    assert read_columns(corpus_file(tmp_path, "\ufeff好\tO\n")).sentences == (Sentence("好", ()),)


def test_format_of_one_sentence():
    text = format_columns("南京好", [Span(0, 2, "LOC")], "BMES")
    assert text == "南\tB-LOC\n京\tE-LOC\n好\tO\n"
    assert format_columns("", [], "BIO") == ""


def test_format_of_one_sentence_with_words():
    words = [Span(0, 2, "ns"), Span(2, 3, "WORD"), Span(3, 6, "WORD")]
    text = format_columns("南京好天气吗", [Span(0, 2, "LOC")], "BIO", words)
    assert text == "南\tB-ns\tB-LOC\n京\tE-ns\tI-LOC\n好\tS\tO\n天\tB\tO\n气\tM\tO\n吗\tE\tO\n"
    with pytest.raises(ValueError, match=r"words leave a gap: none covers \[2, 6\)"):
        format_columns("南京好天气吗", [], "BIO", words[:1])


@pytest.mark.parametrize("between", ["\t", "  ", " \t"])
def test_a_word_column_gives_words(tmp_path, between):
    body = "南 B-ns B-LOC\n京 E-ns E-LOC\n好 S O\n\n天 B O\n天 M O\n气 E O\n".replace(" ", between)
    corpus = read_columns(corpus_file(tmp_path, body))
    assert [sentence.words for sentence in corpus.sentences] == [
        (Span(0, 2, "ns"), Span(2, 3, "WORD")),
        (Span(0, 3, "WORD"),),
    ]
    assert [sentence.spans for sentence in corpus.sentences] == [(Span(0, 2, "LOC"),), ()]
    assert corpus.notices == ()


BROKEN = {
    "ends inside a word": ("南 B O\n京 E O\n\n好 S O\n天 B O\n\n气 S O\n", 5),
    "begins inside a word": ("好 S O\n\n南 E O\n京 S O\n", 3),
    "two parts of speech": ("南 B-n O\n京 E-v O\n", 2),
    "a word in a word": ("南 B-n O\n京 S-n O\n", 2),
    "no position": ("南 S O\n京 S O\n好 X O\n", 3),
    "outside": ("南 S O\n京 O O\n好 S O\n", 2),
    "no part after the hyphen": ("南 S O\n京 S O\n好 S- O\n", 3),
    "a column is missing": ("南 S O\n京 S O\n好 O\n", 3),
    "a column too many": ("南 S O\n京 S S O\n好 S O\n", 2),
}


@pytest.mark.parametrize(("body", "line"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_word_column_is_passed_over_with_a_notice(tmp_path, body, line):
    corpus = read_columns(corpus_file(tmp_path, body))
    assert {sentence.words for sentence in corpus.sentences} == {None}
    assert len(corpus.notices) == 1
    assert (
        f"the word column breaks the rules of BMES, first at line {line}; no words"
        in corpus.notices[0]
    )


@pytest.mark.parametrize("between", ["NN VV NR", "B-NP I-NP O", "1 2 3", "S_1 B_2 E_2"])
def test_another_column_between_is_passed_over_in_silence(tmp_path, between):
    body = "".join(
        f"{character} {column} O\n"
        for character, column in zip("南京好", between.split(), strict=True)
    )
    corpus = read_columns(corpus_file(tmp_path, body))
    assert (corpus.sentences, corpus.notices) == ((Sentence("南京好", ()),), ())


def test_words_beside_iob1_tags(tmp_path):
    corpus = read_columns(corpus_file(tmp_path, "南 B I-LOC\n京 E I-LOC\n好 S O\n"))
    assert corpus.sentences[0].words == (Span(0, 2, "WORD"), Span(2, 3, "WORD"))
    assert corpus.scheme == "BIO"


def test_a_file_is_written_with_all_words_or_with_none(tmp_path):
    items = [Sentence("好", (), (Span(0, 1, "a"),)), Sentence("好", ())]
    for pair in (items, items[::-1]):
        with pytest.raises(InputError, match="only one of sentences 1 and 2 has words"):
            write_columns(tmp_path / "out.bmes", pair)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("line", ["京", "京\t", "京 ", "\tO", " O", "O"])
def test_a_missing_column_names_its_line(tmp_path, line):
    path = corpus_file(tmp_path, f"南\tO\n\n好\tO\n{line}\n")
    with pytest.raises(InputError, match="a column is missing") as caught:
        read_columns(path)
    assert (caught.value.path, caught.value.line) == (path, 4)


def test_a_first_column_of_two_characters(tmp_path):
    with pytest.raises(
        InputError, match=r"c\.bmes:2: the first column must be one character .*'南京'"
    ):
        read_columns(corpus_file(tmp_path, "南\tO\n南京\tO\n"))


HINT = 'if its lines are words with spaces between, it is format "segmented"'


@pytest.mark.parametrize(
    ("line", "says", "hinted"),
    [
        ("江泽民 主席 在 北京 讲话 。", "one character", True),
        ("江泽民\t主席", "one character", True),
        ("江泽民\u3000主席\u3000在", "a column is missing", True),
        ("在 北京 讲话 。", "is not a tag", True),
        ("江泽民\tB-PER", "one character", False),
        ("江泽民 nr O", "one character", False),
        ("江泽民", "a column is missing", False),
        ("在\tLOC", "is not a tag", False),
        ("在\tX-LOC", "fits no scheme", False),
    ],
)
def test_segmented_lines_are_told_apart(tmp_path, line, says, hinted):
    path = corpus_file(tmp_path, f"好\tO\n{line}\n")
    with pytest.raises(InputError, match=says) as caught:
        read_columns(path)
    assert caught.value.line == 2
    assert (HINT in caught.value.message) == hinted


@pytest.mark.parametrize(
    ("body", "scheme", "line", "says"),
    [
        ("南\tO\n京\tX-LOC\n", "auto", 2, "fits no scheme"),
        ("南\tO\n京\tLOC\n", "auto", 2, "is not a tag"),
        ("南\tO\n京\tB-\n", "auto", 2, "is not a tag"),
        (
            "南\tB-A\n京\tM-A\n\n南\tE-A\n京\tI-A\n",
            "auto",
            5,
            "'I-A' after tags with the prefixes B, E, M",
        ),
        ("南\tB-A\n京\tE-A\n", "BIO", 2, "not a tag of BIO"),
        ("南\tB-A\n京\tI-A\n", "BMES", 2, "not a tag of BMES"),
    ],
)
def test_tags_that_do_not_fit_name_their_line(tmp_path, body, scheme, line, says):
    path = corpus_file(tmp_path, body)
    with pytest.raises(TagError, match=says) as caught:
        read_columns(path, scheme)
    assert (caught.value.path, caught.value.line) == (path, line)


def test_iob1_is_converted_with_a_notice(tmp_path):
    corpus = read_columns(corpus_file(tmp_path, "南\tI-LOC\n京\tI-LOC\n沪\tB-LOC\n好\tO\n"))
    assert corpus.sentences[0].spans == (Span(0, 2, "LOC"), Span(2, 3, "LOC"))
    assert corpus.tags == (("B-LOC", "I-LOC", "B-LOC", "O"),)
    assert corpus.scheme == "BIO"
    assert "IOB1" in corpus.notices[0]


def test_illegal_tags_are_kept_and_counted(tmp_path):
    corpus = read_columns(
        corpus_file(tmp_path, "好\tO\n\n南\tB-A\n京\tO\n市\tM-A\n\n长\tS-A\n江\tB-A\n")
    )
    assert corpus.tags == (("O",), ("B-A", "O", "M-A"), ("S-A", "B-A"))
    assert [sentence.spans for sentence in corpus.sentences] == [(), (), (Span(0, 1, "A"),)]
    assert "4 places, first at line 4" in corpus.notices[0]


def test_unknown_scheme(tmp_path):
    with pytest.raises(InputError, match="no tag scheme is called 'bio'"):
        read_columns(corpus_file(tmp_path, "好\tO\n"), "bio")
    with pytest.raises(InputError, match="IOB1"):
        format_columns("好", [], "IOB1")


def test_bytes_that_are_not_utf8_name_their_line(tmp_path):
    path = tmp_path / "c.bmes"
    path.write_bytes("好\tO\n".encode() + "好\tO\n".encode("gbk"))
    with pytest.raises(InputError, match="not UTF-8") as caught:
        read_columns(path)
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        (Sentence("a\nb"), r"line feed \(character 2\)"),
        (Sentence("a\ud800"), "lone surrogate U\\+D800"),
        (Sentence(""), "empty text"),
        (Sentence("ab", (Span(0, 1, "A B"),)), "the label 'A B'"),
        (Sentence("ab", (Span(0, 1, ""),)), "the label ''"),
        (Sentence("ab", (), (Span(0, 2, "n n"),)), "the label 'n n'"),
    ],
)
def test_what_columns_cannot_carry_is_refused_and_nothing_is_written(tmp_path, sentence, says):
    first = Sentence("好", words=None if sentence.words is None else (Span(0, 1, "a"),))
    with pytest.raises(InputError, match=says):
        write_columns(tmp_path / "out.bmes", [first, sentence])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "sentences", "characters"),
    [
        ("ner/resume/dev.bmes", 463, 13_890),
        ("ner/weibo/test.bmes", 270, 14_842),
        ("ner/msra/test.bmes", 4_365, 172_601),
    ],
)
def test_published_corpora(name, sentences, characters):
    corpus = read_columns(find_corpus(name))
    assert (len(corpus), sum(map(len, corpus.sentences)), corpus.scheme) == (
        sentences,
        characters,
        "BMES",
    )
