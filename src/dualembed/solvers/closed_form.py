"""Solutions of the square-loss saddle without steps: exact, dense or sparse, or averaged over ridges of transitions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import linalg

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.linear.averaging import (
    Groups,
    Rows,
    Weighing,
    assign_groups,
    by_merit,
    deviations,
    excess,
    probes_among,
    read_rows,
    sample_places,
)
from dualembed.linear.candidates import Headline, RidgePath
from dualembed.linear.fit import LinearFit
from dualembed.linear.moment_fit import MixturePrior, MomentFit, Spread
from dualembed.linear.sums import Sums, gather, gather_moments
from dualembed.linear.system import MomentSystem
from dualembed.problems.base import Problem, iter_terms, with_rows
from dualembed.progress import track
from dualembed.saddle import Saddle
from dualembed.solvers.base import Pair, Probe, Result, Solver
from dualembed.spaces.base import Layout
from dualembed.spaces.features import FeatureMap, to_numpy
from dualembed.spaces.linear import LinearFunction, LinearSpace
from dualembed.spaces.nystrom import Stack
from dualembed.tuning import SEARCH

CONDITION = 1e14  # of a scaled system, from which on its solution would be made of rounding errors
NO_TRANSITIONS = (
    "averaged paths are for equations whose context is the first of several points, as in transitions; use "
    "solvers.ClosedForm"
)


class ClosedForm(Solver):
    """The exact solution for the square loss in linear spaces, in one pass over a finite data set.

    θ = (AᵀWA + λ1)⁻¹ AᵀWb with W = (C + λ2)⁻¹, A = E[φgᵀ], C = E[φφᵀ], b = E[φ(y - offset)]; u = W(Aθ - b).

    With `folds` > 1 only products of different folds enter AᵀWA and AᵀWb: A and b share their samples' noise, which
    with many moments would draw θ towards plain regression. With folds = 1 it is the empirical saddle point itself,
    with a duality gap of zero. `result.closed` has the sums, for `standard_errors` and for more rows.

    Parameters
    ----------
    folds : int, default=5
        Number of folds.
    groups : array of shape (n,), optional
        Labels of rows that depend on each other, which then stay in one fold.
    noise : array of shape (r, r), optional
        What stands in the place of C: efficient weights, from `selection.auto`.
    prior : MixturePrior, optional
        Which priors f may have, each with its probability; from `selection.auto`. Without it the penalty is the prior.
    """

    folds: int = eqx.field(default=5, static=True)
    groups: ArrayLike | None = None
    noise: Floats | None = None
    prior: MixturePrior | None = None

    def __check_init__(self) -> None:
        checks.count("folds", self.folds)

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The solution on the whole finite data set; nothing is iterated, so that a probe sees nothing."""
        check(saddle)
        features = feature_maps(key, saddle)
        sums = gather_moments(saddle.problem, *features, folds=self.folds, groups=self.groups)
        penalty, dual_penalty = penalty_value(saddle.primal_penalty), penalty_value(saddle.dual_penalty)
        fit = MomentFit.solve(features, sums, penalty, dual_penalty=dual_penalty, noise=self.noise, prior=self.prior)
        function, witness = fit.function, saddle.dual_function(fit.dual_function)
        finite = bool(np.all(np.isfinite(function.weights)))
        return Result(function, witness, None, finite, Pair(function, witness), 1, closed=fit)


def standard_errors(saddle: Saddle, result: Result, *, groups: ArrayLike | None = None) -> Spread:
    """The function f of a `ClosedForm` result with the covariance of its weights.

    It is the sampling error whatever the noise, summed within groups, and what the penalty may hide
    (`linear.MomentSystem.error`, docs/maths.md).

    Parameters
    ----------
    saddle : Saddle
        The saddle that was solved.
    result : Result
        What `ClosedForm` gave.
    groups : array of shape (n,), optional
        Labels of rows that depend on each other, such as episodes.

    Returns
    -------
    Spread
        The function with its errors.
    """
    check(saddle)
    if result.closed is None:
        raise checks.InputError("standard errors are for closed-form results in linear spaces; use solvers.ClosedForm")
    return result.closed.with_scores(saddle.problem, groups).spread()


