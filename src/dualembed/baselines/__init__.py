"""Rivals, one a file, each as its authors would want it: a solver of any saddle, or a `fit` for one kind of problem.

Either way a `Result` comes out. Solvers: `dualembed.solve(key, saddle, baselines.LSTD())`; what has no dual leaves the
saddle's aside and gives the zero function for it.
"""

from dualembed.baselines.compositional import SCGD
from dualembed.baselines.conditional_embedding import ConditionalEmbeddingTwoStep
from dualembed.baselines.double_sampling import DoubleSampling
from dualembed.baselines.gtd2 import GTD2
from dualembed.baselines.kernel_bellman import KernelBellmanLoss
from dualembed.baselines.kernel_iv import KernelIV
from dualembed.baselines.lstd import LSTD
from dualembed.baselines.mdp_embedding import MDPKernelEmbedding, MDPRandomFeatureEmbedding
from dualembed.baselines.residual_gradient import SGDSAA, ResidualGradient
from dualembed.baselines.sample_average import BRM, BatchSAA
from dualembed.baselines.temporal_difference import TD0, TDC
from dualembed.baselines.two_stage_least_squares import TwoStageLeastSquares
from dualembed.baselines.virtual_samples import VirtualSamples

__all__ = [
    "BRM",
    "BatchSAA",
    "ConditionalEmbeddingTwoStep",
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
    "TD0",
    "TDC",
    "TwoStageLeastSquares",
    "VirtualSamples",
]
