"""Linearly-solvable control: the desirability z(s) = exp(-cost to go) from transitions of the passive dynamics.

Where the cost of steering is the divergence from the passive dynamics p, the optimal cost to go v(s) fulfils
exp(-v(s)) = exp(-q(s)) E_p[exp(-v(s')) | s]: linear in z = exp(-v). The equation alone is homogeneous, so that z = 0
solves it; each problem here has a boundary or a normalisation that excludes it.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.data.trajectories import check_marks, check_vectors
from dualembed.losses import Loss, Square
from dualembed.problems.base import (
    Problem,
    Terms,
    checked_columns,
    library,
    mass_of,
    states_of,
)
from dualembed.sources import Dataset, Sample, Source

LARGEST = float(np.finfo(np.float32).max)


class FirstExit(Problem):
    """Control until an exit: min over z of E[loss(E[z(s) - e^(-q(s)) z(s') | s])], where z = e^(-q_T) at the end.

    Columns are state and next_state (B,) or (B, d), cost (B,), the running cost q(s); terminal (B,), 1 where s' is
    terminal; terminal_cost (B,), q_T(s') there (elsewhere it does not matter: put 0). At least one transition must
    reach a terminal state: otherwise z = 0 is the solution. Where running costs below zero make it pay never to end,
    there is no least cost, and the solution z of the equation is negative somewhere.

    Parameters
    ----------
    source : Source
        Samples with the columns above.
    loss : Loss, default=Square()
        The loss of the conditional mean of the moment.

    Examples
    --------
    >>> data = Dataset(state=[0.0, 1.0], cost=[0.0, 0.0], next_state=[1.0, 2.0], terminal=[0, 1], terminal_cost=[0, 0])
    >>> FirstExit(data).terms(data.columns).offset.tolist()
    [-0.0, -1.0]
    """

    source: Source
    loss: Loss = eqx.field(default_factory=Square)

    def __check_init__(self) -> None:
        columns = checked_columns(self, "state=..., cost=..., next_state=...")
        if columns is not None:
            ends = columns["terminal"]
            if not checks.traced(ends) and not np.any(np.asarray(ends)):
                raise checks.InputError(
                    "no transition reaches a terminal state (terminal is 0 throughout), so that z = 0 would be the "
                    "solution; give transitions that end, or use problems.AverageCost for a process without an end"
                )

    def terms(self, sample: Sample) -> Terms:
        """Points (s, s'), weights 1, -e^(-q) (s' not terminal), offset -e^(-q) (s' terminal) e^(-q_T), context s."""
        state, next_state = states_of("first-exit control", sample, "cost", "terminal", "terminal_cost")
        check_vectors(sample, "cost", "terminal", "terminal_cost")
        check_marks(sample, "terminal", "mark with 1 where s' is terminal")
        xp = library(sample)
        decay, ends = _decay("cost", sample["cost"]), xp.asarray(sample["terminal"], dtype=float)
        # Elsewhere the terminal cost may be anything, also huge: it must not meet a zero as infinity.
        final = _decay("terminal_cost", xp.where(ends > 0, xp.asarray(sample["terminal_cost"]), 0.0))
        return Terms(
            points=xp.stack([state, next_state], axis=1),
            weights=xp.stack([xp.ones_like(decay), -decay * (1.0 - ends)], axis=1),
            offset=-decay * ends * final,
            context=state,
            target=xp.zeros_like(decay),
            known=(True, False),
            mass=mass_of(sample),
        )


class AverageCost(Problem):
    """Control without an end: min over z of E[loss(E[λ z(s) - e^(-q(s)) z(s') | s] + z(s_0) - 1)].

    λ = e^(-c) is the principal eigenvalue of e^(-q) P and c the least average cost a step; z is its positive
    eigenfunction, with z(s_0) = 1 at the reference state s_0. The normalisation is part of the moment: against the
    left eigenvector, which is positive, the equation says z(s_0) = 1, and then that z is the eigenfunction.
    `control.average_cost` finds λ together with z; here it is given. Columns are state, cost and next_state.

    At an s_0 that the equation says nothing of, z(s_0) = 1 and z = 0 elsewhere would be a solution. So s_0 is the state
    of a Dataset nearest to the reference, which only sets z's scale; a reference outside their range is refused. With
    samples drawn on demand s_0 is the reference as given, and must be a state that they visit.

    Parameters
    ----------
    source : Source
        Samples with the columns above.
    eigenvalue : float
        The eigenvalue λ.
    reference : float or array of shape (d,)
        The reference state s_0.
    loss : Loss, default=Square()
        The loss of the conditional mean of the moment.

    Examples
    --------
    >>> AverageCost(Dataset(state=[0.1, 0.2], cost=[0, 0], next_state=[0.2, 0.1]), 1.0, 0.19).reference.tolist()
    [0.2]
    """

    source: Source
    eigenvalue: float | jax.Array
    reference: Floats | jax.Array
    loss: Loss

    def __init__(self, source: Source, eigenvalue: ArrayLike, reference: ArrayLike, loss: Loss | None = None) -> None:
        self.source = source
        self.eigenvalue = checks.real(eigenvalue)
        checked = checks.array("reference", reference, ndim=(0, 1))
        # All its digits: a table looks states up by equality.
        exact = checked if checks.traced(checked) else np.asarray(reference, dtype=np.float64)
        self.reference = _nearest_state(source, exact[None] if exact.ndim == 0 else exact)
        self.loss = Square() if loss is None else loss

    def __check_init__(self) -> None:
        checks.positive("eigenvalue", self.eigenvalue, "it is e^(-average cost); control.average_cost finds it")
        checked_columns(self, "state=..., cost=..., next_state=...")

    def terms(self, sample: Sample) -> Terms:
        """Points (s, s', s_0), weights λ, -e^(-q), 1, offset -1, context s, target 0."""
        state, next_state = states_of("average-cost control", sample, "cost")
        check_vectors(sample, "cost")
        if self.reference.shape != state.shape[1:]:
            raise checks.InputError(
                f"reference must be one state of shape {state.shape[1:]}, but has shape {self.reference.shape}"
            )
        xp = library(sample, self.eigenvalue, self.reference)
        decay = _decay("cost", sample["cost"])
        ones = xp.ones_like(decay)
        return Terms(
            points=xp.stack([state, next_state, xp.broadcast_to(self.reference, state.shape)], axis=1),
            weights=xp.stack([self.eigenvalue * ones, -decay, ones], axis=1),
            offset=-ones,
            context=state,
            target=0.0 * ones,
            known=(True, False, True),
            offset_known=True,
        )


def _nearest_state(source: Source, reference: Any) -> Any:
    """The state of a data set nearest to the reference, which must be in their range; any other source's as given."""
    states = source.table.get("state") if isinstance(source, Dataset) else None
    if states is None or checks.traced(states, reference):
        return reference
    rows = states.reshape(len(states), -1)
    if rows.shape[1:] != reference.shape:
        return reference  # `terms` has a sentence about that
    low, high = rows.min(axis=0), rows.max(axis=0)
    spread = np.where(high > low, high - low, 1.0)
    nearest = rows[np.argmin(np.sum(((rows - reference) / spread) ** 2, axis=1))]
    slack = 1e-6 * (spread + np.abs(reference))  # for a reference or a state that has been rounded
    if np.any((reference < low - slack) | (reference > high + slack)):
        raise checks.InputError(
            f"reference must be a state of the data, not {reference.tolist()}, which is outside their range, "
            f"{low.tolist()} to {high.tolist()}, and would leave z = 0 at all of them; the nearest is "
            f"{nearest.tolist()}"
        )
    return nearest


def _decay(name: str, cost: Any) -> Any:
    """e^(-cost), refused where that is beyond the numbers there are."""
    if not checks.traced(cost) and np.any(np.isnan(np.asarray(cost))):
        row = int(np.argmax(np.isnan(np.asarray(cost))))
        raise checks.InputError(f"{name} must be a number, not NaN as in row {row}; drop or fill those rows")
    xp = library(cost)
    with np.errstate(over="ignore"):  # refused below
        decay = xp.exp(-xp.asarray(cost))
    # Whatever precision the terms are made in, a stochastic solver takes them in float32.
    if not checks.traced(decay) and not np.all(np.asarray(decay) <= LARGEST):
        raise checks.InputError(
            f"{name} must not be below {-np.log(LARGEST):.0f}, not {np.min(cost):g}, since e^(-{name}) overflows; "
            "measure costs in a larger unit"
        )
    return decay
