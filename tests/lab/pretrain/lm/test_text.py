"""Raw text for a language model: the characters it knows, the lines held out, and every symbol once
an epoch.
"""

from __future__ import annotations

import gzip
import lzma
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from hanlattice.checkpoint.language_model import make_vocab
from hanlattice.data import corpus
from hanlattice.errors import InputError
from hanlattice.events import ignore
from hanlattice.lab.pretrain.lm import text as text_module
from hanlattice.lab.pretrain.lm.text import (
    BREAK_ID,
    Lines,
    Streams,
    frequent,
    hold_out,
    mirrored,
    read_lines_of,
    read_source,
)
from hanlattice.text.normalize import fold_digits
from hanlattice.text.vocab import seen_as
from tests.helpers.lm import lines_of, text_of, tiny

LINE = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r\ufeff"), min_size=1, max_size=12
)
TEXTS = st.lists(LINE.filter(lambda line: not line.isspace()), min_size=1, max_size=20)


def strings(lines: Lines) -> list[str]:
    return ["".join(map(chr, text_of(lines, at))) for at in range(len(lines))]


@given(TEXTS)
def test_lines_come_back_as_they_were(texts):
    lines = lines_of(*texts)
    assert strings(lines) == texts
    assert lines.symbols == sum(len(text) + 1 for text in texts)
    assert all(
        lines.ids[start + length] == ord("\n")
        for start, length in zip(lines.starts, lines.lengths, strict=True)
    )


@given(TEXTS, st.data())
def test_mirrored_lines_keep_their_order_and_their_breaks(texts, data):
    which = data.draw(st.lists(st.integers(0, len(texts) - 1), unique=True))
    lines = lines_of(*texts).take(np.array(sorted(which), dtype=np.int64))
    turned = lines.mirrored()
    assert strings(turned) == [text[::-1] for text in strings(lines)]
    assert strings(turned.mirrored()) == strings(lines)
    assert all(turned.ids[turned.starts + turned.lengths] == ord("\n"))


@given(TEXTS, st.data())
def test_parts_of_a_text_are_mirrored_together(texts, data):
    which = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))))
    lines = lines_of(*texts)
    parts = mirrored(lines.take(which), lines.take(~which))
    assert parts[0].ids is parts[1].ids
    for part, taken in zip(parts, (which, ~which), strict=True):
        assert strings(part) == strings(lines.take(taken).mirrored())
        assert strings(part) == [text[::-1] for text, it in zip(texts, taken, strict=True) if it]
        assert all(part.ids[part.starts + part.lengths] == ord("\n"))


def test_a_source_has_one_array_of_ids_a_direction(tmp_path):
    (tmp_path / "text.txt").write_text("甲乙丙丁戊己庚辛\n" * 60, "utf-8")
    source = read_source(tiny(), [tmp_path / "text.txt"], ["backward"], ignore)
    for direction in ("forward", "backward"):
        train, held_out = source.lines(direction)
        assert train.ids is held_out.ids
        assert Streams(train, 2, torch.device("cpu")).ids.data_ptr() == train.ids.ctypes.data


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_files_are_read_in_blocks_and_told(block, tmp_path, monkeypatch):
    monkeypatch.setattr(text_module, "_BLOCK", block)
    texts = ["南京市长江大桥", "１２３", "𠮷野家", "a b", "　x"]
    (tmp_path / "a.txt").write_bytes("\r\n".join(texts[:2]).encode() + b"\r\n\r\n  \r\n")
    (tmp_path / "b.gz").write_bytes(gzip.compress("\n".join(texts[2:4]).encode()))
    (tmp_path / "c.xz").write_bytes(lzma.compress(texts[4].encode()))
    told: list[tuple[int, int]] = []
    files = [tmp_path / name for name in ("a.txt", "b.gz", "c.xz")]
    assert strings(read_lines_of(files, lambda done, size: told.append((done, size)))) == texts
    size = sum(file.stat().st_size for file in files)
    assert told[-1] == (size, size)
    assert told == sorted(told)


def test_a_file_that_is_not_utf8_says_where(tmp_path):
    (tmp_path / "bad.txt").write_bytes("好\n坏".encode() + b"\xff\n")
    with pytest.raises(InputError, match=r"bad\.txt:2: not UTF-8: byte 0xff at byte 4"):
        read_lines_of([tmp_path / "bad.txt"])


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    with pytest.raises(InputError, match=r"empty\.txt: the file is empty"):
        read_lines_of([tmp_path / "empty.txt"])


