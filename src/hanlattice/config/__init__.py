"""The configuration of a run: dataclasses filled from TOML, every mistake reported at once."""

from hanlattice.config.fill import make_config
from hanlattice.config.read import lacking, no_words, read_config
from hanlattice.config.settings import (
    BACKENDS,
    FEATURES,
    SEGMENTERS,
    SOURCES,
    BicharsConfig,
    CharsConfig,
    CompareConfig,
    Config,
    DataConfig,
    LmConfig,
    ModelConfig,
    SegmentConfig,
    SoftwordsConfig,
    SubwordsConfig,
    TrainConfig,
    WordsConfig,
)

__all__ = [
    "BACKENDS",
    "FEATURES",
    "SEGMENTERS",
    "SOURCES",
    "BicharsConfig",
    "CharsConfig",
    "CompareConfig",
    "Config",
    "DataConfig",
    "LmConfig",
    "ModelConfig",
    "SegmentConfig",
    "SoftwordsConfig",
    "SubwordsConfig",
    "TrainConfig",
    "WordsConfig",
    "lacking",
    "make_config",
    "no_words",
    "read_config",
]
