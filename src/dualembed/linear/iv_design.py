"""The design of a linear model with instruments: its columns, what they are called, and one triangle for all of them.

Every number that assumes one variance of the noise comes from the triangle R of a QR decomposition of
[1 W | Z | X | y], whose columns have the inner products of those of the data; rows are needed for robust errors alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from dualembed import checks
from dualembed.arrays import Floats, Integers
from dualembed.linear.absorbed import count_singletons, effects_rank, nested, remove_effects
from dualembed.linear.iv_columns import (
    INTERCEPT,
    as_labels,
    as_matrix,
    as_names,
    as_weights,
    check_unique,
    recode,
)
from dualembed.linear.iv_rank import COLLINEAR, Dropped, check_counts, check_relevance, find_independent, ranges

CONSTANT = 1e-12  # what its mean leaves of a column, in terms of its length, below which it does not vary
BLOCK = 1 << 15  # rows that are factored at a time


@dataclasses.dataclass(frozen=True, eq=False)
class IVDesign:
    """The columns of y = X β + W γ + constant + noise, with instruments Z for X; made by `IVDesign.of`.

    Attributes
    ----------
    outcome : array of shape (n,)
        The outcome y.
    endogenous : array of shape (n, p)
        Columns X that hidden causes move too.
    exogenous : array of shape (n, m)
        Columns W that they do not, without the constant.
    instruments : array of shape (n, k)
        Excluded instruments Z.
    outcome_name : str
        Name of y.
    endogenous_names : tuple of str
        Names of the columns of X.
    exogenous_names : tuple of str
        Names of the columns of W.
    instrument_names : tuple of str
        Names of the columns of Z.
    constant : bool
        Whether there is a constant beside W.
    weights : array of shape (n,) or None
        Weights of rows.
    counts : bool
        Whether a weight says how many equal rows a row stands for, rather than how much it counts.
    clusters : array of shape (n, ways) or None
        Labels of the clusters, from 0 on, of one or two ways.
    effects : array of shape (n, factors) or None
        Levels of absorbed factors, from 0 on, of one or two.
    """

    outcome: Floats
    endogenous: Floats
    exogenous: Floats
    instruments: Floats
    outcome_name: str
    endogenous_names: tuple[str, ...]
    exogenous_names: tuple[str, ...]
    instrument_names: tuple[str, ...]
    constant: bool = True
    weights: Floats | None = None
    counts: bool = False
    clusters: Integers | None = None
    effects: Integers | None = None

    @staticmethod
    def of(
        outcome: ArrayLike,
        endogenous: ArrayLike | None = None,
        exogenous: ArrayLike | None = None,
        *,
        instruments: ArrayLike | None = None,
        constant: bool = True,
        weights: ArrayLike | None = None,
        counts: bool = False,
        clusters: Any = None,
        effects: Any = None,
        outcome_name: str = "y",
        endogenous_names: Sequence[str] | None = None,
        exogenous_names: Sequence[str] | None = None,
        instrument_names: Sequence[str] | None = None,
    ) -> IVDesign:
        """The design, checked; without instruments, X are exogenous columns and a fit is least squares.

        Parameters
        ----------
        outcome : array-like of shape (n,)
            The outcome y.
        endogenous : array-like of shape (n, p) or (n,), optional
            Columns X that hidden causes move too.
        exogenous : array-like of shape (n, m) or (n,), optional
            Columns W that they do not, without the constant.
        instruments : array-like of shape (n, k) or (n,), optional
            Excluded instruments Z.
        constant : bool, default=True
            Whether to add a constant; absorbed effects have it already.
        weights : array-like of shape (n,), optional
            Weights of rows; 0 leaves a row out. They are scaled to a mean of 1, unless they are counts.
        counts : bool, default=False
            Whether a weight says how many equal rows a row stands for, rather than how much it counts.
        clusters : array-like of shape (n,) or (n, 2), optional
            Labels of rows that depend on each other, of one or two ways.
        effects : array-like of shape (n,) or (n, 2), optional
            Levels of one or two factors whose effects are absorbed: taken out of all columns.
        outcome_name : str, default="y"
            Name of y.
        endogenous_names : sequence of str, optional
            Names of the columns of X; by default x1, x2, ...
        exogenous_names : sequence of str, optional
            Names of the columns of W; by default w1, w2, ...
        instrument_names : sequence of str, optional
            Names of the columns of Z; by default z1, z2, ...

        Returns
        -------
        IVDesign
            The design.

        Raises
        ------
        InputError
            If columns are not numbers, not finite or not of equal length.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> z, hidden = rng.normal(size=(2, 500))
        >>> design = IVDesign.of(z + 3 * hidden, z + hidden, instruments=z, instrument_names=["tax"])
        >>> design.instrument_names, design.instruments.shape
        (('tax',), (500, 1))
        """
        y = as_matrix("outcome", outcome, None)
        rows = len(y)
        x, w, z = (
            as_matrix(name, value, rows)
            for name, value in (("endogenous", endogenous), ("exogenous", exogenous), ("instruments", instruments))
        )
        x_names, w_names, z_names = (
            as_names(role, letter, given, part.shape[1])
            for role, letter, given, part in (
                ("endogenous", "x", endogenous_names, x),
                ("exogenous", "w", exogenous_names, w),
                ("instrument", "z", instrument_names, z),
            )
        )
        if y.shape[1] != 1:
            raise checks.InputError(f"outcome must be one column, but has {y.shape[1]}; fit one design for each")
        if not z.shape[1]:
            w, w_names = np.concatenate([x, w], axis=1), (*x_names, *w_names)
            x, x_names = np.empty((rows, 0)), ()
        check_unique([*x_names, *w_names])
        if not (x_names or w_names or constant) or (effects is not None and not (x_names or w_names)):
            raise checks.InputError("there is no column to fit; give endogenous or exogenous ones, or a constant")
        return IVDesign(
            y[:, 0], x, w, z, outcome_name, x_names, w_names, z_names,
            constant=constant, weights=as_weights(weights, rows, counts=counts), counts=counts,
            clusters=as_labels("clusters", clusters, rows), effects=as_labels("effects", effects, rows),
        )  # fmt: skip

    @cached_property
    def factored(self) -> FactoredDesign:
        """The same with weights and effects worked in, collinear columns left out, and the triangle of all columns."""
        return factor(self)


@dataclasses.dataclass(frozen=True, eq=False)
class FactoredDesign:
    """[1 W | Z | X | y], centred, weighted and of length 1, with the triangle R that has their inner products.

    `controls` counts the columns of [1 W], `exogenous` those of [1 W Z]; `back` and `offset` lead from coefficients of
    these columns to those of the data's own, in the order X, W, constant.
    """

    columns: Floats  # (n, q)
    triangle: Floats  # (q, q)
    controls: int
    exogenous: int
    regressors: tuple[int, ...]  # places of X, W, constant
    names: tuple[str, ...]  # of these
    endogenous_names: tuple[str, ...]
    instrument_names: tuple[str, ...]
    back: Floats  # (K, K)
    offset: Floats  # (K,)
    scale: float  # of y
    total: float  # sum of squares of y about its mean, or about 0 without a constant, in terms of the scale
    weights: Floats  # (n,)
    counts: bool
    kept_rows: Integers  # of the design, those whose weight is not 0
    clusters: tuple[Integers, ...]
    effects: Integers | None
    dropped: tuple[Dropped, ...]

    @property
    def rows(self) -> int:
        """How many rows there are: those of a weight above 0, or the sum of counts."""
        return round(float(self.weights.sum())) if self.counts else len(self.columns)

    @property
    def endogenous(self) -> int:
        """How many endogenous columns there are."""
        return len(self.endogenous_names)

    @property
    def constant(self) -> bool:
        """Whether the model has a constant of its own."""
        return INTERCEPT in self.names[-1:]

    @property
    def singletons(self) -> int:
        """Rows that are alone in a level of an absorbed factor: they stay, and say nothing about β."""
        return 0 if self.effects is None else count_singletons(self.effects)

    def estimated(self, columns: int, *, clustered: bool = False) -> int:
        """How many numbers are estimated: so many columns, and the absorbed effects.

        Where errors are clustered, a factor that is nested in the clusters is not counted, except for one number in
        place of the constant (fixest's and pyfixest's rule).
        """
        if self.effects is None:
            return columns
        if not clustered:
            return columns + effects_rank(self.effects)
        own = [each for each in self.effects.T if not any(nested(each, labels) for labels in self.clusters)]
        return columns + max(effects_rank(np.stack(own, axis=1)) if own else 0, 1)

    def unexplained(self) -> Floats:
        """What [1 W Z] leave of [X y] (n, p + 1)."""
        b = self.exogenous
        return self.columns[:, b:] - self.columns[:, :b] @ solve_triangular(
            self.triangle[:b, :b], self.triangle[:b, b:]
        )

    def instrument_basis(self) -> Floats:
        """Orthonormal columns Q (n, b) of [1 W Z], those of [1 W] first."""
        b = self.exogenous
        return solve_triangular(self.triangle[:b, :b], self.columns[:, :b].T, trans="T").T


class _Columns(NamedTuple):
    """[1 W | Z | X | y] with weights and effects worked in, of length 1, and how that was done."""

    values: Floats  # (n, q)
    names: list[str]
    means: Floats  # (q,), taken out
    scales: Floats  # (q,), divided by
    total: float  # sum of squares of y about its mean, or about 0 without a constant, in terms of its scale

    def chosen(self, places: list[int]) -> _Columns:
        """Some of the columns."""
        names = [self.names[each] for each in places]
        return _Columns(self.values[:, places], names, self.means[places], self.scales[places], self.total)


def factor(design: IVDesign) -> FactoredDesign:
    """The design with weights and effects worked in, collinear columns dropped or refused, and its triangle."""
    kept = np.arange(len(design.outcome)) if design.weights is None else np.flatnonzero(design.weights)
    weights = np.ones(len(kept)) if design.weights is None else design.weights[kept]
    weights = weights if design.counts else weights / weights.mean()
    effects = None if design.effects is None else recode(design.effects[kept])
    constant = design.constant and effects is None
    columns = _transform(design, kept, weights=weights, effects=effects)
    sizes = (int(constant) + design.exogenous.shape[1], design.instruments.shape[1], design.endogenous.shape[1])
    triangle = factor_rows(columns.values)
    levels = 0 if effects is None else effects_rank(effects)
    check_counts(len(kept), triangle, columns.names, sizes=sizes, levels=levels)
    flat = "it does not vary" if constant else _FLAT_WITHIN if effects is not None else "it is 0 in every row"
    places, dropped = find_independent(triangle, columns.names, sizes, flat=flat)
    m, k, p = (sum(place in range(*ends) for place in places) for ends in ranges(sizes))
    if dropped:
        order = [*places, sum(sizes)]
        columns, triangle = columns.chosen(order), factor_rows(triangle[:, order])
    own = int(constant)
    regressors = [*range(m + k, m + k + p), *range(own, m), *range(own)]
    back = np.diag(columns.scales[-1] / columns.scales[regressors])
    offset = np.zeros(len(regressors))
    if constant:
        back[-1, :-1] = -columns.means[regressors[:-1]] * np.diag(back)[:-1]
        offset[-1] = columns.means[-1]
    names = columns.names
    check_relevance(triangle, names[m + k : m + k + p], names[m : m + k], controls=m)
    return FactoredDesign(
        columns.values, triangle, m, m + k, tuple(regressors), tuple(names[each] for each in regressors),
        tuple(names[m + k : m + k + p]), tuple(names[m : m + k]), back, offset, float(columns.scales[-1]),
        columns.total, weights, design.counts, kept,
        () if design.clusters is None else tuple(recode(design.clusters[kept]).T), effects, dropped,
    )  # fmt: skip


_FLAT_WITHIN = "it does not vary within the levels of the absorbed effects"


def _transform(design: IVDesign, kept: Integers, *, weights: Floats, effects: Integers | None) -> _Columns:
    """The columns less their means or effects, times the root of the weights, of length 1; those left flat are 0."""
    parts = (design.exogenous, design.instruments, design.endogenous, design.outcome[:, None])
    names = [*design.exogenous_names, *design.instrument_names, *design.endogenous_names, design.outcome_name]
    everything = len(kept) == len(design.outcome)
    values = np.concatenate([each if everything else each[kept] for each in parts], axis=1)
    peaks = np.maximum(values.max(axis=0), -values.min(axis=0))
    peaks = np.where(peaks > 0, peaks, 1.0)
    values /= peaks  # squares of very large or small numbers would leave the range
    lengths, total = np.sqrt(np.einsum("i,ij,ij->j", weights, values, values)), 0.0
    means = np.zeros(len(names))
    if effects is not None:
        total = float(weights @ (values[:, -1] - np.average(values[:, -1], weights=weights)) ** 2)
        values = remove_effects(values, effects, weights)
    elif design.constant:
        for _ in range(2):  # the second time for what rounding left of the first
            left = weights @ values / weights.sum()
            values -= left
            means += left
    root = np.sqrt(weights)[:, None]
    if design.weights is not None:
        values *= root
    scales = np.sqrt(np.einsum("ij,ij->j", values, values))
    flat = scales <= (COLLINEAR if effects is not None else CONSTANT) * lengths
    scales = np.where(flat, 1.0, scales)
    values /= scales
    values[:, flat] = 0.0
    total = total / scales[-1] ** 2 if effects is not None else float(not flat[-1])
    means, scales = means * peaks, scales * peaks
    if design.constant and effects is None:
        length = np.sqrt(weights.sum())
        values = np.concatenate([root / length, values], axis=1)
        names, means, scales = [INTERCEPT, *names], np.append(0.0, means), np.append(length, scales)
    return _Columns(values, names, means, scales, float(total))


def factor_rows(columns: Floats) -> Floats:
    """R (q, q) of a QR decomposition of columns (n, q), a block of rows at a time."""
    found = np.empty((0, columns.shape[1]))
    for start in range(0, len(columns), BLOCK):
        found = np.asarray(np.linalg.qr(np.concatenate([found, columns[start : start + BLOCK]]), mode="r"))
    return found
