"""From the records of runs to the outputs: means, deviations and differences, as JSON, Markdown
table and plot.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hanlattice.evaluation.ner import LONG
from hanlattice.evaluation.report import NONE, Table, signed
from hanlattice.evaluation.significance import paired_bootstrap
from hanlattice.files import printable_path
from hanlattice.lab.bench.timing import versions
from hanlattice.lab.compare.job import FORMAT, Record
from hanlattice.lab.compare.matrix import MatrixRow, changed_settings, row_stem, run_name
from hanlattice.text.display import counted
from hanlattice.theme import BLUE, RED, plot, plot_text, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = ("precision", "recall", "f1")
SHORT = f"F1, < {LONG}"
RECALLS = ("oov", "iv")  # of words that training lacks, and has
RUN_FACTS = (
    "row",
    "seed",
    "device",
    "machine",
    "versions",
    "epoch",
    "seconds",
    "parameters",
    "part",
    "scores",
)

Summary = Mapping[str, Any]  # what `summarise` makes, or a section or row of it


@dataclass(frozen=True)
class Results:
    """Everything that is known when the work is done."""

    rows: Sequence[MatrixRow]
    seeds: Sequence[int]
    runs: dict[str, Record]  # by name, finished ones
    rates: dict[str, Record]  # by stem
    failures: dict[str, dict[str, str]]  # by name: reason and trace
    changes: Sequence[str] = ()
    against: str = ""
    samples: int = 10_000

    def of(self, row: MatrixRow) -> list[Record]:
        """A row's finished runs, in the order of seeds."""
        names = [run_name(row.stem, seed) for seed in self.seeds]
        return [self.runs[name] for name in names if name in self.runs]


def summarise(results: Results) -> dict[str, Any]:
    """Everything, as JSON can hold it. Scores are shares of 1; `paper` and `over_paper` are per
    cent, as published.
    """
    sections: dict[str, list[MatrixRow]] = {}
    for row in results.rows:
        sections.setdefault(row.section, []).append(row)
    runs = [run for row in results.rows for run in results.of(row)]
    return {
        "format": FORMAT,
        "versions": versions(),
        "seeds": list(results.seeds),
        "changes": list(results.changes),
        "samples": results.samples,
        "sections": [_section(name, rows, results) for name, rows in sections.items()],
        "runs": {
            run_name(run["row"], run["seed"]): {fact: run[fact] for fact in RUN_FACTS}
            for run in runs
        },
        "failures": {name: dict(results.failures[name]) for name in sorted(results.failures)},
    }


def _section(name: str, rows: Sequence[MatrixRow], results: Results) -> dict[str, Any]:
    baseline = next((row for row in rows if row.is_called(results.against)), None)
    return {
        "name": printable_path(name),
        "part": rows[0].part,
        "against": baseline.name if baseline else None,
        "rows": [
            {**_row(row, results), "difference": _difference(row, baseline, results)}
            for row in rows
        ],
    }


def _row(row: MatrixRow, results: Results) -> dict[str, Any]:
    runs = results.of(row)
    scores = [run["scores"][row.part] for run in runs]
    f1 = [score["overall"]["f1"] for score in scores]
    groups = sorted({group for score in scores for group in score["groups"]})
    are_words = bool(scores) and all("segmentation" in score for score in scores)
    paper = row.config.compare.paper
    rate = results.rates.get(row.stem)
    return {
        "name": row.name,
        "config": printable_path(row.file),
        "variant": row.variant,
        "settings": changed_settings(row.config),
        "seeds": [run["seed"] for run in runs],
        "wanted": len(results.seeds),
        "parameters": runs[0]["parameters"] if runs else None,
        "seconds": statistics.mean(run["seconds"] for run in runs) if runs else None,
        "dev": {
            "f1": spread(
                run["scores"]["dev"]["overall"]["f1"] for run in runs if "dev" in run["scores"]
            )
        },
        "scores": {name: spread(score["overall"][name] for score in scores) for name in FIGURES},
        "short": _short([run["short"] for run in runs]),
        "segmentation": {which: _recall(scores, which) for which in RECALLS} if are_words else None,
        "groups": {  # 0 for a group that is neither in the gold nor in what a model predicted
            group: spread(float(score["groups"].get(group, {"f1": 0.0})["f1"]) for score in scores)
            for group in groups
        },
        "paper": paper or None,
        "over_paper": 100 * statistics.mean(f1) - paper if paper and f1 else None,
        "rates": {key: rate[key] for key in ("device", "machine", "train", "decode")}
        if rate
        else None,
    }


