"""Policies of one-step decisions (contextual bandits): inverse propensities, a model of rewards, and both together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dualembed import checks
from dualembed.answers import Answer, Verdict
from dualembed.answers.answer import judge
from dualembed.arrays import Floats, Integers
from dualembed.baselines.off_policy import clustered, doubly_robust, importance_sampling
from dualembed.comparison.compared import Anew, Compared
from dualembed.data.coding import Coding
from dualembed.data.frames import as_column, count_rows, group_numbers, levels_of
from dualembed.data.policy_forms import (
    Choices,
    RowPolicy,
    at_positions,
    check_shown,
    choices_at,
    form_of,
    is_names,
    named,
    named_rows,
    settled,
    taken_shares,
)
from dualembed.data.propensities import Propensities, estimate_propensities, overlap
from dualembed.data.roles import MOST_LEVELS
from dualembed.data.table import Table
from dualembed.estimates import Estimate
from dualembed.estimators import ActionValueEvaluator
from dualembed.estimators.acting import MOST_ACTIONS
from dualembed.linear.path import Estimates, jackknife
from dualembed.tuning import SEARCH

FEWEST_UNITS = 100  # rows or groups, below which the error of a mean has so few degrees of freedom
ORDERS = ("next_states", "episodes", "time", "terminated", "truncated")


class Rounds(NamedTuple):
    """A log of one-step decisions, with what was learnt of its rewards: each row's own group was left out of that."""

    table: Table
    rewards: Floats
    actions: np.ndarray
    levels: tuple[Any, ...]  # of actions; none where they are numbers
    model: ActionValueEvaluator
    groups: Integers  # the number of each row's left-out group
    labels: Any  # of rows that depend on each other; None where none do
    behaviour: Propensities

    @property
    def shares(self) -> Floats:
        """How much of the data each left-out group is."""
        return np.bincount(self.groups) / len(self.groups)


def is_one_step(table: Table, discount: float) -> bool:
    """Whether nothing follows in a log: no next states and nothing that would tell them, or a discount of 0.

    Nor does anything where each row is an episode of its own that ended.
    """
    if "episodes" not in table.columns:
        return not discount or not any(role in table.columns for role in ORDERS)
    ended = table.ended
    if ended is None or not ended.all():
        return False
    return bool(np.bincount(group_numbers("episodes", table.episodes, len(ended))).max() == 1)


def one_step_values(table: Table, policies: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Compared]:
    """The expected reward of each policy."""
    asked = {}
    for name, policy in policies.items():
        with named(name):
            asked[name] = _asked(policy, table)
    actions = _actions(table)
    levels = _levels(actions, [each for each in asked.values() if each is not None])
    known = {name: None if each is None else settled(each, levels, discrete=True) for name, each in asked.items()}
    for choices in known.values():
        if choices is not None:
            check_shown(choices, actions)
    rounds = _learnt(table, actions, levels, options)
    return {name: _value(rounds, each) for name, each in known.items()}


def _asked(policy: Any, table: Table) -> Choices | None:
    """What a policy does at the rows."""
    rows = count_rows(table.states)
    if policy is None:
        return None
    if is_names(policy):
        if table.source is None:
            raise checks.InputError(f"policy {policy!r} names columns, but the log is none; give it as one table")
        form: Any = named_rows(policy, table.source, follows=True)
    else:
        form = form_of(policy)
    form = at_positions(form, table.source)
    if not isinstance(form, RowPolicy):
        return form.at(table.states)
    actions = np.asarray(table.actions)
    levels = np.unique(levels_of(actions).astype(str)).tolist() if actions.dtype.kind in "OUS" else ()
    return choices_at(form.states, rows, levels)


def _actions(table: Table) -> np.ndarray:
    """The logged actions, (n,) or (n, a)."""
    given = np.asarray(table.actions.to_numpy() if hasattr(table.actions, "to_numpy") else table.actions)
    return given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given


def _learnt(table: Table, actions: np.ndarray, levels: tuple[Any, ...], options: Mapping[str, Any]) -> Rounds:
    """What is learnt of rewards, which is of use to all policies."""
    rows = count_rows(table.states)
    known = {level: f"{place:04d}" for place, level in enumerate(levels)}
    named = np.array([known[each] for each in levels_of(actions).tolist()], dtype=object)
    columns = {"states": table.states, "actions": named, "rewards": table.rewards}
    labels = None if table.groups is None else group_numbers("groups", table.groups, rows)
    columns |= {} if labels is None else {"groups": labels}
    behaviour = _behaviour(table, actions, labels, int(options.get("random_state", 0)))
    model = ActionValueEvaluator(0.0, **options).fit(**columns)
    if model.paths_ is None or model.left_out_groups_ is None:
        raise checks.InputError("one-step decisions are compared by default fits; leave solver=, primal= and dual= out")
    groups = np.unique(model.left_out_groups_, return_inverse=True)[1]
    rewards = as_column("rewards", table.rewards, rows)
    return Rounds(table, rewards, actions, levels, model, groups, labels, behaviour)


