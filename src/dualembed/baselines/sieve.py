"""Instrumental variables by least squares in B-splines, their number chosen from the data.

Chen, Christensen and Kankanala (2024, "Adaptive estimation and uniform confidence bands for nonparametric structural
functions and elasticities") choose it by comparing fits, with a multiplier bootstrap that also gives bands; their R
package is npiv, by Racine and Christensen. Cross-validation is the plain alternative.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.baselines.instrumental import iv_arrays
from dualembed.baselines.spline_fit import (
    BootstrappedFit,
    SieveSpread,
    SplineFit,
    bootstrapped,
    orthonormal,
    studentised,
)
from dualembed.baselines.splines import Breaks, Splines, TensorSplines, even_breaks, quantile_breaks
from dualembed.solvers.base import Result

GRID = 50  # points at which fits are compared, if x is one column
ROWS = 200  # rows at which they are, if it is several
SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
JUDGES = (8, 4, 2, 1)


class SieveIV(eqx.Module):
    """B-spline two-stage least squares with the dimension and the bands of Chen, Christensen and Kankanala (2024).

    With J splines ψ of x and K(J) splines φ of z, and P the projection onto the columns of φ(z),

        θ_J = M_J y,   M_J = (ψᵀP ψ)⁻ ψᵀP,   f_J = θ_Jᵀψ,   σ_J(x) = |ψ(x)ᵀ M_J diag(y - f_J)|.

    x has 2^l pieces in every coordinate, z has 2^⌈(l + 2) dx / dz⌉ (additive: 2^⌈l + 2 + log₂(dx / dz)⌉) and one degree
    more. l ends where J √(log J) / s_J exceeds 10 √n, with s_J the least singular value of ψᵀφ, both orthonormalised:
    1 / s_J measures how ill-posed the problem is. The dimension is the least J with sup_x |f_J - f_J'| / σ_JJ' at most
    1.1 θ* for every larger J', and not above the second largest; θ* is a quantile of the same supremum over x, J and J'
    of the bootstrap's f*_J - f*_J', with f*_J = ψᵀM_J diag(y - f_J) ω and ω standard normal.

    All this is as published and as in npiv, with four differences that make it better or possible: 999 draws, not 99;
    z has at most half as many functions as there are rows; a column of few values has no more functions than values;
    f is a straight line beyond the data's range.

    Parameters
    ----------
    degree : int, default=3
        Degree of the splines of x; those of z have one more.
    basis : type of Splines, default=TensorSplines
        `TensorSplines`, or `AdditiveSplines` for sums of functions of one coordinate each, of `baselines.splines`.
    breaks : callable, default=even_breaks
        `even_breaks`, npiv's default, or `quantile_breaks`, of `baselines.splines`.
    draws : int, default=999
        Draws of the bootstrap.
    seed : int, default=0
        Seed of the draws.

    Examples
    --------
    >>> z, hidden = np.random.default_rng(0).uniform(-1, 1, (2, 1000))
    >>> x = z + 0.3 * hidden
    >>> result = SieveIV().fit(x, x**2 + hidden, z)
    >>> lower, upper = result.uncertainty.band([0.0, 0.5])
    >>> bool(np.all((lower < [0, 0.25]) & (upper > [0, 0.25])))
    True
    """

    degree: int = eqx.field(default=3, static=True)
    basis: type[Splines] = eqx.field(default=TensorSplines, static=True)
    breaks: Breaks = eqx.field(default=even_breaks, static=True)
    draws: int = eqx.field(default=999, static=True)
    seed: int = eqx.field(default=0, static=True)

    def __check_init__(self) -> None:
        checks.count("degree", self.degree)
        checks.count("draws", self.draws)
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
            The function f as `primal`; as `dual` the regression of f(x) - y on z; as `uncertainty` a `SieveSpread`,
            with intervals and bands.

        Raises
        ------
        InputError
            If z has fewer functions than x, or there are too few rows for them.
        """
        x, y, z = iv_arrays(x, y, z)
        fits = feasible_fits(self, x, y, z)
        drawn = bootstrapped(fits, self.draws, self.seed)
        threshold, chosen = smallest_alike(fits, drawn, comparison_points(x))
        # Bands look at all dimensions below the second largest, and at the chosen one.
        last = max(chosen, len(fits) - 3) if len(fits) > 2 else len(fits) - 1
        spread = SieveSpread(
            tuple(drawn[: last + 1]),
            chosen=chosen,
            threshold=threshold,
            dimensions=tuple(fit.splines.size for fit in fits),
            ill_posedness=tuple(fit.ill_posedness for fit in fits),
        )
        return fits[chosen].result(spread)


