"""Distilling: means of the teachers' probabilities, and text drawn fairly and kept apart."""

from __future__ import annotations

import lzma
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanlattice.checkpoint.load import load_model
from hanlattice.config import make_config
from hanlattice.data.formats.jsonl import from_json_line, read_jsonl, write_jsonl
from hanlattice.errors import InputError, ModelError, OutputError
from hanlattice.inference.decode import tag_probabilities
from hanlattice.predict import load
from hanlattice.text.normalize import fold
from hanlattice.text.sentence import Sentence, SoftLabel
from hanlattice.text.span import Span
from hanlattice.text.tags import SCHEMES, illegal_places, spans_to_tags, tag_set
from hanlattice.training import distill as module
from hanlattice.training.distill import (
    LONGEST,
    SHARED,
    SHORTEST,
    Unlabelled,
    best_tags,
    distil,
    draw,
    is_usable,
    ngrams,
)
from tests.helpers.cutting import cutting_tree, in_words
from tests.helpers.made import made_config, sentences
from tests.helpers.untrained import write_untrained

HAN = (
    "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏"
    "闰余成岁律吕调阳云腾致雨露结为霜金生丽水玉出昆冈"
)


def line(at: int, size: int = 20) -> str:
    """A sentence of Han characters unlike all others of another number."""
    return "".join(chr(0x4E00 + 40 * at + place) for place in range(size - 1)) + "。"


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


@given(
    st.text(st.sampled_from("天地玄黄１A"), max_size=30),
    st.text(st.sampled_from("天地玄黄１A"), max_size=30),
)
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
        tmp_path / "a.txt",
        [lines[0] + lines[1], *lines[2:], lines[4], "short。", "no Chinese at all here."],
    )
    first = draw(Unlabelled((raw,), seed=1))
    assert sorted(first) == sorted(lines)
    assert first != lines
    assert draw(Unlabelled((raw,), seed=1)) == first
    other = draw(Unlabelled((raw,), seed=2))
    assert other != first
    assert sorted(other) == sorted(first)


def test_files_of_every_kind(tmp_path):
    plain = write_raw(tmp_path / "a.txt", [line(0), line(1)])
    packed = write_raw(tmp_path / "b.txt.xz", [line(2), line(1)])
    write_jsonl(
        tmp_path / "c.jsonl",
        [Sentence(line(3) + line(4), (Span(0, 2, "LOC"),)), Sentence(line(0), ())],
    )
    found = draw(Unlabelled((plain, packed, str(tmp_path / "c.jsonl"))))
    assert sorted(found) == sorted(map(line, range(5)))


def test_so_many_characters_of_each_file(tmp_path):
    lines = [[line(n * 100 + at) for at in range(50)] for n in range(2)]
    files = tuple(write_raw(tmp_path / f"{n}.txt", lines[n]) for n in range(2))
    for limit in (1, 20, 21, 100, 999):
        found = draw(Unlabelled(files, characters=limit))
        for some in lines:
            characters = sum(len(sentence) for sentence in found if sentence in some)
            assert limit <= characters < limit + 20  # the last sentence stays whole
    assert len(draw(Unlabelled(files, characters=10_000))) == len(draw(Unlabelled(files))) == 100
    chosen = {
        tuple(sorted(draw(Unlabelled(files, characters=100, seed=seed)))) for seed in (1, 2, 3)
    }
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
    found = draw(Unlabelled((raw,), apart=(str(tmp_path / "test.jsonl"),)))
    assert sorted(found) == sorted(line(at) for at in range(2, 6))


def test_text_of_which_nothing_can_serve_is_told(tmp_path):
    raw = write_raw(tmp_path / "a.txt", ["short", "in English, all of it."])
    with pytest.raises(
        InputError,
        match=r"a\.txt: no sentence can be used: expected 8 to 150 characters, mostly Chinese",
    ):
        draw(Unlabelled((raw,)))
    with pytest.raises(InputError, match=r"gone\.txt: cannot read"):
        draw(Unlabelled((raw, str(tmp_path / "gone.txt"))))


# ---- teachers


