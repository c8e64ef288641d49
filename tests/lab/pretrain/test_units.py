"""Units of text: nothing but white space is lost, each kind is cut as documented, and a pass loses
nothing.
"""

from __future__ import annotations

import contextlib
import math
from itertools import pairwise, product
from unittest import mock

import pytest
import rjieba
from hypothesis import given
from hypothesis import strategies as st

from hanlattice import Span
from hanlattice.data.formats.raw import RawText
from hanlattice.data.formats.segmented import write_segmented
from hanlattice.errors import InputError
from hanlattice.events import ignore
from hanlattice.lab.pretrain import units as units_module
from hanlattice.lab.pretrain.units import (
    BestPath,
    CharacterUnits,
    JiebaWords,
    LexiconWords,
    ModelWords,
    Unit,
    UnitLists,
    make_units,
    read_frequencies,
    split_line,
)
from hanlattice.lab.pretrain.vectors import VectorSettings, VectorSource, train_vectors
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import fold, fold_digits
from hanlattice.text.vectors import read_vectors
from hanlattice.text.vocab import END
from hanlattice.training.loop import train
from tests.helpers.made import made_config, sentences
from tests.helpers.raw_text import write_text
from tests.helpers.strategies import any_text, shares_folder


def bare(text: str) -> str:
    return "".join(character for character in text if not character.isspace())


@given(lines=st.lists(any_text))
def test_characters_are_those_of_the_embedding(lines):
    found = list(CharacterUnits()(lines))
    assert found == [[c for c in map(fold_digits, line) if not c.isspace()] for line in lines]


@given(line=any_text)
def test_a_bigram_is_a_character_and_the_next(line):
    """A plain loop over the folded text, in which white space stands for the end."""
    plain = fold_digits(line)
    expected = []
    for here, following in pairwise([*plain, " "]):
        if not here.isspace():
            expected.append(here + (END if following.isspace() else following))
    assert list(make_units(Unit.bichar)([line])) == [expected]


def test_bigrams_by_hand():
    assert list(make_units(Unit.bichar)(["长江 １号"])) == [["长江", f"江{END}", "0号", f"号{END}"]]


@given(line=any_text)
def test_jieba_loses_nothing_but_white_space(line):
    (words,) = JiebaWords()([line])
    assert "".join(words) == bare(fold(line))
    assert not any(character.isspace() for word in words for character in word)


def test_jieba_words_are_rjiebas():
    assert list(JiebaWords()(["我们去南京市长江大桥，Ｏｋ"])) == [
        rjieba.cut("我们去南京市长江大桥,Ok")
    ]


# ---- a lexicon's words


def every_cut(text: str) -> list[list[str]]:
    cuts = product([False, True], repeat=max(0, len(text) - 1))
    out = []
    for cut in cuts:
        words = [text[:1]]
        for is_new, character in zip(cut, text[1:], strict=True):
            words = [*words, character] if is_new else [*words[:-1], words[-1] + character]
        out.append(words)
    return out


def score(words: list[str], frequencies: dict[str, int]) -> float:
    total = max(2, sum(frequencies.values()))
    if any(len(word) > 1 and word not in frequencies for word in words):
        return -math.inf
    return sum(math.log(frequencies.get(word, 1) / total) for word in words)


few = st.text("长江大桥", min_size=1, max_size=4)


@given(
    text=st.text("长江大桥", min_size=1, max_size=8),
    frequencies=st.dictionaries(few, st.integers(1, 50)),
)
def test_the_best_path_is_the_best_of_all(text, frequencies):
    found = BestPath(frequencies).words(text)
    assert "".join(found) == text
    best = max(score(words, frequencies) for words in every_cut(text))
    assert score(found, frequencies) == pytest.approx(best)


def test_a_frequency_that_is_too_long_to_be_a_number(tmp_path):
    path = tmp_path / "d.txt"
    path.write_text(f"长江\t{'9' * 5000}\n大桥 {'9' * 5000} n\n南京\t7\n", "utf-8")
    assert read_frequencies(path) == {"长江": 1, "大桥": 1, "南京": 7}


