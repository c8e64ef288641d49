"""Indexer: turns text into numbers, with the vocabularies, lexicon and segmenter of one model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hanlattice.errors import InputError
from hanlattice.features.batches import CoveringWords, Examples, SoftLabels
from hanlattice.text.boundaries import (
    CUT,
    SPACED,
    Unspaced,
    cuts_nothing,
    names_without_space,
    spans_without_space,
    without_space,
)
from hanlattice.text.fork_safety import cached_property
from hanlattice.text.lattice import Ints, Lattice, cells, runs
from hanlattice.text.lexicon import Lexicon, merged_matches
from hanlattice.text.normalize import (
    Codes,
    CodeTable,
    code_points,
    fold,
    fold_code_points,
    fold_digits,
)
from hanlattice.text.pieces import Pieces
from hanlattice.text.rules import CUT_BEFORE, Rulings
from hanlattice.text.segment import Cuts, Segmenter
from hanlattice.text.sentence import Sentence, check_words
from hanlattice.text.span import Span
from hanlattice.text.tags import TagIds
from hanlattice.text.trie import Matches, TooManyMatchesError
from hanlattice.text.vocab import BigramTable, Vocab, seen_as

# Texts are matched about this many characters at a time, which bounds the memory of matching.
PART = 1 << 19
# The most lattice words, and dictionary rulings, of one part. Texts have one to three words a
# character. A dictionary of words inside words can give hundreds; then a part has fewer texts.
MATCHES = 1 << 21

# The names of a character's extra ids: the bigram that it begins, its position in a segmenter's
# word, that word's part of speech, the gap before it, and the transformer's piece.
BICHARS = "bichars"
POSITIONS = "positions"
POS = "pos"
JOINTS = "joints"
PIECES = "pieces"

GoldWords = tuple[Span, ...] | None


class Places(NamedTuple):
    """Spans of a batch: [start, end) of a sentence, all [S]."""

    sentence: Ints
    start: Ints
    end: Ints


def apart(places: Places) -> Places:
    """Return the spans that overlap no longer span, nor an equally long one further left."""
    kept = which_are_apart(places)
    return Places(*(array[kept] for array in places))


def chosen(lattice: Lattice, own: Ints | None) -> Places | None:
    """Return the places of the user's words in a batch, given their ids; None if there are none.

    Of two words that overlap, the longer one counts.
    """
    if own is None or not (is_own := np.isin(lattice.word, own)).any():
        return None
    return apart(Places(lattice.sentence[is_own], lattice.start[is_own], lattice.end[is_own]))


def which_are_apart(places: Places) -> list[int]:
    """Return the indices of the spans that `apart` keeps, in ascending order."""
    sentence, start, end = places
    widths = np.zeros(int(sentence.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(widths, sentence, end)
    # All sentences share one row of flags; `first` is where a span's sentence begins in it.
    first = (np.cumsum(widths) - widths)[sentence]
    taken = np.zeros(int(widths.sum()), dtype=bool)
    kept = []
    for index in np.lexsort((start, start - end, sentence)).tolist():
        room = taken[first[index] + start[index] : first[index] + end[index]]
        if not room.any():
            room[:] = True
            kept.append(index)
    return sorted(kept)


def within_cuts(matches: Matches, lengths: Ints, gaps: Ints) -> Matches:
    """Return the matches with no CUT inside whose inner gaps are all SPACED, or none of them."""
    text = np.repeat(np.arange(len(lengths)), matches.counts)
    first = (np.cumsum(lengths) - lengths)[text]
    # The difference of two running sums counts the gaps inside a match.
    counted = np.cumsum([gaps == CUT, gaps == SPACED], axis=1)
    cuts, spaced = counted[:, first + matches.end - 1] - counted[:, first + matches.start]
    all_spaced = spaced == matches.end - matches.start - 1
    return matches.where((cuts == 0) & ((spaced == 0) | all_spaced))


class _Known(NamedTuple):
    """What a lexicon knows of texts; the fields are those of Examples."""

    matches: Matches
    own: Ints | None
    rulings: Rulings | None
    labels: tuple[str, ...]
    added: tuple[Any, ...] | None


@dataclass(frozen=True)
class Indexer:
    """The tags of a model, and the vocabularies, lexicon and segmenter that it uses."""

    vocab: Vocab
    lexicon: Lexicon | None
    tags: tuple[str, ...]
    scheme: str
    symbols: Vocab | None = None  # the characters of the language model
    bichars: Vocab | None = None
    # Cuts the text of a word model, which also has `words`; for other models it gives softwords.
    segmenter: Segmenter | None = None
    words: Vocab | None = None
    pos: Vocab | None = None  # parts of speech
    subwords: Lexicon | None = None  # only with sources = "both"; subwords have the lowest ids
    pieces: Pieces | None = None  # the pieces of the transformer

    @cached_property
    def cuts(self) -> bool:
        """Whether the model is a segmenter: its spans are words that cover all but white space."""
        return "O" not in self.tags

    def examples(self, sentences: Sequence[Sentence]) -> Examples:
        """Return a corpus as numbers, with gold tags if every sentence has spans.

        A word model gets no tags for spans that begin or end inside a word.
        """
        texts = [sentence.text for sentence in sentences]
        plain = self.read(texts, [sentence.words for sentence in sentences])
        spans = [sentence.spans for sentence in sentences if sentence.spans is not None]
        if len(spans) < len(sentences):
            return plain
        of_units: Sequence[Sequence[Span]] = spans
        if self.cuts:
            numbered = enumerate(sentences, start=1)
            of_units = [self._covering(sentence, number) for number, sentence in numbered]
        elif plain.segments is not None:
            of_units = spans_of_words(spans, *plain.segments[:3])
        elif plain.offsets is not None:
            pairs = zip(texts, spans, strict=True)
            of_units = [spans_without_space(text, row)[1] for text, row in pairs]
        tags = self.tag_ids.tags(of_units, plain.units)
        return replace(plain, tags=tags, soft_labels=self._soft_labels(sentences, plain))

    def _soft_labels(self, sentences: Sequence[Sentence], plain: Examples) -> SoftLabels | None:
        rows = [
            (number, *soft_label)
            for number, sentence in enumerate(sentences)
            for soft_label in sentence.soft_labels
        ]
        if not rows:
            return None
        if plain.segments is not None:
            raise InputError(
                "soft labels are for characters, and a word model tags words: "
                "train a lattice or character model on them"
            )
        number, character, named, shares = zip(*rows, strict=True)
        tag_ids = {tag: k for k, tag in enumerate(self.tags)}
        if new := sorted(set(named) - set(tag_ids)):
            has = f"it has {', '.join(self.tags)}"
            raise InputError(
                f"the teachers had tags that this model has not: {', '.join(new)}; {has}"
            )
        sentence = np.array(number, dtype=np.int64)
        place = np.array(character, dtype=np.int64)
        if plain.offsets is not None:
            # Search (sentence, offset) pairs at once: the sentence is in the upper 32 bits.
            keys = (np.repeat(np.arange(len(plain)), plain.lengths) << 32) + plain.offsets
            place = np.searchsorted(keys, (sentence << 32) + place) - plain.first[sentence]
        counts = np.bincount(sentence, minlength=len(sentences))
        tag = np.array([tag_ids[name] for name in named], dtype=np.int64)
        return SoftLabels(counts, place, tag, np.array(shares, dtype=np.float32), len(self.tags))

    def _covering(self, sentence: Sentence, number: int) -> Sequence[Span]:
        """Return the words of a sentence without white space; refuse any that leave a gap.

        A label that the model lacks becomes its first label: cutting is learnt from every word.
        """
        text, words = spans_without_space(sentence.text, sentence.spans or ())
        try:
            check_words(words, len(text))
        except ValueError as error:
            wanted = "every character must belong to a word"
            raise InputError(f"sentence {number}, {text[:20]!r}: {error}; {wanted}") from None
        labels = self.tag_ids.labels
        return [word if word.label in labels else replace(word, label=labels[0]) for word in words]

    def read(self, texts: Sequence[str], words: Sequence[GoldWords] | None = None) -> Examples:
        """Return texts as numbers, without tags.

        Args:
            texts: Each is segmented by itself. Only a word model reads white space.
            words: The gold words, for a model that needs them.
        """

        def read_all() -> list[Examples]:
            return [examples for _, _, examples in self.parts(texts, words)]

        return _joined(read_all() if self.lexicon is None else self.lexicon.with_same_ids(read_all))

    def parts(
        self, texts: Sequence[str], words: Sequence[GoldWords] | None = None, characters: int = PART
    ) -> Iterator[tuple[int, int, Examples]]:
        """Read texts in parts of bounded size, whatever the texts and the dictionary are.

        Args:
            texts: Texts of bounded length.
            words: The gold words, for a model that needs them.
            characters: About the most characters of a part. A part has fewer if the dictionary has
                many words inside words. A single text with too many words is an InputError.

        Yields:
            The place of a part's first text, the place after its last, and the part.
        """
        # A stack, so that the halves of a part that was too large come next, in order.
        left = [*runs(texts, characters)][::-1]
        while left:
            low, high = left.pop()
            try:
                examples = self._part(texts[low:high], words and words[low:high])
            except TooManyMatchesError:
                if high - low < 2:
                    text = texts[low]
                    raise InputError(
                        f"{text[:20]!r}: this text of {len(text):,} characters contains more than "
                        f"{MATCHES:,} words of the dictionary; use shorter texts, or remove words "
                        "that stand inside other words"
                    ) from None
                middle = (low + high) // 2
                left += [(middle, high), (low, middle)]
                continue
            yield low, high, examples

    def _part(self, texts: Sequence[str], words: Sequence[GoldWords] | None) -> Examples:
        given = texts
        if self.words is not None:
            # The segmenter of a word model treats white space as a word.
            solid = Unspaced(texts, None, None)
        else:
            solid = without_space(texts) if self.cuts else names_without_space(texts)
        if solid.offsets is not None:
            if words:
                pairs = zip(texts, words, strict=True)
                words = [row and tuple(spans_without_space(text, row)[1]) for text, row in pairs]
            texts = solid.texts
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        # Line ends keep matches from crossing texts; the model does not read them.
        codes = code_points("\n".join(texts))
        plain = np.delete(codes, np.cumsum(lengths + 1)[:-1] - 1)

        segments = None
        extra_ids: dict[str, Ints] = {}
        if self._bichar_ids is not None:
            extra_ids[BICHARS] = self._bichar_ids(plain, lengths)
        if self.pieces is not None:
            extra_ids[PIECES] = self.pieces(plain, lengths, solid.offsets)
        if self.segmenter:
            cuts = self.segmenter(texts, words)
            if self.words is not None:
                ids = [word_id(self.words, word) for word in words_of(texts, cuts)]
                word = np.array(ids, dtype=np.int64)
                segments = CoveringWords(cuts.counts, cuts.start, cuts.end, word)
            else:
                extra_ids[POSITIONS] = cuts.positions()
                if self.pos is not None:
                    of_word = np.array(self.pos.ids(cuts.pos or ()), dtype=np.int64)
                    extra_ids[POS] = np.repeat(of_word, cuts.end - cuts.start)
        if solid.gaps is not None:
            extra_ids[JOINTS] = solid.gaps
        known = self._known(given, codes, lengths, solid)
        return Examples(
            lengths,
            self._char_ids(plain).astype(np.int64),
            known.matches,
            tags=None,
            own=known.own,
            symbols=None if self._symbol_ids is None else self._symbol_ids(plain).astype(np.int64),
            extra_ids=extra_ids,
            segments=segments,
            offsets=solid.offsets,
            rulings=known.rulings,
            added=known.added,
            labels=known.labels,
        )

    def _known(self, given: Sequence[str], codes: Codes, lengths: Ints, solid: Unspaced) -> _Known:
        """Look texts up in one state of the lexicon, which other threads may change."""
        lexicon = self.lexicon
        if lexicon is None:
            nothing = np.empty(0, dtype=np.int64)
            matches = Matches(np.zeros_like(lengths), nothing, nothing, nothing)
            return _Known(matches, None, None, self.tag_ids.labels, None)
        folded = fold_code_points(codes)
        first = 0 if self.subwords is None else len(self.subwords)

        def read() -> _Known:
            matches = lexicon.match_joined(folded, lengths, MATCHES)
            if self.subwords is not None:
                # The ids of words follow those of subwords, so that words can be added.
                matches = matches._replace(word=matches.word + first)
                subwords = self.subwords.match_joined(folded, lengths, MATCHES)
                matches = merged_matches(subwords, matches)
            if solid.gaps is not None:
                matches = within_cuts(matches, lengths, solid.gaps)
            own_ids = rulings = None
            own = matches.word >= first
            own[own] = lexicon.is_user_word(matches.word[own] - first)
            if own.any():
                own_ids = np.unique(matches.word[own])
                stays = np.ones(len(own), dtype=bool)
                stays[own] = cuts_nothing(given, matches.where(own), lengths, solid.offsets)
                matches = matches.where(stays)
            labels = self.tag_ids.labels
            if lexicon.rules:
                rulings, labels = self._rulings(lexicon, given, folded, lengths, solid)
            return _Known(matches, own_ids, rulings, labels, lexicon.vectors())

        return lexicon.read_consistently(read)

    def _rulings(
        self, lexicon: Lexicon, given: Sequence[str], folded: str, lengths: Ints, solid: Unspaced
    ) -> tuple[Rulings | None, tuple[str, ...]]:
        """Return what the user's dictionary says about spans, and all labels by number.

        A ruling that would cut a Latin word or a number is dropped.
        """
        rules, matches = lexicon.match_rules(folded, lengths, MATCHES)
        if solid.gaps is not None:
            matches = within_cuts(matches, lengths, solid.gaps)
        matches = matches.where(cuts_nothing(given, matches, lengths, solid.offsets))
        # Of commands that overlap, the longest wins; other entries may overlap.
        text = np.repeat(np.arange(len(lengths)), matches.counts)
        order = np.arange(len(matches.word))
        commands = order[rules.is_command(matches.word)]
        places = Places(text[commands], matches.start[commands], matches.end[commands])
        dropped = np.delete(commands, which_are_apart(places))
        matches = matches.where(~np.isin(order, dropped))
        labels = _with_new(self.tag_ids.labels, rules.labels if "O" in self.tags else [])
        numbers = {label: number for number, label in enumerate(labels)}
        rulings = rules.rulings(matches, numbers, len(self.tag_ids.labels), MATCHES)
        cuts = rulings.label == CUT_BEFORE
        if cuts.any():
            # A cut has one edge to check, its start.
            edges = Matches(np.bincount(rulings.sentence, minlength=len(lengths)), *rulings[1:4])
            edges = edges._replace(end=np.where(cuts, edges.start, edges.end))
            rulings = rulings.at(cuts_nothing(given, edges, lengths, solid.offsets))
        return (rulings if len(rulings.label) else None), labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that spans can have now. To decode numbers, use `Examples.labels`."""
        new = () if self.lexicon is None else self.lexicon.rules.labels
        return _with_new(self.tag_ids.labels, new)

    @property
    def word_count(self) -> int:
        """The number of different words and subwords; all lattice ids are below it."""
        return sum(lexicon.size for lexicon in (self.lexicon, self.subwords) if lexicon is not None)

    @cached_property
    def _char_ids(self) -> CodeTable:
        return seen_as(self.vocab)

    @cached_property
    def _symbol_ids(self) -> CodeTable | None:
        return None if self.symbols is None else seen_as(self.symbols)

    @cached_property
    def _bichar_ids(self) -> BigramTable | None:
        return None if self.bichars is None else BigramTable(self.bichars)

    @cached_property
    def tag_ids(self) -> TagIds:
        """The converter between spans and numbered tags."""
        return TagIds(self.tags, self.scheme)


