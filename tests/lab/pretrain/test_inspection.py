"""The check of a vector file: every count on broken files, coverage against plain loops; neighbours
against gensim.
"""

from __future__ import annotations

from pathlib import Path

import gensim
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np

from hanlattice import Span
from hanlattice.errors import InputError
from hanlattice.lab.pretrain.inspection import Neighbours, check_vectors, cover, read_queries
from hanlattice.text.normalize import fold, fold_digits
from hanlattice.text.sentence import Sentence
from hanlattice.text.vectors import Vectors, read_vectors, write_vectors
from tests.helpers.strategies import sentences, shares_folder

GOOD = ["江 1 2", "长江 3 4", "0 0 0"]


def written(folder: Path, lines: list[str | bytes], name: str = "v.vec") -> Path:
    path = folder / name
    path.write_bytes(
        b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines)
    )
    return path


def test_a_sound_file(tmp_path):
    report, vectors = check_vectors(written(tmp_path, ["3 2", *GOOD]))
    assert report["sound"]
    assert (report["form"], report["header"], report["rows"], report["words"], report["width"]) == (
        "text",
        (3, 2),
        3,
        3,
        2,
    )
    assert (report["single_characters"], report["repeated"], report["skipped"], report["zero"]) == (
        2,
        0,
        0,
        1,
    )
    assert report["norms"] == pytest.approx({"mean": (5**0.5 + 5 + 0) / 3, "min": 0, "max": 5})
    assert vectors.words == ("江", "长江", "0")


@pytest.mark.parametrize(("name", "binary"), [("v.bin", True), ("v", True), ("v.vec", False)])
def test_both_forms_of_our_own(tmp_path, name, binary):
    made = Vectors(("江", "长江"), np.array([[1, 2], [3, 4]], np.float32))
    write_vectors(tmp_path / name, made, binary=binary)
    report, _ = check_vectors(tmp_path / name)
    assert (report["form"], report["rows"], report["sound"]) == (
        "binary" if binary else "text",
        2,
        True,
    )


def test_without_a_header(tmp_path):
    report, _ = check_vectors(written(tmp_path, GOOD))
    assert (report["header"], report["rows"], report["sound"]) == (None, 3, True)


def test_every_fault_has_its_lines(tmp_path):
    lines = [
        "20 2",
        "江 1 2",
        "河 1",
        "海 1 2 3",
        "湖 x 2",
        "池 nan 2",
        "",
        "江 7 8",
        "泉 1_0 2",
        " 1 2",
        b"\xff 1 2",
        "沟 1e39 2",
        "溪 1 2",
        "塘 inf 1",
    ]
    report, _ = check_vectors(written(tmp_path, lines))
    assert report["broken"] == (
        (3, "too few numbers"),
        (4, "too many numbers"),
        (5, "not a number"),
        (6, "a value is not finite"),
        (9, "not a number"),
        (10, "there is no word"),
        (11, "the word is not UTF-8"),
        (12, "a value is not finite"),
        (14, "a value is not finite"),
    )
    assert (report["rows"], report["words"], report["repeated"], report["skipped"]) == (12, 2, 1, 9)
    assert not report["header_is_right"]
    assert not report["sound"]
    facts = report
    assert facts["problems"]["a value is not finite"] == 3
    assert (facts["sound"], facts["header_is_right"]) == (False, False)


def test_faults_of_a_binary_file(tmp_path):
    rows = [("江", [1, 2]), ("江", [3, 4]), ("河", [np.nan, 1]), ("海", [1, 1])]
    body = b"".join(
        word.encode() + b" " + np.array(row, "<f4").tobytes() + b"\n" for word, row in rows
    )
    (tmp_path / "v.bin").write_bytes(b"4 2\n" + body)
    report, _ = check_vectors(tmp_path / "v.bin")
    assert (
        report["form"],
        report["rows"],
        report["words"],
        report["repeated"],
        report["skipped"],
    ) == (
        "binary",
        4,
        2,
        1,
        1,
    )
    assert report["broken"] == ((3, "a value is not finite"),)
    assert "a value is not finite" in report["notices"][0]
    assert not report["sound"]


def test_text_that_begins_with_broken_rows_is_still_text(tmp_path):
    report, vectors = check_vectors(
        written(tmp_path, ["62 2", *["坏 x 1"] * 60, "江 1 2", "河 3 4"])
    )
    assert (report["form"], report["rows"], report["words"], report["skipped"]) == (
        "text",
        62,
        2,
        60,
    )
    assert report["broken"] == tuple((line, "not a number") for line in range(2, 62))
    assert vectors.words == ("江", "河")


field = st.sampled_from(
    ["江", "长江", "1", "-2.5", "nan", "x", "1_0", "1e99", "\xa0", "", " ", "\ufeff"]
)


