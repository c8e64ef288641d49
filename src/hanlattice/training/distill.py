"""Label raw text with teacher models, as training data for a student.

Several models seldom make the same mistake, and where they doubt is worth learning too. A new model
that learns from the means of their probabilities gets better than any of them, and can be smaller.
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

# The characters that a usable sentence has.
SHORTEST = 8
LONGEST = 150
# A sentence that shares this many consecutive characters with a corpus kept apart is left out.
SHARED = 13
_HAN = re.compile(r"[\u3400-\u9fff]")
# More than this share of a usable sentence's characters are Chinese.
_HAN_SHARE = 0.6
# How many sentences are labelled at a time, and kept when a run is stopped.
BLOCK = 4096
# A tag with this share is certain, and a share below `LEAST` is left out.
SURE = 0.99
LEAST = 0.005

Floats = npt.NDArray[np.float64]


class Unlabelled(NamedTuple):
    """The text to tag, and the corpora that it must not overlap."""

    files: tuple[str, ...]
    # Corpora for choosing a model (dev) or testing it.
    apart: tuple[str, ...] = ()
    # How many are drawn at random from each file, up to the end of a sentence; 0 is all.
    characters: int = 0
    seed: int = 1


class Taught(NamedTuple):
    """How much was labelled; `doubted` are the characters with soft labels."""

    sentences: int
    characters: int
    spans: int
    doubted: int


def distil(
    folders: Sequence[str | Path],
    text: Unlabelled,
    out: Path,
    device: str = "cpu",
    hard: bool = False,
    fast: bool = False,
    listen: Listener = ignore,
) -> Taught:
    """Label every sentence of the text with the teachers, and write the sentences as JSONL.

    The spans are those of the best tagging by the means of the teachers' probabilities. Calling
    this again resumes a stopped run.

    Args:
        folders: the teachers.
        text: the text.
        out: the file to write.
        device: where the teachers compute.
        hard: write no soft labels, which are the probabilities where the teachers doubt.
        fast: compute faster, with slightly different probabilities.
        listen: receives an event after each block of sentences.
    """
    models = [find_model(folder) for folder in folders]
    for index, model in enumerate(models):
        if model.resolve() in (earlier.resolve() for earlier in models[:index]):
            raise InputError("this teacher is given twice", model)
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
        versions = [model_version(str(model)) for model in models]
        # Everything that the lines depend on.
        digests = [[sha256(resolve(name)) for name in names] for names in (text.files, text.apart)]
        facts = [versions, *digests, text.characters, text.seed, hard, fast]
        _check_parts(parts, facts, out)
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
                    sizes = [len(record.get(key, ())) for key in ("text", "spans", "soft_labels")]
                    total = Taught(*map(sum, zip(total, [1, *sizes], strict=True)))
                    file.write(line + "\n")
    shutil.rmtree(parts, ignore_errors=True)
    return total


def _check_parts(parts: Path, facts: list[object], out: Path) -> None:
    """Refuse the parts of a run with other teachers, text or options."""
    identity = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    known = parts / "identity"
    if not known.exists():
        # A finished run was killed as it removed these: nobody knows what they belong to.
        for part in parts.glob("*.jsonl"):
            remove(part)
        with atomic_write(known) as file:
            file.write(identity)
    elif known.read_text("utf-8") != identity:
        raise OutputError(
            f"{parts} holds parts of a stopped run with other teachers, text or options: "
            f"remove it, or choose another --out than {out}"
        )


def _taught(taggers: Sequence[Predictor], lines: Sequence[str], hard: bool) -> Iterator[str]:
    """The lines of the file for these sentences."""
    mean: Floats = np.zeros(())
    for tagger in taggers:
        examples = tagger.model.indexer.read(lines)
        shares = tag_probabilities(tagger.model.tagger, tagger.model.indexer, examples)
        mean = mean + shares / len(taggers)
    indexer = taggers[0].model.indexer
    tags = best_tags(mean, examples.lengths, indexer.tags, indexer.scheme)
    flat = examples.in_characters(indexer.tag_ids.spans(tags, examples.lengths))
    spans = make_spans(Decoded(flat, np.empty(0)), lines, indexer.labels, scores=False)
    doubts: Sequence[Sequence[SoftLabel]] = [()] * len(lines)
    if not hard:
        doubts = doubts_of(mean, tags, examples, indexer.tags)
    for line, line_spans, soft_labels in zip(lines, spans, doubts, strict=True):
        yield to_json_line(line, line_spans, soft_labels=soft_labels) + "\n"


def best_tags(shares: Floats, lengths: Ints, tags: Sequence[str], scheme: str) -> Ints:
    """Return the legal taggings, [N], with the largest product of their tags' shares, [N, K]."""
    K = len(tags)
    row, column = cells(lengths)
    padded = np.zeros((len(lengths), int(lengths.max(initial=0)), K))
    # No share is 0 in the logarithm: a legal tagging may need a tag that nobody chose.
    padded[row, column] = np.log(np.maximum(shares, 1e-9))
    full = np.flatnonzero(lengths)
    best = np.zeros(padded.shape[:2], dtype=np.int64)
    # A CRF whose transitions are 0 where they are legal multiplies the shares alone.
    crf = NumpyCRF(tags, scheme, np.zeros(K), np.zeros((K, K)), np.zeros(K))
    best[full] = crf.decode(padded[full], lengths[full])
    return best[row, column]


