"""The models that NumPy and C compute, beside the modules of torch: same spans, scores and shares.

With the C library, and with NumPy alone. The papers' baselines load as modules of torch only.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from hanlattice.checkpoint import SHIPPED, find_model
from hanlattice.checkpoint.checksums import load_tensors
from hanlattice.checkpoint.folder import save_weights
from hanlattice.checkpoint.load import load_model
from hanlattice.checkpoint.quantize import compressed
from hanlattice.ops import library
from hanlattice.predict import Predictor
from tests.helpers.made import made_config, sentences
from tests.helpers.untrained import in_twos, write_untrained

KINDS: dict[str, dict[str, Any]] = {
    "char": {"encoder": "char"},
    "char coupled, two layers": {"encoder": "char", "coupled": True, "layers": 2},
    "char LSTM, two layers": {"encoder": "char", "coupled": False, "layers": 2},
    "lattice": {"encoder": "lattice"},
    "lattice, not coupled": {"encoder": "lattice", "coupled": False},
    "three layers with whole words": {"encoder": "lattice", "layers": 3, "whole_words": True},
    "characters below": {
        "encoder": "lattice",
        "layers": 2,
        "first_layer": "char",
        "whole_words": True,
    },
    "LSTM below": {"encoder": "lattice", "layers": 2, "first_layer": "char", "coupled": False},
    "pools": {"encoder": "lattice", "pools": True, "bichar": True},
    "subwords": {"encoder": "lattice", "sources": "subwords"},
    "both sources": {"encoder": "lattice", "sources": "both", "pools": True},
    "softwords": {"encoder": "lattice", "softword": True, "bichar": True},
}
BASELINES: dict[str, dict[str, Any]] = {
    "tanh cells": {"encoder": "char", "cell": "tanh"},
    "words": {"encoder": "word", "layers": 2},
    "words and an LSTM": {"encoder": "word", "char_features": "lstm", "char_width": 6},
    "words and a CNN": {"encoder": "word", "char_features": "cnn", "char_width": 4},
}
TEXTS = [
    *(sentence.text for sentence in sentences(6, 5)),
    *(
        "",
        "王",
        "没有人 \u3000 天天有 小明",
        "".join(each.text for each in sentences(6, 9)),
        "x" * 40,
        "１９９８年ＡＢ公司\ud800",
    ),
]


@pytest.fixture(scope="module", params=KINDS)
def folder(
    request: pytest.FixtureRequest, made: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A model whose weights are all random; every second one is packed."""
    settings = {f"model__{name}": value for name, value in KINDS[request.param].items()}
    more = {
        "subwords__vectors": str(made / "subwords.vec"),
        "softwords__pos": "softword" in KINDS[request.param],
    }
    used = {
        name: value
        for name, value in more.items()
        if name.split("__")[0] in _sections(KINDS[request.param])
    }
    config = made_config(made, model__hidden=7, **settings, **used)
    train = [in_twos(each) if config.reads_segments else each for each in sentences(40, 0)]
    folder = write_untrained(tmp_path_factory.mktemp("model"), config, train)
    tensors, _ = load_tensors(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(0)
    trained = [name for name in tensors if not name.endswith((".fixed", ".counts"))]
    tensors |= {
        name: torch.randn(tensors[name].shape, generator=generator) * 0.7 for name in trained
    }
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    save_weights(
        folder, compressed(arrays, "small" if list(KINDS).index(request.param) % 2 else "full"), {}
    )
    return folder


def _sections(kind: dict[str, Any]) -> set[str]:
    found = {"subwords"} if kind.get("sources", "words") != "words" else set()
    return found | ({"softwords"} if kind.get("softword") else set())


def both(folder: Path) -> tuple[Predictor, Predictor]:
    return Predictor(load_model(folder)), Predictor(load_model(folder, modules=True))


def assert_same(mine: Predictor, theirs: Predictor, texts: list[str]) -> None:
    for text in texts[::3]:
        readings = [each.readings(text, 3) for each in (mine, theirs)]
        assert readings[0][0].spans == readings[1][0].spans
        assert [r.score for r in readings[0]] == pytest.approx(
            [r.score for r in readings[1]], abs=1e-5
        )
    for asked in ({}, {"candidates": 5}):
        for left, right in zip(mine.pipe(texts, **asked), theirs.pipe(texts, **asked), strict=True):
            assert (
                left.spans == right.spans
            )  # of candidates, those with nearly the same score may change places
            for spans, others in (
                (left.spans, right.spans),
                (left.candidates or (), right.candidates or ()),
            ):
                assert [s.score for s in spans] == pytest.approx(
                    [s.score for s in others], abs=1e-5
                )


@pytest.fixture(params=["C", "numpy"])
def arithmetic(request: pytest.FixtureRequest) -> Any:
    """Both ways of the runtime; torch keeps its own."""
    if request.param == "C":
        if library.loaded().library is None:
            pytest.skip(library.missing())
        yield
        return
    with mock.patch.object(
        library, "loaded", return_value=library.Loaded(None, "", "it is turned off")
    ):
        yield


def test_the_runtime_finds_what_torch_finds(folder: Path, arithmetic: None) -> None:
    mine, theirs = both(folder)
    assert_same(mine, theirs, TEXTS)
    assert mine.model.tagger.parameter_count == theirs.model.tagger.parameter_count
    assert repr(mine) == repr(theirs)
    spans = [Predictor(each.model, decode=0.3)(TEXTS) for each in (mine, theirs)]
    assert [document.spans for document in spans[0]] == [document.spans for document in spans[1]]


def test_words_that_are_added_get_the_same_vectors(folder: Path) -> None:
    mine, theirs = both(folder)
    if mine.model.indexer.lexicon is None:
        pytest.skip("it has no lexicon")
    for each in (mine, theirs):
        each.lexicon.update(["青石镇工", "王小明在", "昨天小明"])
        each.lexicon.remove("南湖")
    assert_same(mine, theirs, TEXTS)


def test_the_explanations_are_the_same(folder: Path, arithmetic: None) -> None:
    mine, theirs = both(folder)
    for text in ("昨天王小明和李芳到白沙市开会", "", "x"):
        left, right = (each.explain(text, without=True).to_dict() for each in (mine, theirs))
        assert_near(left, right)


def assert_near(left: Any, right: Any) -> None:
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for name in left:
            assert_near(left[name], right[name])
    elif isinstance(left, list | tuple):
        assert len(left) == len(right)
        for pair in zip(left, right, strict=True):
            assert_near(*pair)
    else:
        assert left == (pytest.approx(right, abs=1e-5) if isinstance(left, float) else right)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_models(name: str, arithmetic: None) -> None:
    texts = [
        "南京市长江大桥",
        "国家主席江泽民在北京会见了联合国秘书长安南。",
        "我 爱 北京天安门，２０２４年 iPhone 在深圳华为总部发布？",
        "人民网北京１月１日讯（记者王小明、李建国）",
    ]
    mine, theirs = both(find_model(name))
    for each in (mine, theirs):
        each.lexicon.add("华为总部")
    assert_same(mine, theirs, texts)


def test_a_table_of_a_packed_model_is_not_expanded() -> None:
    table = load_model(find_model("ner")).tagger.lexicon
    assert table.fixed.numbers.dtype == np.uint8
    assert not table.fixed.numbers.flags.writeable  # it is the file itself
    ids = np.array([0, 39_999, 40_000, 249_999])
    expected = load_model(find_model("ner"), modules=True).tagger.lexicon.vectors(ids)
    np.testing.assert_array_equal(table.rows(ids), expected)


WITHOUT = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "safetensors", "filelock", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])
sys.meta_path.insert(0, Refuse())
"""
PYTHON = """
import hanlattice
from hanlattice.errors import HanlatticeError
tagger = hanlattice.load("ner")
assert [span.text for span in tagger("南京市长江大桥").spans] == ["南京市", "长江大桥"]
tagger.lexicon.add("云栖小镇")
assert len(list(tagger.pipe(["我在云栖小镇", "王小明"]))) == 2
assert tagger.candidates("南京市长江大桥", 3) and tagger.readings("南京市长江大桥", 3)
assert tagger.explain("南京市长江大桥", without=True).without
assert hanlattice.load("ner", decode="spans")("南京市").spans
for device in ("cuda", "cuda:1"):
    try:
        hanlattice.load("ner", device)
    except HanlatticeError as error:
        expected = "torch is not installed, and this needs it: pip install 'hanlattice[train]'"
        assert str(error) == expected, error
    else:
        raise AssertionError("it loaded")
