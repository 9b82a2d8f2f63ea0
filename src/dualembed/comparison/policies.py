"""Several policies on one log: their values, and all differences with the errors of differences."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from dualembed import checks
from dualembed.answers import Answer, Verdict
from dualembed.data.policies import GaussianPolicy, PolicyFunction
from dualembed.estimators import ActionValueEvaluator
from dualembed.linear.path import Estimates


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The values of policies, and their differences, from `compare`.

    Attributes
    ----------
    values : Mapping[str, Answer]
        The value of each policy by its name.
    differences : Mapping[tuple[str, str], Answer]
        The difference of two policies by their names, the first minus the second, each pair once.
    """

    values: Mapping[str, Answer]
    differences: Mapping[tuple[str, str], Answer]

    def difference(self, first: str, second: str) -> Answer:
        """Tell by how much the first policy is worth more than the second.

        Parameters
        ----------
        first, second : str
            Names of policies.

        Returns
        -------
        Answer
            The difference, with its own error.

        Raises
        ------
        InputError
            If there is no policy of that name.
        """
        for name in (first, second):
            if name not in self.values:
                raise checks.InputError(f"there is no policy {name!r}; there are {', '.join(self.values)}")
        if (first, second) in self.differences:
            return self.differences[first, second]
        if first == second:
            return Answer(0.0, 0.0, question=f"{first} minus {second}")
        other = self.differences[second, first]
        return dataclasses.replace(other, value=-other.value, question=f"{first} minus {second}")

    def table(self, level: float = 0.95) -> list[dict[str, Any]]:
        """List all values and all differences, for a data frame.

        Parameters
        ----------
        level : float, default=0.95
            Level of the intervals.

        Returns
        -------
        list of dict
            Rows with the keys what, value, stderr, lower, upper and verdict.
        """
        answers = [*self.values.items(), *((f"{a} minus {b}", each) for (a, b), each in self.differences.items())]
        rows = []
        for what, answer in answers:
            lower, upper = answer.interval(level)
            numbers = {"value": answer.value, "stderr": answer.stderr, "lower": lower, "upper": upper}
            rows.append({"what": what, **numbers, "verdict": str(answer.verdict)})
        return rows

    def __str__(self) -> str:
        rows = self.table()
        width = max(len(row["what"]) for row in rows)
        return "\n".join(
            f"{row['what']:<{width}}  {row['value']:10.4g} ± {row['stderr']:<8.2g} "
            f"[{row['lower']:.4g}, {row['upper']:.4g}]  {row['verdict']}"
            for row in rows
        )


def compare(
    log: Mapping[str, ArrayLike],
    policies: Mapping[str, PolicyFunction | GaussianPolicy],
    *,
    discount: float = 0.99,
    **options: Any,
) -> Comparison:
    """Compare several policies on one log.

    The values are those at the starts of the log's episodes. All fits leave out the same groups of episodes, so that
    what the policies' values share by the luck of the log cancels in their difference. Its error is often far below
    those of both.

    Parameters
    ----------
    log : mapping
        The columns that `ActionValueEvaluator.fit` takes: states, actions, rewards, next_states, episodes and, where
        there is one, terminated.
    policies : mapping
        Policies by their names, each as `ActionValueEvaluator` takes it.
    discount : float, default=0.99
        Discount factor.
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
    if not isinstance(log, Mapping) or "episodes" not in log:
        raise checks.InputError(
            "log must be a dictionary of states, actions, rewards, next_states and episodes (and terminated): policies "
            "are compared where episodes start"
        )
    # Groups are dealt out by the seed: all fits must have the same.
    seed = options.get("random_state", 0)
    if not isinstance(seed, int | np.integer):
        options["random_state"] = int(check_random_state(seed).randint(2**31 - 1))
    models = {name: ActionValueEvaluator(discount, policy, **options).fit(**log) for name, policy in policies.items()}
    _check_actions(models)
    values = {name: model.value() for name, model in models.items()}
    pairs = itertools.combinations(models, 2)
    differences = {(a, b): _difference(a, b, models, values) for a, b in pairs}
    return Comparison(values, differences)


def _check_actions(models: Mapping[str, ActionValueEvaluator]) -> None:
    """Raise where policies choose among other actions than each other."""
    (first, known), *others = ((name, model.actions_.columns[0].levels) for name, model in models.items())
    for name, levels in others:
        if levels != known:
            raise checks.InputError(
                f"the policies choose among different actions: {first} among {_names(known)}, {name} among "
                f"{_names(levels)}; give all of them probabilities of the same"
            )


def _names(levels: tuple[Any, ...]) -> str:
    return checks.some(map(str, levels)) or "numbers"


def _difference(
    first: str, second: str, models: Mapping[str, ActionValueEvaluator], values: Mapping[str, Answer]
) -> Answer:
    """The value of the first policy minus that of the second, group for group."""
    question, both = f"{first} minus {second}", (values[first], values[second])
    value = both[0].value - both[1].value
    a, b = (_estimates(models[name]) for name in (first, second))
    fit = models[first].paths_
    if a is None or b is None or fit is None:  # by other solvers, which know nothing of groups
        return Answer(value, float(np.hypot(both[0].stderr, both[1].stderr)), question=question)
    replicates, influence = a.replicates - b.replicates, a.influence - b.influence
    sampling = fit.candidates.sampling(np.append(value, replicates), influence)
    # Biases of ridges and choices between candidates may or may not be shared: they count as if they were not.
    bias, between = np.hypot(a.bias, b.bias), a.between + b.between
    spread = float(Estimates(np.asarray(value), sampling, bias, between, replicates, influence).stderr)
    # So does what is guessed, where a policy does what no row shows.
    guessed = [max(answer.stderr**2 - float(own.stderr) ** 2, 0.0) for answer, own in zip(both, (a, b), strict=True)]
    stderr = float(np.sqrt(spread**2 + sum(guessed)))
    verdicts = [each.verdict for each in both if each.verdict is not None]
    order = list(Verdict)
    return Answer(
        value,
        stderr,
        freedom=both[0].freedom,
        question=question,
        verdict=max(verdicts, key=order.index) if verdicts else None,
        warnings=tuple(dict.fromkeys([*both[0].warnings, *both[1].warnings])),
    )


def _estimates(model: ActionValueEvaluator) -> Estimates | None:
    if model.paths_ is None or model.paths_.headline is None:
        return None
    return model.paths_.candidates.ask([(1.0, model.paths_.headline)])
