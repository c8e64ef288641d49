"""Byte-pair encoding over characters: a lexicon of the pieces of text, with their frequencies.

Merges stay inside a run of Han characters, of Latin letters, or of other letters; digits,
punctuation and white space are never part of a piece. Text is seen as the lexicon sees it (`fold`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hanlattice.data.formats.raw import RawText
from hanlattice.errors import InputError
from hanlattice.events import Listener, ignore
from hanlattice.files import atomic_write, keep_first, printable_path
from hanlattice.lab.pretrain.outputs import Outputs
from hanlattice.lab.pretrain.units import BPE_SUFFIX, LARGEST_COUNT, TrackedText, bpe_pieces
from hanlattice.optional import peak_memory, require, versions
from hanlattice.text.normalize import fold

SUFFIXES = (".txt", BPE_SUFFIX, ".json")
MOST_PIECES = 10_000_000
LONGEST_PIECE = 100
# Stands for a character that does not occur in the training text.
UNKNOWN = "\ufffd"
_RUNS = r"\p{Han}+|\p{Latin}+|[\p{L}\p{M}&&[^\p{Han}\p{Latin}]]+|(?m:.)"
_RANGES = {"size": (1, MOST_PIECES), "longest": (2, LONGEST_PIECE), "min_count": (1, LARGEST_COUNT)}


@dataclass(frozen=True)
class SubwordSettings:
    """At most `size` pieces of 2 to `longest` characters; a merge occurs `min_count` times."""

    size: int = 20_000
    longest: int = 4
    min_count: int = 5

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise InputError(f"{name} must be from {least} to {most:,}, not {value}")


def train_subwords(
    files: tuple[Path, ...],
    out: str | Path,
    settings: SubwordSettings,
    *,
    parallel: bool = False,
    listen: Listener = ignore,
) -> dict[str, Any]:
    """Write OUT.txt (the lexicon), OUT.bpe.json (the BPE model) and OUT.json, and return the last.

    `parallel` uses all cores; the result is the same.
    """
    # If it is missing, say so before any work.
    require("tokenizers")
    outputs = Outputs(out, SUFFIXES)
    start = time.perf_counter()
    outputs.check(files, "longest")
    text = TrackedText(RawText(files), listen)
    outputs.make_folder()
    with _cores(parallel):
        alphabet = {UNKNOWN}
        for line in text:
            alphabet.update(fold(line))
        characters = sum(not character.isspace() for character in alphabet)
        tokenizer = _train_tokenizer(text, characters, settings, listen)
        counts = Counter(piece for pieces in bpe_pieces(tokenizer, text) for piece in pieces)
    # The most frequent first, equal ones by code point.
    longer = (piece for piece in counts if len(piece) > 1)
    pieces = sorted(longer, key=lambda piece: (-counts[piece], piece))
    if not pieces:
        message = f"the text is too small: no pair of characters occurs {settings.min_count} times"
        raise InputError(f"{message}; lower --min-count or give more text")
    record = {
        "settings": asdict(settings),
        "files": [printable_path(path) for path in files],
        "pieces": len(pieces),
        "unused": sum(len(piece) > 1 for piece in tokenizer.get_vocab()) - len(pieces),
        "characters": sum(len(piece) * count for piece, count in counts.items()),
        "used": counts.total(),
        "seconds": round(time.perf_counter() - start, 1),
        "peak_memory": peak_memory(),
        "parallel": parallel,
        "versions": versions("tokenizers"),
    }
    # The first: the next run knows by it that the other files may be replaced.
    outputs.write_record(record)
    with atomic_write(outputs[BPE_SUFFIX]) as file:
        file.write(tokenizer.to_str(pretty=True))
    # The last: where the lexicon exists, so does its BPE model.
    with atomic_write(outputs[".txt"]) as file:
        file.write(keep_first("".join(f"{piece}\t{counts[piece]}\n" for piece in pieces)))
    return record


def _train_tokenizer(
    text: TrackedText, characters: int, settings: SubwordSettings, listen: Listener
) -> Any:
    def spaced() -> Iterator[str]:
        for line in text:
            yield " ".join(fold(line).split())
        listen({"event": "merging"})

    tokenizers = require("tokenizers")
    splits = require("tokenizers", "pre_tokenizers")
    tokenizer = tokenizers.Tokenizer(require("tokenizers", "models").BPE(unk_token=UNKNOWN))
    runs = splits.Split(tokenizers.Regex(_RUNS), "isolated")
    tokenizer.pre_tokenizer = splits.Sequence([splits.Split(" ", "removed"), runs])
    # tokenizers counts single characters in its size, and no piece reaches its maximum length.
    trainer = require("tokenizers", "trainers").BpeTrainer(
        vocab_size=settings.size + characters,
        min_frequency=settings.min_count,
        max_token_length=settings.longest + 1,
        special_tokens=[UNKNOWN],
        show_progress=False,
    )
    tokenizer.train_from_iterator(spaced(), trainer)
    return tokenizer


@contextlib.contextmanager
def _cores(all_of_them: bool) -> Iterator[None]:
    """Set the environment variable by which tokenizers uses all cores or one."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "true" if all_of_them else "false"
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