@shares_folder
@given(
    rows=st.lists(st.lists(field, max_size=5).map(" ".join)),
    header=st.sampled_from([[], ["3 2"], ["\ufeff3 2"]]),
)
def test_the_check_and_the_reader_agree(tmp_path, rows, header):
    """Whatever is in a file: what the one skips is what the other names."""
    path = written(tmp_path, [*header, *GOOD, *rows])
    expected = read_vectors(path)
    report, _ = check_vectors(path)
    assert len(report["broken"]) == report["skipped"] == expected.skipped
    assert report["repeated"] == sum(
        int(n.split(" rows repeat")[0].split()[-1]) for n in expected.notices if "repeat" in n
    )
    assert report["header_is_right"] == (
        not any("promises" in notice for notice in expected.notices)
    )
    assert report["sound"] == (not expected.notices)


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"3 0\n", "只是 文字\n".encode(), b"9 2\n\x00\x01", b"2 2\n\xe6 "]
)
def test_a_file_that_cannot_be_used(tmp_path, content):
    (tmp_path / "v.bin").write_bytes(content)
    with pytest.raises(InputError):
        check_vectors(tmp_path / "v.bin")


# ---- coverage


def ones(words: list[str]) -> Vectors:
    return Vectors(tuple(words), np.ones((len(words), 2), np.float32))


@given(
    corpus=st.lists(sentences(st.sampled_from("长江大桥Ａ７ 　")), min_size=1),
    words=st.lists(st.text("长江大桥A0", min_size=1, max_size=3), min_size=1, unique=True),
)
def test_coverage_by_plain_loops(corpus, words):
    seen = [c for sentence in corpus for c in fold_digits(sentence.text) if not c.isspace()]
    if not seen:
        with pytest.raises(InputError, match="there is no character"):
            cover(ones(words), "x", corpus)
        return
    found = cover(ones(words), "x", iter(corpus))
    known = {word for word in words if len(word) == 1}
    assert (found["positions"], found["types"]) == (len(seen), len(set(seen)))
    assert (found["positions_in"], found["types_in"]) == (
        sum(c in known for c in seen),
        len(known & set(seen)),
    )
    assert set(found["missing"]) == set(seen) - known
    long = {word for word in words if len(word) > 1}
    texts = [fold(sentence.text) for sentence in corpus]
    places = [
        word
        for text in texts
        for word in long
        for at in range(len(text))
        if text.startswith(word, at)
    ]
    if not places:
        assert found["words"] is None
        return
    assert found["words"] is not None
    assert (found["words"]["words"], found["words"]["positions"]) == (len(set(places)), len(places))
    entities = [
        text[span.start : span.end]
        for text, s in zip(texts, corpus, strict=True)
        for span in s.spans or ()
    ]
    assert found["words"]["entities"]["tokens_in"] == sum(entity in long for entity in entities)


def test_a_file_of_characters_covers_characters():
    found = cover(ones(["长", "0"]), "x", [Sentence("长江７", (Span(0, 2, "LOC"),))])
    assert (found["positions_in"], found["positions"], found["missing"], found["words"]) == (
        2,
        3,
        ("江",),
        None,
    )


@pytest.mark.parametrize("when", [0, 1])
def test_an_error_without_a_file_is_not_taken_for_a_corpus_without_words(when):
    def broken():
        yield from [Sentence("长江")] * when
        raise InputError("something is wrong")

    with pytest.raises(InputError, match="something is wrong"):
        cover(ones(["大桥"]), "x", broken())


def test_an_error_of_the_corpus_comes_through():
    def broken():
        yield Sentence("长江")
        raise InputError("not UTF-8", "file", 2)

    with pytest.raises(InputError, match="file:2: not UTF-8"):
        cover(ones(["大桥"]), "x", broken())


# ---- neighbours


WORDS = ("长江", "长江大桥", "大桥", "江", "北京", "南京", "0", "AB", "abc")


def random_vectors(words=WORDS, width: int = 4) -> Vectors:
    return Vectors(
        tuple(words), np.random.default_rng(1).normal(size=(len(words), width)).astype(np.float32)
    )


def test_the_same_as_gensim():
    made = random_vectors()
    theirs = gensim.models.KeyedVectors(made.width)
    theirs.add_vectors(list(made.words), made.matrix)
    for word in made.words:
        mine = Neighbours(made)(word, 5)
        expected = theirs.most_similar(word, topn=5)
        assert [row.word for row in mine] == [other for other, _ in expected]
        np.testing.assert_allclose(
            [row.cosine for row in mine], [cosine for _, cosine in expected], atol=1e-6
        )


