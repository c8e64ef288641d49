"""A model folder: it comes back equal, and whatever was done to it is refused with the reason."""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import hanlattice
from hanlattice.checkpoint import load as load_module
from hanlattice.checkpoint.checksums import load_tensors, record_digest, save_tensors, write_record
from hanlattice.checkpoint.compose import learn_from
from hanlattice.checkpoint.folder import EXACT, FAST, Model, save_frame, save_weights
from hanlattice.checkpoint.quantize import compressed
from hanlattice.config import make_config
from hanlattice.errors import HanlatticeError, InputError, ModelError
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.vectors import Vectors, write_vectors
from hanlattice.text.vocab import Vocab
from hanlattice.training.build import build
from tests.helpers.made import made_config, sentences
from tests.helpers.untrained import in_twos, write_untrained

FILES = ("config.json", "chars.txt", "lexicon.txt", "model.safetensors")
SOURCE = Path(hanlattice.__file__).parent
FACTS = {
    "train": {"file": "x", "sha256": "", "sentences": 1, "characters": 9, "spans": 1},
    "note": "his own",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """An untrained model of a few kilobytes, with awkward characters and words in its files."""
    folder = tmp_path_factory.mktemp("small")
    words = ("\ufeff乙", "南京", "a b 3", "长\u2028江", "Ａ大", "word 12 n")
    write_vectors(
        folder / "words.vec", Vectors(("南京",), np.ones((1, 2), dtype=np.float32)), binary=False
    )
    rows = "".join(f"{word} 1 0.5\n" for word in words)
    (folder / "words.vec").write_text(f"{len(words)} 2\n{rows}", "utf-8")
    config = make_config(
        {
            "chars": {"dim": 3},
            "words": {"vectors": str(folder / "words.vec")},
            "model": {"hidden": 2},
        }
    )
    text = "\ufeff乙南\\京\r\u2028\x00𠮷\ufffd"
    built = build(config, [Sentence(text, (Span(0, 2, "LOC"),))])
    save_frame(folder / "model", config, built.indexer, FACTS)
    save_weights(folder / "model", built.tagger.state_dict(), {"epoch": 3})
    return folder / "model"


@pytest.fixture(scope="module")
def scratch(small: Path, tmp_path_factory) -> Path:
    """A copy to damage; `damaged` puts back what it changes."""
    return Path(shutil.copytree(small, tmp_path_factory.mktemp("scratch") / "model"))


class damaged:  # noqa: N801 (reads as a verb)
    """Within, one file of the folder has these bytes, or is not there."""

    def __init__(self, file: Path, content: bytes | None) -> None:
        self.file, self.content, self.before = file, content, file.read_bytes()

    def __enter__(self) -> None:
        if self.content is None:
            self.file.unlink()
        else:
            self.file.write_bytes(self.content)

    def __exit__(self, *_: object) -> None:
        self.file.write_bytes(self.before)


def load_model(folder: Path, device: str = "cpu", fast: bool = False) -> Model:
    """Load with the modules of torch, and for NumPy too if the model's parts are all there."""
    load_module.load_model(folder, device, fast)
    return load_module.load_model(folder, device, fast, modules=True)


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_model(folder).tagger.state_dict())


def test_what_was_saved_comes_back(small):
    model = load_model(small)
    assert model.indexer.lexicon is not None
    assert sorted(model.indexer.lexicon.words) == sorted(
        ("\ufeff乙", "南京", "a b 3", "长\u2028江", "Ａ大", "word 12 n")
    )
    assert set(model.indexer.vocab.symbols[1:]) == set("\ufeff乙南\\京\r\u2028\x00𠮷\ufffd")
    assert model.scores == {"epoch": 3}
    assert model.data == FACTS
    assert not model.tagger.training