def _with_new(labels: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    known = set(labels)
    return (*labels, *(label for label in others if label not in known))


def words_of(texts: Sequence[str], cuts: Cuts) -> Iterator[str]:
    """Yield the words of texts in order, with widths and script folded."""
    folded = [fold(text) for text in texts]
    sentence = np.repeat(np.arange(len(cuts.counts)), cuts.counts)
    columns = sentence.tolist(), cuts.start.tolist(), cuts.end.tolist()
    for text, start, end in zip(*columns, strict=True):
        yield folded[text][start:end]


def word_id(vocab: Vocab, word: str) -> int:
    """Return the id of a word; for an unknown word, its id with every digit as 0."""
    return vocab[word] or vocab[fold_digits(word)]


def spans_of_words(
    spans: Sequence[Sequence[Span]], counts: Ints, start: Ints, end: Ints
) -> list[list[Span]]:
    """Return spans over characters as spans over words, dropping those that cut a word.

    Args:
        spans: For each of S sentences its spans.
        counts: [S], the number of words in each sentence.
        start: [W], where each word begins in its sentence.
        end: [W], where it ends.
    """
    rows: list[list[Span]] = []
    edges = np.concatenate([[0], np.cumsum(counts)]).tolist()
    starts = start.tolist()
    stops = end.tolist()
    for row, (low, high) in zip(spans, pairwise(edges), strict=True):
        begins = {place: nth for nth, place in enumerate(starts[low:high])}
        ends = {place: nth + 1 for nth, place in enumerate(stops[low:high])}
        whole = [span for span in row if span.start in begins and span.end in ends]
        rows.append([Span(begins[span.start], ends[span.end], span.label) for span in whole])
    return rows


def count_crossing(spans: Sequence[Sequence[Span]], counts: Ints, start: Ints, end: Ints) -> int:
    """Count the spans that begin or end inside a word: a word model can never find them."""
    return sum(map(len, spans)) - sum(map(len, spans_of_words(spans, counts, start, end)))


def _joined(parts: Sequence[Examples]) -> Examples:
    """Concatenate examples that one indexer read."""
    if len(parts) == 1:
        return parts[0]
    matches = zip(*(part.matches for part in parts), strict=True)
    own = [part.own for part in parts if part.own is not None]
    symbols = [part.symbols for part in parts if part.symbols is not None]
    segments = [part.segments for part in parts if part.segments is not None]
    extra_ids = {}
    for name in dict.fromkeys(name for part in parts for name in part.extra_ids):
        # Only some parts may have white space, so ids that a part lacks are 0.
        rows = [part.extra_ids.get(name, np.zeros_like(part.chars)) for part in parts]
        extra_ids[name] = np.concatenate(rows)
    offsets = None
    if any(part.offsets is not None for part in parts):
        moved = ((part.offsets, cells(part.lengths)[1]) for part in parts)
        offsets = np.concatenate([same if given is None else given for given, same in moved])
    rulings = []
    for part, first in zip(parts, np.cumsum([0, *map(len, parts)]), strict=False):
        if part.rulings is not None:
            rulings.append(part.rulings._replace(sentence=part.rulings.sentence + first))
    return Examples(
        np.concatenate([part.lengths for part in parts]),
        np.concatenate([part.chars for part in parts]),
        Matches(*map(np.concatenate, matches)),
        tags=None,
        own=np.unique(np.concatenate(own)) if own else None,
        symbols=np.concatenate(symbols) if symbols else None,
        extra_ids=extra_ids,
        segments=CoveringWords(*map(np.concatenate, zip(*segments, strict=True)))
        if segments
        else None,
        offsets=offsets,
        rulings=Rulings(*map(np.concatenate, zip(*rulings, strict=True))) if rulings else None,
        # Words may be added while parts are read. The last part knows all of them.
        added=parts[-1].added,
        labels=parts[-1].labels,
    )
