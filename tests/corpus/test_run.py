"""A corpus from end to end, in real processes: nothing is missing, nothing is twice, whatever dies
in between.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hanlattice.corpus.manifest import read_manifest
from hanlattice.corpus.run import CorpusPlan, make_plan, on_this_machine, run
from hanlattice.corpus.settings import CorpusSettings
from hanlattice.corpus.statistics import count
from hanlattice.errors import HanlatticeError, InputError, ModelError, OutputError
from hanlattice.events import Listener
from hanlattice.files import bounded_name, lock_folder
from hanlattice.output import as_jsonl
from hanlattice.predict import load
from hanlattice.tasks.local import LocalProcesses
from hanlattice.tasks.run import Outcome, run_tasks
from tests.helpers.command import ENVIRONMENT, hanlattice, start
from tests.helpers.command import run as command
from tests.helpers.made import SHAPES, sentence
from tests.helpers.patience import PATIENCE
from tests.helpers.permissions import obeyed_permissions

arrow = pytest.importorskip("pyarrow", reason="pyarrow, of the extra corpus, is not installed")
parquet = pytest.importorskip("pyarrow.parquet")


def texts(count: int, seed: int = 1) -> list[str]:
    rng = np.random.default_rng(seed)
    return [sentence(str(rng.choice(SHAPES)), rng).text for _ in range(count)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two files of text, and one of JSONL with other fields."""
    folder = tmp_path / "in"
    (folder / "more").mkdir(parents=True)
    (folder / "a.txt").write_text("".join(f"{text}\n" for text in texts(120)), encoding="utf-8")
    (folder / "more" / "b.txt").write_text("\n\n 王小明 在南湖\r\n没有换行", encoding="utf-8")
    lines = [
        f'{{"id": {at}, "x": 1.0e0, "text":{json.dumps(text)}}} '
        for at, text in enumerate(texts(40, 2))
    ]
    (folder / "c.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture
def settings(lattice_folder: Path) -> CorpusSettings:
    return CorpusSettings(lattice_folder, shard_size=1000)


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def outputs(folder: Path) -> bytes:
    """All outputs, one after the other, as the manifest has them."""
    return b"".join((folder / name).read_bytes() for name in read_manifest(folder)[1])


def test_the_output_is_that_of_the_library_whoever_makes_it(corpus, settings, tmp_path):
    summary = run([str(corpus)], tmp_path / "one", settings)
    again = run([str(corpus)], tmp_path / "two", settings, workers=3)
    assert (summary.shards, summary.rows, summary.broken, summary.failures) == (
        again.shards,
        164,
        0,
        {},
    )
    assert summary.made == summary.shards > 5
    assert content(tmp_path / "one") == content(tmp_path / "two")

    tagger = load(settings.model)
    plain = texts(120)
    lines = (corpus / "c.jsonl").read_text("utf-8").splitlines()
    found = tagger.pipe(
        [
            *plain,
            *(json.loads(line)["text"] for line in lines),
            "",
            "",
            " 王小明 在南湖",
            "没有换行",
        ]
    )
    expected = [as_jsonl(document) for document in found]
    own = [
        f"{line.rstrip()[:-1]}, {spans.partition(', ')[2]}"
        for line, spans in zip(lines, expected[120:160], strict=True)
    ]
    assert outputs(tmp_path / "one").decode() == "".join([*expected[:120], *own, *expected[160:]])
    assert summary.spans == outputs(tmp_path / "one").count(b'"label"')


def test_a_dictionary_says_what_its_words_are(settings, tmp_path):
    (tmp_path / "names.tsv").write_bytes("电脑\tLOC\n".encode("gbk"))
    (tmp_path / "in.txt").write_bytes("王小明说电脑很好\n".encode("gbk"))
    given = replace(settings, lexicons=(tmp_path / "names.tsv",), trust=100.0, encoding="gbk")
    run([str(tmp_path / "in.txt")], tmp_path / "out", given)
    tagger = load(settings.model)
    tagger.trust = 100.0
    tagger.lexicon.load(tmp_path / "names.tsv", "gbk")
    expected = as_jsonl(tagger("王小明说电脑很好"))
    assert '"text": "电脑"' in expected
    assert outputs(tmp_path / "out").decode() == expected


def test_a_second_run_does_what_is_missing_or_half_and_nothing_else(corpus, settings, tmp_path):
    out = tmp_path / "out"
    run([str(corpus)], out, settings)
    whole = content(out)
    assert run([str(corpus)], out, settings).made == 0
    first, second, third, *_ = sorted(name for name in whole if name.startswith("a.txt"))
    (out / first).unlink()
    (out / second).write_bytes(whole[second][:100])
    (out / third).write_bytes(whole[third].replace(b"PER", b"LOC"))
    (out / f".{third}.0123abcd.part").write_bytes(b"half")
    manifest = out / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes()[:-20])  # and its last record was being written
    assert run([str(corpus)], out, settings, workers=2).made == 4
    assert content(out) == whole
    (corpus / "d.txt").write_text("王小明在南湖\n", encoding="utf-8")
    assert run([str(corpus)], out, settings).made == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"min_score": 0.5}, "another option min_score"),
        ({"field": "words"}, "another option field"),
        ({"shard_size": 999}, "another option shard_size"),
        ({"lexicons": "names.txt"}, "another dictionaries"),
        ({"model": "char"}, "another model"),
    ],
)
def test_an_output_of_something_else_is_refused(
    corpus, settings, tmp_path, char_folder, change, message
):
    (tmp_path / "names.txt").write_text("王小明\n", encoding="utf-8")
    run([str(corpus / "more")], tmp_path / "out", settings)
    before = content(tmp_path / "out")
    given: dict[str, Any] = change
    if "lexicons" in change:
        given = {"lexicons": (tmp_path / "names.txt",)}
    if "model" in change:
        given = {"model": char_folder}
    with pytest.raises(InputError, match=message):
        run([str(corpus / "more")], tmp_path / "out", replace(settings, **given))
    assert content(tmp_path / "out") == before


