"""What is compared: configurations × seeds. All mistakes in them are reported together, before
anything starts.
"""

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

ALL = "all"  # every variant of a file
SET_HERE = {
    "train.seed": "--seeds",
    "train.device": "--devices",
}  # settings that every run gets from the command
MOST_SEEDS = 1000


@dataclass(frozen=True)
class MatrixRow:
    """A configuration, and how it is named."""

    file: Path
    config: Config
    variant: str = ""

    @property
    def stem(self) -> str:
        """The beginning of its runs' names."""
        return row_stem(self.file, self.variant)

    @property
    def name(self) -> str:
        """Its name in the table."""
        return self.config.compare.row or self.stem

    @property
    def part(self) -> str:
        """What is compared: test or, where there is none, dev."""
        return "test" if self.config.data.test else "dev"

    @property
    def section(self) -> str:
        """The heading of its table. Rows under the same heading were scored on the same sentences."""
        data = self.config.data
        if data.test:
            return data.test
        if data.dev:
            return f"{data.dev} (dev: there is no test file)"
        limited = f" of its first {data.limit:,} sentences" if data.limit else ""
        return f"{data.train} ({100 * data.holdout:g} %{limited}, held out: there is no dev or test file)"

    def is_called(self, name: str) -> bool:
        return bool(name) and name in (self.name, self.stem, self.variant)

    def with_seed(self, seed: int, device: str) -> Config:
        return dataclasses.replace(
            self.config, train=dataclasses.replace(self.config.train, seed=seed, device=device)
        )


def row_stem(file: str | Path, variant: str = "") -> str:
    """`weibo` for configs/weibo.toml, `weibo-lattice` for its variant `lattice`."""
    return f"{Path(file).stem}-{variant}" if variant else Path(file).stem


def run_name(stem: str, seed: int) -> str:
    return f"{stem}-{seed}"


def read_rows(
    files: Iterable[str | Path],
    changes: Sequence[str] = (),
    against: str = "",
    variants: Sequence[str] = (),
) -> list[MatrixRow]:
    """The rows in the order given: a file is one, or one for each of `variants`. One error reports
    all mistakes.
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
        if not (row.config.data.test or row.config.data.dev or row.config.data.holdout):
            problems.append(
                f"{row.stem} has no test or dev to compare on: name data.test, data.dev or data.holdout"
            )
    if against and not problems and not any(row.is_called(against) for row in rows):
        names = dict.fromkeys(row.name for row in rows)
        problems.append(
            f"--against {against}: no row has this name; the rows are {', '.join(names)}"
        )
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
    found: dict[str, list[str]] = {}  # problem → the variants that have it
    for name in names:
        try:
            config = read_config(
                file, changes, variant=name, complete=True, carried=carried_settings
            )
            rows.append(MatrixRow(file, config, name))
        except ConfigError as error:
            for problem in error.problems:
                found.setdefault(problem, []).append(name)
    if found:
        where = {
            problem: f" ({', '.join(some)})" if len(some) < len(names) else ""
            for problem, some in found.items()
        }
        raise ConfigError([f"{file}{where[problem]}: {problem}" for problem in found])
    return rows


def _ambiguous(rows: Sequence[MatrixRow]) -> Iterator[str]:
    """Names that two rows would share."""
    for stem, count in Counter(row.stem for row in rows).items():
        if count > 1:
            files = ", ".join(str(row.file) for row in rows if row.stem == stem)
            yield f"{count} configurations have the name {stem}, which is their runs' folder ({files}): rename one"
    for (section, name), count in Counter((row.section, row.name) for row in rows).items():
        stems = sorted({row.stem for row in rows if (row.section, row.name) == (section, name)})
        if count > 1 and len(stems) > 1:
            yield f"{' and '.join(stems)} are both shown as {name!r}: give each a compare.row of its own"


def read_seeds(text: str) -> tuple[int, ...]:
    """`5` is seeds 1 to 5; `1,4,7` are those, and `7,` is that one."""
    words = [word.strip() for word in text.split(",")]
    if len(words) > 1 and not words[-1]:
        words.pop()
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 19]
    if len(numbers) < len(words):
        raise InputError(
            f"--seeds takes how many, such as 5, or which, such as 1,4,7; not {text!r}"
        )
    if "," in text:
        return check_seeds(numbers)
    if numbers[0] > MOST_SEEDS:
        raise InputError(
            f"--seeds {text.strip()} is {numbers[0]:,} trainings of each row; at most {MOST_SEEDS:,}"
        )
    return check_seeds(range(1, numbers[0] + 1))


def check_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    """Each once, and at least one."""
    found = tuple(seeds)
    if not found:
        raise InputError("--seeds must be one or more")
    for seed, count in Counter(found).items():
        if count > 1:
            raise InputError(
                f"seed {seed} is given {count} times: another run with it would be the same run"
            )
        if not 0 <= seed < 1 << 63:
            raise InputError(f"a seed is a number from 0 to 2⁶³ − 1, not {seed}")
    return found


def changed_settings(config: Config) -> dict[str, Any]:
    """`section.key` → value of every setting that is not the default, except seed and device."""
    defaults = flat_settings(Config())
    ours = flat_settings(config)
    defaults["model.coupled"] = ModelConfig(encoder=config.model.encoder).coupled
    return {
        place: value
        for place, value in ours.items()
        if value != defaults[place] and place not in SET_HERE
    }


def flat_settings(config: Config) -> dict[str, Any]:
    return {
        f"{section}.{key}": value
        for section, keys in config.as_dict().items()
        for key, value in keys.items()
    }
