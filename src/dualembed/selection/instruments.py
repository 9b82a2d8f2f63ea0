"""Instruments: orthonormal functions of the context through which the data judge f; the dual's features."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualembed.kernels import Columns, Gaussian, Kernel
from dualembed.selection.evidence import Regression, maximise, padded, padding, regression_evidence
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
    landmarks: Any  # (m, c)
    transform: Any  # T, (1 + m, r)

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


def orthonormal(kernel: Kernel, contexts: np.ndarray, landmarks: np.ndarray, *, tolerance: float) -> Instruments:
    """A constant and the main directions of the kernel's features, orthonormal on the contexts.

    Directions whose variance there is below `tolerance` times the largest are left out: they would add noise.
    """
    whitener = whiten(kernel, landmarks, 1e-9)
    features = np.asarray(kernel.gram(contexts, landmarks)) @ whitener
    mean = features.mean(axis=0)
    features -= mean
    variances, directions = np.linalg.eigh(features.T @ features / len(features))
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


def bandwidths(contexts: np.ndarray, responses: np.ndarray, *, widest: np.ndarray) -> np.ndarray:
    """A bandwidth for each column of the contexts, short enough to predict the responses (n, J), at most `widest`.

    The dual function to be represented is E[moment - y | κ], so that the responses are what the moment is made of:
    targets, and the parts of the moment at a first f. They are regressed on the context by Gaussian processes of one
    Gaussian kernel, whose bandwidths maximise the evidence with a hyper-prior around `widest`. A dual that is too
    poor ruins any f; one that is richer than needed costs a little noise, so that bandwidths never grow.
    """
    contexts, responses = contexts[:ROWS], responses[:ROWS]
    spreads = responses.std(axis=0)
    responses = (responses - responses.mean(axis=0))[:, spreads > 0] / spreads[spreads > 0]
    if responses.shape[1] == 0:
        return widest
    levels = np.full(responses.shape[1], 0.5)
    centre = Regression(Gaussian(widest), levels, levels)
    spread = Regression(
        Gaussian(np.full(len(widest), BANDWIDTH_SPREAD)),
        np.full_like(levels, LEVEL_SPREAD),
        np.full_like(levels, LEVEL_SPREAD),
    )
    more = padding(len(contexts))
    real = np.pad(np.ones(len(contexts)), (0, more))
    landmarks = padded(contexts[:LANDMARKS], max(LANDMARKS - len(contexts), 0))
    with jax.enable_x64(True):
        parts = padded(contexts, more), np.pad(responses, ((0, more), (0, 0))), landmarks, real
        data = tuple(jnp.asarray(part) for part in parts)
    start = Regression(Gaussian(0.5 * widest), levels, levels)
    best = maximise(regression_evidence, centre, spread, data, start=start).parameters
    return np.minimum(np.asarray(best.kernel.bandwidth), widest)


def kernel_on(columns: tuple[int, ...], widths: np.ndarray, dimension: int) -> Kernel:
    """A Gaussian kernel of these columns of contexts that have `dimension` columns."""
    kernel = Gaussian(np.asarray(widths, dtype=np.float64))
    return kernel if len(columns) == dimension else Columns(kernel, columns)
