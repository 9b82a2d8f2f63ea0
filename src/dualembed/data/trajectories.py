"""From consecutive transitions to what several steps say: multi-step transitions and windows for λ-returns.

Columns are arrays in the order of time with an `episode` label for each row. A row is followed by the next one if that
has the same label and the row is neither terminated (nothing follows) nor truncated (a time limit: the bootstrap
counts); the state there must then be the row's next state. What problems on transitions check at the entrance, each
with one clear sentence, is here too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.data.probabilities import numbers
from dualembed.sources import Sample

MARKS = ("terminated", "truncated")
VECTORS = ("reward", "episode", *MARKS, "weight")  # one number a row
NEAR_NAMES = {
    "terminated": ("done", "dones", "terminal", "terminals"),
    "weight": ("weights", "rho"),
}


def follows(episode: Any, terminated: Any | None = None, truncated: Any | None = None) -> np.ndarray:
    """Whether each row's next one continues it; never for the last.

    Parameters
    ----------
    episode : array of shape (n,)
        Labels of episodes, in the order of time.
    terminated : array of shape (n,), optional
        1 where nothing follows.
    truncated : array of shape (n,), optional
        1 where a limit cut the episode.

    Returns
    -------
    array of bool of shape (n,)
        Whether it does.

    Examples
    --------
    >>> follows([0, 0, 0, 1], [0, 1, 0, 0]).tolist()
    [True, False, False, False]
    """
    columns = {"episode": episode, "terminated": terminated, "truncated": truncated}
    table = {name: _column(name, column) for name, column in columns.items() if column is not None}
    _check_rows(table)
    labels = table["episode"]
    goes_on = np.zeros(len(labels), dtype=bool)
    goes_on[:-1] = labels[1:] == labels[:-1]
    for name in MARKS:
        if name in table:
            goes_on &= table[name] == 0
    return goes_on


def windows(
    episode: Any, length: int, *, terminated: Any | None = None, truncated: Any | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """For each row the next rows including itself.

    A window ends with its episode; beyond it the last real row is repeated.

    Parameters
    ----------
    episode : array of shape (n,)
        Labels of episodes, in the order of time.
    length : int
        Rows of a window.
    terminated : array of shape (n,), optional
        1 where nothing follows.
    truncated : array of shape (n,), optional
        1 where a limit cut the episode.

    Returns
    -------
    rows : array of int of shape (n, length)
        Row numbers of each window.
    lengths : array of int of shape (n,)
        How many of them are real.
    """
    checks.count("length", length)
    goes_on = follows(episode, terminated, truncated)
    rows = np.empty((len(goes_on), length), dtype=np.int64)
    rows[:, 0] = np.arange(len(goes_on))
    lengths = np.ones(len(goes_on), dtype=np.int64)
    alive = np.ones(len(goes_on), dtype=bool)
    for step in range(1, length):
        alive &= goes_on[rows[:, step - 1]]
        rows[:, step] = rows[:, step - 1] + alive
        lengths += alive
    return rows, lengths


def multi_step(columns: dict[str, Any], steps: int, discount: float) -> dict[str, np.ndarray]:
    """Transitions of several steps for policy evaluation.

    Windows shorten at the end of an episode.

    Parameters
    ----------
    columns : dict of arrays
        Columns state, reward, next_state, episode, and optional action, terminated, truncated and weight, in the order
        of time.
    steps : int
        Most steps of a transition.
    discount : float
        Discount of a step.

    Returns
    -------
    dict of arrays
        Columns state and action; reward, the discounted sum of rewards; next_state, that after the last step;
        terminated, whether the episode ended there; weight, the product of importance weights; and steps, how many
        there were, by which the problem discounts the bootstrap.

    Examples
    --------
    >>> columns = {"state": [0, 1, 2], "reward": [1, 1, 1], "next_state": [1, 2, 3], "episode": [0, 0, 0]}
    >>> multi_step(columns, 2, 0.5)["reward"].tolist()
    [1.5, 1.5, 1.0]
    """
    table = _table(columns, "state", "reward", "next_state", "episode", optional=("action", *MARKS, "weight"))
    checks.count("steps", steps)
    check_discount(discount)
    rows, lengths = _windows(table, steps)
    real = np.arange(steps) < lengths[:, None]
    last = rows[:, -1]
    found = {
        "state": table["state"],
        "reward": np.sum(real * float(discount) ** np.arange(steps) * table["reward"][rows], axis=1),
        "next_state": table["next_state"][last],
        "steps": lengths.astype(float),
    }
    if "action" in table:
        found["action"] = table["action"]
    if "terminated" in table:
        found["terminated"] = table["terminated"][last]
    if "weight" in table:
        found["weight"] = np.prod(np.where(real, table["weight"][rows], 1.0), axis=1)
    return found


def return_windows(columns: dict[str, Any], steps: int) -> dict[str, np.ndarray]:
    """Windows of several steps for λ-returns of action values.

    The actions after the first must be the evaluated policy's own, so importance weights have no place here.

    Parameters
    ----------
    columns : dict of arrays
        Columns state, action, reward, next_state, next_action, episode and optional terminated and truncated, in the
        order of time.
    steps : int
        Most steps of a window.

    Returns
    -------
    dict of arrays
        Columns state and action, and with an axis for the step reward (n, steps), next_state (n, steps, d), next_action
        (n, steps, ...) and terminated (n, steps); length (n,) counts the real steps.
    """
    needed = ("state", "action", "reward", "next_state", "next_action", "episode")
    table = _table(columns, *needed, optional=MARKS)
    if "weight" in columns:
        raise checks.InputError(
            "λ-returns take no column weight, since the actions after the first must be the evaluated policy's own; "
            "leave it out if they are, or use problems.ActionValue with the policy's next actions"
        )
    checks.count("steps", steps)
    rows, lengths = _windows(table, steps)
    next_state = table["next_state"]
    return {
        "state": table["state"],
        "action": table["action"],
        "reward": table["reward"][rows],
        "next_state": (next_state[:, None] if next_state.ndim == 1 else next_state)[rows],
        "next_action": table["next_action"][rows],
        "terminated": table.get("terminated", np.zeros(len(rows)))[rows],
        "length": lengths.astype(float),
    }


def check_names(columns: Iterable[str]) -> None:
    """Raise where a column has another library's name for one that is missing here: it would not be read."""
    for meant, others in NEAR_NAMES.items():
        for name in others:
            if name in columns and meant not in columns:
                hint = "1 where nothing follows, 0 at a time limit" if meant == "terminated" else "π(a|s) / π_b(a|s)"
                raise checks.InputError(
                    f"a column {name} is not read here: rename it to {meant} ({hint}), or leave it out"
                )