def doubts_of(
    shares: Floats, tags: Ints, examples: Examples, names: Sequence[str]
) -> list[list[SoftLabel]]:
    """Return each sentence's soft labels, for characters whose tag has a share below `SURE`.

    `shares` is [N, K], for the characters of all sentences; `tags`, [N], are the best ones.
    """
    unsure = np.flatnonzero(shares[np.arange(len(tags)), tags] < SURE)
    kept = np.where(shares[unsure] >= LEAST, shares[unsure], 0.0)
    kept = np.round(kept / kept.sum(1, keepdims=True), 3)
    sentence, place = cells(examples.lengths)
    # White space is removed before a model reads, and counts in offsets.
    place = place if examples.offsets is None else examples.offsets
    rows: list[list[SoftLabel]] = [[] for _ in range(len(examples))]
    for row, tag in zip(*(index.tolist() for index in kept.nonzero()), strict=True):
        cell = unsure[row]
        label = SoftLabel(int(place[cell]), names[tag], float(kept[row, tag]))
        rows[sentence[cell]].append(label)
    return rows


def draw(text: Unlabelled) -> list[str]:
    """Return the usable sentences of all files, each once, in an order that the seed decides."""
    chance = random.Random(text.seed)
    apart = ngrams(
        fold(sentence.text)
        for name in text.apart
        for sentence in read_corpus(resolve(name)).sentences
    )
    drawn: dict[str, None] = {}
    for name in text.files:
        path = resolve(name)
        # The sentences of a corpus, whose labels are ignored, or the paragraphs of raw text.
        if suffix_format(path):
            lines = [sentence.text for sentence in read_corpus(path).sentences]
        else:
            lines = list(RawText([path]))
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
    """Tell whether a sentence is Chinese, of suitable length, and shares no n-gram with `apart`."""
    if not SHORTEST <= len(sentence) <= LONGEST:
        return False
    if len(_HAN.findall(sentence)) <= _HAN_SHARE * len(sentence):
        return False
    return not apart or ngrams([fold(sentence)]).isdisjoint(apart)


def ngrams(folded: Iterable[str]) -> set[str]:
    """Return all runs of `SHARED` characters."""
    return {
        line[start : start + SHARED] for line in folded for start in range(len(line) - SHARED + 1)
    }


def _check_tags(taggers: Sequence[Predictor], models: Sequence[Path]) -> None:
    """Raise an InputError unless all teachers tag characters, with the same tags."""
    first = taggers[0].model.indexer
    for tagger, model in zip(taggers, models, strict=True):
        indexer = tagger.model.indexer
        if indexer.words is not None:
            raise InputError("this model tags words, and a teacher must tag characters", model)
        if indexer.tags != first.tags:
            raise InputError(
                f"this teacher has the tags {', '.join(indexer.tags)}, "
                f"and {models[0]} has {', '.join(first.tags)}",
                model,
            )
