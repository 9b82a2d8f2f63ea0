"""Rows that depend on each other within clusters of one or two ways: which fold keeps what together, whose scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualembed import checks
from dualembed.arrays import Floats, Integers
from dualembed.data.frames import columns_of, group_numbers

FEWEST_UNITS = 10  # that folds are made of, so that none is a single one


def sum_by(labels: Integers, values: NDArray[np.floating[Any]], count: int | None = None) -> Floats:
    """Sums (G, ...) of values (n, ...) over the rows of each label, for `count` labels or as many as there are.

    >>> sum_by(np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0]))
    array([4., 2.])
    """
    rows, rest = len(labels), values.shape[1:]
    count = int(labels.max()) + 1 if count is None else count
    indicator = sparse.csr_matrix((np.ones(rows), (labels, np.arange(rows))), shape=(count, rows))
    return np.asarray(indicator @ values.reshape(rows, int(np.prod(rest)))).reshape(count, *rest)


def cluster_numbers(name: str, given: Any, rows: int) -> tuple[Integers, tuple[str, ...]]:
    """(numbers of each row's clusters, (n,) of one way or (n, 2) of two, the names of the columns where they have any).

    >>> cluster_numbers("groups", [["a", "x"], ["b", "x"]], 2)[0].tolist()
    [[0, 0], [1, 0]]
    """
    if len(np.shape(given)) == 1 and not isinstance(given, dict):
        return group_numbers(name, given, rows), ()
    names, columns = columns_of(given, name, categorical=True)
    if len(columns) > 2:
        raise checks.InputError(
            f"{name} must be one or two columns of labels, such as firm and year, not {len(columns)}"
        )
    found = np.stack([group_numbers(name, labels, rows) for labels in columns], axis=1)
    return found[:, 0] if found.shape[1] == 1 else found, tuple(names or ())


def is_two_way(groups: Any) -> bool:
    """Whether these are labels of two ways, (n, 2)."""
    return groups is not None and np.ndim(groups) == 2


def count_clusters(groups: Any) -> int:
    """How many clusters there are, the fewest over the ways."""
    return min(len(np.unique(labels)) for labels in np.asarray(groups).reshape(len(groups), -1).T)


def units_of(labels: Integers) -> Integers:
    """What folds keep together of two ways (n, 2), from 0: what a chain of clusters joins.

    Where firms and years cross, all rows hang together, and no folds are without rows of the same firm or year: then it
    is the way of fewer clusters.
    """
    from scipy.sparse import coo_matrix, csgraph

    first, second = labels.T
    size = int(first.max()) + 1 + int(second.max()) + 1
    links = coo_matrix((np.ones(len(labels)), (first, first.max() + 1 + second)), shape=(size, size))
    own = csgraph.connected_components(links, directed=False)[1][first]
    if len(np.unique(own)) < FEWEST_UNITS:
        own = coarser(labels)
    return np.asarray(np.unique(own, return_inverse=True)[1])


def by_appearance(labels: Integers) -> Integers:
    """The labels, each way numbered in the order of its clusters' first rows: what they are called says nothing.

    >>> by_appearance(np.array([7, 3, 7, 5])).tolist()
    [0, 1, 0, 2]
    """
    if labels.ndim == 2:
        return np.stack([by_appearance(each) for each in labels.T], axis=1)
    _, places, numbers = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(places))[numbers])


def coarser(groups: Any) -> Integers:
    """The way (n,) of fewer clusters."""
    labels = np.asarray(groups)
    return labels[:, int(np.argmin(labels.max(axis=0)))]


def signed_ways(groups: Any) -> Iterator[tuple[Integers, float]]:
    """The clusters (n,) of either way, and with a minus those of both, whose pairs of rows are else counted twice."""
    labels = np.asarray(groups)
    yield labels[:, 0], 1.0
    yield labels[:, 1], 1.0
    yield np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1), -1.0


def positive_part(covariance: Floats) -> Floats:
    """The covariance without negative eigenvalues, which Ω₁ + Ω₂ - Ω₁₂ may have (Cameron, Gelbach and Miller 2011)."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