def check_vectors(sample: Sample, *names: str) -> None:
    """Raise unless every one of these columns that is there has one number a row."""
    rows = np.shape(sample["state"])[:1]
    for name in names:
        if name in sample and np.shape(sample[name]) != rows:
            raise checks.InputError(f"{name} must have shape {rows}, but has {np.shape(sample[name])}")


def check_marks(sample: Sample, name: str, hint: str) -> None:
    """Raise unless the column, where it is there, is 0 or 1 throughout."""
    marks = sample.get(name)
    if marks is None or checks.traced(marks):
        return
    strange = np.asarray(marks)[~np.isin(np.asarray(marks), (0, 1))]
    if strange.size:
        raise checks.InputError(f"{name} must be 0 or 1, not {strange.flat[0]}; {hint}")


def check_not_negative(sample: Sample, name: str, hint: str) -> None:
    """Raise unless the column, where it is there, has no negative number and no NaN."""
    values = sample.get(name)
    if values is None or checks.traced(values):
        return
    lowest = np.min(np.asarray(values))
    if not lowest >= 0:
        raise checks.InputError(f"{name} must not be negative, not {lowest}; {hint}")


def check_discount(discount: Any) -> None:
    """Raise unless 0 <= discount <= 1; whether 1 will do depends on the samples."""
    hint = "give a number of at least 0 and below 1, such as 0.99"
    checks.not_negative("discount", discount, hint)
    checks.single("discount", discount)
    if not checks.traced(discount) and np.any(np.asarray(discount) > 1):
        raise checks.InputError(f"discount must not be above 1, not {discount!r}; {hint}")


def check_endings(sample: Sample, discount: Any) -> None:
    """Raise where nothing is discounted and nothing ends; a matter of the whole data set, not of one batch of it."""
    ends = sample.get("terminated", np.zeros(1))
    if checks.traced(discount, ends) or np.any(np.asarray(discount) < 1):
        return
    if not np.any(np.asarray(ends)):
        raise checks.InputError(
            "discount must be below 1, not 1, unless a column terminated marks transitions that end an episode, since "
            "otherwise V plus any constant is a solution too; lower the discount or give that column"
        )


def _windows(table: dict[str, np.ndarray], steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The windows of columns in the order of time, refused where a row is not what the one before it led to."""
    marks = {name: table.get(name) for name in MARKS}
    goes_on = np.flatnonzero(follows(table["episode"], **marks))
    led_to, there = table["next_state"][goes_on], table["state"][goes_on + 1]
    # Up to the rounding of float32, since one of the two columns may have passed through it.
    apart = ~np.isclose(led_to, there, rtol=1e-5).all(axis=tuple(range(1, there.ndim)))
    if apart.any():
        row = int(goes_on[np.argmax(apart)])
        raise checks.InputError(
            f"row {row + 1} has the label of row {row}, episode {table['episode'][row]}, but its state "
            f"{table['state'][row + 1].tolist()} is not the next_state {table['next_state'][row].tolist()} there; "
            "give each episode its own label, rows in the order of time, and mark ends as terminated or truncated"
        )
    return windows(table["episode"], steps, **marks)


def _table(columns: dict[str, Any], *needed: str, optional: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The columns that are needed or known, checked."""
    missing = [name for name in needed if name not in columns]
    if missing:
        raise checks.InputError(f"trajectories need the columns {', '.join(needed)}; {', '.join(missing)} missing")
    check_names(columns)
    table = {name: _column(name, columns[name]) for name in (*needed, *optional) if name in columns}
    _check_rows(table)
    if table["state"].shape != table["next_state"].shape:
        raise checks.InputError(
            f"state and next_state must have the same shape, but have {table['state'].shape} and "
            f"{table['next_state'].shape}"
        )
    return table


def _column(name: str, values: Any) -> np.ndarray:
    """The column in float64 and finite; episodes may have any labels."""
    if name == "episode" and np.asarray(values).dtype.kind in "OSU":
        found = np.asarray(values)
    else:
        found = numbers(name, values)
        if not np.isfinite(found).all():
            raise checks.InputError(f"{name} has NaN or infinite values; drop or fill those rows")
    if name in VECTORS and found.ndim != 1:
        raise checks.InputError(f"{name} must have shape (rows,), one value a row, but has {found.shape}")
    if name in MARKS:
        check_marks({name: found}, name, "mark with 1 where the episode ends")
    return found


def _check_rows(table: dict[str, np.ndarray]) -> None:
    lengths = {name: len(column) if column.ndim else 0 for name, column in table.items()}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise checks.InputError(f"the columns of trajectories need equally many rows, but have {lengths}")
