"""The configuration of a run: dataclasses filled from TOML, every mistake reported at once."""

from hanlattice.config.fill import make_config
from hanlattice.config.read import NO_WORDS, lacking, read_config
from hanlattice.config.settings import (
    BACKENDS,
    FEATURES,
    SEGMENTERS,
    BicharsConfig,
    CharsConfig,
    CompareConfig,
    Config,
    DataConfig,
    LmConfig,
    ModelConfig,
    SegmentConfig,
    SoftwordsConfig,
    TrainConfig,
    WordsConfig,
)

__all__ = [
    "BACKENDS",
    "FEATURES",
    "NO_WORDS",
    "SEGMENTERS",
    "BicharsConfig",
    "CharsConfig",
    "CompareConfig",
    "Config",
    "DataConfig",
    "LmConfig",
    "ModelConfig",
    "SegmentConfig",
    "SoftwordsConfig",
    "TrainConfig",
    "WordsConfig",
    "lacking",
    "make_config",
    "read_config",
]
