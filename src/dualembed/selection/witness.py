"""Where an averaged fit is still wrong, as groups of rows show it that it was fitted without."""

from __future__ import annotations

import numpy as np

from dualembed.linear.fit import LinearFit
from dualembed.linear.spread import Spread

RIDGES = 10.0 ** np.arange(2, -7, -1)  # as shares of a feature's mean square


def witness_of(fit: LinearFit) -> Spread:
    """E[moment(f) - y | context] as groups show it that f was fitted without, with standard errors over groups.

    It is a regression on the features of the kernel that counts most. Its ridge is the one that predicts best what
    a group shows from what the others show.
    """
    leading = int(np.argmax([weights.sum() for weights in fit.candidates.weights]))
    path, sums = fit.candidates.paths[leading], fit.sums[leading]
    shares = fit.candidates.weights[leading] / fit.candidates.weights[leading].sum()
    thetas = np.tensordot(shares, path.weights[:, 1:-1], axes=1)
    left = np.stack(
        [
            cross.astype(np.float64) @ theta - target[:, (1 + k) % target.shape[1]]
            for k, (cross, target, theta) in enumerate(zip(sums.cross, sums.target, thetas, strict=True))
        ]
    )
    rows = sums.count.sum()
    values, vectors = np.linalg.eigh(sums.mean_dual)
    pulled = left @ vectors / rows  # (K, m)
    share = (sums.count / rows)[:, None]
    others = (pulled.sum(axis=0) - pulled) / (1 - share)
    errors = []
    for ridge in RIDGES:
        fitted = others / (np.maximum(values, 0) + ridge * sums.mean_square)
        errors.append(np.sum(share * fitted**2 * values - 2 * fitted * pulled))
    ridge = RIDGES[int(np.argmin(errors))] * sums.mean_square
    inverse = vectors / (np.maximum(values, 0) + ridge)
    groups = len(pulled)
    spread = np.sqrt(groups / (groups - 1)) * (pulled - share * pulled.sum(axis=0))
    return Spread(path.features, inverse @ pulled.sum(axis=0), inverse @ spread.T)
