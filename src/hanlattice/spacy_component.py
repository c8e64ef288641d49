"""A component for spaCy: `spacy.blank("zh").add_pipe("hanlattice")` sets `doc.ents`.

spaCy finds it by its entry point, so nobody needs to import this. It comes with the extra `spacy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from hanlattice.errors import HanlatticeError, InputError
from hanlattice.predict import Document, Predictor, by_score, load
from hanlattice.text.wordfile import read_words

try:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.tokens import Span as Entity
except ImportError:
    raise HanlatticeError("spacy is not installed, and this needs it: pip install 'hanlattice[spacy]'") from None

ALIGNMENTS = ("expand", "contract", "strict")
DEFAULTS: dict[str, Any] = {
    "model": "ner",
    "device": "cpu",
    "min_score": 0.0,
    "lexicon": [],
    "batch_size": None,
    "alignment": "expand",
    "overwrite_ents": False,
}


def make_component(
    nlp: Language,
    name: str,
    model: str,
    device: str,
    min_score: float,
    lexicon: list[str],
    batch_size: int | None,
    alignment: str,
    overwrite_ents: bool,
) -> HanlatticeComponent:
    """What spaCy calls with the settings of a pipeline, which it keeps in the pipeline's own configuration."""
    tagger = load(model, device)
    if tagger.model.indexer.cuts:
        raise InputError(f"{model} cuts text into words; the component wants a model that finds entities")
    for path in lexicon:
        tagger.lexicon.update(read_words(Path(path)))
    return HanlatticeComponent(tagger, min_score, batch_size, alignment, overwrite_ents)


class HanlatticeComponent:
    """Sets `doc.ents`; `ent._.score` is the probability of an entity.

    `doc._.hanlattice` has everything that was found, in characters: also what no token's border fits, and what had to
    give way in `doc.ents`, where no token can belong to two entities.
    """

    def __init__(
        self,
        tagger: Predictor,
        min_score: float = 0.0,
        batch_size: int | None = None,
        alignment: str = "expand",
        overwrite_ents: bool = False,
    ) -> None:
        if alignment not in ALIGNMENTS:
            raise ValueError(f"alignment must be one of {', '.join(ALIGNMENTS)}, not {alignment!r}")
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more, not {batch_size}")
        tagger.pipe((), min_score=min_score)  # its checks, before there is any text
        self.tagger, self.min_score, self.batch_size = tagger, min_score, batch_size
        self.alignment, self.overwrite_ents = alignment, overwrite_ents

    def __call__(self, doc: Doc) -> Doc:
        return self._set(doc, self.tagger(doc.text, min_score=self.min_score))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 256) -> Iterator[Doc]:
        """Many documents, tagged together; `batch_size` is spaCy's, unless the component has its own."""
        left = iter(stream)
        while docs := list(islice(left, self.batch_size or batch_size)):
            tagged = self.tagger([doc.text for doc in docs], min_score=self.min_score)
            yield from map(self._set, docs, tagged)

    def _set(self, doc: Doc, document: Document) -> Doc:
        doc._.hanlattice = [
            {"start": span.start, "end": span.end, "label": span.label, "score": span.score} for span in document.spans
        ]
        found = []
        for span in sorted(document.spans, key=by_score):
            entity = doc.char_span(span.start, span.end, label=span.label, alignment_mode=self.alignment)
            if entity is not None and len(entity):
                found.append((entity, span.score))
        ours = [entity for entity, _ in found]
        first, second = (ours, doc.ents) if self.overwrite_ents else (doc.ents, ours)
        kept = _apart([*first, *second])
        doc.ents = kept
        for entity, score in found:
            if any(entity is one for one in kept):  # spaCy keeps it by place: what lost that place must not write there
                entity._.score = score
        return doc


def _apart(entities: Sequence[Entity]) -> list[Entity]:
    """Those that overlap none before them, from left to right."""
    taken: set[int] = set()
    kept = []
    for entity in entities:
        tokens = range(entity.start, entity.end)
        if taken.isdisjoint(tokens):
            taken.update(tokens)
            kept.append(entity)
    return sorted(kept, key=lambda entity: int(entity.start))


if not Doc.has_extension("hanlattice"):
    Doc.set_extension("hanlattice", default=None)
if not Entity.has_extension("score"):
    Entity.set_extension("score", default=None)
Language.factory(
    "hanlattice",
    default_config=DEFAULTS,
    assigns=["doc.ents", "doc._.hanlattice", "span._.score"],
    func=make_component,
)
