"""Lexicon: it finds what a scan finds, in one text and in many; ids stay; every kind of word and
file is handled.
"""

from __future__ import annotations

import copy
import itertools
import pickle
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanlattice.errors import InputError
from hanlattice.predict import LIMIT
from hanlattice.text import trie as growing
from hanlattice.text.contents import Marks
from hanlattice.text.dictionary import read_entries, read_words, write_dictionary
from hanlattice.text.lexicon import LONGEST, Lexicon, merged_matches
from hanlattice.text.normalize import fold
from hanlattice.text.trie import Matches, TableMatcher
from tests.helpers.strategies import any_character, any_text, shares_folder
from tests.text.test_trie import few, scan

small_words = st.lists(st.text(few, max_size=4), max_size=10)
carried = st.text(any_character, max_size=6).filter(
    lambda word: not set("\n\t") & set(word.strip())
)


def bare(text: str) -> str:
    """Folded, and without white space."""
    return "".join(character for character in fold(text) if not character.isspace())


def found_by_scan(lexicon: Lexicon, text: str) -> list[tuple[int, int, str]]:
    words = list(lexicon)
    read = [at for at, character in enumerate(text) if not character.isspace()]
    found = scan([bare(word) for word in words], bare(text))
    return [(read[start], read[end - 1] + 1, words[at]) for start, end, at in found]


@given(small_words, st.text(few, max_size=20))
def test_match_over_a_small_alphabet(words, text):
    lexicon = Lexicon(words)
    assert lexicon.match(text) == found_by_scan(lexicon, text)


@given(st.lists(carried, max_size=8), any_text, st.data())
def test_match_in_any_text(words, text, data):
    lexicon = Lexicon(words)
    text += "".join(data.draw(st.permutations(words)))
    matches = lexicon.match(text)
    assert matches == found_by_scan(lexicon, text)
    assert all(bare(text[start:end]) == bare(word) for start, end, word in matches)


def split(matches: Matches) -> list[list[tuple[int, int, int]]]:
    rows = iter(zip(*(array.tolist() for array in matches[1:]), strict=True))
    found = [[next(rows) for _ in range(count)] for count in matches.counts.tolist()]
    assert not list(rows)
    return found


@given(st.lists(carried, max_size=8), st.lists(any_text, max_size=5), st.data())
def test_many_texts_at_once_or_one_by_one(words, texts, data):
    """With words that were added and taken out since the table was made, and line ends in the
    texts.
    """
    late = data.draw(st.lists(carried, max_size=3))
    gone = data.draw(st.lists(st.sampled_from(["", *words]), max_size=2))
    lexicon = Lexicon(words)
    lexicon.match("")
    lexicon.update(late)
    for word in gone:
        lexicon.remove(word)
    folded = [
        fold(text + "".join(data.draw(st.permutations([*words, *late, "\n"])))) for text in texts
    ]
    assert split(lexicon.match_many(folded)) == [lexicon.match_ids(text) for text in folded]


def test_many_long_texts_at_once():
    """Longer than what is walked through one by one."""
    words = ["南京", "南京市", "市长", "长江", "长江大桥", "大桥"]
    lexicon = Lexicon(words)
    texts = ["南京市长江大桥" * 100, "", "江大", "市长" * 200]
    assert split(lexicon.match_many(texts)) == [lexicon.match_ids(text) for text in texts]
    assert [len(row) for row in split(lexicon.match_many(texts))] == [600, 0, 0, 200]


def test_the_bridge():
    """By start and then by end, whatever the order of arrival."""
    words = ["南京", "南京市", "市长", "长江", "长江大桥", "大桥"]
    matches = Lexicon(reversed(words)).match("南京市长江大桥")
    assert [word for _, _, word in matches] == words
    assert matches[2] == (2, 4, "市长")


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "match"]),
        # White space inside a word does not count, so `a a` would be the word `aa`.
        st.text(few, min_size=1, max_size=3).filter(lambda word: len(word.split()) < 2),
    ),
    max_size=25,
)


