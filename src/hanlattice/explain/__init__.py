"""Why a model finds what it finds: its lattice's words and their shares, as data and pictures."""

from hanlattice.explain.read import explain
from hanlattice.explain.svg import notebook_svg
from hanlattice.explain.values import Ablation, Direction, Explanation, Layer, Share, Word

Explanation._repr_svg_ = notebook_svg

__all__ = ["Ablation", "Direction", "Explanation", "Layer", "Share", "Word", "explain"]
