"""Sentences to examples to batches: nothing lost, nothing mixed, padding where it belongs."""

from __future__ import annotations

import dataclasses
import pickle
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.errors import InputError
from hanlattice.features import Batch, Examples, Indexer
from hanlattice.features import indexer as module
from hanlattice.features.batches import CoveringWords
from hanlattice.features.indexer import JOINTS, count_crossing, spans_of_words, word_id
from hanlattice.nn.to_device import to_device
from hanlattice.ops import packing
from hanlattice.ops.lattice_lstm import prepare
from hanlattice.text.boundaries import CUT, FREE, SPACED, name_gaps
from hanlattice.text.lattice import Lattice, Segments
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import fold, fold_digits
from hanlattice.text.segment import make_segmenter
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.tags import FlatSpans, spans_to_tags, tag_set
from hanlattice.text.trie import Matches
from hanlattice.text.vocab import Vocab, bigrams
from tests.helpers.strategies import sentences, spans
from tests.helpers.words import segmented_sentences, words

TAGS = tuple(tag_set(["LOC", "PER"], "BMES"))
INDEXER = Indexer(
    Vocab("南京市长江大桥0A"), Lexicon(["南京", "南京市", "长江", "大桥", "长江大桥"]), TAGS, "BMES"
)
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


def places_read(text: str) -> list[int]:
    return [at for at, character in enumerate(text) if not character.isspace()]


def as_read(sentence: Sentence) -> Sentence:
    """Without white space, which no model but one of words reads; spans and words keep the rest of
    their characters.
    """
    read = places_read(sentence.text)

    def moved(row: tuple[Span, ...]) -> tuple[Span, ...]:
        inside = [[to for to, at in enumerate(read) if span.start <= at < span.end] for span in row]
        pairs = zip(row, inside, strict=True)
        return tuple(
            Span(places[0], places[-1] + 1, span.label) for span, places in pairs if places
        )

    words = None if sentence.words is None else moved(sentence.words)
    return Sentence("".join(sentence.text.split()), moved(sentence.spans or ()), words)


def by_hand(sentence: Sentence) -> Numbers:
    """A sentence as numbers, one character and one word at a time."""
    assert INDEXER.lexicon is not None
    read = as_read(sentence)
    gaps = name_gaps(sentence.text)[places_read(sentence.text)].tolist()
    chars = [INDEXER.vocab[character] for character in fold_digits(read.text)]
    tags = [TAGS.index(tag) for tag in spans_to_tags(read.spans or (), len(read), "BMES")]
    inside = [
        (match, set(gaps[match[0] + 1 : match[1]]))
        for match in INDEXER.lexicon.match_ids(fold(read.text))
    ]
    return (
        chars,
        [match for match, kinds in inside if CUT not in kinds and kinds != {FREE, SPACED}],
        tags,
    )


def as_lists(examples: Examples) -> list[Numbers]:
    """The flat arrays cut up again, sentence by sentence."""
    chars = iter(examples.chars.tolist())
    words = zip(*(a.tolist() for a in examples.matches[1:]), strict=True)
    tags = iter([] if examples.tags is None else examples.tags.tolist())
    cut = [
        (list(islice(chars, length)), list(islice(words, count)), list(islice(tags, length)))
        for length, count in zip(
            examples.lengths.tolist(), examples.matches.counts.tolist(), strict=True
        )
    ]
    assert [list(chars), list(words), list(tags)] == [[], [], []]
    return cut


def check_batch(batch: Batch, rows: list[Numbers]) -> None:
    """A batch holds these sentences, in this order, and nothing else."""
    T = max((len(chars) for chars, _, _ in rows), default=0)
    assert len(batch) == len(rows)
    assert batch.tags is not None
    assert batch.chars.shape == batch.tags.shape == (len(rows), T)
    assert (
        batch.lengths.tolist()
        == [len(chars) for chars, _, _ in rows]
        == batch.lattice.lengths.tolist()
    )
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
    sentences(
        st.sampled_from("南京市长江大桥７Ａx\x00\ud800\n  \u3000"), st.sampled_from(["LOC", "PER"])
    ),
    max_size=6,
)


