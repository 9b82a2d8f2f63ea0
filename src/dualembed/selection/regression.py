"""Cross-fitted regression: E[response | context] at each row from rows that have no part in it.

Kernel ridge in float64 from sums over blocks of rows: a row enters once for each bandwidth, and all regressions, with
their choice of bandwidth and ridge, follow from the sums.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dualembed import kernels
from dualembed.arrays import Booleans, Floats, Integers
from dualembed.spaces.nystrom import whiten

LANDMARKS = 300  # up to ROWS_PER_LANDMARK times as many rows, and growing with the rows from there
MOST_LANDMARKS = 540  # from 19,000 rows on, in three times the time of 300
ROWS_PER_LANDMARK = 35
LINEAR_COLUMNS = 100  # contexts with more columns are seen through the kernel alone
TILE = 4096  # rows at a time: with MOST_LANDMARKS + LINEAR_COLUMNS features, 22 MB
BANDWIDTHS = (0.1, 0.2, 0.4, 0.8)  # times the median distance between contexts; wider ones act like polynomials
RIDGES = np.logspace(3, -7, 21)  # for a kernel with k(x, x) = 1; the smoothest first, so that it wins ties
ROWS_PER_STATE = 12  # from so many rows for each distinct context on, a table of means needs no smoothing


def split_blocks(units: Integers, folds: int, rng: np.random.Generator) -> tuple[Integers, Booleans]:
    """(the block (n,) of each row, two to a fold and units together, at random; the blocks that folds learn from).

    The latter (1, F, 2F) are for `cross_fit`: a fold learns from all blocks of the others.
    """
    blocks = (rng.permutation(units.max() + 1) % (2 * folds))[units]
    return blocks, (np.arange(2 * folds) // 2 != np.arange(folds)[:, None])[None]


def cross_fit(
    context: Floats,
    response: Floats,
    blocks: Integers,
    *,
    uses: Booleans,
    rng: np.random.Generator,
    beside: Floats | None = None,
    mass: Floats | None = None,
) -> Floats:
    """Estimates (J, n) of E[response | context], each from blocks of rows that its own row's fold has no part in.

    Row i is in block blocks_i and fold blocks_i // 2; its estimate j comes from the blocks b with uses[j, fold, b].
    Each is a kernel ridge regression on Nyström features of a Gaussian kernel plus a constant and linear ones; its
    bandwidth and ridge minimise the generalised cross-validation error on its own blocks. `beside` (n, k) has functions
    of the context that may tell of the response, however rough they are: they enter linearly, next to unpenalised.
    Where contexts recur (a finite state space), it is the mean response of each. Rows count as `mass` (n,) rows.
    """
    estimates = np.full((uses.shape[0], len(response)), response.mean())
    scale = response.std()
    if scale <= 1e-13 * np.abs(response).max():
        return estimates
    inputs = _standardised(context)
    beside = _standardised(np.empty((len(response), 0)) if beside is None else beside)
    candidates, ridges = _candidates(inputs, rng, beside=beside.shape[1])
    inputs = np.concatenate([inputs, beside], axis=1)
    best: dict[tuple[int, int], tuple[float, _Features, Floats]] = {}
    for features in candidates:
        # Neither the scale nor the shift touches the choice of a regression with a free constant; both save digits.
        told = (response - response.mean()) / scale
        sums = _sums(features, inputs, told, blocks=blocks, count=uses.shape[2], mass=mass)
        for index in np.ndindex(uses.shape[:2]):
            error, coefficients = _ridge(features, np.tensordot(uses[index].astype(float), sums, axes=1), ridges)
            if index not in best or error < best[index][0]:
                best[index] = error, features, coefficients
    for (j, fold), (_, features, coefficients) in best.items():
        seen = response[uses[j, fold][blocks]]
        for tile in _tiles(np.flatnonzero(blocks // 2 == fold)):
            fitted = response.mean() + scale * (features(inputs[tile]) @ coefficients)
            # A conditional mean lies between the extremes; an extrapolation at an outlying context may not.
            estimates[j, tile] = np.clip(fitted, seen.min(), seen.max())
    return estimates


class _Features:
    """Kernel values at the landmarks, the coordinates themselves, k columns beside and a one: (n, m + d + k + 1)."""

    def __init__(self, kernel: kernels.Kernel, landmarks: Floats, beside: int = 0) -> None:
        self.kernel, self.landmarks = kernel, landmarks
        size, dimension = landmarks.shape
        first = 0 if dimension <= LINEAR_COLUMNS else dimension
        self.linear = np.arange(first, dimension + beside)
        whitener = whiten(kernel, landmarks, 1e-8)
        kept = whitener.shape[1]
        # Whitening turns kernel values into features whose plain ridge is the kernel's; it is applied to sums over
        # the rows, not to the rows. Linear features weigh a hundred times the kernel's, so that a plain trend, which
        # a ridge that suits the kernel would shrink, is left alone; columns beside them ten thousand times.
        self.whitening = np.zeros((size + len(self.linear), kept + len(self.linear)))
        self.whitening[:size, :kept] = whitener
        weights = np.where(self.linear < dimension, 10 / np.sqrt(dimension), 100.0)
        self.whitening[size:, kept:] = np.diag(weights)

    def __call__(self, inputs: Floats) -> Floats:
        values = np.asarray(self.kernel.gram(inputs[:, : self.landmarks.shape[1]], self.landmarks))
        return np.concatenate([values, inputs[:, self.linear], np.ones((len(inputs), 1))], axis=1)


def _sums(
    features: _Features, inputs: Floats, response: Floats, *, blocks: Integers, count: int, mass: Floats | None
) -> Floats:
    """Σ (φ, 1, y)(φ, 1, y)ᵀ over the rows of each block: (count, p, p)."""
    size = features.whitening.shape[0] + 2
    sums = np.zeros((count, size, size))
    for block in range(count):
        for tile in _tiles(np.flatnonzero(blocks == block)):
            joined = np.concatenate([features(inputs[tile]), response[tile, None]], axis=1)
            if mass is not None:
                joined *= np.sqrt(mass[tile])[:, None]
            sums[block] += joined.T @ joined
    return sums


def _ridge(features: _Features, sums: Floats, ridges: Floats) -> tuple[float, Floats]:
    """(generalised cross-validation error, coefficients of the features) of the best ridge, the constant being free."""
    rows = sums[-2, -2]
    mean = sums[-2] / rows
    covariance = sums / rows - np.outer(mean, mean)
    whitening = features.whitening
    eigenvalues, vectors = np.linalg.eigh(whitening.T @ covariance[:-2, :-2] @ whitening)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    slopes = vectors.T @ (whitening.T @ covariance[:-2, -1])
    ridges = ridges[:, None]
    shrunk = slopes / (eigenvalues + ridges)
    misfit = covariance[-1, -1] - np.sum(shrunk**2 * (eigenvalues + 2 * ridges), axis=1)
    freedom = 1 + np.sum(eigenvalues / (eigenvalues + ridges), axis=1)
    # Sums of squares leave a misfit of rounding size where the response is a function of the context.
    misfit = np.maximum(misfit, 1e-14 * sums[-1, -1] / rows)
    left = 1 - freedom / rows
    error = np.where(left > 0.1, misfit / np.maximum(left, 0.1) ** 2, np.inf)
    chosen = int(np.argmin(error))
    # Fitting the residuals once more squares each direction's shrinkage (twicing; Newey, Hsieh and Robins, 2004). The
    # two regressions' variances cancel in the honest score and their biases do not: less bias is worth some variance.
    twice = shrunk[chosen] * (1 + ridges[chosen] / (eigenvalues + ridges[chosen]))
    coefficients = whitening @ (vectors @ twice)
    return float(error[chosen]), np.append(coefficients, mean[-1] - mean[:-2] @ coefficients)


def _standardised(context: Floats) -> Floats:
    """The columns with mean 0 and standard deviation 1; constant ones become 0."""
    centred = context - context.mean(axis=0)
    spread = centred.std(axis=0)
    constant = spread <= 1e-13 * np.abs(context).max(axis=0)
    return np.where(constant, 0.0, centred / np.where(constant, 1.0, spread))


def _candidates(inputs: Floats, rng: np.random.Generator, *, beside: int) -> tuple[list[_Features], Floats]:
    """(features, ridges) to choose from, on distinct rows drawn at random, more of them for more data."""
    rows = len(inputs)
    # What landmarks cannot resolve is a bias that both regressions share, while the standard error falls with the rows.
    most = min(max(LANDMARKS, rows // ROWS_PER_LANDMARK), MOST_LANDMARKS)
    looked_at = rng.choice(rows, min(rows, 10 * most), replace=False)
    distinct = np.unique(inputs[looked_at], axis=0)
    if len(distinct) <= min(most, rows // ROWS_PER_STATE):
        return [_Features(kernels.Categorical(), distinct)], RIDGES[-1:]
    size = min(len(distinct), most, int(4 * np.sqrt(rows)))
    landmarks = distinct[rng.choice(len(distinct), size, replace=False)]
    bandwidth = kernels.median_bandwidth(landmarks)
    return [_Features(kernels.Gaussian(factor * bandwidth), landmarks, beside) for factor in BANDWIDTHS], RIDGES


def _tiles(rows: Integers) -> Iterator[Integers]:
    for start in range(0, len(rows), TILE):
        yield rows[start : start + TILE]
