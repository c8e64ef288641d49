"""`hanlattice segment`: the text with spaces between its words, and otherwise unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanlattice.config import make_config
from hanlattice.predict import TEXTS, TRUST_MOST, Predictor
from hanlattice.text.lexicon import Lexicon
from hanlattice.training.loop import train
from tests.helpers.command import hanlattice
from tests.helpers.cutting import cutting_tree
from tests.helpers.made import sentences

TEXT = "王小明在青石镇工作。"
SPACES = "".join(filter(str.isspace, map(chr, range(0x3001)))).replace("\n", "")
WHOLE = [
    *("http://t.cn/zW?a=1&b=2", "www.baidu.com", "a.b@qq.com", "👨‍👩‍👧‍👦", "👍🏽", "🇨🇳", "1️⃣"),
    *("Windows", "ＩＢＭ", "café", "don't", "3.14", "１９９８", "1,000,000"),
]


@pytest.fixture(scope="module")
def folder(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained segmenter."""
    work = tmp_path_factory.mktemp("cut")
    tree = cutting_tree(made, work, 60, model__encoder="lattice", model__hidden=16, train__epochs=5)
    return train(make_config(tree), work / "model").folder


def without_added(line: str, text: str) -> str:
    """Return a line without the spaces that segmentation has added."""
    kept = []
    index = 0
    for character in line:
        same = text[index : index + 1] == character
        if (
            same
            or character != " "
            or index == 0
            or text[index - 1].isspace()
            or text[index : index + 1].isspace()
        ):
            kept.append(character)
            index += 1
    return "".join(kept)


def lines(out: bytes) -> list[str]:
    assert out.endswith(b"\n") or not out
    return out.decode("utf-8").split("\n")[:-1]


def places(line: str) -> list[int]:
    """Return where the words end, counted without white space."""
    ends = [0]
    for word in line.split():
        ends.append(ends[-1] + len(word))
    return ends


def test_a_text(folder):
    outcome = hanlattice("segment", "-m", folder, TEXT)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.text == "王小明 在 青石镇 工作 。\n"


def test_texts_files_and_standard_input_in_their_order(folder, tmp_path):
    file = tmp_path / "in.txt"
    file.write_bytes("二\r\n\n三".encode())
    outcome = hanlattice(
        "segment", "-m", folder, "一", file, "-", "六\n七", stdin="四\n五\n".encode()
    )
    assert lines(outcome.out) == ["一", "二", "", "三", "四", "五", "六", "七"]
    assert hanlattice("segment", "-m", folder, "-").out == b""


