"""Votes: what more than half find, never overlapping; text that is drawn fairly, and apart from what is kept apart."""

from __future__ import annotations

import lzma
import shutil
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.config import make_config
from hanlattice.data.jsonl import read_jsonl, write_jsonl
from hanlattice.errors import InputError, ModelError, OutputError
from hanlattice.predict import load
from hanlattice.pretrain.vote import LONGEST, SHARED, SHORTEST, VoteText, draw, elected, is_usable, ngrams, vote
from hanlattice.text.normal import fold
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span
from tests.cutting import cutting_tree, in_words
from tests.made import made_config, sentences
from tests.strategies import some_labels, spans
from tests.untrained import write_untrained

HAN = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳云腾致雨露结为霜金生丽水玉出昆冈"
lengths = st.integers(0, 9)


def line(at: int, size: int = 20) -> str:
    """A sentence of Han characters unlike all others of another number."""
    return "".join(chr(0x4E00 + 40 * at + place) for place in range(size - 1)) + "。"


# ---- the election


@given(lengths.flatmap(lambda length: st.lists(spans(length, some_labels), min_size=2, max_size=6)))
def test_what_more_than_half_find(voters: list[tuple[Span, ...]]) -> None:
    votes = Counter((s.start, s.end, s.label) for found in voters for s in found)
    chosen = elected(votes, len(voters))
    expected = {span for found in voters for span in found if 2 * sum(span in other for other in voters) > len(voters)}
    assert set(chosen) == expected
    assert all(left.end <= right.start for left, right in pairwise(chosen))


def test_half_is_not_enough_and_labels_count():
    votes = Counter({(0, 2, "LOC"): 2, (0, 2, "ORG"): 2, (3, 5, "PER"): 3, (6, 7, "PER"): 1})
    assert elected(votes, 4) == [Span(3, 5, "PER")]
    assert elected(Counter(), 3) == []


# ---- what can serve


@pytest.mark.parametrize(
    ("sentence", "can"),
    [
        ("他们昨天在北京开会。", True),
        (HAN[:SHORTEST], True),
        (HAN[: SHORTEST - 1], False),
        ((HAN * 4)[:LONGEST], True),
        ((HAN * 4)[: LONGEST + 1], False),
        ("in Beijing they met today.", False),
        ("北京北京北京abcd", False),  # exactly 0.6
        ("北京北京北京北abcd", True),
        ("", False),
        ("一二三四五六七\ud800", True),
        ("123456789012345678", False),
        ("𠀀" * 20, False),
    ],
)
def test_a_chinese_sentence_of_a_fit_length(sentence, can):
    assert is_usable(sentence) == can


@given(st.text(st.sampled_from("天地玄黄１A"), max_size=30), st.text(st.sampled_from("天地玄黄１A"), max_size=30))
def test_what_shares_so_many_characters_in_a_row_cannot_serve(left: str, right: str) -> None:
    parts = {fold(left)[at : at + SHARED] for at in range(len(left)) if at + SHARED <= len(left)}
    assert ngrams([fold(left)]) == parts
    shares = any(part in fold(right) for part in parts)
    assert is_usable(right, ngrams([fold(left)])) == (is_usable(right) and not shares)


# ---- drawing


def write_raw(path: Path, lines: list[str]) -> str:
    content = ("\n".join(lines) + "\n").encode()
    path.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)
    return str(path)


def test_every_sentence_once_by_the_seed(tmp_path):
    lines = [line(at) for at in range(30)]
    raw = write_raw(
        tmp_path / "a.txt", [lines[0] + lines[1], *lines[2:], lines[4], "short。", "no Chinese at all here."]
    )
    first = draw(VoteText((raw,), seed=1))
    assert sorted(first) == sorted(lines)
    assert first != lines
    assert draw(VoteText((raw,), seed=1)) == first
    other = draw(VoteText((raw,), seed=2))
    assert other != first
    assert sorted(other) == sorted(first)


def test_files_of_every_kind(tmp_path):
    plain = write_raw(tmp_path / "a.txt", [line(0), line(1)])
    packed = write_raw(tmp_path / "b.txt.xz", [line(2), line(1)])
    write_jsonl(tmp_path / "c.jsonl", [Sentence(line(3) + line(4), (Span(0, 2, "LOC"),)), Sentence(line(0), ())])
    found = draw(VoteText((plain, packed, str(tmp_path / "c.jsonl"))))
    assert sorted(found) == sorted(map(line, range(5)))


def test_so_many_characters_of_each_file(tmp_path):
    lines = [[line(n * 100 + at) for at in range(50)] for n in range(2)]
    files = tuple(write_raw(tmp_path / f"{n}.txt", lines[n]) for n in range(2))
    for limit in (1, 20, 21, 100, 999):
        found = draw(VoteText(files, characters=limit))
        for some in lines:
            characters = sum(len(sentence) for sentence in found if sentence in some)
            assert limit <= characters < limit + 20  # the last sentence stays whole
    assert len(draw(VoteText(files, characters=10_000))) == len(draw(VoteText(files))) == 100
    chosen = {tuple(sorted(draw(VoteText(files, characters=100, seed=seed)))) for seed in (1, 2, 3)}
    assert len(chosen) == 3


def test_nothing_of_what_is_kept_apart(tmp_path):
    raw = write_raw(tmp_path / "a.txt", [line(at) for at in range(6)])
    write_jsonl(
        tmp_path / "test.jsonl",
        [
            Sentence(line(0), ()),
            Sentence("前" + line(1)[3 : 3 + SHARED] + "后", ()),
            Sentence(line(2)[: SHARED - 1], ()),
        ],
    )
    found = draw(VoteText((raw,), apart=(str(tmp_path / "test.jsonl"),)))
    assert sorted(found) == sorted(line(at) for at in range(2, 6))


