"""What a language model reads: raw text as one flat array of ids of characters or words; the
streams of an epoch.
"""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hanlattice.checkpoint import find_model
from hanlattice.checkpoint.language_model import (
    BREAK,
    Cutter,
    LanguageModel,
    LanguageModelSettings,
    load_language_model,
    make_vocab,
    weights_file,
)
from hanlattice.checkpoint.segmenter import segmenter_version
from hanlattice.data.corpus import even_steps
from hanlattice.data.formats.raw import RawText, groups
from hanlattice.errors import InputError, ModelError
from hanlattice.events import Listener
from hanlattice.files import printable_path, sha256
from hanlattice.lab.pretrain.lm.recipe import SIZES, Recipe
from hanlattice.lab.pretrain.units import Unit, Units, make_units, split_line
from hanlattice.text.normalize import Codes, code_points, fold, fold_digits
from hanlattice.text.vocab import Vocab, seen_as
from hanlattice.training.build import Row, known_vectors

Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
ReadListener = Callable[[int, int], None]  # bytes read, bytes in all

BREAK_ID = 1  # of models.language_model.BREAK
_BREAK_CODE = ord("\n")
_BLOCK = 1 << 20  # characters that are turned into numbers at a time


@dataclass(frozen=True, eq=False)
class Lines:
    """Paragraph i is ids[starts[i] : starts[i] + lengths[i]], and the id after it is a break."""

    ids: Ids  # [N]; code points, or numbers of words, until there is a vocabulary
    starts: Ints  # [L]
    lengths: Ints  # [L]
    sizes: Ints | None = None  # [L]: where the ids are words, how many characters those have,
    spelling: Floats | None = None  # [L]: and how many bits it takes to spell the unknown ones

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def symbols(self) -> int:
        """What a model predicts when it reads all of it: every character or word, and the break
        after each line.
        """
        return int(self.lengths.sum()) + len(self)

    @property
    def characters(self) -> int:
        """Those of all lines, without breaks; of words without the white space between them."""
        return int((self.lengths if self.sizes is None else self.sizes).sum())

    @property
    def unknown(self) -> int:
        """Symbols that the model does not know."""
        return int(np.count_nonzero(used_ids(self) == 0))

    def take(self, which: npt.NDArray[np.bool_] | Ints) -> Lines:
        """Some of the lines; the array of ids is shared."""
        part = Lines(self.ids, self.starts[which], self.lengths[which])
        if self.sizes is None or self.spelling is None:
            return part
        return replace(part, sizes=self.sizes[which], spelling=self.spelling[which])

    def mirrored(self) -> Lines:
        """The same lines in the same order, each from its last symbol to its first."""
        return mirrored(self)[0]


def mirrored(*parts: Lines) -> list[Lines]:
    """Parts of one text, which share an array of ids, and each line from its last character to its
    first.

    All ids are reversed together, into one array. A line that was [s, e) then lies at [N − e, N −
    s), and what follows it is the break that was before it; there was none before the first, so one
    is added.
    """
    ids = parts[0].ids
    ends = [part.starts + part.lengths for part in parts]
    turned = np.append(ids[::-1], ids[np.concatenate(ends)[:1]])  # any line's own break
    return [
        replace(part, ids=turned, starts=len(ids) - end)
        for part, end in zip(parts, ends, strict=True)
    ]


def read_lines_of(
    files: Iterable[str | Path], listen: ReadListener = lambda done, size: None
) -> Lines:
    """The lines of raw text that are not blank, as code points."""
    raw = RawText(files)
    blocks = []
    for lines in groups(
        raw, _BLOCK
    ):  # of which there is one at least, since no file of raw text is blank
        blocks.append(code_points("\n".join([*lines, ""])))
        listen(raw.done, raw.size)
    return make_lines(np.concatenate(blocks))