def feasible_fits(sieve: SieveIV, x: Floats, y: Floats, z: Floats) -> list[SplineFit]:
    """Fits of growing dimension, up to the largest that is not too ill-posed for this many rows."""
    fits: list[SplineFit] = []
    for level in range(max(int(math.log(len(y)) / math.log(2 * x.shape[1])), 3)):
        psi = sieve.basis.of(x, 2**level, degree=sieve.degree, breaks=sieve.breaks)
        if fits and psi.size == fits[-1].splines.size:  # no column has more values to tell apart
            break
        if np.array_equal(x, z):  # plain regression
            phi = psi
        else:
            pieces = sieve.basis.pieces(4 * 2**level, x.shape[1] / z.shape[1])
            finest = max(0, math.ceil(round(math.log2(pieces), 9)))
            phi = instruments(sieve, z, 2 ** np.arange(finest, -1, -1), len(y))
        if not psi.size <= phi.size <= len(y) / 2:
            if fits:
                break
            raise too_few(psi, phi, len(y))
        fit = SplineFit.of(psi, phi, x=x, y=y, z=z)
        cost = psi.size * math.sqrt(math.log(psi.size)) * max((0.1 * math.log(len(y))) ** 4, fit.ill_posedness)
        if fits and cost > 10 * math.sqrt(len(y)):
            break
        fits.append(fit)
    return fits


def smallest_alike(fits: list[SplineFit], drawn: list[BootstrappedFit], points: Floats) -> tuple[float, int]:
    """θ*, and which fit is the smallest that no larger one differs from, and not the largest (Lepski's method)."""
    pairs = [(small, large) for small in range(len(fits)) for large in range(small + 1, len(fits))]
    if not pairs:
        return 0.0, 0
    features = [fit.splines.compute(np, points) for fit in fits]
    influences = [psi @ fit.influence for psi, fit in zip(features, fits, strict=True)]
    values = [psi @ fit.weights for psi, fit in zip(features, fits, strict=True)]
    moves = [psi @ each.moves for psi, each in zip(features, drawn, strict=True)]
    differences, largest = {}, []
    for one, other in pairs:
        errors = np.sqrt(np.sum((influences[one] - influences[other]) ** 2, axis=1))
        differences[one, other] = np.max(studentised((values[one] - values[other])[:, None], errors))
        largest.append(np.max(studentised(moves[one] - moves[other], errors), axis=0))
    dimension = fits[-1].splines.size
    risk = min(0.5, math.sqrt(math.log(dimension) / dimension))
    threshold = float(np.quantile(np.max(largest, axis=0), 1 - risk, method="hazen"))
    apart = {one for (one, _), difference in differences.items() if difference > 1.1 * threshold}
    return threshold, min(each for each in range(len(fits)) if each not in apart or each == len(fits) - 2)


def comparison_points(x: Floats) -> Floats:
    """Where fits are compared: evenly over the range of one column, or at rows spread over the table."""
    if x.shape[1] == 1:
        return np.linspace(x.min(), x.max(), GRID)[:, None]
    return x[np.unique(np.linspace(0, len(x) - 1, ROWS).astype(int))]


