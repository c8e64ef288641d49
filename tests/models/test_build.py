"""From configuration and training text to a model: whose characters, whose words, which vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hanlattice.config import make_config
from hanlattice.errors import ConfigError, InputError
from hanlattice.models.build import Built, build
from hanlattice.nn.baselines import WordLSTM
from hanlattice.nn.lattice_lstm import Stack
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span
from hanlattice.text.vectors import Vectors, write_vectors

TRAIN = [Sentence("南京市长江", (Span(0, 3, "LOC"),)), Sentence("住在南京7号")]
DEV = [Sentence("𠮷林市", (Span(0, 2, "GPE"),))]


def write(path: Path, rows: dict[str, list[float]]) -> str:
    write_vectors(
        path, Vectors(tuple(rows), np.array(list(rows.values()), dtype=np.float32)), binary=path.suffix == ".bin"
    )
    return str(path)


def make(tmp_path: Path, **sections: dict[str, Any]) -> Built:
    words = {"大海": [9.0, 9.0], "南京": [1.0, 0.0], "长江": [0.0, 2.0], "沙漠": [8.0, 8.0], "市": [7.0, 7.0]}
    tree: dict[str, Any] = {"model": {"hidden": 4}, "words": {"vectors": write(tmp_path / "words.bin", words)}}
    for name, values in sections.items():
        tree[name] = tree.get(name, {}) | values
    return build(make_config(tree), TRAIN, DEV)


def test_characters_come_from_train_and_vectors_never_from_dev(tmp_path):
    built = make(tmp_path, chars={"vectors": write(tmp_path / "c.vec", {"海": [1.0, 2.0, 3.0], "南": [4.0, 5.0, 6.0]})})
    assert set(built.indexer.vocab.symbols[1:]) == set("南京市长江住在0号海")
    assert not any("paper_vocab" in notice for notice in built.notices)


def test_paper_vocab_takes_dev_too_and_says_so(tmp_path):
    built = make(tmp_path, model={"paper_vocab": True})
    assert {"𠮷", "林"} <= set(built.indexer.vocab.symbols)
    assert any("paper_vocab: the characters of dev and test" in notice for notice in built.notices)
    built = make(tmp_path, model={"paper_vocab": True, "bichar": True})
    assert any("paper_vocab: the characters and bigrams of dev and test" in notice for notice in built.notices)
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
    vocab, table = built.indexer.vocab, built.tagger.chars.vectors.detach()
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
    built = make(tmp_path, words={"vectors": write(tmp_path / "v.vec", {"南京": [0.0, 0.0]}), "norm": 2.0})
    assert built.tagger.words is not None
    assert built.tagger.words.rows(torch.tensor([0])).tolist() == [[0.0, 0.0]]


def test_words_that_training_met_come_first_and_alone_are_trained(tmp_path):
    built = make(tmp_path)
    lexicon, words = built.indexer.lexicon, built.tagger.words
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
    with_dev = make(tmp_path, words={"vectors": write(tmp_path / "v.vec", {"𠮷林": [1.0, 1.0], "南京": [2.0, 2.0]})})
    assert with_dev.indexer.lexicon is not None
    assert with_dev.indexer.lexicon.words == ["南京", "𠮷林"]
    assert with_dev.tagger.words is not None
    assert len(with_dev.tagger.words.trained) == 1


def test_the_character_model_has_no_lexicon(tmp_path):
    built = make(tmp_path, model={"encoder": "char"})
    assert built.indexer.lexicon is None
    assert built.tagger.words is None


def test_one_seed_one_model(tmp_path):
    first, same, other = (make(tmp_path, train={"seed": seed}).tagger.state_dict() for seed in (1, 1, 2))
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
    assert told[0].startswith(f"{path}: skipped 2 broken rows: line 3: expected a word and 2 numbers, found 3")
    assert "line 5: expected a word and 2 numbers, found 1" in told[0]
    assert built.indexer.lexicon is not None
    assert built.indexer.lexicon.words == ["南京"]


def test_a_dictionary_gives_words_with_random_vectors(tmp_path):
    (tmp_path / "words.txt").write_text("大海 30 n\n南京 7 ns\n长江\t5\n市 1 n\n", "utf-8")
    built = make(tmp_path, words={"vectors": "", "lexicon": str(tmp_path / "words.txt"), "dim": 6})
    lexicon, words = built.indexer.lexicon, built.tagger.words
    assert lexicon is not None
    assert words is not None
    assert lexicon.words == ["南京", "长江", "大海"]
    assert (len(words.trained), words.dim, words.fixed.dtype) == (2, 6, torch.float16)
    assert len(set(words.rows(torch.arange(3)).flatten().tolist())) > 12
    again = make(tmp_path, words={"vectors": "", "lexicon": str(tmp_path / "words.txt"), "dim": 6}).tagger.words
    assert again is not None
    assert torch.equal(again.rows(torch.arange(3)), words.rows(torch.arange(3)))


def test_a_dictionary_without_a_word_is_refused(tmp_path):
    (tmp_path / "words.txt").write_text("市\n", "utf-8")
    with pytest.raises(InputError, match="no word of two characters"):
        make(tmp_path, words={"vectors": "", "lexicon": str(tmp_path / "words.txt")})


# ---- beside the characters, and words

GOLD = [
    Sentence("南京市长江", (Span(0, 3, "LOC"),), (Span(0, 2, "ns"), Span(2, 3, "n"), Span(3, 5, "ns"))),
    Sentence(
        "住在南京7号", (Span(2, 4, "LOC"), Span(5, 6, "LOC")), (Span(0, 2, "v"), Span(2, 4, "ns"), Span(4, 6, "m"))
    ),
]


def make_gold(**sections: dict[str, Any]) -> Built:
    tree: dict[str, Any] = {"model": {"hidden": 4, "encoder": "word"}, "segment": {"by": "gold"}, "words": {"dim": 6}}
    for name, values in sections.items():
        tree[name] = tree.get(name, {}) | values
    return build(make_config(tree), GOLD, DEV)


def test_a_word_model_knows_its_words_and_counts_what_it_cannot_find():
    built = make_gold()
    assert built.indexer.words is not None
    assert built.indexer.words.symbols[1:] == ("南京", "市", "长江", "住在", "7号")
    assert built.indexer.lexicon is None
    assert (built.tagger.chars, len(built.indexer.vocab)) == (None, 1)  # it sees no characters
    assert built.notices == ("segmentation: 1 of the 3 spans begin or end inside a word: they count as missed",)
    examples = built.indexer.examples(GOLD)
    assert examples.tags is not None
    found = built.indexer.tag_ids.spans(examples.tags, examples.units)
    assert [array.tolist() for array in examples.in_characters(found)] == [[0, 1], [0, 2], [3, 4], [0, 0]]


@pytest.mark.parametrize("features", ["lstm", "sentence-lstm", "cnn"])
def test_a_word_model_with_characters(features):
    built = make_gold(model={"char_features": features, "char_width": 8, "bichar": True}, bichars={"dim": 5})
    assert isinstance(built.tagger.encoder, WordLSTM)
    assert built.tagger.chars is not None
    assert list(built.tagger.beside) == ["bichars"]
    assert built.indexer.bichars is not None
    assert built.tagger.emissions(built.indexer.examples(GOLD).batch([0, 1])).shape == (2, 3, len(built.indexer.tags))


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
        inputs.shape[2]
        for built, batch in zip((plain, wide), batches, strict=True)
        if (inputs := built.tagger.inputs(batch)) is not None
    ]
    assert widths == [7, 7 + 5 + 3 + 3]
    assert (plain.indexer.segmenter, plain.indexer.pos) == (None, None)
    assert wide.indexer.pos is not None
    assert wide.indexer.pos.symbols[1:] == ("ns", "n", "v", "m")


def test_softwords_alone_ask_for_no_parts_of_speech():
    built = make_gold(model={"encoder": "char", "softword": True})
    assert (built.indexer.pos, list(built.tagger.beside)) == (None, ["positions"])


def test_layers_are_stacked(tmp_path):
    deep = make(tmp_path, model={"layers": 3}).tagger.encoder
    assert isinstance(deep, Stack)
    assert not isinstance(make(tmp_path).tagger.encoder, Stack)


def test_a_gold_segmentation_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InputError, match=r"segment\.by=gold needs the words"):
        make(tmp_path, model={"encoder": "word"}, segment={"by": "gold"})


def test_a_tagger_says_what_its_batch_lacks():
    soft, plain = make_gold(model={"encoder": "char", "softword": True}), make_gold(model={"encoder": "char"})
    with pytest.raises(ValueError, match="this tagger has vectors for positions, and the batch has no positions"):
        soft.tagger.emissions(plain.indexer.examples(GOLD).batch([0]))
