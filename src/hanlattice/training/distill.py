"""What teachers make of raw text, as training data for a student.

Several models seldom make the same mistake, and where they doubt is worth learning too: a new model
that learns from the means of their probabilities gets better than any of them, and can be much
smaller.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.checkpoint import find_model, model_files
from hanlattice.checkpoint.segmenter import model_version
from hanlattice.data.corpus import read_corpus, suffix_format
from hanlattice.data.download import resolve
from hanlattice.data.formats.jsonl import to_json_line
from hanlattice.data.formats.raw import RawText
from hanlattice.errors import InputError, OutputError
from hanlattice.events import Listener, ignore
from hanlattice.features import Examples
from hanlattice.files import (
    atomic_write,
    check_output,
    lock_folder,
    read_lines,
    remove,
    remove_parts,
    sha256,
)
from hanlattice.inference.crf import NumpyCRF
from hanlattice.inference.decode import Decoded, make_spans, tag_probabilities
from hanlattice.predict import Predictor, load
from hanlattice.text.boundaries import sentences
from hanlattice.text.lattice import Ints, cells
from hanlattice.text.normalize import fold
from hanlattice.text.sentence import SoftLabel

# characters of a sentence that is used
SHORTEST = 8
LONGEST = 150
SHARED = (
    13  # a sentence with so many consecutive characters of a corpus that is kept apart is left out
)
_HAN = re.compile(r"[\u3400-\u9fff]")
_HAN_SHARE = 0.6  # of the characters of a sentence, at least
BLOCK = 4096  # sentences that are read at a time, and kept when a run is stopped
SURE = 0.99  # the share from which a tag is not doubted
LEAST = 0.005  # shares that are less are left out

Floats = npt.NDArray[np.float64]


class Unlabelled(NamedTuple):
    """The text to tag, and the corpora that it must not overlap."""

    files: tuple[str, ...]
    apart: tuple[str, ...] = ()  # corpora for choosing a model (dev) or testing it
    characters: int = 0  # drawn at random from each file, up to the end of a sentence; 0 is all
    seed: int = 1


class Taught(NamedTuple):
    sentences: int
    characters: int
    spans: int
    doubted: int  # characters


def distil(
    folders: Sequence[str | Path],
    text: Unlabelled,
    out: Path,
    device: str = "cpu",
    hard: bool = False,
    fast: bool = False,
    listen: Listener = ignore,
) -> Taught:
    """Write every sentence of the text with what the teachers find in it, as JSONL.

    The spans are those of the best tagging by the means of their probabilities; unless `hard`,
    these are written too where they are in doubt. A stopped run goes on where it was.
    """
    models = _teachers(folders)
    parts = out.with_name(f".{out.name}.parts")
    read = [
        *map(resolve, (*text.files, *text.apart)),
        *(file for model in models for file in model_files(model)),
    ]
    check_output(out, read)
    with lock_folder(parts, "distil"):
        taggers = [load(model, device, fast=fast) for model in models]
        _check_tags(taggers, models)
        lines = draw(text)
        _check_parts(
            parts, [[model_version(str(model)) for model in models], *_facts(text), hard, fast], out
        )
        total = Taught(0, 0, 0, 0)
        for low in range(0, len(lines), BLOCK):
            part = parts / f"{low // BLOCK:06}.jsonl"
            if not part.exists():
                with atomic_write(part) as file:
                    file.writelines(_taught(taggers, lines[low : low + BLOCK], hard))
            listen({"event": "taught", "done": min(low + BLOCK, len(lines)), "size": len(lines)})
        remove_parts(out)
        with atomic_write(out) as file:
            for part in sorted(parts.glob("*.jsonl")):
                for _, line in read_lines(part, "utf-8"):
                    record = json.loads(line)
                    counts = (
                        1,
                        len(record["text"]),
                        len(record["spans"]),
                        len(record.get("soft_labels", ())),
                    )
                    total = Taught(*map(sum, zip(total, counts, strict=True)))
                    file.write(line + "\n")
    shutil.rmtree(parts, ignore_errors=True)
    return total


def _teachers(folders: Sequence[str | Path]) -> list[Path]:
    models = [find_model(folder) for folder in folders]
    for at, model in enumerate(models):
        if model.resolve() in (other.resolve() for other in models[:at]):
            raise InputError("this teacher is given twice", model)
    return models


def _facts(text: Unlabelled) -> list[object]:
    """What the draw depends on."""
    digests = [[sha256(resolve(name)) for name in names] for names in (text.files, text.apart)]
    return [*digests, text.characters, text.seed]


def _check_parts(parts: Path, facts: list[object], out: Path) -> None:
    """Refuse the parts of a run with other teachers, text or options."""
    identity = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    known = parts / "identity"
    if not known.exists():
        for part in parts.glob(
            "*.jsonl"
        ):  # a finished run was killed as it removed them: whose they are nobody knows
            remove(part)
        with atomic_write(known) as file:
            file.write(identity)
    elif known.read_text("utf-8") != identity:
        raise OutputError(
            f"{parts} holds parts of a stopped run with other teachers, text or options: remove it, or choose another "
            f"--out than {out}"
        )


def _taught(taggers: Sequence[Predictor], lines: Sequence[str], hard: bool) -> Iterator[str]:
    """The lines of the file for some sentences."""
    mean: Floats = np.zeros(())
    for tagger in taggers:
        examples = tagger.model.indexer.read(lines)
        mean = mean + tag_probabilities(tagger.model.tagger, tagger.model.indexer, examples) / len(
            taggers
        )
    indexer = taggers[0].model.indexer
    tags = best_tags(mean, examples.lengths, indexer.tags, indexer.scheme)
    flat = examples.in_characters(indexer.tag_ids.spans(tags, examples.lengths))
    found = make_spans(Decoded(flat, np.empty(0)), lines, indexer.labels, scores=False)
    soft_labels: Sequence[Sequence[SoftLabel]] = [()] * len(lines)
    if not hard:
        soft_labels = doubts_of(mean, tags, examples, indexer.tags)
    for line, spans, unsure in zip(lines, found, soft_labels, strict=True):
        yield to_json_line(line, spans, soft_labels=unsure) + "\n"


def best_tags(shares: Floats, lengths: Ints, tags: Sequence[str], scheme: str) -> Ints:
    """[N]: the legal taggings of sentences with the largest product of the shares [N, K] of their
    tags.
    """
    K = len(tags)
    row, column = cells(lengths)
    padded = np.zeros((len(lengths), int(lengths.max(initial=0)), K))
    padded[row, column] = np.log(np.maximum(shares, 1e-9))
    full = np.flatnonzero(lengths)
    found = np.zeros(padded.shape[:2], dtype=np.int64)
    found[full] = NumpyCRF(tags, scheme, np.zeros(K), np.zeros((K, K)), np.zeros(K)).decode(
        padded[full], lengths[full]
    )
    return found[row, column]


def doubts_of(
    shares: Floats, tags: Ints, examples: Examples, names: Sequence[str]
) -> list[list[SoftLabel]]:
    """The soft labels of each sentence: characters whose tag has a share of less than `SURE`."""
    unsure = np.flatnonzero(shares[np.arange(len(tags)), tags] < SURE)
    kept = np.where(shares[unsure] >= LEAST, shares[unsure], 0.0)
    kept = np.round(kept / kept.sum(1, keepdims=True), 3)
    sentence, place = cells(examples.lengths)
    place = place if examples.offsets is None else examples.offsets
    rows: list[list[SoftLabel]] = [[] for _ in range(len(examples))]
    for nth, tag in zip(*(index.tolist() for index in kept.nonzero()), strict=True):
        at = unsure[nth]
        rows[sentence[at]].append(SoftLabel(int(place[at]), names[tag], float(kept[nth, tag])))
    return rows


def draw(text: Unlabelled) -> list[str]:
    """The usable sentences of all files, each once, in an order that depends on the seed."""
    chance = random.Random(text.seed)
    apart = ngrams(
        fold(sentence.text)
        for name in text.apart
        for sentence in read_corpus(resolve(name)).sentences
    )
    drawn: dict[str, None] = {}
    for name in text.files:
        lines = list(_lines(name))
        size = 0
        chance.shuffle(lines)
        for sentence in (sentence for line in lines for sentence in sentences(line)):
            if text.characters and size >= text.characters:
                break
            if sentence not in drawn and is_usable(sentence, apart):
                drawn[sentence] = None
                size += len(sentence)
    if not drawn:
        raise InputError(
            f"no sentence can be used: expected {SHORTEST} to {LONGEST} characters, mostly Chinese",
            text.files[0],
        )
    order = list(drawn)
    chance.shuffle(order)
    return order


def is_usable(sentence: str, apart: Collection[str] = ()) -> bool:
    """Whether it is a Chinese sentence of suitable length that shares no long n-gram with what is
    kept apart.
    """
    if not SHORTEST <= len(sentence) <= LONGEST or len(_HAN.findall(sentence)) <= _HAN_SHARE * len(
        sentence
    ):
        return False
    return not apart or ngrams([fold(sentence)]).isdisjoint(apart)


def ngrams(folded: Iterable[str]) -> set[str]:
    """All runs of `SHARED` characters."""
    return {line[at : at + SHARED] for line in folded for at in range(len(line) - SHARED + 1)}


def _lines(name: str) -> Iterator[str]:
    """The paragraphs of raw text, or the sentences of a corpus, whose labels are ignored."""
    path = resolve(name)
    if suffix_format(path):
        return (sentence.text for sentence in read_corpus(path).sentences)
    return iter(RawText([path]))


def _check_tags(taggers: Sequence[Predictor], models: Sequence[Path]) -> None:
    """All of them tag characters, with the same tags."""
    first = taggers[0].model.indexer
    for tagger, model in zip(taggers, models, strict=True):
        indexer = tagger.model.indexer
        if indexer.words is not None:
            raise InputError("this model tags words, and a teacher must tag characters", model)
        if indexer.tags != first.tags:
            named = [", ".join(each.tags) for each in (indexer, first)]
            raise InputError(
                f"this teacher has the tags {named[0]}, and {models[0]} has {named[1]}", model
            )
