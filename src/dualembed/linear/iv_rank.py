"""Which columns of a linear model with instruments others say already: dropped by name, or refused by name."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.estimates import pluralise

COLLINEAR = 1e-9  # what others leave of a column, in terms of its length, below which it is one of their combinations
INVOLVED = 1e-6  # coefficient of a column of length 1 from which on it is named as part of a combination


@dataclasses.dataclass(frozen=True)
class Dropped:
    """A column that was left out because others say the same.

    Attributes
    ----------
    name : str
        Name of the column.
    reason : str
        Why, with the names of the columns that say the same.
    """

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} was left out: {self.reason}"


def find_independent(
    triangle: Floats, names: list[str], sizes: tuple[int, int, int], *, flat: str
) -> tuple[list[int], tuple[Dropped, ...]]:
    """(places of columns of [1 W | Z | X] that others do not say already, those that were left out).

    Of collinear columns of W, and of Z beside W, the later ones are left out, as is usual for dummies: neither the fit
    nor β knows the difference. A column of X, or of Z that W says by itself, is refused: it is a mistake.
    """
    controls, instruments, endogenous = (range(*each) for each in ranges(sizes))
    chosen: list[int] = []
    dropped: list[Dropped] = []

    def left(place: int, others: list[int]) -> tuple[float, str]:
        """(what others leave of the column, those that it is a combination of, in words)."""
        column = triangle[:, place]
        if not others:
            return float(np.linalg.norm(column)), ""
        weights = np.linalg.lstsq(triangle[:, others], column, rcond=None)[0]
        rest = column - triangle[:, others] @ weights
        rest -= triangle[:, others] @ np.linalg.lstsq(triangle[:, others], rest, rcond=None)[0]
        named = [names[each] for each, weight in zip(others, weights, strict=True) if abs(weight) > INVOLVED]
        return float(np.linalg.norm(rest)), checks.some(named)

    def reason(said: str) -> str:
        if not said:
            return flat
        return f"it is a combination of {said}" if ", " in said else f"it says the same as {said}"

    for place in controls:
        rest, said = left(place, chosen)
        if rest > COLLINEAR:
            chosen.append(place)
        else:
            dropped.append(Dropped(names[place], reason(said)))
    alone = list(chosen)
    for place in instruments:
        rest, said = left(place, alone)
        if rest <= COLLINEAR:
            raise checks.InputError(
                f"the instrument {names[place]} cannot move anything that the exogenous columns do not: "
                f"{reason(said)}; leave it out, or take those columns out of the exogenous ones"
            )
        rest, said = left(place, chosen)
        if rest > COLLINEAR:
            chosen.append(place)
        else:
            dropped.append(Dropped(names[place], reason(said)))
    for place in endogenous:
        rest, said = left(place, alone)
        if rest <= COLLINEAR:
            raise checks.InputError(
                f"the effect of the endogenous column {names[place]} cannot be told from those of the others: "
                f"{reason(said)}; leave one of them out"
            )
        alone.append(place)
        chosen.append(place)
    count = sum(place in instruments for place in chosen)
    if count < len(endogenous):
        raise checks.InputError(
            f"{pluralise(len(endogenous), 'endogenous column')} ({checks.some(names[each] for each in endogenous)}) "
            f"cannot be told apart by {pluralise(count, 'instrument')}, since {'; '.join(map(str, dropped))}; give at "
            "least one independent instrument for each"
        )
    return chosen, tuple(dropped)


def check_relevance(triangle: Floats, endogenous: Sequence[str], instruments: Sequence[str], *, controls: int) -> None:
    """Refuse instruments that leave a direction of X exactly where it was, by the triangle of [1 W | Z | X | y]."""
    b, p = controls + len(instruments), len(endogenous)
    if not p:
        return
    own = triangle[controls:, b : b + p]
    moved = triangle[controls:b, b : b + p] / np.sqrt(np.sum(own**2, axis=0))
    strengths, directions = np.linalg.svd(moved)[1:]
    if strengths[-1] > COLLINEAR:
        return
    names = [name for name, weight in zip(endogenous, directions[-1], strict=True) if abs(weight) > 1e-3]
    what = f"does not move {names[0]}" if len(names) == 1 else f"moves {checks.some(names)} in one proportion only"
    raise checks.InputError(
        f"what is special to the instruments ({checks.some(instruments)}), beside the exogenous columns, {what}, so "
        "that no data of this kind can tell the effect; give other instruments"
    )


def check_counts(
    rows: int, triangle: Floats, names: Sequence[str], *, sizes: tuple[int, int, int], levels: int
) -> None:
    """Refuse fewer instruments than endogenous columns, and fewer rows than columns that vary and absorbed levels."""
    _, instruments, endogenous = ranges(sizes)
    if sizes[1] < sizes[2]:
        raise checks.InputError(
            f"{pluralise(sizes[2], 'endogenous column')} ({checks.some(names[slice(*endogenous)])}) cannot be told "
            f"apart by {pluralise(sizes[1], 'instrument')} ({checks.some(names[slice(*instruments)])}); give at least "
            "one instrument for each, or move a column to the exogenous ones"
        )
    varying = [int(np.count_nonzero(np.any(triangle[:, slice(*ends)], axis=0))) for ends in ranges(sizes)]
    columns = varying[0] + max(varying[1], varying[2])
    if columns and rows <= columns + levels:
        absorbed = f", and {pluralise(levels, 'absorbed effect')}" if levels else ""
        others = "instruments" if varying[1] > varying[2] else "endogenous ones"
        raise checks.InputError(
            f"{pluralise(rows, 'row')} cannot tell {pluralise(columns, 'column')} (the exogenous ones with the {others}"
            f"{absorbed}) and their errors apart; give more rows, or fewer columns"
        )


def ranges(sizes: tuple[int, int, int]) -> list[tuple[int, int]]:
    """(first, last + 1) of each of the blocks of columns."""
    ends = np.cumsum([0, *sizes])
    return [(int(start), int(end)) for start, end in itertools.pairwise(ends)]
