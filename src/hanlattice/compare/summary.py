"""From the records of runs to what the table says: means, deviations, differences, one section for each test file."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hanlattice.bench.timing import versions
from hanlattice.compare.matrix import Row, changed_settings, is_called, run_name
from hanlattice.compare.records import FORMAT, Record
from hanlattice.evaluation.significance import Counts, paired_bootstrap
from hanlattice.files import shown

FIGURES = ("precision", "recall", "f1")
RECALLS = ("oov", "iv")  # of words that training lacks, and has
RUN_FACTS = ("row", "seed", "device", "machine", "versions", "epoch", "seconds", "parameters", "part", "scores")


@dataclass(frozen=True)
class Found:
    """All that a comparison knows when its work is done."""

    rows: Sequence[Row]
    seeds: Sequence[int]
    runs: Mapping[str, Record]  # by name, finished ones
    rates: Mapping[str, Record]  # by stem
    failures: Mapping[str, Mapping[str, str]]  # by name: reason and trace
    changes: Sequence[str] = ()
    against: str = ""
    samples: int = 10_000

    def of(self, row: Row) -> list[Record]:
        """A row's finished runs, in the order of seeds."""
        names = [run_name(row.stem, seed) for seed in self.seeds]
        return [self.runs[name] for name in names if name in self.runs]

    def all_runs(self) -> Iterator[Record]:
        """Row by row, in whatever order they ended."""
        for row in self.rows:
            yield from self.of(row)


def summarise(found: Found) -> dict[str, Any]:
    """Everything, as JSON can hold it. Scores are shares of 1; `paper` and `over_paper` are per cent, as published."""
    sections: dict[str, list[Row]] = {}
    for row in found.rows:
        sections.setdefault(row.section, []).append(row)
    return {
        "format": FORMAT,
        "versions": versions(),
        "seeds": list(found.seeds),
        "changes": list(found.changes),
        "samples": found.samples,
        "sections": [_section(name, rows, found) for name, rows in sections.items()],
        "runs": {
            run_name(run["row"], run["seed"]): {fact: run[fact] for fact in RUN_FACTS} for run in found.all_runs()
        },
        "failures": {name: dict(found.failures[name]) for name in sorted(found.failures)},
    }


def _section(name: str, rows: Sequence[Row], found: Found) -> dict[str, Any]:
    named = next((row for row in rows if found.against and is_called(row, found.against)), None)
    return {
        "name": shown(name),
        "part": rows[0].part,
        "against": named.name if named else None,
        "rows": [{**_row(row, found), "difference": _difference(row, named, found)} for row in rows],
    }


def _row(row: Row, found: Found) -> dict[str, Any]:
    runs = found.of(row)
    scores = [run["scores"][row.part] for run in runs]
    f1 = [score["overall"]["f1"] for score in scores]
    groups = sorted({group for score in scores for group in score["groups"]})
    paper = row.config.compare.paper
    rate = found.rates.get(row.stem)
    return {
        "name": row.name,
        "config": shown(row.file),
        "settings": changed_settings(row.config),
        "seeds": [run["seed"] for run in runs],
        "wanted": len(found.seeds),
        "parameters": runs[0]["parameters"] if runs else None,
        "seconds": statistics.mean(run["seconds"] for run in runs) if runs else None,
        "dev": {"f1": spread(run["scores"]["dev"]["overall"]["f1"] for run in runs)},
        "scores": {name: spread(score["overall"][name] for score in scores) for name in FIGURES},
        "segmentation": {which: _recall(scores, which) for which in RECALLS} if _are_words(scores) else None,
        "groups": {group: spread(_f1_of_group(score, group) for score in scores) for group in groups},
        "paper": paper or None,
        "over_paper": 100 * statistics.mean(f1) - paper if paper and f1 else None,
        "rates": {key: rate[key] for key in ("device", "machine", "train", "decode")} if rate else None,
    }


def _are_words(scores: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all runs say how they found words; older records do not."""
    return bool(scores) and all("segmentation" in score for score in scores)


def _recall(scores: Sequence[Mapping[str, Any]], which: str) -> dict[str, Any] | None:
    """The same words for all seeds, so that all have a recall or none has."""
    return spread(recall for score in scores if (recall := score["segmentation"][which]["recall"]) is not None)


def _f1_of_group(score: Mapping[str, Any], group: str) -> float:
    """A group that was neither there nor found by one of the models is no point for it."""
    return float(score["groups"].get(group, {"f1": 0.0})["f1"])


def spread(values: Iterable[float]) -> dict[str, Any] | None:
    """Mean, and deviation of a sample (n − 1), which one value does not have; None without values."""
    found = list(values)
    if not found:
        return None
    return {"mean": statistics.mean(found), "deviation": statistics.stdev(found) if len(found) > 1 else None}


def _difference(row: Row, named: Row | None, found: Found) -> dict[str, float] | None:
    """To the named row; None for that row itself, and where one of the two has nothing or has other sentences."""
    if named is None or row is named:
        return None
    ours, theirs = _counts(found.of(row)), _counts(found.of(named))
    if ours is None or theirs is None or ours.shape[1] != theirs.shape[1]:
        return None
    if (ours[:, :, 0] != theirs[:1, :, 0]).any():
        return None
    return paired_bootstrap(ours, theirs, found.samples)._asdict()


def _counts(runs: Sequence[Record]) -> Counts | None:
    """[seeds, S, 3]"""
    if not runs or not runs[0]["counts"]:
        return None
    return np.array([run["counts"] for run in runs], dtype=np.int64)
