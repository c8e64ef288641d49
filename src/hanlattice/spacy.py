"""The spaCy component `hanlattice`, which sets `doc.ents`, and the tokenizer `hanlattice.words`.

spaCy finds both through entry points, so nobody needs to import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from hanlattice.data.formats.docbin import tokens_of
from hanlattice.document import Document
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.optional import how_to_install
from hanlattice.predict import TRUST, Predictor, by_score, load
from hanlattice.text.span import Span

try:
    from spacy.language import Language
    from spacy.scorer import Scorer
    from spacy.tokens import Doc
    from spacy.tokens import Span as Entity
    from spacy.util import registry
    from spacy.vocab import Vocab
except ImportError:
    raise HanlatticeError(how_to_install("spacy")) from None

ALIGNMENTS = ("expand", "contract", "strict", "split")
DEFAULTS: dict[str, Any] = {
    "model": "ner",
    "device": "cpu",
    "decode": None,
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
    decode: str | float | None,
    min_score: float,
    lexicon: list[str],
    batch_size: int | None,
    alignment: str,
    overwrite_ents: bool,
) -> HanlatticeComponent:
    """Make the component; spaCy passes the settings in the configuration of the pipeline."""
    tagger = _load(model, device, lexicon, decode)
    if tagger.model.indexer.cuts:
        raise InputError(
            f"{model} cuts text into words; the component needs a model that finds entities"
        )
    return HanlatticeComponent(tagger, min_score, batch_size, alignment, overwrite_ents)


def make_tokenizer(
    model: str = "seg",
    device: str = "cpu",
    lexicon: list[str] = [],  # noqa: B006 (spaCy's configuration takes the default from here)
    trust: float = TRUST,
    batch_size: int | None = None,
) -> Callable[[Language], HanlatticeTokenizer]:
    """Return a function that makes a pipeline's tokenizer; spaCy passes the settings, and calls it.

    The settings are in the configuration of the pipeline, under `nlp.tokenizer`.
    """

    def make(nlp: Language) -> HanlatticeTokenizer:
        segmenter = _load(model, device, lexicon)
        if not segmenter.model.indexer.cuts:
            raise InputError(
                f"{model} finds entities; the tokenizer needs a model that cuts text into words"
            )
        segmenter.trust = trust
        return HanlatticeTokenizer(nlp.vocab, segmenter, batch_size)

    return make


def _load(
    model: str, device: str, dictionaries: Iterable[str], decode: str | float | None = None
) -> Predictor:
    predictor = load(model, device, decode=decode)
    for path in dictionaries:
        predictor.lexicon.load(path)
    return predictor


class HanlatticeComponent:
    """Sets `doc.ents`; `ent._.score` is the probability of an entity.

    `doc._.hanlattice` has all spans, in characters. It includes spans that fit no tokens, and spans
    that overlap another entity of `doc.ents`.

    Args:
        tagger: A model that finds entities.
        min_score: Leave out less probable spans.
        batch_size: Texts to tag at a time; by default spaCy's.
        alignment: What becomes of a span that begins or ends inside a token: `expand` and
            `contract` take whole tokens, `strict` drops the span, `split` cuts the token.
        overwrite_ents: Whether our entities win over earlier ones that they overlap.
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
        # Raises for wrong settings before there is any text.
        tagger.pipe((), batch_size, min_score=min_score)
        self.tagger = tagger
        self.min_score = min_score
        self.batch_size = batch_size
        self.alignment = alignment
        self.overwrite_ents = overwrite_ents

    def __call__(self, doc: Doc) -> Doc:
        """Set the entities of a document, and return it."""
        return self._set(doc, self.tagger(doc.text, min_score=self.min_score))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 256) -> Iterator[Doc]:
        """Tag many documents together. The component's own `batch_size` overrides spaCy's."""
        left = iter(stream)
        while docs := list(islice(left, self.batch_size or batch_size)):
            tagged = self.tagger([doc.text for doc in docs], min_score=self.min_score)
            yield from map(self._set, docs, tagged)

    def _set(self, doc: Doc, document: Document) -> Doc:
        doc._.hanlattice = [
            {"start": span.start, "end": span.end, "label": span.label, "score": span.score}
            for span in document.spans
        ]
        scored = self._on_tokens(doc, document.spans)
        ours = [entity for entity, _ in scored]
        kept = _apart([*ours, *doc.ents] if self.overwrite_ents else [*doc.ents, *ours])
        doc.ents = kept
        # spaCy stores a score by place. A dropped entity must not set the score of a kept one.
        winners = set(map(id, kept))
        for entity, score in scored:
            if id(entity) in winners:
                entity._.score = score
        return doc

    def _on_tokens(self, doc: Doc, spans: Sequence[Span]) -> list[tuple[Entity, float | None]]:
        """Return spans that fit tokens as entities, with their scores, most probable first."""
        mode = self.alignment
        if mode == "split":
            _cut(doc, {border for span in spans for border in (span.start, span.end)})
            # The space after a token is not part of it, and cannot be split off.
            mode = "expand"
        scored = []
        for span in sorted(spans, key=by_score):
            entity = doc.char_span(span.start, span.end, label=span.label, alignment_mode=mode)
            if entity is not None and len(entity):
                scored.append((entity, span.score))
        return scored


