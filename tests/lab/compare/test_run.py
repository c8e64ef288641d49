"""Whole comparisons with real trainings: outputs, stopped runs, failed runs; and the processes
behind them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hanlattice.config import read_config
from hanlattice.data.corpus import read_corpus
from hanlattice.data.formats.columns import write_columns
from hanlattice.errors import ConfigError, HanlatticeError, InputError, OutputError
from hanlattice.files import lock_folder
from hanlattice.lab.compare.job import recount
from hanlattice.lab.compare.jobs import CompareJob, find_devices, find_slots, run_jobs
from hanlattice.lab.compare.matrix import read_rows
from hanlattice.lab.compare.run import (
    Comparison,
    compare,
    raise_failures,
)
from hanlattice.tasks.local import LocalProcesses
from hanlattice.tasks.run import Outcome
from hanlattice.text.sentence import Sentence
from hanlattice.training.loop import train
from tests.helpers.crash import killed_at_step
from tests.helpers.cutting import cutting_tree
from tests.helpers.made import write_toml
from tests.lab.compare import tasks
from tests.lab.compare.conftest import SERVER, write_small


class Ears(list):
    """Hears a comparison."""

    def __call__(self, event: dict[str, Any]) -> None:
        self.append(event)

    def runs(self, name: str) -> set[str]:
        """The runs that had an event of this name."""
        return {event["run"] for event in self if event["event"] == name}


def quick(
    files: list[Path], out: Path, seeds: Any = (1,), **options: Any
) -> tuple[Comparison, Ears]:
    ears = Ears()
    settings = {"devices": "cpu", "rates": False, "samples": 100, "listen": ears, **options}
    return compare(files, seeds, out, **settings), ears


def load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def whole(tiny, tmp_path_factory) -> tuple[Path, list[Path], Ears, Comparison]:
    """A comparison with everything. Nobody writes into its folder."""
    folder = tmp_path_factory.mktemp("whole")
    shown = {"compare__row": "格子", "compare__paper": 50.0}
    files = [
        write_small(folder / "lattice.toml", tiny, model__encoder="lattice", **shown),
        write_small(folder / "char.toml", tiny),
    ]
    options = {"jobs": 2, "rates": True, "seconds": 0.05, "against": "char"}
    found, ears = quick(files, folder / "out", (1, 2), **options)
    return folder, files, ears, found


def test_outputs(whole):
    folder, _, ears, found = whole
    assert found.failures == {}
    assert ears.runs("finished") == {"lattice-1", "lattice-2", "char-1", "char-2"}
    assert ears[0] == {"event": "plan", "runs": 4, "kept": 0, "devices": ["cpu"]}
    assert [event["run"] for event in ears if event["event"] == "rates"] == [
        "rates of lattice",
        "rates of char",
    ]
    assert (folder / "out" / "table.md").read_text("utf-8") == found.table
    assert load(folder / "out" / "results.json") == json.loads(json.dumps(found.summary))
    assert "格子" in (folder / "out" / "plot.svg").read_text("utf-8")
    for part in ("格子", "char", "F1 − char", "95 %", "paper", "train sent/s", "test.bmes"):
        assert part in found.table
    assert not list((folder / "out").rglob("*.scratch"))
    assert not list((folder / "out").rglob("*.part"))


def test_what_the_json_says(whole):
    _, files, _, found = whole
    (section,) = found.summary["sections"]
    first, second = section["rows"]
    assert (first["name"], first["seeds"], first["wanted"], first["paper"]) == (
        "格子",
        [1, 2],
        2,
        50.0,
    )
    assert first["config"] == str(files[0])
    assert second["settings"]["model.encoder"] == "char"
    assert first["difference"].keys() == {"difference", "low", "high", "p"}
    assert first["rates"]["train"]["sentences_per_second"] > 0
    assert (
        first["rates"]["decode"]["characters_per_second"]
        > first["rates"]["decode"]["sentences_per_second"]
    )
    run = found.summary["runs"]["lattice-1"]
    assert run["versions"]["torch"]
    assert run["machine"]["cpu"]
    assert {"epoch", "seconds", "parameters", "device"} <= run.keys()
    assert "counts" not in run


def test_a_run_is_what_train_makes(whole, tmp_path):
    folder, files, ears, found = whole
    alone = Ears()
    result = train(read_config(files[0], ["train.seed=2"]), tmp_path / "alone", listen=alone)
    run = found.summary["runs"]["lattice-2"]
    assert run["scores"] == result.scores
    assert run["parameters"] == alone[0]["parameters"]
    record = load(folder / "out" / "results" / "lattice-2.json")
    score = result.scores["test"]["overall"]
    counted = np.array(record["counts"]).sum(0).tolist()
    assert counted == [score["gold"], score["predicted"], score["correct"]]
    assert recount(record) == ""
    assert not [event for event in ears if event["event"] == "notice"]


def test_counts_that_do_not_add_up_are_reported(whole):
    folder, *_ = whole
    record = load(folder / "out" / "results" / "lattice-2.json")
    record["counts"][0] = [0, 5, 0]
    assert "decoded again, its F1 is" in recount(record)


def test_again_trains_nothing_and_writes_the_same(whole, tmp_path):
    folder, files, *_ = whole
    out = tmp_path / "out"
    shutil.copytree(folder / "out", out)
    for name in ("table.md", "results.json", "plot.svg"):
        (out / name).unlink()
    _, ears = quick(files, out, (1, 2), jobs=2, rates=True, against="char")
    assert [event["event"] for event in ears] == ["plan"]
    assert ears[0]["kept"] == 4
    for name in ("table.md", "results.json", "plot.svg"):
        assert (out / name).read_bytes() == (folder / "out" / name).read_bytes()


def test_records_alone_make_the_table_and_more_seeds_are_trained(whole, tmp_path):
    folder, files, _, found = whole
    for part in ("results", "rates"):
        shutil.copytree(folder / "out" / part, tmp_path / "out" / part)
    again, ears = quick(files, tmp_path / "out", (1, 2), rates=True, against="char")
    assert again.table == found.table
    assert ears.runs("begin") == set()
    more, ears = quick(files[1:], tmp_path / "out", (2, 7))
    assert ears.runs("begin") == {"char-7"}
    assert more.summary["sections"][0]["rows"][0]["seeds"] == [2, 7]


def test_other_settings_or_data_are_refused_before_anything_starts(whole, tmp_path):
    folder, files, _, _ = whole
    shutil.copytree(folder / "out" / "results", tmp_path / "out" / "results")
    ears = Ears()
    with pytest.raises(ConfigError) as caught:
        quick(files, tmp_path / "out", (1, 2, 3), changes=["train.epochs=3"], listen=ears)
    assert len(caught.value.problems) == 4
    assert "train.epochs was 2 and is 3" in str(caught.value)
    assert ears == []


def test_a_stopped_run_goes_on_and_a_finished_one_is_only_counted(toml, tmp_path):
    file = toml("a", train__checkpoint_minutes=1e-9)
    out = tmp_path / "out"
    (row,) = read_rows([file])
    assert killed_at_step(row.with_seed(1, "cpu"), out / "runs" / "a-1", 7)  # in epoch 2
    train(row.with_seed(2, "cpu"), out / "runs" / "a-2")
    found, ears = quick([file], out, (1, 2))
    assert ears.runs("resume") == {"a-1"}
    assert ears.runs("start") == set()
    assert "a-2" not in ears.runs("epoch")
    assert ears.runs("finished") == {"a-1", "a-2"}
    straight = train(row.with_seed(1, "cpu"), tmp_path / "straight")
    assert found.summary["runs"]["a-1"]["scores"] == straight.scores


def test_a_run_that_fails_does_not_keep_the_others(toml, tmp_path):
    files = [
        toml("good"),
        toml("missing", chars__vectors=str(tmp_path / "nothing.vec")),
        toml("diverges", train__lr=1e38, train__optimizer="sgd", train__schedule="constant"),
    ]
    found, ears = quick(files, tmp_path / "out", (1,), jobs=2, against="good")
    assert ears.runs("finished") == {"good-1"}
    assert ears.runs("failed") == set(found.failures) == {"missing-1", "diverges-1"}
    assert "nothing.vec: cannot read" in found.failures["missing-1"]
    assert "training has diverged" in found.failures["diverges-1"]
    assert [
        line.split("|")[2].strip() for line in found.table.splitlines() if line.startswith("| ")
    ][2:] == [
        "1",
        "0 of 1",
        "0 of 1",
    ]
    assert found.summary["failures"]["missing-1"]["reason"] in found.failures["missing-1"]
    with pytest.raises(HanlatticeError, match="2 failed; the table in") as caught:
        raise_failures(found)
    assert "missing-1: " in str(caught.value)


def test_a_run_that_was_begun_elsewhere(toml, tmp_path):
    folder = tmp_path / "out" / "runs" / "a-1"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"config": {"train": {"device": "cuda:1"}}}', "utf-8")
    found, _ = quick([toml("a")], tmp_path / "out")
    assert "it was begun on cuda:1, not on cpu" in found.failures["a-1"]


def test_without_a_test_file_dev_is_compared(toml, tmp_path):
    found, _ = quick(
        [toml("a", data__test="", data__dev="", data__holdout=0.25)],
        tmp_path / "out",
        rates=True,
        seconds=0.01,
    )
    assert found.failures == {}
    (section,) = found.summary["sections"]
    assert section["part"] == "dev"
    assert "held out: there is no dev or test file" in found.table
    assert section["rows"][0]["rates"] is not None


def test_segmenters(tiny, tmp_path):
    file = write_toml(
        tmp_path / "cut.toml", cutting_tree(tiny, tmp_path, train__epochs=1, model__hidden=4)
    )
    found, ears = quick([file], tmp_path / "out", (1, 2))
    assert found.failures == {}
    assert not [event for event in ears if event["event"] == "notice"]
    (only,) = found.summary["sections"][0]["rows"]
    runs = [
        found.summary["runs"][f"cut-{seed}"]["scores"]["test"]["segmentation"] for seed in (1, 2)
    ]
    for which, heading in (("oov", "OOV R"), ("iv", "IV R")):
        mean = np.mean([run[which]["recall"] for run in runs])
        assert only["segmentation"][which]["mean"] == pytest.approx(mean)
        assert heading in found.table
    again, ears = quick([file], tmp_path / "out", (1, 2))
    assert again.table == found.table
    assert ears.runs("begin") == set()


def test_the_score_without_long_sentences(tiny, tmp_path):
    short = read_corpus(tiny / "test.bmes").sentences[:20]
    long = read_corpus(tiny / "dev.bmes").sentences
    merged = Sentence("".join(each.text for each in long))
    at = accumulate((len(each) for each in long), initial=0)
    spans = [
        span.shifted(by) for each, by in zip(long, at, strict=False) for span in each.spans or ()
    ]
    assert len(merged) >= 250
    write_columns(
        tmp_path / "long.bmes", [short[0], Sentence(merged.text, tuple(spans)), *short[1:]]
    )
    write_columns(tmp_path / "short.bmes", short)
    files = [
        write_small(tmp_path / f"{name}.toml", tiny, data__test=f"{tmp_path}/{name}.bmes")
        for name in ("long", "short")
    ]
    found, _ = quick(files, tmp_path / "out")
    with_long, without = (
        load(tmp_path / "out" / "results" / f"{name}-1.json") for name in ("long", "short")
    )
    assert without["short"] is None
    assert with_long["short"] == {"left_out": 1, **without["scores"]["test"]["overall"]}
    assert with_long["short"]["gold"] < with_long["scores"]["test"]["overall"]["gold"]
    mean = found.summary["sections"][0]["rows"][0]["short"]["f1"]["mean"]
    assert mean == with_long["short"]["f1"]
    assert found.table.count("F1, < 250 |") == 1


def test_without_matplotlib(whole, tmp_path, monkeypatch):
    folder, files, *_ = whole
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    shutil.copytree(folder / "out" / "results", tmp_path / "out" / "results")
    _, ears = quick(files, tmp_path / "out", (1,))
    assert [event["text"] for event in ears if event["event"] == "notice"] == [
        "no plot.svg: it needs matplotlib: pip install 'hanlattice[plot]'"
    ]
    assert (tmp_path / "out" / "table.md").exists()
    assert not (tmp_path / "out" / "plot.svg").exists()


def test_variants_are_rows(tiny, tmp_path):
    """Each has a folder of its own, and a run of the same name and settings is kept."""
    file = write_small(tmp_path / "made.toml", tiny, variants__names=["char", "coarse"])
    write_toml(
        tmp_path / "variants.toml", {"char.compare": {"row": "C"}, "coarse.model": {"hidden": 2}}
    )
    whole, ears = quick([file], tmp_path / "out", variants=["all"], against="char")
    assert whole.failures == {}
    assert ears.runs("finished") == {"made-char-1", "made-coarse-1"}
    assert [row["variant"] for row in whole.summary["sections"][0]["rows"]] == ["char", "coarse"]
    assert "F1 − C" in whole.table
    alone = write_small(tmp_path / "made-char.toml", tiny, compare__row="C")
    old, ears = quick([alone], tmp_path / "out")
    assert ears.runs("begin") == set()
    assert old.summary["runs"]["made-char-1"] == whole.summary["runs"]["made-char-1"]


def test_refusals(toml: Callable[..., Path], tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file"):
        quick([toml("a")], tmp_path / "file")
    with pytest.raises(InputError, match="jobs must be"):
        quick([toml("a")], tmp_path / "out", jobs=-1)
    with pytest.raises(InputError, match="no device is called"):
        quick([toml("a")], tmp_path / "out", devices="tpu")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["table.md", "results.json", "plot.svg"])
def test_a_file_of_somebody_else_stays(
    toml: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine", "utf-8")
    with pytest.raises(OutputError, match=f"holds {name}, which is not part of a comparison"):
        quick([toml("a")], tmp_path / "out")
    assert (tmp_path / "out" / name).read_text("utf-8") == "mine"


def test_one_at_a_time(toml, tmp_path):
    with (
        lock_folder(tmp_path / "out", "compare"),
        pytest.raises(OutputError, match="another `hanlattice compare` is running"),
    ):
        quick([toml("a")], tmp_path / "out")
    with lock_folder(tmp_path / "out", "compare"):
        pass


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(OutputError, match="cannot write"),
        lock_folder(tmp_path / "file" / "out", "compare"),
    ):
        pass


def test_devices_and_slots(toml, monkeypatch):
    assert find_devices("cpu") == ["cpu"]
    with pytest.raises(InputError, match="names a device twice"):
        find_devices("cpu, cpu")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    rows = read_rows([toml("a", train__threads=1), toml("b", train__threads=3)])
    assert find_slots(["cpu"], 0, rows) == ["cpu"] * 2
    assert find_slots(["cpu"], 0, rows[:1]) == ["cpu"] * 8
    assert find_slots(["cpu"], 0, read_rows([toml("c", train__threads=0)])) == ["cpu"]
    assert find_slots(["cuda:0", "cuda:1"], 0, rows) == ["cuda:0", "cuda:1"]
    assert find_slots(["cuda:0", "cuda:1"], 2, rows) == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]


def job(name: str, do: Callable[..., Any], *arguments: Any, device: str = "") -> CompareJob:
    return CompareJob(name, do, arguments, Path(f"{name}.json"), device)


def processes() -> LocalProcesses:
    return LocalProcesses(SERVER, attempts=1, reuse=False)


def run(
    *jobs: CompareJob, slots: tuple[str, ...] = ("cpu",), ears: Ears | None = None
) -> dict[str, tuple[str, Outcome]]:
    done = run_jobs(jobs, slots, processes(), Ears() if ears is None else ears)
    return {job.name: (device, outcome) for job, device, outcome in done}


def test_a_process_for_each_and_its_events():
    ears = Ears()
    done = run(job("a", tasks.answer, 1), job("b", tasks.answer, "two"), ears=ears)
    assert [outcome.record["value"] for _, outcome in done.values()] == [1, "two"]
    assert len({outcome.record["process"] for _, outcome in done.values()} | {os.getpid()}) == 3
    assert ears == [
        {"event": "begin", "run": "a", "device": "cpu"},
        {"event": "asked", "value": 1, "run": "a", "device": "cpu"},
        {"event": "begin", "run": "b", "device": "cpu"},
        {"event": "asked", "value": "two", "run": "b", "device": "cpu"},
    ]


def test_failures_of_every_kind_and_the_rest_goes_on():
    done = run(
        job("refused", tasks.refuse, "that file is missing"),
        job("bug", tasks.stumble, "some key"),
        job("killed", tasks.die, signal.SIGKILL),
        job("ended", tasks.die, signal.SIGTERM),
        job("left", tasks.leave, 3),
        job("good", tasks.answer, 1),
    )
    assert {name: outcome.reason for name, (_, outcome) in done.items()} == {
        "refused": "that file is missing",
        "bug": "KeyError: 'some key'",
        "killed": "its process was ended by SIGKILL, as the system does when memory runs out",
        "ended": "its process was ended by SIGTERM",
        "left": "its process ended with exit code 3",
        "good": "",
    }
    assert [name for name, (_, outcome) in done.items() if outcome.trace] == ["bug"]
    assert "in stumble" in done["bug"][1].trace


def test_side_by_side(tmp_path):
    """Three end only when all three are running; the fourth has to wait."""
    ears = Ears()
    meeting = [job(str(at), tasks.meet, tmp_path, str(at), 3) for at in range(3)]
    done = run(*meeting, job("late", tasks.answer, 0), slots=("cpu",) * 3, ears=ears)
    assert not [outcome.reason for _, outcome in done.values() if outcome.reason]
    assert [event["run"] for event in ears if event["event"] == "begin"] == ["0", "1", "2", "late"]


def test_a_job_runs_where_it_was_begun():
    jobs = [job("pinned", tasks.answer, 1, device="other"), job("any", tasks.answer, 0)]
    assert {name: device for name, (device, _) in run(*jobs, slots=("cpu", "other")).items()} == {
        "any": "cpu",
        "pinned": "other",
    }


def test_of_many_steps_a_few_are_reported():
    ears = Ears()
    run(job("busy", tasks.many_steps, 20_000), ears=ears)
    steps = [event["at"] for event in ears if event["event"] == "step"]
    assert steps[0] == 0
    assert len(steps) < 1000


def test_a_listener_that_raises_leaves_no_process():
    waiting = []

    def listen(event: dict[str, Any]) -> None:
        waiting.extend([event["process"]] if event["event"] == "waiting" else [])
        if len(waiting) == 2:
            raise KeyboardInterrupt

    jobs = [job(name, tasks.wait_forever) for name in "ab"]
    with pytest.raises(KeyboardInterrupt):
        list(run_jobs(jobs, ["cpu"] * 2, processes(), listen))
    for process in waiting:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
