"""Data from outside: transitions collected in gymnasium environments, and the molecules of QM7 (`data.qm7.load`)."""

from dualembed.data import qm7
from dualembed.data.environments import Held, average_return, collect

__all__ = ["Held", "average_return", "collect", "qm7"]
