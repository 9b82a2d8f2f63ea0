"""Efficient weights: where the noise of the moment depends on the context, quiet contexts should count for more."""

from __future__ import annotations

import dataclasses

import numpy as np

from dualembed.selection.honest_score import clustered_error
from dualembed.selection.regression import cross_fit

FOLDS = 5
FEWEST = 6 * FOLDS  # rows; the honest score, which judges the weights, needs as many
LOWEST = 0.05  # of the mean: a variance is not believed to be smaller
SHARES = (0.25, 0.5, 0.75, 1.0)


@dataclasses.dataclass(frozen=True)
class Variances:
    """σ²(κ) at each row, (n,), how far it is from a constant (share 0), and what it gains over one.

    `gain` is the mean gain in log likelihood of a held-out residual, a Gaussian one, with its standard error.
    """

    values: np.ndarray
    share: float
    gain: float
    stderr: float

    @property
    def helpful(self) -> bool:
        """Whether the gain is beyond doubt."""
        return self.share > 0 and self.gain > 2 * self.stderr


def variances(
    contexts: np.ndarray, residuals: np.ndarray, rng: np.random.Generator, *, units: np.ndarray | None = None
) -> Variances:
    """A smooth model of E[residual² | κ], shrunk towards the mean as far as held-out residuals ask for.

    σ²(κ) = (1 - share) σ² + share · v(κ), v a kernel regression of the squared residuals, each row's from other rows
    and, where `units` (n,) numbers groups that depend on each other, from other groups.
    """
    squares = residuals**2
    mean = float(squares.mean())
    best = Variances(np.full(len(squares), mean), 0.0, 0.0, 0.0)
    if mean == 0 or len(squares) < FEWEST:
        return best
    units = np.arange(len(squares)) if units is None else units
    blocks = (rng.permutation(units.max() + 1) % (2 * FOLDS))[units]
    uses = (np.arange(2 * FOLDS) // 2 != np.arange(FOLDS)[:, None])[None]
    model = np.maximum(cross_fit(contexts, squares, blocks, uses=uses, rng=rng)[0], LOWEST * mean)
    constant = -0.5 * (np.log(mean) + squares / mean)
    for share in SHARES:
        values = (1 - share) * mean + share * model
        gains = -0.5 * (np.log(values) + squares / values) - constant
        if gains.mean() > best.gain:
            best = Variances(values, share, float(gains.mean()), clustered_error(gains, units))
    return best
