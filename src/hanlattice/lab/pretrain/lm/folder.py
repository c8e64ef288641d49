"""The folder of a language model in training, which two processes may share."""

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
    """Refuse a folder that cannot be used; remove files that a killed run left half written."""
    if printable_path(folder) != str(folder):
        problem = "its name is not UTF-8, and safetensors cannot read it"
        raise OutputError(f"{folder}: {problem}; choose another --out")
    # Path.exists would raise for a name that is too long, which is reported when it is written.
    parents = (folder, *folder.absolute().parents)
    present = next(part for part in parents if os.path.exists(part))  # noqa: PTH110
    if not present.is_dir():
        raise OutputError(f"{present} is a file; --out must name a folder, old or new")
    names = {file.name for file in folder.glob("*")}
    matches = {name: re.fullmatch(r"\.(.+)\.[0-9a-f]{8}\.part", name) for name in names}
    half = {name: match[1] for name, match in matches.items() if match}
    ours = {CHARS, WORDS, LEXICON, *map(log_file, DIRECTIONS), *half}
    if RECORD not in names:
        for other in sorted(names - ours):
            problem = f"{folder} holds {other}, which is not part of a language model"
            raise OutputError(f"{problem}: choose a new or empty folder")
    if not resume and names & {weights_file(direction), state_file(direction)}:
        problem = f"{folder} holds a {direction} language model already"
        raise OutputError(f"{problem}: continue it with --resume, or choose another --out")
    for name, whole in half.items():
        # What both directions write may be the other's, which may be running.
        if direction in whole:
            remove(folder / name)


def write_frame(folder: Path, source: LanguageModelText) -> None:
    """Write what both directions share, or check that a direction in the folder has the same."""
    written = [
        folder / name(direction) for name in (weights_file, state_file) for direction in DIRECTIONS
    ]
    if not any(file.exists() for file in written):
        save_language_model_frame(folder, source.vocab, source.settings, source.cutter)
        return
    old = load_language_model(folder, directions=())
    if (old.vocab, old.settings, old.cutter) != (source.vocab, source.settings, source.cutter):
        raise OutputError(
            f"{folder} holds a language model with other symbols or sizes, and both directions "
            "share them: train with the same text and options, or choose another --out"
        )


def finished_facts(folder: Path, direction: str, identity: str) -> dict[str, Any] | None:
    """Return the facts of a finished direction with this identity; None if it is not finished."""
    if not (folder / weights_file(direction)).exists() or (folder / state_file(direction)).exists():
        return None
    facts = dict(load_language_model(folder, directions=(direction,)).facts[direction])
    if facts.get("identity") != identity:
        problem = f"its {direction} direction was trained with other options or other text"
        raise ModelError(f"{folder}: {problem}")
    return facts


def read_log(folder: Path, direction: str) -> list[dict[str, Any]]:
    """Return the events that a training has written."""
    text = (folder / log_file(direction)).read_text(encoding="utf-8")
    # Not splitlines: a file's name may have other line ends in it.
    return [json.loads(line) for line in text.split("\n") if line]


def write_card(folder: Path) -> None:
    """Write README.md: what the model is, its training text, how well it predicts."""
    directions = [name for name in DIRECTIONS if (folder / weights_file(name)).exists()]
    model = load_language_model(folder, directions=directions)
    facts = model.facts[directions[0]]
    sizes = model.settings
    given = {name: value for name, value in facts["recipe"].items() if value is not None}
    cut = []
    if (cutter := model.cutter) is not None:
        names = {"lexicon": f"the dictionary {LEXICON}"}
        names["model"] = f"the segmentation model {cutter.path}"
        cut = [f"- text is cut into words by {names.get(cutter.by, cutter.by)}"]
    lines = [
        f"# {printable_path(folder.resolve().name)}",
        "",
        f"A {'character' if cutter is None else 'word'} language model made with hanlattice.",
        "",
        f"- {sizes.layers} LSTM layer{'s' if sizes.layers > 1 else ''} of {sizes.hidden} units a "
        f"direction, embeddings of width {sizes.embedding}, {len(model.vocab):,} symbols",
        *cut,
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
        ", ".join(f"{name} {value}" for name, value in given.items()),
    ]
    with atomic_write(folder / CARD) as file:
        file.write("\n".join(lines) + "\n")