@given(small_words, steps)
def test_every_change_shows_in_the_next_match(words, changes):
    """Against a dict that holds the words in their order of arrival."""
    lexicon = Lexicon(words)
    ids: dict[str, int] = {}
    there: set[str] = set()

    def add(word: str) -> bool:
        key = fold(word.strip())
        if len(key) < 2 or key in there:
            return False
        ids.setdefault(key, len(ids))
        there.add(key)
        return True

    for word in words:
        add(word)
    for what, word in changes:
        key = fold(word.strip())
        if what == "add":
            assert lexicon.add(word) == add(word)
        elif what == "remove":
            assert lexicon.remove(word) == (key in there)
            there.discard(key)
        else:
            expected = [
                match for match in scan(list(ids), fold(word * 3)) if list(ids)[match[2]] in there
            ]
            assert lexicon.match_ids(fold(word * 3)) == expected
        assert (word in lexicon, lexicon.id(word)) == (
            key in there,
            ids.get(key) if key in there else None,
        )
        assert len(lexicon) == len(list(lexicon)) == len(there)
        assert [fold(each) for each in lexicon.words] == list(ids)


def test_many_additions_one_by_one():
    """More of them than a small table has."""
    lexicon = Lexicon(["基础"])
    assert lexicon.match("基础w0w") == [(0, 2, "基础")]
    new = [f"w{number}w" for number in range(1002)]
    for word in new[:1000]:
        lexicon.add(word)
    assert lexicon.match_ids("w0w w999w") == [(0, 3, 1), (4, 9, 1000)]
    lexicon.remove("w5w")
    lexicon.update(new[1000:])
    assert lexicon.match_ids("w0w w5w w1001w 基础") == [(0, 3, 1), (8, 14, 1002), (15, 17, 0)]
    assert [lexicon.id(word) for word in new[:3]] == [1, 2, 3]
    assert lexicon.add("w5w")
    assert lexicon.match_ids("w5w") == [(0, 3, 6)]


@given(st.lists(st.tuples(st.lists(st.integers(0, 40), max_size=5), st.booleans()), max_size=12))
def test_marks_are_a_set(changes):
    marks = Marks()
    there = set()
    every = np.arange(90)
    for ids, marked in changes:
        marks.put(np.array(ids, dtype=np.int64), marked)
        there = there | set(ids) if marked else there - set(ids)
        assert marks.of(every).tolist() == [at in there for at in range(90)]
        assert [at for at in range(90) if at in marks] == sorted(there)
        assert marks.count == len(there)
    assert marks.of(every[:0]).tolist() == []


def test_a_word_named_twice_comes_back_once():
    lexicon = Lexicon(["南京", "长江"])
    lexicon.remove("南京")
    assert lexicon.add_many(["南京", "大桥", "南京", "大桥", "京", "长江"]) == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert list(lexicon) == ["南京", "长江", "大桥"]


def test_folded_words_stand_in_the_order_of_their_ids():
    lexicon = Lexicon(["ＡＢ", "长江", "AB", "Ｃ", "长江大桥"])
    lexicon.remove("长江")
    assert lexicon.folded() == ["AB", "长江", "长江大桥"]
    assert (lexicon.folded(1), lexicon.folded(3)) == (["长江", "长江大桥"], [])


def test_white_space_inside_a_word_does_not_matter():
    lexicon = Lexicon(["New York", "长江 大桥"])
    assert [lexicon.id(word) for word in ("NewYork", "New\u3000York ", "长江大桥")] == [0, 0, 1]
    assert lexicon.words == ["New York", "长江 大桥"]
    assert not lexicon.add("长 江大桥")
    assert lexicon.match(" 在New  York的长江大桥") == [(2, 11, "New York"), (12, 16, "长江 大桥")]
    assert lexicon.add_many(["", "a b", "ab", "a", "b a"]) == [False, True, False, False, True]


