"""A small artificial corpus with vectors, which a model learns in seconds."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hanlattice.checkpoint.language_model import (
    DIRECTIONS,
    LanguageModelSettings,
    make_vocab,
    save_direction,
    save_language_model_frame,
)
from hanlattice.config import Config, make_config
from hanlattice.data.formats.columns import write_columns
from hanlattice.nn.language_model import CharLanguageModel
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.vectors import Vectors, write_vectors

SURNAMES = "王李张刘陈杨"
GIVEN = ("小明", "建国", "芳", "秀英", "伟", "天一")
PLACES = ("青石镇", "白沙市", "云门山", "龙泉寺", "南湖", "东港区", "红叶谷", "双桥村")
SHAPES = (
    "{P}在{L}工作。",
    "{P}去了{L}！",
    "昨天{P}和{P}到{L}开会",
    "{L}有3个人。",
    "今天天气很好，没有人说话。",
    "{P}说：“我爱{L}”",
)
WORDS = (
    *("工作", "昨天", "今天", "天气", "开会", "没有"),
    *("说话", "很好", "电脑", "沙漠", "大海", "白沙"),
)
# Some subwords are words too.
PIECES = (
    *("小明", "王小", "石镇", "沙市", "云门", "天天"),
    *("有人", "建国", "秀英", "工作", "南湖", "东港区"),
)
WIDTH = 8


def sentence(shape: str, rng: np.random.Generator) -> Sentence:
    """Fill a shape with random names; each name is a gold span."""
    text = ""
    spans = []
    for character in shape.replace("{P}", "P").replace("{L}", "L"):
        if character in "PL":
            if character == "L":
                name = str(rng.choice(PLACES))
            else:
                name = rng.choice(list(SURNAMES)) + rng.choice(GIVEN)
            label = {"P": "PER", "L": "LOC"}[character]
            spans.append(Span(len(text), len(text) + len(name), label))
            text += name
        else:
            text += character
    return Sentence(text, tuple(spans))


def sentences(count: int, seed: int) -> list[Sentence]:
    """Return sentences of all shapes in turn."""
    rng = np.random.default_rng(seed)
    return [sentence(SHAPES[index % len(SHAPES)], rng) for index in range(count)]


def write_made(folder: Path, train: int = 120) -> None:
    """Write train.bmes, dev.bmes, test.bmes, and vectors of characters, words and subwords."""
    for seed, (name, count) in enumerate({"train": train, "dev": 30, "test": 30}.items()):
        write_columns(folder / f"{name}.bmes", sentences(count, seed))
    rng = np.random.default_rng(7)
    people = ("".join(pair) for pair in product(SURNAMES[:3], GIVEN))
    words = (*WORDS, *PLACES, *people)
    characters = sorted(set("".join((*SURNAMES, *GIVEN, *PLACES, *WORDS, "，。0"))))
    for file, names in (("chars.vec", characters), ("words.bin", words)):
        matrix = rng.normal(size=(len(names), WIDTH)).astype(np.float16).astype(np.float32)
        write_vectors(folder / file, Vectors(tuple(names), matrix), binary=file.endswith(".bin"))
    # Subwords have narrower vectors, so that a mistake about widths fails.
    matrix = rng.normal(size=(len(PIECES), WIDTH - 3)).astype(np.float16).astype(np.float32)
    write_vectors(folder / "subwords.vec", Vectors(PIECES, matrix), binary=False)


def write_language_model(folder: Path, seed: int = 0, hidden: int = 6) -> Path:
    """Write an untrained language model with the characters of the corpus."""
    settings = LanguageModelSettings(embedding=4, hidden=hidden)
    characters = set("".join((*SURNAMES, *GIVEN, *PLACES, *WORDS, *SHAPES, "0")))
    vocab = make_vocab(sorted(characters - set("{}PL3")))
    torch.manual_seed(seed)
    save_language_model_frame(folder, vocab, settings)
    for direction in DIRECTIONS:
        model = CharLanguageModel(len(vocab), settings.embedding, settings.hidden)
        save_direction(folder, direction, model.state_dict(), {"direction": direction})
    return folder


TOKENS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "##c", "ab"),
    *("3", "##3", "33", "##33", "i", "##phone", "。"),
)


def write_transformer(folder: Path, kind: str = "bert", seed: int = 0, **settings: Any) -> Path:
    """Write a tiny random transformer in the layout of Hugging Face."""
    import transformers
    from safetensors.torch import save_file

    characters = sorted(
        set("".join((*SURNAMES, *GIVEN, *PLACES, *WORDS, *SHAPES))) - set("{}PL3。")
    )
    sizes = {
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 20,
    }
    sizes |= {"embedding_size": 6} if kind == "electra" else {}
    sizes |= {"vocab_size": len(TOKENS) + len(characters), "max_position_embeddings": 34}
    sizes |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.AutoConfig.for_model(kind, **(sizes | settings))
    torch.manual_seed(seed)
    model = transformers.AutoModel.from_config(config)
    for weight in model.parameters():
        # The library's initial weights make all states alike.
        torch.nn.init.normal_(weight, std=0.3)
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    (folder / "vocab.txt").write_text(
        "".join(f"{token}\n" for token in (*TOKENS, *characters)), "utf-8"
    )
    save_file(
        {f"{kind}.{name}": tensor for name, tensor in model.state_dict().items()},
        folder / "model.safetensors",
    )
    return folder


def made_tree(folder: Path, **changes: Any) -> dict[str, dict[str, Any]]:
    """Return settings that learn the corpus; `train__epochs=2` changes a setting."""
    tree: dict[str, dict[str, Any]] = {
        "data": {part: str(folder / f"{part}.bmes") for part in ("train", "dev", "test")},
        "chars": {"vectors": str(folder / "chars.vec"), "dropout": 0.2},
        "words": {"vectors": str(folder / "words.bin"), "dropout": 0.2},
        "model": {"hidden": 16, "dropout": 0.2},
        "train": {"epochs": 8, "batch_size": 8, "lr": 0.02, "threads": 1},
    }
    for name, value in changes.items():
        section, _, key = name.partition("__")
        tree.setdefault(section, {})[key] = value
    return tree


def made_config(folder: Path, **changes: Any) -> Config:
    """Return a configuration that learns the corpus."""
    return make_config(made_tree(folder, **changes))


def write_toml(path: Path, tree: dict[str, dict[str, Any]]) -> Path:
    """Write settings as a TOML file."""
    lines = [
        line
        for section, values in tree.items()
        for line in (f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in values.items()))
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _toml(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
