"""Problems: every application as an affine moment of the unknown function (docs/maths.md)."""

from dualembed.problems.base import Moment, Problem, Terms
from dualembed.problems.instrumental import InstrumentalVariables
from dualembed.problems.invariance import Invariance
from dualembed.problems.policy_evaluation import PolicyEvaluation

__all__ = ["InstrumentalVariables", "Invariance", "Moment", "PolicyEvaluation", "Problem", "Terms"]
