"""Some of the rows of a fit: what is said "over the data" is said over these, whatever order the rows came in."""

from __future__ import annotations

import dataclasses

import numpy as np

KEPT, CELLS, FEWEST = 1000, 200_000, 100  # rows that a fit keeps: at most these, fewer where they are wide


@dataclasses.dataclass(frozen=True)
class RowSample:
    """Some of the rows of a fit, all of them where they are few: means over "the data" are means over these.

    `rows` (n, d) are as `Effects` moves them, `points` (n, d') are points of f at the same rows in its coordinates, and
    `lots` (n,) are random numbers: of all rows seen, those with the least are kept.
    """

    rows: np.ndarray
    points: np.ndarray
    lots: np.ndarray
    seen: int

    @staticmethod
    def of(rows: np.ndarray, points: np.ndarray, *, seed: int, before: RowSample | None = None) -> RowSample:
        """A sample of these rows and of those seen before, whatever order they come in."""
        seen, lots = 0 if before is None else before.seen, np.empty(len(rows))
        lots[np.lexsort(rows.T)] = np.random.default_rng([seed, seen]).random(len(rows))
        parts = [(rows, points, lots)]
        if before is not None:
            parts.insert(0, (before.rows, before.points, before.lots))
        rows, points, lots = (np.concatenate(each) for each in zip(*parts, strict=True))
        kept = np.sort(np.argsort(lots)[: min(KEPT, max(FEWEST, CELLS // max(rows.shape[1], 1)))])
        return RowSample(rows[kept], points[kept], lots[kept], seen + len(parts[-1][0]))

    def some(self, most: int) -> np.ndarray:
        """At most so many of the rows, by lot."""
        return self.rows[np.argsort(self.lots)[:most]]

    def typical(self) -> int:
        """The number of the row that is nearest to the middle of all, by the median of each coordinate."""
        order = np.lexsort(self.rows.T)  # of rows that are as near, the first by their numbers
        away = np.sum((self.points[order] - np.median(self.points, axis=0)) ** 2, axis=1)
        return int(order[np.argmin(away)])