def test_a_loaded_model_gives_equal_outputs(lattice_folder, tmp_path):
    first = load_model(lattice_folder)
    save_frame(tmp_path / "copy", first.config, first.indexer, first.data)
    save_weights(tmp_path / "copy", first.tagger.state_dict(), first.scores)
    second = load_model(tmp_path / "copy")
    texts = ["王小明在青石镇工作。", "没有人\ud800", "x", "昨天白沙市有3个人"]
    batches = [m.indexer.read(texts).batch(range(len(texts))) for m in (first, second)]
    emissions = [
        m.tagger.emissions(batch) for m, batch in zip((first, second), batches, strict=True)
    ]
    assert torch.equal(*emissions)
    assert torch.equal(first.tagger.decode(batches[0]), second.tagger.decode(batches[1]))
    for name in ("config.json", "chars.txt", "lexicon.txt"):
        assert (tmp_path / "copy" / name).read_bytes() == (lattice_folder / name).read_bytes()


@pytest.mark.parametrize("name", FILES)
@settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_changed_byte_is_refused_or_means_the_same(
    small: Path, scratch: Path, name: str, data: st.DataObject
) -> None:
    content = bytearray((small / name).read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    with damaged(scratch / name, bytes(content)):
        try:
            model = load_model(scratch)
        except ModelError:
            return
    assert name in ("config.json", "model.safetensors"), "a changed text file was read"
    original = load_model(small)
    assert model.config == original.config
    assert (model.data, model.scores) == (original.data, original.scores)
    assert (model.indexer.tags, model.indexer.scheme) == (
        original.indexer.tags,
        original.indexer.scheme,
    )
    after = model.tagger.state_dict()
    before = original.tagger.state_dict()
    assert all(torch.equal(after[key], before[key]) for key in before)


def test_every_byte_of_the_weights_themselves_is_watched(small, scratch):
    content = (small / "model.safetensors").read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    for at in range(header, len(content), 29):
        changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        with (
            damaged(scratch / "model.safetensors", changed),
            pytest.raises(ModelError, match="not match its checksum"),
        ):
            load_model(scratch)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_only_a_lattice_model_can_be_fast(lattice_folder, char_folder):
    assert load_model(lattice_folder, "cuda", fast=True).tagger.encoder.backend == FAST
    assert load_model(lattice_folder, "cuda").tagger.encoder.backend == EXACT
    with pytest.raises(InputError, match="fast is for lattice models"):
        load_model(char_folder, "cuda", fast=True)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(scratch, name):
    with (
        damaged(scratch / name, None),
        pytest.raises(ModelError, match=rf"{name}.*(missing|no such file)|missing"),
    ):
        load_model(scratch)


@pytest.mark.parametrize("name", FILES)
@given(share=st.floats(0, 0.999))
@example(share=0.0)
@example(share=0.999)
def test_a_file_cut_short_is_refused(scratch: Path, name: str, share: float) -> None:
    content = (scratch / name).read_bytes()
    cut = content[: int(len(content) * share)]
    if cut.strip() == content.strip():
        return
    with (
        damaged(scratch / name, cut),
        pytest.raises(ModelError, match=r"cut short|checksum|JSON|version"),
    ):
        load_model(scratch)


def test_bytes_added_at_the_end_are_refused(scratch):
    for name in ("chars.txt", "lexicon.txt", "model.safetensors"):
        with (
            damaged(scratch / name, (scratch / name).read_bytes() + b"x\n"),
            pytest.raises(ModelError),
        ):
            load_model(scratch)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_format_version_is_refused_though_its_checksum_fits(scratch, version):
    record = json.loads((scratch / "config.json").read_text("utf-8"))
    del record["sha256"]
    record["format"] = version
    content = json.dumps(record | {"sha256": record_digest(record)}).encode()
    with (
        damaged(scratch / "config.json", content),
        pytest.raises(ModelError, match=f"format version is {version}, and"),
    ):
        load_model(scratch)


@pytest.mark.parametrize("key", ["config", "tags", "scheme", "data", "files"])
def test_a_part_of_the_config_that_is_missing_is_named_though_the_checksum_fits(scratch, key):
    record = json.loads((scratch / "config.json").read_text("utf-8"))
    del record["sha256"], record[key]
    content = json.dumps(record | {"sha256": record_digest(record)}).encode()
    with (
        damaged(scratch / "config.json", content),
        pytest.raises(ModelError, match=f"{key} is missing"),
    ):
        load_model(scratch)


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b'{"format": 1}', b"\xff", b"[" * 100_000])
def test_a_config_that_is_none_is_refused(scratch, content):
    with (
        damaged(scratch / "config.json", content),
        pytest.raises(ModelError, match=r"config\.json|version"),
    ):
        load_model(scratch)


