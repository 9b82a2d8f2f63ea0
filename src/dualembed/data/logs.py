"""Logs of other libraries as columns of transitions: Minari, d3rlpy, and dictionaries of flat arrays as in D4RL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.data.policies import first_number, is_discrete
from dualembed.data.probabilities import numbers

Columns = dict[str, np.ndarray]

# The names that libraries give to one thing.
ALIASES = {
    "observations": ("observations",),
    "actions": ("actions",),
    "rewards": ("rewards",),
    "next_observations": ("next_observations",),
    "terminals": ("terminals", "terminations", "terminated"),
    "timeouts": ("timeouts", "truncations", "truncated"),
}
NEEDED = ("observations", "actions", "rewards", "terminals")
SOURCES = (
    "a Minari dataset or its id, a d3rlpy MDPDataset, or a dictionary of observations, actions, rewards, terminals "
    "and, where episodes are cut by a limit, timeouts"
)


def is_log(source: Any) -> bool:
    """Whether it is something that `log` reads: by its form, not by what is in it."""
    if isinstance(source, str) or hasattr(source, "iterate_episodes"):
        return True
    if isinstance(source, Mapping):
        return "observations" in source
    return hasattr(source, "episodes") and not hasattr(source, "__array__")


def log(source: Any) -> Columns:
    """The transitions of a log, in the order of time.

    If next observations are not logged they are the following ones of the same episode. The last step of an episode
    then has none: if it is terminal it stays, with next_state = state, which is never looked at; otherwise it goes, and
    a limit that cut it is marked on the step before.

    Parameters
    ----------
    source : str, Minari dataset, d3rlpy dataset, dict or object
        A Minari dataset or its id, a d3rlpy MDPDataset or whatever else has `episodes`, or flat arrays observations,
        actions, rewards, terminals and perhaps timeouts and next_observations, in a dictionary or as attributes.

    Returns
    -------
    dict of arrays
        The columns state, action, reward, next_state, terminated, truncated and episode.

    Examples
    --------
    >>> flat = {"observations": [[0.0], [1.0], [2.0]], "actions": [0, 1, 0], "rewards": [0, 0, 1]}
    >>> columns = log({**flat, "terminals": [0, 0, 1]})
    >>> columns["next_state"].tolist(), columns["terminated"].tolist()
    ([[1.0], [2.0], [2.0]], [0.0, 0.0, 1.0])
    """
    if isinstance(source, str):
        source = _minari_dataset(source)
    parts = [part for part in _parts(source) if len(part["state"])]
    if not parts:
        raise checks.InputError("the log has no transitions in it; give one with at least two steps in an episode")
    episodes = np.repeat(np.arange(len(parts), dtype=float), [len(part["state"]) for part in parts])
    try:
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    except ValueError as error:
        raise checks.InputError(f"episodes must have states and actions of one shape ({error})") from None
    return {**joined, "episode": episodes}


def _minari_dataset(name: str) -> Any:
    """The Minari dataset of that id among those on this computer."""
    try:
        import minari
    except ImportError:
        raise checks.InputError(
            f"the Minari dataset {name!r} cannot be read without Minari; pip install 'dualembed[rl]' brings it"
        ) from None
    try:
        return minari.load_dataset(name)
    except (FileNotFoundError, ValueError):
        way_out = checks.nearest(name, minari.list_local_datasets()) or f"; `minari download {name}` may bring it"
        raise checks.InputError(f"there is no Minari dataset {name!r} on this computer{way_out}") from None


def _parts(source: Any) -> Iterator[Columns]:
    """The columns of each episode."""
    if hasattr(source, "iterate_episodes"):
        first = first_number(source.action_space) if is_discrete(source.action_space) else 0
        for episode in source.iterate_episodes():
            yield _episode(_fields(episode), first)
    elif hasattr(source, "episodes"):
        for episode in source.episodes:
            yield _episode(_fields(episode))
    else:
        yield from _flat(_fields(source))


def _fields(source: Any) -> dict[str, Any]:
    """What a log holds, under one name for each thing."""
    get: Callable[[str], Any] = source.get if isinstance(source, Mapping) else lambda name: getattr(source, name, None)
    found = {}
    for meant, aliases in ALIASES.items():
        values = [value for value in map(get, aliases) if value is not None]
        if values:
            found[meant] = values[0]
    missing = [name for name in NEEDED if name not in found]
    if missing == ["terminals"] and get("dones") is not None:
        raise checks.InputError(
            "dones do not tell an end from a time limit, after which the value goes on; give terminals and timeouts"
        )
    if missing:
        raise checks.InputError(
            f"a log must be {SOURCES}, but {type(source).__name__} has no {' and no '.join(missing)}"
        )
    return found


def _flat(fields: dict[str, Any]) -> Iterator[Columns]:
    """The columns of each episode in flat arrays, which terminals and timeouts cut into episodes."""
    states, actions = _vectors("observations", fields["observations"]), _actions(fields["actions"])
    rewards, terminals = (_column(name, fields[name], len(states)) for name in ("rewards", "terminals"))
    timeouts = _column("timeouts", fields.get("timeouts", np.zeros(len(states))), len(states))
    following = fields.get("next_observations")
    if following is not None:
        following = _vectors("next_observations", following)
        if following.shape != states.shape:
            raise checks.InputError(
                f"next_observations must have the shape of observations, {states.shape}, but have {following.shape}"
            )
    if len(actions) != len(states):
        raise checks.InputError(f"actions must have {len(states)} rows, as observations have, but have {len(actions)}")
    ends = np.flatnonzero((terminals > 0) | (timeouts > 0)) + 1
    bounds = np.unique([0, *ends, len(states)])
    for start, stop in pairwise(bounds):
        here = slice(int(start), int(stop))
        after = states[here][1:] if following is None else following[here]
        yield _joined(states[here], actions[here], rewards[here], after, (terminals[here], timeouts[here]))


def _episode(fields: dict[str, Any], first_action: int = 0) -> Columns:
    """The columns of one episode, with marks for every step, or with one for the whole of it, as in d3rlpy."""
    rewards = numbers("rewards", fields["rewards"]).reshape(-1)
    states, actions, count = _vectors("observations", fields["observations"]), _actions(fields["actions"]), len(rewards)
    if len(actions) != count or len(states) not in (count, count + 1):
        raise checks.InputError(
            f"an episode of {count} rewards must have as many actions and as many observations, or one more, but has "
            f"{len(actions)} and {len(states)}"
        )
    terminals = _marks(fields["terminals"], count)
    # An episode that is whole and not terminal was cut by a limit; that is how d3rlpy tells it.
    cut = fields.get("timeouts", not terminals.any())
    return _joined(states[:count], actions - first_action, rewards, states[1:], (terminals, _marks(cut, count)))


def _marks(given: Any, count: int) -> np.ndarray:
    """Marks (count,), from as many or from one that is about the last step."""
    if np.ndim(given) == 0:
        return np.arange(count) == (count - 1 if given else -1)
    return _column("terminals and timeouts", given, count)


def _joined(
    states: np.ndarray,
    actions: np.ndarray,
    rewards: np.ndarray,
    after: np.ndarray,
    marks: Sequence[np.ndarray],
) -> Columns:
    """The columns of one episode; `after` has a next state for each step, or for each but the last."""
    terminated, truncated = (np.asarray(mark, dtype=float).copy() for mark in marks)
    kept = len(states)
    if len(after) < len(states):
        if terminated[-1]:
            after = np.concatenate([after, states[-1:]])
        else:
            kept -= 1
            truncated[max(kept - 1, 0)] = truncated[-1]
    columns = {"state": states, "action": actions, "reward": rewards, "next_state": after}
    columns |= {"terminated": terminated, "truncated": truncated}
    return {name: np.asarray(column[:kept], dtype=float) for name, column in columns.items()}


def _vectors(name: str, given: Any) -> np.ndarray:
    """Observations (n, d); those of several parts, in a dictionary or a tuple, side by side."""
    if isinstance(given, (Mapping, tuple)):
        parts: Iterable[Any] = given.values() if isinstance(given, Mapping) else given
        return np.concatenate([_vectors(name, part) for part in parts], axis=1)
    found = numbers(name, given)
    if found.ndim not in (1, 2):
        raise checks.InputError(
            f"{name} must be vectors, (rows, dimension), but have shape {found.shape}; flatten them"
        )
    return found[:, None] if found.ndim == 1 else found


def _actions(given: Any) -> np.ndarray:
    """Actions (n,) that are whole numbers, or (n, a)."""
    if isinstance(given, (Mapping, tuple)):
        raise checks.InputError(f"actions must be numbers or vectors, not a {type(given).__name__} of parts")
    found = np.asarray(given)
    whole = found.dtype.kind in "iu" and found.ndim == 2 and found.shape[1] == 1
    values = numbers("actions", found[:, 0] if whole else found)
    if values.ndim not in (1, 2):
        raise checks.InputError(f"actions must have shape (rows,) or (rows, a), but have {values.shape}")
    return values


def _column(name: str, given: Any, count: int) -> np.ndarray:
    """One number for each of so many steps."""
    found = numbers(name, given).reshape(-1)
    if len(found) != count:
        raise checks.InputError(f"{name} must have one number for each of {count} steps, but have {len(found)}")
    return found
