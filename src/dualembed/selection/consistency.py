"""Is this function consistent with these data? A test of E[moment(f) - y | context] = 0, whoever fitted f."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.kernels import Gaussian, Kernel, median_bandwidth
from dualembed.linear.clusters import sum_by
from dualembed.linear.sums import number_groups
from dualembed.problems.base import Problem
from dualembed.selection.honest_score import checked_terms, values_at
from dualembed.sources import Sample
from dualembed.spaces.nystrom import whitened

LANDMARKS = 200
NARROWER = 3.0  # the second bandwidth is so many times smaller
FEWEST = 20  # groups


@dataclasses.dataclass(frozen=True)
class Consistency:
    """The result of a test whether f solves its conditional moment equation.

    Attributes
    ----------
    p_value : float
        Its p-value: below 0.05 the data speak against f.
    statistic : float
        The statistic T.
    draws : int
        Draws of the wild bootstrap.
    """

    p_value: float
    statistic: float
    draws: int

    def __str__(self) -> str:
        verdict = (
            "the data speak against this function"
            if self.p_value < 0.05
            else "the data do not speak against this function"
        )
        return f"p = {self.p_value:.3g}: {verdict}"


def consistency_test(
    problem: Problem,
    function: Callable[[Floats], Any],
    *,
    sample: Sample | None = None,
    groups: ArrayLike | None = None,
    draws: int = 999,
    seed: int = 0,
) -> Consistency:
    """Test E[m | κ] = 0, m = moment(f) - y, for any f.

    The statistic is T = Σ_{i≠j} k(κ_i, κ_j) m_i m_j / n, zero in expectation for the right f and positive for any other
    that the kernel can tell; k is a constant plus Gaussians of two bandwidths. Its distribution under the null is that
    of T with the sign of each m_i drawn at random (the wild bootstrap). A large p-value is no proof that f is right:
    with instruments, what averaging hides no test can see.

    Parameters
    ----------
    problem : Problem
        The moments.
    function : callable
        Any f from points (n, d) to values (n,), not fitted to these samples: to those it is too consistent.
    sample : dict of arrays, optional
        Samples; by default the problem's finite data set.
    groups : array of shape (n,), optional
        Labels of rows that depend on each other, such as episodes, which have one sign together.
    draws : int, default=999
        Draws of the bootstrap.
    seed : int, default=0
        Seed of the draws.

    Returns
    -------
    Consistency
        The p-value and the statistic.

    Examples
    --------
    >>> from dualembed.problems import InstrumentalVariables
    >>> from dualembed.sources import Dataset
    >>> rng = np.random.default_rng(0)
    >>> z, hidden = rng.normal(size=(2, 500))
    >>> x = z + hidden
    >>> problem = InstrumentalVariables(Dataset(x=x, z=z, y=np.sin(x) + hidden))
    >>> right, wrong = (consistency_test(problem, lambda x, f=f: f(x[:, 0])) for f in (np.sin, np.cos))
    >>> right.p_value > 0.05, wrong.p_value < 0.01
    (True, True)
    """
    checks.instance("problem", problem, Problem, "such as problems.PolicyEvaluation(source, 0.9)")
    checks.count("draws", draws, at_least=19)
    checks.count("seed", seed, at_least=0)
    if not problem.loss.quadratic:
        raise checks.InputError(
            f"the test is of a conditional mean, which the square loss asks for, not of {type(problem.loss).__name__}"
        )
    terms = checked_terms(problem, sample)
    residual = np.sum(terms.weights * values_at(function, terms.points), axis=1) + terms.offset - terms.target
    rng = np.random.default_rng(seed)
    # The target itself may stand in the context of losses that need it; given y there would be nothing to average.
    columns = [j for j in range(terms.context.shape[1]) if not np.array_equal(terms.context[:, j], terms.target)]
    context = np.asarray(terms.context)[:, columns]
    counted = residual if terms.mass is None else terms.mass * residual
    scores = context_features(context, rng) * counted[:, None]
    sums = _sums(scores, groups)
    own = np.sum(sums**2)
    statistic = np.sum(sums.sum(axis=0) ** 2) - own
    worth = len(residual) if terms.mass is None else terms.mass.sum()
    signs = rng.integers(0, 2, size=(draws, len(sums))) * 2.0 - 1.0
    drawn = np.sum((signs @ sums) ** 2, axis=1) - own
    # Where the residual is zero throughout every draw equals the statistic, and rounding must not decide.
    exceeding = int(np.sum(drawn >= statistic - 1e-9 * own))
    return Consistency((1 + exceeding) / (1 + draws), float(statistic / worth), draws)


def context_features(context: Floats, rng: np.random.Generator, *, landmarks: int = LANDMARKS) -> Floats:
    """Features (n, r) whose inner products are the kernel's values, up to what the landmarks do not span."""
    deviation = context.std(axis=0)
    places = (context - context.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    distinct = np.unique(places[rng.permutation(len(places))[: 4 * landmarks]], axis=0)
    constant = np.ones((len(places), 1))
    if len(distinct) < 2:
        return constant
    width = float(median_bandwidth(places))
    kernel: Kernel = Gaussian(width) + Gaussian(width / NARROWER)
    centres = distinct[rng.permutation(len(distinct))[:landmarks]]
    return np.concatenate([constant, np.asarray(whitened(kernel, centres)(places))], axis=1)


def _sums(scores: Floats, groups: ArrayLike | None) -> Floats:
    """The scores summed within each group (G, r)."""
    numbers = number_groups(groups, len(scores))
    count = int(numbers.max(initial=-1)) + 1
    if count < FEWEST:
        what = "rows" if groups is None else "groups, such as episodes"
        raise checks.InputError(f"the test needs at least {FEWEST} {what}, not {count}")
    if count == len(scores):
        return scores
    return sum_by(numbers, scores, count)
