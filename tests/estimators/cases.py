"""One estimator of each kind with its data, fitted in no time, and the data that tests of estimators share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import dualembed as de
from dualembed import kernels, spaces

RNG = np.random.default_rng(0)
ROWS = 1500
STATE = RNG.normal(size=ROWS)
NEXT = 0.5 * STATE + RNG.normal(size=ROWS)
ACTION = RNG.integers(3, size=ROWS)
EPISODE = np.arange(ROWS) // 10
INSTRUMENT, HIDDEN = RNG.normal(size=(2, ROWS))
X = (INSTRUMENT + HIDDEN)[:, None]
Y = np.sin(X[:, 0]) + HIDDEN


def small(bandwidth: float = 1.5, size: int = 40) -> dict[str, Any]:
    """Spaces that are given, so that nothing is searched for: a fit takes milliseconds."""
    primal, dual = (spaces.Nystrom(kernels.Gaussian(bandwidth), size) for _ in range(2))
    return {"primal": primal, "dual": dual}


def even(states: Any) -> np.ndarray:
    """The policy that takes each of three actions equally often."""
    return np.full((len(states), 3), 1 / 3)


def above(states: Any) -> np.ndarray:
    """A target."""
    return np.asarray(states)[:, 0] > 0.5


def below(states: Any) -> np.ndarray:
    """A set that has nothing in common with the target."""
    return np.asarray(states)[:, 0] < -0.5


# (estimator, arguments of fit, arguments of predict): one of each, fitted in no time.
CASES: dict[str, tuple[Any, dict[str, Any], tuple[Any, ...]]] = {
    "policy": (
        de.PolicyEvaluator(0.8, **small()),
        {"states": STATE, "rewards": STATE, "next_states": NEXT},
        (STATE[:5],),
    ),
    "action": (
        de.ActionValueEvaluator(0.5, even, **small()),
        {"states": STATE, "actions": ACTION, "rewards": 1.0 * ACTION, "next_states": NEXT},
        (STATE[:5], ACTION[:5]),
    ),
    "iv": (de.IVRegressor(**small()), {"X": X, "y": Y, "instruments": INSTRUMENT}, (X[:5],)),
    "invariant": (de.InvariantRegressor("noise", **small()), {"X": X, "y": Y}, (X[:5],)),
    "hitting": (
        de.HittingTimeRegressor(above, **small()),
        {"states": STATE, "next_states": NEXT},
        (STATE[STATE <= 0.5][:5],),
    ),
    "committor": (
        de.CommittorRegressor(below, above, **small()),
        {"states": STATE, "next_states": NEXT},
        (STATE[np.abs(STATE) <= 0.5][:5],),
    ),
    "stationary": (de.StationaryAverage(**small()), {"states": STATE, "next_states": NEXT}, (STATE[:5],)),
    "control": (
        de.LinearControl(**small()),
        {
            "states": STATE,
            "costs": np.full(ROWS, 0.1),
            "next_states": NEXT,
            "terminal": NEXT > 0.5,
            "terminal_costs": np.zeros(ROWS),
        },
        (STATE[:5],),
    ),
}
ALL = pytest.mark.parametrize("name", CASES)


def fitted(name: str) -> Any:
    """The case of that name, fitted."""
    estimator, data, _ = CASES[name]
    return clone(estimator).fit(**data)
