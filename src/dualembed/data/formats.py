"""The formats of logs that other libraries write: what each calls things, and how each says where episodes end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.arrays import Booleans, Integers
from dualembed.data.columns import columns_by_role
from dualembed.data.policies import numbers
from dualembed.data.roles import ROLES

Fields = dict[str, Any]

# What a log holds, by our words for it, and the role that has everybody's names for it.
FIELDS = {
    "observations": "states",
    "actions": "actions",
    "rewards": "rewards",
    "next_observations": "next_states",
    "terminals": "terminated",
    "timeouts": "truncated",
    "episodes": "episodes",
    "times": "time",
    "propensities": "propensities",
}
SCOPE = "SCOPE-RL's logged_dataset"
OURS = "columns of our own names"
ENDS = "episode or terminated, which say where episodes end"
ALONE = (ENDS, "terminals")  # what a single trajectory need not have
FORMATS = {
    "the arrays of D4RL and d3rlpy": ("observations", "actions", "rewards", "terminals"),
    "the columns of RLlib": ("obs", "actions", "rewards", "terminateds"),
    "OBP's bandit_feedback": ("context", "action", "reward"),
    SCOPE: ("state", "action", "reward", "done", "terminal", "step_per_trajectory"),
    OURS: ("state", "reward", "terminated"),
}
"""What the keys of each format are that it cannot do without."""
SOURCES = (
    "a Minari dataset or its id, a d3rlpy dataset, D4RL's arrays or its .hdf5 file, RLlib's columns or episodes, OBP's "
    "bandit_feedback, SCOPE-RL's logged_dataset, a table, or a list of trajectories"
)
RLLIB = ("new_obs", "terminateds", "truncateds", "dones", "eps_id", "action_prob", "action_logp")
PACKED = (
    "obs is packed, which RLlib alone can read; write the file with compress_columns=[], or give the batches that "
    "ray.rllib.offline.JsonReader reads"
)


def is_bandit(names: Iterable[str]) -> bool:
    """Whether keys are those of OBP's feedback of a bandit."""
    return {"context", "action", "reward"} <= {*names}


def is_scope(names: Iterable[str]) -> bool:
    """Whether keys are those of a log of SCOPE-RL."""
    return {"state", "step_per_trajectory"} <= {*names}


def is_flat(source: Mapping[str, Any]) -> bool:
    """Whether a dictionary has the keys of a library's log: other names are columns like any table's."""
    if "observations" in source or is_bandit(source) or is_scope(source):
        return True
    return "obs" in source and any(name in source for name in RLLIB)


def is_rllib_episode(source: Any) -> bool:
    """Whether it is like a SingleAgentEpisode of RLlib."""
    return all(hasattr(source, name) for name in ("get_observations", "get_actions", "get_rewards", "is_terminated"))


def fields_of(source: Any, *, alone: bool = False) -> Fields:
    """What a log holds, under one name for each thing, from a dictionary or from attributes.

    Of an episode `alone`, actions, rewards and whether it ended may be missing.
    """
    if is_rllib_episode(source):
        return _rllib_episode(source)
    if isinstance(source, Mapping):
        given = {str(name): value for name, value in source.items() if value is not None}
    else:
        values = {name: getattr(source, name, None) for name in _known()}
        # Of an object, such as a tensor, t may be a method.
        given = {name: value for name, value in values.items() if value is not None and not callable(value)}
    if is_scope(given):
        if not {*FORMATS[SCOPE]} <= {*given}:
            raise unknown(source, list(given))
        return _scope(given)
    if isinstance(source, Mapping) and is_bandit(source):
        return _bandit(source)
    columns = columns_by_role([ROLES[name] for name in FIELDS.values()], {}, list(given), needs=())
    found: Fields = {}
    for meant, role in ((meant, ROLES[name]) for meant, name in FIELDS.items()):
        names = columns.get(role.word, [])
        if len(names) == 1:
            value = given[names[0]]
            with np.errstate(over="ignore"):  # of densities that are not needed
                found[meant] = np.exp(numbers(names[0], value)) if names[0] in role.logarithms else value
        elif names:
            found[meant] = np.column_stack([numbers(name, given[name]) for name in names])
    if not (alone and "observations" in found):
        _check_needed(source, found, given)
    return found


