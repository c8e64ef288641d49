"""What is compared: configurations × seeds. Everything that can be wrong with them is told before anything starts."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hanlattice.config import Config, read_config
from hanlattice.errors import ConfigError, HanlatticeError, InputError

CHOSEN = {"train.seed": "--seeds", "train.device": "--devices"}  # settings that every run gets from the command
MOST = 1000


@dataclass(frozen=True)
class Row:
    """A configuration, and where its line in the table stands."""

    stem: str
    file: Path
    config: Config

    @property
    def name(self) -> str:
        return self.config.compare.row or self.stem

    @property
    def part(self) -> str:
        """What is compared: test or, where there is none, dev."""
        return "test" if self.config.data.test else "dev"

    @property
    def section(self) -> str:
        """The heading under which the row stands. Rows under the same one were scored on the same sentences."""
        data = self.config.data
        if data.test:
            return data.test
        if data.dev:
            return f"{data.dev} (dev: there is no test file)"
        limited = f" of its first {data.limit:,} sentences" if data.limit else ""
        return f"{data.train} ({100 * data.holdout:g} %{limited}, held out: there is no dev or test file)"

    def with_seed(self, seed: int, device: str) -> Config:
        return dataclasses.replace(self.config, train=dataclasses.replace(self.config.train, seed=seed, device=device))


def run_name(stem: str, seed: int) -> str:
    return f"{stem}-{seed}"


def read_rows(files: Iterable[str | Path], changes: Sequence[str] = (), against: str = "") -> list[Row]:
    """The rows in the order given; one error for all mistakes."""
    problems = [
        f"--set {place} is for one training: here it comes from {option}"
        for change in changes
        for place, option in CHOSEN.items()
        if change.partition("=")[0].strip() == place
    ]
    rows: list[Row] = []
    for file in map(Path, files):
        try:
            rows.append(Row(file.stem, file, read_config(file, changes, complete=True)))
        except ConfigError as error:
            problems += [f"{file}: {problem}" for problem in error.problems]
        except HanlatticeError as error:
            problems.append(str(error))
    problems += [*_twice(rows), *_unknown(rows, against, bool(problems))]
    if problems:
        raise ConfigError(problems, "the comparison")
    if not rows:
        raise InputError("give the configurations that are to be compared: one TOML file or more")
    return rows


def _twice(rows: Sequence[Row]) -> Iterator[str]:
    """Names that would stand for two things."""
    for stem, count in Counter(row.stem for row in rows).items():
        if count > 1:
            files = ", ".join(str(row.file) for row in rows if row.stem == stem)
            yield f"{stem} names a run's folder, and {count} configurations are called so ({files}): rename one"
    for (section, name), count in Counter((row.section, row.name) for row in rows).items():
        stems = sorted({row.stem for row in rows if (row.section, row.name) == (section, name)})
        if count > 1 and len(stems) > 1:
            yield f"{' and '.join(stems)} are both shown as {name!r}: give each a compare.row of its own"


def _unknown(rows: Sequence[Row], against: str, incomplete: bool) -> Iterator[str]:
    if against and not incomplete and not any(is_called(row, against) for row in rows):
        names = list(dict.fromkeys(row.name for row in rows))
        yield f"--against {against}: no row is called so; the rows are {', '.join(names)}"


def is_called(row: Row, name: str) -> bool:
    return name in (row.name, row.stem)


def read_seeds(text: str) -> tuple[int, ...]:
    """`5` is seeds 1 to 5; `1,4,7` are those, and `7,` is that one."""
    words = [word.strip() for word in text.split(",")]
    if len(words) > 1 and not words[-1]:
        words.pop()
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 19]
    if len(numbers) < len(words):
        raise InputError(f"--seeds wants how many, such as 5, or which, such as 1,4,7; not {text!r}")
    if "," in text:
        return check_seeds(numbers)
    if numbers[0] > MOST:
        raise InputError(
            f"--seeds {text.strip()} would be {numbers[0]:,} trainings of each; at most {MOST:,} are taken"
        )
    return check_seeds(range(1, numbers[0] + 1))


def check_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    """Each once, and at least one."""
    found = tuple(seeds)
    if not found:
        raise InputError("--seeds must be one or more")
    for seed, count in Counter(found).items():
        if count > 1:
            raise InputError(f"seed {seed} is given {count} times: another run with it would be the same run")
        if not 0 <= seed < 1 << 63:
            raise InputError(f"a seed is a number from 0 to 2⁶³ − 1, not {seed}")
    return found


def changed_settings(config: Config) -> dict[str, Any]:
    """`section.key` → value of every setting that is not the default, seed and device aside."""
    plain = flat_settings(Config())
    ours = flat_settings(config)
    return {place: value for place, value in ours.items() if value != plain[place] and place not in CHOSEN}


def flat_settings(config: Config) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, keys in config.as_dict().items() for key, value in keys.items()}
