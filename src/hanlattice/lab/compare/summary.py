"""From the records of runs to JSON, Markdown table and plot: means, deviations, differences."""

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
# The recalls of words that training lacks, and has.
RECALLS = ("oov", "iv")
PLACE = ("device", "machine", "versions")
RUN_FACTS = ("row", "seed", *PLACE, "epoch", "seconds", "parameters", "part", "scores")

# The result of `summarise`, or a section or row of it.
Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Results:
    """Everything that is known when the work is done.

    `runs` holds the finished runs by name, `rates` is by stem, and `failures` has reason and trace
    by name.
    """

    rows: Sequence[MatrixRow]
    seeds: Sequence[int]
    runs: dict[str, Record]
    rates: dict[str, Record]
    failures: dict[str, dict[str, str]]
    changes: Sequence[str] = ()
    against: str = ""
    samples: int = 10_000

    def of(self, row: MatrixRow) -> list[Record]:
        """Return a row's finished runs, in the order of seeds."""
        names = [run_name(row.stem, seed) for seed in self.seeds]
        return [self.runs[name] for name in names if name in self.runs]


def summarise(results: Results) -> dict[str, Any]:
    """Return everything, for JSON.

    Scores are shares of 1; `paper` and `over_paper` are per cent, as published.
    """
    by_section: dict[str, list[MatrixRow]] = {}
    for row in results.rows:
        by_section.setdefault(row.section, []).append(row)
    sections = []
    for name, rows in by_section.items():
        baseline = next((row for row in rows if row.is_called(results.against)), None)
        against = baseline.name if baseline else None
        section = {"name": printable_path(name), "part": rows[0].part, "against": against}
        cells = [
            {**_row(r, results), "difference": _difference(r, baseline, results)} for r in rows
        ]
        sections.append({**section, "rows": cells})
    runs = {
        run_name(run["row"], run["seed"]): {fact: run[fact] for fact in RUN_FACTS}
        for row in results.rows
        for run in results.of(row)
    }
    return {
        "format": FORMAT,
        "versions": versions(),
        "seeds": list(results.seeds),
        "changes": list(results.changes),
        "samples": results.samples,
        "sections": sections,
        "runs": runs,
        "failures": {name: dict(results.failures[name]) for name in sorted(results.failures)},
    }


def _row(row: MatrixRow, results: Results) -> dict[str, Any]:
    runs = results.of(row)
    scores = [run["scores"][row.part] for run in runs]
    f1 = [score["overall"]["f1"] for score in scores]
    dev = (run["scores"]["dev"]["overall"]["f1"] for run in runs if "dev" in run["scores"])
    # F1 without long sentences; None where the test has none.
    short = [run["short"] for run in runs if run["short"]]
    short_f1 = {"f1": spread(score["f1"] for score in short)}
    # The words are the same for all seeds, so either all of them have a recall or none.
    recalls = None
    if scores and all("segmentation" in score for score in scores):
        recalls = {}
        for which in RECALLS:
            values = (score["segmentation"][which]["recall"] for score in scores)
            recalls[which] = spread(value for value in values if value is not None)
    # 0 for a group that is neither in the gold nor in what a model predicted.
    groups = {
        group: spread(float(score["groups"].get(group, {"f1": 0.0})["f1"]) for score in scores)
        for group in sorted({group for score in scores for group in score["groups"]})
    }
    paper = row.config.compare.paper
    rate = results.rates.get(row.stem)
    rate_facts = ("device", "machine", "train", "decode")
    return {
        "name": row.name,
        "config": printable_path(row.file),
        "variant": row.variant,
        "settings": changed_settings(row.config),
        "seeds": [run["seed"] for run in runs],
        "wanted": len(results.seeds),
        "parameters": runs[0]["parameters"] if runs else None,
        "seconds": statistics.mean(run["seconds"] for run in runs) if runs else None,
        "dev": {"f1": spread(dev)},
        "scores": {name: spread(score["overall"][name] for score in scores) for name in FIGURES},
        "short": {**short_f1, "left_out": short[0]["left_out"]} if short else None,
        "segmentation": recalls,
        "groups": groups,
        "paper": paper or None,
        "over_paper": 100 * statistics.mean(f1) - paper if paper and f1 else None,
        "rates": {key: rate[key] for key in rate_facts} if rate else None,
    }


