"""Two-stage least squares in polynomials: the closed-form saddle with a finite basis on either side and no penalty."""

from __future__ import annotations

import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.links import Direct
from dualembed.losses import Square
from dualembed.saddle import DualFunction
from dualembed.solvers.base import Pair, Result
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.linear import LinearFunction


class TwoStageLeastSquares(eqx.Module):
    """f in the polynomials of x up to a degree, with the polynomials of z up to the same degree as instruments.

    With ψ, φ the monomials of x and z and P the projection onto the columns of φ(z):

        θ = argmin |P (ψ(x) θ - y)|²,   f = θᵀψ,   u = the regression of f(x) - y on φ(z)

    >>> z = np.linspace(-1, 1, 50)
    >>> x = z + 0.1 * np.cos(9 * z)
    >>> result = TwoStageLeastSquares(degree=1).fit(x, 2 * x + 1, z)
    >>> [round(float(value), 4) for value in result.primal([0.0, 1.0])]
    [1.0, 3.0]
    """

    degree: int = eqx.field(default=3, static=True)

    def __check_init__(self) -> None:
        checks.count("degree", self.degree)

    def fit(self, x: Any, y: Any, z: Any) -> Result:
        """f from samples x (n, dx), y (n,), z (n, dz); computed in float64."""
        x, y, z = columns(x, y, z)
        psi, phi = Monomials.of(x, self.degree), Monomials.of(z, self.degree)
        if not psi.size <= phi.size <= len(y):
            raise checks.InputError(
                f"degree {self.degree} gives {psi.size} polynomials of x, {phi.size} of z and there are {len(y)} rows, "
                "which must not decrease in this order; give another degree, or more instruments or rows"
            )
        regressors = psi.compute(np, x)
        # An orthonormal basis of the instruments, with directions that rounding cannot tell from zero left out
        # (a column of few distinct values has dependent powers), projects without squaring the condition number.
        left, values, right = np.linalg.svd(phi.compute(np, z), full_matrices=False)
        kept = values > values[0] * max(left.shape) * np.finfo(float).eps
        left, right = left[:, kept], right[kept].T / values[kept]
        # Where the instruments tell fewer polynomials apart than the data do, many f solve the equations.
        seen, there = np.linalg.matrix_rank(left.T @ regressors), np.linalg.matrix_rank(regressors)
        if seen < there:
            raise checks.InputError(
                f"degree {self.degree} gives {there} independent polynomials of x, but z has only {seen} independent "
                "instruments for them; give a lower degree, or more instruments"
            )
        theta = np.linalg.lstsq(left.T @ regressors, left.T @ y, rcond=None)[0]
        eta = right @ (left.T @ (regressors @ theta - y))
        return result(LinearFunction(psi, jnp.asarray(theta)), LinearFunction(phi, jnp.asarray(eta)))


class Monomials(FeatureMap):
    """φ(x) = all products of at most `degree` standardised coordinates, the constant among them."""

    centre: np.ndarray | jax.Array  # (d,)
    scale: np.ndarray | jax.Array  # (d,)
    degree: int = eqx.field(static=True)

    @staticmethod
    def of(points: np.ndarray, degree: int) -> Monomials:
        """The monomials, standardised by the points' mean and deviation; a constant column is only centred."""
        scale = points.std(axis=0)
        return Monomials(points.mean(axis=0), np.where(scale > 0, scale, 1.0), degree)

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.centre.shape[0]

    @property
    def size(self) -> int:
        """The number of monomials, (d + degree)! / (d! degree!)."""
        return math.comb(self.dimension + self.degree, self.degree)

    def __call__(self, xs: jax.Array) -> jax.Array:
        """Features (n, m) at points (n, d)."""
        return self.compute(jnp, xs)

    def compute(self, xp: Any, points: Any) -> Any:
        """The same in NumPy or in JAX, whichever is given; degree by degree."""
        standard = (points - self.centre) / self.scale
        blocks = [xp.ones_like(standard[:, :1])]
        for degree in range(1, self.degree + 1):
            factors = itertools.combinations_with_replacement(range(self.dimension), degree)
            blocks.append(standard[:, np.asarray(list(factors))].prod(axis=2))
        return xp.concatenate(blocks, axis=1)


def columns(x: Any, y: Any, z: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The samples as float64 arrays (n, dx), (n,), (n, dz), checked."""
    given = {"x": x, "y": y, "z": z}
    for name, value in given.items():
        checks.array(name, value, ndim=1 if name == "y" else (1, 2))
    rows = {name: len(value) for name, value in given.items()}
    if len(set(rows.values())) > 1:
        raise checks.InputError(f"x, y and z need equally many rows, but have {rows}")
    x, y, z = (np.asarray(value, dtype=np.float64) for value in given.values())
    return x.reshape(len(x), -1), y, z.reshape(len(z), -1)


def result(primal: Any, dual: Any) -> Result:
    """The Result of a method without steps: f, and u(z) for E[f(x) - y | z], its last iterates the same."""
    u = DualFunction(dual, Direct(), Square())
    return Result(primal, u, None, True, Pair(primal, u))
