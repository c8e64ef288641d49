"""What is worth a line while a language model is trained. The library prints nothing; both command lines print this."""

from __future__ import annotations

from typing import Any


def report_line(event: dict[str, Any]) -> str | None:
    """One event of a training in words, or None for those that only move a bar."""
    words = {"start": _start, "resume": _resume, "evaluate": _evaluate, "done": _done}.get(event["event"])
    return None if words is None else words(event)


def _start(event: dict[str, Any]) -> str:
    data = event["data"]
    before = "" if event["before"] is None else f"; held-out perplexity at first {event['before']['perplexity']:.3f}"
    return (
        f"{event['direction']}: {data['train']['characters']:,} characters in {data['train']['lines']:,} lines to "
        f"train on, {data['held_out']['characters']:,} in {data['held_out']['lines']:,} held out; "
        f"{event['symbols']:,} symbols, {event['parameters']:,} weights, "
        f"{event['steps']:,} steps in {event['epochs']} epochs on {event['device']}{before}"
    )


def _resume(event: dict[str, Any]) -> str:
    return f"{event['direction']}: going on at step {event['step'] + 1:,} of {event['steps']:,}"


def _evaluate(event: dict[str, Any]) -> str:
    mark = " (best)" if event["step"] == event["best_step"] else ""
    return (
        f"{event['direction']}, epoch {event['epoch'] + 1}, step {event['step']:,}: loss {event['loss']:.4f} nats, "
        f"held-out perplexity {event['perplexity']:.3f} ({event['bits']:.4f} bits){mark}, "
        f"{event['characters'] / max(event['seconds'], 1e-9):,.0f} characters/s, {event['seconds']:.0f} s"
    )


def _done(event: dict[str, Any]) -> str:
    found = event["held_out"]
    curve = event["curve"] or "curve-*.json (pip install 'hanlattice[plot]' for a picture of it)"
    return (
        f"{event['direction']}: perplexity {found['perplexity']:.3f}, {found['bits']:.4f} bits a character, on "
        f"{found['symbols']:,} held-out characters and line ends; the curve is in {curve}"
    )
