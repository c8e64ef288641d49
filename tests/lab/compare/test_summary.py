"""From records to the summary, the Markdown table and the plot."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.config import make_config
from hanlattice.evaluation.ner import Score
from hanlattice.evaluation.report import len_of, signed
from hanlattice.evaluation.significance import paired_bootstrap
from hanlattice.lab.compare.matrix import MatrixRow
from hanlattice.lab.compare.summary import Results, draw, markdown, spread, summarise

MACHINE = {"gpu": None, "cpu": "Some CPU", "threads": 2}


def row(
    stem: str, test: str = "weibo/test.bmes", name: str = "", paper: float = 0.0, variant: str = ""
) -> MatrixRow:
    data = {"train": "t", "dev": "d", "test": test}
    config = make_config({"data": data, "compare": {"row": name, "paper": paper}})
    return MatrixRow(Path(f"{stem}.toml"), config, variant)


def run(
    row: MatrixRow, seed: int, correct: int, groups: dict[str, int] | None = None
) -> dict[str, Any]:
    """Ten sentences of ten spans each; a model finds `correct` of each ten, and one thing too
    many.
    """
    score = Score(100, 10 * correct + 10, 10 * correct).as_dict()
    grouped = {group: Score(100, 100, share).as_dict() for group, share in (groups or {}).items()}
    report = {"overall": score, "groups": grouped, "by_type": {}}
    facts = {
        "device": "cpu",
        "machine": MACHINE,
        "versions": {},
        "epoch": 3,
        "seconds": 60.0,
        "parameters": 12_345,
    }
    scores = {"epoch": 3, "dev": report} | ({"test": report} if row.part == "test" else {})
    counts = [[10, correct + 1, correct]] * 10
    return {
        "row": row.stem,
        "seed": seed,
        "part": row.part,
        "scores": scores,
        "counts": counts,
        "short": None,
        **facts,
    }


def rate(sentences: float, gpu: str | None = None) -> dict[str, Any]:
    figures = {
        "sentences_per_second": sentences,
        "characters_per_second": 40 * sentences,
        "calls": 5,
    }
    return {
        "device": "cpu",
        "machine": {**MACHINE, "gpu": gpu},
        "train": figures,
        "decode": {**figures, "calls": 6},
    }


def found(*given: tuple[MatrixRow, list[int]], **more: Any) -> Results:
    runs = {
        f"{r.stem}-{at}": run(r, at, correct)
        for r, each in given
        for at, correct in enumerate(each, 1)
    }
    settings = {"rates": {}, "failures": {}, "seeds": [1, 2, 3], "samples": 100, **more}
    return Results(rows=[r for r, _ in given], runs=runs, **settings)


def cells(text: str) -> list[dict[str, str]]:
    """Every row of every table, by heading."""
    tables: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            tables[-1].append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif tables[-1]:
            tables.append([])
    return [
        dict(zip(table[0], line, strict=True)) for table in tables if table for line in table[2:]
    ]


def test_means_deviations_and_the_paper():
    a = row("a", name="格子", paper=58.79)
    b = row("b")
    summary = summarise(found((a, [7, 8, 9]), (b, [5])))
    (first, second) = cells(markdown(summary))
    f1 = [100 * Score(100, 10 * n + 10, 10 * n).f1 for n in (7, 8, 9)]
    mean = statistics.mean(f1)
    deviation = statistics.stdev(f1)
    assert first == {
        "model": "格子",
        "seeds": "3",
        "dev F1": f"{mean:.2f} ± {deviation:.2f}",
        "P": "88.80 ± 1.25",
        "R": "80.00 ± 10.00",
        "F1": f"{mean:.2f} ± {deviation:.2f}",
        "paper": "58.79",
        "F1 − paper": f"+{mean - 58.79:.2f}",
        "weights": "12,345",
    }
    assert (second["seeds"], second["F1"], second["R"], second["paper"]) == (
        "1 of 3",
        "62.50",
        "50.00",
        "–",
    )
    assert json.loads(json.dumps(summary)) == summary


def test_the_difference_to_the_named_row():
    a = row("a")
    b = row("b", name="the other")
    for name in ("b", "the other"):
        given = found((a, [7, 8]), (b, [5, 6]), against=name, seeds=[1, 2])
        summary = summarise(given)
        (first, second) = cells(markdown(summary))
        counts = [np.array([r["counts"] for r in given.of(each)]) for each in (a, b)]
        expected = paired_bootstrap(*counts, samples=100)
        assert summary["sections"][0]["rows"][0]["difference"] == expected._asdict()
        assert first["F1 − the other"] == f"+{100 * expected.difference:.2f}"
        assert first["95 %"] == f"{signed(100 * expected.low)} … {signed(100 * expected.high)}"
        assert first["p"] == "≤ 0.01"
        assert {second[heading] for heading in ("F1 − the other", "95 %", "p")} == {"–"}
        assert "100 samples" in markdown(summary)


def test_without_a_named_row_there_is_no_difference():
    text = markdown(summarise(found((row("a"), [7]), (row("b"), [5]))))
    assert "95 %" not in text
    assert "paper" not in text
    assert "sent/s" not in text


def test_other_gold_is_not_compared():
    a = row("a")
    b = row("b")
    given = found((a, [7]), (b, [5]), against="b")
    given.runs["a-1"]["counts"][0] = [9, 8, 7]
    assert summarise(given)["sections"][0]["rows"][0]["difference"] is None


def test_a_section_for_each_test_file_in_the_order_given():
    rows = [
        row("wa"),
        row("ma", test="msra/test.bmes"),
        row("wb"),
        row("mb", test="msra/test.bmes"),
    ]
    summary = summarise(found(*((each, [5]) for each in rows), against="ma"))
    assert [section["name"] for section in summary["sections"]] == [
        "weibo/test.bmes",
        "msra/test.bmes",
    ]
    assert [section["against"] for section in summary["sections"]] == [None, "ma"]
    text = markdown(summary)
    assert [each["model"] for each in cells(text)] == ["wa", "wb", "ma", "mb"]
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## weibo/test.bmes",
        "## msra/test.bmes",
    ]


def test_groups():
    a = row("a")
    runs = {f"a-{seed}": run(a, seed, 5, {"NAM": 50 + seed, "NOM": 60}) for seed in (1, 2)}
    runs["a-3"] = run(a, 3, 5, {"NAM": 53})
    summary = summarise(Results([a], [1, 2, 3], runs, {}, {}))
    (only,) = cells(markdown(summary))
    assert (only["NAM F1"], only["NOM F1"]) == ("52.00 ± 1.00", "40.00 ± 34.64")


def with_recalls(found: dict[str, Any], oov: float | None, iv: float) -> dict[str, Any]:
    found["scores"]["test"]["segmentation"] = {"oov": {"recall": oov}, "iv": {"recall": iv}}
    return found


def test_recalls_of_segmenters():
    a, b, same = (row(stem) for stem in ("a", "b", "same"))
    runs = {f"a-{seed}": with_recalls(run(a, seed, 5), seed / 10, 0.95) for seed in (1, 2, 3)}
    runs["same-1"] = with_recalls(run(same, 1, 5), None, 0.5)  # all words are known
    summary = summarise(Results([a, b, same], [1, 2, 3], runs, {}, {}))
    assert [each["segmentation"] is None for each in summary["sections"][0]["rows"]] == [
        False,
        True,
        False,
    ]
    assert summary["sections"][0]["rows"][0]["segmentation"]["oov"] == spread([0.1, 0.2, 0.3])
    text = markdown(summary)
    assert [(each["OOV R"], each["IV R"]) for each in cells(text)] == [
        ("20.00 ± 10.00", "95.00 ± 0.00"),
        ("–", "–"),
        ("–", "50.00"),
    ]
    assert list(cells(text)[0])[2:8] == ["dev F1", "P", "R", "F1", "OOV R", "IV R"]
    assert "as the SIGHAN bakeoff counts" in text
    plain = markdown(summarise(found((a, [5]))))
    assert "OOV" not in plain


def test_without_long_sentences():
    """A row whose test has no long sentences has no figure in the column."""
    a = row("a")
    b = row("b")
    given = found((a, [7, 8, 9]), (b, [5, 6, 7]))
    for seed, f1 in ((1, 0.5), (2, 0.6), (3, 0.7)):
        given.runs[f"a-{seed}"]["short"] = {"left_out": 1, "f1": f1}
    summary = summarise(given)
    assert summary["sections"][0]["rows"][0]["short"] == {
        "f1": spread([0.5, 0.6, 0.7]),
        "left_out": 1,
    }
    text = markdown(summary)
    assert [each["F1, < 250"] for each in cells(text)] == ["60.00 ± 10.00", "–"]
    assert list(cells(text)[0])[5:7] == ["F1", "F1, < 250"]
    assert "F1, < 250: without 1 test sentence of 250 characters or more" in text
    assert "250" not in markdown(summarise(found((a, [5]), (b, []))))


def test_rates_and_their_ratio():
    a = row("a")
    b = row("b")
    c = row("c")
    rates = {"a": rate(1500.4), "b": rate(3000.0)}
    text = markdown(summarise(found((a, [7]), (b, [5]), (c, [5]), rates=rates, against="b")))
    first, second, third = cells(text)
    assert (first["train sent/s"], second["train sent/s"], third["train sent/s"]) == (
        "1,500 (0.50×)",
        "3,000",
        "–",
    )
    assert "each row alone on Some CPU, 2 threads; × is to b." in text
    mixed = markdown(
        summarise(found((a, [7]), (b, [5]), rates={"a": rate(1), "b": rate(2, "NVIDIA H200")}))
    )
    assert "Some CPU, 2 threads or NVIDIA H200" in mixed
    assert "remove rates/" in mixed


def test_what_failed_is_told():
    failures = {"b-1": {"reason": "no such\nfile", "trace": "…"}}
    text = markdown(
        summarise(found((row("a"), [7]), (row("b"), []), failures=failures, against="b", seeds=[1]))
    )
    first, second = cells(text)
    assert (second["seeds"], second["F1"], second["weights"]) == ("0 of 1", "–", "–")
    assert "95 %" not in first
    assert "- b-1: no such file" in text


def test_a_dev_table_has_no_second_dev_column():
    (only,) = cells(markdown(summarise(found((row("a", test=""), [7])))))
    assert "dev F1" not in only
    assert only["F1"] != "–"


def test_one_value_has_no_deviation():
    assert spread([]) is None
    assert spread([0.5]) == {"mean": 0.5, "deviation": None}
    assert spread([0.0, 1.0]) == {"mean": 0.5, "deviation": pytest.approx(2**-0.5)}


@given(st.lists(st.text("ab|格子\n ü", min_size=1, max_size=6), min_size=1, max_size=5))
def test_lines_are_equally_wide_and_cells_stay_apart(names):
    """A name is shown as it is but for bars, which would end a cell, and line ends."""
    rows = [row(f"r{at}", name=name) for at, name in enumerate(names)]
    lines = [
        line
        for line in markdown(summarise(found(*((each, [5]) for each in rows)))).splitlines()
        if "|" in line
    ]
    assert len({len_of(line) for line in lines}) == 1
    assert len(lines) == len(names) + 2
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    cells = [line[2:].split(" | ")[0].rstrip() for line in lines[2:]]
    assert cells == [" ".join(name.split()).replace("|", "\\|") for name in names]


def texts(path: Path) -> list[str]:
    svg = "{http://www.w3.org/2000/svg}"
    return [
        "".join(node.itertext()) for node in ElementTree.parse(path).getroot().iter(f"{svg}text")
    ]


def test_the_plot_has_every_row(tmp_path):
    rows = [
        row("a", name="格子 $x$ <b>", paper=58.79, variant="v"),
        row("empty"),
        row("m", test="msra/test.bmes"),
    ]
    summary = summarise(found((rows[0], [7, 8]), (rows[1], []), (rows[2], [5]), against="v"))
    for name in ("one.svg", "two.svg"):
        draw(summary, tmp_path / name)
    told = texts(tmp_path / "one.svg")
    for text in ("格子 $x$ <b>", "empty", "m", "weibo/test.bmes", "msra/test.bmes"):
        assert text in told, told
    assert [
        text.endswith("bar: the paper's") for text in told if text.startswith("test F1, per cent")
    ] == [True, False]
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_the_plot_has_every_seed(tmp_path):
    """Also of two variants of one file, which have different dots."""
    rows = [row("a", variant="x"), row("a", variant="y")]
    sizes = []
    for count in (1, 3):
        draw(summarise(found((rows[0], [7]), (rows[1], [5, 6, 7][:count]))), tmp_path / "plot.svg")
        sizes.append((tmp_path / "plot.svg").read_text("utf-8").count("<use "))
    assert sizes[1] > sizes[0] + 1