"""


THREADS = """
from hanlattice.inference.device import use_threads
from hanlattice.checkpoint.load import load_model
use_threads(3)
load_model({folder!r})
import torch
assert torch.get_num_threads() == 3
torch.set_num_threads(1)
load_model({folder!r})
assert torch.get_num_threads() == 1
"""


def run_without_torch(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_python_without_torch() -> None:
    done = run_without_torch(PYTHON)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("settings", BASELINES.values(), ids=BASELINES)
def test_the_baselines_load_with_torch_alone(
    settings: dict[str, Any],
    made: Path,
    tmp_path: Path,
) -> None:
    sections = {f"model__{name}": value for name, value in settings.items()}
    config = made_config(made, model__hidden=4, segment__by="gold", **sections)
    write_untrained(tmp_path / "model", config, [in_twos(each) for each in sentences(6, 1)])
    tagger = load_model(tmp_path / "model").tagger
    assert isinstance(tagger, torch.nn.Module)
    assert not tagger.training
    code = THREADS.format(folder=str(tmp_path / "model"))
    subprocess.run([sys.executable, "-c", code], check=True)
    done = run_without_torch(f"import hanlattice\nhanlattice.load({str(tmp_path / 'model')!r})")
    said = "torch is not installed, and this needs it: pip install 'hanlattice[train]'"
    assert done.stderr.endswith(f"HanlatticeError: {said}\n")
    given = ["tag", "-m", str(tmp_path / "model"), "南湖"]
    done = run_without_torch("from hanlattice.cli import main\nmain()", *given)
    assert (done.returncode, done.stderr) == (2, f"error: {said}\n")


def test_a_model_with_a_language_model_needs_it(
    made: Path, lm_folder: Path, tmp_path: Path
) -> None:
    config = made_config(made, lm__model=str(lm_folder), model__hidden=4)
    write_untrained(tmp_path / "model", config, sentences(6, 1))
    done = run_without_torch(f"import hanlattice\nhanlattice.load({str(tmp_path / 'model')!r})")
    said = "torch is not installed, and this needs it: pip install 'hanlattice[train]'"
    assert f"HanlatticeError: {said}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tag", "南京市长江大桥"], '"text": "长江大桥"'),
        (["segment", "南京市长江大桥"], "南京市"),
        (["explain", "--without", "南京市长江大桥"], "without"),
        (["evaluate", "ner", "{corpus}"], "F1"),
        (["score", "{corpus}", "{corpus}"], "100.00"),
        (["calibrate", "ner", "{corpus}"], "calibration error"),
        (["info", "seg"], "250,000"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_the_command_line_without_torch(arguments: list[str], said: str, made: Path) -> None:
    given = [argument.format(corpus=made / "test.bmes") for argument in arguments]
    done = run_without_torch("from hanlattice.cli import main\nmain()", *given)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert said in done.stdout, done.stdout


@pytest.mark.parametrize(
    "verb",
    [
        ["train", "demo", "--out", "{out}"],
        ["pack", "ner", "--out", "{out}"],
        ["tag", "--device", "cuda", "x"],
    ],
)
def test_what_needs_torch_says_which_extra_has_it(verb: list[str], tmp_path: Path) -> None:
    given = [argument.format(out=tmp_path / "out") for argument in verb]
    done = run_without_torch("from hanlattice.cli import main\nmain()", *given)
    assert done.returncode == 2
    assert (
        done.stderr
        == "error: torch is not installed, and this needs it: pip install 'hanlattice[train]'\n"
    )
