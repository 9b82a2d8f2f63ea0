"""Linear models with instruments: two-stage least squares and limited information maximum likelihood.

With R the triangle of [1 W | Z | X | y], the projection on the b columns of [1 W Z] is R's first b rows: coefficients
of the k-class are those of a problem of that size, whatever the number of rows.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import norm, t

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.estimates import check_level, format_estimate
from dualembed.linear.clusters import sum_by
from dualembed.linear.iv_covariance import ClusterJackknife, Covariance, default_covariance
from dualembed.linear.iv_design import FactoredDesign, IVDesign
from dualembed.linear.iv_rank import COLLINEAR, Dropped


@dataclasses.dataclass(frozen=True, eq=False)
class IVFit:
    """A fitted linear model: coefficients with their covariance, in the order X, W, constant.

    Attributes
    ----------
    design : IVDesign
        What was fitted.
    method : str
        How, in words.
    errors : Covariance
        Which noise the covariance allows for.
    names : tuple of str
        Names of the coefficients.
    params : array of shape (K,)
        The coefficients.
    covariance : array of shape (K, K)
        Their covariance.
    freedom : float
        Degrees of freedom of t intervals; infinite for normal ones.
    residuals : array of shape (n,)
        y - Xβ - Wγ - constant, less absorbed effects; of the rows whose weight is not 0.
    residual_variance : float
        Sum of squares of (weighted) residuals over n - k.
    r_squared : float
        1 less the share of that sum in that of y about its mean, or about 0 without a constant; below 0 where X is
        moved far by hidden causes.
    sensitivity : array of shape (b, K)
        What a moment, residual times a column of [1 W Z], adds to the coefficients, in the factored design's columns.
    j_statistic : float or None
        Of fits by moments, Hansen's J: how far the moments are from 0, χ² with k - p degrees of freedom.
    """

    design: IVDesign
    method: str
    errors: Covariance
    names: tuple[str, ...]
    params: Floats
    covariance: Floats
    freedom: float
    residuals: Floats
    residual_variance: float
    r_squared: float
    sensitivity: Floats
    j_statistic: float | None = None

    @property
    def rows(self) -> int:
        """Rows of a weight above 0, or the sum of counts."""
        return self.design.factored.rows

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """Columns that were left out because others say the same."""
        return self.design.factored.dropped

    @property
    def std_errors(self) -> Floats:
        """Standard errors of the coefficients."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def pvalues(self) -> Floats:
        """Two-sided p-values of each coefficient being 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = np.abs(self.params) / self.std_errors
        return 2 * (norm.sf(sizes) if np.isinf(self.freedom) else t.sf(sizes, self.freedom))

    def conf_int(self, level: float = 0.95) -> Floats:
        """Intervals of the coefficients.

        Parameters
        ----------
        level : float, default=0.95
            Probability, between 0 and 1.

        Returns
        -------
        array of shape (K, 2)
            Lower and upper ends.
        """
        check_level(level)
        place = 0.5 + level / 2
        half = (norm.ppf(place) if np.isinf(self.freedom) else t.ppf(place, self.freedom)) * self.std_errors
        return np.stack([self.params - half, self.params + half], axis=1)

    def influence(self, *, by_cluster: bool = False) -> Floats:
        """What each row, or cluster of the first way, adds to the coefficients; of two stages the sum is 0.

        Parameters
        ----------
        by_cluster : bool, default=False
            Whether to add up the rows of each cluster.

        Returns
        -------
        array of shape (n, K) or (G, K)
            Influence values: their cross-products are the robust, or clustered, covariance without its factor.
        """
        factored = self.design.factored
        noise = np.sqrt(factored.weights) * self.residuals / factored.scale
        found = (factored.columns[:, : factored.exogenous] @ self.sensitivity) * noise[:, None]
        if by_cluster and not factored.clusters:
            raise checks.InputError(
                "influence by cluster needs clusters, and the design has none; ask for that of rows"
            )
        return sum_by(factored.clusters[0], found) if by_cluster else found

    def __str__(self) -> str:
        lines = [f"{self.method} of {self.design.outcome_name} on {self.rows:,} rows, errors {self.errors.words()}"]
        pairs = zip(self.names, self.params, self.std_errors, strict=True)
        lines += [f"{name}: {format_estimate(value, error)}" for name, value, error in pairs]
        return "\n".join([*lines, *(str(each) for each in self.dropped)])


def fit_two_stage(design: IVDesign, covariance: Covariance | None = None) -> IVFit:
    """Two-stage least squares, β = (X̂ᵀX̂)⁻¹ X̂ᵀy with X̂ the projection of X on [1 W Z]; else least squares.

    Parameters
    ----------
    design : IVDesign
        The columns.
    covariance : Covariance, optional
        Which noise the errors allow for; by default `Clustered` where the design has clusters, else `Robust`.

    Returns
    -------
    IVFit
        The coefficients and their covariance.

    Raises
    ------
    InputError
        If the effects cannot be told apart: too few instruments or rows, or collinear columns.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z, hidden = rng.normal(size=(2, 5000))
    >>> x = z + hidden
    >>> found = fit_two_stage(IVDesign.of(x + 2 * hidden, x, instruments=z))
    >>> found.names, bool(abs(found.params[0] - 1) < 0.1)
    (('x1', 'Intercept'), True)
    """
    return _fit_k_class(design, 1.0, covariance)


def fit_liml(design: IVDesign, covariance: Covariance | None = None, *, fuller: float = 0.0) -> IVFit:
    """Limited information maximum likelihood, with less bias than two stages where instruments are weak or many.

    It is the k-class (X̃ᵀX)⁻¹X̃ᵀy, X̃ = (I - κ M) X with M the residual on [1 W Z], κ the least eigenvalue of
    (Eᵀ M_W E)(Eᵀ M E)⁻¹, E = [y X]; less `fuller` / (n - b).

    Parameters
    ----------
    design : IVDesign
        The columns.
    covariance : Covariance, optional
        Which noise the errors allow for; by default `Clustered` where the design has clusters, else `Robust`.
    fuller : float, default=0.0
        Fuller's number: 1 makes the estimate nearly unbiased, and gives it moments.

    Returns
    -------
    IVFit
        The coefficients and their covariance.

    Raises
    ------
    InputError
        As `fit_two_stage`; or if the instruments tell X or y exactly.
    """
    checks.not_negative("fuller", fuller)
    if isinstance(covariance, ClusterJackknife):
        raise checks.InputError("the jackknife over clusters is of two-stage least squares; use Clustered for LIML")
    factored = design.factored
    kappa = liml_kappa(factored) - fuller / (factored.rows - factored.exogenous)
    return _fit_k_class(design, kappa, covariance, method="limited information maximum likelihood")


def liml_kappa(factored: FactoredDesign) -> float:
    """The least eigenvalue κ of (Eᵀ M_W E)(Eᵀ M E)⁻¹, E = [y X]: 1 if exactly identified, else above."""
    a, b = factored.controls, factored.exogenous
    inner = factored.triangle[b:, b:]
    if np.min(np.abs(np.diag(inner))) <= COLLINEAR:
        raise checks.InputError(
            "the instruments and exogenous columns say the outcome or an endogenous column exactly, so that there is "
            "no noise to compare with; use two-stage least squares"
        )
    outer = solve_triangular(inner, factored.triangle[a:, b:].T, trans="T").T
    return float(np.linalg.svd(outer, compute_uv=False)[-1] ** 2)


def _fit_k_class(design: IVDesign, kappa: float, covariance: Covariance | None, *, method: str | None = None) -> IVFit:
    theta, sensitivity, bread = solve_k_class(design.factored, kappa)
    default = "two-stage least squares" if design.factored.endogenous else "least squares"
    return finish(design, theta, sensitivity, bread=bread, covariance=covariance, method=method or default)


def solve_k_class(factored: FactoredDesign, kappa: float) -> tuple[Floats, Floats, Floats]:
    """(θ of the factored columns, what moments add to the coefficients, the covariance of these at unit noise).

    With H = Q S the projected regressors, E what they leave and F = E S⁻¹, and h and e the same of y,
    θ = S⁻¹ (I + (1 - κ) FᵀF)⁻¹ (Qᵀh + (1 - κ) Fᵀe).
    """
    b, places = factored.exogenous, list(factored.regressors)
    q, s = np.linalg.qr(factored.triangle[:b, places])
    rest = solve_triangular(s, factored.triangle[b:, places].T, trans="T").T
    middle = np.eye(len(s)) + (1 - kappa) * (rest.T @ rest)
    right = q.T @ factored.triangle[:b, -1] + (1 - kappa) * (rest.T @ factored.triangle[b:, -1])
    theta = solve_triangular(s, np.linalg.solve(middle, right))
    inverse = factored.back @ solve_triangular(s, np.eye(len(s)))
    inner = np.linalg.inv(middle)
    sensitivity = solve_triangular(factored.triangle[:b, :b], q @ inner @ inverse.T)
    return theta, sensitivity, inverse @ inner @ inverse.T


def finish(
    design: IVDesign, theta: Floats, sensitivity: Floats, *, bread: Floats, covariance: Covariance | None, method: str
) -> IVFit:
    """The fit of coefficients θ of the factored design's columns, with the covariance of what moments add to them."""
    factored = design.factored
    errors = default_covariance(factored) if covariance is None else covariance
    places, k = list(factored.regressors), len(theta)
    noise = factored.columns[:, -1] - factored.columns[:, places] @ theta
    moves = factored.columns[:, : factored.exogenous] @ sensitivity
    spread = errors.of_coefficients(factored, moves, noise, bread=bread)
    left = float(noise @ noise)
    free = factored.rows - factored.estimated(k)
    return IVFit(
        design, method, errors, factored.names,
        params=factored.back @ theta + factored.offset,
        covariance=spread,
        freedom=errors.freedom(factored, k),
        residuals=noise * factored.scale / np.sqrt(factored.weights),
        residual_variance=left * factored.scale**2 / free if free > 0 else np.nan,
        r_squared=1 - left / factored.total if factored.total > 0 else np.nan,
        sensitivity=sensitivity,
    )  # fmt: skip
