"""The transitions of a fit, kept for answers that f alone does not give: long-run means, rates, variances of times."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualembed import checks
from dualembed.answers import Answer
from dualembed.answers.answer import judge
from dualembed.arrays import Booleans, Floats, Integers
from dualembed.linear.averaging import Rows, assign_groups
from dualembed.linear.candidates import Functional, Headline
from dualembed.linear.fit import LinearFit, Overlap
from dualembed.linear.path import Average, Estimates
from dualembed.problems import AverageReward
from dualembed.problems.base import Problem
from dualembed.selection import auto
from dualembed.sources import Dataset

MOST, MOST_IN_FILES = 200_000, 20_000  # transitions that are kept with a model, and in a file of it


@dataclasses.dataclass(frozen=True)
class Moves:
    """Coded states (n, d) and next states (n, d), in which set each is (n,), and labels (n,) of rows that depend.

    Sets are numbered from 1, and 0 is none of them. `durations` (n,) are 1 and `labels` those of single rows where they
    are left out; `given` (n,) are the numbers of the rows as they were given.
    """

    state: Floats
    next_state: Floats
    here: Integers
    there: Integers
    labels: Integers | None = None
    durations: Floats | None = None
    given: Integers | None = None

    def in_file(self) -> Moves:
        """What a file keeps of them."""
        return self.sampled(0, MOST_IN_FILES)

    def sampled(self, seed: int, most: int | None = None) -> Moves:
        """At most so many of the transitions, drawn at random: a model does not grow with its data."""
        most = MOST if most is None else most
        if len(self) <= most:
            return self
        kept = np.sort(np.random.default_rng(seed).choice(len(self), most, replace=False))
        given = kept if self.given is None else self.given[kept]
        fields = ("state", "next_state", "here", "there", "labels", "durations")
        own = [(name, getattr(self, name)) for name in fields]
        some: dict[str, Any] = {name: each[kept] for name, each in own if each is not None}
        return Moves(**some, given=given)

    def joined(self, more: Moves) -> Moves:
        """Both, whose groups are no others' each."""
        pairs = {name: (getattr(self, name), getattr(more, name)) for name in ("state", "next_state", "here", "there")}
        joined: dict[str, Any] = {name: np.concatenate(pair) for name, pair in pairs.items()}
        if self.labels is not None and more.labels is not None:
            joined["labels"] = np.concatenate([self.labels, more.labels + 1 + self.labels.max()])
        if self.durations is not None or more.durations is not None:
            joined["durations"] = np.concatenate([self.times, more.times])
        return Moves(**joined)

    @property
    def departures(self) -> tuple[int, int]:
        """How many start in the first set, and in the second."""
        return int(np.sum(self.here == 1)), int(np.sum(self.here == 2))

    def __len__(self) -> int:
        return len(self.state)

    @property
    def times(self) -> Floats:
        """How long each transition takes, (n,)."""
        return np.ones(len(self)) if self.durations is None else self.durations


@dataclasses.dataclass(frozen=True)
class LongRun:
    """A mean in the long run: its estimates, what it rests on, and by how much what it is of varies over the rows."""

    estimates: Estimates
    average: Average
    freedom: float
    overlap: Overlap
    scale: float

    def __truediv__(self, other: LongRun) -> LongRun:
        """The ratio of both, to first order; what varies is then the ratio itself."""
        found = ratio(self.estimates, other.estimates, self.average)
        negative = max(self.overlap.negative, other.overlap.negative)
        effective = min(self.overlap.effective, other.overlap.effective)
        return LongRun(found, self.average, self.freedom, Overlap(negative, effective), 0.0)

    def at_least(self, error: float) -> LongRun:
        """The same with a standard error of at least so much, which is then judged by the mean alone."""
        lacking = error**2 - float(self.estimates.stderr) ** 2
        if lacking <= 0:
            return self
        wider = dataclasses.replace(self.estimates, between=self.estimates.between + lacking)
        return dataclasses.replace(self, estimates=wider, scale=0.0)

    def answer(self, words: str, *, positive: bool = False, most: float | None = None) -> Answer:
        """The answer to the question in these words, with a verdict."""
        spread = self.estimates
        value, stderr = float(spread.value), float(spread.stderr)
        relative = stderr / max(abs(value), self.scale, float(np.finfo(float).tiny))
        judged = judge(
            negative=self.overlap.negative,
            outside=0.0,
            relative=relative,
            of_answer=abs(value) >= self.scale,
            finite=bool(np.isfinite(stderr)),
            carried=spread.carried,
        )
        return Answer(
            min(max(value, 0.0), np.inf if most is None else most) if positive else value,
            stderr,
            freedom=self.freedom,
            question=words,
            verdict=judged.verdict,
            warnings=judged.warnings,
            negative=self.overlap.negative,
            effective=self.overlap.effective,
            positive=positive and most is None,
            least=0.0 if positive else None,
            because=judged.because,
            most=most,
        )


