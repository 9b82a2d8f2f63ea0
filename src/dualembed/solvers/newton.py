"""The saddle point of smooth losses in linear spaces, by Newton's method on its equations over the whole data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.linear.system import pseudo_inverse
from dualembed.links import Link
from dualembed.losses import LinearConjugate, Loss
from dualembed.problems.base import finite_data, iter_terms
from dualembed.saddle import Saddle
from dualembed.solvers.base import Pair, Probe, Result, Solver, Trace
from dualembed.solvers.closed_form import check_penalties, feature_maps, penalty_value
from dualembed.spaces.features import FeatureMap, evaluate_features, moment_features, to_numpy
from dualembed.spaces.linear import LinearFunction

CACHE = 2**27  # features kept between passes, a gigabyte of float64; more are made anew tile by tile in every pass
HALVINGS = 12  # of a step, until it is given up
DAMPINGS = (1e-8, 1e-6, 1e-4, 1e-2, 1.0, 100.0)  # of a step that no halving made good, against the mean of diag JᵀJ

Weights = tuple[Floats, Floats]  # (θ, η)


class Newton(Solver):
    """Newton's method for smooth losses in linear spaces, on the whole finite data set.

    It finds the zero (θ, η) of the slopes that Embedding-SGD follows, penalties included. With g = Σ_k w_k ψ(p_k),
    v = φᵀη, moment = gᵀθ + offset and the link's u(v) and slope(v, moment) they are

        P = mean u g + λ1 θ,   D = λ2 η - mean slope φ.

    The relative residual is the larger of |P| / (rms |g| · rms loss'_y(offset)) and
    |D| / (rms |φ| · (rms a + rms b)), where slope = a - b and a is its part linear in the moment. The trace has it at
    every iteration. The square loss takes one, and gives ClosedForm(folds=1).

    Parameters
    ----------
    tolerance : float, default=1e-8
        Relative residual at which it is done.
    steps : int, default=50
        Most iterations; if they do not suffice, the result's `message` says how far it came.
    """

    tolerance: float = eqx.field(default=1e-8, converter=checks.real)
    steps: int = eqx.field(default=50, static=True)

    def __check_init__(self) -> None:
        checks.single("tolerance", self.tolerance)
        checks.positive("tolerance", self.tolerance)
        checks.count("steps", self.steps)

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The solution, iterated from zero; a probe sees nothing, since the trace is that of the residual."""
        check(saddle)
        primal, dual = feature_maps(key, saddle)
        equations = Equations(saddle, primal, dual)
        theta, eta, residuals = root(equations, tolerance=float(self.tolerance), steps=self.steps)
        function = LinearFunction(primal, theta)
        witness = saddle.dual_function(LinearFunction(dual, eta))
        taken = np.arange(len(residuals))
        trace = Trace(taken, taken * equations.samples, residuals, residuals)
        pair = Pair(function, witness)
        return Result(function, witness, trace, True, pair, len(residuals) - 1, self._stop_message(residuals))

    def _stop_message(self, residuals: list[float]) -> str:
        """What went otherwise than planned; empty when nothing did."""
        if residuals[-1] <= float(self.tolerance):
            return ""
        taken = len(residuals) - 1
        cause = "its steps were used up" if taken == self.steps else "no step made it smaller"
        if not np.isfinite(residuals[-1]):
            cause = "the link's slopes are not finite there, as they are with the link of the loss itself"
        return (
            f"Newton's method stopped after {taken} of {self.steps} steps at a relative residual of "
            f"{residuals[-1]:.1e} instead of {float(self.tolerance):.1e} because {cause}; raise the penalties, steps "
            "or tolerance, or use solvers.EmbeddingSGD"
        )


def check(saddle: Saddle) -> None:
    """Raise one clear sentence where Newton's method does not apply."""
    check_smooth(saddle.loss)
    check_penalties("Newton's method", saddle)


def check_smooth(loss: Loss) -> None:
    """Raise one clear sentence where the loss has kinks."""
    if isinstance(loss, LinearConjugate):
        raise checks.InputError(
            f"Newton's method needs a smooth loss, and the {type(loss).__name__} loss has kinks; use one "
            "without, such as losses.SmoothedHinge(0.1) or losses.Huber(0.1), or solvers.EmbeddingSGD"
        )


class Slopes(NamedTuple):
    """P (m,), D (r,), and the sizes of what they are the balance of, against which they count as zero."""

    primal: Floats
    dual: Floats
    sizes: Floats

    def relative(self, sizes: Floats) -> Floats:
        """(|P|, |D|), each over its size; 0 where a slope vanishes, whatever its size."""
        norms = np.array([np.linalg.norm(self.primal), np.linalg.norm(self.dual)])
        return norms / np.maximum(sizes, np.finfo(float).tiny)

    def largest(self) -> float:
        """The relative residual."""
        return float(np.max(self.relative(self.sizes)))


class Curvature(NamedTuple):
    """The Jacobian of (P, D): ∂P/∂η = descentᵀ, ∂D/∂θ = -ascent, ∂D/∂η = dual; ∂P/∂θ is λ1."""

    descent: Floats  # mean u' φ gᵀ, (r, m)
    ascent: Floats  # mean ∂slope/∂moment φ gᵀ, (r, m)
    dual: Floats  # λ2 - mean ∂slope/∂v φ φᵀ, (r, r)
    concave: Floats  # the same of the rows with ∂slope/∂v <= 0 alone, where the payoff is concave

    def add(self, row: Rows, g: Floats, phi: Floats, *, rows: float) -> None:
        """Count in a tile, in place; `rows` are those of the whole data."""
        ascent = (row.slope_in_moment[:, None] * phi).T @ g / rows
        # The two are one for every link whose slope is that of its payoff u · moment - loss*(u).
        same = np.array_equal(row.u_in_v, row.slope_in_moment)
        descent = ascent if same else (row.u_in_v[:, None] * phi).T @ g / rows
        dual = (-row.slope_in_v[:, None] * phi).T @ phi / rows
        convex = row.slope_in_v > 0
        bent = (row.slope_in_v[convex, None] * phi[convex]).T @ phi[convex] / rows
        for total, part in zip(self, (descent, ascent, dual, dual + bent), strict=True):
            total += part


class Equations:
    """P and D on the whole data, and their derivatives, in float64."""

    def __init__(self, saddle: Saddle, primal: FeatureMap, dual: FeatureMap) -> None:
        self.saddle, self.primal, self.dual = saddle, to_numpy(primal), to_numpy(dual)
        self.penalties = penalty_value(saddle.primal_penalty), penalty_value(saddle.dual_penalty)
        self.samples = finite_data(saddle.problem).rows
        masses = [terms.mass.sum() for terms in iter_terms(saddle.problem) if terms.mass is not None]
        self.rows = float(sum(masses)) if masses else self.samples
        self._kept = list(self._made()) if self.samples * (primal.size + dual.size) <= CACHE else None

    def slopes(self, theta: Floats, eta: Floats) -> Slopes:
        """P and D at (θ, η)."""
        return self._pass(theta, eta, None)

    def linearised(self, theta: Floats, eta: Floats) -> tuple[Slopes, Curvature]:
        """P and D at (θ, η), and their Jacobian, in one pass."""
        r, m = self.dual.size, self.primal.size
        own = self.penalties[1] * np.eye(r)
        curvature = Curvature(np.zeros((r, m)), np.zeros((r, m)), own, own.copy())
        return self._pass(theta, eta, curvature), curvature

    def _pass(self, theta: Floats, eta: Floats, curvature: Curvature | None) -> Slopes:
        """The slopes; the data's part of the curvature is added to the one given."""
        primal, dual = self.penalties[0] * theta, self.penalties[1] * eta
        squares = np.zeros(5)
        with np.errstate(over="ignore", invalid="ignore"):  # steps too long leave the finite numbers, and are refused
            for g, phi, offset, target, mass in self._tiles():
                row = self._rows(phi @ eta, g @ theta + offset, target, offset=offset)
                row = row if mass is None else Rows(*(mass * each for each in row))
                primal = primal + g.T @ row.u / self.rows
                dual = dual - phi.T @ row.slope / self.rows
                sizes = (g, row.at_zero, phi, row.driven, row.driven - row.slope)
                squares += [float(np.sum(np.square(size))) / self.rows for size in sizes]
                if curvature is not None:
                    curvature.add(row, g, phi, rows=self.rows)
        rms = np.sqrt(squares)
        return Slopes(primal, dual, np.array([rms[0] * rms[1], rms[2] * (rms[3] + rms[4])]))

    def _rows(self, v: Floats, moment: Floats, target: Floats, *, offset: Floats) -> Rows:
        with jax.enable_x64(True):
            rows = _derivatives(self.saddle.active_link, self.saddle.loss, v, moment, target, offset)
            return jax.tree.map(np.asarray, rows)

    def _tiles(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._kept) if self._kept is not None else self._made()

    def _made(self) -> Iterator[tuple[Any, ...]]:
        """(g, φ, offset, target, mass) of each tile of rows."""
        for terms in iter_terms(self.saddle.problem):
            g = moment_features(self.primal, terms.points, terms.weights)
            phi = evaluate_features(self.dual, terms.context)
            yield g, phi, terms.offset, terms.target, terms.mass


class Rows(NamedTuple):
    """For each row: u and its derivative in v, the link's slope and its derivatives, and the loss's slope at f = 0."""

    u: Any
    u_in_v: Any
    slope: Any
    slope_in_v: Any
    slope_in_moment: Any
    driven: Any  # slope_in_moment · moment
    at_zero: Any


@jax.jit
def _derivatives(link: Link, loss: Loss, v: jax.Array, moment: jax.Array, y: jax.Array, offset: jax.Array) -> Rows:
    """By differentiating the link itself, so that whatever Embedding-SGD follows is what is solved."""
    one = jnp.ones_like(v)
    u, u_in_v = jax.jvp(lambda v: link.dual(loss, v, y), (v,), (one,))
    slope, in_v = jax.jvp(lambda v: link.slope(loss, v, moment, y), (v,), (one,))
    in_moment = jax.jvp(lambda moment: link.slope(loss, v, moment, y), (moment,), (one,))[1]
    return Rows(u, u_in_v, slope, in_v, in_moment, in_moment * moment, loss.slope(offset, y))


def root(equations: Equations, *, tolerance: float, steps: int) -> tuple[Floats, Floats, list[float]]:
    """(θ, η, relative residuals at the start and after each step) of Newton's method from zero, kept from overshooting.

    A step is halved until the residual falls, as it must in the end where the Jacobian is regular; if no half will do,
    the step is that of Levenberg and Marquardt, damped more and more.
    """
    at = np.zeros(equations.primal.size), np.zeros(equations.dual.size)
    slopes, curvature = equations.linearised(*at)
    residuals = [slopes.largest()]
    while np.isfinite(residuals[-1]) and residuals[-1] > tolerance and len(residuals) <= steps:
        moved = _take_step(equations, at, slopes, curvature=curvature)
        if moved is None:
            break
        at = moved
        slopes, curvature = equations.linearised(*at)
        residuals.append(slopes.largest())
    return *at, residuals


def _take_step(equations: Equations, at: Weights, slopes: Slopes, *, curvature: Curvature) -> Weights | None:
    """The weights after one step, or none where no step lowers the residual."""
    for share, (theta, eta) in _attempts(slopes, curvature, equations.penalties[0]):
        moved = at[0] + share * theta, at[1] + share * eta
        after = equations.slopes(*moved)
        sizes = np.maximum(slopes.sizes, after.sizes)  # those at zero may themselves be zero
        before = np.linalg.norm(slopes.relative(sizes))
        if np.linalg.norm(after.relative(sizes)) <= (1 - 1e-4 * share) * before:  # NaN compares false
            return moved
    return None


def _attempts(slopes: Slopes, curvature: Curvature, penalty: float) -> Iterator[tuple[float, Weights]]:
    """(share of the step to take, step), the best hope first."""
    newton = _newton_step(slopes, curvature, penalty)
    for halvings in range(HALVINGS):
        yield 0.5**halvings, newton
    jacobian, force = _scaled_system(slopes, curvature, penalty)
    square = jacobian.T @ jacobian
    for damping in DAMPINGS:
        shift = damping * max(float(np.trace(square)) / len(square), np.finfo(float).tiny)
        damped = square + shift * np.eye(len(square))
        step = np.asarray(np.linalg.solve(damped, -jacobian.T @ force), dtype=np.float64)
        yield 1.0, (step[: len(slopes.primal)], step[len(slopes.primal) :])


def _newton_step(slopes: Slopes, curvature: Curvature, penalty: float) -> Weights:
    """The step (dθ, dη) to the zero of the linearised equations, dη eliminated.

    Where the dual's curvature is not that of a maximum, that of its concave rows stands in for it, since Newton's step
    would else lead to a minimum over u.
    """
    values, vectors = np.linalg.eigh(curvature.dual)
    if values[0] < -len(values) * np.finfo(float).eps * values[-1]:
        values, vectors = np.linalg.eigh(curvature.concave)
    inverse = (vectors * pseudo_inverse(values, 0.0)) @ vectors.T
    pulled = curvature.descent.T @ inverse
    schur = pulled @ curvature.ascent + penalty * np.eye(len(slopes.primal))
    theta = np.linalg.lstsq(schur, pulled @ slopes.dual - slopes.primal, rcond=None)[0]
    return theta, inverse @ (curvature.ascent @ theta - slopes.dual)


def _scaled_system(slopes: Slopes, curvature: Curvature, penalty: float) -> tuple[Floats, Floats]:
    """The Jacobian of (P, D) and (P, D) itself, each over its size."""
    first, second = (size if size > 0 else 1.0 for size in slopes.sizes)
    upper = np.hstack([penalty * np.eye(len(slopes.primal)), curvature.descent.T]) / first
    lower = np.hstack([-curvature.ascent, curvature.dual]) / second
    return np.vstack([upper, lower]), np.concatenate([slopes.primal / first, slopes.dual / second])