class CrossValidatedSieveIV(eqx.Module):
    """B-spline two-stage least squares with as many pieces as cross-validation of the projected residual asks for.

    For each of 1, 2, 3, 4, 6, 8, ... pieces of x, and (4 pieces)^(dx / dz) of z (additive: 4 pieces dx / dz), f is
    fitted without each of the folds in turn, and judged on the fold by

        Σ_(i ≠ j) e_i P_ij e_j / n,   e = y - f(x),   P the projection onto the splines of z in 8 pieces,

    an estimate of E[E[e | z]²] without the noise of single rows. It hardly changes along what z does not see of f, so
    the number is not the best, but the least whose mean over folds is within one standard error of the best one's.

    Parameters
    ----------
    folds : int, default=10
        Number of folds.
    degree : int, default=3
        Degree of the splines of x; those of z have one more.
    basis : type of Splines, default=TensorSplines
        `TensorSplines`, or `AdditiveSplines` for sums of functions of one coordinate each, of `baselines.splines`.
    breaks : callable, default=quantile_breaks
        `quantile_breaks`, or `even_breaks`, which leaves pieces with few rows where x is not spread evenly.
    draws : int, default=999
        Draws of the bootstrap for bands.
    seed : int, default=0
        Seeds the split into folds, and the draws.
    """

    folds: int = eqx.field(default=10, static=True)
    degree: int = eqx.field(default=3, static=True)
    basis: type[Splines] = eqx.field(default=TensorSplines, static=True)
    breaks: Breaks = eqx.field(default=quantile_breaks, static=True)
    draws: int = eqx.field(default=999, static=True)
    seed: int = eqx.field(default=0, static=True)

    def __check_init__(self) -> None:
        checks.count("folds", self.folds, at_least=2)
        checks.count("degree", self.degree)
        checks.count("draws", self.draws)
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
            The function f as `primal`; as `dual` the regression of f(x) - y on z; as `uncertainty` a `SieveSpread`
            of the chosen dimension, as if it had been given.

        Raises
        ------
        InputError
            If z has fewer functions than x, or there are too few rows for them.
        """
        x, y, z = iv_arrays(x, y, z)
        pairs = list(candidates(self, x, z))
        order = np.random.default_rng(self.seed).permutation(len(y))
        judge = instruments(self, z, JUDGES, len(y) // self.folds)
        errors = np.zeros((self.folds, len(pairs)))
        for fold, held in enumerate(np.array_split(order, self.folds)):
            rest = np.setdiff1d(order, held)
            basis, _ = orthonormal(judge.compute(np, z[held]))
            for at, (psi, phi) in enumerate(pairs):
                fit = SplineFit.of(psi, phi, x=x[rest], y=y[rest], z=z[rest])
                error = y[held] - psi.compute(np, x[held]) @ fit.weights
                noise = np.sum(basis**2, axis=1) @ error**2
                errors[fold, at] = (np.sum((basis.T @ error) ** 2) - noise) / len(held)
        psi, phi = pairs[smallest_nearly_best(errors)]
        fit = SplineFit.of(psi, phi, x=x, y=y, z=z)
        spread = SieveSpread(
            tuple(bootstrapped([fit], self.draws, self.seed)),
            chosen=0,
            threshold=0.0,
            dimensions=tuple(each.size for each, _ in pairs),
            ill_posedness=(fit.ill_posedness,),
        )
        return fit.result(spread)


def candidates(sieve: CrossValidatedSieveIV, x: Floats, z: Floats) -> Iterator[tuple[Splines, Splines]]:
    """Splines of x and z, finer and finer, as long as the rows outside a fold are enough for them."""
    rows, largest = len(x) - len(x) // sieve.folds, 0
    for segments in SEGMENTS:
        psi = sieve.basis.of(x, segments, degree=sieve.degree, breaks=sieve.breaks)
        finest = math.ceil(round(sieve.basis.pieces(4 * segments, x.shape[1] / z.shape[1]), 9))
        phi = instruments(sieve, z, range(finest, 0, -1), rows)
        if largest < psi.size <= phi.size <= rows / 2:
            yield psi, phi
        elif largest == 0:
            raise too_few(psi, phi, rows)
        largest = psi.size


def smallest_nearly_best(errors: Floats) -> int:
    """The first column of errors (folds, m) whose mean is within one standard error of the least, fold by fold."""
    best = int(np.argmin(errors.mean(axis=0)))
    excess = errors - errors[:, [best]]
    spread = excess.std(axis=0, ddof=1) / math.sqrt(len(errors))
    return int(np.argmax(excess.mean(axis=0) <= spread))


def instruments(sieve: SieveIV | CrossValidatedSieveIV, z: Floats, segments: Iterable[int], rows: int) -> Splines:
    """Splines of z with the first of these numbers of pieces that half the rows are enough for, or with the last."""
    for count in segments:
        splines = sieve.basis.of(z, count, degree=sieve.degree + 1, breaks=sieve.breaks)
        if splines.size <= rows / 2:
            break
    return splines


def too_few(psi: Splines, phi: Splines, rows: int) -> checks.InputError:
    """Why there is no fit at all."""
    return checks.InputError(
        f"there are {psi.size} splines of x and {phi.size} of z for {rows} rows, but z needs at least as many as x and "
        "at most half as many as there are rows; give a lower degree, AdditiveSplines, or more instruments or rows"
    )
