"""Which products of moments a closed form is made of: those across folds, or those of all rows with themselves."""

from __future__ import annotations

import numpy as np

from dualembed.linear.moments import MomentSystem
from dualembed.linear.sums import Sums
from dualembed.selection.record import Step

# The lowest eigenvalue of the normal matrix over the penalty: noise is then no larger than so many penalties, and the
# closed form leaves out directions of which the data say no more than that.
MOST_NEGATIVE = -4.0


def products(sums: Sums, penalty: float, dual_penalty: float) -> tuple[Sums, Step]:
    """The sums of the folds, or of all rows as one, and the choice in words.

    A moment and its target share their rows' noise, which draws f towards plain regression: a little with few moments,
    but equations of long memory (a discount near 1, long hitting times) make much of a little. Products across folds
    are free of it. Where there is more noise than signal in some direction of f they are not positive, and to solve
    with them does more harm than the bias.
    """
    system = MomentSystem(sums, dual_penalty)
    lowest = float(system.spectrum[0]) / penalty if penalty > 0 else -np.inf
    across = lowest > MOST_NEGATIVE
    answer = "across folds, without many-moment bias" if across else "all rows together"
    numbers = {
        "moments a row": len(system.target) / sums.rows,
        "lowest eigenvalue across folds over the penalty": lowest,
    }
    return sums if across else sums.merged(), Step("products of moments", answer, numbers)
