"""How a fitted estimator answers: f and its errors at points, linear questions, and the summary of all it says."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualembed import checks
from dualembed.answers import Answer, Findings, Question, Summary, Task
from dualembed.answers.question import answer_from_paths, answer_from_spreads, share_of, values
from dualembed.data.coding import Coding
from dualembed.estimates import check_level, format_estimate, format_number
from dualembed.estimators.learning import Learner, RowSample
from dualembed.linear.moment_fit import MomentFit
from dualembed.plot.surface import Axis, axes_of, describe_point, middle_of
from dualembed.threads import on_one_thread
from dualembed.tuning import SEARCH

MOST_AT_ONCE = 2048  # points of a band that are looked at together
DRAWS = 2000  # of the multipliers of a band


def largest_quantile(moves: np.ndarray, level: float, *, freedom: float | None = None) -> float:
    """The quantile of max |error| / deviation over n points, whose errors are sums of p independent moves (n, p).

    With `freedom`, the deviation is known by so many degrees of freedom alone.

    >>> largest_quantile(np.eye(3), 0.95) > largest_quantile(np.ones((3, 1)), 0.95) > 1.8
    True
    """
    sizes = np.sqrt(np.sum(moves**2, axis=1, keepdims=True))
    shapes = moves / np.where(sizes > 0, sizes, 1.0)
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((moves.shape[1], DRAWS))
    scale = np.ones(DRAWS) if freedom is None else np.sqrt(freedom / rng.chisquare(freedom, size=DRAWS))
    parts = np.array_split(shapes, 1 + len(shapes) // MOST_AT_ONCE)
    largest = np.max([np.abs(part @ draws).max(axis=0) for part in parts], axis=0)
    return float(np.quantile(largest * scale, level))


class Answering(Learner):
    """A fitted estimator that answers questions, and sums up what it has found."""

    sample_: RowSample | None = None  # of the rows; models that were saved before rows were kept have none
    dropped_: int = 0  # rows that lacked a value
    _summary: Summary | None = None  # likewise

    @property
    @abstractmethod
    def task_(self) -> Task:
        """What the fit is for, where that depends on what it was given."""

    @abstractmethod
    def _point_codings(self) -> list[Coding]:
        """Those of the points that f is evaluated at."""

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
            self.function_,
            self._spreads(),
            question,
            size=self._size(),
            outside=self._share_outside(question),
            freedom=self._freedom,
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
        findings = self._with_dropped(self._findings(headline))
        return Summary(self.task_, headline, findings, self.diagnostics_, tuple(self.selection_.steps))

    def _with_dropped(self, findings: Findings) -> Findings:
        """The findings with how many rows lacked a value, where some did."""
        if not self.dropped_:
            return findings
        told = (
            "1 row that lacks a value was" if self.dropped_ == 1 else f"{self.dropped_:,} rows that lack a value were"
        )
        facts = {**findings.facts, "rows_dropped": self.dropped_}
        return findings._replace(facts=facts, remarks=(*findings.remarks, f"{told} dropped."))

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
        mean, predicted = self._answer(self._over_rows("the mean over the rows of the data", points)), self._at(points)
        ends = {"lowest": float(predicted.min()), "highest": float(predicted.max())}
        facts = {"mean": mean.to_dict(), **ends, "rows": 1 if self.sample_ is None else self.sample_.seen}
        if self.sample_ is None:
            return Findings(facts=facts)
        texts = {name: format_number(value) for name, value in ends.items()}
        remark = self.task_.mean.format(mean=format_estimate(mean.value, mean.stderr), **texts)
        return Findings(facts=facts, remarks=(remark, *self._sample_remarks()))

    def _sample_remarks(self) -> list[str]:
        """That means are over a sample of the rows, in a sentence, where they are."""
        if self.sample_ is None or not self.sample_.note:
            return []
        kept, seen = len(self.sample_.rows), self.sample_.seen
        return [f"Means over rows are over a random {kept:,} of {seen:,}, which their errors reckon with."]

    def _over_rows(self, words: str, points: np.ndarray) -> Question:
        """The mean of f over points of the rows that are kept, which may be a sample of all rows."""
        if self.sample_ is None:
            return Question.mean(words, points)
        sample = self.sample_
        return Question.mean(f"{words}{sample.note}", points, groups=sample.groups, mass=sample.mass)

    def _answer(self, question: Question) -> Answer:
        """The answer to a question; without an error, where the fit has none."""
        if self.uncertainty_ is not None:
            return self.ask(question)
        points, coefficients = question.flat()
        value = float(coefficients @ values(self.function_, points)) + question.constant
        return Answer(value, math.nan, question=question.words)

    def _at(self, points: np.ndarray) -> np.ndarray:
        """f at coded points (n, d), as `predict` gives it."""
        return np.asarray(self._predicted(points))

    def _predicted(self, points: np.ndarray, *, return_std: bool = False, strays: Any = 0.0) -> Any:
        """f at coded points, with standard errors where they are asked for.

        `strays` (n,) say how far points are from what the fit could learn of, by what their coordinates do not show.
        """
        if return_std and self.paths_ is not None:
            return self.paths_.evaluate(points, strays + self._unseen(points))
        predicted = values(self.function_, points)
        return (predicted, self._std(points, strays)) if return_std else predicted

    def _std(self, points: np.ndarray, strays: Any = 0.0) -> np.ndarray:
        if self.paths_ is not None:
            return np.asarray(self._predicted(points, return_std=True, strays=strays)[1])
        errors = np.asarray(np.max([spread.std(points) for spread in self._spreads()], axis=0))
        return np.hypot(errors, self._size() * strays) if np.any(strays) else errors

    def _interval(self, points: np.ndarray, level: float, strays: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        predicted, std = self._predicted(points, return_std=True, strays=strays)
        half = self._quantile(level) * std
        return predicted - half, predicted + half

    def _band(self, points: np.ndarray, level: float, strays: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Ends of a band around f that covers it at all coded points (n, d) at once."""
        if self.paths_ is not None:
            found, std = self._predicted(points, return_std=True, strays=strays)
            half = self._reach(points, level) * std
            return found - half, found + half
        lower, upper = zip(*(spread.band(points, level) for spread in self._spreads()), strict=True)
        low, high = np.min(lower, axis=0), np.max(upper, axis=0)
        averaged = isinstance(self.solution_, MomentFit) and self.solution_.prior is not None
        if points.shape[1] == 1 or not averaged or self._is_line:
            return low, high
        more = (SEARCH.wider_band - 1) * (high - low) / 2
        return low - more, high + more

    @property
    def _is_line(self) -> bool:
        """Whether f is a straight line, of which the effect of one unit says all."""
        return False

    def _reach(self, points: np.ndarray, level: float) -> float:
        """How many standard errors a band over coded points (n, d) of an averaged path reaches to either side.

        Errors at all points vary together as what groups of rows add to f does: a draw of multipliers of the groups
        gives one draw of them all, and the few degrees of freedom are shared. What smoothing leaves is far below it.
        """
        pointwise = self._quantile(level)
        if self.paths_ is None:
            raise RuntimeError("a band of other fits is that of their spreads")
        average, blocks = self.paths_.candidates, 1 + len(points) // MOST_AT_ONCE
        moves = np.concatenate([average.at(block).influence for block in np.array_split(points, blocks)])
        moves = moves - moves.mean(axis=1, keepdims=True)
        return max(pointwise, largest_quantile(moves, level, freedom=self.paths_.freedom))

    def _quantile(self, level: float) -> float:
        """How many standard errors an interval of that level reaches to either side."""
        check_level(level)
        if self.paths_ is not None:
            return self.paths_.quantile(level)
        return Answer(0.0, 1.0, freedom=self._freedom).interval(level)[1]

    @property
    def _freedom(self) -> float | None:
        """Degrees of freedom of standard errors that come from spreads; None where they are many."""
        return None

    def _spreads(self) -> tuple[Any, ...]:
        """What standard errors come from, the largest of which counts."""
        check_is_fitted(self, "function_")
        if self.uncertainty_ is None:
            raise checks.InputError(
                "standard errors are there for square losses solved in closed form, which this fit was not; use "
                "solver='auto'"
            )
        return tuple(self.uncertainty_.spreads)

    def _unseen(self, points: np.ndarray) -> np.ndarray:
        """1 for coded points (n, d) of a kind that no row shows, such as an action that is never taken; else 0."""
        return np.zeros(len(points))

    def _size(self) -> float:
        """The standard deviation of f over the data, as far as it is known: what a guess may be off by."""
        return 0.0 if self.paths_ is None else self.paths_.size

    def _share_outside(self, question: Question) -> float:
        """The share of what is asked about that lies outside the data, where fits do not know what answers rest on."""
        return share_of(question.flat()[1], question.strays() > 0)

    def _episodes(self, tables: Mapping[str, Any]) -> Any:
        """What f predicts of whole episodes of the data, beside what they collected; None where there are none."""
        return None

    def _middle(self) -> np.ndarray:
        """The point (1, d) in the middle of the data, as far as the codings know it."""
        return middle_of(self._axes(), sum(coding.dimension for coding in self._point_codings()))

    def _axes(self) -> list[Axis]:
        """The columns that f depends on."""
        return axes_of(self._point_codings())

    def _describe_typical(self, point: np.ndarray) -> str:
        where = "the middle of the data" if self.sample_ is None else "a typical row"
        return f"{where} ({describe_point(self._axes(), point)})"
