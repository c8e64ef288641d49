"""Vocabularies and the vectors that they begin with: which are of the file, which are drawn, which are trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from hanlattice.batch.indexer import word_id
from hanlattice.config import BicharsConfig, CharsConfig, WordsConfig
from hanlattice.errors import InputError
from hanlattice.models.tables import (
    bichar_table,
    character_table,
    lexicon_table,
    pos_table,
    position_table,
    random_vectors,
    word_table,
)
from hanlattice.nn.embeddings import WordEmbedding
from hanlattice.text.segmenter import Cuts, make_segmenter
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span
from hanlattice.text.vectors import Vectors, write_vectors
from hanlattice.text.vocab import END, Vocab, bigrams

TEXTS = ("南京７", "大桥 南京")
SENTENCES = [Sentence(text) for text in TEXTS]
BIGRAMS = ["南京", "京0", f"0{END}", "大桥", f"桥{END}", f"京{END}"]  # of the texts, in their order
ROWS = {"南京": [1.0, 2.0], f"京{END}": [3.0, 0.0], "长江": [5.0, 6.0], "京８": [7.0, 1.0], "京9": [0.0, 0.0]}
OTHERS = {"长": [9.0, 9.0], "长江大桥": [8.0, 8.0]}  # no bigrams


def write(path: Path, rows: dict[str, list[float]]) -> str:
    matrix = np.array(list(rows.values()), dtype=np.float32)
    write_vectors(path, Vectors(tuple(rows), matrix), binary=False)
    return str(path)


def all_rows(table: WordEmbedding) -> torch.Tensor:
    return table.rows(torch.arange(len(table))).detach()


def cut(*words: str, part: str = "n") -> tuple[list[str], Cuts]:
    """One text of these words."""
    ends = np.cumsum([len(word) for word in words]).tolist()
    spans = tuple(Span(end - len(word), end, part) for word, end in zip(words, ends, strict=True))
    return ["".join(words)], make_segmenter("gold", pos=True)(["".join(words)], [spans])


# ---- bigrams


def test_bigrams_of_the_text_come_first_and_alone_are_trained(tmp_path):
    config = BicharsConfig(vectors=write(tmp_path / "b.vec", ROWS | OTHERS))
    vocab, table = bichar_table(config, SENTENCES, notices := [])
    assert vocab.symbols[1:] == (*BIGRAMS, "长江")  # without what is no bigram; 京８ is 京0
    assert (len(table.trained), len(table.fixed), table.dim) == (7, 1, 2)
    rows = all_rows(table)
    for symbol, place in (("南京", "南京"), (f"京{END}", f"京{END}"), ("长江", "长江"), ("京0", "京８")):
        assert rows[vocab[symbol]].tolist() == ROWS[place]  # the first of 京８ and 京9 counts
    torch.testing.assert_close(rows[0], rows[1:].mean(0), rtol=1e-3, atol=1e-3)
    assert rows.isfinite().all()
    assert notices == ["bigrams: 7, of which 3 of the text have no vector in the file"]


def test_without_training_a_bigram_without_a_vector_is_unknown(tmp_path):
    config = BicharsConfig(vectors=write(tmp_path / "b.vec", ROWS), fine_tune=False)
    vocab, table = bichar_table(config, SENTENCES, notices := [])
    assert vocab.symbols[1:] == ("南京", "京0", f"京{END}", "长江")
    assert (vocab["大桥"], len(table.trained), len(table)) == (0, 0, 5)
    assert all_rows(table)[vocab["京0"]].tolist() == ROWS["京８"]
    assert notices == ["bigrams: 3 of the text have no vector in the file, and get none", "bigrams: 4"]


def test_bigrams_without_a_file_are_random_and_trained(tmp_path):
    torch.manual_seed(3)
    vocab, table = bichar_table(BicharsConfig(dim=6), SENTENCES, notices := [])
    assert vocab.symbols[1:] == tuple(BIGRAMS)
    assert (len(table.trained), len(table.fixed), table.dim, notices) == (7, 0, 6, [])
    torch.manual_seed(3)
    expected = random_vectors(7, 6)
    assert torch.equal(all_rows(table)[1:], expected[1:])
    torch.testing.assert_close(all_rows(table)[0], expected[1:].mean(0))


def test_random_bigrams_that_are_not_trained_keep_their_vectors():
    """There is no file that could leave them out: each has its own, drawn once."""
    vocab, table = bichar_table(BicharsConfig(dim=6, fine_tune=False), SENTENCES, [])
    assert (len(vocab), len(table.trained), len(table.fixed), table.fixed.dtype) == (7, 0, 7, torch.float16)
    assert len(set(map(tuple, all_rows(table).tolist()))) == 7


@pytest.mark.parametrize("rows", [OTHERS, {"长": [1.0]}, {"南京市": [1.0], END: [2.0]}])
def test_a_file_without_bigrams_is_refused(tmp_path, rows):
    with pytest.raises(InputError, match=r"b\.vec: no vector of a bigram in it: expected two characters"):
        bichar_table(BicharsConfig(vectors=write(tmp_path / "b.vec", rows)), SENTENCES, [])


def test_norm_scales_the_vectors_of_the_file(tmp_path):
    rows = {"南京": [3.0, 4.0], "长江": [0.0, 15.0]}  # a mean norm of 10
    config = BicharsConfig(vectors=write(tmp_path / "b.vec", rows), norm=2.0)
    vocab, table = bichar_table(config, SENTENCES, [])
    torch.testing.assert_close(all_rows(table)[vocab["南京"]], torch.tensor([0.6, 0.8]))
    torch.testing.assert_close(all_rows(table)[vocab["长江"]], torch.tensor([0.0, 3.0]))


def test_rows_that_are_never_trained_are_small_and_those_that_are_stay_exact(tmp_path):
    rows = {"南京": [0.1, 0.2], "长江": [0.1, 0.2]}
    _, table = bichar_table(BicharsConfig(vectors=write(tmp_path / "b.vec", rows)), SENTENCES, [])
    assert table.fixed.dtype == torch.float16
    assert torch.equal(table.trained[1].detach(), torch.tensor([0.1, 0.2]))
    assert torch.equal(table.fixed[0], torch.tensor([0.1, 0.2]).half())


def test_a_number_that_half_precision_cannot_hold_stays(tmp_path):
    rows = {"南京": [1.0, 2.0], "长江": [1e6, 0.1]}
    vocab, table = bichar_table(BicharsConfig(vectors=write(tmp_path / "b.vec", rows)), SENTENCES, [])
    assert torch.equal(all_rows(table)[vocab["长江"]], torch.tensor([1e6, 0.1]))


@pytest.mark.parametrize("texts", [[], [""], [" \n"]])
def test_a_corpus_without_a_bigram_makes_no_nan(texts):
    vocab, table = bichar_table(BicharsConfig(dim=3), [Sentence(text) for text in texts], [])
    assert (len(vocab), len(table)) == (1, 1)
    assert all_rows(table).isfinite().all()


def test_every_bigram_of_the_text_has_a_row_of_its_own():
    vocab, _ = bichar_table(BicharsConfig(), SENTENCES, [])
    assert all(vocab[bigram] for text in TEXTS for bigram in bigrams(text))


# ---- words

WORD_ROWS = {"南京": [1.0, 2.0], "ＡＢ": [3.0, 4.0], "AB": [5.0, 5.0], "0000": [6.0, 1.0], "市": [2.0, 2.0]}


def test_words_of_the_text_come_first_and_alone_are_trained(tmp_path):
    config = WordsConfig(vectors=write(tmp_path / "w.vec", WORD_ROWS))
    vocab, table = word_table(config, *cut("南京", "1998", "年", "ＡＢ"), notices := [])
    assert vocab.symbols[1:] == ("南京", "1998", "年", "AB", "0000", "市")  # one character is a word here
    assert (len(table.trained), len(table.fixed)) == (5, 2)
    rows = all_rows(table)
    assert rows[vocab["AB"]].tolist() == WORD_ROWS["ＡＢ"]  # the first of two for one word
    assert rows[vocab["0000"]].tolist() == WORD_ROWS["0000"]
    assert notices == ["words: 6, of which 2 of the text have no vector in the file"]


def test_without_training_a_word_without_a_vector_is_unknown_or_a_number_like_others(tmp_path):
    config = WordsConfig(vectors=write(tmp_path / "w.vec", WORD_ROWS), fine_tune=False)
    vocab, table = word_table(config, *cut("南京", "1998", "年"), [])
    assert vocab.symbols[1:] == ("南京", "AB", "0000", "市")
    assert len(table.trained) == 0
    assert word_id(vocab, "年") == 0
    assert word_id(vocab, "1998") == vocab["0000"] > 0


LEXICON = ("大桥", "沙漠", "南京", "京大", "长江", "海洋")


@pytest.mark.parametrize("fine_tune", [True, False])
def test_words_of_a_lexicon_are_in_the_order_of_how_often_they_are_met(tmp_path, fine_tune):
    rows = {word: [at + 0.5, -at] for at, word in enumerate(LEXICON)}
    texts = ["南京大桥", "长江", "南京", "长江长江", "南京大桥与京大"]
    config = WordsConfig(vectors=write(tmp_path / "w.vec", rows), fine_tune=fine_tune)
    lexicon, table = lexicon_table(config, [Sentence(text) for text in texts], notices := [])
    # 南京, 京大 and 长江 three times, which stay as the file has them; 大桥 twice; the others never
    assert tuple(lexicon.words) == ("南京", "京大", "长江", "大桥", "沙漠", "海洋")
    assert len(table.trained) == (4 if fine_tune else 0)
    assert all_rows(table).tolist() == [rows[word] for word in lexicon.words]
    assert notices[-1] == "lexicon: 6 words, 4 of them occur in the training text"


@pytest.mark.parametrize("texts", [[], ["", "无"]])
def test_a_lexicon_of_which_nothing_is_met_stays_in_its_order(tmp_path, texts):
    config = WordsConfig(vectors=write(tmp_path / "w.vec", {word: [1.0, 2.0] for word in LEXICON}))
    lexicon, table = lexicon_table(config, [Sentence(text) for text in texts], [])
    assert tuple(lexicon.words) == LEXICON
    assert (len(table.trained), len(table)) == (0, 6)


def test_words_without_a_file_are_random(tmp_path):
    vocab, table = word_table(WordsConfig(dim=5), *cut("南京", "市", "南京"), notices := [])
    assert (vocab.symbols[1:], len(table.trained), table.dim, notices) == (("南京", "市"), 3, 5, [])
    assert not torch.equal(all_rows(table)[1], all_rows(table)[2])


def test_norm_scales_the_vectors_of_words(tmp_path):
    config = WordsConfig(vectors=write(tmp_path / "w.vec", {"南京": [6.0, 8.0]}), norm=5.0)
    vocab, table = word_table(config, *cut("南京"), [])
    torch.testing.assert_close(all_rows(table)[vocab["南京"]], torch.tensor([3.0, 4.0]))


# ---- characters, places in words, parts of speech


def test_characters_that_are_not_trained_keep_a_drawn_vector(tmp_path):
    config = CharsConfig(vectors=write(tmp_path / "c.vec", {"南": [1.0, 2.0], "江": [3.0, 4.0]}), fine_tune=False)
    vocab, table = character_table(config, SENTENCES, notices := [])
    assert set("南京0大桥 江") == set(vocab.symbols[1:])
    assert table.isfinite().all()
    assert notices == ["characters: 7, of which 5 of the text have no vector in the file"]


def test_parts_of_speech_are_those_of_the_training_texts():
    vocab, table = pos_table(cut("南京", "市", part="ns")[1], 4, 0.5)
    assert vocab == Vocab(["ns"])
    assert (table.vectors.shape, table.vectors.requires_grad, table.dropout.p) == ((2, 4), True, 0.5)
    assert len(pos_table(make_segmenter("gold", pos=True)([]), 4, 0.0)[0]) == 1


def test_a_character_has_four_places():
    table = position_table(3, 0.25)
    assert (table.vectors.shape, table.vectors.requires_grad, table.dropout.p) == ((4, 3), True, 0.25)


def test_random_vectors_have_a_mean_square_length_of_1():
    torch.manual_seed(0)
    assert random_vectors(4000, 7).square().sum(1).mean() == pytest.approx(1, abs=0.03)
