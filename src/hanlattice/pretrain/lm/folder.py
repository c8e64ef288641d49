"""The folder of a language model while it is trained. Two processes may train the two directions into one folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hanlattice.errors import ModelError, OutputError
from hanlattice.files import shown, writing
from hanlattice.models.language_model import (
    CHARS,
    DIRECTIONS,
    RECORD,
    load_language_model,
    save_language_model_frame,
    weights_file,
)
from hanlattice.pretrain.lm.source import Source

CARD = "README.md"


def state_file(direction: str) -> str:
    return f"state-{direction}.safetensors"


def log_file(direction: str) -> str:
    return f"log-{direction}.jsonl"


def check_folder(folder: Path, direction: str, resume: bool) -> None:
    """Refuse at once what cannot end well, and clear away what a killed run was writing."""
    if shown(folder) != str(folder):
        raise OutputError(f"{folder}: its name is not UTF-8, and safetensors reads no such names; choose another --out")
    # Path.exists would raise for a name that is too long, which is told when it is written
    there = next(part for part in (folder, *folder.absolute().parents) if os.path.exists(part))  # noqa: PTH110
    if not there.is_dir():
        raise OutputError(f"{there} is a file; --out must name a folder, old or new")
    names = {file.name for file in folder.glob("*")}
    half = {name: found[1] for name in names if (found := re.fullmatch(r"\.(.+)\.[0-9a-f]{8}\.part", name))}
    ours = {CHARS, *map(log_file, DIRECTIONS), *half}
    if RECORD not in names:
        for other in sorted(names - ours):
            raise OutputError(f"{folder} holds {other}, which is not of a language model: choose a new or empty folder")
    if not resume and names & {weights_file(direction), state_file(direction)}:
        raise OutputError(
            f"{folder} holds a {direction} language model already: go on with it by --resume, or choose another --out"
        )
    for name, whole in half.items():
        if direction in whole:  # what both directions write may be the other's, at work right now
            (folder / name).unlink(missing_ok=True)


def write_frame(folder: Path, source: Source) -> None:
    """What both directions share. If weights or a state of either are there, it must be the same already."""
    kept = [folder / name(direction) for name in (weights_file, state_file) for direction in DIRECTIONS]
    if any(file.exists() for file in kept):
        there = load_language_model(folder, directions=())
        if (there.vocab, there.settings) != (source.vocab, source.settings):
            raise OutputError(
                f"{folder} holds a language model with other characters or sizes, and both directions share them: "
                "train with the same text and options, or choose another --out"
            )
        return
    save_language_model_frame(folder, source.vocab, source.settings)


def is_finished(folder: Path, direction: str) -> bool:
    return (folder / weights_file(direction)).exists() and not (folder / state_file(direction)).exists()


def finished_facts(folder: Path, direction: str, identity: str) -> dict[str, Any]:
    """What is known of a direction whose training has ended, if it is the one that was asked for."""
    facts = dict(load_language_model(folder, directions=(direction,)).facts[direction])
    if facts.get("identity") != identity:
        raise ModelError(f"{folder}: its {direction} direction was trained with other options or other text")
    return facts


def write_card(folder: Path) -> None:
    """README.md: what the model is, what it was trained on and how well it predicts, for the person who finds it."""
    there = [name for name in DIRECTIONS if (folder / weights_file(name)).exists()]
    model = load_language_model(folder, directions=there)
    facts = model.facts[there[0]]
    sizes = model.settings
    lines = [
        f"# {shown(folder.resolve().name)}",
        "",
        "A character language model made with hanlattice.",
        "",
        f"- {sizes.layers} LSTM layer{'s' if sizes.layers > 1 else ''} of {sizes.hidden} units a direction, embeddings "
        f"of width {sizes.embedding}, {len(model.vocab):,} symbols",
        '- use it: `hanlattice lm score -m FOLDER "…"`, `hanlattice lm sample -m FOLDER`',
        "",
        *_data(facts),
        *_directions(model.facts),
        *_options(facts),
    ]
    with writing(folder / CARD) as file:
        file.write("\n".join(lines) + "\n")


def _data(facts: Mapping[str, Any]) -> list[str]:
    data = facts["data"]
    rows = [
        f"| {name} | {data[part]['lines']:,} | {data[part]['characters']:,} |"
        for name, part in (("trained on", "train"), ("held out", "held_out"))
    ]
    base = [] if facts["from"] is None else ["", _base(facts["from"])]
    files = ", ".join(Path(each["file"]).name for each in data["files"])
    head = ["## Data", "", f"From {files}.", "", "| part | lines | characters |", "|---|---|---|"]
    unknown = f"{data['unknown']:,} of these characters are too rare to be known, and count as one symbol."
    return [*head, *rows, "", unknown, *base, ""]


def _base(start: Mapping[str, Any]) -> str:
    return (
        f"It began with the weights of {start['folder']}, for which the held-out text that is scored while it trains "
        f"had perplexity {start['held_out']['perplexity']:.3f}."
    )


def _directions(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    head = ["## Held-out text", "", "Each line by itself, its end counted.", ""]
    head += ["| direction | bits a character | perplexity | epochs | characters read | seconds | on |"]
    rows = [
        f"| {name} | {each['held_out']['bits']:.4f} | {each['held_out']['perplexity']:.3f} | {each['epoch']:.2f} "
        f"| {each['trained_on']:,} | {each['seconds']:.0f} | {each['device']} |"
        for name, each in facts.items()
    ]
    return [*head, "|---|---|---|---|---|---|---|", *rows, ""]


def _options(facts: Mapping[str, Any]) -> list[str]:
    chosen = ", ".join(f"{name} {value}" for name, value in facts["recipe"].items() if value is not None)
    return ["## Options", "", chosen]


def read_log(folder: Path, direction: str) -> list[dict[str, Any]]:
    """The events that a training has kept."""
    text = (folder / log_file(direction)).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]  # a file's name may have other line ends in it
