"""From consecutive transitions to what several steps say: multi-step transitions and windows for λ-returns.

Columns are arrays in the order of time with an `episode` label for each row. A row is followed by the next
one if that has the same label and the row is not terminated; an episode cut short by a time limit just stops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed import checks


def follows(episode: Any, terminated: Any | None = None) -> np.ndarray:
    """Whether each row's next one continues it, (n,); never for the last.

    >>> follows([0, 0, 0, 1], [0, 1, 0, 0]).tolist()
    [True, False, False, False]
    """
    labels = np.asarray(episode)
    goes_on = np.zeros(len(labels), dtype=bool)
    goes_on[:-1] = labels[1:] == labels[:-1]
    return goes_on if terminated is None else goes_on & ~np.asarray(terminated, dtype=bool)


def windows(episode: Any, length: int, *, terminated: Any | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(rows, lengths): for each row the next `length` rows including itself, (n, length), and how many are real, (n,).

    A window ends with its episode; beyond it the last real row is repeated.
    """
    checks.count("length", length)
    goes_on = follows(episode, terminated)
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
    """Transitions of up to `steps` steps for policy evaluation, from columns in the order of time.

    Takes state, reward, next_state, episode, and optional terminated and weight; gives state, the discounted sum of
    rewards as reward, the state after the last step as next_state, whether the episode ended there as terminated, the
    product of importance weights as weight, and how many steps there were as steps, by which the problem discounts
    the bootstrap. Windows shorten at the end of an episode.

    >>> columns = {"state": [0, 1, 2], "reward": [1, 1, 1], "next_state": [1, 2, 3], "episode": [0, 0, 0]}
    >>> multi_step(columns, 2, 0.5)["reward"].tolist()
    [1.5, 1.5, 1.0]
    """
    table = _table(columns, "state", "reward", "next_state", "episode")
    checks.not_negative("discount", discount)
    rows, lengths = windows(table["episode"], steps, terminated=table.get("terminated"))
    real = np.arange(steps) < lengths[:, None]
    last = rows[:, -1]
    found = {
        "state": table["state"],
        "reward": np.sum(real * float(discount) ** np.arange(steps) * table["reward"][rows], axis=1),
        "next_state": table["next_state"][last],
        "steps": lengths.astype(float),
    }
    if "terminated" in table:
        found["terminated"] = np.asarray(table["terminated"], dtype=float)[last]
    if "weight" in table:
        found["weight"] = np.prod(np.where(real, table["weight"][rows], 1.0), axis=1)
    return found


def return_windows(columns: dict[str, Any], steps: int) -> dict[str, np.ndarray]:
    """Windows of up to `steps` steps for λ-returns of action values, from columns in the order of time.

    Takes state, action, reward, next_state, next_action, episode and optional terminated; gives state, action, and
    with an axis for the step reward (n, steps), next_state (n, steps, d), next_action (n, steps, ...), terminated
    (n, steps), and how many steps are real as length (n,).
    """
    table = _table(columns, "state", "action", "reward", "next_state", "next_action", "episode")
    rows, lengths = windows(table["episode"], steps, terminated=table.get("terminated"))
    ends = np.asarray(table.get("terminated", np.zeros(len(rows))), dtype=float)
    next_state = table["next_state"]
    return {
        "state": table["state"],
        "action": table["action"],
        "reward": table["reward"][rows],
        "next_state": (next_state[:, None] if next_state.ndim == 1 else next_state)[rows],
        "next_action": table["next_action"][rows],
        "terminated": ends[rows],
        "length": lengths.astype(float),
    }


def _table(columns: dict[str, Any], *needed: str) -> dict[str, np.ndarray]:
    missing = [name for name in needed if name not in columns]
    if missing:
        raise checks.InputError(f"trajectories need the columns {', '.join(needed)}; {', '.join(missing)} missing")
    table = {name: np.asarray(column) for name, column in columns.items()}
    lengths = {name: len(column) if column.ndim else 0 for name, column in table.items()}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise checks.InputError(f"the columns of trajectories need equally many rows, but have {lengths}")
    return table