@given(corpora, st.integers(1, 40))
def test_a_corpus_at_once_or_sentence_by_sentence(corpus: list[Sentence], part: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART", part)
        examples = INDEXER.examples(corpus)
    expected = [by_hand(sentence) for sentence in corpus]
    assert len(examples) == len(corpus)
    assert as_lists(examples) == expected
    assert [as_lists(INDEXER.examples([sentence])) for sentence in corpus] == [
        [numbers] for numbers in expected
    ]
    assert INDEXER.read([sentence.text for sentence in corpus]).tags is None


@given(corpora, st.data())
def test_a_batch_is_taken_from_any_places(corpus: list[Sentence], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(corpus) - 1), max_size=5)) if corpus else []
    batch = INDEXER.examples(corpus).batch(np.array(places, dtype=np.int64))
    check_batch(batch, [by_hand(corpus[at]) for at in places])
    rows = list(zip(batch.lattice.sentence, batch.lattice.start, batch.lattice.end, strict=True))
    assert rows == sorted(rows)


def lattice_words(batch: Batch) -> list[tuple[int, ...]]:
    lattice = batch.lattice
    arrays = (lattice.sentence, lattice.start, lattice.end, lattice.word)
    return list(zip(*(array.tolist() for array in arrays), strict=True))


@given(st.lists(texts, min_size=1, max_size=6), st.floats(0, 0.99), st.integers(0, 5))
def test_a_batch_without_some_words_has_some_of_the_others_and_all_else(
    given_texts: list[str], missing: float, seed: int
) -> None:
    examples = INDEXER.read(given_texts)
    places = range(len(given_texts))
    whole = examples.batch(places)
    some = examples.batch(places, missing, (seed, 3))
    left = iter(lattice_words(whole))
    assert all(word in left for word in lattice_words(some))  # in their order
    assert lattice_words(some) == lattice_words(examples.batch(places, missing, (seed, 3)))
    assert np.array_equal(whole.chars, some.chars)
    assert whole.lattice.lengths.tolist() == some.lattice.lengths.tolist()
    if not missing:
        assert lattice_words(some) == lattice_words(whole)


def test_so_many_words_are_missing_and_others_by_another_seed():
    examples = INDEXER.read(["南京市长江大桥"] * 400)
    counts = [
        len(lattice_words(examples.batch(range(400), share, (1,))))
        for share in (0.0, 0.1, 0.5, 0.9)
    ]
    assert counts[0] == 2000
    for count, share in zip(counts[1:], (0.1, 0.5, 0.9), strict=True):
        assert count == pytest.approx(2000 * (1 - share), abs=100)
    first, second = (lattice_words(examples.batch(range(400), 0.5, (1, seed))) for seed in (1, 2))
    assert first != second


def test_an_indexer_that_was_used_can_be_pickled():
    sentence = Sentence("南京市", (Span(0, 3, "LOC"),))
    examples = INDEXER.examples([sentence])
    again = pickle.loads(pickle.dumps(INDEXER)).examples([sentence])
    assert as_lists(again) == as_lists(examples) == [by_hand(sentence)]


def test_gold_tags_of_some_are_tags_of_none():
    tagged = Sentence("南京", ())
    plain = Sentence("南京")
    assert INDEXER.examples([tagged, tagged]).batch([0, 1]).tags is not None
    assert INDEXER.examples([tagged, plain]).batch([0, 1]).tags is None
    assert INDEXER.examples([tagged, plain]).batch([0]).tags is None


# ---- extra ids of characters, and words


BIGRAMS = Vocab(["南京", "京市", "市0", "长江", "江大", "市-null-", "A0"])
SOFT = dataclasses.replace(
    INDEXER,
    symbols=Vocab("市京"),
    bichars=BIGRAMS,
    segmenter=make_segmenter("gold", pos=True),
    pos=Vocab(["n", "v-n"]),
)
WORDED = Indexer(
    INDEXER.vocab,
    None,
    TAGS,
    "BMES",
    bichars=BIGRAMS,
    segmenter=make_segmenter("gold"),
    words=Vocab(["南京", "市", "长江", "A7", "0", "00", "江大", "南0"]),
)
segmented = segmented_sentences(
    st.sampled_from("南京市长江大７8Ａ \n"), st.sampled_from(["LOC", "PER"])
)
segmented_corpora = st.lists(segmented | st.just(Sentence("", (), ())), max_size=5)


