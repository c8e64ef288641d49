"""The encoders of `nn` in numpy and C. Every LSTM is the lattice LSTM: without words it is a plain one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from hanlattice.ops import library
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, bidirectional, native, small
from hanlattice.ops.lattice_lstm import trace as op
from hanlattice.ops.lattice_lstm.weights import mirror_places, weight_shapes
from hanlattice.runtime.tables import times
from hanlattice.text.lattice import Ints, Lattice, Segments, cells

Floats = npt.NDArray[np.float32]


class LatticeLSTM(NamedTuple):
    """x [B, T, D], word_x [W, E] → [B, T, 2H]."""

    forward: LatticeLSTMWeights
    backward: LatticeLSTMWeights
    coupled: bool
    packed: Sequence[Floats] = ()  # the weights as C reads them, where there is a library

    def __call__(self, x: Floats, word_x: Floats | None, lattice: Lattice) -> Floats:
        if self.packed:
            assert word_x is not None
            return native.directions(x, word_x, lattice, self[:2], self.coupled, self.packed)
        h: Floats = bidirectional(x, word_x, lattice, self.forward, self.backward, self.coupled)
        return h

    def traced(self, x: Floats, word_x: Floats, lattice: Lattice) -> list[op.Both]:
        """Both directions with the shares that made up their cells: a list of one layer."""
        return [op.bidirectional(x, word_x, lattice, (self.forward, self.backward), self.coupled)]


class LSTM(LatticeLSTM):
    """The same without words: x [B, T, D] → [B, T, 2H]."""

    def __call__(self, x: Floats, word_x: Floats | None, lattice: Lattice) -> Floats:
        none = np.empty((0, 0), dtype=x.dtype)
        return super().__call__(x, none, lattice.without_words())


class RNN(NamedTuple):
    """h_j = tanh(W x_j + U h_{j−1} + b) in both directions. W is [D, H], U [H, H]."""

    forward: tuple[Floats, Floats, Floats]
    backward: tuple[Floats, Floats, Floats]

    def __call__(self, x: Floats, word_x: Floats | None, lattice: Lattice) -> Floats:
        flip = mirror_places(lattice, x.shape[1])[:, :, None]
        ahead, back = self._run(x, *self.forward), self._run(np.take_along_axis(x, flip, 1), *self.backward)
        real = (np.arange(x.shape[1]) < lattice.lengths[:, None])[:, :, None]
        return np.where(real, np.concatenate([ahead, np.take_along_axis(back, flip, 1)], axis=2), np.float32(0))

    def _run(self, x: Floats, by_input: Floats, by_state: Floats, bias: Floats) -> Floats:
        out = times(x, by_input) + bias
        for t in range(x.shape[1]):
            np.tanh(out[:, t] + out[:, t - 1] @ by_state if t else out[:, t], out=out[:, t])
        return out


Layer = LatticeLSTM | RNN
AnyLSTM = TypeVar("AnyLSTM", bound=LatticeLSTM)


class Stack(NamedTuple):
    """The first layer reads x, the others what the one below gives; all see the same words. See `nn.lattice_lstm`."""

    layers: Sequence[Layer]
    whole_words: bool = False
    fast: Sequence[small.SmallLayer] = ()  # the same layers with weights of 8 bits

    def __call__(self, x: Floats, word_x: Floats | None, lattice: Lattice) -> Floats:
        if self.fast:
            return small.run_layers(self.fast, x, word_x, lattice, self.whole_words)
        for n, layer in enumerate(self.layers):
            x = layer(x, self._seen(n, x, word_x, lattice), lattice)
        return x

    def _seen(self, n: int, x: Floats, word_x: Floats | None, lattice: Lattice) -> Floats | None:
        """The words as layer n sees them."""
        if word_x is None or not n or not self.whole_words:
            return word_x
        return small.with_states(word_x, x, lattice)

    def traced(self, x: Floats, word_x: Floats, lattice: Lattice) -> list[op.Both]:
        """What each lattice layer mixed its cells of, from the lowest up."""
        found: list[op.Both] = []
        for n, layer in enumerate(self.layers):
            seen = self._seen(n, x, word_x, lattice)
            if isinstance(layer, LatticeLSTM) and not isinstance(layer, LSTM):
                assert seen is not None
                found += layer.traced(x, seen, lattice)
                x = np.concatenate([direction.h for direction in found[-1]], axis=2)
            else:
                x = layer(x, seen, lattice)
        return found


def plain_lstm(forward: Sequence[Floats], backward: Sequence[Floats]) -> LSTM:
    """Of nn.LSTM's weights for each direction: by input [4H, D], by state [4H, H], two biases; gates are i, f, g, o."""
    return LSTM(_plain(*forward), _plain(*backward), False)


def _plain(by_input: Floats, by_state: Floats, bias: Floats, other: Floats) -> LatticeLSTMWeights:
    H = by_state.shape[1]
    order = np.concatenate([np.arange(2 * H), np.arange(3 * H, 4 * H), np.arange(2 * H, 3 * H)])
    by_input, by_state = (np.ascontiguousarray(part[order].T) for part in (by_input, by_state))
    return without_words(by_input, by_state, (bias + other)[order], coupled=False)


def without_words(by_input: Floats, by_state: Floats, bias: Floats, coupled: bool) -> LatticeLSTMWeights:
    """Weights of characters alone; those of words are zero, and never used."""
    shapes = weight_shapes(by_input.shape[0], 0, by_state.shape[0], coupled)
    return LatticeLSTMWeights(by_input, by_state, bias, *(np.zeros(shape, dtype=np.float32) for shape in shapes[3:]))


