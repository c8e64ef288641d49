"""What gets a vector: characters, bigrams, words or subwords. Each takes lines and gives the units of each line.

Text is seen as the tagger sees it: characters and bigrams as the character embedding does (`fold_digits`), words and
subwords as the lexicon does (`fold`). White space is never a unit, nor part of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from hanlattice.data.segmented import LABEL
from hanlattice.errors import InputError
from hanlattice.extras import extra
from hanlattice.files import opening
from hanlattice.predict import Document, Predictor, load
from hanlattice.pretrain.groups import groups
from hanlattice.pretrain.kinds import Unit
from hanlattice.pretrain.paths import BestPath
from hanlattice.text.normal import fold, fold_digits
from hanlattice.text.vocab import bigrams

BPE_SUFFIX = ".bpe.json"
_BATCH = 1 << 16  # characters that a tokeniser is given at a time


class Units(Protocol):
    """`slow` ones are worth keeping on disk after the first pass."""

    slow: bool

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]: ...


class Characters:
    slow = False

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        for line in lines:
            yield list("".join(fold_digits(line).split()))


class Bigrams:
    slow = False

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        return map(bigrams, lines)


class JiebaWords:
    slow = False

    def __init__(self) -> None:
        self._cut = extra("rjieba").cut

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        for line in lines:
            yield [word for run in fold(line).split() for word in self._cut(run)]


class LexiconWords:
    """The likeliest path through a lexicon's words; see `BestPath`."""

    slow = True

    def __init__(self, path: str | Path) -> None:
        self._path = BestPath.load(path)

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        for line in lines:
            yield self._path.words(" ".join(fold(line).split()))


class ModelWords:
    """The words that a segmentation model finds; a character outside of them is a word by itself."""

    slow = True

    def __init__(self, folder: str | Path, device: str = "cpu") -> None:
        self._predictor: Predictor = load(folder, device)
        labels = self._predictor.model.indexer.tag_ids.labels
        if tuple(labels) != (LABEL,):
            message = f"its spans are {', '.join(labels)}: expected a segmentation model, whose only label is {LABEL}"
            raise InputError(message, folder)

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        return map(words_and_gaps, self._predictor.pipe(lines))


def words_and_gaps(document: Document) -> list[str]:
    """The spans as words, and each character between them as one, in the text's order."""
    text, at = fold(document.text), 0
    words: list[str] = []
    for span in document.spans:
        words += [*text[at : span.start], text[span.start : span.end]]
        at = span.end
    words += text[at:]
    return [part for word in words for part in word.split()]


class Subwords:
    """The pieces of the BPE model that `pretrain subwords` wrote beside the lexicon."""

    slow = True

    def __init__(self, lexicon: str | Path) -> None:
        path = bpe_path(lexicon)
        if not path.is_file():
            message = f"there is no {path.name} beside it: expected a lexicon that `pretrain subwords` has written"
            raise InputError(message, lexicon)
        self._tokenizer = read_tokenizer(path)

    def __call__(self, lines: Iterable[str]) -> Iterator[list[str]]:
        return bpe_pieces(self._tokenizer, lines)


def bpe_path(lexicon: str | Path) -> Path:
    """subwords.txt → subwords.bpe.json"""
    return Path(lexicon).with_suffix(BPE_SUFFIX)


def read_tokenizer(path: Path) -> Any:
    tokenizers = extra("tokenizers")
    with opening(path) as file:
        content = file.read()
    try:
        return tokenizers.Tokenizer.from_str(content.decode("utf-8"))
    except Exception as error:  # tokenizers raises the plain class
        raise InputError(f"not a BPE model that tokenizers can read ({error})", path) from None


def bpe_pieces(tokenizer: Any, lines: Iterable[str]) -> Iterator[list[str]]:
    """The pieces of each line, by their place in it, so that an unknown character stays what it is."""
    texts = (" ".join(fold(line).split()) for line in lines)
    for batch in groups(texts, _BATCH):
        for text, encoding in zip(batch, tokenizer.encode_batch(batch), strict=True):
            yield [text[start:end] for start, end in encoding.offsets]


def make_units(
    unit: Unit, lexicon: str | Path | None = None, model: str | Path | None = None, device: str | None = None
) -> Units:
    """What the user asked for; an option that this unit has no use for is an InputError."""
    if model and (unit is not Unit.word or lexicon):
        raise InputError("--model cuts text into words: it goes with --unit word, and without --lexicon")
    if device and not model:
        raise InputError("--device is where --model runs: it goes with --model, and does nothing without it")
    if lexicon and unit in (Unit.char, Unit.bichar):
        raise InputError(f"--lexicon is for --unit word and --unit subword, not {unit}")
    if unit is Unit.subword:
        if not lexicon:
            raise InputError("--unit subword needs --lexicon: the lexicon that `hanlattice pretrain subwords` wrote")
        return Subwords(lexicon)
    if unit is Unit.word:
        return ModelWords(model, device or "cpu") if model else LexiconWords(lexicon) if lexicon else JiebaWords()
    return Characters() if unit is Unit.char else Bigrams()
