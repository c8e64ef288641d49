"""What a language model is trained on and begins with: text, characters, sizes, and perhaps another model's weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hanlattice.errors import InputError
from hanlattice.events import Listener
from hanlattice.files import sha256, shown
from hanlattice.models.language_model import (
    LanguageModel,
    Settings,
    load_language_model,
    make_vocab,
    weights_file,
)
from hanlattice.pretrain.lm.recipe import SIZES, Recipe
from hanlattice.pretrain.lm.text import BREAK_ID, Lines, frequent, hold_out, mirrored, read_lines_of
from hanlattice.text.vocab import Vocab, seen_as


@dataclass(frozen=True)
class Source:
    vocab: Vocab
    settings: Settings
    train: Lines
    held_out: Lines
    start: LanguageModel | None
    data: dict[str, Any]  # where the text came from, for the model folder
    digests: dict[str, str]  # of the weights to start from, by direction

    def lines(self, direction: str) -> tuple[Lines, Lines]:
        """(to train on, held out), as this direction reads them."""
        if direction == "forward":
            return self.train, self.held_out
        train, held_out = mirrored(self.train, self.held_out)
        return train, held_out

    def identity(self, recipe: Recipe, direction: str) -> str:
        """What must be the same for a stopped run to go on: the options and the content of all that was read."""
        read = [each["sha256"] for each in self.data["files"]], self.digests.get(direction)
        options = {**recipe.decisive(), "start_from": None}  # its content counts, not its place
        return hashlib.sha256(json.dumps([options, direction, read], sort_keys=True).encode()).hexdigest()


def read_source(recipe: Recipe, files: Sequence[str | Path], directions: Sequence[str], listen: Listener) -> Source:
    """Read everything; text of which no batch can be made is an InputError."""
    start, digests = None, {}
    if recipe.start_from is not None:
        start = load_language_model(recipe.start_from, directions=directions)
        digests = {each: sha256(recipe.start_from / weights_file(each)) for each in directions}
    sizes = recipe.sizes({name: getattr(start.settings, name) for name in SIZES} if start else None)
    text = read_lines_of(files, lambda done, size: listen({"event": "read", "done": done, "size": size}))
    train, held_out = hold_out(text, recipe.held_out)
    _check_size(train, recipe)
    vocab = start.vocab if start else make_vocab(frequent(train, recipe.least_count))
    if len(vocab) <= BREAK_ID + 1:
        raise InputError(f"no character comes {recipe.least_count} times in the text; lower --min-count")
    ids = seen_as(vocab)(text.ids)
    train, held_out = (Lines(ids, part.starts, part.lengths) for part in (train, held_out))
    data = {
        "files": [{"file": shown(file), "sha256": sha256(file)} for file in files],
        "train": {"lines": len(train), "characters": int(train.lengths.sum())},
        "held_out": {"lines": len(held_out), "characters": int(held_out.lengths.sum())},
        "unknown": int(np.count_nonzero(ids == 0)),  # characters of both parts that the model does not know
    }
    return Source(vocab, Settings(**sizes, dropout=recipe.dropout), train, held_out, start, data, digests)


def _check_size(train: Lines, recipe: Recipe) -> None:
    needed = recipe.batch_size * recipe.length
    if train.symbols < needed:
        raise InputError(
            f"there are {train.symbols:,} characters to train on, line ends counted, and one batch of "
            f"--batch-size {recipe.batch_size} × --length {recipe.length} takes {needed:,}; lower one of them"
        )


def facts_of(source: Source, recipe: Recipe, direction: str) -> dict[str, Any]:
    """What is known of a direction before it is trained."""
    base = None
    if recipe.start_from is not None:
        base = {"folder": shown(recipe.start_from), "sha256": source.digests[direction]}
    return {
        "direction": direction,
        "recipe": {**recipe.decisive(), **asdict(source.settings)},
        "data": source.data,
        "symbols": len(source.vocab),
        "from": base,
        "identity": source.identity(recipe, direction),
    }
