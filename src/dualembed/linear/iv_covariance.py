"""Covariances of the coefficients of a linear model with instruments: which noise they allow for, as objects."""

from __future__ import annotations

import abc
import dataclasses
import itertools
from typing import final

import numpy as np

from dualembed import checks
from dualembed.arrays import Floats, Integers
from dualembed.linear.absorbed import nested
from dualembed.linear.clusters import sum_by
from dualembed.linear.iv_design import FactoredDesign

SINGULAR = 1e-9  # share of a direction's inner product that rows left out may leave, below which nothing is known of it


class Covariance(abc.ABC):
    """How noise may differ between rows, and go together within clusters."""

    debiased: bool

    @abc.abstractmethod
    def words(self) -> str:
        """What is allowed for, in a few words."""

    @abc.abstractmethod
    def freedom(self, design: FactoredDesign, columns: int) -> float:
        """Degrees of freedom of t and F statistics beside so many estimated columns; infinite for normal ones."""

    @abc.abstractmethod
    def spread(
        self, design: FactoredDesign, features: Floats, *, noise: Floats, other: Floats | None = None, columns: int = 0
    ) -> Floats:
        """The covariance (r, r) of Σ_i features_i noise_i, or with Σ_i features_i other_i, over the rows.

        It is corrected for so many estimated columns, if there are any and `debiased`.
        """

    def f_scale(self, design: FactoredDesign, count: int, *, columns: int) -> tuple[float, float]:
        """(what makes a Wald statistic of so many numbers an F, its second degrees of freedom)."""
        return 1 / count, self.freedom(design, columns)

    def of_coefficients(self, design: FactoredDesign, moves: Floats, noise: Floats, *, bread: Floats) -> Floats:
        """The covariance (K, K) of coefficients that are Σ_i moves_i noise_i off; `bread` is theirs at unit noise."""
        return self.spread(design, moves, noise=noise, columns=bread.shape[0])


@final
@dataclasses.dataclass(frozen=True)
class Unadjusted(Covariance):
    """Noise of one variance in all rows: s² (X̂ᵀX̂)⁻¹, s² = eᵀe / (n - k), or eᵀe / n where not `debiased`.

    The same as linearmodels' "unadjusted" with its `debiased`.

    Parameters
    ----------
    debiased : bool, default=True
        Whether to divide by n - k; intervals are then Student's with n - k degrees of freedom, else normal.
    """

    debiased: bool = True

    def words(self) -> str:
        """What is allowed for, in a few words."""
        return "for noise of one variance"

    def freedom(self, design: FactoredDesign, columns: int) -> float:
        """n - k, or infinite where not debiased."""
        return float(design.rows - design.estimated(columns)) if self.debiased else np.inf

    def spread(
        self, design: FactoredDesign, features: Floats, *, noise: Floats, other: Floats | None = None, columns: int = 0
    ) -> Floats:
        """s² Σ_i features_i features_iᵀ."""
        return self.variance(design, noise, other, columns) * (features.T @ features)

    def of_coefficients(self, design: FactoredDesign, moves: Floats, noise: Floats, *, bread: Floats) -> Floats:
        """s² times the covariance at unit noise."""
        return self.variance(design, noise, None, len(bread)) * bread

    def variance(self, design: FactoredDesign, noise: Floats, other: Floats | None, columns: int) -> float:
        """s²."""
        rows = design.rows - (design.estimated(columns) if self.debiased and columns else 0)
        return float(noise @ (noise if other is None else other)) / rows