class Process:
    """What is made of the transitions of a fit, each time with the same groups of rows left out."""

    def __init__(self, moves: Moves, seed: int) -> None:
        self.moves, self.seed = moves, seed
        points = np.stack([moves.state, moves.next_state], axis=1)
        weights = np.broadcast_to([1.0, -1.0], points.shape[:2])
        rows = Rows(points, weights, np.zeros(len(points)), 0)
        self.groups = assign_groups(rows, moves.labels, np.random.default_rng(seed))
        self.reference = middle(moves.state)

    def solve(self, problem: Problem, rows: Booleans | None = None, headline: Headline | None = None) -> LinearFit:
        """The solution of a problem of the transitions, or of some of them (n,)."""
        groups = self.groups if rows is None else self.groups._replace(numbers=self.groups.numbers[rows])
        fit: LinearFit = auto(self.seed, problem, groups=groups, headline=headline).closed
        return fit

    def mean(self, observed: Floats) -> LongRun:
        """The long-run mean of what is observed at each row, (n,), or what is made of a fit there each way, (n, K + 2).

        It is the V(s_0) of the differential value V of that reward: transitions that leave a law as it is weigh rows.
        """
        problem = AverageReward(Dataset(**self._columns(observed)), self.reference)
        point = self.reference[None, None]
        fit = self.solve(problem, headline=Headline(point, np.ones((1, 1))))
        asked = Functional(point, np.ones((1, 1)))
        estimates = fit.candidates.ask([(1.0, asked)])
        scale = float(np.std(observed if observed.ndim == 1 else observed[:, 0]))
        return LongRun(estimates, fit.candidates, float(fit.freedom), fit.overlap(asked), scale)

    def _columns(self, observed: Floats) -> dict[str, Any]:
        columns = {"state": self.moves.state, "next_state": self.moves.next_state}
        if observed.ndim == 1:
            return {**columns, "reward": observed}
        return {**columns, "reward": observed[:, 0], "ways": observed}


def middle(points: Floats) -> Floats:
    """The point (d,) of these (n, d) that is nearest to their median, whatever their order."""
    away = np.sum((points - np.median(points, axis=0)) ** 2, axis=1)
    nearest = points[away == away.min()]
    return nearest[np.lexsort(nearest.T)[0]]


def ratio(above: Estimates, below: Estimates, average: Average) -> Estimates:
    """The ratio of two answers from the same groups of rows, to first order; infinite where it divides by 0."""
    if not float(below.value):
        none = np.full(len(above.influence), np.nan)
        return dataclasses.replace(above, value=np.asarray(np.inf), sampling=np.asarray(np.inf), influence=none)
    value = above.value / below.value
    with np.errstate(divide="ignore", invalid="ignore"):  # without some group there may be none
        replicates = above.replicates / below.replicates
    influence = (above.influence - value * below.influence) / below.value
    bias = (above.bias + abs(value) * below.bias) / abs(below.value)
    between = ((np.sqrt(above.between) + abs(value) * np.sqrt(below.between)) / below.value) ** 2
    sampling = average.sampling(np.append(value, replicates), influence)
    return Estimates(value, sampling, bias, between, replicates, influence)


def within(values: Floats, inside: Sequence[tuple[Booleans, float]]) -> Floats:
    """Values (n, K + 2) each way with a number in place of those of some rows (n,)."""
    found = np.array(values)
    for rows, number in inside:
        found[rows] = number
    return found


def require_default(model: Any, moves: Moves | None, what: str) -> Moves:
    """The transitions of a default fit; refused where it is another, or where a file of old has none."""
    check_is_fitted(model, "function_")
    if model.paths_ is None or moves is None:
        raise checks.InputError(
            f"{what} is there for default fits of this version alone, with solver, primal and dual 'auto' and weights, "
            "if any, that are whole numbers; fit it again"
        )
    return moves


def require_single_steps(model: Any, what: str) -> None:
    """Raise where transitions are windows: those that end in a set do not leave the law of the long run as it is."""
    if model.lagtime != 1:
        raise checks.InputError(
            f"{what} rests on the law of the long run, which single steps leave as it is, but windows that end in a "
            f"set do not; fit with lagtime=1, not {model.lagtime}"
        )
