"""Sentences to examples to batches: nothing lost, nothing mixed, padding where it belongs."""

from __future__ import annotations

import dataclasses
import pickle
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice import batch as module
from hanlattice.batch import Batch, Examples, Indexer
from hanlattice.ops.lattice_lstm import prepare
from hanlattice.text.lattice import Lattice
from hanlattice.text.lexicon import Lexicon, Matches
from hanlattice.text.normal import fold, fold_digits
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span
from hanlattice.text.tags import spans_to_tags, tag_set
from hanlattice.text.vocab import Vocab
from tests.strategies import sentences

TAGS = tuple(tag_set(["LOC", "PER"], "BMES"))
INDEXER = Indexer(Vocab("南京市长江大桥0A"), Lexicon(["南京", "南京市", "长江", "大桥", "长江大桥"]), TAGS, "BMES")
texts = st.text(st.sampled_from("南京市长江大桥７Ａx\x00\ud800"), max_size=9)


def test_examples_have_ids_matches_and_tags():
    examples = INDEXER.examples([Sentence("南京市７", (Span(0, 3, "LOC"),))])
    assert examples.chars.tolist() == [1, 2, 3, INDEXER.vocab["0"]]
    assert [array.tolist() for array in examples.matches] == [[2], [0, 0], [2, 3], [0, 1]]
    assert examples.tags is not None
    assert [TAGS[tag] for tag in examples.tags] == ["B-LOC", "M-LOC", "E-LOC", "O"]


def test_full_width_forms_and_digits_have_the_ids_of_their_plain_forms():
    assert INDEXER.read(["Ａ７"]).chars.tolist() == INDEXER.read(["A3"]).chars.tolist()
    assert 0 not in INDEXER.read(["Ａ７"]).chars


def test_unknown_characters_are_0():
    assert INDEXER.read(["x\ud800\x00"]).chars.tolist() == [0, 0, 0]


def test_a_label_that_training_never_met_is_no_tag():
    tags = INDEXER.examples([Sentence("南京市", (Span(0, 1, "GPE"), Span(1, 3, "LOC")))]).tags
    assert tags is not None
    assert [TAGS[tag] for tag in tags] == ["O", "B-LOC", "E-LOC"]


def test_without_a_lexicon_there_are_no_matches():
    matches = dataclasses.replace(INDEXER, lexicon=None).read(["南京市", "长江"]).matches
    assert [array.tolist() for array in matches] == [[0, 0], [], [], []]


Numbers = tuple[list[int], list[tuple[int, int, int]], list[int]]  # characters, matches, tags


def by_hand(sentence: Sentence) -> Numbers:
    """A sentence as numbers, one character and one word at a time."""
    assert INDEXER.lexicon is not None
    chars = [INDEXER.vocab[character] for character in fold_digits(sentence.text)]
    tags = [TAGS.index(tag) for tag in spans_to_tags(sentence.spans or (), len(sentence), "BMES")]
    return chars, INDEXER.lexicon.match_ids(fold(sentence.text)), tags


def as_lists(examples: Examples) -> list[Numbers]:
    """The flat arrays cut up again, sentence by sentence."""
    chars, words = iter(examples.chars.tolist()), zip(*(a.tolist() for a in examples.matches[1:]), strict=True)
    tags = iter([] if examples.tags is None else examples.tags.tolist())
    cut = [
        (list(islice(chars, length)), list(islice(words, count)), list(islice(tags, length)))
        for length, count in zip(examples.lengths.tolist(), examples.matches.counts.tolist(), strict=True)
    ]
    assert [list(chars), list(words), list(tags)] == [[], [], []]
    return cut


def check_batch(batch: Batch, rows: list[Numbers]) -> None:
    """A batch holds these sentences, in this order, and nothing else."""
    T = max((len(chars) for chars, _, _ in rows), default=0)
    assert len(batch) == len(rows)
    assert batch.tags is not None
    assert batch.chars.shape == batch.tags.shape == (len(rows), T)
    assert batch.lengths.tolist() == [len(chars) for chars, _, _ in rows] == batch.lattice.lengths.tolist()
    assert batch.chars.tolist() == [chars + [0] * (T - len(chars)) for chars, _, _ in rows]
    assert batch.tags.tolist() == [tags + [0] * (T - len(tags)) for _, _, tags in rows]
    words = [(at, *match) for at, (_, matches, _) in enumerate(rows) for match in matches]
    assert batch.lattice == Lattice.from_words([len(chars) for chars, _, _ in rows], words)
    assert batch.words.tolist() == [word for *_, word in words]


