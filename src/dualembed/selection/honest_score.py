"""The honest score: how far a function is from solving its conditional moment equation, from single samples.

Squaring a one-sample moment adds its variance: mean(moment²) is E[E[moment | κ]²] + E[Var(moment | κ)]. Regressing
the moment on the context and squaring adds the variance of the regression. Two regressions on disjoint data have
independent errors, and their product on a third part of the data adds neither.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats, Integers
from dualembed.linear.sums import number_groups
from dualembed.losses import Loss
from dualembed.problems.base import Problem, Terms, finite_data, terms_numpy
from dualembed.selection.regression import cross_fit, split_blocks
from dualembed.sources import Sample


@dataclasses.dataclass(frozen=True)
class Score:
    """An honest score.

    Two functions scored on the same rows with the same seed are best compared through the difference of their
    contributions: its standard error is smaller than that of either.

    Attributes
    ----------
    value : float
        The estimate.
    stderr : float
        Its standard error.
    contributions : array of shape (n,)
        The terms that it is the mean of, weighted by the rows' mass where they have any, in the order of the rows.
    """

    value: float
    stderr: float
    contributions: Floats = dataclasses.field(repr=False, compare=False)


def honest_score(
    problem: Problem,
    function: Callable[[Floats], Any],
    *,
    sample: Sample | None = None,
    folds: int = 5,
    seed: int = 0,
    groups: ArrayLike | None = None,
) -> Score:
    """Estimate E[E[m | κ]²], m = moment(f) - y, such as the mean squared Bellman error, with a standard error.

    With m = known(κ) + t, `known` being what the context determines, two regressions of t on the context and on the
    parts of `known`, on two halves of the other folds, give q1 and q2 = known + t̂, and

        score = mean(q1 m + q2 m - q1 q2),  expected to be E[E[m | κ]²] - E[bias1 bias2],  bias = E[q | κ] - E[m | κ],

    on the fold left out, each in turn (docs/maths.md). That is twice the saddle's value max_u E[u m - u²/2]. Where f is
    right t̂ = -known is open to the regressions, however rough f is: the score is zero within its standard error, and
    can be slightly negative. Where f is wrong the score is a lower bound in the mean, short of the truth by the part of
    E[m | κ] that the regressions miss, of which the standard error does not know: value ± 2 stderr covers the truth
    where E[m | κ] is smooth for the number of rows and columns, and may lie all below it where it jumps or where there
    are many columns and few rows. Where nothing is known (instrumental variables) it reports an error but does not
    choose well between functions: what averaging over x given z hides, no score can see.

    For any other loss the score estimates E[loss_y(E[moment | κ])], the saddle's value itself, by the mean of
    u moment - loss*_y(u) with u = loss'_y(q), q one regression on all other folds: in expectation a lower bound
    where the context determines y, short of it by about half the curvature times the regression's mean squared error.

    Memory beyond f's own, two copies of the terms and a few numbers a row is bounded: some
    2 folds + 10 matrices of at most 640 features squared and tiles of 4096 rows, below 200 MB for 5 folds, whatever n.
    The regressions have at most 300 landmarks up to 10,500 rows, 540 from 19,000 on: half a second at 10,000 rows and
    two at 20,000 on one core.

    Parameters
    ----------
    problem : Problem
        The moments and the loss.
    function : callable
        Any f from points (n, d) to values (n,), whoever fitted it, on data other than these samples.
    sample : dict of arrays, optional
        Samples; by default the problem's finite data set.
    folds : int, default=5
        Number of folds.
    seed : int, default=0
        Seed of the folds.
    groups : array of shape (n,), optional
        Labels of rows that depend on each other, such as episodes: a group stays in one fold, and the standard error is
        clustered by group.

    Returns
    -------
    Score
        The estimate with its standard error.

    Examples
    --------
    >>> from dualembed.problems import PolicyEvaluation
    >>> from dualembed.sources import Dataset
    >>> rng = np.random.default_rng(0)
    >>> state = rng.normal(size=4000)
    >>> following = 0.5 * state + rng.normal(size=4000)
    >>> problem = PolicyEvaluation(Dataset(state=state, reward=state, next_state=following), 0.8, reward_known=True)
    >>> wrong, right = (honest_score(problem, lambda s, a=a: a * s[:, 0]) for a in (1.0, 1 / 0.6))
    >>> abs(wrong.value - 0.4**2) < 3 * wrong.stderr, abs(right.value) < 3 * right.stderr
    (True, True)
    """
    checks.instance("problem", problem, Problem, "such as problems.PolicyEvaluation(source, 0.9)")
    checks.count("folds", folds, at_least=3)
    checks.count("seed", seed, at_least=0)
    terms = checked_terms(problem, sample)
    return score_of(problem, terms, values_at(function, terms.points), folds=folds, seed=seed, groups=groups)


def score_of(
    problem: Problem, terms: Terms, values: Floats, *, folds: int = 5, seed: int = 0, groups: ArrayLike | None = None
) -> Score:
    """The honest score from values (n, K) of f at the terms' points, of one f or of several that are nearly one."""
    units = _units(groups, len(terms.target), folds=folds)
    parts, unknown = _split(terms, values, problem.loss)
    known = parts.sum(axis=1)
    rng = np.random.default_rng(seed)
    blocks, uses = split_blocks(units, folds, rng)
    if problem.loss.quadratic:  # two regressions, each on a half of the other folds
        half = np.arange(2 * folds) % 2
        uses = np.concatenate([uses & (half == 0), uses & (half == 1)])
    # Where f is nearly right E[t | κ] is nearly -known, and as rough as f: a smooth regression alone would miss it.
    fitted = cross_fit(terms.context, unknown, blocks, uses=uses, rng=rng, beside=parts, mass=terms.mass)
    q, m = known + fitted, known + unknown
    if not problem.loss.quadratic:
        contributions = _payoff(problem.loss, q[0], m, target=terms.target)
        stderr = clustered_error(contributions, units, terms.mass)
        return Score(float(np.average(contributions, weights=terms.mass)), stderr, contributions)
    contributions = (q[0] + q[1]) * m - q[0] * q[1]
    stderr = _stderr(contributions, q, m, units=units, folds=folds, mass=terms.mass)
    return Score(float(np.average(contributions, weights=terms.mass)), stderr, contributions)