@final
@dataclasses.dataclass(frozen=True)
class Robust(Covariance):
    """Noise of any variance in each row: HC1, with the factor n / (n - k); HC0 where not `debiased`.

    The same as linearmodels' "robust" with its `debiased`, and as "hetero" of pyfixest.

    Parameters
    ----------
    debiased : bool, default=True
        Whether to multiply by n / (n - k); intervals are then Student's with n - k degrees of freedom, else normal.
    """

    debiased: bool = True

    def words(self) -> str:
        """What is allowed for, in a few words."""
        return "robust to unequal variances"

    def freedom(self, design: FactoredDesign, columns: int) -> float:
        """n - k, or infinite where not debiased."""
        return float(design.rows - design.estimated(columns)) if self.debiased else np.inf

    def spread(
        self, design: FactoredDesign, features: Floats, *, noise: Floats, other: Floats | None = None, columns: int = 0
    ) -> Floats:
        """Σ_i features_i noise_i other_i features_iᵀ times the factor."""
        products = noise * (noise if other is None else other)
        if design.counts:  # a row stands for as many as its weight, each with a part of its own in the sum
            products = products / design.weights
        correction = 1.0
        if self.debiased and columns:
            correction = design.rows / (design.rows - design.estimated(columns))
        return correction * (features.T @ (features * products[:, None]))


