"""Several answers from the same groups of rows: intervals that hold together, and the best without flattery."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from dualembed.arrays import Floats
from dualembed.estimates import check_level
from dualembed.estimators.answering import largest_quantile

MOST_MOVES = 200  # groups of rows that draws are taken over: rows of bandits are many, and are put together


@dataclasses.dataclass(frozen=True)
class Joint:
    """Values of P policies, without each of K left-out groups too, and what groups of rows add to them.

    `values` (P,), `replicates` (P, K) and `shares` (K,), how much of the data each left-out group is; `influence`
    (P, F); `stderrs` (P,); `freedom` that of the errors, None where they are many.
    """

    values: Floats
    replicates: Floats
    shares: Floats
    influence: Floats
    stderrs: Floats
    freedom: float | None = None

    def quantile(self, level: float) -> float:
        """How many standard errors reach to either side in intervals that hold for all values and differences at once.

        It is a quantile of the largest of their errors, which vary together as what groups of rows add to them does.
        """
        moves = self._moves
        first, second = np.triu_indices(len(moves), 1)
        every = np.concatenate([moves, moves[first] - moves[second]])
        return max(pointwise(level, self.freedom), largest_quantile(every, level, freedom=self.freedom))

    @property
    def _moves(self) -> Floats:
        """What groups of rows add to the values, of mean 0: (P, F), rows that are many being put together."""
        moves = self.influence - self.influence.mean(axis=1, keepdims=True)
        if moves.shape[1] <= MOST_MOVES:
            return np.asarray(moves)
        owner = np.random.default_rng(0).permutation(moves.shape[1]) % MOST_MOVES
        return np.stack([np.bincount(owner, own, minlength=MOST_MOVES) for own in moves])

    def best(self) -> tuple[float, float, Floats]:
        """(the value of the best, its standard error, how often each policy was picked (P,)).

        For each left-out group a policy is picked by all other groups, and judged by that group alone: what it shows is
        its pseudo-value. So no policy is judged by the rows that it was picked by, and the value is not flattered. But
        picks vary together, so that it varies by more than one value does: its error is widened until the interval is
        one that holds for all policies at once that the data do not tell from the best.
        """
        h = 1 / self.shares
        alone = h * self.values[:, None] - (h - 1) * self.replicates  # (P, K)
        alone += (self.values - alone @ self.shares)[:, None]  # of answers that are no plain means of what groups show
        picked = np.argmax(self.replicates, axis=0)
        own = alone[picked, np.arange(len(h))]
        value = float(self.shares @ own)
        counts = np.bincount(picked, weights=self.shares, minlength=len(self.values))
        variance = float(np.mean((own - value) ** 2 / (h - 1)))
        stderr = float(np.sqrt(max(variance, float(counts @ self.stderrs**2))))
        return value, stderr * self._widening(), counts / counts.sum()

    def _widening(self, level: float = 0.95) -> float:
        """By how much intervals are wider that hold for all policies at once that may be the best."""
        moves, place = self._moves, int(np.argmax(self.values))
        apart = moves[place] - moves
        errors = np.sqrt(np.sum(apart**2, axis=1) * moves.shape[1] / max(moves.shape[1] - 1, 1))
        near = self.values[place] - self.values <= self.quantile(level) * errors
        if near.sum() < 2:
            return 1.0
        plain = pointwise(level, self.freedom)
        return max(1.0, largest_quantile(moves[near], level, freedom=self.freedom) / plain)


def pointwise(level: float, freedom: float | None) -> float:
    """How many standard errors an interval of one answer reaches to either side."""
    check_level(level)
    return float(norm.ppf(0.5 + level / 2) if freedom is None else student.ppf(0.5 + level / 2, freedom))


def bonferroni(level: float, answers: int, freedoms: Sequence[float | None]) -> float:
    """The same of so many answers at once, of which it is not known how they vary together."""
    return max(pointwise(1 - (1 - level) / max(answers, 1), freedom) for freedom in freedoms)
