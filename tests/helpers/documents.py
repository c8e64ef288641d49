"""The project's Markdown pages, their code blocks, and the commands in these blocks."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from string import Template
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("README.md")]
)
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", flags=re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A code block of a page."""

    language: str
    text: str


def read(page: str | Path) -> str:
    """Return the text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str | Path) -> list[Block]:
    """Return the code blocks of a page."""
    return [Block(match[2], textwrap.dedent(match[3])) for match in _BLOCK.finditer(read(page))]


def commands(page: str | Path) -> list[str]:
    """Return the lines of console blocks that a reader would type, without prompt and remark."""
    return [
        line.strip().removeprefix("$ ").partition("  #")[0].strip()
        for block in blocks(page)
        if block.language in ("", "console")
        for line in block.text.splitlines()
        if line.strip()
    ]


def prose(page: str | Path) -> str:
    """Return a page without its code blocks."""
    return _BLOCK.sub("", read(page))


def shell_commands(page: str | Path) -> list[str]:
    """Return every command in the shell blocks of a page, with its variables filled in.

    A command may take several lines. Remarks are left out.
    """
    result: list[str] = []
    for block in blocks(page):
        if block.language not in ("", "console", "sh", "bash"):
            continue
        variables: dict[str, str] = {}
        for line in _whole_lines(block.text):
            if assigned := re.fullmatch(r"(?:\w+=\S+; )*(\w+)=(\"[^\"]*\"|\S+)", line):
                for name, value in re.findall(r"(\w+)=(\"[^\"]*\"|[^\s;]+)", assigned[0]):
                    variables[name] = value.strip('"')
            else:
                result.append(Template(line).safe_substitute(variables))
    return result


def _whole_lines(text: str) -> list[str]:
    """Return lines without prompt and remark; a backslash or an open quote joins two lines."""
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
