"""Deprecated: now `dualembed.data.propensities`."""

from __future__ import annotations

from dualembed.deprecation import moved

__getattr__ = moved(__name__, "dualembed.data.propensities")
