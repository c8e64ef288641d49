"""What a text itself says about where its words end: at white space, and never inside a number, an
address, an emoji.

Characters are judged as they are folded, so that full-width letters and digits are like plain ones.
Only the full-width marks of a Chinese sentence, such as the comma, are not: they end an address,
and part clauses, not thousands. Models read texts without white space, and long ones in pieces, cut
at sentence ends where there are any.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.text.lattice import Ints, cells
from hanlattice.text.normalize import Codes, CodeTable, code_points, fold
from hanlattice.text.span import Span
from hanlattice.text.trie import Matches

FREE = 0
CUT = 1
JOIN = 2
SPACED = 3
MOST_BLANKS = 2  # between the characters of a name that is spaced out: as wide as a full-width one
Joints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# What a character is; more than one may be true of it.
_SPACE = 1
_LATIN = 2
_DIGIT = 4
_APOSTROPHE = 8
# a sign, such as ❤, is an emoji if its variation selector says so
_EXTEND = 16
_EMOJI = 32
_REGIONAL = 64
_SIGN = 128
# what addresses are made of; what one, or a number, has inside; a wide colon
_PLAIN = 256
_TRIGGER = 512
_COLON = 1024
_BLANK = 2048  # white space that ends no line, and no column

_EMOJI_RANGES = """
    231A-231B 23E9-23EC 23F0 23F3 25FD-25FE 2614-2615 2648-2653 267F 2693 26A1 26AA-26AB 26BD-26BE 26C4-26C5 26CE 26D4
    26EA 26F2-26F3 26F5 26FA 26FD 2705 270A-270B 2728 274C 274E 2753-2755 2757 2795-2797 27B0 27BF 2B1B-2B1C 2B50 2B55
    1F004 1F0CF 1F18E 1F191-1F19A 1F201 1F21A 1F22F 1F232-1F236 1F238-1F23A 1F250-1F251 1F300-1F64F 1F680-1F6FF
    1F7E0-1F7EB 1F7F0 1F90C-1F9FF 1FA70-1FAFF"""
_FLAGS = range(0x1F1E6, 0x1F200)  # regional indicators: two are a flag
# emoji presentation; the box around a digit; ZWJ
_SELECTOR = 0xFE0F
_KEYCAP = 0x20E3
_JOINER = 0x200D
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)
_SENTENCE_MARKS = "，！？；：（）"

_ADDRESS = re.compile(
    r"""(?P<url> (?:(?<![a-z]) [a-z][a-z0-9+.-]{1,20}:// | (?<![a-z0-9]) www\.) [^\W_][^<>"]*)
      | (?<![\w.+-]) [\w.+-]{1,64} @ (?:[\w-]+\.)+ [a-z]{2,}""",
    re.VERBOSE | re.IGNORECASE,
)
_CLOSING = ".,;:!?)]}'"  # at the end of a URL they belong to the sentence around it
_NUMBERS = (
    re.compile(r"(?<!\d)(?<!\d\.) \d+\.\d+ (?!\d|\.\d)", re.VERBOSE),  # 3.14, and not 1.2.3
    re.compile(r"(?<!\d)(?<!\d[.,]) \d{1,3}(?:,\d{3})+ (?!\d|,\d)", re.VERBOSE),  # 1,000,000
)


def joints(text: str) -> Joints:
    """[len(text)]: what is known of the gap before each character: CUT, JOIN, or nothing (FREE).

    The text may be many texts with line ends between them: each comes out as it would alone. The
    first gap is a CUT.
    """
    codes = code_points(text)
    kinds = _kinds()(codes)
    gaps = np.zeros(len(codes), dtype=np.int64)
    if not len(codes):
        return gaps
    seen = int(np.bitwise_or.reduce(kinds))
    inside = None
    if seen & (_EXTEND | _EMOJI | _REGIONAL):
        kinds, inside = _clusters(codes, kinds)
    gaps[1:][kinds[1:] & kinds[:-1] & (_LATIN | _DIGIT) != 0] = JOIN
    if seen & _APOSTROPHE:
        at = np.flatnonzero(kinds[1:-1] & _APOSTROPHE) + 1
        at = at[kinds[at - 1] & kinds[at + 1] & _LATIN != 0]
        gaps[at] = gaps[at + 1] = JOIN
    if seen & _TRIGGER:
        _join_addresses_and_numbers(text, codes, kinds, gaps)
    if inside is not None:
        emoji = kinds & _EMOJI != 0
        gaps[1:][emoji[1:] != emoji[:-1]] = CUT
        gaps[inside] = JOIN
    space = kinds & _SPACE != 0
    gaps[space] = CUT
    gaps[1:][space[:-1]] = CUT
    gaps[0] = CUT
    return gaps


def name_gaps(text: str) -> Joints:
    """What white space says about where names end, as in `joints`: CUT, SPACED, or nothing (FREE).

    A name may go on after it beside a letter or digit (New York, 第 3 中学). After a blank or two
    between other characters, SPACED, only one whose characters stand apart may, as is done for the
    looks (张　三). White space at a text's ends says nothing.
    """
    kinds = _kinds()(code_points(text))
    space = kinds & _SPACE != 0
    plain = kinds & (_LATIN | _DIGIT) != 0
    gaps = np.full(len(kinds), FREE, dtype=np.int64)
    after = np.flatnonzero(space[:-1] & ~space[1:]) + 1
    before = np.maximum.accumulate(np.where(space, -1, np.arange(len(kinds))))[
        after - 1
    ]  # the last before the space
    parted = (before >= 0) & ~plain[after] & ~plain[before]
    after = after[parted]
    before = before[parted]
    blanks = np.concatenate([[0], np.cumsum(kinds & _BLANK != 0)])
    are_few = (after - before <= MOST_BLANKS + 1) & (
        blanks[after] - blanks[before] == after - before - 1
    )
    gaps[after] = np.where(are_few, SPACED, CUT)
    return gaps


def _clusters(codes: Codes, kinds: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], Flags]:
    """Each character has the kind of its cluster's base; and whether it is inside a cluster, not at
    its start.
    """
    places = np.arange(len(codes))
    inside = kinds & _EXTEND != 0
    inside[0] = False
    inside[1:] &= kinds[:-1] & _SPACE == 0
    base = np.maximum.accumulate(np.where(inside, 0, places))
    kinds = kinds.copy()
    tone = (codes >= _SKIN_TONES.start) & (codes < _SKIN_TONES.stop)
    shown = ((codes == _SELECTOR) | tone) & (kinds[base] & _SIGN != 0)
    boxed = (codes == _KEYCAP) & ((kinds[base] & _DIGIT != 0) | np.isin(codes[base], (0x23, 0x2A)))
    kinds[base[(shown | boxed) & inside]] = _EMOJI
    _join_joined(codes, kinds, base, inside)
    regional = kinds & _REGIONAL != 0
    first = regional.copy()
    first[1:] &= ~regional[:-1]
    inside |= regional & ((places - np.maximum.accumulate(np.where(first, places, 0))) % 2 == 1)
    return kinds[base], inside


def _join_joined(
    codes: Codes, kinds: npt.NDArray[np.int32], base: npt.NDArray[np.int64], inside: Flags
) -> None:
    """Emoji or signs with a zero-width joiner between them are one emoji."""
    joiner = np.flatnonzero((codes[:-1] == _JOINER) & inside[:-1])
    before = base[joiner]
    after = joiner + 1
    both = (
        (kinds[before] & (_EMOJI | _SIGN) != 0)
        & (kinds[after] & (_EMOJI | _SIGN) != 0)
        & ~inside[after]
    )
    kinds[before[both]] = kinds[after[both]] = _EMOJI
    inside[after[both]] = True


def _join_addresses_and_numbers(
    text: str, codes: Codes, kinds: npt.NDArray[np.int32], gaps: Joints
) -> None:
    """Look at the runs of plain characters that have a trigger inside, and at no other."""
    plain = kinds & _PLAIN != 0
    colons = np.flatnonzero(kinds[:-1] & _COLON)
    plain[colons[np.isin(codes[colons + 1], (0x2F, 0xFF0F))]] = True  # http：//
    triggers = np.flatnonzero(kinds[1:-1] & _TRIGGER) + 1
    triggers = triggers[plain[triggers - 1] & plain[triggers] & plain[triggers + 1]]
    if not len(triggers):
        return
    runs = np.flatnonzero(np.diff(plain, prepend=False, append=False)).reshape(
        -1, 2
    )  # [runs, 2]: start, end
    at = np.searchsorted(runs[:, 0], triggers, "right") - 1
    for start, end in runs[
        np.flatnonzero(np.bincount(at))
    ].tolist():  # np.unique would import numpy.ma
        _judge_run(fold(text[start:end]), gaps[start : end + 1])


def _judge_run(run: str, gaps: Joints) -> None:
    """Numbers and addresses in a run, into its gaps; the one after it is there too, if there is
    one.
    """
    for pattern in _NUMBERS:
        for match in pattern.finditer(run):
            gaps[match.start() + 1 : match.end()] = JOIN
    for match in _ADDRESS.finditer(run):
        start, end = match.span()
        if match["url"]:
            end = start + len(match[0].rstrip(_CLOSING))
        gaps[start + 1 : end] = JOIN
        gaps[start : start + 1] = gaps[end : end + 1] = CUT


@lru_cache(maxsize=1)
def _kinds() -> CodeTable:
    return CodeTable(_kind)


def _kind(character: str) -> int:
    code = ord(character)
    plain = fold(character)
    category = unicodedata.category(character)
    true_of = {
        _SPACE: character.isspace(),
        _LATIN: character.isalpha() and unicodedata.name(plain, "").startswith("LATIN "),
        _DIGIT: character.isdecimal(),
        _APOSTROPHE: plain in "'’",
        _EXTEND: _extends(character),
        _EMOJI: code in _emoji(),
        _REGIONAL: code in _FLAGS,
        _SIGN: (not character.isascii() and category in ("So", "Sm")) or character in "‼⁉〰〽ℹ",
        _PLAIN: _is_plain(character),
        _TRIGGER: plain in ".,:@",
        _COLON: character == "：",
        _BLANK: category == "Zs",
    }
    return sum(flag for flag, is_true in true_of.items() if is_true)


@lru_cache(maxsize=1)
def _emoji() -> frozenset[int]:
    ends = [given.partition("-") for given in _EMOJI_RANGES.split()]
    ranges = [range(int(low, 16), int(high or low, 16) + 1) for low, _, high in ends]
    return frozenset().union(_FLAGS, *ranges)


def _extends(character: str) -> bool:
    """Whether it belongs to the character before it: marks, selectors, joiners, skin tones, tags,
    jamo that follow.
    """
    code = ord(character)
    jamo = 0x1160 <= code <= 0x11FF or 0xD7B0 <= code <= 0xD7FB
    other = character in "\u200c\u200d" or code in _SKIN_TONES or code in _TAGS or jamo
    return other or unicodedata.category(fold(character)).startswith("M")


def _is_plain(character: str) -> bool:
    """Visible ASCII of either width, and letters and digits that are not wide, which Chinese and
    kana are.
    """
    plain = fold(character)
    if plain.isascii() and unicodedata.east_asian_width(character) in ("Na", "F"):
        return "!" <= plain <= "~" and character not in _SENTENCE_MARKS
    narrow = unicodedata.east_asian_width(character) in ("N", "A")
    return narrow and (character.isalpha() or character.isdecimal())


class Unspaced(NamedTuple):
    """Texts whose N characters are none of them white space, one after the other."""

    texts: Sequence[str]
    offsets: (
        Ints | None
    )  # [N]: the position of each character in its text as given; None if none has moved
    gaps: Ints | None  # [N]: what is known of the gap before each character; None is nothing


def remove_space(text: str) -> str:
    """The text without its white space."""
    return "".join(text.split())


def without_space(texts: Sequence[str]) -> Unspaced:
    """The texts without white space, for a segmenter: a CUT wherever there was some, and what else
    `joints` says.
    """
    return _strip_space(texts, joints, always=True)


def names_without_space(texts: Sequence[str]) -> Unspaced:
    """The same for an entity model, with the gaps of `name_gaps`; without any if there was no white
    space.
    """
    solid = _strip_space(texts, name_gaps, always=False)
    if solid.gaps is not None:
        lengths = np.fromiter(map(len, solid.texts), dtype=np.int64, count=len(texts))
        solid.gaps[(np.cumsum(lengths) - lengths)[lengths > 0]] = (
            FREE  # the line end before a text does not count
        )
    return solid


def _strip_space(texts: Sequence[str], known: Callable[[str], Joints], always: bool) -> Unspaced:
    joined = "\n".join(texts)
    solid = _is_visible()(code_points(joined)) > 0
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    if int(solid.sum()) == lengths.sum():
        return Unspaced(texts, None, known(joined)[solid] if always else None)
    kept = [remove_space(text) for text in texts]
    text, column = cells(lengths)
    stays = solid[text + np.arange(len(text))]  # every text but the last is followed by a line end
    return Unspaced(kept, column[stays], known(joined)[solid])


def spans_without_space(text: str, spans: Sequence[Span]) -> tuple[str, Sequence[Span]]:
    """A text and its spans, without white space; a span of nothing else is left out."""
    solid = remove_space(text)
    if len(solid) == len(text):
        return text, spans
    before = np.concatenate([[0], np.cumsum(_is_visible()(code_points(text)))]).tolist()
    moved = ((before[span.start], before[span.end], span.label) for span in spans)
    return solid, [Span(start, end, label) for start, end, label in moved if start < end]


def cuts_nothing(
    texts: Sequence[str], matches: Matches, lengths: Ints, offsets: Ints | None
) -> Flags:
    """[W]: whether words that were found in texts without white space begin and end where a word
    may (`joints`).

    The texts are given with their white space, `lengths` are without it; `offsets` are those of
    `Unspaced`.
    """
    whole = np.ones(len(matches.word), dtype=bool)
    first = np.cumsum(lengths) - lengths
    ends = np.cumsum(matches.counts)
    for at in np.flatnonzero(matches.counts).tolist():
        gaps = joints(texts[at])
        if offsets is not None:
            gaps = gaps[offsets[first[at] : first[at] + lengths[at]]]
        inside = np.append(gaps == JOIN, False)
        here = slice(ends[at] - matches.counts[at], ends[at])
        whole[here] = ~(inside[matches.start[here]] | inside[matches.end[here]])
    return whole


@lru_cache(maxsize=1)
def _is_visible() -> CodeTable:
    return CodeTable(lambda character: not character.isspace())


_STRONG = re.compile(r"[。！？!?；;…\n]+[”’』」）)\]】》]*")
_WEAK = re.compile(r"[，,、：:\s]")


def pieces(text: str, limit: int) -> list[tuple[int, int]]:
    """Half-open pieces that cover the text in order, each of at most `limit` characters.

    A text within the limit is one piece. A longer one is cut after the last sentence end that fits,
    or else after the last comma or blank, or else at the limit; inside an address, a number or an
    emoji only if nothing else is left.
    """
    if limit < 1:
        raise ValueError(f"limit must be 1 or more, not {limit}")
    if len(text) <= limit:
        return [(0, len(text))]
    whole = joints(text) == JOIN
    found = []
    start = 0
    while len(text) - start > limit:
        end = start + limit
        strong, weak = (
            (match.end() for match in pattern.finditer(text, start, end + 1))
            for pattern in (_STRONG, _WEAK)
        )
        end = next(
            filter(
                None, (_last(at, end, whole) for at in (strong, weak, range(start + 1, end + 1)))
            ),
            end,
        )
        found.append((start, end))
        start = end
    return [*found, (start, len(text))]


def sentences(text: str) -> Iterator[str]:
    """The text cut after every sentence end, without white space around each; what is blank is left
    out.
    """
    start = 0
    for end in (*(match.end() for match in _STRONG.finditer(text)), len(text)):
        if sentence := text[start:end].strip():
            yield sentence
        start = end


def _last(places: Iterable[int], end: int, whole: npt.NDArray[np.bool_]) -> int | None:
    """The last of the places up to `end` where the text may be cut, if there is one."""
    return max((at for at in places if at <= end and not whole[at]), default=None)
