"""Write the model card: README.md in a model folder, made from the folder's records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hanlattice.checkpoint.folder import BEFORE, Model
from hanlattice.config import Config
from hanlattice.evaluation.report import Table, percent
from hanlattice.evaluation.segmentation import named_scores
from hanlattice.files import atomic_write
from hanlattice.text.display import counted
from hanlattice.text.tags import labels_of
from hanlattice.training.corpora import PARTS

CARD = "README.md"
_WORDS = (
    "The line `bakeoff` counts words as the SIGHAN bakeoff does; OOV are the words that train "
    "lacks, with their share of all, and IV those that it has. "
    "Boundaries are those between words."
)


def write_card(folder: Path, model: Model, scores: Mapping[str, Any]) -> None:
    """Write the card of a model: what it is, its data, its scores, and its maker's own text."""
    about = about_of(model)
    lines = [*_head(folder, model), "", *_data(model), "", *_scores(model, scores), ""]
    text = "\n".join([*lines, *([about, ""] if about else [])])
    with atomic_write(folder / CARD) as file:
        # Names of files may not be UTF-8.
        file.write(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))


def about_of(model: Model) -> str:
    """Return what the maker of a packed model wrote about it, in Markdown, or ""."""
    about: str = model.data.get("packed", {}).get("about", "")
    return about


def _head(folder: Path, model: Model) -> list[str]:
    """The lines on what the model is."""
    config = model.config
    indexer = model.indexer
    does = "cuts text into words" if indexer.cuts else f"finds {', '.join(labels_of(indexer.tags))}"
    verb = "segment" if indexer.cuts else "tag"
    units = f"{config.model.hidden} hidden units a direction, "
    counts = [f"{len(indexer.vocab) - 1:,} characters"] if config.reads_characters else []
    lexicons = [lexicon for lexicon in (indexer.lexicon, indexer.subwords) if lexicon is not None]
    for source, lexicon in zip(config.lattice_sources, lexicons, strict=True):
        counts.append(f"{len(lexicon):,} {source.called} in the lexicon")
    if indexer.words is not None:
        # Word 0 stands for unknown ones.
        counts.append(f"{len(indexer.words) - 1:,} words")
    if indexer.pieces is not None:
        counts.append(f"{len(indexer.pieces):,} pieces of the transformer")
    if indexer.segmenter is not None:
        counts.append(f"text cut by {config.segment.by}")
    lines = [
        f"# {folder.resolve().name}",
        "",
        f"A {kind_of(config)} made with hanlattice. It {does}.",
        "",
        f"- {'' if config.model.encoder == 'none' else units}"
        f"{indexer.scheme} tags, seed {config.train.seed}",
        f"- {', '.join(counts)}",
    ]
    if packing := model.data.get("packed"):
        precisions = ", then ".join([*packing.get("before", []), packing["precision"]])
        kept = "" if indexer.lexicon is None else f", {counted(len(indexer.lexicon), 'word')} kept"
        lines.append(f"- packed: precision {precisions}{kept}")
    # The models that the training began with, the last one first.
    start = model.data.get("start", {})
    while start:
        lines.append(f"- begun with the weights of {start['model']} ({start['version']})")
        start = start.get("before", {})
    if "calibration" in model.scores:
        parts = model.scores["calibration"]["fitted"]
        fitted = [f"{part['file']} ({counted(part['spans'], 'span')})" for part in parts]
        lines.append(f"- scores calibrated on {', '.join(fitted)}")
    use = f'`hanlattice {verb} -m FOLDER "…"`, or `hanlattice.load("FOLDER")` in Python'
    return [*lines, f"- use it: {use}"]


