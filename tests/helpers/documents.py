"""The project's Markdown: its pages, what stands in their code blocks, and the commands in there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from string import Template
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
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
    """The lines that a reader would type: blocks of no language, and of a console, without prompt
    and remark.
    """
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


def shell_commands(page: str | Path) -> list[str]:
    """Every command in the blocks for a shell, whole: over several lines, variables filled in,
    without its remark.
    """
    found: list[str] = []
    for block in blocks(page):
        if block.language not in ("", "console", "sh", "bash"):
            continue
        variables: dict[str, str] = {}
        for line in _whole_lines(block.text):
            if assigned := re.fullmatch(r"(?:\w+=\S+; )*(\w+)=(\"[^\"]*\"|\S+)", line):
                for name, value in re.findall(r"(\w+)=(\"[^\"]*\"|[^\s;]+)", assigned[0]):
                    variables[name] = value.strip('"')
            else:
                found.append(Template(line).safe_substitute(variables))
    return found


def _whole_lines(text: str) -> list[str]:
    """Lines without prompt and remark; joined after a backslash, and while a quote is open."""
    lines = [""]
    for line in text.splitlines():
        lines[-1] += line if lines[-1] else line.strip().removeprefix("$ ")
        lines[-1] = lines[-1].partition("  #")[0].rstrip()
        if lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
        elif lines[-1].count('"') % 2:
            lines[-1] += "\n"
        else:
            lines.append("")
    return [line for line in lines if line]