def bigrams_by_hand(text: str) -> list[int]:
    found = iter(bigrams(text))
    return [0 if character.isspace() else BIGRAMS[next(found)] for character in fold_digits(text)]


def extra_ids_by_hand(sentence: Sentence) -> dict[str, list[int]]:
    """The further numbers of a sentence's characters, one character at a time."""
    assert SOFT.pos is not None
    sentence = as_read(sentence)
    places = []
    parts = []
    for word in sentence.words or ():
        for at in range(word.start, word.end):
            alone = word.end - word.start == 1
            first = at == word.start
            last = at == word.end - 1
            places.append(3 if alone else 0 if first else 2 if last else 1)
            parts.append(SOFT.pos[word.label])
    return {"bichars": bigrams_by_hand(sentence.text), "positions": places, "pos": parts}


def words_by_hand(sentence: Sentence) -> list[tuple[int, int, int]]:
    """(start, end, id) of each word."""
    assert WORDED.words is not None
    found = []
    for word in sentence.words or ():
        plain = fold(sentence.text)[word.start : word.end]
        found.append(
            (word.start, word.end, WORDED.words[plain] or WORDED.words[fold_digits(plain)])
        )
    return found


def tags_by_hand(sentence: Sentence) -> list[int]:
    """The tags of a sentence's words: each span that some run of words covers exactly, tried run by
    run.
    """
    given_words = sentence.words or ()
    whole = [
        Span(first, last + 1, span.label)
        for span in sentence.spans or ()
        for first, left in enumerate(given_words)
        for last, right in enumerate(given_words)
        if (left.start, right.end) == (span.start, span.end)
    ]
    return [TAGS.index(tag) for tag in spans_to_tags(whole, len(given_words), "BMES")]


def padded(rows: list[list[int]]) -> list[list[int]]:
    longest = max(map(len, rows), default=0)
    return [row + [0] * (longest - len(row)) for row in rows]


@given(segmented_corpora, st.data())
def test_extra_ids_are_those_of_a_plain_loop(corpus: list[Sentence], data: st.DataObject) -> None:
    examples = SOFT.examples(corpus)
    expected = [extra_ids_by_hand(sentence) for sentence in corpus]
    for name in ("bichars", "positions", "pos"):
        assert examples.extra_ids[name].tolist() == [
            number for row in expected for number in row[name]
        ], name
    assert examples.segments is None
    assert as_lists(examples) == [by_hand(sentence) for sentence in corpus]
    places = data.draw(st.lists(st.integers(0, len(corpus) - 1), max_size=5)) if corpus else []
    batch = examples.batch(places)
    check_batch(batch, [by_hand(corpus[at]) for at in places])
    assert batch.extra_ids.keys() - {JOINTS} == {"bichars", "positions", "pos"}
    gaps = [name_gaps(sentence.text)[places_read(sentence.text)].tolist() for sentence in corpus]
    spaced = any(character.isspace() for sentence in corpus for character in sentence.text)
    assert (JOINTS in batch.extra_ids) == spaced
    for name, table in batch.extra_ids.items():
        rows = gaps if name == JOINTS else [row[name] for row in expected]
        assert table.tolist() == padded([rows[at] for at in places]), name
    assert batch.symbols is not None
    texts_read = [fold_digits(as_read(corpus[at]).text) for at in places]
    symbols = [[SOFT.symbols[c] for c in text] for text in texts_read]  # type: ignore[index]
    assert batch.symbols.tolist() == padded(symbols)


@given(segmented_corpora, st.data())
def test_words_and_their_tags_are_those_of_a_plain_loop(
    corpus: list[Sentence], data: st.DataObject
) -> None:
    examples = WORDED.examples(corpus)
    expected = [words_by_hand(sentence) for sentence in corpus]
    assert examples.segments is not None
    assert (
        examples.segments.counts.tolist()
        == examples.units.tolist()
        == [len(row) for row in expected]
    )
    arrays = (array.tolist() for array in examples.segments[1:])
    assert list(zip(*arrays, strict=True)) == [word for row in expected for word in row]
    assert examples.extra_ids.keys() == {"bichars"}
    places = data.draw(st.lists(st.integers(0, len(corpus) - 1), max_size=5)) if corpus else []
    batch = examples.batch(places)
    lengths = [len(corpus[at]) for at in places]
    rows = [expected[at] for at in places]
    assert batch.segments == segments_by_hand(lengths, rows)
    assert batch.places is batch.segments
    assert batch.words.tolist() == [word for row in rows for _, _, word in row]
    assert batch.counts is not None
    assert batch.counts.tolist() == batch.units.tolist() == [len(row) for row in rows]
    assert batch.tags is not None
    assert batch.tags.tolist() == padded([tags_by_hand(corpus[at]) for at in places])
    assert batch.extra_ids["bichars"].tolist() == padded(
        [bigrams_by_hand(corpus[at].text) for at in places]
    )
    assert (len(batch.lattice), batch.lattice.lengths.tolist(), batch.lengths.tolist()) == (
        0,
        lengths,
        lengths,
    )


