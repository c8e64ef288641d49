"""The versions of segmenters: a model's facts name the one that cut its training text."""

from __future__ import annotations

import hashlib

from hanlattice.checkpoint import find_model
from hanlattice.errors import HanlatticeError
from hanlattice.files import sha256
from hanlattice.text import segment
from hanlattice.text.segment import SEGMENTERS

# Of a model's folder; the first has the checksums of the others.
MODEL_FILES = ("config.json", "model.safetensors")
_DIGITS = 12  # of a checksum that stands for a version


def segmenter_version(name: str) -> str | None:
    """The version of the package behind a segmenter, or a model's checksum; None where there is
    none.
    """
    return (
        segment.segmenter_version(name) if name in SEGMENTERS or not name else model_version(name)
    )


def model_version(name: str) -> str | None:
    """The checksum of a bundled model, or of one in a folder; None where there is none."""
    try:
        digests = [sha256(find_model(name) / file) for file in MODEL_FILES]
    except HanlatticeError:  # the first text reports what is wrong
        return None
    return f"sha256:{hashlib.sha256(' '.join(digests).encode()).hexdigest()[:_DIGITS]}"
