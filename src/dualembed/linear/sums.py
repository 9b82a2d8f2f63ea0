"""Sums over the rows of each of a few groups: all that a closed form and its errors need of any number of rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas

from dualembed.arrays import Floats, Integers
from dualembed.data.frames import group_numbers
from dualembed.linear.candidates import RidgePath
from dualembed.linear.clusters import coarser, is_two_way, positive_part, signed_ways, sum_by, units_of
from dualembed.problems.base import TILE, Problem, Terms, finite_data, iter_terms
from dualembed.progress import Tracker, track
from dualembed.sources import Sample
from dualembed.spaces.features import FeatureMap, evaluate_features, moment_features, to_numpy
from dualembed.spaces.linear import LinearFunction


@dataclasses.dataclass(frozen=True)
class Sums:
    """Sums of products of φ (r features of the context), g = Σ_k w_k ψ(p_k) (m) and t = y - offset, group by group.

    Rows that depend on each other are in one group: what is left of the data without a group is independent of
    it. Two sets of rows have the sum of their sums, `a + b`. The last three are there if f's features cannot test
    the equation themselves (`gather_moments`).

    Attributes
    ----------
    count : array of shape (K,)
        Rows of each group, or the sum of their masses.
    cross : array of shape (K, r, m)
        Sums Σ φ gᵀ.
    target : array of shape (K, r, T)
        Sums Σ φ tᵀ, for the targets of T equations.
    dual : array of shape (K, r, r) or (1, r, r)
        Sums Σ φ φᵀ of each group, or of all together.
    remainder : array of shape (r, m) or float
        What rounding of the groups' own sums has lost of Σ φ gᵀ over all groups.
    primal : array of shape (m, m) or None
        Sum Σ g gᵀ of all groups.
    primal_target : array of shape (m,) or None
        Sum Σ g t of all groups.
    square : float or None
        Sum Σ t² of all groups.
    directions : array of shape (m, p) or None
        Where they are given (`compact`), `remainder` is the whole of Σ φ gᵀ, `cross` (K, p, p) what groups have of it
        beyond their share, and `dual` (1, p, p) Σ φ φᵀ, both in these directions alone.
    rest : float
        What Σ φ φᵀ has in each of the other directions.
    """

    count: Floats
    cross: NDArray[np.floating[Any]]
    target: Floats
    dual: NDArray[np.floating[Any]]
    remainder: NDArray[np.floating[Any]] | float = 0.0
    primal: Floats | None = None
    primal_target: Floats | None = None
    square: float | None = None
    directions: Floats | None = None
    rest: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        """The sums over both sets of rows."""
        if self.directions is not None:
            return self.whole() + other
        added: dict[str, Any] = {}
        for field in dataclasses.fields(Sums):
            mine, others = getattr(self, field.name), getattr(other, field.name)
            # Float64 whatever the groups' own products are kept in.
            added[field.name] = None if mine is None else np.asarray(mine, dtype=np.float64) + others
        return Sums(**added)

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.count)

    @property
    def rows(self) -> float:
        """The number of rows of all groups; how many they are worth, where they do not count alike."""
        total = float(self.count.sum())
        return int(total) if total.is_integer() else total

    def scaled(self, factor: float) -> Sums:
        """The same sums where every row counts so many times as much.

        Parameters
        ----------
        factor : float
            How many times.

        Returns
        -------
        Sums
            The scaled sums.
        """
        scaled: dict[str, Any] = {}
        for field in dataclasses.fields(Sums):
            mine = getattr(self, field.name)
            scaled[field.name] = None if mine is None else factor * mine
        return Sums(**scaled)

    @property
    def mean_dual(self) -> Floats:
        """E[φφᵀ] over all rows, (r, r)."""
        own = np.asarray(self.dual.sum(axis=0, dtype=np.float64))
        if self.directions is not None:
            leading = self.directions.astype(np.float64)
            own = leading @ (own - self.rest * np.eye(len(own))) @ leading.T + self.rest * np.eye(len(leading))
        return own / self.rows

    @property
    def mean_square(self) -> float:
        """The mean square of a feature over all rows: what a ridge is measured by."""
        return float(np.trace(self.mean_dual) / self.target.shape[1])

    def means(self) -> tuple[Floats, Floats]:
        """The means E[φgᵀ] and E[φtᵀ] over all rows.

        Returns
        -------
        cross : array of shape (r, m)
            The mean E[φgᵀ].
        target : array of shape (r, T)
            The mean E[φtᵀ].
        """
        return self._total() / self.rows, self.target.sum(axis=0) / self.rows

    def means_without(self, group: int) -> tuple[Floats, Floats]:
        """The means E[φgᵀ] and E[φtᵀ] over the rows of all groups but one.

        Parameters
        ----------
        group : int
            The group left out.

        Returns
        -------
        cross : array of shape (r, m)
            The mean E[φgᵀ].
        target : array of shape (r, T)
            The mean E[φtᵀ].
        """
        rows = self.count.sum() - self.count[group]
        return (self._total() - self.cross[group]) / rows, (self.target.sum(axis=0) - self.target[group]) / rows

    def without(self, group: int) -> Sums:
        """The sums of the other groups, each with its own products φφᵀ.

        Parameters
        ----------
        group : int
            The group left out.

        Returns
        -------
        Sums
            The other groups, without the sums over all groups.
        """
        others = np.arange(self.groups) != group
        parts = {name: getattr(self, name)[others] for name in ("count", "cross", "target", "dual")}
        return Sums(**parts)

    def residual_variance(self, theta: Floats) -> float:
        """The mean of (t - θᵀg)² over all rows: the noise of one moment under the function with weights θ.

        Parameters
        ----------
        theta : array of shape (m,)
            The weights θ.

        Returns
        -------
        float
            The variance.
        """
        if self.primal is None or self.primal_target is None or self.square is None:
            raise RuntimeError("products of g with itself were not gathered")
        total = self.square - 2 * theta @ self.primal_target + theta @ self.primal @ theta
        return max(float(total), 0.0) / self.rows

    def merged(self, into: Integers | None = None) -> Sums:
        """The same sums of fewer groups.

        Parameters
        ----------
        into : array of shape (K,), optional
            Number of the group that each group becomes a part of; by default all become one.

        Returns
        -------
        Sums
            The merged groups.
        """
        places: Integers = np.zeros(self.groups, dtype=int) if into is None else into
        count = int(places.max()) + 1

        def added(values: NDArray[np.floating[Any]]) -> Floats:
            return sum_by(places, values, count)

        dual = self.dual if len(self.dual) == 1 else added(self.dual)
        parts: dict[str, Any] = {
            "count": added(self.count),
            "cross": added(self.cross),
            "target": added(self.target),
            "dual": dual,
        }
        return dataclasses.replace(self, **parts)

    def transformed(self, transform: Floats) -> Sums:
        """The same sums where f's features are transformᵀψ in the place of ψ.

        Parameters
        ----------
        transform : array of shape (m, p)
            The transform.

        Returns
        -------
        Sums
            The sums for p features of f.
        """
        if self.primal is None or self.primal_target is None:
            raise RuntimeError("products of g with itself were not gathered")
        return dataclasses.replace(
            self,
            cross=self.cross @ transform,
            primal=transform.T @ self.primal @ transform,
            primal_target=self.primal_target @ transform,
        )

    def compact(self, most: int | None = None) -> Sums:
        """The same sums in less memory; the total over groups keeps its digits.

        Parameters
        ----------
        most : int, optional
            Directions, those of most of Σ φ φᵀ, in which it is known what groups differ by; by default all.

        Returns
        -------
        Sums
            The groups' products in float32.
        """
        total, dual, shares = self._total(), self.rows * self.mean_dual, self.count / self.rows
        if most is None or most >= len(dual):
            small = self.cross.astype(np.float32)
            # What rounding loses of the total is so little that single precision is enough for it.
            remainder = (total - small.sum(axis=0, dtype=np.float64)).astype(np.float32)
            return dataclasses.replace(self, cross=small, dual=self.dual.astype(np.float32), remainder=remainder)
        values, vectors = np.linalg.eigh(dual)
        leading = vectors[:, -most:].astype(np.float32).astype(np.float64)
        apart = np.stack(
            [leading.T @ (own - share * total) @ leading for own, share in zip(self.cross, shares, strict=True)]
        )
        return dataclasses.replace(
            self,
            cross=apart.astype(np.float32),
            dual=(leading.T @ dual @ leading).astype(np.float32)[None],
            remainder=total,
            directions=leading.astype(np.float32),
            rest=float(values[:-most].mean()),
        )

    def whole(self) -> Sums:
        """The same sums in all directions, as far as they are known, of those that are kept in some.

        Returns
        -------
        Sums
            The sums.
        """
        if self.directions is None:
            raise RuntimeError("the sums are whole")
        leading, total, shares = self.directions.astype(np.float64), self._total(), self.count / self.rows
        cross = np.stack(
            [share * total + leading @ own @ leading.T for own, share in zip(self.cross, shares, strict=True)]
        )
        return dataclasses.replace(
            self,
            cross=cross,
            dual=self.rows * self.mean_dual[None],
            remainder=total - cross.sum(axis=0),
            directions=None,
            rest=0.0,
        )

    def _total(self) -> Floats:
        if self.directions is not None:
            return np.asarray(self.remainder)
        return np.asarray(self.cross.sum(axis=0, dtype=np.float64) + self.remainder)


def gather(
    problem: Problem,
    features: FeatureMap,
    groups: Integers,
    *,
    count: int,
    offset: RidgePath | None = None,
    sample: Sample | None = None,
    bar: Tracker | None = None,
) -> Sums:
    """The sums of the problem's rows, whose groups are numbered (n,) below `count`, in one pass of tiles.

    The context must be the first point of a row, as it is for transitions: the features test the equation that they
    are to solve. An `offset` is a part of f that is known already: the targets are what it leaves of t on all rows, and
    without each group. So are targets that the terms have several ways of, and of those the debiased one comes last. A
    row of mass μ counts as μ rows. A `bar` is told of every tile.
    """
    features = to_numpy(features)
    size, ways = features.size, next(iter_terms(problem, sample)).ways
    columns = (1 if offset is None else offset.weights.shape[1] - 1) if ways is None else ways.shape[1]
    # To make g of plain features of the products takes less than to do so row by row where there are more rows.
    late = len(groups) > count * size
    inner = features.plain() if late else features
    sums = Sums(
        np.zeros(count),
        np.zeros((count, size, inner.size)),
        np.zeros((count, size, columns)),
        np.zeros((1, size, size)),
    )
    for terms, parts in _by_group(problem, groups, count, sample):
        first = evaluate_features(inner, terms.points[:, 0])
        phi = features.from_plain(first) if late else first
        g = terms.weights[:, :1] * first + moment_features(inner, terms.points[:, 1:], terms.weights[:, 1:])
        target = (terms.target[:, None] if terms.ways is None else terms.ways) - terms.offset[:, None]
        if offset is not None:
            known = offset.weights[0, :columns]
            target = target - moment_features(offset.features, terms.points, terms.weights) @ known.T
        heavy = phi if terms.mass is None else terms.mass[:, None] * phi
        sums.dual[0] += heavy.T @ phi
        for group, own in parts:
            sums.count[group] += own.stop - own.start if terms.mass is None else float(terms.mass[own].sum())
            sums.cross[group] += heavy[own].T @ g[own]
            sums.target[group] += heavy[own].T @ target[own]
        if bar is not None:
            bar.advance(to=bar.step + len(phi))
    return dataclasses.replace(sums, cross=features.from_plain(np.asarray(sums.cross, float))) if late else sums


def gather_moments(
    problem: Problem,
    primal: FeatureMap,
    dual: FeatureMap,
    *,
    folds: int = 1,
    groups: ArrayLike | None = None,
    first: int = 0,
    sample: Sample | None = None,
) -> Sums:
    """The sums of each fold, with φ the features `dual` of the context, in one pass of tiles.

    Row i is in fold (first + i) mod folds; with `groups` (n,), labels of rows that depend on each other, it is the
    number of its group that counts. A row of mass μ counts as μ rows. It holds 8 TILE (r + m + 1) bytes of features and
    8 (r + m + 1)² for each fold, however many rows there are.
    """
    primal, dual = to_numpy(primal), to_numpy(dual)
    width = dual.size + primal.size + 1
    grams, counts = np.zeros((folds, width, width)), np.zeros(folds)
    rows = _rows(problem, sample)
    numbers = number_groups(groups, rows)
    # Made once: memory that is new for each tile costs more, page by page, than the cosines written into it.
    tile = np.empty((TILE, width))
    with track(rows, "Adding up rows") as bar:
        for terms, parts in _by_group(problem, (first + numbers) % folds, folds, sample):
            joint = tile[: len(terms.target)]
            evaluate_features(dual, terms.context, joint[:, : dual.size])
            moment_features(primal, terms.points, terms.weights, joint[:, dual.size : -1])
            joint[:, -1] = terms.target - terms.offset
            if terms.mass is not None:
                joint *= np.sqrt(terms.mass)[:, None]
            for fold, own in parts:
                counts[fold] += own.stop - own.start if terms.mass is None else float(terms.mass[own].sum())
                # Its lower triangle alone, half the work. BLAS counts by columns: a transpose of C-ordered rows is a
                # view.
                blas.dsyrk(1.0, joint[own].T, beta=1.0, c=grams[fold].T, overwrite_c=True)
            bar.advance(to=bar.step + len(joint))
    phi, g = slice(dual.size), slice(dual.size, -1)
    total = grams.sum(axis=0)
    return Sums(
        counts * dual.free,
        cross=grams[:, g, phi].transpose(0, 2, 1).copy(),
        target=grams[:, -1, phi, None].copy(),
        dual=np.stack([_mirrored(gram[phi, phi]) for gram in grams]),
        primal=_mirrored(total[g, g]),
        primal_target=total[-1, g].copy(),
        square=float(total[-1, -1]),
    )


def gather_scores(
    problem: Problem, function: LinearFunction, dual: FeatureMap, *, groups: ArrayLike | None = None
) -> Floats:
    """Ω = E[φφᵀ residual²] (r, r) in one pass; with groups, of the sums of φ residual within each.

    Scores of rows are multiplied by their masses, by the sum of which Ω is then divided. Of groups of two ways (n, 2)
    it is Ω₁ + Ω₂ - Ω₁₂ without negative eigenvalues. Within levels of factors residuals are smaller than the noise,
    for which it is corrected where rows are no groups.
    """
    if is_two_way(groups):
        parts = [sign * gather_scores(problem, function, dual, groups=own) for own, sign in signed_ways(groups)]
        return positive_part(np.sum(parts, axis=0))
    total, rows = np.zeros((dual.size, dual.size)), 0.0
    for scores, count in _iter_scores(problem, function, dual, groups):
        total += scores.T @ scores
        rows += count
    return total / (rows * _left(dual, groups))


def _left(dual: FeatureMap, groups: ArrayLike | None) -> float:
    """What rows are divided by besides: the share that levels leave free; once more for residuals of single rows."""
    return dual.free if groups is not None else dual.free**2


def shrunken_scores(
    problem: Problem, function: LinearFunction, dual: FeatureMap, *, scale: Floats, groups: ArrayLike | None = None
) -> tuple[Floats, float]:
    """(Ω drawn towards a multiple of `scale`, how far): by the least expected squared error (Ledoit and Wolf 2004).

    In coordinates in which the scale (r, r), such as E[φφᵀ], is the identity, Ω of noise of one variance is a multiple
    of it, and that of few or heavy-tailed scores is mostly chance.
    """
    values, vectors = np.linalg.eigh(scale)
    kept = values > 1e-10 * values[-1]
    whitener = vectors[:, kept] / np.sqrt(values[kept])
    total, fourth, units, rows = np.zeros((whitener.shape[1],) * 2), 0.0, 0, 0.0
    for scores, count in _iter_scores(problem, function, dual, coarser(groups) if is_two_way(groups) else groups):
        white = scores @ whitener
        total += white.T @ white
        fourth += float(np.sum(np.sum(white**2, axis=1) ** 2))
        units, rows = units + len(white), rows + count * _left(dual, groups)
    size = len(total)
    level = np.trace(total) / size
    away = float(np.sum((total - level * np.eye(size)) ** 2))
    chance = fourth - float(np.sum(total**2)) / units
    if is_two_way(groups):
        total = rows * whitener.T @ gather_scores(problem, function, dual, groups=groups) @ whitener
    share = min(max(chance, 0.0) / away, 1.0) if away > 0 else 1.0
    shrunken = ((1 - share) * total + share * level * np.eye(size)) / rows
    back = vectors[:, kept] * np.sqrt(values[kept])
    rest = vectors[:, ~kept] * np.sqrt(np.maximum(values[~kept], 0.0) * level / rows)
    return back @ shrunken @ back.T + rest @ rest.T, share


def _iter_scores(
    problem: Problem, function: LinearFunction, dual: FeatureMap, groups: ArrayLike | None
) -> Iterator[tuple[Floats, float]]:
    """φ times residual, tile by tile, and of how many rows; with groups their sums (G, r), all at once.

    Both are those of masses, where rows have any.
    """
    features, dual = to_numpy(function.features), to_numpy(dual)
    theta = np.asarray(function.weights, dtype=np.float64)
    labels = None if groups is None else number_groups(groups, _rows(problem, None))
    sums = None if labels is None else np.zeros((int(labels.max()) + 1, dual.size))
    start, total = 0, 0.0
    for terms in iter_terms(problem):
        moment = moment_features(features, terms.points, terms.weights) @ theta
        scores = evaluate_features(dual, terms.context)
        residual, count = terms.target - terms.offset - moment, float(len(scores))
        if terms.mass is not None:
            residual, count = terms.mass * residual, float(terms.mass.sum())
        scores *= residual[:, None]
        rows = slice(start, start + len(scores))
        start, total = start + len(scores), total + count
        if sums is None or labels is None:
            yield scores, count
        else:
            sums += sum_by(labels[rows], scores, len(sums))
    if sums is not None:
        yield sums, total


def _by_group(
    problem: Problem, groups: Integers, count: int, sample: Sample | None
) -> Iterator[tuple[Terms, list[tuple[int, slice]]]]:
    """Tiles of terms whose rows lie group by group, so that BLAS takes each as one matrix, and where each group is."""
    start = 0
    for terms in iter_terms(problem, sample):
        own = groups[start : start + len(terms.target)]
        start += len(own)
        order = np.argsort(own, kind="stable")
        ends = np.cumsum(np.bincount(own, minlength=count))
        places = enumerate(zip([0, *ends[:-1]], ends, strict=True))
        parts = [(group, slice(int(first), int(last))) for group, (first, last) in places if first < last]
        yield jax.tree.map(lambda leaf, order=order: leaf[order], terms), parts


def number_groups(groups: ArrayLike | None, rows: int) -> Integers:
    """The number (n,) of each row's group, from 0; each row is one by itself where there are no labels.

    Of two ways it is what folds keep together.
    """
    if is_two_way(groups):
        return units_of(np.asarray(groups))
    return np.arange(rows) if groups is None else group_numbers("groups", groups, rows)


def _rows(problem: Problem, sample: Sample | None) -> int:
    return finite_data(problem).rows if sample is None else len(next(iter(sample.values())))


def _mirrored(half: Floats) -> Floats:
    """The symmetric matrix with this lower triangle."""
    return np.tril(half) + np.tril(half, -1).T
