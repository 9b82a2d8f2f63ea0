"""What weak instruments leave open of an effect: errors that hold however weak they are.

Where instruments hardly move x, moments tell its slope by a ratio of small numbers, whose error is not normal, and the
errors of a fit, which take what instruments move for known, are too small. Anderson and Rubin's set of slopes holds
all the same. So f is as uncertain as a line whose slope has an interval as wide as that set, besides all else. With one
instrument, 500 rows and first-stage F from 1 to 56, such intervals around the estimate cover a line's slope in 0.94 to
1.00 of 1,500 samples, as the set itself does (0.94 to 0.96) and normal ones do not (0.83 to 1.00); intervals that reach
the far end of the set would be wider by half, and cover 0.97 to 1.00.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from dualembed.answers.linear_results import LinearResults
from dualembed.arrays import Floats
from dualembed.linear.moment_fit import Spread
from dualembed.spaces.features import evaluate_features, to_numpy

STRONG = 24.0  # effective F: beyond it t intervals are off by little (Montiel Olea and Pflueger 2013, bias below 10 %)
NORMAL = 1.959964  # standard errors of a 95 % interval
ANYTHING = 10.0  # deviations of y that a slope moves it by in one of x, where the set of slopes has no end


def is_weak(linear: LinearResults | None) -> bool:
    """Whether the instruments are too weak for normal errors of the effect of the one column that they move."""
    if linear is None or len(linear.endogenous) != 1 or linear.anderson_rubin is None:
        return False
    strength = linear.test("effective F")
    return strength is not None and not strength.statistic >= STRONG


def widen(spread: Spread, linear: LinearResults, points: Floats, *, scale: float, size: float) -> tuple[Spread, str]:
    """The spread with what a line along the first coordinate may be off by, and what that says.

    `points` (n, d) are some of the data, in whose coordinates a unit is `scale` of x, and `size` is the deviation of y.
    """
    psi = evaluate_features(to_numpy(spread.features), points)
    line = points[:, 0] - points[:, 0].mean()
    weights = np.linalg.lstsq(psi, line, rcond=1e-10)[0]
    slope = line @ psi / max(float(line @ line), np.finfo(float).tiny)  # of what the features make, by least squares
    pieces = linear.anderson_rubin.pieces if linear.anderson_rubin is not None else ()
    ends = np.array([end for piece in pieces for end in piece]) * scale
    most = ANYTHING * size
    told = np.clip(ends, -most, most) - slope @ spread.weights
    low, high = (float(told.min()), float(told.max())) if len(told) else (0.0, 0.0)
    reach = ((high - low) / 2 + max(low, -high, 0.0)) / NORMAL
    own = float(np.linalg.norm(slope @ spread.root))
    more = np.sqrt(max(reach**2 - own**2, 0.0))
    wider = dataclasses.replace(spread, root=np.concatenate([spread.root, more * weights[:, None]], axis=1))
    if not pieces:
        return wider, (
            f"instruments are weak, and no effect of {linear.endogenous[0]} agrees with all of them (Anderson and "
            "Rubin's set is empty): at least one of them is no instrument, or f is no line"
        )
    open_ended = not np.all(np.isfinite(ends))
    how = "and has no end: the data tell next to nothing of it" if open_ended else "however weak they are"
    return wider, (
        f"instruments are weak, so that the interval of the effect of {linear.endogenous[0]} is as wide as Anderson "
        f"and Rubin's set, which holds {how}"
    )
