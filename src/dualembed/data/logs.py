"""Logs of other libraries as columns of transitions, whatever format they are in: `log` is the one door."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed import checks
from dualembed.data.following import as_times
from dualembed.data.formats import Fields, as_array, fields_of, is_flat, is_rllib_episode, read_file, unknown
from dualembed.data.frames import Frame, group_numbers, is_1d
from dualembed.data.policies import first_number, is_discrete
from dualembed.data.probabilities import numbers

if TYPE_CHECKING:
    import pyarrow as pa

Columns = dict[str, np.ndarray]
HDF5 = (".hdf5", ".h5")
FILES = (
    *HDF5,
    ".json",
    ".jsonl",
    ".ndjson",
    ".csv",
    ".csv.gz",
    ".tsv",
    ".tsv.gz",
    ".parquet",
    ".arrow",
    ".feather",
)
IN_ORDER = 0.5  # share of rows that lead to the next one, from which on those that do not are ends of episodes


def is_log(source: Any) -> bool:
    """Whether it is something that `log` alone reads: by its form, not by what is in it."""
    if isinstance(source, (str, os.PathLike)) or hasattr(source, "iterate_episodes"):
        return True
    if isinstance(source, Mapping):
        return is_flat(source)
    if isinstance(source, (list, tuple)):
        return bool(source) and all(is_rllib_episode(each) for each in source)
    if hasattr(source, "__array__") or is_frame(source):
        return any(_nested(column) for column in Frame.of(source).columns)
    return hasattr(source, "episodes") or is_rllib_episode(source) or hasattr(source, "observations")


def is_frame(source: Any) -> bool:
    """Whether it is a data frame."""
    return not isinstance(source, (list, tuple, Mapping)) and not is_1d(source) and Frame.of(source).names is not None


def _nested(column: Any) -> bool:
    """Whether a frame's column has a vector in each row."""
    first = np.asarray(column[:1]) if len(column) else np.zeros(0)
    return first.ndim > 1 or (first.dtype == object and len(first) > 0 and np.ndim(first[0]) > 0)


def log(source: Any) -> Columns:
    """The transitions of a log, in the order of time.

    Episodes end where marks or labels say so. If next observations are not logged they are the following ones of the
    same episode. The last step of an episode then has none: if it is terminal it stays, with next_state = state, which
    is never looked at; otherwise it goes, and a limit that cut it is marked on the step before.

    Parameters
    ----------
    source : str, path, dict, list, frame or object
        A Minari dataset or its id; a d3rlpy dataset, or whatever else has `episodes`; arrays observations, actions,
        rewards, terminals and perhaps timeouts, next_observations and infos/action_log_probs, as D4RL has them, in a
        dictionary, in an .hdf5 file or as attributes; RLlib's columns obs, new_obs, actions, rewards, terminateds,
        truncateds, eps_id, t and action_prob or action_logp, in a dictionary, a frame, a Parquet or a JSON-lines file,
        or its episodes; the dictionaries bandit_feedback of OBP and logged_dataset of SCOPE-RL; any table with columns
        by our names; or a list of trajectories, arrays of states or dictionaries.

    Returns
    -------
    dict of arrays
        The columns state, action, reward, next_state, terminated, truncated and episode, and propensity where it is
        logged how likely the actions were.

    Examples
    --------
    >>> flat = {"observations": [[0.0], [1.0], [2.0]], "actions": [0, 1, 0], "rewards": [0, 0, 1]}
    >>> columns = log({**flat, "terminals": [0, 0, 1]})
    >>> columns["next_state"].tolist(), columns["terminated"].tolist()
    ([[1.0], [2.0], [2.0]], [0.0, 0.0, 1.0])
    """
    if isinstance(source, (str, os.PathLike)):
        source = _opened(source)
    if is_frame(source):
        source = _columns_of(source)
    parts = [part for part in _parts(source) if len(part["state"])]
    if not parts:
        raise checks.InputError("the log has no transitions in it; give one with at least two steps in an episode")
    episodes = np.repeat(np.arange(len(parts), dtype=float), [len(part["state"]) for part in parts])
    strange = next((number for number, part in enumerate(parts) if {*part} != {*parts[0]}), None)
    if strange is not None:
        raise checks.InputError(
            f"episode {strange} has {', '.join(parts[strange])}, but episode 0 {', '.join(parts[0])}; give all of them "
            "the same"
        )
    try:
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    except ValueError as error:
        raise checks.InputError(f"episodes must have states and actions of one shape ({error})") from None
    last = {name: joined.pop(name) for name in ("propensity",) if name in joined}
    return {**joined, "episode": episodes, **last}


