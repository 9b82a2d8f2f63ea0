"""What every estimator can do once it is fitted."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dualembed import checks
from dualembed.answers import Answer, Findings, Question, Summary, Task
from dualembed.answers.answer import outside_warning
from dualembed.answers.asking import answer_from_paths, answer_from_spreads, values
from dualembed.answers.question import share_of
from dualembed.data.coding import Coding, Schema
from dualembed.data.frames import is_1d, names_of
from dualembed.data.roles import ROLES
from dualembed.data.table import Table
from dualembed.estimates import Estimate, check_level, format_estimate, format_number
from dualembed.estimators.diagnostics import Diagnostics, diagnose
from dualembed.estimators.registry import register
from dualembed.estimators.sample import RowSample
from dualembed.estimators.signatures import adopt, takes_context, takes_data, takes_inputs
from dualembed.linear.fit import LinearFit
from dualembed.linear.functional import Headline
from dualembed.linear.moment_fit import MomentFit
from dualembed.linear.rows import Groups, read_rows
from dualembed.linear.spread import Spread
from dualembed.plot.surface import Axis, axes_of, describe_point, middle_of
from dualembed.problems.base import Problem, finite_data
from dualembed.report import card
from dualembed.selection import HeldOut, Selection, auto, consistency_test, held_out, held_out_once, honest_score
from dualembed.selection.consistency import Consistency
from dualembed.selection.held_out import held_out_groups, held_out_new
from dualembed.selection.kernels import describe
from dualembed.solvers.base import EarlyStopWarning, Result
from dualembed.spaces.features import to_numpy
from dualembed.threads import on_one_thread, one_thread
from dualembed.tuning import SEARCH

FEW_GROUPS = 10  # below which errors clustered by group say little


class Estimator(BaseEstimator):
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
    solver: Any
    primal: Any
    dual: Any
    random_state: Any
    schema_: Schema  # how columns are coded
    function_: Any
    n_features_in_: int
    witness_: Spread | None
    sample_: RowSample | None = None  # of the rows; models that were saved before rows were kept have none
    _headline_answer: Answer | None = None  # of the last fit, so that it is found once
    _summary: Summary | None = None  # likewise
    uncertainty_: Any  # LinearFit or Spread, None where there are no standard errors
    solution_: LinearFit | MomentFit | None = None  # a closed form: what questions and more rows need

    def __init_subclass__(cls, **options: Any) -> None:
        adopt(cls)  # before scikit-learn reads signatures
        super().__init_subclass__(**options)
        register(cls)

    @property
    def paths_(self) -> LinearFit | None:
        """The solution where it is an average of ridge paths, which knows what answers rest on; else None."""
        return self.solution_ if isinstance(self.solution_, LinearFit) else None

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

    def _copy(self, *, afresh: bool) -> Self:
        """The same estimator again; `afresh` without what it was fitted to."""
        copied = object.__new__(type(self))
        kept = {name: value for name, value in vars(self).items() if not (afresh and name.endswith("_"))}
        copied.__dict__.update(kept, _headline_answer=None, _summary=None)
        return copied

    @contextlib.contextmanager
    def _draft(self, *, afresh: bool = True) -> Iterator[Self]:
        """A copy to fit in this one's stead, whose state becomes this one's where nothing fails.

        Until then this one is as it was: a policy may ask it, and a failure leaves no mixture of two fits.
        """
        draft = self._copy(afresh=afresh)
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
        with self._draft(afresh=False) as draft:
            if self.__sklearn_is_fitted__():
                draft._go_on(table)
            else:
                draft._begin(table)
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
            model = self._copy(afresh=True)
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
            found = np.asarray(self.dual_.function(contexts), dtype=np.float64)
            if return_std:
                raise checks.InputError("the witness has standard errors after a closed form only; use solver='auto'")
            return found
        found = self.witness_.values(contexts)
        return (found, self.witness_.std(contexts)) if return_std else found

    def _fit(self, table: Table) -> Self:
        """Learn from the data, or stay as it was where that fails."""
        with self._draft() as draft:
            draft._begin(table.arranged())
            draft._note(table.warnings)
        return self

    @abstractmethod
    def _begin(self, table: Table) -> Any:
        """Learn from the first rows."""

    @abstractmethod
    def _go_on(self, table: Table) -> Any:
        """Learn from more rows."""

    def _code(self, table: Table) -> None:
        """Choose how columns are coded."""
        self.schema_ = Schema(self._coded(table), table.names, table.digest)

    @abstractmethod
    def _coded(self, table: Table) -> dict[str, Coding]:
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
            said = ", but ".join(f"{count} {name}" for name, count in counts.items())
            raise checks.InputError(f"there are {said}; give one a row")
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

    def _learn(self, problem: Problem, *, groups: Any = None, headline: Headline | None = None) -> None:
        """Solve the problem and keep what the questions below need.

        `headline` is the question that matters most, where there is one.
        """
        rows = finite_data(problem).rows
        if rows < 2:
            raise checks.InputError("nothing can be learnt from 1 sample; give more rows")
        seed = self._seed()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = self._solve(seed, problem, groups=groups, headline=headline)
        self.function_, self.dual_ = result.primal, result.dual
        self.selection_ = Selection(result.record.steps)
        if isinstance(result.closed, LinearFit):
            assigned: Groups = result.record.solver.groups
            judged = held_out_groups(problem, result.closed, assigned.left_out, groups=groups, seed=seed)
            self._add_returns(problem, groups, assigned)
            self._keep_paths(result.closed, rows, judged)
        elif result.closed is not None:
            judged = held_out(problem, result.closed, groups=groups, seed=seed)
            self._keep_moments(result.closed, result.uncertainty, judged)
            self.function_ = to_numpy(result.primal)
        else:
            refit = functools.partial(self._refit, seed)
            judged = held_out_once(problem, refit, groups=groups, seed=seed) if problem.loss.quadratic else None
            self.diagnostics_, self.witness_, self.uncertainty_ = Diagnostics(rows, judged), None, None
            self.solution_, self.function_ = None, result.primal.trimmed()
        self._say(caught)
        few = None if groups is None or self.paths_ is not None else len(np.unique(groups))
        if few is not None and few < FEW_GROUPS:
            self._note([f"there are only {few} episodes or groups, too few for intervals that are clustered by them"])

    def _solve(self, seed: int, problem: Problem, **known: Any) -> Result:
        """The problem's solution by this estimator's settings."""
        return auto(seed, problem, primal=self.primal, dual=self.dual, solver=self.solver, **known)

    def _refit(self, seed: int, problem: Problem) -> Any:
        function = self._solve(seed, problem).primal
        return lambda points: values(function, points)

    def _keep_moments(self, fit: MomentFit, spread: Spread, judged: HeldOut | None) -> None:
        """Keep a closed form, its noise being that of rows left out where residuals of those fitted show far less."""
        if judged is not None and fit.inflation == 1:
            rounding = SEARCH.without_noise * (fit.sums.square or 0.0) / fit.sums.rows
            if judged.squared > max(SEARCH.fitted_too_well * judged.fitted, rounding):
                ratio = min(judged.squared / max(judged.fitted, np.finfo(float).tiny), SEARCH.most_widened)
                fit = dataclasses.replace(fit, inflation=ratio)
                spread = dataclasses.replace(spread, root=np.sqrt(ratio) * spread.root)
        self.solution_, self.uncertainty_, self.witness_ = fit, spread, fit.witness()
        self.diagnostics_ = diagnose(fit, judged)
        if fit.inflation > 1:
            warning = (
                f"standard errors are {np.sqrt(fit.inflation):.1f} times as wide as residuals of the rows fitted to "
                "would make them, since those of rows left out were so much larger: f is rougher than the fit takes it "
                "to be, or rows are few"
            )
            self._note([warning])

    def _keep_paths(self, fit: LinearFit, rows: int, judged: HeldOut | None) -> None:
        """Keep an average of ridge paths."""
        self.solution_ = self.uncertainty_ = fit
        self.witness_ = witness = fit.witness()
        self.dual_ = dataclasses.replace(self.dual_, function=witness.function)
        variance = None if judged is None else judged.fitted
        self.diagnostics_ = Diagnostics(rows, judged, residual_variance=variance)

    def _add_returns(self, problem: Problem, labels: Any, groups: Groups) -> None:
        """Keep what whole episodes of the problem's rows earned, where that says something of f."""

    def _say(self, caught: Sequence[warnings.WarningMessage]) -> None:
        """Keep what a solver says of an early ending with the diagnostics; pass on any other warning."""
        self._note([str(each.message) for each in caught if issubclass(each.category, EarlyStopWarning)])
        for each in caught:
            if not issubclass(each.category, EarlyStopWarning):
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)

    def _learn_more(self, problem: Problem, *, groups: Any = None, headline: Headline | None = None) -> None:
        """Add the rows of the problem to those seen before; the spaces stay as the first rows chose them."""
        if self.solution_ is None:
            raise checks.InputError(
                "partial_fit adds up sums of a closed form, which this fit has not; use solver='auto' with the square "
                "loss, or de.solve with a sources.Stream for Embedding-SGD"
            )
        judged = held_out_new(problem, self.function_, groups)
        if isinstance(self.solution_, LinearFit):
            self._add_to_paths(self.solution_, problem, judged, groups=groups, headline=headline)
        else:
            fit = self.solution_.extended(problem, groups)
            self._keep_moments(fit, fit.spread(), judged)
            self.function_ = to_numpy(fit.function)
            self.dual_ = dataclasses.replace(self.dual_, function=fit.dual_function)

    def _add_to_paths(
        self, fit: LinearFit, problem: Problem, judged: HeldOut | None, *, groups: Any, headline: Headline | None
    ) -> None:
        """Add rows to an average of ridge paths."""
        rows = read_rows(problem)
        if rows is None:
            raise RuntimeError("the first rows could be tested by the features of f, and so can more")
        seed = self._seed()
        assigned = fit.assign(rows, groups, seed)
        extended = fit.extended(problem, rows, assigned, headline=headline, seed=seed)
        self._add_returns(problem, groups, assigned)
        self._keep_paths(extended, extended.rows, judged)
        self.function_, self.selection_ = extended.function, Selection(describe(extended))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a fit."""
        return "function_" in vars(self)

    def _html_repr(self) -> str:
        """What a notebook shows: scikit-learn's diagram until there is a fit."""
        return card(self) if self.__sklearn_is_fitted__() else str(super()._html_repr())

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)) and not isinstance(self.random_state, bool):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _predicted(self, points: np.ndarray, *, return_std: bool = False, strays: Any = 0.0) -> Any:
        """f at coded points, with standard errors where they are asked for.

        `strays` (n,) say how far points are from what the fit could learn of, by what their coordinates do not show.
        """
        if return_std and self.paths_ is not None:
            return self.paths_.evaluate(points, strays + self._unseen(points))
        found = values(self.function_, points)
        return (found, self._std(points, strays)) if return_std else found

    def _std(self, points: np.ndarray, strays: Any = 0.0) -> np.ndarray:
        if self.paths_ is not None:
            return np.asarray(self._predicted(points, return_std=True, strays=strays)[1])
        found = np.asarray(np.max([spread.std(points) for spread in self._spreads()], axis=0))
        return np.hypot(found, self._size() * strays) if np.any(strays) else found

    def _unseen(self, points: np.ndarray) -> np.ndarray:
        """1 for coded points (n, d) of a kind that no row shows, such as an action that is never taken; else 0."""
        return np.zeros(len(points))

    def _size(self) -> float:
        """The standard deviation of f over the data, as far as it is known: what a guess may be off by."""
        return 0.0 if self.paths_ is None else self.paths_.size

    def _worries(self, question: Question) -> tuple[str, ...]:
        """What to worry about in a question, for fits that do not know what answers rest on."""
        return outside_warning(share_of(question.flat()[1], question.strays() > 0))

    def _interval(self, points: np.ndarray, level: float, strays: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        found, std = self._predicted(points, return_std=True, strays=strays)
        half = self._quantile(level) * std
        return found - half, found + half

    def _quantile(self, level: float) -> float:
        """How many standard errors an interval of that level reaches to either side."""
        check_level(level)
        return self.paths_.quantile(level) if self.paths_ is not None else Estimate(0.0, 1.0).interval(level)[1]

    @on_one_thread
    def ask(self, question: Question) -> Answer:
        """Answer a question that is linear in f, with its standard error and a verdict on what it rests on.

        Parameters
        ----------
        question : Question
            What methods such as `at` and `difference` make. Questions add and subtract; a difference has its own error,
            which is not that of its two sides.

        Returns
        -------
        Answer
            The answer.
        """
        check_is_fitted(self, "function_")
        if not isinstance(question, Question):
            raise checks.InputError(f"ask takes a question, such as model.at(...) makes, not {question!r}")
        if self.paths_ is not None:
            points, _ = question.flat()
            return answer_from_paths(self.paths_, question, unseen=self._unseen(points))
        return answer_from_spreads(
            self.function_, self._spreads(), question, size=self._size(), warnings=self._worries(question)
        )

    def ask_all(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer several questions.

        Parameters
        ----------
        questions : sequence of Question
            What methods such as `at` and `difference` make.

        Returns
        -------
        list of Answer
            The answers.
        """
        return [self.ask(question) for question in questions]

    def summary(self) -> Summary:
        """All that the fit says: the answer to what was asked, what else was found, how far to trust it.

        It is computed when first asked for, and printed as text; `to_dict` and `tidy` give it as JSON and as a frame.

        Returns
        -------
        Summary
            The summary.
        """
        check_is_fitted(self, "function_")
        if self._summary is None:
            self._summary = self._summarise()
        return self._summary

    @on_one_thread
    def _summarise(self) -> Summary:
        headline = self._main_answer()
        findings = self._findings(headline)
        return Summary(self.task_, headline, findings, self.diagnostics_, tuple(self.selection_.steps))

    def _main_answer(self) -> Answer:
        """The answer to the question that the fit is for."""
        return self._answer(self._main_question())

    def _main_question(self) -> Question:
        """The question that the fit is for: f at a typical row of the data, where there is no better one."""
        point = self._middle() if self.sample_ is None else self.sample_.points[[self.sample_.typical()]]
        return Question.mean(f"{self.task_.the_function} at {self._describe_typical(point)}", point)

    def _findings(self, headline: Answer) -> Findings:
        """What there is to say besides the headline: f over the rows of the data."""
        points = self._middle() if self.sample_ is None else self.sample_.points
        mean, found = self._answer(Question.mean("the mean over the rows of the data", points)), self._at(points)
        ends = {"lowest": float(found.min()), "highest": float(found.max())}
        facts = {"mean": mean.to_dict(), **ends, "rows": 1 if self.sample_ is None else self.sample_.seen}
        if self.sample_ is None:
            return Findings(facts=facts)
        texts = {name: format_number(value) for name, value in ends.items()}
        remark = self.task_.mean.format(mean=format_estimate(mean.value, mean.stderr), **texts)
        return Findings(facts=facts, remarks=(remark,))

    def _answer(self, question: Question) -> Answer:
        """The answer to a question; without an error, where the fit has none."""
        if self.uncertainty_ is not None:
            return self.ask(question)
        points, coefficients = question.flat()
        return Answer(float(coefficients @ values(self.function_, points)), math.nan, question=question.words)

    def _at(self, points: np.ndarray) -> np.ndarray:
        """f at coded points (n, d), as `predict` gives it."""
        return np.asarray(self._predicted(points))

    def _middle(self) -> np.ndarray:
        """The point (1, d) in the middle of the data, as far as the codings know it."""
        return middle_of(self._axes(), sum(coding.dimension for coding in self._point_codings()))

    def _axes(self) -> list[Axis]:
        """The columns that f depends on."""
        return axes_of(self._point_codings())

    def _describe_typical(self, point: np.ndarray) -> str:
        where = "the middle of the data" if self.sample_ is None else "a typical row"
        return f"{where} ({describe_point(self._axes(), point)})"

    def _coding(self) -> Coding:
        check_is_fitted(self, "function_")
        return self.coding_

    def _remember(self, table: Any) -> None:
        """The number and the names of columns, as scikit-learn keeps them."""
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

    def _note(self, worries: Sequence[str], **found: Any) -> None:
        """Add to the diagnostics."""
        notes = (*self.diagnostics_.warnings, *worries)
        self.diagnostics_ = dataclasses.replace(self.diagnostics_, warnings=notes, **found)

    def _spreads(self) -> tuple[Any, ...]:
        """What standard errors come from, the largest of which counts."""
        check_is_fitted(self, "function_")
        if self.uncertainty_ is None:
            raise checks.InputError(
                "standard errors are there for square losses solved in closed form, which this fit was not; use "
                "solver='auto'"
            )
        return tuple(self.uncertainty_.spreads)


def _as_table(table: Any) -> Any:
    """Dictionaries and what is one column as tables whose names scikit-learn knows; anything else as it is."""
    if isinstance(table, dict) and not hasattr(table, "toarray"):
        return pa.table({name: np.asarray(column) for name, column in table.items()})
    if not is_1d(table):
        return table
    names = names_of(table)
    # Of a series only its name is looked at, and not every object that it may hold fits into Arrow.
    return np.asarray(table)[:, None] if names is None else pa.table({names[0]: pa.nulls(len(table))})


def require_2d(table: Any) -> None:
    """Raise where X is an array or a list of shape (n,), as scikit-learn asks of a fit to (X, y); a series will do."""
    if is_1d(table) and not hasattr(table, "to_numpy"):
        raise checks.InputError(
            f"X has shape ({len(table)},), but must be a table with one sample a row; Reshape your data, with "
            "X.reshape(-1, 1) where it is a single column"
        )