def test_files_of_two_models_do_not_mix(scratch, lattice_folder, char_folder):
    for other in (lattice_folder, char_folder):
        weights = (other / "model.safetensors").read_bytes()
        with (
            damaged(scratch / "model.safetensors", weights),
            pytest.raises(ModelError, match=r"fit|rows of vectors"),
        ):
            load_model(scratch)


def test_no_folder_a_file_and_an_empty_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name, why in (
        ("nowhere", "no such model folder"),
        ("file", "no such model folder"),
        ("empty", "not a model folder"),
    ):
        with pytest.raises(ModelError, match=why):
            load_model(tmp_path / name)


def test_a_device_that_is_not_here_is_refused_first(tmp_path):
    with pytest.raises(InputError, match="no device is called 'gpu'"):
        load_model(tmp_path, "gpu")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="torch finds no CUDA device"):
            load_model(tmp_path, "cuda")


def test_tensors_of_every_kind_and_shape_come_back(tmp_path):
    tensors = {
        "scalar": torch.tensor(3.0),
        "empty": torch.zeros(0, 4),
        "half": torch.randn(3, 2).half(),
        "ints": torch.arange(5),
        "bytes": torch.arange(9, dtype=torch.uint8),
        "flag": torch.tensor([True, False]),
        "turned": torch.randn(3, 4).T,
    }
    save_tensors(tmp_path / "t", tensors, {"a": "好"})
    found, metadata = load_tensors(tmp_path / "t")
    assert metadata == {"a": "好"}
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_a_disk_that_is_full_leaves_the_old_weights(lattice_folder, tmp_path, monkeypatch):
    folder = Path(shutil.copytree(lattice_folder, tmp_path / "model"))
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(HanlatticeError, match="the disk is full"):
        save_weights(folder, tensors_of(folder), {})
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


# ---- models with further vocabularies

KINDS = {
    "word": {"encoder": "word", "char_features": "lstm", "char_width": 4, "bichar": True},
    "whole words": {"encoder": "word"},
    "softword": {"encoder": "char", "softword": True, "bichar": True},
}
VOCABS = [
    ("word", "words.txt"),
    ("word", "bichars.txt"),
    ("softword", "bichars.txt"),
    ("softword", "pos.txt"),
]
GOLD = [
    in_twos(Sentence("南\u2028京\\市\r", (Span(0, 2, "LOC"),))),
    in_twos(Sentence("\ufeff乙𠮷", ())),
]


def untrained(folder: Path, kind: str) -> Path:
    tree = {
        "segment": {"by": "gold"},
        "softwords": {"pos": kind == "softword", "dim": 3},
        "words": {"dim": 5},
    }
    small = {"chars": {"dim": 3}, "bichars": {"dim": 2}, "model": {"hidden": 2, **KINDS[kind]}}
    return write_untrained(folder, make_config(tree | small), GOLD)


