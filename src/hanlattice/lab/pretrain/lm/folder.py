"""The folder of a language model in training: checks, log, card and curve. Two processes may share
it.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hanlattice.checkpoint.language_model import (
    CHARS,
    DIRECTIONS,
    LEXICON,
    RECORD,
    WORDS,
    Cutter,
    load_language_model,
    save_language_model_frame,
    weights_file,
)
from hanlattice.errors import ModelError, OutputError
from hanlattice.evaluation.report import Table
from hanlattice.files import atomic_write, printable_path, remove
from hanlattice.lab.pretrain.lm.text import LanguageModelText
from hanlattice.theme import BLUE, RED, can_plot, plot, tidy

CARD = "README.md"


def state_file(direction: str) -> str:
    return f"state-{direction}.safetensors"


def log_file(direction: str) -> str:
    return f"log-{direction}.jsonl"


def check_folder(folder: Path, direction: str, resume: bool) -> None:
    """Refuse a folder that cannot be used, before any work, and remove files that a killed run left
    half written.
    """
    if printable_path(folder) != str(folder):
        raise OutputError(
            f"{folder}: its name is not UTF-8, and safetensors cannot read it; choose another --out"
        )
    # Path.exists would raise for a name that is too long, which is reported when it is written
    there = next(part for part in (folder, *folder.absolute().parents) if os.path.exists(part))  # noqa: PTH110
    if not there.is_dir():
        raise OutputError(f"{there} is a file; --out must name a folder, old or new")
    names = {file.name for file in folder.glob("*")}
    half = {
        name: found[1]
        for name in names
        if (found := re.fullmatch(r"\.(.+)\.[0-9a-f]{8}\.part", name))
    }
    ours = {CHARS, WORDS, LEXICON, *map(log_file, DIRECTIONS), *half}
    if RECORD not in names:
        for other in sorted(names - ours):
            raise OutputError(
                f"{folder} holds {other}, which is not part of a language model: choose a new or empty folder"
            )
    if not resume and names & {weights_file(direction), state_file(direction)}:
        raise OutputError(
            f"{folder} holds a {direction} language model already: continue it with --resume, or choose another --out"
        )
    for name, whole in half.items():
        if (
            direction in whole
        ):  # what both directions write may be the other's, which may be running
            remove(folder / name)


def write_frame(folder: Path, source: LanguageModelText) -> None:
    """What both directions share. If there are weights or a state of either, it must be the same
    already.
    """
    kept = [
        folder / name(direction) for name in (weights_file, state_file) for direction in DIRECTIONS
    ]
    if any(file.exists() for file in kept):
        there = load_language_model(folder, directions=())
        if (there.vocab, there.settings, there.cutter) != (
            source.vocab,
            source.settings,
            source.cutter,
        ):
            raise OutputError(
                f"{folder} holds a language model with other symbols or sizes, and both directions share them: "
                "train with the same text and options, or choose another --out"
            )
        return
    save_language_model_frame(folder, source.vocab, source.settings, source.cutter)


def finished_facts(folder: Path, direction: str, identity: str) -> dict[str, Any] | None:
    """The facts of a finished direction, whose options and text must be the same; None if it is not
    finished.
    """
    if not (folder / weights_file(direction)).exists() or (folder / state_file(direction)).exists():
        return None
    facts = dict(load_language_model(folder, directions=(direction,)).facts[direction])
    if facts.get("identity") != identity:
        raise ModelError(
            f"{folder}: its {direction} direction was trained with other options or other text"
        )
    return facts


def read_log(folder: Path, direction: str) -> list[dict[str, Any]]:
    """The events that a training has written."""
    text = (folder / log_file(direction)).read_text(encoding="utf-8")
    return [
        json.loads(line) for line in text.split("\n") if line
    ]  # a file's name may have other line ends in it


def write_card(folder: Path) -> None:
    """README.md: what the model is, what it was trained on and how well it predicts."""
    there = [name for name in DIRECTIONS if (folder / weights_file(name)).exists()]
    model = load_language_model(folder, directions=there)
    facts = model.facts[there[0]]
    sizes = model.settings
    options = ", ".join(
        f"{name} {value}" for name, value in facts["recipe"].items() if value is not None
    )
    lines = [
        f"# {printable_path(folder.resolve().name)}",
        "",
        f"A {'character' if model.cutter is None else 'word'} language model made with hanlattice.",
        "",
        f"- {sizes.layers} LSTM layer{'s' if sizes.layers > 1 else ''} of {sizes.hidden} units a direction, embeddings "
        f"of width {sizes.embedding}, {len(model.vocab):,} symbols",
        *(
            []
            if model.cutter is None
            else [f"- text is cut into words by {_cutter_name(model.cutter)}"]
        ),
        '- use it: `hanlattice lm score -m FOLDER "…"`, `hanlattice lm sample -m FOLDER`',
        "",
        *_data_lines(facts),
        "",
        "## Held-out text",
        "",
        "Each line by itself, its end counted.",
        "",
        *_direction_table(model.facts).markdown(plain=True),
        "",
        "## Options",
        "",
        options,
    ]
    with atomic_write(folder / CARD) as file:
        file.write("\n".join(lines) + "\n")


def _cutter_name(cutter: Cutter) -> str:
    names = {
        "lexicon": f"the dictionary {LEXICON}",
        "model": f"the segmentation model {cutter.path}",
    }
    return names.get(cutter.by, cutter.by)


def _data_lines(facts: Mapping[str, Any]) -> list[str]:
    data = facts["data"]
    start = facts["from"]
    counted = ("lines", "characters", "words")[: len(data["train"])]
    rows = tuple(
        (name, *(f"{data[part][each]:,}" for each in counted))
        for name, part in (("trained on", "train"), ("held out", "held_out"))
    )
    files = ", ".join(Path(each["file"]).name for each in data["files"])
    table = Table("", ("part", *counted), rows).markdown(plain=True)
    unknown = f"{data['unknown']:,} of these {counted[-1]} are too rare to be known, and count as one symbol."
    lines = ["## Data", "", f"From {files}.", "", *table, "", unknown]
    if "vectors" in data:
        known = data["vectors"]
        lines += [
            "",
            f"Its embeddings began with vectors of {Path(known['file']).name}, of {known['symbols']:,} symbols.",
        ]
    if start is not None:
        perplexity = f"{start['held_out']['perplexity']:.3f}"
        scored = "for which the held-out text that is scored while it trains had perplexity"
        lines += ["", f"It began with the weights of {start['folder']}, {scored} {perplexity}."]
    return lines


def _direction_table(facts: Mapping[str, Mapping[str, Any]]) -> Table:
    scored = {"bits": ("bits a character", ".4f"), "perplexity": ("perplexity", ".3f")}
    unit = "characters"
    if any("unknown" in each["held_out"] for each in facts.values()):
        scored["bits"], unit = ("bits a word", ".4f"), "words"
        scored |= {
            "bits_a_character": ("bits a character", ".4f"),
            "perplexity_of_a_character": ("perplexity of a character", ".3f"),
            "unknown": ("unknown words", ","),
        }
    headings = (
        "direction",
        *(name for name, _ in scored.values()),
        "epochs",
        f"{unit} read",
        "seconds",
        "on",
    )
    rows = [
        (
            name,
            *(format(each["held_out"][key], digits) for key, (_, digits) in scored.items()),
            f"{each['epoch']:.2f}",
            f"{each['trained_on']:,}",
            f"{each['seconds']:.0f}",
            each["device"],
        )
        for name, each in facts.items()
    ]
    return Table("", headings, tuple(rows))


def write_curve(folder: Path, direction: str) -> str | None:
    """curve-DIRECTION.json, and the name of the plot beside it; None without matplotlib."""
    names = ("characters", "words", "loss", "perplexity", "seconds")
    evaluations = (event for event in read_log(folder, direction) if event["event"] == "evaluate")
    points = [{name: event[name] for name in names if name in event} for event in evaluations]
    with atomic_write(folder / f"curve-{direction}.json") as file:
        json.dump({"direction": direction, "points": points}, file, indent=1)
        file.write("\n")
    if not can_plot():
        return None
    name = f"curve-{direction}.svg"
    _draw(points, direction, folder / name)
    return name


def _draw(points: list[dict[str, Any]], direction: str, path: Path) -> None:
    """Perplexity of the text that was trained on (with dropout) since the point before, and of
    held-out text.
    """
    from matplotlib.ticker import ScalarFormatter

    unit = "words" if "words" in points[0] else "characters"
    read = [point[unit] / 1e6 for point in points]
    trained = [math.exp(min(point["loss"], 50.0)) for point in points]
    with plot(path, 5.6, 3.6) as figure:
        axis = figure.subplots()
        axis.plot(read, trained, color=BLUE, marker=".", label="trained on, with dropout")
        axis.plot(
            read, [point["perplexity"] for point in points], color=RED, marker=".", label="held out"
        )
        axis.set(
            xlabel=f"{unit} read, in millions", ylabel=f"perplexity of a {unit[:-1]}", yscale="log"
        )
        for set_formatter in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
            set_formatter(ScalarFormatter())  # 20, not 2 × 10¹
        axis.set_title(f"Language model, {direction}", fontsize=10)
        tidy(axis)
        axis.legend(frameon=False, fontsize=8)
