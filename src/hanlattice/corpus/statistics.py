"""What was found in a corpus: how often each string has each label, with examples; merged over the
shards.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hanlattice.corpus.inputs import InputStream, open_parquet
from hanlattice.corpus.manifest import NAME, Record, read_manifest
from hanlattice.corpus.settings import model_digest
from hanlattice.corpus.shards import ROWS
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.evaluation.report import NONE, Table
from hanlattice.events import Listener, ignore
from hanlattice.files import LOCK
from hanlattice.tasks.local import LocalProcesses
from hanlattice.tasks.run import Outcome, run_tasks

MOST = 500_000  # strings that are counted at a time; the rarest are forgotten when there are more
# examples of a string, and the characters that each has on both sides
EXAMPLES = 2
AROUND = 12
Entry = list[Any]  # count, sum of scores, how many of them have a score, examples


@dataclass(frozen=True)
class CountedSpan:
    """A string with a label, how often it was found, its mean probability, and where."""

    label: str
    text: str
    count: int
    score: float | None
    examples: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        score = None if self.score is None else round(self.score, 4)
        return {**asdict(self), "score": score}


@dataclass
class SpanTally:
    """Counts of one shard, or of several. `missed`: how much too low the count of a string may be,
    at most.
    """

    labels: Counter[str] = field(default_factory=Counter)  # spans of each
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    rows: int = 0
    missed: int = 0

    def add(self, text: str, spans: Iterable[dict[str, Any]]) -> None:
        self.rows += 1
        for span in spans:
            start = span["start"]
            end = span["end"]
            label = span["label"]
            score = span.get("score")
            self.labels[label] += 1
            entry = self.entries.setdefault((label, text[start:end]), [0, 0.0, 0, []])
            entry[0] += 1
            if score is not None:
                entry[1] += score
                entry[2] += 1
            if len(entry[3]) < EXAMPLES:
                _remember(entry, [text[max(0, start - AROUND) : end + AROUND]])

    def merge(self, other: SpanTally) -> None:
        """Add what the next shard has; if there are too many strings, forget the rarest."""
        self.rows += other.rows
        self.labels += other.labels
        self.missed += other.missed
        for key, theirs in other.entries.items():
            ours = self.entries.setdefault(key, [0, 0.0, 0, []])
            ours[:3] = (one + another for one, another in zip(ours[:3], theirs[:3], strict=True))
            _remember(ours, theirs[3])
        least = 0
        while len(self.entries) > MOST:
            least += 1
            self.entries = {key: entry for key, entry in self.entries.items() if entry[0] > least}
        self.missed += least

    def ranked(self, least: int = 1) -> list[CountedSpan]:
        """All strings found that often: by label, the most frequent first."""
        found = [
            CountedSpan(label, text, count, total / scored if scored else None, tuple(examples))
            for (label, text), (count, total, scored, examples) in self.entries.items()
            if count >= least
        ]
        return sorted(found, key=lambda row: (row.label, -row.count, row.text))


def _remember(entry: Entry, examples: list[str]) -> None:
    entry[3] += [each for each in examples if each not in entry[3]][: EXAMPLES - len(entry[3])]


def count(folder: Path, workers: int = 1, listen: Listener = ignore) -> SpanTally:
    """One pass over the outputs that are in a folder, by so many processes; the result does not
    depend on them.
    """
    head, records = read_manifest(folder)
    if head is None:
        raise InputError(
            f"it has no {NAME}: expected a folder that `hanlattice corpus tag` or `segment` wrote",
            folder,
        )
    if len(records) < head["shards"] or head["unreadable"]:
        listen(
            {
                "event": "notice",
                "text": f"{len(records):,} of {head['shards']:,} shards are there: run the "
                f"rest first",
            }
        )
    names = list(records)
    done = 0
    tally = SpanTally()
    early = dict[int, SpanTally]()
    team = [_Counter(folder, head["options"])] * workers
    for number, _, outcome in run_tasks(team, names, LocalProcesses(), listen):
        if outcome.record is None:
            raise HanlatticeError(outcome.reason)
        early[number] = outcome.record["tally"]
        while done in early:  # in the order of the shards, so that the same is forgotten each time
            tally.merge(early.pop(done))
            done += 1
            listen({"event": "counted", "shards": done, "of": len(names)})
    return tally


def files_of(folder: Path) -> list[Path]:
    """The files of a folder that `count` reads."""
    return [folder / name for name in (NAME, LOCK, *read_manifest(folder)[1])]


def check_model(folder: Path, model: Path) -> None:
    """Whether this is the model of a folder's outputs, whose lexicon they are compared with."""
    head, _ = read_manifest(folder)
    if head is not None and head["model"]["sha256"] != model_digest(model):
        raise InputError(
            f"its outputs are of another model, called {head['model']['name']}: name it with "
            f"--model",
            folder,
        )


