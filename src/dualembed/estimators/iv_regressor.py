"""Regression, with instruments where hidden causes move both x and y."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from dualembed import checks
from dualembed.answers import Answer, Findings, LinearResults, Question, Task
from dualembed.answers.question import share_of, values
from dualembed.answers.subgroups import Subgroups
from dualembed.data.coding import Coding
from dualembed.data.frames import column_names, count_rows, order_at_random, target
from dualembed.data.libraries import library_of
from dualembed.data.table import Table
from dualembed.estimates import format_estimate, format_short
from dualembed.estimators.absorbing import (
    absorbed_levels,
    centred,
    masses,
    with_levels,
    within_levels,
    without_codes,
    without_effects,
)
from dualembed.estimators.base import require_2d
from dualembed.estimators.controls import split_categories, split_controls
from dualembed.estimators.diagnostics import (
    LOOKED_AT,
    FirstStage,
    ReliabilityWarning,
    first_stage,
    first_stage_warnings,
)
from dualembed.estimators.econometrics import Econometrics
from dualembed.estimators.effect_words import as_controls, by_places, no_such_method, row_effects
from dualembed.estimators.effects import QUARTILES, Move, Over
from dualembed.estimators.learning import RowSample
from dualembed.estimators.linear_columns import LinearColumn, linear_columns, slopes_of
from dualembed.estimators.linear_model import (
    check_outcome,
    coded_line,
    fit_linear,
    is_path,
    line_constant,
    outcome_name,
    unidentified,
)
from dualembed.estimators.task_words import worded
from dualembed.estimators.weak_instruments import is_weak, widen
from dualembed.estimators.weighting import COUNTS, WEIGHTING, Weighting, join, weigh
from dualembed.linear.clusters import by_appearance, cluster_numbers, count_clusters
from dualembed.linear.moment_fit import Spread
from dualembed.linear.serial import path_blocks, time_numbers
from dualembed.problems import InstrumentalVariables
from dualembed.selection import Selection, auto
from dualembed.selection.forms import Form
from dualembed.selection.sparse import is_wide, select_columns
from dualembed.solvers.base import Choice, Result, SolverLike
from dualembed.sources import Dataset
from dualembed.spaces.base import SpaceLike
from dualembed.spaces.basis import AffineMap
from dualembed.spaces.within import CentredMap

FEW_NAMES = 3  # that a sentence can hold


class IVRegressor(RegressorMixin, Econometrics):
    """Regression by instruments: f with E[y - f(X) | instruments] = 0; without instruments, plain regression E[y | X].

    `primal="linear", dual="linear"` is two-stage least squares.

    Parameters
    ----------
    solver : {"auto", "closed-form", "embedding-sgd"} or Solver, default="auto"
        How the saddle is solved.
    primal : {"auto", "linear"} or FunctionSpace, default="auto"
        Space of f, in standardised columns; by default chosen from the data.
    dual : {"auto", "linear"} or FunctionSpace, default="auto"
        Space of the witness, likewise.
    categorical_features : array-like, optional
        Names or places of columns that are categories, or a mask, besides those that are by their type.
    controls : array-like, optional
        Names or places of columns of X that are controls, or a mask, in the place of the argument `controls` of `fit`
        and all other methods: scikit-learn's scorers give `predict` no more than X.
    weighting : {"auto", "frequency", "survey"}, default="auto"
        What `sample_weight` means: how many equal rows a row stands for, whole numbers, or how much it counts, as
        survey (probability) weights do, whose scale says nothing. "auto" takes whole numbers for counts.
    random_state : int or RandomState, default=0
        Seed of the choice of the model.
    linear : str, int or list, optional
        Names or places of columns of X and the controls, X first, that f is linear in: the effect of each is one number
        everywhere, next to any smooth function of the others. "X" stands for all columns of X.

    Attributes
    ----------
    function_ : Function
        The function f, in coded coordinates.
    dual_ : DualFunction
        The witness, in coded coordinates.
    schema_ : Schema
        How columns are coded.
    selection_ : Selection
        What was chosen, and why.
    diagnostics_ : Diagnostics
        How far to trust the fit.
    linear_ : LinearResults or None
        Two-stage least squares of the same columns, with the tests of econometricians: first-stage F, rank, Sargan and
        Hansen's J, Wu-Hausman, the Anderson-Rubin set. None where it is not identified, and after `partial_fit`.
    absorbed_ : tuple of str
        Names of the factors whose effects were absorbed.
    clusters_ : int or None
        How many clusters there were, the fewest over the ways, or blocks of a path; None without.
    coef_ : array of shape (d,)
        Slopes in the columns' own units, if f is a straight line; those of `linear_` where there are categories. With
        `linear=` those of its columns, whose names `coef_names_` has.
    coef_stderr_ : array of shape (d,)
        Their standard errors.
    intercept_ : float
        Value of the line at 0.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z, hidden = rng.normal(size=(2, 1000))
    >>> x = z + hidden
    >>> model = IVRegressor().fit(x[:, None], x + 2 * hidden, instruments=z)
    >>> effect = np.diff(model.predict([[0.0], [1.0]]))[0]  # 1, where plain regression would say 2
    >>> bool(abs(effect - 1) < 0.2)
    True
    """

    task = Task(
        "iv",
        "the effect of x on y, by instruments where there are any",
        title="Effect by instruments",
        question="What does changing x do to y? Plain regression cannot say, where hidden causes move both. "
        "Instruments help: they move x, and touch y through x only.",
        function="the structural function f(x): what y would be on average if x were set by hand",
        equation="given the instruments, y and f(x) must agree on average",
        symbol="f(x)",
        error="mean squared error of the conditional mean",
        mean="f(x) is {mean} on average over the data's rows, from {lowest} to {highest}.",
        needs=("X", "y"),
        takes=("instruments", "controls", "groups", "sample_weight", "absorb", "time"),
        effects=True,
        inputs=("X", "controls"),
        context=("instruments", "controls"),
        settings=(WEIGHTING,),
        examples=(
            "survey.csv --x price --y sales --instrument tax --control region",
            "survey.csv --x dose,age --y outcome --group clinic --out mean.dualembed --report mean.html",
            'survey.csv --formula "lwage ~ [educ ~ nearc4] + exper + black" --weight weight --weighting survey '
            "--out effect.dualembed",
        ),
    )

    linear_: LinearResults | None = None  # models that were saved before it was kept have none
    outcome_: str = "y"  # likewise; else the name of the outcome's column, where it has one
    absorbed_: tuple[str, ...] = ()  # likewise
    clusters_: int | None = None  # likewise
    _factors = 0  # of the fit that is going on
    weighting_: Weighting = COUNTS  # what weights of earlier rows meant

    _once_positional = ("instruments", "controls", "groups")

    @property
    def instruments_(self) -> Coding | None:
        """How instruments are coded; None without."""
        return self.schema_.codings.get("instruments")

    @property
    def controls_(self) -> Coding | None:
        """How controls are coded; None without."""
        return self.schema_.codings.get("controls")

    @property
    def task_(self) -> Task:
        """Effects by instruments, or plain regression without, in the names of the columns."""
        x = _joined_names(self.coding_)
        if self.instruments_ is None:
            return worded(REGRESSION, x=x, y=self.outcome_)
        return worded(self.task, x=x, y=self.outcome_, z=_joined_names(self.instruments_))

    def __init__(
        self,
        *,
        solver: SolverLike = "auto",
        primal: SpaceLike = "auto",
        dual: SpaceLike = "auto",
        categorical_features: Any = None,
        controls: Any = None,
        weighting: str = "auto",
        random_state: Any = 0,
        linear: Any = None,
    ) -> None:
        self.solver = solver
        self.primal = primal
        self.dual = dual
        self.categorical_features = categorical_features
        self.controls = controls
        self.weighting = weighting
        self.random_state = random_state
        self.linear = linear

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        instruments: Any = None,
        controls: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        absorb: Any = None,
        time: Any = None,
    ) -> IVRegressor:
        """Learn f(X, controls), one sample a row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Treatments; (n,) for one column, but without instruments and controls a series only, by scikit-learn's rule.
        y : array-like of shape (n,)
            Outcomes.
        instruments : array-like of shape (n, k) or (n,), optional
            What moves X and touches y through X only.
        controls : array-like of shape (n, k) or (n,), optional
            Exogenous columns that y depends on too.
        groups : array-like of shape (n,) or (n, 2), optional
            Labels of rows that depend on each other, by which standard errors are clustered: of one way, or of two, as
            in firm and year.
        sample_weight : array-like of shape (n,), optional
            Weights of rows; what they mean is up to `weighting`. Rows of weight 0 are left out.
        absorb : array-like of shape (n,) or (n, 2), optional
            Levels of one or two factors, such as firm and year, each of which has an effect on y of its own: all is
            learnt within them. The mean of f over the data is then that of y.
        time : array-like of shape (n,), optional
            When each row was, where rows are one path and what is hidden goes on from one to the next: errors then
            allow for it. With groups, which may go on as they will, it has no use.

        Returns
        -------
        IVRegressor
            The fitted estimator.
        """
        columns = {"instruments": instruments, "controls": controls, "groups": groups, "sample_weight": sample_weight}
        return self._fit(Table.of(X=X, y=y, **columns, absorb=absorb, time=time))

    @classmethod
    def from_formula(
        cls, formula: str, frame: Any, *, groups: Any = None, sample_weight: Any = None, **settings: Any
    ) -> IVRegressor:
        """The estimator fitted to the columns of a frame that a formula names, or makes of others.

        `data.Formula` says how formulas are written, and its `read(frame)` has the columns themselves: `fit` takes
        their `table`, and `predict` their `again(other_frame)`, which codes other rows alike.

        Parameters
        ----------
        formula : str
            As in linearmodels, `y ~ [x ~ z] + controls`, or as in fixest, `y ~ controls | x ~ z`; without `x ~ z` it is
            plain regression on all that is on the right.
        frame : table
            A data frame of any library, or a dictionary of columns.
        groups : str, list of str, or array-like of shape (n,) or (n, 2), optional
            Labels of rows that depend on each other, or the names of the frame's columns that have them.
        sample_weight : str or array-like of shape (n,), optional
            Weights of rows, or the name of the frame's column that has them.
        **settings : object
            Parameters of the estimator.

        Returns
        -------
        IVRegressor
            The fitted estimator.

        Raises
        ------
        InputError
            If the formula cannot be read, or asks to absorb effects.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> z, hidden = rng.normal(size=(2, 1000))
        >>> frame = {"tax": z, "price": z + hidden, "sales": 3 * hidden + z}
        >>> model = IVRegressor.from_formula("sales ~ [price ~ tax]", frame, primal="linear", dual="linear")
        >>> bool(abs(model.coef_[0] - 1) < 0.2)
        True
        """
        from dualembed.data.formula import Formula, arrow_table  # which no other fit needs
        from dualembed.data.terms import taken

        source = arrow_table(frame)
        table = Formula.of(formula).read(source).table
        named = [groups] if isinstance(groups, str) else groups
        if isinstance(named, list | tuple) and all(isinstance(each, str) for each in named):
            groups = taken(source, tuple(named))
        if isinstance(sample_weight, str):
            sample_weight = taken(source, (sample_weight,)).column(0).to_numpy()
        given = {"groups": groups, "sample_weight": sample_weight}
        beside = {role: column for role, column in given.items() if column is not None}
        return cls(**settings)._fit(dataclasses.replace(table, columns={**table.columns, **beside}))

    def difference(self, X1: Any, X0: Any, controls: Any = None, controls0: Any = None) -> Question:
        """The question of the effect of moving X from X0 to X1: the mean over rows of f(X1) - f(X0).

        Either side may be one row, which stands for all.

        Parameters
        ----------
        X1 : array-like of shape (n, d)
            Treatments after the move.
        X0 : array-like of shape (n, d)
            Treatments before.
        controls : array-like of shape (n, k) or (n,), optional
            Controls.
        controls0 : array-like of shape (n, k) or (n,), optional
            Controls of X0; by default the same.

        Returns
        -------
        Question
            For `ask`.
        """
        return self._difference((X1, controls), (X0, controls if controls0 is None else controls0))

    @by_places
    def effect(
        self, T0: Any = 0, T1: Any = 1, controls: Any = None, by: Any = None, *, X: Any = None
    ) -> Answer | Subgroups:
        """The effect of moving X from T0 to T1: the mean over rows of f(T1) - f(T0), with its standard error.

        Parameters
        ----------
        T0 : array-like of shape (n, d), or number, default=0
            Treatments before the move; a number where X has one column.
        T1 : array-like of shape (n, d), or number, default=1
            Treatments after it.
        controls : array-like of shape (n, k) or (n,), optional
            Controls; by default those of the rows of the fit, or of a random sample of at most 10,000.
        by : str or int, optional
            A control, for the effect where it has each of its levels; of a number with many values, by quartiles.
        X : array-like of shape (n, k) or (n,), optional
            EconML's name of what effects differ by, which here are controls.

        Returns
        -------
        Answer or Subgroups
            The effect; with `by` that in every group, with their joint covariance.
        """
        question = self._effect_question(T0, T1, as_controls(controls, X))
        return self.ask(question) if by is None else self.ask_by(question, by)

    @by_places
    def effects(
        self, T0: Any = 0, T1: Any = 1, controls: Any = None, return_std: bool = False, *, X: Any = None
    ) -> Any:
        """The effect of moving X from T0 to T1 at each row of the controls; `effect` is their mean.

        Parameters
        ----------
        T0 : array-like of shape (n, d), or number, default=0
            Treatments before the move; a number where X has one column.
        T1 : array-like of shape (n, d), or number, default=1
            Treatments after it.
        controls : array-like of shape (n, k) or (n,), optional
            Controls; by default those of the rows of the fit, or of a random sample of at most 10,000.
        return_std : bool, default=False
            Whether to return standard errors, too.
        X : array-like of shape (n, k) or (n,), optional
            EconML's name of what effects differ by, which here are controls.

        Returns
        -------
        values : array of shape (n,)
            Effects.
        errors : array of shape (n,)
            Their standard errors, if `return_std`.
        """
        self._coding()
        question = self._effect_question(T0, T1, as_controls(controls, X))
        spreads = self._spreads() if return_std else ()
        found, errors = row_effects(self.function_, spreads, question, size=self._size())
        return (found, errors) if return_std else found

    def __getattr__(self, name: str) -> Any:
        """Nothing: a refusal, which has our way where the name is EconML's."""
        if hasattr(type(self), name):  # a property whose own refusal, such as NotFittedError, brought us here
            return object.__getattribute__(self, name)
        raise no_such_method(type(self).__name__, name)

    def _effect_question(self, T0: Any, T1: Any, controls: Any) -> Question:
        """The mean over rows of f(T1) - f(T0)."""
        before, after = (np.asarray([[each]]) if np.ndim(each) == 0 else each for each in (T0, T1))
        if controls is not None and self.controls is not None:
            raise checks.InputError(
                f"controls are columns of X by the parameter controls={self.controls!r}, and the effect is over the "
                "rows of the fit; ask difference(X1, X0) of whole rows for others"
            )
        if controls is not None or self.controls_ is None:
            return self.difference(after, before, controls)
        if self.sample_ is None:
            raise checks.InputError("this model was saved without rows to take the mean over; give controls")
        over = Over.sample(self.sample_)
        sides = []
        for each in (after, before):
            moved = np.array(over.rows)
            moved[:, : self.coding_.dimension] = self.coding_.encode(each)
            sides.append(moved)
        shares, strays = np.tile([1.0, -1.0], (len(over.rows), 1)), np.zeros((len(over.rows), 2))
        words = (
            f"the effect of moving X between two places{self.sample_.note or ', on average over the rows of the fit'}"
        )
        points = np.stack(sides, axis=1)
        return self._mean_at(words, points, shares, strays=strays, groups=over.groups, mass=over.mass)

    def mean_derivative(self, column: Any, X: Any = None, controls: Any = None) -> Question:
        """The question of the mean over rows of ∂f/∂column, per unit of the column.

        It is a difference over a tenth of the column's deviation to either side.

        Parameters
        ----------
        column : str or int
            A column of X or of the controls.
        X : array-like of shape (n, d), optional
            Rows; by default those of the fit, or a random sample of at most 10,000.
        controls : array-like of shape (n, k) or (n,), optional
            Their controls.

        Returns
        -------
        Question
            For `ask`.
        """
        return self._mean_derivative(column, X, controls)

    def average_effect(
        self, column: Any, treated: Any = 1, control: Any = 0, X: Any = None, controls: Any = None
    ) -> Question:
        """The question of the mean over rows of f with the column at `treated` less f with it at `control`.

        Parameters
        ----------
        column : str or int
            A column of X or of the controls: a category or a number.
        treated : object, default=1
            A level of the category, or a number.
        control : object, default=0
            A level of the category, or a number.
        X : array-like of shape (n, d), optional
            Rows; by default those of the fit, or a random sample of at most 10,000.
        controls : array-like of shape (n, k) or (n,), optional
            Their controls.

        Returns
        -------
        Question
            For `ask`.
        """
        return self._average_effect(column, (treated, control), X, controls)

    def score(
        self,
        X: Any,
        y: Any,
        instruments: Any = None,
        controls: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        absorb: Any = None,
        time: Any = None,
    ) -> float:
        """The R² of plain regression; with instruments minus the `error`, since R² would reward confounding.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Treatments.
        y : array-like of shape (n,)
            Outcomes.
        instruments : array-like of shape (n, k) or (n,), optional
            Instruments.
        controls : array-like of shape (n, k) or (n,), optional
            Controls.
        sample_weight : array-like of shape (n,), optional
            Weights of rows, of R² or of the error.
        groups : array-like of shape (n,) or (n, 2), optional
            Labels of rows that depend on each other; folds of the error keep them together.
        absorb : array-like of shape (n,) or (n, 2), optional
            Levels whose effects are absorbed, as in the fit: rows are then compared within them alone.
        time : array-like of shape (n,), optional
            When each row was, where rows are one path; folds of the error are then stretches of it.

        Returns
        -------
        float
            The score.
        """
        check_is_fitted(self, "function_")
        if self.instruments_ is not None:
            columns = {"instruments": instruments, "controls": controls, "groups": groups, "time": time}
            return -self.error(X, y, sample_weight=sample_weight, absorb=absorb, **columns).value
        found = self.predict(X, controls)
        if self.absorbed_:
            y = self._problem(Table.of(X=X, y=y, controls=controls, absorb=absorb))[0].source.table["y"]
        if groups is not None:
            cluster_numbers("groups", groups, len(found))  # refused alike, though R² has no use for them
        return float(r2_score(y, found, sample_weight=sample_weight))

    moment_error = Econometrics.error  # as it was called first

    def _fit_first(self, table: Table) -> None:
        if table.instruments is None and table.controls is None:
            require_2d(table.X)  # as scikit-learn wants it of what is fitted to (X, y) alone
        self._set_feature_names(table.X)
        if table.y is None:
            raise checks.InputError("IVRegressor requires y to be passed, but the target y is None")
        weighed = weigh(table, self.weighting)
        self.weighting_, table = weighed.weighting, weighed.table
        self._code(table)
        self.library_ = library_of(table.X, table.y, table.instruments, table.controls)
        self.outcome_ = outcome_name(table)
        columns = {role: column for role, column in table.columns.items() if role != "absorb"}
        plain, mass = dataclasses.replace(table, columns=columns), weighed.mass(self.weighting_)
        problem, groups = self._weighted_problem(plain, mass)
        selecting = self._select_columns(problem) if table.absorb is None else None
        if selecting is not None:
            problem, groups = self._weighted_problem(plain, mass)
        if groups is not None and count_clusters(groups) < 2:
            raise checks.InputError(
                "all rows are of one cluster by groups, which leaves nothing to compare it with; give labels of two "
                "clusters or more, or leave groups out"
            )
        table = self._parted(table)
        copied = check_outcome(self.schema_.codings, table)
        levels = None if table.absorb is None else self._read_levels(table, len(problem.source.table["y"]))
        self.clusters_ = None if groups is None else count_clusters(groups)
        refusal = self._fit_linear(table, groups, weighed.weights)
        self.unidentified_ = unidentified(self.schema_.codings, table, self.linear_)
        self._factors = 0 if levels is None else levels.shape[1]
        mean = float(np.average(problem.source.table["y"], weights=problem.source.table.get("mass")))
        problem, labels = _mixed(problem, groups, levels)
        self._solve_problem(problem, groups=labels)
        self._add_warnings([*weighed.warnings, *copied, *refusal, *self._identification_warnings()])
        if selecting is not None:
            self.selection_ = Selection((selecting, *self.selection_.steps))
        if is_path(table):
            self.selection_ = Selection((*self.selection_.steps, _path_choice(labels)))
        if levels is not None:
            self._leave_levels(problem, mean)
        judged = problem if levels is None else within_levels(problem, self._factors)
        self._judge_instruments(judged, labels, FirstStage())
        problem = problem if levels is None else without_codes(problem, self._factors)
        self._unstandardise()
        self._sample(problem)
        self._widen_for_weak_instruments(problem)
        self._read_slopes()

    def _fit_more(self, table: Table) -> None:
        self._check_columns(table.X)
        if self.absorbed_:
            raise checks.InputError(
                "partial_fit cannot add rows to absorbed effects, which are of all rows at once; fit to all rows"
            )
        weighed = weigh(table, self.weighting, self.weighting_)
        self.weighting_, rescaled = join(self.weighting_, weighed.weighting)
        problem, labels = _mixed(*self._weighted_problem(weighed.table, weighed.mass(self.weighting_)))
        before = self.diagnostics_
        self.linear_ = None  # it needs all rows at once
        self._extend_solution(problem, groups=labels, rescaled=rescaled)
        self._judge_instruments(problem, labels, FirstStage(before.first_stage, before.first_stage_rows))
        self._unstandardise()
        if self.sample_ is not None:
            self._sample(problem)
        self._read_slopes()

    def _select_columns(self, problem: Any) -> Choice | None:
        """Leave out controls and instruments that say nothing, where columns are many for the rows; in words."""
        x, y, z = (problem.source.table[name] for name in ("x", "y", "z"))
        width = self.coding_.dimension
        count = 0 if self.instruments_ is None else self.instruments_.dimension
        columns = count + x.shape[1] - width
        if (self.primal, self.dual) != ("auto", "auto") or columns == 0 or not is_wide(columns, len(y)):
            return None
        told = [place - width for each in self._linear_columns() for place in each.coordinates if place >= width]
        controls, instruments = select_columns(y, x[:, :width], x[:, width:], z[:, :count])
        controls[told] = True
        masks = {"controls": controls, "instruments": instruments}
        codings = {
            role: coding.using(masks[role]) if role in masks else coding
            for role, coding in self.schema_.codings.items()
        }
        self.schema_ = dataclasses.replace(self.schema_, codings=codings)
        kept = {role: [own.name for own in codings[role].columns if own.width] for role in masks if role in codings}
        words = (
            f"{len(names)} of {len(codings[role].columns)} {role} ({checks.some(names) if names else 'none'})"
            for role, names in kept.items()
        )
        return Choice("columns that matter", f"{' and '.join(words)}, by lassos, since columns are many for the rows")

    def _solve(self, seed: int, problem: Any, **known: Any) -> Result:
        """With f linear in the columns that were named; a straight line, where these are all."""
        coordinates = tuple(place for each in self._linear_columns() for place in each.coordinates)
        if coordinates and len(coordinates) == problem.source.table["x"].shape[1] - self._factors:
            return auto(seed, problem, primal="linear", dual="linear", form=Form((), self._factors), **known)
        form = Form(coordinates, self._factors)
        return auto(seed, problem, primal=self.primal, dual=self.dual, solver=self.solver, form=form, **known)

    def _linear_columns(self) -> list[LinearColumn]:
        return linear_columns(self.linear, self._codings(), settings=(self.solver, self.primal, self.dual))

    def _read_slopes(self) -> None:
        """`coef_`, its standard errors and names, of the columns that f was told to be linear in."""
        if self._is_line or not isinstance(self.uncertainty_, Spread):
            return
        slopes = slopes_of(self.uncertainty_, self._linear_columns())
        if slopes is not None:
            self.coef_names_, self.coef_ = slopes.names, slopes.values
            self.coef_stderr_ = np.sqrt(np.diag(slopes.covariance))

    def _read_levels(self, table: Table, rows: int) -> np.ndarray:
        """The numbers (n, factors) of the levels whose effects are absorbed; refused where they leave nothing."""
        spaces = {self.primal, self.dual} if isinstance(self.primal, str) and isinstance(self.dual, str) else {None}
        if spaces not in ({"auto"}, {"linear"}) or self.solver not in ("auto", "closed-form"):
            raise checks.InputError(
                "absorb= takes the spaces that are chosen, or lines (primal='linear', dual='linear'), in closed form; "
                "leave out other spaces and solvers, or give the factors as controls"
            )
        levels, names = absorbed_levels(table.absorb, rows)
        self.absorbed_ = names
        return levels

    def _leave_levels(self, problem: Any, mean: float) -> None:
        """f, the witness and their errors at points without levels; f has the mean of y over the rows."""
        x, z = (problem.source.table[name][:, : -self._factors] for name in ("x", "z"))
        if self.uncertainty_ is None or self.witness_ is None:
            raise RuntimeError("a closed form has errors")
        mass = masses(problem.source.table)
        self.uncertainty_ = centred(self.uncertainty_, x, mass, mean)
        self.witness_ = centred(self.witness_, z, mass, 0.0)
        self.function_ = self.uncertainty_.function
        self.dual_ = dataclasses.replace(self.dual_, function=self.witness_.function)
        self.solution_ = None

    def _fit_linear(self, table: Table, groups: np.ndarray | None, weights: np.ndarray | None) -> list[str]:
        """Keep two-stage least squares of the same columns; say why where these do not identify it.

        Where a straight line is all that was asked for, there is nothing else to answer with.
        """
        try:
            self.linear_ = fit_linear(self.schema_.codings, table, groups, weights, library=self.library_)
        except checks.InputError as refusal:
            if self.instruments_ is None:
                return []
            if self.primal == "linear" and self.dual == "linear":
                raise
            return [f"a straight line in these columns is not identified, and hardly any other f: {refusal}"]
        return []

    def _identification_warnings(self) -> list[str]:
        """What cannot be told, and which columns say what others do."""
        linear = self.linear_
        found = [f"nothing about f is answerable: {self.unidentified_}"] if self.unidentified_ else []
        if linear is not None and linear.dropped:
            found.append(
                f"{'; '.join(linear.dropped)}; what such columns do one by one, others as they are, no data can tell"
            )
        return found

    def _widen_for_weak_instruments(self, problem: Any) -> None:
        """Let intervals be as wide as Anderson and Rubin's set where instruments are weak and f is no straight line."""
        if self._is_line or self.linear_ is None or not is_weak(self.linear_) or self.coding_.dimension != 1:
            return
        if isinstance(self.uncertainty_, Spread) and self.sample_ is not None:
            (column,), size = self.coding_.columns, float(np.std(problem.source.table["y"]))
            scale = 1.0 if column.levels else column.scale
            spread, warning = widen(self.uncertainty_, self.linear_, self.sample_.places, scale=scale, size=size)
            self.uncertainty_ = spread
            self._add_warnings([warning])

    def _sample(self, problem: Any) -> None:
        """Keep some of the problem's rows besides earlier ones."""
        rows, mass = problem.source.table["x"], problem.source.table.get("mass")
        weights = None if mass is None else mass / self.weighting_.factor
        self.sample_ = RowSample.of(rows, rows, seed=self._seed(), before=self.sample_, weights=weights)

    def _judge_instruments(self, problem: Any, groups: Any, before: FirstStage) -> None:
        """Note how well the instruments predict X: on these rows, unless more were looked at before."""
        if self.instruments_ is None:
            return
        stage = before
        if min(problem.source.rows, LOOKED_AT) > before.rows:
            names, width = _coordinates(self.coding_), self.instruments_.dimension
            found = first_stage(problem, names, width, groups=groups, seed=self._seed())
            stage = found if found.shares else before
        notes = first_stage_warnings(stage, self.linear_)
        self._add_warnings(notes, first_stage=stage.shares, first_stage_rows=stage.rows)
        for note in notes if stage is not before else ():
            warnings.warn(note, ReliabilityWarning, stacklevel=4)

    def _fit_codings(self, table: Table) -> dict[str, Coding]:
        """The codings of all tables. Names of categories may be those of any table; places and masks are of X."""
        asked = self.categorical_features
        if self.controls is not None:
            asked = split_categories(asked, self.columns_of_x_)
        named = [each for each in ([] if asked is None or isinstance(asked, str) else asked) if isinstance(each, str)]

        codings = {}
        for role in ("controls", "instruments"):
            if (given := getattr(table, role)) is not None:
                categories = [name for name in column_names(given, role) if name in named]
                codings[role] = Coding.fit(role, given, categorical=categories)
        own, beside = column_names(table.X, "X"), codings["controls"].names if "controls" in codings else []
        shared = [name for name in own if name in beside]
        if shared:
            raise checks.InputError(
                f"X and controls both have a column {shared[0]}; leave it out of one, or give it another name there"
            )
        elsewhere = {name for coding in codings.values() for name in coding.names}
        if named:
            asked = [each for each in asked if each in own or each not in elsewhere]
        return codings | {"X": Coding.fit("X", table.X, categorical=asked)}

    def _decoded(self, points: np.ndarray) -> tuple[Any, ...]:
        """X with the controls beside it at coded points: an array, or a dictionary where there are categories."""
        tables = super()._decoded(points)
        if len(tables) == 1:
            return tables
        found: dict[str, np.ndarray] = {}
        for coding, table in zip(self._codings(), tables, strict=True):
            found |= table if isinstance(table, dict) else dict(zip(coding.names, table.T, strict=True))
        if self.controls is not None:
            found = {name: found[name] for name in self.columns_of_x_}
        return (found if any(isinstance(table, dict) for table in tables) else np.stack([*found.values()], axis=1),)

    @property
    def _is_line(self) -> bool:
        return "intercept_" in vars(self)

    def _share_outside(self, question: Question) -> float:
        if self._is_line:  # which is the same everywhere: what strays in other ways alone is outside
            return share_of(question.flat()[1], question.strays() > 0)
        return super()._share_outside(question)

    @property
    def _measure(self) -> str:
        change = "change of the mean of" if self.instruments_ is None else "effect on"
        return f"{change} {self.outcome_}"

    def _first_effect(self, move: Move, answer: Answer) -> Answer:
        """Of a number with more than two values the mean derivative, which has one error whoever asks for it."""
        if move.note != QUARTILES or self.uncertainty_ is None or self.sample_ is None:
            return super()._first_effect(move, answer)
        name = move.place.column.name
        found = self.ask(self.mean_derivative(name))
        by = "with" if self.instruments_ is None else "of"
        return dataclasses.replace(found, question=f"the average {self._measure} {by} one more unit of {name}")

    def _findings(self, headline: Answer) -> Findings:
        findings, linear = super()._findings(headline), self.linear_
        strength = self.diagnostics_.strengths()
        facts = {"instruments": self.instruments_ is not None, "first_stage": dict(self.diagnostics_.first_stage)}
        facts = {
            **findings.facts,
            **facts,
            "strength": strength,
            "linear": None if linear is None else linear.to_dict(),
        }
        remarks = [] if self.instruments_ is not None else [NO_INSTRUMENTS]
        if linear is not None and self.instruments_ is not None:
            strength = [*(linear.sentences() if self._is_line else [_line_beside(linear)]), *strength]
        return findings._replace(facts=facts, remarks=(*remarks, *strength, *findings.remarks))

    def _rows_of(self, X: Any, controls: Any, *, repeated: bool = False) -> tuple[np.ndarray, np.ndarray]:
        self._check_columns(X)
        X, controls = self._apart(X, controls)
        _check_given(self.controls_, controls)
        parts = [coding.locate(table) for coding, table in zip(self._codings(), (X, controls), strict=False)]
        if repeated and len(parts[0][0]) == 1:
            (point, away), count = parts[0], len(parts[-1][0])
            parts[0] = np.repeat(point, count, axis=0), np.repeat(away, count)
        counts = [len(points) for points, _ in parts]
        if len({*counts}) > 1:
            raise checks.InputError(f"X has {counts[0]} rows, but controls {counts[1]}; give one a sample")
        return np.concatenate([points for points, _ in parts], axis=1), np.sum([away for _, away in parts], axis=0)

    def _mean_at(
        self, words: str, rows: np.ndarray, shares: np.ndarray, *, strays: np.ndarray, groups: Any, mass: Any = None
    ) -> Question:
        return Question.mean(words, rows, shares, groups, strays, mass)

    def _locate(self, table: Table) -> tuple[np.ndarray, np.ndarray]:
        return self._rows_of(table.X, table.controls)

    def _contexts(self, table: Table) -> np.ndarray:
        """Instruments, or without them X, which then stands in their place, with the controls beside."""
        coding = self._coding() if self.instruments_ is None else self.instruments_
        return _beside(coding.encode(table.instruments), self.controls_, table.controls)

    def _problem(self, table: Table) -> tuple[Any, np.ndarray | None]:
        weighed = weigh(table, self.weighting)
        return self._weighted_problem(weighed.table, weighed.mass(weighed.weighting))

    def _code(self, table: Table) -> None:
        if self.controls is not None:
            self.columns_of_x_ = column_names(table.X, "X")
        super()._code(self._parted(table))

    @property
    def _named_inputs(self) -> dict[str, list[str]] | None:
        return None if self.controls is None else {"x": self.columns_of_x_}

    def _parted(self, table: Table) -> Table:
        """The table with controls apart from X."""
        X, controls = self._apart(table.X, table.controls)
        return dataclasses.replace(table, columns={**table.columns, **Table.of(X=X, controls=controls).columns})

    def _apart(self, X: Any, controls: Any) -> tuple[Any, Any]:
        """X and controls, which may be columns of X."""
        if self.controls is None:
            return X, controls
        if controls is not None:
            raise checks.InputError(
                f"controls are columns of X by the parameter controls={self.controls!r}, and were given besides; give "
                "all of them in one of the two places"
            )
        return split_controls(X, self.controls)

    def _weighted_problem(self, table: Table, mass: np.ndarray | None) -> tuple[Any, np.ndarray | None]:
        """The problem of the coded data, whose rows count by their mass, and the number of each row's group."""
        table = self._parted(table)
        x = self.coding_.encode(table.X)
        if (table.instruments is None) != (self.instruments_ is None):
            raise checks.InputError("instruments must be given here as in the fit: in both or in neither")
        z = x if self.instruments_ is None else self.instruments_.encode(table.instruments)
        for name, part in (("instruments", z), ("controls", table.controls)):
            if part is not None and (count := count_rows(part)) != len(x):
                raise checks.InputError(f"X has {len(x)} rows, but {name} {count}; give one a sample")
        x, z = (_beside(part, self.controls_, table.controls) for part in (x, z))
        y = target(table.y, len(x))
        if (table.absorb is None) != (not self.absorbed_):
            raise checks.InputError("absorb must be given here as in the fit: in both or in neither")
        if self.absorbed_:  # compared within levels alone
            y = without_effects(y, values(self.function_, x), table.absorb, mass)
        columns = {"x": x, "y": y, "z": z}
        problem = InstrumentalVariables(Dataset(**columns, **({} if mass is None else {"mass": mass})))
        if table.groups is not None:
            return problem, cluster_numbers("groups", table.groups, len(x))[0]
        return problem, None if table.time is None else path_blocks(time_numbers(table.time, len(x)))

    @property
    def _freedom(self) -> float | None:
        known = [] if self.clusters_ is None or self._is_line else [self.clusters_ - 1.0]
        known += [] if self.linear_ is None or np.isinf(self.linear_.freedom) else [self.linear_.freedom]
        return min(known, default=None)  # none where there are no clusters, and a line says nothing

    def _unstandardise(self) -> None:
        """`coef_`, its standard errors and `intercept_` in the columns' own units, where f is a straight line.

        Errors are then those of `linear_`, so that no number has two.
        """
        features = getattr(self.function_, "features", None)
        inner = getattr(features, "function", features)
        inner = inner.features if isinstance(inner, CentredMap) else inner
        if not isinstance(inner, AffineMap):
            return
        codings, linear = self._codings(), self.linear_
        if self.absorbed_:
            if linear is not None:
                self._take_line(linear)
            return
        columns = [column for coding in codings for column in coding.columns]
        if linear is not None:
            self._keep_line(linear)
        if any(column.levels for column in columns):
            if linear is not None:
                self.coef_names_, self.coef_ = linear.names[:-1], linear.values[:-1]
                self.coef_stderr_ = np.sqrt(np.diag(linear.covariance))[:-1]
                self.intercept_ = float(linear.values[-1])
            return
        widths = np.cumsum([0, *(coding.dimension for coding in codings)])
        starts = [begin + start for begin, coding in zip(widths, codings, strict=False) for start in coding.starts]

        def in_units(slopes: np.ndarray) -> np.ndarray:
            """A number for each column from one for each coordinate; 0 for those that are left out."""
            pairs = zip(columns, starts, strict=True)
            return np.array([slopes[start] / column.scale if column.width else 0.0 for column, start in pairs])

        first, *slopes = np.asarray(self.function_.weights, dtype=np.float64)
        self.coef_ = in_units(np.asarray(slopes))
        means = np.array([column.mean if column.width else 0.0 for column in columns])
        self.intercept_ = float(first - self.coef_ @ means)
        if self.uncertainty_ is None:
            return
        self.coef_stderr_ = in_units(np.linalg.norm(self.uncertainty_.root, axis=1)[1:])
        if linear is not None:
            own = [column.name for column in columns if column.width and column.name not in linear.names]
            self.coef_stderr_[[column.name in own for column in columns]] = np.nan  # left out

    def _keep_line(self, linear: LinearResults) -> None:
        """Take errors from the linear model of the same columns, and f too where that left out collinear ones."""
        weights, root = coded_line(linear, self._codings())
        if self.uncertainty_ is None or len(root) != len(self.uncertainty_.weights):
            return
        self.uncertainty_ = dataclasses.replace(self.uncertainty_, root=root)
        if linear.dropped:
            self.function_ = dataclasses.replace(self.function_, weights=weights)
            self.uncertainty_ = dataclasses.replace(self.uncertainty_, weights=weights)

    def _take_line(self, linear: LinearResults) -> None:
        """f as the line that was fitted within levels, with its errors."""
        self.coef_names_, self.coef_ = linear.names, linear.values
        self.coef_stderr_ = np.sqrt(np.diag(linear.covariance))
        slopes, root = (each[1:] for each in coded_line(linear, self._codings()))
        spread = self.uncertainty_
        self.intercept_ = line_constant(linear, self._codings(), self.function_, slopes)
        if spread is not None and len(root) + 2 == len(spread.weights):
            self.uncertainty_ = dataclasses.replace(spread, root=np.concatenate([np.zeros((2, root.shape[1])), root]))


