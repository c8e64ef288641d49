"""On a real Ray cluster: Ray Data with a model, a corpus that others have begun, and runs of a
comparison.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hanlattice.corpus.manifest import Record
from hanlattice.corpus.on_ray import on_ray
from hanlattice.corpus.run import make_plan, run
from hanlattice.corpus.settings import CorpusSettings
from hanlattice.corpus.worker import ShardTask, ShardWorker
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.events import Listener, ignore
from hanlattice.lab.compare.run import compare
from hanlattice.predict import load
from hanlattice.ray import Tagger, connect
from hanlattice.tasks.on_ray import RayProcesses
from tests.helpers.made import made_tree, sentences, write_toml
from tests.stress.fuzz import check_doors, ray_actor, search

ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'hanlattice[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of Ray


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYTHONPATH", f"{Path(__file__).parents[1]}:{Path(__file__).parents[1] / 'src'}"
        )
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
        yield
        ray.shutdown()


def corpus(folder: Path, count: int = 60) -> Path:
    """A file of made sentences, and one of JSONL with a broken line."""
    folder.mkdir()
    texts = [sentence.text for sentence in sentences(count, 5)]
    (folder / "a.txt").write_text("\n".join(texts) + "\n", "utf-8")
    lines = [json.dumps({"text": text, "n": n}) for n, text in enumerate(texts)]
    lines[7] = "{broken"
    (folder / "b.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.name != ".lock"
    }


def test_a_corpus_that_was_begun_here_is_finished_on_a_cluster(cluster, lattice_folder, tmp_path):
    given = [str(corpus(tmp_path / "in"))]
    settings = CorpusSettings(lattice_folder, shard_size=500)
    here = run(given, tmp_path / "here", settings)
    plan = make_plan(given, tmp_path / "there", settings)
    plan.save()
    worker = ShardWorker(settings, tmp_path / "there", plan.digest)
    for task in plan.todo[:3]:
        outcome = worker.attempt(task, ignore)
        plan.records[task.output] = outcome.record or {}
    plan.save()
    heard: list[dict[str, Any]] = []
    there = run(given, tmp_path / "there", settings, listen=heard.append, engine=on_ray())
    assert (there.shards, there.made, there.failures) == (here.shards, here.shards - 3, {})
    assert here.shards > 8
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert [event["line"] for event in heard if event["event"] == "broken"] == [8]


@pytest.mark.parametrize(
    ("workers", "gpus", "most", "share"),
    [(None, 2, 2, 1), (2, 4, 2, 1), (2, 1, 2, 0.5), (5, 2, 5, 1 / 3)],
)
def test_actors_share_gpus(monkeypatch, lattice_folder, workers, gpus, most, share):
    asked: list[Any] = []
    there = SimpleNamespace(cluster_resources=lambda: {"CPU": 8.0, "GPU": float(gpus)})
    monkeypatch.setattr(
        "hanlattice.corpus.on_ray.connect", lambda address: asked.append(address) or there
    )

    def run_tasks(team: list[Any], _: Any, processes: RayProcesses, *__: Any) -> Iterator[Any]:
        asked.extend((len(team), processes.needs(None)))
        return iter(())

    monkeypatch.setattr("hanlattice.corpus.on_ray.run_tasks", run_tasks)
    settings = CorpusSettings(lattice_folder, device="cuda")
    plan: Any = SimpleNamespace(settings=settings, out=Path(), digest="", todo=[])
    assert list(on_ray("auto", workers)(plan, ignore)) == []
    assert asked == ["auto", most, {"num_gpus": share}]


def test_a_cluster_without_gpus_is_not_waited_for(cluster, lattice_folder):
    plan: Any = SimpleNamespace(settings=CorpusSettings(lattice_folder, device="cuda"))
    with pytest.raises(HanlatticeError, match="this Ray cluster has no gpus"):
        list(on_ray(workers=2)(plan, ignore))


class Deadly(ShardWorker):
    """A worker that one shard kills, whenever it comes."""

    def do(self, task: ShardTask, tell: Listener) -> Record:
        if b"END" in task.shard.source.path.read_bytes():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().do(task, tell)


def test_a_shard_that_kills_its_process_is_given_up(cluster, lattice_folder, tmp_path, monkeypatch):
    """And only that one: others that wait for the same process are done."""
    monkeypatch.setattr("hanlattice.corpus.on_ray.ShardWorker", Deadly)
    (tmp_path / "in").mkdir()
    for name, text in (("a", "小明"), ("b", "END"), ("c", "北京"), ("d", "上海")):
        (tmp_path / "in" / f"{name}.txt").write_text(f"{text}\n", "utf-8")
    found = run(
        [str(tmp_path / "in")],
        tmp_path / "out",
        CorpusSettings(lattice_folder),
        engine=on_ray(workers=1),
    )
    assert (found.shards, found.made, found.rows) == (4, 3, 3)
    (reason,) = found.failures.values()
    assert reason.startswith("its process on Ray ended: ")
    assert reason.endswith("(attempt 3 of 3)")


def test_a_model_in_ray_data(cluster, lattice_folder):
    texts = [*(sentence.text for sentence in sentences(20, 3)), "", None]
    rows = ray.data.from_items([{"body": text, "n": n} for n, text in enumerate(texts)])
    kwargs = {"model": lattice_folder, "field": "body", "lexicon": ["工作。"]}
    one = ray.data.ActorPoolStrategy(size=1)
    found = rows.map_batches(
        Tagger, fn_constructor_kwargs=kwargs, batch_size=8, compute=one
    ).take_all()
    tagger = load(lattice_folder)
    tagger.lexicon.update(["工作。"])
    for row in found:
        text = texts[row["n"]]
        assert row["spans"] == (
            None if text is None else [span.as_dict() for span in tagger(text).spans]
        )
    assert {row["n"] for row in found} == set(range(len(texts)))


def test_a_few_cases_of_the_fuzzer(cluster):
    on_ray = ray_actor()
    search("doors", lambda case: check_doors(case, None, on_ray), 1, 5)


def test_a_column_that_is_missing(lattice_folder):
    with pytest.raises(InputError, match="no column 'text', only body: give `field`"):
        Tagger(lattice_folder)({"body": []})


def test_a_comparison_on_a_cluster(cluster, made, tmp_path):
    file = write_toml(tmp_path / "a.toml", made_tree(made, train__epochs=1, model__hidden=4))
    heard: list[dict[str, Any]] = []
    options: dict[str, Any] = {"rates": False, "samples": 100}
    there = compare(
        [file], (1, 2), tmp_path / "there", engine="ray", listen=heard.append, **options
    )
    assert not there.failures
    kinds = [event["event"] for event in heard]
    assert (kinds.count("begin"), kinds.count("finished"), kinds.count("epoch")) == (2, 2, 2)
    here = compare([file], (1,), tmp_path / "here", devices="cpu", **options)
    assert there.summary["runs"]["a-1"]["scores"] == here.summary["runs"]["a-1"]["scores"]


def test_what_cannot_be_asked_of_a_cluster(cluster, toml_of_made, tmp_path):
    for options, message in (
        ({"devices": "cuda"}, "has no GPU"),
        ({"devices": "cuda:1"}, "auto, cpu or cuda"),
        ({"jobs": 2}, "--jobs is for GPUs"),
    ):
        with pytest.raises(InputError, match=message):
            compare([toml_of_made], (1,), tmp_path / "out", engine="ray", **options)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def toml_of_made(made, tmp_path) -> Path:
    return write_toml(tmp_path / "a.toml", made_tree(made))


def test_no_cluster_at_an_address(monkeypatch, tmp_path):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(
        ray, "init", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("nothing answers"))
    )
    with pytest.raises(
        HanlatticeError, match=r"no Ray cluster at there \(nothing answers\): `ray start --head`"
    ):
        connect("there")
