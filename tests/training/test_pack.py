"""Packing keeps the words that count, shrinks numbers, and the model finds what it found."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hanlattice.checkpoint.checksums import load_tensors
from hanlattice.checkpoint.folder import Model
from hanlattice.checkpoint.load import load_model
from hanlattice.config import make_config
from hanlattice.data.corpus import read_corpus
from hanlattice.data.formats.columns import write_columns
from hanlattice.data.formats.jsonl import write_jsonl
from hanlattice.errors import InputError, ModelError, OutputError
from hanlattice.evaluation.ner import score
from hanlattice.predict import Predictor, load
from hanlattice.training import pack as module
from hanlattice.training.card import about_of
from hanlattice.training.loop import train
from hanlattice.training.pack import OF_ANOTHER, pack, without_places
from tests.helpers.cutting import cutting_tree
from tests.helpers.made import made_config, sentences
from tests.helpers.untrained import in_twos, write_untrained

TEXTS = [sentence.text for sentence in sentences(40, 11)]


def found(model: Model) -> list[list[tuple[int, int, str]]]:
    return [
        [(s.start, s.end, s.label) for s in document.spans] for document in Predictor(model)(TEXTS)
    ]


def emissions(model: Model) -> torch.Tensor:
    return torch.as_tensor(
        model.tagger.emissions(model.indexer.read(TEXTS).batch(range(len(TEXTS))))
    ).detach()


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return load_tensors(folder / "model.safetensors")[0]


def size(folder: Path) -> int:
    return (folder / "model.safetensors").stat().st_size


@pytest.mark.parametrize("precision", ["full", "half", "small"])
def test_it_finds_the_same(lattice_folder, tmp_path, precision):
    model = load_model(lattice_folder)
    packed = pack(lattice_folder, tmp_path / "out", precision=precision)
    assert found(packed) == found(load_model(tmp_path / "out")) == found(model)
    assert packed.indexer.lexicon.words == model.indexer.lexicon.words
    assert packed.config == make_config(without_places(model.config.as_dict()))
    before = {part: model.scores[part] for part in ("dev", "test")}
    assert packed.scores == {"epoch": model.scores["epoch"], "before_packing": before}
    assert packed.data == {**without_places(model.data), "packed": {"precision": precision}}
    limit = {"full": 0.0, "half": 0.02, "small": 1.0}[precision]
    assert (emissions(packed) - emissions(model)).abs().max() <= limit
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "README.md",
        "chars.txt",
        "config.json",
        "lexicon.txt",
        "model.safetensors",
    }


def test_smaller_is_smaller(lattice_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FINE", 10)
    for precision in ("small", "half", "full"):
        pack(lattice_folder, tmp_path / precision, precision=precision)
    assert size(tmp_path / "small") < size(tmp_path / "half") < size(tmp_path / "full")
    full = tensors(tmp_path / "full")
    small = tensors(tmp_path / "small")
    words = len(load_model(lattice_folder).indexer.lexicon)
    assert full["words.fixed"].dtype == torch.half  # as training left it
    assert {name: full[name].dtype for name in tensors(lattice_folder)} == {
        name: tensor.dtype for name, tensor in tensors(lattice_folder).items()
    }
    assert small["words.trained"].shape == (10, 8)
    assert small["words.trained"].dtype == torch.int8
    assert small["words.fixed"].shape == (words - 10, 4)
    assert small["words.fixed"].dtype == torch.uint8
    spans = [read.spans for read in sentences(40, 11)]
    assert score(spans, [d.spans for d in load(tmp_path / "small")(TEXTS)]).overall.f1 > 0.9


def test_the_first_words_are_kept(lattice_folder, tmp_path):
    model = load_model(lattice_folder)
    packed = pack(lattice_folder, tmp_path / "out", words=9, precision="full")
    assert packed.indexer.lexicon.words == model.indexer.lexicon.words[:9]
    rows = np.arange(9)
    assert np.array_equal(packed.tagger.lexicon.rows(rows), model.tagger.lexicon.rows(rows))
    removed = load(lattice_folder)
    for word in model.indexer.lexicon.words[9:]:
        removed.lexicon.remove(word)
    assert found(packed) == found(removed.model)  # as if the user had taken the others out
    everything = pack(lattice_folder, tmp_path / "all", words=10_000)
    assert everything.indexer.lexicon.words == model.indexer.lexicon.words


def test_new_words_get_the_vectors_that_all_words_say(lattice_folder, tmp_path, monkeypatch):
    """Also where few are kept: the file has what was learnt from all of them."""
    few = pack(lattice_folder, tmp_path / "few", words=5)
    whole = pack(lattice_folder, tmp_path / "whole")
    for name, tensor in few.composer.tensors().items():
        assert np.array_equal(tensor, whole.composer.tensors()[name]), name
    monkeypatch.setattr("hanlattice.checkpoint.lexicon_vectors.learn_from", None)
    tagger = Predictor(few)
    tagger.lexicon.add("青石镇")
    tagger("王小明在青石镇工作。")
    assert few.tagger.lexicon.rows(np.array([5])).any()


@pytest.mark.parametrize("precision", ["small", "half"])
def test_a_packed_model_packs_again(lattice_folder, tmp_path, precision):
    first = pack(lattice_folder, tmp_path / "a", precision=precision)
    again = pack(tmp_path / "a", tmp_path / "b", precision=precision)
    assert found(again) == found(first)
    torch.testing.assert_close(emissions(again), emissions(first), rtol=0.02, atol=0.02)
    assert size(tmp_path / "b") == size(tmp_path / "a")
    for name, tensor in again.composer.tensors().items():
        assert np.array_equal(tensor, first.composer.tensors()[name])
    fewer = pack(tmp_path / "b", tmp_path / "c", words=4, precision="full")
    assert fewer.indexer.lexicon.words == first.indexer.lexicon.words[:4]


KINDS: dict[str, dict[str, Any]] = {
    "two sources": {"model__sources": "both"},
    "subwords": {"model__sources": "subwords"},
    "bigrams": {"model__bichar": True},
    "characters": {"model__encoder": "char"},
    "words": {"model__encoder": "word", "model__char_features": "lstm"},
    "softwords": {"model__encoder": "lattice", "model__softword": True, "softwords__pos": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model(kind, made, tmp_path):
    config = made_config(
        made, subwords__vectors=str(made / "subwords.vec"), model__hidden=6, **KINDS[kind]
    )
    folder = write_untrained(tmp_path / "model", config, sentences(20, 1))
    model = load_model(folder)
    assert torch.equal(
        emissions(pack(folder, tmp_path / "full", precision="full")), emissions(model)
    )
    small = pack(folder, tmp_path / "small")
    assert (emissions(small) - emissions(model)).abs().max() < 0.3
    assert (tmp_path / "small" / "README.md").exists()
    if model.indexer.lexicon is None:
        assert small.composer is None
        with pytest.raises(
            InputError, match="this model has no lexicon, so there are no words to leave out"
        ):
            pack(folder, tmp_path / "few", words=5)
        assert not (tmp_path / "few").exists()
        return
    few = pack(folder, tmp_path / "few", words=5)
    assert few.indexer.lexicon.words == model.indexer.lexicon.words[:5]
    assert len(few.tagger.lexicon) == 5
    if kind == "two sources":
        assert few.indexer.subwords.words == model.indexer.subwords.words
    emissions(few)


def test_the_language_model_is_that_of_the_models_own_folder(made, lm_folder, tmp_path):
    """The folder that the configuration names may be gone, or another one by now."""
    copied = Path(shutil.copytree(lm_folder, tmp_path / "lm"))
    config = made_config(made, lm__model=str(copied), model__hidden=6)
    folder = write_untrained(tmp_path / "model", config, sentences(20, 1))
    shutil.rmtree(copied)
    packed = pack(folder, tmp_path / "out", precision="full")
    assert torch.equal(emissions(packed), emissions(load_model(folder)))
    for file in (folder / "lm").iterdir():
        assert (tmp_path / "out" / "lm" / file.name).read_bytes() == file.read_bytes()


# ---- scores


def test_the_card_has_the_scores_of_what_was_written(lattice_folder, tmp_path):
    write_columns(tmp_path / "other.bmes", [*sentences(25, 12), *sentences(3, 13)])
    packed = pack(lattice_folder, tmp_path / "out", words=3, test=str(tmp_path / "other.bmes"))
    corpus = read_corpus(tmp_path / "other.bmes").sentences
    documents = load(tmp_path / "out")([sentence.text for sentence in corpus])
    report = score(
        [sentence.spans for sentence in corpus], [document.spans for document in documents]
    ).as_dict()
    assert packed.scores["test"] == report
    assert packed.scores["before_packing"] == {"dev": load_model(lattice_folder).scores["dev"]}
    assert "dev" not in packed.scores
    assert packed.data["test"]["sentences"] == 28
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert f"| {100 * report['overall']['f1']:.2f} | {report['overall']['gold']} |" in card
    assert "| test | other.bmes | 28 |" in card
    assert "- packed: precision small, 3 words kept\n" in card
    own, before = card.split("### Before packing")
    assert ("| test | precision" in own, "| dev | precision" in own) == (True, False)
    assert ("| test | precision" in before, "| dev | precision" in before) == (False, True)


def test_without_a_test_no_score_is_its_own(lattice_folder, char_folder, tmp_path):
    scores = load_model(lattice_folder).scores
    once = pack(lattice_folder, tmp_path / "once", precision="half")
    again = pack(tmp_path / "once", tmp_path / "again", words=4, about="## Made by hand\n")
    for packed in (once, again):
        assert packed.scores == {
            "epoch": scores["epoch"],
            "before_packing": {"dev": scores["dev"], "test": scores["test"]},
        }
    card = (tmp_path / "again" / "README.md").read_text("utf-8")
    own, before = card.split("### Before packing")
    assert "precision | recall" not in own
    assert before.count("precision | recall") == 2
    assert card.endswith("\n## Made by hand\n")
    assert "- packed: precision half, then small, 4 words kept\n" in own
    pack(char_folder, tmp_path / "char")
    assert "- packed: precision small\n" in (tmp_path / "char" / "README.md").read_text("utf-8")


def test_what_a_packed_model_scored_is_not_what_it_scores_when_it_is_packed_again(
    lattice_folder, tmp_path
):
    """Nor is it a score from before packing: those are of the model as it was trained."""
    write_columns(tmp_path / "other.bmes", sentences(25, 12))
    trained = load_model(lattice_folder).scores
    once = pack(lattice_folder, tmp_path / "once", words=3, test=str(tmp_path / "other.bmes"))
    assert once.scores["test"] != trained["test"]
    untold = pack(tmp_path / "once", tmp_path / "untold", words=2, precision="full")
    assert untold.scores == {"epoch": trained["epoch"], "before_packing": {"dev": trained["dev"]}}
    assert untold.data["packed"] == {"precision": "full", "before": ["small"]}
    assert "test" not in untold.data  # no score of it is left
    card = (tmp_path / "untold" / "README.md").read_text("utf-8")
    own, before = card.split("### Before packing")
    assert (
        "precision | recall" in own,
        "| test |" in card,
        before.count("precision | recall"),
    ) == (False, False, 1)
    assert before.startswith("\n\nOf the trained model, before it was first packed.\n")
    told = pack(tmp_path / "untold", tmp_path / "told", test=str(tmp_path / "other.bmes"))
    documents = load(tmp_path / "told")([sentence.text for sentence in sentences(25, 12)])
    gold = [sentence.spans for sentence in sentences(25, 12)]
    assert told.scores["test"] == score(gold, [document.spans for document in documents]).as_dict()
    assert told.scores["before_packing"] == {"dev": trained["dev"]}
    assert told.data["packed"] == {"precision": "small", "before": ["small", "full"]}
    assert "- packed: precision small, then full, then small, 2 words kept\n" in (
        (tmp_path / "told" / "README.md").read_text("utf-8")
    )


def test_the_makers_text_is_kept_until_there_is_another(lattice_folder, tmp_path):
    said = "## Limits\n\n| a | b |\n|---|---|\n| c | d |\n\n../News."
    pack(lattice_folder, tmp_path / "a", about=f"\n{said}\n\n")
    assert (tmp_path / "a" / "README.md").read_text("utf-8").endswith(f"|\n\n{said}\n")
    kept = f"{OF_ANOTHER}\n\n{said}"
    for source, about, expected in (
        ("a", None, kept),
        ("ab", None, kept),
        ("abb", "../Law", "../Law"),
        ("abb", "", ""),
    ):
        out = tmp_path / f"{source}{'b' if about is None else 'c' if about else 'd'}"
        packed = pack(tmp_path / source, out, about=about)
        assert about_of(packed) == expected
        assert ("about" in packed.data["packed"]) == bool(expected)
        card = (out / "README.md").read_text("utf-8")
        assert (card.count("News."), card.count("Law")) == (expected == kept, expected == "../Law")
    (
        tmp_path / "abb" / "README.md"
    ).unlink()  # the text is in the model's data, not read from its card
    assert about_of(pack(tmp_path / "abb", tmp_path / "without card")) == kept


@pytest.fixture(scope="module")
def cutter(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("cutter")
    tree = cutting_tree(
        made, work, train__epochs=1, model__encoder="lattice", data__format="segmented"
    )
    return train(make_config(tree), work / "model").folder


def test_of_a_segmenter_words_that_train_lacks_are_counted_where_train_is_there(cutter, tmp_path):
    test = str(cutter.parent / "test.seg")
    gold = cutter.parent / "train.seg"
    known = pack(cutter, tmp_path / "known", precision="full", test=test).scores["test"]
    assert known == load_model(cutter).scores["test"]
    assert known["segmentation"]["oov"]["gold"] > 0
    gold.rename(tmp_path / "elsewhere")
    try:
        unknown = pack(cutter, tmp_path / "unknown", precision="full", test=test).scores["test"]
    finally:
        (tmp_path / "elsewhere").rename(gold)
    assert unknown["segmentation"].get("oov") is None
    assert unknown["segmentation"]["bakeoff"] == known["segmentation"]["bakeoff"]
    assert unknown["overall"] == known["overall"]
    assert "bakeoff" in (tmp_path / "unknown" / "README.md").read_text("utf-8")


# ---- what goes wrong


def test_places_of_its_makers_machine_stay_there(lattice_folder, tmp_path):
    before = load_model(lattice_folder)
    assert Path(before.config.data.train).is_absolute()
    packed = pack(lattice_folder, tmp_path / "p")
    assert (
        packed.config.data.train
        == packed.data["train"]["file"]
        == Path(before.config.data.train).name
    )
    assert packed.config.model == before.config.model
    for name in ("config.json", "README.md"):
        assert str(Path(before.config.data.train).parent) not in (tmp_path / "p" / name).read_text(
            "utf-8"
        )
    record = {
        "a": {"b": "../x/y.txt", "c": "@pku/words.seg", "d": "runs/v.bin", "e": "/m/z"},
        "f": 3,
        "g": "...",
    }
    assert without_places(record) == {
        "a": {"b": "y.txt", "c": "@pku/words.seg", "d": "runs/v.bin", "e": "z"},
        "f": 3,
        "g": "...",
    }


def test_it_is_not_trained_on(lattice_folder, tmp_path):
    pack(lattice_folder, tmp_path / "p")
    with pytest.raises(ModelError, match="holds a packed model, which cannot be trained further"):
        train(load_model(lattice_folder).config, tmp_path / "p", resume=True)


def test_out_is_new_or_empty(lattice_folder, tmp_path):
    (tmp_path / "empty").mkdir()
    assert pack(lattice_folder, tmp_path / "empty").scores
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("mine")
    for name in ("file", "full"):
        with pytest.raises(
            OutputError, match=f"{name} is there already: choose a new or empty folder"
        ):
            pack(lattice_folder, tmp_path / name)
    with pytest.raises(OutputError, match="there already"):
        pack(lattice_folder, lattice_folder)
    assert (tmp_path / "file").read_text() == (tmp_path / "full" / "notes").read_text() == "mine"
    assert [file.name for file in (tmp_path / "full").iterdir()] == ["notes"]


def test_what_cannot_be_read_is_told_before_anything_is_written(lattice_folder, tmp_path):
    (tmp_path / "torn.bmes").write_text("王\n", "utf-8")
    for test, says in (
        ("gone.bmes", "there is no such file"),
        ("torn.bmes", "a column is missing"),
    ):
        with pytest.raises(InputError, match=says):
            pack(lattice_folder, tmp_path / "out", test=str(tmp_path / test))
    with pytest.raises(ModelError, match="no such model folder"):
        pack(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_suffix_of_a_test_counts_before_the_models_own_format(cutter, tmp_path):
    """The model learnt from segmented text."""
    corpus = read_corpus(cutter.parent / "test.seg").sentences
    write_jsonl(tmp_path / "test.jsonl", corpus)
    (tmp_path / "test.txt").write_bytes((cutter.parent / "test.seg").read_bytes())
    expected = load_model(cutter).scores["test"]
    for name in ("test.jsonl", "test.txt"):
        assert (
            pack(cutter, tmp_path / f"{name}.out", 0, "full", str(tmp_path / name)).scores["test"]
            == expected
        )
    write_columns(tmp_path / "names.bmes", sentences(5, 12))
    with pytest.raises(
        InputError, match=r"names\.bmes: .*sentence 1 of test is not cut into words"
    ):
        pack(cutter, tmp_path / "out", test=str(tmp_path / "names.bmes"))
    assert not (tmp_path / "out").exists()


def test_gold_words_that_a_test_lacks_are_told_before_anything_is_written(made, tmp_path):
    config = made_config(made, model__encoder="word", segment__by="gold")
    folder = write_untrained(
        tmp_path / "gold", config, [in_twos(sentence) for sentence in sentences(20, 1)]
    )
    with pytest.raises(InputError, match="gold"):
        pack(folder, tmp_path / "out", test=str(made / "test.bmes"))
    assert not (tmp_path / "out").exists()


def test_stopped_at_any_moment_it_is_whole_or_none(lattice_folder, tmp_path, monkeypatch):
    real = Path.replace
    expected = found(load_model(lattice_folder))
    for moment in range(20):
        out = tmp_path / str(moment)
        left = moment

        def replace(self: Path, target: Path) -> Path:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return real(self, target)

        monkeypatch.setattr(Path, "replace", replace)
        try:
            pack(lattice_folder, out)
        except KeyboardInterrupt:
            pass
        else:
            break
        finally:
            monkeypatch.setattr(Path, "replace", real)
        try:
            model = load_model(out)
        except ModelError:
            continue
        assert found(model) == expected
    assert 3 < moment < 19


def test_pools_forget_how_often_words_that_go_were_met_and_take_new_ones(made, tmp_path):
    """A word that joins later has the number of one that left, but not its weight."""
    model = load_model(
        train(made_config(made, train__epochs=1, model__pools=True), tmp_path / "run").folder
    )
    met = len(model.tagger.pools.counts)
    assert 5 < met < len(model.indexer.lexicon)
    packed = pack(tmp_path / "run", tmp_path / "out", words=5)
    assert np.array_equal(packed.tagger.pools.counts, model.tagger.pools.counts[:5])
    text = "双桥村今天没有人"
    before = packed.tagger.emissions(packed.indexer.read([text]).batch([0]))
    packed.indexer.lexicon.add("双桥村今天")
    assert [word for *_, word in packed.indexer.lexicon.match(text)].count("双桥村今天") == 1
    batch = packed.indexer.read([text]).batch([0])
    assert (batch.words >= 5).sum() == 1
    changed = np.abs(packed.tagger.emissions(batch) - before)[0].max(1)
    assert (changed[:5] > 0).all()
