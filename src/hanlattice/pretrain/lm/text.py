"""Raw text as a language model reads it: paragraphs as one flat array of ids, each with a break after it.

A character is never looked at by itself: files come in blocks, and tables answer for whole arrays. No torch in here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hanlattice.data.raw import RawText
from hanlattice.errors import InputError
from hanlattice.pretrain.groups import groups
from hanlattice.text.normal import Codes, code_points, fold_digits
from hanlattice.training.corpora import even_steps

Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Progress = Callable[[int, int], None]  # bytes read, bytes in all

BREAK_ID = 1  # of models.language_model.BREAK
_BREAK_CODE = ord("\n")
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

    All ids are turned round at once, into one array. A line that was [s, e) lies at [N − e, N − s) then, and what
    follows it is the break that stood before it; before the first stood none, so that one is added.
    """
    ids, ends = parts[0].ids, [part.starts + part.lengths for part in parts]
    turned = np.append(ids[::-1], ids[np.concatenate(ends)[:1]])  # any line's own break
    return [Lines(turned, len(ids) - end, part.lengths) for part, end in zip(parts, ends, strict=True)]


def read_lines_of(files: Iterable[str | Path], listen: Progress = lambda done, size: None) -> Lines:
    """The lines of raw text that are not blank, as code points."""
    raw = RawText(files)
    codes = np.concatenate(list(_blocks(raw, listen)))
    return make_lines(codes)


def make_lines(codes: Codes) -> Lines:
    """Code points in which a line feed follows each line."""
    ends = np.flatnonzero(codes == _BREAK_CODE)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends + 1])[:-1]
    return Lines(codes, starts, ends - starts)


def _blocks(raw: RawText, listen: Progress) -> Iterator[Codes]:
    for lines in groups(raw, _BLOCK):  # of which there is one at least, since no file of raw text is blank
        yield code_points("\n".join([*lines, ""]))
        listen(raw.done, raw.size)


def hold_out(lines: Lines, share: float) -> tuple[Lines, Lines]:
    """(what stays, what is held out): this share of the lines at even steps, as taggers hold out sentences."""
    taken = np.array(even_steps(len(lines), share), dtype=bool)
    if not taken.any():
        raise InputError(f"--held-out {share} of {len(lines)} lines is not one line; take a larger share or more text")
    return lines.take(~taken), lines.take(taken)


def frequent(lines: Lines, min_count: int) -> list[str]:
    """The characters, as the model sees them, that come `min_count` times or more: the commonest first."""
    counts: Counter[str] = Counter()
    codes = np.bincount(_used(lines))
    codes[_BREAK_CODE : _BREAK_CODE + 1] = 0
    for code in np.flatnonzero(codes).tolist():
        counts[fold_digits(chr(code))] += int(codes[code])
    found = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [character for character, count in found if count >= min_count]


def _used(lines: Lines) -> Ids:
    """[symbols]: the ids of these lines and of their breaks, and of no others, by their places in the array."""
    edges = np.zeros(len(lines.ids) + 1, dtype=np.int8)
    edges[lines.starts] += 1  # a line begins
    edges[lines.starts + lines.lengths + 1] -= 1  # its break is over
    inside: npt.NDArray[np.bool_] = np.cumsum(edges[:-1], dtype=np.int8).astype(bool)
    return lines.ids[inside]