def test_outputs_of_inputs_that_changed_are_refused(corpus, settings, tmp_path):
    run([str(corpus)], tmp_path / "out", settings)
    with (corpus / "a.txt").open("a", encoding="utf-8") as file:
        file.write("王小明在南湖\n")
    with pytest.raises(
        InputError, match=r"1 outputs there are of other inputs.*such as a\.txt\.\d+-\d+"
    ):
        run([str(corpus)], tmp_path / "out", settings)


def test_a_model_that_changes_while_it_is_used_is_refused(corpus, settings, tmp_path):
    from hanlattice.corpus.worker import ShardWorker

    model = shutil.copytree(settings.model, tmp_path / "model")
    plan = make_plan([str(corpus)], tmp_path / "out", replace(settings, model=model))
    (model / "model.safetensors").write_bytes(b"another")
    worker = ShardWorker(plan.settings, plan.out, plan.digest)
    outcome = worker.attempt(plan.todo[0], lambda event: None)
    assert outcome.is_final
    assert "has changed since this run began" in outcome.reason
    (model / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model\.safetensors is missing"):
        make_plan([str(corpus)], tmp_path / "out", replace(settings, model=model))


def test_broken_rows_are_reported_counted_and_kept(settings, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"text": "\xe5\xa5\xbd"}\n{"text": 1}\n{"text": "\xff"}\n')
    events: list[dict[str, Any]] = []
    summary = run([str(path)], tmp_path / "out", settings, listen=events.append)
    assert (summary.rows, summary.broken) == (3, 2)
    told = [(each["path"], each["line"]) for each in events if each["event"] == "broken"]
    assert told == [(str(path), 2), (str(path), 3)]
    lines = [json.loads(line) for line in outputs(tmp_path / "out").splitlines()]
    assert lines[0] == {"text": "好", "spans": []}
    assert lines[1]["broken"]["content"] == '{"text": 1}'
    assert lines[2]["broken"]["line"] == 3
    assert lines[2]["broken"]["content"].encode("utf-8", "surrogateescape") == b'{"text": "\xff"}'
    with pytest.raises(HanlatticeError, match=r"in\.jsonl:2: its field 'text' is int"):
        run([str(path)], tmp_path / "strict", replace(settings, strict=True))


def test_what_cannot_be_read_fails_and_the_others_are_done(corpus, settings, tmp_path):
    (corpus / "d.txt.gz").write_bytes(b"\x1f\x8b" + bytes(30))
    summary = run([str(corpus)], tmp_path / "out", settings, workers=2)
    assert list(summary.failures) == ["d.txt.gz"]
    assert "d.txt.gz" in summary.failures["d.txt.gz"]
    assert summary.rows == 164
    assert read_manifest(tmp_path / "out")[0]["unreadable"] == ["d.txt.gz"]
    (corpus / "d.txt.gz").unlink()
    run([str(corpus)], tmp_path / "out", settings)
    run([str(corpus)], tmp_path / "other", settings)
    assert content(tmp_path / "out") == content(tmp_path / "other")
    (corpus / "e.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"e\.parquet: cannot be read as Parquet"):
        run([str(corpus)], tmp_path / "out", replace(settings, strict=True))


def test_two_runs_in_one_folder_and_places_that_will_not_do(
    corpus, settings, tmp_path, monkeypatch
):
    monkeypatch.setattr("hanlattice.corpus.run.WAIT", 0.1)
    with (
        lock_folder(tmp_path / "out", "corpus"),
        pytest.raises(OutputError, match="another `hanlattice corpus` is running"),
    ):
        run([str(corpus)], tmp_path / "out", settings)
    with pytest.raises(OutputError, match="is a file"):
        run([str(corpus)], corpus / "a.txt", settings)
    with pytest.raises(InputError, match="--out lies in"):
        run([str(corpus)], corpus / "out", settings)


def test_parquet_keeps_the_columns_of_its_inputs(settings, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    names = texts(20, 3)
    table = arrow.table({"n": arrow.array(range(20), arrow.int16()), "text": [*names[:-1], None]})
    parquet.write_table(table, folder / "a.parquet", row_group_size=7)
    (folder / "b.csv").write_text('k,text\n1,"王小明在\n南湖"\n2\n', encoding="utf-8")
    (folder / "c.jsonl").write_text(
        '{"text": "李伟去了南湖！", "k": [1]}\n{"text": "\\ud800"}\n', encoding="utf-8"
    )
    (folder / "d.txt").write_bytes("李伟去了南湖！\n".encode() + b"\xff\n")
    summary = run(
        [str(folder)], tmp_path / "out", replace(settings, format="parquet", shard_size=1)
    )
    run(
        [str(folder)],
        tmp_path / "two",
        replace(settings, format="parquet", shard_size=1),
        workers=2,
    )
    assert content(tmp_path / "out") == content(tmp_path / "two")
    assert (summary.rows, summary.broken, summary.failures) == (26, 4, {})
    parts: dict[str, list[Any]] = {}
    for name in read_manifest(tmp_path / "out")[1]:
        parts.setdefault(name[0], []).append(parquet.read_table(tmp_path / "out" / name))
    tables = {name: arrow.concat_tables(each) for name, each in parts.items()}
    assert tables["a"].select(["n", "text"]).equals(table)
    tagger = load(settings.model)
    spans = [[span.as_dict() for span in document.spans] for document in tagger.pipe(names[:-1])]
    assert tables["a"]["spans"].to_pylist() == [*spans, None]
    assert tables["a"]["broken"].to_pylist()[-1]["line"] == 20
    assert tables["b"].drop(["spans"]).to_pylist()[0] == {
        "k": "1",
        "text": "王小明在\n南湖",
        "broken": None,
    }
    assert tables["b"].to_pylist()[1]["broken"] == {
        "line": 4,
        "error": "expected 2 columns, not 1",
        "content": b"2",
    }
    assert tables["c"]["record"].to_pylist() == ['{"text": "李伟去了南湖！", "k": [1]}', None]
    assert tables["d"]["broken"].to_pylist()[1]["content"] == b"\xff"


def test_dates_of_parquet_are_for_parquet(settings, tmp_path):
    import datetime

    table = arrow.table({"day": [datetime.date(2024, 1, 1)], "text": ["好"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    summary = run([str(tmp_path / "a.parquet")], tmp_path / "out", settings)
    (reason,) = summary.failures.values()
    assert reason.startswith(
        f"{tmp_path / 'a.parquet'}:1: JSON cannot have the column 'day' of this row ("
    )
    assert reason.endswith("); use --format parquet")


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), [1.0, float("nan")], {"x": float("-inf")}]
)
def test_numbers_of_parquet_that_are_none_are_for_parquet(settings, tmp_path, value):
    """Null in their place would be a silent loss, and NaN is not JSON."""
    ones: list[Any] = [None, value]
    table = arrow.table({"text": ["好", "王小明"], "n": ones})
    parquet.write_table(table, tmp_path / "a.parquet")
    summary = run([str(tmp_path / "a.parquet")], tmp_path / "out", settings)
    (reason,) = summary.failures.values()
    assert reason.startswith(
        f"{tmp_path / 'a.parquet'}:2: JSON cannot have the column 'n' of this row ("
    )
    assert not read_manifest(tmp_path / "out")[1]
    given = replace(settings, format="parquet")
    run([str(tmp_path / "a.parquet")], tmp_path / "parquet", given)
    (output,) = read_manifest(tmp_path / "parquet")[1]
    written = parquet.read_table(tmp_path / "parquet" / output)
    assert str(written["n"].to_pylist()) == str(
        table["n"].to_pylist()
    )  # nan is not equal to itself


def test_lines_with_numbers_that_are_none_become_broken_rows_of_json(settings, tmp_path):
    lines = [
        '{"text": "王小明", "n": NaN}',
        '{"n": 1e999, "text": "王小明"}',
        '{"text": [Infinity]}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert run([str(tmp_path / "a.jsonl")], tmp_path / "out", settings).broken == 2
    refuse = pytest.fail
    found = [
        json.loads(line, parse_constant=refuse) for line in outputs(tmp_path / "out").splitlines()
    ]
    assert [found[0]["broken"]["content"], found[2]["broken"]["content"]] == [lines[0], lines[2]]
    assert outputs(tmp_path / "out").splitlines()[1].startswith(lines[1].encode()[:-1])


class Dies:
    """Kills its process so many times at each odd number."""

    def __init__(self, folder: Path, times: int) -> None:
        self.folder = folder
        self.times = times

    def attempt(self, task: int, tell: Any) -> Outcome:
        marks = [self.folder / f"{task}-{nth}" for nth in range(self.times)]
        if task % 2 and (left := [mark for mark in marks if not mark.exists()]):
            left[0].touch()
            os.kill(os.getpid(), signal.SIGKILL)
        tell({"event": "working", "rows": task})
        return Outcome({"task": task})


@pytest.mark.parametrize(("times", "fails"), [(2, False), (9, True)])
def test_a_process_that_dies_is_replaced_some_times(tmp_path, times, fails):
    events: list[dict[str, Any]] = []
    team = [Dies(tmp_path, times)] * 2
    done = run_tasks(team, range(6), LocalProcesses(), events.append)
    found = {task: outcome for task, _, outcome in done}
    assert sorted(found) == list(range(6))
    for task, outcome in found.items():
        if task % 2 and fails:
            assert outcome.reason.startswith("its process was ended by SIGKILL")
            assert outcome.reason.endswith("(attempt 3 of 3)")
        else:
            assert outcome.record == {"task": task}
    assert sum(event["event"] == "died" for event in events) == 3 * min(times, 3)


def test_what_a_process_was_writing_when_it_died_is_removed(corpus, settings, tmp_path):
    def engine(plan: CorpusPlan, listen: Listener) -> Iterator[tuple[int, Outcome]]:
        (plan.out / f".{plan.todo[0].output}.0123abcd.part").write_text("half")
        yield from on_this_machine(1)(plan, listen)

    run([str(corpus)], tmp_path / "out", settings, engine=engine)
    assert not list((tmp_path / "out").rglob("*.part"))


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says which processes are whose")
def test_kill_9_of_workers_and_of_the_command(settings, tmp_path):
    """Killed in the middle, again and again, and then finished: the folder of a run that nobody
    disturbed.
    """
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{text}\n" for text in texts(3000)), encoding="utf-8")
    arguments = (
        "corpus",
        "tag",
        path,
        "-m",
        settings.model,
        "--shard-size",
        "0.005",
        "--workers",
        "2",
        "--out",
    )
    out = tmp_path / "out"
    for whole in (False, True, True):
        with start(*arguments, out, env={**ENVIRONMENT}) as process:
            _wait_for(lambda: children(process.pid) and len(list(out.glob("in.txt*"))) > 2, process)
            if whole:
                workers = children(process.pid)
                process.kill()
                _wait_for(lambda workers=workers: not any(map(_is_alive, workers)))
            else:
                os.kill(children(process.pid)[0], signal.SIGKILL)
                assert process.wait(PATIENCE) == 0
                assert b"its process was ended by SIGKILL" in process.communicate()[1]
                shutil.rmtree(out)
    assert command(*arguments, out).code == 0
    assert command(*arguments, tmp_path / "calm").code == 0
    assert content(out) == content(tmp_path / "calm")


def _is_alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def _wait_for(what: Any, process: subprocess.Popen[bytes] | None = None) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.005)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX")
def test_a_full_disk_is_a_clear_error_and_nothing_is_lost(corpus, settings, tmp_path):
    import resource

    out = tmp_path / "out"
    arguments = ("-m", settings.model, "--shard-size", "0.001", "--out")
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))  # noqa: E731
    failed = command("corpus", "tag", corpus, *arguments, out, preexec_fn=limit)
    assert failed.code == 2
    assert "the file would be larger than allowed here" in failed.err
    assert "Traceback" not in failed.err
    assert command("corpus", "tag", corpus, *arguments, out).code == 0
    assert (
        command("corpus", "tag", corpus, *arguments, tmp_path / "calm", "--workers", "2").code == 0
    )
    assert content(out) == content(tmp_path / "calm")


def test_a_folder_that_may_not_be_read_fails_and_keeps_its_outputs(corpus, settings, tmp_path):
    """The others are done, the exit code says it, and when the folder can be read nothing is made
    again.
    """
    out = tmp_path / "out"
    arguments = (
        "corpus",
        "tag",
        corpus,
        "-m",
        settings.model,
        "--shard-size",
        "0.001",
        "--out",
        out,
    )
    assert hanlattice(*arguments).code == 0
    whole = content(out)
    (corpus / "new.txt").write_text("王小明\n", encoding="utf-8")
    for closed in (corpus / "more", corpus):
        closed.chmod(0)
        try:
            with obeyed_permissions():
                outcome = hanlattice(*arguments)
        finally:
            closed.chmod(0o700)
        assert outcome.code == 2
        assert f"1 failed; {out} has the others" in outcome.err
        assert f"{closed}: cannot read: permission denied" in outcome.err
        assert "Traceback" not in outcome.err
        now = content(out)
        assert {name: now[name] for name in whole if name != "manifest.jsonl"} == {
            name: whole[name] for name in whole if name != "manifest.jsonl"
        }
        assert sum("new.txt" in name for name in now) == 1
    assert run([str(corpus)], out, settings).made == 0


def test_an_output_folder_that_may_not_be_read_is_refused(corpus, settings, tmp_path):
    out = tmp_path / "out"
    run([str(corpus)], out, settings)
    (out / "more").chmod(0)
    try:
        with (
            obeyed_permissions(),
            pytest.raises(OutputError, match="more: cannot read: permission denied"),
        ):
            run([str(corpus)], out, settings)
    finally:
        (out / "more").chmod(0o700)


@pytest.mark.parametrize("name", ["a.txt", "p.parquet"])
def test_a_file_that_vanishes_after_the_plan_fails_and_the_others_are_done(
    corpus, settings, tmp_path, name
):
    parquet.write_table(arrow.table({"text": ["王小明"]}), corpus / "p.parquet")
    whole = run([str(corpus)], tmp_path / "whole", settings)

    def engine(plan: CorpusPlan, listen: Listener) -> Iterator[tuple[int, Outcome]]:
        (corpus / name).rename(tmp_path / name)
        yield from on_this_machine(1)(plan, listen)

    summary = run([str(corpus)], tmp_path / "out", settings, engine=engine)
    assert summary.failures
    for output, reason in summary.failures.items():
        assert output.startswith(name)
        assert reason == f"{corpus / name}: cannot read: there is no such file or folder"
    assert summary.made == whole.shards - len(summary.failures)
    (tmp_path / name).rename(corpus / name)
    assert run([str(corpus)], tmp_path / "out", settings).made == len(summary.failures)
    assert content(tmp_path / "out") == content(tmp_path / "whole")


LONG_NAMES = [
    "长" * 83 + ".txt",
    "x" * 251 + ".txt",
    "y" * 180 + ".txt",
    "/".join(["d" * 200] * 6) + "/z.txt",
]


def test_names_as_long_as_a_disk_allows(settings, tmp_path):
    folder = tmp_path / "in"
    for at, name in enumerate([*LONG_NAMES, "a.txt"]):
        assert len(Path(name).name.encode()) <= 255
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"王小明在南湖{at}\n李伟\n", encoding="utf-8")
    summary = run([str(folder)], tmp_path / "out", replace(settings, shard_size=20), workers=2)
    assert (summary.rows, summary.failures) == (10, {})
    records = read_manifest(tmp_path / "out")[1]
    assert {record["input"]["path"] for record in records.values()} == {*LONG_NAMES, "a.txt"}
    assert run([str(folder)], tmp_path / "out", replace(settings, shard_size=20)).made == 0
    (tmp_path / "out" / min(records)).unlink()
    assert run([str(folder)], tmp_path / "out", replace(settings, shard_size=20)).made == 1


