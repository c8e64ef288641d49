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
        "a character and its tag a line, a blank line between sentences; or JSONL with spans",
    ),
    "words": (".seg", "a sentence a line, with spaces between words"),
}
# docs/training.md shows the files of these templates.
POOLS = """\
pools = true # each character hears of all words over it; false for tens of thousands of \
sentences
"""
FRESH = """\
[chars]
vectors = "@simplechinese/words.bin" # from: hanlattice data get simplechinese
norm = 12.0 # the mean length that these vectors are scaled to

[words]
vectors = "@simplechinese/words.bin" # the words of this file are the lattice
fine_tune = false # true for tens of thousands of sentences

[model]
encoder = "lattice" # "char" for characters alone
{pools}hidden = 100 # 200 for tens of thousands of sentences

[train]
epochs = 20
batch_size = 16
"""
BEGUN = """\
[start]
model = {start} # its weights, characters, words and architecture
labels = {{}} # your labels that begin as some of its labels, where names differ: \
{{ company = "ORG" }}

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
# Paths are relative to the folder in which this command runs. \
docs/configuration.md describes every setting.
[data]
train = {train} # {format}
test = {test} # scored once, at the end; remove this line if you have none
holdout = 0.1 # a tenth of train chooses the best epoch; \
if you have a file for that: dev = "…" instead

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
