"""Effects of one or two factors, taken out of columns exactly, as least squares on their dummies would."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy import sparse

from dualembed import checks
from dualembed.arrays import Floats, Integers

PRECISION = 1e-13  # of the equations of two factors, in terms of the columns' own size
MOST_ROUNDS = 10_000  # of conjugate gradients; graphs of factors that need more hardly hang together


def remove_effects(columns: Floats, factors: Integers, weights: Floats) -> Floats:
    """Columns (n, q) less their weighted regression on the dummies of the factors (n, 1) or (n, 2).

    One factor is a subtraction of means. Two are solved for by conjugate gradients on the equations of the one with
    fewer levels, the other eliminated: they need no more rounds than alternating projections, and mostly far fewer.
    """
    shifted = columns - np.average(columns, axis=0, weights=weights)  # large means would cost digits
    if factors.shape[1] == 1:
        indicator = _indicator(factors[:, 0])
        return shifted - (indicator.T @ (indicator @ (weights[:, None] * shifted) / (indicator @ weights)[:, None]))
    many, few = sorted((_indicator(each) for each in factors.T), key=lambda each: -each.shape[0])
    size = np.sqrt(weights @ shifted**2)
    for _ in range(2):  # the second mends what rounding left
        shifted = _remove_two(shifted, many, few, weights=weights, size=size)
    return shifted


def effects_rank(factors: Integers) -> int:
    """How many independent dummies the factors (n, f) have: L, or L₁ + L₂ less the parts that do not hang together."""
    if factors.shape[1] == 0:
        return 0
    levels = factors.max(axis=0) + 1
    if factors.shape[1] == 1:
        return int(levels[0])
    ones = np.ones(len(factors))
    links = sparse.coo_matrix((ones, (factors[:, 0], levels[0] + factors[:, 1])), shape=(levels.sum(),) * 2)
    parts = sparse.csgraph.connected_components(links, directed=False)[0]
    return int(levels.sum() - parts)


def count_singletons(factors: Integers) -> int:
    """How many rows are alone in a level of some factor, once those found before are set aside."""
    left = np.arange(len(factors))
    while len(left):
        alone = np.zeros(len(left), dtype=bool)
        for each in factors[left].T:
            alone |= np.bincount(each)[each] == 1
        if not alone.any():
            break
        left = left[~alone]
    return len(factors) - len(left)


def nested(inner: Integers, outer: Integers) -> bool:
    """Whether every level of the one lies within one level of the other."""
    pairs = np.unique(np.stack([inner, outer], axis=1), axis=0)
    return len(pairs) == len(np.unique(inner))


def _indicator(factor: Integers, levels: int | None = None) -> sparse.csr_matrix:
    """(levels, n), 1 where a row is of the level."""
    rows, count = len(factor), int(factor.max()) + 1 if levels is None else levels
    return sparse.csr_matrix((np.ones(rows), (factor, np.arange(rows))), shape=(count, rows))


def _remove_two(
    columns: Floats, many: sparse.csr_matrix, few: sparse.csr_matrix, *, weights: Floats, size: Floats
) -> Floats:
    """One pass of the elimination."""
    weighted = weights[:, None] * columns
    links = (many @ sparse.diags_array(weights) @ few.T).tocsr()
    alpha, gamma = _solve_two(many @ weighted, few @ weighted, links, size)
    return columns - many.T @ alpha - few.T @ gamma


def _solve_two(sums: Floats, others: Floats, links: sparse.csr_matrix, size: Floats) -> tuple[Floats, Floats]:
    """(D₂ - Bᵀ D₁⁻¹ B) γ = S₂ - Bᵀ D₁⁻¹ S₁, and α = D₁⁻¹ (S₁ - B γ), of sums S by level and the weights B of pairs."""
    sizes, diagonal = np.asarray(links.sum(axis=1)).reshape(-1, 1), np.asarray(links.sum(axis=0)).reshape(-1, 1)
    right = others - links.T @ (sums / sizes)
    found = np.zeros_like(right)
    residual = right.copy()
    direction = residual / diagonal
    power = np.sum(residual * direction, axis=0)
    for _ in range(MOST_ROUNDS):
        active = np.sqrt(power) > PRECISION * size  # columns that are done stay: rounding alone would move them
        if not np.any(active):
            break
        image = diagonal * direction - links.T @ ((links @ direction) / sizes)
        curve = np.sum(direction * image, axis=0)
        step = np.where(active, power / np.where(active, curve, 1.0), 0.0)
        found += step * direction
        residual -= step * image
        whitened = residual / diagonal
        before, power = power, np.sum(residual * whitened, axis=0)
        direction = np.where(active, whitened + power / np.where(active, before, 1.0) * direction, 0.0)
    else:
        raise checks.InputError(
            f"the two absorbed factors, of {len(sizes)} and {len(diagonal)} levels, hang together too loosely to be "
            f"taken out in {MOST_ROUNDS} rounds; give one of them as dummies, or join rare levels"
        )
    return (sums - links @ found) / sizes, found


def level_effects(
    tiles: Iterable[tuple[Floats, Integers, Floats]], factors: Integers, weights: Floats, width: int
) -> tuple[Floats, ...]:
    """The effects (levels, q) of one or two factors (n, f) in columns (n, q), by weighted least squares on dummies.

    Columns come in tiles, each with its levels and weights: sums by level are all that is needed.
    """
    levels = factors.max(axis=0) + 1
    sums, square = [np.zeros((count, width)) for count in levels], np.zeros(width)
    for columns, own, part in tiles:
        square += np.einsum("i,ij,ij->j", part, columns, columns)
        weighted = part[:, None] * columns
        for total, factor, count in zip(sums, own.T, levels, strict=True):
            total += _indicator(factor, count) @ weighted
    if len(sums) == 1:
        return (sums[0] / np.bincount(factors[:, 0], weights)[:, None],)
    first = int(np.argmax(levels))  # the other one is solved for
    many, few = factors[:, first], factors[:, 1 - first]
    links = sparse.csr_matrix((weights, (many, few)), shape=(levels[first], levels[1 - first]))
    found = _solve_two(sums[first], sums[1 - first], links, np.sqrt(np.maximum(square, np.finfo(float).tiny)))
    return found if first == 0 else found[::-1]
