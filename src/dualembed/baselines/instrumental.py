"""Instrumental variables in two stages: kernel ridge regression, or least squares in polynomials.

Kernel instrumental variables are by Singh, Sahani and Gretton (2019). Two-stage least squares is the closed-form saddle
with a finite basis on either side and no penalty.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from dualembed import checks, kernels
from dualembed.arrays import AnyArray, Floats
from dualembed.links import Direct
from dualembed.losses import Square
from dualembed.saddle import DualFunction
from dualembed.solvers.base import Pair, Result
from dualembed.spaces.base import Function
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.linear import LinearFunction
from dualembed.spaces.rkhs import KernelFunction

PENALTIES = np.logspace(-12, 1, 53)


class KernelIV(eqx.Module):
    """Kernel instrumental variables (Singh, Sahani and Gretton 2019), with both penalties chosen from the data.

    With the first half (x, y, z) of n rows and the second half (x̃, ỹ, z̃) of m rows, in random order by the seed,

        f = Σ_i α_i k(x_i, ·),   W = K_xx (K_zz + n λ)⁻¹ K_zz̃,   α = (W Wᵀ + m ξ K_xx)⁻¹ W ỹ.

    λ minimises the first stage's error on the second half, mean |k(x̃, ·) - μ(z̃)|²; ξ minimises mean (y - f(x))² on
    the first half, the authors' causal validation. Kernels are Gaussian, a product over coordinates, each with the
    median distance between its values for bandwidth (1 for a constant one). All this is as published. Only the search
    for a penalty differs: it is a grid and then a local search, where the authors' code has a local search alone.

    Parameters
    ----------
    seed : int, default=0
        Seeds the split into halves.
    """

    seed: int = eqx.field(default=0, static=True)

    def __check_init__(self) -> None:
        checks.count("seed", self.seed, at_least=0)

    def fit(self, x: ArrayLike, y: ArrayLike, z: ArrayLike) -> Result:
        """Fit f to samples, in float64.

        Parameters
        ----------
        x : array-like of shape (n,) or (n, dx)
            What f is a function of.
        y : array-like of shape (n,)
            Outcomes.
        z : array-like of shape (n,) or (n, dz)
            Instruments.

        Returns
        -------
        Result
            The function f as `primal`; as `dual` the regression of f(x) - y on z.

        Raises
        ------
        InputError
            If there are fewer than 4 rows, or z does not vary.
        """
        x, y, z = iv_arrays(x, y, z)
        if len(y) < 4:
            raise checks.InputError(f"KernelIV splits its samples in two and needs at least 4, not {len(y)}")
        if not np.any(np.ptp(z, axis=0)):
            raise checks.InputError(f"z is {z[0].tolist()} in every row; give an instrument that varies with x")
        on_x, on_z = _product_kernel(x), _product_kernel(z)
        first, second = np.array_split(np.random.default_rng(self.seed).permutation(len(y)), 2)
        stage = KernelFirstStage(on_x, on_z, x=x[first], z=z[first], held_x=x[second], held_z=z[second])
        penalty = best_penalty(stage.error)
        weights = second_stage(stage, penalty, y=y[first], held_y=y[second])
        residual = stage.x_gram @ weights - y[first]
        primal = KernelFunction(on_x, jnp.asarray(x[first]), jnp.asarray(weights), tile=len(first))
        dual = KernelFunction(on_z, jnp.asarray(z[first]), jnp.asarray(stage.ridge(residual, penalty)), tile=len(first))
        return as_result(primal, dual)


class KernelFirstStage:
    """The regression of k(x, ·) on z, for every penalty λ from one eigendecomposition K_zz = Q diag(e) Qᵀ."""

    def __init__(
        self,
        on_x: kernels.Kernel,
        on_z: kernels.Kernel,
        *,
        x: Floats,
        z: Floats,
        held_x: Floats,
        held_z: Floats,
    ) -> None:
        self.x_gram = np.asarray(on_x.gram(x, x))
        values, self.vectors = np.linalg.eigh(np.asarray(on_z.gram(z, z)))
        self.values = np.maximum(values, 0.0)
        self.rows, self.held_rows = len(x), len(held_x)
        self.reach = self.vectors.T @ np.asarray(on_z.gram(z, held_z))  # Qᵀ K_zz̃
        self.held_norms = float(np.sum(np.asarray(on_x.diagonal(held_x))))
        self.cross = np.sum(self.reach * (self.vectors.T @ np.asarray(on_x.gram(x, held_x))), axis=1)
        self.square = (self.reach @ self.reach.T) * (self.vectors.T @ self.x_gram @ self.vectors)

    def error(self, penalty: float) -> float:
        """mean |k(x̃, ·) - μ(z̃)|² over the second half, μ(z̃) = Σ_i γ_i k(x_i, ·), γ = (K_zz + n λ)⁻¹ k_z(z̃)."""
        inverse = 1 / (self.values + self.rows * penalty)
        return float(self.held_norms - 2 * inverse @ self.cross + inverse @ self.square @ inverse) / self.held_rows

    def coefficients(self, penalty: float) -> Floats:
        """(K_zz + n λ)⁻¹ K_zz̃, one column for each row of the second half."""
        return self.vectors @ (self.reach / (self.values + self.rows * penalty)[:, None])

    def ridge(self, targets: Floats, penalty: float) -> Floats:
        """(K_zz + n λ)⁻¹ targets."""
        return self.vectors @ ((self.vectors.T @ targets) / (self.values + self.rows * penalty))


def second_stage(stage: KernelFirstStage, penalty: float, *, y: Floats, held_y: Floats) -> Floats:
    """α for the ξ whose f predicts the first half's y best."""
    values, vectors = np.linalg.eigh(stage.x_gram)
    # In coordinates β = K_xx^(1/2) α the penalty is a multiple of the identity, so one more eigendecomposition serves
    # every ξ. Directions below the floor carry no signal, and dividing by them would.
    kept = values > 1e-10 * values[-1]
    root, half = vectors[:, kept] * np.sqrt(values[kept]), vectors[:, kept] / np.sqrt(values[kept])
    reach = root.T @ stage.coefficients(penalty)
    strengths, directions = np.linalg.eigh(reach @ reach.T)
    strengths = np.maximum(strengths, 0.0)
    pull = directions.T @ (reach @ held_y)
    seen = root @ directions

    def error(ridge: float) -> float:
        return float(np.mean((y - seen @ (pull / (strengths + len(held_y) * ridge))) ** 2))

    return half @ (directions @ (pull / (strengths + len(held_y) * best_penalty(error))))


