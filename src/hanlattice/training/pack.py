"""A finished model in fewer bytes: fewer words, smaller numbers, and what gives new words their vectors beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hanlattice.config import make_config
from hanlattice.data.download import resolve
from hanlattice.errors import InputError, OutputError
from hanlattice.files import sha256
from hanlattice.models.compose import learn_from
from hanlattice.models.compress import compressed
from hanlattice.models.folder import LM, Model, load_model, save_frame, save_weights
from hanlattice.nn.embeddings import TwoSources
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.sentence import Sentence
from hanlattice.training.card import BEFORE, about_of, write_card
from hanlattice.training.corpora import Corpora, check_words, counts, without_empty
from hanlattice.training.labelled import read_for
from hanlattice.training.learnt import training_words
from hanlattice.training.scored import check_cut, score_again

OF_ANOTHER = "*Written about the model that this one was packed from:*"
FINE = 40_000  # words whose vectors get a byte for each number in a small model; the others get half a byte


def pack(
    folder: Path, out: Path, words: int = 0, precision: str = "small", test: str = "", about: str | None = None
) -> Model:
    """Write the model of a folder into another one, and give it as it is read from there.

    With `words`, only so many are kept: first those that training met most. With `test`, a corpus, it has the scores
    of the model as it was written; those of the trained model are kept as what they are, from before packing. `about`
    is Markdown for the end of its card; without it, that of the card in `folder` stays, and says whose it is.

    A model that was packed already may be packed again. What it scored is no longer true, and is left out; what the
    trained model scored stays, and the card says that it was packed several times.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OutputError(f"{out} is there already: choose a new or empty folder")
    model = load_model(folder)
    about = _kept(about_of(folder)) if about is None else about
    sentences = _read(test, model) if test else ()
    data = _facts(model, precision)
    if test:
        data["test"] = {"file": test, "sha256": sha256(resolve(test)), **counts(sentences)}
    composer = None
    if model.indexer.lexicon is not None and model.tagger.lexicon is not None:
        composer = model.composer or learn_from(model.indexer.lexicon, model.tagger.lexicon)
        model = with_fewer_words(model, words or len(model.indexer.lexicon), FINE if precision == "small" else None)
    elif words:
        raise InputError("this model has no lexicon, so there are no words to leave out", folder)
    config = make_config(without_places(model.config.as_dict()))
    save_frame(out, config, model.indexer, without_places(data), folder / LM)
    tensors = compressed(model.tagger.state_dict(), precision)
    scores = _from_before(model, ("dev",) if test else ("dev", "test"))
    save_weights(out, tensors, scores, composer)
    if test:
        scores = score_again(load_model(out), sentences, training_words(model, []) if model.indexer.cuts else None)
        save_weights(out, tensors, scores, composer)
    packed = load_model(out)
    write_card(out, packed, scores, about)
    return packed


def without_places(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record in which paths that lead out of the working folder are names of files: the rest is no one else's."""
    return {key: _without_place(value) for key, value in record.items()}


def _without_place(value: Any) -> Any:
    if isinstance(value, Mapping):
        return without_places(value)
    leads_out = isinstance(value, str) and (value.startswith("../") or Path(value).is_absolute())
    return Path(value).name if leads_out else value


def _read(test: str, model: Model) -> tuple[Sentence, ...]:
    """The corpus, in which the model finds what it reads: of a segmenter words, of a model of gold words those."""
    sentences = without_empty(read_for([model], test, scheme=model.config.data.scheme))
    config = replace(model.config, data=replace(model.config.data, test=test))
    corpora = Corpora(train=(), dev=(), test=sentences, more=(), digests={}, notices=())
    check_words(config, corpora)
    if model.indexer.cuts:
        check_cut(config, corpora)
    return sentences


def _kept(about: str) -> str:
    """What was said of a model, in the card of one that is made from it; it may not be true of that one."""
    return about if not about or about.startswith(OF_ANOTHER) else f"{OF_ANOTHER}\n\n{about}"


def _facts(model: Model, precision: str) -> dict[str, Any]:
    """Where the model came from, and how it is packed, and was; without a test of which no score will be left."""
    facts, packed = dict(model.data), model.data.get("packed")
    if packed and "test" in model.scores:
        facts.pop("test", None)
    before = {"before": [*packed.get("before", []), packed["precision"]]} if packed else {}
    return {**facts, "packed": {"precision": precision, **before}}


def _from_before(model: Model, parts: Sequence[str]) -> dict[str, Any]:
    """The scores of the trained model, which are no longer its own; a packed one has them as those from before."""
    scores = model.scores
    trained = scores.get(BEFORE, {}) if "packed" in model.data else scores
    before = {part: trained[part] for part in parts if part in trained}
    return {
        **{name: value for name, value in scores.items() if name not in ("dev", "test", BEFORE)},
        **({BEFORE: before} if before else {}),
    }


def with_fewer_words(model: Model, count: int, fine: int | None = None) -> Model:
    """The model with the first so many words of its lexicon, of which the first `fine` are in the finer table."""
    lexicon, table, words = model.indexer.lexicon, model.tagger.lexicon, model.tagger.words
    assert lexicon is not None
    assert table is not None
    fewer = table.first(count, len(table.trained) if fine is None else fine)
    if isinstance(words, TwoSources):
        words.words = fewer
    else:
        model.tagger.words = fewer
    return replace(model, indexer=replace(model.indexer, lexicon=Lexicon(lexicon.words[:count])))
