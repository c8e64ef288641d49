"""Pack a model into fewer bytes: fewer words, smaller numbers, a composer for new words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hanlattice.checkpoint.compose import learn_from
from hanlattice.checkpoint.folder import BEFORE, Model, save_frame, save_weights
from hanlattice.checkpoint.load import load_model
from hanlattice.checkpoint.quantize import compressed
from hanlattice.config import make_config
from hanlattice.data.download import resolve
from hanlattice.errors import InputError, OutputError
from hanlattice.files import sha256
from hanlattice.nn.embeddings import TwoSources
from hanlattice.nn.tagger import TorchTagger
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.sentence import Sentence
from hanlattice.training.card import about_of, write_card
from hanlattice.training.corpora import (
    Corpora,
    check_gold_words,
    check_segmented,
    counts,
    read_for,
    training_words,
    without_empty,
)
from hanlattice.training.loop import part_scores

OF_ANOTHER = "*Written about the model that this one was packed from:*"
# Words whose vectors get a byte for each number in a small model; the others get half a byte.
FINE = 40_000


def pack(
    folder: Path,
    out: Path,
    words: int = 0,
    precision: str = "small",
    test: str = "",
    about: str | None = None,
) -> Model:
    """Write a smaller copy of a model, and return the copy as it loads.

    A packed model may be packed again. Scores of the trained model are kept as those before
    packing; the scores of an earlier packing are dropped, since they are no longer true.

    Args:
        folder: the model.
        out: the folder to write, new or empty.
        words: how many words to keep, those that training met most first; 0 keeps all.
        precision: "small" stores bytes, "half" half precision, "full" float32.
        test: a corpus to score the packed model on.
        about: Markdown for the end of the model card. Without it, the text of the model in `folder`
            is kept, marked as written about another model.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OutputError(f"{out} is there already: choose a new or empty folder")
    model = load_model(folder, modules=True)
    if about is None:
        about = about_of(model)
        # The text may not be true of the packed model.
        about = about if not about or about.startswith(OF_ANOTHER) else f"{OF_ANOTHER}\n\n{about}"
    about = about.strip()
    sentences = _read(test, model) if test else ()
    data = _facts(model, precision)
    if test:
        data["test"] = {"file": test, "sha256": sha256(resolve(test)), **counts(sentences)}
    composer = None
    lexicon = model.indexer.lexicon
    if lexicon is not None and model.tagger.lexicon is not None:
        # Learn from all words, before any of them leaves.
        composer = model.composer or learn_from(lexicon, model.tagger.lexicon)
        fine = FINE if precision == "small" else None
        model = with_fewer_words(model, words or len(lexicon), fine)
    elif words:
        raise InputError("this model has no lexicon, so there are no words to leave out", folder)
    settings = model.config.as_dict()
    # The packed model still needs the segmenter, where it is.
    config = make_config({**without_places(settings), "segment": settings["segment"]})
    data = without_places(data)
    data["packed"] |= {"about": about} if about else {}
    save_frame(out, config, model.indexer, data, folder, model.segmenter)
    weights = _module(model).state_dict()
    tensors = compressed({name: tensor.numpy() for name, tensor in weights.items()}, precision)
    trained = model.scores.get(BEFORE, {}) if "packed" in model.data else model.scores
    # A new corpus may differ from the one of the old test score.
    parts = ("dev",) if test else ("dev", "test")
    before = {part: trained[part] for part in parts if part in trained}
    dropped = ("dev", "test", BEFORE)
    scores = {name: value for name, value in model.scores.items() if name not in dropped}
    scores |= {BEFORE: before} if before else {}
    save_weights(out, tensors, scores, composer)
    if test:
        known = training_words(model, []) if model.indexer.cuts else None
        scores = {**scores, "test": part_scores(load_model(out), sentences, known)}
        save_weights(out, tensors, scores, composer)
    packed = load_model(out)
    write_card(out, packed, scores)
    return packed


def _module(model: Model) -> TorchTagger:
    assert isinstance(model.tagger, TorchTagger)
    return model.tagger


def without_places(record: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten paths out of the working folder to file names: elsewhere they mean nothing."""
    shortened = dict(record)
    for key, value in record.items():
        if isinstance(value, Mapping):
            shortened[key] = without_places(value)
        elif isinstance(value, str) and (value.startswith("../") or Path(value).is_absolute()):
            shortened[key] = Path(value).name
    return shortened


def _read(test: str, model: Model) -> tuple[Sentence, ...]:
    """The sentences to score on, once they have the words that the model needs."""
    sentences = without_empty(read_for([model], test, scheme=model.config.data.scheme))
    config = replace(model.config, data=replace(model.config.data, test=test))
    corpora = Corpora(train=(), dev=(), test=sentences, more=(), digests={}, notices=())
    check_gold_words(config, corpora)
    if model.indexer.cuts:
        check_segmented(config, corpora)
    return sentences


def _facts(model: Model, precision: str) -> dict[str, Any]:
    """Where the model came from, and its precisions, earlier ones included."""
    facts = dict(model.data)
    packed = model.data.get("packed")
    # The score of an earlier packing is dropped, and its corpus with it.
    if packed and "test" in model.scores:
        facts.pop("test", None)
    before = {"before": [*packed.get("before", []), packed["precision"]]} if packed else {}
    return {**facts, "packed": {"precision": precision, **before}}


def with_fewer_words(model: Model, count: int, fine: int | None = None) -> Model:
    """Return a model with the first `count` words of its lexicon; its tagger changes in place.

    The first `fine` words get a byte for each number; without it, the words that were trained.
    """
    tagger = _module(model)
    lexicon = model.indexer.lexicon
    table = tagger.lexicon
    words = tagger.words
    assert lexicon is not None
    assert table is not None
    fewer = table.first(count, len(table.trained) if fine is None else fine)
    if tagger.pools is not None:
        # The counts of words follow those of subwords.
        subwords = 0 if model.indexer.subwords is None else len(model.indexer.subwords)
        tagger.pools.counts = tagger.pools.counts[: subwords + count]
    if isinstance(words, TwoSources):
        words.words = fewer
    else:
        tagger.words = fewer
    return replace(model, indexer=replace(model.indexer, lexicon=Lexicon(lexicon.words[:count])))
