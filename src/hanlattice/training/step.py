"""One training step, and the state from which a stopped training is resumed. Taggers and language
models share both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from hanlattice.checkpoint.checksums import load_tensors, save_tensors
from hanlattice.checkpoint.schema import parse
from hanlattice.errors import HanlatticeError, ModelError
from hanlattice.features import Batch
from hanlattice.nn.tagger import TorchTagger
from hanlattice.training.optim import Average

FORMAT = "1"  # of a state


@dataclass
class Progress:
    """Where a training stands. `epoch` and `batch` are the next ones to do, from 0."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss: float = 0.0  # the sum over `counted` sentences or symbols
    counted: int = 0
    characters: int = 0
    best: float | None = None  # the best score so far, and the epoch or step of it
    best_at: int = 0
    seconds: float = 0.0
    log_size: int = 0

    def advance(self, counted: int, characters: int) -> None:
        """Count one more batch."""
        self.batch += 1
        self.step += 1
        self.counted += counted
        self.characters += characters

    def check(self) -> None:
        """Raise a ValueError if a number is negative that cannot be."""
        for name, number in asdict(self).items():
            if name not in ("loss", "best") and number < 0:
                raise ValueError(f"{name} must be 0 or more, not {number}")

    @property
    def mean_loss(self) -> float:
        return self.loss / max(1, self.counted)


