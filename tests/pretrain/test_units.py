"""Units of text: nothing but white space is lost, and each kind is cut as it says."""

from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
import rjieba
from hypothesis import given
from hypothesis import strategies as st

from hanlattice import Span
from hanlattice.data.segmented import write_segmented
from hanlattice.errors import InputError
from hanlattice.predict import Document
from hanlattice.pretrain.kinds import Unit
from hanlattice.pretrain.paths import BestPath, read_frequencies
from hanlattice.pretrain.units import Characters, JiebaWords, LexiconWords, ModelWords, make_units, words_and_gaps
from hanlattice.pretrain.vectors import Source, train_vectors
from hanlattice.pretrain.word2vec import Settings
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normal import fold, fold_digits
from hanlattice.text.vectors import read_vectors
from hanlattice.text.vocab import END
from hanlattice.training.loop import train
from tests.made import made_config, sentences
from tests.pretrain.text import write_text
from tests.strategies import any_text, shares_folder


def bare(text: str) -> str:
    return "".join(character for character in text if not character.isspace())


@given(lines=st.lists(any_text))
def test_characters_are_those_of_the_embedding(lines):
    found = list(Characters()(lines))
    assert found == [[c for c in map(fold_digits, line) if not c.isspace()] for line in lines]


@given(line=any_text)
def test_a_bigram_is_a_character_and_the_next(line):
    """A plain loop over the folded text, in which white space stands for the end."""
    plain, expected = fold_digits(line), []
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
    assert list(JiebaWords()(["我们去南京市长江大桥，Ｏｋ"])) == [rjieba.cut("我们去南京市长江大桥,Ok")]


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


@given(text=st.text("长江大桥", min_size=1, max_size=8), frequencies=st.dictionaries(few, st.integers(1, 50)))
def test_the_best_path_is_the_best_of_all(text, frequencies):
    found = BestPath(frequencies).words(text)
    assert "".join(found) == text
    best = max(score(words, frequencies) for words in every_cut(text))
    assert score(found, frequencies) == pytest.approx(best)


def test_a_frequency_that_is_no_number_of_this_world(tmp_path):
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
    path.write_text("\ufeff长江\t12\n大桥 7 n\n南京\n市长\tn\n\nＡＢ 3\nAB\t4\n两 字 5 n\n零\t0\n", "utf-8")
    expected = {"长江": 12, "大桥": 7, "南京": 1, "市长": 1, "AB": 7, "零": 1}
    assert read_frequencies(path) == expected, "a word with a blank in it is left out"
    path.write_text("\n \n", "utf-8")
    with pytest.raises(InputError, match="there is no word in it"):
        BestPath.load(path)


# ---- a model's words


def test_characters_between_words_are_words():
    document = Document("南京 市长ＯＫ", (Span(0, 2, "WORD"), Span(4, 6, "WORD")))
    assert words_and_gaps(document) == ["南京", "市", "长O", "K"]
    assert words_and_gaps(Document("", ())) == []


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
    settings = Settings(Unit.word, dim=4, epochs=2, min_count=1)
    record = train_vectors(Source((raw,), model=segmenter), tmp_path / "w", settings)
    words = {word for line in ModelWords(segmenter)(raw.read_text("utf-8").splitlines()) for word in line}
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
        ("word", "x", "x", "without --lexicon"),
        ("subword", None, None, "--unit subword needs --lexicon"),
    ],
)
def test_options_that_do_not_go_together(unit, lexicon, model, why):
    with pytest.raises(InputError, match=why):
        make_units(Unit(unit), lexicon, model)


def test_a_subword_lexicon_without_its_model(tmp_path):
    (tmp_path / "words.txt").write_text("长江\t3\n", "utf-8")
    with pytest.raises(InputError, match=r"there is no words.bpe.json beside it"):
        make_units(Unit.subword, tmp_path / "words.txt")
    (tmp_path / "words.bpe.json").write_text("{}", "utf-8")
    with pytest.raises(InputError, match="not a BPE model"):
        make_units(Unit.subword, tmp_path / "words.txt")
