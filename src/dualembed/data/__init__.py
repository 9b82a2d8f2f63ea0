"""Data from outside: tables in files, logs of other libraries, and transitions collected in gymnasium environments.

What policies say about data is in `data.policies`, how likely the logged actions were in `data.propensities`, what
follows what in `data.trajectories`, and the molecules of QM7 in `data.qm7`. Names are imported when first
used, so that reading a table costs no JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dualembed.deprecation import warn

if TYPE_CHECKING:
    from dualembed.data import policies, propensities, qm7, trajectories
    from dualembed.data.columns import missing_rows, select_columns, to_numbers
    from dualembed.data.conditions import Condition, condition
    from dualembed.data.environments import ActionRepeat, collect, episode_returns
    from dualembed.data.formula import Formula
    from dualembed.data.io import read_table, write_table
    from dualembed.data.logs import log
    from dualembed.data.shifted_rewards import Alignment, alignment

__all__ = [
    "read_table",
    "write_table",
    "select_columns",
    "to_numbers",
    "missing_rows",
    "Condition",
    "condition",
    "Formula",
    "log",
    "Alignment",
    "alignment",
    "ActionRepeat",
    "episode_returns",
    "collect",
    "policies",
    "propensities",
    "trajectories",
    "qm7",
]

_HOMES = {
    "read_table": "io",
    "write_table": "io",
    "select_columns": "columns",
    "to_numbers": "columns",
    "missing_rows": "columns",
    "Condition": "conditions",
    "condition": "conditions",
    "Formula": "formula",
    "log": "logs",
    "Alignment": "shifted_rewards",
    "alignment": "shifted_rewards",
    "ActionRepeat": "environments",
    "episode_returns": "environments",
    "collect": "environments",
}
_MODULES = frozenset({"policies", "propensities", "trajectories", "qm7"})
# Old names, each with the one to use.
_RENAMED = {
    "chosen_columns": "select_columns",
    "numbers_of": "to_numbers",
    "transitions": "log",
    "Held": "ActionRepeat",
    "average_return": "episode_returns",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"dualembed.data.{name}")
    new = _RENAMED.get(name, name)
    if new not in _HOMES:
        raise AttributeError(f"module 'dualembed.data' has no attribute {name!r}")
    if new != name:
        warn(f"dualembed.data.{name}", f"dualembed.data.{new}")
    value = getattr(importlib.import_module(f"dualembed.data.{_HOMES[new]}"), new)
    globals()[name] = value  # the next look-up is an ordinary one
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
