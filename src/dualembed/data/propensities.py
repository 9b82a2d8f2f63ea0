"""Propensities: how likely the logged actions were, estimated where they were not logged, and what weights they leave.

The weights themselves are `data.policies.importance_weights(states, actions, target=..., behaviour=propensities)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.data.policies import effective_sample_size
from dualembed.data.probabilities import TOLERANCE, numbers, state_rows

FLOOR = 1e-3  # lower estimates are mostly error, and a weight would be their inverse
FEW_FEATURES = 15  # up to so many coordinates the products of two are features too; beyond, they would be hundreds
COMMON = 10  # rows of an action from which its probability can be told as a function of the state
LARGEST = 1000  # weights that are kept
LEAST_ROWS, LEAST_SHARE = 50, 0.1  # fewer effective rows than either, and an average rests on a handful


def estimated_propensities(
    states: Any, actions: Any, *, folds: int = 5, seed: int = 0, floor: float = FLOOR
) -> np.ndarray:
    """Estimates of π_b(a|s), the probability with which the behaviour policy took each logged action.

    Three classifiers from states to actions are tried: logistic regression on the standardised coordinates, another on
    their squares and products too (where there are at most 15), and boosted trees; and the best of them calibrated by
    scikit-learn's CalibratedClassifierCV. Each row's estimate comes from a fit to the other folds, so no row explains
    itself; the classifier with the lowest logarithmic loss on the held-out rows is taken. An action with fewer than 10
    rows gets its share of rows in every state. Small probabilities are smoothed, so a poor overlap may look better than
    it is.

    Parameters
    ----------
    states : array of shape (n, d) or (n,)
        States.
    actions : array of shape (n,)
        Logged actions, whole numbers in any numbering.
    folds : int, default=5
        Number of folds.
    seed : int, default=0
        Seed of folds and classifiers.
    floor : float, default=1e-3
        Least estimate: no weight exceeds 1/floor.

    Returns
    -------
    array of shape (n,)
        Probabilities.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> estimated_propensities(rng.normal(size=400), rng.random(400) < 0.3).mean().round(1)
    np.float64(0.6)
    """
    checks.count("folds", folds, at_least=2)
    checks.count("seed", seed, at_least=0)
    checks.positive("floor", floor)
    rows = state_rows(states)
    labels, classes = _labels(actions, len(rows))
    if floor > 1 / classes:
        raise checks.InputError(f"floor must be at most 1/{classes}, one over the number of actions, not {floor}")
    if len(rows) < 2 * folds:
        raise checks.InputError(f"{folds} folds need at least {2 * folds} rows, not {len(rows)}; give fewer folds")
    return _chosen(rows, labels, _parts(labels, folds, seed), seed, floor)[1]


@dataclass(frozen=True)
class Propensities:
    """How likely the logged actions were, as logged or as estimated.

    Attributes
    ----------
    values : array of shape (n,)
        Probabilities.
    replicates : array of shape (K, n) or None
        The same estimated without each of K groups of rows; None where they were logged.
    groups : array of shape (n,) or None
        The number of each row's group.
    """

    values: np.ndarray
    replicates: np.ndarray | None = None
    groups: np.ndarray | None = None

    @staticmethod
    def logged(given: Any) -> Propensities:
        """Those of a log.

        Parameters
        ----------
        given : array of shape (n,)
            How likely each logged action was.

        Returns
        -------
        Propensities
            The same, once they are known to be probabilities.
        """
        found = numbers("propensities", given)
        bad = ~((found > 0) & (found <= 1 + TOLERANCE))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise checks.InputError(
                f"propensities must be above 0 and at most 1, not {found[row]:g} as in row {row}: they are how likely "
                "the actions were that were taken; drop such rows or mend them"
            )
        return Propensities(found)


def estimate_propensities(
    states: Any, actions: Any, *, groups: Any = None, folds: int = 5, seed: int = 0, floor: float = FLOOR
) -> Propensities:
    """Estimates of π_b(a|s) as `estimated_propensities` makes them, also without each of a few groups of rows.

    What is made of them can so be made again from all that is left, estimates included, and its error counts that they
    are estimates (`linear.path.jackknife`).

    Parameters
    ----------
    states : array of shape (n, d) or (n,)
        States.
    actions : array of shape (n,)
        Logged actions.
    groups : array of shape (n,), optional
        Labels of rows that depend on each other, such as episodes; folds are made of these.
    folds : int, default=5
        Number of folds, which are the groups that are left out.
    seed : int, default=0
        Seed of folds and classifiers.
    floor : float, default=1e-3
        Least estimate.

    Returns
    -------
    Propensities
        The estimates.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = estimate_propensities(rng.normal(size=400), rng.random(400) < 0.3)
    >>> found.values.shape, found.replicates.shape
    ((400,), (5, 400))
    """
    checks.count("folds", folds, at_least=3)
    rows = state_rows(states)
    labels, classes = _labels(np.unique(np.asarray(actions), return_inverse=True)[1].ravel(), len(rows))
    owner = np.arange(len(rows)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    count = int(owner.max()) + 1
    if count < 2 * folds and groups is not None:
        folds = max(3, min(folds, count))
    if count < folds:
        raise checks.InputError(f"propensities are estimated in folds of at least 3 groups, but there are {count}")
    numbers_of = np.random.default_rng(seed).permutation(count) % folds
    fold = numbers_of[owner]
    parts = [(np.flatnonzero(fold != each), np.flatnonzero(fold == each)) for each in range(folds)]
    classifier, values = _chosen(rows, labels, parts, seed, min(floor, 1 / classes))
    replicates = np.tile(values, (folds, 1))
    for first in range(folds):
        for second in range(first):  # what is fitted without both serves the rows of each
            fitted = np.flatnonzero((fold != first) & (fold != second))
            held = np.flatnonzero((fold == first) | (fold == second))
            own = np.maximum(_cross_fitted(classifier, rows, labels, [(fitted, held)])[held], min(floor, 1 / classes))
            replicates[np.where(fold[held] == first, second, first), held] = own
    return Propensities(values, replicates, fold)


def _chosen(
    rows: np.ndarray, labels: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]], seed: int, floor: float
) -> tuple[Any, np.ndarray]:
    """(the classifier with the lowest loss on rows held out, its estimates (n,))."""
    from sklearn.calibration import CalibratedClassifierCV

    def estimates(classifier: Any) -> np.ndarray:
        return np.maximum(_cross_fitted(classifier, rows, labels, parts), floor)

    def loss(found: tuple[Any, np.ndarray]) -> float:
        return -float(np.mean(np.log(found[1])))

    tried = [(each, estimates(each)) for each in _classifiers(rows.shape[1], seed)]
    best = min(tried, key=loss)
    calibrated = CalibratedClassifierCV(best[0], method="sigmoid", cv=3)
    return min(best, (calibrated, estimates(calibrated)), key=loss)


@dataclass(frozen=True)
class Overlap:
    """How much of the data importance weights leave in use.

    Attributes
    ----------
    effective_sample_size : float
        How many unweighted rows the weighted ones are worth.
    share : float
        The effective sample size as a part of the rows.
    largest : float
        The largest weight, in units of the mean weight.
    top_share : float
        Part of all weight that the hundredth of the rows with the largest weights has.
    warning : str
        What to worry about; empty if enough is left.
    """

    effective_sample_size: float
    share: float
    largest: float
    top_share: float
    warning: str


@dataclass(frozen=True, eq=False)
class WeightSums:
    """What is kept of importance weights, however many there are: sums, and the largest ones in falling order.

    `top` is the sum of the hundredth of the rows with the largest weights, part by part of rows that came in parts.
    """

    rows: int = 0
    total: float = 0.0
    squares: float = 0.0
    top: float = 0.0
    largest: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @staticmethod
    def of(weights: Any) -> WeightSums:
        """Those of weights (n,)."""
        given = numbers("weights", weights)
        if given.ndim != 1 or not np.isfinite(given).all():
            raise checks.InputError(f"weights must be finite numbers of shape (rows,), but have shape {given.shape}")
        effective_sample_size(given)  # which refuses weights that leave nothing
        largest = np.sort(given)[::-1]
        top = float(largest[: _hundredth(len(given))].sum())
        return WeightSums(len(given), float(given.sum()), float(given @ given), top, largest[:LARGEST].copy())

    def __add__(self, other: WeightSums) -> WeightSums:
        """Those of both."""
        largest = np.sort(np.concatenate([self.largest, other.largest]))[::-1][:LARGEST].copy()
        return WeightSums(
            self.rows + other.rows,
            self.total + other.total,
            self.squares + other.squares,
            self.top + other.top,
            largest,
        )

    @property
    def overlap(self) -> Overlap:
        """How many rows the weights leave in use, and a warning where these are few."""
        size, count = self.total**2 / self.squares, _hundredth(self.rows)
        share = size / self.rows
        enough = size >= LEAST_ROWS and share >= LEAST_SHARE
        top = float(self.largest[:count].sum()) if count <= len(self.largest) else self.top
        return Overlap(
            effective_sample_size=size,
            share=share,
            largest=float(self.largest[0]) * self.rows / self.total,
            top_share=top / self.total,
            warning="" if enough else _warning(size, self.rows),
        )


def _hundredth(rows: int) -> int:
    return -(-rows // 100)


def overlap(weights: Any) -> Overlap:
    """How far the data of the behaviour policy cover the target policy, by the importance weights.

    Parameters
    ----------
    weights : array of shape (n,)
        Importance weights.

    Returns
    -------
    Overlap
        Numbers to judge by, and a warning.

    Examples
    --------
    >>> overlap([1.0] * 200).warning
    ''
    >>> overlap([100.0] + [0.0] * 99).warning[:49]
    'the weights leave 1 effective row of 100 (1.0 %):'
    """
    return WeightSums.of(weights).overlap


def _warning(size: float, count: int) -> str:
    rows = f"{size:.0f} effective row{'' if round(size) == 1 else 's'}"
    return (
        f"the weights leave {rows} of {count} ({100 * size / count:.1f} %): the target policy seldom does what was "
        "logged, and estimates for it rest on few rows; gather more data, clip the weights, or ask about a policy "
        "closer to the logged one"
    )


def _labels(actions: Any, rows: int) -> tuple[np.ndarray, int]:
    """(the actions (n,) renumbered from 0 without gaps, how many there are)."""
    given = numbers("actions", actions)
    if given.shape == (rows, 1):
        given = given[:, 0]
    if given.shape != (rows,):
        raise checks.InputError(f"actions must have shape ({rows},), one number a row, but have {given.shape}")
    broken = ~np.isfinite(given) | (given != np.round(given))
    if broken.any():
        row = int(np.argmax(broken))
        raise checks.InputError(
            f"actions must be whole numbers, not {given[row]:g} as in row {row}: only discrete actions have "
            "probabilities; put continuous ones into bins"
        )
    names, labels = np.unique(given, return_inverse=True)
    return labels, len(names)


def _parts(labels: np.ndarray, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(rows to fit, rows held out) of each fold, every action in every fold where there are enough of it."""
    from sklearn.model_selection import KFold, StratifiedKFold

    enough = np.bincount(labels).min() >= folds
    split = (StratifiedKFold if enough else KFold)(folds, shuffle=True, random_state=seed)
    return list(split.split(labels, labels))