@pytest.fixture(scope="module")
def weak(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt nothing, and so is unsure of everything."""
    folder = tmp_path_factory.mktemp("models") / "weak"
    return write_untrained(
        folder, made_config(made, model__encoder="char", model__hidden=4), sentences(20, 3)
    )


@pytest.fixture(scope="module")
def cutter(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A segmenter that has learnt nothing."""
    folder = tmp_path_factory.mktemp("models")
    config = make_config(cutting_tree(made, folder))
    return write_untrained(
        folder / "cutter", config, [in_words(sentence) for sentence in sentences(9, 1)]
    )


def raw_text(path: Path, count: int, seed: int) -> str:
    """Sentences with white space here and there, which is not read, and so is never in doubt."""
    lines = [sentence.text for sentence in sentences(count, seed)]
    return write_raw(
        path, [line[:4] + " " + line[4:] if at % 3 else line for at, line in enumerate(lines)]
    )


@pytest.mark.parametrize("kind", ["entities", "words"])
def test_the_file_has_the_means_of_the_teachers(kind, lattice_folder, weak, cutter, made, tmp_path):
    raw = raw_text(tmp_path / "a.txt", 40, 21)
    folders = [lattice_folder, str(weak)] if kind == "entities" else [cutter]
    heard = []
    result = distil(folders, Unlabelled((raw,)), tmp_path / "out.jsonl", listen=heard.append)
    written = read_jsonl(tmp_path / "out.jsonl").sentences
    assert [sentence.text for sentence in written] == draw(Unlabelled((raw,)))
    models = [load(folder).model for folder in folders]
    for sentence in written:
        examples = [model.indexer.read([sentence.text]) for model in models]
        each = [
            tag_probabilities(m.tagger, m.indexer, e) for m, e in zip(models, examples, strict=True)
        ]
        mean = sum(each) / len(each)
        offsets = examples[0].offsets
        places = list(range(len(sentence.text))) if offsets is None else offsets.tolist()
        told = dict(
            zip(
                places,
                spans_to_tags(*_solid(sentence, places), models[0].indexer.scheme),
                strict=True,
            )
        )
        shares: dict[int, dict[str, float]] = {place: {tag: 1.0} for place, tag in told.items()}
        for place in {doubt.place for doubt in sentence.soft_labels}:
            shares[place] = {
                doubt.tag: doubt.share for doubt in sentence.soft_labels if doubt.place == place
            }
        for row, place in zip(mean, places, strict=True):
            for tag, share in zip(models[0].indexer.tags, row, strict=True):
                assert shares[place].get(tag, 0.0) == pytest.approx(share, abs=0.02)
    doubted = sum(len({doubt.place for doubt in sentence.soft_labels}) for sentence in written)
    size, spans = (
        sum(len(part) for part in parts)
        for parts in ((s.text for s in written), (s.spans for s in written))
    )
    assert result == (len(written), size, spans, doubted)
    assert doubted
    assert heard[-1] == {"event": "taught", "done": len(written), "size": len(written)}
    assert not list(tmp_path.glob(".*"))


def _solid(sentence: Sentence, places: list[int]) -> tuple[list[Span], int]:
    """The spans of a sentence by its characters that are read, and how many these are."""
    nth = {place: at for at, place in enumerate(places)}
    return [Span(nth[s.start], nth[s.end - 1] + 1, s.label) for s in sentence.spans or ()], len(
        places
    )


def test_a_teacher_alone_and_hard_is_what_it_finds(lattice_folder, tmp_path):
    raw = raw_text(tmp_path / "a.txt", 30, 22)
    distil([lattice_folder], Unlabelled((raw,)), tmp_path / "hard.jsonl", hard=True)
    hard = read_jsonl(tmp_path / "hard.jsonl").sentences
    found = load(lattice_folder)([s.text for s in hard])
    same = [
        set(sentence.spans or ()) == set(d.spans) for sentence, d in zip(hard, found, strict=True)
    ]
    assert sum(same) >= 0.9 * len(
        same
    )  # the best tagging, and the best by single probabilities, may differ
    assert not any(sentence.soft_labels for sentence in hard)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SCHEMES), st.integers(1, 5), st.integers(0, 10_000))
