"""What a labelled corpus contains: sizes, lengths, labels, and how much of it training lacks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hanlattice.evaluation.ner import LONG
from hanlattice.evaluation.report import NONE, Table, count
from hanlattice.text.normalize import fold
from hanlattice.text.sentence import Corpus, Sentence
from hanlattice.text.span import WORD, Span
from hanlattice.text.tags import illegal_places
from hanlattice.theme import TONES, plot, plot_text, tidy

# The result of `statistics`.
Facts = Mapping[str, Any]
# The text of a table's cell for one file.
Cell = Callable[[Facts], str]

# (the longest, name) of each class of spans.
LENGTHS = ((1, "1"), (2, "2"), (3, "3"), (4, "4"), (6, "5–6"), (9, "7–9"))
LONGER = "10 or more"
SEEN = "seen"
RELABELLED = "seen with another label"
UNSEEN = "unseen"


def statistics(corpus: Corpus, trained: Sequence[Sentence] | None = None) -> dict[str, Any]:
    """Count everything, for JSON.

    Sentences are counted in code points. Different characters and spans are counted as a model
    sees them: with widths folded and, for characters, every digit a 0.

    - `illegal_tags` are places where a tag does not fit the one before it; None without tags.
    - `words` are the words of a column of words; None without one.
    - `unseen` is what the sentences in `trained` lack; None without them.
    """
    sentences = corpus.sentences
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    # Entry n is the least length that n per cent of the sentences do not exceed.
    percentiles = np.percentile(lengths, range(101), method="inverted_cdf")
    characters = {character for sentence in sentences for character in sentence.characters}
    spans = [(sentence, span) for sentence in sentences for span in sentence.spans or ()]
    texts = {sentence.folded[span.start : span.end] for sentence, span in spans}
    sizes = Counter(length_class(span.end - span.start) for _, span in spans)
    words = [len(sentence.words) for sentence in sentences if sentence.words is not None]
    illegal = None
    if corpus.tags is not None and corpus.scheme is not None:
        illegal = sum(len(illegal_places(tags, corpus.scheme)) for tags in corpus.tags)
    return {
        "sentences": len(sentences),
        "long_sentences": int((lengths >= LONG).sum()),
        "characters": int(lengths.sum()),
        "different_characters": len(characters),
        "lengths": {
            "mean": float(lengths.mean()),
            "percentiles": [int(length) for length in percentiles],
        },
        "spans": len(spans),
        "different_spans": len(texts),
        "span_characters": sum(span.end - span.start for _, span in spans),
        "labels": dict(Counter(span.label for _, span in spans).most_common()),
        "span_lengths": {name: sizes[name] for name in (*(name for _, name in LENGTHS), LONGER)},
        "words": sum(words) if words else None,
        "illegal_tags": illegal,
        "unseen": None if trained is None else _unseen(sentences, trained),
    }


def _unseen(sentences: Sequence[Sentence], trained: Sequence[Sentence]) -> dict[str, int]:
    """Count what training lacks, and the sentences that it has verbatim."""
    texts = {sentence.text for sentence in trained}
    known = seen_labels(trained)
    characters = Counter(character for sentence in sentences for character in sentence.characters)
    for character in {character for sentence in trained for character in sentence.characters}:
        del characters[character]
    spans = [(sentence, span) for sentence in sentences for span in sentence.spans or ()]
    classes = Counter(seen_class(sentence.text, span, known) for sentence, span in spans)
    folded = {sentence.folded[span.start : span.end] for sentence, span in spans}
    return {
        "repeated_sentences": sum(sentence.text in texts for sentence in sentences),
        "characters": characters.total(),
        "different_characters": len(characters),
        "spans": classes[UNSEEN],
        "other_label": classes[RELABELLED],
        "different_spans": len(folded - known.keys()),
    }


def tables(files: Mapping[str, Facts]) -> Iterator[Table]:
    """Yield tables with a column for each file: sizes, labels, lengths of spans."""
    every = list(files.values())
    are_words = all(set(facts["labels"]) == {WORD} for facts in every)
    noun = "words" if are_words else "entities"
    yield _table("", files, _rows(noun, are_words))
    if not are_words:
        labels = dict.fromkeys(label for facts in every for label in facts["labels"])
        yield _table("By label", files, ((label, _span_share("labels", label)) for label in labels))
    names = (*(name for _, name in LENGTHS), LONGER)
    lengths = ((name, _span_share("span_lengths", name)) for name in names)
    yield _table(f"{noun.capitalize()} by length in characters", files, lengths)


def _rows(noun: str, are_words: bool) -> Iterator[tuple[str, Cell]]:
    """Yield name and cell of every possible row; `_table` drops a row without any figure."""

    def of_spans(facts: Facts) -> str:
        return f"{facts['span_characters'] / max(1, facts['spans']):.2f}"

    yield "sentences", lambda facts: count(facts["sentences"])
    yield f"- of {LONG} characters or more", lambda facts: count(facts["long_sentences"])
    yield "characters", lambda facts: count(facts["characters"])
    yield "- different ones", lambda facts: count(facts["different_characters"])
    yield "- in a sentence, mean", lambda facts: f"{facts['lengths']['mean']:.1f}"
    yield "- median", lambda facts: count(facts["lengths"]["percentiles"][50])
    yield "- longest", lambda facts: count(facts["lengths"]["percentiles"][100])
    yield noun, lambda facts: count(facts["spans"])
    yield "- different ones", lambda facts: count(facts["different_spans"])
    yield "- in a sentence, mean", lambda facts: f"{facts['spans'] / facts['sentences']:.2f}"
    yield "- characters, mean", of_spans
    yield "words, of the column", lambda facts: count(facts["words"])
    yield "illegal tags", lambda facts: count(facts["illegal_tags"])
    yield "sentences that train has", _unseen_cell("repeated_sentences", "sentences")
    yield "characters that train lacks", _unseen_cell("characters", "characters")
    yield "- different ones", _unseen_cell("different_characters", "different_characters")
    yield f"{noun} that train lacks", _unseen_cell("spans", "spans")
    yield "- different ones", _unseen_cell("different_spans", "different_spans")
    if not are_words:
        yield "- that it has with another label", _unseen_cell("other_label", "spans")


def _unseen_cell(name: str, whole: str) -> Cell:
    def cell(facts: Facts) -> str:
        unseen = facts["unseen"]
        return NONE if unseen is None else _share(unseen[name], facts[whole])

    return cell


def _span_share(kind: str, name: str) -> Cell:
    return lambda facts: _share(facts[kind].get(name, 0), facts["spans"])


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / max(1, whole):.2f} %)"


def _table(title: str, files: Mapping[str, Facts], rows: Iterator[tuple[str, Cell]]) -> Table:
    cells = [(name, *(cell(facts) for facts in files.values())) for name, cell in rows]
    return Table(title, ("", *files), tuple(row for row in cells if set(row[1:]) != {NONE}))


def draw(files: Mapping[str, Facts], path: Path) -> None:
    """Plot a line for each file: the share of its sentences up to each length."""
    with plot(path, 6.0, 3.6) as figure:
        axis = figure.subplots()
        for index, (name, facts) in enumerate(files.items()):
            # An empty text has no place on a logarithmic axis.
            lengths = np.maximum(1, facts["lengths"]["percentiles"])
            colour = TONES[index % len(TONES)].light
            axis.step(lengths, range(101), where="post", color=colour, label=plot_text(name))
        longest = max(facts["lengths"]["percentiles"][100] for facts in files.values())
        if longest >= LONG:
            axis.axvline(LONG, color="0.6", linestyle="--", linewidth=0.9)
        axis.set(xscale="log", xlabel="characters of a sentence")
        axis.set_ylabel("sentences of at most that length, %")
        places = (1, 2, 5, 10, 20, 50, 100, LONG, 500, 1000, 2000, 5000)
        ticks = [place for place in places if place <= longest] or [1]
        axis.set_xticks(ticks, map(str, ticks), minor=False)
        axis.set_xticks([], minor=True)
        axis.legend(frameon=False, fontsize=8, loc="lower right")
        tidy(axis)


def length_class(length: int) -> str:
    """Return the name of the class of a span with this many characters."""
    return next((name for longest, name in LENGTHS if length <= longest), LONGER)


def seen_labels(trained: Iterable[Sentence]) -> dict[str, set[str]]:
    """Return the labels of every training entity, by its text as a model sees it."""
    labels: dict[str, set[str]] = defaultdict(set)
    for sentence in trained:
        for span in sentence.spans or ():
            labels[sentence.folded[span.start : span.end]].add(span.label)
    return labels


def seen_class(text: str, span: Span, known: Mapping[str, set[str]]) -> str:
    """Return whether training has this entity, has it with another label only, or lacks it."""
    labels = known.get(fold(text[span.start : span.end]), ())
    return SEEN if span.label in labels else RELABELLED if labels else UNSEEN