def _mixed(problem: Any, groups: np.ndarray | None, levels: np.ndarray | None = None) -> tuple[Any, np.ndarray | None]:
    """The problem in an order that is not the table's, since models are chosen by folds of rows; and its groups.

    Levels whose effects are absorbed become a part of it.
    """
    columns = problem.source.table
    names = "yxz" if levels is None else "xzy"  # effects of levels, which may be anything, are a part of y
    beside = [] if groups is None else [groups]
    beside += [columns["mass"]] if "mass" in columns else []
    order = order_at_random(*(columns[name] for name in names), *beside)
    mixed = InstrumentalVariables(Dataset(**{name: column[order] for name, column in columns.items()}))
    if levels is not None:
        mixed = with_levels(mixed, by_appearance(levels[order]))
    return mixed, None if groups is None else by_appearance(groups[order])


def _joined_names(coding: Coding) -> str:
    """The names of columns in a sentence; none where they have none, or are many."""
    names = [column.name for column in coding.columns]
    return " and ".join(names) if coding.named and len(names) <= FEW_NAMES else ""


def _path_choice(blocks: np.ndarray | None) -> Choice:
    """How rows of one path are taken to depend on each other, in words."""
    count = 0 if blocks is None else len(np.unique(blocks))
    return Choice("rows", f"one path in time: noise may go on over any of its {count} blocks, by which errors are")


