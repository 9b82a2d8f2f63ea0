"""Deprecated: now `dualembed.data.trajectories`."""

from __future__ import annotations

from dualembed.deprecation import moved

__getattr__ = moved(__name__, "dualembed.data.trajectories")
