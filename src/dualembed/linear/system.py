"""Linear systems, factored once: f tested by its own features, or by others; solutions, errors and representers."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from dualembed.arrays import Floats
from dualembed.linear.sums import Sums

Priors = Iterable[tuple[float, float, Floats]]  # share, error share, covariance


class LinearSystem:
    """(A + penalty I') θ = b with A = E[φgᵀ] and b = E[φtᵀ] (m, T), φ the features that f itself is made of.

    I' leaves the constant, the first feature, alone. A is not squared: a small penalty costs next to nothing.
    """

    def __init__(self, cross: Floats, target: Floats, penalty: float) -> None:
        self.cross, self.target = cross, target
        shifted = np.array(cross, order="F")
        places = np.arange(1, len(shifted))
        shifted[places, places] += penalty
        self._factors = lu_factor(shifted, overwrite_a=True, check_finite=False)

    def weights(self, column: int = 0) -> Floats:
        """θ (m,) for one of the targets."""
        return self.solve(self.target[:, column])

    def solve(self, right: Floats) -> Floats:
        """The solution for another right side, (m,) or (m, n)."""
        return np.asarray(lu_solve(self._factors, right, check_finite=False))

    def debiased(self, weights: Floats, column: int = 0) -> Floats:
        """θ with one more step of the system on what it leaves: an answer's first-order bias from the ridge is gone."""
        left = self.target[:, column] - self.cross @ weights
        return weights + self.solve(left)

    def representer(self, functional: Floats) -> Floats:
        """ω (m,) with E[(ωᵀφ) moment(f)] = functional(f) for every f of the space, up to the ridge.

        ωᵀφ is the density ratio of a policy's value, and the Riesz representer of a regression's functional.
        """
        return np.asarray(lu_solve(self._factors, functional, trans=1, check_finite=False))


class MomentSystem:
    """(N + λ1) θ = AᵀWb with N = AᵀWA and W = (C + λ2)⁻¹, A = E[φgᵀ], C = E[φφᵀ], b = E[φt]; it is rectangular.

    From sums of several groups only products of different groups enter N and AᵀWb: A and b share their rows' noise,
    which with many moments would draw θ towards plain regression. `noise` (r, r) stands in for C where moments are
    weighted by the noise that they have.
    """

    def __init__(self, sums: Sums, dual_penalty: float = 0.0, *, noise: Floats | None = None) -> None:
        self.sums = sums
        self.cross, target = sums.means()
        self.target = target[:, 0]
        self._values, self._vectors = np.linalg.eigh(sums.mean_dual if noise is None else noise)
        self._weight = pseudo_inverse(self._values, dual_penalty)

    def with_dual_penalty(self, dual_penalty: float) -> MomentSystem:
        """The same for another λ2, by the same decomposition of C."""
        other = copy.copy(self)
        for name in ("products", "_decomposed"):
            other.__dict__.pop(name, None)
        other._weight = pseudo_inverse(self._values, dual_penalty)
        return other

    @functools.cached_property
    def products(self) -> tuple[Floats, Floats]:
        """(N, AᵀWb); from several groups, the mean of A_jᵀWA_k and A_jᵀWb_k over different j and k."""
        root, sums = np.sqrt(self._weight)[:, None], self.sums
        crosses = [root * (self._vectors.T @ each) for each in sums.cross]
        targets = [root[:, 0] * (self._vectors.T @ each[:, 0]) for each in sums.target]
        cross, target = np.add.reduce(crosses), np.add.reduce(targets)
        normal, right = cross.T @ cross, cross.T @ target
        pairs = float(sums.rows) ** 2
        if sums.groups > 1:
            for count, own_cross, own_target in zip(sums.count, crosses, targets, strict=True):
                normal -= own_cross.T @ own_cross
                right -= own_cross.T @ own_target
                pairs -= float(count) ** 2
        return (normal + normal.T) / (2 * pairs), right / pairs

    @functools.cached_property
    def _decomposed(self) -> tuple[Floats, Floats]:
        return tuple(np.linalg.eigh(self.products[0]))  # type: ignore[return-value]

    @property
    def spectrum(self) -> Floats:
        """The eigenvalues (m,) of N, ascending."""
        return self._decomposed[0]

    @property
    def pulled(self) -> Floats:
        """AᵀWb (m,) in the coordinates of N's eigenvectors."""
        return np.asarray(self._decomposed[1].T @ self.products[1])

    def weights(self, penalty: float) -> Floats:
        """θ (m,), without directions that are within noise which no penalty damps.

        The most negative eigenvalue of products across groups shows how large noise alone can be.
        """
        spectrum, basis = self._decomposed
        noise = max(-float(spectrum[0]), 0.0)
        reliable = pseudo_inverse(spectrum, penalty) * ((spectrum > noise) | (penalty >= noise))
        return np.asarray(basis @ (reliable * self.pulled))

    def witness(self, theta: Floats) -> Floats:
        """W(Aθ - b), (r,): where the moment still differs from its target."""
        return self._weigh(self.cross @ theta - self.target)

    def influence(self, penalty: float) -> Floats:
        """(N + λ1)⁻¹AᵀW, (m, r): what a move of the moments b adds to θ."""
        return self._inverse(penalty) @ self._weigh(self.cross).T

    def representer(self, functional: Floats, penalty: float) -> Floats:
        """ω (r,) with functionalᵀθ = E[(ωᵀφ) t]: the weight of a row in the functional of f is ωᵀφ."""
        return self._weigh(self.cross @ (self._inverse(penalty) @ functional))

    def freedom(self, penalty: float) -> float:
        """The trace of N (N + λ1)⁻¹: how many directions of f the data determine rather than the penalty."""
        positive = np.maximum(self.spectrum, 0.0)
        return float(np.sum(positive / np.maximum(positive + penalty, np.finfo(float).tiny)))

    def singular_values(self) -> Floats:
        """Roots of the eigenvalues of N against E[ggᵀ], descending.

        They are the correlations of what f can make of the moment with what the context tells of it.
        """
        if self.sums.primal is None:
            raise RuntimeError("products of g with itself were not gathered")
        sizes, basis = np.linalg.eigh(self.sums.primal / self.sums.rows)
        kept = sizes > 1e-8 * max(float(sizes[-1]), np.finfo(float).tiny)
        half = basis[:, kept] / np.sqrt(sizes[kept])
        return np.sqrt(np.clip(np.linalg.eigvalsh(half.T @ self.products[0] @ half)[::-1], 0.0, 1.0))

    def error(self, penalty: float, scores: Floats, *, variance: float) -> Floats:
        """A root R (m, m) of the covariance RRᵀ of θ: its sampling error, and what the penalty may hide.

        Moments have the covariance Ω / n, Ω the `scores` (r, r), whatever the noise; with H = (N + λ1)⁻¹

            covariance = H AᵀWΩWA H / n + (σ² / n) λ1 H²

        the second part being the covariance of the bias -λ1 H θ where θ has the prior that the penalty stands for, of
        amplitude σ² / (n λ1), σ² the `variance` of a residual. Where moments have noise of one variance, Ω = σ² W⁻¹,
        it is the posterior's (σ² / n) H; without a penalty it is the sandwich, the robust or clustered covariance.
        """
        rows, (spectrum, basis) = self.sums.rows, self._decomposed
        bias = basis * (np.sqrt(variance / rows * penalty) * pseudo_inverse(spectrum, penalty))
        return _compressed(np.concatenate([bias, self.influence(penalty) @ _root(scores / rows)], axis=1))

    def mixed_weights(self, penalty: float, priors: Priors) -> Floats:
        """θ (m,) where it is not known which of several `priors` (share, error share, covariance P) is right.

        λ1 = σ² / n is the noise of a moment alone. With HᵀH = N and Hᵀq = AᵀWb, the posterior's mean under one prior is
        P Hᵀ(H P Hᵀ + λ1)⁻¹ q; θ is the mean of these by their shares.
        """
        half, seen = self._seen
        theta = np.zeros(half.shape[1])
        for share, _, prior in priors:
            if share:
                spread = half @ prior
                theta += share * (np.linalg.solve(spread @ half.T + penalty * np.eye(len(half)), seen) @ spread)
        return theta

    def mixed_error(self, penalty: float, scores: Floats, theta: Floats, priors: Priors) -> Floats:
        """A root of the covariance of θ where it is not known which of several priors is right, by their error shares.

        What one prior hides is V - V N V / λ1; the mixture around θ follows by the law of total variance.
        """
        half, seen = self._seen
        right = seen @ half
        noise = self._weigh(self.cross).T @ _root(scores / self.sums.rows) / penalty
        total = np.zeros((len(theta), len(theta)))
        for _, share, prior in priors:
            if share:
                covariance = self._posterior(prior, half, penalty)
                explained, sampled = covariance @ half.T / np.sqrt(penalty), covariance @ noise
                move = covariance @ right / penalty - theta
                total += share * (covariance - explained @ explained.T + sampled @ sampled.T + np.outer(move, move))
        return _root(total)

    @property
    def _seen(self) -> tuple[Floats, Floats]:
        """(H with HᵀH = N, q with Hᵀq = AᵀWb), without directions in which rounding or noise is all that there is."""
        spectrum, basis = self._decomposed
        seen = spectrum > len(spectrum) * np.finfo(float).eps * spectrum[-1]
        root = np.sqrt(spectrum[seen])
        return root[:, None] * basis[:, seen].T, self.pulled[seen] / root

    @staticmethod
    def _posterior(prior: Floats, half: Floats, penalty: float) -> Floats:
        """V of one prior, without an inverse of P, which may have none."""
        spread = half @ prior
        return np.asarray(prior - spread.T @ np.linalg.solve(spread @ half.T + penalty * np.eye(len(half)), spread))

    def _inverse(self, penalty: float) -> Floats:
        spectrum, basis = self._decomposed
        return np.asarray((basis * pseudo_inverse(spectrum, penalty)) @ basis.T)

    def _weigh(self, moments: Floats) -> Floats:
        """W times moments, (r,) or (r, n)."""
        weight = self._weight if moments.ndim == 1 else self._weight[:, None]
        return np.asarray(self._vectors @ (weight * (self._vectors.T @ moments)))


def pseudo_inverse(values: Floats, penalty: float) -> Floats:
    """1/(value + penalty) where that is above rounding, else 0: directions the data say nothing about stay out.

    Products across groups may have small negative eigenvalues, where noise outweighs signal; they count as zero.
    """
    shifted = np.maximum(values, 0.0) + penalty
    floor = len(values) * np.finfo(float).eps * max(float(np.max(shifted)), np.finfo(float).tiny)
    kept = shifted > floor
    return np.where(kept, 1.0 / np.where(kept, shifted, 1.0), 0.0)


def _root(covariance: Floats) -> Floats:
    """R with RRᵀ the covariance, what rounding made of it aside."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _compressed(root: Floats) -> Floats:
    """A root with as many columns as rows at most, of the same RRᵀ."""
    return root if root.shape[1] <= root.shape[0] else np.asarray(np.linalg.qr(root.T, mode="r")).T