def read_words_of(
    files: Iterable[str | Path], units: Units, listen: ReadListener = lambda done, size: None
) -> tuple[Lines, list[str]]:
    """The words of the lines, as places in a list, and that list: a break, then the words as they
    first come.
    """
    raw = RawText(files)
    places = {BREAK: 0}
    blocks = []
    for lists in groups(units(part for line in raw for part in split_line(line)), _BLOCK):
        blocks.append(_number(filter(None, lists), places))
        listen(raw.done, raw.size)
    return make_lines(np.concatenate(blocks), 0), list(places)


def _number(lists: Iterable[Sequence[str]], places: dict[str, int]) -> Ids:
    """The places of words, with that of the break after each list; a new word gets the next place."""
    ids = array("i")
    for words in lists:
        ids.extend([places.setdefault(word, len(places)) for word in words])
        ids.append(places[BREAK])
    return np.array(ids, dtype=np.int32)


def word_lines(lines: Lines, words: Sequence[str], vocab: Vocab, alphabet: int) -> Lines:
    """Lines of places in `words` as lines of ids. An unknown word is spelt: each of its characters,
    and its end, is one of the `alphabet` and an end, all equally probable.
    """
    ids = np.array(vocab.ids(words), dtype=np.int32)
    lengths = np.array([0, *map(len, words[1:])], dtype=np.int64)
    sizes, spelt = (
        _line_sums(lines, each[lines.ids]) for each in (lengths, np.where(ids == 0, lengths + 1, 0))
    )
    return replace(
        lines, ids=ids[lines.ids], sizes=sizes, spelling=spelt * np.float64(math.log2(alphabet + 1))
    )


def _line_sums(lines: Lines, values: Ints) -> Ints:
    """[L]: the sum of the values of each line's symbols."""
    before = np.append(0, np.cumsum(values))
    return np.asarray(before[lines.starts + lines.lengths] - before[lines.starts], dtype=np.int64)


def text_lines(model: LanguageModel, texts: Sequence[Sequence[str]]) -> Lines:
    """Texts of one line each, as characters or, for a model of words, as lists of words: as the
    model's ids.
    """
    if model.cutter is None:
        codes = make_lines(code_points("".join(f"{text}\n" for text in texts)))
        return replace(codes, ids=seen_as(model.vocab)(codes.ids))
    places = {BREAK: 0}
    lines = make_lines(_number(texts, places), 0)
    return word_lines(lines, list(places), model.vocab, model.cutter.alphabet)


def make_lines(codes: Codes, end: int = _BREAK_CODE) -> Lines:
    """Code points, or other numbers, in which `end` follows each line."""
    ends = np.flatnonzero(codes == end)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends + 1])[:-1]
    return Lines(codes, starts, ends - starts)


def hold_out(lines: Lines, share: float) -> tuple[Lines, Lines]:
    """(the rest, what is held out): this share of the lines at even steps, as taggers hold out
    sentences.
    """
    taken = np.array(even_steps(len(lines), share), dtype=bool)
    if not taken.any():
        raise InputError(
            f"--held-out {share} of {len(lines)} lines is not one line; take a larger share or more text"
        )
    return lines.take(~taken), lines.take(taken)


def seen_character(code: int) -> str:
    return fold_digits(chr(code))


def frequent(
    lines: Lines,
    min_count: int,
    seen: Callable[[int], str] = seen_character,
    most: int | None = None,
) -> list[str]:
    """The symbols that occur `min_count` times or more, the most frequent first, and of them the
    first `most`.
    """
    counts: Counter[str] = Counter()
    codes = np.bincount(used_ids(lines))
    for code in np.flatnonzero(codes).tolist():
        counts[seen(code)] += int(codes[code])
    del counts[BREAK]
    found = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [symbol for symbol, count in found if count >= min_count][:most]


