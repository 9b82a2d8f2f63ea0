"""A small table to try things on; docs/examples/make_transitions.py made it.

`TRANSITIONS` has the weeks of fifty shops that all reorder by the same rule: the shop's number, the week, the stock and
the last demand on Monday, the week's profit, and the stock and the demand on the Monday after.
"""

from __future__ import annotations

from pathlib import Path

TRANSITIONS = Path(__file__).parent / "transitions.parquet"
"""The table's file."""
