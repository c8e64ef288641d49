"""A little raw text, in which some characters occur in the same places."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.helpers.made import sentences


def write_text(folder: Path, lines: int = 150) -> Path:
    """Write sentences of the artificial corpus."""
    path = folder / "raw.txt"
    path.write_text("".join(f"{sentence.text}\n" for sentence in sentences(lines, 3)), "utf-8")
    return path


def write_topics(folder: Path, lines: int = 600) -> Path:
    """Write lines of one topic each: 甲乙丙丁 or 子丑寅卯, in any order."""
    rng = np.random.default_rng(5)
    path = folder / "topics.txt"
    topics = (list(rng.choice(["甲乙丙丁", "子丑寅卯"])) for _ in range(lines))
    path.write_text("".join("".join(rng.choice(topic, 12)) + "\n" for topic in topics))
    return path
