"""Where the words of a text may end, judged by the text alone.

A word ends at white space, and never inside a number, an address or an emoji. Characters are
judged as they are folded, so full-width letters and digits are like plain ones. Only the
full-width marks of a Chinese sentence, such as the comma, are different: they end an address, and
part clauses, not thousands. Models read texts without white space, and long ones in pieces, cut
at sentence ends where there are any.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.text.lattice import Ints, cells
from hanlattice.text.normalize import Codes, CodeTable, code_points, fold
from hanlattice.text.span import Span
from hanlattice.text.trie import Matches

# What is known of the gap before a character.
FREE = 0
CUT = 1
JOIN = 2
SPACED = 3
# Between the characters of a name that is spaced out: as wide as a full-width blank.
MOST_BLANKS = 2
Joints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# What a character is; more than one may be true of it.
_SPACE = 1
_LATIN = 2
_DIGIT = 4
_APOSTROPHE = 8
_EXTEND = 16
_EMOJI = 32
_REGIONAL = 64
# A sign, such as ❤, is an emoji if its variation selector says so.
_SIGN = 128
# What addresses are made of; what an address or a number has inside; a wide colon.
_PLAIN = 256
_TRIGGER = 512
_COLON = 1024
# White space that ends no line, and no column.
_BLANK = 2048

_EMOJI_RANGES = """
    231A-231B 23E9-23EC 23F0 23F3 25FD-25FE 2614-2615 2648-2653 267F 2693 26A1 26AA-26AB 26BD-26BE
    26C4-26C5 26CE 26D4 26EA 26F2-26F3 26F5 26FA 26FD 2705 270A-270B 2728 274C 274E 2753-2755 2757
    2795-2797 27B0 27BF 2B1B-2B1C 2B50 2B55 1F004 1F0CF 1F18E 1F191-1F19A 1F201 1F21A 1F22F
    1F232-1F236 1F238-1F23A 1F250-1F251 1F300-1F64F 1F680-1F6FF 1F7E0-1F7EB 1F7F0 1F90C-1F9FF
    1FA70-1FAFF"""
# Regional indicators: two are a flag.
_FLAGS = range(0x1F1E6, 0x1F200)
# Variation selector of emoji; the box around a digit; zero-width joiner.
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
# At the end of a URL they belong to the sentence around it.
_CLOSING = ".,;:!?)]}'"
# 3.14, and not 1.2.3; then 1,000,000
_NUMBERS = (
    re.compile(r"(?<!\d)(?<!\d\.) \d+\.\d+ (?!\d|\.\d)", re.VERBOSE),
    re.compile(r"(?<!\d)(?<!\d[.,]) \d{1,3}(?:,\d{3})+ (?!\d|,\d)", re.VERBOSE),
)


def joints(text: str) -> Joints:
    """Return [len(text)]: whether the gap before each character is a CUT, a JOIN or FREE.

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
        mark = np.flatnonzero(kinds[1:-1] & _APOSTROPHE) + 1
        mark = mark[kinds[mark - 1] & kinds[mark + 1] & _LATIN != 0]
        gaps[mark] = gaps[mark + 1] = JOIN
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
    """Return [len(text)]: whether white space makes the gap a CUT, SPACED or FREE for names.

    A name may go on after white space beside a letter or digit (New York, 第 3 中学). A gap of a
    blank or two between other characters is SPACED: only a name whose characters all stand apart
    goes on there (张　三). White space at a text's ends says nothing.
    """
    kinds = _kinds()(code_points(text))
    space = kinds & _SPACE != 0
    plain = kinds & (_LATIN | _DIGIT) != 0
    gaps = np.full(len(kinds), FREE, dtype=np.int64)
    after = np.flatnonzero(space[:-1] & ~space[1:]) + 1
    # The last character before the white space, or −1.
    before = np.maximum.accumulate(np.where(space, -1, np.arange(len(kinds))))[after - 1]
    parted = (before >= 0) & ~plain[after] & ~plain[before]
    after = after[parted]
    before = before[parted]
    blanks = np.concatenate([[0], np.cumsum(kinds & _BLANK != 0)])
    all_blank = blanks[after] - blanks[before] == after - before - 1
    are_few = (after - before <= MOST_BLANKS + 1) & all_blank
    gaps[after] = np.where(are_few, SPACED, CUT)
    return gaps


