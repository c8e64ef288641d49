"""Why a model says what it says: the words of its lattice, their shares of each cell, as data and
as pictures.
"""

from hanlattice.explain.read import explain
from hanlattice.explain.svg import notebook_svg
from hanlattice.explain.values import Ablation, Direction, Explanation, Layer, Share, Word

Explanation._repr_svg_ = notebook_svg

__all__ = ["Ablation", "Direction", "Explanation", "Layer", "Share", "Word", "explain"]