def spread(values: Iterable[float]) -> dict[str, Any] | None:
    """Return mean and deviation of a sample (n − 1), which one value lacks; None without any."""
    sample = list(values)
    if not sample:
        return None
    deviation = statistics.stdev(sample) if len(sample) > 1 else None
    return {"mean": statistics.mean(sample), "deviation": deviation}


def _difference(
    row: MatrixRow, baseline: MatrixRow | None, results: Results
) -> dict[str, float] | None:
    """Compare a row with the baseline; None where one has no runs or other sentences."""
    if baseline is None or row is baseline:
        return None
    # [seeds, S, 3]
    counts = ([run["counts"] for run in results.of(side)] for side in (row, baseline))
    ours, theirs = (np.array(side, dtype=np.int64) for side in counts)
    if not ours.size or not theirs.size or ours.shape[1] != theirs.shape[1]:
        return None
    if (ours[:, :, 0] != theirs[:1, :, 0]).any():
        return None
    return paired_bootstrap(ours, theirs, results.samples)._asdict()


def markdown(summary: Summary) -> str:
    """Return a table for each section with its notes, straight in a terminal too."""
    parts = []
    for section in summary["sections"]:
        columns = []
        for index, (heading, cell) in enumerate(_columns(section, summary["samples"])):
            cells = [cell(row) for row in section["rows"]]
            # A column without any figure is left out, but not the names and seeds.
            if index < 2 or set(cells) != {NONE}:
                columns.append((_one_line(heading), cells))
        headings, values = zip(*columns, strict=True)
        table = Table(section["name"], headings, tuple(zip(*values, strict=True)))
        lines = [f"## {section['name']}", "", *table.markdown(aligned=True)]
        parts.append("\n".join([*lines, "", *_notes(section, summary["samples"]), ""]))
    failures = summary["failures"].items()
    if failures:
        lines = [f"- {name}: {_one_line(failure['reason'])}" for name, failure in failures]
        parts.append("\n".join(["## What failed", "", *lines, ""]))
    return "\n".join(parts)


def _columns(section: Summary, samples: int) -> Iterator[tuple[str, Callable[[Summary], str]]]:
    """Yield heading and cell of every possible column."""
    against = section["against"]
    rows = section["rows"]
    baseline = next((row for row in rows if row["name"] == against), None)

    def difference(show: Callable[[Summary], str]) -> Callable[[Summary], str]:
        return lambda row: NONE if row["difference"] is None else show(row["difference"])

    def probability(test: Summary) -> str:
        p = test["p"]
        # No smaller p can be measured with so many samples.
        return f"≤ {p:.2g}" if p * samples <= 1 else f"{p:.4f}" if p < 0.01 else f"{p:.2f}"

    def seeds(row: Summary) -> str:
        done, wanted = len(row["seeds"]), row["wanted"]
        return str(done) if done == wanted else f"{done} of {wanted}"

    yield "model", lambda row: _one_line(row["name"])
    yield "seeds", seeds
    if section["part"] == "test":
        yield "dev F1", partial(_figure, "dev", "f1")
    for heading, figure in zip(("P", "R", "F1"), FIGURES, strict=True):
        yield heading, partial(_figure, "scores", figure)
    yield SHORT, partial(_figure, "short", "f1")
    for heading, which in zip(("OOV R", "IV R"), RECALLS, strict=True):
        yield heading, partial(_figure, "segmentation", which)
    for group in sorted({group for row in rows for group in row["groups"]}):
        yield f"{group} F1", partial(_figure, "groups", group)
    yield f"F1 − {against}", difference(lambda test: signed(100 * test["difference"]))
    interval = ("low", "high")
    yield "95 %", difference(lambda test: " … ".join(signed(100 * test[end]) for end in interval))
    yield "p", difference(probability)
    yield "paper", lambda row: NONE if row["paper"] is None else f"{row['paper']:.2f}"
    yield "F1 − paper", lambda row: NONE if row["over_paper"] is None else signed(row["over_paper"])
    yield "weights", lambda row: NONE if row["parameters"] is None else f"{row['parameters']:,}"
    for what in ("train", "decode"):
        yield f"{what} sent/s", partial(_rate, baseline, what)


