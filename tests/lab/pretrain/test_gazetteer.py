"""Which words of a vector file occur in corpora: counted by plain search, and as good as the whole
file in training.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.checkpoint.load import load_model
from hanlattice.config import make_config
from hanlattice.data.corpus import read_corpus
from hanlattice.errors import InputError
from hanlattice.lab.pretrain import gazetteer
from hanlattice.lab.pretrain.gazetteer import (
    EntityShare,
    Gazetteer,
    check_request,
    make_gazetteer,
    write_gazetteer,
)
from hanlattice.text.normalize import fold, fold_digits
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.vectors import Vectors, read_vectors, write_vectors
from hanlattice.training.build import Built, build
from hanlattice.training.loop import train
from tests.helpers.made import WIDTH, made_tree
from tests.helpers.strategies import sentences

few = st.sampled_from("南京市A Ａ1２")


def numbered(*words: str) -> Vectors:
    """Each word with its own number as its vector."""
    return Vectors(words, np.arange(1, len(words) + 1, dtype=np.float32)[:, None])


def search(words: tuple[str, ...], text: str) -> set[tuple[int, int]]:
    """Where the words stand in the text, by trying every one at every place."""
    places = [(start, start + len(word)) for word in words for start in range(len(text))]
    folded = {fold(word.strip()) for word in words}
    return {(a, b) for a, b in places if b - a > 1 and b <= len(text) and fold(text[a:b]) in folded}


@given(
    st.lists(
        st.text(few, min_size=1, max_size=4).filter(str.strip), unique=True, min_size=1, max_size=8
    ),
    st.lists(sentences(few), min_size=1, max_size=5),
    st.sampled_from(gazetteer.CHARACTERS),
)
def test_it_counts_what_a_plain_search_finds(names, corpus, characters):
    words = tuple(dict.fromkeys(map(str.strip, names)))
    found = [search(words, sentence.text) for sentence in corpus]
    spelt = {fold(s.text[a:b]) for s, places in zip(corpus, found, strict=True) for a, b in places}
    if not spelt:
        with pytest.raises(InputError, match=r"occurs in the text|no word of two characters"):
            make_gazetteer(numbered(*words), [("c", corpus)], characters=characters)
        return
    made = make_gazetteer(numbered(*words), [("c", corpus)], characters=characters)
    inside = [{at for a, b in places for at in range(a, b)} for places in found]
    assert made.overall.positions == sum(map(len, found))
    assert made.overall.covered == sum(map(len, inside))
    assert made.overall.characters == sum(map(len, corpus))
    assert made.overall.words == len(spelt)
    assert made.lexicon == len({fold(word) for word in words if len(word) > 1})
    assert made.corpora[0].as_dict() == made.overall.as_dict() | {"name": "c"}
    _same_entities(made, corpus, found)
    _right_rows(made, words, spelt, corpus, characters)


def _same_entities(
    made: Gazetteer, corpus: list[Sentence], found: list[set[tuple[int, int]]]
) -> None:
    """An entity is known exactly where a match has its two ends."""
    gold = [
        (span.label, fold(s.text[span.start : span.end]), (span.start, span.end) in places)
        for s, places in zip(corpus, found, strict=True)
        for span in s.spans or ()
    ]
    labels = sorted({label for label, _, _ in gold})
    assert list(made.overall.by_label) == labels
    for label in [None, *labels]:
        mine = [(text, known) for name, text, known in gold if label in (None, name)]
        share = EntityShare(
            len(mine), sum(known for _, known in mine), len({text for text, _ in mine}), 0
        )
        types_in = len({text for text, known in mine if known})
        told = made.overall.entities if label is None else made.overall.by_label[label]
        assert told == EntityShare(share.tokens, share.tokens_in, share.types, types_in)


def _right_rows(
    made: Gazetteer,
    words: tuple[str, ...],
    spelt: set[str],
    corpus: list[Sentence],
    characters: str,
) -> None:
    seen = {character for sentence in corpus for character in sentence.characters}
    firsts: dict[str, str] = {}
    for word in words:
        firsts.setdefault(fold_digits(word) if len(word) == 1 else fold(word), word)
    wanted = {"met": seen, "all": set(firsts), "none": set()}[characters]
    kept = [
        word
        for key, word in firsts.items()
        if (len(key) > 1 and key in spelt) or (len(key) == 1 and key in wanted)
    ]
    writable = [word for word in words if word in kept and " " not in word]
    assert list(made.vectors.words) == writable
    assert made.vectors.matrix[:, 0].tolist() == [words.index(word) + 1 for word in writable]
    assert (made.words, made.characters) == (
        sum(len(w) > 1 for w in writable),
        sum(len(w) == 1 for w in writable),
    )
    assert any("white space" in notice for notice in made.notices) == any(
        " " in word for word in kept
    )


def test_several_corpora_and_all_of_them_together():
    first = [Sentence("南京市长江", (Span(0, 3, "LOC"), Span(3, 5, "LOC")))]
    second = [
        Sentence("去南京", (Span(1, 3, "LOC"),)),
        Sentence("王在南京", (Span(0, 1, "PER"), Span(2, 4, "GPE"))),
    ]
    third = map(Sentence, ["长江大桥", "", "没有"])
    vectors = numbered("大海", "南京", "京市", "长江", "王", "海", "大桥", "江大")
    made = make_gazetteer(vectors, [("a", first), ("b", second), ("raw", third)])
    assert [(c.positions, c.words, c.covered) for c in made.corpora] == [
        (3, 3, 5),
        (2, 1, 4),
        (3, 3, 4),
    ]
    assert (made.overall.positions, made.overall.words, made.overall.sentences) == (8, 5, 6)
    assert made.vectors.words == ("南京", "京市", "长江", "王", "大桥", "江大")
    assert made.corpora[1].by_label == {
        "GPE": EntityShare(1, 1, 1, 1),
        "LOC": EntityShare(1, 1, 1, 1),
        "PER": EntityShare(1, 0, 1, 0),  # one character is no word of a lattice
    }
    assert made.corpora[2].entities is None
    assert made.overall.entities == EntityShare(5, 3, 4, 2)  # 南京市 长江 南京 南京 王
    assert made.overall.by_label["LOC"] == EntityShare(3, 2, 3, 2)
    assert (made.norm, made.norm_kept) == pytest.approx(
        (np.mean([1, 2, 3, 4, 7, 8]), np.mean([2, 3, 4, 7, 8]))
    )


def test_a_blank_at_the_edge_of_an_entity_keeps_it_out_of_the_lexicon():
    corpus = [Sentence("去 南京", (Span(1, 4, "LOC"),)), Sentence("南京", (Span(0, 2, "LOC"),))]
    assert make_gazetteer(numbered("南京"), [("c", corpus)]).overall.entities == EntityShare(
        2, 1, 2, 1
    )


def test_of_the_digits_the_first_is_kept_for_it_stands_for_all():
    made = make_gazetteer(numbered("7", "南京", "１", "0"), [("c", [Sentence("南京10号")])])
    assert made.vectors.words == ("7", "南京")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_size_of_a_part_changes_nothing(monkeypatch, size):
    corpus = [Sentence("南京市长江大桥" * n, (Span(0, 2, "X"),)) for n in range(1, 9)]
    vectors = numbered("南京", "桥南", "长江大桥", "江大")
    whole = make_gazetteer(vectors, [("c", corpus)])
    monkeypatch.setattr(gazetteer, "_PART", size)
    told: list[int] = []
    parted = make_gazetteer(
        vectors, [("c", corpus)], listen=lambda event: told.append(event["characters"])
    )
    assert parted.overall == whole.overall
    assert told == sorted(told)
    assert told[-1] == whole.overall.characters


def test_what_cannot_be_is_said():
    text = [("c", [Sentence("南京")])]
    with pytest.raises(InputError, match="none of the 2 words of the vector file occurs"):
        make_gazetteer(numbered("大海", "沙漠", "南"), text)
    with pytest.raises(InputError, match="no word of two characters"):
        make_gazetteer(numbered("南", "京"), text)
    with pytest.raises(InputError, match="c: the corpus is empty"):
        make_gazetteer(numbered("南京"), [*text, ("c", [Sentence("")])])
    with pytest.raises(InputError, match="no corpus was named"):
        make_gazetteer(numbered("南京"), [])
    with pytest.raises(InputError, match="expected met, all, none"):
        make_gazetteer(numbered("南京"), text, characters="some")


def test_outputs_that_are_refused(tmp_path):
    source = tmp_path / "words.bin"
    source.touch()
    (tmp_path / "link.bin").symlink_to(source)
    for name in ("words.bin", "link.bin", "../" + tmp_path.name + "/words.bin"):
        with pytest.raises(InputError, match="one of the files to read"):
            check_request(tmp_path / name, [source], "met")
    with pytest.raises(InputError, match=r"must end with \.bin"):
        check_request(tmp_path / "out.txt", [source], "met")
    with pytest.raises(InputError, match=r"other: cannot read"):
        check_request(tmp_path / "out.vec", [source, tmp_path / "other"], "met")
    with pytest.raises(InputError, match="expected met, all, none"):
        check_request(tmp_path / "out.vec", [source], "few")
    (tmp_path / "folder.bin").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        check_request(tmp_path / "folder.bin", [source], "met")
    check_request(tmp_path / "out.vec", [source], "met")


def test_very_large_values_have_a_finite_norm():
    vectors = Vectors(("南京", "大海"), np.array([[3e38, 3e38], [1, 0]], np.float32))
    made = make_gazetteer(vectors, [("c", [Sentence("南京")])])
    assert made.norm_kept == pytest.approx(3e38 * 2**0.5, rel=1e-6)
    assert made.norm == pytest.approx(3e38 * 2**0.5 / 2, rel=1e-6)


def compacted(made: Path, folder: Path, characters: str = "all", name: str = "small.bin") -> Path:
    """The gazetteer of the made corpus, whose vector file gets the characters too, and words that
    occur nowhere.
    """
    words = read_vectors(made / "words.bin")
    chars = read_vectors(made / "chars.vec")
    more = ("电视", "南极", "龙", "鱼", "天地", "一", "二")
    table = np.random.default_rng(3).normal(size=(len(more), WIDTH)).astype(np.float32)
    names = (*more[:3], *words.words, *more[3:], *(c for c in chars.words if c not in more))
    kept = [at for at, c in enumerate(chars.words) if c not in more]
    matrix = np.concatenate([table[:3], words.matrix, table[3:], chars.matrix[kept]])
    write_vectors(folder / "whole.bin", Vectors(names, matrix), binary=True)
    corpora = [
        (part, read_corpus(made / f"{part}.bmes").sentences) for part in ("train", "dev", "test")
    ]
    small = make_gazetteer(read_vectors(folder / "whole.bin"), corpora, characters=characters)
    assert small.words < len(words.words)
    write_gazetteer(folder / name, small)
    return folder / name


def tree(made: Path, words: Path, chars: Path | None) -> dict[str, dict[str, object]]:
    changes = {"words__vectors": str(words), "train__epochs": 1, "words__fine_tune": True}
    return made_tree(made, **changes, **({"chars__vectors": str(chars)} if chars else {}))


def matched(built: Built, texts: list[str]) -> list[list[tuple[int, int, str]]]:
    assert built.indexer.lexicon is not None
    return [built.indexer.lexicon.match(text) for text in texts]


@pytest.mark.parametrize("name", ["small.bin", "small.vec"])
@pytest.mark.parametrize("same_file", [True, False])
def test_a_model_is_built_the_same(made, tmp_path, name, same_file):
    small = compacted(made, tmp_path, "all" if same_file else "none", name)
    parts = {
        part: read_corpus(made / f"{part}.bmes").sentences for part in ("train", "dev", "test")
    }
    files = (tmp_path / "whole.bin", small)
    whole, compact = (
        build(make_config(tree(made, file, file if same_file else None)), parts["train"])
        for file in files
    )
    everything = [sentence for sentences in parts.values() for sentence in sentences]
    texts = [sentence.text for sentence in everything]
    assert matched(whole, texts) == matched(compact, texts)
    assert any(map(bool, matched(compact, texts)))
    for built in (whole, compact):
        built.tagger.eval()
    with torch.no_grad():
        emissions = [
            built.tagger.emissions(built.indexer.examples(everything).batch(range(len(everything))))
            for built in (whole, compact)
        ]
    assert torch.equal(*emissions)


def test_a_model_is_trained_the_same(made, tmp_path):
    small = compacted(made, tmp_path)
    results = []
    for file in (tmp_path / "whole.bin", small):
        result = train(make_config(tree(made, file, file)), tmp_path / f"run-{file.stem}")
        results.append((load_model(result.folder, modules=True).tagger.state_dict(), result.scores))
    (whole, scores), (compact, same_scores) = results
    assert scores == same_scores
    assert len(compact["words.fixed"]) < len(whole["words.fixed"])
    for weight in whole.keys() - {"words.fixed"}:
        assert torch.equal(whole[weight], compact[weight]), weight
