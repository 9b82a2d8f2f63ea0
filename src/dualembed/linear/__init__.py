"""Linear systems from sums by group: one place for closed forms and for their errors."""

from dualembed.linear.candidates import Functional, Headline, RidgePath
from dualembed.linear.fit import LinearFit
from dualembed.linear.moment_fit import MixturePrior, MomentFit, Spread
from dualembed.linear.path import Average, solution_path
from dualembed.linear.sums import Sums, gather, gather_moments
from dualembed.linear.system import LinearSystem, MomentSystem

__all__ = [
    "Average",
    "Functional",
    "Headline",
    "LinearFit",
    "LinearSystem",
    "MixturePrior",
    "MomentFit",
    "MomentSystem",
    "RidgePath",
    "Spread",
    "Sums",
    "gather",
    "gather_moments",
    "solution_path",
]