def _stderr(contributions: Floats, q: Floats, m: Floats, *, units: Integers, folds: int, mass: Floats | None) -> float:
    """The standard error of the mean of (q1 + q2) m - q1 q2, where f is right too.

    Then all is of second order, (q1 + q2)(m - E[m|κ]), and the rows' spread goes to zero with q1 + q2, which few
    parameters may happen to make small. q1 - q2 is as large in the mean and independent of it, and neither regression
    has less noise than the constant that each is free to choose.
    """
    left = m - q.mean(axis=0)
    constant = np.sqrt(4 * folds / (folds - 1)) * clustered_error(left, units, mass) ** 2
    second_order = max(clustered_error((q[0] - q[1]) * left, units, mass), constant)
    # Each pair of rows meets twice, as fitted and as scored, and q1 q2 varies with the regressions: in all the second-
    # order part (q1 + q2 - 2 E[m|κ])(m - E[m|κ]) has this many times the variance that the rows of a fold show.
    excess = (folds + 1 / (folds - 1)) / (folds - 1) - 1
    return float(
        np.hypot(max(clustered_error(contributions, units, mass), second_order), np.sqrt(excess) * second_order)
    )


def checked_terms(problem: Problem, sample: Sample | None) -> Terms:
    """The terms of the samples in float64, checked."""
    if sample is None:
        sample = finite_data(problem, "sample must be given: this problem's source is not a finite data set").table
    checks.instance("sample", sample, dict, "give a dictionary of columns")
    with jax.enable_x64(True):
        terms = terms_numpy(problem, {name: np.asarray(checks.array(name, column)) for name, column in sample.items()})
        checks.instance("the value of problem.terms(sample)", terms, Terms)
        terms.check()
        for name in (
            "points",
            "weights",
            "offset",
            "context",
            "target",
            *(("mass",) if terms.mass is not None else ()),
        ):
            checks.array(f"Terms.{name}", getattr(terms, name))
    terms = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64), terms)
    problem.loss.check_targets(terms.target)
    return terms


