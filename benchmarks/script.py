"""What the scripts of this folder share: the command line, errors in one line, and a JSON file of
the figures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from hanlattice.errors import HanlatticeError
from hanlattice.lab.bench.report import write_json
from hanlattice.lab.bench.timing import machine, versions
from hanlattice.text.display import visible


def make_parser(doc: str | None, json: str = "--json") -> argparse.ArgumentParser:
    """A parser that shows the script's docstring and knows the option for the JSON file."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(json, dest="json", type=Path, help="write the figures here too")
    return parser


def run(work: Callable[[argparse.Namespace], dict[str, Any]], options: argparse.Namespace) -> None:
    """Do the work and write the record that it returns, if that is wanted. What the user can mend
    is 2 and a line.
    """
    try:
        record = work(options)
        if options.json:
            write_json(record, options.json)
    except HanlatticeError as error:
        sys.exit(_refuse(error))


def _refuse(error: HanlatticeError) -> int:
    sys.stderr.write(f"error: {visible(str(error), chr(10))}\n")
    return 2


def facts(device: str = "cpu") -> dict[str, Any]:
    """Where, and with what, figures were taken."""
    return {"machine": machine(torch.device(device)), "versions": versions()}
