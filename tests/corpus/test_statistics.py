"""Counts of what was found: those of a plain loop, however the corpus is cut and whoever counts."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.corpus import statistics
from hanlattice.corpus.run import run
from hanlattice.corpus.settings import CorpusSettings
from hanlattice.corpus.statistics import SpanTally, count, new_words
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.predict import load
from tests.corpus.test_run import texts
from tests.helpers.command import hanlattice

pytest.importorskip("pyarrow", reason="pyarrow, of the extra corpus, is not installed")


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_counts_are_those_of_a_plain_loop(lattice_folder, tmp_path, format):
    lines = [json.dumps({"id": at, "body": text}) for at, text in enumerate(texts(60))]
    (tmp_path / "in.jsonl").write_text("\n".join([*lines, "{"]), encoding="utf-8")
    settings = CorpusSettings(lattice_folder, shard_size=900, format=format, field="body")
    assert run([str(tmp_path / "in.jsonl")], tmp_path / "out", settings).shards > 3
    tally = count(tmp_path / "out")
    assert count(tmp_path / "out", workers=2) == tally

    counts = Counter()
    scores = defaultdict(float)
    first = {}
    for document in load(lattice_folder).pipe(texts(60)):
        for span in document.spans:
            key = span.label, span.text
            counts[key] += 1
            scores[key] += span.as_dict()["score"]
            first.setdefault(key, document.text[max(0, span.start - 12) : span.end + 12])
    assert tally.rows == 60
    found = tally.ranked()
    assert {(row.label, row.text): row.count for row in found} == counts
    assert {(row.label, row.text): row.examples[0] for row in found} == first
    for row in found:
        assert row.score == pytest.approx(scores[row.label, row.text] / row.count)
    assert [row.count for row in found if row.label == "LOC"] == sorted(
        (row.count for row in found if row.label == "LOC"), reverse=True
    )
    assert tally.labels == Counter(span for span, _ in counts.elements())


shards = st.lists(st.lists(st.sampled_from("甲乙丙丁戊己"), max_size=8), max_size=6)


@given(shards, st.integers(1, 4))
def test_what_is_forgotten_is_bounded(parts, most):
    """With room for few strings, each count is too low by `missed` at most; those of labels are
    exact.
    """
    before = statistics.MOST
    statistics.MOST = most
    try:
        tally = SpanTally()
        for part in parts:
            own = SpanTally()
            for character in part:
                own.add(character, [{"start": 0, "end": 1, "label": "X"}])
            tally.merge(own)
            assert len(tally.entries) <= most
    finally:
        statistics.MOST = before
    true = Counter(character for part in parts for character in part)
    assert tally.labels["X"] == true.total()
    found = {row.text: row.count for row in tally.ranked()}
    for character, number in true.items():
        assert number - tally.missed <= found.get(character, 0) <= number
    assert all(row.score is None for row in tally.ranked())


def spans(*words: str, score: float = 0.5, label: str = "WORD") -> list[dict[str, object]]:
    edges = [sum(map(len, words[:at])) for at in range(len(words) + 1)]
    return [{"start": a, "end": b, "label": label, "score": score} for a, b in pairwise(edges)]


def test_new_words_are_frequent_likely_unknown_letters():
    tally = SpanTally()
    for _ in range(5):
        tally.add(
            "云栖小镇在杭州，2024年ok好",
            spans("云栖", "小镇", "在", "杭州", "，", "2024年", "ok", "好"),
        )
    for _ in range(3):
        tally.add("云栖小镇", spans("云栖小镇", score=1.0, label="n"))
    tally.add("云栖小镇", spans("云栖小镇", score=0.2, label="v"))
    rows = new_words(tally, {"杭州"}.__contains__, least=1)
    assert [(row.text, row.count, row.label) for row in rows] == [
        *[("云栖小镇", 4, "n"), ("云栖", 5, "WORD"), ("小镇", 5, "WORD")]
    ]
    assert rows[0].score == pytest.approx(0.8)
    assert [row.text for row in new_words(tally, {"杭州"}.__contains__, least=5)] == [
        "云栖",
        "小镇",
    ]
    assert [row.text for row in new_words(tally, {"云栖"}.__contains__, 1, min_score=0.6)] == [
        "云栖小镇"
    ]


def test_the_commands(tmp_path):
    """The bundled segmenter, from raw text to a dictionary that it reads, and counts in a table and
    a file.
    """
    (tmp_path / "in.txt").write_text("刘桂珍在段家湾村。\n" * 6, encoding="utf-8")
    out = tmp_path / "out"
    assert hanlattice("corpus", "segment", tmp_path / "in.txt", "--out", out).code == 0
    found = hanlattice("corpus", "words", out, "--least", 6)
    assert found.code == 0, found.err
    rows = [line.split("\t") for line in found.text.splitlines()]
    assert "段家湾村" in [row[0] for row in rows]
    assert all(row[1] == "6" and 0 < float(row[2]) <= 1 and row[0] in row[3] for row in rows)
    (tmp_path / "new.txt").write_bytes(found.out)
    assert hanlattice("corpus", "words", out, "--lexicon", tmp_path / "new.txt").out == b""
    shown = hanlattice("corpus", "count", out, "--out", tmp_path / "all.jsonl", "-n", 3)
    assert shown.code == 0
    assert "WORD" in shown.text
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text("utf-8").splitlines()]
    assert {line["text"]: line["count"] for line in lines}["在"] == 6
    hanlattice("corpus", "words", out, "--model", "ner").refused(
        "its outputs are of another model, called seg"
    )
    refused = hanlattice(
        "corpus", "segment", tmp_path / "in.txt", "--out", tmp_path / "2", "-m", "ner"
    )
    assert refused.code == 2
    assert "this model does not cut text into words" in refused.err
    assert (
        hanlattice("corpus", "tag", tmp_path / "in.txt", "--out", tmp_path / "2", "-m", "seg").code
        == 0
    )
    hanlattice("corpus", "count", tmp_path).refused("it has no manifest.jsonl")


def test_outputs_that_were_changed_are_refused(lattice_folder: Path, tmp_path: Path):
    (tmp_path / "in.txt").write_text("王小明在南湖\n", encoding="utf-8")
    run([str(tmp_path / "in.txt")], tmp_path / "out", CorpusSettings(lattice_folder))
    (output,) = (tmp_path / "out").glob("in.txt*")
    for content in (b"{", b'{"spans": [{}]}\n', b"[]\n"):
        output.write_bytes(content)
        with pytest.raises(HanlatticeError, match="it was changed after it was written"):
            count(tmp_path / "out")
    (tmp_path / "out" / "manifest.jsonl").write_bytes(b"{}\n")
    with pytest.raises(InputError, match="not a manifest"):
        count(tmp_path / "out")
    with pytest.raises(InputError, match="not a manifest"):
        run([str(tmp_path / "in.txt")], tmp_path / "out", replace(CorpusSettings(lattice_folder)))


@pytest.mark.parametrize("verb", ["count", "words"])
def test_results_never_replace_what_they_were_counted_from(lattice_folder, tmp_path, verb):
    (tmp_path / "in.txt").write_text("王小明在南湖\n", encoding="utf-8")
    run([str(tmp_path / "in.txt")], tmp_path / "out", CorpusSettings(lattice_folder))
    (tmp_path / "known.txt").write_text("南湖\n", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "out" / "manifest.jsonl")
    files = [*(tmp_path / "out").iterdir(), tmp_path / "link"]
    more = (
        ["--model", lattice_folder, "--lexicon", tmp_path / "known.txt"] if verb == "words" else []
    )
    for file in [*files, *([tmp_path / "known.txt"] if more else [])]:
        before = file.read_bytes()
        outcome = hanlattice("corpus", verb, tmp_path / "out", *more, "--out", file)
        outcome.refused(f"{file}: the output is one of the files to read; give it another name")
        assert file.read_bytes() == before
    assert hanlattice("corpus", verb, tmp_path / "out", *more, "--out", tmp_path / "new").code == 0
