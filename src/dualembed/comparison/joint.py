"""Several answers from the same groups of rows: intervals that hold together, and the best without flattery."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from dualembed.arrays import Floats
from dualembed.estimates import check_level
from dualembed.estimators.answering import largest_quantile

JUDGES = 0.3  # of the left-out groups, which judge what the others pick
UNSURE = 1.5  # times the error of one value, that of the best has where others may be as good
LEVEL = 0.95
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

        Of every three in ten left-out groups a policy is picked by all other groups and judged by these alone: what
        each group shows is its pseudo-value. So no policy is judged by the rows that it was picked by, and the value,
        the mean over all such choices, is not flattered. Where others are as good as the best for all that the data
        tell, it varies by more than one value does: in draws of 2 to 30 policies by up to 1.5 times as much.
        """
        h = 1 / self.shares
        alone = h * self.values[:, None] - (h - 1) * self.replicates  # (P, K)
        alone += (self.values - alone @ self.shares)[:, None]  # of answers that are no plain means of what groups show
        groups = len(h)
        judges = np.array(list(itertools.combinations(range(groups), max(1, round(JUDGES * groups)))))
        inside = np.zeros((len(judges), groups))
        inside[np.arange(len(judges))[:, None], judges] = 1.0
        paid = alone * self.shares  # (P, K)
        picked = np.argmax(paid @ (1 - inside).T, axis=0)
        value = float(np.sum((paid @ inside.T)[picked, np.arange(len(judges))]) / np.sum(inside @ self.shares))
        counts = np.bincount(picked, weights=inside @ self.shares, minlength=len(self.values))
        counts = counts / counts.sum()
        return value, float(np.sqrt(counts @ self.stderrs**2)) * (UNSURE if self._rivalled else 1.0), counts

    @property
    def _rivalled(self) -> bool:
        """Whether some policy is as good as the best for all that the data tell."""
        moves, place = self._moves, int(np.argmax(self.values))
        errors = np.sqrt(np.sum((moves[place] - moves) ** 2, axis=1) * moves.shape[1] / max(moves.shape[1] - 1, 1))
        return bool(np.sum(self.values[place] - self.values <= self.quantile(LEVEL) * errors) > 1)


def pointwise(level: float, freedom: float | None) -> float:
    """How many standard errors an interval of one answer reaches to either side."""
    check_level(level)
    return float(norm.ppf(0.5 + level / 2) if freedom is None else student.ppf(0.5 + level / 2, freedom))


def bonferroni(level: float, answers: int, freedoms: Sequence[float | None]) -> float:
    """The same of so many answers at once, of which it is not known how they vary together."""
    return max(pointwise(1 - (1 - level) / max(answers, 1), freedom) for freedom in freedoms)
