"""The linear-chain CRF: likelihood, partition, Viterbi, marginals, n-best and the probability of a span.

The functions here are the batched ones; `reference` holds their twins, which enumerate every tagging. See README.md.
"""

from hanlattice.ops.crf import reference
from hanlattice.ops.crf.batched import (
    log_likelihood,
    log_partition,
    marginals,
    nbest,
    span_log_probability,
    viterbi,
)
from hanlattice.ops.crf.values import FORBIDDEN, CRFScores, TaggedSpans, forbid

__all__ = [
    "FORBIDDEN",
    "CRFScores",
    "TaggedSpans",
    "forbid",
    "log_likelihood",
    "log_partition",
    "marginals",
    "nbest",
    "reference",
    "span_log_probability",
    "viterbi",
]
