"""Raw text like a corpus of names: its clauses recombined, the names in them exchanged.

    python benchmarks/recombine.py corpora/ner/resume/train.bmes --names @msra/train.bmes --out
    made.txt

It is for `hanlattice distil`, where a corpus is small and no raw text is like it. A name is
replaced by another of its label. A NAME may also become one of --names' persons, an ORG one of its
organisations, or the beginning of one of the corpus's own with the end of another, split between
words of `seg`. The labels are those of Resume.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import script

from hanlattice.data.corpus import read_corpus
from hanlattice.data.download import resolve
from hanlattice.errors import InputError
from hanlattice.files import atomic_write
from hanlattice.predict import load
from hanlattice.text.sentence import Sentence

Clause = list[tuple[str, str]]  # (label, name), or ("", character)
EMPLOYERS = re.compile(
    "(公司|大学|学院|银行|集团|研究所|研究院|厂|局|部|委员会|协会|中心|医院|学校|事务所|出版社)$"
)
PATIENCE = 10_000  # attempts in a row without a new text, after which it gives up


class Names:
    """What may replace a name."""

    def __init__(
        self, train: Sequence[Sentence], others: Sequence[Sentence], rng: random.Random
    ) -> None:
        self.rng = rng
        self.own: dict[str, list[str]] = {"NAME": [], "ORG": []}
        for label, name in _names(train):
            self.own.setdefault(label, []).append(name)
        surnames = {name[0] for name in self.own["NAME"]}
        found = set(_names(others))
        self.people = sorted(
            w for label, w in found if label == "PER" and 2 <= len(w) <= 3 and w[0] in surnames
        )
        self.employers = sorted(
            w for label, w in found if label == "ORG" and 4 <= len(w) <= 20 and EMPLOYERS.search(w)
        )
        self.organisations = sorted(set(self.own["ORG"]))
        self.words = [
            [word.text for word in each.words or ()]
            for each in load("seg").pipe(self.organisations)
        ]

    def another(self, label: str) -> str:
        if label == "ORG":
            return self._organisation()
        if label == "NAME" and self.rng.random() < 0.6:
            return self.rng.choice(self.people)
        return self.rng.choice(self.own[label])

    def _organisation(self) -> str:
        rng, chance = self.rng, self.rng.random()
        if chance < 0.35:
            return rng.choice(self.organisations)
        if chance < 0.55:
            return rng.choice(self.employers)
        for _ in range(9):
            a = rng.choice(self.words)
            b = rng.choice(self.words)
            if len(a) > 1 and len(b) > 1:
                name = "".join(a[: rng.randint(1, len(a) - 1)] + b[rng.randint(1, len(b) - 1) :])
                if 4 <= len(name) <= 28:
                    return name
        return rng.choice(self.organisations)


def _names(sentences: Sequence[Sentence]) -> Iterator[tuple[str, str]]:
    return (
        (span.label, each.text[span.start : span.end])
        for each in sentences
        for span in each.spans or ()
    )


def _clauses(sentence: Sentence) -> list[Clause]:
    """A clause ends after a comma, semicolon or full stop outside of names."""
    starts = {span.start: span for span in sentence.spans or ()}
    clauses = [Clause()]
    at = 0
    while at < len(sentence.text):
        end = starts[at].end if at in starts else at + 1
        clauses[-1].append((starts[at].label if at in starts else "", sentence.text[at:end]))
        if at not in starts and sentence.text[at] in "，；。,;":
            clauses.append(Clause())
        at = end
    return [clause for clause in clauses if clause]


def _make(train: Sequence[Sentence], names: Names, count: int, rng: random.Random) -> Iterator[str]:
    """At most so many different texts that are not in train."""
    seen = {sentence.text for sentence in train}
    sources = [_clauses(sentence) for sentence in train if len(sentence.text) > 4]
    clauses = [clause for source in sources for clause in source]
    made = failed = 0
    while sources and made < count and failed < PATIENCE:
        parts = list(rng.choice(sources))
        if rng.random() < 0.4:
            other = rng.choice(sources)
            parts = parts[: rng.randint(1, len(parts))] + other[rng.randint(0, len(other) - 1) :]
        if rng.random() < 0.15:
            parts.insert(rng.randint(0, len(parts) - 1), rng.choice(clauses))
        rate = rng.choice((0.3, 0.6, 0.9))
        text = ""
        for label, word in (each for clause in parts for each in clause):
            text += names.another(label) if label and rng.random() < rate else word
        failed += 1
        if 5 <= len(text) <= 200 and text not in seen:
            seen.add(text)
            made = made + 1
            failed = 0
            yield text


def _write(options: argparse.Namespace) -> dict[str, Any]:
    train, others = (
        read_corpus(resolve(file)).sentences for file in (options.corpus, options.names)
    )
    if options.count < 1:
        raise InputError(f"--count must be 1 or more, not {options.count}")
    rng = random.Random(options.seed)
    names = Names(train, others, rng)
    for file, labels, found in (
        (options.corpus, "NAME and ORG", names.own["NAME"] and names.own["ORG"]),
        (
            options.names,
            "PER and ORG that could stand in such a text",
            names.people and names.employers,
        ),
    ):
        if not found:
            raise InputError(f"it needs names with the labels {labels}", file)
    texts = list(_make(train, names, options.count, rng))
    if len(texts) < options.count:
        raise InputError(
            f"only {len(texts):,} different sentences can be made of it: lower --count",
            options.corpus,
        )
    with atomic_write(options.out) as file:
        file.writelines(f"{text}\n" for text in texts)
    record = {"sentences": len(texts), "characters": sum(map(len, texts))}
    print(", ".join(f"{value:,} {name}" for name, value in record.items()))
    return record


if __name__ == "__main__":
    parser = script.make_parser(__doc__)
    parser.add_argument("corpus", help="of names, with labels as Resume has them")
    parser.add_argument(
        "--names", required=True, help="another corpus, with the labels PER and ORG"
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--count", type=int, default=26_000)
    parser.add_argument("--seed", type=int, default=1)
    script.run(_write, parser.parse_args())