def _check_needed(source: Any, found: Fields, given: Mapping[str, Any]) -> None:
    """Raise where a log lacks what it cannot do without: in the words of the format that it is nearest to."""
    ends = "terminals" in found or "episodes" in found
    if "observations" in found and "terminals" not in found and {"dones", "done"} & {*given}:
        raise checks.InputError(
            "dones do not tell an end from a time limit, after which the value goes on; give terminals and timeouts"
        )
    ours = any(name.startswith("state") for name in given)
    needed = ["observations", "actions", "rewards"]
    if ours:
        needed = ["observations"] if "next_observations" in found else ["observations", "rewards"]
    if not ends or not {*needed} <= {*found}:
        lacking = [ROLES[FIELDS[name]].word for name in needed if name not in found]
        lacking += [] if ends else [ENDS]
        raise unknown(source, list(given), lacking if ours and "observations" in found else ())


def _known() -> set[str]:
    """The names of attributes that are looked at."""
    roles = [ROLES[name] for name in FIELDS.values()]
    said = {name for role in roles for name in (role.word, role.name, *role.aliases, *role.logarithms)}
    return said | {"dones", "done"} | {name for needs in FORMATS.values() for name in needs}


def unknown(source: Any, names: Sequence[str], lacking: Sequence[str] = ()) -> checks.InputError:
    """The refusal of what is no log: the format that it is nearest to, and what it lacks of it.

    Where that is known to be our own, it is `lacking` this.
    """
    kind, found = type(source).__name__, {title: sum(name in names for name in FORMATS[title]) for title in FORMATS}
    nearest = max(FORMATS, key=lambda title: 3 * found[title] - len(FORMATS[title]))  # what is missing counts half
    nearest = OURS if lacking else nearest
    if not found[nearest] and not lacking:
        has = f" with {checks.some(names)}" if names else ""
        alone = "; put a single trajectory into a list" if isinstance(source, np.ndarray) else ""
        return checks.InputError(f"a log must be {SOURCES}, not {kind}{has}{alone}")
    missing = " and no ".join(lacking or [name for name in FORMATS[nearest] if name not in names])
    alone = "; put a single trajectory into a list" if isinstance(source, Mapping) and missing in ALONE else ""
    return checks.InputError(
        f"a log must be {SOURCES}, but this {kind} is nearest to {nearest} and has no {missing}{alone}"
    )


def _scope(source: Mapping[str, Any]) -> Fields:
    """SCOPE-RL's log of trajectories of one length: `terminal` is its limit of steps, and `done` both ends.

    What follows a true end in the same trajectory is padding, and goes.
    """
    steps = int(source["step_per_trajectory"])
    done, limit = (numbers(name, source[name]).reshape(-1) > 0 for name in ("done", "terminal"))
    rows = len(done)
    if steps < 1 or rows % steps:
        raise checks.InputError(
            f"SCOPE-RL's logged_dataset must have step_per_trajectory rows in each trajectory, but has {rows} rows of "
            f"{steps} a trajectory"
        )
    ended = done & ~limit
    before: Integers = np.cumsum(ended.reshape(-1, steps), axis=1).ravel() - ended
    kept: Booleans = before == 0
    action, state = (np.asarray(source[name]) for name in ("action", "state"))
    found: Fields = {
        "observations": state.reshape(rows, -1),
        "actions": action.reshape(rows) if source.get("action_type") == "discrete" else action.reshape(rows, -1),
        "rewards": numbers("reward", source["reward"]).reshape(-1),
        "terminals": ended,
        "timeouts": limit,
        "episodes": np.arange(rows) // steps,
    }
    if source.get("pscore") is not None:
        found["propensities"] = np.prod(numbers("pscore", source["pscore"]).reshape(rows, -1), axis=1)
    return {name: column[kept] for name, column in found.items()}


