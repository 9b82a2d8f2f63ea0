"""Problems: every application as an affine moment of the unknown function (docs/maths.md)."""

from dualembed.problems.action_value import ActionValue, LambdaReturn
from dualembed.problems.average_reward import AverageReward
from dualembed.problems.base import Moment, Problem, Terms
from dualembed.problems.hitting_time import Committor, HittingTime, arrivals, pairs
from dualembed.problems.linear_control import AverageCost, FirstExit
from dualembed.problems.policy_evaluation import PolicyEvaluation
from dualembed.problems.regression import InstrumentalVariables, Invariance, Unconditional

__all__ = [
    "ActionValue",
    "AverageCost",
    "AverageReward",
    "Committor",
    "FirstExit",
    "HittingTime",
    "InstrumentalVariables",
    "Invariance",
    "LambdaReturn",
    "Moment",
    "PolicyEvaluation",
    "Problem",
    "Terms",
    "Unconditional",
    "arrivals",
    "pairs",
]
