"""People's Daily, January 1998, from `199801.txt`: `word/tag` pairs → segmented lines; entities and words in BMES.

Words are taken as they stand, their tags as parts of speech. Entities are made of the tags nr → PER, ns → LOC and
nt → ORG:

- a Chinese name is written as two words, surname and given name (江/nr 泽民/nr); a surname takes the nr word that
  follows it, and a double surname of the kind 陈/nr 方/nr 安生/nr takes both. Any other nr word is one person;
- neighbouring ns words, and neighbouring nt words, stay separate places and organisations (北京/ns 石景山/ns);
- the copy has no brackets around compound names ([中国/ns 银行/n]nt), so only organisations of one word are marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hanlattice.data.columns import write_columns
from hanlattice.data.segmented import from_words, write_segmented
from hanlattice.errors import InputError
from hanlattice.files import read_lines
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span

_LABELS = {"nr": "PER", "ns": "LOC", "nt": "ORG"}
_LONG_SURNAMES = frozenset(
    (
        "欧阳",
        "司马",
        "诸葛",
        "上官",
        "司徒",
        "司空",
        "令狐",
        "南宫",
        "夏侯",
        "皇甫",
        "尉迟",
        "公孙",
        "慕容",
        "东方",
        "端木",
        "独孤",
        "轩辕",
        "长孙",
        "宇文",
        "闻人",
    )
)


def convert_pku(members: list[Path], folder: Path) -> dict[str, int]:
    """Write words.seg and entities.bmes into `folder` and count what is in them."""
    lines = [_pairs(line, members[0], number) for number, line in read_lines(members[0]) if line.strip()]
    words = [from_words([word for word, _ in pairs]) for pairs in lines]
    entities = [_sentence(sentence, pairs) for sentence, pairs in zip(words, lines, strict=True)]
    write_segmented(folder / "words.seg", words)
    write_columns(folder / "entities.bmes", entities, "BMES")
    return {
        "sentences": len(words),
        "words": sum(map(len, lines)),
        "characters": sum(map(len, words)),
        "entities": sum(len(sentence.spans or ()) for sentence in entities),
    }


def _pairs(line: str, path: Path, number: int) -> list[tuple[str, str]]:
    pairs = []
    for token in line.split():
        word, slash, tag = token.rpartition("/")
        if not word or not slash or not tag:
            raise InputError(f"expected word/tag, not {token!r}", path, number)
        pairs.append((word, tag))
    return pairs


def _sentence(words: Sentence, pairs: Sequence[tuple[str, str]]) -> Sentence:
    """The text with its entities, and its words with their parts of speech."""
    tagged = (Span(word.start, word.end, tag) for word, (_, tag) in zip(words.spans or (), pairs, strict=True))
    return Sentence(words.text, tuple(_entities(pairs)), tuple(tagged))


def _entities(pairs: Sequence[tuple[str, str]]) -> Iterator[Span]:
    at, offset = 0, 0
    while at < len(pairs):
        tag = pairs[at][1]
        taken = _name_length(pairs, at) if tag == "nr" else 1
        end = offset + sum(len(word) for word, _ in pairs[at : at + taken])
        if tag in _LABELS:
            yield Span(offset, end, _LABELS[tag])
        at, offset = at + taken, end


def _name_length(pairs: Sequence[tuple[str, str]], at: int) -> int:
    """How many nr words, from `at` on, are one person."""
    run = [word for word, tag in pairs[at : at + 3] if tag == "nr"]
    tags = [tag for _, tag in pairs[at : at + 3]]
    if tags[:2] != ["nr", "nr"] or not _is_surname(run[0]):
        return 1
    doubled = tags == ["nr"] * 3 and len(run[1]) == 1 and len(run[2]) == 2
    return 3 if doubled else 2


def _is_surname(word: str) -> bool:
    return len(word) == 1 or word in _LONG_SURNAMES