def _short(scores: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Return F1 without long sentences, or None where the test has none."""
    known = [score for score in scores if score]
    return (
        {"f1": spread(score["f1"] for score in known), "left_out": known[0]["left_out"]}
        if known
        else None
    )


def _recall(scores: Sequence[Mapping[str, Any]], which: str) -> dict[str, Any] | None:
    """The words are the same for all seeds, so either all of them have a recall or none."""
    return spread(
        recall for score in scores if (recall := score["segmentation"][which]["recall"]) is not None
    )


def spread(values: Iterable[float]) -> dict[str, Any] | None:
    """Mean, and deviation of a sample (n − 1), which one value does not have; None without values."""
    found = list(values)
    if not found:
        return None
    return {
        "mean": statistics.mean(found),
        "deviation": statistics.stdev(found) if len(found) > 1 else None,
    }


def _difference(
    row: MatrixRow, baseline: MatrixRow | None, results: Results
) -> dict[str, float] | None:
    """To the baseline; None for the baseline itself, and where one of the two has no runs or other
    sentences.
    """
    if baseline is None or row is baseline:
        return None
    counts = [[run["counts"] for run in results.of(each)] for each in (row, baseline)]
    ours, theirs = (np.array(each, dtype=np.int64) for each in counts)  # [seeds, S, 3]
    if not ours.size or not theirs.size or ours.shape[1] != theirs.shape[1]:
        return None
    if (ours[:, :, 0] != theirs[:1, :, 0]).any():
        return None
    return paired_bootstrap(ours, theirs, results.samples)._asdict()


def markdown(summary: Summary) -> str:
    """A table for each section with its notes, in columns that are also straight in a terminal."""
    parts = [_section_text(section, summary["samples"]) for section in summary["sections"]]
    failures = [
        f"- {name}: {_one_line(failure['reason'])}" for name, failure in summary["failures"].items()
    ]
    if failures:
        parts.append("\n".join(["## What failed", "", *failures, ""]))
    return "\n".join(parts)


def _section_text(section: Summary, samples: int) -> str:
    columns = [
        (heading, [cell(row) for row in section["rows"]])
        for heading, cell in _columns(section, samples)
    ]
    printable_path = [each for at, each in enumerate(columns) if at < 2 or set(each[1]) != {NONE}]
    headings, cells = zip(*printable_path, strict=True)
    table = Table(section["name"], tuple(map(_one_line, headings)), tuple(zip(*cells, strict=True)))
    return "\n".join(
        [
            f"## {section['name']}",
            "",
            *table.markdown(aligned=True),
            "",
            *_notes(section, samples),
            "",
        ]
    )


def _columns(section: Summary, samples: int) -> Iterator[tuple[str, Callable[[Summary], str]]]:
    """Heading and cell of every possible column; one without any figure is left out."""
    against = section["against"]
    rows = section["rows"]
    baseline = next((row for row in rows if row["name"] == against), None)
    yield "model", lambda row: _one_line(row["name"])
    yield "seeds", _seeds
    if section["part"] == "test":
        yield "dev F1", partial(_figure, "dev", "f1")
    for heading, figure in zip(("P", "R", "F1"), FIGURES, strict=True):
        yield heading, partial(_figure, "scores", figure)
    yield SHORT, partial(_figure, "short", "f1")
    for heading, which in zip(("OOV R", "IV R"), RECALLS, strict=True):
        yield heading, partial(_figure, "segmentation", which)
    for group in sorted({group for row in rows for group in row["groups"]}):
        yield f"{group} F1", partial(_figure, "groups", group)
    yield (
        f"F1 − {against}",
        lambda row: _of_difference(row, lambda d: signed(100 * d["difference"])),
    )
    yield (
        "95 %",
        lambda row: _of_difference(
            row, lambda d: f"{signed(100 * d['low'])} … {signed(100 * d['high'])}"
        ),
    )
    yield "p", lambda row: _of_difference(row, lambda d: _probability(d["p"], samples))
    yield "paper", lambda row: NONE if row["paper"] is None else f"{row['paper']:.2f}"
    yield "F1 − paper", lambda row: NONE if row["over_paper"] is None else signed(row["over_paper"])
    yield "weights", lambda row: NONE if row["parameters"] is None else f"{row['parameters']:,}"
    for what in ("train", "decode"):
        yield f"{what} sent/s", partial(_rate, baseline, what)


def _seeds(row: Summary) -> str:
    done = len(row["seeds"])
    wanted = row["wanted"]
    return str(done) if done == wanted else f"{done} of {wanted}"


def _figure(kind: str, name: str, row: Summary) -> str:
    """A mean with its deviation, in per cent."""
    figure = (row[kind] or {}).get(name)
    if figure is None:
        return NONE
    deviation = "" if figure["deviation"] is None else f" ± {100 * figure['deviation']:.2f}"
    return f"{100 * figure['mean']:.2f}{deviation}"


def _of_difference(row: Summary, show: Callable[[Summary], str]) -> str:
    return NONE if row["difference"] is None else show(row["difference"])


def _probability(p: float, samples: int) -> str:
    return f"≤ {p:.2g}" if p * samples <= 1 else f"{p:.4f}" if p < 0.01 else f"{p:.2f}"


def _rate(baseline: Summary | None, what: str, row: Summary) -> str:
    if row["rates"] is None:
        return NONE
    rate = row["rates"][what]["sentences_per_second"]
    others = baseline["rates"] if baseline is not None and baseline is not row else None
    ratio = f" ({rate / others[what]['sentences_per_second']:.2f}×)" if others else ""
    return f"{rate:,.0f}{ratio}"


def _notes(section: Summary, samples: int) -> Iterator[str]:
    rows = section["rows"]
    yield "Exact spans, per cent; ± is the deviation of a sample over seeds."
    if left_out := next((row["short"]["left_out"] for row in rows if row["short"]), 0):
        sentences = counted(left_out, f"{section['part']} sentence")
        yield f"{SHORT}: without {sentences} of {LONG} characters or more, which the original code leaves out."
    if any(row["segmentation"] for row in rows):
        yield "OOV R and IV R: recall of the words that training lacks and has, as the SIGHAN bakeoff counts."
    if any(row["difference"] for row in rows):
        yield f"95 % and p: paired bootstrap over sentences and seeds, {samples:,} samples."
    machines = list(
        dict.fromkeys(_machine(row["rates"]["machine"]) for row in rows if row["rates"])
    )
    if machines:
        against = f"; × is to {section['against']}" if section["against"] else ""
        yield f"Rates: each row alone on {' or '.join(machines)}{against}."
    if len(machines) > 1:
        yield "The rates were not taken in one place and cannot be compared: remove rates/ to take them anew."


def _machine(machine: Summary) -> str:
    return str(machine["gpu"] or f"{machine['cpu']}, {counted(machine['threads'], 'thread')}")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def draw(summary: Summary, path: Path) -> None:
    """A panel for each section: every seed a small dot, the mean a large one, the published figure
    a bar.
    """
    sections = summary["sections"]
    heights = [len(section["rows"]) + 2.2 for section in sections]
    with plot(path, 7.5, 0.32 * sum(heights)) as figure:
        axes = figure.subplots(len(sections), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axis, section in zip(axes, sections, strict=True):
            _draw_section(axis, section, list(summary["runs"].values()))


def _draw_section(axis: Axes, section: Summary, runs: Sequence[Summary]) -> None:
    rows = section["rows"]
    part = section["part"]
    for at, row in enumerate(rows):
        stem = row_stem(row["config"], row["variant"])
        colour = RED if row["name"] == section["against"] else BLUE
        f1 = [100 * run["scores"][part]["overall"]["f1"] for run in runs if run["row"] == stem]
        axis.plot(f1, [at] * len(f1), ".", color=colour, alpha=0.4, markersize=5)
        mean = row["scores"]["f1"]
        if mean is not None:
            deviation = [100 * (mean["deviation"] or 0.0)]
            axis.errorbar(
                [100 * mean["mean"]],
                [at],
                xerr=deviation,
                fmt="o",
                color=colour,
                markersize=6,
                capsize=3,
            )
        if row["paper"] is not None:
            axis.plot([row["paper"]], [at], "|", color="0.35", markersize=14, markeredgewidth=1.6)
    axis.set_yticks(range(len(rows)), [plot_text(row["name"]) for row in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    papers = " · bar: the paper's" if any(row["paper"] is not None for row in rows) else ""
    axis.set_xlabel(f"{part} F1, per cent · dots: seeds, mean ± deviation{papers}")
    axis.set_title(plot_text(section["name"]), fontsize=9, loc="left")
    tidy(axis, "x")
