"""The bundled models are small, whole, found by name, and as good as their cards say."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from hanlattice.checkpoint import SHIPPED, find_model
from hanlattice.checkpoint.load import load_model
from hanlattice.data.corpus import read_corpus
from hanlattice.data.download import resolve
from hanlattice.errors import InputError, ModelError
from hanlattice.evaluation.ner import score
from hanlattice.evaluation.segmentation import score_segmentation
from hanlattice.inference.decode import decode
from hanlattice.predict import Predictor, load
from hanlattice.text.sentence import Sentence
from tests.helpers.corpora import find_corpus

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 16_000_000
F1 = {"ner": 0.942, "seg": 0.966}  # what a user was promised
each = pytest.mark.parametrize("name", SHIPPED)

ENTITIES = {
    "南京市长江大桥": [("南京市", "LOC"), ("长江大桥", "LOC")],
    "江泽民主席在北京会见了美国总统克林顿。": [
        ("江泽民", "PER"),
        ("北京", "LOC"),
        ("美国", "LOC"),
        ("克林顿", "PER"),
    ],
    "新华社记者李明从上海报道。": [("新华社", "ORG"), ("李明", "PER"), ("上海", "LOC")],
    "今天天气很好。": [],
    "": [],
}
WORDS = {
    "南京市长江大桥": "南京市 长江 大桥",
    "江泽民主席在北京会见了美国总统克林顿。": "江 泽民 主席 在 北京 会见 了 美国 总统 克林顿 。",
    "今天天气很好。": "今天 天气 很 好 。",
    "": "",
}


@pytest.fixture(scope="module")
def models() -> dict[str, Predictor]:
    """Read without a network. Nobody changes their lexicons."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a shipped model needs no network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", never)
        return {name: load(name) for name in SHIPPED}


def test_entities_are_found(models):
    documents = models["ner"](list(ENTITIES))
    assert [[(span.text, span.label) for span in document.spans] for document in documents] == list(
        ENTITIES.values()
    )
    assert all(0.5 < span.score <= 1 for document in documents for span in document.spans)


def test_scores_of_ner_are_fitted_on_news_and_posts(models):
    stored = models["ner"].model.scores["calibration"]
    assert [part["file"] for part in stored["fitted"]] == ["msra-dev.bmes", "weibo-dev.bmes"]
    assert {
        label: 0.6 < curve["slope"] < 0.9 for label, curve in stored["curves"].items()
    } == dict.fromkeys(("LOC", "ORG", "PER"), True)


@each
def test_indents_and_line_ends_change_nothing(models, name):
    texts = [text for text in ENTITIES if text]
    for plain, laid_out in zip(
        models[name](texts), models[name]([f"\u3000\u3000{t}\r\n" for t in texts]), strict=True
    ):
        assert [(s.start + 2, s.text, s.label) for s in plain.spans] == [
            (s.start, s.text, s.label) for s in laid_out.spans
        ]


def test_text_is_cut(models):
    documents = models["seg"](list(WORDS))
    assert [" ".join(span.text for span in document.spans) for document in documents] == list(
        WORDS.values()
    )


@each
def test_it_is_small_enough_and_has_a_card(name):
    folder = find_model(name)
    assert sum(file.stat().st_size for file in folder.rglob("*")) <= LARGEST
    assert {file.name for file in folder.iterdir()} == {
        "README.md",
        "chars.txt",
        "config.json",
        "lexicon.txt",
        "model.safetensors",
    }
    card = (folder / "README.md").read_text("utf-8")
    for part in (
        f"# {name}\n",
        "## Data",
        "## Scores",
        "| test |",
        "## How it was made",
        "## Limits",
    ):
        assert part in card


@each
@pytest.mark.parametrize("file", ["config.json", "README.md", "model.safetensors"])
def test_no_path_of_the_machine_that_made_it_is_in_it(name, file):
    content = (find_model(name) / file).read_bytes()
    if file == "model.safetensors":
        content = content[: 8 + int.from_bytes(content[:8], "little")]  # names, and the scores
    for place in (b"/tmp", b"/work", b"/home", b"/root", b"/mnt"):
        assert place not in content


@each
def test_its_card_says_what_its_weights_say(models, name):
    test = models[name].model.scores["test"]
    assert test["overall"]["f1"] >= F1[name]
    assert f"{100 * test['overall']['f1']:.2f}" in (find_model(name) / "README.md").read_text(
        "utf-8"
    )