def tables(tally: SpanTally, found: list[CountedSpan], number: int) -> Iterator[Table]:
    """How many spans each label has, and its most frequent strings."""
    by_label = {
        label: [row for row in found if row.label == label] for label in sorted(tally.labels)
    }
    counts = [
        (label, f"{tally.labels[label]:,}", f"{len(rows):,}") for label, rows in by_label.items()
    ]
    yield Table(f"{tally.rows:,} texts", ("label", "spans", "strings"), tuple(counts))
    headings = ("string", "count", "score", "example")
    for label, rows in by_label.items():
        cells = [
            (row.text, f"{row.count:,}", _percent(row.score), row.examples[0])
            for row in rows[:number]
        ]
        yield Table(label, headings, tuple(cells), notes=1)


def _percent(score: float | None) -> str:
    return NONE if score is None else f"{100 * score:.1f}"


class _Counter:
    """What a process does with an output."""

    def __init__(self, folder: Path, options: Record) -> None:
        self.folder = folder
        self.options = options

    def attempt(self, name: str, emit: Listener) -> Outcome:
        try:
            tally = SpanTally()
            for text, spans in self._found(self.folder / name):
                tally.add(text, spans)
            return Outcome({"tally": tally})
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            return Outcome(
                None,
                f"{self.folder / name}: it was changed after it was written ({error!r}); make "
                f"it again",
            )

    def _found(self, path: Path) -> Iterator[tuple[str, Any]]:
        """Texts and their spans; broken rows are left out."""
        into = self.options["into"]
        read = _parquet if self.options["format"] == "parquet" else _jsonl
        for record in read(path, (self.options["field"], "text", into)):
            if record.get(into) is not None:
                yield (
                    record[self.options["field"] if self.options["field"] in record else "text"],
                    record[into],
                )


def _jsonl(path: Path, _: Iterable[str]) -> Iterator[Record]:
    with InputStream(path) as stream:
        yield from map(json.loads, iter(stream.readline, b""))


def _parquet(path: Path, columns: Iterable[str]) -> Iterator[Record]:
    with open_parquet(path) as file:
        there = [name for name in dict.fromkeys(columns) if name in file.schema_arrow.names]
        for batch in file.iter_batches(ROWS, columns=there):
            yield from batch.to_pylist()


def new_words(
    tally: SpanTally, is_known: Callable[[str], bool], least: int = 5, min_score: float = 0.0
) -> list[CountedSpan]:
    """The words that a segmenter found so often and that are not known: by count times mean
    probability.

    A word has two characters or more, all of them letters, and not all of them ASCII: no numbers,
    no punctuation.
    """
    words: dict[str, CountedSpan] = {}
    for row in tally.ranked():
        word = row.text
        if len(word) > 1 and word.isalpha() and not word.isascii():
            words[word] = _joined(words[word], row) if word in words else row
    often = (
        row for row in words.values() if row.count >= least and (row.score or 1.0) >= min_score
    )
    return sorted(
        (row for row in often if not is_known(row.text)), key=lambda row: (-_weight(row), row.text)
    )


def _joined(one: CountedSpan, other: CountedSpan) -> CountedSpan:
    """A word with two labels, as one."""
    count = one.count + other.count
    score = (
        None
        if one.score is None or other.score is None
        else (_weight(one) + _weight(other)) / count
    )
    label = max(one, other, key=lambda row: row.count).label
    return CountedSpan(label, one.text, count, score, (*one.examples, *other.examples)[:EXAMPLES])


def _weight(row: CountedSpan) -> float:
    """How often it is expected to be a word."""
    return row.count * (1.0 if row.score is None else row.score)
