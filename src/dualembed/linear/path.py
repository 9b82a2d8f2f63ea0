"""Every linear question from ridge paths: candidates on all rows and without each group, averaged, with one error.

A candidate is a kernel and a ridge. For a question c its answer P = c(f) has a sampling variance S², by the jackknife
over groups, and a bias β that the ridge leaves. Candidates are averaged with weights that belong to the function, not
to the question, so that answers add up as questions do; the error of an answer is its own.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence

import equinox as eqx
import numpy as np
from scipy.linalg import LinAlgWarning

from dualembed.arrays import Floats, Integers
from dualembed.linear.candidates import Functional, RidgePath
from dualembed.linear.clusters import sum_by
from dualembed.linear.sums import Sums
from dualembed.linear.system import LinearSystem
from dualembed.spaces.features import FeatureMap, evaluate_functions, mean_features
from dualembed.tuning import SEARCH

FEWEST_CARRIERS = 20  # groups, below which those that carry an answer cannot be told from the others


def solution_path(
    features: FeatureMap,
    sums: Sums,
    ridges: Sequence[float],
    *,
    looks: Callable[[Floats], Sequence[Floats]],
    shares: Floats,
) -> RidgePath:
    """The solutions of (A + ridge s I')θ = b along falling ridges, s being the mean square of a feature.

    `looks` gives from weights (K + 2, m) the answers that matter, (..., K + 2) for each kind of question. The path ends
    where, for every kind, two ridges in a row had more than 25 times the least error so far, since the noise of a
    smaller one would only be larger; or where two in a row moved nothing to speak of.
    """
    scale, whole = sums.mean_square, sums.means()
    rests = [sums.means_without(group) for group in range(sums.groups)]
    # Each way its own target, where there are some.
    *columns, last = np.arange(1, 2 + sums.groups) % sums.target.shape[2]
    solutions: list[Floats] = []
    seen: list[Sequence[Floats]] = []
    for ridge in ridges:
        with warnings.catch_warnings():
            # Where a group holds all that determines f, what is left without it is singular, and its error infinite.
            warnings.simplefilter("ignore", LinAlgWarning)
            system = LinearSystem(*whole, ridge * scale)
            theta = system.weights()
            others = [
                LinearSystem(*rest, ridge * scale).weights(column) for rest, column in zip(rests, columns, strict=True)
            ]
        # Where there is no solution without a group, nothing of it may pass for a number.
        others = [each if np.all(np.isfinite(each)) else np.full_like(each, np.nan) for each in others]
        solutions.append(np.stack([theta, *others, system.debiased(theta, last)]))
        seen.append(looks(solutions[-1]))
        if all(_ended(kind, shares) for kind in zip(*seen, strict=True)):
            break
    return RidgePath(features, np.asarray(ridges[: len(solutions)], dtype=np.float64), np.stack(solutions))


def _ended(answers: Sequence[Floats], shares: Floats) -> bool:
    """Whether the answers (..., K + 2) along a path so far call for no smaller ridge."""
    if len(answers) < 3:
        return False
    values = np.stack(answers)
    sampling = jackknife(values[..., :-1], shares)
    errors = (sampling + SEARCH.bias * (values[..., -1] - values[..., 0]) ** 2).reshape(len(values), -1).mean(axis=1)
    moves = ((values[1:, ..., 0] - values[:-1, ..., 0]) ** 2).reshape(len(values) - 1, -1).mean(axis=1)
    settled = moves[-2:] <= SEARCH.settled * sampling[-2:].reshape(2, -1).mean(axis=1)
    hopeless = ~(errors[-2:] <= SEARCH.hopeless * np.min(errors[:-2], initial=np.inf, where=np.isfinite(errors[:-2])))
    return bool(settled.all() or hopeless.all())


def jackknife(values: Floats, shares: Floats) -> Floats:
    """The variance (...) of answers, from those on all rows and without each group, (..., 1 + K).

    `shares` (K,) is how much of the data each group is: groups may be of several sizes (the pseudo-values of Busing,
    Meijer and van der Leeden).

    >>> float(jackknife(np.array([2.0, 1.5, 2.5]), np.array([0.5, 0.5])))  # of the mean of 1.5 and 2.5
    0.25
    """
    h = 1 / np.asarray(shares)
    with np.errstate(invalid="ignore", over="ignore"):  # of an answer that is not there without some group
        pseudo = h * values[..., :1] - (h - 1) * values[..., 1:]
        variance = np.mean((pseudo - pseudo.mean(axis=-1, keepdims=True)) ** 2 / (h - 1), axis=-1)
    return np.where(np.isfinite(variance), variance, np.inf)


def ridge_bias(values: Floats) -> Floats:
    """What the ridge leaves in answers (E, ..., K + 2) of a path, (E, ...).

    It is the larger of |debiased - P| and |P(ridge) - P(next ridge)|.
    """
    plain, debiased = values[..., 0], values[..., -1]
    bias = np.abs(debiased - plain)
    bias[:-1] = np.maximum(bias[:-1], np.abs(plain[1:] - plain[:-1]))
    return np.asarray(bias)


def squared_error(values: Floats, shares: Floats) -> Floats:
    """S² + 4β² of answers (E, ..., K + 2) of a path, (E, ...); infinite where there is none."""
    error = jackknife(values[..., :-1], shares) + SEARCH.bias * ridge_bias(values) ** 2
    return np.where(np.isfinite(error), error, np.inf)


@dataclasses.dataclass(frozen=True)
class Estimates:
    """Answers of any shape, with what their errors are made of."""

    value: Floats
    sampling: Floats  # variance over groups of rows
    bias: Floats  # what ridges leave, in the root mean square over candidates
    between: Floats  # variance between candidates
    replicates: Floats  # the answer without each left-out group, (..., K)
    influence: Floats  # what each group of rows adds to the answer, (..., F)

    @property
    def stderr(self) -> Floats:
        """The standard error."""
        return np.sqrt(self.sampling + SEARCH.bias * self.bias**2 + self.between)

    @property
    def carried(self) -> float | None:
        """The share of the groups of rows that carry what one answer varies by, (Σ|i|)² / (F Σi²) over influences i.

        It is 1 where all move the answer by as much, 0.64 where by as much as the normal distribution says, and next to
        0 where one does; None where there are too few groups to tell, or where nothing varies.
        """
        moves = np.abs(self.influence - np.mean(self.influence))
        squares = float(len(moves) * np.sum(moves**2))
        return None if len(moves) < FEWEST_CARRIERS or not squares else float(np.sum(moves) ** 2 / squares)


class Average(eqx.Module):
    """f = Σ weights f_candidate over the candidates of some ridge paths.

    `shares` (K,) is how much of the data each left-out group is, `into` (F,) the left-out group that each of the data's
    groups is a part of, and `influence` what each of these adds to the weights of f in the features of each path. An
    `offset`, a path of one ridge, is a part of every candidate.
    """

    paths: tuple[RidgePath, ...]
    weights: tuple[Floats, ...]  # (E,) for each path; all of them sum to 1
    shares: Floats  # (K,)
    into: Integers  # (F,)
    influence: tuple[Floats, ...]  # (m, F) for each path
    offset: RidgePath | None = None

    def at(self, points: Floats) -> Estimates:
        """f at points (n, d)."""
        pairs = zip(self.paths, self.influence, strict=True)
        influence = np.sum([evaluate_functions(path.features, own.T, points) for path, own in pairs], axis=0)
        offset = 0.0 if self.offset is None else self.offset.values(points)
        return self.combine([path.values(points) + offset for path in self.paths], influence)

    def ask(self, parts: Sequence[tuple[float, Functional]]) -> Estimates:
        """The sum of factor times functional of f."""
        values, influence = self.each(parts), np.zeros(len(self.into))
        for factor, part in parts:
            for path, own in zip(self.paths, self.influence, strict=True):
                influence += factor * part.rows(path.features).mean(axis=0) @ own
            if part.sampled and part.groups is not None:
                value = self._function(part)
                inside = part.groups >= 0
                moves = (value - value.mean())[inside] / len(value)
                influence += factor * np.bincount(part.groups[inside], moves, minlength=len(influence))
        return self.combine(values, influence)

    def averages(self, points: Floats, *, less: bool = False) -> Estimates:
        """The mean of f over each of G sets of given points (G, n, d); where `less`, less that over the last set."""

        def rows(path: RidgePath) -> Floats:
            found = mean_features(path.features, points)
            return found[:-1] - found[-1] if less else found

        def values(path: RidgePath, found: Floats) -> Floats:
            answers = np.moveaxis(path.weights @ found.T, 1, 2)  # (E, G, K + 2)
            return np.asarray(answers)

        known = [rows(path) for path in self.paths]
        influence = np.sum([found @ own for found, own in zip(known, self.influence, strict=True)], axis=0)
        offset = 0.0 if self.offset is None else values(self.offset, rows(self.offset))
        return self.combine([values(*each) + offset for each in zip(self.paths, known, strict=True)], influence)

    def each(self, parts: Sequence[tuple[float, Functional]]) -> list[Floats]:
        """The sum of factor times functional of every candidate, each way: (E, K + 2) for each path."""
        constant = np.sum([factor * part.constant(self.into) for factor, part in parts], axis=0)
        if self.offset is not None:
            constant = constant + np.sum(
                [factor * self.offset.answers(part, self.into) for factor, part in parts], axis=0
            )
        return [
            np.sum([factor * path.answers(part, self.into) for factor, part in parts], axis=0) + constant
            for path in self.paths
        ]

    def combine(self, values: Sequence[Floats], influence: Floats) -> Estimates:
        """The answers to questions, from their values (E, ..., K + 2) on each path and what groups add, (..., F)."""
        weights = np.concatenate(self.weights)
        used = weights > 0
        biases, stacked = np.concatenate([ridge_bias(each) for each in values])[used], np.concatenate(values)[used]
        mean = np.tensordot(weights[used], stacked[..., :-1], axes=1)
        between = np.tensordot(weights[used], (stacked[..., 0] - mean[..., 0]) ** 2, axes=1)
        bias = np.sqrt(np.tensordot(weights[used], biases**2, axes=1))
        sampling = self.sampling(mean, influence)
        return Estimates(mean[..., 0], sampling, bias, between, mean[..., 1:], influence)

    def sampling(self, values: Floats, influence: Floats) -> Floats:
        """The variance of answers (..., 1 + K), on all rows and without each left-out group, of which groups are parts.

        The jackknife over a few left-out groups knows how f really moves without them, but has few of them. What many
        groups add to first order has more degrees of freedom. So it is the variance over the many, times the ratio of
        the two ways over the few, where that is above one.
        """
        exact = jackknife(values, self.shares)
        if len(self.into) == len(self.shares):
            return exact
        few = np.moveaxis(sum_by(self.into, np.moveaxis(influence, -1, 0), len(self.shares)), 0, -1)
        coarse, fine = _variance_of_sum(few), _variance_of_sum(influence)
        ratio = np.divide(exact, coarse, out=np.ones_like(exact), where=coarse > 0)
        return np.where((coarse > 0) & np.isfinite(exact), fine * np.maximum(ratio, 1.0), exact)

    def _function(self, part: Functional) -> Floats:
        """Each row's Σ_j shares_j f(points_j) + constant, (n,)."""
        values = np.zeros(len(part.points)) if part.constants is None else np.array(part.constants, dtype=np.float64)
        for path, weights in zip(self.paths, self.weights, strict=True):
            values += part.rows(path.features) @ np.tensordot(
                weights[weights > 0], path.weights[weights > 0, 0], axes=1
            )
        if self.offset is not None:
            values += part.rows(self.offset.features) @ self.offset.weights[0, 0]
        return values


def _variance_of_sum(parts: Floats) -> Floats:
    """The variance (...) of a sum of independent parts (..., K)."""
    count = parts.shape[-1]
    return np.asarray(np.sum((parts - parts.mean(axis=-1, keepdims=True)) ** 2, axis=-1) * count / (count - 1))


def mix(answers: Sequence[Estimates], average: Average) -> Estimates:
    """The mean of several answers to one question, weighted by the inverse square of their squared errors."""
    errors = np.array([float(each.stderr) ** 2 for each in answers])
    if not np.isfinite(errors).any():
        return answers[0]
    least = max(errors[np.isfinite(errors)].min(), np.finfo(float).tiny)
    weights = np.where(np.isfinite(errors), (least / np.maximum(errors, least)) ** 2, 0.0)
    answers = [each for each, weight in zip(answers, weights, strict=True) if weight > 0]
    weights = weights[weights > 0] / weights.sum()
    values, biases, between = (
        np.array([float(getattr(each, name)) for each in answers]) for name in ("value", "bias", "between")
    )
    replicates = weights @ np.stack([each.replicates for each in answers])
    influence = weights @ np.stack([each.influence for each in answers])
    value = float(weights @ values)
    variance = average.sampling(np.append(value, replicates), influence)
    apart = weights @ (between + (values - value) ** 2)
    bias = np.asarray(np.sqrt(weights @ biases**2))
    return Estimates(np.asarray(value), variance, bias, np.asarray(apart), replicates, influence)


def first_order(path: RidgePath, shares: Floats, fine: Sums, into: Integers) -> Floats:
    """What each of the groups of the sums adds to the weights of f in the path's features, to first order: (m, F).

    f is the sum of the path's candidates times `shares` (E,), and `into` the left-out group each group is a part of:
    what a group shows is held against f without it.
    """
    rows, means, scale = fine.count.sum(), fine.means(), fine.mean_square
    columns = (1 + into) % fine.target.shape[2]
    targets = np.stack([target[:, column] for target, column in zip(fine.target, columns, strict=True)])
    total = np.zeros((fine.cross.shape[1], fine.groups))
    for ridge, share, weights in zip(path.ridges, shares, path.weights, strict=True):
        if share > 0:
            left = targets - np.einsum("fij,fj->fi", fine.cross, weights[1 + into])
            total += share * LinearSystem(*means, ridge * scale).solve(left.T / rows)
    return total
