"""A segmentation model cuts words for softwords and word models, and is recorded."""

from __future__ import annotations

import pickle
import re
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.checkpoint.load import ModelSegmenter, load_model, make_segmenter
from hanlattice.checkpoint.segmenter import segmenter_version
from hanlattice.config import Config, make_config
from hanlattice.data.corpus import read_corpus
from hanlattice.errors import HanlatticeError, ModelError
from hanlattice.features.indexer import words_of
from hanlattice.inference.decode import LIMIT
from hanlattice.lab.compare.job import identity
from hanlattice.predict import Predictor, load
from hanlattice.text.normalize import fold
from hanlattice.text.segment import Cuts
from hanlattice.text.vectors import read_vectors
from hanlattice.training.corpora import read_corpora
from hanlattice.training.loop import _identity, train
from hanlattice.training.pack import pack
from tests.helpers.command import hanlattice
from tests.helpers.cutting import cutting_tree, in_words
from tests.helpers.made import made_config, sentences
from tests.helpers.untrained import in_twos, write_untrained

texts = st.lists(st.text(st.sampled_from("王小明在南湖工作，。 \u3000\nＡ1")), max_size=5)


@pytest.fixture(scope="module")
def cutter(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained segmenter. Nobody writes into it."""
    folder = tmp_path_factory.mktemp("cutter")
    return train(make_config(cutting_tree(made, folder)), folder / "model").folder


@pytest.fixture(scope="module")
def predictor(cutter: Path) -> Predictor:
    return load(cutter)


def words(cuts: Cuts) -> list[list[tuple[int, int]]]:
    rows = iter(zip(cuts.start.tolist(), cuts.end.tolist(), strict=True))
    return [[next(rows) for _ in range(count)] for count in cuts.counts.tolist()]


def spans_and_gaps(predictor: Predictor, text: str) -> list[tuple[int, int]]:
    found = []
    at = 0
    for span in predictor(text).spans:
        found += [*((place, place + 1) for place in range(at, span.start)), (span.start, span.end)]
        at = span.end
    return [*found, *((place, place + 1) for place in range(at, len(text)))]


@given(texts)
def test_its_words_are_those_of_the_model(cutter, predictor, some):
    """White space between words is cut into characters; an empty text has no words."""
    cuts = ModelSegmenter(cutter)(some)
    assert words(cuts) == [spans_and_gaps(predictor, text) for text in some]
    assert "".join(words_of(some, cuts)) == "".join(words_of(some, make_segmenter("rjieba")(some)))


def test_a_long_text_is_cut_like_any_other(cutter, predictor):
    text = "王小明在南湖工作" * (2 * LIMIT // 7)
    assert words(ModelSegmenter(cutter)([text])) == [spans_and_gaps(predictor, text)]


def test_the_bundled_one():
    texts = ["我们在南京市长江大桥。", ""]
    assert [*words_of(texts, make_segmenter("seg")(texts))] == [
        "我们",
        "在",
        "南京市",
        "长江",
        "大桥",
        "。",
    ]


def test_it_is_loaded_once_and_changes_no_random_number(cutter, tmp_path):
    folder = Path(shutil.copytree(cutter, tmp_path / "copy"))
    state = torch.random.get_rng_state()
    first = ModelSegmenter(folder)
    first(["南湖"])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert ModelSegmenter(str(folder)).model is first.model
    again = pickle.loads(pickle.dumps(first))
    assert "model" not in vars(again)
    assert words(again(["王小明在南湖"])) == words(first(["王小明在南湖"]))
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.unlink()
    weights.write_bytes(content)  # as another training would
    assert ModelSegmenter(folder).model is not first.model


def softwords(made: Path, cutter: Path | str, **changes) -> Config:
    quick = {
        "model__encoder": "char",
        "model__softword": True,
        "model__hidden": 4,
        "train__epochs": 1,
    }
    return made_config(made, segment__by=str(cutter), **{**quick, **changes})


@pytest.mark.parametrize("by", ["jieba", "ner", "", "gold reader"])
def test_what_is_no_segmenter(by, made, tmp_path, monkeypatch):
    """Is refused before any work."""
    monkeypatch.chdir(tmp_path)
    changes = {"model__softword": True, "segment__by": "gold"}
    if by == "gold reader":
        gold = [in_twos(in_words(sentence)) for sentence in sentences(20, 1)]
        write_untrained(tmp_path / by, make_config(cutting_tree(made, tmp_path, **changes)), gold)
    says = {
        "jieba": "jieba: there is no such model folder; ner and seg are bundled",
        "ner": "its spans are LOC, ORG, PER: "
        "expected a segmentation model, whose words cover the text",
        "": "must be rjieba, gold, seg or the folder",
        "gold reader": "it reads words itself, by gold: "
        "expected a segmentation model that reads text",
    }[by]
    with pytest.raises(
        HanlatticeError, match=f"segment.by must be.*{re.escape(says)}" if by else says
    ):
        train(softwords(made, by), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_parts_of_speech_are_refused(made, cutter, tmp_path):
    config = softwords(made, cutter, softwords__pos=True)
    with pytest.raises(
        HanlatticeError, match=r"softwords.pos is unused with segment.by=.*: switch it off"
    ):
        train(config, tmp_path / "run")


@pytest.mark.parametrize("encoder", ["char", "word"])
def test_a_model_whose_words_it_cuts(encoder, made, cutter, predictor, tmp_path):
    """Training, evaluation and raw text have the same words, and the folder says whose they are."""
    config = softwords(
        made, cutter, model__encoder=encoder, model__softword=encoder == "char", train__epochs=2
    )
    folder = train(config, tmp_path / "run").folder
    model = load_model(folder)
    assert dict(model.segmenter) == {"name": str(cutter), "version": segmenter_version(str(cutter))}
    assert re.fullmatch("sha256:[0-9a-f]{12}", model.segmenter["version"])
    test = read_corpus(made / "test.bmes").sentences[:5]
    examples = model.indexer.examples(test)
    expected = [spans_and_gaps(predictor, sentence.text) for sentence in test]
    if encoder == "word":
        assert examples.segments is not None
        assert words(Cuts(*examples.segments[:3])) == expected
        met = {
            text
            for s in read_corpus(made / "train.bmes").sentences
            for text in predictor_words(predictor, s.text)
        }
        assert model.indexer.words is not None
        assert {*model.indexer.words.symbols[1:]} == met | {*read_vectors(made / "words.bin").words}
    else:
        places = [place for row in expected for start, end in row for place in letters(end - start)]
        assert ["BMES"[at] for at in examples.extra_ids["positions"].tolist()] == places
    shown = hanlattice("info", folder)
    scored = hanlattice("evaluate", folder, made / "test.bmes")
    assert (shown.code, scored.code) == (0, 0)
    assert str(cutter) in shown.text
    assert "may cut otherwise" not in shown.err + scored.err


def predictor_words(predictor: Predictor, text: str) -> list[str]:
    return [fold(text)[start:end] for start, end in spans_and_gaps(predictor, text)]


def letters(size: int) -> str:
    return "S" if size == 1 else "B" + "M" * (size - 2) + "E"


def test_another_or_no_segmenter_in_its_place(made, cutter, tmp_path):
    """Another one is noted; without one the model can be shown, and cannot read text."""
    place = Path(shutil.copytree(cutter, tmp_path / "cutter"))
    folder = write_untrained(tmp_path / "soft", softwords(made, place), sentences(20, 1))
    assert load_model(folder).other_segmenter() == ""
    then = segmenter_version(str(place))
    shutil.rmtree(place)
    write_untrained(
        place, make_config(cutting_tree(made, tmp_path)), [*map(in_words, sentences(20, 1))]
    )
    now = segmenter_version(str(place))
    message = (
        f"the model was trained with words by {place} {then}, and {place} {now} may cut otherwise"
    )
    assert then != now
    assert load_model(folder).other_segmenter() == message
    assert (
        pack(folder, tmp_path / "packed").other_segmenter() == message
    )  # as of when it was trained
    shutil.rmtree(place)
    assert segmenter_version(str(place)) is None
    shown = hanlattice("info", folder)
    tagged = hanlattice("tag", "-m", folder, "南湖")
    assert (shown.code, tagged.code) == (0, 2)
    assert (
        f"the segmenter {place}, by which this model cuts text, fails: {place}: "
        "there is no such model" in tagged.err
    )


def test_records_of_runs_know_the_content_of_the_folder(made, cutter, tmp_path):
    place = Path(shutil.copytree(cutter, tmp_path / "cutter"))
    config = softwords(made, place)
    corpora = read_corpora(config.data)
    first = identity(config)["files"]["segment.by"], _identity(config, corpora)
    assert first[0] == segmenter_version(str(cutter))
    with (place / "model.safetensors").open("ab") as file:
        file.write(b"0")
    assert not {*first} & {identity(config)["files"]["segment.by"], _identity(config, corpora)}
    assert "segment.by" not in identity(made_config(made, model__softword=True))["files"]
    assert "segment.by" not in identity(softwords(made, place, model__softword=False))["files"]


def test_a_packed_model_finds_its_segmenter(made, cutter, tmp_path):
    folder = write_untrained(tmp_path / "soft", softwords(made, cutter), sentences(20, 1))
    packed = pack(folder, tmp_path / "packed")
    assert packed.config.segment.by == str(cutter)
    assert load(tmp_path / "packed")("王小明在南湖") == load(folder)("王小明在南湖")


def test_a_segmenter_cut_by_a_segmenter(made, cutter, tmp_path):
    """It may read softwords, but not to cut for others: else two could wait for each other."""
    changes = {"model__softword": True, "segment__by": str(cutter)}
    second = train(
        make_config(cutting_tree(made, tmp_path, **{**changes, "train__epochs": 1})), tmp_path / "b"
    ).folder
    assert load(second)("王小明在南湖").spans
    with pytest.raises(ModelError, match="it reads words itself, by "):
        train(softwords(made, second), tmp_path / "c")
