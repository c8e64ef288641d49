"""What a language model reads: raw text as one flat array of ids, and the streams of an epoch."""

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
# Called with bytes read, bytes in all.
ReadListener = Callable[[int, int], None]

# The id of `BREAK`.
BREAK_ID = 1
_BREAK_CODE = ord("\n")
# Characters that are turned into numbers at a time.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Lines:
    """Paragraph i is ids[starts[i] : starts[i] + lengths[i]], and the id after it is a break.

    `ids` is [N]: code points, or numbers of words, until there is a vocabulary. The others are [L].
    Where the ids are words, `sizes` counts their characters, and `spelling` is how many bits it
    takes to spell the unknown ones.
    """

    ids: Ids
    starts: Ints
    lengths: Ints
    sizes: Ints | None = None
    spelling: Floats | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def symbols(self) -> int:
        """Return how many symbols a model predicts; the break after each line is one."""
        return int(self.lengths.sum()) + len(self)

    @property
    def characters(self) -> int:
        """Return the characters of all lines, without breaks, or white space between words."""
        return int((self.lengths if self.sizes is None else self.sizes).sum())

    @property
    def unknown(self) -> int:
        """Return how many symbols the model does not know."""
        return int(np.count_nonzero(used_ids(self) == 0))

    def take(self, which: npt.NDArray[np.bool_] | Ints) -> Lines:
        """Return some of the lines; the array of ids is shared."""
        part = Lines(self.ids, self.starts[which], self.lengths[which])
        if self.sizes is None or self.spelling is None:
            return part
        return replace(part, sizes=self.sizes[which], spelling=self.spelling[which])

    def mirrored(self) -> Lines:
        """Return the same lines in the same order, each from its last symbol to its first."""
        return mirrored(self)[0]


def mirrored(*parts: Lines) -> list[Lines]:
    """Turn round each line of parts that share an array of ids.

    All ids are reversed together, into one array. A line that was [s, e) then lies at [N − e, N −
    s), and what follows it is the break that was before it; there was none before the first, so one
    is added.
    """
    ids = parts[0].ids
    ends = [part.starts + part.lengths for part in parts]
    # Any line's own break.
    turned = np.append(ids[::-1], ids[np.concatenate(ends)[:1]])
    pairs = zip(parts, ends, strict=True)
    return [replace(part, ids=turned, starts=len(ids) - end) for part, end in pairs]


def read_lines_of(
    files: Iterable[str | Path], listen: ReadListener = lambda done, size: None
) -> Lines:
    """Read the lines of raw text that are not blank, as code points."""
    raw = RawText(files)
    blocks = []
    # There is one at least, since no file of raw text is blank.
    for lines in groups(raw, _BLOCK):
        blocks.append(code_points("\n".join([*lines, ""])))
        listen(raw.done, raw.size)
    return make_lines(np.concatenate(blocks))


def read_words_of(
    files: Iterable[str | Path], units: Units, listen: ReadListener = lambda done, size: None
) -> tuple[Lines, list[str]]:
    """Read the words of the lines, as places in a list, and that list.

    The list has a break, then the words as they first come.
    """
    raw = RawText(files)
    places = {BREAK: 0}
    blocks = []
    for lists in groups(units(part for line in raw for part in split_line(line)), _BLOCK):
        blocks.append(_number(filter(None, lists), places))
        listen(raw.done, raw.size)
    return make_lines(np.concatenate(blocks), 0), list(places)


def _number(lists: Iterable[Sequence[str]], places: dict[str, int]) -> Ids:
    """Return the places of words and of a break after each list; new words get new places."""
    ids = array("i")
    for words in lists:
        ids.extend([places.setdefault(word, len(places)) for word in words])
        ids.append(places[BREAK])
    return np.array(ids, dtype=np.int32)


def word_lines(lines: Lines, words: Sequence[str], vocab: Vocab, alphabet: int) -> Lines:
    """Turn lines of places in `words` into lines of ids.

    An unknown word is spelt: each of its characters, and its end, is one of the `alphabet` and an
    end, all equally probable.
    """
    ids = np.array(vocab.ids(words), dtype=np.int32)
    lengths = np.array([0, *map(len, words[1:])], dtype=np.int64)
    sums = []
    for values in (lengths, np.where(ids == 0, lengths + 1, 0)):
        # Sums over each line, as differences of sums over all ids.
        before = np.append(0, np.cumsum(values[lines.ids]))
        sums.append(before[lines.starts + lines.lengths] - before[lines.starts])
    sizes, spelt = (np.asarray(values, dtype=np.int64) for values in sums)
    spelling = spelt * np.float64(math.log2(alphabet + 1))
    return replace(lines, ids=ids[lines.ids], sizes=sizes, spelling=spelling)


