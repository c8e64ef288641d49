"""What a training step changes, and the state from which a stopped training resumes.

`training.loop` shows the step of a tagger; language models share this class.
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
from hanlattice.training.optim import Average

# Version of the state's format.
FORMAT = "1"


@dataclass
class Progress:
    """How far a training is. `epoch` and `batch` are the next ones to do, counted from 0."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    # The sum over `counted` sentences or symbols since the last evaluation.
    loss: float = 0.0
    counted: int = 0
    characters: int = 0
    # The best score so far, and its epoch or step.
    best: float | None = None
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
        """Raise a ValueError if a count is negative."""
        for name, number in asdict(self).items():
            if name not in ("loss", "best") and number < 0:
                raise ValueError(f"{name} must be 0 or more, not {number}")

    @property
    def mean_loss(self) -> float:
        return self.loss / max(1, self.counted)


class Training:
    """Everything that a step changes: weights and their average, optimizer, loss, progress.

    Args:
        model: the model to train.
        optimizer: the optimizer of its weights.
        clip: the largest norm of a step's gradient; 0 does not clip.
        memory: how slowly the average of the weights forgets; 0 keeps no average.
    """

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, clip: float, memory: float = 0.0
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.clip = clip
        self.average = Average(model, memory)
        self.progress = Progress()
        self.device: torch.device = self.average.weights[0].device
        # The sum stays on the device: reading it at each step would make the host wait for a GPU.
        self.loss = torch.zeros((), dtype=torch.float64, device=self.device)

    def set_rates(self, rate: float | Sequence[float]) -> None:
        """Set the learning rate: one for all weights, or one for each group of the optimizer."""
        groups = self.optimizer.param_groups
        rates = [rate] * len(groups) if isinstance(rate, float) else rate
        for group, group_rate in zip(groups, rates, strict=True):
            group["lr"] = group_rate

    def step(
        self, add_gradients: Callable[[], Tensor], rate: float | Sequence[float] | None = None
    ) -> None:
        """Take a step with a model that runs its own backward pass, such as a language model.

        Args:
            add_gradients: runs forward and backward on a batch. It adds the gradients of the mean
                loss to those of the weights and returns the sum of the losses.
            rate: the learning rate, as for `set_rates`; without it, the rate stays.
        """
        if rate is not None:
            self.set_rates(rate)
        self.optimizer.zero_grad(set_to_none=True)
        loss = add_gradients()
        if self.clip:
            nn.utils.clip_grad_norm_(self.average.weights, self.clip)
        self.optimizer.step()
        self.average.update(self.progress.step)
        self.loss += loss

    def record_loss(self) -> None:
        """Read the sum of losses from the device, and raise an error if it is not finite."""
        progress = self.progress
        loss = float(self.loss)
        # A NaN is not below infinity either.
        if not loss < float("inf"):
            raise HanlatticeError(
                f"the loss is {loss} by epoch {progress.epoch + 1}, batch {progress.batch}: "
                "training has diverged; lower the learning rate (lr) or clip the gradients "
                "(clip), and start again with another --out"
            )
        progress.loss = loss

    def reset_loss(self) -> None:
        """Begin a new sum of losses."""
        self.loss.zero_()
        self.progress.loss = 0.0
        self.progress.counted = 0

    def save(self, path: Path, identity: str, carried: Mapping[str, Tensor] | None = None) -> None:
        """Write the state of a run, which has this digest of settings and data.

        `carried` are tensors that one batch passes on to the next.
        """
        self.record_loss()
        tensors = self._tensors(carried)
        for number, slots in self.optimizer.state_dict()["state"].items():
            for name, value in slots.items():
                if value is not None:
                    tensors[f"optimizer.{number}.{name}"] = value
        metadata = {
            "format": FORMAT,
            "identity": identity,
            "progress": json.dumps(asdict(self.progress)),
            "slots": str(sum(name.startswith("optimizer.") for name in tensors)),
        }
        tensors["rng.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["rng.cuda"] = torch.cuda.get_rng_state(self.device)
        save_tensors(path, tensors, metadata)

    def load(self, path: Path, identity: str, carried: Mapping[str, Tensor] | None = None) -> None:
        """Restore the state that `save` wrote, or raise a ModelError and change nothing."""
        tensors, metadata = load_tensors(path)
        if metadata.get("format") != FORMAT:
            raise ModelError(
                f"{path}: another version of hanlattice wrote this state, and this version cannot "
                "resume from it; resume with that version, or start again with another --out"
            )
        if metadata.get("identity") != identity:
            raise ModelError(
                f"{path.parent}: its stopped run had another configuration or other data; "
                "resume with the same ones"
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
            for name in tensors:
                if name not in mine and not name.startswith(("optimizer.", "rng.")):
                    raise ValueError(f"unexpected {name}")
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
                f"{path}: not a state of this run ({error}); start again with another --out"
            ) from None
        self.loss.fill_(self.progress.loss)

    def _slots(self, tensors: Mapping[str, Tensor], count: str) -> dict[int, dict[str, Tensor]]:
        """Return the optimizer's tensors by the number of their weight, `count` in all.

        A weight that has not been in any step has no slots; every other weight has all of them.
        """
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        names: tuple[str, ...] = ("step", "exp_avg", "exp_avg_sq")
        if isinstance(self.optimizer, torch.optim.SGD):
            names = ("momentum_buffer",) if self.optimizer.defaults["momentum"] else ()
        slots: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if not name.startswith("optimizer."):
                continue
            _, number, slot = name.split(".", 2)
            weight = weights[int(number)]
            # AdamW counts the steps of each weight in a scalar.
            expected = torch.zeros(()) if slot == "step" else weight
            if slot not in names or not _is_like(tensor, expected):
                raise ValueError(f"{name} does not fit its weight")
            slots.setdefault(int(number), {})[slot] = tensor
        for index, present in slots.items():
            if missing := [slot for slot in names if slot not in present]:
                raise ValueError(f"optimizer.{index}.{missing[0]} is missing")
        if str(len(slots) * len(names)) != count:
            raise ValueError(f"it must have {count} tensors of the optimizer")
        return slots

    def _tensors(self, carried: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """The tensors that `save` writes and `load` overwrites in place."""
        parameters = self.model.named_parameters()
        tensors: dict[str, Tensor] = {f"model.{n}": p for n, p in parameters if p.requires_grad}
        tensors |= {f"average.{index}": mean for index, mean in enumerate(self.average.mean)}
        return tensors | {f"carried.{name}": tensor for name, tensor in (carried or {}).items()}


def _is_like(tensor: Tensor, model: Tensor) -> bool:
    return tensor.shape == model.shape and tensor.dtype == model.dtype
