"""What other estimators say of policies on a log: means of returns, importance sampling, LSTD and fitted Q."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dualembed.baselines.off_policy import fitted_q, importance_sampling, lstdq, mean_of_returns, value_of
from dualembed.data.coding import Coding
from dualembed.data.frames import as_column, group_numbers, step_numbers
from dualembed.data.gaussian_policy import GaussianPolicy
from dualembed.data.policy_forms import settled, taken_shares
from dualembed.data.propensities import Propensities, estimate_propensities
from dualembed.data.table import Table
from dualembed.estimates import Estimate
from dualembed.estimators import ActionValueEvaluator
from dualembed.estimators.acting import are_discrete
from dualembed.estimators.logged_policy import propensities_of
from dualembed.estimators.policy_values import WHOLE
from dualembed.linear.path import jackknife
from dualembed.spaces.features import FeatureMap, evaluate_features, moment_features

RIDGE = 1e-2  # of LSTD and fitted Q, as a share of a feature's mean square
LEFT_OUT = 10  # groups, for their errors
MOST_CUT = 0.1  # of the episodes, beyond which it is said
MOST_CELLS = 4e7  # of a matrix of features, beyond which a part of the episodes has to do


class Steps(NamedTuple):
    """A log in the order of time: a row for each step."""

    table: Table
    rewards: np.ndarray
    episodes: np.ndarray  # numbers
    groups: np.ndarray  # of rows, numbers 0 to K - 1 of groups that are left out together
    labels: np.ndarray  # of rows that depend on each other


def rivals_of(models: Mapping[str, Any], table: Table, *, seed: int) -> dict[str, dict[str, Estimate]]:
    """What each of them says of each policy, by its name and theirs."""
    behaviour: Propensities | None = None
    found: dict[str, dict[str, Estimate]] = {}
    for name, model in models.items():
        steps = _steps(model, table, seed)
        others: dict[str, Estimate] = {}
        if isinstance(model, ActionValueEvaluator):
            shares = _shares_taken(model, steps.table)
            if shares is not None:
                behaviour = behaviour or _behaviour(steps, seed)
                others |= _weighted(steps, shares, behaviour, float(model.discount))
        else:
            clusters = steps.labels
            others["mean of returns"] = mean_of_returns(
                steps.rewards, float(model.discount), steps.episodes, groups=clusters
            )
        found[name] = others | _by_features(model, steps)
    return found


def cut_note(model: Any, table: Table) -> tuple[str, ...]:
    """That returns stop where episodes were cut, in a sentence, where much would have followed."""
    steps = _steps(model, table, 0)
    last = np.zeros(len(steps.episodes), dtype=bool)
    last[len(last) - 1 - np.unique(steps.episodes[::-1], return_index=True)[1]] = True
    given = steps.table.terminated
    ended = np.zeros(len(last)) if given is None else as_column("terminated", given, len(last))
    left = float(model.discount) ** (step_numbers(steps.episodes)[last] + 1.0) * (1 - ended[last])
    cut = int(np.sum(left > WHOLE))
    if cut <= len(left) * MOST_CUT:
        return ()
    return (
        f"{cut} of {len(left)} episodes were cut before they ended: the mean of returns and importance sampling count "
        "them as far as they go, the others what would have followed",
    )


def _steps(model: Any, table: Table, seed: int) -> Steps:
    arranged = model._arranged(table)
    rewards = as_column("rewards", arranged.rewards, len(np.asarray(arranged.episodes)))
    episodes = group_numbers("episodes", arranged.episodes, len(rewards))
    labels = episodes if arranged.groups is None else group_numbers("groups", arranged.groups, len(rewards))
    dealt = np.random.default_rng(seed).permutation(int(labels.max()) + 1) % LEFT_OUT
    return Steps(arranged, rewards, episodes, np.unique(dealt[labels], return_inverse=True)[1], labels)


def _shares_taken(model: ActionValueEvaluator, table: Table) -> np.ndarray | None:
    """π(a|s) of each row's own action, or its density; None where densities of one of the policies are not known."""
    levels = model.actions_.columns[0].levels if len(model.actions_.columns) == 1 else ()
    if not levels:
        policy = model.policy
        if not isinstance(policy, GaussianPolicy) or table.propensities is None or not policy.spreads(table.states):
            return None
        return policy.density(table.states, table.actions)
    choices = settled(model._choices(table, "states", table.states), levels, discrete=True)
    return taken_shares(choices, _one_column(table.actions))


