"""How many labelled sentences a training needs that begins with a model, and one that begins anew.

    python benchmarks/from_model.py configs/weibo.toml --json OUT.json [--plot OUT.svg] [--from ner]
    [--set …]

Both are trained on the first sentences of train, some more each time, with several seeds; the epoch
is chosen on dev, and the figure is F1 on test. Anew means the file as it is, with its vectors and
its architecture; from a model, the architecture is that of the model, and only data and
optimisation are the file's. The fewer sentences, the more epochs. What the JSON file has already is
not trained again, so that a stopped run goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import script

from hanlattice.config import Config, make_config, read_config
from hanlattice.lab.bench.report import write_json
from hanlattice.theme import check_plot, plot, tidy
from hanlattice.training.loop import train
from hanlattice.training.warm_start import carried_settings

ANEW = "anew"
FROM = "from"
EPOCHS = {
    50: (30, 8),
    100: (24, 6),
    200: (18, 5),
    400: (15, 4),
    800: (12, 3),
    1350: (10, 3),
}  # anew, from a model
LABELS = {"GPE.NAM": "LOC", "GPE.NOM": "LOC"}  # MSRA counts countries and cities as places
# of a training from a model; anew, those of the file
RATE = 2e-3
BATCH = 4


def _work(options: argparse.Namespace) -> dict[str, Any]:
    if options.plot:
        check_plot(options.plot)
    record = (
        json.loads(options.json.read_text("utf-8"))
        if options.json and options.json.exists()
        else {"runs": []}
    )
    done = {(run["way"], run["sentences"], run["seed"]) for run in record["runs"]}
    for seed, size, way in product(range(1, options.seeds + 1), EPOCHS, (FROM, ANEW)):
        if (way, size, seed) not in done:
            record["runs"].append(_train(_config(options, way, size, seed), way))
            record = {
                **script.facts(),
                "from": options.start,
                "labels": LABELS,
                "runs": record["runs"],
            }
            if options.json:
                write_json(record, options.json)
            print(*record["runs"][-1].values(), sep="\t", flush=True)
    print("\n".join(_table(record["runs"])))
    if options.plot:
        _draw(options.plot, record)
    return record


def _config(options: argparse.Namespace, way: str, size: int, seed: int) -> Config:
    anew = read_config(options.config, options.changes, complete=True)
    tree = (
        {"data": anew.as_dict()["data"], "train": anew.as_dict()["train"]}
        if way == FROM
        else anew.as_dict()
    )
    tree["data"]["limit"], tree["train"]["seed"] = size, seed
    tree["train"]["epochs"] = EPOCHS[size][way == FROM]
    if way == FROM:
        fixed, usual = carried_settings(options.start)
        tree |= {name: {**usual.get(name, {}), **fixed.get(name, {})} for name in {*fixed, *usual}}
        tree["start"] = {"model": options.start, "labels": LABELS}
        tree["train"] |= {"lr": RATE, "batch_size": BATCH}
    return make_config(tree)


def _train(config: Config, way: str) -> dict[str, Any]:
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        scores = train(config, Path(folder) / "run").scores
    f1 = {part: round(scores[part]["overall"]["f1"], 5) for part in ("dev", "test")}
    settings = {"epochs": config.train.epochs, "best": scores["epoch"]}
    run = {"way": way, "sentences": config.data.limit, "seed": config.train.seed, **settings, **f1}
    return {**run, "cpu_seconds": round(time.process_time() - began, 1)}


def _table(runs: list[dict[str, Any]]) -> Iterator[str]:
    yield "| sentences | " + " | ".join(("anew", "from the model")) + " |"
    yield "|---:|---:|---:|"
    for size in EPOCHS:
        cells = (
            _spread([run["test"] for run in runs if (run["way"], run["sentences"]) == (way, size)])
            for way in (ANEW, FROM)
        )
        yield f"| {size:,} | " + " | ".join(cells) + " |"


def _spread(values: list[float]) -> str:
    if not values:
        return "–"
    mean = f"{100 * statistics.mean(values):.2f}"
    return (
        f"{mean} ± {100 * statistics.stdev(values):.2f} ({len(values)})"
        if len(values) > 1
        else f"{mean} (1)"
    )


def _draw(path: Path, record: dict[str, Any]) -> None:
    with plot(path, 5.4, 3.2) as figure:
        axis = figure.subplots()
        for way, name, marker in ((ANEW, "anew", "o"), (FROM, f"from {record['from']}", "s")):
            found = {
                size: [
                    100 * run["test"]
                    for run in record["runs"]
                    if (run["way"], run["sentences"]) == (way, size)
                ]
                for size in EPOCHS
            }
            sizes = [size for size, values in found.items() if values]
            errors = [
                statistics.stdev(found[size]) if len(found[size]) > 1 else 0.0 for size in sizes
            ]
            axis.errorbar(
                sizes,
                [statistics.mean(found[size]) for size in sizes],
                errors,
                marker=marker,
                markersize=4,
                capsize=3,
                label=name,
            )
        axis.set_xscale("log")
        axis.set_xticks([*EPOCHS], [f"{size:,}" for size in EPOCHS])
        axis.minorticks_off()
        axis.set_xlabel("sentences of train")
        axis.set_ylabel("F1 on test, %")
        axis.legend(frameon=False)
        tidy(axis)


if __name__ == "__main__":
    parser = script.make_parser(__doc__)
    parser.add_argument("config", type=Path, help="the configuration of a training anew")
    parser.add_argument("--from", dest="start", default="ner", help="the model to begin with")
    parser.add_argument(
        "--set", dest="changes", action="append", default=[], help="change a setting of the file"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plot", type=Path, help="draw the curve here")
    script.run(_work, parser.parse_args())
