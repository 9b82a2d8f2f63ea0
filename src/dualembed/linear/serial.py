"""Rows that are one path: noise that goes together over some time, of sums of scores and in blocks of rows."""

from __future__ import annotations

import dataclasses
from typing import Any, final

import numpy as np

from dualembed import checks
from dualembed.arrays import Floats, Integers
from dualembed.data.following import as_times
from dualembed.data.frames import group_numbers
from dualembed.linear.clusters import sum_by
from dualembed.linear.iv_covariance import Covariance
from dualembed.linear.iv_design import FactoredDesign

FEWEST_TIMES = 20  # of a path


@final
@dataclasses.dataclass(frozen=True)
class NeweyWest(Covariance):
    """Noise that goes together over `lag` times: Σ_|j|≤lag (1 - |j| / (lag + 1)) Γ_j, with Bartlett's kernel.

    Rows are in the order of time. Where the design has clusters, of one way, these are times in their order, and the
    scores of one time are summed first (Driscoll and Kraay 1998). The same as linearmodels' "kernel" with `bandwidth`
    the lag. Intervals are Student's with 1.5 T / (lag + 1) degrees of freedom (Lazarus, Lewis, Stock and Watson 2018).

    Parameters
    ----------
    lag : int, optional
        By default 1.3 √T of T times.
    debiased : bool, default=True
        Whether to multiply by n / (n - k).
    """

    lag: int | None = None
    debiased: bool = True

    def words(self) -> str:
        """What is allowed for, in a few words."""
        over = "" if self.lag is None else f" over {self.lag} times"
        return f"robust to serial correlation{over}"

    def lag_of(self, times: int) -> int:
        """The lag for so many times."""
        return min(times - 1, int(np.ceil(1.3 * np.sqrt(times)))) if self.lag is None else self.lag

    def freedom(self, design: FactoredDesign, columns: int) -> float:
        """1.5 T / (lag + 1), at most n - k."""
        times = _times(design)
        return float(min(design.rows - design.estimated(columns), 1.5 * times / (self.lag_of(times) + 1)))

    def spread(
        self, design: FactoredDesign, features: Floats, *, noise: Floats, other: Floats | None = None, columns: int = 0
    ) -> Floats:
        """Weighted sums over pairs of times."""
        scores = features * noise[:, None]
        others = scores if other is None else features * other[:, None]
        if design.clusters:
            scores, others = (sum_by(design.clusters[0], each) for each in (scores, others))
        lag = self.lag_of(len(scores))
        total = scores.T @ others
        for step in range(1, lag + 1):
            weight = 1 - step / (lag + 1)
            total = total + weight * (scores[step:].T @ others[:-step] + scores[:-step].T @ others[step:])
        correction = 1.0
        if self.debiased and columns:
            correction = design.rows / (design.rows - design.estimated(columns))
        return correction * (total + total.T) / 2


def time_numbers(given: Any, rows: int) -> Integers:
    """The number (n,) of each row's time, in the order of time; refused where there are too few for a path."""
    found = group_numbers("time", as_times(given), rows)
    times = int(found.max()) + 1
    if times < FEWEST_TIMES:
        raise checks.InputError(
            f"time has only {times} different values, and errors along a path need {FEWEST_TIMES}; give what rows have "
            "in common as groups instead"
        )
    return found


def path_blocks(times: Integers) -> Integers:
    """The number (n,) of each row's block of times: 2 T^(1/3) blocks of equal length, at least ten.

    They are so long that what goes on across their ends hardly counts, and errors by few blocks are Student's with as
    few degrees of freedom (Bester, Conley and Hansen 2011).
    """
    count = int(times.max()) + 1
    return times * max(10, round(2 * count ** (1 / 3))) // count


def _times(design: FactoredDesign) -> int:
    return int(design.clusters[0].max()) + 1 if design.clusters else len(design.columns)
