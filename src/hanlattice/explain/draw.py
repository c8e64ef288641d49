"""Pictures: an Explanation, or a text and the words in it, as SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hanlattice.errors import InputError
from hanlattice.explain.changes import changes
from hanlattice.explain.colours import tones
from hanlattice.explain.glyphs import chance, labelled, percent, shown
from hanlattice.explain.sketch import Arc, Band, Cell, Sketch
from hanlattice.explain.svg import WIDTH, svg
from hanlattice.explain.values import Direction, Explanation, Layer, Share, Word
from hanlattice.text.spans import WORD, Span
from hanlattice.text.tags import labels_of

PLAIN = 0.22  # the thickness of arcs that have no weight


def picture(explanation: Explanation, layer: int = 1, most: float = WIDTH, with_style: bool = True) -> str:
    """The lattice of a text as SVG, with the shares of one layer, counted from 1, the lowest."""
    return svg(sketch(explanation, layer), most, with_style)


def lattice(text: str, words: Iterable[tuple[int, int, str]], most: float = WIDTH) -> str:
    """The words of a text as arcs above it, without any weight: (start, end, word), as `Lexicon.match` gives them."""
    arcs = [Arc(start, end, word, PLAIN, "word") for start, end, word in words]
    cells = tuple(Cell(shown(character), f"character {at}", is_bare=True) for at, character in enumerate(text))
    return svg(Sketch(text, cells, tuple(arcs)), most)


def choose_layer(explanation: Explanation, layer: int) -> Layer | None:
    """The layer of this number; None of a model that has no lattice, and so no layers with words."""
    if not explanation.has_lattice:
        return None
    count = len(explanation.layers)
    if not 1 <= layer <= count:
        layers = "one layer, 1" if count == 1 else f"layers 1 to {count}"
        raise InputError(f"the model has {layers}; there is no layer {layer}")
    return explanation.layers[layer - 1]


def sketch(explanation: Explanation, layer: int = 1) -> Sketch:
    chosen = choose_layer(explanation, layer)
    return Sketch(
        title=explanation.text,
        cells=tuple(_cell(explanation, chosen, at) for at in range(len(explanation.text))),
        above=() if chosen is None else _arcs(explanation, chosen.forward, "forward"),
        below=() if chosen is None else _arcs(explanation, chosen.backward, "backward"),
        bands=_bands(explanation),
        breaks=tuple(start for start, _ in explanation.pieces[1:]),
        legend=_legend(explanation, layer),
    )


def tones_of(explanation: Explanation) -> dict[str, int]:
    """The tones of the labels that the model knows, found in this text or not."""
    return tones({*labels_of(explanation.tag_names), *(span.label for span in explanation.spans)})


def _bands(explanation: Explanation) -> tuple[Band, ...]:
    of = tones_of(explanation)
    return tuple(
        Band(span.start, span.end, span_label(span), of[span.label], f"{span.text}: {span_label(span)}")
        for span in explanation.spans
    )


def span_label(span: Span) -> str:
    """Label and probability; of a word, which all of them are, the probability alone."""
    number = "" if span.score is None else chance(span.score)
    return number if span.label == WORD and number else f"{span.label} {number}".strip()


def kind(word: Word) -> str:
    """The colour of a word."""
    return "chosen" if word.chosen else word.source.removesuffix("s")


def _arcs(explanation: Explanation, direction: Direction, name: str) -> tuple[Arc, ...]:
    sharers = Counter(word.at(name) for word in explanation.words)
    told_without = {nth: f"; without it: {what}" for nth, what in changes(explanation).items()}
    return tuple(
        Arc(
            word.start,
            word.end,
            labelled(word.word, percent(share.mean)),
            share.mean,
            kind(word),
            f"{word.word}, {name}: {told(share)} of the cell of {explanation.text[word.at(name)]}; "
            f"an even share would be {percent(1 / (1 + sharers[word.at(name)]))}{told_without.get(nth, '')}",
        )
        for nth, (word, share) in enumerate(zip(explanation.words, direction.words, strict=True))
    )


def told(share: Share) -> str:
    """A share in words."""
    return f"{percent(share.mean)} ± {percent(share.spread)} (most units {percent(share.low)} to {percent(share.high)})"


def _cell(explanation: Explanation, layer: Layer | None, at: int) -> Cell:
    tag = explanation.tags[at]
    title = f"{shown(explanation.text[at])}, character {at}: "
    if tag is None:
        return Cell(shown(explanation.text[at]), title + "white space, which the model does not read", is_read=False)
    title += f"{tag} {chance(dict(zip(explanation.tag_names, explanation.marginals[at] or (), strict=True))[tag])}"
    if layer is None:
        return Cell(shown(explanation.text[at]), title)
    above, below = (_bar(direction, at) for direction in (layer.forward, layer.backward))
    title += f"; own share {percent(above[0][0])} forward, {percent(below[0][0])} backward"
    return Cell(shown(explanation.text[at]), title, above, below)


def _bar(direction: Direction, at: int) -> tuple[tuple[float, str], ...]:
    """Own input first; the rest is either of words or of the cell before."""
    own, before = direction.own[at], direction.before[at]
    assert own is not None
    return (own.mean, "own"), (1 - own.mean, "word" if before is None else "before")


def _legend(explanation: Explanation, layer: int) -> tuple[tuple[str, str], ...]:
    if not explanation.has_lattice:
        return (("", "this model has no lexicon: it reads characters alone"),)
    if not explanation.words:
        return (("", "no word of the lexicon stands in this text"), *_BARS)
    of = f"layer {layer} of {len(explanation.layers)}; " if len(explanation.layers) > 1 else ""
    kinds = {kind(word) for word in explanation.words}
    entries = [
        ("", "above: read from left to right, words pour into their last character"),
        ("", "below: read from right to left, words pour into their first"),
        ("", f"{of}% and thickness: the share of that character's cell"),
        *(("chosen", "words that were added"),) * ("chosen" in kinds),
        *(("subword", "subwords"),) * ("subword" in kinds),
    ]
    return (*entries, *_BARS)


_BARS = (("own", "share of the character itself"), ("word", "of words"), ("before", "of the cell before"))
