"""Tags for many sentences, in batches of similar length, given back in the order in which they came."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hanlattice.batch import Example, Indexer, collate
from hanlattice.data.buckets import decoding_batches
from hanlattice.models.tagger import Tagger
from hanlattice.text.spans import Span
from hanlattice.text.tags import tags_to_spans

CHARACTERS = 8192  # in a batch, padding included: bounds memory whatever the length of the sentences


@torch.no_grad()
def decode(
    tagger: Tagger, indexer: Indexer, examples: Sequence[Example], batch_size: int = 128, scores: bool = False
) -> list[list[Span]]:
    """The spans of each sentence; with `scores`, each with its probability. The model must be in evaluation mode."""
    device = tagger.output.weight.device
    found: list[list[Span]] = [[] for _ in examples]
    lengths = [len(example) for example in examples]
    for places in decoding_batches(lengths, batch_size, CHARACTERS):
        if not lengths[places[0]]:
            continue  # longest first: all of these are empty
        places = [at for at in places if lengths[at]]
        batch = collate([examples[at] for at in places]).to(device)
        emissions = tagger.emissions(batch)
        tags = tagger.crf.decode(emissions, batch.lengths).tolist()
        spans = [
            tags_to_spans([indexer.tags[tag] for tag in row[: lengths[at]]], indexer.scheme)
            for at, row in zip(places, tags, strict=True)
        ]
        if scores:
            values = tagger.crf.span_scores(emissions, batch.lengths, spans)
            spans = [_scored(*pair) for pair in zip(spans, values, strict=True)]
        for at, row_spans in zip(places, spans, strict=True):
            found[at] = row_spans
    return found


def _scored(spans: list[Span], scores: list[float]) -> list[Span]:
    return [Span(span.start, span.end, span.label, score) for span, score in zip(spans, scores, strict=True)]
