"""Tasks in processes: what comes back, who runs beside whom, and what is left when one dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from hanlattice.compare.packing import Amount
from hanlattice.compare.pool import Outcome, Pool, Task
from tests.compare import tasks


class Ears(list):
    def __call__(self, event: dict[str, Any]) -> None:
        self.append(event)

    def named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self if event["event"] == name]


def task(name: str, do: Any, *arguments: Any, cores: float = 1, devices: tuple[str, ...] = ("cpu",)) -> Task:
    return Task(name, do, arguments, {device: Amount(cores) for device in devices})


def run(
    folder: Path, *given: Task, cores: float = 1, ears: Any = None, devices: tuple[str, ...] = ("cpu",)
) -> list[Outcome]:
    with Pool(folder, {device: Amount(cores) for device in devices}, Ears() if ears is None else ears) as pool:
        return list(pool.run(given))


def test_values_and_events_come_back(tmp_path):
    ears = Ears()
    found = run(tmp_path, task("a", tasks.answer, 1), task("b", tasks.answer, "two"), ears=ears)
    assert [(each.task.name, each.value[:2]) for each in found] == [("a", ("cpu", 1)), ("b", ("cpu", "two"))]
    assert (
        len({each.value[2] for each in found} | {os.getpid()}) == 2
    )  # one worker did both, and it is not this process
    assert ears == [
        {"event": "begin", "run": "a", "device": "cpu"},
        {"event": "asked", "value": 1, "run": "a", "device": "cpu"},
        {"event": "begin", "run": "b", "device": "cpu"},
        {"event": "asked", "value": "two", "run": "b", "device": "cpu"},
    ]


def test_nothing_to_do(tmp_path):
    assert run(tmp_path) == []


def test_failures_of_every_kind_and_the_rest_goes_on(tmp_path):
    found = run(
        tmp_path,
        task("refused", tasks.refuse, "that file is not there"),
        task("bug", tasks.stumble, "some key"),
        task("killed", tasks.die, signal.SIGKILL),
        task("ended", tasks.die, signal.SIGTERM),
        task("left", tasks.leave, 3),
        task("memory", tasks.always_too_large),
        task("good", tasks.answer, 1),
    )
    failed = {each.task.name: each.reason for each in found}
    assert failed == {
        "refused": "that file is not there",
        "bug": "KeyError: 'some key'",
        "killed": "its process was ended by SIGKILL, as the system does when memory runs out",
        "ended": "its process was ended by SIGTERM",
        "left": "its process ended with exit code 3",
        "memory": "out of memory on cpu: CUDA out of memory.",
        "good": "",
    }
    traces = {each.task.name: each.trace for each in found if each.trace}
    assert list(traces) == ["bug"]
    assert "in stumble" in traces["bug"]
    assert found[-1].value[1] == 1


def test_side_by_side_as_far_as_there_is_room(tmp_path):
    """Three end only when all three are at work; the one that needs all the room lets them pass."""
    (tmp_path / "here").mkdir()
    ears = Ears()
    meeting = [task(str(at), tasks.meet, tmp_path / "here", str(at), 3) for at in range(3)]
    found = run(tmp_path, meeting[0], task("large", tasks.answer, 0, cores=3), *meeting[1:], cores=3, ears=ears)
    assert not [each.reason for each in found if each.reason]
    assert [event["run"] for event in ears.named("begin")] == ["0", "1", "2", "large"]


def test_a_task_larger_than_any_device_runs_alone(tmp_path):
    assert [each.value[1] for each in run(tmp_path, task("huge", tasks.answer, 5, cores=99))] == [5]


def test_each_on_a_device_where_it_may(tmp_path):
    given = [
        task("any", tasks.answer, 0, devices=("cpu", "other")),
        task("pinned", tasks.answer, 1, devices=("other",)),
    ]
    found = {each.task.name: each.device for each in run(tmp_path, *given, devices=("cpu", "other"))}
    assert found == {"any": "cpu", "pinned": "other"}


def test_out_of_memory_beside_others_is_tried_again_alone(tmp_path):
    (tmp_path / "here").mkdir()
    ears = Ears()
    given = [task(name, tasks.too_large, tmp_path / "here", name) for name in "ab"]
    found = run(tmp_path, *given, cores=2, ears=ears)
    assert not [each.reason for each in found if each.reason]
    assert [(each.task.alone, each.value) for each in found] == [(True, "done")] * 2
    assert {event["reason"] for event in ears.named("again")} == {
        "out of memory on cpu: CUDA out of memory. Tried to allocate"
    }


def test_of_many_steps_a_few_are_told(tmp_path):
    ears = Ears()
    run(tmp_path, task("busy", tasks.many_steps, 20_000), ears=ears)
    assert ears.named("step")[0]["at"] == 0
    assert len(ears.named("step")) < 1000


def test_threads_of_one_task_are_not_those_of_the_next(tmp_path):
    first, second = run(tmp_path, task("a", tasks.threads, 3), task("b", tasks.threads, 0))
    assert first.value == second.value


def test_a_listener_that_raises_leaves_no_process(tmp_path):
    pool, at_work = Pool(tmp_path, {"cpu": Amount(3)}, Ears()), []

    def listen(event: dict[str, Any]) -> None:
        if event["event"] == "asked":
            at_work.extend(worker.process.pid for worker in pool.workers)
            raise KeyboardInterrupt

    pool.listen = listen
    (tmp_path / "here").mkdir()
    waiting = [task(name, tasks.wait_forever, tmp_path / "here") for name in "ab"]
    with pytest.raises(KeyboardInterrupt), pool:
        list(pool.run([*waiting, task("c", tasks.answer, 1)]))
    assert len(at_work) == 3
    assert pool.workers == []  # one that still ran could not have been closed
