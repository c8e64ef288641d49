"""Raw text: every way of packing it, and every way in which a file can be bad."""

from __future__ import annotations

import gzip
import lzma
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.data.formats.raw import RawText, groups
from hanlattice.errors import InputError
from tests.helpers.strategies import shares_folder

PACK = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress}
packings = pytest.mark.parametrize("pack", PACK.values(), ids=PACK)


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(path: Path, *parts: str) -> None:
    with pytest.raises(InputError) as caught:
        list(RawText([path]))
    for part in parts:
        assert part in str(caught.value)


@packings
def test_lines_come_as_often_as_they_are_asked_for(tmp_path, pack):
    text = RawText([written(tmp_path / "a", pack("一\n\n二 三\r\n \u3000\n四".encode()))])
    assert list(text) == list(text) == ["一", "二 三", "四"]


def test_files_follow_one_another_however_they_are_packed(tmp_path):
    paths = [
        written(tmp_path / f"{name}.txt", pack(f"{name}\n".encode())) for name, pack in PACK.items()
    ]
    assert list(RawText(paths)) == list(PACK), "content decides, not the name"


@packings
def test_a_byte_order_mark_is_dropped(tmp_path, pack):
    assert list(RawText([written(tmp_path / "a", pack(b"\xef\xbb\xbf" + "一\n二".encode()))])) == [
        "一",
        "二",
    ]


@shares_folder
@given(
    lines=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\ufeff"))
    )
)
@packings
def test_any_lines_come_back(tmp_path, pack, lines):
    full = [line for line in lines if line and not line.isspace()]
    path = written(tmp_path / "a", pack("\n".join(["始", *lines]).encode()))
    assert list(RawText([path])) == ["始", *full]


@packings
def test_progress_grows_to_the_size_of_all_files(tmp_path, pack):
    paths = [written(tmp_path / name, pack("南京市长江大桥\n".encode() * 5000)) for name in "ab"]
    text = RawText(paths)
    assert (text.size, text.done) == (sum(path.stat().st_size for path in paths), 0)
    done = [text.done for _ in text]
    assert done == sorted(done)
    assert 0 < done[0] < text.size
    assert text.done == text.size
    next(iter(text))
    assert text.done < text.size, "each pass begins anew"


@packings
def test_not_utf8_says_where(tmp_path, pack):
    path = written(tmp_path / "a", pack("一\n\n二".encode() + "二\n".encode("gbk")))
    refused(path, f"{path}:3: ", "not UTF-8: byte 0xb6 at byte 4 of the line")


@pytest.mark.parametrize("name", ["gz", "xz"])
def test_an_archive_that_is_cut_short(tmp_path, name):
    whole = PACK[name]("".join(f"第{index}行\n" for index in range(20000)).encode())
    path = written(tmp_path / "a", whole[: len(whole) // 2])
    refused(path, f"{path}:", "cut short or damaged")


@pytest.mark.parametrize("name", ["gz", "xz"])
def test_an_archive_that_is_damaged(tmp_path, name):
    whole = bytearray(PACK[name]("".join(f"第{index}行\n" for index in range(20000)).encode()))
    whole[len(whole) // 2] ^= 0xFF
    refused(written(tmp_path / "a", bytes(whole)), "a:")


def test_an_empty_file_is_told_before_anything_is_read(tmp_path):
    full = written(tmp_path / "full", "一\n")
    empty = written(tmp_path / "empty", "")
    with pytest.raises(InputError, match="empty: the file is empty"):
        RawText([full, empty])


@packings
@pytest.mark.parametrize("content", ["\n", " \n\t\n\u3000", "\ufeff"])
def test_only_blank_lines(tmp_path, pack, content):
    refused(written(tmp_path / "a", pack(content.encode())), "there are only blank lines in it")


def test_a_missing_file_and_none_at_all(tmp_path):
    refused(tmp_path / "none", "cannot read: there is no such file")
    with pytest.raises(InputError, match="no file of raw text was named"):
        RawText([])


def test_a_pipe_is_told_to_be_one(tmp_path):
    """Without opening it, which would wait for somebody to write."""
    os.mkfifo(tmp_path / "pipe")
    refused(
        tmp_path / "pipe",
        "pipe: it is a pipe or a device; raw text is read several times, so give a file",
    )
    refused(Path("/dev/null"), "it is a pipe or a device")
    refused(tmp_path, "it is a folder")


@given(texts=st.lists(st.text("江", max_size=9)), characters=st.integers(1, 20))
def test_groups_lose_nothing_and_are_no_larger_than_they_must_be(texts, characters):
    result = list(groups(texts, characters))
    assert [text for group in result for text in group] == texts
    assert all(sum(len(text) + 1 for text in group[:-1]) < characters for group in result)
    assert all(sum(len(text) + 1 for text in group) >= characters for group in result[:-1])
