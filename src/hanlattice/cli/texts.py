"""What the verbs that read texts share: where the texts come from, and where the results go."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from hanlattice.errors import InputError
from hanlattice.files import decode_lines, read_lines, writing

if TYPE_CHECKING:
    from hanlattice.predict import Document

_SUFFIXES = (".txt", ".text", ".csv", ".tsv", ".json", ".jsonl", ".bmes", ".conll", ".md", ".log")

Inputs = Annotated[list[str], typer.Argument(help="A text, a file (one text a line), or - for standard input.")]
ModelFolder = Annotated[Path, typer.Option("--model", "-m", help="The model's folder.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="A file to write; without it, standard output.")]
IsText = Annotated[bool, typer.Option("--text", help="Every input is a text, even if a file has that name.")]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Texts read at a time; without it 1024, on a GPU 4096.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]


def read_texts(inputs: Sequence[str], is_text: bool) -> Iterator[str]:
    """The texts of all inputs. What is no file, and cannot be meant as a text, is told at once, before any is read."""
    sources = [_source(each, is_text) for each in inputs]
    return (line for source in sources for line in source())


def at_once(inputs: Sequence[str], batch_size: int | None) -> int | None:
    """How many texts to take at a time: one, if a person is typing them."""
    return 1 if _is_typed(inputs) else batch_size


def write_results(inputs: Sequence[str], results: Iterable[str], out: Path | None) -> None:
    """Each result into a file, or to standard output; there at once if the texts are typed."""
    if out is None:
        _write(sys.stdout.buffer, results, _is_typed(inputs))
    else:
        with writing(out, binary=True) as file:
            _write(file, results, False)


def as_jsonl(document: Document) -> str:
    from hanlattice.data.jsonl import to_json_line

    return to_json_line(document.text, document.spans) + "\n"


def _is_typed(inputs: Sequence[str]) -> bool:
    return list(inputs) == ["-"] and sys.stdin.isatty()


def _write(file: IO[bytes], results: Iterable[str], flush: bool) -> None:
    for result in results:
        file.write(result.encode("utf-8", "surrogateescape"))
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
        raise InputError("there is no such file; if it is a text, add --text", given)
    return lambda: iter(given.split("\n"))


def _looks_like_a_path(given: str) -> bool:
    """Whether this is more likely the mistyped name of a file than a text, which seldom ends in `.txt`."""
    if given.isascii() and not any(map(str.isspace, given)):
        return bool(Path(given).suffix or "/" in given or "\\" in given)
    return given.startswith(("/", "./", "../", "~/")) or given.lower().endswith(_SUFFIXES)
