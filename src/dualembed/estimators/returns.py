"""What whole episodes earned: the mean of returns, beside which the value of the policy that played them can be put."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dualembed.estimates import Estimate
from dualembed.linear.candidates import Functional

IN_ORDER = 0.5  # share of rows that must lead to the next, for rows to pass for a path
WHOLE = 0.01  # of a reward after its end, that counts at the start of an episode that passes for whole


@dataclasses.dataclass(frozen=True)
class Returns:
    """Discounted rewards of n episodes, and where those that did not end were cut: at `points`, after a discount."""

    earned: np.ndarray  # (n,)
    points: np.ndarray  # (n, d), the last next states
    discounts: np.ndarray  # (n,), 0 where the episode ended
    groups: np.ndarray  # (n,), of the data's groups

    @staticmethod
    def of(table: dict[str, Any], labels: np.ndarray, discount: float, groups: np.ndarray) -> Returns | None:
        """Those of a table of transitions; None where its rows are no whole paths in the order of time."""
        if "weight" in table or "steps" in table:
            return None
        order = np.argsort(labels, kind="stable")
        own = labels[order]
        first = np.flatnonzero(np.append(True, own[1:] != own[:-1]))
        last = np.append(first[1:], len(own)) - 1
        state, following = (table[name].reshape(len(own), -1)[order] for name in ("state", "next_state"))
        ended = table["terminated"][order] if "terminated" in table else np.zeros(len(own))
        within = np.setdiff1d(np.arange(len(own)), last)
        if not np.array_equal(following[within], state[within + 1]) or ended[within].any():
            return None
        steps = np.arange(len(own)) - np.repeat(first, last - first + 1)
        earned = np.add.reduceat(discount**steps * table["reward"][order], first)
        left = discount ** (steps[last] + 1.0) * (1 - ended[last])
        return Returns(earned, following[last], left, groups[order][first])

    def __add__(self, other: Returns) -> Returns:
        """Those of both."""
        names = [field.name for field in dataclasses.fields(Returns)]
        return Returns(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    @property
    def functional(self) -> Functional:
        """The mean of returns, each with V where the episode was cut."""
        return Functional(self.points[:, None], self.discounts[:, None], self.groups, self.earned)

    def plain(self) -> Estimate | None:
        """The plain mean over whole episodes; None where one in ten or more is not."""
        whole = self.earned[self.discounts < WHOLE]
        if len(whole) < 2 or len(whole) <= 0.9 * len(self.earned):
            return None
        return Estimate(float(whole.mean()), float(whole.std(ddof=1) / np.sqrt(len(whole))))


def out_of_order(table: dict[str, Any], labels: Any) -> list[str]:
    """What it means that rows of an episode do not follow each other, in plain words; nothing where they do."""
    if labels is None or "steps" in table:
        return []
    numbers = np.unique(np.asarray(labels), return_inverse=True)[1]
    order = np.argsort(numbers, kind="stable")
    inside = np.flatnonzero(numbers[order][1:] == numbers[order][:-1])
    if not len(inside):
        return []
    state, following = (table[name].reshape(len(order), -1)[order] for name in ("state", "next_state"))
    close = np.all(np.isclose(following[inside], state[inside + 1], rtol=1e-5, atol=1e-5), axis=1)
    if close.mean() >= IN_ORDER:
        return []
    return [
        f"only {close.mean():.0%} of the rows of an episode lead to the state of its next row: they are not in the "
        "order of time, or not all there. The first row of each episode is taken for its start; sort rows by episode "
        "and time"
    ]