def segments_by_hand(lengths: list[int], rows: list[list[tuple[int, int, int]]]) -> Segments:
    flat = np.array([word for row in rows for word in row], dtype=np.int64).reshape(-1, 3)
    counts = np.array([len(row) for row in rows], dtype=np.int64)
    return Segments(np.array(lengths, dtype=np.int64), counts, *flat.T)


@given(segmented_corpora, st.integers(1, 30), st.sampled_from([SOFT, WORDED]))
def test_in_parts_or_at_once(corpus: list[Sentence], part: int, indexer: Indexer) -> None:
    whole = indexer.examples(corpus)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART", part)
        parts = indexer.examples(corpus)
    assert parts.extra_ids.keys() == whole.extra_ids.keys()
    for mine, theirs in (
        *((getattr(parts, name), getattr(whole, name)) for name in ("lengths", "chars", "tags")),
        *((parts.extra_ids[name], whole.extra_ids[name]) for name in whole.extra_ids),
        *zip(parts.matches, whole.matches, strict=True),
        *zip(parts.segments or (), whole.segments or (), strict=True),
        *([(parts.symbols, whole.symbols)] if whole.symbols is not None else []),
    ):
        assert mine.tolist() == theirs.tolist()
        assert mine.dtype == np.int64


@given(segmented_corpora)
def test_spans_of_words_come_back_and_the_others_cross(corpus: list[Sentence]) -> None:
    examples = WORDED.examples(corpus)
    assert examples.segments is not None
    gold = [sentence.spans or () for sentence in corpus]
    cuts = [{0, *(word.end for word in sentence.words or ())} for sentence in corpus]
    whole = [
        [span for span in row if {span.start, span.end} <= edges]
        for row, edges in zip(gold, cuts, strict=True)
    ]
    found = spans_of_words(gold, *examples.segments[:3])
    assert count_crossing(gold, *examples.segments[:3]) == sum(map(len, gold)) - sum(
        map(len, whole)
    )
    back = examples.in_characters(flat(found))
    assert [array.tolist() for array in back] == [array.tolist() for array in flat(whole)]
    with_tags = WORDED.tag_ids.spans(examples.tags, examples.units)  # type: ignore[arg-type]
    assert [array.tolist() for array in with_tags] == [array.tolist() for array in flat(found)]


def flat(rows: list[list[Span]]) -> FlatSpans:
    labels = WORDED.tag_ids.labels
    numbers = [
        (at, span.start, span.end, labels.index(span.label))
        for at, row in enumerate(rows)
        for span in row
    ]
    return FlatSpans(*np.array(numbers, dtype=np.int64).reshape(-1, 4).T)


@given(
    st.integers(0, 9).flatmap(
        lambda length: st.tuples(words(length), spans(length, st.just("LOC")))
    )
)
def test_a_span_is_of_words_exactly_if_some_run_of_them_is_the_span(
    drawn: tuple[tuple[Span, ...], ...],
) -> None:
    given_words, given_spans = drawn
    start, end = (
        np.array([getattr(w, name) for w in given_words], dtype=np.int64)
        for name in ("start", "end")
    )
    (found,) = spans_of_words([given_spans], np.array([len(given_words)]), start, end)
    covered = [set(range(span.start, span.end)) for span in given_spans]
    runs = [(a, b) for a in range(len(given_words)) for b in range(a + 1, len(given_words) + 1)]
    expected = [
        (a, b)
        for row in covered
        for a, b in runs
        if row == set(range(given_words[a].start, given_words[b - 1].end))
    ]
    assert [(span.start, span.end) for span in found] == expected


