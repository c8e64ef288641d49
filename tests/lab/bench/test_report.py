"""The files of a run: valid pictures with every line and labelled axes, written section by
section.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from hanlattice.errors import OutputError
from hanlattice.lab.bench.report import draw, panels, write_files

SVG = "{http://www.w3.org/2000/svg}"


def by_length() -> list[dict]:
    return [
        {
            "hidden": h,
            "length": length,
            "what": what,
            "model": model,
            "sentences_per_second": 100.0 * h / length,
        }
        for h in (100, 200)
        for length in (10, 320)
        for what in ("training", "tagging")
        for model in ("character LSTM", "auto")
    ]


def record(training: bool = True) -> dict:
    cells = [(hidden, batch) for hidden in (100, 200) for batch in (1, 1024)]
    made = {
        "settings": {"hidden": (100, 200), "length": 50, "lengths": (10, 320)},
        "machine": {"gpu": None, "cpu": "Some <CPU> & more", "threads": 2},
        "encoder": [
            {
                "hidden": hidden,
                "batch": batch,
                "what": what,
                "encoder": name,
                "sentences_per_second": 10.0 * batch,
            }
            for hidden, batch in cells
            for what in ("forward", "forward + backward")
            for name in ("nn.LSTM", "auto", "batched")
        ],
    }
    rows = [
        {"hidden": hidden, "batch": batch, "model": model, "sentences_per_second": 5.0 * batch}
        for hidden in (100, 200)
        for batch in (1, 1024)
        for model in ("character LSTM", "auto", "batched")
    ]
    return made | ({"training": rows} if training else {})


def texts(path: Path) -> list[str]:
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg"
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


@pytest.fixture(scope="module")
def picture(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("plot") / "plot.svg"
    draw(record(), path)
    return path


def test_an_svg_has_all_that_a_reader_needs(picture):
    found = texts(picture)
    assert found.count("batch size (sentences)") == 4
    assert found.count("sentences per second") == 1
    for text in (
        "Encoder, H = 100",
        "Encoder, H = 200",
        "Training step, H = 100",
        "Training step, H = 200",
        "nn.LSTM, forward",
        "lattice LSTM, forward + backward",
        "character LSTM + CRF",
        "1,024",
        "Sentences of 50 characters, a word a character · Some <CPU> & more, 2 threads",
    ):
        assert text in found, text


def test_the_same_record_gives_the_same_bytes(picture, tmp_path):
    draw(record(), tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == picture.read_bytes()


def test_a_png(tmp_path):
    draw(record(training=False), tmp_path / "plot.PNG")
    assert (tmp_path / "plot.PNG").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_points_are_those_of_their_line():
    first, *_, last = panels(record())
    assert {line.label: line.points for line in first.lines}["nn.LSTM, forward"] == [
        (1, 10.0),
        (1024, 10240.0),
    ]
    assert {line.label: line.points for line in last.lines}["lattice LSTM + CRF"] == [
        (1, 5.0),
        (1024, 5120.0),
    ]


def test_lengths_stand_below_or_alone(tmp_path):
    whole = record() | {"lengths": by_length()}
    draw(whole, tmp_path / "whole.svg")
    found = texts(tmp_path / "whole.svg")
    assert (found.count("batch size (sentences)"), found.count("characters of a sentence")) == (
        4,
        4,
    )
    assert found.count("sentences per second") == 2
    assert any(text.startswith("Sentences of 50; below, 10 to 320 characters") for text in found)
    alone = {key: whole[key] for key in ("settings", "machine", "lengths")}
    draw(alone, tmp_path / "alone.svg")
    found = texts(tmp_path / "alone.svg")
    assert {"Training step, B = 32, H = 100", "Raw text to spans, H = 200", "320"} <= set(found)
    assert any(text.startswith("Sentences of 10 to 320 characters") for text in found)
    *_, last = panels(alone)
    assert {line.label: line.points for line in last.lines}["lattice LSTM + CRF"] == [
        (10, 2000.0),
        (320, 62.5),
    ]


def test_an_interrupted_run_has_its_encoder(tmp_path):
    files = tmp_path / "r.json", tmp_path / "plot.svg"
    write_files({"settings": {}}, *files)
    assert files[0].exists()
    assert not (tmp_path / "plot.svg").exists()
    write_files(record(training=False), *files)
    assert "Training step, H = 100" not in texts(tmp_path / "plot.svg")
    assert "Encoder, H = 200" in texts(tmp_path / "plot.svg")


def test_a_folder_in_its_place(tmp_path):
    (tmp_path / "plot.svg").mkdir()
    with pytest.raises(OutputError, match="it is a folder"):
        draw(record(), tmp_path / "plot.svg")
