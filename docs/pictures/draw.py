"""Draws the pictures of this folder that need no model: `python docs/pictures/draw.py`.

The others come from the command line, as nanjing.svg does:

    hanlattice explain "南京市长江大桥" --format svg --out docs/pictures/nanjing.svg
"""

from __future__ import annotations

from pathlib import Path

from hanlattice import Lexicon
from hanlattice.explain.svg import lattice
from hanlattice.files import writing

TEXT = "南京市长江大桥"
WORDS = ("南京", "南京市", "市长", "长江", "长江大桥", "大桥")
HERE = Path(__file__).parent


def main() -> None:
    with writing(HERE / "lattice.svg") as file:
        file.write(lattice(TEXT, Lexicon(WORDS).match(TEXT)))


if __name__ == "__main__":
    main()