def read_log_table(path: str | os.PathLike[str]) -> pa.Table:
    """The table in a file that `read_table` reads; of a log in HDF5 the columns that `log` makes of it.

    A column of vectors becomes one for each coordinate, such as state_0 and state_1.
    """
    import pyarrow as pa

    from dualembed.data.io import read_table

    if not str(path).lower().endswith(HDF5):
        return read_table(path)
    found: dict[str, np.ndarray] = {}
    for name, column in log(Path(path)).items():
        parts = column.reshape(len(column), -1).T
        found |= {name if len(parts) == 1 else f"{name}_{place}": own for place, own in enumerate(parts)}
    return pa.table(found)


def _opened(name: str | os.PathLike[str]) -> Any:
    """What is in a file, or the Minari dataset of that id."""
    path = Path(name).expanduser()
    if not isinstance(name, str) or path.name.lower().endswith(FILES) or path.exists():
        from dualembed.data.io import check_exists

        check_exists(path)
        return read_file(path)
    return _minari_dataset(name)


def _columns_of(source: Any) -> dict[str, Any]:
    """The columns of a frame by their names."""
    frame = Frame.of(source)
    return {name: _column_array(column) for name, column in zip(frame.names or [], frame.columns, strict=True)}


def _column_array(column: Any) -> Any:
    """A frame's column, whose rows may be vectors, as an array."""
    found = np.asarray(column)
    return as_array([np.asarray(each) for each in found]) if found.dtype == object and _nested(column) else found


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
            yield _episode(fields_of(episode), first)
    elif hasattr(source, "episodes") and not isinstance(source, Mapping):
        for episode in source.episodes:
            yield _episode(fields_of(episode))
    elif is_rllib_episode(source):
        yield _episode(fields_of(source))
    elif isinstance(source, (list, tuple)) and source:
        yield from _listed(source)
    else:
        yield from _flat(fields_of(source))


def _listed(source: Sequence[Any]) -> Iterator[Columns]:
    """The columns of each of a list of trajectories, or of episodes in a list of rows."""
    if all(isinstance(each, Mapping) and all(np.isscalar(value) for value in each.values()) for each in source):
        names = [name for name in source[0] if all(name in each for each in source)]
        yield from _flat(fields_of({name: as_array([each[name] for each in source]) for name in names}))
        return
    for number, each in enumerate(source):
        if isinstance(each, np.ndarray):
            states = _vectors(f"trajectory {number}", each)
            yield {"state": states[:-1], "next_state": states[1:]}
        elif is_frame(each):
            yield _episode(_by_time(fields_of(_columns_of(each), alone=True)))
        elif isinstance(each, Mapping) or is_rllib_episode(each) or hasattr(each, "observations"):
            yield _episode(fields_of(each, alone=True))
        else:
            raise unknown(each, [])


def _by_time(fields: Fields) -> Fields:
    """The columns of one episode in the order of time, where that is there."""
    if "times" not in fields:
        return fields
    label = np.zeros(len(fields["times"]))
    ordered = _in_order({**fields, "episodes": label}, len(label))[0]
    return {name: column for name, column in ordered.items() if name != "episodes"}


def _flat(fields: Fields) -> Iterator[Columns]:
    """The columns of each episode in flat arrays, which labels or terminals and timeouts cut into episodes."""
    states = _vectors("observations", fields["observations"])
    count = len(states)
    fields = {**fields, "observations": states}
    if "actions" in fields:
        fields["actions"] = _actions(fields["actions"])
        if len(fields["actions"]) != count:
            raise checks.InputError(
                f"actions must have {count} rows, as observations have, but have {len(fields['actions'])}"
            )
    for name in ("rewards", "terminals", "timeouts", "propensities"):
        if name in fields:
            fields[name] = _column(name, fields[name], count)
    following = fields.get("next_observations")
    if following is not None:
        fields["next_observations"] = following = _vectors("next_observations", following)
        if following.shape != states.shape:
            raise checks.InputError(
                f"next_observations must have the shape of observations, {states.shape}, but have {following.shape}"
            )
    fields, labels = _in_order(fields, count)
    states, following, marked = fields["observations"], fields.get("next_observations"), "timeouts" in fields
    for name in ("terminals", "timeouts"):
        fields.setdefault(name, np.zeros(count))
    cut = (fields["terminals"] > 0) | (fields["timeouts"] > 0)
    cut[:-1] |= labels[1:] != labels[:-1]
    if following is not None and not marked and "episodes" not in fields:
        cut |= _breaks(states, following)
    for start, stop in pairwise(np.unique([0, *np.flatnonzero(cut) + 1, count])):
        here = slice(int(start), int(stop))
        own = {name: column[here] for name, column in fields.items() if name not in ("times", "episodes")}
        yield _joined(own, states[here][1:] if following is None else following[here])