def _data_lines(facts: Mapping[str, Any]) -> list[str]:
    data = facts["data"]
    start = facts["from"]
    counted = ("lines", "characters", "words")[: len(data["train"])]
    rows = tuple(
        (name, *(f"{data[part][unit]:,}" for unit in counted))
        for name, part in (("trained on", "train"), ("held out", "held_out"))
    )
    files = ", ".join(Path(source["file"]).name for source in data["files"])
    table = Table("", ("part", *counted), rows).markdown(plain=True)
    unknown = f"{data['unknown']:,} of these {counted[-1]} are too rare to be known"
    lines = ["## Data", "", f"From {files}.", "", *table]
    lines += ["", f"{unknown}, and count as one symbol."]
    if "vectors" in data:
        known = data["vectors"]
        origin = f"vectors of {Path(known['file']).name}, of {known['symbols']:,} symbols"
        lines += ["", f"Its embeddings began with {origin}."]
    if start is not None:
        perplexity = f"{start['held_out']['perplexity']:.3f}"
        scored = "for which the held-out text that is scored while it trains had perplexity"
        lines += ["", f"It began with the weights of {start['folder']}, {scored} {perplexity}."]
    return lines


def _direction_table(facts: Mapping[str, Mapping[str, Any]]) -> Table:
    # Key → heading and format.
    scored = {"bits": ("bits a character", ".4f"), "perplexity": ("perplexity", ".3f")}
    unit = "characters"
    if any("unknown" in direction["held_out"] for direction in facts.values()):
        unit = "words"
        scored["bits"] = ("bits a word", ".4f")
        scored["bits_a_character"] = ("bits a character", ".4f")
        scored["perplexity_of_a_character"] = ("perplexity of a character", ".3f")
        scored["unknown"] = ("unknown words", ",")
    names = (name for name, _ in scored.values())
    headings = ("direction", *names, "epochs", f"{unit} read", "seconds", "on")
    rows = []
    for name, known in facts.items():
        figures = (format(known["held_out"][key], form) for key, (_, form) in scored.items())
        read = (f"{known['epoch']:.2f}", f"{known['trained_on']:,}", f"{known['seconds']:.0f}")
        rows.append((name, *figures, *read, known["device"]))
    return Table("", headings, tuple(rows))


def write_curve(folder: Path, direction: str) -> str | None:
    """Write curve-DIRECTION.json and its plot; return the plot's name, None without matplotlib."""
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
    """Plot perplexity of trained text (with dropout, since the last point) and held-out text."""
    from matplotlib.ticker import ScalarFormatter

    unit = "words" if "words" in points[0] else "characters"
    read = [point[unit] / 1e6 for point in points]
    trained = [math.exp(min(point["loss"], 50.0)) for point in points]
    held_out = [point["perplexity"] for point in points]
    with plot(path, 5.6, 3.6) as figure:
        axis = figure.subplots()
        axis.plot(read, trained, color=BLUE, marker=".", label="trained on, with dropout")
        axis.plot(read, held_out, color=RED, marker=".", label="held out")
        axis.set(xlabel=f"{unit} read, in millions", ylabel=f"perplexity of a {unit[:-1]}")
        axis.set_yscale("log")
        # 20, not 2 × 10¹.
        for set_formatter in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
            set_formatter(ScalarFormatter())
        axis.set_title(f"Language model, {direction}", fontsize=10)
        tidy(axis)
        axis.legend(frameon=False, fontsize=8)
