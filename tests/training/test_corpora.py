"""Corpora of a training: dev is held out of train, and finished models find theirs again."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.checkpoint.folder import Model
from hanlattice.checkpoint.load import load_model
from hanlattice.config import DataConfig, make_config
from hanlattice.data.corpus import even_steps, hold_out, read_corpus
from hanlattice.data.formats.jsonl import write_jsonl
from hanlattice.errors import InputError
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.training.corpora import Corpora, own_training, read_corpora, training_files
from tests.helpers.made import made_config, sentences
from tests.helpers.untrained import write_untrained


def numbered(count: int) -> list[Sentence]:
    return [Sentence(f"第{at}句", (Span(0, 1, "X"),)) for at in range(count)]


@pytest.mark.parametrize(
    ("count", "share", "held"),
    [
        (10, 0.4, 4),
        (10, 0.5, 5),
        (10, 0.1, 1),
        (100, 0.29, 29),
        (1000, 0.001, 1),
        (7, 0.3, 2),
        (3, 0.3, 0),
        (0, 0.5, 0),
    ],
)
def test_the_share_is_exact(count, share, held):
    stay, out = hold_out(numbered(count), share)
    assert (len(stay), len(out)) == (count - held, held)


@pytest.mark.parametrize("share", [1e-20, 5e-324, 0.5, 0.9999999999999999, 0.12345678901234568])
def test_even_steps_take_the_share_rounded_down_at_every_length(share):
    taken = even_steps(70, share)
    for count in range(71):
        assert sum(taken[:count]) == count * Fraction(str(share)) // 1


@given(st.integers(0, 60), st.floats(0.01, 0.5))
def test_every_sentence_is_in_one_part_in_its_order_and_dev_is_spread(count, share):
    sentences = numbered(count)
    stay, out = hold_out(sentences, share)
    assert sorted([*stay, *out], key=sentences.index) == sentences
    places = [sentences.index(sentence) for sentence in out]
    assert places == sorted(places)
    steps = {right - left for left, right in pairwise(places)}
    assert not steps or max(steps) - min(steps) <= 1


@pytest.mark.parametrize("count", [1, 4])
def test_a_share_below_one_sentence_is_refused(tmp_path, count):
    write_jsonl(tmp_path / "t.jsonl", numbered(count))
    with pytest.raises(
        InputError,
        match=rf"t\.jsonl: data\.holdout = 0\.2 of {count} sentences is not one sentence; take",
    ):
        read_corpora(DataConfig(train=str(tmp_path / "t.jsonl"), holdout=0.2))


def test_two_sentences_can_be_shared(tmp_path):
    write_jsonl(tmp_path / "t.jsonl", [*numbered(2), Sentence("", ())])
    corpora = read_corpora(DataConfig(train=str(tmp_path / "t.jsonl"), holdout=0.5))
    assert (len(corpora.train), len(corpora.dev)) == (1, 1)


@given(st.integers(0, 60), st.floats(0.01, 0.5))
def test_from_the_end_the_last_ones_are_held_out(count, share):
    sentences = numbered(count)
    stay, out = hold_out(sentences, share, "end")
    assert [*stay, *out] == sentences
    assert len(out) == len(hold_out(sentences, share)[1])


def test_the_end_by_the_configuration(tmp_path):
    write_jsonl(tmp_path / "t.jsonl", numbered(9))
    data = DataConfig(train=str(tmp_path / "t.jsonl"), holdout=0.25, holdout_from="end", limit=8)
    corpora = read_corpora(data)
    assert [sentence.text for sentence in corpora.dev] == [
        "第6句",
        "第7句",
    ]  # the last of those within the limit
    assert len(corpora.train) == 6


def write_more(folder):
    write_jsonl(
        folder / "more.jsonl",
        [Sentence("北京人", (Span(0, 2, "LOC"),)), Sentence("", ()), Sentence("上海", ())],
    )
    return str(folder / "more.jsonl")


@pytest.mark.parametrize("where", ["all", "end"])
def test_more_is_trained_on_and_never_dev(tmp_path, where):
    write_jsonl(tmp_path / "t.jsonl", numbered(8))
    data = DataConfig(
        train=str(tmp_path / "t.jsonl"),
        more=write_more(tmp_path),
        holdout=0.5,
        holdout_from=where,
        limit=6,
    )
    corpora = read_corpora(data)
    assert (len(corpora.train), len(corpora.dev)) == (3, 3)  # neither counts more, nor does limit
    assert [sentence.text for sentence in corpora.more] == ["北京人", "上海"]
    assert corpora.trained_on == corpora.train + corpora.more
    assert corpora.digests.keys() == {"train", "more"}
    facts = corpora.facts(make_config({"data": {"train": data.train, "more": data.more}}))
    assert facts["more"] == {
        "file": data.more,
        "sha256": corpora.digests["more"],
        "sentences": 2,
        "characters": 5,
        "spans": 1,
    }


@pytest.mark.parametrize("format", ["auto", "columns", "segmented"])
def test_more_may_be_of_another_format(tmp_path, format):
    """Its suffix counts; where that says nothing, it is like the others."""
    body = "南 B-LOC\n京 E-LOC\n" if format != "segmented" else "南京 人\n"
    for name in ("train.txt", "dev.txt", "like.txt"):
        (tmp_path / name).write_text(body, "utf-8")
    named = {name: str(tmp_path / f"{name}.txt") for name in ("train", "dev")}
    other = read_corpora(DataConfig(**named, format=format, more=write_more(tmp_path)))
    assert [span.label for sentence in other.more for span in sentence.spans or ()] == ["LOC"]
    like = read_corpora(DataConfig(**named, format=format, more=str(tmp_path / "like.txt")))
    assert like.more == like.train


def test_more_may_have_another_scheme(tmp_path):
    (tmp_path / "t.bmes").write_text("南 B-LOC\n京 E-LOC\n", "utf-8")
    (tmp_path / "m.bio").write_text("南 B-LOC\n京 I-LOC\n", "utf-8")
    named = {
        "train": str(tmp_path / "t.bmes"),
        "dev": str(tmp_path / "t.bmes"),
        "more": str(tmp_path / "m.bio"),
    }
    corpora = read_corpora(DataConfig(**named, scheme="BMES"))
    assert corpora.more == corpora.train


def test_more_that_is_missing_is_reported(tmp_path):
    write_jsonl(tmp_path / "t.jsonl", numbered(8))
    with pytest.raises(InputError, match=r"gone\.jsonl: cannot read: there is no such file"):
        read_corpora(
            DataConfig(
                train=str(tmp_path / "t.jsonl"), more=str(tmp_path / "gone.jsonl"), holdout=0.5
            )
        )


WORDS = {"words": {"vectors": "w.vec"}, "subwords": {"lexicon": "s.txt"}}


@pytest.mark.parametrize(
    ("model", "words", "subwords"),
    [
        ({}, "w.vec", ""),
        ({"sources": "subwords"}, "", "random, of s.txt"),
        ({"sources": "both"}, "w.vec", "random, of s.txt"),
        ({"encoder": "char", "sources": "both"}, "", ""),
        ({"encoder": "word"}, "w.vec", ""),
    ],
)
def test_where_vectors_of_words_came_from(model, words, subwords):
    corpora = Corpora(tuple(numbered(2)), (), (), (), {}, ())
    vectors = corpora.facts(make_config({**WORDS, "model": model}))["vectors"]
    assert (vectors["words"], vectors["subwords"]) == (words, subwords)
    assert vectors.keys() == {"chars", "bichars", "words", "subwords", "lm", "transformer"}
    bare = corpora.facts(make_config({"model": model}))["vectors"]
    assert [bool(bare[name]) for name in ("words", "subwords")] == [bool(words), bool(subwords)]
    assert {bare["words"], bare["subwords"]} <= {"", "random"}


def model_of(folder: Path, made: Path, **changes: Any) -> Model:
    config = made_config(made, model__encoder="char", model__hidden=2, **changes)
    return load_model(write_untrained(folder, config, sentences(6, 1)))


@pytest.mark.parametrize(
    "changes", [{}, {"data__more": "m"}, {"data__limit": 7}, {"data__dev": "", "holdout": "end"}]
)
def test_models_of_other_sentences_are_told_apart(made, tmp_path, changes):
    plain = {"data__dev": "", "data__holdout": 0.25}
    write_jsonl(tmp_path / "more.jsonl", sentences(3, 2))
    other = {**plain, **changes}
    if other.pop("holdout", ""):
        other["data__holdout_from"] = "end"
    if "data__more" in other:
        other["data__more"] = str(tmp_path / "more.jsonl")
    models = {
        "A": model_of(tmp_path / "a", made, **plain),
        "B": model_of(tmp_path / "b", made, **other),
    }
    found, what = own_training(models, notes := [])
    assert any("trained on different sentences" in note for note in notes) == bool(changes)
    whole = read_corpus(made / "train.bmes").sentences
    stays = [sentence for at, sentence in enumerate(whole) if at % 4 != 3]
    if "data__limit" in other:
        stays = [sentence for at, sentence in enumerate(whole[:7]) if at != 3]
    if "data__holdout_from" in other:
        stays = list(whole[:90])
    assert list(found or ()) == stays
    assert what.endswith(f"of B, {len(stays)} sentences")


def test_all_training_files_are_known(made, tmp_path, monkeypatch):
    monkeypatch.setenv("HANLATTICE_CACHE", str(tmp_path))
    models = [
        model_of(tmp_path / "a", made, data__more=str(tmp_path / "more.jsonl")),
        model_of(tmp_path / "b", made, data__train="@msra/train.bmes", data__more=""),
    ]
    assert training_files(models) == [made / "train.bmes", tmp_path / "more.jsonl"]
