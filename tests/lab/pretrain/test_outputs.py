"""Outputs: their names, and every way in which one could replace an input or a file of another
kind.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hanlattice.errors import InputError, OutputError
from hanlattice.lab.pretrain.outputs import Outputs, check_readable, read_record

SUFFIXES = (".txt", ".bpe.json", ".json")


def test_where_outputs_go(tmp_path):
    names = ("a", "a.txt", "a.json", "a.bpe.json", "a.b", ".json")
    assert [Outputs(name, SUFFIXES).stem.name for name in names] == [
        "a",
        "a",
        "a",
        "a",
        "a.b",
        ".json",
    ]
    assert Outputs("f/a.b", SUFFIXES)[".txt"] == Path("f/a.b.txt")
    with pytest.raises(OutputError, match="is a folder: --out names the files in it"):
        Outputs(tmp_path, SUFFIXES)


@pytest.mark.parametrize("name", ["a.txt", "a.json", "a.bpe.json"])
@pytest.mark.parametrize("link", [False, True])
def test_an_input_is_never_an_output(tmp_path, name, link):
    source = tmp_path / ("real" if link else name)
    source.write_text("一二三", "utf-8")
    if link:
        (tmp_path / name).symlink_to(source)
    with pytest.raises(InputError, match=f"{name}: the output is one of the files to read"):
        Outputs(tmp_path / "a", SUFFIXES).check([tmp_path / "other", source], "size")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1]",
        '{"settings": 1}',
        '{"settings": {"unit": 1}}',
        "{}",
        "\xff",
        "[" * 100_000,
        " " * (1 << 21),
    ],
)
def test_a_json_of_another_kind_stays(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(
        OutputError, match=r"a.json already exists and is not the record of a run like this one"
    ):
        Outputs(tmp_path / "a", SUFFIXES).check([], "size")


def test_a_record_of_the_same_kind_may_be_replaced(tmp_path):
    outputs = Outputs(tmp_path / "a", SUFFIXES)
    outputs.check([], "size")
    record = {"settings": {"size": 3}, "文": "字"}
    outputs.write_record(record)
    outputs.check([], "size")
    assert (
        read_record(tmp_path / "a.json")
        == record
        == json.loads((tmp_path / "a.json").read_text("utf-8"))
    )
    assert read_record(tmp_path / "none.json") == {}


def test_a_folder_in_the_way_is_reported(tmp_path):
    (tmp_path / "a.bpe.json").mkdir()
    with pytest.raises(OutputError, match=r"a.bpe.json: it is a folder"):
        Outputs(tmp_path / "a", SUFFIXES).check([], "size")


def test_an_unreadable_file_is_reported_and_a_pipe_is_left_alone(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    check_readable([tmp_path / "pipe", tmp_path / "file"])
    with pytest.raises(InputError, match=r"none: cannot read: there is no such file"):
        check_readable([tmp_path / "file", tmp_path / "none"])


@pytest.mark.parametrize("named", ["a", "a.txt", "a.bpe.json", "a.json"])
def test_a_file_that_nobody_named_stays(tmp_path, named):
    for name in ("a.txt", "a.bpe.json"):
        (tmp_path / name).write_text("mine", "utf-8")
        if name == named:
            Outputs(tmp_path / named, SUFFIXES).check([], "size")
        else:
            with pytest.raises(OutputError, match=f"{name} already exists and was not named"):
                Outputs(tmp_path / named, SUFFIXES).check([], "size")
        Outputs(tmp_path / named, SUFFIXES).check([], "size", begun=True)
        (tmp_path / name).unlink()


def test_files_of_a_finished_run_are_replaced(tmp_path):
    outputs = Outputs(tmp_path / "a", SUFFIXES)
    outputs.write_record({"settings": {"size": 3}})
    for suffix in SUFFIXES[:2]:
        outputs[suffix].write_text("a former run's", "utf-8")
    outputs.check([], "size")
