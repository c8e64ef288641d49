"""Vectors of a file as the first embeddings of a language model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from hanlattice.errors import InputError, ModelError
from hanlattice.lab.pretrain.lm.recipe import Recipe
from hanlattice.lab.pretrain.lm.text import read_source
from hanlattice.lab.pretrain.lm.train import train_language_model
from hanlattice.text.normalize import fold_digits
from hanlattice.text.vectors import Vectors, read_vectors, write_vectors
from tests.helpers.lm import assert_same_run, killed_at_step, tiny, weights


@pytest.fixture
def file(text: Path, tmp_path: Path) -> Path:
    """Vectors of half of the text's characters, of one that it has not, and of a word."""
    words = (*sorted(set(text.read_text("utf-8").replace("\n", "")))[::2], "龘", "长江")
    matrix = np.random.default_rng(3).normal(1, 9, size=(len(words), 6)).astype(np.float32)
    write_vectors(tmp_path / "v.bin", Vectors(words, matrix), binary=True)
    return tmp_path / "v.bin"


def test_rows_begin_as_the_vectors_of_the_file_scaled_to_entries_of_mean_square_one(
    file, text, tmp_path
):
    recipe = tiny(vectors=file, embedding=None, lr=1e-12, weight_decay=0.0, epochs=1)
    found = train_language_model(recipe, [text], tmp_path / "lm")
    vectors = read_vectors(file)
    source = read_source(recipe, [text], ["forward"], lambda event: None)
    pairs = zip(map(fold_digits, vectors.words), vectors.matrix, strict=True)
    rows = {
        word: row for word, row in reversed(list(pairs)) if word in source.vocab
    }  # the first of a word wins
    assert 0 < len(rows) < len(source.vocab) - 2
    scale = 6**0.5 / np.mean([np.linalg.norm(row) for row in rows.values()])
    for direction in ("forward", "backward"):
        table = weights(tmp_path / "lm", direction)["embedding"].float().numpy()
        for word, row in rows.items():
            np.testing.assert_allclose(table[source.vocab[word]], row * scale, rtol=1e-3, atol=1e-3)
        others = table[[at for at, symbol in enumerate(source.vocab.symbols) if symbol not in rows]]
        assert abs(others.mean() - np.mean(list(rows.values())) * scale) < 0.3
        assert found[direction]["data"]["vectors"]["symbols"] == len(rows)
        assert found[direction]["recipe"]["vectors"] == str(file)
        assert found[direction]["recipe"]["embedding"] == 6
    assert f"vectors of v.bin, of {len(rows)} symbols" in (tmp_path / "lm" / "README.md").read_text(
        "utf-8"
    )


def test_resumed_with_the_same_vectors_only(file, text, tmp_path):
    plain = tiny(vectors=file)
    often = tiny(vectors=file, checkpoint_minutes=0)
    train_language_model(plain, [text], tmp_path / "whole", "forward")
    assert killed_at_step(often, text, tmp_path / "stopped", 5)
    with pytest.raises(ModelError, match="another configuration or other data"):
        train_language_model(tiny(), [text], tmp_path / "stopped", "forward", resume=True)
    content = file.read_bytes()
    file.write_bytes(content[:-3] + b"\1" + content[-2:])
    with pytest.raises(ModelError, match="another configuration or other data"):
        train_language_model(plain, [text], tmp_path / "stopped", "forward", resume=True)
    file.write_bytes(content)
    train_language_model(plain, [text], tmp_path / "stopped", "forward", resume=True)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")


def test_vectors_that_do_not_fit_are_refused(file, text, trained, tmp_path):
    with pytest.raises(
        InputError,
        match=r"--embedding 5 does not fit the vectors of .*v\.bin, whose width is 6; leave "
        r"--embedding out",
    ):
        train_language_model(tiny(vectors=file, embedding=5), [text], tmp_path / "lm")
    with pytest.raises(
        InputError, match="--vectors does not fit --from, whose model has its own embeddings"
    ):
        Recipe(start_from=trained, vectors=file)
    (tmp_path / "words.vec").write_text("长江 1 2\n大桥 3 4\n", "utf-8")
    with pytest.raises(InputError, match=r"words\.vec: no vector of a single character in it"):
        train_language_model(
            tiny(vectors=tmp_path / "words.vec", embedding=None), [text], tmp_path / "lm"
        )
    (tmp_path / "other.vec").write_text("龘 1 2\n鱻 3 4\n", "utf-8")
    with pytest.raises(
        InputError, match=r"other\.vec: no vector of a symbol that the language model knows"
    ):
        train_language_model(
            tiny(vectors=tmp_path / "other.vec", embedding=None), [text], tmp_path / "lm"
        )
    with pytest.raises(InputError, match="cannot read"):
        train_language_model(tiny(vectors=tmp_path / "no.bin"), [text], tmp_path / "lm")
    assert not (tmp_path / "lm").exists()


def test_one_vector_is_enough(text, tmp_path):
    """Then the others have no spread and are equal to it; training parts them."""
    character = text.read_text("utf-8")[0]
    (tmp_path / "one.vec").write_text(f"{character} 3 4\n", "utf-8")
    train_language_model(
        tiny(vectors=tmp_path / "one.vec", embedding=None), [text], tmp_path / "lm", "forward"
    )
    table = weights(tmp_path / "lm")["embedding"]
    assert table.shape[1] == 2
    assert len(torch.unique(table, dim=0)) > 2
