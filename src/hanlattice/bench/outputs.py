"""The files of a run. They are written after each section, so that a run that is cut short leaves what it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hanlattice.bench.plot import check_plot, draw
from hanlattice.files import writing


class Outputs:
    """A JSON file and a plot, if they are wanted; a plot that cannot be drawn is refused here."""

    def __init__(self, out: Path | None, plot: Path | None) -> None:
        if plot is not None:
            check_plot(plot)
        self.out, self.plot = out, plot

    def write(self, record: dict[str, Any]) -> None:
        if self.out is not None:
            with writing(self.out) as file:
                json.dump(record, file, ensure_ascii=False, indent=2)
                file.write("\n")
        if self.plot is not None and "encoder" in record:
            draw(record, self.plot)