def _bandit(source: Mapping[str, Any]) -> Fields:
    """OBP's rounds, each an episode of one step; where several positions were filled, they are part of the state."""
    action = numbers("action", source["action"]).reshape(-1)
    rows = len(action)
    context = source["context"]
    state = np.zeros((rows, 1)) if context is None else numbers("context", context).reshape(rows, -1)
    position = source.get("position")
    if position is not None and len(np.unique(position)) > 1:
        state = np.concatenate([state, numbers("position", position).reshape(rows, 1)], axis=1)
    found: Fields = {"observations": state, "actions": action, "rewards": source["reward"]}
    found |= {"next_observations": state, "terminals": np.ones(rows), "episodes": np.arange(rows)}
    taken, shares = source.get("pscore"), source.get("action_dist")
    if taken is None and shares is not None:
        given = numbers("action_dist", shares)
        own = action.astype(int)
        place = np.zeros(rows, dtype=int) if position is None else np.asarray(position).astype(int)
        taken = given[np.arange(rows), own] if given.ndim == 2 else given[np.arange(rows), own, place]
    return found if taken is None else {**found, "propensities": taken}


def _rllib_episode(source: Any) -> Fields:
    """An episode of RLlib's newer kind, which has one observation more than actions."""
    found: Fields = {
        "observations": np.stack([np.asarray(each) for each in source.get_observations()]),
        "actions": np.stack([np.asarray(each) for each in source.get_actions()]),
        "rewards": np.asarray(source.get_rewards(), dtype=np.float64),
        "terminals": bool(source.is_terminated),
        "timeouts": bool(getattr(source, "is_truncated", False)),
    }
    outputs = getattr(source, "extra_model_outputs", None) or {}
    for name in ("action_prob", "action_logp"):
        if name in outputs:
            given = np.asarray(source.get_extra_model_outputs(name), dtype=np.float64).reshape(-1)
            found["propensities"] = np.exp(given) if name == "action_logp" else given
            break
    return found


def read_file(path: Path) -> Mapping[str, Any]:
    """The columns of a file: D4RL's HDF5, RLlib's JSON lines, or a table of any kind that `read_table` reads."""
    if path.suffix.lower() in (".hdf5", ".h5"):
        return _hdf5(path)
    if path.suffix.lower() in (".json", ".jsonl", ".ndjson"):
        return _json_lines(path)
    from dualembed.data.io import read_table

    table = read_table(path)
    return {name: as_array(table.column(name).to_pylist()) for name in table.column_names}


def _hdf5(path: Path) -> Mapping[str, Any]:
    try:
        import h5py
    except ImportError:
        raise checks.InputError(
            f"{path} cannot be read without h5py; pip install 'dualembed[rl]' brings it, or give the dictionary that "
            "env.get_dataset() returns"
        ) from None
    known = _known()
    try:
        with h5py.File(path, "r") as file:
            names: list[str] = []
            file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
            return {name: file[name][()] for name in names if name in known}
    except OSError as error:
        raise checks.InputError(f"{path} cannot be read as HDF5 ({error}); give another file") from None


def _json_lines(path: Path) -> Mapping[str, Any]:
    """The columns of a file with a batch, or a row, on each line."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except ValueError as error:
        raise checks.InputError(f"{path} must have a JSON object on each line ({error}); give another file") from None
    if len(lines) == 1 and isinstance(lines[0], list):
        lines = lines[0]
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise checks.InputError(f"{path} must have a JSON object on each line, a batch or a row; give another file")
    names = [name for name in lines[0] if name not in ("type", "infos") and all(name in line for line in lines)]
    if any(isinstance(line.get("obs"), str) for line in lines):
        raise checks.InputError(PACKED)
    batched = any(isinstance(line.get("rewards", line.get("reward")), list) for line in lines)
    return {
        name: as_array([row for line in lines for row in (line[name] if batched else [line[name]])]) for name in names
    }


def as_array(values: Sequence[Any]) -> Any:
    """A column of numbers, of vectors or of labels, as an array."""
    try:
        return np.asarray(values)
    except ValueError:
        raise checks.InputError("the vectors of a column must be of one length in all rows; pad them") from None