def test_a_name_made_to_look_like_that_of_a_long_one_is_another(settings, tmp_path):
    """Two inputs with the same content never share an output, whatever they are called."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / ("x" * 251 + ".txt")).write_text("王小明\n", encoding="utf-8")
    run([str(folder)], tmp_path / "out", settings)
    (output,) = read_manifest(tmp_path / "out")[1]
    stem = output.rsplit(".", 3)[0]
    (folder / f"{stem}.txt").write_text("王小明\n", encoding="utf-8")
    (folder / stem).write_text("王小明\n", encoding="utf-8")
    summary = run([f"{folder}/*"], tmp_path / "out", settings)
    assert (summary.shards, summary.made, summary.failures) == (3, 2, {})
    assert len(set(read_manifest(tmp_path / "out")[1])) == 3


@pytest.mark.parametrize("workers", [1, 2])
def test_one_output_that_cannot_be_written_does_not_stop_the_others(
    corpus, settings, tmp_path, workers
):
    out = tmp_path / "out"
    out.mkdir()
    (out / "more").write_text("a file where a folder is needed")
    summary = run([str(corpus)], out, settings, workers=workers)
    (failure,) = summary.failures.values()
    assert failure.startswith(f"cannot write {out}/more/b.txt.")
    assert summary.made == summary.shards - 1 > 3
    (out / "more").unlink()
    assert run([str(corpus)], out, settings).made == 1


def _places(tmp_path: Path) -> dict[str, tuple[str, Path]]:
    """Patterns and folders that reach --out, and the --out of each."""
    d = tmp_path / "d"
    (tmp_path / "link").symlink_to(d / "out")
    (tmp_path / "linked").symlink_to(d)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.jsonl").write_text('{"text": "李伟"}\n', encoding="utf-8")
    (tmp_path / "other" / "deep").symlink_to(d)
    return {
        "pattern": (f"{d}/**/*.jsonl", d / "out"),
        "out is a link": (f"{d}/**/*.jsonl", tmp_path / "link"),
        "pattern is a link": (f"{tmp_path}/linked/**/*.jsonl", d / "out"),
        "dots": (f"{d}/**/*.jsonl", d / "x" / ".." / "out"),
        "folder with a link": (str(tmp_path / "other"), d / "out"),
    }


@pytest.mark.parametrize(
    "how", ["pattern", "out is a link", "pattern is a link", "dots", "folder with a link"]
)
def test_outputs_are_never_inputs(settings, tmp_path, how):
    (tmp_path / "d" / "x").mkdir(parents=True)
    (tmp_path / "d" / "out").mkdir()
    for name in ("a", "x/b"):
        line = f'{{"text": "王小明在{name}"}}\n'
        (tmp_path / "d" / f"{name}.jsonl").write_text(line, encoding="utf-8")
    given, out = _places(tmp_path)[how]
    first = run([given], out, settings)
    whole = content(tmp_path / "d")
    for _ in range(2):
        events: list[dict[str, Any]] = []
        again = run([given], out, settings, listen=events.append)
        assert (again.shards, again.made, again.failures) == (first.shards, 0, {})
        assert content(tmp_path / "d") == whole
        (notice,) = [each["text"] for each in events if each["event"] == "notice"]
        assert "are not read, because --out has them" in notice


def test_a_file_of_ones_own_in_out_is_refused(settings, tmp_path):
    """Outputs, the manifest and half files are passed over; anything else there was meant as an
    input.
    """
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.jsonl").write_text('{"text": "王小明"}\n', encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"text": "王小明"}\n', encoding="utf-8")
    (tmp_path / "b.jsonl.link").symlink_to(out / "a.jsonl")
    for given in (f"{tmp_path}/**/*.jsonl", str(out / "a.jsonl"), str(tmp_path / "b.jsonl.link")):
        with pytest.raises(
            InputError, match="it lies in --out: choose another folder for the outputs"
        ):
            run([given], out, settings)
    run([str(tmp_path / "b.jsonl")], out, settings)
    (output,) = read_manifest(out)[1]
    for given in (str(out / output), str(out), f"{out}/b*", f"{out}/manifest.jsonl"):
        with pytest.raises(InputError, match=r"--out"):
            run([given], out, settings)
    assert sorted(content(out)) == sorted([".lock", "a.jsonl", output, "manifest.jsonl"])


@pytest.mark.parametrize("way", [".", "..", "link", "link/..", "new"])
def test_an_out_inside_a_folder_that_is_read_is_refused_however_it_is_called(
    corpus, settings, tmp_path, way
):
    (tmp_path / "link").symlink_to(corpus / "more")
    out = {"link": tmp_path / "link", "link/..": tmp_path / "link" / ".." / "o"}.get(
        way, corpus / "more" / way
    )
    before = content(corpus)
    with pytest.raises(InputError, match="--out lies in"):
        run([str(corpus)], out, settings)
    assert content(corpus) == before


ODD_NAMES = [
    "a\nb.txt",
    "\n.txt",
    "c\r\n\x1b[2J\x85\u2028.txt",
    os.fsdecode("南京".encode("gbk")) + ".txt",
    os.fsdecode(b"\xff" * 200) + ".txt",
    "sub\nfolder/*[?].txt",
    "~/d e'\"\\.txt",
]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_names_with_line_ends_control_characters_and_other_encodings(settings, tmp_path, format):
    """They are kept, resumed, refused when their input changes, and cleared of half files, as all
    others.
    """
    folder = tmp_path / "in"
    out = tmp_path / "out"
    for at, name in enumerate(ODD_NAMES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(f"王小明在南湖{at}\n".encode() + b"\xff\n")
    given = replace(settings, format=format)
    summary = run([str(folder)], out, given, workers=2)
    assert (summary.shards, summary.broken, summary.failures) == (
        len(ODD_NAMES),
        len(ODD_NAMES),
        {},
    )
    records = read_manifest(out)[1]
    assert {record["input"]["path"] for record in records.values()} == set(ODD_NAMES)
    assert count(out).rows == len(ODD_NAMES)
    whole = content(out)
    assert set(whole) == {*records, "manifest.jsonl", ".lock"}
    for name in records:
        path = out / name
        (path.parent / f".{bounded_name(path.name, 223)}.0123abcd.part").write_bytes(b"half")
    assert run([str(folder)], out, given).made == 0
    assert content(out) == whole

    for name in ODD_NAMES:
        before = (folder / name).read_bytes()
        (folder / name).write_text("另一个\n", encoding="utf-8")
        with pytest.raises(InputError, match="1 outputs there are of other inputs") as refused:
            run([str(folder)], out, given)
        assert "\n" not in str(refused.value)
        (folder / name).write_bytes(before)
    assert content(out) == whole


def test_messages_about_odd_names_stay_on_their_lines(settings, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    odd = folder / "x\nerror: all is lost\x1b[2J.jsonl"
    odd.write_text('{"text": 1}\n', encoding="utf-8")
    (folder / "y\n- z.csv").write_text("no,such,column\n", encoding="utf-8")
    (folder / "z\n.md").write_text("")
    (folder / "link\n.txt").symlink_to("nothing\n")
    outcome = hanlattice("corpus", "tag", folder, "-m", settings.model, "--out", tmp_path / "o\nut")
    assert outcome.code == 2
    lines = outcome.err.splitlines()
    assert sum(line.startswith("error: ") for line in lines) == 1
    assert sum(line.startswith("  - ") for line in lines) == 2
    assert "\x1b" not in outcome.err
    assert any(
        f"{folder}/x\\nerror: all is lost\\x1b[2J.jsonl:1: its field" in line for line in lines
    )
    strict = ("corpus", "tag", odd, "-m", settings.model, "--strict", "--out", tmp_path / "strict")
    refused = hanlattice(*strict)
    assert refused.code == 2
    (line,) = [line for line in refused.err.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: {folder}/x\\nerror: all is lost\\x1b[2J.jsonl:1: its field")
