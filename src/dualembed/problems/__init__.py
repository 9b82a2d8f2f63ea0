"""Problems: every application as an affine moment of the unknown function (docs/maths.md)."""

from dualembed.problems.base import Moment, Problem, Terms
from dualembed.problems.invariance import Invariance

__all__ = ["Invariance", "Moment", "Problem", "Terms"]
