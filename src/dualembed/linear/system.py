"""One linear system (A + ridge) θ = b, factored once: the solution, and what it gives to every linear question."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from dualembed.arrays import Floats


class LinearSystem:
    """(A + penalty I') θ = b with A = E[φgᵀ] and b = E[φtᵀ] (m, T), φ the features that f itself is made of.

    I' leaves the constant, the first feature, alone. A is not squared: a small penalty costs next to nothing.
    """

    def __init__(self, cross: Floats, target: Floats, penalty: float) -> None:
        self.cross, self.target = cross, target
        shifted = np.array(cross, order="F")
        places = np.arange(1, len(shifted))
        shifted[places, places] += penalty
        self._factors = lu_factor(shifted, overwrite_a=True, check_finite=False)

    def weights(self, column: int = 0) -> Floats:
        """θ (m,) for one of the targets."""
        return self.solve(self.target[:, column])

    def solve(self, right: Floats) -> Floats:
        """The solution for another right side, (m,) or (m, n)."""
        return np.asarray(lu_solve(self._factors, right, check_finite=False))

    def debiased(self, weights: Floats, column: int = 0) -> Floats:
        """θ with one more step of the system on what it leaves: an answer's first-order bias from the ridge is gone."""
        left = self.target[:, column] - self.cross @ weights
        return weights + self.solve(left)

    def representer(self, functional: Floats) -> Floats:
        """ω (m,) with E[(ωᵀφ) moment(f)] = functional(f) for every f of the space, up to the ridge.

        ωᵀφ is the density ratio of a policy's value, and the Riesz representer of a regression's functional.
        """
        return np.asarray(lu_solve(self._factors, functional, trans=1, check_finite=False))
