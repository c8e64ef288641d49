"""`hanlattice tag`: texts, files and streams in, one result for each line out."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanlattice.cli import tag
from hanlattice.data.formats.columns import read_columns
from hanlattice.data.formats.jsonl import read_jsonl
from hanlattice.errors import InputError
from hanlattice.predict import Document, Predictor
from tests.helpers.command import ENVIRONMENT, PROGRAM, hanlattice, run, start
from tests.helpers.made import made_config, sentences
from tests.helpers.patience import PATIENCE
from tests.helpers.untrained import in_twos, write_untrained

TEXT = "王小明在青石镇工作。"
SPANS = [(0, 3, "PER", "王小明"), (4, 7, "LOC", "青石镇")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "in.txt"


def records(out: bytes) -> list[dict[str, object]]:
    assert out.endswith(b"\n") or not out
    return [json.loads(line) for line in out.decode("utf-8").split("\n")[:-1]]


def texts(out: bytes) -> list[object]:
    return [record["text"] for record in records(out)]


def test_a_text(lattice_folder):
    outcome = hanlattice("tag", "-m", lattice_folder, TEXT)
    assert (outcome.code, outcome.err) == (0, "")
    (record,) = records(outcome.out)
    assert record["text"] == TEXT
    result = record["spans"]
    assert isinstance(result, list)
    assert [(s["start"], s["end"], s["label"], s["text"]) for s in result] == SPANS
    assert all(0.5 < s["score"] <= 1 for s in result)
    # Chinese text is not escaped.
    assert "王小明" in outcome.text


def test_several_texts_files_and_standard_input_in_their_order(lattice_folder, file):
    file.write_bytes("二\r\n\n三".encode())
    outcome = hanlattice(
        "tag", "-m", lattice_folder, "一", file, "-", "六\n七", stdin="四\n五\n".encode()
    )
    assert texts(outcome.out) == ["一", "二", "", "三", "四", "五", "六", "七"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"\n\n\n", ["", "", ""]),
        ("\ufeff一\n二".encode(), ["一", "二"]),
        ("一\r\n二\r\n".encode(), ["一", "二"]),
        ("一\r二\u2028三\x85四\x0b五\n".encode(), ["一\r二\u2028三\x85四\x0b五"]),
        (b"\x00\n \t \n", ["\x00", " \t "]),
        (b"a\xff\xe5\nb\n", ["a\ufffd\ufffd", "b"]),
    ],
)
def test_one_result_for_each_line_whatever_is_in_it(lattice_folder, file, content, lines):
    file.write_bytes(content)
    for outcome in (
        hanlattice("tag", "-m", lattice_folder, file),
        hanlattice("tag", "-m", lattice_folder, "-", stdin=content),
    ):
        assert outcome.code == 0
        assert texts(outcome.out) == lines


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=5,
)  # each loads the model twice
@given(
    lines=st.lists(
        st.one_of(st.binary(max_size=12), st.text(max_size=9).map(str.encode)), max_size=18
    )
)
def test_any_bytes_survive(char_folder: Path, lines: list[bytes]) -> None:
    lines = [line.replace(b"\n", b"").rstrip(b"\r") for line in lines]
    content = b"a\n" + b"".join(line + b"\n" for line in lines)
    outcome = hanlattice("tag", "-m", char_folder, "--encoding", "utf-8", "-", stdin=content)
    assert outcome.code == 0
    assert texts(outcome.out) == [line.decode("utf-8", "replace") for line in (b"a", *lines)]
    readable = "\ufffd" not in outcome.text
    assert readable or "standard input:" in outcome.err or "\ufffd".encode() in content
    content = content.decode("utf-8", "replace").encode()
    marked = hanlattice("tag", "-m", char_folder, "-f", "inline", "-", stdin=content).out
    if b"[" not in content and b"/" not in content:
        for mark in (b"[", b"/PER]", b"/LOC]"):
            marked = marked.replace(mark, b"")
        assert marked == content


def test_inline(lattice_folder):
    outcome = hanlattice("tag", "-m", lattice_folder, "--format", "inline", TEXT, "")
    assert outcome.text == "[王小明/PER]在[青石镇/LOC]工作。\n\n"


@pytest.mark.parametrize("scheme", ["BIO", "BMES", "BIOES"])
def test_columns_can_be_read_again(lattice_folder, tmp_path, scheme):
    given_texts = [sentence.text for sentence in sentences(12, 5)]
    outcome = hanlattice(
        "tag", "-m", lattice_folder, "-f", "conll", "--scheme", scheme, *given_texts
    )
    (tmp_path / "out.bmes").write_bytes(outcome.out)
    corpus = read_columns(tmp_path / "out.bmes")
    assert [sentence.text for sentence in corpus.sentences] == given_texts
    assert corpus.scheme == scheme
    assert corpus.notices == ()


def test_jsonl_can_be_read_again_as_a_corpus(lattice_folder, tmp_path):
    assert (
        hanlattice(
            "tag", "-m", lattice_folder, "-o", tmp_path / "o.jsonl", TEXT, "南湖有3个人。"
        ).code
        == 0
    )
    corpus = read_jsonl(tmp_path / "o.jsonl")
    assert [len(sentence.spans or ()) for sentence in corpus.sentences] == [2, 1]


def test_min_score_leaves_spans_out(lattice_folder):
    (whole,) = records(hanlattice("tag", "-m", lattice_folder, TEXT).out)
    scores = sorted(span["score"] for span in whole["spans"])  # type: ignore[attr-defined]
    threshold = (scores[0] + scores[1]) / 2
    (some,) = records(
        hanlattice("tag", "-m", lattice_folder, "--min-score", str(threshold), TEXT).out
    )
    assert some["text"] == TEXT
    assert some["spans"] == [span for span in whole["spans"] if span["score"] > threshold]  # type: ignore[attr-defined]
    inline = hanlattice("tag", "-m", lattice_folder, "--min-score", "1", "-f", "inline", TEXT)
    assert inline.text == TEXT + "\n"
    conll = hanlattice("tag", "-m", lattice_folder, "--min-score", "1", "-f", "conll", "南湖")
    assert conll.text == "南\tO\n湖\tO\n\n"


def test_nbest_adds_candidates(lattice_folder, tmp_path):
    outcome = hanlattice("tag", "-m", lattice_folder, "--nbest", "4", TEXT, "", "\udcff湖")
    first, empty, odd = records(outcome.out)
    assert len(first["candidates"]) == 4  # type: ignore[arg-type]
    assert "王小明" in outcome.text
    scores = [span["score"] for span in first["candidates"]]  # type: ignore[attr-defined]
    assert scores == sorted(scores, reverse=True)
    assert {span["text"] for span in first["candidates"][:2]} == {"王小明", "青石镇"}  # type: ignore[index]
    assert empty["candidates"] == []
    assert odd["text"] == "\ufffd湖"
    assert "note: the text:1: not UTF-8" in outcome.err
    assert odd["candidates"]
    (tmp_path / "o.jsonl").write_bytes(outcome.out)
    assert (
        len(read_jsonl(tmp_path / "o.jsonl").sentences) == 2
    )  # candidates are no labels: a corpus is read without
    few = hanlattice("tag", "-m", lattice_folder, "--nbest", "4", "--min-score", "0.5", TEXT)
    assert len(records(few.out)[0]["candidates"]) == 2  # type: ignore[arg-type]
    for format in ("conll", "inline", "terminal", "html"):
        refused = hanlattice("tag", "-m", lattice_folder, "--nbest", "2", "-f", format, TEXT)
        refused.refused("--nbest needs --format jsonl", format)


def test_a_dictionary(lattice_folder, tmp_path):
    (tmp_path / "words.txt").write_text("红叶谷口\n湖\n", "utf-8")
    text = "王小明去了红叶谷口！"
    before, after = (
        hanlattice("tag", "-m", lattice_folder, *more, text)
        for more in ([], ["--lexicon", tmp_path / "words.txt"])
    )
    assert before.out != after.out
    assert "1 of 2 words has one character" in after.err
    hanlattice("tag", "-m", lattice_folder, "-l", tmp_path / "none.txt", text).refused(
        "none.txt", "no such file"
    )


def test_a_dictionary_for_a_model_without_lexicon(char_folder, tmp_path):
    (tmp_path / "words.txt").write_text("红叶谷口\n", "utf-8")
    hanlattice("tag", "-m", char_folder, "-l", tmp_path / "words.txt", TEXT).refused(
        "this model has no lexicon"
    )


@pytest.mark.parametrize("value", ["-0.1", "1.5", "nan", "high"])
def test_a_min_score_that_is_no_probability(lattice_folder, value):
    outcome = hanlattice("tag", "-m", lattice_folder, "--min-score", value, TEXT)
    assert outcome.code == 2
    assert "--min-score" in outcome.err
    assert "Traceback" not in outcome.err


def test_colours_and_none(lattice_folder, tmp_path, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    command = ("tag", "-m", lattice_folder, "-f", "terminal", TEXT, "\x1b[31m")
    plain = "[王小明/PER]在[青石镇/LOC]工作。\n\\x1b[31m\n\nLOC 1 · PER 1 · 2 texts\n"
    # A pipe gets no colours.
    assert hanlattice(*command).text == plain
    assert hanlattice(*command, "-o", tmp_path / "out").code == 0
    assert (tmp_path / "out").read_text("utf-8") == plain
    monkeypatch.setattr(tag, "is_screen", lambda out: out is None)
    coloured = hanlattice(*command).text
    assert "\x1b[1m王小明\x1b[22m/PER]\x1b[0m在" in coloured
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == plain
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            assert hanlattice(*command).text == plain


def test_a_terminal_gets_colours(lattice_folder):
    """Run the real program at a pseudo-terminal."""
    master, slave = pty.openpty()
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "NO_COLOR"} | {
        "TERM": "xterm"
    }
    outcome = run("tag", "-m", lattice_folder, TEXT, stdout=slave, env=environment)
    os.close(slave)
    shown = os.read(master, 10_000).decode("utf-8")
    os.close(master)
    assert (outcome.code, outcome.err) == (0, "")
    assert "\x1b[1m王小明\x1b[22m/PER]" in shown


NASTY = "王小明\x1b]0;x\x07在\x9b31m青石镇\x7f"


@pytest.mark.parametrize(
    "more", [("-f", "inline"), ("-f", "conll"), ("-f", "jsonl"), ("-f", "terminal")]
)
def test_a_terminal_gets_nothing_that_it_would_obey(lattice_folder, more, monkeypatch):
    """Files and pipes get control characters unchanged."""
    monkeypatch.setenv("NO_COLOR", "1")
    pipe = hanlattice("tag", "-m", lattice_folder, *more, "--text", NASTY).text
    monkeypatch.setattr("hanlattice.cli.texts.is_screen", lambda out: out is None)
    screen = hanlattice("tag", "-m", lattice_folder, *more, "--text", NASTY).text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", screen)
    assert len(screen.split("\n")) == len(pipe.split("\n"))
    if more[1] == "jsonl":
        assert screen == pipe
        assert json.loads(screen)["text"] == NASTY
    if more[1] == "inline":
        assert "\x1b]0;x\x07" in pipe
        assert "\\x1b]0;x\\x07" in screen


def test_an_output_takes_the_place_of_nothing_that_is_read(lattice_folder, file, tmp_path):
    (tmp_path / "words.txt").write_text("红叶谷口\n", "utf-8")
    (tmp_path / "link").symlink_to(file)
    file.write_text(f"{TEXT}\n", "utf-8")
    card = lattice_folder / "README.md"
    kept = {path: path.read_bytes() for path in (file, tmp_path / "words.txt", card)}
    for verb in (("tag",), ("segment",), ("explain", "-f", "json")):
        for out in (*kept, tmp_path / "link", tmp_path / "." / "in.txt"):
            more = ("-m", lattice_folder, "-l", tmp_path / "words.txt", "-o", out)
            hanlattice(*verb, file, *more).refused(
                str(out), "the output is one of the files to read"
            )
        hanlattice(*verb, file, "-m", lattice_folder, "-o", tmp_path).refused(
            "it is a folder, not a file"
        )
    with file.open("rb") as stdin:
        process = start("tag", "-", "-m", lattice_folder, "-o", file, stdin=stdin)
        assert b"one of the files to read" in process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 2
    assert {path: path.read_bytes() for path in kept} == kept
    assert (
        hanlattice("tag", "-m", lattice_folder, "--text", file, "-o", file).code == 0
    )  # its name is the text
    assert texts(file.read_bytes()) == [str(file)]


def test_an_output_in_the_models_folder_may_be_written_again(lattice_folder, tmp_path):
    folder = shutil.copytree(lattice_folder, tmp_path / "model")
    for _ in range(2):
        assert hanlattice("tag", "-m", folder, TEXT, "-o", folder / "out.jsonl").code == 0


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX closes them")
def test_without_standard_streams(lattice_folder, tmp_path):
    line = (
        f"'{PROGRAM}' tag -m '{lattice_folder}' - {TEXT} -o '{tmp_path / 'o.jsonl'}' <&- >&- 2>&-"
    )
    process = subprocess.run(
        line, shell=True, capture_output=True, text=True, env=ENVIRONMENT, timeout=PATIENCE
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    assert texts((tmp_path / "o.jsonl").read_bytes()) == [TEXT]


def test_a_page(lattice_folder, tmp_path):
    out = tmp_path / "page.html"
    outcome = hanlattice("tag", "-m", lattice_folder, "-f", "html", "-o", out, TEXT, "<b>&\udcff")
    assert (outcome.code, outcome.out) == (0, b"")
    page = out.read_text("utf-8")
    assert re.search(r'<mark [^>]*data-label="PER" title="PER 0\.\d{4}">王小明</mark>在<mark', page)
    assert "&lt;b&gt;&amp;\ufffd</p>" in page
    assert page.endswith("</html>\n")


def test_threads_are_used_and_change_nothing(lattice_folder, monkeypatch):
    asked: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", asked.append)
    outcomes = [
        hanlattice("tag", "-m", lattice_folder, *more, "王小明在青石镇工作。")
        for more in ([], ["--threads", "2"])
    ]
    assert asked == [1, 2]
    assert outcomes[0].out == outcomes[1].out


def test_out_appears_whole_or_not_at_all(lattice_folder, tmp_path, monkeypatch):
    out = tmp_path / "deep" / "out.jsonl"
    outcome = hanlattice("tag", "-m", lattice_folder, "-o", out, TEXT)
    assert (outcome.code, outcome.out, outcome.err[:5]) == (0, b"", "note:")
    before = out.read_bytes()
    assert texts(before) == [TEXT]

    def broken(*_: object, **__: object) -> Iterator[Document]:
        yield Document("一", ())
        raise InputError("torn off", "somewhere", 3)

    monkeypatch.setattr(Predictor, "pipe", broken)
    hanlattice("tag", "-m", lattice_folder, "-o", out, TEXT).refused("somewhere:3: torn off")
    assert out.read_bytes() == before
    assert [path.name for path in out.parent.iterdir()] == ["out.jsonl"]


def test_out_to_a_device_leaves_the_device_there(lattice_folder):
    assert hanlattice("tag", "-m", lattice_folder, "-o", "/dev/null", TEXT).code == 0
    assert Path("/dev/null").is_char_device()
    hanlattice("tag", "-m", lattice_folder, "-o", "/dev/full", TEXT).refused(
        "/dev/full", "the disk is full"
    )
    assert Path("/dev/full").is_char_device()


def test_a_pipe_that_looks_like_a_file(lattice_folder):
    reading, writing = os.pipe()
    with open(writing, "wb") as pipe:
        pipe.write(f"{TEXT}\n南湖".encode())
    assert texts(hanlattice("tag", "-m", lattice_folder, f"/dev/fd/{reading}").out) == [
        TEXT,
        "南湖",
    ]
    os.close(reading)


@pytest.mark.parametrize(
    "name", ["nowhere.txt", "data/nowhere", "./缺.md", "缺失的文件.txt", "/缺失"]
)
def test_a_missing_file_is_not_tagged_as_if_it_were_a_text(lattice_folder, name):
    hanlattice("tag", "-m", lattice_folder, name).refused(name, "there is no such file", "--text")
    assert texts(hanlattice("tag", "-m", lattice_folder, "--text", name).out) == [name]


def test_text_means_text_even_where_a_file_has_that_name(lattice_folder, file):
    file.write_text("一\n")
    assert texts(hanlattice("tag", "-m", lattice_folder, "--text", file, "-").out) == [
        str(file),
        "-",
    ]


@pytest.mark.parametrize("text", ["王小明", "i.e. 王", "a b.txt 很好", "长" * 5000, "OK"])
def test_texts_that_are_no_file_names(char_folder, text):
    assert texts(hanlattice("tag", "-m", char_folder, text).out) == [text]


def test_fast_finds_the_same_with_other_scores(lattice_folder):
    exact, fast = (
        json.loads(hanlattice("tag", "-m", lattice_folder, *more, TEXT).out)
        for more in ([], ["--fast"])
    )
    assert [(s["start"], s["end"]) for s in fast["spans"]] == [
        (s["start"], s["end"]) for s in exact["spans"]
    ]
    assert [s["score"] for s in fast["spans"]] == pytest.approx(
        [s["score"] for s in exact["spans"]], abs=0.05
    )


def test_what_cannot_be_tagged_is_refused(lattice_folder, char_folder, tmp_path):
    hanlattice("tag", "-m", lattice_folder, tmp_path).refused(str(tmp_path), "it is a folder")
    hanlattice("tag", "-m", tmp_path / "none", TEXT).refused("none", "no such model folder")
    hanlattice("tag", "-m", lattice_folder, "--device", "cuda:99", TEXT).refused(
        "cuda:99 was asked for"
    )
    hanlattice("tag", "-m", lattice_folder, "--device", "gpu", TEXT).refused(
        "no device is called 'gpu'"
    )
    hanlattice("tag", "-m", char_folder, "--fast", TEXT).refused("fast is for lattice models")
    for wrong in (["--batch-size", "0"], ["--format", "xml"]):
        outcome = hanlattice("tag", "-m", lattice_folder, *wrong, TEXT)
        assert outcome.code == 2
        assert "Traceback" not in outcome.err


def test_a_file_that_opens_and_cannot_be_read(char_folder, tmp_path):
    for more in ([], ["-o", tmp_path / "out"]):
        hanlattice("tag", "-m", char_folder, *more, "/proc/self/mem").refused(
            "/proc/self/mem:1: cannot read: Input/output error"
        )
    assert not list(tmp_path.iterdir())


def test_ctrl_c_while_it_waits_for_standard_input(char_folder):
    with start(
        "tag", "-m", char_folder, "--batch-size", "1", "-", stdin=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # This is more than the buffer of the output holds.
        process.stdin.write("一\n".encode() * 2000)
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (130, b"")


def test_a_reader_that_goes_away_is_no_error(lattice_folder, file):
    file.write_text("".join(f"{sentence.text}\n" for sentence in sentences(3000, 1)), "utf-8")
    with start("tag", "-m", lattice_folder, file) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert json.loads(first)["text"]
    assert process.returncode == 141


def test_a_full_disk_under_standard_output(lattice_folder):
    with open("/dev/full", "wb") as full:
        for arguments in (["tag", "-m", lattice_folder, TEXT], ["data", "list"]):
            run(*arguments, stdout=full).refused("cannot write the output: the disk is full")


def test_bytes_that_are_not_utf8_on_the_real_command_line(lattice_folder):
    outcome = run(
        "tag", "-m", lattice_folder, "-f", "inline", "-", os.fsdecode(b"\xff\xe5"), stdin=b"\xfe!\n"
    )
    assert (outcome.code, outcome.text) == (0, "\ufffd!\n\ufffd\ufffd\n")
    assert [line.split(": ")[1] for line in outcome.err.splitlines()] == [
        "standard input:1",
        "the text:1",
    ]


def test_a_word_model_tags_any_lines(made, tmp_path, file):
    config = made_config(
        made, model__encoder="word", model__char_features="cnn", model__bichar=True
    )
    folder = write_untrained(tmp_path / "word", config, sentences(30, 3))
    content = "王小明在青石镇工作。\n\n \u3000\n😀\n" + "昨天王芳到南湖开会。" * 120 + "\n"
    file.write_text(content, "utf-8")
    result = records(hanlattice("tag", "-m", folder, file).out)
    assert [record["text"] for record in result] == content.split("\n")[:-1]
    assert sum(len(record["spans"]) for record in result) > 0  # type: ignore[arg-type]
    for record in result:
        for span in record["spans"]:  # type: ignore[attr-defined]
            assert record["text"][span["start"] : span["end"]] == span["text"]  # type: ignore[index]


@pytest.mark.parametrize(
    "changes", [{"model__encoder": "word"}, {"model__softword": True}], ids=["word", "softword"]
)
def test_raw_text_for_a_model_of_gold_words_is_refused_in_one_line(made, tmp_path, changes):
    config = made_config(made, segment__by="gold", **changes)
    folder = write_untrained(
        tmp_path / "gold", config, [in_twos(sentence) for sentence in sentences(30, 3)]
    )
    for more in ([], ["-o", tmp_path / "out.jsonl"]):
        refused = hanlattice("tag", "-m", folder, *more, TEXT)
        refused.refused("segment.by=gold needs the words of the text", "use segment.by=rjieba")
        assert refused.err.count("\n") == 1
    assert not (tmp_path / "out.jsonl").exists()


def test_without_rjieba_a_word_model_says_how_to_install_it(made, tmp_path, monkeypatch):
    config = made_config(made, model__encoder="word")
    folder = write_untrained(tmp_path / "word", config, sentences(30, 3))
    monkeypatch.setitem(sys.modules, "rjieba", None)
    assert hanlattice("info", folder).code == 0
    refused = hanlattice("tag", "-m", folder, TEXT)
    refused.refused("rjieba is not installed", "pip install 'hanlattice[segment]'")
    assert refused.err.count("\n") == 1


MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_memory(*arguments: str | Path) -> int:
    """Return the largest resident size of the program in bytes.

    A process starts with the peak of its parent, so a small process starts the program, not pytest.
    """
    command = [sys.executable, "-c", MEASURE, PROGRAM, *map(str, arguments)]
    kilobytes = subprocess.run(
        command, env=ENVIRONMENT, check=True, capture_output=True, timeout=PATIENCE
    ).stdout
    return int(kilobytes) * 1024


def grow(file: Path, lines: int) -> Path:
    block = "".join(f"{sentence.text}\n" for sentence in sentences(100, 1)).encode()
    with file.open("wb") as out:
        out.writelines(block for _ in range(lines // 100))
    return file


def test_memory_does_not_grow_with_the_file(char_folder, tmp_path):
    small = peak_memory("tag", "-m", char_folder, grow(tmp_path / "small.txt", 2_000))
    large = peak_memory("tag", "-m", char_folder, grow(tmp_path / "large.txt", 16_000))
    # A freshly installed torch alone can take 630 MB.
    assert 20e6 < small < 1e9
    assert large - small < 6e6


@pytest.mark.slow
def test_memory_of_thirty_megabytes(lattice_folder, tmp_path):
    small = peak_memory("tag", "-m", lattice_folder, grow(tmp_path / "small.txt", 90_000))
    large = peak_memory("tag", "-m", lattice_folder, grow(tmp_path / "large.txt", 900_000))
    assert large - small < 25e6
    assert large < 1e9


def test_ways_to_decode(lattice_folder):
    default, path, spans = (
        hanlattice("tag", "-m", lattice_folder, *more, TEXT).out
        for more in ([], ["--decode", "path"], ["--decode", "spans"])
    )
    assert default == path
    assert [span["text"] for span in records(spans)[0]["spans"]] == ["王小明", "青石镇"]  # type: ignore[attr-defined]
    inline = hanlattice("tag", "-m", lattice_folder, "--decode", "1", "-f", "inline", TEXT)
    assert inline.text == TEXT + "\n"
    for wrong in ("best", "0", "-1", "nan", "2", ""):
        refused = hanlattice("tag", "-m", "/nowhere", "--decode", wrong, TEXT)
        refused.refused(f"decode must be path, spans, or a threshold from 0.05 to 1, not {wrong!r}")
    hanlattice("tag", "-m", "seg", "--decode", "spans", TEXT).refused(
        "the words of a segmenter cover the text"
    )
