"""Small models of every kind of figure, fitted in seconds: spaces are given, so that nothing is searched for."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd

from dualembed import kernels, spaces
from dualembed.estimators import IVRegressor, PolicyEvaluator

ROWS = 400
HOSTILE = '<script>document.title="broken"</script> $x & "y"'


def space(bandwidth: float = 1.0) -> spaces.Nystrom:
    """A small space for either role."""
    return spaces.Nystrom(kernels.Gaussian(bandwidth), 12)


@functools.cache
def policy_model() -> tuple[PolicyEvaluator, dict[str, Any]]:
    """A value of one state column, with episodes and weights."""
    rng = np.random.default_rng(0)
    state = rng.normal(size=ROWS)
    data = {
        "states": state,
        "rewards": np.sin(state),
        "next_states": 0.5 * state + rng.normal(size=ROWS),
        "episodes": np.arange(ROWS) // 8,
    }
    return PolicyEvaluator(0.8, primal=space(), dual=space()).fit(**data), data


@functools.cache
def line_model() -> tuple[IVRegressor, dict[str, Any]]:
    """Two-stage least squares: a straight line, whose effect is 1."""
    rng = np.random.default_rng(1)
    z, hidden = rng.normal(size=(2, ROWS))
    x = 10.0 + z + hidden
    data = {"X": pd.DataFrame({"price": x}), "y": x + 2 * hidden, "instruments": {"tax": z}}
    return IVRegressor(primal="linear", dual="linear").fit(**data), data


@functools.cache
def wide_model() -> tuple[IVRegressor, dict[str, Any]]:
    """A regression of five columns: numbers, one of them with a hostile name, a category, and a constant."""
    rng = np.random.default_rng(2)
    first, second, third = rng.normal(size=(3, ROWS))
    region = np.array(["north", "south", "<b>west</b>"], dtype=object)[rng.integers(3, size=ROWS)]
    X = pd.DataFrame({HOSTILE: first, "second": second, "third": third, "region": region, "always": np.ones(ROWS)})
    y = first + second**2 + (region == "south") + 0.3 * rng.normal(size=ROWS)
    return IVRegressor(primal=space(2.0), dual=space(2.0)).fit(X, y), {"X": X, "y": y}


@functools.cache
def map_model() -> tuple[PolicyEvaluator, dict[str, Any]]:
    """A value of two state columns."""
    rng = np.random.default_rng(3)
    states = rng.uniform(-1, 1, size=(ROWS, 2))
    data = {
        "states": states,
        "rewards": states[:, 0],
        "next_states": np.clip(states + 0.3 * rng.normal(size=(ROWS, 2)), -1, 1),
    }
    return PolicyEvaluator(0.5, primal=space(), dual=space()).fit(**data), data


@functools.cache
def levels_model() -> tuple[IVRegressor, dict[str, Any]]:
    """A regression of one number and one category."""
    rng = np.random.default_rng(4)
    x, kind = rng.normal(size=ROWS), np.array(["a", "b"], dtype=object)[rng.integers(2, size=ROWS)]
    X = pd.DataFrame({"dose": x, "kind": kind})
    y = np.where(kind == "a", x, -x) + 0.1 * rng.normal(size=ROWS)
    return IVRegressor(primal=space(), dual=space()).fit(X, y), {"X": X, "y": y}