def signed_again(folder: Path, **changes: Any) -> None:
    """Let the record fit its files, as if the folder had been written like this."""
    record = json.loads((folder / "config.json").read_text("utf-8")) | changes
    del record["sha256"]
    names = record.pop("files")
    write_record(folder / "config.json", record, names)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_back(kind, tmp_path):
    first = load_model(untrained(tmp_path / "a", kind))
    save_frame(tmp_path / "b", first.config, first.indexer, first.data)
    save_weights(tmp_path / "b", first.tagger.state_dict(), first.scores)
    second = load_model(tmp_path / "b")
    for name in ("vocab", "words", "bichars", "pos", "tags"):
        assert getattr(first.indexer, name) == getattr(second.indexer, name), name
    emissions = [
        m.tagger.emissions(m.indexer.examples(GOLD).batch([0, 1])) for m in (first, second)
    ]
    assert torch.equal(*emissions)
    names = {file.name for file in (tmp_path / "a").iterdir()}
    assert names == {
        "config.json",
        "chars.txt",
        "model.safetensors",
        *(file for of, file in VOCABS if of == kind),
    } | ({"words.txt"} if kind == "whole words" else set())


@pytest.mark.parametrize("model", [{"coupled": True, "layers": 2}, {"cell": "tanh"}])
def test_other_cells_come_back(model, tmp_path):
    tree = {"chars": {"dim": 3}, "model": {"encoder": "char", "hidden": 2, **model}}
    config = make_config(tree)
    built = build(config, GOLD)
    save_frame(tmp_path, config, built.indexer, {})
    save_weights(tmp_path, built.tagger.state_dict(), {})
    found = load_model(tmp_path)
    assert found.config == config
    emissions = [
        each.tagger.eval().emissions(each.indexer.examples(GOLD).batch([0, 1]))
        for each in (built, found)
    ]
    torch.testing.assert_close(*emissions)
    names = {name for name, _ in found.tagger.named_parameters() if name.startswith("encoder")}
    assert not any("word" in name or "link" in name for name in names)


def test_awkward_words_and_bigrams_survive(tmp_path):
    words, soft = (
        load_model(untrained(tmp_path / kind, kind)).indexer for kind in ("word", "softword")
    )
    assert words.words is not None
    assert set(words.words.symbols[1:]) == {"南\u2028", "京\\", "市\r", "\ufeff乙", "𠮷"}
    assert soft.pos == Vocab(["v", "n"])
    assert soft.bichars == words.bichars


@pytest.mark.parametrize(("kind", "name"), VOCABS)
def test_a_vocabulary_that_is_missing_or_changed_is_refused(kind, name, tmp_path):
    folder = untrained(tmp_path / "model", kind)
    content = (folder / name).read_bytes()
    with damaged(folder / name, None), pytest.raises(ModelError, match=f"{name} is missing"):
        load_model(folder)
    for changed in (content + b"x\n", content[:-2], b"", content.replace(b"<unk>", b"<kun>")):
        with (
            damaged(folder / name, changed),
            pytest.raises(ModelError, match=f"{name}: its content does not match"),
        ):
            load_model(folder)


@pytest.mark.parametrize(
    ("kind", "name", "what"),
    [
        ("word", "words.txt", "words"),
        ("word", "chars.txt", "characters"),
        ("word", "bichars.txt", "bigrams"),
        ("softword", "pos.txt", "parts of speech"),
    ],
)
def test_rows_that_do_not_fit_are_refused_though_the_checksums_fit(kind, name, what, tmp_path):
    folder = untrained(tmp_path / "model", kind)
    rows = len(Vocab.load(folder / name))
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write("多出来\n")
    signed_again(folder)
    with pytest.raises(ModelError, match=f"{rows} rows of vectors for {rows + 1} {what}"):
        load_model(folder)


def test_a_table_of_places_in_words_has_four_rows(tmp_path):
    folder = untrained(tmp_path / "model", "softword")
    tensors = tensors_of(folder)
    tensors["extra_embeddings.positions.vectors"] = tensors["extra_embeddings.positions.vectors"][
        :3
    ]
    save_weights(folder, tensors, {})
    with pytest.raises(ModelError, match="3 rows of vectors for 4 places in a word"):
        load_model(folder)


