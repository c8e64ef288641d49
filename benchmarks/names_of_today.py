"""Names that a model has never seen, in a dictionary with their labels: how many are found, and
what else changes.

    python benchmarks/names_of_today.py --model ner --others corpora/ner/weibo/train.bmes [--json
    OUT.json]
    python benchmarks/names_of_today.py --model ner --dev FILE.bmes [--known TRAIN.bmes] [--json
    OUT.json]

names_of_today.tsv has a name, its label and a sentence that names it, a line each. A name is found
if its sentence has exactly that span with that label. The others are the first 1,000 sentences of a
corpus: one is changed if it has other spans with the dictionary than without.

With --dev, what trust is best: F1 with the names of a corpus itself as the dictionary, each with
the label that it has most often there, without those that are names of --known; on the sentences in
which one of them stands.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import script

from hanlattice.data.corpus import read_corpus
from hanlattice.data.download import resolve
from hanlattice.evaluation.ner import score
from hanlattice.evaluation.report import Table
from hanlattice.inference.device import use_threads
from hanlattice.predict import LABEL_TRUST, Predictor, load
from hanlattice.text.dictionary import Entry
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span

NAMES = Path(__file__).with_suffix(".tsv")
MANY = 1000
TRUSTS = (0.0, 4.0, 8.0, 10.0, 12.0, 16.0)
Line = tuple[str, str, str]


def _show(options: argparse.Namespace) -> dict[str, Any]:
    use_threads(1)
    record = _dev(options) if options.dev else _names(options)
    return {"model": Path(options.model).name, **record, **script.facts()}


def _names(options: argparse.Namespace) -> dict[str, Any]:
    lines: list[Line] = [tuple(line.split("\t")) for line in NAMES.read_text("utf-8").splitlines()]  # type: ignore[misc]
    others = [sentence.text for sentence in read_corpus(resolve(options.others)).sentences[:MANY]]
    tagger = load(options.model)
    rows = []
    plain = [document.spans for document in tagger.pipe(others, scores=False)]
    for trust in (None, *TRUSTS):
        if trust is not None:
            tagger.trust = trust
            tagger.lexicon.update(Entry(name, label) for name, label, _ in lines)
        found = [name for name, label, text in lines if _has(tagger(text).spans, text, name, label)]
        now = [document.spans for document in tagger.pipe(others, scores=False)]
        changed = [
            text for text, before, after in zip(others, plain, now, strict=True) if before != after
        ]
        rows.append({"trust": trust, "found": len(found), "changed": len(changed)})
        if trust == LABEL_TRUST:
            print("not found:", *(line[0] for line in lines if line[0] not in found))
            print("changed:", *changed, sep="\n  ")
    head = ("trust", f"found of {len(lines)}", f"others changed, of {len(others):,}")
    cells = (
        (
            "none" if row["trust"] is None else f"{row['trust']:g}",
            f"{row['found']}",
            f"{row['changed']}",
        )
        for row in rows
    )
    print(*Table("", head, tuple(cells)).markdown(), sep="\n")
    return {"names": len(lines), "others": Path(options.others).name, "rows": rows}


def _has(spans: Sequence[Span], text: str, name: str, label: str) -> bool:
    start = text.index(name)
    return Span(start, start + len(name), label) in spans


def _dev(options: argparse.Namespace) -> dict[str, Any]:
    sentences = [_mapped(sentence) for sentence in read_corpus(resolve(options.dev)).sentences]
    labels = _names_in(sentences)
    known = (
        _names_in(map(_mapped, read_corpus(resolve(options.known)).sentences))
        if options.known
        else {}
    )
    new = {
        name: count.most_common(1)[0][0]
        for name, count in labels.items()
        if len(name) > 1 and name not in known
    }
    names = [Entry(name, label) for name, label in new.items()]
    sentences = [sentence for sentence in sentences if any(name in sentence.text for name in new)]
    rows = []
    for trust in (None, *TRUSTS):
        tagger = load(options.model)
        if trust is not None:
            tagger.lexicon.update(names)
            tagger.trust = trust
        rows.append({"trust": trust, **_score(tagger, sentences)})
        print(rows[-1], flush=True)
    return {
        "dev": Path(options.dev).name,
        "sentences": len(sentences),
        "names": len(names),
        "rows": rows,
    }


def _names_in(sentences: Iterable[Sentence]) -> dict[str, Counter[str]]:
    """The labels of each name."""
    labels: dict[str, Counter[str]] = {}
    for sentence in sentences:
        for span in sentence.spans or ():
            labels.setdefault(sentence.text[span.start : span.end], Counter())[span.label] += 1
    return labels


def _mapped(sentence: Sentence) -> Sentence:
    """With the labels of `ner`: GPE is LOC, and kinds of mention are left out."""
    names = {"GPE": "LOC"}
    spans = [
        Span(span.start, span.end, names.get(base, base))
        for span in sentence.spans or ()
        if (base := span.label.partition(".")[0]) and not span.label.endswith(".NOM")
    ]
    return Sentence(sentence.text, tuple(spans))


def _score(tagger: Predictor, sentences: Sequence[Sentence]) -> dict[str, float]:
    found = [
        document.spans for document in tagger.pipe([each.text for each in sentences], scores=False)
    ]
    total = score([sentence.spans or () for sentence in sentences], found).overall
    return {"precision": total.precision, "recall": total.recall, "f1": total.f1}


def _main() -> None:
    parser = script.make_parser(__doc__)
    parser.add_argument("--model", default="ner", help="a bundled model, or a model's folder")
    parser.add_argument(
        "--others", default="@msra/test.bmes", help="a corpus of sentences that should not change"
    )
    parser.add_argument("--dev", help="a corpus on which trust is chosen")
    parser.add_argument("--known", help="a corpus whose names are left out of that dictionary")
    script.run(_show, parser.parse_args())


if __name__ == "__main__":
    _main()