def _levels(actions: np.ndarray, asked: Sequence[Choices]) -> tuple[Any, ...]:
    """The different actions of the log, in order; refused where they are measured numbers."""
    refused = checks.InputError(
        "policies of one-step decisions are compared where actions are labels or whole numbers, each with its "
        "probability; put actions that are measured into bins"
    )
    if actions.ndim != 1:
        raise refused
    found = sorted(set(levels_of(actions).tolist()), key=lambda level: (str(type(level)), level))
    whole = all(isinstance(level, str | bool) or float(level).is_integer() for level in found)
    most = MOST_ACTIONS if any(each.labels is not None for each in asked) else MOST_LEVELS
    if not whole or len(found) > most:
        raise refused
    counts = [each.shares.shape[1] for each in asked if each.numbered]
    if counts and not any(isinstance(level, str) for level in found) and max(found) < max(counts):
        found = list(range(max(counts)))  # some of which were never taken, and have the probability 0
    return tuple(found)


def _behaviour(table: Table, actions: np.ndarray, labels: Any, seed: int) -> Propensities:
    """How likely the logged actions were: as logged, or estimated."""
    given = table.columns.get("propensities")
    if given is not None:
        return Propensities.logged(as_column("propensities", given, len(actions)))
    states = Coding.fit("states", table.states).encode(table.states)
    return estimate_propensities(states, actions, groups=labels, seed=seed)


def _value(rounds: Rounds, choices: Choices | None) -> Compared:
    """The expected reward of a policy, or the mean reward of the one that made the log."""
    rewards, labels = rounds.rewards, rounds.labels
    units = np.arange(len(rewards)) if labels is None else labels
    if choices is None:
        scores, ratios = rewards, np.ones(len(rewards))
        rivals = {"mean of rewards": Estimate(float(rewards.mean()), clustered(rewards, units))}
        return _compared(rounds, scores, ratios, rivals, None)._replace(anew=_anew(rounds))
    taken = taken_shares(choices, rounds.actions)
    ratios = taken / rounds.behaviour.values
    if not ratios.any():
        raise checks.InputError(
            "a policy never takes a logged action: the log says nothing about it; compare policies closer to it"
        )
    predicted, direct, whole = _predictions(rounds, choices)
    scores = _scores(rewards, ratios, predicted, direct, rounds.groups)
    anew = _anew(rounds, taken, predicted, direct)
    rivals = _rivals(rounds, taken, ratios, direct_value(whole, rounds.groups))
    return _compared(rounds, scores, ratios, rivals, anew)


def _predictions(rounds: Rounds, choices: Choices) -> tuple[Floats, Floats, Floats]:
    """Rewards predicted without each row's group: of the action taken (n,), and of the policy (n,).

    The third are the policy's on all rows and without each group, (n, 1 + K).
    """
    rows = len(rounds.rewards)
    own = {level: f"{place:04d}" for place, level in enumerate(rounds.levels)}
    codings = rounds.model.schema_.codings
    seen = set(levels_of(rounds.actions).tolist())
    states = codings["states"].encode(rounds.table.states)
    fit = rounds.model.paths_
    if fit is None:
        raise RuntimeError("what was learnt is an average of paths")

    def at(actions: Sequence[Any], where: Floats) -> Floats:
        names = np.array([own[action] for action in actions], dtype=object)
        return fit.replicates(np.concatenate([where, codings["actions"].encode(names)], axis=1))

    if choices.labels is None:
        whole = at(levels_of(np.asarray(choices.actions)[:, 0]).tolist(), states)
    else:
        whole = np.zeros((rows, 1 + int(rounds.groups.max()) + 1))
        distinct, number = np.unique(states, axis=0, return_inverse=True)
        for place, label in enumerate(choices.labels):
            if label in seen:  # others have the probability 0
                whole += choices.shares[:, [place]] * at([label] * len(distinct), distinct)[number.ravel()]
    each = at(levels_of(rounds.actions).tolist(), states)
    rows_of = np.arange(rows)
    return each[rows_of, 1 + rounds.groups], whole[rows_of, 1 + rounds.groups], whole


def _scores(rewards: Floats, ratios: Floats, predicted: Floats, direct: Floats, groups: Integers) -> Floats:
    """Doubly robust scores (n,), with as much of the model as lowers their variance.

    Predictions go from the mean reward towards the model's by a share that the rows of other groups choose: a model
    that is mostly noise, as where rewards are rare, is hardly used.
    """
    found = np.empty(len(rewards))
    for group in np.unique(groups):
        rest, own = groups != group, groups == group
        level = float(np.sum(ratios[rest] * rewards[rest]) / max(np.sum(ratios[rest]), np.finfo(float).tiny))
        plain = doubly_robust(ratios, rewards, np.full(len(rewards), level), np.full(len(rewards), level))
        change = doubly_robust(ratios, rewards, predicted, direct) - plain
        spread = float(np.var(change[rest]))
        share = -float(np.cov(plain[rest], change[rest])[0, 1]) / spread if spread > 0 else 0.0
        found[own] = plain[own] + np.clip(share, 0.0, 1.0) * change[own]
    return found