@pytest.mark.parametrize("word", ["", " ", "\u3000\t\n", "中", " 中 ", "\n中", "𠀀", "\ud800"])
def test_words_of_fewer_than_two_characters_are_passed_over(word):
    lexicon = Lexicon()
    assert not lexicon.add(word)
    assert (len(lexicon), lexicon.words, word in lexicon, lexicon.match(word * 3)) == (
        0,
        [],
        False,
        [],
    )
    assert lexicon.id(word) is None
    assert not lexicon.remove(word)


def test_widths_are_one_word_in_the_first_spelling():
    lexicon = Lexicon(["ＡＢ", "AB", " ab ", "Å\u212b"])
    assert list(lexicon) == ["ＡＢ", "ab", "Å\u212b"]
    assert "AB" in lexicon
    assert lexicon.id("AB") == lexicon.id(" ＡＢ\u3000") == 0
    assert lexicon.match("xABＡＢab") == [(1, 3, "ＡＢ"), (3, 5, "ＡＢ"), (5, 7, "ab")]
    assert lexicon.remove("AB")
    assert lexicon.match("ＡＢ") == []


@pytest.mark.parametrize("word", ["a\nb", "a\tb", "中\r\n文"])
def test_words_that_no_line_can_carry(word):
    lexicon = Lexicon(["ok"])
    with pytest.raises(InputError, match="is one line without a TAB"):
        lexicon.add(word)
    assert lexicon.words == ["ok"]


def test_one_wrong_word_leaves_all_out():
    lexicon = Lexicon(["ok"])
    with pytest.raises(InputError, match=r"a TAB: 'c\\td'"):
        lexicon.update(["ab", "c\td", "ef"])
    assert lexicon.words == ["ok"]


@given(small_words, small_words)
def test_many_at_once_or_one_by_one(words, more):
    one = Lexicon(words)
    many = Lexicon(words)
    one.remove("ab")
    many.remove("ab")
    assert many.add_many(more) == [one.add(word) for word in more]
    assert (many.words, list(many)) == (one.words, list(one))


def test_words_of_up_to_so_many_characters():
    """Longer ones stand in no piece of text that a tagger reads, and would cost minutes to match."""
    assert LIMIT <= LONGEST
    longest = fold("".join(map(chr, range(0x4E00, 0x4E00 + LONGEST))))
    lexicon = Lexicon(["甲。"])
    assert lexicon.match("x甲。") == [(1, 3, "甲。")]
    long = [longest + "甲", "甲" * 200_000, "".join(map(chr, range(0x4E00, 0x9E00)))]
    assert lexicon.add_many([long[0], f" {longest} ", *long[1:]]) == [False, True, False, False]
    assert lexicon.match_ids("甲。" + longest) == [(0, 2, 0), (2, 2 + LONGEST, 1)]
    assert Lexicon([longest]).match_ids("x" + longest + "甲") == [(1, 1 + LONGEST, 0)]
    for word in long:
        assert (lexicon.add(word), word in lexicon, lexicon.remove(word)) == (False, False, False)
        assert lexicon.match(word[-40:]) == []


@pytest.mark.parametrize("word", [None, 3, b"ab", ["ab"]])
def test_what_is_no_word_is_named(word):
    lexicon = Lexicon(["ok"])
    for call in (
        lexicon.add,
        lexicon.remove,
        lexicon.id,
        lexicon.__contains__,
        lambda w: lexicon.update(["ab", w]),
    ):
        with pytest.raises(
            TypeError, match=re.escape(f"a word must be a str, not {type(word).__name__}: {word!r}")
        ):
            call(word)
    assert lexicon.words == ["ok"]


@pytest.mark.parametrize("text", [None, 3, b"ab", ["ab"]])
def test_what_is_no_text_is_named(text):
    with pytest.raises(
        TypeError, match=re.escape(f"a text must be a str, not {type(text).__name__}: {text!r}")
    ):
        Lexicon(["ok"]).match(text)


