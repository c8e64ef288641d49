"""The project's Markdown: its pages, what stands in their code blocks, and the commands in there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "src").rglob("README.md"),
    ]
)
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", flags=re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    text: str


def read(page: str | Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str | Path) -> list[Block]:
    """The fenced code of a page."""
    return [Block(found[2], textwrap.dedent(found[3])) for found in _BLOCK.finditer(read(page))]


def commands(page: str | Path) -> list[str]:
    """The lines that a reader would type: blocks of no language, and of a console, without prompt and remark."""
    return [
        line.strip().removeprefix("$ ").partition("  #")[0].strip()
        for block in blocks(page)
        if block.language in ("", "console")
        for line in block.text.splitlines()
        if line.strip()
    ]


def prose(page: str | Path) -> str:
    """A page without its blocks of code."""
    return _BLOCK.sub("", read(page))
