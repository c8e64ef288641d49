"""Versions of segmenters: a model's record names the one that cut its training text."""

from __future__ import annotations

import hashlib

from hanlattice.checkpoint import find_model
from hanlattice.errors import HanlatticeError
from hanlattice.files import sha256
from hanlattice.text import segment
from hanlattice.text.segment import SEGMENTERS

# The files that identify a model; the first one has the checksums of all others but the second.
MODEL_FILES = ("config.json", "model.safetensors")
# How many digits of a checksum stand for a version.
_DIGITS = 12


def segmenter_version(name: str) -> str | None:
    """Return the version of a segmenter's package, or a model's checksum; None if there is none."""
    if name in SEGMENTERS or not name:
        return segment.segmenter_version(name)
    return model_version(name)


def model_version(name: str) -> str | None:
    """Return the checksum of a bundled model, or of a folder; None if there is no model."""
    try:
        digests = [sha256(find_model(name) / file) for file in MODEL_FILES]
    except HanlatticeError:
        # The first text reports what is wrong.
        return None
    return f"sha256:{hashlib.sha256(' '.join(digests).encode()).hexdigest()[:_DIGITS]}"
