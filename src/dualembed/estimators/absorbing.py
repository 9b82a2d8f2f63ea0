"""Effects of factors' levels, absorbed: the problem within levels, and f at points that have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.arrays import Floats, Integers
from dualembed.linear.absorbed import effects_rank, remove_effects
from dualembed.linear.clusters import cluster_numbers
from dualembed.linear.moment_fit import Spread
from dualembed.problems import InstrumentalVariables
from dualembed.sources import Dataset
from dualembed.spaces.features import evaluate_features, to_numpy
from dualembed.spaces.within import CentredMap, without_levels

TILE = 4096  # rows whose features are made at one time


def absorbed_levels(given: Any, rows: int) -> tuple[Integers, tuple[str, ...]]:
    """(the numbers (n, factors) of the levels, the factors' names); refused where they leave no row to compare."""
    found, names = cluster_numbers("absorb", given, rows)
    levels = found.reshape(rows, -1)
    names = names or tuple(f"factor {number + 1}" for number in range(levels.shape[1]))
    for name, own in zip(names, levels.T, strict=True):
        if own.max() + 1 == rows:
            raise checks.InputError(
                f"absorb: every row has a level of its own in {name}, so that there is nothing within levels to learn "
                "from; give a factor whose levels have several rows"
            )
    if effects_rank(levels) >= rows - 1:
        raise checks.InputError(
            f"absorb: {' and '.join(names)} have as many effects together as there are rows ({rows}), which leaves "
            "nothing to learn from; give one of them, or join rare levels"
        )
    return levels, names


def with_levels(problem: InstrumentalVariables, levels: Integers) -> InstrumentalVariables:
    """The problem of what the effects leave of y, with the numbers of levels as last coordinates, most levels last."""
    levels = levels[:, np.argsort(levels.max(axis=0), kind="stable")]
    table = problem.source.table  # type: ignore[attr-defined]
    mass = masses(table)
    y = remove_effects(table["y"][:, None], levels, mass)[:, 0]
    x, z = (np.concatenate([table[name], levels], axis=1) for name in ("x", "z"))
    return InstrumentalVariables(Dataset(**{**table, "x": x, "y": y, "z": z}))


def masses(table: Mapping[str, Floats]) -> Floats:
    """As how many rows each row counts, (n,)."""
    return table["mass"] if "mass" in table else np.ones(len(table["y"]))


def without_codes(problem: InstrumentalVariables, factors: int) -> InstrumentalVariables:
    """The same problem without the numbers of levels."""
    table = problem.source.table  # type: ignore[attr-defined]
    return InstrumentalVariables(Dataset(**{**table, "x": table["x"][:, :-factors], "z": table["z"][:, :-factors]}))


def without_effects(y: Floats, found: Floats, absorb: Any, mass: Floats | None) -> Floats:
    """y (n,) less the effects of levels in what the function's values (n,) leave of it."""
    levels, _ = absorbed_levels(absorb, len(y))
    return found + remove_effects((y - found)[:, None], levels, np.ones(len(y)) if mass is None else mass)[:, 0]


def within_levels(problem: InstrumentalVariables, factors: int) -> InstrumentalVariables:
    """The same problem without levels, of what the effects leave of every coordinate."""
    table = problem.source.table  # type: ignore[attr-defined]
    levels = table["x"][:, -factors:].astype(int)
    x, z = (remove_effects(table[name][:, :-factors], levels, masses(table)) for name in ("x", "z"))
    return InstrumentalVariables(Dataset(**{**table, "x": x, "z": z}))


def centred(spread: Spread, points: Floats, mass: Floats, mean: float) -> Spread:
    """The function of features within levels at points (n, d) of some mass without them, with that mean; its errors.

    The mean is a convention, since effects of levels have any, and has no error.
    """
    features = to_numpy(without_levels(spread.features))
    total = np.zeros(features.size)
    for start in range(0, len(points), TILE):
        own = slice(start, start + TILE)
        total += mass[own] @ evaluate_features(features, points[own])
    weights, root = np.asarray(spread.weights), np.asarray(spread.root)
    features = CentredMap(features, total / mass.sum())
    return Spread(features, np.concatenate([[mean], weights]), np.concatenate([np.zeros((1, root.shape[1])), root]))