class WordCharLSTM(NamedTuple):
    """One LSTM inside each word: the last states of both directions. Words of similar length are read at once."""

    lstm: LSTM

    def __call__(self, x: Floats, segments: Segments) -> Floats:
        long, H = segments.end - segments.start, self.lstm.forward.hidden
        found = np.empty((len(segments), 2 * H), dtype=x.dtype)
        sizes = np.ceil(np.log2(long)).astype(np.int64)
        for size in np.unique(sizes).tolist():
            here = np.flatnonzero(sizes == size)
            row, nth = cells(long[here])
            padded = np.zeros((len(here), int(long[here].max()), x.shape[2]), dtype=x.dtype)
            padded[row, nth] = x[segments.sentence[here][row], segments.start[here][row] + nth]
            h = self.lstm(padded, None, plain_lattice(long[here]))
            found[here, :H], found[here, H:] = h[np.arange(len(here)), long[here] - 1, :H], h[:, 0, H:]
        return found


class SentenceCharLSTM(NamedTuple):
    """One LSTM over a sentence's characters, with a boundary [D] before, between and after its words."""

    lstm: LSTM
    boundary: Floats

    def __call__(self, x: Floats, segments: Segments) -> Floats:
        H, b = self.lstm.forward.hidden, segments.sentence
        lengths = np.where(segments.counts > 0, segments.lengths + segments.counts + 1, 0)
        padded = np.tile(self.boundary, (len(lengths), int(lengths.max(initial=0)), 1))
        before = segments.start + np.arange(len(segments)) - segments.first[b]  # so much is before a word's boundary
        word, nth = cells(segments.end - segments.start)
        padded[b[word], before[word] + 1 + nth] = x[b[word], segments.start[word] + nth]
        h = self.lstm(padded, None, plain_lattice(lengths))
        after = before + 1 + segments.end - segments.start
        return np.concatenate([h[b, after, :H], h[b, before, H:]], axis=1)


class CharCNN(NamedTuple):
    """A convolution of width 3 over each word's own characters, zero beyond them, and the maximum over the word."""

    weight: Floats  # [width, 3D], of the character before, this one and the one after
    bias: Floats

    def __call__(self, x: Floats, segments: Segments) -> Floats:
        long, D = segments.end - segments.start, x.shape[2]
        if not len(segments):
            return np.empty((0, len(self.bias)), dtype=x.dtype)
        word, nth = cells(long)
        chars = x[segments.sentence[word], segments.start[word] + nth]  # [N, D]
        left, own, right = (times(chars, self.weight[:, n * D : (n + 1) * D].T) for n in range(3))
        inside = (word[1:] == word[:-1])[:, None]  # whether two neighbours share their word
        sums = own + self.bias
        sums[1:] += np.where(inside, left[:-1], np.float32(0))
        sums[:-1] += np.where(inside, right[1:], np.float32(0))
        found: Floats = np.maximum.reduceat(sums, np.cumsum(long) - long)
        return found


Features = WordCharLSTM | SentenceCharLSTM | CharCNN  # x [B, T, D] → [W, width]: what the characters of words say


class WordLSTM(NamedTuple):
    """x [B, T, D], word_x [W, E] → [B, U, 2H], U the most words of a sentence; zero after a sentence's last word."""

    layers: Sequence[LSTM]
    features: Features | None = None

    def __call__(self, x: Floats | None, word_x: Floats, segments: Segments) -> Floats:
        rows = word_x
        if self.features is not None:
            assert x is not None
            rows = np.concatenate([word_x, self.features(x, segments)], axis=1)
        row, nth = cells(segments.counts)
        out = np.zeros((len(segments.counts), int(segments.counts.max(initial=0)), rows.shape[1]), dtype=rows.dtype)
        out[row, nth] = rows
        for layer in self.layers:
            out = layer(out, None, plain_lattice(segments.counts))
        return out


def plain_lattice(lengths: Ints) -> Lattice:
    """Sequences of these lengths, without words."""
    nothing = np.empty(0, dtype=np.int64)
    return Lattice.trusted(np.array(lengths), *(nothing.copy() for _ in range(4)))


def packed(encoder: Layer | Stack | WordLSTM, fast: bool) -> Layer | Stack | WordLSTM:
    """The encoder with its weights as C reads them, if there is a library; with `fast`, in 8 bits where it can be."""
    if isinstance(encoder, WordLSTM):
        return encoder._replace(layers=[_packed(layer) for layer in encoder.layers])
    stack = encoder if isinstance(encoder, Stack) else Stack([encoder])
    lstms = [layer for layer in stack.layers if isinstance(layer, LatticeLSTM)]
    if fast and len(lstms) == len(stack.layers) and all(small.available(layer[:2]) for layer in lstms):
        return stack._replace(
            fast=[small.small_layer(each[:2], each.coupled, not isinstance(each, LSTM)) for each in lstms]
        )
    ready = stack._replace(layers=[layer if isinstance(layer, RNN) else _packed(layer) for layer in stack.layers])
    return ready if isinstance(encoder, Stack) else ready.layers[0]


def _packed(layer: AnyLSTM) -> AnyLSTM:
    has_library = library.available(*layer.forward, *layer.backward)
    return layer._replace(packed=native.pack(layer[:2], layer.coupled)) if has_library else layer
