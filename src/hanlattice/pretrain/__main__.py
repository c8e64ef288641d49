"""`python -m hanlattice.pretrain lm`: what `hanlattice pretrain lm` does, where typer and rich are not installed."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from hanlattice.plain import Parser, exit_code, say
from hanlattice.pretrain.lm.recipe import HELP, RESUME, Recipe, flag
from hanlattice.pretrain.lm.report import report_line
from hanlattice.pretrain.lm.train import BOTH, train_language_model

_TYPES = {"int": int, "int | None": int, "float": float, "str": str, "Path | None": Path}


def main() -> int:
    """0, or 2 with a line on standard error."""
    options = vars(_options())
    files, folder, direction, resume = (options.pop(name) for name in ("files", "out", "direction", "resume"))
    options.pop("what")
    return exit_code(
        lambda: _train(Recipe(**options), files, folder, direction, resume)  # a wrong option is told by Recipe
    )


def _train(recipe: Recipe, files: list[Path], folder: Path, direction: str, resume: bool) -> None:
    train_language_model(recipe, files, folder, direction, resume=resume, listen=_tell)


def _options() -> argparse.Namespace:
    parser = Parser(prog="python -m hanlattice.pretrain", description=__doc__)
    parser.add_argument("what", choices=["lm"], help="a character language model")
    parser.add_argument("files", nargs="+", type=Path, help="raw text, plain, gz or xz, one paragraph a line")
    parser.add_argument("--out", "-o", required=True, type=Path, help="the model's folder")
    parser.add_argument("--direction", default=BOTH, help="forward or backward; without it both")
    parser.add_argument("--resume", action="store_true", help=RESUME)
    for option in dataclasses.fields(Recipe):
        name, kind = option.name, _TYPES[str(option.type)]
        parser.add_argument(flag(name), dest=name, type=kind, default=option.default, help=HELP[name])
    return parser.parse_args()


def _tell(event: dict[str, Any]) -> None:
    if line := report_line(event):
        say(sys.stderr, line)


if __name__ == "__main__":
    sys.exit(main())