def _clusters(codes: Codes, kinds: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], Flags]:
    """Return the kind of each character's cluster, and whether it stands inside one, not first."""
    places = np.arange(len(codes))
    inside = kinds & _EXTEND != 0
    inside[0] = False
    inside[1:] &= kinds[:-1] & _SPACE == 0
    base = np.maximum.accumulate(np.where(inside, 0, places))
    kinds = kinds.copy()
    tone = (codes >= _SKIN_TONES.start) & (codes < _SKIN_TONES.stop)
    shown = ((codes == _SELECTOR) | tone) & (kinds[base] & _SIGN != 0)
    # A digit, # or * in a box.
    boxed = (codes == _KEYCAP) & ((kinds[base] & _DIGIT != 0) | np.isin(codes[base], (0x23, 0x2A)))
    kinds[base[(shown | boxed) & inside]] = _EMOJI
    # Emoji or signs with a zero-width joiner between them are one emoji.
    joiner = np.flatnonzero((codes[:-1] == _JOINER) & inside[:-1])
    before = base[joiner]
    after = joiner + 1
    is_picture = kinds & (_EMOJI | _SIGN) != 0
    both = is_picture[before] & is_picture[after] & ~inside[after]
    kinds[before[both]] = kinds[after[both]] = _EMOJI
    inside[after[both]] = True
    # Of a run of regional indicators, every second one ends a flag.
    regional = kinds & _REGIONAL != 0
    first = regional.copy()
    first[1:] &= ~regional[:-1]
    inside |= regional & ((places - np.maximum.accumulate(np.where(first, places, 0))) % 2 == 1)
    return kinds[base], inside


def _join_addresses_and_numbers(
    text: str, codes: Codes, kinds: npt.NDArray[np.int32], gaps: Joints
) -> None:
    """Search the runs of plain characters that have a trigger inside, and no others."""
    plain = kinds & _PLAIN != 0
    # A wide colon counts in http：//, before a slash of either width.
    colons = np.flatnonzero(kinds[:-1] & _COLON)
    plain[colons[np.isin(codes[colons + 1], (0x2F, 0xFF0F))]] = True
    triggers = np.flatnonzero(kinds[1:-1] & _TRIGGER) + 1
    triggers = triggers[plain[triggers - 1] & plain[triggers] & plain[triggers + 1]]
    if not len(triggers):
        return
    # [runs, 2]: start, end
    runs = np.flatnonzero(np.diff(plain, prepend=False, append=False)).reshape(-1, 2)
    index = np.searchsorted(runs[:, 0], triggers, "right") - 1
    # Not np.unique, which would import numpy.ma.
    for low, high in runs[np.flatnonzero(np.bincount(index))].tolist():
        run = fold(text[low:high])
        # With the gap after the run, if there is one.
        run_gaps = gaps[low : high + 1]
        for pattern in _NUMBERS:
            for match in pattern.finditer(run):
                run_gaps[match.start() + 1 : match.end()] = JOIN
        for match in _ADDRESS.finditer(run):
            start, end = match.span()
            if match["url"]:
                end = start + len(match[0].rstrip(_CLOSING))
            run_gaps[start + 1 : end] = JOIN
            run_gaps[start : start + 1] = run_gaps[end : end + 1] = CUT


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
    """Return whether a mark, joiner, skin tone, tag or jamo extends the character before it."""
    code = ord(character)
    jamo = 0x1160 <= code <= 0x11FF or 0xD7B0 <= code <= 0xD7FB
    is_sign = character in "\u200c\u200d" or code in _SKIN_TONES or code in _TAGS or jamo
    return is_sign or unicodedata.category(fold(character)).startswith("M")


def _is_plain(character: str) -> bool:
    """Return whether it is visible ASCII of either width, or a letter or digit that is not wide."""
    plain = fold(character)
    width = unicodedata.east_asian_width(character)
    if plain.isascii() and width in ("Na", "F"):
        return "!" <= plain <= "~" and character not in _SENTENCE_MARKS
    # Chinese and kana are wide.
    return width in ("N", "A") and (character.isalpha() or character.isdecimal())


class Unspaced(NamedTuple):
    """Texts without white space; they have N characters together."""

    texts: Sequence[str]
    # [N]: the position of each character in its text as given; None if none has moved.
    offsets: Ints | None
    # [N]: what is known of the gap before each character; None if nothing is.
    gaps: Ints | None


def remove_space(text: str) -> str:
    """Return the text without its white space."""
    return "".join(text.split())