def test_it_shows_how_many_words_it_has():
    lexicon = Lexicon(f"词{number}" for number in range(1234))
    lexicon.remove("词0")
    assert [repr(each) for each in (lexicon, Lexicon(["长江"]), Lexicon())] == [
        "<Lexicon: 1,233 words>",
        "<Lexicon: 1 word>",
        "<Lexicon: 0 words>",
    ]


def test_one_text_is_no_list_of_words():
    lexicon = Lexicon()
    for call in (lexicon.update, lexicon.add_many, Lexicon):
        with pytest.raises(
            TypeError, match=r"words must be a list of them, such as \['北京上海'\], not one str"
        ):
            call("北京上海")
    assert lexicon.words == []


# ---- threads


@pytest.mark.parametrize("first", [["基础"], [], [f"w{number}w" for number in range(1500)]])
def test_a_word_that_joins_while_a_table_is_made_is_found_by_the_next_match(first, monkeypatch):
    """In the first table, in one beside it, and in one that takes others in; words join while each
    is made.
    """
    joining = (f"词{number}" for number in itertools.count())

    class Slow(TableMatcher):
        def __init__(self, patterns: Sequence[str]) -> None:
            lexicon.add(next(joining))
            super().__init__(patterns)
            lexicon.update([next(joining), next(joining)])

    lexicon = Lexicon(first)
    monkeypatch.setattr(growing, "TableMatcher", Slow)
    for _ in range(4):
        words = list(lexicon)
        text = fold(" ".join(words[-20:]))
        there = {word for _, _, word in lexicon.match(text)}
        assert set(words[-20:]) <= there
        assert len(lexicon) == len(words) + 3
    monkeypatch.undo()
    assert {word for _, _, word in lexicon.match(" ".join(lexicon))} == set(lexicon)


def test_threads_that_add_give_each_word_one_id():
    """Whatever the order: ids are those of `folded`, and each word is there."""
    lexicon = Lexicon(["基础"])
    lists = [[f"词{n}号{k}" for k in range(150)] for n in range(4)]
    start = threading.Barrier(4)

    def work(words: list[str]) -> None:
        start.wait()
        for word in words:
            lexicon.add(word)
            assert lexicon.match(word)[-1][2] == word

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, lists))
    assert lexicon.words == lexicon.folded()
    assert set(lexicon) == {"基础", *itertools.chain(*lists)}
    assert [lexicon.id(word) for word in lexicon.words] == list(range(601))


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda lexicon: pickle.loads(pickle.dumps(lexicon))]
)
def test_a_copy_goes_its_own_way(copied):
    lexicon = Lexicon(["南京", "长江"])
    lexicon.match("南京")
    lexicon.mark_baseline()
    lexicon.remove("长江")
    other = copied(lexicon)
    assert other.update(["大桥", "长江"]) == 2
    assert [word for _, _, word in other.match("南京长江大桥")] == ["南京", "长江", "大桥"]
    assert [word for _, _, word in lexicon.match("南京长江大桥")] == ["南京"]


@settings(shares_folder, max_examples=20)
@given(st.lists(carried | st.from_regex(r"[ab] +[0-9]+( [a-z])?", fullmatch=True), max_size=6))
def test_any_words_come_back_from_a_file(tmp_path, words):
    lexicon = Lexicon(words)
    lexicon.save(tmp_path / "l.txt")
    again = Lexicon()
    assert again.load(tmp_path / "l.txt") == len(lexicon)
    assert again.words == lexicon.words


@pytest.mark.parametrize(
    "word",
    ["\ufeffab", "\ufeff\ufeff", "a\ud800", "a 12", "a 12 n", "x\ry", "中\u2028文", "a\0b", "\\n"],
)
def test_odd_words_come_back_from_a_file(tmp_path, word):
    lexicon = Lexicon([word])
    lexicon.save(tmp_path / "l.txt")
    again = Lexicon()
    again.load(tmp_path / "l.txt")
    assert (list(again), len(again)) == (list(lexicon), 1)
    assert again.match(f"《{word}》") == lexicon.match(f"《{word}》") != []


