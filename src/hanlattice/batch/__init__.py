"""From sentences to arrays: an Indexer makes Examples of a corpus once; batches are taken from them without a loop."""

from hanlattice.batch.batch import Batch, Examples
from hanlattice.batch.indexer import Indexer

__all__ = ["Batch", "Examples", "Indexer"]
