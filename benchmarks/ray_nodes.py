"""A corpus on a Ray cluster of three nodes, one of which is killed in the middle: the output is
that of one process.

    python benchmarks/ray_nodes.py FILE [--megabytes 1] [--model ner] [--shard-size 50000]

The nodes are on this machine, each with its own raylet and processes, as
`ray.cluster_utils.Cluster` makes them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from hanlattice.checkpoint import find_model
from hanlattice.corpus.on_ray import on_ray
from hanlattice.corpus.run import run
from hanlattice.corpus.settings import CorpusSettings
from hanlattice.data.formats.raw import RawText


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--megabytes", type=float, default=1)
    parser.add_argument("--model", default="ner")
    parser.add_argument("--shard-size", type=int, default=50_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(given, Path(folder)), indent=2))


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    source = folder / "in.txt"
    settings = CorpusSettings(find_model(given.model), shard_size=given.shard_size)
    source.write_text(begin(given.file, round(1e6 * given.megabytes)), "utf-8")
    started = time.monotonic()
    run([str(source)], folder / "here", settings)
    alone = time.monotonic() - started
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    killed: list[int] = []

    def listen(event: dict[str, Any]) -> None:
        if event["event"] == "progress" and event["shards"] >= event["of"] // 3 and not killed:
            killed.append(event["shards"])
            cluster.remove_node(nodes[0], allow_graceful=False)

    started = time.monotonic()
    summary = run(
        [str(source)], folder / "there", settings, listen=listen, engine=on_ray(cluster.address)
    )
    seconds = time.monotonic() - started
    here = content(folder / "here")
    there = content(folder / "there")
    ray.shutdown()  # a driver that is connected keeps its node
    cluster.shutdown()
    return {
        "shards": summary.shards,
        "killed after": killed[0],
        "failures": summary.failures,
        "files": len(here),
        "same bytes": here == there,
        "seconds": {"one process": round(alone, 1), "three nodes": round(seconds, 1)},
    }


def begin(file: Path, size: int) -> str:
    """The first lines of a text, which may be packed, of about so many bytes."""
    lines = []
    taken = 0
    for line in RawText([file]):
        taken += len(line.encode()) + 1
        if taken > size:
            break
        lines.append(f"{line}\n")
    return "".join(lines)


def content(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != ".lock")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


if __name__ == "__main__":
    main()