def _apart(entities: Sequence[Entity]) -> list[Entity]:
    """Return the entities that overlap no earlier one in the list, from left to right."""
    taken: set[int] = set()
    kept = []
    for entity in entities:
        tokens = range(entity.start, entity.end)
        if taken.isdisjoint(tokens):
            taken.update(tokens)
            kept.append(entity)
    return sorted(kept, key=lambda entity: int(entity.start))


def _cut(doc: Doc, borders: Collection[int]) -> None:
    """Split every token that has a border inside; entities keep their characters."""
    if len(doc):
        values = doc.to_array(["TAG", "POS", "MORPH", "LEMMA", "DEP", "SENT_START"])  # [tokens, 6]
        # The first token always starts a sentence.
        values[0, -1] = 0
        if values.any() or doc.spans:
            raise ValueError(
                "alignment='split' cuts tokens, and these already have tags, lemmas, heads, "
                "sentences or spans: put hanlattice before the components that set those"
            )
    ents = [(ent.start_char, ent.end_char, ent.label, ent.kb_id, ent.id) for ent in doc.ents]
    with doc.retokenize() as cutter:
        for token in doc:
            inside = (nth for nth in range(1, len(token)) if token.idx + nth in borders)
            parts = [token.text[start:end] for start, end in pairwise([0, *inside, len(token)])]
            if len(parts) > 1:
                # Each part is its own head.
                heads = [(token, nth) for nth in range(len(parts))]
                # Without these, spaCy takes the ids of the token that follows.
                ids = dict.fromkeys(("ENT_ID", "ENT_KB_ID"), [0] * len(parts))
                cutter.split(token, parts, heads, ids)
    doc.ents = [
        doc.char_span(*place, label=label, kb_id=kb, span_id=id_) for *place, label, kb, id_ in ents
    ]


class HanlatticeTokenizer:
    """A tokenizer that cuts text with a segmenter.

    `token.tag_` is the part of speech, if the model has parts of speech. `doc.text` is the text as
    given. As usual in spaCy, one space after a token belongs to it, and other white space is a
    token of its own.
    """

    def __init__(self, vocab: Vocab, segmenter: Predictor, batch_size: int | None = None) -> None:
        # Raises for a wrong setting before there is any text.
        segmenter.pipe((), batch_size)
        self.vocab = vocab
        self.segmenter = segmenter
        self.batch_size = batch_size

    def __call__(self, text: str) -> Doc:
        """Cut a text into tokens."""
        return next(self.pipe([text]))

    def pipe(self, texts: Iterable[str], batch_size: int | None = None) -> Iterator[Doc]:
        """Cut many texts together.

        `nlp.pipe` calls a tokenizer with one text at a time, but also takes these documents.
        """

        def make(document: Document) -> Doc:
            tokens, spaces, tags = tokens_of(document.text, document.spans)
            return Doc(self.vocab, tokens, spaces, tags=tags if any(tags) else None)

        return map(make, self.segmenter.pipe(texts, batch_size or self.batch_size, scores=False))

    def score(self, examples: Iterable[Any], **_: Any) -> dict[str, Any]:
        """Return the scores of tokens for `nlp.evaluate`."""
        return dict(Scorer.score_tokenization(examples))

    # spaCy requires these of every tokenizer. There is nothing to save: the pipeline's
    # configuration has the settings.

    def to_bytes(self, **_: Any) -> bytes:
        return b""

    def from_bytes(self, _data: bytes, **_: Any) -> HanlatticeTokenizer:
        return self

    def to_disk(self, _path: str | Path, **_: Any) -> None:
        return None

    def from_disk(self, _path: str | Path, **_: Any) -> HanlatticeTokenizer:
        return self


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
registry.tokenizers("hanlattice.words", func=make_tokenizer)