def without_space(texts: Sequence[str]) -> Unspaced:
    """Remove white space for a segmenter, with the gaps of `joints`, so white space is a CUT."""
    return _strip_space(texts, joints)


def names_without_space(texts: Sequence[str]) -> Unspaced:
    """Remove white space for an entity model, with the gaps of `name_gaps` where there was any."""
    joined = "".join(texts)
    if len("".join(joined.split())) == len(joined):
        return Unspaced(texts, None, None)
    solid = _strip_space(texts, name_gaps)
    lengths = np.fromiter(map(len, solid.texts), dtype=np.int64, count=len(texts))
    if solid.gaps is not None:
        # The line end before a text is not its own white space.
        solid.gaps[(np.cumsum(lengths) - lengths)[lengths > 0]] = FREE
    return solid


def _strip_space(texts: Sequence[str], known: Callable[[str], Joints]) -> Unspaced:
    joined = "\n".join(texts)
    solid = _is_visible()(code_points(joined)) > 0
    gaps = known(joined)[solid]
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    if int(solid.sum()) == lengths.sum():
        return Unspaced(texts, None, gaps)
    text, column = cells(lengths)
    # Every text but the last is followed by a line end, which moves the texts behind it by one.
    stays = solid[text + np.arange(len(text))]
    return Unspaced([remove_space(text) for text in texts], column[stays], gaps)


def spans_without_space(text: str, spans: Sequence[Span]) -> tuple[str, Sequence[Span]]:
    """Remove white space from a text, and move its spans; drop spans of white space alone."""
    solid = remove_space(text)
    if len(solid) == len(text):
        return text, spans
    before = np.concatenate([[0], np.cumsum(_is_visible()(code_points(text)))]).tolist()
    moved = ((before[span.start], before[span.end], span.label) for span in spans)
    return solid, [Span(start, end, label) for start, end, label in moved if start < end]


def cuts_nothing(
    texts: Sequence[str], matches: Matches, lengths: Ints, offsets: Ints | None
) -> Flags:
    """Return [W]: whether words begin and end where a word may (`joints`).

    Args:
        texts: The texts with their white space.
        matches: Words that were found in the texts without white space.
        lengths: [texts]: the length of each without white space.
        offsets: The offsets of `Unspaced`.
    """
    whole = np.ones(len(matches.word), dtype=bool)
    first = np.cumsum(lengths) - lengths
    ends = np.cumsum(matches.counts)
    for index in np.flatnonzero(matches.counts).tolist():
        gaps = joints(texts[index])
        if offsets is not None:
            gaps = gaps[offsets[first[index] : first[index] + lengths[index]]]
        inside = np.append(gaps == JOIN, False)
        words = slice(ends[index] - matches.counts[index], ends[index])
        whole[words] = ~(inside[matches.start[words]] | inside[matches.end[words]])
    return whole


@lru_cache(maxsize=1)
def _is_visible() -> CodeTable:
    return CodeTable(lambda character: not character.isspace())


# Where a long text is cut: after the marks that end a sentence, or else after any other.
_STRONG = re.compile(r"[。！？!?；;…\n]+[”’』」）)\]】》]*")
_WEAK = re.compile(r"[，,、：:\s]")


def pieces(text: str, limit: int) -> list[tuple[int, int]]:
    """Cut a text into half-open pieces of at most `limit` characters that cover it in order.

    A text within the limit is one piece. A longer one is cut after the last sentence end that fits,
    or else after the last comma or blank, or else at the limit; inside an address, a number or an
    emoji only if nothing else is left.
    """
    if limit < 1:
        raise ValueError(f"limit must be 1 or more, not {limit}")
    if len(text) <= limit:
        return [(0, len(text))]
    whole = joints(text) == JOIN
    cuts = []
    start = 0
    while len(text) - start > limit:
        end = start + limit
        for places in (
            (match.end() for match in _STRONG.finditer(text, start, end + 1)),
            (match.end() for match in _WEAK.finditer(text, start, end + 1)),
            range(start + 1, end + 1),
        ):
            free = [place for place in places if place <= end and not whole[place]]
            if free:
                end = free[-1]
                break
        cuts.append((start, end))
        start = end
    return [*cuts, (start, len(text))]


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, without white space around each; blank ones are left out."""
    start = 0
    for end in (*(match.end() for match in _STRONG.finditer(text)), len(text)):
        if sentence := text[start:end].strip():
            yield sentence
        start = end