def _one_column(actions: Any) -> np.ndarray:
    given = np.asarray(actions.to_numpy() if hasattr(actions, "to_numpy") else actions)
    return given[:, 0] if given.ndim == 2 else given


def _behaviour(steps: Steps, seed: int) -> Propensities:
    """How likely the logged actions were: as logged, or estimated."""
    given = propensities_of(steps.table, len(steps.rewards))
    if given is not None:
        return Propensities.logged(given) if are_discrete(steps.table.actions) else Propensities(given)
    states = Coding.fit("states", steps.table.states).encode(steps.table.states)
    return estimate_propensities(states, _one_column(steps.table.actions), groups=steps.groups, seed=seed)


def _weighted(steps: Steps, shares: np.ndarray, behaviour: Propensities, discount: float) -> dict[str, Estimate]:
    """Importance sampling, plain and normalised; where propensities were estimated, with the error of that."""
    found = {}
    known = {"episodes": steps.episodes, "groups": steps.labels}
    for name, normalise in (("importance sampling", False), ("weighted importance sampling", True)):
        whole = importance_sampling(
            steps.rewards, shares / behaviour.values, discount, self_normalise=normalise, **known
        )
        if behaviour.replicates is not None and behaviour.groups is not None:
            others, sizes = [], []
            for group, propensities in enumerate(behaviour.replicates):
                kept = behaviour.groups != group
                ratios, own = shares[kept] / propensities[kept], steps.episodes[kept]
                without = importance_sampling(steps.rewards[kept], ratios, discount, own, self_normalise=normalise)
                others.append(without.value)
                sizes.append(len(np.unique(steps.episodes[~kept])))
            again = float(np.sqrt(jackknife(np.array([whole.value, *others]), np.array(sizes) / np.sum(sizes))))
            whole = Estimate(whole.value, max(whole.stderr, again))
        found[name if behaviour.replicates is None else f"{name}, estimated propensities"] = whole
    return found


def _by_features(model: Any, steps: Steps) -> dict[str, Estimate]:
    """LSTD and fitted Q on the features of the kernel that our fit gives most weight to, with a constant."""
    fit = model.paths_
    if fit is None or fit.headline is None:
        return {}
    heaviest = int(np.argmax([weights.sum() for weights in fit.candidates.weights]))
    features = fit.candidates.paths[heaviest].features
    columns = model._problem(steps.table)[0].source.table
    kept = _kept(steps.episodes, int(MOST_CELLS / features.size))
    now, following = _features(features, {name: column[kept] for name, column in columns.items()})
    asked = fit.headline
    first = np.unique(steps.episodes, return_index=True)[1]
    starts = np.column_stack([np.ones(len(asked.points)), asked.rows(features)])
    begun = np.sort(first)
    ridge = RIDGE * float(np.mean(now[:, 1:] ** 2)) * np.append(0.0, np.ones(features.size))
    rows = np.unique(steps.groups[kept], return_inverse=True)[1]
    known = {"starts": starts, "rows": rows, "start_groups": steps.groups[begun], "ridge": ridge}
    return {
        name: value_of(method, now, following, steps.rewards[kept], float(model.discount), **known)
        for name, method in (("LSTD", lstdq), ("fitted Q", fitted_q))
    }


def _kept(episodes: np.ndarray, most: int) -> np.ndarray:
    """The rows of whole episodes, no more than so many but for the last of them."""
    if len(episodes) <= most:
        return np.arange(len(episodes))
    counts = np.cumsum(np.bincount(episodes))
    return np.flatnonzero(episodes <= int(np.searchsorted(counts, most)))


def _features(features: FeatureMap, columns: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, 1 + m) of rows, and their means at what follows."""
    goes_on = 1.0 - columns["terminated"] if "terminated" in columns else np.ones(len(columns["reward"]))
    points = columns["state"]
    ahead, shares = columns["next_state"][:, None], np.ones((len(points), 1))
    if "action" in columns:
        points = np.concatenate([points, columns["action"]], axis=1)
        actions, shares = columns["next_action"], columns["next_probability"]
        ahead = np.concatenate([np.repeat(ahead, actions.shape[1], axis=1), actions], axis=2)
    now = np.column_stack([np.ones(len(points)), evaluate_features(features, points)])
    following = np.column_stack([np.ones(len(points)), moment_features(features, ahead, shares)])
    return now, following * goes_on[:, None]