@given(st.integers(1, 300), st.sampled_from([0.01, 0.1, 0.29, 0.5, 0.003, 0.123456789, 0.9]))
def test_the_same_lines_are_held_out_as_in_training_taggers(count, share):
    names = [f"第{at}行" for at in range(count)]
    stay, out = corpus.hold_out(names, share)  # type: ignore[arg-type]
    if not out:
        with pytest.raises(InputError, match="is not one line; take a larger share"):
            hold_out(lines_of(*names), share)
        return
    train, held = hold_out(lines_of(*names), share)
    assert (tuple(strings(train)), tuple(strings(held))) == (stay, out)


def test_every_hundredth_line_is_held_out():
    _, held = hold_out(lines_of(*map(str, range(1, 351))), 0.01)
    assert strings(held) == ["100", "200", "300"]


@pytest.mark.parametrize(("share", "held"), [(0.12345678901234568, 11), (0.9999999999999999, 89)])
def test_a_share_with_many_digits_does_not_overflow(share, held):
    assert len(hold_out(lines_of(*map(str, range(90))), share)[1]) == held


@pytest.mark.parametrize("share", [1e-20, 5e-324])
def test_a_tiny_share_is_no_line(share):
    with pytest.raises(InputError, match=f"--held-out {share} of 90 lines is not one line"):
        hold_out(lines_of(*map(str, range(90))), share)


@given(TEXTS, st.integers(1, 3), st.data())
def test_characters_are_those_of_these_lines_by_falling_frequency(texts, least, data):
    which = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))))
    counts = Counter(
        "".join(fold_digits(text) for text, taken in zip(texts, which, strict=True) if taken)
    )
    expected = sorted((c for c in counts if counts[c] >= least), key=lambda c: (-counts[c], c))
    assert frequent(lines_of(*texts).take(which), least) == expected


def test_widths_and_digits_are_counted_as_the_model_sees_them():
    assert frequent(lines_of("ＡA１2３", "b"), 1) == ["0", "A", "b"]


def stream(texts: list[str], batch_size: int, seed: int, epoch: int) -> tuple[torch.Tensor, Lines]:
    codes = lines_of(*texts)
    assume(codes.symbols >= batch_size)  # `read_source` refuses less text than one batch
    vocab = make_vocab(frequent(codes, 1))
    lines = Lines(seen_as(vocab)(codes.ids), codes.starts, codes.lengths)
    return Streams(lines, batch_size, torch.device("cpu")).epoch(seed, epoch), lines


@given(TEXTS, st.integers(1, 5), st.integers(0, 3), st.integers(0, 3))
def test_every_symbol_is_a_target_once_an_epoch_but_for_fewer_than_there_are_streams(
    texts, batch_size, seed, epoch
):
    found, lines = stream(texts, batch_size, seed, epoch)
    assert found.shape == (batch_size, lines.symbols // batch_size + 1)
    targets = Counter(found[:, 1:].flatten().tolist())
    everything = Counter(
        at for line in range(len(lines)) for at in [*text_of(lines, line), BREAK_ID]
    )
    left_out = everything - targets
    assert not targets - everything
    assert sum(left_out.values()) == lines.symbols % batch_size


@given(TEXTS, st.integers(1, 5))
def test_streams_side_by_side_are_the_shuffled_lines_with_breaks_between(texts, batch_size):
    found, lines = stream(texts, batch_size, 1, 2)
    order = np.random.default_rng([1, 2]).permutation(len(texts))
    joined = [BREAK_ID, *(at for line in order for at in [*text_of(lines, line), BREAK_ID])]
    steps = lines.symbols // batch_size
    assert found[:, :-1].flatten().tolist() == joined[: steps * batch_size]
    assert found[:, 1:].flatten().tolist() == joined[1 : steps * batch_size + 1]


def test_each_epoch_and_each_seed_has_its_own_order():
    texts = [f"{at:02}" for at in range(40)]
    codes = [
        Streams(lines_of(*texts), 2, torch.device("cpu")).epoch(*key).tolist()
        for key in ((1, 0), (1, 1), (2, 0))
    ]
    assert codes[0] != codes[1] != codes[2] != codes[0]
    assert Streams(lines_of(*texts), 2, torch.device("cpu")).epoch(1, 0).tolist() == codes[0]


def test_held_out_lines_are_not_in_any_stream():
    train, held = hold_out(lines_of(*(["aaa"] * 9 + ["zzz"]) * 5), 0.1)
    assert strings(held) == ["zzz"] * 5
    for lines in (train, train.mirrored()):
        seen = Streams(lines, 3, torch.device("cpu")).epoch(1, 0)
        assert not (seen == ord("z")).any()
