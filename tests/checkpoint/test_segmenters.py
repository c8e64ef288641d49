"""Segmenters of every kind learn the made corpus, load as they were, and cut any text."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hanlattice.checkpoint import load as load_module
from hanlattice.checkpoint.checksums import record_digest, write_record
from hanlattice.checkpoint.folder import Model, save_frame, save_weights
from hanlattice.config import Config, make_config
from hanlattice.errors import ConfigError, ModelError
from hanlattice.nn.embeddings import TwoSources, WordEmbedding
from hanlattice.predict import Predictor, load
from hanlattice.text.span import WORD
from hanlattice.training.build import build
from hanlattice.training.loop import train
from tests.helpers.cutting import cutting_tree, in_words
from tests.helpers.made import GIVEN, PIECES, PLACES, SURNAMES, WIDTH, WORDS, sentences
from tests.helpers.strategies import any_character, shares_folder
from tests.helpers.untrained import write_untrained

KINDS: dict[str, dict[str, Any]] = {
    "char": {"model__encoder": "char"},
    "subwords": {"model__encoder": "lattice", "model__sources": "subwords"},
    "both": {"model__encoder": "lattice", "model__sources": "both"},
}
EXACT = ("http://t.cn/zW?a=1&b=2", "www.baidu.com", "a.b@qq.com", "👨‍👩‍👧‍👦", "👍🏽", "🇨🇳", "1️⃣")
UNCUT = ("Windows", "ＩＢＭ", "café", "don't", "3.14", "１９９８", "1,000,000")
CHINESE = [*SURNAMES, *GIVEN, *PLACES, *WORDS, *"，。在了！"]
WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F) if chr(code) not in ",!?;:()"} | {
    0x20: 0x3000
}

chinese = st.lists(st.sampled_from(CHINESE), min_size=1, max_size=6).map("".join)
spaces = st.sampled_from([" ", "\u3000", "\t", "\n", "\r\n", "\x85 "])
anything = st.lists(
    st.sampled_from([*CHINESE, *EXACT, *UNCUT]) | spaces | any_character, max_size=10
).map("".join)
few_examples = settings(shares_folder, max_examples=12)


def load_model(folder: Path, device: str = "cpu", fast: bool = False) -> Model:
    """Load with the modules of torch, and for NumPy too if the model's parts are all there."""
    load_module.load_model(folder, device, fast)
    return load_module.load_model(folder, device, fast, modules=True)


def config_of(kind: str, made: Path, folder: Path, **changes: Any) -> Config:
    """Writes the corpus too."""
    given_settings = {
        "model__hidden": 16,
        "train__epochs": 8,
        "subwords__vectors": str(made / "subwords.vec"),
    }
    return make_config(
        cutting_tree(made, folder, 120, **{**given_settings, **KINDS[kind], **changes})
    )


