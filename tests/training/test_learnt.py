"""What finished models were trained on: found by their configurations, and told apart by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hanlattice.data.corpus import read_corpus
from hanlattice.data.jsonl import write_jsonl
from hanlattice.models.folder import Model, load_model
from hanlattice.training.learnt import own_training, training_files
from tests.made import made_config, sentences
from tests.untrained import write_untrained


def model_of(folder: Path, made: Path, **changes: Any) -> Model:
    config = made_config(made, model__encoder="char", model__hidden=2, **changes)
    return load_model(write_untrained(folder, config, sentences(6, 1)))


@pytest.mark.parametrize("changes", [{}, {"data__more": "m"}, {"data__limit": 7}, {"data__dev": "", "holdout": "end"}])
def test_models_of_other_sentences_are_told_apart(made, tmp_path, changes):
    plain = {"data__dev": "", "data__holdout": 0.25}
    write_jsonl(tmp_path / "more.jsonl", sentences(3, 2))
    other = {**plain, **changes}
    if other.pop("holdout", ""):
        other["data__holdout_from"] = "end"
    if "data__more" in other:
        other["data__more"] = str(tmp_path / "more.jsonl")
    models = {"A": model_of(tmp_path / "a", made, **plain), "B": model_of(tmp_path / "b", made, **other)}
    learnt, what = own_training(models, notes := [])
    assert any("trained on different sentences" in note for note in notes) == bool(changes)
    whole = read_corpus(made / "train.bmes").sentences
    stays = [sentence for at, sentence in enumerate(whole) if at % 4 != 3]
    if "data__limit" in other:
        stays = [sentence for at, sentence in enumerate(whole[:7]) if at != 3]
    if "data__holdout_from" in other:
        stays = list(whole[:90])
    assert list(learnt or ()) == stays
    assert what.endswith(f"of B, {len(stays)} sentences")


def test_all_files_that_were_learnt_from_are_known(made, tmp_path, monkeypatch):
    monkeypatch.setenv("HANLATTICE_CACHE", str(tmp_path))
    models = [
        model_of(tmp_path / "a", made, data__more=str(tmp_path / "more.jsonl")),
        model_of(tmp_path / "b", made, data__train="@msra/train.bmes", data__more=""),
    ]
    assert training_files(models) == [made / "train.bmes", tmp_path / "more.jsonl"]
