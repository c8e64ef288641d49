"""What two models get differently on the same sentences: counts, breakdowns and the sentences themselves.

`compare` gives a value, `Mistakes`; `report` puts it into words. Swapping the two models swaps the columns.
"""

from hanlattice.evaluation.mistakes.comparison import Covered, Mistakes, compare
from hanlattice.evaluation.mistakes.judged import Compared, Judged
from hanlattice.evaluation.mistakes.lexicon import read_lexicon
from hanlattice.evaluation.mistakes.rows import Row, Side, sign_test

__all__ = ["Compared", "Covered", "Judged", "Mistakes", "Row", "Side", "compare", "read_lexicon", "sign_test"]
