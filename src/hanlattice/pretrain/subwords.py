"""Byte-pair encoding over characters: a lexicon of the pieces that text is made of, with how often each is used.

Merges stay inside a run of Han characters, of Latin letters, or of other letters; digits, signs and white space are
never part of a piece. Text is seen as the lexicon sees it (`fold`).
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

from hanlattice.data.raw import RawText
from hanlattice.errors import InputError
from hanlattice.events import Listener, ignore
from hanlattice.extras import extra, peak_memory, versions
from hanlattice.files import keep_first, shown, writing
from hanlattice.pretrain.kinds import LARGEST_COUNT, LONGEST_PIECE, MOST_PIECES
from hanlattice.pretrain.outputs import Outputs
from hanlattice.pretrain.sentences import Progress
from hanlattice.pretrain.units import BPE_SUFFIX, bpe_pieces
from hanlattice.text.normal import fold

SUFFIXES = (".txt", BPE_SUFFIX, ".json")
UNKNOWN = "\ufffd"  # stands for a character that the training text has none of
_RUNS = r"\p{Han}+|\p{Latin}+|[\p{L}\p{M}&&[^\p{Han}\p{Latin}]]+|(?m:.)"
_RANGES = {"size": (1, MOST_PIECES), "longest": (2, LONGEST_PIECE), "min_count": (1, LARGEST_COUNT)}


@dataclass(frozen=True)
class Settings:
    """At most `size` pieces, each of two to `longest` characters; a merge must come up `min_count` times."""

    size: int = 20_000
    longest: int = 4
    min_count: int = 5

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise InputError(f"{name} must be from {least} to {most:,}, not {getattr(self, name)}")


def train_subwords(
    files: tuple[Path, ...], out: str | Path, settings: Settings, *, parallel: bool = False, listen: Listener = ignore
) -> dict[str, Any]:
    """Write OUT.txt (the lexicon), OUT.bpe.json (what cuts text) and OUT.json, which is what this returns.

    `parallel` takes all cores and gives the same.
    """
    extra("tokenizers")  # told before any work begins
    outputs, start = Outputs(out, SUFFIXES), time.perf_counter()
    outputs.check(files, "longest")
    text = Progress(RawText(files), listen)
    outputs.make_folder()
    with _cores(parallel):
        tokenizer = _merged(text, _alphabet(text), settings, listen)
        counts = _used(tokenizer, text)
    pieces = _pieces(counts, settings)
    record = {
        "settings": asdict(settings),
        "files": [shown(path) for path in files],
        **_figures(tokenizer, counts, pieces),
        "seconds": round(time.perf_counter() - start, 1),
        "peak_memory": peak_memory(),
        "parallel": parallel,
        "versions": versions("tokenizers"),
    }
    _write(outputs, tokenizer, pieces, record)
    return record


def _alphabet(text: Progress) -> int:
    """How many different characters there are, white space left out, with UNKNOWN."""
    alphabet = {UNKNOWN}
    for line in text:
        alphabet.update(fold(line))
    return sum(not character.isspace() for character in alphabet)


def _pieces(counts: Counter[str], settings: Settings) -> dict[str, int]:
    """The pieces of two characters or more, the commonest first, equal ones by code point."""
    found = sorted((piece for piece in counts if len(piece) > 1), key=lambda piece: (-counts[piece], piece))
    if not found:
        message = f"the text is too small: no two characters stand side by side {settings.min_count} times"
        raise InputError(f"{message}; lower --min-count or give more text")
    return {piece: counts[piece] for piece in found}


def _figures(tokenizer: Any, counts: Counter[str], pieces: dict[str, int]) -> dict[str, int]:
    return {
        "pieces": len(pieces),
        "unused": sum(len(piece) > 1 for piece in tokenizer.get_vocab()) - len(pieces),
        "characters": sum(len(piece) * count for piece, count in counts.items()),
        "used": counts.total(),
    }


def _merged(text: Progress, alphabet: int, settings: Settings, listen: Listener) -> Any:
    """The BPE model. tokenizers counts the characters themselves in its size, and stops one short of its longest."""
    tokenizers, splits = extra("tokenizers"), extra("tokenizers", "pre_tokenizers")
    tokenizer = tokenizers.Tokenizer(extra("tokenizers", "models").BPE(unk_token=UNKNOWN))
    runs = splits.Split(tokenizers.Regex(_RUNS), "isolated")
    tokenizer.pre_tokenizer = splits.Sequence([splits.Split(" ", "removed"), runs])
    trainer = extra("tokenizers", "trainers").BpeTrainer(
        vocab_size=settings.size + alphabet,
        min_frequency=settings.min_count,
        max_token_length=settings.longest + 1,
        special_tokens=[UNKNOWN],
        show_progress=False,
    )
    tokenizer.train_from_iterator(_spaced(text, listen), trainer)
    return tokenizer


def _spaced(text: Progress, listen: Listener) -> Iterator[str]:
    for line in text:
        yield " ".join(fold(line).split())
    listen({"event": "merging"})


def _used(tokenizer: Any, text: Progress) -> Counter[str]:
    """How often the model's own cut of the text uses each piece."""
    counts = Counter[str]()
    for pieces in bpe_pieces(tokenizer, text):
        counts.update(pieces)
    return counts


@contextlib.contextmanager
def _cores(all_of_them: bool) -> Iterator[None]:
    """tokenizers takes all cores or one, by this variable of the environment."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "true" if all_of_them else "false"
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _write(outputs: Outputs, tokenizer: Any, pieces: dict[str, int], record: dict[str, Any]) -> None:
    """The lexicon comes last: where it is, its BPE model is."""
    with writing(outputs[BPE_SUFFIX]) as file:
        file.write(tokenizer.to_str(pretty=True))
    outputs.write_record(record)
    with writing(outputs[".txt"]) as file:
        file.write(keep_first("".join(f"{piece}\t{count}\n" for piece, count in pieces.items())))
