"""What the commands that read texts share: inputs, outputs, threads, and a user's dictionaries."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from hanlattice.checkpoint import model_files
from hanlattice.cli.console import find_named, note
from hanlattice.cli.options import DictionaryOptions, TextOptions, resolve_paths
from hanlattice.cli.stream import WAIT, Source, Texts, arriving, is_pipe, shown_progress
from hanlattice.errors import InputError
from hanlattice.files import atomic_write, check_output, decode_lines, opening, printable_path
from hanlattice.text.boundaries import remove_space
from hanlattice.text.dictionary import LONGEST_LABELLED, Entry, read_dictionary
from hanlattice.text.display import counted, visible
from hanlattice.text.lexicon import LONGEST
from hanlattice.text.normalize import LONE_SURROGATE

if TYPE_CHECKING:
    from hanlattice.predict import Predictor

_SUFFIXES = (".txt", ".text", ".csv", ".tsv", ".json", ".jsonl", ".bmes", ".conll", ".md", ".log")


def begin(options: TextOptions) -> tuple[Texts, Path]:
    """Return the texts of all inputs, and the model's folder.

    A missing file, and an output that would replace an input, are reported before any text is read.
    """
    folder = find_named(options.model)
    sources = [_source(given, options.is_text, options.unbuffered) for given in options.inputs]
    files = [
        Path("/dev/stdin") if given == "-" else Path(given)
        for given in options.inputs
        if not options.is_text and _is_file(given)
    ]
    check_output(options.out, [*files, *(options.lexicon or ()), *model_files(folder)])
    return Texts(sources, is_typed=options.inputs == ["-"] and sys.stdin.isatty()), folder


def different(files: Sequence[str]) -> list[Path]:
    """The paths of files, none of which may be given twice."""
    paths = resolve_paths(files)
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("a file is given twice")
    return paths


def add_words(predictor: Predictor, options: DictionaryOptions, notes: bool = True) -> None:
    """Add the words of dictionaries to a model's lexicon.

    Notes say how many have a length it cannot use, and which labels the model has not learnt.
    """
    if options.trust is not None:
        predictor.trust = options.trust
    indexer = predictor.model.indexer
    for path in options.lexicon or ():
        lexicon = predictor.lexicon
        words = list(read_dictionary(path))
        lexicon.update(words)
        if not notes:
            continue
        _note_passed_over(path, words)
        labels = {each.label for each in words if isinstance(each, Entry) and not each.is_split} - {
            ""
        }
        if new := sorted(labels.difference(indexer.tag_ids.labels)):
            how = (
                "are words alone"
                if "O" not in indexer.tags
                else "are found where the dictionary says so, and nowhere else"
            )
            note(
                f"{printable_path(path)}: the model has not learnt {', '.join(map(visible, new))}: words with such labels {how}"
            )


def _note_passed_over(path: Path, words: Sequence[str | Entry]) -> None:
    lengths = [
        (each, len(remove_space(each if isinstance(each, str) else each.word))) for each in words
    ]
    labelled = [length for each, length in lengths if isinstance(each, Entry)]
    plain = [length for each, length in lengths if isinstance(each, str)]
    for kind, those, least, most in (
        ("", plain, 2, LONGEST),
        (" with labels", labelled, 1, LONGEST_LABELLED),
    ):
        if idle := sum(not least <= length <= most for length in those):
            what = f"more than {most}" if least == 1 else "one character"
            what += f" or more than {most}" if least > 1 and max(those) > most else ""
            has, is_ = ("has", "is") if idle == 1 else ("have", "are")
            note(
                f"{printable_path(path)}: {idle:,} of {len(those):,} words{kind} {has} {what}, and {is_} passed over"
            )


def write_results(results: Iterable[str], out: Path | None, texts: Texts | None = None) -> None:
    """Write results to a file or to standard output; to the latter one by one if a person types.

    With a file, standard error shows how many texts have been read, and a summary at the end.
    """
    if out is None:
        _write(sys.stdout.buffer, results, texts is not None and texts.is_typed)
        return
    begun = time.monotonic()
    with (
        atomic_write(out, binary=True) as file,
        shown_progress(texts) if texts else contextlib.nullcontext(),
    ):
        _write(file, results, False)
    if texts:
        done = f"{counted(texts.count, 'text')}, {counted(texts.characters, 'character')}"
        note(f"{printable_path(out)}: {done} in {time.monotonic() - begun:,.1f} s")


def for_screen(results: Iterable[str], out: Path | None) -> Iterable[str]:
    """Control characters as escapes if a terminal shows the results; files and pipes get every
    character as it is.
    """
    return (visible(result, "\n\t") for result in results) if is_screen(out) else results


def is_screen(out: Path | None) -> bool:
    """Whether results go to a terminal."""
    return out is None and sys.stdout.isatty()


def share_out(
    work: Callable[[list[str]], list[str]],
    texts: Iterable[str],
    batch_size: int,
    threads: int,
    ahead: bool = True,
) -> Iterator[str]:
    """The results of `work` for all texts, in their order, computed by this many threads, each with
    texts of its own.

    Most of the time is spent in C, which lets other threads run, so these threads hardly wait for
    each other. Threads inside an operation wait busily at the end of each one, and other programs
    on the same cores slow them down more.

    With `ahead` the next group is read while threads are busy. Without it the results of a group
    come before the next is waited for: somebody who answers line by line needs that.
    """
    from hanlattice.predict import chunks

    pool = ThreadPoolExecutor(threads, thread_name_prefix="hanlattice")
    pending: deque[Future[list[str]]] = deque()
    try:
        for group in chunks(texts, batch_size):
            pending.extend(pool.submit(work, share) for share in shares(group, threads))
            while len(pending) > (threads if ahead else 0):
                yield from pending.popleft().result()
        for last in pending:
            yield from last.result()
    finally:
        pool.shutdown(cancel_futures=True)


def shares(texts: Sequence[str], count: int) -> list[list[str]]:
    """The texts in at most `count` runs of about equally many characters; none is empty."""
    ends = list(accumulate(len(text) + 1 for text in texts))  # an empty text is work too
    cuts = [bisect_left(ends, ends[-1] * nth / count) + 1 for nth in range(1, count)]
    return [list(texts[low:high]) for low, high in pairwise([0, *cuts, len(texts)]) if low < high]


def _write(file: IO[bytes], results: Iterable[str], flush: bool) -> None:
    for result in results:
        file.write(result.encode("utf-8"))
        if flush:
            file.flush()
    file.flush()


def _source(given: str, is_text: bool, unbuffered: bool) -> Source:
    """What an argument stands for: standard input, a file, or the text itself."""
    is_text = is_text or not given  # Path("") is the current folder
    if not is_text and given == "-":
        return "-", lambda: _standard_input(unbuffered)
    if not is_text and _is_file(given):
        if Path(given).is_dir():
            raise InputError("it is a folder; give the files in it", given)
        return printable_path(given), lambda: _file_lines(given)
    if not is_text and _looks_like_a_path(given):
        raise InputError("there is no such file; if it is a text, add --text", given)
    if LONE_SURROGATE.search(
        given
    ):  # bytes of an argument that are not in the encoding of the terminal
        return None, lambda: _lines(io.BytesIO(os.fsencode(given)), "the text")
    return None, lambda: iter(given.split("\n"))


def _standard_input(unbuffered: bool) -> Iterator[str]:
    read = partial(_lines, name="standard input")
    file = sys.stdin.buffer
    return arriving(read, file, 0.0 if unbuffered else WAIT) if is_pipe(file) else read(file)


def _lines(file: io.BufferedIOBase | BinaryIO, name: str) -> Iterator[str]:
    return (line for _, line in decode_lines(file, name, strict=False))


def _file_lines(path: str) -> Iterator[str]:
    with opening(path) as file:
        yield from _lines(file, path)


def _is_file(given: str) -> bool:
    """Whether this is an existing path, or standard input."""
    with contextlib.suppress(OSError, ValueError):  # a long text, or one with NUL, cannot be a name
        return given == "-" or Path(given).exists()
    return False


def _looks_like_a_path(given: str) -> bool:
    """Whether this is more likely a mistyped file name than a text, which seldom ends in `.txt`."""
    if given.isascii() and not any(map(str.isspace, given)):
        return bool(Path(given).suffix or "/" in given or "\\" in given)
    return given.startswith(("/", "./", "../", "~/")) or given.lower().endswith(_SUFFIXES)
