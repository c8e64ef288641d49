"""`hanlattice info`: the description of a model."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from hanlattice import checkpoint as shipped
from hanlattice.checkpoint.checksums import record_digest
from hanlattice.data.corpus import read_corpus
from hanlattice.features.indexer import words_of
from hanlattice.text.segment import make_segmenter
from hanlattice.text.vectors import read_vectors
from hanlattice.text.vocab import bigrams
from hanlattice.training.loop import train
from tests.helpers.command import hanlattice
from tests.helpers.made import made_config

QUICK = {"train__epochs": 1, "model__hidden": 4, "words__vectors": ""}
WORD = {"model__encoder": "word", **QUICK}
OLD = {
    "encoder",
    "labels",
    "scheme",
    "characters",
    "words",
    "parameters",
    "bytes",
    "seed",
    "character vectors",
}
OLD |= {"word vectors", "language model", "data", "scores", "config"}


def test_it_says_what_the_model_is(lattice_folder, made):
    outcome = hanlattice("info", lattice_folder)
    assert (outcome.code, outcome.err) == (0, "")
    for part in (
        "lattice LSTM–CRF",
        "LOC, PER",
        "BMES",
        str(made / "words.bin"),
        "120 sentences",
        "dev, epoch",
        "test, epoch",
        "100.00",
    ):
        assert part in outcome.text, part


def test_as_json(lattice_folder, char_folder):
    facts = json.loads(hanlattice("info", "--json", lattice_folder).text)
    assert facts.keys() == OLD | {
        "model",
        "bigrams",
        "segmenter",
        "bigram vectors",
        "subwords",
        "subword vectors",
        "transformer",
    }
    assert facts["encoder"] == "lattice"
    assert facts["model"] == "lattice LSTM–CRF"
    assert facts["labels"] == ["LOC", "PER"]
    assert facts["words"] > 30
    assert facts["data"]["train"]["sentences"] == 120
    assert len(facts["data"]["train"]["sha256"]) == 64
    assert facts["scores"]["test"]["overall"]["f1"] > 0.95
    assert facts["config"]["train"]["seed"] == 1
    assert facts["bytes"] == sum(file.stat().st_size for file in lattice_folder.iterdir())
    assert (facts["bigrams"], facts["segmenter"], facts["bigram vectors"]) == (0, "none", "none")
    assert (facts["subwords"], facts["subword vectors"]) == (0, "none")


def test_a_character_model_has_no_words_though_its_configuration_names_some(char_folder):
    facts = json.loads(hanlattice("info", "--json", char_folder).text)
    assert facts["config"]["words"]["vectors"]
    assert (facts["model"], facts["words"], facts["word vectors"]) == (
        "character LSTM–CRF",
        0,
        "none",
    )


def training_words(made: Path) -> set[str]:
    texts = [sentence.text for sentence in read_corpus(made / "train.bmes").sentences]
    return set(words_of(texts, make_segmenter("rjieba")(texts)))


def test_a_word_model(made, tmp_path):
    folder = train(made_config(made, **WORD), tmp_path / "run").folder
    facts = json.loads(hanlattice("info", "--json", folder).text)
    assert (facts["model"], facts["encoder"], facts["segmenter"]) == (
        "word LSTM–CRF",
        "word",
        "rjieba",
    )
    assert (facts["words"], facts["word vectors"]) == (len(training_words(made)), "random")
    assert (facts["characters"], facts["character vectors"]) == (0, "none")


def test_a_word_model_with_characters_and_bigrams(made, tmp_path):
    changes = {
        "model__char_features": "cnn",
        "model__bichar": True,
        "words__vectors": str(made / "words.bin"),
    }
    folder = train(made_config(made, **{**WORD, **changes}), tmp_path / "run").folder
    facts = json.loads(hanlattice("info", "--json", folder).text)
    assert facts["model"] == "word LSTM–CRF with characters by convolution, bigrams"
    assert facts["words"] == len(training_words(made) | set(read_vectors(made / "words.bin").words))
    assert (facts["word vectors"], facts["character vectors"]) == (
        str(made / "words.bin"),
        str(made / "chars.vec"),
    )
    met = {
        bigram
        for sentence in read_corpus(made / "train.bmes").sentences
        for bigram in bigrams(sentence.text)
    }
    assert (facts["bigrams"], facts["bigram vectors"]) == (len(met), "random")
    shown = hanlattice("info", folder).text
    for part in (
        "with characters by convolution, bigrams",
        "rjieba",
        f"{len(met)}",
        str(made / "words.bin"),
    ):
        assert part in shown, part


@pytest.mark.parametrize("pos", [False, True])
def test_softwords(pos, made, tmp_path):
    changes = {**QUICK, "model__encoder": "char", "model__softword": True, "softwords__pos": pos}
    folder = train(made_config(made, **changes), tmp_path / "run").folder
    shown = hanlattice("info", folder).text
    assert ("softwords, parts of speech" if pos else "with softwords") in shown
    assert ("parts of speech" in shown) == pos
    assert "rjieba" in shown


def test_another_version_of_the_segmenter_is_noted(made, tmp_path):
    """A segmenter of unknown version gives no note."""
    folder = train(made_config(made, **WORD), tmp_path / "run").folder
    record = json.loads((folder / "config.json").read_text("utf-8"))
    assert record["segmenter"] == {"name": "rjieba", "version": version("rjieba")}
    for then, noted in (("0.0.1", True), (version("rjieba"), False), (None, False)):
        del record["sha256"]
        record.pop("segmenter", None)
        record |= {"segmenter": {"name": "rjieba", "version": then}} if then else {}
        record["sha256"] = record_digest(record)
        (folder / "config.json").write_text(json.dumps(record), "utf-8")
        shown = hanlattice("info", "--json", folder)
        scored = hanlattice("evaluate", folder, made / "test.bmes")
        assert (shown.code, scored.code) == (0, 0)
        assert json.loads(shown.text).get("segmenter version") == then
        message = (
            "note: the model was trained with words by rjieba 0.0.1, "
            f"and rjieba {version('rjieba')} may cut otherwise"
        )
        assert [message in err for err in (shown.err, scored.err)] == [noted, noted]


def test_a_name_with_square_brackets_is_shown_as_it_is(lattice_folder, tmp_path):
    folder = Path(shutil.copytree(lattice_folder, tmp_path / "[bold]model[/x]"))
    assert "[bold]model[/x]" in hanlattice("info", folder).text


def test_it_is_called_by_its_folder_and_a_packed_one_says_whose_scores_it_has(
    lattice_folder, tmp_path, monkeypatch
):
    (tmp_path / "ner").symlink_to(lattice_folder)
    monkeypatch.setattr(shipped, "_FOLDER", tmp_path)
    assert hanlattice("info", "ner").text.splitlines()[0].strip() == str(tmp_path / "ner")
    # The name is longer than the table is wide.
    packed = tmp_path / ("long" * 30) / "a\x1b[1m"
    assert hanlattice("pack", "ner", "-o", packed).code == 0
    shown = hanlattice("info", packed).text
    assert "a\\x1b[1m" in shown
    assert "\x1b" not in shown
    for part in ("dev", "test"):
        assert f"{part} before packing, epoch" in shown
        assert f"{part}, epoch" not in shown


def test_no_model(tmp_path):
    hanlattice("info", tmp_path / "none").refused("none", "no such model folder")
    hanlattice("info", tmp_path).refused("config.json is missing")


@pytest.mark.parametrize("sources", ["words", "subwords", "both"])
def test_what_a_lattice_holds(sources, made, tmp_path):
    changes = {"model__sources": sources, "subwords__vectors": str(made / "subwords.vec")}
    folder = train(
        made_config(made, train__epochs=1, model__hidden=4, **changes), tmp_path / "run"
    ).folder
    facts = json.loads(hanlattice("info", "--json", folder).text)
    files = {"words": made / "words.bin", "subwords": made / "subwords.vec"}
    shown = hanlattice("info", folder).text
    card = (folder / "README.md").read_text("utf-8")
    for name, file in files.items():
        place = sources in (name, "both")
        assert facts[name] == (len(read_vectors(file).words) if place else 0)
        assert facts[f"{name[:-1]} vectors"] == (str(file) if place else "none")
        assert (str(file) in shown) == (str(file) in card) == place