def used_ids(lines: Lines) -> Ids:
    """[symbols]: the ids of these lines and of their breaks, and no others."""
    edges = np.zeros(len(lines.ids) + 1, dtype=np.int8)
    edges[lines.starts] += 1  # a line begins
    edges[lines.starts + lines.lengths + 1] -= 1  # its break is over
    inside: npt.NDArray[np.bool_] = np.cumsum(edges[:-1], dtype=np.int8).astype(bool)
    return lines.ids[inside]


@dataclass(frozen=True)
class LanguageModelText:
    vocab: Vocab
    settings: LanguageModelSettings
    train: Lines
    held_out: Lines
    start: LanguageModel | None
    data: dict[str, Any]  # where the text came from, for the model folder
    digests: dict[str, str]  # of the weights to start from, by direction
    vectors: Mapping[str, Row]  # to start from, by symbol
    cutter: Cutter | None  # of words; None: its symbols are characters

    def lines(self, direction: str) -> tuple[Lines, Lines]:
        """(to train on, held out), as this direction reads them."""
        if direction == "forward":
            return self.train, self.held_out
        train, held_out = mirrored(self.train, self.held_out)
        return train, held_out

    def identity(self, recipe: Recipe, direction: str) -> str:
        """What must be the same when a run is resumed: the options and the content of everything
        that is read.
        """
        read = [each["sha256"] for each in self.data["files"]], self.digests.get(direction)
        options = {**recipe.decisive(), "start_from": None}  # its content counts, not its place
        if recipe.vectors is not None:
            options["vectors"] = self.data["vectors"]["sha256"]
        if self.cutter is not None:
            options |= {
                "lexicon": None,
                "model": None,
                "cutter": [self.cutter.by, self.cutter.version],
            }
        return hashlib.sha256(
            json.dumps([options, direction, read], sort_keys=True).encode()
        ).hexdigest()


def read_source(
    recipe: Recipe, files: Sequence[str | Path], directions: Sequence[str], listen: Listener
) -> LanguageModelText:
    """Read everything; text that is too small for one batch is an InputError."""
    start = None
    digests = {}
    if recipe.start_from is not None:
        start = load_language_model(recipe.start_from, directions=directions)
        digests = {each: sha256(recipe.start_from / weights_file(each)) for each in directions}
    cutter = start.cutter if start else make_cutter(recipe)
    notices: list[str] = []
    vectors = _vectors_to_start_from(recipe, notices)
    fixed = {"embedding": len(next(iter(vectors.values())))} if vectors else {}
    if start is not None:
        fixed = {name: getattr(start.settings, name) for name in SIZES}
    sizes = recipe.sizes(fixed)
    text, words = _read_symbols(files, cutter, recipe.device, listen)
    train, held_out = hold_out(text, recipe.held_out)
    needed = recipe.batch_size * recipe.length
    noun = "characters" if cutter is None else "words"
    if train.symbols < needed:
        raise InputError(
            f"there are {train.symbols:,} {noun} to train on, line ends counted, and one batch of "
            f"--batch-size {recipe.batch_size} × --length {recipe.length} takes {needed:,}; lower one of them"
        )
    seen = words.__getitem__ if words else seen_character
    vocab = (
        start.vocab if start else make_vocab(frequent(train, recipe.least_count, seen, recipe.most))
    )
    if len(vocab) <= BREAK_ID + 1:
        raise InputError(
            f"no {noun[:-1]} occurs {recipe.least_count} times in the text; lower --min-count"
        )
    if cutter is None:
        text = replace(text, ids=seen_as(vocab)(text.ids))
    else:
        cutter = replace(
            cutter, alphabet=cutter.alphabet or len(set(chain.from_iterable(words[1:])))
        )
        text = word_lines(text, words, vocab, cutter.alphabet)
    train, held_out = hold_out(text, recipe.held_out)
    data = {
        "files": [{"file": printable_path(file), "sha256": sha256(file)} for file in files],
        "train": _counts(train),
        "held_out": _counts(held_out),
        "unknown": int(
            np.count_nonzero(text.ids == 0)
        ),  # symbols of both parts that the model does not know
    }
    if recipe.vectors is not None:
        vectors = {symbol: row for symbol, row in vectors.items() if symbol in vocab}
        if not vectors:
            raise InputError(
                "no vector of a symbol that the language model knows in it", recipe.vectors
            )
        named = {
            "file": printable_path(recipe.vectors),
            "sha256": sha256(recipe.vectors),
            "symbols": len(vectors),
        }
        data["vectors"] = named
        listen(
            {
                "event": "vectors",
                **named,
                "of": len(vocab),
                "width": sizes["embedding"],
                "notices": notices,
            }
        )
    settings = LanguageModelSettings(**sizes, dropout=recipe.dropout)
    return LanguageModelText(
        vocab, settings, train, held_out, start, data, digests, vectors, cutter
    )