def test_frequencies_decide_and_without_them_the_fewest_words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("南京市\n南京\n市长\n长江大桥\n江大桥\n", "utf-8")
    assert list(LexiconWords(path)(["南京市长江大桥"])) == [["南京市", "长江大桥"]]
    path.write_text("南京市\t1\n南京\t900\n市长\t900\n长江大桥\t1\n江大桥\t900\n", "utf-8")
    assert list(LexiconWords(path)(["南京市长江大桥"])) == [["南京", "市长", "江大桥"]]


def test_western_runs_stay_whole(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("he 900 x\nlo 900 x\n用he 5 x\niPhone手机 3 x\n", "utf-8")
    assert list(LexiconWords(path)(["用hello 3.14，iPhone手机"])) == [
        ["用", "hello", "3", ".", "14", ",", "iPhone手机"]
    ]


@shares_folder
@given(line=any_text, words=st.lists(any_text))
def test_a_lexicon_loses_nothing_but_white_space(tmp_path, line, words):
    lexicon = Lexicon(word for word in words if "\n" not in word and "\t" not in word)
    lexicon.add("长江")
    lexicon.save(tmp_path / "words.txt")
    (found,) = LexiconWords(tmp_path / "words.txt")([line])
    assert "".join(found) == bare(fold(line))
    assert not any(character.isspace() for word in found for character in word)


def test_every_form_of_a_lexicon_is_read(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text(
        "\ufeff长江\t12\n大桥 7 n\n南京\n市长\tn\n\nＡＢ 3\nAB\t4\n两 字 5 n\n零\t0\n", "utf-8"
    )
    expected = {"长江": 12, "大桥": 7, "南京": 1, "市长": 1, "AB": 7, "零": 1}
    assert read_frequencies(path) == expected, "a word with a blank in it is left out"
    path.write_text("\n \n", "utf-8")
    with pytest.raises(InputError, match="it contains no word"):
        BestPath.load(path)


# ---- a model's words


@pytest.fixture(scope="module")
def segmenter(made, tmp_path_factory):
    """A model of words, hardly trained."""
    folder = tmp_path_factory.mktemp("segmenter")
    for seed, part in enumerate(("train", "dev", "test")):
        write_segmented(folder / f"{part}.seg", map(as_words, sentences(20, seed)))
    changes = {f"data__{part}": str(folder / f"{part}.seg") for part in ("train", "dev", "test")}
    config = made_config(made, model__encoder="char", model__hidden=4, train__epochs=1, **changes)
    return train(config, folder / "model").folder


def as_words(sentence):
    """Two characters a word, in turn."""
    ends = [*range(2, len(sentence.text), 2), len(sentence.text)]
    spans = [Span(start, end, "WORD") for start, end in pairwise([0, *ends])]
    return type(sentence)(sentence.text, tuple(spans))


def test_a_models_words_cover_the_text(segmenter):
    lines = ["王小明在青石镇工作。", "　", "昨天 １２"]
    found = list(ModelWords(segmenter)(lines))
    assert ["".join(words) for words in found] == [bare(fold(line)) for line in lines]


def test_vectors_of_a_models_words(segmenter, tmp_path):
    raw = write_text(tmp_path)
    settings = VectorSettings(Unit.word, dim=4, epochs=2, min_count=1)
    record = train_vectors(VectorSource((raw,), model=segmenter), tmp_path / "w", settings)
    words = {
        word for line in ModelWords(segmenter)(raw.read_text("utf-8").splitlines()) for word in line
    }
    assert {*read_vectors(tmp_path / "w.bin").words} == words
    assert record["model"] == str(segmenter)


def test_a_model_of_entities_is_refused(char_folder):
    with pytest.raises(InputError, match="its spans are LOC, PER: expected a segmentation model"):
        ModelWords(char_folder)


# ---- what goes with what


@pytest.mark.parametrize(
    ("unit", "lexicon", "model", "why"),
    [
        ("char", "x", None, "--lexicon is for"),
        ("bichar", "x", None, "--lexicon is for"),
        ("char", None, "x", "--model cuts text into words"),
        ("subword", "x", "x", "--model cuts text into words"),
        ("word", "x", "x", "excludes --lexicon"),
        ("subword", None, None, "--unit subword needs --lexicon"),
    ],
)
def test_options_that_do_not_go_together(unit, lexicon, model, why):
    with pytest.raises(InputError, match=why):
        make_units(Unit(unit), lexicon, model)


def test_a_subword_lexicon_without_its_model(tmp_path):
    (tmp_path / "words.txt").write_text("长江\t3\n", "utf-8")
    with pytest.raises(InputError, match=r"words.bpe.json is missing beside it"):
        make_units(Unit.subword, tmp_path / "words.txt")
    (tmp_path / "words.bpe.json").write_text("{}", "utf-8")
    with pytest.raises(InputError, match="not a BPE model"):
        make_units(Unit.subword, tmp_path / "words.txt")


# ---- the lists that word2vec is given


def test_long_lines_are_cut(tmp_path, monkeypatch):
    """word2vec would leave out what comes after so many units."""
    monkeypatch.setattr(units_module, "LONGEST_LIST", 4)
    path = tmp_path / "a.txt"
    path.write_text("一二三四五六七八九\n十\n", "utf-8")
    lists = list(UnitLists(RawText([path]), CharacterUnits(), tmp_path, ignore))
    assert lists == [list("一二三四"), list("五六七八"), ["九"], ["十"]]


@given(line=st.text("江，。 A1", max_size=60), longest=st.integers(1, 9), back=st.integers(0, 9))
def test_parts_join_to_the_line(line, longest, back):
    """No part is too long, and a cut comes after punctuation or a blank if one is near."""
    with mock.patch.multiple(units_module, _LONGEST_LINE=longest, _LOOK_BACK=back):
        found = list(split_line(line))
    assert "".join(found) == line
    assert max(map(len, found)) <= longest or found == [line] == [""]
    start = 0
    for part in found[:-1]:
        near = line[start : start + longest][max(0, longest - back) :]
        assert not part[-1].isalnum() or near.isalnum() or not near
        start += len(part)


@pytest.mark.parametrize("unit", [CharacterUnits(), LexiconWords])
def test_text_without_line_ends_comes_in_parts(tmp_path, monkeypatch, unit):
    """What is worked on at a time is bounded, and nothing is lost."""
    (tmp_path / "words.txt").write_text("长江\n", "utf-8")
    units = unit if isinstance(unit, CharacterUnits) else unit(tmp_path / "words.txt")
    monkeypatch.setattr(units_module, "_LONGEST_LINE", 100)
    path = tmp_path / "a.txt"
    path.write_text("长江大桥，" * 1000, "utf-8")
    with contextlib.closing(UnitLists(RawText([path]), units, tmp_path, ignore)) as lists:
        lengths = [len("".join(found)) for found in lists]
    assert max(lengths) <= 100
    assert sum(lengths) == 5000


def test_slow_units_are_found_once(tmp_path):
    path = tmp_path / "a.txt"
    words = tmp_path / "words.txt"
    calls = []
    path.write_text("长江\x1c大 桥\n\u200b\n1长江\n", "utf-8")
    words.write_text("长江\n", "utf-8")

    class Counted(LexiconWords):
        def __call__(self, lines):
            calls.append(1)
            return super().__call__(lines)

    lists = UnitLists(RawText([path]), Counted(words), tmp_path, ignore)
    next(iter(lists))  # a pass that is not whole is not kept
    passes = [list(lists) for _ in range(3)]
    lists.close()
    assert passes == [[["长江", "大", "桥"], ["\u200b"], ["1", "长江"]]] * 3
    assert len(calls) == 2
