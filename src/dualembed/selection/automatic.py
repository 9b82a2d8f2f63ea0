"""From a problem and its data to a fitted function, every number chosen from single samples, with no ground truth."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from dualembed import checks, compilation
from dualembed.problems.base import Problem
from dualembed.saddle import Saddle
from dualembed.selection.honest_score import Score, honest_score
from dualembed.selection.noise import variances
from dualembed.selection.record import Record, Step
from dualembed.selection.search import Choice, Samples, choose, read
from dualembed.solvers.base import Pair, Result, as_key
from dualembed.solvers.closed_form import normal_equations, pseudo_inverse, solution
from dualembed.solvers.statistics import Statistics, gather, moment_features
from dualembed.solvers.uncertainty import score_covariance, spreads
from dualembed.sources import Dataset
from dualembed.spaces.basis import Basis
from dualembed.spaces.linear import LinearFunction

FOLDS = 5
MANY = 0.05  # moments a row, from which on their bias is worth the noise of removing it
JUDGE_ROWS = 20_000  # that the honest score of two sets of weights is taken on


def auto(key: jax.Array | int, problem: Problem) -> Result:
    """The problem's solution with kernels, bandwidths, penalties and weights chosen from the data alone.

    f is a Gaussian process: a constant, a linear trend and a smooth part with one bandwidth a coordinate, whose
    hyper-parameters maximise the moment evidence. The dual's bandwidths are short enough to predict what the moment is
    made of, and both spaces grow while the residual can still be predicted by a richer dual. Where the noise depends
    on the context, efficient weights are tried, and kept if the honest score falls. The solution is
    `solvers.ClosedForm`'s on `result.record.saddle`; `print(result.record)` says what was tried and chosen, and
    `result.uncertainty` has standard errors.

    Memory: the samples in float64, and 8 n numbers for each of some hundred features of at most 5,000 rows.

    >>> import dualembed as de
    >>> rng = np.random.default_rng(0)
    >>> z, u = rng.normal(size=(2, 1000))
    >>> x = z + u
    >>> data = de.sources.Dataset(x=x, z=z, y=x + 2 * u)
    >>> result = de.selection.auto(0, de.problems.InstrumentalVariables(data))
    >>> bool(abs(result.primal([1.0])[0] - result.primal([0.0])[0] - 1) < 0.2)
    True
    """
    checks.instance("problem", problem, Problem, "such as problems.PolicyEvaluation(source, 0.9)")
    if not problem.loss.quadratic:
        raise checks.InputError(
            f"models are chosen for the square loss, not for {type(problem.loss).__name__}; give losses.Square()"
        )
    compilation.enable_cache()
    seed = int(jax.random.randint(as_key(key), (), 0, 2**31 - 1))
    rng = np.random.default_rng(seed)
    samples = read(problem)
    choice, steps = choose(samples, rng)
    return _fitted(problem, samples, choice, steps=steps, rng=rng)


def _fitted(
    problem: Problem, samples: Samples, choice: Choice, *, steps: list[Step], rng: np.random.Generator
) -> Result:
    """The closed form on all rows, with efficient weights where they help, and its uncertainty."""
    parts = _parts(problem, choice, steps)
    theta, eta, penalty = _solved(parts, choice.variance)
    function = LinearFunction(choice.features, theta)
    residual = samples.target - _moment(samples, function)
    model = variances(samples.context[:, samples.columns], residual, rng)
    numbers = {"gain in log likelihood a row": model.gain, "its standard error": model.stderr}
    if model.helpful:
        omega = score_covariance(problem, function, choice.instruments, variances=model.values)
        weighted = _weighted(parts, omega / float(np.mean(residual**2)))
        other = LinearFunction(choice.features, _solved(weighted, choice.variance)[0])
        plain, efficient = (_judged(problem, one, len(samples.target)) for one in (function, other))
        change = efficient.contributions - plain.contributions
        numbers |= {"change of the honest score": change.mean(), "with standard error": _stderr(change)}
        used = change.mean() < -_stderr(change)
        if used:
            parts, function = weighted, other
        steps.append(Step("efficient weights", "used" if used else "tried and not used", numbers))
    else:
        steps.append(Step("efficient weights", "not needed, the noise is much the same everywhere", numbers))
    scores = score_covariance(problem, function, choice.instruments)
    uncertainty = spreads(parts, function, scores, primal_penalty=penalty)
    saddle = Saddle(problem, Basis(choice.features), Basis(choice.instruments), primal_penalty=penalty)
    witness = saddle.dual_function(LinearFunction(choice.instruments, eta))
    finite = bool(np.all(np.isfinite(function.weights)))
    record = Record(tuple(steps), saddle)
    return Result(function, witness, None, finite, Pair(function, witness), 1, uncertainty=uncertainty, record=record)


def _parts(problem: Problem, choice: Choice, steps: list[Step]) -> list[Statistics]:
    """The statistics of folds, whose products across folds have no many-moment bias, or of all rows as one.

    With few moments the bias is small, and products across folds are a little noisier. Where there is more noise than
    signal in some direction of f they are not positive, and to solve with them does more harm than the bias.
    """
    parts = gather(problem, choice.features, choice.instruments, folds=FOLDS)
    whole = sum(parts[1:], start=parts[0])
    values, vectors = np.linalg.eigh(whole.dual / whole.count)
    normal, _ = normal_equations(parts, vectors, pseudo_inverse(values, 0.0))
    lowest = float(np.linalg.eigvalsh(normal)[0]) / (choice.variance / whole.count)
    share = choice.instruments.size / whole.count
    across = share > MANY and lowest > -0.5
    answer = "across folds, without many-moment bias" if across else "all rows together"
    numbers = {"moments a row": share, "lowest eigenvalue across folds over the penalty": lowest}
    steps.append(Step("products of moments", answer, numbers))
    return parts if across else [whole]


def _solved(parts: list[Statistics], variance: float) -> tuple[np.ndarray, np.ndarray, float]:
    """(θ, η, λ1) with λ1 = σ² / n, σ² that of the residual on all rows."""
    whole = sum(parts[1:], start=parts[0])
    for _ in range(2):
        penalty = variance / whole.count
        theta, eta = solution(parts, penalty, 0.0)
        variance = max(whole.residual_variance(theta), 1e-12 * whole.target / whole.count)
    return theta, eta, penalty


def _weighted(parts: list[Statistics], noise: np.ndarray) -> list[Statistics]:
    """The same statistics with C replaced by the noise's covariance over its mean, which is what weights W⁻¹ are."""
    return [dataclasses.replace(part, dual=noise * part.count) for part in parts]


def _moment(samples: Samples, function: LinearFunction) -> np.ndarray:
    """Σ_k w_k f(p_k) in float64, some rows at a time."""
    tiles = np.array_split(np.arange(len(samples.target)), 1 + len(samples.target) // 4096)
    return np.concatenate([moment_features(function.features, samples.some(tile)) @ function.weights for tile in tiles])


def _judged(problem: Problem, function: LinearFunction, rows: int) -> Score:
    sample = None
    if isinstance(problem.source, Dataset) and rows > JUDGE_ROWS:
        sample = {name: column[:JUDGE_ROWS] for name, column in problem.source.table.items()}
    return honest_score(problem, lambda xs: function.features(xs) @ function.weights, sample=sample)


def _stderr(values: np.ndarray) -> float:
    return float(values.std() / np.sqrt(len(values)))
