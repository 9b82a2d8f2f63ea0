"""Linear models with instruments by the generalised method of moments, in two steps or continuously updated.

In orthonormal coordinates Q of [1 W Z] the moments are g(θ) = h - Hθ, with H = QᵀX and h = Qᵀy, and S(θ) is the
covariance of Σ_i q_i e_i(θ). Either estimate is the same in all coordinates.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.linear.iv_covariance import ClusterJackknife, Covariance, Unadjusted, default_covariance
from dualembed.linear.iv_design import FactoredDesign, IVDesign, factor_rows
from dualembed.linear.two_stage import IVFit, finish, liml_kappa, solve_k_class

SINGULAR = 1e-10  # least eigenvalue of the correlations of moments, below which they have no inverse
FLAT = 1e-5  # slope of J for each standard error, from which on a minimum was not found


def fit_gmm(design: IVDesign, covariance: Covariance | None = None) -> IVFit:
    """The two-step generalised method of moments: θ minimises g(θ)ᵀ S⁻¹ g(θ), with S at two-stage least squares.

    With more instruments than endogenous columns it is the most precise use of them where noise is as the covariance
    allows for; else the same as two-stage least squares.

    Parameters
    ----------
    design : IVDesign
        The columns.
    covariance : Covariance, optional
        Which noise S, without its factor for few rows, and the errors allow for; by default `Clustered` where the
        design has clusters, else `Robust`.

    Returns
    -------
    IVFit
        The coefficients and their covariance, and J.

    Raises
    ------
    InputError
        As `fit_two_stage`; or if there are too few clusters or rows for the moments.
    """
    errors = _errors(design, covariance)
    moments = _Moments.of(design.factored, errors)
    first = solve_k_class(design.factored, 1.0)[0]
    root = moments.root(first)
    return _finish(design, moments, moments.solve(root), root=root, method="two-step generalised method of moments")


def fit_cue(design: IVDesign, covariance: Covariance | None = None) -> IVFit:
    """The continuously updated generalised method of moments: θ minimises J(θ) = g(θ)ᵀ S(θ)⁻¹ g(θ).

    It has less bias than two steps where instruments are many or weak. With `Unadjusted` it is limited information
    maximum likelihood; else J is minimised from the two-step estimate on. Moments in S are not centred: the same as
    linearmodels' IVGMMCUE with center=False, and as its default too unless errors are clustered.

    Parameters
    ----------
    design : IVDesign
        The columns.
    covariance : Covariance, optional
        Which noise S, without its factor for few rows, and the errors allow for; by default `Clustered` where the
        design has clusters, else `Robust`.

    Returns
    -------
    IVFit
        The coefficients and their covariance, and J.

    Raises
    ------
    InputError
        As `fit_gmm`; or if no minimum is found.
    """
    errors = _errors(design, covariance)
    factored = design.factored
    moments = _Moments.of(factored, errors)
    if isinstance(errors, Unadjusted):
        theta = solve_k_class(factored, liml_kappa(factored))[0]
    else:
        theta = _minimise(moments, solve_k_class(factored, 1.0)[0])
    method = "continuously updated generalised method of moments"
    return _finish(design, moments, theta, root=moments.root(theta), method=method)


@dataclasses.dataclass(frozen=True, eq=False)
class _Moments:
    """g(θ) = level - slopes θ, and the covariance S(θ) of its noise."""

    factored: FactoredDesign
    errors: Covariance
    basis: Floats  # (n, b)
    slopes: Floats  # (b, K)
    level: Floats  # (b,)
    regressors: Floats  # (n, K)

    @staticmethod
    def of(factored: FactoredDesign, errors: Covariance) -> _Moments:
        b, places = factored.exogenous, list(factored.regressors)
        triangle = factored.triangle
        basis, regressors = factored.instrument_basis(), factored.columns[:, places]
        return _Moments(factored, errors, basis, triangle[:b, places], triangle[:b, -1], regressors)

    def noise(self, theta: Floats) -> Floats:
        """e(θ)."""
        return self.factored.columns[:, -1] - self.regressors @ theta

    def root(self, theta: Floats) -> Floats:
        """The lower triangle L of S(θ) = L Lᵀ; refused where there is none."""
        spread = self.errors.spread(self.factored, self.basis, noise=self.noise(theta))
        scale = np.sqrt(np.maximum(np.diag(spread), np.finfo(float).tiny))
        if np.linalg.eigvalsh(spread / np.outer(scale, scale))[0] <= SINGULAR:
            groups = "".join(f"{int(each.max()) + 1} clusters and " for each in self.factored.clusters)
            raise checks.InputError(
                f"{groups}{self.factored.rows:,} rows are too few to tell how {len(spread)} moments vary together, one "
                "for each exogenous column and instrument; give fewer of these, or use two-stage least squares"
            )
        return np.asarray(cholesky(spread, lower=True))

    def solve(self, root: Floats) -> Floats:
        """The θ with the least gᵀ (L Lᵀ)⁻¹ g."""
        slopes, level = (solve_triangular(root, each, lower=True) for each in (self.slopes, self.level))
        q, s = np.linalg.qr(slopes)
        return solve_triangular(s, q.T @ level)

    def objective(self, theta: Floats) -> tuple[float, Floats]:
        """(J(θ), its slopes): with v = S⁻¹g, dJ = -2 vᵀH + 2 Σ (a e)(a x), a = Qv, over pairs of rows as in S."""
        root, gap = self.root(theta), self.level - self.slopes @ theta
        half = solve_triangular(root, gap, lower=True)
        pull = solve_triangular(root, half, trans="T", lower=True)
        noise = self.noise(theta)
        rows = (self.basis @ pull)[:, None] * np.concatenate([noise[:, None], self.regressors], axis=1)
        products = self.errors.spread(self.factored, rows, noise=np.ones(len(rows)))[0, 1:]
        return float(half @ half), 2 * (products - self.slopes.T @ pull)


def _minimise(moments: _Moments, start: Floats) -> Floats:
    """The least J from two steps on, in units in which the errors of θ are independent and 1."""
    root = moments.root(start)
    centre = moments.solve(root)
    s = factor_rows(solve_triangular(root, moments.slopes, lower=True))
    unit = solve_triangular(s, np.eye(len(s)))

    def objective(place: Floats) -> tuple[float, Floats]:
        value, slopes = moments.objective(centre + unit @ place)
        return value, unit.T @ slopes

    found = minimize(objective, np.zeros(len(s)), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 500})
    if not np.max(np.abs(found.jac)) < FLAT:
        raise checks.InputError(
            f"J has no minimum near the two-step estimate (its slope is still {np.max(np.abs(found.jac)):.2g}), as "
            "where instruments are very weak; use fit_gmm or fit_liml"
        )
    return centre + unit @ found.x


def _finish(design: IVDesign, moments: _Moments, theta: Floats, *, root: Floats, method: str) -> IVFit:
    """The fit, with θ off by (HᵀS⁻¹H)⁻¹ HᵀS⁻¹ g."""
    factored = design.factored
    q, s = np.linalg.qr(solve_triangular(root, moments.slopes, lower=True))
    weights = solve_triangular(root, solve_triangular(s, q.T).T, trans="T", lower=True) @ factored.back.T
    sensitivity = solve_triangular(factored.triangle[: len(root), : len(root)], weights)
    gap = solve_triangular(root, moments.level - moments.slopes @ theta, lower=True)
    found = finish(design, theta, sensitivity, bread=weights.T @ weights, covariance=moments.errors, method=method)
    return dataclasses.replace(found, j_statistic=float(gap @ gap))


def _errors(design: IVDesign, covariance: Covariance | None) -> Covariance:
    if isinstance(covariance, ClusterJackknife):
        raise checks.InputError("the jackknife over clusters is of two-stage least squares; use Clustered for moments")
    return default_covariance(design.factored) if covariance is None else covariance