def test_what_was_removed_is_not_saved(tmp_path):
    lexicon = Lexicon(["一二", "三四", "五六"])
    lexicon.remove("三四")
    lexicon.save(tmp_path / "l.txt")
    assert (tmp_path / "l.txt").read_text() == "一二\n五六\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("长江\n大桥\n", ["长江", "大桥"]),
        ("\ufeff长江\r\n\r\n \n 大桥 ", ["长江", "大桥"]),
        ("长江\t3\tns\n大桥\t\nnew york\tx 1\n", ["长江", "大桥", "new york"]),
        ("长江 35 ns\n大桥 7\nnew york 12 nz\n", ["长江", "大桥", "new york"]),
        ("长江 ns\n12 34\n1998\n", ["长江 ns", "12", "1998"]),
        ("\t3\n 5\n", ["5"]),
        ("  5\n  6 n\n", ["5", "6 n"]),
        ("a" + " " * 100_000 + "b\n", ["a" + " " * 100_000 + "b"]),
        ("", []),
    ],
)
def test_plain_tab_and_jieba_files(tmp_path, body, words):
    path = tmp_path / "l.txt"
    path.write_bytes(body.encode())
    assert list(read_words(path)) == words


def test_loading_counts_what_is_new(tmp_path):
    (tmp_path / "l.txt").write_text("长江\n大桥\n桥\n长江\n", encoding="utf-8")
    lexicon = Lexicon(["大桥"])
    assert lexicon.match("长江大桥") == [(2, 4, "大桥")]
    assert lexicon.load(tmp_path / "l.txt") == 1
    assert lexicon.match("长江大桥") == [(0, 2, "长江"), (2, 4, "大桥")]
    with pytest.raises(InputError, match="there is no such file"):
        lexicon.load(tmp_path / "none.txt")


# ---- two lexicons


def matches_of(rows: list[list[tuple[int, int, int]]]) -> Matches:
    flat = np.array([match for row in rows for match in row], dtype=np.int64).reshape(-1, 3)
    return Matches(np.array([len(row) for row in rows], dtype=np.int64), *flat.T)


some_matches = st.lists(
    st.tuples(st.integers(0, 3), st.integers(4, 6), st.integers(0, 9)), max_size=6
)
in_order = some_matches.map(lambda row: sorted(row, key=lambda match: match[:2]))


@given(st.lists(st.tuples(in_order, in_order), max_size=5))
def test_the_matches_of_two_lexicons_stand_in_order_and_the_left_ones_first(
    pairs: list[tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]],
) -> None:
    expected = []
    for left, right in pairs:
        row = [*left]
        for match in right:  # after all that are not greater
            at = sum(other[:2] <= match[:2] for other in row)
            row.insert(at, match)
        expected.append(row)
    merged = merged_matches(
        matches_of([left for left, _ in pairs]), matches_of([right for _, right in pairs])
    )
    for found, plain in zip(merged, matches_of(expected), strict=True):
        assert found.tolist() == plain.tolist()
        assert found.dtype == np.int64


@given(st.lists(in_order, max_size=4))
def test_a_lexicon_without_matches_adds_none(rows: list[list[tuple[int, int, int]]]) -> None:
    some = matches_of(rows)
    nothing = matches_of([[] for _ in rows])
    for merged in (merged_matches(some, nothing), merged_matches(nothing, some)):
        assert [array.tolist() for array in merged] == [array.tolist() for array in some]


short = st.text(few, max_size=6).map(fold)


