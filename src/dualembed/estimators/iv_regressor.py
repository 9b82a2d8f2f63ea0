"""Regression, with instruments where hidden causes move both x and y."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dualembed import checks
from dualembed.answers import Answer, Findings, LinearResults, Question, Task
from dualembed.answers.question import share_of
from dualembed.answers.subgroups import Subgroups
from dualembed.data.coding import Coding
from dualembed.data.frames import target
from dualembed.data.table import Table
from dualembed.estimates import format_estimate, format_short
from dualembed.estimators.absorbing import without_effects
from dualembed.estimators.econometrics import Econometrics
from dualembed.estimators.effect_words import as_controls, by_places, no_such_method, row_effects
from dualembed.estimators.effects import QUARTILES, Move, Over
from dualembed.estimators.iv_fitting import IVFitting
from dualembed.estimators.task_words import worded
from dualembed.estimators.weighting import WEIGHTING
from dualembed.linear.clusters import cluster_numbers
from dualembed.solvers.base import SolverLike
from dualembed.spaces.base import SpaceLike

FEW_NAMES = 3  # that a sentence can hold


class IVRegressor(RegressorMixin, IVFitting):
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
            'survey.csv --formula "lwage ~ [educ ~ nearc4] + exper + black" --sample-weight weight --weighting survey '
            "--out effect.dualembed",
        ),
    )

    _once_positional = ("instruments", "controls", "groups")

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
            If the formula cannot be read.

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
            weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
            y = without_effects(target(y, len(found)), found, absorb, weights)
        if groups is not None:
            cluster_numbers("groups", groups, len(found))  # refused alike, though R² has no use for them
        from sklearn.metrics import r2_score  # which takes its time to import

        return float(r2_score(y, found, sample_weight=sample_weight))

    moment_error = Econometrics.error  # as it was called first

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


def _joined_names(coding: Coding) -> str:
    """The names of columns in a sentence; none where they have none, or are many."""
    names = [column.name for column in coding.columns]
    return " and ".join(names) if coding.named and len(names) <= FEW_NAMES else ""


def _line_beside(linear: LinearResults) -> str:
    """What a straight line finds, in a sentence."""
    strength = {test.column: f" (first-stage F {format_short(test.statistic)})" for test in linear.first_stage}
    pairs = [(name, format_estimate(linear.params[name], linear.std_errors[name])) for name in linear.endogenous]
    slopes = ", ".join(f"{value} for {name}{strength.get(name, '')}" for name, value in pairs)
    return f"Two-stage least squares, for which f is a straight line, has a slope of {slopes}."


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
