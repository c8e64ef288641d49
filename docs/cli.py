"""Writes docs/cli.md, the page of every verb, from the functions behind the command line: `python
docs/cli.py`.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from typer.models import ArgumentInfo, OptionInfo

from hanlattice.cli import app

PAGE = Path(__file__).with_name("cli.md")
HEAD = """\
# Every command

Made from the program itself by `make docs`; `hanlattice VERB --help` says the same. A mistake
of the user, or an output
that cannot be written, ends with exit code 2 and one line that says what was expected; Ctrl-C
ends with 130,
SIGTERM with 143, SIGHUP with 129, a reader that has gone with 141. `hanlattice --version` says
which version it is.
"""


@dataclass(frozen=True)
class Parameter:
    """An argument or option of a verb, as its function declares it."""

    name: str
    kind: Any  # its type without None and list
    info: ArgumentInfo | OptionInfo
    default: object
    is_list: bool

    @property
    def is_argument(self) -> bool:
        return isinstance(self.info, ArgumentInfo)

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty or self.default is ...

    @property
    def names(self) -> list[str]:
        """As they are typed; a flag without names of its own has one for no, too."""
        if self.is_argument:
            return [self.name.upper()]
        first = (
            [self.info.default] if isinstance(self.info.default, str) else []
        )  # where Annotated leaves the first
        given = [
            word for names in (*first, *(self.info.param_decls or ())) for word in names.split("/")
        ]
        flag = self.name.replace("_", "-")
        return given or ([f"--{flag}", f"--no-{flag}"] if self.kind is bool else [f"--{flag}"])

    @property
    def meaning(self) -> str:
        """Its help, and the values that it takes."""
        more = [(self.info.help or "").strip()]
        if isinstance(self.kind, type) and issubclass(self.kind, Enum):
            more.append("One of " + ", ".join(f"`{each.value}`" for each in self.kind) + ".")
        low, high = self.info.min, self.info.max
        if low is not None or high is not None:
            least, most = (
                "" if low is None else f"from {low:,}",
                "" if high is None else f"up to {high:,}",
            )
            more.append(f"{least} {most}".strip().capitalize() + ".")
        return " ".join(more)

    @property
    def value(self) -> str:
        """What it is unless said otherwise; nothing for flags, and for what has no value then."""
        if self.is_required:
            return "must be given"
        if self.default in (None, False, ""):
            return ""
        return (
            "yes" if self.default is True else f"`{getattr(self.default, 'value', self.default)}`"
        )

    @property
    def row(self) -> str:
        cells = ", ".join(f"`{name}`" for name in self.names), self.value, self.meaning
        return (
            "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
        )


def page() -> str:
    """The whole page, ending with one line end."""
    verbs = list(verbs_of())
    contents = [
        f"- [`{name}`](#{name.replace(' ', '-')}): {_help(verb).splitlines()[0]}"
        for name, verb in verbs
    ]
    return (
        "\n".join([HEAD, *contents, "", *(_section(name, verb) for name, verb in verbs)]).rstrip()
        + "\n"
    )


def verbs_of(
    group: typer.Typer = app, prefix: str = "hanlattice"
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions of a group and of those in it, each under the name that is typed."""
    for command in group.registered_commands:
        if command.callback is not None and not command.hidden:
            yield (
                f"{prefix} {command.name or command.callback.__name__.replace('_', '-')}",
                command.callback,
            )
    for inside in group.registered_groups:
        if inside.typer_instance is not None:
            yield from verbs_of(inside.typer_instance, f"{prefix} {inside.name}")


def _section(name: str, verb: Callable[..., Any]) -> str:
    parameters = list(parameters_of(verb))
    arguments = [each for each in parameters if each.is_argument]
    options = [each for each in parameters if not each.is_argument]
    usage = [name, *map(_placeholder, arguments)]
    usage += [f"{each.names[0]} {each.name.upper()}" for each in options if each.is_required]
    lines = [f"## {name}", "", _help(verb), "", "```text", " ".join(usage), "```", ""]
    for heading, rows in (("argument", arguments), ("option", options)):
        if rows:
            lines += [
                f"| {heading} | default | meaning |",
                "|---|---|---|",
                *(each.row for each in rows),
                "",
            ]
    return "\n".join(lines)


def parameters_of(verb: Callable[..., Any]) -> Iterator[Parameter]:
    hints = typing.get_type_hints(verb, include_extras=True)
    for name, given in inspect.signature(verb).parameters.items():
        annotation, *extras = typing.get_args(hints[name])
        info = next((each for each in extras if isinstance(each, (ArgumentInfo, OptionInfo))), None)
        if info is not None and not info.hidden:
            kind, is_list = _bare(annotation)
            yield Parameter(name, kind, info, given.default, is_list)


def _bare(annotation: Any) -> tuple[Any, bool]:
    """`list[Path] | None` is Path, and a list."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(each for each in typing.get_args(annotation) if each is not type(None))
    if typing.get_origin(annotation) is list:
        return typing.get_args(annotation)[0], True
    return annotation, False


def _placeholder(argument: Parameter) -> str:
    name = argument.name.upper() + ("…" if argument.is_list else "")
    return name if argument.is_required else f"[{name}]"


def _help(verb: Callable[..., Any]) -> str:
    """Its docstring, each paragraph on one line."""
    return "\n\n".join(
        " ".join(paragraph.split()) for paragraph in inspect.getdoc(verb).split("\n\n")
    )  # type: ignore[union-attr]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
