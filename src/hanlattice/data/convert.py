"""Converters of the known downloads: MSRA, People's Daily, word vectors and jieba's dictionary."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from hanlattice.data.formats.columns import read_columns, write_columns
from hanlattice.data.formats.segmented import from_words, write_segmented
from hanlattice.errors import InputError
from hanlattice.files import atomic_write, opening, read_lines
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.tags import tags_to_spans
from hanlattice.text.vectors import Vectors, write_vectors

# ---- MSRA named entities (SIGHAN 2006) from `dh_msra.txt`: BIO pieces of at most 100 characters
# become BMES sentences.
#
# The file is the official training part, 50,658 pieces, followed by the official test part, 4,631
# pieces. The package that contains it also splits it anew at random, with pieces of one sentence on
# both sides: never use that split.
#
# Training pieces are joined where one ends in a comma, a semicolon or an enumeration comma: 46,494
# sentences (46,364 in the official count). Thirteen pieces of 100 characters without punctuation
# stay cut, for nothing says which of them continue. Test scores depend on where sentences end, so
# there the official ends are kept: a list says which pieces continue.

TRAIN_PIECES = 50_658
_CONTINUES = "；，、"

# The pieces of the test part, counted from 1, whose sentence continues in the next piece.
# fmt: off
_TEST_CONTINUES = frozenset((
    7, 15, 20, 22, 26, 30, 32, 43, 128, 130, 147, 149, 164, 170, 177, 182, 266, 277, 282, 291, 293,
    297, 303, 306, 544, 592, 624, 629, 668, 675, 682, 685, 686, 687, 688, 689, 690, 691, 692, 693,
    694, 695, 696, 697, 698, 703, 704, 705, 706, 707, 708, 709, 710, 716, 718, 721, 724, 738, 739,
    820, 843, 848, 864, 867, 873, 875, 879, 880, 890, 970, 993, 999, 1011, 1015, 1039, 1060, 1065,
    1070, 1077, 1084, 1088, 1091, 1147, 1166, 1214, 1223, 1226, 1233, 1263, 1270, 1295, 1296, 1299,
    1302, 1307, 1309, 1315, 1319, 1340, 1341, 1342, 1363, 1364, 1365, 1419, 1497, 1508, 1511, 1515,
    1517, 1519, 1520, 1522, 1554, 1567, 1720, 1742, 1788, 1797, 1798, 1801, 1817, 1833, 1844, 1845,
    1847, 1871, 1883, 1891, 1960, 1964, 1977, 2024, 2044, 2058, 2062, 2068, 2083, 2090, 2095, 2097,
    2109, 2111, 2122, 2140, 2161, 2172, 2192, 2194, 2197, 2200, 2203, 2206, 2219, 2305, 2321, 2329,
    2361, 2366, 2371, 2373, 2377, 2391, 2424, 2438, 2440, 2454, 2466, 2539, 2542, 2551, 2575, 2637,
    2658, 2686, 2735, 2739, 2741, 2764, 2765, 2766, 2806, 2933, 2961, 2967, 2969, 2984, 3008, 3043,
    3044, 3254, 3258, 3260, 3268, 3276, 3281, 3284, 3289, 3291, 3307, 3313, 3317, 3318, 3331, 3336,
    3360, 3363, 3366, 3371, 3378, 3385, 3386, 3388, 3411, 3418, 3434, 3437, 3438, 3439, 3452, 3467,
    3470, 3475, 3498, 3523, 3527, 3530, 3536, 3551, 3563, 3569, 3575, 3581, 3588, 3601, 3605, 3610,
    3632, 3641, 3646, 3657, 3662, 3677, 3691, 3694, 3732, 3795, 3802, 3813, 3814, 3815, 3886, 3928,
    3947, 3985, 4047, 4077, 4102, 4343, 4349, 4353, 4398, 4424, 4425, 4525, 4528,
))
# fmt: on


def convert_msra(
    members: list[Path], folder: Path, train_pieces: int = TRAIN_PIECES
) -> dict[str, int]:
    """Write train.bmes and test.bmes into `folder`, and return counts of what is in them."""
    corpus = read_columns(members[0], "BIO")
    tags = corpus.tags or ()
    pieces = [(piece.text, row) for piece, row in zip(corpus.sentences, tags, strict=True)]
    train = pieces[:train_pieces]
    test = enumerate(pieces[train_pieces:], start=1)
    parts = {
        "train": list(_join((text, row, text[-1] in _CONTINUES) for text, row in train)),
        "test": list(_join((text, row, at in _TEST_CONTINUES) for at, (text, row) in test)),
    }
    counts = {}
    for part, sentences in parts.items():
        write_columns(folder / f"{part}.bmes", sentences, "BMES")
        counts[f"{part} sentences"] = len(sentences)
        counts[f"{part} characters"] = sum(map(len, sentences))
        counts[f"{part} entities"] = sum(len(sentence.spans or ()) for sentence in sentences)
    return counts


def _join(pieces: Iterable[tuple[str, tuple[str, ...], bool]]) -> Iterator[Sentence]:
    """Join pieces, with their tags, so that an entity across a cut is whole again."""
    text = ""
    tags = list[str]()
    for piece, piece_tags, continues in chain(pieces, [("", (), False)]):
        text += piece
        tags += piece_tags
        if text and not continues:
            yield Sentence(text, tuple(tags_to_spans(tags, "BIO")))
            text = ""
            tags = []


# ---- People's Daily, January 1998, from `199801.txt`: `word/tag` pairs become segmented lines, and
# entities and words in BMES.
#
# Tags become parts of speech. The tags nr, ns and nt become PER, LOC and ORG:
#
# - a Chinese name is written as two words, surname and given name (江/nr 泽民/nr); a surname takes
#   the nr word that follows it, and a double surname such as 陈/nr 方/nr 安生/nr takes both. Any
#   other nr word is one person;
# - neighbouring ns words, and neighbouring nt words, stay separate places and organisations
#   (北京/ns 石景山/ns);
# - the copy has no brackets around compound names ([中国/ns 银行/n]nt), so only organisations of
#   one word are marked.

_ENTITY_LABELS = {"nr": "PER", "ns": "LOC", "nt": "ORG"}
_LONG_SURNAMES = (
    *("欧阳", "司马", "诸葛", "上官", "司徒", "司空", "令狐", "南宫", "夏侯", "皇甫"),
    *("尉迟", "公孙", "慕容", "东方", "端木", "独孤", "轩辕", "长孙", "宇文", "闻人"),
)


def convert_pku(members: list[Path], folder: Path) -> dict[str, int]:
    """Write words.seg and entities.bmes into `folder`, and return counts of what is in them."""
    path = members[0]
    words: list[Sentence] = []
    entities: list[Sentence] = []
    for number, line in read_lines(path):
        if not line.strip():
            continue
        pairs = []
        for token in line.split():
            word, slash, tag = token.rpartition("/")
            if not word or not slash or not tag:
                raise InputError(f"expected word/tag, not {token!r}", path, number)
            pairs.append((word, tag))
        sentence = from_words([word for word, _ in pairs])
        places = zip(sentence.spans or (), pairs, strict=True)
        tagged = tuple(Span(place.start, place.end, tag) for place, (_, tag) in places)
        words.append(sentence)
        entities.append(Sentence(sentence.text, tuple(_pku_entities(pairs)), tagged))
    write_segmented(folder / "words.seg", words)
    write_columns(folder / "entities.bmes", entities, "BMES")
    return {
        "sentences": len(words),
        "words": sum(len(sentence.spans or ()) for sentence in words),
        "characters": sum(map(len, words)),
        "entities": sum(len(sentence.spans or ()) for sentence in entities),
    }


def _pku_entities(pairs: Sequence[tuple[str, str]]) -> Iterator[Span]:
    """Yield the entities of a sentence; one person may be two or three nr words."""
    index = 0
    start = 0
    while index < len(pairs):
        (word, tag), *rest = pairs[index : index + 3]
        size = 1
        lengths = [len(part) if next_tag == "nr" else 0 for part, next_tag in rest]
        is_surname = len(word) == 1 or word in _LONG_SURNAMES
        if tag == "nr" and is_surname and any(lengths[:1]):
            # 陈/nr 方/nr 安生/nr: two surnames, and a given name of two characters.
            size = 3 if lengths == [1, 2] else 2
        end = start + sum(len(part) for part, _ in pairs[index : index + size])
        if tag in _ENTITY_LABELS:
            yield Span(start, end, _ENTITY_LABELS[tag])
        index = index + size
        start = end


# ---- lists of words


class _PlainUnpickler(pickle.Unpickler):
    """Refuses every class, before it can run anything; lists, strings and numbers need none."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        name = f"{module_name}.{global_name}"
        raise pickle.UnpicklingError(f"it names {name}; only plain values are read")


