"""One model on a CPU, by PyTorch and by the runtime, and on a GPU: whether it finds the same, and
what `fast` costs.

    python benchmarks/devices.py --model ner --test @msra/test.bmes [--seconds 2] [--json OUT.json]

The file is tagged by PyTorch on the CPU, by the CPU as models are read and with `fast`, and, where
there is one, by the GPU in both ways. Spans are compared with the first, and then the scores of
those that are the same. Times are from sentences as numbers to spans, on the GPU, taking turns;
"raw text" is `Predictor.pipe`, from texts to spans with their scores. `benchmarks/where.py` has the
CPU's.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import script
import torch

from hanlattice.checkpoint import find_model
from hanlattice.checkpoint.load import load_model
from hanlattice.evaluation.ner import score
from hanlattice.inference.decode import decode
from hanlattice.lab.bench.timing import machine, medians, versions
from hanlattice.predict import Predictor, load
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.training.corpora import read_for

Found = list[list[Span]]


def _show(options: argparse.Namespace) -> dict[str, Any]:
    taggers = {"PyTorch": Predictor(load_model(find_model(options.model), modules=True))}
    taggers |= {"cpu": load(options.model), "cpu, fast": load(options.model, fast=True)}
    there = torch.cuda.is_available()
    if there:
        taggers |= {
            "gpu": load(options.model, "cuda"),
            "gpu, fast": load(options.model, "cuda", fast=True),
        }
    sentences = read_for([taggers["cpu"].model], options.test).sentences
    found = {name: _spans(tagger, sentences) for name, tagger in taggers.items()}
    rows = {name: _row(found[name], found["PyTorch"], sentences) for name in found}
    times = _times(taggers, sentences, options.seconds) if there else {}
    print(
        "| | correct | found | gold | F1 | sentences that differ | largest difference of a "
        "score |\n|---|" + "--:|" * 6
    )
    for name, row in rows.items():
        counts = (
            f"{row['correct']:,} | {row['predicted']:,} | {row['gold']:,} | {100 * row['f1']:.3f}"
        )
        print(
            f"| {name} | {counts} | {row['differ']:,} of {len(sentences):,} | {row['score']:.1e} |"
        )
    for what, each in times.items():
        print(f"{what}: {each['gpu'] / each['gpu, fast']:.2f} times as long as with fast")
    named = {
        "model": Path(options.model).name,
        "test": Path(options.test).name,
        **machine(torch.device("cuda" if there else "cpu")),
        **versions(),
    }
    return {**named, "rows": rows, "seconds": times}


def _spans(tagger: Predictor, sentences: Sequence[Sentence]) -> Found:
    model = tagger.model
    return decode(model.tagger, model.indexer, model.indexer.examples(sentences), scores=True)


def _row(found: Found, cpu: Found, sentences: Sequence[Sentence]) -> dict[str, Any]:
    total = score([sentence.spans or () for sentence in sentences], found).overall
    same = [
        (a, b)
        for a, b in zip(found, cpu, strict=True)
        if list(map(_place, a)) == list(map(_place, b))
    ]
    scores = [
        abs((x.score or 0) - (y.score or 0)) for a, b in same for x, y in zip(a, b, strict=True)
    ]
    return {**total.as_dict(), "differ": len(found) - len(same), "score": max(scores, default=0.0)}


def _place(span: Span) -> tuple[int, int, str]:
    return span.start, span.end, span.label


def _times(
    taggers: dict[str, Predictor], sentences: Sequence[Sentence], seconds: float
) -> dict[str, dict[str, float]]:
    on_gpu = {name: tagger for name, tagger in taggers.items() if name.startswith("gpu")}
    texts = [sentence.text for sentence in sentences]
    model = taggers["cpu"].model
    examples = model.indexer.examples(sentences)
    numbers = {
        name: partial(decode, x.model.tagger, x.model.indexer, examples)
        for name, x in on_gpu.items()
    }
    raw = {name: partial(_tag, tagger, texts) for name, tagger in on_gpu.items()}
    times = {"numbers": medians(numbers, seconds), "raw text": medians(raw, seconds)}
    return {
        what: {name: timing.seconds for name, timing in each.items()}
        for what, each in times.items()
    }


def _tag(tagger: Predictor, texts: Sequence[str]) -> int:
    return sum(len(document.spans) for document in tagger.pipe(texts))


def _options() -> argparse.Namespace:
    parser = script.make_parser(__doc__)
    parser.add_argument("--model", required=True, help="ner, seg, or a model's folder")
    parser.add_argument("--test", required=True, help="a labelled file")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="how long to measure each way [%(default)s]"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    return options


if __name__ == "__main__":
    script.run(_show, _options())
