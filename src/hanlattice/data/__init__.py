"""Corpora: readers and writers for character columns, segmented lines and JSONL spans, and the known downloads."""

from hanlattice.data.corpora import KNOWN, Known, cache_folder, known, resolve
from hanlattice.data.corpus import Corpus, read_corpus
from hanlattice.data.download import Fetched, fetch, is_fetched

__all__ = [
    "KNOWN",
    "Corpus",
    "Fetched",
    "Known",
    "cache_folder",
    "fetch",
    "is_fetched",
    "known",
    "read_corpus",
    "resolve",
]
