"""Whether rewards stand in the rows of the steps that earned them, or in those before or after: from the data alone."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.spatial import cKDTree

from dualembed import checks
from dualembed.arrays import Floats, Integers
from dualembed.data.logs import log as read_log

ROWS, BLOCK = 2000, 200  # rows that are looked at, in stretches of at most so many
CLUSTERS = 10  # below which stretches of episodes are what errors are clustered by, rather than episodes
FEWEST = 100  # rows with one before and one after, below which nothing can be told
FOLDS = 4
CENTRES, WIDE_CENTRES = 120, 120  # of kernels on states alone, and on actions and next states beside
SCALE = 3.0  # of kernels, times the distance between standardised rows
RIDGES = 10.0 ** np.arange(-2, -12, -2.0)
FLOOR = 1e-6  # of the rewards' variance: squared errors below it are alike
VARIES = 0.05  # share of rows whose reward is not the usual one, below which nothing can be told
EXPLAINED = 0.98  # squared errors over the variance, above which nothing is predicted
BETTER, SURE = np.log(2.0), 4.0  # how much less typical squared errors must be, and by how many standard errors
TIED = 0.05  # by how much typical squared errors may differ that are alike
ACTION_SURE = 4.5  # standard errors of what a later action says of a reward
EXPLORED = 0.05  # share of an action's variance that the state leaves open, below which it says nothing
LOCAL, NEAREST, LOCAL_RIDGE = 4, 10, 1e-6  # columns that are few, and rows beside twice the numbers of a square in them
CLIP = 3.0  # medians at which residuals are cut off


@dataclasses.dataclass(frozen=True)
class Alignment:
    """What the data say of the rows that rewards stand in.

    Attributes
    ----------
    verdict : {"aligned", "shifted", "unknown"}
        Whether there is no sign of a shift, whether there is one, or why neither can be told.
    lag : int
        1 where rewards stand in the row after their own, -1 where they stand in the row before, else 0.
    errors : tuple of float
        Typical errors of rewards as predicted from the step before, their own and the step after, in standard
        deviations of rewards.
    statistic : float
        By how many standard errors the other step predicts better; of the one that comes nearer to it.
    rows : int
        How many rows were looked at.
    reason : str
        Why nothing can be told, or what speaks for a shift.
    """

    verdict: str
    lag: int = 0
    errors: tuple[float, float, float] = (np.nan, np.nan, np.nan)
    statistic: float = np.nan
    rows: int = 0
    reason: str = ""

    @property
    def warning(self) -> str:
        """What to worry about, in a sentence; nothing where there is no sign of a shift."""
        if self.verdict != "shifted":
            return ""
        place, way = ("after", "up") if self.lag > 0 else ("before", "down")
        return (
            f"rewards seem to stand in the row {place} the step that earned them: {self.reason}; if so, move the "
            f"column of rewards {way} by one row in each episode"
        )

    def __str__(self) -> str:
        if self.verdict == "shifted":
            return f"{self.warning[0].upper()}{self.warning[1:]}."
        if self.verdict == "unknown":
            return f"Whether rewards stand in the right rows cannot be told: {self.reason}."
        return "There is no sign that rewards stand in other rows than those of the steps that earned them."


def alignment(log: Any, *, seed: int = 0) -> Alignment:
    """Whether rewards stand in the rows of the steps that earned them.

    In a right log a reward is predicted best from its own row's state, action and next state. In one that is shifted by
    a row it is predicted better from those of a neighbouring row; and where it is not, a reward that tells of the
    action in the next row, beyond what the state there says, is that row's. Rewards that are functions of states alone
    may be those of the state that a step leaves or of the one that it leads to: both are right.

    Parameters
    ----------
    log : dict, frame, str or object
        What `log` takes or has returned, with episodes of at least three steps.
    seed : int, default=0
        Seed of the rows that are looked at, and of the regressions.

    Returns
    -------
    Alignment
        A verdict with the reason.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state, action = rng.normal(size=(2, 1000))
    >>> table = {"state": state, "action": action, "reward": state * action, "episode": np.arange(1000) // 20}
    >>> alignment({**table, "terminated": np.zeros(1000)}).verdict
    'aligned'
    >>> alignment({**table, "reward": np.roll(table["reward"], 1), "terminated": np.zeros(1000)}).lag
    1
    """
    checks.count("seed", seed, at_least=0)
    columns = read_log(log)
    if "reward" not in columns:
        raise checks.InputError("the log has no rewards, whose rows are in question; give one with rewards")
    return alignment_of(
        columns["state"],
        columns.get("action"),
        columns["reward"],
        columns["next_state"],
        np.asarray(columns["episode"]),
        seed=seed,
    )


class Steps(NamedTuple):
    """Rows in stretches (n,) of consecutive ones, and the episodes (n,) or stretches that errors are clustered by."""

    rows: Integers
    stretch: Integers
    cluster: Integers


def alignment_of(
    state: Any, action: Any, reward: Any, following: Any, episodes: Integers, *, seed: int = 0
) -> Alignment:
    """The same of columns of numbers, in the order of time within each of the episodes (n,)."""
    reward = np.asarray(reward, dtype=np.float64)
    state, following = (np.asarray(each, dtype=np.float64).reshape(len(reward), -1) for each in (state, following))
    rng = np.random.default_rng(seed)
    steps = _steps(state, following, episodes, rng)
    if steps is None:
        return Alignment("unknown", reason="too few rows are followed by the next one of their episode")
    state, following, reward = state[steps.rows], following[steps.rows], reward[steps.rows]
    acts = np.zeros((len(reward), 0))
    if action is not None:
        acts = _columns_of_actions(np.asarray(action)[steps.rows])
    usual = np.unique(reward, return_counts=True)[1].max()
    if usual > (1 - VARIES) * len(reward):
        return Alignment("unknown", rows=len(reward), reason="rewards hardly vary")
    return _judged(state, acts, reward, following, steps, rng)


def _steps(state: Floats, following: Floats, episodes: Integers, rng: np.random.Generator) -> Steps | None:
    """Some stretches of rows that lead to each other; None where there are too few."""
    labels = np.unique(episodes, return_inverse=True)[1]
    order = np.argsort(labels, kind="stable")
    own = labels[order]
    leads = own[1:] == own[:-1]
    leads &= np.all(np.isclose(following[order[:-1]], state[order[1:]], rtol=1e-5, atol=1e-5), axis=1)
    number = np.append(0, np.cumsum(~leads))
    place = np.arange(len(number)) - np.searchsorted(number, number)
    stretches = np.unique(np.stack([number, place // BLOCK], axis=1), axis=0, return_inverse=True)[1].ravel()
    counts = np.bincount(stretches)
    drawn = rng.permutation(np.flatnonzero(counts >= 3))
    drawn = drawn[: 1 + np.searchsorted(np.cumsum(counts[drawn]), ROWS)]
    kept = np.flatnonzero(np.isin(stretches, drawn))[:ROWS]
    if len(kept) - 2 * len(drawn) < FEWEST:
        return None
    stretch = np.unique(stretches[kept], return_inverse=True)[1]
    cluster = np.unique(own[kept], return_inverse=True)[1]
    if cluster.max() + 1 < CLUSTERS:  # a few long episodes
        cluster = np.arange(len(kept)) * 2 * CLUSTERS // len(kept)
    return Steps(order[kept], stretch, cluster)


def _columns_of_actions(action: Floats) -> Floats:
    """Actions as columns: kinds that are few by one each, which numbers might belie."""
    if action.ndim == 1 and action.dtype.kind != "f":
        action = np.unique(action, return_inverse=True)[1].astype(np.float64)
    found = np.asarray(action, dtype=np.float64).reshape(len(action), -1)
    kinds = np.unique(found[:, 0])
    if found.shape[1] == 1 and 2 < len(kinds) <= 20 and np.all(kinds == np.round(kinds)):
        return np.asarray(found == kinds, dtype=np.float64)
    return found


def _judged(
    state: Floats, action: Floats, reward: Floats, following: Floats, steps: Steps, rng: np.random.Generator
) -> Alignment:
    """The verdict on rows (n,) that rewards vary over."""
    count, stretch = len(reward), steps.stretch
    first = np.append(True, stretch[1:] != stretch[:-1])
    inner = ~first & ~np.append(first[1:], True)
    folds = rng.permutation(stretch.max() + 1)[stretch] % FOLDS
    if stretch.max() + 1 < 2 * FOLDS:
        folds = np.arange(count) * FOLDS // count
    before, after = np.roll(reward, 1), np.roll(reward, -1)  # where they are used they are of the same stretch
    curved = _curved(action)
    fit = Regressions(folds, inner, rng)
    alone = fit(state, np.column_stack([reward, before, after, curved]), CENTRES)
    acted = fit(np.column_stack([state, action]), np.column_stack([after, reward, before]), WIDE_CENTRES)
    whole = fit(np.column_stack([state, action, following]), np.column_stack([after, reward, before]), WIDE_CENTRES)
    rows = np.flatnonzero(inner)
    low, high = np.quantile(reward, [0.25, 0.75])
    scale = float(reward.std())
    spread = min(scale, (high - low) / 1.35) or scale

    def logs(predicted: Floats, at: Integers) -> Floats:
        return np.asarray(np.log((predicted[at] - reward[rows]) ** 2 + FLOOR * spread**2))

    left, reached, earlier = logs(alone[:, 0], rows), logs(alone[:, 1], rows + 1), logs(alone[:, 2], rows - 1)
    ways = (
        [logs(acted[:, 0], rows - 1), logs(whole[:, 0], rows - 1), earlier, left],
        [logs(acted[:, 1], rows), logs(whole[:, 1], rows), left, reached],
        [logs(acted[:, 2], rows + 1), logs(whole[:, 2], rows + 1), reached],
    )
    best = [min(each, key=np.mean) for each in ways]
    back, own, ahead = (float(np.exp(0.5 * each.mean()) / spread) for each in best)
    typical = back, own, ahead
    squares = min(float(np.mean(np.minimum(np.exp(each), 9 * spread**2))) for each in best)
    if squares > EXPLAINED * float(np.mean(np.minimum((reward - np.median(reward)) ** 2, 9 * spread**2))):
        return Alignment("unknown", errors=typical, rows=len(rows), reason="nothing logged predicts rewards")
    gains = {lag: _gain(best[1] - best[1 - lag], steps.cluster[rows]) for lag in (1, -1)}
    lag = max(gains, key=lambda each: gains[each][1])
    gain, sure = gains[lag]
    if gain > BETTER and sure > SURE:
        step = "the step before" if lag > 0 else "the step after"
        reason = (
            f"{step} their row's predicts them with typical errors of {typical[1 - lag]:.2g} standard deviations, and "
            f"that of their row with {typical[1]:.2g}"
        )
        return Alignment("shifted", lag, typical, sure, len(rows), reason)
    told = _told_by_next_action(alone, curved, before, inner & np.roll(inner, 1))
    if told > ACTION_SURE and best[2].mean() <= best[1].mean() + TIED:
        reason = "they tell of the action in the next row, which was not taken yet, beyond what the state there says"
        return Alignment("shifted", -1, typical, told, len(rows), reason)
    return Alignment("aligned", 0, typical, sure, len(rows))


def _gain(apart: Floats, cluster: Integers) -> tuple[float, float]:
    """The mean of differences (n,), and how many standard errors over clusters that is."""
    mean = float(apart.mean())
    sums = np.bincount(cluster, apart - mean)
    error = float(np.sqrt(sums @ sums) / len(apart))
    return mean, mean / error if error > 0 else 0.0


def _curved(action: Floats) -> Floats:
    """Actions with their squares."""
    constant = np.ptp(action, axis=0) == 0 if len(action) else np.zeros(action.shape[1], dtype=bool)
    own = action[:, ~constant]
    kinds = [len(np.unique(column)) for column in own.T]
    more = own[:, [count > 2 for count in kinds]]
    return np.column_stack([own, (more - more.mean(axis=0)) ** 2]) if own.size else own


def _told_by_next_action(alone: Floats, curved: Floats, before: Floats, rows: Any) -> float:
    """How many standard errors rewards of the row before tell of an action, beyond what the state tells of both.

    A policy draws actions by states: in a right log products of both residuals, clipped or not, have mean zero,
    whatever rewards are, and none of them tells of another.
    """
    if not curved.shape[1]:
        return 0.0
    residual = (before - alone[:, 1])[rows]
    size = float(np.median(np.abs(residual)))
    if size <= 0:
        return 0.0
    clipped = np.clip(residual / size, -CLIP, CLIP)
    found = 0.0
    for predicted, column in zip(alone[:, 3:].T, curved.T, strict=True):
        drawn = (column - predicted)[rows]
        if drawn.var() > EXPLORED * column[rows].var():
            products = clipped * drawn
            found = max(found, abs(float(products.sum())) / float(np.sqrt(products @ products)))
    return found


class Regressions:
    """Regressions of columns, each row's by the rows of other folds that are used, with the ridge that errs least.

    What errs least is the mean of logarithms of squares: rewards with kinks are fitted well in most places.
    """

    def __init__(self, folds: Integers, used: Any, rng: np.random.Generator) -> None:
        self.folds, self.used, self.rng = folds, used, rng

    def __call__(self, inputs: Floats, columns: Floats, centres: int) -> Floats:
        """The columns (n, T) as inputs (n, d) predict them."""
        features = self._features(inputs, centres)
        spread = columns[self.used].std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        told = (columns - columns[self.used].mean(axis=0)) / scale
        every = []
        for fold in range(FOLDS):
            rows = self.used & (self.folds == fold)
            every.append((features[rows].T @ features[rows], features[rows].T @ told[rows], int(rows.sum())))
        gram, cross, rows_ = (sum(parts) for parts in zip(*every, strict=True))
        predicted = np.zeros((len(RIDGES), *columns.shape))
        sound = np.ones(len(RIDGES), dtype=bool)
        for fold, (own_gram, own_cross, own_rows) in enumerate(every):
            here = self.folds == fold
            for number, ridge in enumerate(RIDGES):
                system = gram - own_gram + ridge * (rows_ - own_rows) * np.eye(len(gram))
                try:
                    weights = cho_solve(cho_factor(system, check_finite=False), cross - own_cross, check_finite=False)
                except LinAlgError:
                    sound[number] = False
                    continue
                predicted[number, here] = features[here] @ weights
        errors = np.log((predicted - told)[:, self.used] ** 2 + 1e-14).mean(axis=1)
        chosen = np.argmin(np.where(sound[:, None], errors, np.inf), axis=0)
        best = predicted[chosen, :, np.arange(columns.shape[1])].T
        points = _standardised(inputs)
        if points.shape[1] <= LOCAL:
            near = self._nearby(points, told)
            better = np.log((near - told)[self.used] ** 2 + 1e-14).mean(axis=0) < errors.min(axis=0)
            best = np.where(better, near, best)
        return np.asarray(columns[self.used].mean(axis=0) + scale * best)

    def _nearby(self, points: Floats, told: Floats) -> Floats:
        """What is told (n, T) by a square through the nearest rows of other folds: sharp where columns are few."""
        pairs = np.triu_indices(points.shape[1])
        count, found = 2 * (1 + points.shape[1] + len(pairs[0])) + NEAREST, np.zeros_like(told)
        for fold in range(FOLDS):
            here, others = np.flatnonzero(self.folds == fold), np.flatnonzero(self.used & (self.folds != fold))
            if len(others) < count or not len(here):
                continue
            far, rows = cKDTree(points[others]).query(points[here], count)
            size = np.maximum(far[:, -1:], 1e-12)
            away = (points[others[rows]] - points[here][:, None]) / size[:, :, None]
            design = np.concatenate(
                [np.ones((*rows.shape, 1)), away, away[..., pairs[0]] * away[..., pairs[1]]], axis=2
            )
            weighed = (design * np.exp(-2 * (far / size) ** 2)[..., None]).transpose(0, 2, 1)
            seen = told[others[rows]]
            middle = seen.mean(axis=1, keepdims=True)
            gram = weighed @ design + LOCAL_RIDGE * np.diag(np.append(0.0, np.ones(design.shape[2] - 1)))
            found[here] = middle[:, 0] + np.linalg.solve(gram, weighed @ (seen - middle))[:, 0]
        return found

    def _features(self, inputs: Floats, centres: int) -> Floats:
        """Whitened kernel values at some of the rows, the inputs themselves and a one."""
        points = _standardised(inputs)
        distinct = np.unique(points, axis=0)
        middle = distinct[self.rng.permutation(len(distinct))[:centres]]
        values, among = _kernel(points, middle), _kernel(middle, middle)
        root = cholesky(among + 1e-10 * np.eye(len(middle)), lower=True, check_finite=False)
        smooth = solve_triangular(root, values.T, lower=True, check_finite=False).T
        return np.column_stack([smooth, 10 * points, np.full(len(points), 10.0)])


def _standardised(inputs: Floats) -> Floats:
    """The columns that vary, with mean 0 and standard deviation 1."""
    spread = inputs.std(axis=0)
    kept = spread > 1e-12 * np.maximum(np.abs(inputs).max(axis=0), 1e-300)
    return np.asarray((inputs[:, kept] - inputs[:, kept].mean(axis=0)) / spread[kept])


def _kernel(first: Floats, second: Floats) -> Floats:
    """The Matérn kernel that is twice differentiable, (n, m)."""
    squares = np.sum(first**2, axis=1)[:, None] + np.sum(second**2, axis=1) - 2 * first @ second.T
    away = np.sqrt(5 * np.maximum(squares, 0)) / (SCALE * np.sqrt(2 * max(first.shape[1], 1)))
    return np.asarray((1 + away + away**2 / 3) * np.exp(-away))
