"""Folders and patterns: every file that was asked for is read, or named with what is wrong."""

from __future__ import annotations

import fnmatch
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.corpus import walk
from hanlattice.corpus.inputs import Found, find_sources
from hanlattice.errors import InputError
from tests.helpers.permissions import obeyed_permissions
from tests.helpers.strategies import shares_folder


def find(*inputs: Path | str) -> Found:
    return find_sources([str(each) for each in inputs], None, "text", ())


def write(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("好\n")
    return folder


def names(found: Found) -> list[str]:
    return [source.name for source in found.sources]


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
@pytest.mark.parametrize("how", ["folder", "**/*.txt", "*/*.txt"])
def test_a_folder_that_may_not_be_read_is_named_and_the_others_are_read(tmp_path, mode, how):
    write(tmp_path, "a.txt", "closed/b.txt", "open/c.txt")
    (tmp_path / "closed").chmod(mode)
    try:
        with obeyed_permissions():
            found = find(tmp_path if how == "folder" else tmp_path / how)
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert names(found) == (["open/c.txt"] if how == "*/*.txt" else ["a.txt", "open/c.txt"])
    (name,) = found.failures
    assert name == ("closed/b.txt" if mode == 0o444 else "closed")
    assert found.failures[name] == f"{tmp_path / name}: cannot read: permission denied"


@pytest.mark.parametrize("how", [".", "*.txt", "a.txt"])
def test_an_input_that_may_not_be_read_is_named(tmp_path, how):
    write(tmp_path, "in/closed/a.txt", "in/b.txt")
    (tmp_path / "in" / "closed").chmod(0)
    try:
        with obeyed_permissions():
            found = find(tmp_path / "in" / "closed" / how, tmp_path / "in" / "b.txt")
    finally:
        (tmp_path / "in" / "closed").chmod(0o700)
    assert names(found) == ["b.txt"]
    (failure,) = found.failures.values()
    assert "permission denied" in failure
    assert str(tmp_path / "in" / "closed") in failure


def test_two_folders_that_cannot_be_read_are_two_failures(tmp_path, monkeypatch):
    write(tmp_path, "a/x.txt", "b/x.txt")

    def scandir(folder: Path) -> object:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(os, "scandir", scandir)
    found = find(tmp_path / "a", tmp_path / "b")
    assert len(found.failures) == 2


@pytest.mark.parametrize("how", ["folder", "**/*.txt", "*.txt"])
def test_links_that_lead_nowhere_are_named(tmp_path, how):
    write(tmp_path, "a.txt")
    (tmp_path / "gone.txt").symlink_to("nothing")
    (tmp_path / "round.txt").symlink_to("round.txt")
    (tmp_path / ".#a.txt").symlink_to("user@host.1:2")  # an editor's lock, which is hidden
    found = find(tmp_path if how == "folder" else tmp_path / how)
    assert names(found) == ["a.txt"]
    assert found.failures["gone.txt"].endswith(
        "gone.txt: it is a link to something that does not exist"
    )
    assert (
        "round.txt: cannot read: Too many levels of symbolic links" in found.failures["round.txt"]
    )
    assert (".#a.txt" in found.failures) == (how != "folder")


@pytest.mark.parametrize("how", ["folder", "**/*.txt"])
def test_a_folder_behind_a_link_is_read_once(tmp_path, how):
    write(tmp_path, "in/real/a.txt", "elsewhere/b.txt", "elsewhere/deep/c.txt")
    links = {
        "in/again": "real",
        "in/real/loop": "..",
        "in/far": "../elsewhere",
        "in/far2": "../elsewhere/deep",
    }
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    found = find(tmp_path / "in" if how == "folder" else tmp_path / "in" / how)
    assert names(found) == ["far/b.txt", "far/deep/c.txt", "real/a.txt"]
    assert found.failures == {}
    again = {str(tmp_path / each) for each in ("in/again", "in/far2", "in/real/loop")}
    assert {notice.partition(": ")[0] for notice in found.notices} == again


def test_a_link_to_a_folder_above_is_no_way_out(tmp_path):
    write(tmp_path, "outside.txt", "in/a.txt")
    (tmp_path / "in" / "up").symlink_to("..")
    (tmp_path / "in" / "top").symlink_to("/")
    found = find(tmp_path / "in")
    assert names(found) == ["a.txt"]
    assert sorted(found.failures) == ["top", "up"]
    assert "it is a link to a folder above it" in found.failures["up"]


def test_many_links_to_folders_with_links_are_read_once_each(tmp_path):
    """A chain of folders, each with two links to the next: 2**30 paths, 31 folders."""
    for at in range(31):
        write(tmp_path, f"{at}/a.txt")
    write(tmp_path, "in/b.txt")
    for at in range(30):
        for name in "xy":
            (tmp_path / str(at) / name).symlink_to(f"../{at + 1}")
    (tmp_path / "in" / "start").symlink_to("../0")
    found = find(tmp_path / "in")
    assert len(found.sources) == 32
    assert len(found.notices) == 30


def test_what_is_no_file_is_named(tmp_path):
    write(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "pipe.txt")
    os.mkfifo(tmp_path / "other")
    found = find(tmp_path)
    assert names(found) == ["a.txt"]
    assert "it is a pipe or a device" in found.failures["pipe.txt"]
    assert found.passed_over == [tmp_path / "other"]


def test_a_folder_that_matches_a_pattern_is_named(tmp_path):
    write(tmp_path, "a.txt", "b.txt/part-0.txt", "c.txt/part-0.txt")
    found = find(tmp_path / "*.txt")
    assert names(found) == ["a.txt"]
    assert found.notices == [
        f"{tmp_path / name}: it is a folder, and its files are not read; a pattern ending in /"
        f"**/* has them"
        for name in ("b.txt", "c.txt")
    ]
    assert find(tmp_path / "**/*.txt").notices == []


@pytest.mark.parametrize("name", ["a.txt", "a.parquet", "a.csv"])
@pytest.mark.parametrize("when", ["listed", "looked at"])
def test_a_file_that_vanishes_after_it_was_listed_is_named(tmp_path, monkeypatch, name, when):
    write(tmp_path, name, "b.txt")
    look = walk.look

    def look_once(path: Path) -> walk.FoundPath:
        if path.name == name and when == "listed":
            path.unlink()
        entry = look(path)
        if path.name == name and when == "looked at":
            path.unlink()
        return entry

    monkeypatch.setattr(walk, "look", look_once)
    found = find(tmp_path)
    assert names(found) == ["b.txt"]
    assert found.failures[name].startswith(f"{tmp_path / name}: cannot ")
    assert "o such file" in found.failures[name]


def test_a_folder_that_vanishes_after_it_was_listed_is_named(tmp_path, monkeypatch):
    write(tmp_path, "a/b.txt", "c.txt")
    entries = os.scandir

    def scandir(folder: Path) -> object:
        if folder == tmp_path / "a":
            shutil.rmtree(folder)
        return entries(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    found = find(tmp_path)
    assert names(found) == ["c.txt"]
    assert found.failures == {
        "a": f"{tmp_path / 'a'}: cannot read: there is no such file or folder"
    }


def test_a_pattern_does_not_lead_out_of_its_folder(tmp_path):
    write(tmp_path, "a/b/c.txt", "d.txt")
    with pytest.raises(InputError, match=r"\.\. may not come after a wildcard"):
        find(tmp_path / "*" / ".." / "d.txt")


tree = st.sets(
    st.lists(st.sampled_from(["a", "b", ".h"]), max_size=3).map(
        lambda parts: "/".join([*parts, "x.txt"])
    ),
    max_size=6,
)
pattern = st.lists(st.sampled_from(["**", "*", "a", "[ab]", "?"]), max_size=3).map(
    lambda parts: "/".join([*parts, "*.txt"])
)


def _plain(parts: list[str], wanted: list[str]) -> bool:
    """Whether a path fits a pattern, by trying every length of what `**` stands for."""
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_plain(parts[at:], wanted[1:]) for at in range(len(parts)))
    return (
        bool(parts) and fnmatch.fnmatchcase(parts[0], wanted[0]) and _plain(parts[1:], wanted[1:])
    )


@shares_folder
@given(tree, pattern)
def test_a_pattern_finds_what_fits_it_and_nothing_else(tmp_path, files, wanted):
    shutil.rmtree(tmp_path / "in", ignore_errors=True)
    write(tmp_path / "in", *files, "y.md")
    fixed = wanted.split("/")
    while fixed and not any(sign in fixed[0] for sign in "*?["):
        fixed.pop(0)
    below = wanted.split("/")[: len(wanted.split("/")) - len(fixed)]
    expected = sorted(
        name.removeprefix("".join(f"{part}/" for part in below))
        for name in files
        if _plain(name.split("/"), wanted.split("/"))
    )
    if expected:
        assert names(find(tmp_path / "in" / wanted)) == expected
