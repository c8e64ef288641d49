"""The picture: valid files, every line in it, labelled axes, and a word when it cannot be drawn."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hanlattice.bench.outputs import Outputs
from hanlattice.bench.plot import check_plot, draw, panels
from hanlattice.errors import InputError, OutputError

SVG = "{http://www.w3.org/2000/svg}"


def record(training: bool = True) -> dict:
    cells = [(hidden, batch) for hidden in (100, 200) for batch in (1, 1024)]
    made = {
        "settings": {"hidden": (100, 200), "length": 50},
        "machine": {"gpu": None, "cpu": "Some <CPU> & more", "threads": 2},
        "encoder": [
            {"hidden": hidden, "batch": batch, "what": what, "encoder": name, "sentences_per_second": 10.0 * batch}
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


def test_an_svg_has_all_that_a_reader_needs(tmp_path):
    draw(record(), tmp_path / "plot.svg")
    found = texts(tmp_path / "plot.svg")
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


def test_the_same_record_gives_the_same_bytes(tmp_path):
    for name in ("a.svg", "b.svg"):
        draw(record(), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_png(tmp_path):
    draw(record(), tmp_path / "plot.PNG")
    assert (tmp_path / "plot.PNG").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_points_are_those_of_their_line():
    first, *_, last = panels(record())
    assert {line.label: line.points for line in first.lines}["nn.LSTM, forward"] == [(1, 10.0), (1024, 10240.0)]
    assert {line.label: line.points for line in last.lines}["lattice LSTM + CRF"] == [(1, 5.0), (1024, 5120.0)]


def test_a_run_that_was_cut_short_has_its_encoder(tmp_path):
    outputs = Outputs(tmp_path / "r.json", tmp_path / "plot.svg")
    outputs.write({"settings": {}})
    assert not (tmp_path / "plot.svg").exists()
    outputs.write(record(training=False))
    assert "Training step, H = 100" not in texts(tmp_path / "plot.svg")
    assert "Encoder, H = 200" in texts(tmp_path / "plot.svg")


@pytest.mark.parametrize("name", ["plot", "plot.pdf", "svg"])
def test_other_kinds_of_file_are_refused(name):
    with pytest.raises(InputError, match=r"a plot is a \.svg or \.png file"):
        check_plot(Path(name))


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'hanlattice\[plot\]'"):
        Outputs(None, Path("plot.svg"))


def test_a_folder_in_its_place(tmp_path):
    (tmp_path / "plot.svg").mkdir()
    with pytest.raises(OutputError, match="it is a folder"):
        draw(record(), tmp_path / "plot.svg")
