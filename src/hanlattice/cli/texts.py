"""What the verbs that read texts share: where the texts come from, and where the results go."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated

import typer

from hanlattice.cli.console import find_named
from hanlattice.errors import InputError
from hanlattice.files import check_output, decode_lines, read_lines, writing
from hanlattice.models.shipped import model_files
from hanlattice.text.display import visible

_SUFFIXES = (".txt", ".text", ".csv", ".tsv", ".json", ".jsonl", ".bmes", ".conll", ".md", ".log")

Inputs = Annotated[list[str], typer.Argument(help="A text, a file (one text a line), or - for standard input.")]
ModelFolder = Annotated[str, typer.Option("--model", "-m", help="ner or seg, which come along, or a model's folder.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="A file to write; without it, standard output.")]
IsText = Annotated[bool, typer.Option("--text", help="Every input is a text, even if a file has that name.")]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Texts read at a time; without it 1024, on a GPU 4096.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Fast = Annotated[bool, typer.Option("--fast", help="On a GPU: rounded factors, faster; scores differ a little.")]


def begin(
    inputs: Sequence[str], is_text: bool, out: Path | None, lexicons: Sequence[Path] | None, model: str
) -> tuple[Iterator[str], Path]:
    """The texts of all inputs and the model's folder, once it is known that the output takes the place of neither."""
    folder = find_named(model)
    texts = read_texts(inputs, is_text)
    check_out(out, inputs, is_text, lexicons, folder)
    return texts, folder


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


def for_screen(results: Iterable[str], out: Path | None) -> Iterable[str]:
    """At a terminal, what it would obey is an escape; files and pipes get every character as it is."""
    return (visible(result, "\n\t") for result in results) if is_screen(out) else results


def is_screen(out: Path | None) -> bool:
    """Whether results go to a terminal."""
    return out is None and sys.stdout.isatty()


def check_out(
    out: Path | None, inputs: Sequence[str], is_text: bool, lexicons: Sequence[Path] | None, model: Path
) -> None:
    """The output takes the place of nothing that is read: texts, dictionaries, the model."""
    texts = [Path("/dev/stdin") if given == "-" else Path(given) for given in inputs if not is_text and _is_file(given)]
    check_output(out, [*texts, *(lexicons or ()), *model_files(model)])


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
    if not is_text and _is_file(given):
        if Path(given).is_dir():
            raise InputError("it is a folder; give the files in it", given)
        return lambda: (line for _, line in read_lines(given, errors="surrogateescape"))
    if not is_text and _looks_like_a_path(given):
        raise InputError("there is no such file; if it is a text, add --text", given)
    return lambda: iter(given.split("\n"))


def _is_file(given: str) -> bool:
    """Whether there is something of this name, or it is standard input."""
    with contextlib.suppress(OSError, ValueError):  # a long text, or one with NUL, cannot be a name
        return given == "-" or Path(given).exists()
    return False


def _looks_like_a_path(given: str) -> bool:
    """Whether this is more likely the mistyped name of a file than a text, which seldom ends in `.txt`."""
    if given.isascii() and not any(map(str.isspace, given)):
        return bool(Path(given).suffix or "/" in given or "\\" in given)
    return given.startswith(("/", "./", "../", "~/")) or given.lower().endswith(_SUFFIXES)
