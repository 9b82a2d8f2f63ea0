"""Solvers: from a key and a saddle to a Result."""

from dualembed.solvers.base import DivergenceWarning, EarlyStopWarning, Probe, Result, Solver, Trace, solve
from dualembed.solvers.embedding_sgd import EmbeddingSGD
from dualembed.solvers.gap import Gap, duality_gap

__all__ = [
    "DivergenceWarning",
    "EarlyStopWarning",
    "EmbeddingSGD",
    "Gap",
    "Probe",
    "Result",
    "Solver",
    "Trace",
    "duality_gap",
    "solve",
]
