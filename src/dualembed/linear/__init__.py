"""Linear systems from sums by group: one place for closed forms and for their errors."""

from dualembed.linear.candidates import RidgePath
from dualembed.linear.fit import LinearFit
from dualembed.linear.functional import Functional, Headline
from dualembed.linear.moment_fit import KernelPrior, MomentFit
from dualembed.linear.moments import MomentSystem
from dualembed.linear.path import Average, solution_path
from dualembed.linear.spread import Spread
from dualembed.linear.sums import Sums, gather, gather_moments
from dualembed.linear.system import LinearSystem

__all__ = [
    "Average",
    "Functional",
    "Headline",
    "KernelPrior",
    "LinearFit",
    "LinearSystem",
    "MomentFit",
    "MomentSystem",
    "RidgePath",
    "Spread",
    "Sums",
    "gather",
    "gather_moments",
    "solution_path",
]
