"""`hanlattice init`: write a starting configuration for your own corpus."""

from __future__ import annotations

import json
import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hanlattice.cli.console import find_named, make_console
from hanlattice.errors import OutputError
from hanlattice.files import reason

NAME = "train.toml"
FORMATS = {
    "ner": (
        ".bmes",
        "one character and its tag a line, a blank line between sentences; or JSONL with spans",
    ),
    "words": (".seg", "one sentence a line, spaces between words"),
}
POOLS = """\
# Each character also reads the mean of all words that contain it.
# Use false for tens of thousands of sentences.
pools = true
"""
FRESH = """\
[chars]
# To download this file: hanlattice data get simplechinese
vectors = "@simplechinese/words.bin"
norm = 12.0 # vectors are scaled to this mean length

[words]
vectors = "@simplechinese/words.bin" # the words of this file are the dictionary
fine_tune = false # true for tens of thousands of sentences

[model]
encoder = "lattice" # "char" uses no words
{pools}hidden = 100 # 200 for tens of thousands of sentences

[train]
epochs = 20
batch_size = 16
"""
BEGUN = """\
[start]
model = {start} # its weights, characters, words and architecture
# Your labels that mean the same as one of its labels: {{ company = "ORG" }}
labels = {{}}

[rates] # multiples of train.lr; 0 freezes
embeddings = 1.0
encoder = 1.0
output = 1.0

[train]
epochs = 5 # 8 for fifty sentences, 3 for a thousand
batch_size = 4
"""
TEMPLATE = """\
# {command}
# Paths are relative to the folder in which you run this command.
# docs/configuration.md describes every setting.
[data]
train = {train} # {format}
test = {test} # scored once, at the end; remove this line if you have no test file
# This share of the training file chooses the best epoch.
# If you have a file for that, write instead: dev = "…"
holdout = 0.1

{sections}lr = 2e-3
device = "cpu" # "cuda" for a GPU
"""

LabellingTask = StrEnum("LabellingTask", "ner words")


def init(
    folder: Annotated[
        Path, typer.Argument(help="Folder of your corpus. `train.toml` is written there.")
    ],
    task: Annotated[
        LabellingTask, typer.Option(help="Named entities (`ner`) or segmentation (`words`).")
    ] = LabellingTask.ner,
    start: Annotated[
        str, typer.Option("--from", help="Model to start from: `ner`, `seg` or a model folder.")
    ] = "",
) -> None:
    """Write `train.toml`, a commented configuration for your corpus, and print the next steps."""
    file = folder / NAME
    suffix, form = FORMATS[task]
    train, test = (str(folder / f"{part}{suffix}") for part in ("train", "test"))
    command = shlex.join(
        ["hanlattice", "train", str(file), "--out", str(Path("runs", folder.resolve().name))]
    )
    if start:
        find_named(start)
        sections = BEGUN.format(start=json.dumps(start, ensure_ascii=False))
    else:
        # `pools` was never tried for segmentation.
        sections = FRESH.format(pools=POOLS if task == LabellingTask.ner else "")
    text = TEMPLATE.format(
        command=command,
        # A TOML string has the escapes of JSON.
        train=json.dumps(train, ensure_ascii=False),
        test=json.dumps(test, ensure_ascii=False),
        format=form,
        sections=sections,
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as out:
            out.write(text.encode())
    except FileExistsError:
        raise OutputError(
            f"{file if file.exists() else folder} exists already, and nothing is overwritten"
        ) from None
    except OSError as error:
        raise OutputError(f"cannot write {file}: {reason(error)}") from None
    console = make_console(stderr=False)
    console.print(
        f"wrote {file}; put your corpus into {train} and {test}, or change these names in it. Then:"
    )
    if not start:
        console.print("  hanlattice data get simplechinese")
    console.print(f"  {command}")
