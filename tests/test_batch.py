"""Sentences to examples to batches: nothing lost, nothing mixed, padding where it belongs."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice import batch as module
from hanlattice.batch import Batch, Example, Examples, Indexer, collate
from hanlattice.ops.lattice_lstm import prepare
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normal import fold, fold_digits
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span
from hanlattice.text.tags import spans_to_tags, tag_set
from hanlattice.text.vocab import Vocab
from tests.strategies import sentences

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


def by_hand(sentence: Sentence) -> tuple[list[int], list[tuple[int, int, int]], list[int]]:
    """What an example is, one character and one word at a time."""
    assert INDEXER.lexicon is not None
    chars = [INDEXER.vocab[character] for character in fold_digits(sentence.text)]
    tags = [TAGS.index(tag) for tag in spans_to_tags(sentence.spans or (), len(sentence), "BMES")]
    return chars, INDEXER.lexicon.match_ids(fold(sentence.text)), tags


def as_lists(example: Example) -> tuple[list[int], list[tuple[int, int, int]], list[int]]:
    tags = [] if example.tags is None else example.tags.tolist()
    return example.chars.tolist(), list(map(tuple, example.matches.tolist())), tags


corpora = st.lists(
    sentences(st.sampled_from("南京市长江大桥７Ａx\x00\ud800\n"), st.sampled_from(["LOC", "PER"])), max_size=6
)


@given(corpora, st.integers(1, 40))
def test_a_corpus_at_once_or_sentence_by_sentence(corpus: list[Sentence], part: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART", part)
        examples = INDEXER.examples(corpus)
    expected = [by_hand(sentence) for sentence in corpus]
    assert len(examples) == len(corpus)
    assert [as_lists(example) for example in examples] == expected
    assert [as_lists(INDEXER.example(sentence)) for sentence in corpus] == expected
    assert [as_lists(example) for example in Examples.join(list(examples))] == expected
    assert INDEXER.read([sentence.text for sentence in corpus]).tags is None


@given(corpora, st.data())
def test_a_batch_is_taken_from_any_places(corpus: list[Sentence], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(corpus) - 1), max_size=5)) if corpus else []
    examples = INDEXER.examples(corpus)
    batch, expected = examples.batch(np.array(places, dtype=np.int64)), collate([examples[at] for at in places])
    for name in ("chars", "lengths", "words", "tags"):
        assert torch.equal(getattr(batch, name), getattr(expected, name)), name
    assert batch.lattice == expected.lattice
    rows = list(zip(batch.lattice.sentence, batch.lattice.start, batch.lattice.end, strict=True))
    assert rows == sorted(rows)


def test_examples_check_themselves():
    examples = INDEXER.examples([Sentence("南京市", ())])
    with pytest.raises(ValueError, match="do not belong"):
        dataclasses.replace(examples, chars=examples.chars[1:])
    with pytest.raises(ValueError, match="do not belong"):
        dataclasses.replace(examples, tags=np.zeros(2, dtype=np.int64))
    with pytest.raises(ValueError, match="inside its sentence"):
        collate([Example(np.array([1, 2]), np.array([[0, 3, 1]]), None)])


def test_an_indexer_that_was_used_can_be_pickled():
    example = INDEXER.example(Sentence("南京市", (Span(0, 3, "LOC"),)))
    again = pickle.loads(pickle.dumps(INDEXER)).example(Sentence("南京市", (Span(0, 3, "LOC"),)))
    assert as_lists(again) == as_lists(example)


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("spans", [(), None], ids=["tagged", "plain"])
def test_to_a_gpu_and_back(spans):
    batch = INDEXER.examples([Sentence("南京市长江大桥", spans), Sentence("大桥", spans)]).batch([1, 0])
    moved = batch.to("cuda")
    kept = list(batch.lattice.kept)
    for name in ("chars", "lengths", "words", "tags"):
        mine, theirs = getattr(batch, name), getattr(moved, name)
        assert (mine is None and theirs is None) or (theirs.is_cuda and torch.equal(mine, theirs.cpu())), name
    assert moved.lattice == batch.lattice
    assert kept
    prepare(moved.lattice, moved.chars.device)
    assert list(moved.lattice.kept) == kept  # what a tensor's device asks for was there already
