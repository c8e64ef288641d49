"""Several models on the same text, taking turns: characters a second from raw text to spans with
their scores.

    python benchmarks/rates.py --model ner --model runs/msra-bert-lattice --test FILE [--device
    cuda] [--json OUT]

On a GPU each model is also loaded with `fast`, and first the spans that it finds there without
`fast` must be those that it finds on the CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import script
import torch

from hanlattice.errors import HanlatticeError
from hanlattice.lab.bench.timing import medians
from hanlattice.predict import Predictor, load
from hanlattice.text.span import Span
from hanlattice.training.corpora import read_for


def _show(options: argparse.Namespace) -> dict[str, Any]:
    taggers = {Path(model).name: load(model, options.device) for model in options.models}
    texts = [
        sentence.text
        for sentence in read_for(
            [tagger.model for tagger in taggers.values()], options.test
        ).sentences
    ]
    if options.device != "cpu":
        for model in options.models:
            _check(load(model), taggers[Path(model).name], texts)
        taggers |= {
            f"{Path(model).name}, fast": load(model, options.device, fast=True)
            for model in options.models
        }
    times = medians(
        {name: partial(_tag, tagger, texts) for name, tagger in taggers.items()}, options.seconds
    )
    size = sum(map(len, texts))
    rates = {name: size / timing.seconds for name, timing in times.items()}
    first = next(iter(rates.values()))
    for name, rate in rates.items():
        print(
            f"{name:32} {rate:12,.0f} characters/s {first / rate:8.2f} times the time of the first"
        )
    return {
        **script.facts(options.device),
        "test": Path(options.test).name,
        "characters": size,
        "rates": rates,
    }


def _check(cpu: Predictor, gpu: Predictor, texts: Sequence[str]) -> None:
    here, there = (
        [[_place(span) for span in document.spans] for document in x.pipe(texts)]
        for x in (cpu, gpu)
    )
    if differ := sum(a != b for a, b in zip(here, there, strict=True)):
        raise HanlatticeError(
            f"in {differ} of {len(texts)} sentences the GPU finds other spans than the CPU"
        )
    print(
        f"the GPU finds what the CPU finds: {sum(map(len, here)):,} spans in {len(texts):,} "
        f"sentences"
    )


def _place(span: Span) -> tuple[int, int, str]:
    return span.start, span.end, span.label


def _tag(tagger: Predictor, texts: Sequence[str]) -> int:
    return sum(len(document.spans) for document in tagger.pipe(texts))


if __name__ == "__main__":
    parser = script.make_parser(__doc__)
    parser.add_argument(
        "--model",
        dest="models",
        action="append",
        required=True,
        help="ner, seg or a folder; repeated",
    )
    parser.add_argument("--test", required=True, help="a labelled file; its texts are read")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="how long to measure each [%(default)s]"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    script.run(_show, options)