@pytest.mark.parametrize("wrong", ["a dimension less", "a tensor less", "a tensor more"])
def test_tensors_that_do_not_fit_are_refused(wrong, tmp_path):
    folder = untrained(tmp_path / "model", "word")
    tensors = tensors_of(folder)
    if wrong == "a dimension less":
        tensors["words.trained"] = tensors["words.trained"][:, 0]
    elif wrong == "a tensor less":
        del tensors["extra_embeddings.bichars.fixed"]
    else:
        tensors["extra_embeddings.pos.vectors"] = torch.zeros(3, 3)
    save_weights(folder, tensors, {})
    with pytest.raises(ModelError, match=r"its tensors do not fit config\.json"):
        load_model(folder)


@pytest.mark.parametrize(("kind", "name"), VOCABS)
def test_a_vocabulary_that_the_record_does_not_list_is_told(kind, name, tmp_path):
    folder = untrained(tmp_path / "model", kind)
    files = json.loads((folder / "config.json").read_text("utf-8"))["files"]
    del files[name]
    signed_again(folder, files=files)
    with pytest.raises(
        ModelError, match=f"a model by its configuration has {name}, and its files lack it"
    ):
        load_model(folder)


def test_a_folder_from_before_the_other_kinds_still_loads(lattice_folder, tmp_path):
    folder = Path(shutil.copytree(lattice_folder, tmp_path / "old"))
    config = json.loads((folder / "config.json").read_text("utf-8"))["config"]
    for section in ("bichars", "segment", "softwords", "compare"):
        del config[section]
    for key in ("bichar", "softword", "char_features", "char_width", "layers"):
        del config["model"][key]
    signed_again(folder, config=config)
    old = load_model(folder)
    new = load_model(lattice_folder)
    texts = ["王小明在青石镇工作。", "x"]
    emissions = [m.tagger.emissions(m.indexer.read(texts).batch([0, 1])) for m in (old, new)]
    assert torch.equal(*emissions)
    assert old.config == new.config


# ---- what gives new words their vectors


def with_composer(folder: Path, out: Path, **changes: torch.Tensor | None) -> Model:
    """Write the model again with a composer, some of whose tensors are changed or missing."""
    model = load_model(folder)
    assert model.indexer.lexicon is not None
    assert model.tagger.lexicon is not None
    made = learn_from(model.indexer.lexicon, model.tagger.lexicon)
    save_frame(out, model.config, model.indexer, model.data)
    save_weights(out, model.tagger.state_dict(), model.scores, made)
    if changes:
        tensors, metadata = load_tensors(out / "model.safetensors")
        named = {**tensors, **{f"composer.{name}": tensor for name, tensor in changes.items()}}
        kept = {name: tensor for name, tensor in named.items() if tensor is not None}
        save_tensors(out / "model.safetensors", kept, metadata)
    return model


def test_a_composer_comes_back_with_the_weights(lattice_folder, tmp_path):
    model = with_composer(lattice_folder, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert model.composer is None
    assert again.composer is not None
    expected = learn_from(model.indexer.lexicon, model.tagger.lexicon).tensors()
    for name, tensor in again.composer.tensors().items():
        assert np.array_equal(tensor, expected[name]), name
    after = again.tagger.state_dict()
    before = model.tagger.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert again.scores == model.scores


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mixing": None}, "missing composer.mixing"),
        (
            {"table": torch.zeros(3, 8, dtype=torch.int8)},
            r"composer\.table must be \[\d+, 8\], not \[3, 8\]",
        ),
        ({"table": torch.zeros(3, 8)}, "composer.table must be of int8, not float32"),
        ({"scale": torch.zeros(1)}, "composer.scale must be"),
        ({"more": torch.zeros(1)}, "unexpected composer.more"),
        (
            {"characters": torch.tensor(5, dtype=torch.int32)},
            r"composer\.characters must be \[1\], not \[\]",
        ),
        ({"characters": torch.full((1,), -1, dtype=torch.int32)}, "must be"),
        (
            {
                "characters": torch.zeros(0, dtype=torch.int32),
                "table": torch.zeros(3, 5, dtype=torch.int8),
                "scale": torch.zeros(3, 1),
                "mixing": torch.zeros(13, 5),
            },
            r"composer\.table must be \[3, 8\], not \[3, 5\]",
        ),
        (
            {
                "characters": torch.full((1,), -1, dtype=torch.int32),
                "table": torch.zeros(6, 8, dtype=torch.int8),
                "scale": torch.zeros(6, 1),
                "mixing": torch.zeros(19, 8),
            },
            "a character that there is not",
        ),
    ],
)
def test_a_composer_that_is_none_is_refused(lattice_folder, tmp_path, changes, says):
    with_composer(lattice_folder, tmp_path / "model", **changes)
    with pytest.raises(ModelError, match=says) as caught:
        load_model(tmp_path / "model")
    assert "model.safetensors" in str(caught.value)