def _units(groups: ArrayLike | None, rows: int, *, folds: int) -> Integers:
    """The number (n,) of each row's group, from 0; each row by itself without groups."""
    if rows < 6 * folds:
        raise checks.InputError(
            f"an honest score over {folds} folds needs at least {6 * folds} rows, not {rows}; "
            "give more rows or fewer folds"
        )
    units = number_groups(groups, rows)
    if units.max() + 1 < 2 * folds:
        raise checks.InputError(
            f"an honest score over {folds} folds needs at least {2 * folds} groups, not {units.max() + 1}; "
            "give more groups or fewer folds"
        )
    return units


def values_at(function: Callable[[Floats], Any], points: Any) -> Floats:
    """f at points (n, K, d): (n, K), refused unless it gives one finite number for each."""
    if not callable(function):
        raise checks.InputError(f"function must be callable on points of shape (n, d), not {function!r}")
    flat = points.reshape(-1, points.shape[-1])
    returned = function(flat)
    try:
        values = np.asarray(returned, dtype=np.float64)
    except (TypeError, ValueError):
        raise checks.InputError(f"the function must return numbers, not {type(returned).__name__}") from None
    if values.shape != (len(flat),):
        raise checks.InputError(
            f"the function must return shape ({len(flat)},) for points of shape {flat.shape}, not {values.shape}; "
            "return one number for each point"
        )
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise checks.InputError(
            f"the function must be finite, but is {values[bad[0]]} at the point {flat[bad[0]].tolist()}; "
            "drop such rows or mend the function"
        )
    return values.reshape(points.shape[:2])


def _split(terms: Terms, values: Floats, loss: Loss) -> tuple[Floats, Floats]:
    """(parts (n, k) that the context determines, the rest (n,)) of moment - y for squares, else of the moment."""
    flags = np.asarray(terms.known or (False,) * values.shape[1])
    products = terms.weights * values
    known, unknown = [products[:, flags].sum(axis=1)] if flags.any() else [], products[:, ~flags].sum(axis=1)
    if terms.offset_known:
        known.append(terms.offset)
    else:
        unknown = unknown + terms.offset
    if loss.quadratic and np.any(np.all(terms.context == terms.target[:, None], axis=0)):
        known.append(-terms.target)
    elif loss.quadratic:
        unknown = unknown - terms.target
    return np.stack(known, axis=1) if known else np.empty((len(unknown), 0)), unknown


def _payoff(loss: Loss, q: Floats, moment: Floats, *, target: Any) -> Floats:
    """u moment - loss*_y(u) with u = loss'_y(q)."""
    with jax.enable_x64(True):
        y = jnp.asarray(target)
        # Rounding may push the slope out of the conjugate's domain, where the conjugate is infinite.
        u = loss.project(loss.slope(jnp.asarray(q), y), y)
        return np.asarray(u * jnp.asarray(moment) - loss.conjugate(u, y))


def clustered_error(contributions: Floats, units: Integers, mass: Floats | None = None) -> float:
    """The standard error of the mean of contributions that depend on each other within a unit, weighted by `mass`."""
    away, worth = contributions - float(np.average(contributions, weights=mass)), float(len(contributions))
    if mass is not None:
        away, worth = mass * away, float(mass.sum())
    sums = np.bincount(units, away)
    return float(np.sqrt(sums @ sums * len(sums) / (len(sums) - 1)) / worth)


def mean_of(values: Floats, mass: Floats | None) -> float:
    """The mean over rows (n,), weighted by their mass where they have any."""
    return float(np.average(values, weights=mass))
