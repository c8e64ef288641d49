"""A corpus from end to end: plan its shards, do those that are not there, and follow what comes of
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from hanlattice.corpus.inputs import find_sources
from hanlattice.corpus.manifest import (
    FORMAT,
    NAME,
    OUTPUT,
    PART,
    Record,
    append_record,
    read_manifest,
    write_manifest,
)
from hanlattice.corpus.outputs import added_columns
from hanlattice.corpus.settings import CorpusSettings, digest_of, open_predictor
from hanlattice.corpus.shards import Shard, cut
from hanlattice.corpus.walk import Kind, is_inside, look, walk
from hanlattice.corpus.worker import ShardTask, ShardWorker, output_name, output_stem
from hanlattice.encodings import UTF8, called, check_encoding
from hanlattice.errors import HanlatticeError, InputError, OutputError, one_line
from hanlattice.events import Listener, ignore
from hanlattice.files import lock_folder, remove, sha256
from hanlattice.inference.device import device_kind
from hanlattice.tasks.local import CAN_FORK, LocalProcesses
from hanlattice.tasks.run import Outcome, run_tasks
from hanlattice.text.display import counted, visible

WAIT = 3.0  # seconds that the processes of a run that was killed may need to end
# Tagging it once makes what is made at its first use, so that forked processes share it.
_WARM = "2024年，张三在New York说：你好。"

Engine = Callable[["CorpusPlan", Listener], Iterator[tuple[int, Outcome]]]


@dataclass
class CorpusPlan:
    """All shards of a corpus in their order; `todo` are those whose outputs are not there yet."""

    settings: CorpusSettings
    out: Path
    head: Record  # of the manifest
    digest: str  # of model, dictionaries and options, as in the names of the outputs
    tasks: list[ShardTask]
    records: dict[str, Record]  # of the outputs that are there, by name
    kept: list[Record] = field(default_factory=list)  # of outputs whose inputs cannot be read now
    failures: dict[str, str] = field(default_factory=dict)  # by the name of a file, or output: why

    @property
    def todo(self) -> list[ShardTask]:
        return [task for task in self.tasks if task.output not in self.records]

    def save(self) -> None:
        """Write the manifest: its records in the order of the shards, then those that are kept."""
        there = [self.records[task.output] for task in self.tasks if task.output in self.records]
        write_manifest(self.out, self.head, [*there, *self.kept])


@dataclass(frozen=True)
class Summary:
    """What is in the output folder after a run."""

    shards: int
    made: int  # of these, by this run
    rows: int
    broken: int
    characters: int
    spans: int
    failures: dict[str, str]


def run(
    inputs: Sequence[str],
    out: str | Path,
    settings: CorpusSettings,
    workers: int = 1,
    listen: Listener = ignore,
    engine: Engine | None = None,
) -> Summary:
    """Tag a corpus. Called again it checks what is there, and does what is missing; `engine` says
    who does it.
    """
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{one_line(folder)} is a file; --out must name a folder, old or new")
    _check_apart(inputs, folder)
    with lock_folder(folder, "corpus", WAIT):
        plan = make_plan(inputs, folder, settings, listen)
        plan.save()
        made = len(plan.todo)
        if plan.todo:
            progress = CorpusProgress(plan, listen)
            follow(plan, (engine or on_this_machine(workers))(plan, progress), progress)
            plan.save()
            _remove_parts(folder)
        return _summary(plan, made)


def on_this_machine(workers: int) -> Engine:
    """Make an engine of local processes. On a CPU they share a model; on a GPU each loads one."""

    def engine(plan: CorpusPlan, listen: Listener) -> Iterator[tuple[int, Outcome]]:
        predictor = None
        if CAN_FORK and device_kind(plan.settings.device) == "cpu":
            predictor = open_predictor(plan.settings)
            predictor(_WARM)
        team = [ShardWorker(plan.settings, plan.out, plan.digest, predictor)] * workers
        for task, _, outcome in run_tasks(team, plan.todo, LocalProcesses(), listen):
            yield task, outcome

    return engine


def make_plan(
    inputs: Sequence[str], out: Path, settings: CorpusSettings, listen: Listener = ignore
) -> CorpusPlan:
    """Read all inputs, cut them, and check the outputs there. Those of other settings or inputs are
    refused.
    """
    identity = settings.identity()
    head, records = read_manifest(out)
    if head is not None and records:  # a run that failed before its first output binds nobody
        _check_same(out, head, identity)
    added = added_columns(settings.format, settings.into)
    encoding = check_encoding(settings.encoding)
    found = find_sources(
        inputs, settings.input_format, settings.field, added, encoding, is_inside(out)
    )
    if found.passed_over:
        first = found.passed_over[0]
        count = len(found.passed_over)
        listen(
            {
                "event": "notice",
                "text": f"{count} files of other formats are passed over, such as {first}",
            }
        )
    if found.outputs:
        text = f"{counted(len(found.outputs), 'file')} such as {found.outputs[0]} are not read"
        listen({"event": "notice", "text": f"{text}, because --out has them"})
    for notice in found.notices:
        listen({"event": "notice", "text": notice})
    plan = CorpusPlan(settings, out, {}, digest_of(identity), [], {}, failures=found.failures)
    for source in found.sources:
        try:
            shards = list(cut(source, settings.shard_size))
        except InputError as error:
            plan.failures[source.name] = str(error)
            continue
        plan.tasks += [
            ShardTask(shard, output_name(shard, settings, plan.digest)) for shard in shards
        ]
        if source.encoding != UTF8:
            text = f"{source.path}: read as {called(source.encoding)}; --encoding names another"
            listen({"event": "notice", "text": text})
        listen({"event": "read", "path": str(source.path), "shards": len(shards)})
    if settings.strict and plan.failures:
        raise InputError(next(iter(plan.failures.values())))
    plan.head = {
        "format": FORMAT,
        **identity,
        "shards": len(plan.tasks),
        "unreadable": sorted(plan.failures),
    }
    _tidy(plan, records, bool(found.unlisted))
    for task in plan.tasks:
        record = records.get(task.output)
        if record is not None and _is_whole(out / task.output, record, task.shard):
            plan.records[task.output] = record
    return plan


def _check_same(out: Path, head: Record, identity: Record) -> None:
    """Refuse to put outputs of another model, dictionary or option beside those that are there."""
    options = {f"option {name}": value for name, value in identity["options"].items()}
    before = {f"option {name}": value for name, value in head.get("options", {}).items()}
    now = {**identity, **options}
    then = {**head, **before}
    other = [name for name in now if name != "options" and now[name] != then.get(name)]
    if other:
        message = (
            f"its outputs have another {', another '.join(other)}: choose another --out,"
            f" or the same settings"
        )
        details = "; ".join(f"{name} was {then.get(name)}, is {now[name]}" for name in other)
        raise InputError(f"{message} ({details})", out / NAME)


def _check_apart(inputs: Sequence[str], out: Path) -> None:
    """Refuse to write into a folder that is read, by whatever names the two are called."""
    for given in inputs:
        folder = Path(given)
        if look(folder).kind is Kind.folder and is_inside(folder)(out / NAME):
            raise InputError(
                f"--out lies in {one_line(given)}, which is read: choose another folder", out
            )


def _remove_parts(out: Path) -> None:
    """Remove what killed processes were writing."""
    for path in _files(out):
        if PART.fullmatch(path.name):
            remove(path)


def _files(out: Path) -> Iterator[Path]:
    """All files of the output folder, which has to be readable if it is there."""
    for entry in walk(out, hidden=True) if out.exists() else ():
        if entry.kind is Kind.unreadable:
            raise OutputError(f"{one_line(entry.path)}: {entry.message}")
        if entry.kind is Kind.file:
            yield entry.path


def _tidy(plan: CorpusPlan, records: dict[str, Record], is_blind: bool) -> None:
    """Remove what a killed run was writing; refuse outputs that no input of this run has.

    Outputs whose inputs cannot be read now stay, with their records. `is_blind`: those may be any.
    """
    _remove_parts(plan.out)
    expected = {task.output for task in plan.tasks}
    strangers = []
    failed = tuple(f"{stem}{end}" for stem in map(output_stem, plan.failures) for end in "./")
    for path in _files(plan.out):
        name = path.relative_to(plan.out).as_posix()
        if not OUTPUT.fullmatch(path.name) or name in expected:
            continue
        record = records.get(name)
        is_known = record is not None and _has_failed(record["input"]["path"], plan.failures)
        if record is not None and (is_known or is_blind):
            plan.kept.append(record)
        elif not is_blind and not name.startswith(failed):
            strangers.append(name)
    if strangers:
        message = (
            f"{len(strangers)} outputs there are of other inputs, or of inputs that "
            f"have changed, such as"
        )
        raise InputError(
            f"{message} {one_line(min(strangers))}: remove them, or choose another --out", plan.out
        )


def _has_failed(name: str, failures: Container[str]) -> bool:
    """Whether an input could not be read, or a folder that it lies in."""
    return any(str(path) in failures for path in (name, *PurePosixPath(name).parents))


def _is_whole(path: Path, record: Record, shard: Shard) -> bool:
    """Whether an output is what its record says, and comes from this very input."""
    is_same = (
        record["input"] == shard.key and path.is_file() and path.stat().st_size == record["bytes"]
    )
    return is_same and sha256(path) == record["sha256"]


class CorpusProgress:
    """Hears what processes tell, and passes on how far all of it is: rate, remaining time,
    failures.
    """

    def __init__(self, plan: CorpusPlan, listen: Listener) -> None:
        self._listen = listen
        self._todo = plan.todo
        self._started = time.monotonic()
        self._under_way: dict[int, dict[str, int]] = {}
        self.total = sum(task.shard.size for task in self._todo)
        self.bytes = self.characters = self.rows = self.broken = self.shards = self.failed = 0
        kept = len(plan.tasks) - len(self._todo)
        facts = {
            "shards": len(plan.tasks),
            "kept": kept,
            "bytes": self.total,
            "failed": len(plan.failures),
        }
        listen({"event": "plan", **facts})

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "working":
            self._under_way[event["task"]] = event
            self._report()
        else:
            self._listen(event)

    def finished(self, at: int, record: Record | None) -> None:
        self._under_way.pop(at, None)
        self.bytes += self._todo[at].shard.size
        self.shards += 1
        if record is None:
            self.failed += 1
        else:
            self.characters += record["characters"]
            self.rows += record["rows"]
            self.broken += record["broken"]
        self._report()

    def _report(self) -> None:
        seconds = max(time.monotonic() - self._started, 1e-9)
        sizes = (
            min(each["bytes"], self._todo[at].shard.size) for at, each in self._under_way.items()
        )
        done = self.bytes + sum(sizes)
        characters = self.characters + sum(each["characters"] for each in self._under_way.values())
        remaining = seconds * (self.total - done) / done if done else None
        facts = {"bytes": done, "total": self.total, "characters": characters, "seconds": seconds}
        counts = {
            "shards": self.shards,
            "of": len(self._todo),
            "failed": self.failed,
            "broken": self.broken,
        }
        self._listen(
            {
                "event": "progress",
                **facts,
                **counts,
                "rate": characters / seconds,
                "remaining": remaining,
            }
        )


def follow(
    plan: CorpusPlan, results: Iterator[tuple[int, Outcome]], progress: CorpusProgress
) -> None:
    """Take the outcomes of `plan.todo` as they come, record them, and report them; one that is
    final stops the run.
    """
    todo = plan.todo
    for at, outcome in results:
        output = todo[at].output
        if outcome.record is not None:
            append_record(plan.out, outcome.record)
            plan.records[output] = outcome.record
        elif outcome.is_final:
            raise HanlatticeError(outcome.reason)
        else:
            plan.failures[output] = outcome.reason
            progress({"event": "failed", "output": output, "reason": outcome.reason})
        progress.finished(at, outcome.record)


def _summary(plan: CorpusPlan, made: int) -> Summary:
    names = ("rows", "broken", "characters", "spans")
    rows, broken, characters, spans = (
        sum(each[name] for each in plan.records.values()) for name in names
    )
    missing = len(plan.tasks) - len(plan.records)
    return Summary(len(plan.tasks), made - missing, rows, broken, characters, spans, plan.failures)


def raise_failures(summary: Summary, out: Path) -> None:
    """One error for all that failed, if anything did."""
    if summary.failures:
        lines = [f"  - {visible(reason)}" for reason in summary.failures.values()]
        more = [f"  - and {len(lines) - 20} others"] if len(lines) > 20 else []
        head = (
            f"{len(lines)} failed; {one_line(out)} has the others, and the same command "
            f"tries these again:"
        )
        raise HanlatticeError("\n".join([head, *lines[:20], *more]))
