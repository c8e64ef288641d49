"""`hanlattice init`: a starting configuration for one's own corpus."""

from __future__ import annotations

import json
import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hanlattice.cli.console import make_console
from hanlattice.errors import OutputError
from hanlattice.files import reason

NAME = "train.toml"
FORMATS = {
    "ner": (".bmes", "a character and its tag a line, a blank line between sentences; or JSONL with spans"),
    "words": (".seg", "a sentence a line, with spaces between words"),
}
POOLS = "pools = true # each character hears of all words over it; false for tens of thousands of sentences\n"
TEMPLATE = """\
# {command}
# Paths are relative to the folder in which this command runs. docs/configuration.md describes every setting.
[data]
train = {train} # {format}
test = {test} # scored once, at the end; remove this line if you have none
holdout = 0.1 # a tenth of train chooses the best epoch; if you have a file for that: dev = "…" instead

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
lr = 2e-3
device = "cpu" # "cuda" for a GPU
"""


class Task(StrEnum):
    ner = "ner"
    words = "words"


def init(
    folder: Annotated[Path, typer.Argument(help="The folder of your corpus, old or new; the file is written there.")],
    task: Annotated[Task, typer.Option(help="Named entities, or word segmentation.")] = Task.ner,
) -> None:
    """Write a commented configuration for your own corpus, train.toml, and say what to do next."""
    file, (suffix, form) = folder / NAME, FORMATS[task]
    train, test = (str(folder / f"{part}{suffix}") for part in ("train", "test"))
    command = shlex.join(["hanlattice", "train", str(file), "--out", str(Path("runs", folder.resolve().name))])
    strings = [json.dumps(path, ensure_ascii=False) for path in (train, test)]  # TOML has the escapes of JSON
    pools = POOLS if task == Task.ner else ""  # for words it was never tried
    text = TEMPLATE.format(command=command, train=strings[0], test=strings[1], format=form, pools=pools)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as out:
            out.write(text.encode())
    except FileExistsError:
        raise OutputError(f"{file if file.exists() else folder} exists already, and nothing is overwritten") from None
    except OSError as error:
        raise OutputError(f"cannot write {file}: {reason(error)}") from None
    console = make_console(stderr=False)
    console.print(f"wrote {file}; put your corpus into {train} and {test}, or change these names in it. Then:")
    console.print(f"  hanlattice data get simplechinese\n  {command}")
