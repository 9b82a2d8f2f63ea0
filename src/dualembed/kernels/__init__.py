"""Positive definite kernels k(x, z) on rows of numbers, their sums and products, and their spectral measures.

    Gaussian(0.3)                                                     one bandwidth for all coordinates
    Gaussian([0.3, 2.0])                                              one for each coordinate
    Columns(Gaussian(0.05), (0,)) * Columns(Matern52(0.3), (1, 2))    different kernels on different columns
    0.5 * Gaussian(1.0) + 2.0 * Polynomial(2)
    HaarIntegral(Gaussian(1.0), [[[1.0]], [[-1.0]]])                  functions of x that are the same at -x

NumPy points give NumPy values in their own precision; JAX points give JAX values, traced or not.
"""

from __future__ import annotations

from dualembed.kernels.base import Columns, Kernel, Product, Scaled, Sum
from dualembed.kernels.distributions import HaarIntegral, MeanOverDraws, ProbabilityProduct, rotations
from dualembed.kernels.inner_product import ArcCosine, ArcSine, Polynomial
from dualembed.kernels.stationary import (
    Categorical,
    Gaussian,
    Laplacian,
    Matern32,
    Matern52,
    Periodic,
    Radial,
    Stationary,
    median_bandwidth,
)

__all__ = [
    "Kernel",
    "Stationary",
    "Radial",
    "Gaussian",
    "Matern32",
    "Matern52",
    "Laplacian",
    "Periodic",
    "Categorical",
    "Polynomial",
    "ArcCosine",
    "ArcSine",
    "Sum",
    "Product",
    "Scaled",
    "Columns",
    "HaarIntegral",
    "MeanOverDraws",
    "ProbabilityProduct",
    "rotations",
    "median_bandwidth",
    "BY_NAME",
]

BY_NAME: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern32": Matern32,
    "matern52": Matern52,
    "periodic": Periodic,
    "categorical": Categorical,
    "polynomial": Polynomial,
    "arc-cosine": ArcCosine,
    "arc-sine": ArcSine,
}
