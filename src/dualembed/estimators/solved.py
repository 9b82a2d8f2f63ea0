"""A problem solved by averaged ridge paths: what it keeps for questions, for more rows, and to be judged by."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from dualembed.answers import Answer, Question
from dualembed.answers.answer import judge
from dualembed.answers.question import share_of
from dualembed.estimators.diagnostics import Diagnostics
from dualembed.estimators.returns import Returns
from dualembed.linear.fit import LinearFit
from dualembed.linear.functional import Functional
from dualembed.linear.path import mix
from dualembed.linear.spread import Spread
from dualembed.linear.sums import gather
from dualembed.problems.base import Problem
from dualembed.selection.averaging import Setting, assemble, probes_among, solve_averaged
from dualembed.selection.held_out import held_out_groups, held_out_new
from dualembed.selection.record import Step
from dualembed.selection.rows import Groups, assign_groups, assign_more, read_rows, sample_places
from dualembed.selection.witness import witness_of

CONSTANT = 1e-9  # deviation of f over its value, below which it is rounding
DIGITS = 1e-6  # of an answer, that no error is below: what happens once in a million steps no log can rule out


class Headline(NamedTuple):
    """The question that matters most: points (n, J, d) with shares (n, J), at the rows (n,) of the data."""

    points: np.ndarray
    shares: np.ndarray
    rows: np.ndarray


@dataclasses.dataclass(frozen=True)
class Solved:
    """A fit, the headline question, and how many episodes, or rows where it is not `by_label`, each group has."""

    fit: LinearFit
    headline: Functional | None
    units: np.ndarray
    by_label: bool
    witness: Spread
    steps: tuple[Step, ...]
    seed: int
    numbers: np.ndarray | None = None  # of each row's group, for the estimator alone: not kept

    @staticmethod
    def of(
        problem: Problem, *, groups: np.ndarray | None, headline: Headline | None, seed: int
    ) -> tuple[Solved, Diagnostics] | None:
        """The solution and its diagnostics; None for another loss, and where f's features cannot test the equation."""
        rows = read_rows(problem) if problem.loss.quadratic else None
        if rows is None:
            return None
        rows.check_enough()
        rng = np.random.default_rng(seed)
        assigned = assign_groups(rows, groups, rng)
        asked = _functional(headline, assigned.numbers)
        fit, steps = solve_averaged(problem, rows, assigned, headline=asked, rng=rng)
        solved = Solved(fit, asked, assigned.units, assigned.by_label, witness_of(fit), steps, seed, assigned.numbers)
        judged = held_out_groups(problem, fit, assigned.left_out, groups=groups, seed=seed)
        variance = None if judged is None else judged.fitted
        return solved, Diagnostics(len(rows.target), judged, residual_variance=variance)

    def extended(
        self, problem: Problem, *, groups: np.ndarray | None, headline: Headline | None
    ) -> tuple[Solved, Diagnostics]:
        """The solution on the problem's rows besides all earlier ones, in the same features."""
        rows = read_rows(problem)
        if rows is None:
            raise RuntimeError("the first rows could be tested by the features of f, and so can more")
        before, fit = int(self.fit.sums[0].count.sum()), self.fit
        judged = held_out_new(problem, fit.function, groups)
        rng = np.random.default_rng([self.seed, before])
        known = Groups(np.zeros(before, dtype=int), fit.candidates.into, self.units, self.by_label)
        numbers, _, units, _ = assign_more(rows, groups, known, rng)
        asked = joined(self.headline, _functional(headline, numbers), fit.candidates.into)
        seen = before + len(rows.target)
        both = np.concatenate([fit.places, rows.points[:, 0]])
        places, visits = sample_places(both, np.concatenate([fit.visits, np.ones(len(rows.target))]), rng)
        offset, shares = fit.candidates.offset, units / units.sum()
        features = [path.features for path in fit.candidates.paths]
        sums = [
            own + gather(problem, each, numbers, count=len(units), offset=offset)
            for own, each in zip(fit.sums, features, strict=True)
        ]
        # Of earlier rows only the sums of left-out groups are there, which stand for all groups from now on.
        setting = Setting(shares, np.arange(len(units)), offset, probes_among(places), asked, problem.positive)
        paths = [setting.path(each, own) for each, own in zip(features, sums, strict=True)]
        where: dict[str, Any] = {"places": places, "visits": visits, "scale": fit.scale}
        found, steps = assemble(setting, paths, setting.weigh(paths), sums=sums, **where)
        variance = None if judged is None else judged.fitted
        diagnostics = Diagnostics(seen, judged, residual_variance=variance)
        solved = Solved(found, asked, units, self.by_label, witness_of(found), steps, self.seed, numbers)
        return solved, diagnostics

    def answer(self, question: Question, *, returns: Returns | None = None, unseen: np.ndarray | float = 0.0) -> Answer:
        """The answer to a question, its error, and what it rests on.

        Of the value of the policy that played the data, `returns` of its episodes are another view, which counts too.
        `unseen` is 1 for each of the question's points (N,) that is of a kind which no row shows.
        """
        spread = self.fit.answer(question.parts)
        if returns is not None:
            spread = mix([spread, self.fit.answer([(1.0, returns.functional)])], self.fit.candidates)
        points, coefficients = question.flat()
        beyond = self.fit.outside(points) + question.strays() + unseen
        sampled = sum(factor**2 * self.fit.sampling(part) for factor, part in question.parts)
        guessed = self.fit.size * (np.abs(coefficients) @ beyond)
        unknowable = DIGITS * abs(float(spread.value))
        stderr = float(np.sqrt(spread.stderr**2 + sampled + guessed**2 + unknowable**2))
        overlaps = [self.fit.overlap(part) for _, part in question.parts if np.all(part.shares >= 0)]
        negative = max((each.negative for each in overlaps), default=None)
        effective = min((each.effective for each in overlaps), default=None)
        relative = stderr / max(abs(float(spread.value)), self.fit.size, np.finfo(float).tiny)
        verdict, reasons = judge(
            negative=negative,
            outside=share_of(coefficients, beyond > 0),
            unseen=share_of(coefficients, np.broadcast_to(unseen, len(coefficients)) > 0),
            relative=relative,
            finite=bool(np.isfinite(stderr)),
            carried=spread.carried,
            constant=self.fit.size <= CONSTANT * abs(float(spread.value)),
            starts=min((len(part.points) for _, part in question.parts if part.sampled), default=None),
        )
        return Answer(
            float(spread.value),
            stderr,
            freedom=float(self.fit.freedom),
            question=question.words,
            verdict=verdict,
            warnings=reasons,
            negative=negative,
            effective=effective,
        )


def _functional(headline: Headline | None, numbers: np.ndarray) -> Functional | None:
    return None if headline is None else Functional(headline.points, headline.shares, numbers[headline.rows])


def joined(first: Functional | None, second: Functional | None, into: np.ndarray) -> Functional | None:
    """The mean over the rows of both, the first's in the left-out groups they are in; None where there is no first."""
    if first is None or first.groups is None:
        return None
    if second is None or second.groups is None:
        return dataclasses.replace(first, groups=into[first.groups])
    pairs = ((first.points, second.points), (first.shares, second.shares), (into[first.groups], second.groups))
    return Functional(*(np.concatenate(pair) for pair in pairs))
