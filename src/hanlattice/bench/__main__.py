"""`python -m hanlattice.bench`: what `hanlattice bench` does, where only torch, numpy and safetensors are installed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hanlattice.bench import Settings, measure
from hanlattice.bench.outputs import Outputs
from hanlattice.bench.tables import table
from hanlattice.plain import Parser, exit_code, say


def main() -> int:
    """0, or 2 with a line on standard error: a wrong option, or a backend that gives other numbers."""
    options = _options()
    return exit_code(lambda: _measure(options))


def _measure(options: argparse.Namespace) -> None:
    settings = Settings(
        device=options.device,
        threads=options.threads,
        batches=tuple(options.batch or Settings.batches),
        hidden=tuple(options.hidden or Settings.hidden),
        seconds=options.seconds,
    )
    outputs = Outputs(options.out, options.plot)
    for section, record in measure(settings, lambda what: say(sys.stderr, what)):
        outputs.write(record)
        say(sys.stdout, f"\n{table(section, record)}")


def _options() -> argparse.Namespace:
    parser = Parser(prog="python -m hanlattice.bench", description=__doc__)
    parser.add_argument("--device", default=Settings.device, help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=Settings.threads, help="CPU threads")
    parser.add_argument("--batch", type=int, action="append", help="a batch size; may come often")
    parser.add_argument("--hidden", type=int, action="append", help="H, units in each direction; may come often")
    parser.add_argument("--seconds", type=float, default=Settings.seconds, help="that each figure takes at least")
    parser.add_argument("--out", type=Path, help="a JSON file for everything that was measured")
    parser.add_argument("--plot", type=Path, help="an SVG or PNG file for rates against batch size")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
