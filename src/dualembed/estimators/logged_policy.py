"""What logged probabilities of actions say: importance weights, and the value by weighting returns step by step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualembed import checks
from dualembed.data.frames import as_column, describe_rows
from dualembed.data.policies import effective_sample_size
from dualembed.data.probabilities import TOLERANCE
from dualembed.data.table import Table
from dualembed.estimates import Estimate, format_number
from dualembed.estimators.acting import are_discrete

BY_PROBABILITIES = (
    "Its importance weights are the probabilities of the logged actions under the evaluated policy over those under "
    "the one that acted, as logged."
)
NOT_NEEDED = (
    "The logged probabilities of actions are not used: this is the value of the policy that acted, which needs none; "
    "target_probabilities= or --target-probability gives those of another policy."
)
NO_WEIGHTS = (
    "Action values need no weights, whoever took the actions: the logged probabilities are used beside the answer alone"
)


def propensities_of(table: Table, rows: int) -> np.ndarray | None:
    """The logged probabilities (n,) of actions, or densities; None where there are none."""
    if table.propensities is None:
        return None
    found = as_column("propensities", table.propensities, rows)
    if (bad := found <= 0).any():
        raise checks.InputError(
            f"propensities must be above 0, since the logged actions were taken, but are not in {describe_rows(bad)}; "
            "give probabilities, or the exponential where they are logarithms"
        )
    return found


def importance_weights_of(table: Table, rows: int) -> np.ndarray | None:
    """The importance weights (n,): as they are given, or from the probabilities of both policies."""
    if table.importance_weights is not None:
        if table.target_probabilities is not None:
            raise checks.InputError(
                "importance_weights and target_probabilities both say how much rows count for the evaluated policy; "
                "give one of them"
            )
        return as_column("weights", table.importance_weights, rows)
    if table.target_probabilities is None:
        return None
    taken = propensities_of(table, rows)
    if taken is None:
        raise checks.InputError(
            "target_probabilities need propensities, the probabilities of the same actions under the policy that acted "
            "(data.propensities.estimated_propensities estimates them); give both, or importance_weights"
        )
    wanted = as_column("target_probabilities", table.target_probabilities, rows)
    if (bad := wanted < 0).any():
        raise checks.InputError(
            f"target_probabilities must not be below 0, but are in {describe_rows(bad)}; give probabilities"
        )
    if (bad := wanted > 1 + TOLERANCE).any() and not _are_densities(table, taken):
        raise checks.InputError(
            f"target_probabilities must be at most 1, but are not in {describe_rows(bad)}; give probabilities, or of "
            "actions that have densities importance_weights, the ratios of both policies' densities"
        )
    return wanted / taken


def _are_densities(table: Table, taken: np.ndarray) -> bool:
    """Whether logged propensities are densities: by the actions, or where these are not known by what is above 1."""
    if table.actions_taken is not None:
        return not are_discrete(table.actions_taken)
    return bool(np.any(taken > 1 + TOLERANCE))


class Stepwise(NamedTuple):
    """The mean of returns whose every reward is weighted by the ratios of all steps up to it."""

    estimate: Estimate
    effective: float  # rows that the ratios of single steps leave of `rows`
    rows: int

    @staticmethod
    def of(reward: np.ndarray, labels: np.ndarray, ratios: np.ndarray, discount: float, whole: bool) -> Stepwise | None:
        """Per-decision importance sampling (Precup, Sutton and Singh 2000); None where episodes are not `whole`."""
        order = np.argsort(labels, kind="stable")
        own = labels[order]
        first = np.flatnonzero(np.append(True, own[1:] != own[:-1]))
        if not whole or len(first) < 2 or not np.any(ratios):
            return None
        counts = np.diff(np.append(first, len(own)))
        steps = np.arange(len(own)) - np.repeat(first, counts)
        with np.errstate(divide="ignore"):
            logs = np.cumsum(np.maximum(np.log(ratios[order]), -1e3))
        # Sums of logarithms over each episode alone, from its first row on.
        before = np.append(0.0, logs)[first]
        earned = discount**steps * np.exp(np.minimum(logs - np.repeat(before, counts), 700.0)) * reward[order]
        returns = np.add.reduceat(earned, first)
        estimate = Estimate(float(returns.mean()), float(returns.std(ddof=1) / np.sqrt(len(returns))))
        return Stepwise(estimate, effective_sample_size(ratios), len(ratios))

    @property
    def remark(self) -> str:
        """What it says, in a sentence."""
        return (
            f"{NO_WEIGHTS}: weighting returns by them, step by step, gives {self.estimate} (importance sampling), and "
            f"in single steps the policy does what was logged as {format_number(self.effective)} of {self.rows:,} rows "
            "would."
        )


def ratios_of(actions: np.ndarray, shares: np.ndarray, logged: Any, taken: np.ndarray) -> np.ndarray:
    """The probability of each row's logged action (n, a), among actions (n, J, a) with shares (n, J), over `taken`."""
    same = np.all(actions == np.asarray(logged)[:, None], axis=2)
    return np.asarray(np.sum(shares * same, axis=1) / taken)