def _figure(kind: str, name: str, row: Summary) -> str:
    """Return a mean with its deviation, in per cent."""
    figure = (row[kind] or {}).get(name)
    if figure is None:
        return NONE
    deviation = "" if figure["deviation"] is None else f" ± {100 * figure['deviation']:.2f}"
    return f"{100 * figure['mean']:.2f}{deviation}"


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
        long = f"{LONG} characters or more, which the original code leaves out"
        yield f"{SHORT}: without {sentences} of {long}."
    if any(row["segmentation"] for row in rows):
        words = "recall of the words that training lacks and has"
        yield f"OOV R and IV R: {words}, as the SIGHAN bakeoff counts."
    if any(row["difference"] for row in rows):
        yield f"95 % and p: paired bootstrap over sentences and seeds, {samples:,} samples."
    machines = dict.fromkeys(_machine(row["rates"]["machine"]) for row in rows if row["rates"])
    if machines:
        against = f"; × is to {section['against']}" if section["against"] else ""
        yield f"Rates: each row alone on {' or '.join(machines)}{against}."
    if len(machines) > 1:
        advice = "remove rates/ to take them anew"
        yield f"The rates were not taken in one place and cannot be compared: {advice}."


def _machine(machine: Summary) -> str:
    return str(machine["gpu"] or f"{machine['cpu']}, {counted(machine['threads'], 'thread')}")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def draw(summary: Summary, path: Path) -> None:
    """Plot a panel for each section: dots for seeds, their mean, a bar for the published F1."""
    sections = summary["sections"]
    heights = [len(section["rows"]) + 2.2 for section in sections]
    with plot(path, 7.5, 0.32 * sum(heights)) as figure:
        axes = figure.subplots(len(sections), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axis, section in zip(axes, sections, strict=True):
            _draw_section(axis, section, list(summary["runs"].values()))


def _draw_section(axis: Axes, section: Summary, runs: Sequence[Summary]) -> None:
    rows = section["rows"]
    part = section["part"]
    for line, row in enumerate(rows):
        stem = row_stem(row["config"], row["variant"])
        colour = RED if row["name"] == section["against"] else BLUE
        f1 = [100 * run["scores"][part]["overall"]["f1"] for run in runs if run["row"] == stem]
        axis.plot(f1, [line] * len(f1), ".", color=colour, alpha=0.4, markersize=5)
        mean = row["scores"]["f1"]
        if mean is not None:
            look: Any = {"fmt": "o", "color": colour, "markersize": 6, "capsize": 3}
            deviation = [100 * (mean["deviation"] or 0.0)]
            axis.errorbar([100 * mean["mean"]], [line], xerr=deviation, **look)
        if row["paper"] is not None:
            axis.plot([row["paper"]], [line], "|", color="0.35", markersize=14, markeredgewidth=1.6)
    axis.set_yticks(range(len(rows)), [plot_text(row["name"]) for row in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    papers = " · bar: the paper's" if any(row["paper"] is not None for row in rows) else ""
    axis.set_xlabel(f"{part} F1, per cent · dots: seeds, mean ± deviation{papers}")
    axis.set_title(plot_text(section["name"]), fontsize=9, loc="left")
    tidy(axis, "x")