def _line_beside(linear: LinearResults) -> str:
    """What a straight line finds, in a sentence."""
    strength = {test.column: f" (first-stage F {format_short(test.statistic)})" for test in linear.first_stage}
    pairs = [(name, format_estimate(linear.params[name], linear.std_errors[name])) for name in linear.endogenous]
    slopes = ", ".join(f"{value} for {name}{strength.get(name, '')}" for name, value in pairs)
    return f"Two-stage least squares, for which f is a straight line, has a slope of {slopes}."


def _coordinates(coding: Coding) -> list[str]:
    """A name for each coordinate; none where every column is constant."""
    names = []
    for column in coding.columns:
        if column.width:
            names += [column.name] if column.width == 1 else [f"{column.name}={level}" for level in column.levels]
    return names


def _beside(points: np.ndarray, coding: Coding | None, controls: Any) -> np.ndarray:
    _check_given(coding, controls)
    return points if coding is None else np.concatenate([points, coding.encode(controls)], axis=1)


def _check_given(coding: Coding | None, controls: Any) -> None:
    if (coding is None) != (controls is None):
        raise checks.InputError("controls must be given here as in the fit: in both or in neither")


NO_INSTRUMENTS = "Without instruments this is plain regression: prediction, not the effect of changing x."
REGRESSION = dataclasses.replace(
    IVRegressor.task,
    title="Regression",
    question="What is y on average, given x? No instruments were given, so that the answer is about prediction: where "
    "hidden causes move both x and y, it is not the effect of changing x.",
    function="the regression function f(x): the mean of y given x",
    equation="given x, y and f(x) must agree on average",
    context=("X", "controls"),
)