def test_a_file_into_a_file(folder, tmp_path):
    texts = [sentence.text for sentence in sentences(40, 8)]
    (tmp_path / "in.txt").write_text("\n".join(texts), "utf-8")
    outcome = hanlattice("segment", "-m", folder, tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    assert (outcome.code, outcome.out, outcome.err[:5]) == (0, b"", "note:")
    result = lines((tmp_path / "out.txt").read_bytes())
    assert [line.replace(" ", "") for line in result] == texts
    again = hanlattice(
        "segment",
        "-m",
        folder,
        "--threads",
        "1",
        "--batch-size",
        "7",
        "-",
        stdin="\n".join(texts).encode(),
    )
    assert lines(again.out) == result


def test_white_space_of_every_kind_stays_and_parts_words(folder):
    texts = [
        f"{white}王小{white}明在{white}{white}青石镇 工作{white}"
        for white in SPACES
        if white != "\r"
    ]
    content = "".join(f"{text}\n" for text in texts).encode()
    result = lines(hanlattice("segment", "-m", folder, "-f", "text", "-", stdin=content).out)
    assert [without_added(line, text) for line, text in zip(result, texts, strict=True)] == texts
    records = [
        json.loads(line)
        for line in lines(
            hanlattice("segment", "-m", folder, "-f", "jsonl", "-", stdin=content).out
        )
    ]
    assert [record["text"] for record in records] == texts
    assert [[span["text"] for span in record["spans"]] for record in records] == [
        line.split() for line in result
    ]


def test_jsonl_has_the_shape_of_tag(folder):
    text = f"{TEXT} {TEXT}"
    record = json.loads(hanlattice("segment", "-m", folder, "-f", "jsonl", text).text)
    result = record["spans"]
    assert record["text"] == text
    assert "".join(span["text"] for span in result) == TEXT * 2
    assert {tuple(span) for span in result} == {("start", "end", "label", "text", "score")}
    assert {span["label"] for span in result} == {"WORD"}
    assert json.loads(hanlattice("tag", "-m", folder, text).text) == record
    assert all(0 < span["score"] <= 1 for span in result)


def test_full_and_half_width_are_cut_at_the_same_places(folder):
    half = "王小明3.14在AC米兰,a@b.cn工作1998年 OK! 好"
    wide = half.translate(
        {ord(c): ord(c) + 0xFEE0 for c in half if "!" < c <= "~" and c != ","} | {0x20: 0x3000}
    )
    first, second = lines(hanlattice("segment", "-m", folder, half, wide).out)
    assert places(first) == places(second)
    assert second.replace(" ", "") == wide.replace(" ", "")


def test_what_is_whole_stays_whole(folder):
    texts = [f"王小明{thing}，{thing} {thing}" for thing in WHOLE]
    result = lines(hanlattice("segment", "-m", folder, "--text", *texts).out)
    for thing, text, line in zip(WHOLE, texts, result, strict=True):
        assert line.replace(" ", "") == text.replace(" ", "")
        assert line.count(thing) == 3
        assert line.split()[-1] == thing


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=8,
)  # each loads the model
@given(
    rows=st.lists(
        st.binary(max_size=12)
        | st.text(max_size=12).map(lambda text: text.encode("utf-8", "replace"))
        | st.lists(st.sampled_from([*WHOLE, *" \t\u3000\x85\r南京，。"]), max_size=8).map(
            lambda row: "".join(row).encode()
        ),
        max_size=16,
    )
)
def test_any_line_comes_back_as_one_line_with_only_spaces_added(
    folder: Path, rows: list[bytes]
) -> None:
    rows = [row.replace(b"\n", b"").rstrip(b"\r") for row in rows]
    # The file must not begin with a byte order mark.
    rows = [b"a", *rows]
    content = b"".join(row + b"\n" for row in rows)
    outcome = hanlattice("segment", "-m", folder, "--encoding", "utf-8", "-", stdin=content)
    assert outcome.code == 0
    result = lines(outcome.out)
    assert len(result) == len(rows)
    for line, row in zip(result, rows, strict=True):
        text = row.decode("utf-8", "replace")
        assert without_added(line, text) == text


def test_a_model_that_does_not_cut_is_refused(lattice_folder):
    hanlattice("segment", "-m", lattice_folder, TEXT).refused(
        str(lattice_folder), "use `hanlattice tag`"
    )


def test_dictionaries_are_added(folder, tmp_path, monkeypatch):
    added: list[int] = []
    update = Lexicon.update
    monkeypatch.setattr(Lexicon, "update", lambda *given: added.append(update(*given)))
    for name, words in {
        "one.txt": "青石镇人\n小明在\n",
        "two.txt": "镇工作 12 n\n小明在\n",
    }.items():
        (tmp_path / name).write_text(words, "utf-8")
    given_twice = ["--lexicon", tmp_path / "one.txt", "-l", tmp_path / "two.txt"]
    outcome = hanlattice("segment", "-m", folder, *given_twice, TEXT)
    assert (outcome.code, outcome.err, added[-2:]) == (0, "", [2, 1])
    assert outcome.text.replace(" ", "") == f"{TEXT}\n"


def test_a_dictionary_that_cannot_be_read_is_refused(folder, tmp_path):
    hanlattice("segment", "-m", folder, "-l", tmp_path / "none.txt", TEXT).refused(
        "none.txt", "no such file"
    )
    (tmp_path / "bad.txt").write_bytes("青石镇\n南湖\n".encode() + b"\xff\n")
    hanlattice("segment", "-m", folder, "-l", tmp_path / "bad.txt", TEXT).refused(
        "bad.txt:3", "not UTF-8"
    )


