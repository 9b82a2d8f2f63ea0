"""Models of one effect on the same rows: least squares, two stages, LIML, moments, a sieve, and a smooth f."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.answers import AverageEffects, LinearResults, Verdict
from dualembed.arrays import Floats
from dualembed.baselines import SieveIV
from dualembed.baselines.spline_fit import SplineFit
from dualembed.baselines.splines import AdditiveSplines, TensorSplines
from dualembed.comparison.model_table import ComparedModel, ModelComparison, choose
from dualembed.data.frames import count_rows
from dualembed.data.table import Table
from dualembed.estimators import IVRegressor
from dualembed.estimators.diagnostics import ReliabilityWarning
from dualembed.estimators.linear_model import linear_design, term_names
from dualembed.linear import IVDesign, IVFit, fit_gmm, fit_liml, fit_two_stage
from dualembed.linear.clusters import sum_by
from dualembed.linear.iv_columns import INTERCEPT

VALID = "instruments act through X only"
STEP = 0.1  # of a column's deviation, to either side, over which a derivative is a difference


def compare_models(
    X: Any,
    y: Any,
    *,
    instruments: Any,
    controls: Any = None,
    groups: Any = None,
    smooth: IVRegressor | None = None,
    sieve: SieveIV | None = None,
) -> ModelComparison:
    """Compare models of one effect on the same rows, with the tests between them, and say which to report.

    Least squares, two-stage least squares, LIML and the two-step method of moments take f to be a straight line;
    `SieveIV` makes it of splines, additive ones where there are several columns; `IVRegressor` chooses all from the
    data. Of the last two it is the effect of one unit on average over the rows.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Treatments.
    y : array-like of shape (n,)
        Outcomes.
    instruments : array-like of shape (n, k) or (n,)
        What moves X and touches y through X only.
    controls : array-like of shape (n, k) or (n,), optional
        Exogenous columns that y depends on too.
    groups : array-like of shape (n,), optional
        Labels of rows that depend on each other, by which errors are clustered.
    smooth : IVRegressor, optional
        The last model, fitted to these rows or not; by default with all settings by default.
    sieve : SieveIV, optional
        The last but one; by default with all settings by default.

    Returns
    -------
    ModelComparison
        The models, the tests and the verdict; it prints as a table.

    Raises
    ------
    InputError
        If there are no instruments, or the smooth model was fitted to other rows.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> tax, hidden, noise = rng.normal(size=(3, 400))
    >>> price = tax + hidden
    >>> sales = 5 - price + 2 * hidden + noise
    >>> smooth = IVRegressor(primal="linear", dual="linear")  # to be quick
    >>> found = compare_models(price[:, None], sales, instruments=tax, smooth=smooth)
    >>> found.reported
    'two-stage least squares'
    >>> [round(found[name].results.params["x0"]) for name in ("least squares", "LIML")]
    [0, -1]
    """
    if instruments is None:
        raise checks.InputError("models are compared by instruments, and there are none; give instruments=...")
    table = Table.of(X=X, y=y, instruments=instruments, controls=controls, groups=groups)
    model = _fitted(IVRegressor() if smooth is None else smooth, table)
    codings = model.schema_.codings
    library = model.library_
    linear, attempts = model.linear_, dict[str, Callable[[], Any]]()
    names = tuple(term_names(codings["X"]))
    design, refusal = None, ""
    try:
        design = linear_design(codings, model._parted(table), model._problem(table)[1])
    except checks.InputError as refused:
        refusal = str(refused)
    if design is not None:
        attempts = _lines(design, linear, library)
    else:
        attempts = dict.fromkeys(ASSUMED, lambda: _refuse(refusal))
    attempts["sieve"] = lambda: _sieve(sieve, design, names, refusal=refusal, library=library)
    attempts["smooth"] = model.average_effects
    models = tuple(_compared(name, attempt) for name, attempt in attempts.items())
    by_name = {each.name: each for each in models}
    summary = model.summary()
    reported, words = choose(
        linear,
        by_name["smooth"],
        by_name,
        unidentified=model.unidentified_,
        answerable=summary.headline.verdict is not Verdict.NOT_ANSWERABLE,
        wrong=summary.is_wrong,
        straight=model._is_line,
        column=names[0],
    )
    outcome = "y" if linear is None else linear.outcome
    return ModelComparison(outcome, names, models, linear, reported, words, int(model.diagnostics_.rows), library)


ASSUMED = {
    "least squares": "nothing hidden moves X and y; a straight line",
    "two-stage least squares": f"{VALID}; a straight line",
    "LIML": f"{VALID}; a straight line; less bias where these are weak or many",
    "two-step GMM": f"{VALID}; a straight line; more precise where noise varies",
}
ASSUMES = {
    **ASSUMED,
    "sieve": f"{VALID}; f of splines, as many as the data bear",
    "smooth": f"{VALID}; f smooth, as the data choose it",
}


def _fitted(model: IVRegressor, table: Table) -> IVRegressor:
    """The model, fitted to the table unless it is already."""
    rows = count_rows(table.X)
    if not model.__sklearn_is_fitted__():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReliabilityWarning)  # which the comparison says in its place
            return type(model)(**model.get_params(deep=False))._fit(table)
    if model.weighting_.survey or model.absorbed_ or model.path_:
        raise checks.InputError(
            "models are compared on rows that count alike, without absorbed effects and times, and the smooth model "
            "was fitted with some of these; give a model that is fitted without them, or none"
        )
    if model.instruments_ is None or model.diagnostics_.rows != rows:
        raise checks.InputError(
            f"the smooth model was fitted to {model.diagnostics_.rows} rows"
            f"{'' if model.instruments_ is not None else ' without instruments'}, and {rows} are given to compare on; "
            "give those rows, or a model that is not fitted"
        )
    return model


def _compared(name: str, attempt: Callable[[], Any]) -> ComparedModel:
    try:
        return ComparedModel(name, ASSUMES[name], attempt())
    except checks.InputError as refusal:
        return ComparedModel(name, ASSUMES[name], None, str(refusal))


def _refuse(words: str) -> Any:
    raise checks.InputError(words)


def _lines(design: IVDesign, linear: LinearResults | None, library: str) -> dict[str, Callable[[], Any]]:
    """How each straight line is fitted, by name."""
    plain = IVDesign.of(
        design.outcome,
        design.endogenous,
        design.exogenous if design.exogenous.shape[1] else None,
        weights=design.weights,
        counts=design.counts,
        clusters=design.clusters,
        effects=design.effects,
        outcome_name=design.outcome_name,
        endogenous_names=design.endogenous_names,
        exogenous_names=design.exogenous_names if design.exogenous.shape[1] else None,
    )

    def shown(fit: IVFit) -> AverageEffects:
        kept = [place for place, name in enumerate(fit.names) if name != INTERCEPT]
        return AverageEffects(
            design.outcome_name,
            fit.errors.words(),
            tuple(fit.names[place] for place in kept),
            fit.params[kept],
            fit.covariance[np.ix_(kept, kept)],
            fit.freedom,
            fit.rows,
            library,
        )

    return {
        "least squares": lambda: shown(fit_two_stage(plain)),
        "two-stage least squares": lambda: shown(fit_two_stage(design)) if linear is None else linear,
        "LIML": lambda: shown(fit_liml(design)),
        "two-step GMM": lambda: shown(fit_gmm(design)),
    }


def _sieve(
    sieve: SieveIV | None, design: IVDesign | None, names: tuple[str, ...], *, refusal: str, library: str
) -> AverageEffects:
    """The average effects of a sieve, with errors from what each row, or cluster, adds to them."""
    if design is None:
        raise checks.InputError(refusal)
    if design.weights is not None or design.effects is not None:
        raise checks.InputError("the sieve has no weights and no absorbed effects; leave them out to compare with it")
    x, z = (np.concatenate([part, design.exogenous], axis=1) for part in (design.endogenous, design.instruments))
    basis = TensorSplines if x.shape[1] == 1 and z.shape[1] == 1 else AdditiveSplines
    result = (SieveIV(basis=basis) if sieve is None else sieve).fit(x, design.outcome, z)
    primal: Any = result.primal  # a sum of splines, as is the witness
    dual: Any = result.dual.function
    psi, phi = primal.features, dual.features
    fit = SplineFit.of(psi, phi, x=x, y=design.outcome, z=z)
    moved = [_moved(x, place, names) for place in range(design.endogenous.shape[1])]
    rows = np.stack([(psi.compute(np, high) - psi.compute(np, low)) / unit for high, low, unit in moved])
    values = rows.mean(axis=1) @ fit.weights
    influence = (rows.mean(axis=1) @ fit.influence + (rows @ fit.weights - values[:, None]) / len(x)).T
    freedom, factor = np.inf, len(x) / max(len(x) - len(fit.weights), 1)
    if design.clusters is not None:
        influence = sum_by(design.clusters[:, 0], influence)
        freedom = float(len(influence) - 1)
        factor *= len(influence) / max(freedom, 1.0)
    covariance = factor * (influence.T @ influence)
    errors = "clustered" if design.clusters is not None else "robust to unequal variances"
    return AverageEffects(design.outcome_name, errors, names, values, covariance, freedom, len(x), library)


def _moved(x: Floats, place: int, names: tuple[str, ...]) -> tuple[Floats, Floats, float]:
    """(x with a column moved up, and down, by how many units); indicators of one category move together."""
    high, low = np.array(x), np.array(x)
    own = names[place].split("=")[0]
    category = [number for number, name in enumerate(names) if "=" in name and name.split("=")[0] == own]
    distinct = np.unique(x[:, place])
    if category:
        high[:, category] = low[:, category] = 0.0
        high[:, place] = 1.0
        return high, low, 1.0
    if len(distinct) == 2:
        low[:, place], high[:, place] = distinct
        return high, low, float(distinct[1] - distinct[0])
    step = STEP * float(x[:, place].std())
    high[:, place] += step
    low[:, place] -= step
    return high, low, 2 * step