def convert_simplechinese(members: list[Path], folder: Path) -> dict[str, int]:
    """Write a float16 matrix and its pickled words as word2vec binary, in the same order."""
    words = read_word_pickle(members[0])
    try:
        matrix = np.load(members[1], allow_pickle=False).astype(np.float32)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"not a NumPy array: {error}", members[1]) from None
    if matrix.ndim != 2 or len(matrix) != len(words):
        problem = f"{len(words)} words do not fit an array of shape {matrix.shape}"
        raise InputError(problem, members[1])
    write_vectors(folder / "words.bin", Vectors(words, matrix), binary=True)
    single = sum(len(word) == 1 for word in words)
    return {"words": len(words), "width": matrix.shape[1], "single characters": single}


def read_word_pickle(path: Path) -> tuple[str, ...]:
    """Return the list of strings in a pickle, and refuse anything else."""
    with opening(path) as file:
        try:
            words = _PlainUnpickler(file).load()
        # A broken pickle may raise nearly anything.
        except Exception as error:
            raise InputError(f"not a plain pickled list: {error}", path) from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError("expected a pickled list of strings", path)
    return tuple(words)


def convert_jieba(members: list[Path], folder: Path) -> dict[str, int]:
    """Copy jieba's `word frequency tag` lines, once each of them is checked."""
    count = 0
    for number, line in read_lines(members[0]):
        fields = line.split(" ")
        if len(fields) != 3 or not fields[0] or not fields[1].isdecimal():
            problem = f"expected 'word frequency tag', not {line[:40]!r}"
            raise InputError(problem, members[0], number)
        count += 1
    with opening(members[0]) as source, atomic_write(folder / "dict.txt", binary=True) as file:
        shutil.copyfileobj(source, file)
    return {"words": count}