@given(st.lists(texts, min_size=1, max_size=5))
def test_a_batch_holds_each_sentence_and_zeros_after_it(given_texts: list[str]) -> None:
    given_sentences = [Sentence(text, ()) for text in given_texts]
    batch = INDEXER.examples(given_sentences).batch(range(len(given_texts)))
    check_batch(batch, [by_hand(sentence) for sentence in given_sentences])


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
    assert as_lists(examples) == expected
    assert [as_lists(INDEXER.examples([sentence])) for sentence in corpus] == [[numbers] for numbers in expected]
    assert INDEXER.read([sentence.text for sentence in corpus]).tags is None


@given(corpora, st.data())
def test_a_batch_is_taken_from_any_places(corpus: list[Sentence], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(corpus) - 1), max_size=5)) if corpus else []
    batch = INDEXER.examples(corpus).batch(np.array(places, dtype=np.int64))
    check_batch(batch, [by_hand(corpus[at]) for at in places])
    rows = list(zip(batch.lattice.sentence, batch.lattice.start, batch.lattice.end, strict=True))
    assert rows == sorted(rows)


def test_examples_check_themselves():
    examples = INDEXER.examples([Sentence("南京市", ())])
    with pytest.raises(ValueError, match="do not belong"):
        dataclasses.replace(examples, chars=examples.chars[1:])
    with pytest.raises(ValueError, match="do not belong"):
        dataclasses.replace(examples, tags=np.zeros(2, dtype=np.int64))
    with pytest.raises(ValueError, match="inside its sentence"):
        Examples(np.array([2]), np.array([1, 2]), Matches(*map(np.array, ([1], [0], [3], [1]))), None)


def test_an_indexer_that_was_used_can_be_pickled():
    sentence = Sentence("南京市", (Span(0, 3, "LOC"),))
    examples = INDEXER.examples([sentence])
    again = pickle.loads(pickle.dumps(INDEXER)).examples([sentence])
    assert as_lists(again) == as_lists(examples) == [by_hand(sentence)]


def test_gold_tags_of_some_are_tags_of_none():
    tagged, plain = Sentence("南京", ()), Sentence("南京")
    assert INDEXER.examples([tagged, tagged]).batch([0, 1]).tags is not None
    assert INDEXER.examples([tagged, plain]).batch([0, 1]).tags is None
    assert INDEXER.examples([tagged, plain]).batch([0]).tags is None


def test_a_batch_checks_itself():
    batch = INDEXER.examples([Sentence("南京市", ()), Sentence("南京", ())]).batch([0, 1])
    with pytest.raises(ValueError, match="do not belong"):
        dataclasses.replace(batch, lengths=torch.tensor([3]))
    with pytest.raises(ValueError, match="do not belong"):
        dataclasses.replace(batch, words=batch.words[1:])
    with pytest.raises(ValueError, match="tags must be"):
        dataclasses.replace(batch, tags=torch.zeros(2, 2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.chars = batch.chars


def test_to_moves_every_tensor():
    moved = INDEXER.examples([Sentence("南京市", ())]).batch([0]).to("meta")
    fields = [getattr(moved, field.name) for field in dataclasses.fields(Batch)]
    assert {field.device.type for field in fields if isinstance(field, torch.Tensor)} == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("spans", [(), None], ids=["tagged", "plain"])
def test_to_a_gpu_and_back(spans):
    batch = INDEXER.examples([Sentence("南京市长江大桥", spans), Sentence("大桥", spans)]).batch([1, 0])
    moved = batch.to("cuda").to("cuda")  # the second time there is nothing to do
    kept = list(batch.lattice.kept)
    for name in ("chars", "lengths", "words", "tags"):
        mine, theirs = getattr(batch, name), getattr(moved, name)
        assert (mine is None and theirs is None) or (theirs.is_cuda and torch.equal(mine, theirs.cpu())), name
    assert moved.lattice == batch.lattice
    assert kept
    prepare(moved.lattice, moved.chars.device)
    assert list(moved.lattice.kept) == kept  # what a tensor's device asks for was there already
