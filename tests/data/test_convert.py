"""Each converter on a small file made here in the shape of the real one."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from hanlattice.data import convert
from hanlattice.data.convert import (
    convert_jieba,
    convert_msra,
    convert_pku,
    convert_simplechinese,
    read_word_pickle,
)
from hanlattice.data.corpus import read_corpus
from hanlattice.errors import InputError
from hanlattice.text.vectors import read_vectors


def member(tmp_path: Path, body: str | bytes, name: str = "member") -> Path:
    path = tmp_path / name
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    return path


def bio(text: str, tags: str) -> str:
    """'甲乙', 'B-PER I-PER' as a piece of columns."""
    return "".join(f"{c}\t{t}\n" for c, t in zip(text, tags.split(), strict=True)) + "\n"


def spans(path: Path) -> list[tuple[str, list[tuple[str, str]]]]:
    sentences = read_corpus(path).sentences
    return [
        (s.text, [(s.text[p.start : p.end], p.label) for p in s.spans or ()]) for s in sentences
    ]


def test_msra_pieces_become_sentences(tmp_path, monkeypatch):
    monkeypatch.setattr(convert, "_TEST_CONTINUES", frozenset({1, 3}))
    body = (
        bio("甲乙来，", "B-PER I-PER O O")
        + bio("去上海。", "O B-LOC I-LOC O")
        + bio("好；", "O O")
        + bio("对", "O")
    )
    body += (
        bio("张", "B-PER")
        + bio("万年。", "I-PER I-PER O")
        + bio("一，", "O O")
        + bio("二。", "O O")
    )
    counts = convert_msra([member(tmp_path, body)], tmp_path, train_pieces=4)
    assert spans(tmp_path / "train.bmes") == [
        ("甲乙来，去上海。", [("甲乙", "PER"), ("上海", "LOC")]),
        ("好；对", []),
    ]
    assert spans(tmp_path / "test.bmes") == [("张万年。", [("张万年", "PER")]), ("一，二。", [])]
    assert counts == {
        "train sentences": 2,
        "train characters": 11,
        "train entities": 2,
        "test sentences": 2,
        "test characters": 8,
        "test entities": 1,
    }


def test_msra_last_piece_is_kept_though_it_would_go_on(tmp_path):
    convert_msra(
        [member(tmp_path, bio("甲，", "O O") + bio("乙。", "O O"))], tmp_path, train_pieces=1
    )
    assert spans(tmp_path / "train.bmes") == [("甲，", [])]


def test_pku_words_and_entities(tmp_path):
    body = (
        "王/nr  小明/nr  和/c  欧阳/nr  红/nr  在/p  北京/ns  海淀/ns  。/w\n"
        "新华社/nt  陈/nr  方/nr  丽丽/nr  、/w  约翰/nr  １/2/m   李/nr  白/nr  赵/nr  一一/nr\n"
        "\n"
        "老王/nr  刘/nr  来/v\n"
    )
    counts = convert_pku([member(tmp_path, body)], tmp_path)
    assert (tmp_path / "words.seg").read_text("utf-8").splitlines()[2] == "老王 刘 来"
    assert spans(tmp_path / "entities.bmes") == [
        (
            "王小明和欧阳红在北京海淀。",
            [("王小明", "PER"), ("欧阳红", "PER"), ("北京", "LOC"), ("海淀", "LOC")],
        ),
        (
            "新华社陈方丽丽、约翰１/2李白赵一一",
            [
                ("新华社", "ORG"),
                ("陈方丽丽", "PER"),
                ("约翰", "PER"),
                ("李白", "PER"),
                ("赵一一", "PER"),
            ],
        ),
        ("老王刘来", [("老王", "PER"), ("刘", "PER")]),
    ]
    assert counts == {"sentences": 3, "words": 23, "characters": 35, "entities": 11}


def test_pku_entities_come_with_the_words_and_their_parts_of_speech(tmp_path):
    convert_pku([member(tmp_path, "王/nr  小明/nr  去/v  １/2/m\n好/a\n")], tmp_path)
    names = "王\tS-nr\tB-PER\n小\tB-nr\tM-PER\n明\tE-nr\tE-PER\n"
    first = names + "去\tS-v\tO\n１\tB-m\tO\n/\tM-m\tO\n2\tE-m\tO\n"
    assert (tmp_path / "entities.bmes").read_text("utf-8") == first + "\n好\tS-a\tO\n\n"
    corpus = read_corpus(tmp_path / "entities.bmes")
    assert corpus.notices == ()
    segmented = read_corpus(tmp_path / "words.seg").sentences
    for sentence, words in zip(corpus.sentences, segmented, strict=True):
        assert [(word.start, word.end) for word in sentence.words or ()] == [
            (word.start, word.end) for word in words.spans or ()
        ]


@pytest.mark.parametrize("token", ["词", "/n", "词/"])
def test_pku_token_without_word_or_tag(tmp_path, token):
    with pytest.raises(InputError, match="expected word/tag") as caught:
        convert_pku([member(tmp_path, f"好/a\n好/a  {token}\n")], tmp_path)
    assert caught.value.line == 2


def test_simplechinese_keeps_order_and_scale(tmp_path):
    words = ["</s>", "的", "长江"]
    matrix = np.array([[1, -28.5], [0.1, 2], [3, 4]], np.float16)
    np.save(tmp_path / "m.npy", matrix)
    counts = convert_simplechinese(
        [member(tmp_path, pickle.dumps(words)), tmp_path / "m.npy"], tmp_path
    )
    vectors = read_vectors(tmp_path / "words.bin", strict=True)
    assert vectors.words == tuple(words)
    np.testing.assert_array_equal(vectors.matrix, matrix.astype(np.float32))
    assert counts == {"words": 3, "width": 2, "single characters": 1}


class Payload:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("this must never run",)


@pytest.mark.parametrize("value", [[Payload()], {"a": 1}, ["a", 3], [Path("x")]])
def test_a_pickle_with_anything_but_words_is_refused(tmp_path, value, capsys):
    with pytest.raises(InputError, match=r"plain pickled list|list of strings"):
        read_word_pickle(member(tmp_path, pickle.dumps(value)))
    assert capsys.readouterr().out == ""


def test_a_broken_pickle_or_array_is_refused(tmp_path):
    with pytest.raises(InputError, match="not a plain pickled list"):
        read_word_pickle(member(tmp_path, pickle.dumps(["a"])[:-3]))
    words = member(tmp_path, pickle.dumps(["a"]))
    with pytest.raises(InputError, match="not a NumPy array"):
        convert_simplechinese([words, member(tmp_path, b"rubbish", "m.npy")], tmp_path)
    np.save(tmp_path / "two.npy", np.zeros((2, 3), np.float16))
    with pytest.raises(InputError, match="1 words do not fit"):
        convert_simplechinese([words, tmp_path / "two.npy"], tmp_path)


def test_jieba_lines_stay_as_they_are(tmp_path):
    body = "长江 12 ns\nB超 3 n\n"
    assert convert_jieba([member(tmp_path, body)], tmp_path) == {"words": 2}
    assert (tmp_path / "dict.txt").read_text("utf-8") == body


@pytest.mark.parametrize("line", ["长江", "长江 x n", "长江 1", " 1 n", "长江 1 n n"])
def test_a_jieba_line_of_another_shape(tmp_path, line):
    with pytest.raises(InputError, match="expected 'word frequency tag'") as caught:
        convert_jieba([member(tmp_path, f"好 1 a\n{line}\n")], tmp_path)
    assert caught.value.line == 2