@given(st.lists(short, max_size=8), st.lists(short, max_size=8), st.lists(short, max_size=4))
def test_two_lexicons_together_match_what_each_matches(
    some: list[str], more: list[str], texts: list[str]
) -> None:
    left = Lexicon(some)
    right = Lexicon(more)
    merged = merged_matches(left.match_many(texts), right.match_many(texts))
    rows = iter(zip(*(array.tolist() for array in merged[1:]), strict=True))
    for text, count in zip(texts, merged.counts.tolist(), strict=True):
        found = [next(rows) for _ in range(count)]
        assert sorted(found) == sorted(left.match_ids(text) + right.match_ids(text))
        assert [match[:2] for match in found] == sorted(match[:2] for match in found)


def test_lines_that_end_with_cr_alone(tmp_path):
    """As in some old lists; a CR beside line feeds is a character like others."""
    path = tmp_path / "old.txt"
    path.write_bytes("\ufeff南京市\t12\r长江 3 ns\r大桥".encode())
    assert list(read_words(path)) == ["南京市", "长江", "大桥"]
    assert list(read_entries(path)) == [("南京市", 12), ("长江", 3), ("大桥", 1)]


@given(st.lists(st.text(alphabet="甲乙丙", max_size=4), max_size=12), st.booleans())
def test_many_words_at_once_are_what_one_by_one_gives(words, settled):
    together = Lexicon()
    alone = Lexicon()
    for lexicon in (together, alone) if settled else ():
        lexicon.mark_baseline()
    assert together.add_many(words) == [alone.add(word) for word in words]
    assert together.words == alone.words
    assert together.folded() == alone.folded()
    ids = np.arange(len(alone.words))
    assert (
        together.is_user_word(ids).tolist()
        == alone.is_user_word(ids).tolist()
        == [settled] * len(ids)
    )


def test_traditional_and_simplified_spellings_are_one_word():
    lexicon = Lexicon(["台湾大学"])
    assert not lexicon.add("臺灣大學")
    assert lexicon.add("醫學院")
    assert ("台灣大學" in lexicon, "医学院" in lexicon, lexicon.id("医学院")) == (True, True, 1)
    assert lexicon.match("在臺灣大學醫學院") == [(1, 5, "台湾大学"), (5, 8, "醫學院")]
    assert lexicon.match("在台湾大学医学院") == lexicon.match("在臺灣大學醫學院")


@shares_folder
@given(st.lists(st.text(st.sampled_from("台臺灣湾学學 ａa"), max_size=4), max_size=12))
def test_a_file_of_words_is_what_the_same_words_in_memory_are(tmp_path, words):
    words = [word.strip() for word in words]
    path = tmp_path / "lexicon.txt"
    write_dictionary(path, words)
    loaded = Lexicon()
    given = Lexicon(words)
    assert loaded.load(path) == loaded.size
    assert (loaded.words, loaded.folded()) == (given.words, given.folded())
    for word in given:
        assert loaded.id(word) == given.id(word)
        assert loaded.match_ids(bare(word)) == given.match_ids(bare(word))


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_what_fails_as_it_grows_is_done_again(error: type[BaseException]) -> None:
    """Ctrl-C while vectors of new words are made: the next text asks for them once more."""
    lexicon = Lexicon(["南京"])
    asked = list[int]()

    def fail_once(grown: Lexicon) -> None:
        asked.append(len(grown))
        if len(asked) == 2:
            raise error

    lexicon.vocabulary = mock.Mock(grow=fail_once)
    assert len(lexicon.match("南京市长江")) == 1
    lexicon.add("长江")
    with pytest.raises(error):
        lexicon.match("南京市长江")
    assert len(lexicon.match("南京市长江")) == 2
    lexicon.match("南京市长江")
    assert asked == [1, 2, 2]


def test_a_file_with_a_word_of_one_character(tmp_path):
    (tmp_path / "lexicon.txt").write_text("南\t3\n南京\n", "utf-8")
    lexicon = Lexicon()
    lexicon.load(tmp_path / "lexicon.txt")
    assert list(lexicon) == ["南京"]
    assert list(lexicon.match_ids("南京市")) == [(0, 2, 0)]
