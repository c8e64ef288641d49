"""What is compared: configurations × seeds; all mistakes are reported together, at the start."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hanlattice.config import Config, ModelConfig, read_config, variant_names
from hanlattice.errors import ConfigError, HanlatticeError, InputError
from hanlattice.training.warm_start import carried_settings

# Every variant of a file.
ALL = "all"
# Settings that every run gets from the command.
SET_HERE = {"train.seed": "--seeds", "train.device": "--devices"}
MOST_SEEDS = 1000


@dataclass(frozen=True)
class MatrixRow:
    """A configuration and its names."""

    file: Path
    config: Config
    variant: str = ""

    @property
    def stem(self) -> str:
        """Return the beginning of its runs' names."""
        return row_stem(self.file, self.variant)

    @property
    def name(self) -> str:
        """Return its name in the table."""
        return self.config.compare.row or self.stem

    @property
    def part(self) -> str:
        """Return what is compared: test or, where there is none, dev."""
        return "test" if self.config.data.test else "dev"

    @property
    def section(self) -> str:
        """Return the heading of its table; rows under one heading have the same sentences."""
        data = self.config.data
        if data.test:
            return data.test
        if data.dev:
            return f"{data.dev} (dev: there is no test file)"
        limited = f" of its first {data.limit:,} sentences" if data.limit else ""
        held_out = f"{100 * data.holdout:g} %{limited}, held out"
        return f"{data.train} ({held_out}: there is no dev or test file)"

    def is_called(self, name: str) -> bool:
        return bool(name) and name in (self.name, self.stem, self.variant)

    def with_seed(self, seed: int, device: str) -> Config:
        train = dataclasses.replace(self.config.train, seed=seed, device=device)
        return dataclasses.replace(self.config, train=train)


def row_stem(file: str | Path, variant: str = "") -> str:
    """Return `weibo` for configs/weibo.toml, `weibo-lattice` for its variant `lattice`."""
    return f"{Path(file).stem}-{variant}" if variant else Path(file).stem


def run_name(stem: str, seed: int) -> str:
    return f"{stem}-{seed}"


def read_rows(
    files: Iterable[str | Path],
    changes: Sequence[str] = (),
    against: str = "",
    variants: Sequence[str] = (),
) -> list[MatrixRow]:
    """Read the rows in the order given; one error reports all mistakes.

    Args:
        files: configurations. Each is a row, or a row for each of `variants`.
        changes: settings for all rows, as `--set` takes them.
        against: the name of the row that the others are compared with.
        variants: names from variants.toml, or `["all"]`.
    """
    problems = [
        f"--set {place} is for a single training: {option} sets it here"
        for change in changes
        for place, option in SET_HERE.items()
        if change.partition("=")[0].strip() == place
    ]
    rows: list[MatrixRow] = []
    for file in map(Path, files):
        try:
            rows += _rows_of(file, changes, variants)
        except ConfigError as error:
            problems += error.problems
        except HanlatticeError as error:
            problems.append(str(error))
    problems += _ambiguous(rows)
    for row in rows:
        data = row.config.data
        if not (data.test or data.dev or data.holdout):
            missing = f"{row.stem} has no test or dev to compare on"
            problems.append(f"{missing}: name data.test, data.dev or data.holdout")
    if against and not problems and not any(row.is_called(against) for row in rows):
        names = ", ".join(dict.fromkeys(row.name for row in rows))
        problems.append(f"--against {against}: no row has this name; the rows are {names}")
    if problems:
        raise ConfigError(problems, "the comparison")
    if not rows:
        raise InputError("give the configurations to compare: one TOML file or more")
    return rows


def _rows_of(file: Path, changes: Sequence[str], variants: Sequence[str]) -> list[MatrixRow]:
    names = variant_names(file) if ALL in variants else tuple(variants) or ("",)
    if not names:
        raise InputError("it has no variants", file)
    rows: list[MatrixRow] = []
    # Problem → the variants that have it.
    having: dict[str, list[str]] = {}
    for name in names:
        try:
            settings: Any = {"variant": name, "complete": True, "carried": carried_settings}
            rows.append(MatrixRow(file, read_config(file, changes, **settings), name))
        except ConfigError as error:
            for problem in error.problems:
                having.setdefault(problem, []).append(name)
    if having:
        problems = []
        for problem, some in having.items():
            where = f" ({', '.join(some)})" if len(some) < len(names) else ""
            problems.append(f"{file}{where}: {problem}")
        raise ConfigError(problems)
    return rows


def _ambiguous(rows: Sequence[MatrixRow]) -> Iterator[str]:
    """Report names that two rows would share."""
    for stem, count in Counter(row.stem for row in rows).items():
        if count > 1:
            files = ", ".join(str(row.file) for row in rows if row.stem == stem)
            shared = f"{count} configurations have the name {stem}"
            yield f"{shared}, which is their runs' folder ({files}): rename one"
    for (section, name), count in Counter((row.section, row.name) for row in rows).items():
        stems = sorted({row.stem for row in rows if (row.section, row.name) == (section, name)})
        if count > 1 and len(stems) > 1:
            shared = f"{' and '.join(stems)} are both shown as {name!r}"
            yield f"{shared}: give each a compare.row of its own"


def read_seeds(text: str) -> tuple[int, ...]:
    """Read `5` as seeds 1 to 5, `1,4,7` as these three, and `7,` as this one."""
    words = [word.strip() for word in text.split(",")]
    if len(words) > 1 and not words[-1]:
        words.pop()
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 19]
    if len(numbers) < len(words):
        wanted = "how many, such as 5, or which, such as 1,4,7"
        raise InputError(f"--seeds takes {wanted}; not {text!r}")
    if "," in text:
        return check_seeds(numbers)
    if numbers[0] > MOST_SEEDS:
        trainings = f"{numbers[0]:,} trainings of each row"
        raise InputError(f"--seeds {text.strip()} is {trainings}; at most {MOST_SEEDS:,}")
    return check_seeds(range(1, numbers[0] + 1))


def check_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    """Return the seeds, of which there must be one at least, each once."""
    checked = tuple(seeds)
    if not checked:
        raise InputError("--seeds must be one or more")
    for seed, count in Counter(checked).items():
        if count > 1:
            again = "another run with it would be the same run"
            raise InputError(f"seed {seed} is given {count} times: {again}")
        if not 0 <= seed < 1 << 63:
            raise InputError(f"a seed is a number from 0 to 2⁶³ − 1, not {seed}")
    return checked


def changed_settings(config: Config) -> dict[str, Any]:
    """Return `section.key` → value of settings that are no defaults, except seed and device."""
    defaults = flat_settings(Config())
    # The default of `coupled` depends on the encoder.
    defaults["model.coupled"] = ModelConfig(encoder=config.model.encoder).coupled
    ours = flat_settings(config).items()
    return {key: value for key, value in ours if value != defaults[key] and key not in SET_HERE}


def flat_settings(config: Config) -> dict[str, Any]:
    """Return every setting as `section.key` → value."""
    sections = config.as_dict().items()
    return {f"{name}.{key}": value for name, keys in sections for key, value in keys.items()}
