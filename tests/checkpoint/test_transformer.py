"""Transformers from folders and in a model's folder; broken ones are refused with a reason."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hanlattice.checkpoint.checksums import write_record
from hanlattice.checkpoint.load import load_model
from hanlattice.checkpoint.transformer import find_transformer, make_transformer, read_transformer
from hanlattice.errors import ConfigError, HanlatticeError, InputError, ModelError
from hanlattice.explain import Explanation
from hanlattice.nn.to_device import to_device
from hanlattice.nn.transformer import windows
from hanlattice.predict import Predictor, load
from hanlattice.training.build import build
from hanlattice.training.pack import pack
from tests.helpers.gpu import run_without_waiting
from tests.helpers.made import made_config, sentences, write_transformer
from tests.helpers.untrained import write_untrained

TEXT = "王小明 去了 iphone33 的青石镇，" + "今天天气很好，没有人说话。" * 3


@pytest.fixture
def folder(transformer_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(transformer_folder, tmp_path / "t"))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_transformer(folder).model.state_dict()


@pytest.mark.parametrize(
    "changes", [{"model__encoder": "none"}, {"model__pools": True}, {"model__encoder": "char"}]
)
def test_a_models_folder_is_complete(
    made: Path, folder: Path, tmp_path: Path, changes: dict[str, object]
) -> None:
    """It is moved, and what it was made of is removed."""
    config = made_config(made, transformer__model=str(folder), transformer__overlap=8, **changes)
    torch.manual_seed(0)
    there = write_untrained(tmp_path / "model", config, sentences(20, 1))
    tagger = build(config, sentences(20, 1)).tagger.eval()
    shutil.rmtree(folder)
    moved = shutil.move(there, tmp_path / "elsewhere")
    loaded = load(moved)
    for name, tensor in tagger.state_dict().items():
        assert torch.equal(loaded.model.tagger.state_dict()[name], tensor), name
    assert {file.name for file in (moved / "transformer").iterdir()} == {
        "config.json",
        "vocab.txt",
        "tokenizer_config.json",
    }
    candidates = loaded.candidates(TEXT, 20)
    assert all(TEXT[span.start : span.end] == span.text for span in candidates)
    found = loaded.explain(TEXT, without=True)
    assert isinstance(found, Explanation)
    assert bool(found.layers) == (config.model.encoder == "lattice")
    if config.model.encoder != "lattice":
        with pytest.raises(
            InputError, match="fast is for lattice models, and for transformers on a GPU"
        ):
            load(moved, fast=True)


def test_a_text_of_5000_characters_has_the_spans_of_its_windows(made: Path, tmp_path: Path) -> None:
    """Each window is read alone and compared away from its seams, where best paths may differ."""
    folder = write_transformer(tmp_path / "t", max_position_embeddings=514)
    margin = 40
    config = made_config(made, transformer__model=str(folder), model__encoder="none")
    whole = Predictor(
        load_model(write_untrained(tmp_path / "model", config, sentences(20, 1))), limit=5000
    )
    text = "".join(sentence.text for sentence in sentences(1000, 2))[:5000]
    spans = whole(text).spans
    compared = 0
    for _, start, stop, first, last in zip(*windows(np.array([len(text)]), 512, 128), strict=True):
        inside = range(first + margin, last - margin)
        alone = [
            (span.start + start, span.end + start, span.label)
            for span in whole(text[start:stop]).spans
        ]
        mine, theirs = (
            [each for each in found if each[0] in inside and each[1] in inside]
            for found in ([(span.start, span.end, span.label) for span in spans], alone)
        )
        assert mine == theirs
        compared += len(mine)
    assert compared > 100


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_finds_what_a_cpu_finds(made: Path, folder: Path, tmp_path: Path) -> None:
    config = made_config(
        made, transformer__model=str(folder), transformer__overlap=8, model__pools=True
    )
    there = write_untrained(tmp_path / "model", config, sentences(20, 1))
    cpu = load(there)
    gpu = load(there, device="cuda")
    texts = [TEXT, *(sentence.text for sentence in sentences(20, 3))]
    examples = cpu.model.indexer.read(texts)
    for at in range(len(texts)):
        here, other = (
            m.tagger.emissions(m.tagger.batch(examples, np.array([at])))
            for m in (cpu.model, gpu.model)
        )
        torch.testing.assert_close(other.cpu(), here, rtol=1e-3, atol=1e-4)
    for mine, theirs in zip(cpu(texts), gpu(texts), strict=True):
        assert mine.spans == theirs.spans


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_the_host_does_not_wait_for_a_gpu(made: Path, folder: Path) -> None:
    config = made_config(
        made, transformer__model=str(folder), transformer__window=16, transformer__overlap=8
    )
    built = build(config, sentences(20, 1))
    batch = built.indexer.examples(sentences(20, 1)).batch(np.arange(20))
    tagger = built.tagger.cuda().train()
    run_without_waiting(lambda: tagger.loss(to_device(batch, "cuda")).mean().backward())


def test_it_can_be_packed(made: Path, folder: Path, tmp_path: Path) -> None:
    config = made_config(
        made, transformer__model=str(folder), model__encoder="none", transformer__overlap=8
    )
    there = write_untrained(tmp_path / "model", config, sentences(20, 1))
    shutil.rmtree(folder)
    packed = pack(there, tmp_path / "packed")
    before = load_model(there).tagger.state_dict()
    for name, tensor in packed.tagger.state_dict().items():
        assert (tensor - before[name]).abs().max() <= 0.02 * max(
            1e-6, float(before[name].abs().max())
        ), name
    sizes = [(place / "model.safetensors").stat().st_size for place in (there, tmp_path / "packed")]
    assert sizes[1] < 0.7 * sizes[0]


def test_a_pickled_file_is_read_once_and_converted(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = weights(folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(
        {_first_version(name): tensor for name, tensor in tensors.items()},
        folder / "pytorch_model.bin",
    )
    for _ in range(2):
        found = weights(folder)
        assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
        monkeypatch.setattr(torch, "load", None)  # the second time it is not called
    assert len(list(cache.rglob("*.safetensors"))) == 1


def _first_version(name: str) -> str:
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
        "LayerNorm.bias", "LayerNorm.beta"
    )


class Code:
    """What a pickle can carry beside weights."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("executed",)


