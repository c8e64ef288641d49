"""Train configurations with several seeds and print mean ± deviation of their F1 on dev and test.

    python benchmarks/seeds.py configs/resume-lattice.toml configs/resume-char.toml --seeds 1 2 3 --jobs 2

Runs are kept under --out and go on where they were stopped. Each uses one thread; --jobs of them run side by side. The
deviation is that of a sample (n − 1).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import statistics
from pathlib import Path
from typing import Any

import torch

from hanlattice.config import read_config
from hanlattice.training.loop import train


def run(job: tuple[Path, int, list[str], Path]) -> dict[str, Any]:
    config, seed, changes, out = job
    settings = read_config(config, [*changes, f"train.seed={seed}"])
    result = train(settings, out / f"{config.stem}-{seed}", resume=True)
    minutes = last_epoch(result.folder)["seconds"] / 60
    scores = {part: result.scores[part]["overall"]["f1"] for part in ("dev", "test") if part in result.scores}
    print(f"{config.stem} seed {seed}: epoch {result.scores['epoch']}, {minutes:.1f} minutes, {scores}", flush=True)
    return {"config": config.stem, "seed": seed, "minutes": minutes, "scores": result.scores}


def last_epoch(folder: Path) -> dict[str, Any]:
    """What the log says of the last epoch; its `seconds` are those of the whole run, stops not counted."""
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return next(event for event in map(json.loads, reversed(lines)) if event["event"] == "epoch")


def summary(name: str, results: list[dict[str, Any]]) -> str:
    cells = [name, str(len(results))]
    for part in ("dev", "test"):
        for figure in ("precision", "recall", "f1"):
            values = [100 * r["scores"][part]["overall"][figure] for r in results if part in r["scores"]]
            cells.append(f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}" if len(values) > 1 else "–")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="section.key=value")
    parser.add_argument("--out", type=Path, default=Path("runs/seeds"))
    parser.add_argument("--json", type=Path, help="also write all scores here")
    options = parser.parse_args()
    jobs = [(config, seed, options.changes, options.out) for config in options.configs for seed in options.seeds]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        results = list(pool.imap_unordered(run, jobs))
    print(
        "\n| config | seeds | dev P | dev R | dev F1 | test P | test R | test F1 |\n|---|---|---|---|---|---|---|---|"
    )
    for config in options.configs:
        print(summary(config.stem, [result for result in results if result["config"] == config.stem]))
    if options.json:
        record = {"torch": torch.__version__, "python": platform.python_version(), "runs": results}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