def test_spans_over_characters_are_their_own() -> None:
    examples = SOFT.examples([Sentence("南京", (), (Span(0, 2, "n"),))])
    given_spans = flat([[Span(0, 1, "LOC")]])
    assert examples.in_characters(given_spans) is given_spans


def test_a_word_is_looked_up_as_it_is_and_then_with_its_digits_as_0() -> None:
    vocab = Vocab(["1998", "0000", "A00"])
    assert [word_id(vocab, word) for word in ("1998", "1997", "A12", "12", "")] == [1, 2, 3, 0, 0]


@pytest.mark.parametrize("indexer", [INDEXER, SOFT, WORDED], ids=["lattice", "softword", "word"])
def test_empty_corpora_and_empty_sentences(indexer: Indexer) -> None:
    for count in (0, 1, 3):
        examples = indexer.examples([Sentence("", (), ())] * count)
        batch = examples.batch(range(count))
        assert (len(examples), len(batch), batch.chars.shape) == (count, count, (count, 0))
        assert batch.tags is not None
        assert (batch.tags.shape, batch.words.shape, len(batch.places)) == ((count, 0), (0,), 0)
        assert all(table.shape == (count, 0) for table in batch.extra_ids.values())
        assert examples.in_characters(flat([])).text.tolist() == []


def test_a_text_without_gold_words_is_refused_by_the_model_that_wants_them() -> None:
    for indexer in (SOFT, WORDED):
        with pytest.raises(InputError, match=r"segment\.by=gold needs the words"):
            indexer.read(["南京"])
        with pytest.raises(InputError, match="this text has none"):
            indexer.examples([Sentence("南京", ())])
        assert indexer.read(["", ""]).lengths.tolist() == [0, 0]


# ---- checks


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


SENTENCE = Sentence("南京市", (Span(0, 2, "LOC"),), (Span(0, 2, "n"), Span(2, 3, "v-n")))
NO_MATCH = Matches(numbers(0), numbers(), numbers(), numbers())
WRONG_EXAMPLES = {
    "a character less": (INDEXER, {"chars": numbers(1, 2)}, "do not belong"),
    "a tag less": (INDEXER, {"tags": numbers(0, 0)}, "do not belong"),
    "tags of characters": (WORDED, {"tags": numbers(0, 0, 0)}, "do not belong"),
    "tags of words": (SOFT, {"tags": numbers(0, 0)}, "do not belong"),
    "a symbol less": (SOFT, {"symbols": numbers(1, 2)}, "chars, symbols, states and extra ids"),
    "a state less": (
        SOFT,
        {"states": np.zeros((2, 4), np.float16)},
        "chars, symbols, states and extra ids",
    ),
    "a bigram less": (
        SOFT,
        {"extra_ids": {"bichars": numbers(1, 2)}},
        "extra ids are not of the same sentences",
    ),
    "matches of two sentences": (
        INDEXER,
        {"matches": NO_MATCH._replace(counts=numbers(0, 0))},
        "lengths and matches do not belong",
    ),
    "a match too long": (
        INDEXER,
        {"matches": Matches(*map(numbers, (1, 0, 4, 1)))},
        "inside its sentence",
    ),
    "a match too short": (
        INDEXER,
        {"matches": Matches(*map(numbers, (1, 0, 1, 1)))},
        "two characters or more",
    ),
    "words that leave a gap": (
        WORDED,
        {"segments": CoveringWords(numbers(2), numbers(0, 2), numbers(1, 3), numbers(0, 0))},
        "does not begin where the one before it ends",
    ),
    "words of another sentence": (
        WORDED,
        {"segments": CoveringWords(numbers(2), numbers(0, 1), numbers(1, 2), numbers(0, 0))},
        "its words cover 2",
    ),
}


