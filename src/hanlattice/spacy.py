"""For spaCy: the component `hanlattice`, which sets `doc.ents`, and the tokenizer
`hanlattice.words`.

spaCy finds both through entry points, so there is no need to import this module. It needs the extra
`spacy`.
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
    """Called by spaCy with the component's settings from the configuration of the pipeline."""
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
    """Called by spaCy with the settings of `nlp.tokenizer`; it calls the result to make a
    pipeline's tokenizer.
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

    `doc._.hanlattice` has all spans found, in characters: also those that do not fit the tokens,
    and those that are not in `doc.ents` because a token can belong to only one entity.
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
        tagger.pipe(
            (), batch_size, min_score=min_score
        )  # checks the settings before there is any text
        self.tagger = tagger
        self.min_score = min_score
        self.batch_size = batch_size
        self.alignment = alignment
        self.overwrite_ents = overwrite_ents

    def __call__(self, doc: Doc) -> Doc:
        return self._set(doc, self.tagger(doc.text, min_score=self.min_score))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 256) -> Iterator[Doc]:
        """Tag many documents together; the component's own `batch_size` takes precedence over
        spaCy's.
        """
        left = iter(stream)
        while docs := list(islice(left, self.batch_size or batch_size)):
            tagged = self.tagger([doc.text for doc in docs], min_score=self.min_score)
            yield from map(self._set, docs, tagged)

    def _set(self, doc: Doc, document: Document) -> Doc:
        doc._.hanlattice = [
            {"start": span.start, "end": span.end, "label": span.label, "score": span.score}
            for span in document.spans
        ]
        found = self._on_tokens(doc, document.spans)
        ours = [entity for entity, _ in found]
        first, second = (ours, doc.ents) if self.overwrite_ents else (doc.ents, ours)
        kept = _apart([*first, *second])
        doc.ents = kept
        winners = set(
            map(id, kept)
        )  # spaCy stores a score by place, which an entity that was dropped must not set
        for entity, score in found:
            if id(entity) in winners:
                entity._.score = score
        return doc

    def _on_tokens(self, doc: Doc, spans: Sequence[Span]) -> list[tuple[Entity, float | None]]:
        """The spans as entities over tokens, where that is possible, and their scores; the most
        probable first.
        """
        mode = self.alignment
        if mode == "split":
            _cut(doc, {border for span in spans for border in (span.start, span.end)})
            mode = "expand"  # the space after a token is not part of it and cannot be split off
        found = []
        for span in sorted(spans, key=by_score):
            entity = doc.char_span(span.start, span.end, label=span.label, alignment_mode=mode)
            if entity is not None and len(entity):
                found.append((entity, span.score))
        return found


def _apart(entities: Sequence[Entity]) -> list[Entity]:
    """The entities that do not overlap an earlier one of the list, sorted from left to right."""
    taken: set[int] = set()
    kept = []
    for entity in entities:
        tokens = range(entity.start, entity.end)
        if taken.isdisjoint(tokens):
            taken.update(tokens)
            kept.append(entity)
    return sorted(kept, key=lambda entity: int(entity.start))


def _cut(doc: Doc, borders: Collection[int]) -> None:
    """Split every token that has a border inside; existing entities stay where they are."""
    if len(doc) and _is_annotated(doc):
        raise ValueError(
            "alignment='split' cuts tokens, and these already have tags, lemmas, heads, sentences or spans: "
            "put hanlattice before the components that set those"
        )
    there = [(each.start_char, each.end_char, each.label, each.kb_id, each.id) for each in doc.ents]
    with doc.retokenize() as cutter:
        for token in doc:
            inside = (at for at in range(1, len(token)) if token.idx + at in borders)
            parts = [token.text[start:end] for start, end in pairwise([0, *inside, len(token)])]
            if len(parts) > 1:
                heads = [(token, at) for at in range(len(parts))]  # each is its own
                ids = dict.fromkeys(
                    ("ENT_ID", "ENT_KB_ID"), [0] * len(parts)
                )  # else those of the token that follows
                cutter.split(token, parts, heads, ids)
    doc.ents = [
        doc.char_span(*place, label=label, kb_id=kb, span_id=id_)
        for *place, label, kb, id_ in there
    ]


def _is_annotated(doc: Doc) -> bool:
    each = doc.to_array(["TAG", "POS", "MORPH", "LEMMA", "DEP", "SENT_START"])  # [tokens, 6]
    each[0, -1] = 0  # the first token always starts a sentence
    return bool(each.any() or doc.spans)


class HanlatticeTokenizer:
    """The words of a segmenter as tokens, their parts of speech, where it has them, as
    `token.tag_`.

    `doc.text` is the text as given, white space included.

    As usual in spaCy, one space after a token belongs to it; any other white space is a token of
    its own.
    """

    def __init__(self, vocab: Vocab, segmenter: Predictor, batch_size: int | None = None) -> None:
        segmenter.pipe((), batch_size)  # checks the setting
        self.vocab = vocab
        self.segmenter = segmenter
        self.batch_size = batch_size

    def __call__(self, text: str) -> Doc:
        return next(self.pipe([text]))

    def pipe(self, texts: Iterable[str], batch_size: int | None = None) -> Iterator[Doc]:
        """Cut many texts together. `nlp.pipe` gives a tokenizer one text at a time, but accepts
        these documents.
        """
        documents = self.segmenter.pipe(texts, batch_size or self.batch_size, scores=False)
        return (self._doc(*tokens_of(document.text, document.spans)) for document in documents)

    def _doc(self, tokens: list[str], spaces: list[bool], tags: list[str]) -> Doc:
        return Doc(self.vocab, tokens, spaces, tags=tags if any(tags) else None)

    def score(self, examples: Iterable[Any], **_: Any) -> dict[str, Any]:
        """The scores of tokens in `nlp.evaluate`."""
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
