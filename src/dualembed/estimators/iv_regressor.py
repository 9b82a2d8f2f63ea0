"""Regression, with instruments where hidden causes move both x and y."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dualembed import checks
from dualembed.estimators.base import Estimator
from dualembed.estimators.coding import Coding, coding_of, names_of
from dualembed.estimators.diagnostics import first_stage, first_stage_warnings
from dualembed.estimators.rows import labels_of, target
from dualembed.problems import InstrumentalVariables
from dualembed.selection import Consistency
from dualembed.solvers.uncertainty import Estimate
from dualembed.sources import Dataset
from dualembed.spaces.affine import AffineMap


class IVRegressor(RegressorMixin, Estimator):
    """f with E[y - f(X) | instruments] = 0; without instruments, plain regression E[y | X].

    `primal="linear", dual="linear"` is two-stage least squares, with `coef_`, `coef_stderr_` and `intercept_`. Spaces
    given as `primal` and `dual` see standardised columns.

    >>> rng = np.random.default_rng(0)
    >>> z, hidden = rng.normal(size=(2, 1000))
    >>> x = z + hidden
    >>> model = IVRegressor().fit(x[:, None], x + 2 * hidden, instruments=z)
    >>> effect = np.diff(model.predict([[0.0], [1.0]]))[0]  # 1, where plain regression would say 2
    >>> bool(abs(effect - 1) < 0.2)
    True
    """

    def __init__(
        self,
        *,
        solver: Any = "auto",
        primal: Any = "auto",
        dual: Any = "auto",
        categorical_features: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.solver = solver
        self.primal = primal
        self.dual = dual
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(self, X: Any, y: Any, instruments: Any = None, controls: Any = None, groups: Any = None) -> IVRegressor:
        """Learn f(X, controls) from X (n, d), y (n,), instruments and controls (n,) or (n, k), one sample a row.

        Instruments move X and touch y through X only; controls are exogenous columns that y depends on too. `groups`
        (n,) label rows that depend on each other, by which standard errors are clustered.
        """
        return self._fitted(X, y, instruments, controls, groups)

    def partial_fit(
        self, X: Any, y: Any, instruments: Any = None, controls: Any = None, groups: Any = None
    ) -> IVRegressor:
        """Learn from these rows besides all those of earlier calls; the first call chooses the model."""
        if not hasattr(self, "stream_"):
            return self._fitted(X, y, instruments, controls, groups)
        self._check_columns(X)
        problem = self._problem(X, y, instruments, controls)
        self._learn_more(problem, groups=labels_of("groups", groups, problem.source.rows))
        self._unstandardise()
        return self

    def _fitted(self, X: Any, y: Any, instruments: Any, controls: Any, groups: Any) -> IVRegressor:
        self._remember(X)
        if y is None:
            raise checks.InputError("IVRegressor requires y to be passed, but the target y is None")
        self._code(X, instruments, controls, flat=False)
        problem = self._problem(X, y, instruments, controls)
        self._learn(problem, groups=labels_of("groups", groups, problem.source.rows))
        if instruments is not None:
            width = self.instruments_.dimension  # type: ignore[union-attr]
            shares = first_stage(problem, _coordinates(self.coding_), width, groups=groups, seed=self._seed())
            self._note(first_stage_warnings(shares), first_stage=shares)
        self._unstandardise()
        return self

    def predict(self, X: Any, controls: Any = None, return_std: bool = False) -> Any:
        """f(X, controls), shape (n,); with `return_std` also its standard errors (n,)."""
        return self._predicted(self._points(X, controls), return_std=return_std)

    def interval(self, X: Any, controls: Any = None, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of f at each row, each covering it by itself with that probability."""
        return self._interval(self._points(X, controls), level)

    def band(self, X: Any, controls: Any = None, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) that cover f at all these rows at once with that probability."""
        points = self._points(X, controls)
        bands = [spread.band(points, level) for spread in self._spreads()]
        return np.minimum(*(band[0] for band in bands)), np.maximum(*(band[1] for band in bands))

    def moment_error(
        self, X: Any, y: Any, instruments: Any = None, controls: Any = None, groups: Any = None
    ) -> Estimate:
        """E[E[y - f(X) | instruments]²] on rows that it was not fitted to, without the noise of y."""
        check_is_fitted(self, "function_")
        problem = self._problem(X, y, instruments, controls)
        return self._honest(problem, groups=labels_of("groups", groups, problem.source.rows))

    def score(self, X: Any, y: Any, instruments: Any = None, controls: Any = None, sample_weight: Any = None) -> float:
        """R² of plain regression; with instruments minus the `moment_error`, since R² would reward confounding."""
        check_is_fitted(self, "function_")
        if self.instruments_ is None:
            from sklearn.metrics import r2_score

            return float(r2_score(y, self.predict(X, controls), sample_weight=sample_weight))
        return -self.moment_error(X, y, instruments, controls).value

    def consistency_test(
        self,
        X: Any,
        y: Any,
        instruments: Any = None,
        controls: Any = None,
        groups: Any = None,
        function: Any = None,
    ) -> Consistency:
        """Whether f, or any `function` of X (and controls side by side), is consistent with these rows: a p-value.

        The function must not have been fitted to them. This needs no fit where a function is given.
        """
        model = self
        if function is not None:
            model = IVRegressor(categorical_features=self.categorical_features)
            model._code(X, instruments, controls, flat=True)
        else:
            check_is_fitted(self, "function_")
        problem = model._problem(X, y, instruments, controls)
        groups = labels_of("groups", groups, problem.source.rows)
        return self._tested(problem, function, model._joint(), groups=groups)

    def witness(self, instruments: Any, controls: Any = None, return_std: bool = False) -> Any:
        """E[f(X) - y | instruments, controls] as the data show it; without instruments give X."""
        check_is_fitted(self, "function_")
        coding = self.coding_ if self.instruments_ is None else self.instruments_
        contexts = _beside(coding.encode(instruments), self.controls_, controls)
        return self._witnessed(contexts, return_std=return_std)

    def _code(self, X: Any, instruments: Any, controls: Any, *, flat: bool) -> None:
        """The codings of all tables. Names of categories may be those of any table; places and masks are of X."""
        asked = self.categorical_features
        named = [each for each in ([] if asked is None or isinstance(asked, str) else asked) if isinstance(each, str)]

        def coded(what: str, table: Any) -> Coding | None:
            if table is None:
                return None
            return coding_of(what, table, categorical=[name for name in named if name in (names_of(table) or [])])

        self.controls_, self.instruments_ = coded("controls", controls), coded("instruments", instruments)
        elsewhere = {
            name for coding in (self.controls_, self.instruments_) if coding is not None for name in coding.names
        }
        known = {*(names_of(X) or [])}
        if named:
            asked = [each for each in asked if each in known or each not in elsewhere]
        self.coding_ = coding_of("X", X, flat=flat, categorical=asked)

    def _joint(self) -> Coding:
        """The coding of X with the controls beside it."""
        if self.controls_ is None:
            return self.coding_
        return Coding("X", (*self.coding_.columns, *_shifted(self.controls_, len(self.coding_.columns))), False)

    def _points(self, X: Any, controls: Any) -> np.ndarray:
        self._check_columns(X)
        return _beside(self._coding().encode(X, flat=False), self.controls_, controls)

    def _problem(self, X: Any, y: Any, instruments: Any, controls: Any) -> Any:
        x = self.coding_.encode(X, flat=False)
        if (instruments is None) != (self.instruments_ is None):
            raise checks.InputError("instruments must be given here as in the fit: in both or in neither")
        z = x if self.instruments_ is None else self.instruments_.encode(instruments)
        for name, part in (("instruments", z), ("controls", controls)):
            if part is not None and len(part) != len(x):
                raise checks.InputError(f"X has {len(x)} rows, but {name} {len(part)}; give one a sample")
        data = Dataset(
            x=_beside(x, self.controls_, controls), y=target(y, len(x)), z=_beside(z, self.controls_, controls)
        )
        return InstrumentalVariables(data)

    def _unstandardise(self) -> None:
        """`coef_`, its standard errors and `intercept_` in the columns' own units, where f is a straight line."""
        features = getattr(self.function_, "features", None)
        inner = getattr(features, "function", features)
        if not isinstance(inner, AffineMap) or any(column.levels for column in self._joint().columns):
            return
        columns = self._joint().columns
        first, *slopes = np.asarray(self.function_.weights, dtype=np.float64)
        weights = iter(slopes)
        self.coef_ = np.array([next(weights) / column.scale if column.width else 0.0 for column in columns])
        means = np.array([column.mean if column.width else 0.0 for column in columns])
        self.intercept_ = float(first - self.coef_ @ means)
        if self.uncertainty_ is not None:
            spread = iter(np.linalg.norm(self.uncertainty_.sandwich.root, axis=1)[1:])
            self.coef_stderr_ = np.array([next(spread) / column.scale if column.width else 0.0 for column in columns])


def _coordinates(coding: Coding) -> list[str]:
    """A name for each coordinate."""
    names = []
    for column in coding.columns:
        names += [column.name] if column.width == 1 else [f"{column.name}={level}" for level in column.levels]
    return names or ["x"]


def _shifted(coding: Coding, by: int) -> list[Any]:
    import dataclasses

    return [
        column if column.copy_of is None else dataclasses.replace(column, copy_of=column.copy_of + by)
        for column in coding.columns
    ]


def _beside(points: np.ndarray, coding: Coding | None, controls: Any) -> np.ndarray:
    if (coding is None) != (controls is None):
        raise checks.InputError("controls must be given here as in the fit: in both or in neither")
    return points if coding is None else np.concatenate([points, coding.encode(controls)], axis=1)