@pytest.mark.parametrize(
    ("indexer", "changes", "says"), WRONG_EXAMPLES.values(), ids=WRONG_EXAMPLES.keys()
)
def test_examples_check_themselves(indexer: Indexer, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(indexer.examples([SENTENCE]), **changes)


ids = torch.tensor
WRONG_BATCHES = {
    "a length less": (INDEXER, {"lengths": ids([3])}, "do not belong to the same batch"),
    "a word less": (INDEXER, {"words": ids([0])}, "do not belong to the same batch"),
    "a lattice of one": (
        INDEXER,
        {"lattice": Lattice.from_words([3], [])},
        "do not belong to the same batch",
    ),
    "tags of another width": (
        INDEXER,
        {"tags": torch.zeros(2, 2)},
        r"tags must be \(2, 3\), not \(2, 2\)",
    ),
    "tags of characters": (
        WORDED,
        {"tags": torch.zeros(2, 3)},
        r"tags must be \(2, 2\), not \(2, 3\)",
    ),
    "words of the lattice": (WORDED, {"words": ids([0])}, "do not belong to the same batch"),
    "a count less": (WORDED, {"counts": ids([2])}, "do not belong to the same batch"),
    "segments of one": (
        WORDED,
        {
            "segments": segments_by_hand([3], [[(0, 1, 0), (1, 2, 0), (2, 3, 0)]]),
            "words": ids([0, 0, 0]),
        },
        "do not belong to the same batch",
    ),
    "counts alone": (INDEXER, {"counts": ids([1, 1])}, "segments come with counts"),
    "segments alone": (WORDED, {"counts": None}, "segments come with counts"),
    "symbols of another width": (
        SOFT,
        {"symbols": torch.zeros(2, 4)},
        r"symbols must begin with \(2, 3\)",
    ),
    "states of another width": (
        SOFT,
        {"states": torch.zeros(2, 2, 5)},
        r"states must begin with \(2, 3\)",
    ),
    "positions of another width": (
        SOFT,
        {"extra_ids": {"pos": torch.zeros(1, 3)}},
        r"pos must begin with \(2, 3\)",
    ),
}


def two(indexer: Indexer) -> Batch:
    return indexer.examples([SENTENCE, Sentence("南京", (), (Span(0, 2, "n"),))]).batch([0, 1])


@pytest.mark.parametrize(
    ("indexer", "changes", "says"), WRONG_BATCHES.values(), ids=WRONG_BATCHES.keys()
)
def test_a_batch_checks_itself(indexer: Indexer, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(two(indexer), **changes)


def test_a_batch_stays_as_it_is():
    batch = two(WORDED)
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.chars = batch.chars


# ---- to a device


def tensors(batch: Batch) -> dict[str, torch.Tensor]:
    """Every tensor of a batch, by name."""
    fields = {field.name: getattr(batch, field.name) for field in dataclasses.fields(Batch)}
    return {
        name: value
        for name, value in (fields | dict(batch.extra_ids)).items()
        if isinstance(value, torch.Tensor | np.ndarray)
    }


@pytest.mark.parametrize("indexer", [INDEXER, SOFT, WORDED], ids=["lattice", "softword", "word"])
def test_to_moves_every_tensor(indexer: Indexer) -> None:
    batch = dataclasses.replace(two(indexer), states=np.zeros((2, 3, 4), dtype=np.float16))
    there = to_device(batch, "meta")
    assert {tensor.device.type for tensor in tensors(there).values()} == {"meta"}
    shapes = [
        {name: tensor.shape for name, tensor in tensors(each).items()} for each in (batch, there)
    ]
    assert shapes[0] == shapes[1]
    assert (there.lattice, there.segments) == (batch.lattice, batch.segments)
    here = to_device(batch, "cpu")
    assert all(
        np.array_equal(tensor, tensors(batch)[name]) for name, tensor in tensors(here).items()
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("is_tagged", [True, False], ids=["tagged", "plain"])
@pytest.mark.parametrize("indexer", [INDEXER, SOFT, WORDED], ids=["lattice", "softword", "word"])
def test_to_a_gpu_and_back(indexer: Indexer, is_tagged: bool) -> None:
    batch = two(indexer) if is_tagged else dataclasses.replace(two(indexer), tags=None)
    moved = to_device(to_device(batch, "cuda"), "cuda")  # the second time there is nothing to do
    kept = list(batch.places.cache)
    mine = tensors(batch)
    theirs = tensors(moved)
    assert mine.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert tensor.is_cuda, name
        assert np.array_equal(mine[name], tensor.cpu()), name
    assert moved.places is batch.places
    assert kept
    device = moved.chars.device
    prepare(batch.lattice, device) if batch.segments is None else packing.prepare(
        batch.segments, device
    )
    assert list(batch.places.cache) == kept  # what a tensor's device asks for was there already