@pytest.fixture(scope="module", params=KINDS)
def folder(
    request: pytest.FixtureRequest, made: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A trained segmenter. Nobody writes into it."""
    work = tmp_path_factory.mktemp(request.param)
    return train(config_of(request.param, made, work), work / request.param).folder


@pytest.fixture(scope="module")
def segmenter(folder: Path) -> Predictor:
    return load(folder)


def cut(segmenter: Predictor, text: str) -> list[str]:
    return [text[span.start : span.end] for span in segmenter(text).spans]


# ---- training and disk


def test_it_learns(folder):
    model = load_model(folder)
    assert model.indexer.cuts
    assert model.indexer.tags == tuple(f"{place}-{WORD}" for place in "BMES")
    for part in ("dev", "test"):
        assert model.scores[part]["overall"]["f1"] >= 0.97
        assert model.scores[part]["segmentation"]["bakeoff"]["f1"] >= 0.97


def test_what_it_has(folder):
    """Vectors and a lexicon for each source, and no other."""
    model = load_model(folder)
    kind = folder.name
    lexicon = model.indexer.lexicon
    subwords = model.indexer.subwords
    words = model.tagger.words
    names = set(PIECES if kind == "subwords" else [*WORDS, *PLACES]) if kind != "char" else set()
    assert names <= set(lexicon or ())
    assert (folder / "lexicon.txt").exists() == (kind != "char") == (lexicon is not None)
    assert (folder / "subwords.txt").exists() == (kind == "both") == (subwords is not None)
    if kind == "both":
        assert isinstance(words, TwoSources)
        assert model.tagger.lexicon is words.words
        assert (words.words.dim, words.subwords.dim, words.dim) == (WIDTH, WIDTH - 3, 2 * WIDTH - 3)
        assert set(subwords or ()) == set(PIECES)
        assert (len(words.words), len(words.subwords)) == (len(lexicon or ()), len(PIECES))
    else:
        assert model.tagger.lexicon is words
        assert words is None if kind == "char" else isinstance(words, WordEmbedding)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_comes_back_equal(kind, made, tmp_path):
    config = config_of(kind, made, tmp_path)
    corpus = [in_words(sentence) for sentence in sentences(9, 3)]
    built = build(config, corpus)
    save_frame(tmp_path / "one", config, built.indexer, {})
    save_weights(tmp_path / "one", built.tagger.state_dict(), {})
    loaded = load_model(tmp_path / "one")
    save_frame(tmp_path / "two", loaded.config, loaded.indexer, loaded.data)
    save_weights(tmp_path / "two", loaded.tagger.state_dict(), loaded.scores)
    first, second = (sorted(folder.iterdir()) for folder in (tmp_path / "one", tmp_path / "two"))
    assert [file.name for file in first] == [file.name for file in second]
    for one, two in zip(first, second, strict=True):
        if one.name != "model.safetensors":  # whose header has no fixed order
            assert one.read_bytes() == two.read_bytes(), one.name
    batches = [
        indexer.examples(corpus).batch(range(9)) for indexer in (built.indexer, loaded.indexer)
    ]
    before = built.tagger.eval().emissions(batches[0])
    assert torch.equal(before, loaded.tagger.emissions(batches[1]))
    assert torch.equal(
        built.tagger.constrained_emissions(batches[0]),
        loaded.tagger.constrained_emissions(batches[1]),
    )


@pytest.fixture
def both_folder(made: Path, tmp_path: Path) -> Path:
    """An untrained model of both sources, to damage."""
    config = config_of("both", made, tmp_path)
    return write_untrained(
        tmp_path / "both", config, [in_words(sentence) for sentence in sentences(9, 3)]
    )


def rewrite_record(folder: Path, names: set[str]) -> None:
    """As if the model had been written with these files."""
    record = json.loads((folder / "config.json").read_text("utf-8"))
    for key in ("sha256", "files"):
        del record[key]
    write_record(folder / "config.json", record, sorted(names))


def test_subwords_that_are_missing_or_changed_are_told(both_folder):
    file = both_folder / "subwords.txt"
    record = json.loads((both_folder / "config.json").read_text("utf-8"))
    assert record.pop("sha256") == record_digest(record)
    content = file.read_text("utf-8")
    names = set(record["files"])
    file.unlink()
    with pytest.raises(ModelError, match=r"both: subwords\.txt is missing; copy the folder again"):
        load_model(both_folder)
    rewrite_record(both_folder, names - {"subwords.txt"})
    with pytest.raises(ModelError, match=r"has subwords\.txt, and its files lack it"):
        load_model(both_folder)
    file.write_text(content.partition("\n")[2], "utf-8")
    rewrite_record(both_folder, names)
    with pytest.raises(
        ModelError, match=f"{len(PIECES)} rows of vectors for {len(PIECES) - 1} subwords"
    ):
        load_model(both_folder)
    file.write_text(content, "utf-8")
    rewrite_record(both_folder, names)
    assert load_model(both_folder).indexer.subwords is not None


def test_a_word_model_cannot_find_words(made, tmp_path):
    corpus = [in_words(sentence) for sentence in sentences(9, 3)]
    config = config_of("char", made, tmp_path, model__encoder="word")
    with pytest.raises(ConfigError, match=r"model\.encoder=word reads words and cannot find them"):
        build(config, corpus)


# ---- any text


@few_examples
@given(text=anything, limit=st.sampled_from([5, 512]))
def test_every_character_but_white_space_is_in_one_word(
    segmenter: Predictor, text: str, limit: int
) -> None:
    document = Predictor(segmenter.model, limit)(text)
    assert document.text == text
    covered = chain.from_iterable(range(span.start, span.end) for span in document.spans)
    assert list(covered) == [at for at, character in enumerate(text) if not character.isspace()]
    for span in document.spans:
        assert (span.text, span.label) == (text[span.start : span.end], WORD)
        assert span.score is not None
        assert 0 < span.score <= 1


@few_examples
@given(
    text=st.lists(
        chinese | st.sampled_from(UNCUT) | st.text("aZ09.@/'-_ ", max_size=4), max_size=6
    ).map("".join)
)
def test_widths_are_cut_alike(segmenter: Predictor, text: str) -> None:
    half, wide = segmenter([text, text.translate(WIDE)])
    assert wide.text == text.translate(WIDE)
    assert [(s.start, s.end, s.score) for s in half.spans] == [
        (s.start, s.end, s.score) for s in wide.spans
    ]


@few_examples
@given(data=st.data())
def test_what_is_whole_stays_whole(segmenter: Predictor, data: st.DataObject) -> None:
    text = data.draw(chinese)
    exact = set()
    uncut = set()
    for thing in data.draw(st.lists(st.sampled_from([*EXACT, *UNCUT]), min_size=1, max_size=4)):
        (exact if thing in EXACT else uncut).add((len(text), len(text) + len(thing)))
        text += thing + data.draw(spaces | chinese)
    found = {(span.start, span.end) for span in segmenter(text).spans}
    assert exact <= found
    assert all(any(start <= low and high <= end for start, end in found) for low, high in uncut)


@few_examples
@given(parts=st.lists(chinese, min_size=1, max_size=3), space=spaces)
def test_it_does_not_matter_which_white_space_it_is(
    segmenter: Predictor, parts: list[str], space: str
) -> None:
    words = cut(segmenter, " ".join(parts))
    assert cut(segmenter, space.join(["", *parts, "", ""])) == words
    assert cut(segmenter, space.join(parts)) == words


@few_examples
@given(text=chinese, space=spaces, data=st.data())
def test_white_space_always_cuts(
    segmenter: Predictor, text: str, space: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(text)))
    words = cut(segmenter, text[:at] + space + text[at:])
    ends = {sum(map(len, words[:n])) for n in range(len(words) + 1)}
    assert "".join(words) == text
    assert at in ends


def test_without_scores_the_words_are_the_same(segmenter):
    texts = [
        "王小明 3.14在青石镇工作。",
        "",
        " \n",
        *(sentence.text for sentence in sentences(12, 9)),
    ]
    quick = list(segmenter.pipe(texts, batch_size=5, scores=False))
    assert [document.text for document in quick] == texts
    assert {span.score for document in quick for span in document.spans} == {None}
    for mine, theirs in zip(quick, segmenter(texts), strict=True):
        assert [(s.start, s.end, s.label, s.text) for s in mine.spans] == [
            (s.start, s.end, s.label, s.text) for s in theirs.spans
        ]


# ---- words that come later


def test_a_word_that_comes_later_has_a_vector_and_leaves_the_others_as_they_were(folder):
    if folder.name == "char":
        with pytest.raises(ModelError, match="no lexicon"):
            _ = load(folder).lexicon
        return
    segmenter = load(folder)
    model = segmenter.model
    old = "昨天王小明在南湖开会"
    first = 0 if model.indexer.subwords is None else len(model.indexer.subwords)
    words = model.tagger.words
    before = model.tagger.emissions(model.indexer.read([old]).batch([0]))
    count = len(segmenter.lexicon.words)
    assert words is not None
    rows = words.rows(np.arange(first + count))
    assert segmenter.lexicon.add("青石白沙")
    assert not segmenter.lexicon.add("青石白沙")
    segmenter("青石白沙")
    assert model.tagger.lexicon is not None
    assert len(model.tagger.lexicon) == count + 1
    matches = model.indexer.read(["在青石白沙"]).matches
    new = [
        (s, e)
        for s, e, word in zip(*(a.tolist() for a in matches[1:]), strict=True)
        if word == first + count
    ]
    assert new == [(1, 5)]
    after = words.rows(np.arange(first + count + 1))
    assert np.array_equal(after[:-1], rows)
    assert after[-1, : model.tagger.lexicon.dim].all()
    assert not after[-1, model.tagger.lexicon.dim :].any()  # the subwords' columns
    assert np.array_equal(model.tagger.emissions(model.indexer.read([old]).batch([0])), before)