def test_text_of_which_nothing_can_serve_is_told(tmp_path):
    raw = write_raw(tmp_path / "a.txt", ["short", "in English, all of it."])
    with pytest.raises(
        InputError, match=r"a\.txt: no sentence can be used: expected 8 to 150 characters, mostly Chinese"
    ):
        draw(VoteText((raw,)))
    with pytest.raises(InputError, match=r"gone\.txt: cannot read"):
        draw(VoteText((raw, str(tmp_path / "gone.txt"))))


# ---- models that vote


@pytest.fixture(scope="module")
def weak(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt nothing, and so is often outvoted."""
    folder = tmp_path_factory.mktemp("models") / "weak"
    return write_untrained(folder, made_config(made, model__encoder="char", model__hidden=4), sentences(20, 3))


def test_the_file_has_what_most_find(lattice_folder, char_folder, weak, tmp_path):
    raw = write_raw(tmp_path / "a.txt", [sentence.text for sentence in sentences(60, 21)])
    folders, heard = [lattice_folder, str(char_folder), weak], []
    result = vote(folders, VoteText((raw,)), tmp_path / "out.jsonl", listen=heard.append)
    written = read_jsonl(tmp_path / "out.jsonl").sentences
    assert [sentence.text for sentence in written] == draw(VoteText((raw,)))
    agreed, voters = 0, [load(folder) for folder in folders]
    for sentence in written:
        found = [[(s.start, s.end, s.label) for s in voter(sentence.text).spans] for voter in voters]
        most = {span for each in found for span in each if sum(span in other for other in found) >= 2}
        assert {(s.start, s.end, s.label) for s in sentence.spans or ()} == most
        agreed += found[0] == found[1] == found[2]
    assert result == (
        len(written),
        sum(len(sentence.text) for sentence in written),
        sum(len(sentence.spans or ()) for sentence in written),
        agreed,
    )
    assert [(event["number"], event["done"]) for event in heard] == [(n, len(written)) for n in (1, 2, 3)]


def test_two_that_agree_are_as_one(lattice_folder, tmp_path):
    raw = write_raw(tmp_path / "a.txt", [sentence.text for sentence in sentences(12, 22)])
    twin = shutil.copytree(lattice_folder, tmp_path / "twin")
    vote([lattice_folder, twin], VoteText((raw,)), tmp_path / "same.jsonl")
    same = read_jsonl(tmp_path / "same.jsonl").sentences
    spans_alone = [[(s.start, s.end) for s in d.spans] for d in load(lattice_folder)([s.text for s in same])]
    assert [[(s.start, s.end) for s in sentence.spans or ()] for sentence in same] == spans_alone


def test_what_cannot_vote_is_told_before_any_work(lattice_folder, made, tmp_path):
    raw = write_raw(tmp_path / "a.txt", [line(at) for at in range(4)])
    config = make_config(cutting_tree(made, tmp_path))
    cutter = write_untrained(tmp_path / "cutter", config, [in_words(sentence) for sentence in sentences(9, 1)])
    (tmp_path / "link").symlink_to(lattice_folder)
    named = [replace(s, spans=tuple(Span(p.start, p.end, "组织") for p in s.spans or ())) for s in sentences(20, 3)]
    other = write_untrained(tmp_path / "other", made_config(made, model__encoder="char", model__hidden=4), named)
    heard: list[object] = []
    for folders, error, says in (
        ([lattice_folder], InputError, "a vote needs two models or more, not 1"),
        ([], InputError, "two models or more, not 0"),
        (
            [lattice_folder, cutter],
            InputError,
            "cutter: this model segments text into words; a vote needs models of entities",
        ),
        ([lattice_folder, tmp_path / "nowhere"], ModelError, "no such model folder"),
        ([lattice_folder, tmp_path / "link"], InputError, "link: this model is given twice"),
        ([lattice_folder, other], InputError, "other: this model finds 组织, and .* finds LOC, PER"),
    ):
        with pytest.raises(error, match=says):
            vote(folders, VoteText((raw,)), tmp_path / "out.jsonl", listen=heard.append)
    assert not heard
    assert not (tmp_path / "out.jsonl").exists()


def test_an_output_that_cannot_be_is_told_before_any_work(lattice_folder, char_folder, tmp_path, monkeypatch):
    raw = write_raw(tmp_path / "a.txt", [line(at) for at in range(4)])
    write_jsonl(tmp_path / "test.jsonl", [Sentence(line(5), ())])
    text, heard = VoteText((raw,), apart=(str(tmp_path / "test.jsonl"),)), []
    taken = lattice_folder / "README.md"
    kept = {path: path.read_bytes() for path in (Path(raw), tmp_path / "test.jsonl", taken)}
    for out, error, says in (
        *((path, InputError, "the output is one of the files to read") for path in kept),
        (tmp_path, OutputError, "it is a folder, not a file"),
        (Path(raw) / "out.jsonl", OutputError, "cannot write"),
    ):
        with pytest.raises(error, match=says):
            vote([lattice_folder, char_folder], text, out, listen=heard.append)
    assert not heard
    assert {path: path.read_bytes() for path in kept} == kept
    loads: list[object] = []
    real = load
    monkeypatch.setattr("hanlattice.pretrain.vote.load", lambda *given: loads.append(given) or real(*given))
    vote([lattice_folder, char_folder], text, tmp_path / "out.jsonl")
    assert len(loads) == 2  # each model once
