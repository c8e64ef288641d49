"""Indexer: what turns text into numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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


class Places(NamedTuple):
    """Spans of a batch: [start, end) of a sentence."""

    sentence: Ints
    start: Ints
    end: Ints


def apart(places: Places) -> Places:
    """The spans without those that overlap a longer one, or an equally long one further left."""
    kept = which_are_apart(places)
    return Places(*(array[kept] for array in places))


def chosen(lattice: Lattice, own: Ints | None) -> Places | None:
    """The places of the user's own words in a batch, given by their ids, if any. Of two that
    overlap, the longer.
    """
    if own is None or not (here := np.isin(lattice.word, own)).any():
        return None
    return apart(Places(lattice.sentence[here], lattice.start[here], lattice.end[here]))


def which_are_apart(places: Places) -> list[int]:
    sentence, start, end = places
    widths = np.zeros(int(sentence.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(widths, sentence, end)
    first = (np.cumsum(widths) - widths)[sentence]  # of each span's sentence, among all characters
    taken = np.zeros(int(widths.sum()), dtype=bool)
    kept = []
    for at in np.lexsort((start, start - end, sentence)).tolist():
        room = taken[first[at] + start[at] : first[at] + end[at]]
        if not room.any():
            room[:] = True
            kept.append(at)
    return sorted(kept)


def within_cuts(matches: Matches, lengths: Ints, gaps: Ints) -> Matches:
    """The matches without those that have a CUT inside, or that some SPACED gap parts and another
    does not.
    """
    text = np.repeat(np.arange(len(lengths)), matches.counts)
    first = (np.cumsum(lengths) - lengths)[text]
    counted = np.cumsum([gaps == CUT, gaps == SPACED], axis=1)
    cuts, spaced = counted[:, first + matches.end - 1] - counted[:, first + matches.start]
    return matches.where(
        (cuts == 0) & ((spaced == 0) | (spaced == matches.end - matches.start - 1))
    )


class _Known(NamedTuple):
    """What a lexicon knows of texts."""

    matches: Matches
    own: Ints | None  # the ids of the user's own words among them
    rulings: Rulings | None
    labels: tuple[str, ...]
    added: tuple[Any, ...] | None


PART = 1 << 19  # characters that are matched at a time: bounds the memory of matching
# Words of the lattice, and rulings of the dictionary, that are found at a time. Texts have one to
# three words a
# character; with words inside words they have hundreds, and then fewer texts are matched at once.
MATCHES = 1 << 21
# extra ids of a character
BICHARS = "bichars"
POSITIONS = "positions"
POS = "pos"
JOINTS = "joints"
PIECES = "pieces"

GoldWords = tuple[Span, ...] | None


@dataclass(frozen=True)
class Indexer:
    """Vocabularies, lexicon and segmenter, as far as the model uses them, and the tags."""

    vocab: Vocab
    lexicon: Lexicon | None
    tags: tuple[str, ...]
    scheme: str
    symbols: Vocab | None = None  # the language model's
    bichars: Vocab | None = None
    segmenter: Segmenter | None = None  # of a word model, which has `words`, or else for softwords
    words: Vocab | None = None
    pos: Vocab | None = None  # parts of speech
    subwords: Lexicon | None = None  # of a lattice with both; their ids come first
    pieces: Pieces | None = None  # the transformer's

    @property
    def cuts(self) -> bool:
        """Whether this is a segmenter's: its spans are words, which cover all that is not white
        space.
        """
        return "O" not in self.tags

    def examples(self, sentences: Sequence[Sentence]) -> Examples:
        """A corpus as numbers, with the gold tags if every sentence has spans.

        Of a word model, spans that do not begin and end with words have no tags.
        """
        plain = self.read(
            [sentence.text for sentence in sentences], [sentence.words for sentence in sentences]
        )
        spans = [sentence.spans for sentence in sentences if sentence.spans is not None]
        if len(spans) < len(sentences):
            return plain
        of_units: Sequence[Sequence[Span]] = spans
        if self.cuts:
            of_units = [
                self._covering(sentence, number)
                for number, sentence in enumerate(sentences, start=1)
            ]
        elif plain.segments is not None:
            of_units = spans_of_words(spans, *plain.segments[:3])
        elif plain.offsets is not None:
            pairs = zip(sentences, spans, strict=True)
            of_units = [spans_without_space(sentence.text, row)[1] for sentence, row in pairs]
        return replace(
            plain,
            tags=self.tag_ids.tags(of_units, plain.units),
            soft_labels=self._doubts(sentences, plain),
        )

    def _doubts(self, sentences: Sequence[Sentence], plain: Examples) -> SoftLabels | None:
        """The soft labels of a corpus; None if it has none."""
        rows = [
            (at, *doubt) for at, sentence in enumerate(sentences) for doubt in sentence.soft_labels
        ]
        if not rows:
            return None
        if plain.segments is not None:
            raise InputError(
                "a model of words has no tags of characters, and cannot learn from teachers that were unsure"
            )
        text, place, named, shares = zip(*rows, strict=True)
        numbers = {tag: at for at, tag in enumerate(self.tags)}
        if new := sorted(set(named) - set(numbers)):
            raise InputError(
                f"the teachers had tags that this model has not: {', '.join(new)}; it has {', '.join(self.tags)}"
            )
        sentence = np.array(text, dtype=np.int64)
        at = np.array(place, dtype=np.int64)
        if plain.offsets is not None:  # as places among the characters that are read
            wide = np.repeat(np.arange(len(plain)), plain.lengths) << 32
            at = (
                np.searchsorted(wide + plain.offsets, (sentence << 32) + at) - plain.first[sentence]
            )
        share = np.array(shares, dtype=np.float32)
        tag = np.array([numbers[name] for name in named], dtype=np.int64)
        return SoftLabels(
            np.bincount(sentence, minlength=len(sentences)), at, tag, share, len(self.tags)
        )

    def _covering(self, sentence: Sentence, number: int) -> Sequence[Span]:
        """The words of a sentence in its text without white space, which they must cover.

        A label that the model does not have, of a word that it is scored on, stands as one that it
        has.
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
        """Texts as numbers, without tags. `words` are the gold ones, for a model that needs them.

        Each text is segmented by itself. White space is not read, but by a model of words.
        """

        def read_all() -> list[Examples]:
            return [examples for _, _, examples in self.parts(texts, words)]

        return _joined(read_all() if self.lexicon is None else self.lexicon.with_same_ids(read_all))

    def parts(
        self, texts: Sequence[str], words: Sequence[GoldWords] | None = None, characters: int = PART
    ) -> Iterator[tuple[int, int, Examples]]:
        """`read` in parts that are bounded whatever the texts and the dictionary are.

        Args:
            texts: Texts of bounded length.
            words: The gold words, for a model that needs them.
            characters: About how many characters a part has at most; of a dictionary with words
                inside words
                it has fewer. A single text with too many words is an InputError.

        Yields:
            The place of a part's first text, the place after its last, and the part.
        """
        left = [*runs(texts, characters)][::-1]
        while left:
            low, high = left.pop()
            try:
                examples = self._part(texts[low:high], words and words[low:high])
            except TooManyMatchesError:
                if high - low < 2:
                    raise _too_many_matches(texts[low]) from None
                middle = (low + high) // 2
                left += [(middle, high), (low, middle)]
                continue
            yield low, high, examples

    def _part(self, texts: Sequence[str], words: Sequence[GoldWords] | None) -> Examples:
        given = texts
        solid = self._solid(texts)
        if solid.offsets is not None:
            words = words and [
                _words_without_space(text, row) for text, row in zip(texts, words, strict=True)
            ]
            texts = solid.texts
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        codes = code_points("\n".join(texts))
        ends = np.cumsum(lengths + 1)[:-1] - 1
        plain = np.delete(codes, ends)  # without the line ends in between
        cuts = self.segmenter(texts, words) if self.segmenter else None
        extra = {} if self._bichar_ids is None else {BICHARS: self._bichar_ids(plain, lengths)}
        if self.pieces is not None:
            extra[PIECES] = self.pieces(plain, lengths, solid.offsets)
        if cuts is not None and self.words is None:
            extra |= self._softwords(cuts)
        if solid.gaps is not None:
            extra[JOINTS] = solid.gaps
        known = self._known(given, codes, lengths, solid)
        return Examples(
            lengths,
            self._char_ids(plain).astype(np.int64),
            known.matches,
            tags=None,
            own=known.own,
            symbols=None if self._symbol_ids is None else self._symbol_ids(plain).astype(np.int64),
            extra_ids=extra,
            segments=None
            if cuts is None or self.words is None
            else self._words(texts, cuts, self.words),
            offsets=solid.offsets,
            rulings=known.rulings,
            added=known.added,
            labels=known.labels,
        )

    def _known(self, given: Sequence[str], codes: Codes, lengths: Ints, solid: Unspaced) -> _Known:
        """What the lexicon knows of texts at one moment."""
        if self.lexicon is None:
            nothing = np.empty(0, dtype=np.int64)
            matches = Matches(np.zeros_like(lengths), nothing, nothing, nothing)
            return _Known(matches, None, None, self.tag_ids.labels, None)
        lexicon = self.lexicon
        folded = fold_code_points(codes)

        def read() -> _Known:
            matches = self._matches(lexicon, folded, lengths)
            if solid.gaps is not None:
                matches = within_cuts(matches, lengths, solid.gaps)
            own = self._is_own(lexicon, matches.word)
            ids = np.unique(matches.word[own]) if own.any() else None
            if ids is not None:
                stays = np.ones(len(own), dtype=bool)
                stays[own] = cuts_nothing(given, matches.where(own), lengths, solid.offsets)
                matches = matches.where(stays)
            rulings, labels = self._rulings(lexicon, given, folded, lengths, solid)
            return _Known(matches, ids, rulings, labels, lexicon.vectors())

        return lexicon.read_consistently(read)

    def _solid(self, texts: Sequence[str]) -> Unspaced:
        """What is read of texts. Of a model of words all, since its segmenter has white space for a
        word.
        """
        if self.words is not None:
            return Unspaced(texts, None, None)
        return without_space(texts) if self.cuts else names_without_space(texts)

    def _matches(self, lexicon: Lexicon, folded: str, lengths: Ints) -> Matches:
        """Those of the lexicon and of the subwords."""
        words = lexicon.match_joined(folded, lengths, MATCHES)
        if self.subwords is None:
            return words
        words = words._replace(word=words.word + len(self.subwords))
        return merged_matches(self.subwords.match_joined(folded, lengths, MATCHES), words)

    def _rulings(
        self, lexicon: Lexicon, given: Sequence[str], folded: str, lengths: Ints, solid: Unspaced
    ) -> tuple[Rulings | None, tuple[str, ...]]:
        """What the user's dictionary says of spans in texts, None if nothing; and all labels by
        their numbers.

        No Latin word or number is cut by it.
        """
        if not lexicon.rules:
            return None, self.tag_ids.labels
        rules, found = lexicon.match_rules(folded, lengths, MATCHES)
        if solid.gaps is not None:
            found = within_cuts(found, lengths, solid.gaps)
        found = found.where(cuts_nothing(given, found, lengths, solid.offsets))
        text = np.repeat(np.arange(len(lengths)), found.counts)
        order = np.arange(len(found.word))
        commands = order[rules.is_command(found.word)]
        kept = which_are_apart(Places(text[commands], found.start[commands], found.end[commands]))
        found = found.where(~np.isin(order, np.delete(commands, kept)))
        new = rules.labels if "O" in self.tags else []
        labels = _with_new(self.tag_ids.labels, new)
        numbers = {label: at for at, label in enumerate(labels)}
        rulings = rules.rulings(found, numbers, len(self.tag_ids.labels), MATCHES)
        cuts = rulings.label == CUT_BEFORE
        if cuts.any():
            edges = Matches(np.bincount(rulings.sentence, minlength=len(lengths)), *rulings[1:4])
            edges = edges._replace(end=np.where(cuts, edges.start, edges.end))
            rulings = rulings.at(cuts_nothing(given, edges, lengths, solid.offsets))
        return (rulings if len(rulings.label) else None), labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that spans can have just now; for the numbers of labels, take those of
        `Examples`.
        """
        return _with_new(
            self.tag_ids.labels, () if self.lexicon is None else self.lexicon.rules.labels
        )

    @property
    def word_count(self) -> int:
        """How many different words and subwords a lattice can have: their ids are below it."""
        return sum(lexicon.size for lexicon in (self.lexicon, self.subwords) if lexicon is not None)

    def _is_own(self, lexicon: Lexicon, words: Ints) -> npt.NDArray[np.bool_]:
        """Whether each of a lattice's words is one of the user's."""
        first = 0 if self.subwords is None else len(self.subwords)
        own: npt.NDArray[np.bool_] = words >= first
        own[own] = lexicon.is_user_word(words[own] - first)
        return own

    def _softwords(self, cuts: Cuts) -> dict[str, Ints]:
        soft = {POSITIONS: cuts.positions()}
        if self.pos is not None:
            each = np.array(self.pos.ids(cuts.pos or ()), dtype=np.int64)
            soft[POS] = np.repeat(each, cuts.end - cuts.start)
        return soft

    def _words(self, texts: Sequence[str], cuts: Cuts, vocab: Vocab) -> CoveringWords:
        ids = np.array([word_id(vocab, word) for word in words_of(texts, cuts)], dtype=np.int64)
        return CoveringWords(cuts.counts, cuts.start, cuts.end, ids)

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
        """What turns spans into tags, as numbers, and back."""
        return TagIds(self.tags, self.scheme)


def _with_new(labels: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    known = set(labels)
    return (*labels, *(label for label in others if label not in known))


def words_of(texts: Sequence[str], cuts: Cuts) -> Iterator[str]:
    """The words of texts, with widths and script folded, one after the other."""
    folded = [fold(text) for text in texts]
    sentence = np.repeat(np.arange(len(cuts.counts)), cuts.counts)
    for at, start, end in zip(
        sentence.tolist(), cuts.start.tolist(), cuts.end.tolist(), strict=True
    ):
        yield folded[at][start:end]


def word_id(vocab: Vocab, word: str) -> int:
    """The id of a word; where it is unknown, that of the word with every digit a 0."""
    return vocab[word] or vocab[fold_digits(word)]


def spans_of_words(
    spans: Sequence[Sequence[Span]], counts: Ints, start: Ints, end: Ints
) -> list[list[Span]]:
    """Spans over characters as spans over words, without those that begin or end inside a word."""
    found: list[list[Span]] = []
    edges = np.concatenate([[0], np.cumsum(counts)]).tolist()
    starts = start.tolist()
    stops = end.tolist()
    for row, (low, high) in zip(spans, pairwise(edges), strict=True):
        begins = {place: nth for nth, place in enumerate(starts[low:high])}
        ends = {place: nth + 1 for nth, place in enumerate(stops[low:high])}
        whole = [span for span in row if span.start in begins and span.end in ends]
        found.append([Span(begins[span.start], ends[span.end], span.label) for span in whole])
    return found


def count_crossing(spans: Sequence[Sequence[Span]], counts: Ints, start: Ints, end: Ints) -> int:
    """How many spans over characters begin or end inside a word: a word model can never find them."""
    return sum(map(len, spans)) - sum(map(len, spans_of_words(spans, counts, start, end)))


def _too_many_matches(text: str) -> InputError:
    return InputError(
        f"{text[:20]!r} and what follows, {len(text):,} characters that are read at once, have more than {MATCHES:,} "
        "words of the dictionary in them: read shorter texts, or remove words that stand inside other words"
    )


def _joined(parts: Sequence[Examples]) -> Examples:
    """Examples of one kind, one after the other."""
    if len(parts) == 1:
        return parts[0]
    matches = (
        np.concatenate(arrays) for arrays in zip(*(part.matches for part in parts), strict=True)
    )
    symbols = [part.symbols for part in parts if part.symbols is not None]
    segments = [part.segments for part in parts if part.segments is not None]
    own = [part.own for part in parts if part.own is not None]
    return Examples(
        np.concatenate([part.lengths for part in parts]),
        np.concatenate([part.chars for part in parts]),
        Matches(*matches),
        tags=None,
        own=np.unique(np.concatenate(own)) if own else None,
        symbols=np.concatenate(symbols) if symbols else None,
        extra_ids=_joined_extra_ids(parts),
        segments=CoveringWords(*map(np.concatenate, zip(*segments, strict=True)))
        if segments
        else None,
        offsets=_joined_offsets(parts),
        rulings=_joined_rulings(parts),
        added=parts[-1].added,  # the last has those of words that joined while others were read
        labels=parts[-1].labels,
    )


def _joined_rulings(parts: Sequence[Examples]) -> Rulings | None:
    first = np.cumsum([0, *(len(part) for part in parts)])
    rows = [
        part.rulings._replace(sentence=part.rulings.sentence + by)
        for part, by in zip(parts, first, strict=False)
        if part.rulings is not None
    ]
    return (
        Rulings(*(np.concatenate(column) for column in zip(*rows, strict=True))) if rows else None
    )


def _joined_extra_ids(parts: Sequence[Examples]) -> dict[str, Ints]:
    """Ids that only some parts have are 0 in the others."""
    names = dict.fromkeys(name for part in parts for name in part.extra_ids)
    rows = {
        name: [part.extra_ids.get(name, np.zeros_like(part.chars)) for part in parts]
        for name in names
    }
    return {name: np.concatenate(row) for name, row in rows.items()}


def _joined_offsets(parts: Sequence[Examples]) -> Ints | None:
    if all(part.offsets is None for part in parts):
        return None
    return np.concatenate(
        [cells(part.lengths)[1] if part.offsets is None else part.offsets for part in parts]
    )


def _words_without_space(text: str, words: GoldWords) -> GoldWords:
    return words and tuple(spans_without_space(text, words)[1])
