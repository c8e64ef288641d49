"""The model card: README.md in a model folder, for the person who finds it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hanlattice.config import Config
from hanlattice.evaluation.report import percent
from hanlattice.evaluation.segmentation import named_scores
from hanlattice.files import read_text, writing
from hanlattice.models.folder import Model
from hanlattice.text.display import counted
from hanlattice.text.tags import labels_of
from hanlattice.training.corpora import PARTS

BEFORE = "before_packing"  # where a packed model has the scores of the trained one that it comes from
CARD = "README.md"
_WORDS = (
    "The line `bakeoff` counts words as the SIGHAN bakeoff does; OOV are the words that train lacks, with their share "
    "of all, and IV those that it has. Boundaries are those between words."
)
_SCORES = re.compile(  # that part of a card; what its maker had to say follows
    r"^## Scores\n\n.*\n(\n\| (dev|test) \| precision \| recall \|.*\n(\|.*\n)*|\n### Before packing\n\n.*\n)*", re.M
)


def write_card(folder: Path, model: Model, scores: Mapping[str, Any], about: str = "") -> None:
    """What the model is, what it was trained on and what it scores; and what else its maker has to say about it."""
    with writing(folder / CARD) as file:
        file.write("\n".join([*_head(folder, model), "", *_data(model), "", *_scores(model, scores), ""]))
        file.write(f"\n{about.strip()}\n" if about.strip() else "")


def about_of(folder: Path) -> str:
    """What the maker of a model had to say at the end of its card; "" where there is nothing, or no card."""
    card = read_text(folder / CARD) if (folder / CARD).exists() else ""
    scores = _SCORES.search(card)
    return card[scores.end() :].strip() if scores else ""


def _head(folder: Path, model: Model) -> list[str]:
    config = model.config
    does = "cuts text into words" if model.indexer.cuts else f"finds {', '.join(labels_of(model.indexer.tags))}"
    verb = "segment" if model.indexer.cuts else "tag"
    indexer = model.indexer
    counts = [f"{len(indexer.vocab) - 1:,} characters"] if config.reads_characters else []
    lexicons = [lexicon for lexicon in (indexer.lexicon, indexer.subwords) if lexicon is not None]
    for source, lexicon in zip(config.lattice_sources, lexicons, strict=True):
        counts.append(f"{len(lexicon):,} {source.called} in the lexicon")
    counts += [] if indexer.words is None else [f"{len(indexer.words) - 1:,} words"]
    counts += [] if indexer.segmenter is None else [f"text cut by {config.segment.by}"]
    return [
        f"# {folder.resolve().name}",
        "",
        f"A {kind_of(config)} made with hanlattice. It {does}.",
        "",
        f"- {config.model.hidden} hidden units a direction, {model.indexer.scheme} tags, seed {config.train.seed}",
        f"- {', '.join(counts)}",
        *_packed(model),
        f'- use it: `hanlattice {verb} -m FOLDER "…"`, or `hanlattice.load("FOLDER")` in Python',
    ]


def _packed(model: Model) -> list[str]:
    if "packed" not in model.data:
        return []
    lexicon = model.indexer.lexicon
    kept = "" if lexicon is None else f", {counted(len(lexicon), 'word')} kept"
    packed = model.data["packed"]
    return [f"- packed: precision {', then '.join([*packed.get('before', []), packed['precision']])}{kept}"]


def kind_of(config: Config) -> str:
    """What the model is, in words."""
    model = config.model
    kind = {"lattice": "lattice LSTM–CRF", "char": "character LSTM–CRF", "word": "word LSTM–CRF"}[model.encoder]
    sources = [source.called for source in config.lattice_sources]
    parts = {" and ".join(sources): "subwords" in sources}
    parts["characters by LSTM"] = model.char_features == "lstm"
    parts["characters by one LSTM over the sentence"] = model.char_features == "sentence-lstm"
    parts["characters by convolution"] = model.char_features == "cnn"
    parts["bigrams"], parts["softwords"] = model.bichar, model.softword
    parts["parts of speech"] = model.softword and config.softwords.pos
    parts["a separate forget gate"] = model.encoder == "lattice" and not model.coupled
    parts[f"{model.layers} layers"] = model.layers > 1
    parts["a language model"] = bool(config.lm.model)
    named = [part for part, there in parts.items() if there]
    return kind + (f" with {', '.join(named)}" if named else "")


def _data(model: Model) -> list[str]:
    rows = [
        f"| {name} | {facts['file'] or 'held out from train'} | {facts['sentences']:,} | {facts['characters']:,} "
        f"| {facts['spans']:,} |"
        for name, facts in model.data.items()
        if name in PARTS
    ]
    vectors = model.data.get("vectors", {})
    return [
        "## Data",
        "",
        "| part | file | sentences | characters | spans |",
        "|---|---|---|---|---|",
        *rows,
        "",
        f"Character vectors: {vectors.get('chars') or 'random'}. Bigram vectors: {vectors.get('bichars') or 'none'}. "
        f"Word vectors: {vectors.get('words') or 'none'}. "
        + (f"Subword vectors: {vectors['subwords']}. " if vectors.get("subwords") else "")
        + f"Language model: {vectors.get('lm') or 'none'}.",
    ]


def _scores(model: Model, scores: Mapping[str, Any]) -> list[str]:
    lines = ["## Scores", "", f"Best epoch on dev: {scores.get('epoch', '–')}. Exact spans, in per cent."]
    before = scores.get(BEFORE, {})
    if any("segmentation" in report for report in (*_own(scores).values(), *before.values())):
        lines[-1] = f"{lines[-1]} {_WORDS}"
    lines += _tables(_own(scores))
    if before:
        again = "before" in model.data.get("packed", {})
        whose = "the trained model, before it was first packed" if again else "the model that this one was made from"
        lines += ["", "### Before packing", "", f"Of {whose}."]
    return [*lines, *_tables(before)]


def _own(scores: Mapping[str, Any]) -> dict[str, Any]:
    return {part: scores[part] for part in ("dev", "test") if part in scores}


def _tables(scores: Mapping[str, Any]) -> Iterator[str]:
    for part, report in scores.items():
        yield from ("", f"| {part} | precision | recall | F1 | gold |", "|---|---|---|---|---|")
        for name, score in named_scores(report):
            ratios = " | ".join(percent(score.get(key)) for key in ("precision", "recall", "f1"))
            yield f"| {name} | {ratios} | {score['gold']} |"