def text_lines(model: LanguageModel, texts: Sequence[Sequence[str]]) -> Lines:
    """Return texts of one line each as the model's ids; for a model of words, texts are lists."""
    if model.cutter is None:
        codes = make_lines(code_points("".join(f"{text}\n" for text in texts)))
        return replace(codes, ids=seen_as(model.vocab)(codes.ids))
    places = {BREAK: 0}
    lines = make_lines(_number(texts, places), 0)
    return word_lines(lines, list(places), model.vocab, model.cutter.alphabet)


def make_lines(codes: Codes, end: int = _BREAK_CODE) -> Lines:
    """Return the lines of code points, or other numbers, in which `end` follows each line."""
    ends = np.flatnonzero(codes == end)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends + 1])[:-1]
    return Lines(codes, starts, ends - starts)


def hold_out(lines: Lines, share: float) -> tuple[Lines, Lines]:
    """Return (the rest, this share of the lines at even steps), as taggers hold out sentences."""
    taken = np.array(even_steps(len(lines), share), dtype=bool)
    if not taken.any():
        problem = f"--held-out {share} of {len(lines)} lines is not one line"
        raise InputError(f"{problem}; take a larger share or more text")
    return lines.take(~taken), lines.take(taken)


def seen_character(code: int) -> str:
    return fold_digits(chr(code))


def frequent(
    lines: Lines,
    min_count: int,
    seen: Callable[[int], str] = seen_character,
    most: int | None = None,
) -> list[str]:
    """Return the symbols that occur `min_count` times, most frequent first, at most `most`."""
    counts: Counter[str] = Counter()
    codes = np.bincount(used_ids(lines))
    for code in np.flatnonzero(codes).tolist():
        counts[seen(code)] += int(codes[code])
    del counts[BREAK]
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [symbol for symbol, count in ranked if count >= min_count][:most]


def used_ids(lines: Lines) -> Ids:
    """Return the ids of these lines and of their breaks, [symbols], and no others."""
    # +1 where a line begins, −1 where its break is over.
    edges = np.zeros(len(lines.ids) + 1, dtype=np.int8)
    edges[lines.starts] += 1
    edges[lines.starts + lines.lengths + 1] -= 1
    inside: npt.NDArray[np.bool_] = np.cumsum(edges[:-1], dtype=np.int8).astype(bool)
    return lines.ids[inside]


