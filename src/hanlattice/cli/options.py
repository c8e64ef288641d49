"""Declare each option that several commands share: its type, name, help and panel.

A command takes an option as a parameter, such as `device: Device = "cpu"`. Options that always
appear together are fields of a frozen dataclass, which `with_options` turns into parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import partial, wraps
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


# Each panel of `--help` has its own kind of option.
_input_option = partial(typer.Option, rich_help_panel="Input")
_model_option = partial(typer.Option, rich_help_panel="Model and dictionary")
_speed_option = partial(typer.Option, rich_help_panel="Device and speed")

# What a command reads
Inputs = Annotated[
    list[str], typer.Argument(help="A text, a file with a text a line, or `-` for standard input.")
]
IsText = Annotated[
    bool, _input_option("--text", help="Read every input as text, even if a file has that name.")
]
Unbuffered = Annotated[
    bool,
    _input_option(
        "--unbuffered",
        help="Answer each line of a pipe at once. Default: wait for a pause of 0.15 seconds.",
    ),
]
Encoding = Annotated[
    str,
    _input_option(
        callback=use_encoding,
        help="Input encoding. `auto` detects UTF-8, UTF-16, GB18030 and Big5. "
        "Any other encoding is given by its name, such as `gbk`.",
    ),
]
LabelledFile = Annotated[
    str, typer.Argument(help="Labelled file, or `@name/file` from `hanlattice data get`.")
]
LabelledFiles = Annotated[
    list[str], typer.Argument(help="Labelled files, or `@name/file` from `hanlattice data get`.")
]
RawFiles = Annotated[
    list[Path], typer.Argument(help="Raw text, one paragraph a line: plain, gz or xz.")
]
CorpusFormat = Annotated[
    str,
    _input_option(
        help="Format of labelled files: `auto`, `columns`, `segmented`, `jsonl`, `conllu`, "
        "`label-studio` or `spacy`. `auto` decides by the suffix."
    ),
]
CorpusScheme = Annotated[
    str, _input_option(help="Tag scheme of columns: `auto`, `BIO`, `IOB1`, `BMES` or `BIOES`.")
]

# Which model, and how it is used
_MODEL_HELP = "Bundled model (`ner` or `seg`) or model folder."
ModelArgument = Annotated[str, typer.Argument(help=_MODEL_HELP)]
ModelFolder = Annotated[str, _model_option("--model", "-m", help=_MODEL_HELP)]
Lexicons = Annotated[
    list[Path] | None,
    _model_option(
        "--lexicon",
        "-l",
        callback=lambda paths: paths and resolve_paths(paths),
        help="Dictionary file. The model uses its words without retraining. Repeatable.",
    ),
]
Trust = Annotated[
    float | None,
    _model_option(
        min=0,
        max=1000,
        help="Bonus for dictionary words. Default: 3 for segmentation, 16 for labelled entities.",
    ),
]
Decode = Annotated[
    str | None,
    _model_option(
        callback=lambda way: way if way is None else str(check_decode(way)),
        help="How spans are chosen. `path`: the best tag sequence. `spans`: the best expected F1. "
        "A number: like `spans`, with this threshold. Default: as the model was trained.",
    ),
]

# Where and how fast it computes
Device = Annotated[str, _speed_option(help="Device: `cpu` or `cuda`.")]
Fast = Annotated[
    bool,
    _speed_option(
        "--fast",
        help="Compute with rounded numbers. This is faster, and scores may differ slightly.",
    ),
]
Threads = Annotated[
    int, _speed_option(min=1, help="CPU threads. More threads help only on an idle machine.")
]
BatchSize = Annotated[
    int | None, _speed_option(min=1, help="Texts at a time. Default: 1024 on a CPU, 4096 on a GPU.")
]

# What a command writes
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Output file. Default: standard output.")
]
MinScore = Annotated[
    float, typer.Option(min=0, max=1, help="Leave out spans with a lower probability.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Plot = Annotated[
    Path | None, typer.Option(help="Plot to write: `.svg` or `.png`. Needs the extra `plot`.")
]

# How a long job runs
Seed = Annotated[int, typer.Option(min=0, help="Random seed. The same seed gives the same result.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="Setting: `section.key=value`. Repeatable.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the interrupted run in `--out`.")]

Engines = StrEnum("Engines", "local ray")
Engine = Annotated[
    Engines, typer.Option(help="Where tasks run: processes of this machine, or a Ray cluster.")
]
Address = Annotated[
    str,
    typer.Option(help="Ray cluster. `auto`: this machine's. Default: `RAY_ADDRESS`, or a new one."),
]


@dataclass(frozen=True, kw_only=True)
class DictionaryOptions:
    """The words that a user adds to a model."""

    lexicon: Lexicons = None
    trust: Trust = None

    def __post_init__(self) -> None:
        if self.trust is not None and not self.lexicon:
            raise InputError("--trust needs --lexicon: give a dictionary file")


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
    command gets a signature with a parameter for each field, and builds the dataclasses from them.

    Example:
        @with_options
        def segment(options: BatchOptions, format: Format = Format.text) -> None: ...
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        group = parameter.annotation
        if not is_dataclass(group):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = group
        hints = get_type_hints(group, include_extras=True)
        for field in fields(group):
            hint = hints[field.name]
            # The server's limits state only a help text, because `server` does not import typer.
            if about := field.metadata.get("help"):
                hint = Annotated[hint, typer.Option(help=about)]
            # The signature is keyword-only, so a required field may follow one with a default.
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            parameters.append(
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
                )
            )

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    # `wraps` copied the annotations of the dataclasses, which typer would read again.
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