def test_a_new_word_has_a_vector_at_once(models, monkeypatch):
    """Nothing has to be learnt first: how vectors are composed is in the file."""

    def never(*_: object) -> None:
        raise AssertionError("it learns to compose though the file says how")

    monkeypatch.setattr("hanlattice.checkpoint.lexicon_vectors.learn_from", never)
    for name in SHIPPED:
        model = models[name].model
        assert model.composer is not None
        lexicon, table = model.indexer.lexicon, model.tagger.lexicon
        assert lexicon is not None
        assert table is not None
        count = len(lexicon.words)
        assert lexicon.add("龙泉青石谷")
        try:
            models[name]("龙泉青石谷")
            assert len(table) == count + 1
            new = table.rows(np.array([count]))
            others = table.rows(np.arange(count))
            assert 0.1 < np.linalg.norm(new) / np.linalg.norm(others, axis=1).mean() < 2
        finally:
            lexicon.remove("龙泉青石谷")


@each
def test_a_folder_of_ones_own_with_its_name(name, lattice_folder, tmp_path, monkeypatch):
    (tmp_path / name).symlink_to(lattice_folder)
    monkeypatch.chdir(tmp_path)
    shipped = find_model(name)
    own = load_model(lattice_folder).indexer.tags
    assert shipped.is_absolute()
    assert shipped != tmp_path / name
    for given in (f"./{name}", f"{name}/", str(tmp_path / name), Path(name), tmp_path / name):
        assert find_model(given).resolve() == lattice_folder.resolve()
        assert load(given).model.indexer.tags == own


def test_names_that_are_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = "ner and seg are bundled with the package; name any other model by its folder"
    for given in ("NER", "ner2", "nee"):
        with pytest.raises(ModelError, match=f"^{given}: there is no such model folder; {wanted}$"):
            load(given)
    with pytest.raises(ModelError, match=f"^the model's name is empty: {wanted}$"):
        load("")
    for given in ("./nee", "nee/", Path("nee"), str(tmp_path / "nee")):
        assert find_model(given) == Path(given)
        with pytest.raises(ModelError, match=r"nee: there is no such model folder$"):
            load(given)


@pytest.mark.parametrize("builder", [WheelBuilder, SdistBuilder])
def test_they_are_in_what_is_installed(builder):
    made = builder(str(ROOT))
    files = {file.distribution_path for file in made.recurse_included_files()}
    first = "src/" if builder is SdistBuilder else ""
    for name in SHIPPED:
        for file in find_model(name).iterdir():
            assert f"{first}hanlattice/shipped/{name}/{file.name}" in files


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@each
def test_a_gpu_finds_the_same(models, name):
    texts = [*ENTITIES, *WORDS, "阿里巴巴集团创始人马云出生于浙江杭州。" * 20]
    for found, expected in zip(load(name, "cuda")(texts), models[name](texts), strict=True):
        assert [(s.start, s.end, s.label) for s in found.spans] == [
            (s.start, s.end, s.label) for s in expected.spans
        ]
        scores = [s.score for s in found.spans]
        assert scores == pytest.approx([s.score for s in expected.spans], abs=1e-4)


# ---- scores, where the test files are


def labelled(name: str) -> tuple[Sentence, ...]:
    if name == "seg":
        return read_corpus(find_corpus("cws/pku/test.txt"), format="segmented").sentences
    try:
        return read_corpus(resolve("@msra/test.bmes")).sentences
    except InputError as error:
        pytest.skip(str(error))


def f1(model: Predictor, sentences: tuple[Sentence, ...]) -> float:
    """As `hanlattice evaluate` counts: a sentence is read whole, however long it is."""
    indexer = model.model.indexer
    found = decode(model.model.tagger, indexer, indexer.examples(sentences))
    gold = [sentence.spans or () for sentence in sentences]
    if not indexer.cuts:
        return score(gold, found).overall.f1
    return score_segmentation([sentence.text for sentence in sentences], gold, found).bakeoff.f1


@each
def test_some_of_the_test_file(models, name):
    assert f1(models[name], labelled(name)[: {"ner": 300, "seg": 100}[name]]) > F1[name] - 0.02


@pytest.mark.slow
@each
def test_all_of_the_test_file(models, name):
    found = f1(models[name], labelled(name))
    assert found >= F1[name]
    scores = models[name].model.scores["test"]
    stated = scores["segmentation"]["bakeoff"]["f1"] if name == "seg" else scores["overall"]["f1"]
    assert found == pytest.approx(stated, abs=1e-4)