def _vectors_to_start_from(recipe: Recipe, notices: list[str]) -> dict[str, Row]:
    if recipe.vectors is None:
        return {}
    if recipe.unit == "word":
        return known_vectors(recipe.vectors, fold, notices)
    none = (
        "no vector of a single character in it: expected a file of `pretrain vectors --unit char`"
    )
    return known_vectors(recipe.vectors, fold_digits, notices, lambda word: len(word) == 1, none)


def _read_symbols(
    files: Sequence[str | Path], cutter: Cutter | None, device: str, listen: Listener
) -> tuple[Lines, list[str]]:
    """The text as code points; or as places in a list of words, and that list."""

    def tell(done: int, size: int) -> None:
        listen({"event": "read", "done": done, "size": size})

    if cutter is None:
        return read_lines_of(files, tell), []
    return read_words_of(files, word_units(cutter, device), tell)


def _counts(lines: Lines) -> dict[str, int]:
    counts = {"lines": len(lines), "characters": lines.characters}
    return counts if lines.sizes is None else counts | {"words": int(lines.lengths.sum())}


def make_cutter(recipe: Recipe) -> Cutter | None:
    """What cuts the text that these options ask for."""
    if recipe.unit != "word":
        return None
    if recipe.lexicon is not None:
        return Cutter("lexicon", sha256(recipe.lexicon), str(recipe.lexicon))
    if recipe.model is not None:
        return Cutter("model", segmenter_version(recipe.model) or "", recipe.model)
    return Cutter(version=segmenter_version("rjieba") or "")


def word_units(cutter: Cutter, device: str = "cpu") -> Units:
    """The words of texts, as they were when the language model was trained."""
    if cutter.by != "model":
        return make_units(Unit.word, cutter.path or None)
    folder = find_model(cutter.path)
    if segmenter_version(cutter.path) != cutter.version:
        raise ModelError(
            f"{folder}: the language model's words were cut by another version of this segmentation model"
        )
    return make_units(Unit.word, model=folder, device=device)


def source_facts(source: LanguageModelText, recipe: Recipe, direction: str) -> dict[str, Any]:
    """What is known of a direction before it is trained."""
    base = None
    if recipe.start_from is not None:
        base = {"folder": printable_path(recipe.start_from), "sha256": source.digests[direction]}
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

    A stream has as many symbols as the others, so fewer than B symbols at the end of an epoch's
    order are left out. There must be B symbols or more: `read_source` refuses less text than one
    batch.
    """

    def __init__(self, lines: Lines, batch_size: int, device: torch.device) -> None:
        self.lines = lines
        self.batch_size = batch_size
        self.ids = torch.from_numpy(lines.ids).to(device)  # [N], int32; on a CPU no copy of them
        self.steps = lines.symbols // batch_size  # targets of one stream

    def epoch(self, seed: int, epoch: int) -> Tensor:
        """[B, steps + 1], int32: at each place the input, and one further on the target.

        Seed and epoch decide the order of the lines. The last target of a stream is the first input
        of the next.
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
