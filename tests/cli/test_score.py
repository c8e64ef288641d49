"""`hanlattice score`: two segmentations of one text."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hanlattice.data.formats.segmented import read_segmented
from hanlattice.evaluation.segmentation import score_segmentation
from tests.helpers.command import hanlattice

GOLD = "江泽民 主席 在 北京 讲话\n\n江泽民 主席 到 １９９８年 的 上海\n"
TEST = "江 泽民 主席 在 北京 讲话\n江泽民主席\u3000到 1998年 的\t上海\n\n"
TRAIN = "主席 在 北京 1998年 的\n"


def write(folder: Path, **files: str) -> list[Path]:
    for name, content in files.items():
        (folder / name).write_text(content, "utf-8")
    return [folder / name for name in files]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return write(tmp_path, gold=GOLD, test=TEST, train=TRAIN)


def found(*arguments: str | Path) -> Any:
    outcome = hanlattice("score", "--json", *arguments)
    assert (outcome.code, outcome.err) == (0, "")
    return json.loads(outcome.text)


def test_the_library_gives_the_same(files):
    gold, test, train = files
    report = found(gold, test, "--train", train)
    ours, theirs = (read_segmented(path).sentences for path in (gold, test))
    spans = [[sentence.spans or () for sentence in item] for item in (ours, theirs)]
    known = ["主席", "在", "北京", "1998年", "的"]
    expected = score_segmentation([sentence.text for sentence in ours], *spans, known)
    assert report["segmentation"] == json.loads(json.dumps(expected.as_dict()))
    assert report["overall"] == report["segmentation"]["spans"] == expected.spans.as_dict()
    assert report["by_type"] == {"WORD": report["overall"]}


def test_tables(files):
    gold, test, train = files
    outcome = hanlattice("score", gold, test, "--train", train)
    assert (outcome.code, outcome.err) == (0, "")
    rows = {
        cells[1]: cells[2:-1] for line in outcome.text.splitlines() if len(cells := split(line)) > 2
    }
    assert rows["bakeoff"] == ["72.73", "72.73", "72.73", "11", "11", "8"]
    assert rows["- OOV (45.45 %)"] == ["–", "60.00", "–", "5", "–", "3"]
    assert rows["- IV"] == ["–", "83.33", "–", "6", "–", "5"]
    assert rows["- 1 character"] == ["75.00", "100.00", "85.71", "3", "4", "3"]
    assert rows["- 5+ characters"] == ["50.00", "100.00", "66.67", "1", "2", "1"]
    assert rows["boundaries"][3:] == ["9", "9", "8"]
    assert rows["江泽民"] == ["2", "2", "OOV", "江|泽民 ×1, in 江泽民主席 ×1"]
    assert rows["主席"] == ["2", "1", "IV", "in 江泽民主席 ×1"]
    assert "missed most often: 2 of 2 words" in outcome.text


def split(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("│")]


def test_how_many_words_are_shown(files):
    gold, test, _ = files
    assert "主席 │" not in hanlattice("score", gold, test, "--words", "1").text
    assert "missed" not in hanlattice("score", gold, test, "--words", "0").text
    report = found(gold, test, "--words", "1")["segmentation"]
    assert [item["word"] for item in report["worst"]] == ["江泽民"]
    assert (report["oov"], report["iv"]) == (None, None)
    assert "missed" not in hanlattice("score", gold, gold).text


def test_a_list_of_words_is_as_good_as_a_file(files, tmp_path):
    gold, test, train = files
    (known,) = write(tmp_path, known="主席\n在 12\n北京\t7\n\n1998年\n的\n")
    assert found(gold, test, "--known", known) == found(gold, test, "--train", train)
    hanlattice("score", gold, test, "--known", known, "--train", train).refused(
        "--train and --known", "use one"
    )


def test_known_words_as_they_are_written(files):
    gold, test, train = files
    counts = [
        found(gold, test, "--train", train, *more)["segmentation"]["oov"]["gold"]
        for more in ([], ["--as-written"])
    ]
    # The training file has １９９８年 in another width.
    assert counts == [5, 6]


def test_another_text_is_refused_with_its_line(tmp_path):
    gold, test, fewer = write(
        tmp_path,
        gold=GOLD,
        test="江泽民主席在北京讲话\n\n\n江泽民 主席 去 1998年\n",
        fewer="\n\n江泽民主席在北京讲话\n",
    )
    refused = hanlattice("score", gold, test)
    refused.refused(
        f"{test}:4: another text than line 3 of {gold}, from character 6 on: ",
        "expected '江泽民主席到1998'",
    )
    assert refused.err.count("\n") == 1
    hanlattice("score", gold, fewer).refused(
        f"{fewer}: 1 sentence, where {gold} has 2: expected the same sentences"
    )
    hanlattice("score", fewer, gold).refused(f"{gold}: 2 sentences, where {fewer} has 1")


def test_pipes_are_read_once():
    """Files may be pipes, as `<(command)` in a shell: a second reader would find them empty."""
    names = []
    for content in (GOLD, GOLD.replace("上海", "上河")):
        reading, writing = os.pipe()
        os.write(writing, content.encode())
        os.close(writing)
        names.append(f"/dev/fd/{reading}")
    try:
        hanlattice("score", *names).refused(
            f"{names[1]}:3: another text than line 3 of {names[0]}, from character 14"
        )
    finally:
        for name in names:
            os.close(int(name.rpartition("/")[2]))


def test_one_sentence_is_one(tmp_path):
    (first,) = write(tmp_path, one="江泽民 主席\n")
    assert hanlattice("score", first, first).text.partition("┏")[0].split()[-2:] == [
        "1",
        "sentence",
    ]


def test_files_that_cannot_be_read(files, tmp_path):
    gold, test, _ = files
    empty = tmp_path / "empty"
    latin = tmp_path / "latin"
    empty.write_text(" \n\u3000\n", "utf-8")
    latin.write_bytes(b"a b\n\xff\n")
    hanlattice("score", gold, "nowhere").refused("nowhere: cannot read: there is no such file")
    hanlattice("score", gold, test, "--train", "nowhere").refused("nowhere: cannot read")
    hanlattice("score", gold, test, "--known", latin).refused(f"{latin}:2: not UTF-8")
    hanlattice("score", empty, gold).refused(f"{empty}: the corpus is empty")
    hanlattice("score", latin, gold).refused(f"{latin}:2: not UTF-8")


def test_odd_characters_are_shown_on_one_line(tmp_path):
    gold, test = write(tmp_path, gold="a\x07b [red] 好\n", test="a \x07b [red]好\n")
    outcome = hanlattice("score", gold, test)
    assert (outcome.code, outcome.err) == (0, "")
    assert "a\\x07b" in outcome.text
    assert "in [red]好 ×1" in outcome.text
