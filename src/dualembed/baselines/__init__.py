"""Rivals, each as its authors would want it: a solver of any saddle, or a `fit` for one kind of problem.

Either way a `Result` comes out. Solvers: `dualembed.solve(key, saddle, baselines.LSTD())`; what has no dual leaves the
saddle's aside and gives the zero function for it.
"""

from dualembed.baselines.conditional_embedding import ConditionalEmbeddingTwoStep
from dualembed.baselines.instrumental import KernelIV, TwoStageLeastSquares
from dualembed.baselines.least_squares import BRM, LSTD, BatchSAA, KernelBellmanLoss
from dualembed.baselines.mdp_embedding import MDPKernelEmbedding, MDPRandomFeatureEmbedding
from dualembed.baselines.residual_gradient import SCGD, SGDSAA, DoubleSampling, ResidualGradient, VirtualSamples
from dualembed.baselines.sieve import CrossValidatedSieveIV, SieveIV
from dualembed.baselines.temporal_difference import GTD2, TD0, TDC

__all__ = [
    "BRM",
    "BatchSAA",
    "ConditionalEmbeddingTwoStep",
    "CrossValidatedSieveIV",
    "DoubleSampling",
    "GTD2",
    "KernelBellmanLoss",
    "KernelIV",
    "LSTD",
    "MDPKernelEmbedding",
    "MDPRandomFeatureEmbedding",
    "ResidualGradient",
    "SCGD",
    "SGDSAA",
    "SieveIV",
    "TD0",
    "TDC",
    "TwoStageLeastSquares",
    "VirtualSamples",
]
