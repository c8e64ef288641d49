"""`hanlattice pretrain lm`: train a language model on raw text."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from hanlattice.cli.console import EventMeter, make_console
from hanlattice.cli.lm import DirectionOption, by_character
from hanlattice.cli.options import Device, Encoding, RawFiles, Resume, Seed
from hanlattice.data.download import resolve
from hanlattice.lab.pretrain.lm.recipe import HELP, Recipe

# A language model has hardly learnt anything after fewer steps.
_FEW = 500


def _option(name: str, *flags: str) -> Any:
    return typer.Option(*flags, help=HELP[name][:1].upper() + HELP[name][1:] + ".")


def pretrain_lm(
    files: RawFiles,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the language model.")],
    direction: Annotated[
        DirectionOption | None,
        typer.Option(
            help="Reading direction. Default: both, one after the other. "
            "Two processes may train one direction each, in the same folder."
        ),
    ] = None,
    resume: Resume = False,
    encoding: Encoding = "auto",
    start_from: Annotated[Path | None, _option("start_from", "--from")] = Recipe.start_from,
    vectors: Annotated[str | None, _option("vectors")] = None,
    unit: Annotated[str | None, _option("unit")] = Recipe.unit,
    lexicon: Annotated[str | None, _option("lexicon")] = None,
    model: Annotated[str | None, _option("model")] = Recipe.model,
    vocab: Annotated[int | None, _option("vocab")] = Recipe.vocab,
    embedding: Annotated[int | None, _option("embedding")] = Recipe.embedding,
    hidden: Annotated[int | None, _option("hidden")] = Recipe.hidden,
    layers: Annotated[int | None, _option("layers")] = Recipe.layers,
    dropout: Annotated[float, _option("dropout")] = Recipe.dropout,
    batch_size: Annotated[int, _option("batch_size")] = Recipe.batch_size,
    length: Annotated[int, _option("length")] = Recipe.length,
    epochs: Annotated[int, _option("epochs")] = Recipe.epochs,
    lr: Annotated[float, _option("lr")] = Recipe.lr,
    warmup: Annotated[float, _option("warmup")] = Recipe.warmup,
    weight_decay: Annotated[float, _option("weight_decay")] = Recipe.weight_decay,
    clip: Annotated[float, _option("clip")] = Recipe.clip,
    min_count: Annotated[int | None, _option("min_count")] = Recipe.min_count,
    held_out: Annotated[float, _option("held_out")] = Recipe.held_out,
    evaluate: Annotated[int, _option("evaluate")] = Recipe.evaluate,
    seed: Seed = Recipe.seed,
    device: Device = Recipe.device,
    threads: Annotated[int, _option("threads")] = Recipe.threads,
    checkpoint_minutes: Annotated[float, _option("checkpoint_minutes")] = Recipe.checkpoint_minutes,
) -> None:
    """Train a language model of characters or words.

    You can stop it at any time: `--resume` continues it.
    """
    given = locals()
    for name in ("vectors", "lexicon"):
        if given[name] is not None:
            given[name] = resolve(given[name])
    recipe = Recipe(**{option.name: given[option.name] for option in dataclasses.fields(Recipe)})
    from hanlattice.lab.pretrain.lm.train import BOTH, train_language_model

    with LanguageModelMeter() as meter:
        which = direction.value if direction else BOTH
        train_language_model(recipe, files, out, which, resume=resume, listen=meter)
    meter.console.print(f"the language model is in {out}")


class LanguageModelMeter(EventMeter):
    """Show the training: a bar on a terminal, and a line for each evaluation anywhere."""

    def __init__(self) -> None:
        super().__init__(
            make_console(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            TimeRemainingColumn(compact=True),
        )
        self.task = self.progress.add_task("reading", total=None, news="")
        words = [word for word in sys.argv[1:] if word != "--resume"]
        self.stopped = f"stopped; continue with: {shlex.join(['hanlattice', *words, '--resume'])}"

    def __call__(self, event: dict[str, Any]) -> None:
        # Events that are not about one direction show no direction either.
        which = event.get("direction", "")
        match event["event"]:
            case "read":
                megabytes = event["done"] // 1_000_000, event["size"] // 1_000_000
                self._move("reading, MB", *megabytes, "")
            case "vectors":
                for notice in event["notices"]:
                    self.print(f"note: {notice}")
                self.print(
                    f"{event['symbols']:,} of {event['of']:,} symbols begin with a vector, "
                    f"{event['width']} wide"
                )
            case "start":
                self._start(event)
            case "resume":
                self.progress.reset(self.task, total=event["steps"])
                steps = f"step {event['step'] + 1:,} of {event['steps']:,}"
                self.print(f"{which}: continuing at {steps}")
            case "step":
                news = f"loss {event['loss']:.2f}"
                if event["best"] is not None:
                    news += f" · held-out perplexity {event['best']:.1f}"
                rate = f"{_rate(event):,.0f}/s"
                self._move(which, event["step"], event["steps"], f"{news} · {rate}")
            case "evaluate":
                mark = " (best)" if event["step"] == event["best_step"] else ""
                bits = f"{event['bits']:.4f} bits"
                if "bits_a_character" in event:
                    bits += f", {event['bits_a_character']:.4f} a character"
                self.print(
                    f"{which}, epoch {event['epoch'] + 1}, step {event['step']:,}: "
                    f"loss {event['loss']:.4f} nats, "
                    f"held-out perplexity {event['perplexity']:.3f} ({bits}){mark}, "
                    f"{_rate(event):,.0f} {_unit(event)}/s, {event['seconds']:.0f} s"
                )
            case "done":
                score = event["held_out"]
                unit = "word" if "unknown" in score else "character"
                missing = "curve-*.json (pip install 'hanlattice[plot]' for a picture of it)"
                self.print(
                    f"{which}: perplexity {score['perplexity']:.3f}, "
                    f"{score['bits']:.4f} bits a {unit}, on {score['symbols']:,} held-out {unit}s "
                    f"and line ends{by_character(score)}; "
                    f"the curve is in {event['curve'] or missing}"
                )

    def _start(self, event: dict[str, Any]) -> None:
        # Without a reset, the time left would count the seconds of reading.
        self.progress.reset(self.task, total=event["steps"])
        train = event["data"]["train"]
        held_out = event["data"]["held_out"]
        unit = _unit(train)
        line = (
            f"{event['direction']}: {train[unit]:,} {unit} in {train['lines']:,} lines to "
            f"train on, {held_out[unit]:,} in {held_out['lines']:,} held out; "
            f"{event['symbols']:,} symbols, {event['parameters']:,} weights, "
            f"{event['steps']:,} steps in {event['epochs']} epochs on {event['device']}"
        )
        if event["before"] is not None:
            line += f"; held-out perplexity at first {event['before']['perplexity']:.3f}"
        self.print(line)
        if event["steps"] < _FEW:
            self.print(
                f"note: {event['steps']:,} steps are few, {_FEW} or more are usual: "
                "give more text or --epochs, or smaller --batch-size or --length"
            )

    def _move(self, what: str, done: int, total: int, news: str) -> None:
        self.progress.update(self.task, description=what, completed=done, total=total, news=news)


def _rate(event: dict[str, Any]) -> float:
    # The first event may come within a tick of the clock.
    return float(event[_unit(event)] / max(event["seconds"], 1e-9))


def _unit(counts: dict[str, Any]) -> str:
    return "words" if "words" in counts else "characters"
