"""Linear systems from sums by group: one place for closed forms and for their errors."""

from dualembed.linear.candidates import Functional, Headline, RidgePath
from dualembed.linear.fit import LinearFit
from dualembed.linear.gmm import fit_cue, fit_gmm
from dualembed.linear.iv_covariance import Clustered, ClusterJackknife, Covariance, Robust, Unadjusted
from dualembed.linear.iv_design import IVDesign
from dualembed.linear.iv_rank import Dropped
from dualembed.linear.moment_fit import MixturePrior, MomentFit, Spread
from dualembed.linear.path import Average, solution_path
from dualembed.linear.serial import NeweyWest
from dualembed.linear.sums import Sums, gather, gather_moments
from dualembed.linear.system import LinearSystem, MomentSystem
from dualembed.linear.two_stage import IVFit, fit_liml, fit_two_stage

__all__ = [
    "Average",
    "Clustered",
    "ClusterJackknife",
    "Covariance",
    "Dropped",
    "Functional",
    "Headline",
    "IVDesign",
    "IVFit",
    "LinearFit",
    "LinearSystem",
    "MixturePrior",
    "MomentFit",
    "MomentSystem",
    "NeweyWest",
    "RidgePath",
    "Robust",
    "Spread",
    "Sums",
    "Unadjusted",
    "fit_cue",
    "fit_gmm",
    "fit_liml",
    "fit_two_stage",
    "gather",
    "gather_moments",
    "solution_path",
]