def _anew(rounds: Rounds, *policy: Floats) -> Anew | None:
    """The value with propensities that are estimated anew without each group; None where they were logged.

    A `policy` is the probabilities of what was taken, and the rewards predicted of that and of the policy, each (n,);
    without it the value is that of the policy that made the log.
    """
    known = rounds.behaviour
    if known.replicates is None or known.groups is None:
        return None
    every = [
        np.ones(len(rounds.rewards), dtype=bool),
        *(known.groups != group for group in range(len(known.replicates))),
    ]
    values = []
    for kept, propensities in zip(every, [known.values, *known.replicates], strict=True):
        scores = rounds.rewards[kept]
        if policy:
            taken, predicted, direct = (each[kept] for each in policy)
            scores = _scores(scores, taken / propensities[kept], predicted, direct, rounds.groups[kept])
        values.append(float(scores.mean()))
    return Anew(np.array(values), np.bincount(known.groups) / len(known.groups))


def direct_value(whole: Floats, groups: Integers) -> Estimate:
    """The mean of what a model predicts of the policy (n, 1 + K), its error by leaving out groups."""
    others = [float(whole[groups != each, 1 + each].mean()) for each in range(whole.shape[1] - 1)]
    value = float(whole[:, 0].mean())
    shares = np.bincount(groups) / len(groups)
    return Estimate(value, float(np.sqrt(jackknife(np.array([value, *others]), shares))))


def _rivals(rounds: Rounds, taken: Floats, ratios: Floats, direct: Estimate) -> dict[str, Estimate]:
    """Inverse propensity weighting, plain and normalised, and the model of rewards alone."""
    rows, known = np.arange(len(ratios)), rounds.behaviour
    found = {}
    for name, normalise in (("IPW", False), ("self-normalised IPW", True)):
        labels = rounds.labels
        whole = importance_sampling(rounds.rewards, ratios, 1.0, rows, self_normalise=normalise, groups=labels)
        if known.replicates is not None and known.groups is not None:
            values = [whole.value]
            for group, propensities in enumerate(known.replicates):
                kept = known.groups != group
                own = taken[kept] / propensities[kept]
                without = importance_sampling(rounds.rewards[kept], own, 1.0, rows[kept], self_normalise=normalise)
                values.append(without.value)
            again = jackknife(np.array(values), np.bincount(known.groups) / len(rows))
            whole = Estimate(whole.value, max(whole.stderr, float(np.sqrt(again))))
            name = f"{name}, estimated propensities"
        found[name] = whole
    return found | {"direct": direct}


def _compared(
    rounds: Rounds, scores: Floats, ratios: Floats, rivals: Mapping[str, Estimate], anew: Anew | None
) -> Compared:
    """The mean of scores as an answer, with how it varies by rows and without each left-out group."""
    units = np.arange(len(scores)) if rounds.labels is None else rounds.labels
    value = float(scores.mean())
    count = len(np.unique(units))
    totals = np.bincount(np.unique(units, return_inverse=True)[1], scores - value) / len(scores)
    plain = clustered(scores, units)
    replicates = np.array([scores[rounds.groups != each].mean() for each in range(int(rounds.groups.max()) + 1)])
    stderr = max(plain, 0.0 if anew is None else float(np.sqrt(jackknife(anew.values, anew.shares))))
    used = overlap(ratios)
    fit = rounds.model.paths_
    size = max(abs(value), 0.0 if fit is None else fit.size, np.finfo(float).tiny)
    spread = Estimates(np.asarray(value), np.asarray(plain**2), np.asarray(0.0), np.asarray(0.0), replicates, totals)
    # By few groups of rows, as other answers are: most rows of rare rewards alone say nothing, which is no worry.
    few = np.bincount(np.random.default_rng(0).permutation(len(totals)) % min(SEARCH.groups, len(totals)), totals)
    carried = dataclasses.replace(spread, influence=few.astype(np.float64)).carried
    judged = judge(negative=None, outside=0.0, relative=stderr / size, finite=True, carried=carried)
    warnings = [*judged.warnings, *([used.warning] if used.warning else [])]
    answer = Answer(
        value,
        stderr,
        freedom=None if count >= FEWEST_UNITS else float(count - 1),
        question="the policy's expected reward",
        verdict=max(judged.verdict, Verdict.FRAGILE if used.warning else Verdict.SOLID, key=list(Verdict).index),
        warnings=tuple(warnings),
        effective=used.share,
        because=judged.because,
    )
    return Compared(answer, spread, rounds.shares, rivals, used.share, anew=anew)
