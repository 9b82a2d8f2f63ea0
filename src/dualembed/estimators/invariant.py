"""Prediction from variable or noisy inputs: y is explained by the mean of f over variations z of x."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from dualembed import checks, losses, samplers
from dualembed.answers import Answer, Question, Task
from dualembed.answers.question import values
from dualembed.data.coding import Coding
from dualembed.data.frames import (
    column_names,
    columns_of,
    describe_rows,
    group_numbers,
    is_missing,
    order_at_random,
    target,
)
from dualembed.data.table import Table
from dualembed.estimators.answering import largest_quantile
from dualembed.estimators.base import Estimator, require_2d
from dualembed.estimators.effects import Effects
from dualembed.estimators.learning import RowSample
from dualembed.estimators.signatures import takes_inputs
from dualembed.estimators.weighting import COUNTS, Weighting, join, weigh
from dualembed.linear.moment_fit import Spread
from dualembed.problems import Invariance
from dualembed.solvers.base import SolverLike
from dualembed.sources import Dataset
from dualembed.spaces.base import SpaceLike
from dualembed.spaces.features import evaluate_features, to_numpy

NOISE = 0.1  # of "noise", in standard deviations of each column
SAMPLERS = ("noise", "rotation-2d", "rotation-3d")
CLASSIFICATION = ("logistic", "squared-hinge", "smoothed-hinge")


class Samples(NamedTuple):
    """Rows x (n, d), what the other side of their equations is (n,), and their groups and masses, if any."""

    x: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None = None
    mass: np.ndarray | None = None


class Invariant(Estimator):
    """What regression and classification under variations share."""

    sampler: Any
    draws: int
    test_draws: int
    weighting: str
    weighting_: Weighting = COUNTS  # what weights of earlier rows meant

    def _fit_first(self, table: Table) -> None:
        require_2d(table.X)
        self._set_feature_names(table.X)
        if table.y is None:
            raise checks.InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        checks.count("draws", self.draws)
        checks.count("test_draws", self.test_draws)
        weighed = weigh(table, self.weighting)
        self.weighting_, table = weighed.weighting, weighed.table
        self._code(table)
        samples = self._samples(table, weighed.mass(self.weighting_))
        problem = self._make_problem(samples, seed=self.seed_)
        self._solve_problem(problem, groups=samples.groups)
        self._add_warnings(weighed.warnings)
        self._keep_rows(samples, problem)

    def _fit_more(self, table: Table) -> None:
        self._check_columns(table.X)
        weighed = weigh(table, self.weighting, self.weighting_)
        self.weighting_, rescaled = join(self.weighting_, weighed.weighting)
        samples = self._samples(weighed.table, weighed.mass(self.weighting_))
        problem = self._make_problem(samples, seed=self.seed_ + 3 + self.diagnostics_.rows)
        self._extend_solution(problem, groups=samples.groups, rescaled=rescaled)
        if self.sample_ is not None:
            self._keep_rows(samples, problem)

    @property
    def coding_(self) -> Coding:
        """How variations of X are coded, which are what f depends on."""
        return self.schema_.codings["variations"]

    @property
    def inputs_(self) -> Coding:
        """How X itself is coded."""
        return self.schema_.codings["X"]

    def _fit_codings(self, table: Table) -> dict[str, Coding]:
        x = self._numbers(table.X)
        x = x[order_at_random(x)]  # as it is varied
        self.seed_ = self._seed()
        self.variation_ = _sampler(self.sampler, x)
        drawn = samplers.draws(self.seed_, self.variation_, x, self.draws)
        varied = Coding.fit("variations", drawn.reshape(-1, drawn.shape[2]))
        return {"X": Coding.fit("X", x), "variations": varied}

    def _targets(self, y: Any, rows: int) -> np.ndarray:
        """What the equation's other side is, (n,)."""
        return target(y, rows)

    def _loss(self) -> losses.Loss:
        return losses.Square()

    def _problem(self, table: Table) -> tuple[Any, np.ndarray | None]:
        """The problem of rows with variations that no fit has seen, and the number of each row's group."""
        if hasattr(self, "function_"):
            self._check_columns(table.X)
        weighed = weigh(table, self.weighting)
        samples = self._samples(weighed.table, weighed.mass(weighed.weighting))
        return self._make_problem(samples, seed=self.seed_ + 2), samples.groups

    def _samples(self, table: Table, mass: np.ndarray | None) -> Samples:
        """The rows in an order that is not the table's, since they vary by their place."""
        x = self._numbers(table.X)
        y = self._targets(table.y, len(x))
        groups = None if table.groups is None else group_numbers("groups", table.groups, len(x))
        order = order_at_random(x, y, *(each for each in (groups, mass) if each is not None))
        return Samples(x[order], y[order], *(None if each is None else each[order] for each in (groups, mass)))

    def _keep_rows(self, samples: Samples, problem: Any) -> None:
        """Keep what questions about the data need: some rows x and a variation of each, in f's coordinates."""
        points, mass = problem.source.table["z"][:, 0], samples.mass
        weights = None if mass is None else mass / self.weighting_.factor
        self.sample_ = RowSample.of(samples.x, points, seed=self.seed_, before=self.sample_, weights=weights)

    def _main_question(self) -> Question:
        """The prediction at a typical row: the mean of f over variations of it."""
        if self.sample_ is None:
            return super()._main_question()
        row = self.sample_.rows[[self.sample_.typical()]]
        words = f"the prediction at {self._describe_typical(self.coding_.encode(row))}"
        return self._mean_at(words, row[:, None], np.ones((1, 1)), strays=np.zeros((1, 1)), groups=None)

    def _make_problem(self, samples: Samples, *, seed: int) -> Any:
        drawn = samplers.draws(seed, self.variation_, samples.x, self.draws)
        coded = self.coding_.encode(drawn.reshape(-1, drawn.shape[2]))
        columns = {"x": self.inputs_.encode(samples.x), "y": samples.y, "z": coded.reshape(*drawn.shape[:2], -1)}
        columns |= {} if samples.mass is None else {"mass": samples.mass}
        return Invariance(Dataset(**columns), self._loss())

    def function(self, X: Any) -> np.ndarray:
        """The function f itself at X, not averaged over variations.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.

        Returns
        -------
        array of shape (n,)
            Values of f.
        """
        self._check_columns(X)
        return self._predicted(self.coding_.encode(self._numbers(X)))

    @takes_inputs
    def at(self, table: Table) -> Question:
        """The question of the mean prediction over these rows; of the prediction itself, if it is one row.

        Parameters
        ----------
        table : Table
            What f depends on.

        Returns
        -------
        Question
            For `ask`; questions add and subtract.
        """
        rows, strays = self._rows_of(table.X, None)
        words = "f over variations of the given rows"
        return self._mean_at(words, rows[:, None], np.ones((len(rows), 1)), strays=strays[:, None], groups=None)

    def interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Intervals of the prediction, each covering it at its row with probability `level`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        level : float, default=0.95
            Probability, between 0 and 1.

        Returns
        -------
        lower : array of shape (n,)
            Lower ends.
        upper : array of shape (n,)
            Upper ends.
        """
        found, std = self._mean(X, return_std=True)
        half = self._quantile(level) * std
        return found - half, found + half

    def band(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """A band that covers the prediction at all these rows at once with probability `level`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        level : float, default=0.95
            Probability, between 0 and 1.

        Returns
        -------
        lower : array of shape (n,)
            Lower ends.
        upper : array of shape (n,)
            Upper ends.
        """
        found, std = self._mean(X, return_std=True)
        points = self._varied(self._numbers(X))
        reach = max(largest_quantile(_moves_of_means(spread, points), level) for spread in self._spreads())
        half = max(reach, self._quantile(level)) * std
        return found - half, found + half

    def _codings(self) -> list[Coding]:
        """That of X, under the names that X had."""
        return [self._named_as_x(self.inputs_)]

    def _point_codings(self) -> list[Coding]:
        """That of variations of X, under the names that X had."""
        return [self._named_as_x(self.coding_)]

    def _context_codings(self) -> list[Coding]:
        return self._codings()

    def _named_as_x(self, coding: Coding) -> Coding:
        names = getattr(self, "feature_names_in_", self.inputs_.names)
        columns = [dataclasses.replace(own, name=str(name)) for own, name in zip(coding.columns, names, strict=True)]
        return dataclasses.replace(coding, role="X", columns=tuple(columns))

    def _contexts(self, table: Table) -> np.ndarray:
        self._check_columns(table.X)
        return self.inputs_.encode(self._numbers(table.X))

    def _decoded(self, points: np.ndarray) -> tuple[Any, ...]:
        return (self.coding_.decode(points),)

    def _rows_of(self, X: Any, controls: Any, *, repeated: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(rows as numbers (n, d), how far each strays from what the fit could learn of (n,))."""
        self._check_columns(X)
        x = self._numbers(X)
        return x, self.inputs_.locate(x)[1]

    def _mean_at(
        self, words: str, rows: np.ndarray, shares: np.ndarray, *, strays: np.ndarray, groups: Any, mass: Any = None
    ) -> Question:
        """The mean over rows (n, J, d) of Σ_j shares_j times the mean of f over variations of each."""
        count, sides, width = rows.shape
        drawn = self._test_draws(rows.reshape(-1, width))
        points = self.coding_.encode(drawn.reshape(-1, width)).reshape(count, sides * self.test_draws, -1)
        repeated = [np.repeat(each, self.test_draws, axis=1) for each in (shares / self.test_draws, strays)]
        return Question.mean(words, points, repeated[0], groups, repeated[1], mass)

    def _mean(self, X: Any, *, return_std: bool = False) -> Any:
        """The mean of f over `test_draws` variations, the same for every row, so that rows do not touch each other."""
        x, strays = self._rows_of(X, None)
        points = self._varied(x)
        flat = points.reshape(-1, points.shape[2])
        found = values(self.function_, flat).reshape(points.shape[:2]).mean(axis=1)
        if not return_std:
            return found
        moves = [_moves_of_means(spread, points) for spread in self._spreads()]
        std = np.max([np.sqrt(np.sum(each**2, axis=1)) for each in moves], axis=0)
        return found, np.hypot(std, self._size() * strays) if np.any(strays) else std

    def _varied(self, x: np.ndarray) -> np.ndarray:
        """Coded variations (n, test_draws, d) of rows x, that predictions are means over."""
        drawn = self._test_draws(x)
        return self.coding_.encode(drawn.reshape(-1, drawn.shape[2])).reshape(*drawn.shape[:2], -1)

    def _test_draws(self, x: np.ndarray) -> np.ndarray:
        orbit = samplers.Orbit(self.seed_ + 1, self.variation_, self.test_draws)
        tiles = np.array_split(x, 1 + len(x) // 1024)
        with jax.enable_x64(True):  # x has its own units, and may need more than seven digits
            return np.concatenate([np.asarray(orbit(tile), dtype=np.float64) for tile in tiles])

    def _numbers(self, X: Any) -> np.ndarray:
        """X as an array of numbers: what samplers vary."""
        _, columns = columns_of(X, "X")
        for name, column in zip(column_names(X, "X"), columns, strict=True):
            if column.dtype.kind != "f":
                raise checks.InputError(f"column {name} is no number, and samplers vary numbers; encode or drop it")
        return np.stack(columns, axis=1)


class InvariantRegressor(RegressorMixin, Invariant, Effects):
    """Regression y = E[f(z) | x] + noise, z a random variation of x under which the prediction should not change.

    Parameters
    ----------
    sampler : callable or {"noise", "rotation-2d", "rotation-3d"}
        Function (key, x) -> one draw z of p(z | x), such as samplers.AdditiveNoise(0.1); "noise" is a tenth of each
        column's deviation, rotations are of clouds of points, flattened.
    draws : int, default=10
        Variations of each row to learn from.
    test_draws : int, default=20
        Variations of a row that a prediction is the mean of.
    solver : {"auto", "closed-form", "embedding-sgd"} or Solver, default="auto"
        How the saddle is solved.
    primal : {"auto", "linear"} or FunctionSpace, default="auto"
        Space of f, in standardised columns; by default chosen from the data.
    dual : {"auto", "linear"} or FunctionSpace, default="auto"
        Space of the witness, likewise.
    weighting : {"auto", "frequency", "survey"}, default="auto"
        What `sample_weight` means: how many equal rows a row stands for, whole numbers, or how much it counts, as
        survey (probability) weights do, whose scale says nothing. "auto" takes whole numbers for counts.
    random_state : int or RandomState, default=0
        Seed of variations and of the choice of the model.

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

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(500, 1))
    >>> model = InvariantRegressor("noise", primal="linear", dual="linear").fit(X, 2 * X[:, 0])
    >>> bool(np.abs(model.predict([[0.5], [-0.5]]) - [1, -1]).max() < 0.05)
    True
    """

    task = Task(
        "invariant-regression",
        "y by the mean of f over variations of x",
        title="Regression under variations",
        question="What is y, given an x that might as well have come out a little different (noisy, turned, shifted)? "
        "The prediction is the mean of one function over such variations of x.",
        function="the function f, whose mean over variations of x predicts y",
        equation="given x, the mean of f over its variations must agree with y on average",
        symbol="f(x)",
        noisy_error=True,
        needs=("X", "y"),
        takes=("groups", "sample_weight"),
        inputs=("X",),
        context=("X",),
    )

    _moves_coded = False

    def __init__(
        self,
        sampler: Any,
        draws: int = 10,
        *,
        test_draws: int = 20,
        solver: SolverLike = "auto",
        primal: SpaceLike = "auto",
        dual: SpaceLike = "auto",
        weighting: str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.sampler = sampler
        self.draws = draws
        self.test_draws = test_draws
        self.solver = solver
        self.primal = primal
        self.dual = dual
        self.weighting = weighting
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None) -> InvariantRegressor:
        """Learn f, with `draws` variations of every row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        y : array-like of shape (n,)
            Targets.
        groups : array-like of shape (n,), optional
            Labels of rows that depend on each other: errors are clustered by them, and folds keep them together.
        sample_weight : array-like of shape (n,), optional
            Weights of rows; what they mean is up to `weighting`. Rows of weight 0 are left out.

        Returns
        -------
        InvariantRegressor
            The fitted estimator.
        """
        return self._fit(Table.of(X=X, y=y, groups=groups, sample_weight=sample_weight))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of f over `test_draws` variations of each row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        return_std : bool, default=False
            Whether to return standard errors, too.

        Returns
        -------
        values : array of shape (n,)
            Predictions.
        errors : array of shape (n,)
            Their standard errors, if `return_std`.
        """
        return self._mean(X, return_std=return_std)

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """The R² of the prediction, as scikit-learn has it.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), optional
            Weights of rows.
        groups : array-like of shape (n,), optional
            Labels of rows that depend on each other, which change nothing here, but the `error` on them.

        Returns
        -------
        float
            The score.
        """
        if groups is not None:
            group_numbers("groups", groups, len(column_or_1d(y)))  # refused as `fit` does
        return float(super().score(X, y, sample_weight=sample_weight))

    def difference(self, X1: Any, X0: Any) -> Question:
        """The question of the mean over rows of the prediction at X1 less that at X0; one row stands for all.

        Parameters
        ----------
        X1 : array-like of shape (n, d)
            Inputs.
        X0 : array-like of shape (n, d)
            Inputs to compare with.

        Returns
        -------
        Question
            For `ask`.
        """
        return self._difference((X1, None), (X0, None))

    def mean_derivative(self, column: Any, X: Any = None) -> Question:
        """The question of the mean over rows of the prediction's derivative along a column, per unit of it.

        It is a difference over a tenth of the column's deviation to either side.

        Parameters
        ----------
        column : str or int
            A column of X.
        X : array-like of shape (n, d), optional
            Rows; by default those of the fit, or a random sample of at most 10,000.

        Returns
        -------
        Question
            For `ask`.
        """
        return self._mean_derivative(column, X, None)

    def average_effect(self, column: Any, treated: float = 1, control: float = 0, X: Any = None) -> Question:
        """The question of the mean over rows of the prediction with the column at `treated` less that at `control`.

        Parameters
        ----------
        column : str or int
            A column of X.
        treated : float, default=1
            A value of the column.
        control : float, default=0
            Another value.
        X : array-like of shape (n, d), optional
            Rows; by default those of the fit, or a random sample of at most 10,000.

        Returns
        -------
        Question
            For `ask`.
        """
        return self._average_effect(column, (treated, control), X, None)

    equation_error = Invariant.error  # as it was called first


class InvariantClassifier(ClassifierMixin, Invariant):
    """Classification P(y | x) by the mean of f over random variations z of x under which the class should not change.

    There are two classes; for more wrap it in sklearn.multiclass.OneVsRestClassifier.

    Parameters
    ----------
    sampler : callable or {"noise", "rotation-2d", "rotation-3d"}
        Function (key, x) -> one draw z of p(z | x), such as samplers.AdditiveNoise(0.1); "noise" is a tenth of each
        column's deviation, rotations are of clouds of points, flattened.
    draws : int, default=10
        Variations of each row to learn from.
    loss : {"logistic", "squared-hinge", "smoothed-hinge"}, default="logistic"
        The loss; probabilities need the logistic one.
    test_draws : int, default=20
        Variations of a row that a prediction is the mean of.
    solver : {"auto", "closed-form", "embedding-sgd"} or Solver, default="auto"
        How the saddle is solved.
    primal : {"auto", "linear"} or FunctionSpace, default="auto"
        Space of f, in standardised columns; by default chosen from the data.
    dual : {"auto", "linear"} or FunctionSpace, default="auto"
        Space of the witness, likewise.
    weighting : {"auto", "frequency", "survey"}, default="auto"
        What `sample_weight` means: how many equal rows a row stands for, whole numbers, or how much it counts, as
        survey (probability) weights do, whose scale says nothing. "auto" takes whole numbers for counts.
    random_state : int or RandomState, default=0
        Seed of variations and of the choice of the model.

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
    classes_ : array of shape (2,)
        The classes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 1))
    >>> model = InvariantClassifier("noise", primal="linear", dual="linear").fit(X, X[:, 0] > 0)
    >>> model.predict([[0.7], [-0.7]]).tolist()
    [True, False]
    """

    task = Task(
        "invariant-classification",
        "one of two classes by the mean of f over variations of x",
        title="Classification under variations",
        question="Which of two classes has an x that might as well have come out a little different (noisy, turned, "
        "shifted)? The decision is by the mean of one function over such variations of x: positive for the second "
        "class.",
        function="the decision function f, whose mean over variations of x decides",
        equation="the mean of f over variations of x must fit the classes",
        symbol="f(x)",
        noun="decision function",
        noisy_error=True,
        needs=("X", "y"),
        takes=("groups", "sample_weight"),
        inputs=("X",),
        context=("X",),
    )

    def __init__(
        self,
        sampler: Any,
        draws: int = 10,
        loss: str = "logistic",
        *,
        test_draws: int = 20,
        solver: SolverLike = "auto",
        primal: SpaceLike = "auto",
        dual: SpaceLike = "auto",
        weighting: str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.sampler = sampler
        self.draws = draws
        self.loss = loss
        self.test_draws = test_draws
        self.solver = solver
        self.primal = primal
        self.dual = dual
        self.weighting = weighting
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None) -> InvariantClassifier:
        """Learn f, with `draws` variations of every row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        y : array-like of shape (n,)
            Two classes.
        groups : array-like of shape (n,), optional
            Labels of rows that depend on each other: errors are clustered by them, and folds keep them together.
        sample_weight : array-like of shape (n,), optional
            Weights of rows; what they mean is up to `weighting`. Rows of weight 0 are left out.

        Returns
        -------
        InvariantClassifier
            The fitted estimator.
        """
        return self._fit(Table.of(X=X, y=y, groups=groups, sample_weight=sample_weight))

    def _targets(self, y: Any, rows: int) -> np.ndarray:
        classes, signs = _classes(y, rows)
        if not hasattr(self, "classes_"):
            self.classes_ = classes
        elif not np.array_equal(classes, self.classes_):
            known, given = (", ".join(map(str, each)) for each in (self.classes_, classes))
            raise checks.InputError(f"y has the classes {given}, but was fitted with {known}; give the same two")
        return signs

    def _loss(self) -> losses.Loss:
        if self.loss not in CLASSIFICATION:
            raise checks.InputError(f"loss must be one of {', '.join(CLASSIFICATION)}, not {self.loss!r}")
        return losses.BY_NAME[self.loss]()

    def decision_function(self, X: Any) -> np.ndarray:
        """The mean of f over `test_draws` variations of each row: positive for the second class.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.

        Returns
        -------
        array of shape (n,)
            Values.
        """
        return self._mean(X)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.

        Returns
        -------
        array of shape (n,)
            Classes.
        """
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(int)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of the classes, of the logistic loss.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.

        Returns
        -------
        array of shape (n, 2)
            Probabilities.
        """
        if self.loss != "logistic":
            raise checks.InputError(f"the {self.loss} loss has no probabilities; use loss='logistic'")
        share = 1 / (1 + np.exp(-np.clip(self.decision_function(X), -500, 500)))
        return np.stack([1 - share, share], axis=1)

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """The share of rows whose class is predicted.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        y : array-like of shape (n,)
            Two classes.
        sample_weight : array-like of shape (n,), optional
            Weights of rows.
        groups : array-like of shape (n,), optional
            Labels of rows that depend on each other, which change nothing here, but the `error` on them.

        Returns
        -------
        float
            The score.
        """
        if groups is not None:
            group_numbers("groups", groups, len(column_or_1d(y)))  # refused as `fit` does
        return float(super().score(X, y, sample_weight=sample_weight))

    def _main_answer(self) -> Answer:
        """The class of a typical row: its probability, or the decision function where there is none."""
        found = super()._main_answer()
        if self.loss != "logistic" or self.sample_ is None:
            return found
        question = found.question.replace("the prediction", f"the probability of class {self.classes_[1]}", 1)
        return Answer(float(1 / (1 + np.exp(-np.clip(found.value, -500, 500)))), math.nan, question=question)

    @property
    def partial_fit(self) -> Any:
        """Not there: of other losses than the square no sums say everything."""
        raise AttributeError("InvariantClassifier has no partial_fit, since no sums of rows say everything of its loss")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _classes(y: Any, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(the two classes, -1 or 1 for each row (n,))."""
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "O" and (bad := is_missing(labels)).any():
        raise checks.InputError(f"y lacks a class in {describe_rows(bad)}; drop those rows")
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise checks.InputError(f"y has one class only, {classes[0]!r}; a classifier needs two")
    if len(classes) > 2:
        raise checks.InputError(
            f"Only binary classification is supported, but y has {len(classes)} classes; wrap the classifier in "
            "sklearn.multiclass.OneVsRestClassifier"
        )
    if len(labels) != rows:
        raise checks.InputError(f"X has {rows} rows, but y {len(labels)}; give one class a row")
    return classes, 2.0 * codes - 1.0


def _sampler(sampler: Any, x: np.ndarray) -> Any:
    """The sampler itself, or the one that a name stands for."""
    if callable(sampler):
        return sampler
    named: dict[str, Any] = {
        "noise": lambda: samplers.AdditiveNoise(np.maximum(NOISE * x.std(axis=0), 1e-12)),
        "rotation-2d": samplers.Rotation2D,
        "rotation-3d": samplers.Rotation3D,
    }
    if not isinstance(sampler, str) or sampler not in named:
        raise checks.InputError(
            f"sampler must be a function (key, x) -> z, or one of {', '.join(SAMPLERS)}, not {sampler!r}"
        )
    return named[sampler]()


def _moves_of_means(spread: Spread, points: np.ndarray) -> np.ndarray:
    """By what the mean of f over each row's points (n, M, d) moves with each of p independent errors, (n, p)."""
    psi = evaluate_features(to_numpy(spread.features), points.reshape(-1, points.shape[2]))
    return np.asarray(psi.reshape(*points.shape[:2], -1).mean(axis=1) @ spread.root)
