"""Rivals, one a file, each as its authors would want it: `fit` returns the Result that a solver returns."""

from dualembed.baselines.kernel_iv import KernelIV
from dualembed.baselines.two_stage_least_squares import TwoStageLeastSquares

__all__ = ["KernelIV", "TwoStageLeastSquares"]
