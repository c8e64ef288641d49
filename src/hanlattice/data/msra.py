"""MSRA named entities (SIGHAN 2006) from `dh_msra.txt`: BIO pieces of at most 100 characters → BMES sentences.

The file is the official training part, 50,658 pieces, followed by the official test part, 4,631 pieces. The package
that carries it also splits it anew by chance, and that split puts pieces of one sentence on both sides: never use it.

Training pieces are joined where one ends in a comma, a semicolon or an enumeration comma: 46,494 sentences (officially
46,364). Thirteen pieces of 100 characters without punctuation stay cut, for nothing says which of them go on. Scores on
the test depend on where its sentences end, so there the official ends are kept: a list says which pieces go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from hanlattice.data.annotated import Corpus
from hanlattice.data.columns import read_columns, write_columns
from hanlattice.text.sentence import Sentence
from hanlattice.text.tags import tags_to_spans

TRAIN_PIECES = 50_658
_GOES_ON = "；，、"

# The pieces of the test part, counted from 1, whose sentence goes on in the next piece.
# fmt: off
_TEST_GOES_ON = frozenset((
    7, 15, 20, 22, 26, 30, 32, 43, 128, 130, 147, 149, 164, 170, 177, 182, 266, 277, 282, 291, 293, 297, 303, 306, 544,
    592, 624, 629, 668, 675, 682, 685, 686, 687, 688, 689, 690, 691, 692, 693, 694, 695, 696, 697, 698, 703, 704, 705,
    706, 707, 708, 709, 710, 716, 718, 721, 724, 738, 739, 820, 843, 848, 864, 867, 873, 875, 879, 880, 890, 970, 993,
    999, 1011, 1015, 1039, 1060, 1065, 1070, 1077, 1084, 1088, 1091, 1147, 1166, 1214, 1223, 1226, 1233, 1263, 1270,
    1295, 1296, 1299, 1302, 1307, 1309, 1315, 1319, 1340, 1341, 1342, 1363, 1364, 1365, 1419, 1497, 1508, 1511, 1515,
    1517, 1519, 1520, 1522, 1554, 1567, 1720, 1742, 1788, 1797, 1798, 1801, 1817, 1833, 1844, 1845, 1847, 1871, 1883,
    1891, 1960, 1964, 1977, 2024, 2044, 2058, 2062, 2068, 2083, 2090, 2095, 2097, 2109, 2111, 2122, 2140, 2161, 2172,
    2192, 2194, 2197, 2200, 2203, 2206, 2219, 2305, 2321, 2329, 2361, 2366, 2371, 2373, 2377, 2391, 2424, 2438, 2440,
    2454, 2466, 2539, 2542, 2551, 2575, 2637, 2658, 2686, 2735, 2739, 2741, 2764, 2765, 2766, 2806, 2933, 2961, 2967,
    2969, 2984, 3008, 3043, 3044, 3254, 3258, 3260, 3268, 3276, 3281, 3284, 3289, 3291, 3307, 3313, 3317, 3318, 3331,
    3336, 3360, 3363, 3366, 3371, 3378, 3385, 3386, 3388, 3411, 3418, 3434, 3437, 3438, 3439, 3452, 3467, 3470, 3475,
    3498, 3523, 3527, 3530, 3536, 3551, 3563, 3569, 3575, 3581, 3588, 3601, 3605, 3610, 3632, 3641, 3646, 3657, 3662,
    3677, 3691, 3694, 3732, 3795, 3802, 3813, 3814, 3815, 3886, 3928, 3947, 3985, 4047, 4077, 4102, 4343, 4349, 4353,
    4398, 4424, 4425, 4525, 4528,
))
# fmt: on


def convert_msra(members: list[Path], folder: Path, train_pieces: int = TRAIN_PIECES) -> dict[str, int]:
    """Write train.bmes and test.bmes into `folder` and count what is in them."""
    pieces = read_columns(members[0], "BIO")
    counts: dict[str, int] = {}
    for part, sentences in (("train", _train(pieces, train_pieces)), ("test", _test(pieces, train_pieces))):
        write_columns(folder / f"{part}.bmes", sentences, "BMES")
        counts |= count_sentences(part, sentences)
    return counts


def count_sentences(part: str, sentences: list[Sentence]) -> dict[str, int]:
    return {
        f"{part} sentences": len(sentences),
        f"{part} characters": sum(map(len, sentences)),
        f"{part} entities": sum(len(sentence.spans or ()) for sentence in sentences),
    }


def _train(pieces: Corpus, train_pieces: int) -> list[Sentence]:
    part = _tagged(pieces, 0, train_pieces)
    return list(_join((text, tags, text[-1] in _GOES_ON) for text, tags in part))


def _test(pieces: Corpus, train_pieces: int) -> list[Sentence]:
    part = enumerate(_tagged(pieces, train_pieces, len(pieces)), start=1)
    return list(_join((text, tags, number in _TEST_GOES_ON) for number, (text, tags) in part))


def _tagged(pieces: Corpus, start: int, end: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    tags = pieces.tags or ()
    return ((pieces.sentences[at].text, tags[at]) for at in range(start, min(end, len(pieces))))


def _join(pieces: Iterable[tuple[str, tuple[str, ...], bool]]) -> Iterator[Sentence]:
    """Tags are joined before spans are made, so that an entity across a cut comes back whole."""
    text = ""
    tags: tuple[str, ...] = ()
    for piece, piece_tags, goes_on in pieces:
        text, tags = text + piece, (*tags, *piece_tags)
        if not goes_on:
            yield Sentence(text, tuple(tags_to_spans(tags, "BIO")))
            text, tags = "", ()
    if text:
        yield Sentence(text, tuple(tags_to_spans(tags, "BIO")))
