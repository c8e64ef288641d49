"""Read a corpus in any of the formats, write one, and hold out a share of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from hanlattice.data.formats.columns import read_columns, write_columns
from hanlattice.data.formats.conllu import read_conllu
from hanlattice.data.formats.docbin import read_docbin, write_docbin
from hanlattice.data.formats.jsonl import read_jsonl, write_jsonl
from hanlattice.data.formats.label_studio import read_label_studio
from hanlattice.data.formats.segmented import read_segmented, write_segmented
from hanlattice.errors import InputError
from hanlattice.files import opening
from hanlattice.text.sentence import Corpus, Sentence, check_words

__all__ = [
    "FORMATS",
    "WRITABLE",
    "Corpus",
    "check_writable",
    "even_steps",
    "hold_out",
    "read_corpus",
    "suffix_format",
    "write_corpus",
]

_READERS: dict[str, Callable[[Path, str | None], Corpus]] = {
    "segmented": read_segmented,
    "jsonl": read_jsonl,
    "conllu": read_conllu,
    "label-studio": lambda path, _: read_label_studio(
        path
    ),  # these tools write UTF-8 and nothing else
    "spacy": lambda path, _: read_docbin(path),
}
FORMATS = ("columns", *_READERS)
_BY_SUFFIX = {".jsonl": "jsonl", ".json": "jsonl", ".seg": "segmented", ".segmented": "segmented"}
_BY_SUFFIX |= dict.fromkeys((".bmes", ".bio", ".bioes", ".iob", ".conll"), "columns")
_BY_SUFFIX |= {".conllu": "conllu", ".spacy": "spacy"}
_WRITERS: dict[str, Callable[[Path, Iterable[Sentence]], None]] = {
    ".bmes": partial(write_columns, scheme="BMES"),
    ".bio": partial(write_columns, scheme="BIO"),
    ".bioes": partial(write_columns, scheme="BIOES"),
    ".seg": write_segmented,
    ".jsonl": write_jsonl,
    ".spacy": write_docbin,
}
WRITABLE = tuple(_WRITERS)


def suffix_format(path: str | Path) -> str | None:
    """The corpus format of a file's suffix, if it has one."""
    return _BY_SUFFIX.get(Path(path).suffix.lower())


def check_writable(path: Path) -> None:
    """Refuse a name whose suffix says no format that can be written."""
    if path.suffix.lower() not in _WRITERS:
        raise InputError(
            f"the suffix says what is written: {', '.join(_WRITERS)}, not {path.suffix!r}", path
        )


def write_corpus(path: str | Path, sentences: Iterable[Sentence]) -> None:
    """Write sentences in the format of the suffix: .bmes, .bio, .bioes, .seg, .jsonl or .spacy."""
    check_writable(Path(path))
    _WRITERS[Path(path).suffix.lower()](Path(path), sentences)


def _found_format(path: Path, otherwise: str) -> str:
    """Return the format of the suffix; a list in JSON is Label Studio's."""
    chosen = suffix_format(path) or otherwise
    if chosen == "jsonl":
        with opening(path) as file:
            return (
                "label-studio"
                if file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
                else chosen
            )
    return chosen


def read_corpus(
    path: str | Path,
    *,
    format: str = "auto",
    scheme: str = "auto",
    otherwise: str = "columns",
    learn: str = "spans",
    encoding: str | None = None,
) -> Corpus:
    """Read `path`; with format 'auto' its suffix decides, or, for a suffix without a format such as
    .txt, `otherwise`.

    `scheme` is for columns only: BIO, BMES, BIOES or IOB1, or 'auto' to find it from all the tags
    of the file. With `learn` 'words' the spans of a sentence are its gold words, whose labels are
    parts of speech. `encoding` is that of `files.read_lines`.
    """
    path = Path(path)
    chosen = _found_format(path, otherwise) if format == "auto" else format
    if chosen not in FORMATS:
        raise InputError(
            f"no corpus format is called {format!r}: expected auto, {', '.join(FORMATS)}"
        )
    corpus = (
        _READERS[chosen](path, encoding)
        if chosen in _READERS
        else read_columns(path, scheme, encoding)
    )
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
            message = (
                f"words are to be learnt, and sentence {number} is not cut into words: {error}"
            )
            raise InputError(
                f"{message}; docs/formats.md says how a corpus has words", path
            ) from None
        sentences.append(replace(sentence, spans=words))
    return replace(corpus, sentences=tuple(sentences), tags=None, scheme=None)


def hold_out(
    sentences: Sequence[Sentence], share: float, where: str = "all"
) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
    """(the rest, what is held out): exactly this share, rounded down, the same every time.

    It is taken at even steps, or from the "end", where neighbours are of one document: the two then
    share fewer names.
    """
    taken = even_steps(len(sentences), share)
    if where == "end":
        taken.sort()
    stay = tuple(sentence for sentence, out in zip(sentences, taken, strict=True) if not out)
    return stay, tuple(sentence for sentence, out in zip(sentences, taken, strict=True) if out)


def even_steps(count: int, share: float) -> list[bool]:
    """For each of `count` items whether it is held out: this share, rounded down, at even steps."""
    up, down = Fraction(
        str(share)
    ).as_integer_ratio()  # whole numbers: 0.29 × 100 would be 28.99… as a float
    return [(at + 1) * up // down > at * up // down for at in range(count)]