def test_a_pickled_file_with_code_is_refused(
    folder: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"a": Code()}, folder / "pytorch_model.bin")
    with pytest.raises(
        ModelError, match=r"pytorch_model\.bin: not a file of weights and nothing else"
    ):
        weights(folder)
    assert "executed" not in capsys.readouterr().out


def test_tensors_may_have_no_prefix_and_come_in_half_precision(folder: Path) -> None:
    expected = weights(folder)
    path = folder / "model.safetensors"
    tensors = {
        name.removeprefix("bert."): tensor.half() for name, tensor in load_file(path).items()
    }
    save_file({**tensors, "cls.predictions.bias": torch.zeros(2)}, path)
    for name, tensor in weights(folder).items():
        assert torch.equal(tensor, expected[name].half().float())
        assert tensor.dtype == torch.float32


def test_what_does_not_fit_is_named(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = "bert.encoder.layer.1.output.dense.weight"
    save_file({**tensors, name: torch.zeros(2, 3)}, path)
    with pytest.raises(
        ModelError, match=r"layer\.1\.output\.dense\.weight is \[2, 3\] in it, and by config.json"
    ):
        weights(folder)
    save_file({other: tensor for other, tensor in tensors.items() if other != name}, path)
    with pytest.raises(
        ModelError, match=r"1 tensors are missing, the first is encoder\.layer\.1\.output"
    ):
        weights(folder)
    path.write_bytes(b"no weights")
    with pytest.raises(ModelError, match="cut short or not a safetensors file"):
        weights(folder)
    path.unlink()
    with pytest.raises(ModelError, match=r"no model\.safetensors, and no pytorch_model\.bin"):
        weights(folder)
    with (folder / "vocab.txt").open("a", encoding="utf-8") as file:
        file.write("界\n")
    with pytest.raises(ModelError, match="87 pieces in its vocabulary, and vectors for 86"):
        make_transformer(folder)


def test_sizes_are_compared_before_memory_is_taken(
    made: Path, folder: Path, tmp_path: Path
) -> None:
    """A transformer of these sizes would take 800 GB, in its own folder or in a tagger's."""
    config = made_config(
        made, transformer__model=str(folder), transformer__overlap=8, model__hidden=2
    )
    tagger = write_untrained(tmp_path / "m", config, sentences(4, 0))
    large = {"hidden_size": 1 << 14, "intermediate_size": 1 << 14, "num_hidden_layers": 64}
    settings = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(settings | large), "utf-8")
    with pytest.raises(ModelError, match=r"tensors are missing|in it, and by config\.json"):
        read_transformer(folder)
    (tagger / "transformer" / "config.json").write_text(json.dumps(settings | large), "utf-8")
    record = json.loads((tagger / "config.json").read_text("utf-8"))
    del record["sha256"]
    write_record(tagger / "config.json", record, record.pop("files"))
    with pytest.raises(ModelError, match=r"do not fit transformer/config\.json"):
        load_model(tagger)


def test_the_library_is_told_only_of_sizes_that_were_checked(folder: Path) -> None:
    """It would make a name for each of so many labels."""
    settings = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(settings | {"num_labels": 777}), "utf-8")
    assert make_transformer(folder).model.config.num_labels == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"model_type": "gpt2"}', "model_type is 'gpt2'; expected bert, electra, ernie"),
        ('{"model_type": "bert", "hidden_size": 7}', "no bert can be made by it"),
        (
            '{"model_type": "bert", "vocab_size": 1000000000000}',
            "vocab_size must be from 1 to 1048576",
        ),
        ("{", "cannot be read as JSON"),
        ("[]", "expected a JSON object"),
    ],
)
def test_a_config_that_is_none_is_refused(folder: Path, content: str, message: str) -> None:
    (folder / "config.json").write_text(content, "utf-8")
    with pytest.raises(ModelError, match=message):
        make_transformer(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"not the folder of a transformer: .*config\.json"):
        make_transformer(folder)


def test_windows_must_fit_its_positions(made: Path, folder: Path) -> None:
    for changes, message in (
        ({"transformer__window": 33}, "transformer.window must be at most 32"),
        ({}, "transformer.overlap must be smaller than the window of 32 characters"),
    ):
        with pytest.raises(ConfigError, match=message):
            build(made_config(made, transformer__model=str(folder), **changes), sentences(20, 1))


def test_a_name_is_a_folder_or_on_the_hub(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert find_transformer(str(folder)) == folder
    with pytest.raises(
        InputError, match="no such folder; expected a folder in Hugging Face's layout"
    ):
        find_transformer(str(tmp_path / "nowhere"))
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="there is no such folder, nor can it be downloaded"):
        find_transformer("nobody/nothing-of-this-name")


def test_without_the_library_it_says_how_to_install_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(HanlatticeError, match=r"pip install 'hanlattice\[transformers\]'"):
        make_transformer(folder)


def test_a_config_of_another_precision_makes_weights_of_full_precision(tmp_path: Path) -> None:
    folder = write_transformer(tmp_path)
    record = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(record | {"dtype": "float16"}), "utf-8")
    assert {tensor.dtype for tensor in weights(folder).values()} == {torch.float32}
