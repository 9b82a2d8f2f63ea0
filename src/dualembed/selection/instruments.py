"""Instruments, the dual's features: as fine as what can be observed of the moment asks for, orthonormal on the data.

*Regression evidence* judges kernels for functions of the context, by how well they predict what can be observed
there; instruments take their bandwidths from it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from dualembed.arrays import Floats
from dualembed.kernels import Columns, Gaussian, Kernel
from dualembed.selection.evidence import JITTER, maximise
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.nystrom import whiten

ROWS = 2000  # contexts that the bandwidths are learnt from
LANDMARKS = 100  # of the regression evidence
BANDWIDTH_SPREAD = 0.3  # of the logarithm, in the hyper-prior
LEVEL_SPREAD = 3.0
CONSTANT = 10.0  # the constant's size over the largest standard deviation of an instrument of unit norm


class Instruments(FeatureMap):
    """q(κ) = Tᵀ(1, k(κ, landmarks))."""

    kernel: Kernel
    landmarks: Floats  # (m, c)
    transform: Floats  # T, (1 + m, r)

    @property
    def dimension(self) -> int:
        """Coordinates of a context."""
        return self.landmarks.shape[1]

    @property
    def size(self) -> int:
        """The number r of instruments."""
        return self.transform.shape[1]

    def __call__(self, xs: Any) -> Any:
        """The instruments (n, r) at contexts (n, c)."""
        return self.transform[0] + self.kernel.gram(xs, self.landmarks) @ self.transform[1:]


def orthonormal(
    kernel: Kernel, contexts: Floats, landmarks: Floats, *, tolerance: float, mass: Floats | None = None
) -> Instruments:
    """A constant and the main directions of the kernel's features, orthonormal on the contexts.

    Directions whose variance there is below `tolerance` times the largest are left out: they would add noise. Means
    over the contexts are weighted by their `mass` (n,), where they have any.
    """
    whitener = whiten(kernel, landmarks, 1e-9)
    features = np.asarray(kernel.gram(contexts, landmarks)) @ whitener
    mean = np.average(features, axis=0, weights=mass)
    features -= mean
    rows = len(features)
    if mass is not None:
        features *= np.sqrt(mass / mass.mean())[:, None]
    variances, directions = np.linalg.eigh(features.T @ features / rows)
    kept = variances > max(tolerance * variances[-1], 1e-14)
    directions = directions[:, kept] / np.sqrt(variances[kept])
    transform = np.zeros((1 + len(landmarks), 1 + directions.shape[1]))
    transform[0, 0] = 1.0
    transform[0, 1:] = -mean @ directions
    transform[1:, 1:] = whitener @ directions
    return Instruments(kernel, landmarks, transform)


def of_unit_norm(instruments: Instruments) -> Instruments:
    """The same functions, each of norm 1 in the kernel's RKHS, whose penalty then is that of their weights.

    The constant, which is not in it, is made so large that a penalty of the others hardly counts for it.
    """
    constant, others = instruments.transform[:, :1], instruments.transform[:, 1:]
    gram = np.asarray(instruments.kernel.gram(instruments.landmarks, instruments.landmarks))
    norms = np.sqrt(np.einsum("ij,ij->j", others[1:], gram @ others[1:]))
    largest = 1.0 / norms.min() if norms.size else 1.0
    transform = np.concatenate([CONSTANT * largest * constant, others / norms], axis=1)
    return Instruments(instruments.kernel, instruments.landmarks, transform)


class Regression(NamedTuple):
    """A kernel, and for each of J responses the amplitude of its function and the variance of its noise, (J,)."""

    kernel: Kernel
    amplitudes: Any
    noises: Any


def regression_evidence(
    model: Regression, inputs: Floats, responses: Floats, landmarks: Floats, mass: Floats
) -> tuple[float, list[Floats]]:
    """A lower bound on the log evidence of a Gaussian process for each column of responses (n, J), with its slopes.

    One kernel, with k(x, x) = 1, serves all columns; the bound is that of Titsias (2009) with these landmarks: it falls
    where the bandwidth is too short for them. A row counts as `mass` (n,) rows.

    Of V = k(landmarks, inputs), the landmarks' kernel matrix L Lᵀ and B = L⁻¹ V, all is written in the eigenvectors of
    B Bᵀ. The slope ∂B in B gives that in V as L⁻ᵀ ∂B, and that in L Lᵀ as -L⁻ᵀ ∂B Bᵀ L⁻¹ / 2, since no rotation of B
    changes the bound.
    """
    real = np.sqrt(mass)
    values, pull = model.kernel.gram_with_slopes(landmarks, inputs)
    gram, pull_gram = model.kernel.gram_with_slopes(landmarks, landmarks)
    factor = cholesky(gram + JITTER * np.trace(gram) / len(gram) * np.eye(len(gram)), lower=True)
    half = solve_triangular(factor, values * real, lower=True)
    spectrum, vectors = np.linalg.eigh(half @ half.T)
    spectrum = np.maximum(spectrum, 0.0)
    left_out = max(float(mass.sum() - spectrum.sum()), 0.0)

    counted = responses * real[:, None]
    along = vectors.T @ (half @ counted)  # (m, J)
    noises, ratios = model.noises, model.amplitudes / model.noises
    shrunk = 1 + spectrum[:, None] * ratios
    misfit = (np.sum(counted**2, axis=0) - ratios * np.sum(along**2 / shrunk, axis=0)) / noises
    value = -0.5 * np.sum(misfit + np.log(shrunk).sum(axis=0) + mass.sum() * np.log(noises) + ratios * left_out)

    of_ratios = 0.5 * (np.sum(along**2 / shrunk**2, axis=0) / noises - np.sum(spectrum[:, None] / shrunk, axis=0))
    of_ratios -= 0.5 * left_out
    of_noises = 0.5 * (misfit - mass.sum()) / noises - of_ratios * ratios / noises

    solved = vectors @ (along / shrunk)  # (m, J)
    inner = np.sum(ratios * (float(left_out > 0) - 1 / shrunk), axis=1)
    of_half = (solved * (ratios / noises)) @ counted.T
    of_half += ((vectors * inner) @ vectors.T - (solved * (ratios**2 / noises)) @ solved.T) @ half
    outer = solve_triangular(factor, of_half @ half.T, lower=True, trans="T")
    of_gram = -0.5 * solve_triangular(factor, outer.T, lower=True, trans="T")
    of_gram[np.diag_indices(len(gram))] += JITTER * np.trace(of_gram) / len(gram)
    of_values = solve_triangular(factor, of_half, lower=True, trans="T") * real
    of_kernel = [one + two for one, two in zip(pull(of_values), pull_gram(of_gram), strict=True)]
    return float(value), [*of_kernel, of_ratios / noises, of_noises]


def bandwidths(contexts: Floats, responses: Floats, *, widest: Floats, mass: Floats | None = None) -> Floats:
    """A bandwidth for each column of the contexts, short enough to predict the responses (n, J), at most `widest`.

    The dual function to be represented is E[moment - y | κ], so that the responses are what the moment is made of:
    targets, and the parts of the moment at a first f. They are regressed on the context by Gaussian processes of one
    Gaussian kernel, whose bandwidths maximise the evidence with a hyper-prior around `widest`. A dual that is too
    poor ruins any f; one that is richer than needed costs a little noise, so that bandwidths never grow. A row counts
    as `mass` (n,) rows.
    """
    contexts, responses = contexts[:ROWS], responses[:ROWS]
    mass = np.ones(len(contexts)) if mass is None else mass[:ROWS]
    spreads = responses.std(axis=0)
    responses = (responses - responses.mean(axis=0))[:, spreads > 0] / spreads[spreads > 0]
    if responses.shape[1] == 0:
        return widest
    levels, wide = np.full(responses.shape[1], 0.5), np.full_like(widest, BANDWIDTH_SPREAD)
    spread = Regression(Gaussian(wide), np.full_like(levels, LEVEL_SPREAD), np.full_like(levels, LEVEL_SPREAD))
    centre, start = (Regression(Gaussian(each), levels, levels) for each in (widest, 0.5 * widest))
    data = contexts, responses, contexts[:LANDMARKS], mass
    best = maximise(regression_evidence, centre, spread, data, start=start, with_slopes=True).parameters
    return np.minimum(np.asarray(best.kernel.bandwidth), widest)


def kernel_on(columns: tuple[int, ...], widths: Floats, dimension: int) -> Kernel:
    """A Gaussian kernel of these columns of contexts that have `dimension` columns."""
    kernel = Gaussian(np.asarray(widths, dtype=np.float64))
    return kernel if len(columns) == dimension else Columns(kernel, columns)
