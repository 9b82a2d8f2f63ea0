"""The value of one policy with how it varies by groups of rows, and the difference of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import equinox as eqx
import numpy as np

from dualembed.answers import Answer, Verdict
from dualembed.arrays import Floats
from dualembed.comparison.joint import Joint
from dualembed.estimates import Estimate
from dualembed.linear.candidates import Functional
from dualembed.linear.fit import LinearFit
from dualembed.linear.path import Average, Estimates, jackknife, ridge_bias
from dualembed.spaces.features import FeatureMap
from dualembed.tuning import SEARCH


class Asked(NamedTuple):
    """What a fit was asked: a functional, and how far each of its points (N,) is from what the fit could learn of."""

    fit: LinearFit
    part: Functional
    beyond: Floats

    @property
    def points(self) -> Floats:
        """The points (N, d)."""
        return self.part.points.reshape(-1, self.part.points.shape[2])

    @property
    def coefficients(self) -> Floats:
        """What each point counts, (N,)."""
        return self.part.shares.ravel() / len(self.part.points)


class Anew(NamedTuple):
    """A value with propensities that are estimated anew, from all rows and without each group: (1 + G,)."""

    values: Floats
    shares: Floats  # (G,), how much of the data each group is


class Compared(NamedTuple):
    """The value of a policy, what others say of it, and the share of rows that it rests on.

    `spread` is how it varies, None where that is not known, `shares` (K,) how much of the data each left-out group is,
    `average` what its errors are made by, None where they are those of a mean over rows, `asked` what it is the answer
    to, None where it is more than that, and `anew` there where propensities were estimated.
    """

    answer: Answer
    spread: Estimates | None
    shares: Floats
    rivals: Mapping[str, Estimate]
    overlap: float | None
    average: Average | None = None
    asked: Asked | None = None
    anew: Anew | None = None


def joint_of(compared: Sequence[Compared]) -> Joint | None:
    """How the values vary together; None where one of them does not know."""
    spreads = [each.spread for each in compared if each.spread is not None]
    if len(spreads) < len(compared):
        return None
    return Joint(
        np.array([each.answer.value for each in compared]),
        np.stack([spread.replicates for spread in spreads]),
        np.asarray(compared[0].shares),
        np.stack([spread.influence for spread in spreads]),
        np.array([each.answer.stderr for each in compared]),
        compared[0].answer.freedom,
    )


def difference(question: str, first: Compared, second: Compared) -> Answer:
    """The value of the first policy minus that of the second, group for group."""
    both = first.answer, second.answer
    value = both[0].value - both[1].value
    verdicts = [each.verdict for each in both if each.verdict is not None]
    order = list(Verdict)
    return Answer(
        value,
        _stderr(value, first, second),
        freedom=both[0].freedom,
        question=question,
        verdict=max(verdicts, key=order.index) if verdicts else None,
        warnings=tuple(dict.fromkeys([*both[0].warnings, *both[1].warnings])),
    )


def _stderr(value: float, first: Compared, second: Compared) -> float:
    """The standard error of a difference: of one answer and itself there is none."""
    a, b = first.spread, second.spread
    if a is None or b is None:  # by other solvers, which know nothing of groups
        errors = first.answer.stderr, second.answer.stderr
        return 0.0 if not value and errors[0] == errors[1] else float(np.hypot(*errors))
    replicates, influence = a.replicates - b.replicates, a.influence - b.influence
    if not (value or replicates.any() or influence.any()):
        return 0.0
    if first.average is None:
        sampling = np.asarray(np.sum((influence - influence.mean()) ** 2) * len(influence) / (len(influence) - 1))
    else:
        sampling = first.average.sampling(np.append(value, replicates), influence)
    bias, between = _left_by_ridges(value, first, second)
    spread = float(Estimates(np.asarray(value), sampling, bias, between, replicates, influence).stderr)
    if first.anew is not None and second.anew is not None:
        again = jackknife(first.anew.values - second.anew.values, first.anew.shares)
        spread = max(spread, float(np.sqrt(again)))
    return float(np.hypot(spread, _guessed(first, second)))


def _left_by_ridges(value: float, first: Compared, second: Compared) -> tuple[Floats, Floats]:
    """(what ridges leave in a difference, its variance between candidates).

    As far as both values rest on the same candidates, of features and ridges alike, the difference is a question of its
    own, which each of these has an answer to. What ridges leave in the rest of both, and what that varies by between
    candidates, may or may not be shared, and counts as if it were not.
    """
    a, b = first.spread, second.spread
    if a is None or b is None:
        raise RuntimeError("an answer whose error is made of parts varies by groups")
    if first.average is None or second.average is None or first.asked is None or second.asked is None:
        return np.hypot(a.bias, b.bias), a.between + b.between
    one, other = _candidates(first.average, first.asked), _candidates(second.average, second.asked)
    same = [(i, j) for i, own in enumerate(one) for j, its in enumerate(other) if _alike(own.features, its.features)]
    shared = _Moments.of([one[i].minus(other[j]) for i, j in same])
    alone = [
        _Moments.of([own.less([theirs[j] for i, j in pairs if i == place]) for place, own in enumerate(mine)])
        for mine, theirs, pairs in ((one, other, same), (other, one, [(j, i) for i, j in same]))
    ]
    together, apart = shared.mass**2, max(1 - shared.mass, 0.0) ** 2
    squares = together * shared.squares + apart * (alone[0].squares + alone[1].squares)
    between = together * shared.spread + apart * (alone[0].spread + alone[1].spread)
    return np.sqrt(squares), np.asarray(between + shared.mass * (shared.mean - value) ** 2)


def _alike(own: FeatureMap, other: FeatureMap) -> bool:
    """Whether two feature maps are the same."""
    return eqx.tree_equal(own, other) is True


class _Candidates(NamedTuple):
    """The candidates of a path that an answer is an average of: weights (E,) and answers (E, K + 2)."""

    features: FeatureMap
    weights: Floats
    values: Floats

    def minus(self, other: _Candidates) -> _Candidates:
        """The difference of two answers, by the candidates that both have, as far as both give them weight."""
        count = min(len(self.weights), len(other.weights))
        weights = np.minimum(self.weights[:count], other.weights[:count])
        return _Candidates(self.features, weights, self.values[:count] - other.values[:count])

    def less(self, others: Sequence[_Candidates]) -> _Candidates:
        """Without the weight that others have too."""
        weights = np.array(self.weights)
        for other in others:
            count = min(len(weights), len(other.weights))
            weights[:count] -= np.minimum(self.weights[:count], other.weights[:count])
        return self._replace(weights=np.maximum(weights, 0.0))


def _candidates(average: Average, asked: Asked) -> list[_Candidates]:
    """Those of an answer, by its paths."""
    values = average.each([(1.0, asked.part)])
    parts = zip(average.paths, average.weights, values, strict=True)
    return [_Candidates(path.features, np.asarray(weights), own) for path, weights, own in parts]


class _Moments(NamedTuple):
    """Of candidates: their mass, and means over it of squared biases, of answers, and of squared distances of these."""

    mass: float
    squares: float
    mean: float
    spread: float

    @staticmethod
    def of(parts: Sequence[_Candidates]) -> _Moments:
        """Those of some paths."""
        weights = np.concatenate([np.zeros(0), *(part.weights for part in parts)])
        used = weights > 0
        if not used.any():
            return _Moments(0.0, 0.0, 0.0, 0.0)
        biases = np.concatenate([ridge_bias(part.values) for part in parts])[used]
        answers = np.concatenate([part.values[:, 0] for part in parts])[used]
        mass = float(weights.sum())
        shares = weights[used] / mass
        mean = float(shares @ answers)
        return _Moments(mass, float(shares @ biases**2), mean, float(shares @ (answers - mean) ** 2))


def _guessed(first: Compared, second: Compared) -> float:
    """What a difference may be off by where the policies do what no row shows.

    Where both do the same there, it is by no more than the difference of their functions varies by.
    """
    a, b = first.asked, second.asked
    if a is None or b is None or not np.array_equal(a.points, b.points):
        return float(np.hypot(_guessed_alone(first), _guessed_alone(second)))
    beyond, coefficients = np.maximum(a.beyond, b.beyond), b.coefficients
    guessed = max(a.fit.size, b.fit.size) * float(np.abs(a.coefficients - coefficients) @ beyond)
    if beyond.any():
        both = (each.fit.replicates(np.asarray(a.fit.places))[:, 0] for each in (a, b))
        guessed += float(np.std(np.subtract(*both)) * np.abs(coefficients) @ beyond)
    digits = SEARCH.digits * np.hypot(first.answer.value, second.answer.value)
    return float(np.hypot(guessed, digits))


def _guessed_alone(compared: Compared) -> float:
    """What is in an answer's error beside how it varies."""
    if compared.spread is None or compared.average is None:
        return 0.0
    return float(np.sqrt(max(compared.answer.stderr**2 - float(compared.spread.stderr) ** 2, 0.0)))
