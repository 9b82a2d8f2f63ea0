"""What a process earns a step in the long run, from its one-step transitions alone."""

from __future__ import annotations

from typing import ClassVar

import jax
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.data.trajectories import check_vectors
from dualembed.losses import Loss, Square
from dualembed.problems.base import Problem, Terms, checked_columns, library, states_of
from dualembed.sources import Sample, Source


class AverageReward(Problem):
    """The differential value: min over V of E[loss_r(E[V(s) - V(s') + V(s_0) | s])]; V(s_0) is the mean reward.

    Columns are state and next_state (B,) or (B, d) and reward (B,), which may depend on both; optional ways (B, K + 2),
    where rewards are made of a fit (`Terms.ways`). Rows need not start as often in a state as the process is there in
    the long run: V(s_0) is the mean reward under the law that the transitions leave as it is. The reference s_0 sets
    V's level alone.

    Parameters
    ----------
    source : Source
        Samples with the columns above.
    reference : float or array of shape (d,)
        The reference state s_0.
    loss : Loss, default=Square()
        The loss of the conditional mean of the moment.

    Examples
    --------
    >>> from dualembed.sources import Dataset
    >>> data = Dataset(state=[0.0, 1.0], next_state=[1.0, 0.0], reward=[2.0, 0.0])
    >>> AverageReward(data, 0.0).terms(data.columns).weights.tolist()
    [[1.0, -1.0, 1.0], [1.0, -1.0, 1.0]]
    """

    source: Source
    reference: Floats | jax.Array
    loss: Loss
    unbounded: ClassVar[bool] = True

    def __init__(self, source: Source, reference: ArrayLike, loss: Loss | None = None) -> None:
        self.source = source
        checked = checks.array("reference", reference, ndim=(0, 1))
        self.reference = checked if checks.traced(checked) else np.atleast_1d(np.asarray(reference, dtype=np.float64))
        self.loss = Square() if loss is None else loss

    def __check_init__(self) -> None:
        checked_columns(self, "state=..., next_state=..., reward=...")

    def terms(self, sample: Sample) -> Terms:
        """Points (s, s', s_0), weights 1, -1, 1, offset 0, context s, target r."""
        state, next_state = states_of("an average reward", sample, "reward")
        check_vectors(sample, "reward")
        if self.reference.shape != state.shape[1:]:
            raise checks.InputError(
                f"reference must be one state of shape {state.shape[1:]}, but has shape {self.reference.shape}"
            )
        xp = library(sample, self.reference)
        reward = xp.asarray(sample["reward"], dtype=float)
        ones = xp.ones_like(reward)
        return Terms(
            points=xp.stack([state, next_state, xp.broadcast_to(self.reference, state.shape)], axis=1),
            weights=xp.stack([ones, -ones, ones], axis=1),
            offset=0.0 * ones,
            context=state,
            target=reward,
            known=(True, False, True),
            ways=sample.get("ways"),
        )