class Training:
    """What a step changes: weights, their average, the optimiser, random numbers, the sum of
    losses, the progress.
    """

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, clip: float, memory: float = 0.0
    ) -> None:
        """`clip` is the longest gradient that a step takes, 0 takes any; `memory` is that of the
        average.
        """
        self.model = model
        self.optimizer = optimizer
        self.clip = clip
        self.average = Average(model, memory)
        self.progress = Progress()
        self.device: torch.device = self.average.weights[0].device
        self.loss = torch.zeros(
            (), dtype=torch.float64, device=self.device
        )  # not read at each step: a GPU would wait

    def step(
        self, add_gradients: Callable[[], Tensor], rate: float | Sequence[float] | None = None
    ) -> None:
        """One step. `add_gradients` adds those of the mean loss to the weights', and gives the sum
        of the losses.

        `rate` is one for all, or one for each group of the optimiser's.
        """
        if rate is not None:
            groups = self.optimizer.param_groups
            rates = [rate] * len(groups) if isinstance(rate, float) else rate
            for group, lr in zip(groups, rates, strict=True):
                group["lr"] = lr
        self.optimizer.zero_grad(set_to_none=True)
        loss = add_gradients()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.average.weights, self.clip)
        self.optimizer.step()
        self.average.update(self.progress.step)
        self.loss += loss

    def record_loss(self) -> None:
        """Read the sum of losses from the device. A loss that is not finite ends the training."""
        progress = self.progress
        loss = float(self.loss)
        if not loss < float("inf"):
            raise HanlatticeError(
                f"the loss is {loss} by epoch {progress.epoch + 1}, batch {progress.batch}: training has diverged; "
                "lower the learning rate (lr) or clip the gradients (clip), and start again with another --out"
            )
        progress.loss = loss

    def reset_loss(self) -> None:
        """Begin a new sum of losses."""
        self.loss.zero_()
        self.progress.loss = 0.0
        self.progress.counted = 0

    def save(self, path: Path, identity: str, carried: Mapping[str, Tensor] | None = None) -> None:
        """Write the state. `identity` says which settings and data it belongs to; `carried` is
        passed on by batches.
        """
        self.record_loss()
        tensors = self._tensors(carried)
        for at, slots in self.optimizer.state_dict()["state"].items():
            tensors |= {
                f"optimizer.{at}.{name}": value
                for name, value in slots.items()
                if value is not None
            }
        tensors["rng.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["rng.cuda"] = torch.cuda.get_rng_state(self.device)
        metadata = {
            "format": FORMAT,
            "identity": identity,
            "progress": json.dumps(asdict(self.progress)),
            "slots": str(sum(name.startswith("optimizer.") for name in tensors)),
        }
        save_tensors(path, tensors, metadata)

    def load(self, path: Path, identity: str, carried: Mapping[str, Tensor] | None = None) -> None:
        """Put everything back as it was when the state was written."""
        tensors, metadata = load_tensors(path)
        if metadata.get("format") != FORMAT:
            raise ModelError(
                f"{path}: another version of hanlattice wrote this state, and this version cannot resume from it; "
                "resume with that version, or start again with another --out"
            )
        if metadata.get("identity") != identity:
            raise ModelError(
                f"{path.parent}: its stopped run had another configuration or other data; resume with the same ones"
            )
        mine = self._tensors(carried)
        for name, tensor in mine.items():
            if name not in tensors or not _is_like(tensors[name], tensor):
                raise ModelError(
                    f"{path}: {name} does not fit the model; start again with another --out"
                )
        try:
            progress = Progress(**parse(metadata.get("progress", "{}"), Progress, "progress"))
            progress.check()
            self._check_names(tensors, mine)
            slots = self._slots(tensors, metadata["slots"])
            with torch.no_grad():
                for name, tensor in mine.items():
                    tensor.copy_(tensors[name])
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": slots})
            torch.set_rng_state(tensors["rng.cpu"])
            if self.device.type == "cuda" and "rng.cuda" in tensors:
                torch.cuda.set_rng_state(tensors["rng.cuda"], self.device)
            self.progress = progress
        except (LookupError, ValueError, TypeError, RuntimeError) as error:
            raise ModelError(
                f"{path}: it is not a state of this run ({error}); start again with another --out"
            ) from None
        self.loss.fill_(self.progress.loss)

    def _check_names(self, tensors: Mapping[str, Tensor], mine: Mapping[str, Tensor]) -> None:
        for name in tensors:
            if name not in mine and not name.startswith(("optimizer.", "rng.")):
                raise ValueError(f"unexpected {name}")

    def _slots(self, tensors: Mapping[str, Tensor], count: str) -> dict[int, dict[str, Tensor]]:
        """The optimiser's tensors for each weight, by the number of the weight.

        A weight that has taken no part in a step yet has no slots; otherwise it has all of them.
        """
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        names = self._slot_names()
        slots: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if not name.startswith("optimizer."):
                continue
            _, at, slot = name.split(".", 2)
            weight = weights[int(at)]
            expected = torch.zeros(()) if slot == "step" else weight
            if slot not in names or not _is_like(tensor, expected):
                raise ValueError(f"{name} does not fit its weight")
            slots.setdefault(int(at), {})[slot] = tensor
        for number, found in slots.items():
            for slot in names:
                if slot not in found:
                    raise ValueError(f"optimizer.{number}.{slot} is missing")
        if str(len(slots) * len(names)) != count:
            raise ValueError(f"it must have {count} tensors of the optimiser")
        return slots

    def _slot_names(self) -> tuple[str, ...]:
        if isinstance(self.optimizer, torch.optim.SGD):
            return ("momentum_buffer",) if self.optimizer.defaults["momentum"] else ()
        return ("step", "exp_avg", "exp_avg_sq")

    def _tensors(self, carried: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """What is written, and copied back in place."""
        tensors: dict[str, Tensor] = {
            f"model.{n}": p for n, p in self.model.named_parameters() if p.requires_grad
        }
        tensors |= {f"average.{at}": mean for at, mean in enumerate(self.average.mean)}
        return tensors | {f"carried.{name}": tensor for name, tensor in (carried or {}).items()}


def _is_like(tensor: Tensor, other: Tensor) -> bool:
    return tensor.shape == other.shape and tensor.dtype == other.dtype


def tagger_gradients(tagger: TorchTagger, *parts: Batch) -> Tensor:
    """Add the gradients of the mean loss of a batch, which may come in parts, and give the sum of
    its losses.
    """
    total = torch.zeros((), device=tagger.output.weight.device)
    count = sum(map(len, parts))
    for part in parts:
        loss = tagger.loss(part).sum()
        (loss / count).backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
    return total
