"""Read a corpus in any of the three formats, and hold out a share of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from hanlattice.data.columns import read_columns
from hanlattice.data.jsonl import read_jsonl
from hanlattice.data.segmented import read_segmented
from hanlattice.errors import InputError
from hanlattice.text.sentence import Corpus, Sentence, check_words

__all__ = ["FORMATS", "Corpus", "even_steps", "hold_out", "read_corpus", "suffix_format"]

FORMATS = ("columns", "segmented", "jsonl")
_BY_SUFFIX = {".jsonl": "jsonl", ".json": "jsonl", ".seg": "segmented", ".segmented": "segmented"}
_BY_SUFFIX |= dict.fromkeys((".bmes", ".bio", ".bioes", ".iob", ".conll"), "columns")


def suffix_format(path: str | Path) -> str | None:
    """The corpus format of a file's suffix, if it has one."""
    return _BY_SUFFIX.get(Path(path).suffix.lower())


def read_corpus(
    path: str | Path,
    *,
    format: str = "auto",
    scheme: str = "auto",
    otherwise: str = "columns",
    learn: str = "spans",
    encoding: str | None = None,
) -> Corpus:
    """Read `path`; with format 'auto' its suffix decides, or, for a suffix without a format such as .txt, `otherwise`.

    `scheme` is for columns only: BIO, BMES, BIOES or IOB1, or 'auto' to find it from all the tags of the file. With
    `learn` 'words' the spans of a sentence are its gold words, whose labels are parts of speech. `encoding` is that of
    `files.read_lines`.
    """
    path = Path(path)
    chosen = (suffix_format(path) or otherwise) if format == "auto" else format
    if chosen not in FORMATS:
        raise InputError(f"no corpus format is called {format!r}: expected auto, {', '.join(FORMATS)}")
    others = {"segmented": read_segmented, "jsonl": read_jsonl}
    corpus = others[chosen](path, encoding) if chosen in others else read_columns(path, scheme, encoding)
    if not corpus.sentences:
        raise InputError(f"the corpus is empty: no sentence was found, read as {chosen}", path)
    return _learning_words(corpus, path) if learn == "words" else corpus


def _learning_words(corpus: Corpus, path: Path) -> Corpus:
    """The words of each sentence as its spans; those of segmented lines are already."""
    sentences = []
    for number, sentence in enumerate(corpus.sentences, start=1):
        words = sentence.words or sentence.spans or ()
        try:
            check_words(words, len(sentence))
        except ValueError as error:
            message = f"words are to be learnt, and sentence {number} is not cut into words: {error}"
            raise InputError(f"{message}; docs/formats.md says how a corpus has words", path) from None
        sentences.append(replace(sentence, spans=words))
    return replace(corpus, sentences=tuple(sentences), tags=None, scheme=None)


def hold_out(
    sentences: Sequence[Sentence], share: float, where: str = "all"
) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
    """(the rest, what is held out): exactly this share, rounded down, the same every time.

    It is taken at even steps, or from the "end", where neighbours are of one document: the two then share fewer names.
    """
    taken = even_steps(len(sentences), share)
    if where == "end":
        taken.sort()
    stay = tuple(sentence for sentence, out in zip(sentences, taken, strict=True) if not out)
    return stay, tuple(sentence for sentence, out in zip(sentences, taken, strict=True) if out)


def even_steps(count: int, share: float) -> list[bool]:
    """For each of `count` items whether it is held out: this share, rounded down, at even steps."""
    up, down = Fraction(str(share)).as_integer_ratio()  # whole numbers: 0.29 × 100 would be 28.99… as a float
    return [(at + 1) * up // down > at * up // down for at in range(count)]
