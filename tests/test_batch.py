"""Sentences to examples to batches: nothing lost, nothing mixed, padding where it belongs."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.batch import Batch, Indexer, collate
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span
from hanlattice.text.tags import tag_set
from hanlattice.text.vocab import Vocab

TAGS = tuple(tag_set(["LOC", "PER"], "BMES"))
INDEXER = Indexer(Vocab("南京市长江大桥0A"), Lexicon(["南京", "南京市", "长江", "大桥", "长江大桥"]), TAGS, "BMES")
texts = st.text(st.sampled_from("南京市长江大桥７Ａx\x00\ud800"), max_size=9)


def test_an_example_has_ids_matches_and_tags():
    example = INDEXER.example(Sentence("南京市７", (Span(0, 3, "LOC"),)))
    assert example.chars.tolist() == [1, 2, 3, INDEXER.vocab["0"]]
    assert example.matches.tolist() == [[0, 2, 0], [0, 3, 1]]
    assert example.tags is not None
    assert [TAGS[tag] for tag in example.tags] == ["B-LOC", "M-LOC", "E-LOC", "O"]


def test_full_width_forms_and_digits_have_the_ids_of_their_plain_forms():
    assert INDEXER.example(Sentence("Ａ７")).chars.tolist() == INDEXER.example(Sentence("A3")).chars.tolist()
    assert 0 not in INDEXER.example(Sentence("Ａ７")).chars


def test_unknown_characters_are_0():
    assert INDEXER.example(Sentence("x\ud800\x00")).chars.tolist() == [0, 0, 0]


def test_a_label_that_training_never_met_is_no_tag():
    example = INDEXER.example(Sentence("南京市", (Span(0, 1, "GPE"), Span(1, 3, "LOC"))))
    assert example.tags is not None
    assert [TAGS[tag] for tag in example.tags] == ["O", "B-LOC", "E-LOC"]


def test_without_a_lexicon_there_are_no_matches():
    example = dataclasses.replace(INDEXER, lexicon=None).example(Sentence("南京市"))
    assert example.matches.shape == (0, 3)


@given(st.lists(texts, min_size=1, max_size=5))
def test_a_batch_holds_each_sentence_and_zeros_after_it(given_texts: list[str]) -> None:
    examples = [INDEXER.example(Sentence(text, ())) for text in given_texts]
    batch = collate(examples)
    assert len(batch) == len(given_texts)
    assert batch.tags is not None
    assert batch.lengths.tolist() == [len(text) for text in given_texts] == batch.lattice.lengths.tolist()
    for row, tags, example in zip(batch.chars, batch.tags, examples, strict=True):
        assert row[: len(example)].tolist() == example.chars.tolist()
        assert not row[len(example) :].any()
        assert not tags.any()
    assert batch.words.tolist() == batch.lattice.word.tolist()
    expected = [(at, *match) for at, example in enumerate(examples) for match in example.matches.tolist()]
    lattice = batch.lattice
    assert (
        list(zip(*(a.tolist() for a in (lattice.sentence, lattice.start, lattice.end, lattice.word)), strict=True))
        == expected
    )


def test_gold_tags_of_some_are_tags_of_none():
    tagged, plain = INDEXER.example(Sentence("南京", ())), INDEXER.example(Sentence("南京"))
    assert collate([tagged, tagged]).tags is not None
    assert collate([tagged, plain]).tags is None


def test_a_batch_checks_itself():
    batch = collate([INDEXER.example(Sentence("南京市", ())), INDEXER.example(Sentence("南京", ()))])
    with pytest.raises(ValueError, match="do not belong"):
        dataclasses.replace(batch, lengths=torch.tensor([3]))
    with pytest.raises(ValueError, match="do not belong"):
        dataclasses.replace(batch, words=batch.words[1:])
    with pytest.raises(ValueError, match="tags must be"):
        dataclasses.replace(batch, tags=torch.zeros(2, 2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.chars = batch.chars


def test_to_moves_every_tensor():
    moved = collate([INDEXER.example(Sentence("南京市", ()))]).to("meta")
    fields = [getattr(moved, field.name) for field in dataclasses.fields(Batch)]
    assert {field.device.type for field in fields if isinstance(field, torch.Tensor)} == {"meta"}
