"""From sentences to arrays: an Indexer makes Examples of a corpus once; batches are taken from them
without a loop.
"""

from hanlattice.features.batches import Batch, Examples
from hanlattice.features.indexer import Indexer

__all__ = ["Batch", "Examples", "Indexer"]
