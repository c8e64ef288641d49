"""An epoch's text as B streams side by side, made on the device where the model is trained."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from hanlattice.pretrain.lm.text import BREAK_ID, Lines


class Streams:
    """The lines on a device, and the streams of each epoch.

    A stream has as many symbols as the others, so fewer than B symbols at the end of an epoch's order are left out.
    """

    def __init__(self, lines: Lines, batch_size: int, device: torch.device) -> None:
        self.lines, self.batch_size = lines, batch_size
        self.ids = torch.from_numpy(lines.ids).to(device)  # [N], int32; on a CPU no copy of them
        self.steps = lines.symbols // batch_size  # targets of one stream

    def epoch(self, seed: int, epoch: int) -> Tensor:
        """[B, steps + 1], int32: at each place the input, and one further on the target.

        Seed and epoch decide the order of the lines. The last target of a stream is the first input of the next.
        """
        order = np.random.default_rng([seed, epoch]).permutation(len(self.lines))
        text = self._joined(order)[: self.steps * self.batch_size + 1]
        return text.unfold(0, self.steps + 1, self.steps).contiguous()

    def _joined(self, order: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Tensor:
        """[symbols + 1]: a break, then line after line, each with its break."""
        device = self.ids.device
        starts = torch.from_numpy(self.lines.starts[order]).to(device)
        sizes = torch.from_numpy(self.lines.lengths[order]).to(device) + 1
        before = sizes.cumsum(0) - sizes
        places = (starts - before).repeat_interleave(sizes)
        places += torch.arange(len(places), device=device)
        first = torch.full((1,), BREAK_ID, dtype=self.ids.dtype, device=device)
        return torch.cat([first, self.ids[places]])
