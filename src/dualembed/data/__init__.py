"""Data from outside: transitions collected in gymnasium environments."""

from dualembed.data.environments import Held, average_return, collect

__all__ = ["Held", "average_return", "collect"]
