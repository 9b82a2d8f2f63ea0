"""What a fit knows about itself: how wrong, where, how sure, how ill-posed; numbers, and the same in plain words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dualembed import checks
from dualembed.answers import LinearResults
from dualembed.data.coding import Coding
from dualembed.estimates import format_number, format_short
from dualembed.linear.moment_fit import MomentFit
from dualembed.linear.sums import number_groups
from dualembed.problems.base import Problem, iter_terms
from dualembed.selection import HeldOut
from dualembed.selection.honest_score import mean_of
from dualembed.selection.regression import cross_fit, split_blocks

WEAK = 10.0  # first-stage F below which instruments are weak
COLUMNS = 8  # whose instruments are spoken of
SELDOM = 0.2  # effective rows of a policy's value over those of the logged policy's, below which few bear on it
LOOKED_AT = 4096  # rows of the first stage
FOLDS = 5  # of first stages
FEW = 10  # effective rows for each degree of freedom


UNTOLD = "the file is of a version that did not say why"


class ReliabilityWarning(UserWarning):
    """One of `diagnostics_.warnings` that no answer should be read without."""


TrustWarning = ReliabilityWarning  # as it was called first


@dataclasses.dataclass(frozen=True)
class Diagnostics:
    """How far a fit can be trusted.

    `held_out` is the honest error on rows left out, `unjudged` why there is none; `singular_values` (descending) are
    those of f -> E[moment(f) | context] between the fitted features, 1 where the context says all, near 0 where it says
    nothing; `degrees_of_freedom` is how many directions of f the data determine rather than the prior; `first_stage`
    the share of each endogenous column's variance that the instruments predict on rows left out, `first_stage_rows` how
    many rows were looked at for it (of rows that arrive in parts, those of the largest part; at most 4,096); `overlap`
    that of importance weights; `effective_rows` how many rows of equal weights are worth as much as those of survey
    weights. `warnings` say in plain words what speaks against the fit.
    """

    rows: int
    held_out: HeldOut | None = None
    singular_values: np.ndarray | None = None
    degrees_of_freedom: float | None = None
    residual_variance: float | None = None
    first_stage: tuple[tuple[str, float], ...] = ()
    overlap: Any = None
    warnings: tuple[str, ...] = ()
    first_stage_rows: int = 0
    unjudged: str = ""
    effective_rows: float | None = None

    def sentences(self) -> list[str]:
        """How much the data determine, how noisy they are, and how strong instruments are, in plain words."""
        sentences = []
        if self.degrees_of_freedom is not None:
            sentences.append(
                f"The data determine about {self.degrees_of_freedom:.1f} directions of the function; the rest is "
                "smoothness that was assumed."
            )
        if self.residual_variance is not None:
            sentences.append(
                f"The noise of a single row has a variance of about {format_number(self.residual_variance)}."
            )
        if self.effective_rows is not None:
            sentences.append(
                f"With their weights the {self.rows:,} rows are worth {self.effective_rows:,.0f} of equal weight."
            )
        sentences += self.strengths()
        if self.overlap is not None:
            sentences.append(
                f"After importance weighting the data are worth {self.overlap.effective_sample_size:,.0f} rows "
                f"({100 * self.overlap.share:.0f} %); the largest weight is {format_number(self.overlap.largest)} "
                "times the mean."
            )
        return sentences

    def strengths(self) -> list[str]:
        """How much the instruments tell of the columns that they are to move, the least first."""
        shares = sorted(self.first_stage, key=lambda each: each[1])[:COLUMNS]
        if not shares:
            return []
        named = ", ".join(
            f"{told_share(share) if share else 'nothing'} of the variance of {name}" for name, share in shares
        )
        return [f"On rows left out the instruments predict {named}."]

    def __str__(self) -> str:
        worth = "" if self.effective_rows is None else f", worth {self.effective_rows:,.0f} with their weights"
        lines = [f"rows: {self.rows:,}{worth}"]
        if self.held_out is not None:
            error = self.held_out
            note = ", which tells nothing" if error.inconclusive else ""
            size = f"{error.value:.4g} ± {error.stderr:.2g}"
            lines.append(f"honest held-out error: {size} (on {error.rows:,} rows){note}")
        else:
            lines.append(f"honest held-out error: none: {self.unjudged or UNTOLD}")
        if self.degrees_of_freedom is not None:
            lines.append(f"degrees of freedom: {self.degrees_of_freedom:.1f}")
        if self.singular_values is not None:
            shown = ", ".join(f"{value:.2g}" for value in self.singular_values[:8])
            lines.append(f"singular values: {shown}, ...")
        seen = f" (on {self.first_stage_rows:,} rows)" if 0 < self.first_stage_rows < self.rows else ""
        lines += [
            f"instruments predict {told_share(share)} of the variance of {name}{seen}"
            for name, share in self.first_stage
        ]
        if self.overlap is not None:
            lines.append(f"overlap: {self.overlap}")
        lines += [f"warning: {each}" for each in self.warnings]
        return "\n".join(lines)


def diagnose(fit: MomentFit, held_out: HeldOut | None, rows: int) -> Diagnostics:
    """The diagnostics of a closed form on so many rows, judged by rows left out."""
    system, worth = fit.plain_system, fit.sums.rows
    freedom = system.freedom(fit.penalty)
    return Diagnostics(
        rows,
        held_out,
        system.singular_values(),
        freedom,
        fit.residual_variance,
        warnings=tuple(few_rows(worth, freedom)),
        effective_rows=worth if worth < (1 - 1e-9) * rows else None,
    )


class FirstStage(NamedTuple):
    """(column, share of its variance that the instruments predict) for each, and how many rows were looked at."""

    shares: tuple[tuple[str, float], ...] = ()
    rows: int = 0


def first_stage(problem: Problem, names: list[str], instruments: int, *, groups: Any, seed: int) -> FirstStage:
    """How much of every endogenous column's variance the instruments predict on rows left out; nothing for few groups.

    The instruments are the context's first columns. Where controls follow, it is the share of what they leave. It is
    that of a regression of any shape, or of a line in all rows where that predicts better: what hardly moves a column
    shows in many rows only, and to a line first.
    """
    parts = list(iter_terms(problem))
    points = np.concatenate([np.asarray(terms.points)[:, 0] for terms in parts])
    context = np.concatenate([np.asarray(terms.context) for terms in parts])
    masses = [terms.mass for terms in parts if terms.mass is not None]
    mass = np.concatenate(masses) if masses else None
    rng, rows = np.random.default_rng(seed), len(context)
    units = number_groups(None if groups is None else np.asarray(groups)[:rows], rows)
    some = slice(0, LOOKED_AT)
    few = number_groups(units[some], len(units[some]))
    if few.max() + 1 < 2 * FOLDS:
        return FirstStage()  # a group on both sides of a regression would tell what is not the instruments' doing
    blocks, uses = split_blocks(few, FOLDS, rng)
    folds = split_blocks(units, FOLDS, rng)[0] // 2

    own = None if mass is None else mass[some]

    def left(values: np.ndarray, given: np.ndarray) -> float:
        if not given.shape[1]:
            return mean_of((values - mean_of(values, own)) ** 2, own)
        fitted = cross_fit(given, values, blocks, uses=uses, rng=rng, mass=own)[0]
        return mean_of((values - fitted) ** 2, own)

    shares, lines = [], 0
    for column, name in enumerate(names):
        values = points[:, column]
        curved, line = (
            1 - after / max(before, np.finfo(float).tiny)
            for after, before in (
                [left(values[some], given[some]) for given in (context, context[:, instruments:])],
                [_left_by_line(values, given, folds, mass) for given in (context, context[:, instruments:])],
            )
        )
        shares.append((name, float(max(curved, line, 0.0))))
        lines += line >= curved
    return FirstStage(tuple(shares), rows if lines == len(names) else len(few))


def _left_by_line(values: np.ndarray, context: np.ndarray, folds: np.ndarray, mass: np.ndarray | None) -> float:
    """The mean square of what a line in the context leaves of values (n,), each row by a line through other folds."""
    design = np.column_stack([context, np.ones(len(context))])
    joined = np.column_stack([design, values])
    heavy = joined if mass is None else joined * mass[:, None]
    sums = np.stack([joined[folds == fold].T @ heavy[folds == fold] for fold in range(FOLDS)])
    others = sums.sum(axis=0) - sums
    slopes = np.stack([np.linalg.lstsq(own[:-1, :-1], own[:-1, -1], rcond=1e-12)[0] for own in others])
    return mean_of((values - np.sum(design * slopes[folds], axis=1)) ** 2, mass)


def first_stage_warnings(stage: FirstStage, linear: LinearResults | None) -> list[str]:
    """What weak instruments mean, in plain words.

    The first-stage F judges, in view of clusters and unequal variances, and where there is none the share on rows left
    out. Beside a small F that share counts too: an instrument may move a column in ways that no line shows.
    """
    weak = [(name, share) for name, share in stage.shares if stage.rows * share < WEAK * (1 - share)]
    if linear is not None:
        worrying = {test.column for test in linear.first_stage if test.worry}
        weak = [each for each in weak if each[0] in worrying or (linear.weak and not worrying)]
    if not weak:
        return []
    strength = (
        {}
        if linear is None
        else {test.column: f"first-stage F {format_short(test.statistic)}" for test in linear.first_stage}
    )
    named = ", ".join(f"{name} ({strength.get(name, told_share(share) + ' of its variance')})" for name, share in weak)
    return [
        f"the instruments are weak for {named}, so that the data say little about its effect and its interval may be "
        "too short; look for stronger instruments"
    ]


def told_share(share: float) -> str:
    """A share in hundredths, of which two digits count however small it is.

    >>> told_share(0.00413), told_share(0.71), told_share(0.0)
    ('0.41 %', '71 %', '0 %')
    """
    return f"{100 * share:.2g} %"


def unseen_levels(problem: Problem, codings: Sequence[Coding]) -> list[str]:
    """What it means that transitions lead to levels of a category that no row starts from, in plain words.

    The points of the problem's terms are the state, or state and action, and then those that it leads to, coded by the
    codings side by side. Refused where a category has no level in common: it is then written in two ways.
    """
    if not any(column.levels for coding in codings for column in coding.columns):
        return []
    before: list[dict[str, set[Any]]] = [{} for _ in codings]
    after: list[dict[str, set[Any]]] = [{} for _ in codings]
    ends = np.cumsum([coding.dimension for coding in codings])
    for terms in iter_terms(problem):
        leads = terms.points[:, 1:][terms.weights[:, 1:] != 0]
        for points, seen in ((terms.points[:, 0], before), (leads, after)):
            for coding, part, levels in zip(codings, np.split(points, ends[:-1], axis=1), seen, strict=True):
                for name, own in coding.levels_at(part).items():
                    levels[name] = levels.get(name, set()) | own
    return [
        warning
        for coding, here, there in zip(codings, before, after, strict=True)
        for name in here
        for warning in _never_seen(coding.role, name, here[name], there[name])
    ]


def _never_seen(what: str, name: str, before: set[Any], after: set[Any]) -> list[str]:
    """What to say of a category's levels that come after only."""
    known, strange = (", ".join(sorted(map(str, levels))[:6]) for levels in (before, after - before))
    if after and not after & before:
        raise checks.InputError(
            f"column {name} is {strange} in next {what}, but {known} in {what}, so that nothing is known of where rows "
            "lead; write its values alike in both, or give rows that start there"
        )
    if not strange:
        return []
    return [
        f"column {name} is {strange} in some next {what}, but in no {what} of any row, so that what follows there is a "
        "guess; give rows that start there"
    ]


def low_overlap(weights: np.ndarray, discounted: np.ndarray) -> list[str]:
    """What it means that the value of a policy rests on few of the rows, by their weights (n,) in it.

    `discounted` (n,) are the weights that rows have in the value of the policy that was logged.
    """
    size, logged = (
        float(each.sum() ** 2 / max(each @ each, np.finfo(float).tiny)) for each in (weights, discounted)
    )  # some of the weights may be below zero
    if size >= SELDOM * logged:
        return []
    return [
        f"the policy's value from the starts of episodes rests on {size:.0f} effective rows of "
        f"{len(weights)}, where that of the logged policy would rest on {logged:.0f}: the policy seldom does what was "
        "logged, and standard errors do not know what lies beyond the rows; gather data of a policy closer to it"
    ]


def few_rows(rows: float, freedom: float) -> list[str]:
    """What too little data means, in plain words."""
    if rows < FEW * freedom:
        return [
            f"there are only {rows / max(freedom, 1.0):.1f} rows for each of the {freedom:.0f} directions of f that "
            "are fitted: expect wide intervals, and more data to help"
        ]
    return []
