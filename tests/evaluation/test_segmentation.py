"""Segmentation scores against the diff program, a plain table of common words, and counts
by hand.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hanlattice.data.formats.segmented import from_words
from hanlattice.errors import InputError
from hanlattice.evaluation import ner
from hanlattice.evaluation.ner import Score
from hanlattice.evaluation.segmentation import (
    Recall,
    SegmentationReport,
    cut,
    longest_common,
    matched,
    score_segmentation,
    words_in,
)
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from tests.helpers.strategies import any_character, shares_folder

needs_diff = pytest.mark.skipif(
    shutil.which("diff") is None, reason="the diff program is not installed"
)


def spans(*edges: int) -> list[Span]:
    """Words from each edge to the next."""
    return [Span(start, end, "WORD") for start, end in pairwise(edges)]


def scored(gold: list[str], found: list[str], known: list[str] | None = None) -> SegmentationReport:
    """Of sentences whose words are separated by a space."""
    ours, theirs = ([from_words(line.split()) for line in lines] for lines in (gold, found))
    texts = [sentence.text for sentence in ours]
    assert texts == [sentence.text for sentence in theirs]
    return score_segmentation(
        texts, [s.spans or () for s in ours], [s.spans or () for s in theirs], known
    )


@st.composite
def two_cuts(draw: st.DrawFn, alphabet: str = "ab", most: int = 30) -> tuple[list[str], list[str]]:
    """One string cut into words twice."""
    text = draw(st.text(alphabet, min_size=1, max_size=most))
    inner = st.lists(st.booleans(), min_size=len(text) - 1, max_size=len(text) - 1)
    both = []
    for _ in range(2):
        edges = [0, *(at for at, here in enumerate(draw(inner), start=1) if here), len(text)]
        both.append([text[start:end] for start, end in pairwise(edges)])
    return both[0], both[1]


def random_cuts(length: int, letters: str, seed: int) -> tuple[list[str], list[str]]:
    """A long string cut twice: the first letters are frequent, and one of the two may have most of
    its words short.
    """
    rng = random.Random(seed)
    text = "".join(
        rng.choices(letters, weights=[1 / (at + 1) for at in range(len(letters))], k=length)
    )
    both = []
    for _ in range(2):
        share = rng.choice([0.2, 0.5, 0.8, 1.0])
        edges = [0, *(at for at in range(1, length) if rng.random() < share), length]
        both.append([text[start:end] for start, end in pairwise(edges)])
    return both[0], both[1]


# ---- which words are the same


def common_words(left: list[str], right: list[str]) -> int:
    """The length of a longest common subsequence, by the table."""
    above = [0] * (len(right) + 1)
    for a in left:
        row = [0]
        for j, b in enumerate(right):
            row.append(above[j] + 1 if a == b else max(row[j], above[j + 1]))
        above = row
    return above[-1]


def check_pairs(pairs: list[tuple[int, int]], left: list[str], right: list[str]) -> None:
    assert all(left[a] == right[b] for a, b in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))


@given(
    st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12)
)
def test_a_longest_common_subsequence(left: list[str], right: list[str]) -> None:
    pairs = longest_common(left, right)
    check_pairs(pairs, left, right)
    assert len(pairs) == common_words(left, right)


# A frequent word, a, in a run of words that the other side lacks: three of twelve, and three of
# eleven.
QUARTER = ("l m n a o a p a q r s t", "1 a a a a a a 2")
MORE_THAN_A_QUARTER = ("l m n a o a p a q r s", "1 a a a a a a 2")


def by_diff(folder: Path, left: list[str], right: list[str], *options: str) -> int:
    """How many lines the program shows on both sides."""
    for name, words in (("left", left), ("right", right)):
        (folder / name).write_text("".join(f"{word}\n" for word in words), "utf-8")
    formats = ("--unchanged-line-format=x", "--old-line-format=", "--new-line-format=")
    command = ["diff", *options, *formats, str(folder / "left"), str(folder / "right")]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return len(done.stdout)


@needs_diff
@shares_folder
@given(pair=two_cuts())
@example(pair=tuple(side.split() for side in QUARTER))
@example(pair=tuple(side.split() for side in MORE_THAN_A_QUARTER))
def test_as_many_words_as_diff_finds(tmp_path: Path, pair: tuple[list[str], list[str]]) -> None:
    pairs = matched(*pair)
    check_pairs(pairs, *pair)
    assert len(pairs) == by_diff(tmp_path, *pair)


@needs_diff
@pytest.mark.parametrize("letters", ["ab", "abcdef", "abcdefghijklmnopqrstuvwxyzABCD"])
@pytest.mark.parametrize("length", [60, 300, 1500])
def test_long_sentences_in_which_diff_does_not_find_all(
    tmp_path: Path, length: int, letters: str
) -> None:
    fewer = 0
    for seed in range(5):
        left, right = random_cuts(length, letters, seed)
        pairs = matched(left, right)
        check_pairs(pairs, left, right)
        assert len(pairs) == by_diff(tmp_path, left, right)
        every = longest_common(left, right)
        assert len(every) == by_diff(tmp_path, left, right, "--minimal")
        fewer += len(pairs) < len(every)
    assert fewer or length < 300, "nothing was left out: another length would say more"


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ("", "", []),
        ("a", "", []),
        ("", "a", []),
        ("a b c", "a b c", [(0, 0), (1, 1), (2, 2)]),
        ("a ab b", "a a b b", [(0, 0), (2, 3)]),
        (
            "a b ba",
            "ab b a",
            [(1, 1)],
        ),  # a might be matched as well: b is the earlier one of the right
        ("b a", "a b a", [(0, 1), (1, 2)]),
        ("x a a y", "p a q", [(1, 1)]),  # the earlier of the left
        (*QUARTER, []),
        (*MORE_THAN_A_QUARTER, [(3, 1), (5, 2), (7, 3)]),
    ],
)
def test_which_words(left: str, right: str, pairs: list[tuple[int, int]]) -> None:
    assert matched(left.split(), right.split()) == pairs


# ---- the counts


def test_by_hand() -> None:
    gold = ["江泽民 主席 在 北京 讲话", "江泽民 主席 到 上海"]
    found = ["江 泽民 主席 在 北京 讲 话", "江泽民主席 到 上海"]
    report = scored(gold, found, known=["主席", "在", "到", "北京", "江"])
    assert report.bakeoff == report.spans == Score(9, 10, 5)
    assert report.oov == Recall(4, 1)  # 江泽民 twice, 讲话, 上海
    assert report.iv == Recall(5, 4)
    assert report.oov_rate == 4 / 9
    assert report.boundaries == Score(4 + 3, 6 + 2, 4 + 2)
    assert report.by_length == {
        "1": Score(2, 5, 2),
        "2": Score(5, 4, 3),
        "3": Score(2, 0, 0),
        "4": Score(0, 0, 0),
        "5+": Score(0, 1, 0),
    }


def test_the_bakeoff_counts_words_and_not_places() -> None:
    report = scored(["aa a b"], ["a aa b"])
    assert report.spans == Score(3, 3, 1)
    assert report.bakeoff == Score(3, 3, 2)


@given(st.lists(two_cuts("abc", 12), max_size=4), st.sets(st.text("abc", max_size=3)))
def test_all_counts_hang_together(
    drawn: list[tuple[list[str], list[str]]], known: set[str]
) -> None:
    report = scored([" ".join(a) for a, _ in drawn], [" ".join(b) for _, b in drawn], list(known))
    words = [word for a, _ in drawn for word in a]
    assert report.bakeoff.gold == report.spans.gold == len(words)
    assert report.bakeoff.predicted == report.spans.predicted == sum(len(b) for _, b in drawn)
    assert report.bakeoff.correct == sum(len(matched(*pair)) for pair in drawn)
    assert report.oov
    assert report.iv
    assert report.oov.gold == sum(word not in known for word in words)
    assert report.oov.gold + report.iv.gold == report.bakeoff.gold
    assert report.oov.correct + report.iv.correct == report.bakeoff.correct
    for column in ("gold", "predicted", "correct"):
        by_length = sum(getattr(score, column) for score in report.by_length.values())
        assert by_length == getattr(report.spans, column)
    assert sum(each.missed for each in report.worst) == report.spans.gold - report.spans.correct
    assert all(
        each.missed == sum(other.count for other in each.instead) <= each.count
        for each in report.worst
    )
    assert {each.word: each.count for each in report.worst}.items() <= Counter(words).items()
    for a, b in drawn:
        ours, theirs = ({sum(map(len, row[:at])) for at in range(1, len(row))} for row in (a, b))
        one = scored([" ".join(a)], [" ".join(b)])
        assert one.boundaries == Score(len(ours), len(theirs), len(ours & theirs))
        gold, found = (from_words(row).spans or () for row in (a, b))
        assert one.spans == ner.score([gold], [found]).overall


def test_what_is_not_known_is_none() -> None:
    nothing = score_segmentation([], [], [], ["a"])
    assert nothing.bakeoff == nothing.spans == nothing.boundaries == Score(0, 0, 0)
    assert (nothing.oov, nothing.oov_rate, nothing.worst) == (Recall(0, 0), None, ())
    assert Recall(0, 0).recall is None
    unknown = scored(["a b"], ["ab"])
    assert (unknown.oov, unknown.iv, unknown.oov_rate) == (None, None, None)
    assert {each.known for each in unknown.worst} == {None}
    none_known = scored(["a b"], ["ab"], [])
    assert none_known.oov == Recall(2, 0)
    assert none_known.iv == Recall(0, 0)


def test_known_words_have_any_width() -> None:
    report = scored(["１９９８年 ABC Ｘ"], ["１９９８年 ABC Ｘ"], ["1998年", "ＡＢＣ"])
    assert report.oov == Recall(1, 1)
    assert report.iv == Recall(2, 2)
    given_words = [("１９９８年 ABC", ["1998年", "ABC"]), ("1998年", ["１９９８年"])]
    for line, known in given_words:
        (sentence,) = [from_words(line.split())]
        spans = [sentence.spans or ()]
        strict = score_segmentation([sentence.text], spans, spans, known, as_written=True)
        assert strict.oov == Recall(1, 1)
    # but as diff compares them, two widths are two words
    assert scored(["1 １１"], ["1１ １"]).bakeoff.correct == 0


def test_the_worst_words() -> None:
    gold = ["江泽民 主席"] * 3 + ["江泽民 来"] * 2 + ["主席 来"]
    found = ["江 泽民 主席"] * 2 + ["江泽民主席", "江 泽民来", "江 泽民 来", "主席 来"]
    report = scored(gold, found, ["主席", "来"])
    first, second, third = report.worst
    assert (first.word, first.count, first.missed, first.known) == ("江泽民", 5, 5, False)
    assert [(each.words, each.count) for each in first.instead] == [
        (("江", "泽民"), 3),
        (("江", "泽民来"), 1),
        (("江泽民主席",), 1),
    ]
    assert (second.word, second.count, second.missed, second.known) == ("来", 3, 1, True)
    assert (third.word, third.count, third.missed) == ("主席", 4, 1)
    assert json.loads(json.dumps(report.as_dict()))["worst"][0] == {
        "word": "江泽民",
        "count": 5,
        "missed": 5,
        "known": False,
        "instead": [
            {"words": ["江", "泽民"], "count": 3},
            {"words": ["江", "泽民来"], "count": 1},
            {"words": ["江泽民主席"], "count": 1},
        ],
    }


def test_as_json() -> None:
    report = scored(["江泽民 来"], ["江 泽民 来"], ["来"])
    found = json.loads(json.dumps(report.as_dict()))
    assert found["bakeoff"] == report.bakeoff.as_dict()
    assert found["oov"] == {"recall": 0.0, "gold": 1, "correct": 0, "rate": 0.5}
    assert found["iv"] == {"recall": 1.0, "gold": 1, "correct": 1}
    assert found["by_length"]["3"]["gold"] == 1
    assert [each["word"] for each in found["worst"]] == ["江泽民"]
    assert report.as_dict(words=0)["worst"] == []
    assert scored(["a"], ["a"]).as_dict()["oov"] is None


# ---- words and white space


def test_white_space_is_no_part_of_a_word() -> None:
    text = " 我们\u3000去\xa0北京 "
    gold = [Span(1, 3, "WORD"), Span(4, 5, "WORD"), Span(6, 8, "WORD")]
    wide = [Span(0, 4, "WORD"), Span(4, 6, "WORD"), Span(6, 8, "WORD"), Span(8, 9, "WORD")]
    assert cut(text, gold).words == cut(text, wide).words == ["我们", "去", "北京"]
    report = score_segmentation([text], [gold], [wide], ["我们", "去", "北\xa0京"])
    assert report.spans == Score(3, 3, 3)
    assert report.iv == Recall(3, 3)
    across = [Span(1, 5, "WORD"), Span(6, 8, "WORD")]
    assert cut(text, across).words == ["我们去", "北京"]


@pytest.mark.parametrize(
    ("given_spans", "message"),
    [
        ([], "no word covers character 2 of ' 我们去'"),
        (spans(1, 3), "no word covers character 4"),
        (spans(2, 4), "no word covers character 2"),
        ([Span(1, 3, "WORD"), Span(2, 4, "WORD")], "two words cover character 3"),
        ([Span(1, 4, "WORD"), Span(1, 4, "WORD")], "two words cover character 2"),
        (spans(1, 3, 6), "a word ends at character 6 of ' 我们去', which has 4"),
    ],
)
def test_words_that_do_not_cover_the_text(given_spans: list[Span], message: str) -> None:
    right = spans(1, 3, 4)
    for gold, found, whose in ((given_spans, right, "gold"), (right, given_spans, "found")):
        with pytest.raises(InputError) as caught:
            score_segmentation(["好", " 我们去"], [spans(0, 1), gold], [spans(0, 1), found], None)
        assert str(caught.value).startswith(f"{whose} words of sentence 2: {message}")


@given(st.text(any_character, max_size=12), st.data())
def test_any_text_and_any_spans(text: str, data: st.DataObject) -> None:
    """They are refused, or the words are the text without its white space."""
    edge = st.integers(0, len(text) + 1)
    drawn = data.draw(st.lists(st.tuples(edge, edge), max_size=4))
    some = [Span(min(pair), max(pair), "WORD") for pair in drawn if pair[0] != pair[1]]
    try:
        made = cut(text, some)
    except InputError:
        return
    assert "".join(made.words) == made.text == "".join(text.split())
    assert all(made.words)


def test_sentences_that_are_not_as_many() -> None:
    with pytest.raises(
        ValueError, match="2 texts, 1 gold sentences and 2 predicted sentences cannot be compared"
    ):
        score_segmentation(["a", "b"], [spans(0, 1)], [spans(0, 1)] * 2)


def test_the_words_of_sentences() -> None:
    assert words_in([from_words(["我", "来"]), from_words(["我"]), Sentence("他")]) == {"我", "来"}
