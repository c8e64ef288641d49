"""From configuration and training text to a model: whose characters, whose words, which vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hanlattice.config import EmbeddingConfig, WordsConfig, make_config
from hanlattice.errors import ConfigError, InputError
from hanlattice.features.indexer import word_id
from hanlattice.nn.baselines import WordLSTM
from hanlattice.nn.embeddings import WordEmbedding
from hanlattice.nn.lattice_lstm import Stack
from hanlattice.text.segment import Cuts, make_segmenter
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.vectors import Vectors, write_vectors
from hanlattice.text.vocab import END, bigrams
from hanlattice.training.build import (
    Built,
    bichar_table,
    build,
    character_table,
    lexicon_table,
    random_vectors,
    word_table,
)

TRAIN = [Sentence("南京市长江", (Span(0, 3, "LOC"),)), Sentence("住在南京7号")]
DEV = [Sentence("𠮷林市", (Span(0, 2, "GPE"),))]


def write(path: Path, rows: dict[str, list[float]]) -> str:
    write_vectors(
        path,
        Vectors(tuple(rows), np.array(list(rows.values()), dtype=np.float32)),
        binary=path.suffix == ".bin",
    )
    return str(path)


def make(tmp_path: Path, **sections: dict[str, Any]) -> Built:
    words = {
        "大海": [9.0, 9.0],
        "南京": [1.0, 0.0],
        "长江": [0.0, 2.0],
        "沙漠": [8.0, 8.0],
        "市": [7.0, 7.0],
    }
    tree: dict[str, Any] = {
        "model": {"hidden": 4},
        "words": {"vectors": write(tmp_path / "words.bin", words)},
    }
    for name, values in sections.items():
        tree[name] = tree.get(name, {}) | values
    return build(make_config(tree), TRAIN, DEV)


def test_characters_come_from_train_and_vectors_never_from_dev(tmp_path):
    built = make(
        tmp_path,
        chars={
            "vectors": write(tmp_path / "c.vec", {"海": [1.0, 2.0, 3.0], "南": [4.0, 5.0, 6.0]})
        },
    )
    assert set(built.indexer.vocab.symbols[1:]) == set("南京市长江住在0号海")
    assert not any("paper_vocab" in notice for notice in built.notices)


def test_paper_vocab_takes_dev_too_and_says_so(tmp_path):
    built = make(tmp_path, model={"paper_vocab": True})
    assert {"𠮷", "林"} <= set(built.indexer.vocab.symbols)
    assert any("paper_vocab: the characters of dev and test" in notice for notice in built.notices)
    built = make(tmp_path, model={"paper_vocab": True, "bichar": True})
    assert any(
        "paper_vocab: the characters and bigrams of dev and test" in notice
        for notice in built.notices
    )
    assert all("GPE" not in tag for tag in built.indexer.tags)


def test_each_character_has_the_vector_of_its_file(tmp_path):
    rows = {
        "南": [4.0, 5.0, 6.0],
        "３": [1.0, 1.0, 1.0],
        "4": [9.0, 9.0, 9.0],
        "海": [0.0, 2.0, 3.0],
        "南京": [0.0, 0.0, 0.0],
    }
    built = make(tmp_path, chars={"vectors": write(tmp_path / "c.vec", rows)})
    vocab = built.indexer.vocab
    table = built.tagger.chars.vectors.detach()
    assert table[vocab["南"]].tolist() == rows["南"]
    assert table[vocab["海"]].tolist() == rows["海"]
    assert table[vocab["0"]].tolist() == rows["３"]  # the first digit of the file stands for all
    torch.testing.assert_close(table[0], table[1:].mean(0))
    assert table.isfinite().all()


def test_one_single_vector_makes_no_nan(tmp_path):
    built = make(tmp_path, chars={"vectors": write(tmp_path / "c.vec", {"南": [4.0, 5.0]})})
    assert built.tagger.chars.vectors.isfinite().all()


def test_without_character_vectors_they_are_random_of_the_width_asked(tmp_path):
    table = make(tmp_path, chars={"dim": 7}).tagger.chars.vectors
    assert table.shape == (1 + len("南京市长江住在0号"), 7)
    assert table.std() > 0.1


@pytest.mark.parametrize(("section", "norm"), [("chars", 1.0), ("words", 3.0)])
def test_norm_scales_the_mean_and_keeps_the_ratios(tmp_path, section: str, norm: float):
    rows = {"南": [3.0, 4.0], "京": [0.0, 1.0], "南京": [3.0, 4.0], "长江": [0.0, 1.0]}
    built = make(tmp_path, **{section: {"vectors": write(tmp_path / "v.vec", rows), "norm": norm}})
    if section == "chars":
        found = built.tagger.chars.vectors[[built.indexer.vocab["南"], built.indexer.vocab["京"]]]
    else:
        assert built.tagger.words is not None
        found = built.tagger.words.rows(torch.arange(2))
    expected = torch.tensor([[3.0, 4.0], [0.0, 1.0]]) * norm / 3
    torch.testing.assert_close(found.detach(), expected)


def test_vectors_that_are_all_zero_cannot_be_scaled_and_stay(tmp_path):
    built = make(
        tmp_path, words={"vectors": write(tmp_path / "v.vec", {"南京": [0.0, 0.0]}), "norm": 2.0}
    )
    assert built.tagger.words is not None
    assert built.tagger.words.rows(torch.tensor([0])).tolist() == [[0.0, 0.0]]


def test_words_that_training_met_come_first_and_alone_are_trained(tmp_path):
    built = make(tmp_path)
    lexicon = built.indexer.lexicon
    words = built.tagger.words
    assert lexicon is not None
    assert words is not None
    assert lexicon.words == ["南京", "长江", "大海", "沙漠"]  # one character is no word
    assert len(words.trained) == 2
    assert words.rows(torch.arange(4)).tolist() == [[1.0, 0.0], [0.0, 2.0], [9.0, 9.0], [8.0, 8.0]]
    fixed = make(tmp_path, words={"fine_tune": False}).tagger.words
    assert fixed is not None
    assert len(fixed.trained) == 0
    assert fixed.rows(torch.arange(4)).tolist() == words.rows(torch.arange(4)).tolist()


def test_words_of_dev_are_not_met(tmp_path):
    with_dev = make(
        tmp_path,
        words={"vectors": write(tmp_path / "v.vec", {"𠮷林": [1.0, 1.0], "南京": [2.0, 2.0]})},
    )
    assert with_dev.indexer.lexicon is not None
    assert with_dev.indexer.lexicon.words == ["南京", "𠮷林"]
    assert with_dev.tagger.words is not None
    assert len(with_dev.tagger.words.trained) == 1


def test_the_character_model_has_no_lexicon(tmp_path):
    built = make(tmp_path, model={"encoder": "char"})
    assert built.indexer.lexicon is None
    assert built.tagger.words is None


def test_one_seed_one_model(tmp_path):
    first, same, other = (
        make(tmp_path, train={"seed": seed}).tagger.state_dict() for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"words\.vectors must name"):
        make(tmp_path, words={"vectors": ""})
    with pytest.raises(InputError, match=r"nowhere\.vec: cannot read"):
        make(tmp_path, words={"vectors": str(tmp_path / "nowhere.vec")})
    with pytest.raises(InputError, match=r"no word of two characters"):
        make(tmp_path, words={"vectors": write(tmp_path / "c.vec", {"南": [1.0]})})
    with pytest.raises(InputError, match=r"no vector of a single character"):
        make(tmp_path, chars={"vectors": write(tmp_path / "w.vec", {"南京": [1.0]})})
    with pytest.raises(InputError, match="nothing to learn"):
        build(make_config({"model": {"encoder": "char"}}), [Sentence("南京", ())])


def test_a_row_of_the_wrong_width_is_skipped_and_told_once(tmp_path):
    path = tmp_path / "v.vec"
    path.write_text("4 2\n南 1 2\n京 1 2 3\n南京 1 2\n长江 1\n", "utf-8")
    built = make(tmp_path, chars={"vectors": str(path)}, words={"vectors": str(path)})
    told = [notice for notice in built.notices if "skipped" in notice]
    assert len(told) == 1
    assert told[0].startswith(
        f"{path}: skipped 2 broken rows: line 3: expected a word and 2 numbers, found 3"
    )
    assert "line 5: expected a word and 2 numbers, found 1" in told[0]
    assert built.indexer.lexicon is not None
    assert built.indexer.lexicon.words == ["南京"]


def test_a_dictionary_gives_words_with_random_vectors(tmp_path):
    (tmp_path / "words.txt").write_text("大海 30 n\n南京 7 ns\n长江\t5\n市 1 n\n", "utf-8")
    built = make(tmp_path, words={"vectors": "", "lexicon": str(tmp_path / "words.txt"), "dim": 6})
    lexicon = built.indexer.lexicon
    words = built.tagger.words
    assert lexicon is not None
    assert words is not None
    assert lexicon.words == ["南京", "长江", "大海"]
    assert (len(words.trained), words.dim, words.fixed.dtype) == (2, 6, torch.float16)
    assert len(set(words.rows(torch.arange(3)).flatten().tolist())) > 12
    again = make(
        tmp_path, words={"vectors": "", "lexicon": str(tmp_path / "words.txt"), "dim": 6}
    ).tagger.words
    assert again is not None
    assert torch.equal(again.rows(torch.arange(3)), words.rows(torch.arange(3)))


def test_a_dictionary_without_a_word_is_refused(tmp_path):
    (tmp_path / "words.txt").write_text("市\n", "utf-8")
    with pytest.raises(InputError, match="no word of two characters"):
        make(tmp_path, words={"vectors": "", "lexicon": str(tmp_path / "words.txt")})


# ---- beside the characters, and words

GOLD = [
    Sentence(
        "南京市长江", (Span(0, 3, "LOC"),), (Span(0, 2, "ns"), Span(2, 3, "n"), Span(3, 5, "ns"))
    ),
    Sentence(
        "住在南京7号",
        (Span(2, 4, "LOC"), Span(5, 6, "LOC")),
        (Span(0, 2, "v"), Span(2, 4, "ns"), Span(4, 6, "m")),
    ),
]


def make_gold(**sections: dict[str, Any]) -> Built:
    tree: dict[str, Any] = {
        "model": {"hidden": 4, "encoder": "word"},
        "segment": {"by": "gold"},
        "words": {"dim": 6},
    }
    for name, values in sections.items():
        tree[name] = tree.get(name, {}) | values
    return build(make_config(tree), GOLD, DEV)


def test_a_word_model_knows_its_words_and_counts_what_it_cannot_find():
    built = make_gold()
    assert built.indexer.words is not None
    assert built.indexer.words.symbols[1:] == ("南京", "市", "长江", "住在", "7号")
    assert built.indexer.lexicon is None
    assert (built.tagger.chars, len(built.indexer.vocab)) == (None, 1)  # it sees no characters
    assert built.notices == (
        "segmentation: 1 of the 3 spans begin or end inside a word: they count as missed",
    )
    examples = built.indexer.examples(GOLD)
    assert examples.tags is not None
    found = built.indexer.tag_ids.spans(examples.tags, examples.units)
    assert [array.tolist() for array in examples.in_characters(found)] == [
        [0, 1],
        [0, 2],
        [3, 4],
        [0, 0],
    ]


@pytest.mark.parametrize("features", ["lstm", "sentence-lstm", "cnn"])
def test_a_word_model_with_characters(features):
    built = make_gold(
        model={"char_features": features, "char_width": 8, "bichar": True}, bichars={"dim": 5}
    )
    assert isinstance(built.tagger.encoder, WordLSTM)
    assert built.tagger.chars is not None
    assert list(built.tagger.extra_embeddings) == ["bichars"]
    assert built.indexer.bichars is not None
    assert built.tagger.emissions(built.indexer.examples(GOLD).batch([0, 1])).shape == (
        2,
        3,
        len(built.indexer.tags),
    )


def test_what_stands_beside_a_character_widens_its_input():
    soft = {"dim": 3, "pos": True}
    plain = make_gold(model={"encoder": "char"}, chars={"dim": 7})
    wide = make_gold(
        model={"encoder": "char", "bichar": True, "softword": True},
        chars={"dim": 7},
        bichars={"dim": 5},
        softwords=soft,
    )
    batches = [built.indexer.examples(GOLD).batch([0, 1]) for built in (plain, wide)]
    widths = [
        x.shape[2]
        for built, batch in zip((plain, wide), batches, strict=True)
        if (x := built.tagger.inputs(batch)[0]) is not None
    ]
    assert widths == [7, 7 + 5 + 3 + 3]
    assert (plain.indexer.segmenter, plain.indexer.pos) == (None, None)
    assert wide.indexer.pos is not None
    assert wide.indexer.pos.symbols[1:] == ("ns", "n", "v", "m")


def test_softwords_alone_ask_for_no_parts_of_speech():
    built = make_gold(model={"encoder": "char", "softword": True})
    assert (built.indexer.pos, list(built.tagger.extra_embeddings)) == (None, ["positions"])


def test_layers_are_stacked(tmp_path):
    deep = make(tmp_path, model={"layers": 3}).tagger.encoder
    assert isinstance(deep, Stack)
    assert not isinstance(make(tmp_path).tagger.encoder, Stack)


def test_a_gold_segmentation_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InputError, match=r"segment\.by=gold needs the words"):
        make(tmp_path, model={"encoder": "word"}, segment={"by": "gold"})


def test_a_tagger_says_what_its_batch_lacks():
    soft = make_gold(model={"encoder": "char", "softword": True})
    plain = make_gold(model={"encoder": "char"})
    with pytest.raises(
        ValueError, match="this tagger has vectors for positions, and the batch has no positions"
    ):
        soft.tagger.emissions(plain.indexer.examples(GOLD).batch([0]))


# ---- vocabularies and their initial vectors: from the file, or drawn; trained, or fixed

TEXTS = ("南京７", "大桥 南京")
SENTENCES = [Sentence(text) for text in TEXTS]
BIGRAMS = ["南京", "京0", f"0{END}", "大桥", f"桥{END}", f"京{END}"]  # of the texts, in their order
ROWS = {
    "南京": [1.0, 2.0],
    f"京{END}": [3.0, 0.0],
    "长江": [5.0, 6.0],
    "京８": [7.0, 1.0],
    "京9": [0.0, 0.0],
}
OTHERS = {"长": [9.0, 9.0], "长江大桥": [8.0, 8.0]}  # no bigrams


def all_rows(table: WordEmbedding) -> torch.Tensor:
    return table.rows(torch.arange(len(table))).detach()


def cut(*words: str, part: str = "n") -> tuple[list[str], Cuts]:
    """One text of these words."""
    ends = np.cumsum([len(word) for word in words]).tolist()
    spans = tuple(Span(end - len(word), end, part) for word, end in zip(words, ends, strict=True))
    return ["".join(words)], make_segmenter("gold", pos=True)(["".join(words)], [spans])


# ---- bigrams


def test_bigrams_of_the_text_come_first_and_alone_are_trained(tmp_path):
    config = EmbeddingConfig(vectors=write(tmp_path / "b.vec", ROWS | OTHERS))
    vocab, table = bichar_table(config, SENTENCES, notices := [])
    assert vocab.symbols[1:] == (*BIGRAMS, "长江")  # without what is no bigram; 京８ is 京0
    assert (len(table.trained), len(table.fixed), table.dim) == (7, 1, 2)
    rows = all_rows(table)
    for symbol, place in (
        ("南京", "南京"),
        (f"京{END}", f"京{END}"),
        ("长江", "长江"),
        ("京0", "京８"),
    ):
        assert rows[vocab[symbol]].tolist() == ROWS[place]  # the first of 京８ and 京9 counts
    torch.testing.assert_close(rows[0], rows[1:].mean(0), rtol=1e-3, atol=1e-3)
    assert rows.isfinite().all()
    assert notices == ["bigrams: 7, of which 3 of the text have no vector in the file"]


def test_without_training_a_bigram_without_a_vector_is_unknown(tmp_path):
    config = EmbeddingConfig(vectors=write(tmp_path / "b.vec", ROWS), fine_tune=False)
    vocab, table = bichar_table(config, SENTENCES, notices := [])
    assert vocab.symbols[1:] == ("南京", "京0", f"京{END}", "长江")
    assert (vocab["大桥"], len(table.trained), len(table)) == (0, 0, 5)
    assert all_rows(table)[vocab["京0"]].tolist() == ROWS["京８"]
    assert notices == [
        "bigrams: 3 of the text have no vector in the file, and get none",
        "bigrams: 4",
    ]


def test_bigrams_without_a_file_are_random_and_trained(tmp_path):
    torch.manual_seed(3)
    vocab, table = bichar_table(EmbeddingConfig(dim=6), SENTENCES, notices := [])
    assert vocab.symbols[1:] == tuple(BIGRAMS)
    assert (len(table.trained), len(table.fixed), table.dim, notices) == (7, 0, 6, [])
    torch.manual_seed(3)
    expected = random_vectors(7, 6)
    assert torch.equal(all_rows(table)[1:], expected[1:])
    torch.testing.assert_close(all_rows(table)[0], expected[1:].mean(0))


def test_random_bigrams_that_are_not_trained_keep_their_vectors():
    """There is no file that could leave them out: each has its own, drawn once."""
    vocab, table = bichar_table(EmbeddingConfig(dim=6, fine_tune=False), SENTENCES, [])
    assert (len(vocab), len(table.trained), len(table.fixed), table.fixed.dtype) == (
        7,
        0,
        7,
        torch.float16,
    )
    assert len(set(map(tuple, all_rows(table).tolist()))) == 7


@pytest.mark.parametrize("rows", [OTHERS, {"长": [1.0]}, {"南京市": [1.0], END: [2.0]}])
def test_a_file_without_bigrams_is_refused(tmp_path, rows):
    with pytest.raises(
        InputError, match=r"b\.vec: no vector of a bigram in it: expected two characters"
    ):
        bichar_table(EmbeddingConfig(vectors=write(tmp_path / "b.vec", rows)), SENTENCES, [])


def test_norm_scales_the_vectors_of_the_file(tmp_path):
    rows = {"南京": [3.0, 4.0], "长江": [0.0, 15.0]}  # a mean norm of 10
    config = EmbeddingConfig(vectors=write(tmp_path / "b.vec", rows), norm=2.0)
    vocab, table = bichar_table(config, SENTENCES, [])
    torch.testing.assert_close(all_rows(table)[vocab["南京"]], torch.tensor([0.6, 0.8]))
    torch.testing.assert_close(all_rows(table)[vocab["长江"]], torch.tensor([0.0, 3.0]))


def test_rows_that_are_never_trained_are_small_and_those_that_are_stay_exact(tmp_path):
    rows = {"南京": [0.1, 0.2], "长江": [0.1, 0.2]}
    _, table = bichar_table(EmbeddingConfig(vectors=write(tmp_path / "b.vec", rows)), SENTENCES, [])
    assert table.fixed.dtype == torch.float16
    assert torch.equal(table.trained[1].detach(), torch.tensor([0.1, 0.2]))
    assert torch.equal(table.fixed[0], torch.tensor([0.1, 0.2]).half())


def test_a_number_that_half_precision_cannot_hold_stays(tmp_path):
    rows = {"南京": [1.0, 2.0], "长江": [1e6, 0.1]}
    vocab, table = bichar_table(
        EmbeddingConfig(vectors=write(tmp_path / "b.vec", rows)), SENTENCES, []
    )
    assert torch.equal(all_rows(table)[vocab["长江"]], torch.tensor([1e6, 0.1]))


@pytest.mark.parametrize("texts", [[], [""], [" \n"]])
def test_a_corpus_without_a_bigram_makes_no_nan(texts):
    vocab, table = bichar_table(EmbeddingConfig(dim=3), [Sentence(text) for text in texts], [])
    assert (len(vocab), len(table)) == (1, 1)
    assert all_rows(table).isfinite().all()


def test_every_bigram_of_the_text_has_a_row_of_its_own():
    vocab, _ = bichar_table(EmbeddingConfig(), SENTENCES, [])
    assert all(vocab[bigram] for text in TEXTS for bigram in bigrams(text))


# ---- words

WORD_ROWS = {
    "南京": [1.0, 2.0],
    "ＡＢ": [3.0, 4.0],
    "AB": [5.0, 5.0],
    "0000": [6.0, 1.0],
    "市": [2.0, 2.0],
}


def test_words_of_the_text_come_first_and_alone_are_trained(tmp_path):
    config = WordsConfig(vectors=write(tmp_path / "w.vec", WORD_ROWS))
    vocab, table = word_table(config, *cut("南京", "1998", "年", "ＡＢ"), notices := [])
    assert vocab.symbols[1:] == (
        "南京",
        "1998",
        "年",
        "AB",
        "0000",
        "市",
    )  # one character is a word here
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
    lexicon, table, _ = lexicon_table(config, [Sentence(text) for text in texts], notices := [])
    # 南京, 京大 and 长江 three times, which stay as the file has them; 大桥 twice; the others never
    assert tuple(lexicon.words) == ("南京", "京大", "长江", "大桥", "沙漠", "海洋")
    assert len(table.trained) == (4 if fine_tune else 0)
    assert all_rows(table).tolist() == [rows[word] for word in lexicon.words]
    assert notices[-1] == "lexicon: 6 words, 4 of them occur in the training text"


@pytest.mark.parametrize("texts", [[], ["", "无"]])
def test_a_lexicon_of_which_nothing_is_met_stays_in_its_order(tmp_path, texts):
    config = WordsConfig(vectors=write(tmp_path / "w.vec", {word: [1.0, 2.0] for word in LEXICON}))
    lexicon, table, _ = lexicon_table(config, [Sentence(text) for text in texts], [])
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
    config = EmbeddingConfig(
        vectors=write(tmp_path / "c.vec", {"南": [1.0, 2.0], "江": [3.0, 4.0]}), fine_tune=False
    )
    vocab, table = character_table(config, SENTENCES, notices := [])
    assert set("南京0大桥 江") == set(vocab.symbols[1:])
    assert table.isfinite().all()
    assert notices == ["characters: 7, of which 5 of the text have no vector in the file"]


def test_places_and_parts_of_speech_are_trained_and_dropped_as_set():
    soft = {"dim": 4, "pos": True, "dropout": 0.25}
    tables = make_gold(
        model={"encoder": "char", "softword": True}, softwords=soft
    ).tagger.extra_embeddings
    for name, symbols in (("positions", 4), ("pos", 1 + 4)):
        table = tables[name]
        assert (table.vectors.shape, table.vectors.requires_grad, table.dropout.p) == (
            (symbols, 4),
            True,
            0.25,
        )


def test_random_vectors_have_a_mean_square_length_of_1():
    torch.manual_seed(0)
    assert random_vectors(4000, 7).square().sum(1).mean() == pytest.approx(1, abs=0.03)
