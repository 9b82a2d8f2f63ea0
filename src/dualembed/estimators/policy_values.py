"""What evaluators of a policy share: its value where episodes start, and how often it is where the log is."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualembed import checks
from dualembed.answers import Answer, Findings, Question
from dualembed.data.frames import group_numbers
from dualembed.data.shifted_rewards import alignment_of
from dualembed.data.table import Table
from dualembed.estimates import Estimate, pluralise
from dualembed.estimators.transitions import TransitionEstimator, first_points
from dualembed.linear.candidates import Functional

IN_ORDER = 0.5  # share of rows that must lead to the next, for rows to pass for a path
WHOLE = 0.01  # of a reward after its end, that counts at the start of an episode that passes for whole
CUT = 0.5  # the same of what the function says of the rest, beyond which nothing could be compared
FEWEST = 5  # episodes that are compared
AT_STARTS = "the policy's value over the starts of episodes"
AT_NEXT = "the policy's value over the next states of the data"


@dataclasses.dataclass(frozen=True)
class Returns:
    """Discounted rewards of n episodes, and where those that did not end were cut: at `points`, after a discount."""

    earned: np.ndarray  # (n,)
    points: np.ndarray  # (n, d), the last next states
    discounts: np.ndarray  # (n,), 0 where the episode ended
    groups: np.ndarray  # (n,), of the data's groups

    @staticmethod
    def of(table: dict[str, Any], labels: np.ndarray, discount: float, groups: np.ndarray) -> Returns | None:
        """Those of a table of transitions; None where its rows are no whole paths in the order of time."""
        if not {"weight", "steps", "mass"}.isdisjoint(table):
            return None
        order = np.argsort(labels, kind="stable")
        own = labels[order]
        first = np.flatnonzero(np.append(True, own[1:] != own[:-1]))
        last = np.append(first[1:], len(own)) - 1
        state, following = (table[name].reshape(len(own), -1)[order] for name in ("state", "next_state"))
        ended = table["terminated"][order] if "terminated" in table else np.zeros(len(own))
        within = np.setdiff1d(np.arange(len(own)), last)
        if not np.array_equal(following[within], state[within + 1]) or ended[within].any():
            return None
        steps = np.arange(len(own)) - np.repeat(first, last - first + 1)
        earned = np.add.reduceat(discount**steps * table["reward"][order], first)
        left = discount ** (steps[last] + 1.0) * (1 - ended[last])
        return Returns(earned, following[last], left, groups[order][first])

    def __add__(self, other: Returns) -> Returns:
        """Those of both."""
        names = [field.name for field in dataclasses.fields(Returns)]
        return Returns(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    @property
    def functional(self) -> Functional:
        """The mean of returns, each with V where the episode was cut."""
        return Functional(self.points[:, None], self.discounts[:, None], self.groups, self.earned)

    def plain(self) -> Estimate | None:
        """The plain mean over whole episodes; None where one in ten or more is not."""
        whole = self.earned[self.discounts < WHOLE]
        if len(whole) < 2 or len(whole) <= 0.9 * len(self.earned):
            return None
        return Estimate(float(whole.mean()), float(whole.std(ddof=1) / np.sqrt(len(whole))))


class Episodes(NamedTuple):
    """Discounted returns of n episodes: predicted by f at their start, observed, and which share of the latter is f's.

    What is f's is the discount (n,) of what it says of the last state, where an episode was cut off.
    """

    predicted: np.ndarray
    observed: np.ndarray
    cut: np.ndarray


def out_of_order(table: dict[str, Any], labels: Any) -> list[str]:
    """What it means that rows of an episode do not follow each other, in plain words; nothing where they do."""
    if labels is None or "steps" in table:
        return []
    numbers = np.unique(np.asarray(labels), return_inverse=True)[1]
    order = np.argsort(numbers, kind="stable")
    inside = np.flatnonzero(numbers[order][1:] == numbers[order][:-1])
    if not len(inside):
        return []
    state, following = (table[name].reshape(len(order), -1)[order] for name in ("state", "next_state"))
    both = np.concatenate([state, following], axis=1)
    inside = inside[np.any(both[inside] != both[inside + 1], axis=1)]  # a row may stand for several
    if not len(inside):
        return []
    close = np.all(np.isclose(following[inside], state[inside + 1], rtol=1e-5, atol=1e-5), axis=1)
    if close.mean() >= IN_ORDER:
        return []
    return [
        f"only {close.mean():.0%} of the rows of an episode lead to the state of its next row: they are not in the "
        "order of time, or not all there. The first row of each episode is taken for its start; sort rows by episode "
        "and time"
    ]


def shifted_rewards(problem: Any, table: Table) -> list[str]:
    """What it means that rewards seem to stand in other rows than those of their steps; nothing where they do not."""
    columns = problem.source.table
    if table.episodes is None or "steps" in columns:
        return []
    acts = columns.get("action")
    if acts is None and table.actions_taken is not None:
        given = np.asarray(table.actions_taken)
        acts = given if given.dtype.kind in "fiub" else None
    labels = group_numbers("episodes", table.episodes, problem.source.rows)
    found = alignment_of(columns["state"], acts, columns["reward"], columns["next_state"], labels)
    return [found.warning] if found.warning else []


class PolicyValueEstimator(TransitionEstimator):
    """An evaluator of a policy, which asks for its value at the first states of episodes."""

    discount: float
    # Of the policy's value at the starts of episodes, or where else it is known what the policy does; None if nowhere.
    starts_: Question | None = None

    def value(self, initial_states: Any = None) -> Answer:
        """The policy's value: the mean over initial states of what it is worth there.

        The standard error counts that of the function, clustered by episode, and that of the initial states as a sample
        of where episodes start. For given states without the error of a sample, ask `at` them.

        Parameters
        ----------
        initial_states : array-like of shape (n, d) or (n,), optional
            Where episodes start; by default the first states of the episodes of the fit.

        Returns
        -------
        Answer
            The value with its standard error, an interval and a verdict.
        """
        check_is_fitted(self, "function_")
        if initial_states is not None:
            return self.ask(self._value_at(initial_states))
        if self.starts_ is None:
            raise checks.InputError("initial_states must be given, since the fit had no labels of episodes")
        return self._headline_answer or self._value_at_starts(self.starts_)

    @abstractmethod
    def _value_at(self, initial_states: Any) -> Question:
        """The question of the policy's value over these states, a sample of where episodes start."""

    @property
    def _acted(self) -> bool:
        """Whether the policy is the one that acted."""
        return True

    def _episodes(self, tables: Mapping[str, Any]) -> Episodes | None:
        """Predicted and observed returns of episodes that ended, or were cut off late enough to compare them."""
        table = self._arranged(Table.of(**tables))
        if table.episodes is None or not self._acted:
            return None
        problem, _ = self._problem(table)
        labels = group_numbers("episodes", table.episodes, problem.source.rows)
        found = Returns.of(problem.source.table, labels, self.discount, labels)
        if found is None:
            return None
        points = first_points(problem)
        predicted = self._at(points[np.unique(labels, return_index=True)[1]])
        beside = found.points.shape[1] < points.shape[1]  # actions, which at the end of an episode nobody knows
        kept = found.discounts < (WHOLE if beside else CUT)
        rest = 0.0 if beside else found.discounts * self._at(found.points)
        if kept.sum() < FEWEST:
            return None
        return Episodes(predicted[kept], (found.earned + rest)[kept], found.discounts[kept])

    def _value_at_starts(self, question: Question) -> Answer:
        """The answer to the question of the policy's value where episodes start."""
        return self.ask(question)

    def _density_ratio(self, points: np.ndarray) -> np.ndarray:
        """The ratio (n,) of discounted visits to the distribution of the log's rows, at coded points (n, d).

        It is the weight that a row's residual has in the policy's value, divided by its mean over the rows: features
        only come close to it, so that it may be slightly below zero. It is not a number at points that are unseen in
        the log, such as an action that was never taken: there is nothing to divide by.
        """
        if self.paths_ is None:
            raise checks.InputError(
                "the density ratio is there for default fits alone, with solver, primal and dual 'auto', which this is "
                "not"
            )
        if self.paths_.headline is None:
            raise checks.InputError(
                "the density ratio is of what follows the starts of episodes, which this fit does not know; fit it "
                "with episodes=..., and action values with policy=... too"
            )
        fit = self.paths_
        representer, visits = fit.representer(self.paths_.headline), np.asarray(fit.visits)
        mean = float(visits @ fit.density(representer, np.asarray(fit.places)) / visits.sum())
        return np.where(self._unseen(points) > 0, np.nan, fit.density(representer, points) / mean)

    def _fit_first(self, table: Table) -> Any:
        problem = super()._fit_first(table)
        self.starts_ = self._question_of(problem, table)
        self._add_warnings(out_of_order(problem.source.table, table.episodes) or shifted_rewards(problem, table))
        self._judge()
        return problem

    def _fit_more(self, table: Table) -> Any:
        problem = super()._fit_more(table)
        if self.starts_ is not None:
            self.starts_ = self._joined(self.starts_, self._question_of(problem, table))
        self._judge()
        return problem

    def _question_of(self, problem: Any, table: Table) -> Question | None:
        """The question of the policy's value over the starts of the problem's episodes; None where there are none."""
        asked = self._headline(problem, table)
        if asked is None:
            return None
        return Question(AT_STARTS, ((1.0, self._sampled(asked.points, asked.shares)),))

    def _sampled(self, points: np.ndarray, shares: np.ndarray) -> Functional:
        """The mean over a sample of points, in the groups that the fit has them in, where it was told of them."""
        if self.paths_ is not None and self.paths_.headline is not None:
            return self.paths_.headline
        groups = np.full(len(points), -1) if self.paths_ is not None else np.arange(len(points))
        return Functional(points, shares, groups)

    def _joined(self, first: Question, second: Question | None) -> Question:
        """The question over the points of both."""
        if self.paths_ is not None and self.paths_.headline is not None and first.words == AT_STARTS:
            return Question(AT_STARTS, ((1.0, self.paths_.headline),))  # of both already, in the groups of today
        if second is None or second.words != first.words:
            return first
        (_, own), (_, more) = first.parts[0], second.parts[0]
        points, shares = (np.concatenate(pair) for pair in ((own.points, more.points), (own.shares, more.shares)))
        sampled = Functional(points, shares) if own.groups is None else self._sampled(points, shares)
        return Question(first.words, ((1.0, sampled),))

    def _judge(self) -> None:
        """Keep the policy's value, and its warnings with the diagnostics."""
        if self.paths_ is not None and self.paths_.headline is not None:
            self._headline_answer = self.value()
            self._add_warnings(self._headline_answer.warnings)

    def _main_question(self) -> Question:
        return super()._main_question() if self.starts_ is None else self.starts_

    def _main_answer(self) -> Answer:
        if self.starts_ is None or self.uncertainty_ is None:
            return super()._main_answer()
        return self._headline_answer or self._value_at_starts(self.starts_)

    def _findings(self, headline: Answer) -> Findings:
        findings = super()._findings(headline)
        facts = {**findings.facts, "discount": self.discount}
        if self.starts_ is None:
            return findings._replace(facts=facts)
        part = self.starts_.parts[0][1]
        episodes = None if part.groups is None else len(part.points)
        where = "the next states of the data (what it does at the starts of episodes is not known)"
        if episodes is not None:
            where = "the start of 1 episode" if episodes == 1 else f"the starts of {pluralise(episodes, 'episode')}"
        facts["policy_value"] = {**headline.to_dict(), "where": where, "episodes": episodes}
        remark = f"It is the sum of its rewards at discount {self.discount:g}, on average over {where}."
        return findings._replace(facts=facts, remarks=(remark, *findings.remarks))