def test_a_composer_for_a_model_without_words_is_refused(lattice_folder, char_folder, tmp_path):
    lattice = load_model(lattice_folder)
    model = load_model(char_folder)
    save_frame(tmp_path / "model", model.config, model.indexer, model.data)
    made = learn_from(lattice.indexer.lexicon, lattice.tagger.lexicon)
    save_weights(tmp_path / "model", model.tagger.state_dict(), {}, made)
    with pytest.raises(ModelError, match=r"unexpected composer\.characters"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    "wrong", ["a scale of another size", "numbers of another size", "a scale alone"]
)
def test_small_tensors_that_do_not_fit_are_refused(lattice_folder, tmp_path, wrong):
    folder = Path(shutil.copytree(lattice_folder, tmp_path / "model"))
    tensors = compressed(
        {name: tensor.numpy() for name, tensor in tensors_of(folder).items()}, "small"
    )
    if wrong == "a scale of another size":
        tensors["words.trained.scale"] = np.ones((2, 3), dtype=np.float16)
    elif wrong == "numbers of another size":
        tensors["words.fixed"] = tensors["words.fixed"][:, 0]
    else:
        del tensors["words.trained"]
    save_weights(folder, tensors, {})
    with pytest.raises(ModelError, match=r"its tensors do not fit config\.json"):
        load_model(folder)


def test_the_language_model_can_come_from_another_folder(made, lm_folder, tmp_path):
    """As that of a model whose language model's own folder is gone."""
    copied = Path(shutil.copytree(lm_folder, tmp_path / "lm"))
    config = made_config(made, lm__model=str(copied), model__hidden=4)
    model = load_model(write_untrained(tmp_path / "a", config, sentences(6, 1)))
    shutil.rmtree(copied)
    save_frame(tmp_path / "b", model.config, model.indexer, model.data, source=tmp_path / "a")
    save_weights(tmp_path / "b", model.tagger.state_dict(), {})
    texts = ["王小明在青石镇工作。"]
    again = load_model(tmp_path / "b")
    emissions = [m.tagger.emissions(m.indexer.read(texts).batch([0])) for m in (model, again)]
    assert torch.equal(*emissions)


def test_no_pickle_anywhere():
    """The one reader of a pickled list refuses every class, and nothing else imports pickle."""
    for file in SOURCE.rglob("*.py"):
        text = file.read_text("utf-8")
        if not re.search(r"pickle|dill|joblib|shelve|marshal|torch\.(load|save)", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None) or ""}
                banned = names & {
                    "pickle",
                    "cPickle",
                    "dill",
                    "cloudpickle",
                    "joblib",
                    "shelve",
                    "marshal",
                }
                assert not banned or file.parent == SOURCE / "data", f"{file}:{node.lineno}"
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "torch"
            ):
                weights_only = text.count("torch.load(") == text.count("weights_only=True") == 1
                is_known = (
                    file == SOURCE / "checkpoint" / "transformer.py"
                    and weights_only
                    and node.attr == "load"
                )
                assert node.attr not in ("load", "save") or is_known, f"{file}:{node.lineno}"
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), f"{file}:{node.lineno}"
                assert node.value.value is False, f"{file}:{node.lineno}"