def _classifiers(dimension: int, seed: int) -> list[Any]:
    """The classifiers that are tried."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    degrees = (1, 2) if dimension <= FEW_FEATURES else (1,)
    # Standardised again after the products are taken, or one penalty would weigh on them differently.
    features = [(StandardScaler(), PolynomialFeatures(each, include_bias=False), StandardScaler()) for each in degrees]
    logistic = [make_pipeline(*each, LogisticRegression(max_iter=1000)) for each in features]
    # Slow, shallow and shrunken: probabilities are wanted, not decisions, and trees are too sure of themselves.
    learning = {"learning_rate": 0.05, "max_iter": 300, "early_stopping": True}
    trees = HistGradientBoostingClassifier(**learning, max_leaf_nodes=15, l2_regularization=10.0, random_state=seed)
    return [*logistic, trees]


def _cross_fitted(
    classifier: Any, states: np.ndarray, labels: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """The probability (n,) of each row's own action under a fit to the other folds.

    Actions that the other folds have hardly taken have their share of rows as probability, whatever the state.
    """
    found = np.zeros(len(labels))
    for fitted, held in parts:
        shares = np.bincount(labels[fitted], minlength=labels.max() + 1) / len(fitted)
        found[held] = shares[labels[held]]
        common = np.flatnonzero(shares * len(fitted) >= COMMON)
        if len(common) < 2:
            continue
        rows = fitted[np.isin(labels[fitted], common)]
        among_common = classifier.fit(states[rows], labels[rows]).predict_proba(states[held])
        for place, action in enumerate(common):
            mine = labels[held] == action
            found[held[mine]] = shares[common].sum() * among_common[mine, place]
    return found
