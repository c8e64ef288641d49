"""`hanlattice pretrain lm`: raw text in, a language model out, with a line of progress."""

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
from hanlattice.text.display import visible

_FEW = 500  # steps below which a language model has hardly learnt


def _option(name: str, *flags: str, **limits: Any) -> Any:
    return typer.Option(*flags, help=HELP[name][:1].upper() + HELP[name][1:] + ".", **limits)


def pretrain_lm(
    files: RawFiles,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the language model.")],
    direction: Annotated[
        DirectionOption | None,
        typer.Option(
            help="Without it both, one after the other. Two processes may train one each, into the same folder."
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
    """Train a language model of characters or words. It can be stopped at any time: --resume
    continues it.
    """
    given = locals()
    given |= {
        name: resolve(given[name]) for name in ("vectors", "lexicon") if given[name] is not None
    }
    recipe = Recipe(**{option.name: given[option.name] for option in dataclasses.fields(Recipe)})
    from hanlattice.lab.pretrain.lm.train import BOTH, train_language_model

    with LanguageModelMeter() as meter:
        train_language_model(
            recipe, files, out, direction.value if direction else BOTH, resume=resume, listen=meter
        )
    meter.console.print(f"the language model is in {out}")


class LanguageModelMeter(EventMeter):
    """Listens to the training: one moving line on a terminal, one line for each scoring anywhere."""

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
        again = [each for each in sys.argv[1:] if each != "--resume"]
        self.stopped = f"stopped; continue with: {shlex.join(['hanlattice', *again, '--resume'])}"

    def _on_read(self, event: dict[str, Any]) -> None:
        self._update("reading, MB", event["done"] // 1_000_000, event["size"] // 1_000_000, "")

    def _on_vectors(self, event: dict[str, Any]) -> None:
        for notice in event["notices"]:
            self.console.print(f"note: {visible(notice)}")
        self.console.print(
            f"{event['symbols']:,} of {event['of']:,} symbols begin with a vector, {event['width']} wide"
        )

    def _on_start(self, event: dict[str, Any]) -> None:
        self.progress.reset(
            self.task, total=event["steps"]
        )  # or the time left would count the reading
        train = event["data"]["train"]
        held = event["data"]["held_out"]
        before = event["before"]
        unit = _unit(train)
        first = (
            "" if before is None else f"; held-out perplexity at first {before['perplexity']:.3f}"
        )
        self.console.print(
            f"{event['direction']}: {train[unit]:,} {unit} in {train['lines']:,} lines to "
            f"train on, {held[unit]:,} in {held['lines']:,} held out; "
            f"{event['symbols']:,} symbols, {event['parameters']:,} weights, "
            f"{event['steps']:,} steps in {event['epochs']} epochs on {event['device']}{first}"
        )
        if event["steps"] < _FEW:
            self.console.print(
                f"note: {event['steps']:,} steps are few, {_FEW} or more are usual: give more text or --epochs, or "
                "smaller --batch-size or --length"
            )

    def _on_resume(self, event: dict[str, Any]) -> None:
        self.progress.reset(self.task, total=event["steps"])
        self.console.print(
            f"{event['direction']}: continuing at step {event['step'] + 1:,} of {event['steps']:,}"
        )

    def _on_step(self, event: dict[str, Any]) -> None:
        best = "" if event["best"] is None else f" · held-out perplexity {event['best']:.1f}"
        news = f"loss {event['loss']:.2f}{best} · {_rate(event):,.0f}/s"
        self._update(event["direction"], event["step"], event["steps"], news)

    def _on_evaluate(self, event: dict[str, Any]) -> None:
        mark = " (best)" if event["step"] == event["best_step"] else ""
        spelt = (
            f", {event['bits_a_character']:.4f} a character" if "bits_a_character" in event else ""
        )
        self.console.print(
            f"{event['direction']}, epoch {event['epoch'] + 1}, step {event['step']:,}: loss {event['loss']:.4f} nats, "
            f"held-out perplexity {event['perplexity']:.3f} ({event['bits']:.4f} bits{spelt}){mark}, "
            f"{_rate(event):,.0f} {_unit(event)}/s, {event['seconds']:.0f} s"
        )

    def _on_done(self, event: dict[str, Any]) -> None:
        found = event["held_out"]
        curve = (
            event["curve"] or "curve-*.json (pip install 'hanlattice[plot]' for a picture of it)"
        )
        unit = "word" if "unknown" in found else "character"
        self.console.print(
            f"{event['direction']}: perplexity {found['perplexity']:.3f}, {found['bits']:.4f} bits a {unit}, on "
            f"{found['symbols']:,} held-out {unit}s and line ends{by_character(found)}; the curve is in {curve}"
        )

    def _update(self, what: str, done: int, total: int, news: str) -> None:
        self.progress.update(self.task, description=what, completed=done, total=total, news=news)


def _rate(event: dict[str, Any]) -> float:
    return float(event[_unit(event)] / max(event["seconds"], 1e-9))


def _unit(counts: dict[str, Any]) -> str:
    return "words" if "words" in counts else "characters"
