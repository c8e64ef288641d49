"""Read a corpus in any format, write one, and hold out a share of it."""

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

__all__ = ["FORMATS", "WRITABLE", "Corpus", "check_writable", "even_steps", "hold_out"]
__all__ += ["read_corpus", "suffix_format", "write_corpus"]

_READERS: dict[str, Callable[[Path, str | None], Corpus]] = {
    "segmented": read_segmented,
    "jsonl": read_jsonl,
    "conllu": read_conllu,
    # These tools write UTF-8 and nothing else.
    "label-studio": lambda path, _: read_label_studio(path),
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
    """Return the corpus format that a file's suffix stands for, if any."""
    return _BY_SUFFIX.get(Path(path).suffix.lower())


def check_writable(path: Path) -> None:
    """Raise if no format that can be written has the suffix of this path."""
    if path.suffix.lower() not in _WRITERS:
        expected = ", ".join(_WRITERS)
        raise InputError(f"the suffix says what is written: {expected}, not {path.suffix!r}", path)


def write_corpus(path: str | Path, sentences: Iterable[Sentence]) -> None:
    """Write sentences in the format of the suffix: .bmes, .bio, .bioes, .seg, .jsonl or .spacy."""
    check_writable(Path(path))
    _WRITERS[Path(path).suffix.lower()](Path(path), sentences)


def read_corpus(
    path: str | Path,
    *,
    format: str = "auto",
    scheme: str = "auto",
    otherwise: str = "columns",
    learn: str = "spans",
    encoding: str | None = None,
) -> Corpus:
    """Read a corpus.

    Args:
        path: The file.
        format: One of FORMATS; with "auto" the suffix decides.
        scheme: For columns only: BIO, BMES, BIOES or IOB1, or "auto" to find it from the tags.
        otherwise: The format of a suffix that stands for none, such as .txt.
        learn: With "words", the spans of a sentence are its gold words, labelled with parts of
            speech.
        encoding: As in `files.read_lines`.
    """
    path = Path(path)
    name = format
    if name == "auto":
        name = suffix_format(path) or otherwise
        if name == "jsonl":
            # A list in JSON, behind a byte order mark perhaps, is an export of Label Studio.
            with opening(path) as file:
                start = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
            name = "label-studio" if start.startswith(b"[") else name
    if name not in FORMATS:
        expected = f"auto, {', '.join(FORMATS)}"
        raise InputError(f"no corpus format is called {format!r}: expected {expected}")
    if name in _READERS:
        corpus = _READERS[name](path, encoding)
    else:
        corpus = read_columns(path, scheme, encoding)
    if not corpus.sentences:
        raise InputError(f"the corpus is empty: no sentence was found, read as {name}", path)
    return _learning_words(corpus, path) if learn == "words" else corpus


def _learning_words(corpus: Corpus, path: Path) -> Corpus:
    """Make the words of each sentence its spans, as they already are in segmented lines."""
    sentences = []
    for number, sentence in enumerate(corpus.sentences, start=1):
        words = sentence.words or sentence.spans or ()
        try:
            check_words(words, len(sentence))
        except ValueError as error:
            problem = f"sentence {number} is not cut into words: {error}"
            hint = "docs/formats.md says how a corpus has words"
            raise InputError(f"words are to be learnt, and {problem}; {hint}", path) from None
        sentences.append(replace(sentence, spans=words))
    return replace(corpus, sentences=tuple(sentences), tags=None, scheme=None)


def hold_out(
    sentences: Sequence[Sentence], share: float, where: str = "all"
) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
    """Split sentences into (the rest, the held-out share), the same every time.

    The share is rounded down, and taken at even steps. With `where` "end" it is the end, where
    neighbours are from one document, so that the two parts share fewer names.
    """
    taken = even_steps(len(sentences), share)
    if where == "end":
        taken.sort()
    stay = tuple(sentence for sentence, out in zip(sentences, taken, strict=True) if not out)
    return stay, tuple(sentence for sentence, out in zip(sentences, taken, strict=True) if out)


def even_steps(count: int, share: float) -> list[bool]:
    """Return which of `count` items are held out: a share, rounded down, at even steps."""
    # A fraction of whole numbers, for 0.29 × 100 is 28.99… as a float.
    up, down = Fraction(str(share)).as_integer_ratio()
    return [(index + 1) * up // down > index * up // down for index in range(count)]
