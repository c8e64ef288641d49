"""Dictionary files: what their lines, JSON and CSV say of words, and what is wrong with those that
cannot be read.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.errors import InputError
from hanlattice.text.dictionary import LONGEST_LABELLED, Entry, read_dictionary, read_words
from hanlattice.text.lexicon import Lexicon

INF = math.inf


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("拼多多", "拼多多"),
        ("拼多多\tORG", Entry("拼多多", "ORG")),
        ("拼多多\tORG 20", Entry("拼多多", "ORG", 20.0)),
        (" 拼多多 \tORG\t2.5", Entry("拼多多", "ORG", 2.5)),
        ("拼多多\tORG inf", Entry("拼多多", "ORG", INF)),
        ("奥\tLOC -inf", Entry("奥", "LOC", -INF)),
        ("奥\t-inf", Entry("奥", "", -INF)),
        ("太/贵\t/", Entry("太/贵", "/")),
        ("太/贵", "太/贵"),
        ("长江大桥\t17\tn", "长江大桥"),
        ("长江大桥 17 n", "长江大桥"),
        ("Louis Vuitton\tORG", Entry("Louis Vuitton", "ORG")),
        ("New York", "New York"),
    ],
)
def test_a_line(tmp_path: Path, line: str, wanted: str | Entry) -> None:
    path = tmp_path / "words.txt"
    path.write_text(f"江大\t\n{line}\n\n", "utf-8")
    assert list(read_dictionary(path)) == ["江大", wanted]


def test_json_and_csv(tmp_path: Path) -> None:
    records = [
        {"word": "拼多多", "label": "ORG", "trust": 20},
        {"word": "奥", "trust": "-inf"},
        {"word": "太/贵", "label": "/"},
        {"word": "江大"},
        "喜茶",
    ]
    wanted = [
        Entry("拼多多", "ORG", 20.0),
        Entry("奥", "", -INF),
        Entry("太/贵", "/"),
        "江大",
        "喜茶",
    ]
    (tmp_path / "a.jsonl").write_text("\n\n".join(json.dumps(each) for each in records), "utf-8")
    assert list(read_dictionary(tmp_path / "a.jsonl")) == wanted
    for head in ("word,label,trust\n", ""):
        (tmp_path / "a.csv").write_text(
            head + '拼多多,ORG,20\n奥,,-inf\n"太/贵",/\n\n江大,\n喜茶\n', "utf-8"
        )
        assert list(read_dictionary(tmp_path / "a.csv")) == wanted
    assert list(read_words(tmp_path / "a.csv")) == ["拼多多", "江大", "喜茶"]
    assert Lexicon().load(tmp_path / "a.csv") == 5


@pytest.mark.parametrize(
    ("name", "text", "line", "says"),
    [
        (
            "a.txt",
            "江大\n拼多多\tORG many",
            2,
            "expected a number, inf or -inf after the label, not 'many'",
        ),
        ("a.txt", "拼多多\tORG 2000", 1, "trust must be from -1000 to 1000, inf or -inf"),
        ("a.txt", "太贵\t/", 1, "expected a word with / where it is cut"),
        ("a.txt", "太/\t/", 1, "expected a word with / between its parts"),
        ("a.jsonl", '{"word": "江大"}\n{"word": ', 2, "not JSON"),
        ("a.jsonl", '{"word": "江大", "lable": "ORG"}', 1, "expected word, label and trust"),
        ("a.jsonl", '{"word": "江大", "label": 3}', 1, "a label must be a str"),
        (
            "a.jsonl",
            '{"word": "江大", "label": "A B"}',
            1,
            "a label is one word without white space",
        ),
        ("a.jsonl", '{"word": "江大", "trust": 3}', 1, "needs a label"),
        ("a.csv", "江大,ORG,3,4", 1, "expected word, label and trust"),
        ("a.csv", "江大,ORG,much", 1, "expected a number"),
        ("a.txt", "江大\tORG 20 30", 1, "expected word, label and trust"),
        (
            "a.txt",
            "江大\tORG 1e999",
            1,
            "expected a number, inf or -inf after the label, not '1e999'",
        ),
        ("a.txt", "江大\tORG " + "9" * 5000, 1, "expected a number, inf or -inf after the label"),
        ("a.txt", "江大\t" + "x" * 257, 1, "a label has 257 characters"),
        ("a.jsonl", '\n{"word": "江大", "label": 0}', 2, "a label must be a str, not int"),
        ("a.jsonl", '{"word": "江大", "label": []}', 1, "a label must be a str, not list"),
        ("a.jsonl", '{"word": "江大", "label": "\\ud800"}', 1, "a label has a lone surrogate"),
        ("a.jsonl", '{"word": "江\\ud800"}', 1, "a word has a lone surrogate"),
        ("a.jsonl", '{"word": "江\\n大"}', 1, "a word is one line without a TAB"),
        ("a.jsonl", '"江\\t大"', 1, "a word is one line without a TAB"),
        ("a.jsonl", '{"label": "ORG"}', 1, "there is no word"),
        ("a.jsonl", '{"word": " ", "label": "ORG"}', 1, "there is no word"),
        ("a.jsonl", "{}", 1, "there is no word"),
        (
            "a.jsonl",
            '{"word": "江大", "label": "A", "trust": 1e999}',
            1,
            "trust must be from -1000 to 1000",
        ),
        (
            "a.jsonl",
            '{"word": "江大", "label": "A", "trust": NaN}',
            1,
            "not JSON: NaN is no number in JSON",
        ),
        (
            "a.jsonl",
            '{"word": "江大", "label": "A", "trust": %s}' % ("9" * 400),
            1,
            "trust must be from -1000",
        ),
        (
            "a.jsonl",
            '{"word": "江大", "label": "A", "trust": %s}' % ("9" * 5000),
            1,
            "thousands of digits",
        ),
        (
            "a.jsonl",
            '{"word": "江大", "label": "A", "trust": true}',
            1,
            "trust must be a number, not bool",
        ),
        ("a.jsonl", '{"word": "江大", "word": "大江"}', 1, "the key 'word' comes twice"),
        ("a.jsonl", '{"word": "江大"} {"word": "大江"}', 1, "not JSON"),
        ("a.csv", ",ORG", 1, "there is no word"),
        ("a.csv", '江大,ORG\n"长\n江",LOC', 2, "a word is one line without a TAB"),
        ("a.csv", '江大,ORG\n长江,"LOC', 2, "not CSV: a quote is not closed"),
        ("a.csv", '江大,ORG\n长江,"LOC"x\n', 2, "not CSV: ',' expected after"),
        (
            "a.csv",
            '江大,ORG\n"长江,LOC\n' + "黄河,LOC\n" * 40_000,
            2,
            "not CSV: a quote is not closed",
        ),
        (
            "a.csv",
            "江大," + "x" * 200_000,
            1,
            "a label has 200,000 characters, and 256 are the most",
        ),
        ("a.csv", "江大,ORG\r长江,LOC\n", 1, "not CSV: a carriage return stands alone"),
        (
            "a.csv",
            "label,word\nORG,江大",
            1,
            "the columns are word, label and trust, in this order",
        ),
        ("a.csv", "word,trust\n江大,20", 1, "the columns are word, label and trust, in this order"),
        ("a.csv", "江大,ORG\n长江,20", 2, "expected a label after the word, not the number '20'"),
        ("a.csv", "江大,A\0B", 1, "a label is one word"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, name: str, text: str, line: int, says: str
) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8", newline="")
    with pytest.raises(InputError, match=re.escape(says)) as caught:
        list(read_dictionary(path))
    assert (caught.value.path, caught.value.line) == (path, line)


words = (
    st.text("太贵拼多江大aB-/ ", min_size=1, max_size=5)
    .map(str.strip)
    .filter(lambda word: word and "//" not in word)
)
entries = st.one_of(
    words,
    st.builds(
        Entry,
        words,
        st.sampled_from(["ORG", "品牌"]),
        st.sampled_from([None, 3.0, -2.5, INF, -INF]),
    ),
    st.builds(Entry, words, st.just(""), st.just(-INF)),
    st.lists(st.text("太贵ab", min_size=1, max_size=2), min_size=2, max_size=3).map(
        lambda p: Entry("/".join(p), "/")
    ),
)


@given(st.lists(entries, max_size=8))
def test_a_lexicon_comes_back_from_its_file(
    tmp_path_factory: pytest.TempPathFactory, given_: list[str | Entry]
) -> None:
    path = tmp_path_factory.mktemp("saved") / "words.txt"
    lexicon = Lexicon()
    again = Lexicon()
    lexicon.update(given_)
    lexicon.save(path)
    again.load(path)
    assert list(again) == list(lexicon)
    assert sorted(map(repr, again.rules.entries())) == sorted(map(repr, lexicon.rules.entries()))


def test_what_is_said_of_a_word_can_change() -> None:
    lexicon = Lexicon(["江大"])
    assert lexicon.add("江大", label="ORG")
    assert not lexicon.add("江大", label="ORG")
    assert lexicon.add("江大", label="ORG", trust=3)
    assert lexicon.add("江大", label="LOC")
    assert list(lexicon.rules.entries()) == [Entry("江大", "ORG", 3.0), Entry("江大", "LOC")]
    assert lexicon.add("江大", label="PER", trust=INF)
    assert list(lexicon.rules.entries()) == [Entry("江大", "PER", INF)]
    assert lexicon.forbid("江大")
    assert not lexicon.forbid("江大")
    assert list(lexicon.rules.entries()) == [Entry("江大", "", -INF)]
    assert lexicon.split("江", "大")
    assert list(lexicon.rules.entries()) == [Entry("江/大", "/")]
    assert lexicon.remove("江大")
    assert (list(lexicon.rules.entries()), list(lexicon)) == ([], [])
    assert lexicon.split("太", "贵")
    assert "太贵" not in lexicon
    assert lexicon.remove("太/贵")
    assert not lexicon.remove("太/贵")
    assert not lexicon.add("长" * (LONGEST_LABELLED + 1), label="ORG", trust=-INF)


def test_borrowed_labels_leave_nothing() -> None:
    lexicon = Lexicon(["江大"])
    lexicon.add("江大", label="ORG")
    with lexicon.temporary_words([Entry("喜茶", "BRAND", 5.0), "南湖"], ["江大"]):
        assert list(lexicon.rules.entries()) == [Entry("喜茶", "BRAND", 5.0)]
        assert list(lexicon) == ["喜茶", "南湖"]
    assert (list(lexicon.rules.entries()), list(lexicon), lexicon.rules.labels) == (
        [Entry("江大", "ORG")],
        ["江大"],
        ["ORG"],
    )


@pytest.mark.parametrize(
    ("given_", "error", "says"),
    [
        (("江大", 3), TypeError, "a label must be a str"),
        (("江大", "O R"), ValueError, "a label is one word"),
        (("江大", "ORG", "3"), TypeError, "trust must be a number"),
        (("江大", "ORG", math.nan), ValueError, "trust must be from"),
        (("江大", "", 3), ValueError, "needs a label"),
    ],
)
def test_what_cannot_be_said(given_: tuple, error: type[Exception], says: str) -> None:
    lexicon = Lexicon()
    with pytest.raises(error, match=says):
        lexicon.add(*given_)
    assert (list(lexicon), list(lexicon.rules.entries())) == ([], [])
