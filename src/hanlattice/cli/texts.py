"""What the commands that read texts share: inputs, outputs, threads and dictionaries."""

from __future__ import annotations

import io
import os
import sys
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
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

# A Chinese text seldom ends in one of these, so it is more likely a mistyped file name.
_SUFFIXES = (".txt", ".text", ".csv", ".tsv", ".json", ".jsonl", ".bmes", ".conll", ".md", ".log")


def begin(options: TextOptions) -> tuple[Texts, Path]:
    """Return the texts of all inputs, and the model's folder.

    A missing file, and an output that would replace an input, are reported before any text is read.
    """
    folder = find_named(options.model)
    sources = [_source(given, options.is_text, options.unbuffered) for given in options.inputs]
    # A source without a name is a text, which no output can replace.
    files = [
        Path("/dev/stdin" if given == "-" else given)
        for given, (name, _) in zip(options.inputs, sources, strict=True)
        if name is not None
    ]
    check_output(options.out, [*files, *(options.lexicon or ()), *model_files(folder)])
    return Texts(sources, is_typed=options.inputs == ["-"] and sys.stdin.isatty()), folder


def different(files: Sequence[str]) -> list[Path]:
    """Return the paths of files, or raise an error if a file is given twice."""
    paths = resolve_paths(files)
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("a file is given twice")
    return paths


def add_words(predictor: Predictor, options: DictionaryOptions, notes: bool = True) -> None:
    """Add the words of dictionaries to a model's lexicon.

    Notes say how many words have a length that the model cannot use, and which labels it has not
    learnt.
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
        plain = [len(remove_space(word)) for word in words if isinstance(word, str)]
        labelled = [len(remove_space(entry.word)) for entry in words if isinstance(entry, Entry)]
        if unusable := sum(not 2 <= length <= LONGEST for length in plain):
            longer = f" or more than {LONGEST}" if max(plain) > LONGEST else ""
            _note_skipped(path, unusable, f"{len(plain):,} words", f"one character{longer}")
        if unusable := sum(not 1 <= length <= LONGEST_LABELLED for length in labelled):
            total = f"{len(labelled):,} words with labels"
            _note_skipped(path, unusable, total, f"more than {LONGEST_LABELLED}")
        labels = {word.label for word in words if isinstance(word, Entry) and not word.is_split}
        if new := sorted(labels.difference(indexer.tag_ids.labels, [""])):
            how = "are words alone"
            if "O" in indexer.tags:
                how = "are found where the dictionary says so, and nowhere else"
            names = ", ".join(map(visible, new))
            note(
                f"{printable_path(path)}: the model has not learnt {names}: "
                f"words with such labels {how}"
            )


def _note_skipped(path: Path, count: int, total: str, length: str) -> None:
    has, are = ("has", "is") if count == 1 else ("have", "are")
    note(f"{printable_path(path)}: {count:,} of {total} {has} {length}, and {are} passed over")


def write_results(results: Iterable[str], out: Path | None, texts: Texts | None = None) -> None:
    """Write results to a file, or to standard output.

    With a file, standard error shows how many texts have been read, and a summary at the end.
    Standard output is flushed after each result if a person types the texts.
    """
    begun = time.monotonic()
    target: AbstractContextManager[IO[bytes]] = (
        atomic_write(out, binary=True) if out else nullcontext(sys.stdout.buffer)
    )
    is_typed = texts is not None and texts.is_typed and not out
    with target as file, shown_progress(texts) if texts and out else nullcontext():
        for result in results:
            file.write(result.encode("utf-8"))
            if is_typed:
                file.flush()
        file.flush()
    if texts and out:
        done = f"{counted(texts.count, 'text')}, {counted(texts.characters, 'character')}"
        note(f"{printable_path(out)}: {done} in {time.monotonic() - begun:,.1f} s")


def for_screen(results: Iterable[str], out: Path | None) -> Iterable[str]:
    """Return results with control characters as escapes if a terminal shows them.

    Files and pipes get every character unchanged.
    """
    return (visible(result, "\n\t") for result in results) if is_screen(out) else results


def is_screen(out: Path | None) -> bool:
    """Return whether results go to a terminal."""
    return out is None and sys.stdout.isatty()


def share_out(
    work: Callable[[list[str]], list[str]],
    texts: Iterable[str],
    batch_size: int,
    threads: int,
    ahead: bool = True,
) -> Iterator[str]:
    """Yield the results of `work` for all texts, in their order, computed by several threads.

    Args:
        work: Returns a result for each of its texts. Each thread gets texts of its own.
        texts: All texts. They are read in groups of `batch_size`.
        batch_size: Number of texts in a group.
        threads: Number of threads that share each group.
        ahead: Whether to read the next group while threads are busy. Without it, the results of a
            group come before the next group is read, which somebody who types line by line needs.
    """
    from hanlattice.predict import chunks

    # Most of the time is spent in C, which releases the GIL, so these threads hardly wait for
    # each other. Threads inside an operation would wait busily at its end, and other programs on
    # the same cores would slow them down more.
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
    """Split texts into at most `count` runs of about equally many characters; none is empty."""
    # An empty text is work too, so each text counts one more.
    ends = list(accumulate(len(text) + 1 for text in texts))
    cuts = [bisect_left(ends, ends[-1] * part / count) + 1 for part in range(1, count)]
    return [list(texts[low:high]) for low, high in pairwise([0, *cuts, len(texts)]) if low < high]


def _source(given: str, is_text: bool, unbuffered: bool) -> Source:
    """Return the name and the lines of an input: standard input, a file, or the text itself."""
    # Path("") is the current folder, but an empty argument is an empty text.
    if given and not is_text:
        if given == "-":
            return "-", lambda: _standard_input(unbuffered)
        path = Path(given)
        # A long text, or one with NUL, cannot be a path.
        with suppress(OSError, ValueError):
            if path.is_dir():
                raise InputError("it is a folder; give the files in it", given)
            if path.exists():
                return printable_path(given), lambda: _file_lines(given)
        if given.isascii() and not any(map(str.isspace, given)):
            is_path = bool(path.suffix or "/" in given or "\\" in given)
        else:
            is_path = given.startswith(("/", "./", "../", "~/"))
            is_path = is_path or given.lower().endswith(_SUFFIXES)
        if is_path:
            raise InputError("there is no such file; if it is a text, add --text", given)
    # Bytes of an argument that are not in the encoding of the terminal arrive as lone surrogates.
    if LONE_SURROGATE.search(given):
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
