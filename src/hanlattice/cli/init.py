"""`hanlattice init`: a starting configuration for one's own corpus."""

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
POOLS = "pools = true # each character hears of all words over it; false for tens of thousands of sentences\n"
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
labels = {{}} # your labels that begin as some of its labels, where names differ: {{ company = "ORG" }}

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
# Paths are relative to the folder in which this command runs. docs/configuration.md describes every setting.
[data]
train = {train} # {format}
test = {test} # scored once, at the end; remove this line if you have none
holdout = 0.1 # a tenth of train chooses the best epoch; if you have a file for that: dev = "…" instead

{sections}lr = 2e-3
device = "cpu" # "cuda" for a GPU
"""


class LabellingTask(StrEnum):
    ner = "ner"
    words = "words"


def init(
    folder: Annotated[
        Path,
        typer.Argument(help="The folder of your corpus, old or new; the file is written there."),
    ],
    task: Annotated[
        LabellingTask, typer.Option(help="Named entities, or word segmentation.")
    ] = LabellingTask.ner,
    start: Annotated[
        str,
        typer.Option(
            "--from", help="For a training that begins with a model: ner, seg or a model's folder."
        ),
    ] = "",
) -> None:
    """Write a commented configuration for your own corpus, train.toml, and say what to do next."""
    file = folder / NAME
    suffix, form = FORMATS[task]
    train, test = (str(folder / f"{part}{suffix}") for part in ("train", "test"))
    command = shlex.join(
        ["hanlattice", "train", str(file), "--out", str(Path("runs", folder.resolve().name))]
    )
    strings = [
        json.dumps(path, ensure_ascii=False) for path in (train, test)
    ]  # TOML has the escapes of JSON
    if start:
        find_named(start)
    pools = POOLS if task == LabellingTask.ner else ""  # for words it was never tried
    sections = (
        BEGUN.format(start=json.dumps(start, ensure_ascii=False))
        if start
        else FRESH.format(pools=pools)
    )
    text = TEMPLATE.format(
        command=command, train=strings[0], test=strings[1], format=form, sections=sections
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
    console.print(f"  {command}" if start else f"  hanlattice data get simplechinese\n  {command}")