@given(st.lists(st.sampled_from(WORDS), min_size=2, max_size=5), st.data())
def test_sums_are_the_same_as_gensims(words, data):
    signs = data.draw(
        st.lists(st.sampled_from("+-"), min_size=len(words) - 1, max_size=len(words) - 1)
    )
    made = random_vectors()
    theirs = gensim.models.KeyedVectors(made.width)
    theirs.add_vectors(list(made.words), made.matrix)
    query = [words[0], *(term for pair in zip(signs, words[1:], strict=True) for term in pair)]
    weights = {
        word: sum(
            (-1) ** (sign == "-")
            for sign, each in zip(["+", *signs], words, strict=True)
            if each == word
        )
        for word in words
    }
    if not any(weights.values()):
        with pytest.raises(InputError, match="these vectors add up to nothing"):
            Neighbours(made)(query)
        return
    expected = theirs.most_similar(positive=list(weights.items()), topn=4)
    found = Neighbours(made)(query, 4)
    assert [row.word for row in found] == [other for other, _ in expected]
    np.testing.assert_allclose(
        [row.cosine for row in found], [cosine for _, cosine in expected], atol=2e-6
    )
    assert not {row.word for row in Neighbours(made)(query, 99)} & set(words)
    assert len(Neighbours(made)(query, 99)) == len(WORDS) - len(set(words))


@given(st.lists(st.sampled_from(["江", "北京", "+", "-"]), min_size=1, max_size=7))
def test_words_that_signs_join_are_one_query(tokens):
    """Read from the right: a sign without a word on either side is refused, and nothing else is."""
    kinds = "".join("s" if token in "+-" else "w" for token in tokens)
    if kinds[0] == "s" or kinds[-1] == "s" or "ss" in kinds:
        with pytest.raises(InputError, match=r"expected a word (before|after) '[+-]', as in"):
            read_queries(tokens)
        return
    found = read_queries(tokens)
    assert [token for query in found for token in query] == tokens
    joined = "".join(
        "".join("s" if token in "+-" else "w" for token in query) + "|" for query in found
    )
    assert joined == kinds.replace("ww", "w|w").replace("ww", "w|w") + "|"


@given(
    matrix=st_np.arrays(
        np.float32,
        st.tuples(st.integers(1, 9), st.integers(1, 3)),
        elements=st.sampled_from([-1, 0, 2]),
    ),
    count=st.integers(1, 12),
)
def test_the_same_as_a_plain_loop(matrix, count):
    """Equal cosines and zero vectors too: of equal ones the first in the file comes first."""
    words = tuple(WORDS[: len(matrix)])
    rows = []
    for word, row in zip(words[1:], matrix[1:], strict=True):
        norm = np.sqrt((row @ row) * (matrix[0] @ matrix[0]))
        rows.append((word, float(row @ matrix[0] / norm) if norm else 0.0))
    rows.sort(key=lambda pair: -round(pair[1], 5))
    found = Neighbours(Vectors(words, matrix))(words[0], count)
    np.testing.assert_allclose(
        [row.cosine for row in found], [cosine for _, cosine in rows[:count]], atol=1e-6
    )
    assert [row.word for row in found] == [word for word, _ in rows[:count]]


@pytest.mark.parametrize("count", [1, 2, 7, 29, 30, 31, 58, 59, 99])
def test_of_equal_ones_the_first_in_the_file_come_first(count):
    """Wherever the cut falls among them."""
    words = [f"词{at}" for at in range(60)]
    matrix = (
        np.array([[1, 0, 0]] + [[1, 1, at % 2] for at in range(59)], np.float32)
        * np.arange(1, 61)[:, None]
    )
    expected = [word for at, word in enumerate(words[1:]) if at % 2 == 0] + [
        word for at, word in enumerate(words[1:]) if at % 2
    ]
    found = Neighbours(Vectors(tuple(words), matrix.astype(np.float32)))(words[0], count)
    assert [row.word for row in found] == expected[:count]


@pytest.mark.parametrize("size", [1e-40, 1e-30, 3e38])
def test_very_large_and_very_small_values(size):
    """Without a warning, which would be an error here."""
    matrix = np.array([[size, size], [size, size], [size, -size], [1, 0]], np.float32)
    found = Neighbours(Vectors(("甲", "乙", "丙", "丁"), matrix))("甲")
    assert [(row.word, row.cosine) for row in found] == [
        ("乙", 1),
        ("丁", pytest.approx(0.5**0.5)),
        ("丙", 0),
    ]


def test_a_word_is_found_as_the_tagger_sees_it():
    near = Neighbours(random_vectors())
    assert near("ＡＢ") == near("AB")
    assert near("７") == near("0")


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("桥", "similar words are 长江大桥, 大桥"),
        ("长江大桥上", "similar words are 长江大桥, 大桥, 长江, 江"),
        ("南X京", "similar words are 南京"),
        ("水", "nothing in the file resembles it"),
        ("", "nothing in the file resembles it"),
    ],
)
def test_a_word_that_is_not_there(word, advice):
    with pytest.raises(InputError, match=f"there is no vector of '{word}'; {advice}"):
        Neighbours(random_vectors())(word)


def test_a_word_in_a_file_of_characters():
    with pytest.raises(InputError, match="'长江': the file has single characters"):
        Neighbours(random_vectors("长江"))("长江")