def test_a_dictionary_of_the_catalogue(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HANLATTICE_CACHE", str(tmp_path))
    asked = ("segment", "-m", folder, "-l", "@jieba/dict.txt", TEXT)
    hanlattice(*asked).refused("@jieba/dict.txt is not in", "run `hanlattice data get jieba`")
    (tmp_path / "jieba").mkdir()
    (tmp_path / "jieba" / "dict.txt").write_text("小明在 3 n\n", "utf-8")
    assert " 小明在 " in hanlattice(*asked).text
    hanlattice(*asked, "--out", tmp_path / "jieba" / "dict.txt").refused("dict.txt")


def test_words_that_do_nothing_are_told(folder, tmp_path):
    (tmp_path / "names.txt").write_text("青石镇人\n王\n小 明 在\n镇\t3\n\n 小明在 \n", "utf-8")
    (tmp_path / "one.txt").write_text("王\n小明在\n", "utf-8")
    (tmp_path / "good.txt").write_text("小明在\n", "utf-8")
    given_files = [
        part for name in ("names", "good", "one") for part in ("-l", tmp_path / f"{name}.txt")
    ]
    outcome = hanlattice("segment", "-m", folder, *given_files, TEXT)
    assert outcome.code == 0
    assert outcome.err.splitlines() == [
        f"note: {tmp_path / 'names.txt'}: 2 of 5 words have one character, and are passed over",
        f"note: {tmp_path / 'one.txt'}: 1 of 2 words has one character, and is passed over",
    ]


def test_words_that_are_too_long_are_told(folder, lattice_folder, tmp_path):
    (tmp_path / "long.txt").write_text(f"{'王' * 20_000}\n小明在\n王\n{'王' * 512}\n", "utf-8")
    outcome = hanlattice("segment", "-m", folder, "-l", tmp_path / "long.txt", TEXT)
    what = "2 of 4 words have"
    assert outcome.code == 0
    file = tmp_path / "long.txt"
    said = f"note: {file}: {what} one character or more than 512, and are passed over\n"
    assert outcome.err == said
    assert said in hanlattice("tag", "-m", lattice_folder, "-l", tmp_path / "long.txt", TEXT).err


def test_trust_is_for_the_words_of_a_dictionary(folder, tmp_path):
    (tmp_path / "words.txt").write_text("明在青\n", "utf-8")
    own = ["segment", "-m", folder, "-l", tmp_path / "words.txt", TEXT, "--trust"]
    assert "明在青" in hanlattice(*own, f"{TRUST_MOST:g}").text.split()
    assert hanlattice(*own, "0").text == hanlattice("segment", "-m", folder, TEXT).text
    hanlattice("segment", "-m", folder, "--trust", "3", TEXT).refused(
        "--trust needs --lexicon: give a dictionary file"
    )
    for wrong in ("-1", "inf", "nan", "1000.1"):
        outcome = hanlattice(*own, wrong)
        assert (outcome.code, outcome.out) == (2, b"")
        assert "--trust" in outcome.err


def test_a_terminal_gets_nothing_that_it_would_obey(folder, monkeypatch):
    pipe = hanlattice("segment", "-m", folder, "--text", "王\x1b[31m小\x9b明\x07").text
    assert pipe.replace(" ", "") == "王\x1b[31m小\x9b明\x07\n"
    monkeypatch.setattr("hanlattice.cli.texts.is_screen", lambda out: out is None)
    screen = hanlattice("segment", "-m", folder, "--text", "王\x1b[31m小\x9b明\x07").text
    assert screen.replace(" ", "") == "王\\x1b[31m小\\x9b明\\x07\n"


def test_as_many_texts_at_a_time_as_the_device_is_given(folder, tmp_path, monkeypatch):
    """The same table has the numbers for a CPU and for a GPU."""
    sizes: list[int] = []
    pipe = Predictor.pipe
    monkeypatch.setattr(
        Predictor,
        "pipe",
        lambda self, texts, *more, **named: (
            sizes.append(len(texts)),
            pipe(self, texts, *more, **named),
        )[1],
    )
    monkeypatch.setitem(TEXTS, "cpu", 7)
    (tmp_path / "in.txt").write_text("好\n" * 20, "utf-8")
    assert (
        hanlattice("segment", "-m", folder, "--threads", "1", tmp_path / "in.txt").text
        == "好\n" * 20
    )
    assert sizes == [7, 7, 6]
