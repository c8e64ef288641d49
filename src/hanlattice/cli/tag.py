"""`hanlattice tag`: text, files or standard input → JSONL, CoNLL columns or inline marks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from hanlattice.errors import InputError
from hanlattice.files import decode_lines, read_lines, writing

if TYPE_CHECKING:
    from hanlattice.predict import Document


_SUFFIXES = (".txt", ".text", ".csv", ".tsv", ".json", ".jsonl", ".bmes", ".conll", ".md", ".log")


class Format(StrEnum):
    jsonl = "jsonl"
    conll = "conll"
    inline = "inline"


class Scheme(StrEnum):
    BIO = "BIO"
    BMES = "BMES"
    BIOES = "BIOES"


def tag(
    inputs: Annotated[list[str], typer.Argument(help="A text, a file (one text a line), or - for standard input.")],
    model: Annotated[Path, typer.Option("--model", "-m", help="The model's folder.")],
    format: Annotated[Format, typer.Option("--format", "-f", help="How to write the result.")] = Format.jsonl,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file to write; without it, standard output.")
    ] = None,
    scheme: Annotated[Scheme, typer.Option(help="The tags of --format conll.")] = Scheme.BMES,
    text: Annotated[bool, typer.Option("--text", help="Every input is a text, even if a file has that name.")] = False,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Texts tagged at a time; without it 1024, on a GPU 4096.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads; more help only on an idle machine.")] = 1,
) -> None:
    """Find the entities of a text, of files, or of standard input: one result for each line."""
    from hanlattice.models.device import use_threads
    from hanlattice.predict import load

    sources = [_source(each, text) for each in inputs]
    use_threads(threads)
    tagger = load(model, device)
    interactive = inputs == ["-"] and sys.stdin.isatty()
    documents = tagger.pipe(_lines(sources), 1 if interactive else batch_size)
    form = {
        Format.jsonl: _jsonl,
        Format.conll: lambda document: _conll(document, scheme.value),
        Format.inline: _inline,
    }[format]
    if out is None:
        _write(sys.stdout.buffer, documents, form, interactive)
    else:
        with writing(out, binary=True) as file:
            _write(file, documents, form, False)


def _write(file: IO[bytes], documents: Iterable[Document], form: Callable[[Document], str], flush: bool) -> None:
    for document in documents:
        file.write(form(document).encode("utf-8", "surrogateescape"))
        if flush:
            file.flush()
    file.flush()


def _source(given: str, is_text: bool) -> Callable[[], Iterator[str]]:
    """What an argument stands for: standard input, a file, or the text itself."""
    is_text = is_text or not given  # an empty string would else be the name of this folder
    if not is_text and given == "-":
        return lambda: (line for _, line in decode_lines(sys.stdin.buffer, "standard input", errors="surrogateescape"))
    with contextlib.suppress(OSError, ValueError):  # a long text, or one with NUL, cannot be the name of a file
        if not is_text and Path(given).is_dir():
            raise InputError("it is a folder; give the files in it", given)
        if not is_text and Path(given).exists():
            return lambda: (line for _, line in read_lines(given, errors="surrogateescape"))
    if not is_text and _looks_like_a_path(given):
        raise InputError("there is no such file; if it is a text to tag, add --text", given)
    return lambda: iter(given.split("\n"))


def _looks_like_a_path(given: str) -> bool:
    """Whether this is more likely the mistyped name of a file than a text, which seldom ends in `.txt`."""
    if given.isascii() and not any(map(str.isspace, given)):
        return bool(Path(given).suffix or "/" in given or "\\" in given)
    return given.startswith(("/", "./", "../", "~/")) or given.lower().endswith(_SUFFIXES)


def _lines(sources: Iterable[Callable[[], Iterator[str]]]) -> Iterator[str]:
    for source in sources:
        yield from source()


def _jsonl(document: Document) -> str:
    from hanlattice.data.jsonl import to_json_line

    return to_json_line(document.text, document.spans) + "\n"


def _conll(document: Document, scheme: str) -> str:
    from hanlattice.data.columns import format_columns

    return format_columns(document.text, document.spans, scheme) + "\n"


def _inline(document: Document) -> str:
    parts, at = [], 0
    for span in document.spans:
        parts += [document.text[at : span.start], f"[{span.text}/{span.label}]"]
        at = span.end
    return "".join([*parts, document.text[at:], "\n"])
