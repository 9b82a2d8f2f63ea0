"""Questions that a regression answers: differences, mean derivatives and average effects of columns."""

from __future__ import annotations

import dataclasses
import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualembed import checks
from dualembed.answers import Answer, Question, Summary
from dualembed.answers.question import share_of
from dualembed.answers.subgroups import Subgroups
from dualembed.data.coding import Coding, ColumnCoding
from dualembed.data.frames import levels_of
from dualembed.estimates import format_number
from dualembed.estimators.base import Estimator
from dualembed.estimators.learning import RowSample
from dualembed.linear.averaging import deviations
from dualembed.linear.fit import nearest, reach_of
from dualembed.threads import on_one_thread

STEP = 0.1  # of a column's deviation, to either side, over which a derivative is a difference: short steps at some rows
# would ask what a rough f does just there, which no data tell, while their mean over all rows is well known
LEVELS = 10  # of a category that are compared with its most frequent one
QUARTILE = 0.6745  # of a normal column, in deviations from its mean
QUARTILES = "quartiles"  # what is said of a move between them


class Place(NamedTuple):
    """Where a column is among the coordinates of rows, which are either coded or the column's own numbers."""

    column: ColumnCoding
    coordinates: slice
    coded: bool

    def moved(self, rows: np.ndarray, deviations_: float) -> np.ndarray:
        """The rows with the column moved by so many of its deviations."""
        moved = np.array(rows)
        moved[:, self.coordinates] += deviations_ * (1.0 if self.coded else self.column.scale)
        return moved

    def at(self, level: Any) -> Any:
        """The coordinates of one of the column's levels or numbers."""
        if self.column.levels:
            own = levels_of(np.array([level, None], dtype=object)[:1])
            if own[0] not in self.column.levels:
                known = ", ".join(map(str, self.column.levels[:8]))
                raise checks.InputError(
                    f"column {self.column.name} has no level {level!r}; give two of {known} as treated=... and "
                    "control=..."
                )
            return self.column.encode(own)[0]
        if not isinstance(level, int | float | np.number | np.bool_) or not np.isfinite(level):
            raise checks.InputError(
                f"column {self.column.name} is a number, and {level!r} is none; give numbers as treated=... and "
                "control=..."
            )
        return self.column.encode(np.array([float(level)]))[0] if self.coded else float(level)

    def values(self, rows: np.ndarray) -> np.ndarray:
        """What the column has in rows, in its own units."""
        return self.column.decode(rows[:, self.coordinates]) if self.coded else rows[:, self.coordinates.start]


class Over(NamedTuple):
    """Rows that a mean is over: how far each strays, the groups that they are a sample of, how much each counts."""

    rows: np.ndarray
    strays: np.ndarray
    groups: np.ndarray | None = None
    mass: np.ndarray | None = None

    @staticmethod
    def sample(sample: RowSample) -> Over:
        """Rows of a fit, which are a sample of what there is."""
        count = len(sample.rows)
        return Over(sample.rows, np.zeros(count), np.full(count, -1), sample.mass)


class Move(NamedTuple):
    """A column that moves from one of its values to another; `note` says why these two."""

    place: Place
    start: Any
    end: Any
    note: str = ""

    @property
    def words(self) -> str:
        """The move in words."""
        return f"{self.place.column.name} {self.ends}"

    @property
    def ends(self) -> str:
        """From where to where, in words."""
        ends = (format_number(each) if isinstance(each, float) else str(each) for each in (self.start, self.end))
        return f"from {' to '.join(ends)}" + (f" ({self.note})" if self.note else "")


