"""Untrained models of every kind that can be explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hanlattice.checkpoint.checksums import load_tensors
from hanlattice.checkpoint.folder import save_weights
from hanlattice.config import make_config
from hanlattice.data.formats.segmented import read_segmented
from hanlattice.predict import Predictor, load
from tests.helpers.cutting import cutting_tree
from tests.helpers.made import made_config, sentences
from tests.helpers.untrained import in_twos, write_untrained


def tagger(made: Path, folder: Path, **changes: Any) -> Predictor:
    """Return a model for persons and places."""
    config = made_config(made, model__hidden=6, **changes)
    train = sentences(40, 0)
    if config.reads_segments:
        train = list(map(in_twos, train))
    return _shaken(write_untrained(folder, config, train))


def segmenter(made: Path, folder: Path, **changes: Any) -> Predictor:
    """Return a model that cuts text into words."""
    changes |= {"model__encoder": "lattice", "model__hidden": 6}
    config = make_config(cutting_tree(made, folder, **changes))
    train = read_segmented(folder / "train.seg").sentences
    return _shaken(write_untrained(folder / "model", config, train))


def _shaken(folder: Path) -> Predictor:
    """Load a model with random weights, so that no two gates are alike."""
    tensors, _ = load_tensors(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(0)
    trained = [name for name in tensors if not name.endswith((".fixed", ".counts"))]
    tensors |= {name: torch.randn(tensors[name].shape, generator=generator) for name in trained}
    save_weights(folder, tensors, {})
    return load(folder)