def kind_of(config: Config) -> str:
    """Describe a model's architecture in words."""
    model = config.model
    cell = "tanh RNN" if model.encoder == "char" and model.cell == "tanh" else "LSTM"
    kind = f"{'character' if model.encoder == 'char' else model.encoder} {cell}–CRF"
    if model.encoder == "none":
        kind = f"{'frozen ' if config.transformer.frozen else ''}transformer–CRF"
    sources = [source.called for source in config.lattice_sources]
    # Each part by its description, and whether the model has it.
    parts = {" and ".join(sources): "subwords" in sources}
    parts["characters by LSTM"] = model.char_features == "lstm"
    parts["characters by one LSTM over the sentence"] = model.char_features == "sentence-lstm"
    parts["characters by convolution"] = model.char_features == "cnn"
    parts["bigrams"], parts["softwords"] = model.bichar, model.softword
    parts["parts of speech"] = model.softword and config.softwords.pos
    parts["a separate forget gate"] = model.encoder == "lattice" and not model.coupled
    parts["coupled gates"] = model.encoder == "char" and model.coupled
    parts["pools of words"] = model.pools
    parts[f"{model.layers} layers"] = model.layers > 1
    is_char_first = model.encoder == "lattice" and model.first_layer == "char"
    parts["the first of characters alone"] = is_char_first
    parts["whole words"] = model.whole_words
    parts["a language model"] = bool(config.lm.model)
    frozen = "a frozen transformer" if config.transformer.frozen else "a transformer"
    parts[frozen] = bool(config.transformer.model) and model.encoder != "none"
    parts["decoding by span probability"] = model.decode == "spans"
    named = [part for part, is_present in parts.items() if is_present]
    return kind + (f" with {', '.join(named)}" if named else "")


def _data(model: Model) -> list[str]:
    """The section on corpora and vectors."""
    counts = ("sentences", "characters", "spans")
    corpora = tuple(
        (name, facts["file"] or "held out from train", *(f"{facts[count]:,}" for count in counts))
        for name, facts in model.data.items()
        if name in PARTS
    )
    vectors = model.data.get("vectors", {})
    origins = [
        f"Character vectors: {vectors.get('chars') or 'random'}.",
        f"Bigram vectors: {vectors.get('bichars') or 'none'}.",
        f"Word vectors: {vectors.get('words') or 'none'}.",
        f"Subword vectors: {vectors['subwords']}." if vectors.get("subwords") else "",
        f"Language model: {vectors.get('lm') or 'none'}.",
        f"Transformer: {vectors['transformer']}." if vectors.get("transformer") else "",
    ]
    table = Table("", ("part", "file", *counts), corpora).markdown(plain=True)
    return ["## Data", "", *table, "", " ".join(filter(None, origins))]


def _scores(model: Model, scores: Mapping[str, Any]) -> list[str]:
    """The section on scores, with those before packing."""
    which = "Best epoch on dev"
    if model.config.train.keep == "last":
        which = "Last epoch"
    elif "dev" not in model.data and scores:
        which = "Last epoch; there was no dev to choose by"
    lines = ["## Scores", "", f"{which}: {scores.get('epoch', '–')}. Exact spans, in per cent."]
    own = {part: scores[part] for part in ("dev", "test") if part in scores}
    before = scores.get(BEFORE, {})
    if any("segmentation" in report for report in (*own.values(), *before.values())):
        lines[-1] = f"{lines[-1]} {_WORDS}"
    lines += _tables(own)
    if before:
        whose = "the model that this one was made from"
        if "before" in model.data.get("packed", {}):
            whose = "the trained model, before it was first packed"
        lines += ["", "### Before packing", "", f"Of {whose}."]
    return [*lines, *_tables(before)]


def _tables(scores: Mapping[str, Any]) -> Iterator[str]:
    """A table for each part of the corpus."""
    keys = ("precision", "recall", "f1")
    for part, report in scores.items():
        rows = tuple(
            (name, *(percent(score.get(key)) for key in keys), str(score["gold"]))
            for name, score in named_scores(report)
        )
        yield ""
        yield from Table("", (part, "precision", "recall", "F1", "gold"), rows).markdown(plain=True)
