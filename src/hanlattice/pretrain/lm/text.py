"""What a language model is trained on: raw text as one flat array of ids, and the streams of an epoch."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hanlattice.data.corpus import even_steps
from hanlattice.data.raw import RawText, groups
from hanlattice.errors import InputError
from hanlattice.events import Listener
from hanlattice.files import sha256, shown
from hanlattice.models.build import Row, known_vectors
from hanlattice.models.language_model import LanguageModel, Settings, load_language_model, make_vocab, weights_file
from hanlattice.pretrain.lm.recipe import SIZES, Recipe
from hanlattice.text.normal import Codes, code_points, fold_digits
from hanlattice.text.vocab import Vocab, seen_as

Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
ReadListener = Callable[[int, int], None]  # bytes read, bytes in all

BREAK_ID = 1  # of models.language_model.BREAK
_BREAK_CODE = ord("\n")
_NO_VECTOR = "no vector of a single character in it: expected a file of `pretrain vectors --unit char`"
_BLOCK = 1 << 20  # characters that are turned into numbers at a time


@dataclass(frozen=True, eq=False)
class Lines:
    """Paragraph i is ids[starts[i] : starts[i] + lengths[i]], and the id after it is a break."""

    ids: Ids  # [N]; code points, until there is a vocabulary
    starts: Ints  # [L]
    lengths: Ints  # [L]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def symbols(self) -> int:
        """What a model predicts when it reads all of it: every character, and the break after each line."""
        return int(self.lengths.sum()) + len(self)

    def take(self, which: npt.NDArray[np.bool_] | Ints) -> Lines:
        """Some of the lines; the array of ids is shared."""
        return Lines(self.ids, self.starts[which], self.lengths[which])

    def mirrored(self) -> Lines:
        """The same lines in the same order, each from its last character to its first."""
        return mirrored(self)[0]


def mirrored(*parts: Lines) -> list[Lines]:
    """Parts of one text, which share an array of ids, and each line from its last character to its first.

    All ids are reversed together, into one array. A line that was [s, e) then lies at [N − e, N − s), and what
    follows it is the break that was before it; there was none before the first, so one is added.
    """
    ids, ends = parts[0].ids, [part.starts + part.lengths for part in parts]
    turned = np.append(ids[::-1], ids[np.concatenate(ends)[:1]])  # any line's own break
    return [Lines(turned, len(ids) - end, part.lengths) for part, end in zip(parts, ends, strict=True)]


def read_lines_of(files: Iterable[str | Path], listen: ReadListener = lambda done, size: None) -> Lines:
    """The lines of raw text that are not blank, as code points."""
    raw, blocks = RawText(files), []
    for lines in groups(raw, _BLOCK):  # of which there is one at least, since no file of raw text is blank
        blocks.append(code_points("\n".join([*lines, ""])))
        listen(raw.done, raw.size)
    return make_lines(np.concatenate(blocks))


def make_lines(codes: Codes) -> Lines:
    """Code points in which a line feed follows each line."""
    ends = np.flatnonzero(codes == _BREAK_CODE)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends + 1])[:-1]
    return Lines(codes, starts, ends - starts)


def hold_out(lines: Lines, share: float) -> tuple[Lines, Lines]:
    """(the rest, what is held out): this share of the lines at even steps, as taggers hold out sentences."""
    taken = np.array(even_steps(len(lines), share), dtype=bool)
    if not taken.any():
        raise InputError(f"--held-out {share} of {len(lines)} lines is not one line; take a larger share or more text")
    return lines.take(~taken), lines.take(taken)


def frequent(lines: Lines, min_count: int) -> list[str]:
    """The characters, as the model sees them, that occur `min_count` times or more, most frequent first."""
    counts: Counter[str] = Counter()
    codes = np.bincount(_used(lines))
    codes[_BREAK_CODE : _BREAK_CODE + 1] = 0
    for code in np.flatnonzero(codes).tolist():
        counts[fold_digits(chr(code))] += int(codes[code])
    found = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [character for character, count in found if count >= min_count]


def _used(lines: Lines) -> Ids:
    """[symbols]: the ids of these lines and of their breaks, and no others."""
    edges = np.zeros(len(lines.ids) + 1, dtype=np.int8)
    edges[lines.starts] += 1  # a line begins
    edges[lines.starts + lines.lengths + 1] -= 1  # its break is over
    inside: npt.NDArray[np.bool_] = np.cumsum(edges[:-1], dtype=np.int8).astype(bool)
    return lines.ids[inside]


@dataclass(frozen=True)
class Source:
    vocab: Vocab
    settings: Settings
    train: Lines
    held_out: Lines
    start: LanguageModel | None
    data: dict[str, Any]  # where the text came from, for the model folder
    digests: dict[str, str]  # of the weights to start from, by direction
    vectors: Mapping[str, Row]  # to start from, by symbol

    def lines(self, direction: str) -> tuple[Lines, Lines]:
        """(to train on, held out), as this direction reads them."""
        if direction == "forward":
            return self.train, self.held_out
        train, held_out = mirrored(self.train, self.held_out)
        return train, held_out

    def identity(self, recipe: Recipe, direction: str) -> str:
        """What must be the same when a run is resumed: the options and the content of everything that is read."""
        read = [each["sha256"] for each in self.data["files"]], self.digests.get(direction)
        options = {**recipe.decisive(), "start_from": None}  # its content counts, not its place
        if recipe.vectors is not None:
            options["vectors"] = self.data["vectors"]["sha256"]
        return hashlib.sha256(json.dumps([options, direction, read], sort_keys=True).encode()).hexdigest()


def read_source(recipe: Recipe, files: Sequence[str | Path], directions: Sequence[str], listen: Listener) -> Source:
    """Read everything; text that is too small for one batch is an InputError."""
    start, digests = None, {}
    if recipe.start_from is not None:
        start = load_language_model(recipe.start_from, directions=directions)
        digests = {each: sha256(recipe.start_from / weights_file(each)) for each in directions}
    notices: list[str] = []
    vectors = known_vectors(recipe.vectors or "", fold_digits, notices, lambda word: len(word) == 1, _NO_VECTOR)
    if start is not None:
        fixed = {name: getattr(start.settings, name) for name in SIZES}
    else:
        fixed = {"embedding": len(next(iter(vectors.values())))} if vectors else {}
    sizes = recipe.sizes(fixed)
    text = read_lines_of(files, lambda done, size: listen({"event": "read", "done": done, "size": size}))
    train, held_out = hold_out(text, recipe.held_out)
    needed = recipe.batch_size * recipe.length
    if train.symbols < needed:
        raise InputError(
            f"there are {train.symbols:,} characters to train on, line ends counted, and one batch of "
            f"--batch-size {recipe.batch_size} × --length {recipe.length} takes {needed:,}; lower one of them"
        )
    vocab = start.vocab if start else make_vocab(frequent(train, recipe.least_count))
    if len(vocab) <= BREAK_ID + 1:
        raise InputError(f"no character occurs {recipe.least_count} times in the text; lower --min-count")
    ids = seen_as(vocab)(text.ids)
    train, held_out = (Lines(ids, part.starts, part.lengths) for part in (train, held_out))
    data = {
        "files": [{"file": shown(file), "sha256": sha256(file)} for file in files],
        "train": {"lines": len(train), "characters": int(train.lengths.sum())},
        "held_out": {"lines": len(held_out), "characters": int(held_out.lengths.sum())},
        "unknown": int(np.count_nonzero(ids == 0)),  # characters of both parts that the model does not know
    }
    if recipe.vectors is not None:
        vectors = {symbol: row for symbol, row in vectors.items() if symbol in vocab}
        if not vectors:
            raise InputError("no vector of a symbol that the language model knows in it", recipe.vectors)
        named = {"file": shown(recipe.vectors), "sha256": sha256(recipe.vectors), "symbols": len(vectors)}
        data["vectors"] = named
        listen({"event": "vectors", **named, "of": len(vocab), "width": sizes["embedding"], "notices": notices})
    return Source(vocab, Settings(**sizes, dropout=recipe.dropout), train, held_out, start, data, digests, vectors)


def source_facts(source: Source, recipe: Recipe, direction: str) -> dict[str, Any]:
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


class Streams:
    """The lines on a device, and the streams of each epoch.

    A stream has as many symbols as the others, so fewer than B symbols at the end of an epoch's order are left out.
    There must be B symbols or more: `read_source` refuses less text than one batch.
    """

    def __init__(self, lines: Lines, batch_size: int, device: torch.device) -> None:
        self.lines, self.batch_size = lines, batch_size
        self.ids = torch.from_numpy(lines.ids).to(device)  # [N], int32; on a CPU no copy of them
        self.steps = lines.symbols // batch_size  # targets of one stream

    def epoch(self, seed: int, epoch: int) -> Tensor:
        """[B, steps + 1], int32: at each place the input, and one further on the target.

        Seed and epoch decide the order of the lines. The last target of a stream is the first input of the next.
        """
        order = np.random.default_rng([seed, epoch]).permutation(len(self.lines))
        text = self._joined(order)[: self.steps * self.batch_size + 1]
        return text.unfold(0, self.steps + 1, self.steps).contiguous()

    def _joined(self, order: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Tensor:
        """[symbols + 1]: a break, then line after line, each with its break."""
        device = self.ids.device
        starts = torch.from_numpy(self.lines.starts[order]).to(device)
        sizes = torch.from_numpy(self.lines.lengths[order]).to(device) + 1
        before = sizes.cumsum(0) - sizes
        places = (starts - before).repeat_interleave(sizes)
        places += torch.arange(len(places), device=device)
        first = torch.full((1,), BREAK_ID, dtype=self.ids.dtype, device=device)
        return torch.cat([first, self.ids[places]])
