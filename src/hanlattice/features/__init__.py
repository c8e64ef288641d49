"""From sentences to arrays: an Indexer makes Examples of a corpus, and Examples give batches."""

from hanlattice.features.batches import Batch, Examples
from hanlattice.features.indexer import Indexer

__all__ = ["Batch", "Examples", "Indexer"]