@final
class SparseForm(Solver):
    """The exact solution for the square loss in sparse features, such as tables of thousands of states.

    (u, θ) solve one system, by a sparse LU decomposition:

        [-(C + λ2)   A ] [η]   [b]
        [    Aᵀ     λ1 ] [θ] = [0],     A = E[φgᵀ], C = E[φφᵀ], b = E[φ(y - offset)].

    It is `ClosedForm(folds=1)` without dense matrices. With a table on either side and no penalty it solves the
    empirical equations E[moment | context] = 0 exactly. Features that no sample weighs, such as those of states where a
    process ends, have weight 0, as in the closed form. Any other direction on which the data say nothing makes the
    system singular, and a context whose equation holds for no function (at a state that is never left f(s) - f(s) = 1)
    contradicts itself; a primal penalty decides either.
    """

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The solution on the whole finite data set; nothing is iterated, so that a probe sees nothing."""
        check(saddle)
        primal, dual = feature_maps(key, saddle)
        sums = sparse_sums(saddle.problem, primal, dual)
        eta, theta = _solve_sparse(sums, penalty_value(saddle.primal_penalty), penalty_value(saddle.dual_penalty))
        function = LinearFunction(primal, theta)
        witness = saddle.dual_function(LinearFunction(dual, eta))
        return Result(function, witness, None, True, Pair(function, witness), 1)


def check(saddle: Saddle) -> None:
    """Raise one clear sentence where the saddle has no closed form."""
    if not saddle.loss.quadratic:
        raise checks.InputError(
            f"the {type(saddle.loss).__name__} loss has no closed form; use losses.Square(), solvers.Newton for a "
            "smooth loss, or solvers.EmbeddingSGD"
        )
    check_penalties("a closed form", saddle)


def check_penalties(method: str, saddle: Saddle) -> None:
    """Raise one clear sentence where the saddle has a ball, or data that will not do."""
    for name in ("primal_radius", "dual_radius"):
        if getattr(saddle, name) is not None:
            raise checks.InputError(f"{method} takes penalties, not {name}; use solvers.EmbeddingSGD for a ball")
    saddle.terms()


def feature_maps(key: jax.Array, saddle: Saddle) -> tuple[FeatureMap, FeatureMap]:
    """The primal's and the dual's features, placed on the data."""
    points, contexts = _points_and_contexts(saddle)
    primal_key, dual_key = jax.random.split(key)
    saddle.primal.check(points.shape[1])
    saddle.dual.check(contexts.shape[1])
    layout: dict[str, Any] = {"steps": 1, "batch": 1, "per_sample": 1, "capacity": 1}
    return (
        saddle.primal.feature_map(primal_key, Layout(points, **layout)),
        saddle.dual.feature_map(dual_key, Layout(contexts, **layout)),
    )


def _points_and_contexts(saddle: Saddle) -> tuple[Floats, Floats]:
    """All points and all contexts of the data, in float64."""
    tiles = list(iter_terms(saddle.problem))
    points = np.concatenate([tile.points.reshape(-1, tile.points.shape[-1]) for tile in tiles])
    return points, np.concatenate([tile.context for tile in tiles])


def penalty_value(penalty: Any) -> float:
    """The penalty; 0 where there is none."""
    return 0.0 if penalty is None else float(penalty)


def solution_path(
    sums: Sums, primal_penalties: Sequence[float], dual_penalties: Sequence[float]
) -> tuple[Floats, Floats]:
    """θ of shape (λ2, λ1, m) and η of shape (λ2, λ1, r) for every pair of penalties.

    One eigendecomposition of C serves every λ2, and one of the normal matrix AᵀWA each whole path in λ1.
    """
    first, thetas, etas = MomentSystem(sums), [], []
    for dual_penalty in dual_penalties:
        system = first.with_dual_penalty(dual_penalty)
        row = [system.weights(penalty) for penalty in primal_penalties]
        thetas.append(row)
        etas.append([system.witness(theta) for theta in row])
    return np.asarray(thetas), np.asarray(etas)


class SparseSums(NamedTuple):
    """A (r, m), C (r, r) and b (r,): means over the rows."""

    cross: Any
    dual: Any
    target: Floats


def sparse_sums(problem: Problem, primal: FeatureMap, dual: FeatureMap) -> SparseSums:
    """The statistics of the whole data set as sparse matrices."""
    primal, dual = to_numpy(primal), to_numpy(dual)
    cross: Any = 0
    gram: Any = 0
    target, rows = np.zeros(dual.size), 0
    for terms in iter_terms(problem):
        phi = _features(dual, terms.context)
        g = sum(
            _features(primal, terms.points[:, k]).multiply(terms.weights[:, k, None]).tocsr()
            for k in range(terms.weights.shape[1])
        )
        cross, gram = cross + phi.T @ g, gram + phi.T @ phi
        target += phi.T @ (terms.target - terms.offset)
        rows += len(terms.target)
    return SparseSums((cross / rows).tocsr(), (gram / rows).tocsr(), target / rows)


def _features(features: FeatureMap, xs: Floats) -> Any:
    """φ (n, m) as a sparse matrix, made so where the map knows how."""
    return features.sparse(xs) if hasattr(features, "sparse") else sparse.csr_array(np.asarray(features(xs)))


def _solve_sparse(sums: SparseSums, primal_penalty: float, dual_penalty: float) -> tuple[Floats, Floats]:
    """(η, θ), zero where no sample says anything, and refused where the samples that do leave them open."""
    used = [abs(each).sum(axis=0) > 0 for each in (sums.dual, sums.cross)]
    cross, gram = sums.cross[used[0]][:, used[1]], sums.dual[used[0]][:, used[0]]
    target = sums.target[used[0]]
    if not primal_penalty:
        _check_solvable(cross, target)
    moments, size = cross.shape
    if moments == size and not primal_penalty:
        # As many equations as unknowns: Aᵀη = 0 leaves η = 0 and Aθ = b, half the system and far better conditioned.
        unknowns = np.concatenate([np.zeros(moments), _solve_determined(cross, target)])
    else:
        system = sparse.block_array(
            [
                [-(gram + dual_penalty * sparse.eye_array(moments)), cross],
                [cross.T, primal_penalty * sparse.eye_array(size)],
            ]
        )
        unknowns = _solve_determined(system, np.concatenate([target, np.zeros(size)]))
    eta, theta = np.zeros(len(used[0])), np.zeros(len(used[1]))
    eta[used[0]], theta[used[1]] = unknowns[:moments], unknowns[moments:]
    return eta, theta


def _check_solvable(cross: Any, target: Floats) -> None:
    """Raise where an equation has no unknown and yet a right-hand side: least squares would drop it in silence."""
    lost = int(np.sum((abs(cross).sum(axis=1) == 0) & (target != 0)))
    if lost:
        raise checks.InputError(
            f"no function fulfils the equations of {lost} of the {len(target)} contexts, where the points' weights "
            "cancel (a state that is never left, say): leave their rows out, or give primal_penalty, such as 1e-9, for "
            "a compromise"
        )


def _solve_determined(system: Any, right: Floats) -> Floats:
    """The solution x of system x = right, refused where the system is singular up to rounding."""
    # Rows and columns of states that are seldom visited are small; scaled, the condition number is that of the chain.
    rows = _scale(system, 1)
    columns = _scale(sparse.diags_array(rows) @ system, 0)
    scaled = (sparse.diags_array(rows) @ system @ sparse.diags_array(columns)).tocsc()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", linalg.MatrixRankWarning)
            factors = linalg.splu(scaled)
        inverse = linalg.LinearOperator(
            scaled.shape, matvec=factors.solve, rmatvec=lambda x: factors.solve(x, trans="T"), dtype=float
        )
        condition = linalg.onenormest(inverse, t=1) * linalg.norm(scaled, 1)
    except RuntimeError:  # exactly singular
        condition = np.inf
    if not condition < CONDITION:
        raise checks.InputError(
            "the data do not determine the function (from some points there is no way to where it is known, or some "
            "are never left): leave those out, or give primal_penalty, such as 1e-9, to decide by the smallest norm"
        )
    solution = factors.solve(rows * right)
    solution += factors.solve(rows * right - scaled @ solution)  # one refinement: the pivots are those of sparsity
    return columns * solution


def _scale(matrix: Any, axis: int) -> Floats:
    """One over the largest entry of each row (axis 1) or column (axis 0), or 1 where all are zero."""
    largest = abs(matrix).max(axis=axis).toarray().ravel()
    return 1.0 / np.where(largest > 0, largest, 1.0)


class AveragedPaths(Solver):
    """(E[φgᵀ] + ridge)θ = E[φ(y - offset)] in the features φ of f itself, for a falling ridge, averaged.

    It is for equations whose context is the first of several points, as in transitions: f's own features test them,
    and the dual's space is not asked. Where f's features are a `spaces.trended.Stack`, each of its parts has a path of
    its own. Candidates, a part and a ridge each, are weighed by their errors without groups of rows, and
    `result.closed` is the average, a `linear.LinearFit`, with errors for every linear question. The first feature of
    each part, a constant, is not penalised.

    Parameters
    ----------
    groups : array of shape (n,), optional
        Labels of rows that depend on each other, such as episodes.
    headline : Headline, optional
        The question that matters most.
    offset : RidgePath, optional
        A part of f that is known beforehand.
    judged : bool, default=False
        Whether candidates are also held against one-step backups on rows left out.
    """

    groups: Groups | ArrayLike | None = None
    headline: Headline | None = None
    offset: RidgePath | None = None
    judged: bool = eqx.field(default=False, static=True)

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The solution on the whole finite data set; nothing is iterated, so that a probe sees nothing."""
        _check(saddle)
        rows = read_rows(saddle.problem)
        if rows is None:
            raise checks.InputError(NO_TRANSITIONS)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
        return self.average(saddle, _parts(key, saddle, rows), rows, rng)

    def average(self, saddle: Saddle, features: Sequence[FeatureMap], rows: Rows, rng: np.random.Generator) -> Result:
        """The solution in features that are placed on the saddle's rows already.

        Parameters
        ----------
        saddle : Saddle
            The problem with its space.
        features : sequence of FeatureMap
            Features that have a path each.
        rows : Rows
            What the problem's rows say.
        rng : numpy.random.Generator
            Everything random follows from it.

        Returns
        -------
        Result
            The functions f and u, with the average.
        """
        problem = saddle.problem
        groups = self.groups if isinstance(self.groups, Groups) else assign_groups(rows, self.groups, rng)
        headline = None if self.headline is None else self.headline.among(groups.numbers)
        # With small ridges the rounding of sums in another order would be seen.
        order = rows.order()
        problem, rows, groups = with_rows(problem, order), rows.some(order), groups.among(order)
        places, visits = sample_places(rows.points[:, 0], np.ones(len(rows.target)), rng)
        known = self.offset, probes_among(places), headline, problem.positive, problem.unbounded
        weighing = Weighing(groups.shares, groups.into, *known)
        known_sums: dict[str, Any] = {"count": len(groups.into), "offset": self.offset}
        with track(len(features) * len(rows.target), "Adding up rows") as bar:
            sums = [gather(problem, each, groups.numbers, **known_sums, bar=bar) for each in features]
        few = [own.merged(groups.into) for own in sums]
        with track(len(features), "Solving for every ridge") as bar:
            paths = []
            for each, own in zip(features, few, strict=True):
                paths.append(weighing.path(each, own))
                bar.advance(to=len(paths))
        weights = weighing.weigh(paths)
        if self.judged:
            some = rng.permutation(len(rows.target))[: SEARCH.screen_rows]
            worse = excess(weighing.average(paths, weights), rows.some(some), groups.left_out[some])
            weights = by_merit(weights, worse)
        where = {"places": places, "visits": visits, "scale": deviations(rows.used)}
        fit = LinearFit.of(weighing, paths, weights, sums=sums, groups=groups, judged=True, **where)
        function, witness = fit.function, saddle.dual_function(fit.witness().function)
        finite = bool(np.all(np.isfinite(function.weights)))
        return Result(function, witness, None, finite, Pair(function, witness), 1, uncertainty=fit, closed=fit)


def _check(saddle: Saddle) -> None:
    """Raise one clear sentence where the saddle cannot be solved in this way."""
    if not saddle.loss.quadratic:
        raise checks.InputError(
            f"averaged paths are for the square loss, not {type(saddle.loss).__name__}; use solvers.Newton for a "
            "smooth loss, or solvers.EmbeddingSGD"
        )
    for name in ("primal_penalty", "dual_penalty", "primal_radius", "dual_radius"):
        if getattr(saddle, name) is not None:
            raise checks.InputError(f"averaged paths find their penalties themselves; leave out {name}")
    if not isinstance(saddle.primal, LinearSpace):
        raise checks.InputError(
            f"averaged paths need a linear space, not {type(saddle.primal).__name__}; use spaces.RandomFeatures or "
            "spaces.Nystrom, say"
        )


def _parts(key: jax.Array, saddle: Saddle, rows: Rows) -> tuple[FeatureMap, ...]:
    """The feature maps that have a path each."""
    saddle.primal.check(rows.points.shape[2])
    layout = Layout(rows.used, steps=1, batch=1, per_sample=1, capacity=1)
    features: Any = saddle.primal.feature_map(key, layout)
    return features.parts if isinstance(features, Stack) else (features,)