@dataclass(frozen=True)
class LanguageModelText:
    """The text to train on, and what the training starts from.

    `data` says where the text came from. `start`, `digests` of its weights by direction, and
    `vectors` by symbol are what to start from. Without a `cutter` of words, symbols are characters.
    """

    vocab: Vocab
    settings: LanguageModelSettings
    train: Lines
    held_out: Lines
    start: LanguageModel | None
    data: dict[str, Any]
    digests: dict[str, str]
    vectors: Mapping[str, Row]
    cutter: Cutter | None

    def lines(self, direction: str) -> tuple[Lines, Lines]:
        """Return (to train on, held out), as this direction reads them."""
        if direction == "forward":
            return self.train, self.held_out
        train, held_out = mirrored(self.train, self.held_out)
        return train, held_out

    def identity(self, recipe: Recipe, direction: str) -> str:
        """Return a checksum of options and content, which a resumed run must share."""
        read = [file["sha256"] for file in self.data["files"]], self.digests.get(direction)
        # The content counts, not its place.
        options = {**recipe.decisive(), "start_from": None}
        if recipe.vectors is not None:
            options["vectors"] = self.data["vectors"]["sha256"]
        if self.cutter is not None:
            cutter = [self.cutter.by, self.cutter.version]
            options |= {"lexicon": None, "model": None, "cutter": cutter}
        content = json.dumps([options, direction, read], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


def read_source(
    recipe: Recipe, files: Sequence[str | Path], directions: Sequence[str], listen: Listener
) -> LanguageModelText:
    """Read everything; text that is too small for one batch is an InputError."""
    start = None
    digests = {}
    if recipe.start_from is not None:
        start = load_language_model(recipe.start_from, directions=directions)
        digests = {name: sha256(recipe.start_from / weights_file(name)) for name in directions}
    cutter = start.cutter if start else make_cutter(recipe)
    notices: list[str] = []
    vectors = _vectors_to_start_from(recipe, notices)
    fixed = {"embedding": len(next(iter(vectors.values())))} if vectors else {}
    if start is not None:
        fixed = {name: getattr(start.settings, name) for name in SIZES}
    sizes = recipe.sizes(fixed)

    def tell(done: int, size: int) -> None:
        listen({"event": "read", "done": done, "size": size})

    # Code points, or places in a list of words.
    words: list[str] = []
    if cutter is None:
        text = read_lines_of(files, tell)
    else:
        text, words = read_words_of(files, word_units(cutter, recipe.device), tell)
    train, held_out = hold_out(text, recipe.held_out)
    needed = recipe.batch_size * recipe.length
    noun = "characters" if cutter is None else "words"
    if train.symbols < needed:
        raise InputError(
            f"there are {train.symbols:,} {noun} to train on, line ends counted, and one batch of "
            f"--batch-size {recipe.batch_size} × --length {recipe.length} takes {needed:,}; "
            "lower one of them"
        )
    if start:
        vocab = start.vocab
    else:
        seen = words.__getitem__ if words else seen_character
        vocab = make_vocab(frequent(train, recipe.least_count, seen, recipe.most))
    # A break and an unknown symbol are in every vocabulary.
    if len(vocab) <= BREAK_ID + 1:
        problem = f"no {noun[:-1]} occurs {recipe.least_count} times in the text"
        raise InputError(f"{problem}; lower --min-count")
    if cutter is None:
        text = replace(text, ids=seen_as(vocab)(text.ids))
    else:
        alphabet = cutter.alphabet or len(set(chain.from_iterable(words[1:])))
        cutter = replace(cutter, alphabet=alphabet)
        text = word_lines(text, words, vocab, alphabet)
    train, held_out = hold_out(text, recipe.held_out)
    data: dict[str, Any] = {
        "files": [{"file": printable_path(file), "sha256": sha256(file)} for file in files],
        "train": _counts(train),
        "held_out": _counts(held_out),
        # Symbols of both parts that the model does not know.
        "unknown": int(np.count_nonzero(text.ids == 0)),
    }
    if recipe.vectors is not None:
        vectors = {symbol: row for symbol, row in vectors.items() if symbol in vocab}
        if not vectors:
            problem = "no vector of a symbol that the language model knows in it"
            raise InputError(problem, recipe.vectors)
        file = {"file": printable_path(recipe.vectors), "sha256": sha256(recipe.vectors)}
        data["vectors"] = {**file, "symbols": len(vectors)}
        event = {"of": len(vocab), "width": sizes["embedding"], "notices": notices}
        listen({"event": "vectors", **data["vectors"], **event})
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


def _counts(lines: Lines) -> dict[str, int]:
    counts = {"lines": len(lines), "characters": lines.characters}
    return counts if lines.sizes is None else counts | {"words": int(lines.lengths.sum())}


def make_cutter(recipe: Recipe) -> Cutter | None:
    """Return what cuts the text into words, or None for characters."""
    if recipe.unit != "word":
        return None
    if recipe.lexicon is not None:
        return Cutter("lexicon", sha256(recipe.lexicon), str(recipe.lexicon))
    if recipe.model is not None:
        return Cutter("model", segmenter_version(recipe.model) or "", recipe.model)
    return Cutter(version=segmenter_version("rjieba") or "")


def word_units(cutter: Cutter, device: str = "cpu") -> Units:
    """Return the words of texts, cut as they were when the language model was trained."""
    if cutter.by != "model":
        return make_units(Unit.word, cutter.path or None)
    folder = find_model(cutter.path)
    if segmenter_version(cutter.path) != cutter.version:
        problem = "the language model's words were cut by another version of this"
        raise ModelError(f"{folder}: {problem} segmentation model")
    return make_units(Unit.word, model=folder, device=device)


def source_facts(source: LanguageModelText, recipe: Recipe, direction: str) -> dict[str, Any]:
    """Return what is known of a direction before it is trained."""
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
        # [N], int32; on a CPU they are not copied.
        self.ids = torch.from_numpy(lines.ids).to(device)
        # Targets of one stream.
        self.steps = lines.symbols // batch_size

    def epoch(self, seed: int, epoch: int) -> Tensor:
        """Return the streams, [B, steps + 1], int32: each symbol is an input, the next its target.

        Seed and epoch decide the order of the lines. The last target of a stream is the first input
        of the next.
        """
        order = np.random.default_rng([seed, epoch]).permutation(len(self.lines))
        device = self.ids.device
        starts = torch.from_numpy(self.lines.starts[order]).to(device)
        # A break, then line after line, each with its break.
        sizes = torch.from_numpy(self.lines.lengths[order]).to(device) + 1
        before = sizes.cumsum(0) - sizes
        places = (starts - before).repeat_interleave(sizes)
        places += torch.arange(len(places), device=device)
        first = torch.full((1,), BREAK_ID, dtype=self.ids.dtype, device=device)
        text = torch.cat([first, self.ids[places]])[: self.steps * self.batch_size + 1]
        return text.unfold(0, self.steps + 1, self.steps).contiguous()
