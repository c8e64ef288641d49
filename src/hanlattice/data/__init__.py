"""Corpora: readers and writers of character columns, segmented lines and JSONL spans, and the known downloads."""

from hanlattice.data.corpus import read_corpus
from hanlattice.data.download import KNOWN, Fetched, Known, cache_folder, fetch, is_fetched, known, resolve
from hanlattice.text.sentence import Corpus

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
