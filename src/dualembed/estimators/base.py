"""What every estimator can do: fit, predict, intervals, the witness, honest errors; its answers are in `answering`."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dualembed import checks
from dualembed.answers import Answer, Question, Task
from dualembed.answers.question import values
from dualembed.data.coding import Coding, Schema
from dualembed.data.frames import is_1d, names_of
from dualembed.data.missing import filled, handled
from dualembed.data.roles import ROLES
from dualembed.data.table import Table
from dualembed.estimates import Estimate
from dualembed.estimators.answering import Answering
from dualembed.estimators.registry import register
from dualembed.estimators.signatures import adopt, takes_context, takes_data, takes_inputs
from dualembed.progress import track
from dualembed.report import card
from dualembed.selection import consistency_test, honest_score
from dualembed.selection.consistency import Consistency
from dualembed.threads import on_one_thread, one_thread


class Estimator(Answering):
    """What all estimators share: scikit-learn's conventions, for a problem with a conditional mean.

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
    """

    task: Task  # what the estimator is for; that of a fit is `task_`
    schema_: Schema  # how columns are coded
    n_features_in_: int
    _derives: tuple[str, ...] = ("next_states",)  # what is that of the next row where it is not given
    _headline_answer: Answer | None = None  # of the last fit, so that it is found once

    def __init_subclass__(cls, **options: Any) -> None:
        adopt(cls)  # before scikit-learn reads signatures
        super().__init_subclass__(**options)
        register(cls)

    @property
    def task_(self) -> Task:
        """What the fit is for, where that depends on what it was given."""
        return self.task

    @property
    def coding_(self) -> Coding:
        """How points are coded: those of the first table that f depends on."""
        return self.schema_.codings[self.task.inputs[0]]

    @property
    def columns_(self) -> dict[str, list[str]] | None:
        """The names of columns, by the words for their roles; None unless a table had them all."""
        if not self.schema_.names:
            return None
        return {ROLES[role].word: list(names) for role, names in self.schema_.names.items()}

    @property
    def _named_inputs(self) -> dict[str, list[str]] | None:
        """The names of what `predict` takes, by the words for their roles, where codings do not say it."""
        return None

    def _copy(self, *, fitted: bool) -> Self:
        """The same estimator again, with or without what it was fitted to."""
        copied = object.__new__(type(self))
        kept = {name: value for name, value in vars(self).items() if fitted or not name.endswith("_")}
        copied.__dict__.update(kept, _headline_answer=None, _summary=None)
        return copied

    @contextlib.contextmanager
    def _transaction(self, *, fitted: bool = False) -> Iterator[Self]:
        """A copy to fit in this one's stead, whose state becomes this one's where nothing fails.

        Until then this one is as it was: a policy may ask it, and a failure leaves no mixture of two fits.
        """
        draft = self._copy(fitted=fitted)
        with one_thread():
            yield draft
        self.__dict__ = draft.__dict__

    @takes_data
    def partial_fit(self, table: Table) -> Self:
        """Learn from these rows besides all those of earlier calls; the first call chooses the model.

        Parameters
        ----------
        table : Table
            What `fit` takes.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._transaction(fitted=True) as draft:
            table = draft._weighed(table)
            draft.dropped_ += table.dropped
            if self.__sklearn_is_fitted__():
                draft._fit_more(table)
            else:
                draft._fit_first(table)
            draft._add_warnings(table.warnings)
        return self

    @takes_inputs
    def predict(self, table: Table, return_std: bool = False) -> Any:
        """The function f at each row.

        Parameters
        ----------
        table : Table
            What f depends on.
        return_std : bool, default=False
            Whether to return standard errors, too.

        Returns
        -------
        values : array of shape (n,)
            Values of f.
        errors : array of shape (n,)
            Their standard errors, if `return_std`.
        """
        points, strays = self._locate(table)
        return self._predicted(points, return_std=return_std, strays=strays)

    @takes_inputs
    def interval(self, table: Table, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Intervals of f, each covering it at its row with probability `level`.

        Parameters
        ----------
        table : Table
            What f depends on.
        level : float, default=0.95
            Probability, between 0 and 1.

        Returns
        -------
        lower : array of shape (n,)
            Lower ends.
        upper : array of shape (n,)
            Upper ends.
        """
        points, strays = self._locate(table)
        return self._interval(points, level, strays)

    @takes_inputs
    def band(self, table: Table, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """A band that covers f at all these rows at once with probability `level`.

        Parameters
        ----------
        table : Table
            What f depends on.
        level : float, default=0.95
            Probability, between 0 and 1.

        Returns
        -------
        lower : array of shape (n,)
            Lower ends.
        upper : array of shape (n,)
            Upper ends.
        """
        points, strays = self._locate(table)
        return self._band(points, level, strays)

    @takes_inputs
    def at(self, table: Table) -> Question:
        """The question of the mean of f over these rows; of f itself, if it is one row.

        Parameters
        ----------
        table : Table
            What f depends on.

        Returns
        -------
        Question
            For `ask`; questions add and subtract.
        """
        points, strays = self._locate(table)
        return Question.mean(f"{self.task.symbol} over the given rows", points, strays=strays)

    @takes_data
    @on_one_thread
    def error(self, table: Table) -> Estimate:
        """The honest error E[E[moment(f) - y | context]²] on new rows: how far f is from solving its equation.

        It is without the variance that the square of a one-sample error has, and may be slightly negative.

        Parameters
        ----------
        table : Table
            What `fit` takes.

        Returns
        -------
        Estimate
            The error with its standard error.
        """
        check_is_fitted(self, "function_")
        problem, groups = self._problem(table)
        score = honest_score(problem, lambda points: values(self.function_, points), groups=groups)
        return Estimate(score.value, score.stderr)

    @takes_data
    def score(self, table: Table) -> float:
        """Minus the `error`: higher is better, as model selection wants it.

        Parameters
        ----------
        table : Table
            What `fit` takes.

        Returns
        -------
        float
            The score.
        """
        return -float(self.error(table).value)

    @takes_data
    @on_one_thread
    def consistency_test(self, table: Table, function: Any = None) -> Consistency:
        """Test whether f, or any other function, is consistent with these rows.

        The function must not have been fitted to them.

        Parameters
        ----------
        table : Table
            What `fit` takes.
        function : callable, optional
            A function of what f depends on; by default f. With it no fit is needed.

        Returns
        -------
        Consistency
            A p-value.
        """
        model = self
        if function is None:
            check_is_fitted(self, "function_")
        else:
            model = self._copy(fitted=False)
            model._code(table)
        problem, groups = model._problem(table)
        if function is None:
            return consistency_test(problem, lambda points: values(self.function_, points), groups=groups)
        if not callable(function):
            raise checks.InputError(f"function must be a function of rows as they are given here, not {function!r}")
        return consistency_test(problem, lambda points: function(*model._decoded(points)), groups=groups)

    @takes_context
    def witness(self, table: Table, return_std: bool = False) -> Any:
        """The conditional mean E[moment(f) - y | context]: where the equation still fails, and by how much.

        Parameters
        ----------
        table : Table
            What the witness depends on.
        return_std : bool, default=False
            Whether to return standard errors, too; there are some after a closed form only.

        Returns
        -------
        values : array of shape (n,)
            Values of the witness.
        errors : array of shape (n,)
            Their standard errors, if `return_std`.
        """
        contexts = self._contexts(table)
        if self.witness_ is None:
            witnessed = np.asarray(self.dual_.function(contexts), dtype=np.float64)
            if return_std:
                raise checks.InputError("the witness has standard errors after a closed form only; use solver='auto'")
            return witnessed
        witnessed = self.witness_.values(contexts)
        return (witnessed, self.witness_.std(contexts)) if return_std else witnessed

    def _fit(self, table: Table) -> Self:
        """Learn from the data, or stay as it was where that fails."""
        with self._transaction() as draft, track(None, "Fitting"):
            table = draft._weighed(draft._arranged(table))
            draft.dropped_ = table.dropped
            draft._fit_first(table)
            draft._add_warnings(table.warnings)
        return self

    def _arranged(self, table: Table) -> Table:
        """The table as a fit wants it: rows in the order of time, with what follows, and nothing after ends."""
        return filled(self._completed(table).arranged(self._derives))

    def _handled(self, table: Table, missing: str) -> Table:
        """The table, without rows that lack a value where these are to be dropped."""
        return handled(self._completed(table) if missing == "drop" else table, missing, self._derives)

    def _completed(self, table: Table) -> Table:
        """The table with all that is known of its rows, such as what a policy does there."""
        return table

    def _weighed(self, table: Table) -> Table:
        """The table whose rows count as their weights say, where that is the same for any problem."""
        return table

    @abstractmethod
    def _fit_first(self, table: Table) -> Any:
        """Learn from the first rows."""

    @abstractmethod
    def _fit_more(self, table: Table) -> Any:
        """Learn from more rows."""

    def _code(self, table: Table) -> None:
        """Choose how columns are coded."""
        self.schema_ = Schema(self._fit_codings(table), table.names, table.digest)

    @abstractmethod
    def _fit_codings(self, table: Table) -> dict[str, Coding]:
        """The coding of every table, by role."""

    def _codings(self) -> list[Coding]:
        """Those of f's arguments, whose coordinates stand side by side."""
        return self.schema_.side_by_side(self.task.inputs)

    def _point_codings(self) -> list[Coding]:
        """Those of f's own coordinates; of the same tables as its arguments."""
        return self._codings()

    def _context_codings(self) -> list[Coding]:
        """Those of the witness's arguments, whose coordinates stand side by side."""
        return self.schema_.side_by_side(self.task_.context)

    @abstractmethod
    def _problem(self, table: Table) -> tuple[Any, np.ndarray | None]:
        """(the problem of the coded data, the number of each row's group)."""

    def _locate(self, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """(coded points (n, d) of f, how far each strays from what the fit could learn of (n,))."""
        self._coding()
        pairs = zip(self.task.inputs, self._codings(), strict=False)
        parts = {name: coding.locate(getattr(table, name)) for name, coding in pairs}
        counts = {name: len(points) for name, (points, _) in parts.items()}
        if len({*counts.values()}) > 1:
            both = ", but ".join(f"{count} {name}" for name, count in counts.items())
            raise checks.InputError(f"there are {both}; give one a row")
        points, strays = zip(*parts.values(), strict=True)
        return np.concatenate(points, axis=1), np.sum(strays, axis=0)

    def _contexts(self, table: Table) -> np.ndarray:
        """Coded contexts (n, d) of the witness."""
        return self._locate(table)[0]

    def _decoded(self, points: np.ndarray) -> tuple[Any, ...]:
        """f's arguments at coded points, as tables."""
        ends = np.cumsum([coding.dimension for coding in self._codings()])[:-1]
        return tuple(
            coding.decode(part) for coding, part in zip(self._codings(), np.split(points, ends, axis=1), strict=True)
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a fit."""
        return "function_" in vars(self)

    def _html_repr(self) -> str:
        """What a notebook shows: scikit-learn's diagram until there is a fit."""
        return card(self) if self.__sklearn_is_fitted__() else str(super()._html_repr())

    def _coding(self) -> Coding:
        check_is_fitted(self, "function_")
        return self.coding_

    def _set_feature_names(self, table: Any) -> None:
        """The number and the names of columns, as scikit-learn keeps them."""
        _check_distinct(table)
        validate_data(self, _as_table(table), skip_check_array=True)

    def _check_columns(self, table: Any) -> None:
        """Raise where a table has other columns than the fit had, in scikit-learn's words."""
        check_is_fitted(self, "function_")
        if isinstance(table, np.ndarray) and table.ndim not in (1, 2):
            check_array(table)  # which refuses it
        if is_1d(table) and self.n_features_in_ != 1:
            raise checks.InputError(
                f"X has shape ({len(table)},), but was fitted with {self.n_features_in_} columns; Reshape your data "
                "to a table, with X.reshape(1, -1) where it is a single row"
            )
        validate_data(self, _as_table(table), reset=False, skip_check_array=True)


def _as_table(table: Any) -> Any:
    """Dictionaries and what is one column as tables whose names scikit-learn knows; anything else as it is."""
    if isinstance(table, dict) and not hasattr(table, "toarray"):
        return pa.table({name: np.asarray(column) for name, column in table.items()})
    if not is_1d(table):
        return table
    names = names_of(table)
    # Of a series only its name is looked at, and not every object that it may hold fits into Arrow.
    return np.asarray(table)[:, None] if names is None else pa.table({names[0]: pa.nulls(len(table))})


def _check_distinct(table: Any) -> None:
    """Raise where two columns have one name, so that it says nothing."""
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    names = list(names) if names is not None and not callable(names) else []
    double = [name for name in dict.fromkeys(map(str, names)) if list(map(str, names)).count(name) > 1]
    if double and all(isinstance(name, str) for name in names):
        raise checks.InputError(
            f"X has more than one column named {double[0]!r}; give each a name of its own, or leave one out"
        )


def require_2d(table: Any) -> None:
    """Raise where X is an array or a list of shape (n,), as scikit-learn asks of a fit to (X, y); a series will do."""
    if is_1d(table) and not hasattr(table, "to_numpy"):
        raise checks.InputError(
            f"X has shape ({len(table)},), but must be a table with one sample a row; Reshape your data, with "
            "X.reshape(-1, 1) where it is a single column"
        )