class _ByCluster(Covariance):
    """Noise that goes together within clusters of the design."""

    shared_factor: bool

    def freedom(self, design: FactoredDesign, columns: int) -> float:
        """G - 1, the fewest over the ways."""
        return float(min(int(each.max()) for each in _clusters(design)))

    def f_scale(self, design: FactoredDesign, count: int, *, columns: int) -> tuple[float, float]:
        """That of Hotelling's T² of G sums: W (v - k + 1) / (k v) is F with k and v - k + 1, v = G - 1.

        With several numbers and few clusters W / k would be far too large; with one it is the same.
        """
        free = self.freedom(design, columns)
        left = free - count + 1
        if left <= 0:
            raise checks.InputError(
                f"{free + 1:.0f} clusters are too few to test {count} instruments or columns together; give fewer of "
                "these, or use Robust"
            )
        return left / (count * free), left

    def spread(
        self, design: FactoredDesign, features: Floats, *, noise: Floats, other: Floats | None = None, columns: int = 0
    ) -> Floats:
        """Sums over pairs of rows in a cluster; of two ways V₁ + V₂ - V₁₂."""
        labels = _clusters(design)
        terms = [(each, 1.0) for each in labels]
        if len(labels) == 2:
            pairs = np.unique(np.stack(labels, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
            terms.append((pairs, -1.0))
        estimated = design.estimated(columns, clustered=True)
        fewest = min(int(each.max()) + 1 for each in labels)
        total = np.zeros((features.shape[1],) * 2)
        for each, sign in terms:
            sums = sum_by(each, features * noise[:, None])
            others = sums if other is None else sum_by(each, features * other[:, None])
            correction = 1.0
            if self.debiased and columns:
                groups = fewest if self.shared_factor else int(each.max()) + 1
                correction = groups / (groups - 1) * (design.rows - 1) / (design.rows - estimated)
            product = sums.T @ others
            total += sign * correction * (product if other is None else (product + product.T) / 2)
        return total


@final
@dataclasses.dataclass(frozen=True)
class Clustered(_ByCluster):
    """Noise that goes together within the design's clusters: CRV1, with the factor G / (G - 1) · (n - 1) / (n - k).

    Of two ways it is V₁ + V₂ - V₁₂, of rows in a cluster of the one, of the other and of both. Where that leaves a
    coefficient a negative variance, its own is that with negative eigenvalues set to 0 (Cameron, Gelbach and Miller
    2011). Intervals are Student's with G - 1 degrees of freedom, G the fewest clusters over the ways. The same as
    "CRV1" of pyfixest; with `shared_factor=False` as linearmodels' "clustered" with its `debiased`.

    Parameters
    ----------
    debiased : bool, default=True
        Whether to multiply by the factor.
    shared_factor : bool, default=True
        Whether the G of all terms is the fewest over the ways, rather than that of each.
    """

    debiased: bool = True
    shared_factor: bool = True

    def words(self) -> str:
        """What is allowed for, in a few words."""
        return "clustered"

    def of_coefficients(self, design: FactoredDesign, moves: Floats, noise: Floats, *, bread: Floats) -> Floats:
        """The sandwich, with the rows and columns of negative variances from its part without negative eigenvalues."""
        found = self.spread(design, moves, noise=noise, columns=len(bread))
        negative = np.diag(found) < 0
        if np.any(negative):
            scale = np.sqrt(np.diag(bread))
            values, vectors = np.linalg.eigh(found / np.outer(scale, scale))
            root = scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
            found = np.where(negative | negative[:, None], root @ root.T, found)
        return found


@final
@dataclasses.dataclass(frozen=True)
class ClusterJackknife(_ByCluster):
    """The same by leaving out each cluster in turn: CRV3, V = (G - 1) / G Σ_g (β₋g - β)(β₋g - β)ᵀ, with G - 1 degrees.

    The one to take for few clusters: CRV1 is then too small. It is of one way, and of least squares in one or two
    stages; sums of moments (first stages, tests) are spread as by `Clustered`. A coefficient that the data without some
    cluster do not tell, such as that of the cluster's own dummy, has no meaningful error; the others do.
    """

    debiased = True
    shared_factor = True

    def words(self) -> str:
        """What is allowed for, in a few words."""
        return "clustered, by leaving out clusters"

    def of_coefficients(self, design: FactoredDesign, moves: Floats, noise: Floats, *, bread: Floats) -> Floats:
        """(G - 1) / G times the sum of squares of what leaving out a cluster does."""
        changes = leave_out_clusters(design)
        return (len(changes) - 1) / len(changes) * (changes.T @ changes)


def default_covariance(design: FactoredDesign) -> Covariance:
    """Clustered where there are clusters, else robust."""
    return Clustered() if design.clusters else Robust()


def can_leave_out(design: FactoredDesign) -> bool:
    """Whether clusters can be left out one by one: of one way, with absorbed effects within them."""
    if len(design.clusters) != 1:
        return False
    return design.effects is None or all(nested(each, design.clusters[0]) for each in design.effects.T)


def leave_out_clusters(design: FactoredDesign) -> Floats:
    """How two-stage least squares (G, K) changes without each cluster, in terms of the design's own columns.

    With orthonormal instruments Q, without the rows of a cluster QᵀQ = I - Q_gᵀQ_g, and likewise for the others.
    """
    labels = _clusters(design)
    if len(labels) > 1:
        raise checks.InputError("the jackknife leaves out clusters of one way, but there are two; use Clustered")
    if not can_leave_out(design):
        raise checks.InputError(
            "the jackknife needs absorbed effects to lie within clusters, since others change when a cluster is left "
            "out; give these effects as dummies, or use Clustered"
        )
    order = np.argsort(labels[0], kind="stable")
    starts = np.searchsorted(labels[0][order], np.arange(labels[0].max() + 2))
    basis = design.instrument_basis()
    others = design.columns[:, [*design.regressors, design.columns.shape[1] - 1]]
    whole = design.triangle[: design.exogenous, [*design.regressors, design.columns.shape[1] - 1]]
    found = []
    for start, end in itertools.pairwise(starts):
        rows = order[start:end]
        values, vectors = np.linalg.eigh(np.eye(basis.shape[1]) - basis[rows].T @ basis[rows])
        known = values > SINGULAR
        root = vectors[:, known] / np.sqrt(values[known])
        left = root.T @ (whole - basis[rows].T @ others[rows])
        found.append(np.linalg.lstsq(left[:, :-1], left[:, -1], rcond=SINGULAR)[0])
    full = np.linalg.lstsq(whole[:, :-1], whole[:, -1], rcond=None)[0]
    return (np.stack(found) - full) @ design.back.T


def _clusters(design: FactoredDesign) -> tuple[Integers, ...]:
    if not design.clusters:
        raise checks.InputError("errors by cluster need clusters; give the design some, or use Robust")
    if min(int(each.max()) for each in design.clusters) < 1:
        raise checks.InputError("all rows are of one cluster, and errors by cluster need two; use Robust, or give more")
    return design.clusters