def test_the_best_tags_are_legal_and_the_best(scheme: str, length: int, seed: int) -> None:
    tags = tag_set("X", scheme)
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(tags)), length)
    legal = [
        way
        for way in product(range(len(tags)), repeat=length)
        if not illegal_places([tags[k] for k in way], scheme)
    ]
    best = max(legal, key=lambda way: sum(np.log(shares[at, k]) for at, k in enumerate(way)))
    assert best_tags(shares, np.array([length]), tags, scheme).tolist() == list(best)


def test_a_stopped_run_goes_on(lattice_folder, weak, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 7)
    raw = raw_text(tmp_path / "a.txt", 30, 23)
    text = Unlabelled((raw,))
    folders = [lattice_folder, weak]
    distil(folders, text, tmp_path / "whole.jsonl")

    def stop(event: dict[str, object]) -> None:
        if event["done"] == 14:
            raise KeyboardInterrupt

    out = tmp_path / "out.jsonl"
    with pytest.raises(KeyboardInterrupt):
        distil(folders, text, out, listen=stop)
    assert not out.exists()
    kept = {
        part: part.stat().st_mtime_ns for part in (tmp_path / ".out.jsonl.parts").glob("*.jsonl")
    }
    assert len(kept) == 2
    with pytest.raises(
        OutputError, match="parts of a stopped run with other teachers, text or options"
    ):
        distil(folders, text, out, hard=True)
    made_now: list[int] = []
    monkeypatch.setattr(
        module, "_taught", lambda *given, real=module._taught: made_now.append(1) or real(*given)
    )
    distil(folders, text, out)
    assert len(made_now) == -(-len(draw(text)) // 7) - 2
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_what_a_killed_run_left_does_not_stay(lattice_folder, tmp_path):
    """Killed as it wrote the end, and another as it removed its parts."""
    raw = raw_text(tmp_path / "a.txt", 30, 23)
    out = tmp_path / "o[u]t.jsonl"
    distil([lattice_folder], Unlabelled((raw,)), tmp_path / "whole.jsonl")
    (tmp_path / f".{out.name}.0123abcd.part").write_text("half")
    (tmp_path / f".{out.name}.parts").mkdir()
    (tmp_path / f".{out.name}.parts" / "000000.jsonl").write_text('{"text": "old", "spans": []}\n')
    distil([lattice_folder], Unlabelled((raw,)), out)
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert [path.name for path in tmp_path.iterdir() if out.name in path.name] == [out.name]


def test_what_cannot_teach_is_told_before_any_work(lattice_folder, cutter, made, tmp_path):
    raw = write_raw(tmp_path / "a.txt", [line(at) for at in range(4)])
    (tmp_path / "link").symlink_to(lattice_folder)
    named = [
        replace(s, spans=tuple(Span(p.start, p.end, "组织") for p in s.spans or ()))
        for s in sentences(20, 3)
    ]
    other = write_untrained(
        tmp_path / "other", made_config(made, model__encoder="char", model__hidden=4), named
    )
    heard: list[object] = []
    for folders, error, says in (
        ([lattice_folder, cutter], InputError, "cutter: this teacher has the tags B-WORD"),
        ([lattice_folder, tmp_path / "nowhere"], ModelError, "no such model folder"),
        ([lattice_folder, tmp_path / "link"], InputError, "link: this teacher is given twice"),
        (
            [lattice_folder, other],
            InputError,
            "other: this teacher has the tags O, B-组织, .* has O, B-LOC",
        ),
    ):
        with pytest.raises(error, match=says):
            distil(folders, Unlabelled((raw,)), tmp_path / "out.jsonl", listen=heard.append)
    assert not heard
    assert not list(tmp_path.glob("*out.jsonl*"))


def test_an_output_that_cannot_be_is_told_before_any_work(lattice_folder, tmp_path):
    raw = write_raw(tmp_path / "a.txt", [line(at) for at in range(4)])
    write_jsonl(tmp_path / "test.jsonl", [Sentence(line(5), ())])
    text = Unlabelled((raw,), apart=(str(tmp_path / "test.jsonl"),))
    heard = []
    kept = {
        path: path.read_bytes()
        for path in (Path(raw), tmp_path / "test.jsonl", lattice_folder / "README.md")
    }
    for out, error, says in (
        *((path, InputError, "the output is one of the files to read") for path in kept),
        (tmp_path, OutputError, "it is a folder, not a file"),
        (Path(raw) / "out.jsonl", OutputError, "cannot write"),
    ):
        with pytest.raises(error, match=says):
            distil([lattice_folder], text, out, listen=heard.append)
    assert not heard
    assert {path: path.read_bytes() for path in kept} == kept


# ---- the student


def test_doubts_are_learnt_and_survive_the_file(made, tmp_path):
    """A batch has the shares that the file says, and a student that learns them comes close."""
    tags = tag_set(["LOC", "PER"], "BMES")
    chance = np.random.default_rng(3)
    corpus = []
    for at, sentence in enumerate(sentences(12, 5)):
        places = (
            [place for place in range(len(sentence)) if chance.random() < 0.3] if at % 2 else []
        )
        rows = [(place, *chance.choice(len(tags), 2, replace=False).tolist()) for place in places]
        soft_labels = [
            SoftLabel(p, tags[k], share)
            for p, *two in rows
            for k, share in zip(two, (0.7, 0.3), strict=True)
        ]
        corpus.append(replace(sentence, soft_labels=tuple(soft_labels)))
    write_jsonl(tmp_path / "taught.jsonl", corpus)
    again = read_jsonl(tmp_path / "taught.jsonl").sentences
    assert [sentence.soft_labels for sentence in again] == [
        tuple(sorted(sentence.soft_labels)) for sentence in corpus
    ]
    model = load_model(
        write_untrained(tmp_path / "model", made_config(made, model__hidden=4), sentences(20, 3))
    )
    examples = model.indexer.examples(again)
    batch = examples.batch([5, 0, 3, 1])
    for row, at in enumerate([5, 0, 3, 1]):
        told = spans_to_tags(again[at].spans or (), len(again[at]), "BMES")
        for place, tag in enumerate(told):
            shares = {d.tag: d.share for d in again[at].soft_labels if d.place == place} or {
                tag: 1.0
            }
            wanted = [shares.get(name, 0.0) for name in model.indexer.tags]
            assert batch.shares[row, place].tolist() == pytest.approx(wanted)
        assert not batch.shares[row, len(told) :].any()
    assert model.indexer.examples(sentences(3, 5)).batch([0, 1]).shares is None
    with pytest.raises(
        InputError, match="the teachers had tags that this model has not: S-ORG; it has O, B-LOC"
    ):
        model.indexer.examples(
            [Sentence("天地", (), soft_labels=(SoftLabel(0, "S-ORG", 0.5), SoftLabel(0, "O", 0.5)))]
        )


@pytest.mark.parametrize(
    ("soft_labels", "says"),
    [
        (
            '[[0, {"O": 1.0}], 3]',
            r'"soft_labels" must be a list of characters with the shares of their tags',
        ),
        ('{"0": 1}', '"soft_labels" must be a list'),
        ('[[0, {"O": "1"}]]', '"soft_labels" must be a list'),
        ('[[true, {"O": 1}]]', '"soft_labels" must be a list'),
        ('[[0, {"O": 0.5}]]', "the shares of tags at character 0 must be above 0 and add up to 1"),
        ('[[0, {"O": 1.5, "S-LOC": -0.5}]]', "must be above 0"),
        ('[[9, {"O": 1.0}]]', "there can be no doubt about character 9 of 3"),
        ('[[1, {"O": 1.0}]]', "there can be no doubt about character 1 of 3, or it is white space"),
    ],
)
def test_doubts_that_cannot_be(soft_labels, says):
    with pytest.raises(InputError, match=says):
        from_json_line(f'{{"text": "天 地", "spans": [], "soft_labels": {soft_labels}}}')
