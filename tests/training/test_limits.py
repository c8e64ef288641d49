"""What training accepts can be loaded, up to each limit; the rest is refused before any step."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanlattice.checkpoint import plan
from hanlattice.checkpoint.checksums import MOST, write_record
from hanlattice.checkpoint.folder import save_frame, save_weights
from hanlattice.checkpoint.load import load_model
from hanlattice.checks import MOST_LAYERS, WIDEST
from hanlattice.config import make_config
from hanlattice.data.formats.jsonl import write_jsonl
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.lab.pretrain.lm.recipe import Recipe
from hanlattice.text.normalize import LONE_SURROGATE
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.tags import LONGEST_LABEL
from hanlattice.text.vectors import Vectors, write_vectors
from hanlattice.training import loop
from hanlattice.training.build import build
from hanlattice.training.loop import train
from hanlattice.training.warm_start import GENERATIONS
from tests.helpers.made import made_config, write_made
from tests.helpers.untrained import write_untrained

SMALL: dict[str, Any] = {"chars": {"dim": 2}, "model": {"encoder": "char", "hidden": 1}}


def with_labels(labels: list[str]) -> list[Sentence]:
    return [Sentence("南京市", (Span(0, 2, label),)) for label in labels]


def test_tags_at_the_limit_can_be_loaded_and_more_are_refused(tmp_path: Path) -> None:
    labels = [f"L{n}" for n in range((plan.TAGS - 1) // 4)]
    config = make_config(SMALL)
    model = load_model(write_untrained(tmp_path / "model", config, with_labels(labels)))
    assert list(model.indexer.tag_ids.labels) == sorted(labels)
    with pytest.raises(
        InputError,
        match=r"tags must be from 1 to 4,096 different ones, not 4,097: use fewer labels",
    ):
        build(config, with_labels([*labels, "more"]))


def test_too_many_tags_end_a_training_before_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They did so after every epoch, when nothing could be loaded."""
    write_made(tmp_path, train=20)
    steps = []
    monkeypatch.setattr(plan, "TAGS", 8)
    monkeypatch.setattr(loop, "train_step", lambda *_: steps.append(1))
    with pytest.raises(InputError, match="tags must be from 1 to 8 different ones, not 9"):
        train(made_config(tmp_path), tmp_path / "out")
    assert not steps
    assert not (tmp_path / "out").exists()


@settings(max_examples=25, deadline=None, suppress_health_check=[*HealthCheck])
@given(
    labels=st.lists(
        st.text(st.characters(), min_size=1, max_size=4) | st.text("x", min_size=250, max_size=260),
        min_size=1,
        max_size=4,
    )
)
def test_labels_of_any_name_are_refused_or_come_back(labels: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            built = build(make_config(SMALL), with_labels(labels))
        except HanlatticeError:
            assert max(map(len, labels)) > LONGEST_LABEL or any(map(LONE_SURROGATE.search, labels))
            return
        save_frame(Path(folder), make_config(SMALL), built.indexer, {})
        save_weights(Path(folder), built.tagger.state_dict(), {"facts": dict.fromkeys(labels, 1)})
        model = load_model(folder)
        assert model.indexer.tags == built.indexer.tags
        assert model.scores == {"facts": dict.fromkeys(labels, 1)}


@pytest.mark.parametrize(("width", "fits"), [(WIDEST, True), (WIDEST + 1, False)])
def test_vectors_of_any_width_are_refused_or_can_be_loaded(
    tmp_path: Path, width: int, fits: bool
) -> None:
    write_vectors(
        tmp_path / "v.bin", Vectors(("南",), np.ones((1, width), dtype=np.float32)), binary=True
    )
    config = make_config({**SMALL, "chars": {"vectors": str(tmp_path / "v.bin")}})
    if fits:
        load_model(write_untrained(tmp_path / "model", config, with_labels(["A"])))
    else:
        with pytest.raises(
            InputError,
            match=r"could not be loaded again: chars\.vectors must be a table of 1 to 65,536",
        ):
            build(config, with_labels(["A"]))


@pytest.mark.parametrize(
    "change", [{"model": {"layers": MOST_LAYERS}}, {"softwords": {"dim": WIDEST}}]
)
def test_settings_at_their_limits_can_be_loaded(tmp_path: Path, change: dict[str, Any]) -> None:
    tree = {**SMALL, "segment": {"by": "gold"}, **change}
    tree["model"] = {**SMALL["model"], **tree["model"], "softword": True}
    sentence = Sentence("南京市", (Span(0, 2, "A"),), words=(Span(0, 3, "n"),))
    load_model(write_untrained(tmp_path / "model", make_config(tree), [sentence]))


@pytest.mark.parametrize(
    "sizes", [{"embedding": WIDEST + 1}, {"hidden": WIDEST + 1}, {"layers": MOST_LAYERS + 1}]
)
def test_a_language_model_that_could_not_be_loaded_is_not_trained(sizes: dict[str, int]) -> None:
    with pytest.raises(InputError, match=f"at most {next(iter(sizes.values())) - 1}"):
        Recipe(**sizes)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"x": "长" * MOST}, "more than 16,777,216 bytes"),
        ({"x": 1 << 70}, "too large"),
        ({"x": float("nan")}, "no number"),
        ({"format": 1, "tags": 3}, "config is missing"),
    ],
)
def test_a_record_that_could_not_be_read_is_not_written(
    tmp_path: Path, record: dict[str, Any], says: str
) -> None:
    from hanlattice.checkpoint.schema import ModelRecord

    with pytest.raises(InputError, match=f"could not be read again: .*{says}"):
        write_record(tmp_path / "config.json", record, (), ModelRecord)
    assert not [*tmp_path.iterdir()]


def test_a_model_may_stand_on_any_number_of_others(tmp_path: Path) -> None:
    """A record has the facts of every earlier model, nested at most 32 deep."""
    write_jsonl(tmp_path / "t.jsonl", with_labels(["A"]))
    tree = {**SMALL, "data": {"train": str(tmp_path / "t.jsonl")}, "train": {"epochs": 1}}
    before = ""
    for n in range(GENERATIONS + 2):
        train(
            make_config(tree | ({"start": {"model": before}} if before else {})), tmp_path / str(n)
        )
        before = str(tmp_path / str(n))
    start = json.loads((tmp_path / str(n) / "config.json").read_text("utf-8"))["data"]["start"]
    depth = 1
    while "before" in start:
        start = start["before"]
        depth = depth + 1
    assert depth == GENERATIONS + 1


def test_files_whose_names_are_not_utf8_can_be_trained_on(tmp_path: Path) -> None:
    write_made(tmp_path, train=20)
    name = os.fsdecode(os.fsencode(tmp_path) + b"/tr\xff\xfe.bmes")
    os.rename(tmp_path / "train.bmes", name)  # noqa: PTH104
    config = made_config(tmp_path, data__train=name, train__epochs=1, model__hidden=2)
    train(config, tmp_path / "out")
    assert load_model(tmp_path / "out").config == config
    assert loop.train(config, tmp_path / "out", resume=True).scores