def best_penalty(error: Callable[[float], float]) -> float:
    """The penalty with the least error: the best of PENALTIES, then the best between its neighbours."""
    errors = [error(each) for each in PENALTIES]
    best = int(np.argmin(errors))
    around = np.log(PENALTIES[[max(best - 1, 0), min(best + 1, len(PENALTIES) - 1)]])
    minimum = minimize_scalar(lambda logarithm: error(np.exp(logarithm)), bounds=around, method="bounded")
    return float(np.exp(minimum.x)) if minimum.fun < errors[best] else float(PENALTIES[best])


def _product_kernel(points: Floats) -> kernels.Gaussian:
    """A product of Gaussians; a constant column has no distances, and any bandwidth serves it."""
    return kernels.Gaussian(
        jnp.asarray([kernels.median_bandwidth(column) if np.ptp(column) else 1.0 for column in points.T])
    )


class TwoStageLeastSquares(eqx.Module):
    """Two-stage least squares in polynomials of x, with the polynomials of z as instruments.

    With ψ, φ the monomials of x and z and P the projection onto the columns of φ(z),

        θ = argmin |P (ψ(x) θ - y)|²,   f = θᵀψ,   u = the regression of f(x) - y on φ(z).

    Parameters
    ----------
    degree : int, default=3
        Degree of the polynomials, of x and of z.

    Examples
    --------
    >>> z = np.linspace(-1, 1, 50)
    >>> x = z + 0.1 * np.cos(9 * z)
    >>> result = TwoStageLeastSquares(degree=1).fit(x, 2 * x + 1, z)
    >>> [round(float(value), 4) for value in result.primal([0.0, 1.0])]
    [1.0, 3.0]
    """

    degree: int = eqx.field(default=3, static=True)

    def __check_init__(self) -> None:
        checks.count("degree", self.degree)

    def fit(self, x: ArrayLike, y: ArrayLike, z: ArrayLike) -> Result:
        """Fit f to samples, in float64.

        Parameters
        ----------
        x : array-like of shape (n,) or (n, dx)
            What f is a function of.
        y : array-like of shape (n,)
            Outcomes.
        z : array-like of shape (n,) or (n, dz)
            Instruments.

        Returns
        -------
        Result
            The function f as `primal`; as `dual` the regression of f(x) - y on z.

        Raises
        ------
        InputError
            If there are fewer instruments than polynomials of x, or fewer rows than instruments.
        """
        x, y, z = iv_arrays(x, y, z)
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
        return as_result(LinearFunction(psi, jnp.asarray(theta)), LinearFunction(phi, jnp.asarray(eta)))


class Monomials(FeatureMap):
    """φ(x) = all products of at most `degree` standardised coordinates, the constant among them."""

    centre: Floats | jax.Array  # (d,)
    scale: Floats | jax.Array  # (d,)
    degree: int = eqx.field(static=True)

    @staticmethod
    def of(points: Floats, degree: int) -> Monomials:
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

    def compute(self, xp: Any, points: AnyArray) -> AnyArray:
        """The same in NumPy or in JAX, whichever is given; degree by degree."""
        standard = (points - self.centre) / self.scale
        blocks = [xp.ones_like(standard[:, :1])]
        for degree in range(1, self.degree + 1):
            factors = itertools.combinations_with_replacement(range(self.dimension), degree)
            blocks.append(standard[:, np.asarray(list(factors))].prod(axis=2))
        return xp.concatenate(blocks, axis=1)


def sample_arrays(**columns: tuple[ArrayLike, tuple[int, ...]]) -> list[Floats]:
    """The columns in float64, each given with the ranks that it may have; refused unless of equally many rows."""
    for name, (value, ranks) in columns.items():
        checks.array(name, value, ndim=ranks)
    arrays = {name: np.asarray(value, dtype=np.float64) for name, (value, _) in columns.items()}
    rows = {name: len(array) for name, array in arrays.items()}
    if len(set(rows.values())) > 1:
        *others, last = rows
        raise checks.InputError(f"{', '.join(others)} and {last} need equally many rows, but have {rows}")
    return list(arrays.values())


def iv_arrays(x: ArrayLike, y: ArrayLike, z: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """The samples as float64 arrays (n, dx), (n,), (n, dz), checked."""
    x, y, z = sample_arrays(x=(x, (1, 2)), y=(y, (1,)), z=(z, (1, 2)))
    return x.reshape(len(x), -1), y, z.reshape(len(z), -1)


def as_result(primal: Function, dual: Function) -> Result:
    """The Result of a method without steps: f, and u(z) for E[f(x) - y | z], its last iterates the same."""
    u = DualFunction(dual, Direct(), Square())
    return Result(primal, u, None, True, Pair(primal, u))
