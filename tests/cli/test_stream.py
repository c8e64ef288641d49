"""Pipes: lines are answered at a pause, and JSON lines name the file and line of each text."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import IO

import pytest

from tests.helpers.command import hanlattice, run, start
from tests.helpers.patience import PATIENCE

TEXT = "王小明在青石镇工作。"
ASKED = [
    ("tag", "-f", "inline"),
    ("segment",),
    ("analyse", "-f", "jsonl"),
    ("explain", "-f", "json"),
]


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked[0])
@pytest.mark.parametrize("more", [(), ("--unbuffered",)])
def test_a_line_is_answered_before_the_next_comes(asked, more):
    with start(*asked, *more, "-", stdin=subprocess.PIPE) as process:
        given = process.stdin
        result = process.stdout
        assert given is not None
        assert result is not None
        for number in range(3):
            send(
                given,
                f"{number}{TEXT}\n{number}南湖\n" if number else f"{number}{TEXT}\n{number}南",
            )
            # The command answers the whole line, and waits for the rest of the half line.
            if not number:
                assert result.readline()
                send(given, "湖\n")
                assert result.readline()
                continue
            assert [result.readline() != b"" for _ in range(2)] == [True, True]
        given.close()
        assert result.read() == b""
        assert process.wait(PATIENCE) == 0


def send(file: IO[bytes], text: str) -> None:
    file.write(text.encode())
    file.flush()


def test_lines_that_come_together_are_read_together():
    """Results come in the order of the lines, whenever these arrive."""
    body = "".join(f"{index}号楼在南湖。\n" for index in range(500)).encode()
    with start("segment", "-", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for index in range(0, len(body), 1000):
            process.stdin.write(body[index : index + 1000])
            process.stdin.flush()
            time.sleep(0.005)
        out, _ = process.communicate(timeout=PATIENCE)
    assert out.replace(b" ", b"") == body


def test_a_pipe_that_breaks_and_an_error_in_it():
    # Nobody reads the output, and the input stays open.
    with start("segment", "-", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        send(process.stdin, f"{TEXT}\n")
        assert process.wait(PATIENCE) == 141
    outcome = run("lm", "score", "-m", "none", "-", stdin=b"\xff")
    assert outcome.code == 2


def test_several_inputs_say_file_and_line(tmp_path):
    first = tmp_path / "one.txt"
    two = tmp_path / "two.txt"
    first.write_text(f"{TEXT}\n\n南湖\n", "utf-8")
    two.write_text("长江\n", "utf-8")
    for verb, *more in (
        ("tag", "-f", "jsonl"),
        ("segment", "-f", "jsonl"),
        ("analyse", "-f", "jsonl"),
    ):
        outcome = hanlattice(verb, *more, first, two, "-", "大桥", stdin="泰山\n".encode())
        records = [json.loads(line) for line in outcome.text.splitlines()]
        places = [(record.get("file"), record.get("line"), record["text"]) for record in records]
        assert places == [
            (str(first), 1, TEXT),
            (str(first), 2, ""),
            (str(first), 3, "南湖"),
            (str(two), 1, "长江"),
            ("-", 1, "泰山"),
            (None, None, "大桥"),
        ]
        (alone,) = hanlattice(verb, *more, two).text.splitlines()
        assert "file" not in json.loads(alone)


def test_a_file_is_said_to_be_written(tmp_path: Path):
    outcome = hanlattice("segment", "-o", tmp_path / "out.txt", TEXT, "南湖")
    assert (outcome.code, outcome.out) == (0, b"")
    assert outcome.err.startswith(f"note: {tmp_path / 'out.txt'}: 2 texts, 12 characters in ")
