"""The options that several commands share. Each is declared once: type, name, help and panel.

A command takes an option as a parameter, such as `device: Device = "cpu"`. Options that always come
together are the fields of a frozen dataclass, and `with_options` lets a command take that instead.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from hanlattice.errors import InputError
from hanlattice.files import use_encoding
from hanlattice.inference.threshold import check_decode


def resolve_paths(files: Iterable[str | Path]) -> list[Path]:
    """Return the paths of files; `@name/file` names one in the download cache."""
    from hanlattice.data.download import resolve

    return [resolve(file) for file in files]


# Panels of `--help`
_INPUT = "Input"
_MODEL = "Model and dictionary"
_SPEED = "Device and speed"

# What a command reads
Inputs = Annotated[
    list[str],
    typer.Argument(help="A text, a file with one text a line, or `-` for standard input."),
]
IsText = Annotated[
    bool,
    typer.Option(
        "--text",
        help="Read every input as text, even if a file has that name.",
        rich_help_panel=_INPUT,
    ),
]
Unbuffered = Annotated[
    bool,
    typer.Option(
        "--unbuffered",
        help="Answer each line of a pipe at once. Default: wait for a pause of 0.15 seconds.",
        rich_help_panel=_INPUT,
    ),
]
Encoding = Annotated[
    str,
    typer.Option(
        callback=use_encoding,
        help=(
            "Input encoding. `auto` detects UTF-8, UTF-16, GB18030 and Big5. "
            "Any other encoding is given by its name, such as `gbk`."
        ),
        rich_help_panel=_INPUT,
    ),
]
LabelledFile = Annotated[
    str,
    typer.Argument(help="Labelled file, or `@name/file` from `hanlattice data get`."),
]
LabelledFiles = Annotated[
    list[str],
    typer.Argument(help="Labelled files, or `@name/file` from `hanlattice data get`."),
]
RawFiles = Annotated[
    list[Path],
    typer.Argument(help="Raw text, one paragraph a line: plain, gz or xz."),
]
CorpusFormat = Annotated[
    str,
    typer.Option(
        help="Format of labelled files: `auto`, `columns`, `segmented`, `jsonl`, `conllu`, "
        "`label-studio` or `spacy`. `auto` decides by the suffix.",
        rich_help_panel=_INPUT,
    ),
]
CorpusScheme = Annotated[
    str,
    typer.Option(
        help="Tag scheme of columns: `auto`, `BIO`, `IOB1`, `BMES` or `BIOES`.",
        rich_help_panel=_INPUT,
    ),
]

# Which model, and how it is used
ModelArgument = Annotated[
    str,
    typer.Argument(help="Bundled model (`ner` or `seg`) or model folder."),
]
ModelFolder = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="Bundled model (`ner` or `seg`) or model folder.",
        rich_help_panel=_MODEL,
    ),
]
Lexicons = Annotated[
    list[Path] | None,
    typer.Option(
        "--lexicon",
        "-l",
        callback=lambda paths: paths and resolve_paths(paths),
        help="Dictionary file. The model uses its words without retraining. Repeatable.",
        rich_help_panel=_MODEL,
    ),
]
Trust = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1000,
        help="Bonus for dictionary words. Default: 3 for segmentation, 16 for labelled entities.",
        rich_help_panel=_MODEL,
    ),
]
Decode = Annotated[
    str | None,
    typer.Option(
        callback=lambda way: way if way is None else str(check_decode(way)),
        help="How spans are chosen. `path`: the best tag sequence. `spans`: the best expected F1. "
        "A number: like `spans`, with this threshold. Default: as the model was trained.",
        rich_help_panel=_MODEL,
    ),
]

# Where and how fast it computes
Device = Annotated[
    str,
    typer.Option(help="Device: `cpu` or `cuda`.", rich_help_panel=_SPEED),
]
Fast = Annotated[
    bool,
    typer.Option(
        "--fast",
        help="Compute with rounded numbers. This is faster, and scores may differ slightly.",
        rich_help_panel=_SPEED,
    ),
]
Threads = Annotated[
    int,
    typer.Option(
        min=1,
        help="CPU threads. More threads help only on an idle machine.",
        rich_help_panel=_SPEED,
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Texts read at a time. Default: 1024 on a CPU, 4096 on a GPU.",
        rich_help_panel=_SPEED,
    ),
]

# What a command writes
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Output file. Default: standard output."),
]
MinScore = Annotated[
    float,
    typer.Option(min=0, max=1, help="Leave out spans with a lower probability."),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print JSON instead of tables."),
]
Plot = Annotated[
    Path | None,
    typer.Option(help="Plot to write: `.svg` or `.png`. Needs the extra `plot`."),
]

# How a long job runs
Seed = Annotated[
    int,
    typer.Option(min=0, help="Random seed. The same seed gives the same result."),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting: `section.key=value`. Repeatable."),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Resume the interrupted run in `--out`."),
]


class Engines(StrEnum):
    local = "local"
    ray = "ray"


Engine = Annotated[
    Engines,
    typer.Option(help="Where tasks run: processes of this machine, or a Ray cluster."),
]
Address = Annotated[
    str,
    typer.Option(
        help="Ray cluster. `auto`: the one on this machine. Default: `RAY_ADDRESS`, or a new one.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class DictionaryOptions:
    """The words that a user adds to a model."""

    lexicon: Lexicons = None
    trust: Trust = None

    def __post_init__(self) -> None:
        if self.trust is not None and not self.lexicon:
            raise InputError("--trust is for the words of --lexicon: give one")


@dataclass(frozen=True, kw_only=True)
class TextOptions(DictionaryOptions):
    """The options of every command that reads texts with a model."""

    inputs: Inputs
    out: Out = None
    model: ModelFolder = "ner"
    is_text: IsText = False
    encoding: Encoding = "auto"
    unbuffered: Unbuffered = False
    device: Device = "cpu"


@dataclass(frozen=True, kw_only=True)
class BatchOptions(TextOptions):
    """The options of a command that computes many texts at a time."""

    fast: Fast = False
    threads: Threads = 1
    batch_size: BatchSize = None


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer, in which each dataclass among the parameters becomes options.

    Typer reads the options of a command from its signature, and knows no dataclasses. So the
    command gets a signature with a parameter for each field, and puts the dataclasses together.

    Example:
        @with_options
        def segment(options: BatchOptions, format: Format = Format.text) -> None: ...
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += _parameters(parameter.annotation)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters(group: Any) -> list[inspect.Parameter]:
    """Return a parameter for each field of a dataclass."""
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=_annotation(field, hints[field.name]),
        )
        for field in fields(group)
    ]


def _annotation(field: Field[Any], hint: Any) -> Any:
    """Return the type of a field, with its option; the server's limits have only a help text."""
    about = field.metadata.get("help")
    return hint if about is None else Annotated[hint, typer.Option(help=about)]
