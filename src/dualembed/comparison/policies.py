"""Several policies on one log: their values, and all differences with the errors of differences."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from dualembed import checks
from dualembed.comparison.compared import Asked, Compared, difference, joint_of
from dualembed.comparison.one_step import is_one_step, one_step_values
from dualembed.comparison.policy_table import Comparison
from dualembed.comparison.rivals import cut_note, rivals_of
from dualembed.data.frames import names_of
from dualembed.data.libraries import library_of
from dualembed.data.policy_forms import named
from dualembed.data.roles import ROLES, role_named
from dualembed.data.table import Table
from dualembed.data.whole import listed_table, named_table
from dualembed.estimates import Estimate
from dualembed.estimators import ActionValueEvaluator, PolicyEvaluator
from dualembed.linear.path import Estimates, mix

ROLES_OF_LOGS = ("states", "actions", "rewards", "next_states", "terminated", "truncated", "groups", "episodes", "time")


def compare(
    log: Mapping[str, ArrayLike] | Any,
    policies: Mapping[str, Any],
    *,
    discount: float = 0.99,
    **options: Any,
) -> Comparison:
    """Compare several policies on one log.

    The values are those at the starts of the log's episodes. All fits leave out the same groups of episodes, so that
    what the policies' values share by the luck of the log cancels in their difference. Its error is often far below
    those of both. The intervals of all values and differences hold together, and `best()` says what the best policy is
    worth although it was picked. Beside each value stands what other estimators say: means of returns, importance
    sampling where it is known, or can be told, how likely the logged actions were, LSTD and fitted Q.

    A log without next states, and without episodes or times that tell them, is of one-step decisions (a contextual
    bandit): values are then expected rewards, doubly robust.

    Parameters
    ----------
    log : mapping or frame
        The columns that `ActionValueEvaluator.fit` takes: states, actions, rewards, next_states, episodes and, where
        there are some, terminated, truncated, groups and time; and propensities, how likely the logged actions were.
        Next states may be left out where episodes are there, and other columns may be named by policies. Or a frame
        whose columns have the usual names, or what `data.log` reads.
    policies : mapping
        Policies by their names, each as `ActionValueEvaluator` takes it: classifiers, agents of d3rlpy and
        Stable-Baselines3, functions, tables, names of columns; None is the policy that made the log.
    discount : float, default=0.99
        Discount factor; of no meaning for one-step decisions.
    **options : object
        Other parameters of `ActionValueEvaluator`.

    Returns
    -------
    Comparison
        The values, and all differences.

    Raises
    ------
    InputError
        If the log has no episodes, or the policies choose among different actions.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state, action = rng.normal(size=600), rng.integers(2, size=600)
    >>> log = {"states": state, "actions": action, "rewards": 1.0 * action, "next_states": rng.normal(size=600),
    ...        "episodes": np.arange(600) // 10}
    >>> always, never = (lambda s, a=a: np.tile([1.0 - a, a], (len(s), 1)) for a in (1.0, 0.0))
    >>> comparison = compare(log, {"always": always, "never": never}, discount=0.5)
    >>> round(comparison.difference("always", "never").value, 1)  # 1 / (1 - 0.5)
    2.0
    """
    if not isinstance(policies, Mapping) or not policies:
        raise checks.InputError(f"policies must be a dictionary from names to policies, not {policies!r}")
    table = read_log(log)
    # Groups are dealt out by the seed: all fits must have the same.
    seed = options.get("random_state", 0)
    if not isinstance(seed, int | np.integer):
        options["random_state"] = int(check_random_state(seed).randint(2**31 - 1))
    notes: tuple[str, ...] = ()
    if is_one_step(table, discount):
        compared = one_step_values(table, policies, options)
    else:
        compared, notes = _values(table, policies, discount, options)
    joint = joint_of(list(compared.values()))
    pairs = itertools.combinations(compared, 2)
    return Comparison(
        {name: each.answer for name, each in compared.items()},
        {(a, b): difference(f"{a} minus {b}", compared[a], compared[b]) for a, b in pairs},
        {name: each.rivals for name, each in compared.items()},
        {name: each.overlap for name, each in compared.items() if each.overlap is not None},
        joint,
        (*table.warnings, *notes),
        library_of(log),
    )


def read_log(log: Any) -> Table:
    """The log as a table of roles, with its source for columns that policies name; refused where something is missing.

    What the policies do next is up to them: next actions of the log are left aside.
    """
    roles = [ROLES[name] for name in (*ROLES_OF_LOGS, "propensities")]
    table = None
    if isinstance(log, Table):
        table = log
    elif isinstance(log, Mapping) and any(role_named(str(name)) == "actions" for name in log):
        known = {role_named(str(name)): column for name, column in log.items() if column is not None}
        table = Table({role.name: known[role.name] for role in roles if role.name in known}, source=log)
    if table is None or "states" not in table.columns:
        table = Table.whole(log) or listed_table(log, roles)
        table = named_table(log, roles) if table is None and names_of(log) is not None else table
    if table is None or "states" not in table.columns:
        raise checks.InputError(
            "log must be a dictionary of states, actions, rewards, next_states and episodes (and terminated), a frame "
            "whose columns are called so, a list of such, one for each episode, or what data.log reads"
        )
    for role in ("actions", "rewards"):
        if role not in table.columns:
            raise checks.InputError(f"log must have {role}, which policies are compared by; give {role}=... with it")
    return Table({**table.columns}, table.names, table.digest, table.warnings, table.left_out, table.source)


def _values(
    table: Table, policies: Mapping[str, Any], discount: float, options: Mapping[str, Any]
) -> tuple[dict[str, Compared], tuple[str, ...]]:
    """(the value of each policy at the starts of the log's episodes, what to know of other estimators)."""
    ordered = any(role in table.columns for role in ("time", "terminated", "truncated"))
    if "episodes" not in table.columns and ("next_states" in table.columns or not ordered):
        raise checks.InputError(
            "log must be a dictionary of states, actions, rewards, next_states and episodes (and terminated): policies "
            "are compared where episodes start"
        )
    given = {role: column for role, column in table.columns.items() if role in ROLES_OF_LOGS}
    own = Table(given, table.names, table.digest, table.warnings, source=table.source)
    models: dict[str, Any] = {}
    evaluator: Any
    for name, policy in policies.items():
        if policy is None:
            known = {role: column for role, column in given.items() if role != "actions"}
            evaluator = PolicyEvaluator(discount, **options)
            models[name] = evaluator.fit(Table(known, warnings=table.warnings))
        else:
            evaluator = ActionValueEvaluator(discount, policy, **options)
            with named(name):
                models[name] = evaluator.fit(own)
    _check_actions({name: each for name, each in models.items() if policies[name] is not None})
    others = rivals_of(models, table, seed=int(options.get("random_state", 0)))
    notes = cut_note(next(iter(models.values())), table)
    return {name: _compared(model, others[name]) for name, model in models.items()}, notes


def _compared(model: Any, rivals: Mapping[str, Estimate]) -> Compared:
    answer, fit = model.value(), model.paths_
    if fit is None:
        return Compared(answer, None, np.zeros(0), rivals, answer.effective)
    average, asked = fit.candidates, None
    if fit.headline is not None and getattr(model, "returns_", None) is None:
        question = model.starts_
        points = question.flat()[0]
        asked = Asked(fit, fit.headline, fit.outside(points) + question.strays() + model._unseen(points))
    shares = np.asarray(average.shares)
    return Compared(answer, _estimates(model), shares, rivals, answer.effective, average, asked)


def _check_actions(models: Mapping[str, ActionValueEvaluator]) -> None:
    """Raise where policies choose among other actions than each other."""
    if not models:
        return
    (first, known), *others = ((name, model.actions_.columns[0].levels) for name, model in models.items())
    for name, levels in others:
        if levels != known:
            raise checks.InputError(
                f"the policies choose among different actions: {first} among {_names(known)}, {name} among "
                f"{_names(levels)}; give all of them probabilities of the same"
            )


def _names(levels: tuple[Any, ...]) -> str:
    return checks.some(map(str, levels)) or "numbers"


def _estimates(model: Any) -> Estimates | None:
    """The answer of a fit with how it varies; that of the policy that acted with the returns of its episodes."""
    if model.paths_ is None or model.paths_.headline is None:
        return None
    average = model.paths_.candidates
    found = average.ask([(1.0, model.paths_.headline)])
    returns = getattr(model, "returns_", None)
    return found if returns is None else mix([found, average.ask([(1.0, returns.functional)])], average)
