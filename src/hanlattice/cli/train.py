"""`hanlattice train`: a configuration in, a model folder out, with a progress line."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from hanlattice.cli.console import EventMeter, make_console
from hanlattice.cli.options import Changes, Resume
from hanlattice.errors import HanlatticeError
from hanlattice.text.display import visible

PATIENCE = (
    60  # seconds that a process leaves to the first of its machine, to report what both have met
)


def train(
    config: Annotated[
        Path,
        typer.Argument(
            help="A TOML file, or the name of a bundled one: resume, weibo, msra, pku, weibo-words, …"
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="The folder of the run, which becomes the model's folder."
        ),
    ],
    variant: Annotated[
        str,
        typer.Option(
            help="A variant of the file, such as lattice-bichar; without it, the default one."
        ),
    ] = "",
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="Begin with a model: ner, seg or a model's folder. The same as start.model.",
        ),
    ] = "",
    changes: Changes = None,
    resume: Resume = False,
) -> None:
    """Train a model. It can be stopped at any time: --resume continues and ends with the same
    weights.

    Several processes share each batch with `torchrun --nproc-per-node N -m hanlattice train …`; the
    first one reports.

    The configurations of the repository's configs/ are bundled: `hanlattice train weibo --variant
    char` finds one by its name where there is no such file.
    """
    is_alone = int(os.environ.get("WORLD_SIZE", 1)) == 1
    try:
        _train(config, out, variant, changes or [], start, resume)
    except HanlatticeError as error:
        if is_alone:
            raise
        if int(os.environ.get("LOCAL_RANK", 0)):
            time.sleep(
                PATIENCE
            )  # the first of this machine reports the same, and its end ends this one
        typer.echo("error: " + visible(str(error), "\n"), err=True)
        _leave(2)
    if not is_alone:
        _leave(0)


def _leave(code: int) -> NoReturn:
    """Without taking down what connects the processes: it may wait for one that has ended, or
    abort.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _train(
    config: Path, out: Path, variant: str, changes: list[str], start: str, resume: bool
) -> None:
    from hanlattice.config import read_config
    from hanlattice.evaluation.segmentation import score_table
    from hanlattice.training.loop import train as run
    from hanlattice.training.warm_start import carried_settings

    given = [*changes, *([f"start.model={json.dumps(start)}"] if start else [])]
    settings = read_config(config, given, variant=variant, complete=True, carried=carried_settings)
    options = [
        *(["--variant", variant] if variant else []),
        *(["--from", start] if start else []),
        *(part for each in changes for part in ("--set", each)),
    ]
    again = ["hanlattice", "train", str(config), "--out", str(out), *options, "--resume"]
    first = not int(os.environ.get("RANK", 0))
    with TrainingMeter(f"stopped; go on with: {shlex.join(again)}" if first else "") as meter:
        result = run(settings, out, resume=resume, listen=meter)
    if not first:
        return
    for part in ("dev", "test"):
        if part in result.scores:
            title = f"{part}, weights of epoch {result.scores['epoch']}"
            Console().print(score_table(result.scores[part], title).rich(fold=False))
    meter.console.print(f"the model is in {out}")


class TrainingMeter(EventMeter):
    """Listens to the training: one moving line on a terminal, one line an epoch anywhere."""

    def __init__(self, stopped: str) -> None:
        super().__init__(
            make_console(),
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn(
                "loss {task.fields[loss]:.3f}{task.fields[best]} · {task.fields[rate]:,.0f} characters/s"
            ),
            TimeRemainingColumn(compact=True),
        )
        self.task = self.progress.add_task(
            "train", total=None, epoch=1, loss=0.0, best="", rate=0.0
        )
        self.stopped = stopped
        self.epochs = 0
        self.start = (0, 0.0)

    def _on_start(self, event: dict[str, Any]) -> None:
        self.epochs = event["epochs"]
        for notice in event["notices"]:
            self.console.print(f"note: {visible(notice)}")
        self.console.print(
            f"{event['train']:,} to train on ({event['characters']:,} characters), {event['dev']:,} to choose "
            f"by, {event['test']:,} to test on; {event['parameters']:,} weights"
        )

    def _on_resume(self, event: dict[str, Any]) -> None:
        self.epochs = event["epochs"]
        self.start = event["characters"], event["seconds"]
        self.console.print(f"going on at epoch {event['epoch'] + 1}, batch {event['batch'] + 1}")

    def _on_step(self, event: dict[str, Any]) -> None:
        self.progress.update(
            self.task,
            total=self.epochs * event["batches"],
            completed=event["epoch"] * event["batches"] + event["batch"],
            epoch=f"{event['epoch'] + 1}/{self.epochs}",
            loss=event["loss"],
            best=f" · best dev F1 {100 * event['best']:.2f}" if event["best"] else "",
            rate=self._rate(event),
        )

    def _on_epoch(self, event: dict[str, Any]) -> None:
        rate = self._rate(event)
        self.start = 0, event["seconds"]
        mark = " (best)" if event["epoch"] == event["best_epoch"] else ""
        dev = f"dev F1 {100 * event['dev']['f1']:.2f}{mark}, " if "dev" in event else ""
        self.console.print(
            f"epoch {event['epoch']}: loss {event['loss']:.3f}, {dev}{rate:,.0f} characters/s"
        )

    def _rate(self, event: dict[str, Any]) -> float:
        """Characters a second, since this epoch began here."""
        characters, seconds = self.start
        if event["characters"] < characters:
            characters = 0
        return float((event["characters"] - characters) / max(event["seconds"] - seconds, 1e-9))
