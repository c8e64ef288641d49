"""`hanlattice train`: train a model as a configuration says."""

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

# Seconds that a process waits for the first process of its machine to report their common error
PATIENCE = 60


def train(
    config: Annotated[
        Path,
        typer.Argument(
            help="Configuration file (TOML), or the name of a bundled one: "
            "resume, weibo, msra, pku, weibo-words, …"
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Output folder. It becomes the model folder.")
    ],
    variant: Annotated[
        str, typer.Option(help="Variant, such as `lattice-bichar`. Default: as the file says.")
    ] = "",
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="Start from a trained model: `ner`, `seg` or a model folder. "
            "Same as the setting `start.model`.",
        ),
    ] = "",
    changes: Changes = None,
    resume: Resume = False,
) -> None:
    """Train a model.

    You can stop it at any time: `--resume` continues, and ends with the same weights.

    To share each batch between several processes, use `torchrun --nproc-per-node N -m hanlattice
    train …`. The first process prints the progress.

    The configurations in `configs/` are bundled, so `hanlattice train weibo --variant char` works
    where there is no such file.
    """
    from hanlattice.config import read_config
    from hanlattice.evaluation.segmentation import score_table
    from hanlattice.training.loop import train as run
    from hanlattice.training.warm_start import carried_settings

    changes = changes or []
    is_alone = int(os.environ.get("WORLD_SIZE", 1)) == 1
    is_first = not int(os.environ.get("RANK", 0))
    try:
        settings = read_config(
            config,
            [*changes, *([f"start.model={json.dumps(start)}"] if start else [])],
            variant=variant,
            complete=True,
            carried=carried_settings,
        )
        command = ["hanlattice", "train", str(config), "--out", str(out)]
        command += ["--variant", variant] if variant else []
        command += ["--from", start] if start else []
        command += [word for change in changes for word in ("--set", change)]
        again = shlex.join([*command, "--resume"])
        with TrainingMeter(f"stopped; go on with: {again}" if is_first else "") as meter:
            result = run(settings, out, resume=resume, listen=meter)
        for part in ("dev", "test"):
            if is_first and part in result.scores:
                title = f"{part}, weights of epoch {result.scores['epoch']}"
                Console().print(score_table(result.scores[part], title).rich(fold=False))
        if is_first:
            meter.console.print(f"the model is in {out}")
    except HanlatticeError as error:
        if is_alone:
            raise
        # The first process of this machine reports the same error, and its end ends this one.
        if int(os.environ.get("LOCAL_RANK", 0)):
            time.sleep(PATIENCE)
        typer.echo("error: " + visible(str(error), "\n"), err=True)
        _leave(2)
    if not is_alone:
        _leave(0)


def _leave(code: int) -> NoReturn:
    # A normal exit closes the connections between the processes. It may wait for a process that
    # has ended already, or abort.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class TrainingMeter(EventMeter):
    """Show the training: a bar on a terminal, and a line for each epoch anywhere."""

    def __init__(self, stopped: str) -> None:
        super().__init__(
            make_console(),
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn(
                "loss {task.fields[loss]:.3f}{task.fields[best]} · "
                "{task.fields[rate]:,.0f} characters/s"
            ),
            TimeRemainingColumn(compact=True),
        )
        self.task = self.progress.add_task(
            "train", total=None, epoch=1, loss=0.0, best="", rate=0.0
        )
        self.stopped = stopped
        self.epochs = 0
        # Characters and seconds of this epoch that an earlier process has trained
        self.start = (0, 0.0)

    def __call__(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "start":
                self.epochs = event["epochs"]
                for notice in event["notices"]:
                    self.print(f"note: {notice}")
                self.print(
                    f"{event['train']:,} to train on ({event['characters']:,} characters), "
                    f"{event['dev']:,} to choose by, {event['test']:,} to test on; "
                    f"{event['parameters']:,} weights"
                )
            case "resume":
                self.epochs = event["epochs"]
                self.start = event["characters"], event["seconds"]
                self.print(f"going on at epoch {event['epoch'] + 1}, batch {event['batch'] + 1}")
            case "step":
                self.progress.update(
                    self.task,
                    total=self.epochs * event["batches"],
                    completed=event["epoch"] * event["batches"] + event["batch"],
                    epoch=f"{event['epoch'] + 1}/{self.epochs}",
                    loss=event["loss"],
                    best=f" · best dev F1 {100 * event['best']:.2f}" if event["best"] else "",
                    rate=self._rate(event),
                )
            case "epoch":
                rate = self._rate(event)
                self.start = 0, event["seconds"]
                mark = " (best)" if event["epoch"] == event["best_epoch"] else ""
                dev = f"dev F1 {100 * event['dev']['f1']:.2f}{mark}, " if "dev" in event else ""
                loss = f"loss {event['loss']:.3f}"
                self.print(f"epoch {event['epoch']}: {loss}, {dev}{rate:,.0f} characters/s")

    def _rate(self, event: dict[str, Any]) -> float:
        """Return the characters a second in this epoch, since this process began it."""
        characters, seconds = self.start
        # Characters are counted anew in each epoch.
        if event["characters"] < characters:
            characters = 0
        return float((event["characters"] - characters) / max(event["seconds"] - seconds, 1e-9))
