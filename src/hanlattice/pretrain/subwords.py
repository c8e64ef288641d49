"""Byte-pair encoding over characters: a lexicon of the pieces that text is made of, with how often each is used.

Merges stay inside a run of Han characters, of Latin letters, or of other letters; digits, signs and white space are
never part of a piece. Text is seen as the lexicon sees it (`fold`).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hanlattice.data.raw import RawText
from hanlattice.errors import InputError, OutputError
from hanlattice.files import keep_first, writing
from hanlattice.pretrain.extras import extra, peak_memory, versions
from hanlattice.pretrain.sentences import Progress
from hanlattice.pretrain.units import BPE_SUFFIX, bpe_pieces
from hanlattice.text.normal import fold
from hanlattice.training.log import Listener, ignore

UNKNOWN = "\ufffd"  # stands for a character that the training text has none of
_RUNS = r"\p{Han}+|\p{Latin}+|[\p{L}\p{M}&&[^\p{Han}\p{Latin}]]+|(?m:.)"
_SUFFIXES = (".txt", ".json")


@dataclass(frozen=True)
class Settings:
    """At most `size` pieces, each of two to `longest` characters; a merge must come up `min_count` times."""

    size: int = 20_000
    longest: int = 4
    min_count: int = 5

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("longest", 2), ("min_count", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be {least} or more, not {getattr(self, name)}")


def train_subwords(
    files: tuple[Path, ...], out: str | Path, settings: Settings, *, threads: int = 1, listen: Listener = ignore
) -> dict[str, Any]:
    """Write OUT.txt (the lexicon), OUT.bpe.json (what cuts text) and OUT.json, which is what this returns."""
    extra("tokenizers")  # told before any work begins
    stem, start = lexicon_stem(out), time.perf_counter()
    text = Progress(RawText(files), listen)
    alphabet = {UNKNOWN}
    for line in text:
        alphabet.update(fold(line))
    with _threads(threads):
        tokenizer = _merged(text, sum(not character.isspace() for character in alphabet), settings, listen)
        counts = _used(tokenizer, text)
    pieces = sorted((piece for piece in counts if len(piece) > 1), key=lambda piece: (-counts[piece], piece))
    if not pieces:
        message = f"the text is too small: no two characters stand side by side {settings.min_count} times"
        raise InputError(f"{message}; lower --min-count or give more text")
    merges = sum(len(piece) > 1 for piece in tokenizer.get_vocab())
    record = {
        "settings": asdict(settings),
        "files": [str(path) for path in files],
        "pieces": len(pieces),
        "unused": merges - len(pieces),
        "characters": sum(len(piece) * count for piece, count in counts.items()),
        "used": counts.total(),
        "seconds": round(time.perf_counter() - start, 1),
        "peak_memory": peak_memory(),
        "threads": threads,
        "versions": versions("tokenizers"),
    }
    _write(stem, tokenizer, [(piece, counts[piece]) for piece in pieces], record)
    return record


def lexicon_stem(out: str | Path) -> Path:
    """The path that gets .txt, .bpe.json and .json: `out`, less such a suffix if the user wrote one."""
    path = Path(out)
    if path.is_dir():
        raise OutputError(f"{path} is a folder: --out names the files in it, as in {path / 'subwords'}")
    return path.with_suffix("") if path.suffix in _SUFFIXES else path


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
def _threads(count: int) -> Iterator[None]:
    """tokenizers takes all cores or one, by this variable of the environment."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "true" if count > 1 else "false"
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _write(stem: Path, tokenizer: Any, pieces: list[tuple[str, int]], record: dict[str, Any]) -> None:
    """The lexicon comes last: where it is, its BPE model is."""
    contents = {
        BPE_SUFFIX: tokenizer.to_str(pretty=True),
        ".json": json.dumps(record, ensure_ascii=False, indent=2) + "\n",
        ".txt": keep_first("".join(f"{piece}\t{count}\n" for piece, count in pieces)),
    }
    for suffix, content in contents.items():
        with writing(stem.with_name(stem.name + suffix)) as file:
            file.write(content)
