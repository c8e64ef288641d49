"""`python -m hanlattice.compare`: as `hanlattice compare`, where only torch, numpy and safetensors are installed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hanlattice.compare.matrix import read_seeds
from hanlattice.compare.run import compare, raise_failures
from hanlattice.compare.words import Words
from hanlattice.events import Event
from hanlattice.plain import Parser, exit_code, say


def main() -> int:
    """0, or 2 with a line on standard error: a mistake, or a run that failed; 130 for Ctrl-C."""
    options = _options()
    try:
        return exit_code(lambda: _compare(options))
    except KeyboardInterrupt:
        say(sys.stderr, "stopped; the same command goes on")
        return 130


def _compare(options: argparse.Namespace) -> None:
    words = Words()

    def listen(event: Event) -> None:
        for line in words.of(event):
            say(sys.stderr, line)

    found = compare(
        options.configs,
        read_seeds(options.seeds),
        options.out,
        changes=options.changes,
        devices=options.devices,
        jobs=options.jobs,
        against=options.against,
        rates=options.rates,
        listen=listen,
    )
    say(sys.stdout, found.table)
    raise_failures(found)


def _options() -> argparse.Namespace:
    parser = Parser(prog="python -m hanlattice.compare", description=__doc__)
    parser.add_argument("configs", nargs="+", type=Path, help="TOML files; each is a row")
    parser.add_argument("--seeds", default="5", help="how many (5 is 1 to 5), or which: 1,4,7")
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="section.key=value")
    parser.add_argument("--out", type=Path, default=Path("runs/compare"), help="the folder of runs and outputs")
    parser.add_argument("--devices", default="auto", help="auto (every GPU, else the CPU), or a list: cuda:0,cuda:1")
    parser.add_argument("--jobs", type=int, default=0, help="runs side by side on each device; 0: as many as fit")
    parser.add_argument("--against", default="", help="the row that the others are held against")
    parser.add_argument("--no-rates", dest="rates", action="store_false", help="do not measure how fast each row is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