def _in_order(fields: Fields, count: int) -> tuple[Fields, np.ndarray]:
    """The rows of each label together, in the order of time where that is given; and the labels' numbers (n,)."""
    if "episodes" not in fields:
        return {name: column for name, column in fields.items() if name != "times"}, np.zeros(count)
    labels = group_numbers("episodes", np.asarray(fields["episodes"]).reshape(-1), count)
    firsts = np.unique(labels, return_index=True)[1]
    labels = np.argsort(np.argsort(firsts))[labels]  # in the order in which they come
    times = np.arange(count)
    if "times" in fields:
        times = group_numbers("times", as_times(np.asarray(fields["times"]).reshape(-1)), count)
    order = np.lexsort((times, labels))
    same = (labels[order][1:] == labels[order][:-1]) & (times[order][1:] == times[order][:-1])
    if same.any():
        first, second = order[np.argmax(same)], order[np.argmax(same) + 1]
        raise checks.InputError(
            f"rows {first} and {second} are of one episode and of one time, so that it is not known which follows "
            "which; give each row of an episode its own time, or leave times out"
        )
    return {name: np.asarray(column)[order] for name, column in fields.items()}, labels[order]


def _breaks(states: np.ndarray, following: np.ndarray) -> np.ndarray:
    """Whether each row (n,) does not lead to the next one, where most do: what qlearning_dataset leaves of ends."""
    leads = np.all(np.isclose(following[:-1], states[1:], rtol=1e-5, atol=1e-5), axis=1)
    return np.append(~leads if len(leads) and leads.mean() >= IN_ORDER else np.zeros(len(leads), dtype=bool), False)


def _episode(fields: Fields, first_action: int = 0) -> Columns:
    """The columns of one episode, with marks for every step, or with one for the whole of it, as in d3rlpy."""
    states = _vectors("observations", fields["observations"])
    count = len(states) - 1
    own: Fields = {}
    if "actions" in fields:
        own["actions"] = _actions(fields["actions"])
        count = len(own["actions"])
    if "rewards" in fields:
        own["rewards"] = numbers("rewards", fields["rewards"]).reshape(-1)
        count = len(own["rewards"])
    following = fields.get("next_observations")
    lengths = {name: len(column) for name, column in own.items()} | {"observations": len(states)}
    if lengths.get("actions", count) != count or len(states) not in (count, count + 1):
        raise checks.InputError(
            f"an episode of {count} rewards must have as many actions and as many observations, or one more, but has "
            f"{lengths.get('actions', count)} and {len(states)}"
        )
    if "actions" in own:
        own["actions"] = own["actions"] - first_action
    if "propensities" in fields:
        own["propensities"] = _column("propensities", fields["propensities"], count)
    own["terminals"] = _marks(fields.get("terminals", False), count)
    # An episode that is whole and not terminal was cut by a limit; that is how d3rlpy tells it.
    own["timeouts"] = _marks(fields.get("timeouts", not own["terminals"].any()), count)
    after = states[1:] if following is None else _vectors("next_observations", following)
    return _joined({"observations": states[:count], **own}, after)


def _marks(given: Any, count: int) -> np.ndarray:
    """Marks (count,), from as many or from one that is about the last step."""
    if np.ndim(given) == 0:
        return np.arange(count) == (count - 1 if given else -1)
    return _column("terminals and timeouts", given, count)


def _joined(fields: Fields, after: np.ndarray) -> Columns:
    """The columns of one episode; `after` has a next state for each step, or for each but the last."""
    states = fields["observations"]
    terminated, truncated = (np.asarray(fields[name], dtype=float).copy() for name in ("terminals", "timeouts"))
    kept = len(states)
    if len(after) < len(states):
        if terminated[-1]:
            after = np.concatenate([after, states[-1:]])
        else:
            kept -= 1
            truncated[max(kept - 1, 0)] = truncated[-1]
    columns = {"state": states, "action": fields.get("actions"), "reward": fields.get("rewards"), "next_state": after}
    columns |= {"terminated": terminated, "truncated": truncated, "propensity": fields.get("propensities")}
    present = {name: column for name, column in columns.items() if column is not None}
    return {name: np.asarray(column[:kept], dtype=float) for name, column in present.items()}


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
