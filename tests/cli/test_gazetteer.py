"""`hanlattice gazetteer`: a vector file and corpora in, a small vector file and figures out."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from pathlib import Path

import pytest

from hanlattice.data.corpus import read_corpus
from hanlattice.text.vectors import read_vectors
from tests.helpers.command import hanlattice


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """A copy of the artificial corpus, next to which a test may write."""
    return Path(shutil.copytree(made, tmp_path / "data"))


def occurring(data: Path, *parts: str) -> list[str]:
    texts = [
        sentence.text for part in parts for sentence in read_corpus(data / f"{part}.bmes").sentences
    ]
    return [
        word
        for word in read_vectors(data / "words.bin").words
        if any(word in text for text in texts)
    ]


@pytest.mark.parametrize("name", ["small.bin", "small.vec"])
def test_the_words_that_occur_and_their_vectors(data, name):
    outcome = hanlattice(
        "gazetteer",
        data / "words.bin",
        data / "train.bmes",
        data / "test.bmes",
        "--out",
        data / name,
    )
    assert (outcome.code, outcome.err) == (0, "")
    whole = read_vectors(data / "words.bin")
    small = read_vectors(data / name)
    assert list(small.words) == occurring(data, "train", "test")
    assert len(small) < len(whole)
    rows = [whole.words.index(word) for word in small.words]
    assert (small.matrix == whole.matrix[rows]).all()
    size = (data / name).stat().st_size
    for part in (
        "train.bmes",
        "test.bmes",
        "PER",
        "LOC",
        "covered %",
        f"{len(small)} words",
        f"{size:,} bytes",
    ):
        assert part in outcome.text, part
    assert f"{(data / 'words.bin').stat().st_size:,} bytes" in outcome.text


def test_as_json(data):
    corpora = [data / "train.bmes", data / "dev.bmes"]
    outcome = hanlattice(
        "gazetteer", "--json", data / "words.bin", *corpora, "--out", data / "small.bin"
    )
    facts = json.loads(outcome.text)
    assert [corpus["name"] for corpus in facts["corpora"]] == list(map(str, corpora))
    assert facts["all"]["sentences"] == 150
    assert facts["all"]["words"] == facts["out"]["words"] == len(occurring(data, "train", "dev"))
    assert facts["vectors"]["words"] == len(read_vectors(data / "words.bin"))
    assert facts["out"]["bytes"] == (data / "small.bin").stat().st_size
    assert 0 < facts["all"]["covered_share"] < 1
    assert facts["all"]["by_label"]["LOC"]["tokens_in"] == facts["all"]["by_label"]["LOC"]["tokens"]
    assert facts["all"]["entities"]["types_in"] < facts["all"]["entities"]["types"]


def test_raw_text_packed_or_not(data):
    text = "".join(sentence.text + "\n" for sentence in read_corpus(data / "train.bmes").sentences)
    (data / "a.txt").write_text(text, "utf-8")
    (data / "b.gz").write_bytes(gzip.compress(text.encode()))
    (data / "[c].xz").write_bytes(lzma.compress(text.encode()))
    files = [data / name for name in ("a.txt", "b.gz", "[c].xz")]
    outcome = hanlattice(
        "gazetteer", "--raw", data / "words.bin", *files, "--out", data / "small.bin"
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert "[c].xz" in outcome.text
    assert "gold entities" not in outcome.text
    assert list(read_vectors(data / "small.bin").words) == occurring(data, "train")
    facts = json.loads(
        hanlattice(
            "gazetteer", "--raw", "--json", data / "words.bin", *files, "-o", data / "s.bin"
        ).text
    )
    counts = [
        (corpus["words"], corpus["positions"], corpus["entities"]) for corpus in facts["corpora"]
    ]
    assert len(set(counts)) == 1


def test_characters_are_kept_as_asked(data):
    (data / "v.vec").write_text("4 1\n南 1\n鱼 2\n南湖 3\n大海 4\n", "utf-8")
    for which, words in {"met": "南 南湖", "all": "南 鱼 南湖", "none": "南湖"}.items():
        given = [
            data / "v.vec",
            data / "train.bmes",
            "--out",
            data / "s.vec",
            "--characters",
            which,
        ]
        assert hanlattice("gazetteer", *given).code == 0
        assert list(read_vectors(data / "s.vec").words) == words.split()


def test_notes_of_files_are_passed_on(data):
    (data / "v.vec").write_text("3 1\n南湖 3\n大海 x\n白沙 1\n", "utf-8")
    outcome = hanlattice("gazetteer", data / "v.vec", data / "train.bmes", "--out", data / "s.vec")
    assert outcome.code == 0
    assert outcome.err.startswith("note: ")
    assert "skipped 1 broken rows" in outcome.err


def refuse(data: Path, *arguments: str | Path) -> str:
    outcome = hanlattice("gazetteer", *arguments)
    outcome.refused()
    assert not (data / "s.bin").exists()
    return outcome.err


def test_what_is_wrong_is_one_line(data):
    words = data / "words.bin"
    corpus = data / "train.bmes"
    out = ("--out", data / "s.bin")
    (data / "empty.bmes").touch()
    (data / "other.bmes").write_text("鱼\tO\n", "utf-8")
    (data / "cut.bin").write_bytes(words.read_bytes()[:-5])
    (data / "latin.txt").write_bytes("第一\n".encode() + b"\xff\n")
    assert f"{data / 'empty.bmes'}: the corpus is empty" in refuse(
        data, words, corpus, data / "empty.bmes", *out
    )
    assert f"{data / 'empty.bmes'}: the file is empty" in refuse(
        data, words, data / "empty.bmes", "--raw", *out
    )
    assert "latin.txt:2: not UTF-8" in refuse(data, words, data / "latin.txt", "--raw", *out)
    assert "words of the vector file occurs in the text" in refuse(
        data, words, data / "other.bmes", *out
    )
    assert "cut.bin: cut short" in refuse(data, data / "cut.bin", corpus, *out)
    assert "none.bin: cannot read" in refuse(data, data / "none.bin", corpus, *out)
    assert "none.bmes: cannot read" in refuse(data, words, data / "none.bmes", *out)
    assert "no download is called 'nothing'" in refuse(data, "@nothing/words.bin", corpus, *out)
    assert "must end with .bin" in refuse(data, words, corpus, "--out", data / "s.txt")
    assert "expected met, all, none" in refuse(data, words, corpus, "--characters", "few", *out)


def test_what_can_be_known_is_told_before_the_vectors_are_read(data):
    """The vectors are broken too, but the earlier error is reported."""
    (data / "bad.vec").write_text("nothing\n", "utf-8")
    (data / "folder.bin").mkdir()
    (data / "empty.txt").touch()
    corpus = data / "train.bmes"
    out = ("--out", data / "s.bin")
    assert "folder.bin: the output is a folder" in refuse(
        data, data / "bad.vec", corpus, "-o", data / "folder.bin"
    )
    assert "none.bmes: cannot read" in refuse(
        data, data / "bad.vec", corpus, data / "none.bmes", *out
    )
    assert "'few' characters cannot be kept" in refuse(
        data, data / "bad.vec", corpus, "--characters", "few", *out
    )
    assert "empty.txt: the file is empty" in refuse(
        data, data / "bad.vec", data / "empty.txt", "--raw", *out
    )


def test_an_input_is_not_overwritten(data):
    before = (data / "words.bin").read_bytes()
    for corpus in ([data / "train.bmes"], [data / "train.bmes", data / "words.bin"]):
        assert "one of the files to read" in refuse(
            data, data / "words.bin", *corpus, "--out", data / "words.bin"
        )
    (data / "text.vec").write_text("南湖\n", "utf-8")
    assert "one of the files to read" in refuse(
        data, data / "words.bin", data / "text.vec", "--raw", "--out", data / "text.vec"
    )
    assert (data / "words.bin").read_bytes() == before
