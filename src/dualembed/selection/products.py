"""Which products of moments a closed form is made of: those across folds, or those of all rows with themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dualembed.selection.record import Step
from dualembed.solvers.closed_form import normal_equations, pseudo_inverse
from dualembed.solvers.statistics import Statistics, total

# The lowest eigenvalue of the normal matrix over the penalty: noise is then no larger than so many penalties, and the
# closed form leaves out directions of which the data say no more than that.
MOST_NEGATIVE = -4.0


def products(parts: Sequence[Statistics], penalty: float, dual_penalty: float) -> tuple[list[Statistics], Step]:
    """The folds' statistics, or their sum as one, and the choice in words.

    A moment and its target share their rows' noise, which draws f towards plain regression: a little with few moments,
    but equations of long memory (a discount near 1, long hitting times) make much of a little. Products across folds
    are free of it. Where there is more noise than signal in some direction of f they are not positive, and to solve
    with them does more harm than the bias.
    """
    whole = total(parts)
    values, vectors = np.linalg.eigh(whole.dual / whole.count)
    normal, _ = normal_equations(parts, vectors, pseudo_inverse(values, dual_penalty))
    lowest = float(np.linalg.eigvalsh(normal)[0]) / penalty if penalty > 0 else -np.inf
    across = lowest > MOST_NEGATIVE
    answer = "across folds, without many-moment bias" if across else "all rows together"
    numbers = {
        "moments a row": len(values) / whole.count,
        "lowest eigenvalue across folds over the penalty": lowest,
    }
    return list(parts) if across else [whole], Step("products of moments", answer, numbers)
