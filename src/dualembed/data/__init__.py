"""Data from outside: tables in files, logs of other libraries, and transitions collected in gymnasium environments.

What policies say about data is in `data.policies`, how likely the logged actions were in `data.propensities`, what
follows what in `data.trajectories`, and the molecules of QM7 in `data.qm7`. Names are imported when first
used, so that reading a table costs no JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualembed.data import policies, propensities, qm7, trajectories
    from dualembed.data.columns import chosen_columns, missing_rows, numbers_of
    from dualembed.data.conditions import Condition, condition
    from dualembed.data.environments import Held, average_return, collect
    from dualembed.data.io import read_table, write_table
    from dualembed.data.logs import transitions

__all__ = [
    "read_table",
    "write_table",
    "chosen_columns",
    "numbers_of",
    "missing_rows",
    "Condition",
    "condition",
    "transitions",
    "Held",
    "average_return",
    "collect",
    "policies",
    "propensities",
    "trajectories",
    "qm7",
]

_HOMES = {
    "read_table": "io",
    "write_table": "io",
    "chosen_columns": "columns",
    "numbers_of": "columns",
    "missing_rows": "columns",
    "Condition": "conditions",
    "condition": "conditions",
    "transitions": "logs",
    "Held": "environments",
    "average_return": "environments",
    "collect": "environments",
}
_MODULES = frozenset({"policies", "propensities", "trajectories", "qm7"})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"dualembed.data.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'dualembed.data' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dualembed.data.{_HOMES[name]}"), name)
    globals()[name] = value  # the next look-up is an ordinary one
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
