"""Arguments that are models: what is none is refused in a line that says what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hanlattice
from hanlattice.checkpoint import find_model
from hanlattice.client import Client
from hanlattice.errors import ModelError
from hanlattice.explain import explain
from hanlattice.predict import Predictor, load

NO_MODELS = [
    None,
    3,
    b"seg",
    ["seg"],
    {"seg": 1},
    object(),
    SimpleNamespace(model="seg"),
    load,
    "x" * 10_000,
]


@pytest.mark.parametrize("value", [*NO_MODELS[1:], "seg", "sge", "", Path("seg"), hanlattice])
@pytest.mark.parametrize("ask", ["analyse", "analyse_pipe"])
def test_a_segmenter_is_a_loaded_model(lattice_folder: Path, ask: str, value: Any) -> None:
    tagger = load(lattice_folder)
    with pytest.raises(
        TypeError,
        match=r'^segmenter must be a loaded model, such as hanlattice.load\("seg"\), not ',
    ) as e:
        getattr(tagger, ask)("南京" if ask == "analyse" else ["南京"], segmenter=value)
    assert len(str(e.value)) < 400
    with pytest.raises(ModelError, match="`segmenter` is one that cuts words"):
        tagger.analyse("南京", segmenter=tagger)


@pytest.mark.parametrize("value", [each for each in NO_MODELS if not isinstance(each, str)])
@pytest.mark.parametrize(
    ("take", "says"),
    [
        (
            load,
            "a model must be a str or a Path, not",
        ),
        (find_model, "a model must be a str or a Path, not"),
        (Predictor, "a Predictor takes what load_model returns, not .*call hanlattice.load"),
        (
            lambda value: explain(value, "南京", 512),
            "explain takes the `model` of a loaded Predictor, not",
        ),
        (
            lambda value: load("ner", device=value),
            "a device must be a str such as cpu or cuda:0, not",
        ),
    ],
)
def test_other_places_say_what_they_take(take: Callable[[Any], Any], says: str, value: Any) -> None:
    with pytest.raises(TypeError, match=says) as e:
        take(value)
    assert len(str(e.value)) < 400


def test_a_name_where_a_model_is_expected() -> None:
    for value in ("ner", "sge", ""):
        with pytest.raises(TypeError, match=r"not str: .*, call hanlattice\.load"):
            Predictor(value)  # type: ignore[arg-type]
    for value in ("sge", "x" * 300, "x" * 10_000, "a\0b", "a\ud800"):
        with pytest.raises(ModelError):
            load(value)


@pytest.mark.parametrize("value", [3, b"seg", ["seg"], {"seg": 1}, load])
def test_a_client_names_its_models(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    record = {"models": [{"name": "m", "kind": "entities", "labels": ["LOC"]}]}
    monkeypatch.setattr(Client, "_send", lambda *_: record)
    with pytest.raises(TypeError, match="model must be the name of a model of the server, not"):
        hanlattice.connect("http://127.0.0.1:9", value)
    client = hanlattice.connect("http://127.0.0.1:9")
    with pytest.raises(TypeError, match="segmenter must be the name of a model of the server, not"):
        client.analyse("南京", segmenter=value)
