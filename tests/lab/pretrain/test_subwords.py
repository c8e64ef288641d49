"""Byte-pair encoding: a plain loop merges the same pairs, its cut loses nothing, and the lexicon is
one of ours.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.errors import HanlatticeError, InputError
from hanlattice.events import ignore
from hanlattice.lab.pretrain.subwords import SubwordSettings, train_subwords
from hanlattice.lab.pretrain.units import Subwords, Unit, read_frequencies
from hanlattice.lab.pretrain.vectors import VectorSettings, VectorSource, train_vectors
from hanlattice.text.dictionary import read_words
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import fold
from hanlattice.text.vectors import read_vectors
from tests.helpers.raw_text import write_text
from tests.helpers.strategies import any_text


def trained(raw: Path, out: Path, listen=ignore, **changes) -> dict:
    return train_subwords(
        (raw,), out, SubwordSettings(**{"size": 40, "min_count": 2, **changes}), listen=listen
    )


@pytest.fixture(scope="module")
def made_lexicon(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bpe")
    trained(write_text(folder), folder / "subwords")
    return folder / "subwords.txt"


def merged(words: list[list[str]], pair: tuple[str, str]) -> list[list[str]]:
    out = []
    for word in words:
        new: list[str] = []
        at = 0
        while at < len(word):
            here = tuple(word[at : at + 2]) == pair
            new.append("".join(pair) if here else word[at])
            at += 2 if here else 1
        out.append(new)
    return out


def plain_bpe(text: str, size: int, longest: int, min_count: int) -> tuple[Counter[str], set[int]]:
    """Counts of the final pieces by the textbook's loop, and how many merges tied (a tie has no
    right answer).
    """
    words = [list(run) for run in re.findall("[一-鿿]+|[a-z]+|[^ \n]", text)]
    ties = set()
    for step in range(size):
        pairs = Counter(
            pair for word in words for pair in pairwise(word) if len("".join(pair)) <= longest
        )
        if not pairs or pairs.most_common(1)[0][1] < min_count:
            break
        best = pairs.most_common(2)
        if len(best) > 1 and best[0][1] == best[1][1]:
            ties.add(step)
        words = merged(words, best[0][0])
    return Counter(piece for word in words for piece in word), ties


def test_the_same_pieces_as_a_plain_loop(tmp_path):
    text = "长江大桥 长江大桥，长江大桥 长江大 长江 长江 大江 abcabc abab ab\n大江 a，b\n" * 3
    (tmp_path / "raw.txt").write_text(text, "utf-8")
    record = trained(tmp_path / "raw.txt", tmp_path / "s", size=4, longest=4)
    counts, ties = plain_bpe(fold(text), size=4, longest=4, min_count=2)
    assert not ties
    assert read_frequencies(tmp_path / "s.txt") == {
        piece: n for piece, n in counts.items() if len(piece) > 1
    }
    assert record["used"] == counts.total()


@pytest.mark.parametrize("longest", [2, 3, 5])
def test_no_piece_is_longer_than_allowed(tmp_path, longest):
    whole = "南京市长江大桥"
    (tmp_path / "raw.txt").write_text(
        "".join(f"{whole[:end]}\n" * 9 for end in range(1, 8)), "utf-8"
    )
    trained(tmp_path / "raw.txt", tmp_path / "s", longest=longest, size=1000)
    lengths = {len(word) for word in read_words(tmp_path / "s.txt")}
    assert max(lengths) == longest
    assert min(lengths) >= 2


@pytest.mark.parametrize("more", ["", "\ufffd", " \u3000"], ids=["", "unknown", "white space"])
def test_size_counts_pieces_not_characters(tmp_path, more):
    raw = write_text(tmp_path)
    raw.write_text(raw.read_text("utf-8") + more, "utf-8")
    record = trained(raw, tmp_path / "s", size=25)
    assert record["pieces"] + record["unused"] == 25
    assert record["pieces"] == len(list(read_words(tmp_path / "s.txt")))


def test_merges_stay_in_their_run(tmp_path):
    (tmp_path / "raw.txt").write_text("我用Ｐython３.12写，写。。用 我ひら\n" * 9, "utf-8")
    trained(tmp_path / "raw.txt", tmp_path / "s", size=1000, longest=20)
    assert {*read_words(tmp_path / "s.txt")} == {"我用", "Python", "ひら"}


def test_the_lexicon_is_one_of_ours(made_lexicon):
    lexicon = Lexicon()
    words = list(read_words(made_lexicon))
    assert lexicon.load(made_lexicon) == len(words) > 10
    frequencies = read_frequencies(made_lexicon)
    assert list(frequencies) == words
    assert list(frequencies.values()) == sorted(frequencies.values(), reverse=True)


@given(line=any_text | st.text("王小明在青石镇工作[UNK]\ufffd 1a"))
def test_pieces_join_to_the_text(made_lexicon, line):
    (pieces,) = Subwords(made_lexicon)([line])
    assert "".join(pieces) == "".join(fold(line).split())
    lexicon = {*read_words(made_lexicon)}
    assert all(piece in lexicon for piece in pieces if len(piece) > 1)


def test_frequencies_are_those_of_the_cut(made_lexicon):
    lines = (made_lexicon.parent / "raw.txt").read_text("utf-8").splitlines()
    counts = Counter(piece for pieces in Subwords(made_lexicon)(lines) for piece in pieces)
    assert read_frequencies(made_lexicon) == {
        piece: count for piece, count in counts.items() if len(piece) > 1
    }


def test_vectors_of_pieces(made_lexicon, tmp_path):
    raw = made_lexicon.parent / "raw.txt"
    settings = VectorSettings(Unit.subword, dim=4, epochs=1, min_count=1)
    record = train_vectors(VectorSource((raw,), made_lexicon), tmp_path / "v", settings)
    words = {*read_vectors(tmp_path / "v.bin").words}
    assert {*read_words(made_lexicon)} <= words
    assert any(len(word) == 1 for word in words), "a character that is left over has a vector too"
    assert "tokenizers" in record["versions"]


def test_two_runs_are_one(tmp_path):
    raw = write_text(tmp_path)
    for name in "ab":
        trained(raw, tmp_path / name)
    for end in (".txt", ".bpe.json"):
        assert (tmp_path / f"a{end}").read_bytes() == (tmp_path / f"b{end}").read_bytes()
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["settings"]["size"] == 40


def test_events(tmp_path):
    raw = write_text(tmp_path)
    events = []
    trained(raw, tmp_path / "s", listen=events.append)
    ends = [e["number"] for e in events if e["event"] == "pass" and e["done"] == e["size"]]
    assert sorted(set(ends)) == [0, 1, 2]
    assert [e["event"] for e in events if e["event"] != "pass"] == ["merging"]


# ---- what goes wrong


def test_a_bad_line_in_the_second_pass_too(tmp_path):
    raw = write_text(tmp_path)

    def spoil(event):
        if event.get("number") == 0 and event.get("done") == event.get("size"):
            raw.write_bytes(raw.read_bytes()[:-1] + b"\xff\n")

    with pytest.raises(InputError, match=r"raw.txt:150: not UTF-8"):
        trained(raw, tmp_path / "s", listen=spoil)
    assert not (tmp_path / "s.txt").exists()


def test_nothing_to_merge(tmp_path):
    (tmp_path / "raw.txt").write_text("一，二，三\n四1五\n", "utf-8")
    with pytest.raises(
        InputError, match="the text is too small: no pair of characters occurs 2 times"
    ):
        trained(tmp_path / "raw.txt", tmp_path / "s")
    assert not (tmp_path / "s.txt").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 0},
        {"longest": 1},
        {"min_count": 0},
        {"size": 10**20},
        {"longest": 101},
        {"min_count": 10**20},
    ],
)
def test_settings_out_of_range(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
        SubwordSettings(**wrong)


@pytest.mark.parametrize("wanted", [False, True])
def test_all_cores_or_one(tmp_path, monkeypatch, wanted):
    """What tokenizers goes by while it works, and after that what it was before."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "as it was")
    raw = write_text(tmp_path)
    seen = set()
    record = train_subwords(
        (raw,), tmp_path / "s", SubwordSettings(40, min_count=2), parallel=wanted,
        listen=lambda event: seen.add(os.environ["TOKENIZERS_PARALLELISM"]),
    )  # fmt: skip
    assert seen == {"true" if wanted else "false"}
    assert os.environ["TOKENIZERS_PARALLELISM"] == "as it was"
    assert record["parallel"] is wanted


def test_a_missing_library_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(
        HanlatticeError, match=r"tokenizers is not installed.*pip install 'hanlattice\[pretrain\]'"
    ):
        trained(write_text(tmp_path), tmp_path / "s")
