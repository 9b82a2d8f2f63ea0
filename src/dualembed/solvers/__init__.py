"""Solvers: from a key and a saddle to a Result."""

from dualembed.estimates import Estimate
from dualembed.linear.moment_fit import Spread, Uncertainty
from dualembed.linear.sums import Sums as Statistics
from dualembed.solvers.base import DivergenceWarning, EarlyStopWarning, Probe, Result, Solver, Trace, solve
from dualembed.solvers.closed_form import AveragedPaths, ClosedForm, SparseForm, standard_errors
from dualembed.solvers.embedding_sgd import CentredEmbeddingSGD, EmbeddingSGD, Preconditioner
from dualembed.solvers.gap import Gap, duality_gap
from dualembed.solvers.newton import Newton
from dualembed.solvers.stochastic import StochasticSolver

__all__ = [
    "AveragedPaths",
    "CentredEmbeddingSGD",
    "ClosedForm",
    "DivergenceWarning",
    "EarlyStopWarning",
    "EmbeddingSGD",
    "Estimate",
    "Gap",
    "Newton",
    "Preconditioner",
    "Probe",
    "Result",
    "Solver",
    "SparseForm",
    "Spread",
    "Statistics",
    "StochasticSolver",
    "Trace",
    "Uncertainty",
    "duality_gap",
    "solve",
    "standard_errors",
]