class Effects(Estimator):
    """A regression: what f says of moving its columns, row by row, on average over rows."""

    asked_: tuple[Question, ...] = ()  # what leads the summary
    asked_by_: str | int | None = None  # likewise, in groups of rows that a column tells apart
    _moves_coded = True  # whether rows are moved in coded coordinates, or in the columns' own numbers

    @property
    def _measure(self) -> str:
        """What the effect of a move is."""
        return "difference of f"

    @abstractmethod
    def _rows_of(self, X: Any, controls: Any, *, repeated: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(rows (n, d) whose columns can be moved, how far each strays from what the fit could learn of (n,)).

        One row of X may be `repeated` for all rows of the controls.
        """

    @abstractmethod
    def _mean_at(
        self, words: str, rows: np.ndarray, shares: np.ndarray, *, strays: np.ndarray, groups: Any, mass: Any = None
    ) -> Question:
        """The mean of Σ_j shares_j f(rows_j) over rows (n, J, d), of which each counts by its mass."""

    @on_one_thread
    def ask_by(self, question: Question, by: Any) -> Subgroups:
        """Answer a question about every group of its rows that a column tells apart, with the answers' covariance.

        Parameters
        ----------
        question : Question
            One about rows, such as `average_effect`, `mean_derivative` and `difference` make; not a sum of such.
        by : str or int
            A column of f's that the question does not move: a category, a number with few values, or any other number,
            by its quartiles.

        Returns
        -------
        Subgroups
            An answer for each group. Their mean by the groups' shares is the answer about all rows.
        """
        check_is_fitted(self, "function_")
        place = self._place(by)
        ((_, part),) = question.parts if len(question.parts) == 1 else ((0.0, None),)
        if part is None or not self._moves_coded:
            raise checks.InputError("groups can be told apart in one question about rows, not in a sum of several")
        own = part.points[:, :, place.coordinates]
        if np.ptp(own, axis=1).max() > 0:
            raise checks.InputError(
                f"the question moves column {place.column.name} itself, so that it tells no groups apart; name another"
            )
        labels, levels = _group_rows(place.values(part.points[:, 0]))
        questions = [
            question.among(labels == number, f"{question.words}, where {place.column.name} is {level}")
            for number, level in enumerate(levels)
        ]
        answers = [self.ask(each) for each in questions]
        stderr = np.array([answer.stderr for answer in answers])
        flat = [each.flat() for each in questions]
        covariances = [spread.covariance(flat) for spread in self._spreads()]
        covariance = max(covariances, key=np.trace)
        np.fill_diagonal(covariance, stderr**2)
        shares = np.bincount(labels, part.mass, minlength=len(levels)) / len(labels)
        return Subgroups(place.column.name, levels, shares, tuple(answers), covariance, self.ask(question))

    def lead_with(self, question: Question, *others: Question, by: str | int | None = None) -> Self:
        """Make the answer to a question the headline of the summary, the notebook's card, the report and the file.

        Parameters
        ----------
        question : Question
            Such as `average_effect` and `mean_derivative` make.
        *others : Question
            Others, which the summary tells after it.
        by : str or int, optional
            A column, in each of whose groups of rows they are told as well, as `ask_by` does.

        Returns
        -------
        self
            The fitted estimator.
        """
        asked = [question, *others]
        led = self._led(asked, by)  # which refuses what cannot be asked
        self.asked_, self.asked_by_, self._summary = tuple(asked), by, led
        return self

    def _copy(self, *, fitted: bool) -> Self:
        """Without what was asked of this fit, which is not asked of another."""
        copied = super()._copy(fitted=fitted)
        copied.__dict__.pop("asked_", None)
        copied.__dict__.pop("asked_by_", None)
        return copied

    def _difference(self, first: tuple[Any, Any], second: tuple[Any, Any]) -> Question:
        """f at the first X and controls less f at the second, on average; one row stands for all."""
        sides = [self._rows_of(*side, repeated=True) for side in (first, second)]
        counts = {len(rows) for rows, _ in sides}
        if len(counts) > 1 and 1 not in counts:
            raise checks.InputError(
                "a difference takes as many rows on both sides, or one on either, not "
                f"{len(sides[0][0])} and {len(sides[1][0])}"
            )
        number = max(counts)
        rows, strays = (
            np.stack([np.broadcast_to(side[k], (number, *side[k].shape[1:])) for side in sides], axis=1) for k in (0, 1)
        )
        shares = np.tile([1.0, -1.0], (number, 1))
        return self._mean_at("the difference of f between two sets of rows", rows, shares, strays=strays, groups=None)

    def _mean_derivative(self, column: Any, X: Any, controls: Any) -> Question:
        place = self._place(column)
        if place.column.levels:
            raise checks.InputError(
                f"column {place.column.name} is a category, along which nothing has a derivative; ask for its "
                "average_effect"
            )
        over = self._asked_rows(X, controls, f"mean_derivative({column!r}, X)")
        both = np.stack([place.moved(over.rows, step) for step in (STEP, -STEP)], axis=1)
        shares = np.tile(np.array([1.0, -1.0]) / (2 * STEP * place.column.scale), (len(over.rows), 1))
        words = f"the mean derivative of f along {place.column.name}{self._note(X)}"
        # What f may be off by outside the data is off on both sides of the step alike, but for a share of it.
        strays = STEP * _twice(over.strays)
        return self._mean_at(words, both, shares, strays=strays, groups=over.groups, mass=over.mass)

    def _average_effect(self, column: Any, levels: tuple[Any, Any], X: Any, controls: Any) -> Question:
        place = self._place(column)
        words = f"the average effect of {place.column.name}={levels[0]} against {levels[1]}{self._note(X)}"
        return self._contrast(words, place, levels, self._asked_rows(X, controls, f"average_effect({column!r}, X=...)"))

    def _contrast(self, words: str, place: Place, levels: tuple[Any, Any], over: Over) -> Question:
        """The mean of f with the column at the first level less that at the second."""
        both = np.repeat(over.rows[:, None], 2, axis=1)
        for side, level in enumerate(levels):
            both[:, side, place.coordinates] = place.at(level)
        shares = np.tile([1.0, -1.0], (len(over.rows), 1))
        return self._mean_at(words, both, shares, strays=_twice(over.strays), groups=over.groups, mass=over.mass)

    def _moves(self) -> list[Move]:
        """A move of every column that can be moved: of a number by one unit where f is a line, else by its quartiles.

        A column of two values moves from the one to the other, and each level of a category is compared with its most
        frequent one (where no rows are kept with its first), the most frequent ones first.
        """
        places = [place for _, place in self._places() if place.column.width]
        return [move for place in places for move in _moves_of(place, self.sample_, is_line=self._is_line)]

    def _effects(self) -> list[tuple[Move, Answer]]:
        """What each move does, over the rows of the fit."""
        moves = self._moves()
        over = Over(self._middle(), np.zeros(1)) if self.sample_ is None else Over.sample(self.sample_)
        questions = [self._contrast(move.words, move.place, (move.end, move.start), over) for move in moves]
        return [(move, self._answer(question)) for move, question in zip(moves, questions, strict=True)]

    def _summarise(self) -> Summary:
        """With what was asked first, where something was."""
        return self._led(self.asked_, self.asked_by_) if self.asked_ else self._summarise_effects()

    def _led(self, asked: Sequence[Question], by: str | int | None) -> Summary:
        """The summary with the answers to these questions first."""
        groups = [] if by is None else [self.ask_by(each, by) for each in asked]
        return self._summarise_effects().led_by(self.ask_all(asked), groups)

    def _summarise_effects(self) -> Summary:
        """With what moving columns does, the first of them being the headline, where that is what was asked."""
        effects = self._effects() if self.task_.effects else []
        if not effects:
            return super()._summarise()
        headline = self._first_effect(*effects[0])
        findings = self._with_dropped(self._findings(headline))
        first = effects[0][0].place.column.name
        is_slope = headline.question != self._moved(*effects[0]).question
        slope = {"average_slope": {"column": first, **headline.to_dict()}} if is_slope else {}
        omitted = _omitted_levels([place for _, place in self._places()])
        findings = findings._replace(
            answers=tuple(answer for _, answer in effects),
            about="What moving a column does" + (": f is a straight line" if self._is_line else ", others as they are"),
            subject="change",
            measure=self._measure,
            facts={
                **findings.facts,
                **slope,
                "effects": [_effect(*each) for each in effects],
                "effects_unshown": omitted,
            },
            remarks=(*findings.remarks, *omitted),
        )
        return Summary(self.task_, headline, findings, self.diagnostics_, tuple(self.selection_.steps))

    def _first_effect(self, move: Move, answer: Answer) -> Answer:
        """What the first column does, in a sentence: its move, or what stands for it."""
        return self._moved(move, answer)

    def _moved(self, move: Move, answer: Answer) -> Answer:
        """What a move does, in a sentence."""
        words = f"the {self._measure} when {move.place.column.name} moves {move.ends}"
        return dataclasses.replace(answer, question=words)

    def _asked_rows(self, X: Any, controls: Any, call: str) -> Over:
        """Those given, or those of the fit, which are a sample of what there is."""
        self._coding()
        if X is not None:
            return Over(*self._rows_of(X, controls))
        if controls is not None:
            raise checks.InputError(f"controls go with X, which is missing; give both, as in {call}, or neither")
        if self.sample_ is None:
            raise checks.InputError(f"this model was saved without rows to take the mean over; give them, as in {call}")
        return Over.sample(self.sample_)

    def _note(self, X: Any) -> str:
        """What is said of rows that a mean is over, where they are some of those of the fit."""
        return "" if X is not None or self.sample_ is None else self.sample_.note

    def _place(self, column: Any) -> Place:
        """Where a column is that is to be moved, by its name or by its number; refused where it cannot be moved."""
        self._coding()
        known = self._places()
        names = [place.column.name for _, place in known]
        whole = isinstance(column, int | np.integer) and not isinstance(column, bool)
        number = int(column) if whole else names.index(column) if column in names else -1
        if not 0 <= number < len(names):
            raise checks.InputError(f"there is no column {column!r} to move; there are {', '.join(names[:12])}")
        _check_moved(*known[number])
        return known[number][1]

    def _places(self) -> list[tuple[Coding, Place]]:
        """Where every column is, with the coding that it is of."""
        known: list[tuple[Coding, Place]] = []
        begin = 0
        for coding in self._codings():
            starts = coding.starts if self._moves_coded else list(range(len(coding.columns)))
            for own, start in zip(coding.columns, starts, strict=True):
                width = own.width if self._moves_coded else 1
                known.append((coding, Place(own, slice(begin + start, begin + start + width), self._moves_coded)))
            begin += coding.dimension if self._moves_coded else len(coding.columns)
        return known

    def _share_outside(self, question: Question) -> float:
        if self.sample_ is None:
            return 0.0
        known, scale = self.sample_.places, deviations(self.sample_.places)
        points, coefficients = question.flat()
        beyond = nearest(points, known, scale) > reach_of(np.unique(known, axis=0), scale)
        return share_of(coefficients, beyond | (question.strays() > 0))

    def _size(self) -> float:
        return 0.0 if self.sample_ is None else float(np.std(self._predicted(self.sample_.points)))


def _group_rows(values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """(the number of each row's group, the groups in words): levels, or quartiles where a number has many values."""
    distinct, labels = np.unique(values, return_inverse=True)
    if len(distinct) <= LEVELS or distinct.dtype.kind not in "if":
        words = (format_number(each) if isinstance(each, float) else str(each) for each in distinct.tolist())
        return labels, tuple(words)
    cuts = np.unique(np.percentile(values, (25.0, 50.0, 75.0)))
    ends = [format_number(each) for each in (distinct[0], *cuts, distinct[-1])]
    return np.searchsorted(cuts, values, side="left"), tuple(f"{a} to {b}" for a, b in itertools.pairwise(ends))


def _check_moved(coding: Coding, place: Place) -> None:
    """Raise where the fit cannot know what a column does."""
    own = place.column
    if own.constant is not None:
        raise checks.InputError(
            f"column {own.name} was {own.constant} in every row of the fit, so that nothing is known of its effect"
        )
    if own.unused:
        raise checks.InputError(
            f"column {own.name} was left out of the fit, since beside the others it says nothing of y and X; name it "
            "in linear= to keep it"
        )
    if own.copy_of is not None:
        twin = coding.columns[own.copy_of].name
        raise checks.InputError(
            f"column {own.name} was a copy of {twin} in the fit, so that their effects cannot be told apart; ask about "
            f"{twin}, which moves both"
        )


def _twice(strays: np.ndarray) -> np.ndarray:
    return np.stack([strays, strays], axis=1)


def _moves_of(place: Place, sample: RowSample | None, *, is_line: bool) -> Iterator[Move]:
    """The moves of one column that are looked at, by what it has in the rows."""
    column, rows = place.column, None if sample is None else sample.rows
    if column.levels:
        seen = [] if rows is None else place.values(rows).tolist()
        first, *others = sorted(column.levels, key=lambda level: -seen.count(level))
        yield from (Move(place, first, other) for other in others[:LEVELS])
        return
    seen = np.unique(np.zeros(0) if rows is None else rows[:, place.coordinates])
    if len(seen) == 2:  # quartiles of which may well be the same
        values = (column.decode(seen[:, None]) if place.coded else seen).tolist()
        low, high = (float(f"{each:.9g}") for each in values)  # which coding may miss by a rounding
        yield Move(place, low, high)
    elif is_line:
        yield Move(place, 0.0, 1.0, "one unit")
    else:
        around = np.array([-QUARTILE, QUARTILE]) * column.scale + column.mean
        ends = around if sample is None else _quartiles(place.values(sample.rows), sample.mass)
        yield Move(place, float(ends[0]), float(ends[1]), QUARTILES)


def _quartiles(values: np.ndarray, mass: np.ndarray | None) -> np.ndarray:
    """The first and the third quartile of values that do not all count alike."""
    if mass is None:
        return np.percentile(values, (25.0, 75.0))
    return np.percentile(values, (25.0, 75.0), weights=mass, method="inverted_cdf")


def _omitted_levels(places: Sequence[Place]) -> list[str]:
    """For every category of many levels, a sentence that not all are compared."""
    counts = {place.column.name: len(place.column.levels) - 1 for place in places}
    return [
        f"Of {name} the {LEVELS} most frequent of {count} other levels are compared."
        for name, count in counts.items()
        if count > LEVELS
    ]


def _effect(move: Move, answer: Answer) -> dict[str, Any]:
    """What a move does, in terms that JSON has."""
    ends = {"column": move.place.column.name, "from": move.start, "to": move.end, "change": move.words}
    return {**ends, **answer.to_dict()}
